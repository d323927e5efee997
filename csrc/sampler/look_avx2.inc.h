/* look_avx2.inc.h: looks up tables of 256 bytes by sixteen shuffles of 16 bytes each, in halves. As
 * in digits_avx2.c, each part of a half is stored as the difference from the part before: as long
 * as index - 16 k is not negative, a shuffle gives the entry at its low four bits. */

typedef struct {
    FDP_ALIGNED(32) uint8_t one[16][32], two[16][32];
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(differences)(const uint8_t *table, uint8_t to[16][32])
{
    for (size_t h = 0; h < 16; h++) {
        __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(table + 16 * h));
        if (h % 8 != 0) {
            part = _mm_xor_si128(part, _mm_loadu_si128((const __m128i *)(const void *)(
                                           table + 16 * (h - 1))));
        }
        _mm256_store_si256((__m256i *)(void *)to[h], _mm256_broadcastsi128_si256(part));
    }
}

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    FDP_BYTE(differences)(one, tables->one);
    FDP_BYTE(differences)(two, tables->two);
}

static inline __m256i FDP_BYTE(part)(const uint8_t table[16][32], size_t h, __m256i at)
{
    return _mm256_shuffle_epi8(_mm256_load_si256((const __m256i *)(const void *)table[h]),
                               at);
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, const uint8_t *next,
                                   uint8_t *one, uint8_t *two)
{
    (void)next;
    const __m256i step = _mm256_set1_epi8(16), low = _mm256_set1_epi8(127);
    for (size_t v = 0; v < 64; v += 32) {
        const __m256i i = _mm256_loadu_si256((const __m256i *)(const void *)(index + v));
        __m256i at = _mm256_and_si256(i, low);
        __m256i x0 = FDP_BYTE(part)(tables->one, 0, at);
        __m256i x1 = FDP_BYTE(part)(tables->one, 8, at);
        __m256i y0 = FDP_BYTE(part)(tables->two, 0, at);
        __m256i y1 = FDP_BYTE(part)(tables->two, 8, at);
        for (size_t h = 1; h < 8; h++) {
            at = _mm256_sub_epi8(at, step);
            x0 = _mm256_xor_si256(x0, FDP_BYTE(part)(tables->one, h, at));
            x1 = _mm256_xor_si256(x1, FDP_BYTE(part)(tables->one, h + 8, at));
            y0 = _mm256_xor_si256(y0, FDP_BYTE(part)(tables->two, h, at));
            y1 = _mm256_xor_si256(y1, FDP_BYTE(part)(tables->two, h + 8, at));
            FDP_IN_ORDER(x0);
            FDP_IN_ORDER(x1);
            FDP_IN_ORDER(y0);
            FDP_IN_ORDER(y1);
        }
        _mm256_storeu_si256((__m256i *)(void *)(one + v), _mm256_blendv_epi8(x0, x1, i));
        _mm256_storeu_si256((__m256i *)(void *)(two + v), _mm256_blendv_epi8(y0, y1, i));
    }
}

/* Bit i is set if byte i of 64 is 0. */
static inline uint64_t FDP_K(zeros64)(const uint8_t *byte)
{
    uint64_t mask = 0;
    for (unsigned k = 0; k < 64; k += 32) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(byte + k));
        const __m256i zero = _mm256_cmpeq_epi8(x, _mm256_setzero_si256());
        mask |= (uint64_t)(uint32_t)_mm256_movemask_epi8(zero) << k;
    }
    return mask;
}
