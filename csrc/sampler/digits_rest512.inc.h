/* digits_rest512.inc.h: computes ranks with AVX-512, for both levels that have it: outcomes by real
 * cuts, sixteen columns a permutation, and the highest bit that a correction clears. Before
 * including it, a level defines 16-bit pieces by rank: `plane`, the pieces of all ranks; `places`,
 * the ranks of 64 lanes; `ranked`, the pieces of these ranks, 32 and 32. */

/* The entries of 32 or 128 columns in registers. If they were in memory, each permutation would
 * wait for two loads. */
typedef struct {
    __m512i part[16];
} FDP_K(entries_t);

FDP_ALWAYS_INLINE FDP_K(entries_t) FDP_K(entries)(const uint64_t *entry, size_t columns)
{
    FDP_K(entries_t) e;
    for (size_t k = 0; 8 * k < columns; k++) {
        e.part[k] = _mm512_loadu_si512(entry + 8 * k);
    }
    return e;
}

/* Looks up two times sixteen columns, from `k` on, by the index's low four bits; bit 4 chooses
 * between the two. */
FDP_ALWAYS_INLINE __m512i FDP_K(found32)(const FDP_K(entries_t) *e, size_t k, __m512i c,
                                         __mmask8 odd)
{
    return _mm512_mask_mov_epi64(
        _mm512_permutex2var_epi64(e->part[4 * k], c, e->part[4 * k + 1]), odd,
        _mm512_permutex2var_epi64(e->part[4 * k + 2], c, e->part[4 * k + 3]));
}

FDP_ALWAYS_INLINE __m512i FDP_K(found)(const FDP_K(entries_t) *e, size_t columns, __m512i c)
{
    const __mmask8 odd = _mm512_test_epi64_mask(c, _mm512_set1_epi64(16));
    if (columns == 32) {
        return FDP_K(found32)(e, 0, c, odd);
    }
    const __mmask8 second = _mm512_test_epi64_mask(c, _mm512_set1_epi64(32));
    const __mmask8 upper = _mm512_test_epi64_mask(c, _mm512_set1_epi64(64));
    const __m512i low = _mm512_mask_mov_epi64(FDP_K(found32)(e, 0, c, odd), second,
                                              FDP_K(found32)(e, 1, c, odd));
    const __m512i high = _mm512_mask_mov_epi64(FDP_K(found32)(e, 2, c, odd), second,
                                               FDP_K(found32)(e, 3, c, odd));
    return _mm512_mask_mov_epi64(low, upper, high);
}

FDP_ALWAYS_INLINE void FDP_K(rest_of)(const uint64_t *entry, size_t columns, uint64_t mask,
                                      const uint64_t *word, uint8_t *outcome, uint8_t *open,
                                      size_t ranks)
{
    const FDP_K(entries_t) entries = FDP_K(entries)(entry, columns);
    const __m512i last = _mm512_set1_epi64((long long)mask);
    for (size_t i = 0; i < ranks; i += 8) {
        const __m512i w = _mm512_loadu_si512(word + i);
        const __m512i c = _mm512_and_si512(w, last);
        const __m512i found = FDP_K(found)(&entries, columns, c);
        const __m512i u = _mm512_srli_epi64(w, 8), cut = _mm512_srli_epi64(found, 8);
        const __m512i v = _mm512_mask_mov_epi64(c, _mm512_cmplt_epu64_mask(u, cut), found);
        const __m512i tie =
            _mm512_maskz_set1_epi64(_mm512_cmpeq_epu64_mask(u, cut), 1);
        _mm_storel_epi64((void *)(outcome + i), _mm512_cvtepi64_epi8(v));
        _mm_storel_epi64((void *)(open + i), _mm512_cvtepi64_epi8(tie));
    }
}

/* For up to 32 columns, or for 128. */
static void FDP_K(rest)(const uint64_t *entry, size_t columns, const uint64_t *word,
                        uint8_t *outcome, uint8_t *open, size_t ranks)
{
    if (columns <= 32) {
        FDP_K(rest_of)(entry, 32, columns - 1, word, outcome, open, ranks);
    } else {
        FDP_K(rest_of)(entry, 128, 127, word, outcome, open, ranks);
    }
}

/* The entries of 128 columns. */
static void FDP_K(find)(const uint64_t *entry, const uint8_t *column, uint64_t *found,
                        size_t n)
{
    const FDP_K(entries_t) entries = FDP_K(entries)(entry, 128);
    for (size_t i = 0; i < n; i += 8) {
        const __m512i c = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)(column + i)));
        _mm512_storeu_si512(found + i, FDP_K(found)(&entries, 128, c));
    }
}

/* Inserts the pieces into the low words of 32 lanes, where the bits of `special` are set. */
FDP_ALWAYS_INLINE void FDP_K(put_low)(const __m512i *piece, uint32_t special, uint8_t *to,
                                      uint32_t bytes)
{
    if (bytes == 2) {
        _mm512_storeu_si512(
            to, _mm512_mask_mov_epi16(_mm512_loadu_si512(to), special, piece[0]));
        return;
    }
    /* lanes 0 ... 15 of two alternating planes, as pairs; lanes 0 ... 7 of two such results */
    const __m512i near16 = _mm512_mask_add_epi16(
        _mm512_cvtepu8_epi16(_mm256_set_epi64x(0x0f0f0e0e0d0d0c0c, 0x0b0b0a0a09090808,
                                               0x0707060605050404, 0x0303020201010000)),
        0xaaaaaaaa,
        _mm512_cvtepu8_epi16(_mm256_set_epi64x(0x0f0f0e0e0d0d0c0c, 0x0b0b0a0a09090808,
                                               0x0707060605050404, 0x0303020201010000)),
        _mm512_set1_epi16(32));
    const __m512i far16 = _mm512_add_epi16(near16, _mm512_set1_epi16(16));
    __m512i pair[2][2];
    for (uint32_t k = 0; k < bytes / 4; k++) {
        const __m512i a = piece[4 * k], b = piece[4 * k + 2];
        pair[k][0] = _mm512_permutex2var_epi16(a, near16, b);
        pair[k][1] = _mm512_permutex2var_epi16(a, far16, b);
    }
    const __m512i near32 =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i far32 = _mm512_add_epi32(near32, _mm512_set1_epi32(8));
    for (uint32_t h = 0; h < 2; h++) {
        if (bytes == 4) {
            uint8_t *const at = to + 64 * h;
            _mm512_storeu_si512(
                at, _mm512_mask_mov_epi32(_mm512_loadu_si512(at),
                                          (__mmask16)(special >> 16 * h), pair[0][h]));
            continue;
        }
        for (uint32_t q = 0; q < 2; q++) {
            uint8_t *const at = to + 128 * h + 64 * q;
            const __m512i x =
                _mm512_permutex2var_epi32(pair[0][h], q == 0 ? near32 : far32, pair[1][h]);
            _mm512_storeu_si512(
                at, _mm512_mask_mov_epi64(_mm512_loadu_si512(at),
                                          (__mmask8)(special >> (16 * h + 8 * q)), x));
        }
    }
}

/* D is reflected in the half of the block that is farther from zero, if the byte V is below t = (2
 * size + 1) |2 D + 1 - 256| slope / 2^16. D has as many bits as the law gives it. */
FDP_ALWAYS_INLINE void FDP_K(tilt_by)(const fdp_digits_t *law, const uint8_t *word,
                                      size_t stride, const fdp_whole_t *list, size_t rank,
                                      const uint64_t *mask, int16_t *value, void *low,
                                      uint32_t bytes, size_t blocks)
{
    const unsigned spare = law->shift < 8 ? 8 - law->shift : 0;
    const short step = (short)(1 << spare);
    const __m512i kept = _mm512_set1_epi16((short)(256 - step));
    const __m512i start = _mm512_set1_epi16((short)(step - 256));
    const __m512i slope = _mm512_set1_epi16((short)law->tilt.slope);
    const __m512i one = _mm512_set1_epi16(1), whole = _mm512_set1_epi16(255);
    const __m512i zero = _mm512_setzero_si512();
    FDP_ALIGNED(64) uint16_t piece[4][FDP_RANKS];
    FDP_K(plane_t) plane[4];
    const FDP_K(plane_t) high_of = FDP_K(plane)(list->high);
    for (uint32_t k = 0; k < bytes / 2; k++) {
        for (size_t r = 0; r < FDP_RANKS; r++) {
            piece[k][r] = (uint16_t)(list->low[r] >> (16 * k));
        }
        plane[k] = FDP_K(plane)(piece[k]);
    }
    size_t total = rank;
    for (size_t b = 0; b < blocks; b++) {
        const FDP_K(places_t) places = FDP_K(places)(mask[b], total);
        __m512i own[2], low_of[4][2]; /* for the first and the last 32 lanes */
        FDP_K(ranked)(&high_of, &places, own);
        for (uint32_t k = 0; k < bytes / 2; k++) {
            FDP_K(ranked)(&plane[k], &places, low_of[k]);
        }
        total += (size_t)_mm_popcnt_u64(mask[b]);
        for (size_t i = 0; i < FDP_BLOCK_LANES; i += 32) {
            const uint8_t *w = word + b * stride + i;
            int16_t *to = value + FDP_BLOCK_LANES * b + i;
            const uint32_t special = (uint32_t)(mask[b] >> i);
            const __m512i v = _mm512_loadu_si512(to);
            const __m512i d = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)w));
            const __m512i u =
                _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(w + 64)));
            const __m512i sign = _mm512_srai_epi16(v, 15);
            const __m512i size = _mm512_xor_si512(v, sign);
            const __m512i odd = _mm512_add_epi16(_mm512_add_epi16(size, size), one);
            const __m512i high = _mm512_and_si512(d, kept);
            /* 0 in the nearer half, so t is 0 there, too */
            const __m512i away = _mm512_max_epi16(
                _mm512_add_epi16(_mm512_add_epi16(high, high), start), zero);
            const __m512i t = _mm512_mulhi_epu16(_mm512_mullo_epi16(odd, away), slope);
            const __mmask32 flip = _mm512_cmpgt_epi16_mask(t, u);
            const __m512i m = _mm512_or_si512(
                _mm512_slli_epi16(size, 8),
                _mm512_mask_sub_epi16(d, flip, whole, d));
            const __m512i x =
                _mm512_sra_epi16(_mm512_xor_si512(m, sign), _mm_cvtsi32_si128((int)spare));
            _mm512_storeu_si512(to, _mm512_mask_mov_epi16(x, special, own[i / 32]));
            if (bytes != 0) {
                FDP_K(put_low)(&low_of[0][i / 32], special,
                               (uint8_t *)low + (FDP_BLOCK_LANES * b + i) * bytes, bytes);
            }
        }
    }
    if (bytes != 0) {
        fdp_wipe(piece, bytes / 2 * sizeof piece[0]);
    }
}

/* The nodes of the search tree with the given numbers, in a level with `width` nodes. */
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

/* Takes six steps down the tree. */
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
