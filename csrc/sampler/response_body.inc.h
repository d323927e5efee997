/* response_body.inc.h: k-ary response and the encodings of the frequency oracles,
 * compiled once per level. docs/proofs/local_randomizers.md
 */

/* Loads labels of any integer type, padded with label 0 to whole blocks of 64, and returns the
 * number of lanes. A label that does not fit becomes one that is in no domain; sign extension makes
 * a negative number large. */
#define FDP_FROM(from, wide, to)                                                       \
    for (size_t i = 0; i < n; i++) {                                                   \
        const wide v = (wide)((const from *)x + at)[i], most = (to)~UINT64_C(0);       \
        label[i] = (to)(v < most ? v : most);                                          \
    }                                                                                  \
    break;
#define FDP_LABELS(name, to, middle)                                                   \
    static size_t FDP_K(name)(const void *x, fdp_dtype_t type, size_t at,              \
                              to *restrict label, size_t n)                            \
    {                                                                                  \
        const size_t lanes = (n + 63) & ~(size_t)63;                                   \
        memset(label + n, 0, (lanes - n) * sizeof *label);                             \
        switch (type) {                                                                \
        case FDP_I8: FDP_FROM(int8_t, to, to)                                          \
        case FDP_I16: FDP_FROM(int16_t, middle, to)                                    \
        case FDP_I32: FDP_FROM(int32_t, uint32_t, to)                                  \
        case FDP_I64: FDP_FROM(int64_t, uint64_t, to)                                  \
        case FDP_U8: FDP_FROM(uint8_t, to, to)                                         \
        case FDP_U16: FDP_FROM(uint16_t, middle, to)                                   \
        case FDP_U32: FDP_FROM(uint32_t, uint32_t, to)                                 \
        default: memset(label, 0, n * sizeof *label); break; /* FDP_NONE */            \
        }                                                                              \
        return lanes;                                                                  \
    }

FDP_LABELS(labels8, uint8_t, uint16_t)
FDP_LABELS(labels16, uint16_t, uint16_t)
FDP_LABELS(labels32, uint32_t, uint32_t)

/* floor(a b / 2^64), from 32-bit products, which vectors have. */
static inline uint64_t FDP_K(high64)(uint64_t a, uint64_t b)
{
    const uint64_t low = UINT64_C(0xffffffff), a0 = a & low, a1 = a >> 32;
    const uint64_t b0 = b & low, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
    return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & low)) >> 32);
}

/* For values below 2^63, without a comparison that could become a branch: all ones if a < b, else
 * 0; and the lesser one. */
static inline uint64_t FDP_K(below)(uint64_t a, uint64_t b)
{
    return (uint64_t)((int64_t)(a - b) >> 63);
}

static inline uint64_t FDP_K(lesser)(uint64_t a, uint64_t b)
{
    return b + ((a - b) & FDP_K(below)(a, b));
}

static uint64_t FDP_K(settle16)(const fdp_step_t *law, const fdp_pace_t pace[2],
                                fdp_unsettled_t *lanes, size_t n)
{
    const uint64_t k = law->categories, last = k - 1;
    const uint64_t drawn = law->other < 0 ? ~UINT64_C(0) : 0;
    const uint64_t instead = law->other < 0 ? 0 : (uint64_t)law->other;
    const uint64_t rate0 = pace[0].high, rate1 = pace[1].high;
    const uint64_t shift0 = pace[0].shift - 64, shift1 = pace[1].shift - 64;
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t label = lanes->label[i], inside = FDP_K(below)(label, k);
        const uint64_t fair = drawn & ~inside;
        const uint64_t rate = (rate1 & fair) | (rate0 & ~fair);
        const uint64_t shift = (shift1 & fair) | (shift0 & ~fair);
        const uint64_t u = lanes->word[i] << 48 | lanes->more[i] >> 16;
        const uint64_t h = FDP_K(high64)(u, rate);
        const uint64_t step = FDP_K(lesser)(h >> shift, last);
        const uint64_t open = (FDP_K(lesser)((h + 2) >> shift, last) ^ step) & lanes->used[i];
        const uint64_t sum = ((label & inside) | (instead & ~inside)) + step + 1;
        const uint64_t report = sum - (k & ~FDP_K(below)(sum, k)), now = lanes->report[i];
        lanes->report[i] = now ^ ((report ^ now) & lanes->used[i]);
        lanes->open[i] = open;
        any |= open;
    }
    return any;
}

/* The step is E = min(floor(U c), k - 1), and the report is 1 + E labels after the own label. h
 * = floor(u C / 2^b) times 2^-s is E plus a fraction. A lane stays open if the fraction is so
 * close to 1 that unread bits may carry. Shifts of small words are written as products, because
 * vectors have products. */
#define FDP_SMALL(type, wide, bits)                                                    \
    const type rate = (type)((fair_rate & fair) | (own_rate & ~fair));                 \
    const type h = (type)(((wide)word[g + i] * rate) >> bits);                         \
    const type step = (type)(((wide)h * scale) >> bits), fraction = (type)(h * scale);
#define FDP_LARGE                                                                      \
    const uint64_t rate = (fair_rate & fair) | (own_rate & ~fair);                     \
    const uint64_t h = FDP_K(high64)(word[g + i], rate);                               \
    const uint64_t step = h >> scale, fraction = h << (64 - scale);

#define FDP_RESPOND(name, type, label_t, LABELS, PRODUCTS)                             \
    static void FDP_K(name)(const fdp_step_t *law, const void *from,                   \
                            fdp_dtype_t from_type, size_t at, size_t count,            \
                            label_t *restrict label, const type *restrict word,        \
                            label_t *report, uint64_t *restrict special)               \
    {                                                                                  \
        const size_t n = FDP_K(LABELS)(from, from_type, at, label, count);             \
        const label_t k = (label_t)law->categories;                                    \
        const label_t uniform = (label_t)(law->other < 0 ? ~UINT64_C(0) : 0);          \
        const label_t instead = (label_t)(law->other < 0 ? 0 : law->other);            \
        const type last = (type)(k - 1);                                               \
        const type own_rate = (type)law->own.rate, fair_rate = (type)law->fair.rate;   \
        const type own_scale = (type)law->own.scale;                                   \
        const type fair_scale = (type)law->fair.scale;                                 \
        const type own_limit = (type)law->own.limit;                                   \
        const type fair_limit = (type)law->fair.limit;                                 \
        for (size_t g = 0; g < n; g += 64) {                                           \
            FDP_ALIGNED(64) uint8_t decided[64];                                       \
            for (size_t i = 0; i < 64; i++) {                                          \
                const label_t x = label[g + i];                                        \
                const label_t apart = (label_t)(x < k ? 0 : ~UINT64_C(0));             \
                const type fair = (type)(0 - (type)(apart & uniform & 1));             \
                const label_t base = (label_t)((instead & apart) | (x & ~apart));      \
                const type scale = (type)((fair_scale & fair) | (own_scale & ~fair));  \
                const type limit = (type)((fair_limit & fair) | (own_limit & ~fair));  \
                PRODUCTS                                                               \
                const type least = (type)(step < last ? step : last);                  \
                const label_t sum = (label_t)(base + (label_t)least + 1);              \
                const label_t less = (label_t)(sum - k);                               \
                report[g + i] = less < sum ? less : sum;                               \
                const type near = (type)(fraction >= limit ? ~UINT64_C(0) : 0);        \
                const type within = (type)(least < last ? ~UINT64_C(0) : 0);           \
                decided[i] = (uint8_t)~(near & within);                                \
            }                                                                          \
            special[g / 64] = FDP_K(zeros64)(decided);                                 \
        }                                                                              \
    }

/* A level may supply its own first stages. A function here that has none may leave the first
 * elements to the level and process the rest. */
#ifdef FDP_HAVE_RESPOND
#include "response_avx512.inc.h"
#else
#ifdef FDP_HAVE_RESPOND64
#include "response_avx2.inc.h"
#else
FDP_RESPOND(respond64, uint64_t, uint32_t, labels32, FDP_LARGE)
#endif
FDP_RESPOND(respond16, uint16_t, uint8_t, labels8, FDP_SMALL(uint16_t, uint32_t, 16))
FDP_RESPOND(respond32, uint32_t, uint32_t, labels32, FDP_SMALL(uint32_t, uint64_t, 32))

/* Keeps labels inside, and replaces those outside by floor(w k / 2^b) of a word w. The word gives
 * nothing, and the lane is open, if w k mod 2^b < 2^b mod k. */
#define FDP_RELABEL(name, type, wide, bits, LABELS)                                    \
    static void FDP_K(name)(const fdp_step_t *law, const void *from,                   \
                            fdp_dtype_t from_type, size_t at, size_t count,            \
                            type *restrict label, const type *restrict word,           \
                            type *report, uint64_t *restrict special)                  \
    {                                                                                  \
        const size_t n = FDP_K(LABELS)(from, from_type, at, label, count);             \
        const type k = (type)law->categories, least = (type)law->fair.limit;           \
        const type uniform = (type)(law->other < 0 ? ~UINT64_C(0) : 0);                \
        const type instead = (type)(law->other < 0 ? 0 : law->other);                  \
        for (size_t g = 0; g < n; g += 64) {                                           \
            FDP_ALIGNED(64) uint8_t decided[64];                                       \
            for (size_t i = 0; i < 64; i++) {                                          \
                const wide product = (wide)word[g + i] * k;                            \
                const type drawn = (type)((type)(product >> bits) & uniform);          \
                const type x = label[g + i], inside = (type)(x < k ? ~UINT64_C(0) : 0); \
                report[g + i] = (type)((x & inside) | ((drawn | instead) & ~inside));  \
                decided[i] = (uint8_t)((type)product >= least ? 255 : 0);              \
            }                                                                          \
            special[g / 64] = FDP_K(zeros64)(decided);                                 \
        }                                                                              \
    }

FDP_RELABEL(relabel16, uint16_t, uint32_t, 16, labels16)
FDP_RELABEL(relabel32, uint32_t, uint64_t, 32, labels32)
#undef FDP_RELABEL

static inline size_t FDP_K(whole_hashed)(const uint64_t *seed, const uint32_t *label,
                                         const uint32_t *move, uint32_t buckets,
                                         unsigned bits, bool far, fdp_hashed_t *out,
                                         size_t n)
{
    (void)seed, (void)label, (void)move, (void)buckets, (void)bits, (void)far, (void)out;
    (void)n;
    return 0;
}
#endif
/* Converts reports to an unsigned type that holds them. */
#define FDP_TO(to)                                                                     \
    for (size_t i = 0; i < n; i++) {                                                   \
        ((to *)out + at)[i] = (to)report[i];                                           \
    }                                                                                  \
    break;
#define FDP_REPORTS(name, from)                                                        \
    static void FDP_K(name)(const from *restrict report, void *restrict out,           \
                            fdp_dtype_t type, size_t at, size_t n)                     \
    {                                                                                  \
        switch (type) {                                                                \
        case FDP_U8: FDP_TO(uint8_t)                                                   \
        case FDP_U16: FDP_TO(uint16_t)                                                 \
        default: FDP_TO(uint32_t)                                                      \
        }                                                                              \
    }

FDP_REPORTS(reports8, uint8_t)
FDP_REPORTS(reports16, uint16_t)
FDP_REPORTS(reports32, uint32_t)

/* Writes reports of hashing for users `i` to n: the seed, and h(x) moved by 0 ... buckets - 1. h(x)
 * = floor(z g / 2^l), where z is the top l bits of a x + b mod 2^32. */
static inline void FDP_K(each_hashed)(const uint64_t *restrict seed,
                                      const uint32_t *restrict label,
                                      const uint32_t *restrict move, uint32_t buckets,
                                      unsigned bits, fdp_hashed_t *restrict out, size_t i,
                                      size_t n)
{
    for (; i < n; i++) {
        const uint32_t a = (uint32_t)seed[i], b = (uint32_t)(seed[i] >> 32);
        const uint32_t z = (a * label[i] + b) >> (32 - bits);
        const uint32_t sum = (uint32_t)(((uint64_t)z * buckets) >> bits) + move[i];
        out[i].slope = a;
        out[i].offset = b;
        out[i].value = sum < sum - buckets ? sum : sum - buckets;
    }
}

/* Writes all of them. If they are `far`, the stores bypass the caches: lines that are written
 * whole, from the first one that begins with a report, need not be read. */
static void FDP_K(hashed)(const uint64_t *restrict seed, const uint32_t *restrict label,
                          const uint32_t *restrict move, uint32_t buckets, unsigned bits,
                          bool far, fdp_hashed_t *restrict out, size_t n)
{
    size_t begin = 0;
    while (far && begin < 16 && begin < n && (uintptr_t)(out + begin) % 64 != 0) {
        begin++;
    }
    const bool lines = far && (uintptr_t)(out + begin) % 64 == 0;
    const size_t whole = FDP_K(whole_hashed)(seed + begin, label + begin, move + begin,
                                             buckets, bits, lines, out + begin, n - begin);
    FDP_K(each_hashed)(seed, label, move, buckets, bits, out, 0, begin);
    FDP_K(each_hashed)(seed, label, move, buckets, bits, out, begin + whole, n);
}

/* From n random words, makes a uniform y in the half of 0 ... K - 1 for which <y, label + 1> has
 * the parity of bit i of `bits`; n is a multiple of 64. */
#define FDP_HADAMARD(name, type, FOLD)                                                 \
    static void FDP_K(name)(const type *restrict label, const uint8_t *restrict bits,  \
                            type mask, const type *restrict word,                      \
                            type *restrict code, size_t n)                             \
    {                                                                                  \
        for (size_t g = 0; g < n; g += 64) {                                           \
            uint64_t wanted[8];                                                        \
            uint8_t want[64];                                                          \
            FDP_K(expand)(bits + g / 8, wanted, 8);                                    \
            memcpy(want, wanted, sizeof want);                                         \
            for (size_t i = 0; i < 64; i++) {                                          \
                const type m = (type)(label[g + i] + 1), y = word[g + i] & mask;       \
                type p = y & m;                                                        \
                FOLD                                                                   \
                p = (type)(p ^ (p >> 8));                                              \
                p = (type)(p ^ (p >> 4));                                              \
                p = (type)(p ^ (p >> 2));                                              \
                p = (type)(p ^ (p >> 1));                                              \
                const type change = (type)(0 - ((p ^ want[i]) & 1));                   \
                code[g + i] = (type)(y ^ (m & (type)(0 - m) & change));                \
            }                                                                          \
        }                                                                              \
    }

FDP_HADAMARD(hadamard16, uint16_t, )
FDP_HADAMARD(hadamard32, uint32_t, p ^= p >> 16;)

#undef FDP_SMALL
#undef FDP_LARGE
#undef FDP_RESPOND
#undef FDP_FROM
#undef FDP_LABELS
#undef FDP_TO
#undef FDP_REPORTS
#undef FDP_HADAMARD
