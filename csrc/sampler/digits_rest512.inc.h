/* digits_rest512.inc.h: ranks with AVX-512, for both rows that have it: outcomes by real
 * cuts, sixteen columns a permutation, and the highest bit that a correction clears. */

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

/* Nodes of the search tree at node numbers of one level of it, `width` of them. */
FDP_ALWAYS_INLINE __m512i FDP_K(nodes_at)(const uint64_t *tree, size_t width, __m512i node)
{
    const uint64_t *level = tree + (width < 8 ? 0 : width);
    if (width <= 8) {
        return _mm512_permutexvar_epi64(node, _mm512_loadu_si512(level));
    }
    const __m512i half = _mm512_permutex2var_epi64(_mm512_loadu_si512(level), node,
                                                   _mm512_loadu_si512(level + 8));
    if (width == 16) {
        return half;
    }
    const __m512i other = _mm512_permutex2var_epi64(_mm512_loadu_si512(level + 16), node,
                                                    _mm512_loadu_si512(level + 24));
    return _mm512_mask_mov_epi64(
        half, _mm512_test_epi64_mask(node, _mm512_set1_epi64(16)), other);
}

/* Six steps down the tree. */
static void FDP_K(highest)(const fdp_digits_t *law, int which, const uint64_t *word,
                           uint64_t *clear, uint64_t *open, size_t ranks)
{
    const uint64_t *tree = law->tree[which];
    const __m512i one = _mm512_set1_epi64(1);
    const __m512i top = _mm512_set1_epi64((long long)law->low + 63);
    for (size_t i = 0; i < ranks; i += 8) {
        const __m512i w = _mm512_loadu_si512(word + i);
        __m512i node = one, tie = _mm512_loadu_si512(open + i);
        for (size_t width = 1; width <= 32; width *= 2) {
            const __m512i edge = FDP_K(nodes_at)(tree, width, node);
            tie = _mm512_mask_mov_epi64(tie, _mm512_cmpeq_epi64_mask(w, edge), one);
            node = _mm512_add_epi64(node, node);
            node = _mm512_mask_add_epi64(node, _mm512_cmpge_epu64_mask(w, edge), node, one);
        }
        /* beyond the lowest bit: shifted out */
        _mm512_storeu_si512(clear + i,
                            _mm512_sllv_epi64(one, _mm512_sub_epi64(top, node)));
        _mm512_storeu_si512(open + i, tie);
    }
}
