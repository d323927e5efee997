/* look_avx512.inc.h: looks up tables of 256 bytes, stored as two-byte words in eight registers. */

typedef struct {
    __m512i words[8];
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    for (size_t k = 0; k < 8; k++) {
        tables->words[k] = fdp_words_load(one, two, 32 * k);
    }
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, const uint8_t *next,
                                   uint8_t *one, uint8_t *two)
{
    (void)next;
    __m512i x, y;
    fdp_words_look(tables->words, 256, _mm512_loadu_si512(index), &x, &y);
    _mm512_storeu_si512(one, x);
    _mm512_storeu_si512(two, y);
}

/* Bit i is set if byte i of 64 is 0. */
static inline uint64_t FDP_K(zeros64)(const uint8_t *byte)
{
    const __m512i x = _mm512_loadu_si512(byte);
    return _mm512_testn_epi8_mask(x, x);
}
