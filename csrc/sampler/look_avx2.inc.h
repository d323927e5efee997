/* look_avx2.inc.h: tables of 256 bytes as sixteen shuffles of 16 bytes each. An index
 * outside the sixteenth at hand is moved to where a shuffle gives 0. */

typedef struct {
    const uint8_t *one, *two;
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    *tables = (FDP_BYTE(tables_t)){one, two};
}

static inline __m256i FDP_BYTE(sixteen)(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, uint8_t *one, uint8_t *two,
                                   size_t n)
{
    (void)n; /* whole blocks cost no more */
    const __m256i least = _mm256_set1_epi8(0x70);
    __m256i at[2], x[2], y[2];
    for (size_t v = 0; v < 2; v++) {
        at[v] = _mm256_loadu_si256((const __m256i *)(const void *)(index + 32 * v));
        x[v] = y[v] = _mm256_setzero_si256();
    }
    for (size_t h = 0; h < 256; h += 16) {
        const __m256i a = FDP_BYTE(sixteen)(tables->one + h);
        const __m256i b = FDP_BYTE(sixteen)(tables->two + h);
        const __m256i part = _mm256_set1_epi8((char)h);
        for (size_t v = 0; v < 2; v++) {
            const __m256i i = _mm256_adds_epu8(_mm256_xor_si256(at[v], part), least);
            x[v] = _mm256_or_si256(x[v], _mm256_shuffle_epi8(a, i));
            y[v] = _mm256_or_si256(y[v], _mm256_shuffle_epi8(b, i));
            FDP_IN_ORDER(x[v]);
            FDP_IN_ORDER(y[v]);
        }
    }
    for (size_t v = 0; v < 2; v++) {
        _mm256_storeu_si256((__m256i *)(void *)(one + 32 * v), x[v]);
        _mm256_storeu_si256((__m256i *)(void *)(two + 32 * v), y[v]);
    }
}

/* Bit i: byte i of 64 is 0. */
static inline uint64_t FDP_BYTE(zeros64)(const uint8_t *byte)
{
    uint64_t mask = 0;
    for (unsigned k = 0; k < 64; k += 32) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(byte + k));
        const __m256i zero = _mm256_cmpeq_epi8(x, _mm256_setzero_si256());
        mask |= (uint64_t)(uint32_t)_mm256_movemask_epi8(zero) << k;
    }
    return mask;
}
