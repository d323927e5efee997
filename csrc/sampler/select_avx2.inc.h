/* select_avx2.inc.h: the alias method in byte lanes, 32 trials at a time: a
 * 32-entry table is two in-register shuffles and a blend. Included inside an
 * AVX2 (or wider) target region. */

static inline __m256i FDP_K(broadcast16)(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)table));
}

/* table[index], index < 32: bit 4 moved to bit 7 picks the half. */
static inline __m256i FDP_K(lookup32)(__m256i low, __m256i high, __m256i index)
{
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(low, index),
                              _mm256_shuffle_epi8(high, index),
                              _mm256_slli_epi16(index, 3));
}

static void FDP_K(gaussian_select)(const fdp_gaussian_t *law,
                                   const uint16_t *restrict word,
                                   uint8_t *restrict block,
                                   uint16_t *restrict height, size_t n)
{
    const __m256i cut0 = FDP_K(broadcast16)(law->cut);
    const __m256i cut1 = FDP_K(broadcast16)(law->cut + 16);
    const __m256i alias0 = FDP_K(broadcast16)(law->alias);
    const __m256i alias1 = FDP_K(broadcast16)(law->alias + 16);
    const __m256i low0 = FDP_K(broadcast16)(law->height_low);
    const __m256i low1 = FDP_K(broadcast16)(law->height_low + 16);
    const __m256i high0 = FDP_K(broadcast16)(law->height_high);
    const __m256i high1 = FDP_K(broadcast16)(law->height_high + 16);
    const __m256i byte = _mm256_set1_epi16(0xff);
    const __m256i five = _mm256_set1_epi16(31);
    for (size_t i = 0; i < n; i += 32) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(word + i));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(word + i + 16));
        const __m256i u = _mm256_permute4x64_epi64(
            _mm256_packus_epi16(_mm256_and_si256(a, byte), _mm256_and_si256(b, byte)),
            0xd8);
        const __m256i column = _mm256_permute4x64_epi64(
            _mm256_packus_epi16(_mm256_and_si256(_mm256_srli_epi16(a, 8), five),
                                _mm256_and_si256(_mm256_srli_epi16(b, 8), five)),
            0xd8);
        const __m256i cut = FDP_K(lookup32)(cut0, cut1, column);
        const __m256i alias = FDP_K(lookup32)(alias0, alias1, column);
        /* cut <= u keeps the column */
        const __m256i keep = _mm256_cmpeq_epi8(_mm256_max_epu8(cut, u), u);
        const __m256i h = _mm256_blendv_epi8(alias, column, keep);
        const __m256i low = FDP_K(lookup32)(low0, low1, h);
        const __m256i high = FDP_K(lookup32)(high0, high1, h);
        _mm256_storeu_si256((__m256i *)(void *)(block + i), h);
        /* interleave per 128-bit half, then put the halves in order */
        const __m256i even = _mm256_unpacklo_epi8(low, high);
        const __m256i odd = _mm256_unpackhi_epi8(low, high);
        _mm256_storeu_si256((__m256i *)(void *)(height + i),
                            _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(height + i + 16),
                            _mm256_permute2x128_si256(even, odd, 0x31));
    }
}
