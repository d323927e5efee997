/* digits_vbmi.c: digit kernels for AVX-512 with byte permutes (VBMI, VBMI2): one permutation of two
 * registers looks up a table of 128 bytes, and a mask expands the ranks. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512vbmi)
#define FDP_INSERTS true
#define FDP_HAVE_HIGHEST
#define FDP_PRODUCT(a, b) ((a) * (b))

FDP_TARGET_AVX512VBMI
static inline __m512i load64(const void *p) { return _mm512_loadu_si512(p); }

/* 0, 1, ..., 63 */
static inline __m512i counting(void)
{
    const __m512i eight = _mm512_set1_epi64(0x0706050403020100);
    const __m512i start = _mm512_set_epi64(
        0x3838383838383838, 0x3030303030303030, 0x2828282828282828, 0x2020202020202020,
        0x1818181818181818, 0x1010101010101010, 0x0808080808080808, 0);
    return _mm512_add_epi8(eight, start);
}

/* Looks up 128 bytes by rank. */
static inline __m512i listed(const uint8_t *byte, __m512i rank)
{
    return _mm512_permutex2var_epi8(load64(byte), rank, load64(byte + 64));
}

/* The ranks of 64 lanes; `total` special lanes came before. */
static inline __m512i ranks64(__mmask64 special, __m512i order, size_t total)
{
    return _mm512_add_epi8(_mm512_maskz_expand_epi8(special, order),
                           _mm512_set1_epi8((char)total));
}

/* The order that interleaves the first 32 bytes of two registers. */
static inline __m512i pairs(__m512i order)
{
    const __m512i part = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    return _mm512_unpacklo_epi8(
        _mm512_permutexvar_epi64(part, order),
        _mm512_permutexvar_epi64(part, _mm512_add_epi8(order, _mm512_set1_epi8(64))));
}

/* 16-bit pieces by rank: lower bytes, then upper bytes. */
typedef struct {
    __m512i byte[2][2], pair[2];
} FDP_K(plane_t);

static inline FDP_K(plane_t) FDP_K(plane)(const uint16_t *by_rank)
{
    const __m512i order = counting(), even = _mm512_add_epi8(order, order);
    FDP_K(plane_t) p;
    for (size_t half = 0; half < 2; half++) {
        const __m512i a = load64(by_rank + 64 * half), b = load64(by_rank + 64 * half + 32);
        p.byte[0][half] = _mm512_permutex2var_epi8(a, even, b);
        p.byte[1][half] = _mm512_permutex2var_epi8(
            a, _mm512_add_epi8(even, _mm512_set1_epi8(1)), b);
    }
    p.pair[0] = pairs(order);
    p.pair[1] = _mm512_add_epi8(p.pair[0], _mm512_set1_epi8(32));
    return p;
}

typedef struct {
    __m512i rank;
} FDP_K(places_t);

static inline FDP_K(places_t) FDP_K(places)(uint64_t special, size_t total)
{
    return (FDP_K(places_t)){ranks64(special, counting(), total)};
}

FDP_ALWAYS_INLINE void FDP_K(ranked)(const FDP_K(plane_t) *plane, const FDP_K(places_t) *at,
                                     __m512i piece[2])
{
    __m512i byte[2];
    for (size_t k = 0; k < 2; k++) {
        byte[k] = _mm512_permutex2var_epi8(plane->byte[k][0], at->rank, plane->byte[k][1]);
    }
    piece[0] = _mm512_permutex2var_epi8(byte[0], plane->pair[0], byte[1]);
    piece[1] = _mm512_permutex2var_epi8(byte[0], plane->pair[1], byte[1]);
}

#include "digits_rest512.inc.h"
#include "digits_body.inc.h"

static size_t fdp_first_avx512vbmi(const fdp_columns_t *table, const uint8_t *word,
                                   size_t stride, const fdp_list_t *list, size_t rank,
                                   int16_t *value, uint64_t *mask, size_t blocks)
{
    const __m512i cut0 = load64(table->cut), cut1 = load64(table->cut + 64);
    const __m512i alias0 = load64(table->alias), alias1 = load64(table->alias + 64);
    const __m512i k127 = _mm512_set1_epi8(127), k64 = _mm512_set1_epi8(64);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL), order = counting();
    const __m512i pair = pairs(order);
    const __m512i pair2 = _mm512_add_epi8(pair, _mm512_set1_epi8(32));
    size_t total = rank;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i c = load64(w), u = load64(w + 64);
        const __m512i cut = _mm512_permutex2var_epi8(cut0, c, cut1);
        const __m512i alias = _mm512_permutex2var_epi8(alias0, c, alias1);
        const __m512i own = _mm512_sub_epi8(_mm512_and_si512(c, k127), k64);
        const __m512i v = _mm512_mask_mov_epi8(own, _mm512_cmple_epu8_mask(u, cut), alias);
        const __mmask64 special = _mm512_cmpeq_epi8_mask(v, mark);
        const __m512i at = ranks64(special, order, total);
        const __m512i low = _mm512_mask_mov_epi8(v, special, listed(list->low, at));
        const __m512i high =
            _mm512_mask_mov_epi8(_mm512_movm_epi8(_mm512_movepi8_mask(v)), special,
                                 listed(list->high, at));
        int16_t *to = value + FDP_BLOCK_LANES * b;
        _mm512_storeu_si512(to, _mm512_permutex2var_epi8(low, pair, high));
        _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi8(low, pair2, high));
        mask[b] = special;
        total += (size_t)_mm_popcnt_u64(special);
    }
    return total - rank;
}

/* ---- low words ------------------------------------------------------------ */

/* The bits to clear in low words of 2, 4 or 8 bytes, by rank: plane b holds byte b. */
typedef struct {
    __m512i order; /* lanes in an order that unpacking restores */
    FDP_ALIGNED(64) uint8_t plane[8][FDP_RANKS];
} clear_t;

static void open_clear(clear_t *c, const fdp_list_t *list, uint32_t bytes)
{
    FDP_ALIGNED(64) uint8_t order[64];
    const uint32_t each = 16 / bytes; /* words in a quarter of a register */
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t quarter = i / 16, word = i % 16 / each;
        order[i] = (uint8_t)(4 * each * word + each * quarter + i % each);
    }
    c->order = load64(order);
    for (uint32_t b = 0; b < bytes; b++) {
        for (size_t k = 0; k < FDP_RANKS; k++) {
            c->plane[b][k] = (uint8_t)(list->clear[k] >> (8 * b));
        }
    }
}

static inline void clear_at(void *low, size_t at, __m512i bits)
{
    uint8_t *to = (uint8_t *)low + 64 * at;
    _mm512_storeu_si512(to, _mm512_andnot_si512(bits, load64(to)));
}

/* Clears bits of the low words of 64 lanes. The bytes of four (or eight) planes are joined to words
 * by unpacking: first the bytes of two planes, then the pairs, and so on. */
FDP_ALWAYS_INLINE void clear_low(const clear_t *c, __m512i rank, __mmask64 special,
                                 void *low, uint32_t bytes, size_t block)
{
    const __m512i at = _mm512_permutexvar_epi8(c->order, rank);
    const __mmask64 used =
        _mm512_movepi8_mask(_mm512_permutexvar_epi8(c->order, _mm512_movm_epi8(special)));
    __m512i x[8], y[8];
    for (uint32_t b = 0; b < bytes; b++) {
        x[b] = _mm512_maskz_mov_epi8(used, listed(c->plane[b], at));
    }
    /* plane b becomes word number w at every step: pairs are neighbors, lower halves first */
    for (uint32_t b = 0; b < bytes; b += 2) {
        y[b / 2] = _mm512_unpacklo_epi8(x[b], x[b + 1]);
        y[b / 2 + bytes / 2] = _mm512_unpackhi_epi8(x[b], x[b + 1]);
    }
    if (bytes == 2) {
        clear_at(low, 2 * block, y[0]);
        clear_at(low, 2 * block + 1, y[1]);
        return;
    }
    const uint32_t half = bytes / 2, quarter = bytes / 4;
    for (uint32_t h = 0; h < 2; h++) {
        for (uint32_t p = 0; p < quarter; p++) {
            const __m512i one = y[h * half + 2 * p], two = y[h * half + 2 * p + 1];
            x[2 * h * quarter + p] = _mm512_unpacklo_epi16(one, two);
            x[(2 * h + 1) * quarter + p] = _mm512_unpackhi_epi16(one, two);
        }
    }
    for (uint32_t w = 0; w < 4; w++) {
        if (bytes == 4) {
            clear_at(low, 4 * block + w, x[w]);
        } else {
            clear_at(low, 8 * block + 2 * w, _mm512_unpacklo_epi32(x[2 * w], x[2 * w + 1]));
            clear_at(low, 8 * block + 2 * w + 1,
                     _mm512_unpackhi_epi32(x[2 * w], x[2 * w + 1]));
        }
    }
}

/* ---- the second digit ----------------------------------------------------- */

FDP_ALWAYS_INLINE size_t second(const fdp_columns_t *table, const uint8_t *word,
                                size_t stride, const fdp_list_t *list, size_t rank,
                                uint8_t *value, void *low, uint32_t low_bytes,
                                uint64_t *mask, size_t blocks)
{
    const __m512i cuts = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)table->cut));
    const __m512i aliases =
        _mm512_castsi256_si512(_mm256_loadu_si256((const void *)table->alias));
    const __m512i k31 = _mm512_set1_epi8(31), spare = _mm512_set1_epi8((char)0xe0);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL), order = counting();
    clear_t clear;
    if (low_bytes != 0) {
        open_clear(&clear, list, low_bytes);
    }
    size_t total = rank;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i byte = load64(w), u = load64(w + 64);
        const __m512i c = _mm512_and_si512(byte, k31);
        const __m512i cut = _mm512_permutexvar_epi8(c, cuts);
        const __m512i alias = _mm512_permutexvar_epi8(c, aliases);
        const __m512i v = _mm512_mask_mov_epi8(c, _mm512_cmple_epu8_mask(u, cut), alias);
        const __mmask64 special = _mm512_cmpeq_epi8_mask(v, mark);
        const __m512i at = ranks64(special, order, total);
        const __m512i digit = _mm512_mask_mov_epi8(_mm512_or_si512(v, spare), special,
                                                   listed(list->low, at));
        _mm512_storeu_si512(value + FDP_BLOCK_LANES * b,
                            _mm512_and_si512(digit, _mm512_or_si512(byte, k31)));
        if (low_bytes != 0) {
            clear_low(&clear, at, special, low, low_bytes, b);
        }
        mask[b] = special;
        total += (size_t)_mm_popcnt_u64(special);
    }
    if (low_bytes != 0) {
        fdp_wipe(clear.plane, low_bytes * sizeof clear.plane[0]);
    }
    return total - rank;
}

static size_t fdp_second_avx512vbmi(const fdp_columns_t *table, const uint8_t *word,
                                    size_t stride, const fdp_list_t *list, size_t rank,
                                    uint8_t *value, void *low, uint32_t low_bytes,
                                    uint64_t *mask, size_t blocks)
{
    switch (low_bytes) {
    case 0: return second(table, word, stride, list, rank, value, low, 0, mask, blocks);
    case 2: return second(table, word, stride, list, rank, value, low, 2, mask, blocks);
    case 4: return second(table, word, stride, list, rank, value, low, 4, mask, blocks);
    default: return second(table, word, stride, list, rank, value, low, 8, mask, blocks);
    }
}

#include "digits_table.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_digits_vbmi;
#endif
