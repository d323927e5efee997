/* digits_avx512.c: digit kernels for AVX-512 without byte permutes (F, DQ, BW, VL). */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512)
#define FDP_INSERTS false
#define FDP_HAVE_HIGHEST
#define FDP_PRODUCT(a, b) ((a) * (b))

FDP_TARGET_AVX512
/* For each of 32 bits that is set: the number of set bits below it. */
static inline __m512i ranks32(uint32_t bits)
{
    const __m512i order =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i more = _mm512_set1_epi32((int)_mm_popcnt_u32(bits & 0xffff));
    const __m512i low = _mm512_maskz_expand_epi32((__mmask16)bits, order);
    const __m512i high =
        _mm512_maskz_expand_epi32((__mmask16)(bits >> 16), _mm512_add_epi32(order, more));
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)),
                              _mm512_cvtepi32_epi16(high), 1);
}

/* 16-bit pieces of 128 ranks. */
typedef struct {
    __m512i part[4];
} FDP_K(plane_t);

FDP_ALWAYS_INLINE FDP_K(plane_t) FDP_K(plane)(const uint16_t *by_rank)
{
    FDP_K(plane_t) p;
    for (size_t k = 0; k < 4; k++) {
        p.part[k] = _mm512_loadu_si512(by_rank + 32 * k);
    }
    return p;
}

typedef struct {
    __m512i half[2];
} FDP_K(places_t);

FDP_ALWAYS_INLINE FDP_K(places_t) FDP_K(places)(uint64_t special, size_t total)
{
    const size_t first = (size_t)_mm_popcnt_u32((uint32_t)special);
    FDP_K(places_t) p;
    p.half[0] = _mm512_add_epi16(ranks32((uint32_t)special),
                                 _mm512_set1_epi16((short)total));
    p.half[1] = _mm512_add_epi16(ranks32((uint32_t)(special >> 32)),
                                 _mm512_set1_epi16((short)(total + first)));
    return p;
}

FDP_ALWAYS_INLINE __m512i ranked32(const FDP_K(plane_t) *p, __m512i rank)
{
    const __m512i near = _mm512_permutex2var_epi16(p->part[0], rank, p->part[1]);
    const __m512i far = _mm512_permutex2var_epi16(p->part[2], rank, p->part[3]);
    return _mm512_mask_mov_epi16(
        near, _mm512_test_epi16_mask(rank, _mm512_set1_epi16(64)), far);
}

FDP_ALWAYS_INLINE void FDP_K(ranked)(const FDP_K(plane_t) *plane, const FDP_K(places_t) *at,
                                     __m512i piece[2])
{
    piece[0] = ranked32(plane, at->half[0]);
    piece[1] = ranked32(plane, at->half[1]);
}

#include "digits_rest512.inc.h"
#include "digits_body.inc.h"
#include "words_avx512.h"

static inline __m512i load64(const void *p) { return _mm512_loadu_si512(p); }

/* The values of 64 columns and bytes u. */
FDP_ALWAYS_INLINE __m512i draw(const __m512i *words, size_t columns, __m512i column,
                               __m512i own, __m512i u)
{
    __m512i cut, alias;
    fdp_words_look(words, columns, column, &cut, &alias);
    return _mm512_mask_mov_epi8(own, _mm512_cmple_epu8_mask(u, cut), alias);
}

static size_t fdp_first_avx512(const fdp_columns_t *table, const uint8_t *word,
                               size_t stride, const fdp_list_t *list, size_t rank,
                               int16_t *value, uint64_t *mask, size_t blocks)
{
    const __m512i k127 = _mm512_set1_epi8(127), k64 = _mm512_set1_epi8(64);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL);
    __m512i words[4];
    for (size_t k = 0; k < 4; k++) {
        words[k] = fdp_words_load(table->cut, table->alias, 32 * k);
    }
    (void)list, (void)rank;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i c = load64(w);
        const __m512i own = _mm512_sub_epi8(_mm512_and_si512(c, k127), k64);
        const __m512i v = draw(words, 128, c, own, load64(w + 64));
        int16_t *to = value + FDP_BLOCK_LANES * b;
        _mm512_storeu_si512(to, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(v)));
        _mm512_storeu_si512(to + 32,
                            _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(v, 1)));
        mask[b] = _mm512_cmpeq_epi8_mask(v, mark);
        total += (size_t)_mm_popcnt_u64(mask[b]);
    }
    return total;
}

static size_t fdp_second_avx512(const fdp_columns_t *table, const uint8_t *word,
                                size_t stride, const fdp_list_t *list, size_t rank,
                                uint8_t *value, void *low, uint32_t low_bytes,
                                uint64_t *mask, size_t blocks)
{
    const __m512i k31 = _mm512_set1_epi8(31);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL);
    const __m512i words = fdp_words_load(table->cut, table->alias, 0);
    (void)list, (void)rank, (void)low, (void)low_bytes;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i byte = load64(w);
        const __m512i v =
            draw(&words, 32, byte, _mm512_and_si512(byte, k31), load64(w + 64));
        /* v in the low bits, the spare bits of the byte above */
        _mm512_storeu_si512(value + FDP_BLOCK_LANES * b,
                            _mm512_ternarylogic_epi64(k31, v, byte, 0xca));
        mask[b] = _mm512_cmpeq_epi8_mask(v, mark);
        total += (size_t)_mm_popcnt_u64(mask[b]);
    }
    return total;
}

#include "digits_table.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_digits_avx512;
#endif
