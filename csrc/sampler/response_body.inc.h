/* response_body.inc.h: k-ary response and the encodings of the frequency oracles,
 * compiled once per level. docs/proofs/local_randomizers.md
 */

/* v - k if v >= k, for v < 2k <= 2^32: the difference wraps to a large number. */
static inline uint32_t FDP_K(reduce)(uint32_t v, uint32_t k)
{
    const uint32_t less = v - k;
    return less < v ? less : v;
}

/* Whether a report keeps its label, and from which label it goes on. A word equal to
 * the first 32 bits of a threshold is undecided. */
#define FDP_RESPONSE_BEGIN                                                       \
    const uint32_t k = law->categories, others = k - 1;                          \
    const uint32_t truth = (uint32_t)(law->truth >> 32);                         \
    const uint32_t always = law->always ? ~UINT32_C(0) : 0;                      \
    const uint32_t share = (uint32_t)(law->share[0] >> 32);                      \
    const uint32_t uniform = other < 0 ? ~UINT32_C(0) : 0;                       \
    const uint32_t instead = other < 0 ? 0 : (uint32_t)other;                    \
    for (size_t i = 0; i < n; i++) {                                             \
        const uint32_t x = label[i];                                             \
        const uint32_t apart = (x < k ? 0 : ~UINT32_C(0));                       \
        const uint32_t fair = apart & uniform;                                   \
        const uint32_t threshold = (share & fair) | (truth & ~fair);             \
        const uint32_t keep =                                                    \
            (word[i] < threshold ? ~UINT32_C(0) : 0) | (always & ~fair);         \
        const uint32_t tie = (word[i] == truth ? ~UINT32_C(0) : 0) |             \
                             (word[i] == share ? ~UINT32_C(0) : 0);              \
        const uint32_t base = (instead & apart) | (x & ~apart);

#define FDP_RESPONSE_END(high, split)                                            \
        report[i] = FDP_K(reduce)(base + (((high) + 1) & ~keep), k);             \
        undecided[i] = (int32_t)((tie | (split)) & UINT32_C(0x80000000));        \
    }

/* floor(V (k - 1)) from 32 bits of V: undecided if the unread part can carry. */
static void FDP_K(respond_narrow)(const fdp_response_t *law, int64_t other,
                                  const uint32_t *restrict label,
                                  const uint32_t *restrict word,
                                  const uint32_t *restrict v,
                                  uint32_t *restrict report,
                                  int32_t *restrict undecided, size_t n)
{
    FDP_RESPONSE_BEGIN
    const uint64_t product = (uint64_t)v[i] * others;
    const uint32_t split = (uint32_t)product > 0 - others ? ~UINT32_C(0) : 0;
    FDP_RESPONSE_END((uint32_t)(product >> 32), split)
}

/* The same from 64 bits of V. */
static void FDP_K(respond_wide)(const fdp_response_t *law, int64_t other,
                                const uint32_t *restrict label,
                                const uint32_t *restrict word,
                                const uint64_t *restrict v, uint32_t *restrict report,
                                int32_t *restrict undecided, size_t n)
{
    FDP_RESPONSE_BEGIN
    const uint64_t low = (v[i] & 0xffffffffu) * others;
    const uint64_t high = (v[i] >> 32) * others + (low >> 32);
    const uint32_t split = ((uint32_t)high == ~UINT32_C(0) ? ~UINT32_C(0) : 0) &
                           ((uint32_t)low > 0 - others ? ~UINT32_C(0) : 0);
    FDP_RESPONSE_END((uint32_t)(high >> 32), split)
}

/* Labels of 64-bit integers; those beyond 32 bits become one that no domain has. */
static void FDP_K(labels64)(const int64_t *restrict x, uint32_t *restrict label, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t high = (uint64_t)x[i] >> 32;
        const uint64_t beyond = (0 - high) >> 63; /* high < 2^32: 1 unless it is 0 */
        label[i] = (uint32_t)((uint64_t)x[i] | (0 - beyond));
    }
}

/* h(x) = floor(z g / 2^l), z the top l bits of a x + b mod 2^32. */
static void FDP_K(hash)(const uint64_t *restrict seed, const uint32_t *restrict label,
                        uint32_t buckets, unsigned bits, uint32_t *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t sum = (uint32_t)seed[i] * label[i] + (uint32_t)(seed[i] >> 32);
        out[i] = (uint32_t)(((uint64_t)(sum >> (32 - bits)) * buckets) >> bits);
    }
}

/* A uniform y in the half of 0 ... K - 1 where <y, label + 1> has the wanted parity. */
static void FDP_K(hadamard)(const uint32_t *restrict label, const uint32_t *restrict word,
                            const uint8_t *restrict wanted, uint32_t mask,
                            uint32_t *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t m = label[i] + 1, y = word[i] & mask;
        uint32_t parity = y & m;
        parity ^= parity >> 16;
        parity ^= parity >> 8;
        parity ^= parity >> 4;
        parity ^= parity >> 2;
        parity ^= parity >> 1;
        const uint32_t change = 0 - ((parity ^ wanted[i]) & 1);
        out[i] = y ^ (m & (0 - m) & change);
    }
}

#undef FDP_RESPONSE_BEGIN
#undef FDP_RESPONSE_END
