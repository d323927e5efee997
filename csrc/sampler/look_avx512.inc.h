/* look_avx512.inc.h: as look_avx2.inc.h, 64 bytes at a time. */

typedef struct {
    const uint8_t *one, *two;
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    *tables = (FDP_BYTE(tables_t)){one, two};
}

static inline __m512i FDP_BYTE(sixteen)(const uint8_t *table)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)table));
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, uint8_t *one, uint8_t *two,
                                   size_t n)
{
    (void)n; /* whole blocks cost no more */
    const __m512i at = _mm512_loadu_si512(index), least = _mm512_set1_epi8(0x70);
    __m512i x = _mm512_setzero_si512(), y = x;
    for (size_t h = 0; h < 256; h += 16) {
        const __m512i part = _mm512_set1_epi8((char)h);
        const __m512i i = _mm512_adds_epu8(_mm512_xor_si512(at, part), least);
        x = _mm512_or_si512(x, _mm512_shuffle_epi8(FDP_BYTE(sixteen)(tables->one + h), i));
        y = _mm512_or_si512(y, _mm512_shuffle_epi8(FDP_BYTE(sixteen)(tables->two + h), i));
        FDP_IN_ORDER(x);
        FDP_IN_ORDER(y);
    }
    _mm512_storeu_si512(one, x);
    _mm512_storeu_si512(two, y);
}

/* Bit i: byte i of 64 is 0. */
static inline uint64_t FDP_BYTE(zeros64)(const uint8_t *byte)
{
    const __m512i x = _mm512_loadu_si512(byte);
    return _mm512_testn_epi8_mask(x, x);
}
