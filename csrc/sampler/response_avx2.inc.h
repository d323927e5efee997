/* response_avx2.inc.h: k-ary response from words of 64 bits, as in response_body.inc.h, four lanes
 * at a time. (Compilers spread the comparisons of the shared body over bytes.) A fraction of s bits
 * is open if all of its upper s - 1 bits are set, or always. */

/* floor(a b / 2^64), from the four products of halves. */
static inline __m256i FDP_K(high64x4)(__m256i a, __m256i b)
{
    const __m256i low = _mm256_set1_epi64x(UINT32_MAX);
    const __m256i a1 = _mm256_srli_epi64(a, 32), b1 = _mm256_srli_epi64(b, 32);
    const __m256i middle = _mm256_add_epi64(_mm256_mul_epu32(a1, b),
                                            _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32));
    const __m256i other =
        _mm256_add_epi64(_mm256_mul_epu32(a, b1), _mm256_and_si256(middle, low));
    return _mm256_add_epi64(
        _mm256_add_epi64(_mm256_mul_epu32(a1, b1), _mm256_srli_epi64(middle, 32)),
        _mm256_srli_epi64(other, 32));
}

static inline __m256i FDP_K(all4)(uint64_t x) { return _mm256_set1_epi64x((int64_t)x); }

static void FDP_K(respond64)(const fdp_step_t *law, const void *from, fdp_dtype_t from_type,
                             size_t at, size_t count, uint32_t *restrict label,
                             const uint64_t *restrict word, uint32_t *report,
                             uint64_t *restrict special)
{
    const size_t n = FDP_K(labels32)(from, from_type, at, label, count);
    const uint64_t own_open = law->own.limit == 0 ? 0 : (UINT64_C(1) << law->own.scale) - 2;
    const __m256i uniform = FDP_K(all4)(law->other < 0 ? ~UINT64_C(0) : 0);
    const __m256i instead = FDP_K(all4)(law->other < 0 ? 0 : (uint64_t)law->other);
    const __m256i k = FDP_K(all4)(law->categories);
    const __m256i last = FDP_K(all4)(law->categories - 1);
    const __m256i rate0 = FDP_K(all4)(law->own.rate), rate1 = FDP_K(all4)(law->fair.rate);
    const __m256i shift0 = FDP_K(all4)(law->own.scale); /* s itself */
    const __m256i shift1 = FDP_K(all4)(law->fair.scale), open0 = FDP_K(all4)(own_open);
    const __m256i open1 = FDP_K(all4)((UINT64_C(1) << law->fair.scale) - 2);
    const __m256i one = FDP_K(all4)(1), zero = _mm256_setzero_si256();
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (size_t g = 0; g < n; g += 64) {
        uint64_t mask = 0;
        for (size_t v = 0; v < 64; v += 4) {
            const __m256i x = _mm256_cvtepu32_epi64(
                _mm_loadu_si128((const __m128i *)(const void *)(label + g + v)));
            const __m256i apart = _mm256_cmpgt_epi64(x, last);
            const __m256i fair = _mm256_and_si256(apart, uniform);
            const __m256i base = _mm256_blendv_epi8(x, instead, apart);
            const __m256i open = _mm256_blendv_epi8(open0, open1, fair);
            const __m256i h = FDP_K(high64x4)(
                _mm256_loadu_si256((const __m256i *)(const void *)(word + g + v)),
                _mm256_blendv_epi8(rate0, rate1, fair));
            const __m256i step =
                _mm256_srlv_epi64(h, _mm256_blendv_epi8(shift0, shift1, fair));
            const __m256i within = _mm256_cmpgt_epi64(last, step);
            const __m256i near = _mm256_cmpeq_epi64(_mm256_andnot_si256(h, open), zero);
            const __m256i both = _mm256_and_si256(near, within);
            mask |= (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(both)) << v;
            const __m256i sum = _mm256_add_epi64(
                _mm256_add_epi64(base, _mm256_blendv_epi8(last, step, within)), one);
            const __m256i moved = _mm256_blendv_epi8(_mm256_sub_epi64(sum, k), sum,
                                                     _mm256_cmpgt_epi64(k, sum));
            _mm_storeu_si128(
                (__m128i *)(void *)(report + g + v),
                _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(moved, even)));
        }
        special[g / 64] = mask;
    }
}
