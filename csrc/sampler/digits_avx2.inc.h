/* digits_avx2.inc.h: the two digits by AVX2, for its own level and for AVX-512 without
 * byte permutes. A table of 16 m bytes is m shuffles by index, index - 16, ...: as long
 * as that is not negative a shuffle yields the entry of the index's low four bits, so
 * that parts of the table are kept as differences (exclusive or) from the part before,
 * and their sum is the entry of the last. */

#define FDP_LOAD32(p) _mm256_loadu_si256((const void *)(p))

/* Parts of a table in both halves of a register, as differences. */
static inline void FDP_K(differences)(const uint8_t *table, int parts, __m256i *to)
{
    __m256i before = _mm256_setzero_si256();
    for (int k = 0; k < parts; k++) {
        const __m256i part = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const void *)(table + 16 * k)));
        to[k] = _mm256_xor_si256(part, before);
        before = part;
    }
}

/* alias where u <= cut, else the column. */
static inline __m256i FDP_K(look_up)(const __m256i *cuts, const __m256i *aliases,
                                     int parts, __m256i column, __m256i own, __m256i u)
{
    const __m256i step = _mm256_set1_epi8(16);
    __m256i at = column;
    __m256i cut = _mm256_shuffle_epi8(cuts[0], at);
    __m256i alias = _mm256_shuffle_epi8(aliases[0], at);
    for (int k = 1; k < parts; k++) {
        at = _mm256_sub_epi8(at, step);
        cut = _mm256_xor_si256(cut, _mm256_shuffle_epi8(cuts[k], at));
        alias = _mm256_xor_si256(alias, _mm256_shuffle_epi8(aliases[k], at));
    }
    const __m256i below = _mm256_cmpeq_epi8(_mm256_min_epu8(u, cut), u);
    return _mm256_blendv_epi8(own, alias, below);
}

static inline uint32_t FDP_K(special)(__m256i v)
{
    return (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(v, _mm256_set1_epi8((char)FDP_SPECIAL)));
}

static size_t FDP_K(first)(const fdp_columns_t *table, const uint8_t *word,
                           size_t stride, const fdp_list_t *list, int16_t *value,
                           uint64_t *mask, size_t blocks)
{
    const __m256i k127 = _mm256_set1_epi8(127), k64 = _mm256_set1_epi8(64);
    __m256i cuts[8], aliases[8];
    FDP_K(differences)(table->cut, 8, cuts);
    FDP_K(differences)(table->alias, 8, aliases);
    (void)list;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        uint64_t bits = 0;
        for (size_t half = 0; half < 64; half += 32) {
            const uint8_t *w = word + b * stride + half;
            const __m256i c = _mm256_and_si256(FDP_LOAD32(w), k127);
            const __m256i v = FDP_K(look_up)(cuts, aliases, 8, c, _mm256_sub_epi8(c, k64),
                                             FDP_LOAD32(w + 64));
            int16_t *to = value + FDP_BLOCK_LANES * b + half;
            _mm256_storeu_si256((void *)to,
                                _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)));
            _mm256_storeu_si256((void *)(to + 16),
                                _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
            bits |= (uint64_t)FDP_K(special)(v) << half;
        }
        mask[b] = bits;
        total += (size_t)_mm_popcnt_u64(bits);
    }
    return total;
}

static size_t FDP_K(second)(const fdp_columns_t *table, const uint8_t *word,
                            size_t stride, const fdp_list_t *list, uint8_t *value,
                            void *low, uint32_t low_bytes, uint64_t *mask, size_t blocks)
{
    const __m256i k31 = _mm256_set1_epi8(31);
    __m256i cuts[2], aliases[2];
    FDP_K(differences)(table->cut, 2, cuts);
    FDP_K(differences)(table->alias, 2, aliases);
    (void)list, (void)low, (void)low_bytes;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        uint64_t bits = 0;
        for (size_t half = 0; half < 64; half += 32) {
            const uint8_t *w = word + b * stride + half;
            const __m256i byte = FDP_LOAD32(w), c = _mm256_and_si256(byte, k31);
            const __m256i v =
                FDP_K(look_up)(cuts, aliases, 2, c, c, FDP_LOAD32(w + 64));
            _mm256_storeu_si256(
                (void *)(value + FDP_BLOCK_LANES * b + half),
                _mm256_or_si256(_mm256_and_si256(v, k31), _mm256_andnot_si256(k31, byte)));
            bits |= (uint64_t)FDP_K(special)(v) << half;
        }
        mask[b] = bits;
        total += (size_t)_mm_popcnt_u64(bits);
    }
    return total;
}
