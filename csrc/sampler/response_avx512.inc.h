/* response_avx512.inc.h: the first stages of k-ary response for words of 16 and 32 bits,
 * as response_body.inc.h has them, 64 lanes at a time. */

/* What both kernels take from a law, in lanes of `bits`. */
#define FDP_LAW_LANES(bits)                                                            \
    const __m512i k = _mm512_set1_epi##bits((int##bits##_t)law->categories);           \
    const __m512i last = _mm512_set1_epi##bits((int##bits##_t)(law->categories - 1));  \
    const __m512i instead =                                                            \
        _mm512_set1_epi##bits((int##bits##_t)(law->other < 0 ? 0 : law->other));       \
    const __m512i less = _mm512_set1_epi##bits(-1);                                    \
    const __m512i rate = _mm512_set1_epi##bits((int##bits##_t)law->own.rate);          \
    const __m512i shift = _mm512_set1_epi##bits(FDP_K(shift)(law->own.scale, bits));   \
    const __m512i limit = _mm512_set1_epi##bits((int##bits##_t)law->own.limit);        \
    const __m512i rate1 = _mm512_set1_epi##bits((int##bits##_t)law->fair.rate);        \
    const __m512i shift1 = _mm512_set1_epi##bits(FDP_K(shift)(law->fair.scale, bits)); \
    const __m512i limit1 = _mm512_set1_epi##bits((int##bits##_t)law->fair.limit);

/* s, for which a law has 2^(bits - s). */
static inline int16_t FDP_K(shift)(uint64_t scale, int bits)
{
    return (int16_t)(bits - __builtin_ctzll(scale));
}

/* A vector of reports and the mask of those that are open. Whole numbers below a
 * fraction, which a rotation leaves there, do not matter: its limit has none. */
#define FDP_VECTOR_LANES(bits, mask_t, HIGH, FRACTION)                                     \
    const __m512i x = _mm512_loadu_si512(label + at);                                  \
    const mask_t apart = _mm512_cmpge_epu##bits##_mask(x, k);                          \
    const mask_t fair = apart & uniform;                                               \
    const __m512i base = _mm512_mask_mov_epi##bits(x, apart, instead);                 \
    const __m512i c = _mm512_mask_mov_epi##bits(rate, fair, rate1);                    \
    const __m512i s = _mm512_mask_mov_epi##bits(shift, fair, shift1);                  \
    const __m512i bound = _mm512_mask_mov_epi##bits(limit, fair, limit1);              \
    const __m512i h = HIGH(_mm512_loadu_si512(word + at), c);                          \
    const __m512i drawn = _mm512_mask_mov_epi##bits(_mm512_srlv_epi##bits(h, s),       \
                                                    always & (mask_t)~fair, last);     \
    const __m512i step = _mm512_min_epu##bits(drawn, last);                            \
    const __m512i sum = _mm512_sub_epi##bits(_mm512_add_epi##bits(base, step), less);  \
    _mm512_storeu_si512(report + at,                                                   \
                        _mm512_min_epu##bits(sum, _mm512_sub_epi##bits(sum, k)));      \
    const mask_t open = _mm512_mask_cmpge_epu##bits##_mask(                            \
        _mm512_cmplt_epu##bits##_mask(step, last), FRACTION, bound);

static void FDP_K(respond16)(const fdp_step_t *law, const uint16_t *restrict label,
                             const uint16_t *restrict word, uint16_t *restrict report,
                             uint64_t *restrict special, size_t n)
{
    FDP_LAW_LANES(16)
    const __mmask32 uniform = law->other < 0 ? ~(__mmask32)0 : 0;
    const __m512i sixteen = _mm512_set1_epi16(16);
    const __mmask32 always = law->always ? ~(__mmask32)0 : 0;
    for (size_t g = 0; g < n; g += 64) {
        uint64_t mask = 0;
        for (size_t v = 0; v < 64; v += 32) {
            const size_t at = g + v;
            FDP_VECTOR_LANES(16, __mmask32, _mm512_mulhi_epu16,
                             _mm512_sllv_epi16(h, _mm512_sub_epi16(sixteen, s)))
            mask |= (uint64_t)_cvtmask32_u32(open) << v;
        }
        special[g / 64] = mask;
    }
}

static inline __m512i FDP_K(high32)(__m512i a, __m512i b)
{
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
    const __m512i odd =
        _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    return _mm512_mask_mov_epi32(even, 0xaaaa, odd);
}

static void FDP_K(respond32)(const fdp_step_t *law, const uint32_t *restrict label,
                             const uint32_t *restrict word, uint32_t *restrict report,
                             uint64_t *restrict special, size_t n)
{
    FDP_LAW_LANES(32)
    const __mmask16 uniform = law->other < 0 ? 0xffff : 0;
    const __mmask16 always = law->always ? 0xffff : 0;
    for (size_t g = 0; g < n; g += 64) {
        uint64_t mask = 0;
        for (size_t v = 0; v < 64; v += 16) {
            const size_t at = g + v;
            FDP_VECTOR_LANES(32, __mmask16, FDP_K(high32), _mm512_rorv_epi32(h, s))
            mask |= (uint64_t)_cvtmask16_u32(open) << v;
        }
        special[g / 64] = mask;
    }
}

#undef FDP_LAW_LANES
#undef FDP_VECTOR_LANES
