/* look_vbmi.inc.h: looks up tables of 256 bytes in four registers each. */

typedef struct {
    __m512i one[4], two[4];
} FDP_BYTE(tables_t);

static inline void FDP_BYTE(load2)(const uint8_t *one, const uint8_t *two,
                                   FDP_BYTE(tables_t) *tables)
{
    for (size_t k = 0; k < 4; k++) {
        tables->one[k] = _mm512_loadu_si512(one + 64 * k);
        tables->two[k] = _mm512_loadu_si512(two + 64 * k);
    }
}

/* The permutation itself uses only the low 7 bits of an index, in either half. */
static inline __m512i FDP_BYTE(look)(const __m512i *t, __m512i index, __mmask64 high)
{
    return _mm512_mask_mov_epi8(_mm512_permutex2var_epi8(t[0], index, t[1]), high,
                                _mm512_permutex2var_epi8(t[2], index, t[3]));
}

static inline void FDP_BYTE(look2)(const FDP_BYTE(tables_t) *tables,
                                   const uint8_t *index, const uint8_t *next,
                                   uint8_t *one, uint8_t *two)
{
    (void)next;
    const __m512i at = _mm512_loadu_si512(index);
    const __mmask64 high = _mm512_movepi8_mask(at);
    _mm512_storeu_si512(one, FDP_BYTE(look)(tables->one, at, high));
    _mm512_storeu_si512(two, FDP_BYTE(look)(tables->two, at, high));
}
