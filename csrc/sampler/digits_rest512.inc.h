/* digits_rest512.inc.h: ranks with AVX-512, for both rows that have it: outcomes by real
 * cuts, sixteen columns a permutation, and what corrections clear. */

static void FDP_K(rest)(const uint64_t *entry, size_t columns, const uint64_t *word,
                        uint8_t *outcome, uint8_t *open, size_t ranks)
{
    const __m512i last = _mm512_set1_epi64((long long)columns - 1);
    for (size_t i = 0; i < ranks; i += 8) {
        const __m512i w = _mm512_loadu_si512(word + i);
        const __m512i c = _mm512_and_si512(w, last);
        const __m512i part = _mm512_srli_epi64(c, 4);
        __m512i found = _mm512_setzero_si512();
        for (size_t k = 0; 16 * k < columns; k++) {
            const __m512i e =
                _mm512_permutex2var_epi64(_mm512_loadu_si512(entry + 16 * k), c,
                                          _mm512_loadu_si512(entry + 16 * k + 8));
            found = _mm512_mask_mov_epi64(
                found, _mm512_cmpeq_epi64_mask(part, _mm512_set1_epi64((long long)k)), e);
        }
        const __m512i u = _mm512_srli_epi64(w, 8), cut = _mm512_srli_epi64(found, 8);
        const __m512i v = _mm512_mask_mov_epi64(c, _mm512_cmplt_epu64_mask(u, cut), found);
        const __m512i tie =
            _mm512_maskz_set1_epi64(_mm512_cmpeq_epu64_mask(u, cut), 1);
        _mm_storel_epi64((void *)(outcome + i), _mm512_cvtepi64_epi8(v));
        _mm_storel_epi64((void *)(open + i), _mm512_cvtepi64_epi8(tie));
    }
}

static void FDP_K(choose)(const uint64_t *edge, const uint64_t *mask, size_t count,
                          const uint64_t *word, uint64_t *clear, uint64_t *open,
                          size_t ranks)
{
    const __m512i one = _mm512_set1_epi64(1);
    for (size_t i = 0; i < ranks; i += 16) {
        __m512i w[2], found[2], tie[2];
        for (size_t h = 0; h < 2; h++) {
            w[h] = _mm512_loadu_si512(word + i + 8 * h);
            tie[h] = _mm512_loadu_si512(open + i + 8 * h);
            found[h] = _mm512_setzero_si512();
        }
        for (size_t k = count; k-- > 0;) {
            const __m512i at = _mm512_set1_epi64((long long)edge[k]);
            const __m512i bits = _mm512_set1_epi64((long long)mask[k]);
            for (size_t h = 0; h < 2; h++) {
                const __mmask8 below = _mm512_cmplt_epu64_mask(w[h], at);
                const __mmask8 same = _mm512_cmpeq_epu64_mask(w[h], at);
                found[h] = _mm512_mask_mov_epi64(found[h], below, bits);
                tie[h] = _mm512_mask_mov_epi64(tie[h], same, one);
            }
        }
        for (size_t h = 0; h < 2; h++) {
            _mm512_storeu_si512(clear + i + 8 * h, found[h]);
            _mm512_storeu_si512(open + i + 8 * h, tie[h]);
        }
    }
}
