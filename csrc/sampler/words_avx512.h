/* words_avx512.h: stores two byte tables as one table of 16-bit words, for AVX-512 without byte
 * permutes. One permutation of two registers looks up 64 words; it uses only the low six bits of an
 * index. Include it inside an AVX-512 target region. */

/* The words one[c] | two[c] << 8 of 32 columns from c on. */
static inline __m512i fdp_words_load(const uint8_t *one, const uint8_t *two, size_t c)
{
    const __m512i low =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(one + c)));
    const __m512i high =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)(two + c)));
    return _mm512_or_si512(low, _mm512_slli_epi16(high, 8));
}

/* Looks up 32 indices in a table of `entries` words, stored in registers of 32 each. */
FDP_ALWAYS_INLINE __m512i fdp_words_at(const __m512i *words, size_t entries, __m512i index)
{
    if (entries == 32) {
        return _mm512_permutexvar_epi16(index, words[0]);
    }
    const __mmask32 second = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
    const __m512i half = _mm512_mask_mov_epi16(
        _mm512_permutex2var_epi16(words[0], index, words[1]), second,
        _mm512_permutex2var_epi16(words[2], index, words[3]));
    if (entries == 128) {
        return half;
    }
    const __m512i other = _mm512_mask_mov_epi16(
        _mm512_permutex2var_epi16(words[4], index, words[5]), second,
        _mm512_permutex2var_epi16(words[6], index, words[7]));
    return _mm512_mask_mov_epi16(
        half, _mm512_test_epi16_mask(index, _mm512_set1_epi16(128)), other);
}

/* Looks up 64 indices in both tables. */
FDP_ALWAYS_INLINE void fdp_words_look(const __m512i *words, size_t entries, __m512i index,
                                      __m512i *one, __m512i *two)
{
    const __mmask64 odd = UINT64_C(0xaaaaaaaaaaaaaaaa);
    const __m512i even = fdp_words_at(words, entries, index);
    const __m512i next = fdp_words_at(words, entries, _mm512_srli_epi16(index, 8));
    *one = _mm512_mask_mov_epi8(even, odd, _mm512_slli_epi16(next, 8));
    *two = _mm512_mask_mov_epi8(_mm512_srli_epi16(even, 8), odd, next);
}
