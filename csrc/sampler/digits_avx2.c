/* digits_avx2.c: digit kernels for AVX2. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/cpu.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx2)
#define FDP_LEVEL_MASK FDP_CPU_AVX2
#define FDP_INSERTS false
#define FDP_HAVE_HIGHEST

FDP_TARGET_AVX2
static inline __m256i load32(const void *p) { return _mm256_loadu_si256(p); }

/* Entries by halves, eight columns of 32 bits a permutation. */
static void fdp_rest_avx2(const uint64_t *entry, size_t columns, const uint64_t *word,
                          uint8_t *outcome, uint8_t *open, size_t ranks)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i last = _mm256_set1_epi32((int)columns - 1);
    FDP_ALIGNED(32) uint64_t found[8];
    for (size_t i = 0; i < ranks; i += 8) {
        const __m256i w0 = load32(word + i), w1 = load32(word + i + 4);
        const __m256i c = _mm256_and_si256(
            _mm256_permute2x128_si256(_mm256_permutevar8x32_epi32(w0, even),
                                      _mm256_permutevar8x32_epi32(w1, even), 0x20),
            last);
        const __m256i part = _mm256_srli_epi32(c, 3);
        __m256i low = _mm256_setzero_si256(), high = low;
        for (size_t k = 0; 8 * k < columns; k++) {
            /* columns 8 k ... 8 k + 7, their low and their high halves */
            const __m256i e0 = _mm256_permutevar8x32_epi32(load32(entry + 8 * k), even);
            const __m256i e1 =
                _mm256_permutevar8x32_epi32(load32(entry + 8 * k + 4), even);
            const __m256i here = _mm256_cmpeq_epi32(part, _mm256_set1_epi32((int)k));
            const __m256i l = _mm256_permute2x128_si256(e0, e1, 0x20);
            const __m256i h = _mm256_permute2x128_si256(e0, e1, 0x31);
            low = _mm256_or_si256(
                low, _mm256_and_si256(here, _mm256_permutevar8x32_epi32(l, c)));
            high = _mm256_or_si256(
                high, _mm256_and_si256(here, _mm256_permutevar8x32_epi32(h, c)));
        }
        const __m256i a = _mm256_unpacklo_epi32(low, high);
        const __m256i b = _mm256_unpackhi_epi32(low, high);
        _mm256_store_si256((void *)found, _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_store_si256((void *)(found + 4), _mm256_permute2x128_si256(a, b, 0x31));
        for (size_t k = 0; k < 8; k++) {
            const uint64_t u = word[i + k] >> 8, cut = found[k] >> 8;
            const uint64_t below = 0 - ((u - cut) >> 63);
            const uint64_t own = word[i + k] & (columns - 1);
            outcome[i + k] = (uint8_t)((found[k] & below) | (own & ~below));
            open[i + k] = (uint8_t)(((u ^ cut) - 1) >> 63);
        }
    }
}

/* One of two by the bit of the number that is bit `bit` of its double. */
static inline __m256i by_bit(__m256i zero, __m256i one, __m256i place, int bit)
{
    return _mm256_castpd_si256(_mm256_blendv_pd(
        _mm256_castsi256_pd(zero), _mm256_castsi256_pd(one),
        _mm256_castsi256_pd(_mm256_slli_epi64(place, 63 - bit))));
}

/* Of 4, 8, 16 or 32 nodes those at node numbers: both halves of `place` hold a number's
 * double, and that and one. */
static inline __m256i nodes4(const uint64_t *level, __m256i place)
{
    return _mm256_permutevar8x32_epi32(load32(level), place);
}

static inline __m256i nodes8(const uint64_t *level, __m256i place)
{
    return by_bit(nodes4(level, place), nodes4(level + 4, place), place, 3);
}

static inline __m256i nodes16(const uint64_t *level, __m256i place)
{
    return by_bit(nodes8(level, place), nodes8(level + 8, place), place, 4);
}

FDP_ALWAYS_INLINE __m256i nodes_at(const uint64_t *tree, size_t width, __m256i place)
{
    switch (width) {
    case 1:
    case 2: return nodes4(tree, place);
    case 4: return nodes4(tree + 4, place);
    case 8: return nodes8(tree + 8, place);
    case 16: return nodes16(tree + 16, place);
    default: return by_bit(nodes16(tree + 32, place), nodes16(tree + 48, place), place, 5);
    }
}

typedef struct {
    __m256i word, node, tie;
} descent_t;

/* One step down the tree, from a level of `width` nodes. */
FDP_ALWAYS_INLINE void descend(const uint64_t *tree, size_t width, descent_t *d)
{
    const __m256i flip = _mm256_set1_epi64x(INT64_MIN), one = _mm256_set1_epi64x(1);
    const __m256i twice = _mm256_add_epi64(d->node, d->node);
    const __m256i next = _mm256_add_epi64(twice, one);
    const __m256i place = _mm256_or_si256(twice, _mm256_slli_epi64(next, 32));
    const __m256i edge = nodes_at(tree, width, place);
    const __m256i above = _mm256_cmpgt_epi64(_mm256_xor_si256(edge, flip),
                                             _mm256_xor_si256(d->word, flip));
    d->tie = _mm256_or_si256(d->tie, _mm256_cmpeq_epi64(edge, d->word));
    d->node = _mm256_add_epi64(next, above);
}

static void fdp_highest_avx2(const fdp_digits_t *law, int which, const uint64_t *word,
                             uint64_t *clear, uint64_t *open, size_t ranks)
{
    const uint64_t *tree = law->tree[which];
    const __m256i one = _mm256_set1_epi64x(1);
    const __m256i top = _mm256_set1_epi64x((long long)law->low + 63);
    for (size_t i = 0; i < ranks; i += 4) {
        descent_t d = {load32(word + i), one, _mm256_setzero_si256()};
        descend(tree, 1, &d);
        descend(tree, 2, &d);
        descend(tree, 4, &d);
        descend(tree, 8, &d);
        descend(tree, 16, &d);
        descend(tree, 32, &d);
        /* beyond the lowest bit: shifted out */
        _mm256_storeu_si256((void *)(clear + i),
                            _mm256_sllv_epi64(one, _mm256_sub_epi64(top, d.node)));
        _mm256_storeu_si256(
            (void *)(open + i),
            _mm256_or_si256(load32(open + i), _mm256_and_si256(d.tie, one)));
    }
}

#include "digits_body.inc.h"

/* A table of 16 m bytes is m shuffles by index, index - 16, ...: as long as that is not
 * negative a shuffle yields the entry of the index's low four bits, so that parts of the
 * table are kept as differences (exclusive or) from the part before, and their sum is the
 * entry of the last. */

/* Parts of a table in both halves of a register, as differences. */
static inline void differences(const uint8_t *table, int parts, __m256i *to)
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
static inline __m256i look_up(const __m256i *cuts, const __m256i *aliases,
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

static inline uint32_t special(__m256i v)
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
    differences(table->cut, 8, cuts);
    differences(table->alias, 8, aliases);
    (void)list;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        uint64_t bits = 0;
        for (size_t half = 0; half < 64; half += 32) {
            const uint8_t *w = word + b * stride + half;
            const __m256i c = _mm256_and_si256(load32(w), k127);
            const __m256i v = look_up(cuts, aliases, 8, c, _mm256_sub_epi8(c, k64),
                                             load32(w + 64));
            int16_t *to = value + FDP_BLOCK_LANES * b + half;
            _mm256_storeu_si256((void *)to,
                                _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)));
            _mm256_storeu_si256((void *)(to + 16),
                                _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
            bits |= (uint64_t)special(v) << half;
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
    differences(table->cut, 2, cuts);
    differences(table->alias, 2, aliases);
    (void)list, (void)low, (void)low_bytes;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        uint64_t bits = 0;
        for (size_t half = 0; half < 64; half += 32) {
            const uint8_t *w = word + b * stride + half;
            const __m256i byte = load32(w), c = _mm256_and_si256(byte, k31);
            const __m256i v =
                look_up(cuts, aliases, 2, c, c, load32(w + 64));
            _mm256_storeu_si256(
                (void *)(value + FDP_BLOCK_LANES * b + half),
                _mm256_or_si256(_mm256_and_si256(v, k31), _mm256_andnot_si256(k31, byte)));
            bits |= (uint64_t)special(v) << half;
        }
        mask[b] = bits;
        total += (size_t)_mm_popcnt_u64(bits);
    }
    return total;
}

#include "digits_table.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_digits_avx2;
#endif
