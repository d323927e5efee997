/* digits_vbmi.c: digit kernels for AVX-512 with byte permutes (VBMI, VBMI2): a table of
 * 128 bytes is one permutation of two registers, and ranks are expanded by a mask. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/cpu.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512vbmi)
#define FDP_LEVEL_MASK (FDP_CPU_AVX2 | FDP_CPU_AVX512 | FDP_CPU_VBMI)
#define FDP_INSERTS true
#define FDP_HAVE_CHOOSE

FDP_TARGET_AVX512VBMI
#include "digits_rest512.inc.h"
#include "digits_body.inc.h"

/* Clears bits of low words, whose bytes are at cut[b][lane]: 64 lanes. */
static inline void clear_low(const uint8_t cut[8][FDP_BLOCK_LANES], void *low,
                                    uint32_t low_bytes, size_t block)
{
    if (low_bytes == 2) {
        uint16_t *to = (uint16_t *)low + FDP_BLOCK_LANES * block;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i++) {
            to[i] &= (uint16_t)~(cut[0][i] | (uint32_t)cut[1][i] << 8);
        }
    } else if (low_bytes == 4) {
        uint32_t *to = (uint32_t *)low + FDP_BLOCK_LANES * block;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i++) {
            to[i] &= ~(cut[0][i] | (uint32_t)cut[1][i] << 8 | (uint32_t)cut[2][i] << 16 |
                       (uint32_t)cut[3][i] << 24);
        }
    } else {
        uint64_t *to = (uint64_t *)low + FDP_BLOCK_LANES * block;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i++) {
            uint64_t bits = 0;
            for (unsigned b = 0; b < 8; b++) {
                bits |= (uint64_t)cut[b][i] << (8 * b);
            }
            to[i] &= ~bits;
        }
    }
}

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

static inline __m512i listed(const fdp_list_t *list, int plane, __m512i rank)
{
    return _mm512_permutex2var_epi8(load64(list->plane[plane]), rank,
                                    load64(list->plane[plane] + 64));
}

static size_t fdp_first_avx512vbmi(const fdp_columns_t *table, const uint8_t *word,
                                   size_t stride, const fdp_list_t *list, int16_t *value,
                                   uint64_t *mask, size_t blocks)
{
    const __m512i cut0 = load64(table->cut), cut1 = load64(table->cut + 64);
    const __m512i alias0 = load64(table->alias), alias1 = load64(table->alias + 64);
    const __m512i k127 = _mm512_set1_epi8(127), k64 = _mm512_set1_epi8(64);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL), order = counting();
    /* bytes of two registers in turn, 32 of each */
    const __m512i pair =
        _mm512_unpacklo_epi8(_mm512_permutexvar_epi64(
                                 _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0), order),
                             _mm512_permutexvar_epi64(
                                 _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
                                 _mm512_add_epi8(order, k64)));
    const __m512i pair2 = _mm512_add_epi8(pair, _mm512_set1_epi8(32));
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i c = load64(w), u = load64(w + 64);
        const __m512i cut = _mm512_permutex2var_epi8(cut0, c, cut1);
        const __m512i alias = _mm512_permutex2var_epi8(alias0, c, alias1);
        const __m512i own = _mm512_sub_epi8(_mm512_and_si512(c, k127), k64);
        const __m512i v = _mm512_mask_mov_epi8(own, _mm512_cmple_epu8_mask(u, cut), alias);
        const __mmask64 special = _mm512_cmpeq_epi8_mask(v, mark);
        const __m512i rank = _mm512_add_epi8(_mm512_maskz_expand_epi8(special, order),
                                             _mm512_set1_epi8((char)total));
        const __m512i low = _mm512_mask_mov_epi8(v, special, listed(list, 0, rank));
        const __m512i high =
            _mm512_mask_mov_epi8(_mm512_movm_epi8(_mm512_movepi8_mask(v)), special,
                                 listed(list, 1, rank));
        int16_t *to = value + FDP_BLOCK_LANES * b;
        _mm512_storeu_si512(to, _mm512_permutex2var_epi8(low, pair, high));
        _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi8(low, pair2, high));
        mask[b] = special;
        total += (size_t)_mm_popcnt_u64(special);
    }
    return total;
}

static size_t fdp_second_avx512vbmi(const fdp_columns_t *table, const uint8_t *word,
                                    size_t stride, const fdp_list_t *list,
                                    uint8_t *value, void *low, uint32_t low_bytes,
                                    uint64_t *mask, size_t blocks)
{
    const __m512i cuts = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)table->cut));
    const __m512i aliases =
        _mm512_castsi256_si512(_mm256_loadu_si256((const void *)table->alias));
    const __m512i k31 = _mm512_set1_epi8(31), spare = _mm512_set1_epi8((char)0xe0);
    const __m512i mark = _mm512_set1_epi8((char)FDP_SPECIAL), order = counting();
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const __m512i byte = load64(w), u = load64(w + 64);
        const __m512i c = _mm512_and_si512(byte, k31);
        const __m512i cut = _mm512_permutexvar_epi8(c, cuts);
        const __m512i alias = _mm512_permutexvar_epi8(c, aliases);
        const __m512i v = _mm512_mask_mov_epi8(c, _mm512_cmple_epu8_mask(u, cut), alias);
        const __mmask64 special = _mm512_cmpeq_epi8_mask(v, mark);
        const __m512i rank = _mm512_add_epi8(_mm512_maskz_expand_epi8(special, order),
                                             _mm512_set1_epi8((char)total));
        const __m512i digit = _mm512_mask_mov_epi8(_mm512_or_si512(v, spare), special,
                                                   listed(list, 0, rank));
        _mm512_storeu_si512(value + FDP_BLOCK_LANES * b,
                            _mm512_and_si512(digit, _mm512_or_si512(byte, k31)));
        if (low_bytes != 0) {
            FDP_ALIGNED(64) uint8_t clear[8][FDP_BLOCK_LANES];
            for (uint32_t p = 0; p < low_bytes; p++) {
                _mm512_store_si512(clear[p], _mm512_maskz_mov_epi8(
                                                 special, listed(list, (int)p + 1, rank)));
            }
            clear_low(clear, low, low_bytes, b);
        }
        mask[b] = special;
        total += (size_t)_mm_popcnt_u64(special);
    }
    return total;
}

#include "digits_table.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_digits_vbmi;
#endif
