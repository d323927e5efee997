/* number_avx512.inc.h: codes of numbers for AVX-512, equal to those of number_body.inc.h. The
 * quotient of a word by its part's size is computed in doubles, in units of 2^-32, with an error
 * below one unit: docs/proofs/local_randomizers.md, section 8. If it is a whole number, which
 * happens for one word in 2^32, the integers of the shared body decide. This reveals nothing about
 * the code or the number, because the same share of every code's words is concerned. */

typedef struct {
    __m512i begin;        /* first word of each part, twice */
    __m512d rate, offset; /* 2^32 / size; first * 2^32 + 2^52 */
    __m512i before[4], number[4], places[2]; /* twice the places */
    __m512d low, steps;
} FDP_K(parts_t);

static FDP_K(parts_t) FDP_K(parts_of)(const fdp_number_t *law)
{
    FDP_ALIGNED(64) double rate[8], offset[8];
    FDP_K(parts_t) parts;
    for (size_t i = 0; i < 8; i++) {
        rate[i] = 0x1p32 / (double)law->size[i % 4];
        offset[i] = (double)law->first[i % 4] * 0x1p32 + 0x1p52;
    }
    for (size_t i = 0; i < 4; i++) {
        parts.before[i] = _mm512_set1_epi64((int64_t)law->before[i]);
        parts.number[i] = _mm512_set1_epi64((int64_t)i);
    }
    for (size_t i = 0; i < 2; i++) {
        parts.places[i] = _mm512_set1_epi64((int64_t)(2 * law->places[i]));
    }
    parts.low = _mm512_set1_pd(law->low);
    parts.steps = _mm512_set1_pd(law->steps);
    parts.begin = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)law->begin));
    parts.rate = _mm512_load_pd(rate);
    parts.offset = _mm512_load_pd(offset);
    return parts;
}

/* For 8 words: the first codes in the upper halves, the fractions in the lower ones; and which
 * words belong to the second member. */
FDP_ALWAYS_INLINE __m512i FDP_K(drawn8)(const FDP_K(parts_t) *p, __m512i u, bool two,
                                        __mmask8 *second)
{
    const __mmask8 rest = _mm512_cmpgt_epu64_mask(u, p->before[1]);
    __m512i part = _mm512_maskz_mov_epi64(rest, p->number[1]);
    *second = 0;
    if (two) {
        *second = _mm512_cmpgt_epu64_mask(u, p->before[2]);
        part = _mm512_mask_mov_epi64(part, *second, p->number[2]);
        part = _mm512_mask_mov_epi64(part, _mm512_cmpgt_epu64_mask(u, p->before[3]),
                                     p->number[3]);
    }
    const __m512i since = _mm512_sub_epi64(u, _mm512_permutexvar_epi64(part, p->begin));
    return _mm512_castpd_si512(_mm512_fmadd_pd(_mm512_cvtepu64_pd(since),
                                               _mm512_permutexvar_pd(part, p->rate),
                                               _mm512_permutexvar_pd(part, p->offset)));
}

/* The places at which the windows of 8 numbers begin, in the upper halves. */
FDP_ALWAYS_INLINE __m512i FDP_K(places8)(const FDP_K(parts_t) *p, const double *x,
                                         const uint32_t *r, bool two, __mmask8 second)
{
    const __m512d above = _mm512_mul_pd(_mm512_sub_pd(_mm512_loadu_pd(x), p->low), p->steps);
    /* NaN gives the second operand, which is the lower bound. */
    const __m512d held = _mm512_min_pd(_mm512_max_pd(above, _mm512_setzero_pd()),
                                       _mm512_set1_pd(0x1p31));
    const __m512i t = _mm512_castpd_si512(_mm512_add_pd(held, _mm512_set1_pd(0x1p52)));
    const __m512i places =
        two ? _mm512_mask_mov_epi64(p->places[0], second, p->places[1]) : p->places[0];
    return _mm512_add_epi64(_mm512_mul_epu32(t, places),
                            _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)r)));
}

FDP_ALWAYS_INLINE uint64_t FDP_K(numbers_mode)(const fdp_number_t *law, const double *x,
                                               const uint64_t *u, const uint32_t *r,
                                               uint8_t *code, size_t n, bool two)
{
    const FDP_K(parts_t) parts = FDP_K(parts_of)(law);
    const __m512i upper = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7,
                                           5, 3, 1);
    const __m512i lower = _mm512_sub_epi32(upper, _mm512_set1_epi32(1));
    const __m512i first = _mm512_set1_epi8((int8_t)law->outputs[0]);
    const __m512i other = _mm512_set1_epi8((int8_t)law->outputs[1]);
    uint64_t last = 0;
    for (size_t g = 0; g < n; g += 64) {
        uint64_t second = 0;
        unsigned open = 0;
        for (size_t i = 0; i < 64; i += 16) {
            const double *at = x + g + i;
            __mmask8 high[2];
            const __m512i a = FDP_K(drawn8)(&parts, _mm512_loadu_si512(u + g + i), two,
                                            &high[0]);
            const __m512i b = FDP_K(drawn8)(&parts, _mm512_loadu_si512(u + g + i + 8), two,
                                            &high[1]);
            const __m512i c = FDP_K(places8)(&parts, at, r + g + i, two, high[0]);
            const __m512i d = FDP_K(places8)(&parts, at + 8, r + g + i + 8, two, high[1]);
            const __m512i fraction = _mm512_permutex2var_epi32(a, lower, b);
            open |= _mm512_testn_epi32_mask(fraction, fraction);
            const __m512i j = _mm512_add_epi32(_mm512_permutex2var_epi32(a, upper, b),
                                               _mm512_permutex2var_epi32(c, upper, d));
            _mm_storeu_si128((void *)(code + g + i), _mm512_cvtepi32_epi8(j));
            second |= (uint64_t)(high[0] | (unsigned)high[1] << 8) << i;
        }
        const __m512i j = _mm512_loadu_si512(code + g);
        const __m512i outputs = two ? _mm512_mask_mov_epi8(first, second, other) : first;
        __m512i put = _mm512_min_epu8(j, _mm512_sub_epi8(j, outputs));
        if (two) {
            put = _mm512_mask_add_epi8(put, second, put, first);
        }
        _mm512_storeu_si512(code + g, put);
        if (FDP_UNLIKELY(open)) {
            last |= FDP_K(number_codes)(law, x + g, u + g, r + g, code + g, 64);
        }
    }
    return last;
}

static uint64_t FDP_K(numbers)(const fdp_number_t *law, const double *x, const uint64_t *u,
                               const uint32_t *r, uint8_t *code, size_t n)
{
    for (size_t i = 0; i < 4; i++) {
        if (law->size[i] < UINT64_C(1) << 42) { /* the last words could be mistaken for a code's
                                                 * words */
            return FDP_K(number_codes)(law, x, u, r, code, n);
        }
    }
    return law->before[2] == UINT64_MAX
               ? FDP_K(numbers_mode)(law, x, u, r, code, n, false)
               : FDP_K(numbers_mode)(law, x, u, r, code, n, true);
}
