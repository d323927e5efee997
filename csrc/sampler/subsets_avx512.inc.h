/* subsets_avx512.inc.h: the sets of eight users of subset selection, as in uniform.c. A set of at
 * most 128 categories is two words in registers. Category v is bit v ^ 7, so that the words' bytes
 * have the order of packed bits. A shift by 64 or more places, or by a negative number of places,
 * gives 0. Timing class T0: addresses depend on draws. */

/* One bit of two words: bit v ^ 7 of each lane. */
typedef struct {
    __m512i low, high;
} FDP_K(pair_t);

FDP_ALWAYS_INLINE FDP_K(pair_t) FDP_K(bit_at)(__m512i value, __m512i v)
{
    const __m512i place = _mm512_xor_si512(v, _mm512_set1_epi64(7));
    return (FDP_K(pair_t)){
        _mm512_sllv_epi64(value, place),
        _mm512_sllv_epi64(value, _mm512_sub_epi64(place, _mm512_set1_epi64(64)))};
}

/* Bit v ^ 7 of the sets: 0 or 1. */
FDP_ALWAYS_INLINE __m512i FDP_K(bit_of)(FDP_K(pair_t) set, __m512i v)
{
    const __m512i place = _mm512_xor_si512(v, _mm512_set1_epi64(7));
    const __m512i high = _mm512_sub_epi64(place, _mm512_set1_epi64(64));
    return _mm512_and_si512(_mm512_or_si512(_mm512_srlv_epi64(set.low, place),
                                            _mm512_srlv_epi64(set.high, high)),
                            _mm512_set1_epi64(1));
}

/* Words p ... p + 7 of eight users, by word. */
FDP_ALWAYS_INLINE void FDP_K(columns8)(const uint32_t *const from[8], size_t p, __m256i word[8])
{
    __m256i row[8], two[8], four[8];
    for (size_t r = 0; r < 8; r++) {
        row[r] = _mm256_loadu_si256((const void *)(from[r] + p));
    }
    for (size_t r = 0; r < 8; r += 2) {
        two[r] = _mm256_unpacklo_epi32(row[r], row[r + 1]);
        two[r + 1] = _mm256_unpackhi_epi32(row[r], row[r + 1]);
    }
    for (size_t r = 0; r < 8; r += 4) {
        four[r] = _mm256_unpacklo_epi64(two[r], two[r + 2]);
        four[r + 1] = _mm256_unpackhi_epi64(two[r], two[r + 2]);
        four[r + 2] = _mm256_unpacklo_epi64(two[r + 1], two[r + 3]);
        four[r + 3] = _mm256_unpackhi_epi64(two[r + 1], two[r + 3]);
    }
    for (size_t r = 0; r < 4; r++) {
        word[r] = _mm256_permute2x128_si256(four[r], four[r + 4], 0x20);
        word[r + 4] = _mm256_permute2x128_si256(four[r], four[r + 4], 0x31);
    }
}

/* Writes the sets of eight users, two words each; returns the number of words of 32 bits that they
 * take, or 0 if a word may be surplus. Reads up to 7 words beyond the last. */
static size_t FDP_K(subsets8)(const fdp_subsets_t *law, const uint32_t *word,
                              const uint32_t *label, uint64_t *set)
{
    const uint32_t d = law->categories;
    const uint32_t *from[8];
    FDP_ALIGNED(64) uint64_t in[8], begin[8];
    size_t taken = 0;
    for (size_t r = 0; r < 8; r++) {
        const uint64_t first = (uint64_t)word[taken + 1] << 32 | word[taken];
        in[r] = first < law->truth;
        begin[r] = d - 1 - law->size + in[r];
        from[r] = word + taken + 2;
        taken += 2 + law->size - in[r];
    }
    const __m512i one = _mm512_set1_epi64(1), own = _mm512_load_si512(in);
    const __mmask8 short_rows = _mm512_test_epi64_mask(own, own);
    __m512i last = _mm512_load_si512(begin);
    FDP_K(pair_t) chosen = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    unsigned surplus = 0;
    for (size_t p = 0; p < law->size; p += 8) {
        __m256i column[8];
        FDP_K(columns8)(from, p, column);
        for (size_t k = 0; k < 8 && p + k < law->size; k++) {
            /* a row with the own category has one word less */
            const __mmask8 live = p + k + 1 < law->size ? 0xff : (__mmask8)~short_rows;
            const __m512i range = _mm512_add_epi64(last, one);
            const __m512i product = _mm512_mul_epu32(_mm512_cvtepu32_epi64(column[k]), range);
            surplus |= _mm512_mask_cmplt_epu64_mask(
                live, _mm512_and_si512(product, _mm512_set1_epi64(UINT32_MAX)), range);
            const __m512i t = _mm512_srli_epi64(product, 32);
            const FDP_K(pair_t) plain = FDP_K(bit_at)(one, t), end = FDP_K(bit_at)(one, last);
            const __m512i again =
                _mm512_sub_epi64(_mm512_setzero_si512(), FDP_K(bit_of)(chosen, t));
            /* 0xca: the second operand where the first one is set, else the third */
            chosen.low = _mm512_mask_or_epi64(
                chosen.low, live, chosen.low,
                _mm512_ternarylogic_epi64(again, end.low, plain.low, 0xca));
            chosen.high = _mm512_mask_or_epi64(
                chosen.high, live, chosen.high,
                _mm512_ternarylogic_epi64(again, end.high, plain.high, 0xca));
            last = range;
        }
    }
    /* The number of the own category stands for the last category. */
    const __m512i x =
        _mm512_cvtepu32_epi64(_mm256_loadu_si256((const void *)label));
    const __m512i stands = FDP_K(bit_of)(chosen, x);
    const FDP_K(pair_t) other = FDP_K(bit_at)(stands, _mm512_set1_epi64((int64_t)d - 1));
    const FDP_K(pair_t) mine = FDP_K(bit_at)(one, x), held = FDP_K(bit_at)(own, x);
    const __m512i low = _mm512_or_si512(
        _mm512_or_si512(_mm512_andnot_si512(mine.low, chosen.low), other.low), held.low);
    const __m512i high = _mm512_or_si512(
        _mm512_or_si512(_mm512_andnot_si512(mine.high, chosen.high), other.high), held.high);
    const __m512i front = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i back = _mm512_add_epi64(front, _mm512_set1_epi64(4));
    _mm512_storeu_si512(set, _mm512_permutex2var_epi64(low, front, high));
    _mm512_storeu_si512(set + 8, _mm512_permutex2var_epi64(low, back, high));
    fdp_wipe(in, sizeof in); /* they tell whose own category is in the set */
    fdp_wipe(begin, sizeof begin);
    return surplus ? 0 : taken;
}
