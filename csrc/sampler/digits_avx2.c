/* digits_avx2.c: digit kernels for AVX2. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx2)
#define FDP_INSERTS false
#define FDP_HAVE_HIGHEST

FDP_TARGET_AVX2
static inline __m256i load32(const void *p) { return _mm256_loadu_si256(p); }

/* Looks up eight columns' entries, in halves of 32 bits: one permutation looks up eight columns. In
 * the registers of halves, columns 4 and 5 come before 2 and 3, so bits 1 and 2 of the index are
 * exchanged, too. */
FDP_ALWAYS_INLINE void found8(const uint64_t *entry, size_t columns, __m256i c,
                              __m256i *found)
{
    const __m256i two = _mm256_set1_epi32(2), four = _mm256_set1_epi32(4);
    const __m256i part = _mm256_srli_epi32(c, 3);
    const __m256i at = _mm256_or_si256(
        _mm256_or_si256(_mm256_and_si256(c, _mm256_set1_epi32(1)),
                        _mm256_and_si256(_mm256_slli_epi32(c, 1), four)),
        _mm256_and_si256(_mm256_srli_epi32(c, 1), two));
    __m256i low = _mm256_setzero_si256(), high = low;
    for (size_t k = 0; 8 * k < columns; k++) {
        /* columns 8 k ... 8 k + 7: their low halves and their high halves */
        const __m256 e0 = _mm256_castsi256_ps(load32(entry + 8 * k));
        const __m256 e1 = _mm256_castsi256_ps(load32(entry + 8 * k + 4));
        const __m256i l = _mm256_castps_si256(_mm256_shuffle_ps(e0, e1, 0x88));
        const __m256i h = _mm256_castps_si256(_mm256_shuffle_ps(e0, e1, 0xdd));
        const __m256i here = _mm256_cmpeq_epi32(part, _mm256_set1_epi32((int)k));
        low = _mm256_or_si256(low,
                              _mm256_and_si256(here, _mm256_permutevar8x32_epi32(l, at)));
        high = _mm256_or_si256(
            high, _mm256_and_si256(here, _mm256_permutevar8x32_epi32(h, at)));
    }
    const __m256i a = _mm256_unpacklo_epi32(low, high);
    const __m256i b = _mm256_unpackhi_epi32(low, high);
    found[0] = _mm256_permute2x128_si256(a, b, 0x20);
    found[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

/* The lowest bytes of eight words. */
FDP_ALWAYS_INLINE void put8(uint8_t *to, __m256i w0, __m256i w1)
{
    const __m256i bytes = _mm256_shuffle_epi8(
        _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(w0),
                                              _mm256_castsi256_ps(w1), 0x88)),
        _mm256_set1_epi32(0x0c080400));
    /* bytes of words 0, 1, 4, 5 and of words 2, 3, 6, 7 */
    const __m128i pairs = _mm_unpacklo_epi16(_mm256_castsi256_si128(bytes),
                                             _mm256_extracti128_si256(bytes, 1));
    _mm_storel_epi64((void *)to, pairs);
}

static void fdp_rest_avx2(const uint64_t *entry, size_t columns, const uint64_t *word,
                          uint8_t *outcome, uint8_t *open, size_t ranks)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    const __m256i last = _mm256_set1_epi32((int)columns - 1);
    const __m256i one = _mm256_set1_epi64x(1);
    for (size_t i = 0; i < ranks; i += 8) {
        const __m256i w[2] = {load32(word + i), load32(word + i + 4)};
        const __m256i c = _mm256_and_si256(
            _mm256_permute2x128_si256(_mm256_permutevar8x32_epi32(w[0], even),
                                      _mm256_permutevar8x32_epi32(w[1], even), 0x20),
            last);
        __m256i found[2], chosen[2], tie[2];
        found8(entry, columns, c, found);
        for (size_t k = 0; k < 2; k++) {
            const __m256i u = _mm256_srli_epi64(w[k], 8), cut = _mm256_srli_epi64(found[k], 8);
            const __m256i own = _mm256_and_si256(w[k], last);
            const __m256i below = _mm256_cmpgt_epi64(cut, u);
            chosen[k] = _mm256_blendv_epi8(own, found[k], below);
            tie[k] = _mm256_and_si256(_mm256_cmpeq_epi64(u, cut), one);
        }
        put8(outcome + i, chosen[0], chosen[1]);
        put8(open + i, tie[0], tie[1]);
    }
}

static void fdp_find_avx2(const uint64_t *entry, const uint8_t *column, uint64_t *found,
                          size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256i c = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(column + i)));
        __m256i two[2];
        found8(entry, 128, c, two);
        _mm256_storeu_si256((void *)(found + i), two[0]);
        _mm256_storeu_si256((void *)(found + i + 4), two[1]);
    }
}

/* A table of 16 m bytes takes m shuffles, by index, index - 16, and so on. As long as this number
 * is not negative, a shuffle gives the entry at its low four bits. So each part of the table is
 * stored as the difference (exclusive or) from the part before, and the sum of the shuffles is the
 * entry of the last part reached. */

/* Loads the parts of a table, as differences, into both halves of a register. */
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

/* 16-bit pieces by rank: lower bytes, then upper bytes. */
typedef struct {
    __m256i part[2][8];
} plane_t;

static void open_plane(const uint16_t *by_rank, plane_t *plane)
{
    uint8_t byte[2][FDP_RANKS];
    for (size_t k = 0; k < FDP_RANKS; k++) {
        byte[0][k] = (uint8_t)by_rank[k];
        byte[1][k] = (uint8_t)(by_rank[k] >> 8);
    }
    differences(byte[0], 8, plane->part[0]);
    differences(byte[1], 8, plane->part[1]);
    fdp_wipe(byte, sizeof byte);
}

/* For 32 lanes: their ranks minus 0, 16, ..., 112; and which of the first and of the last 16 lanes
 * are special. */
typedef struct {
    __m256i index[8], special[2];
} ranks_t;

FDP_ALWAYS_INLINE ranks_t ranks_of(uint32_t bits, size_t rank)
{
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                            0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i all = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);
    const __m256i s = _mm256_cmpeq_epi8(_mm256_and_si256(all, bit), bit);
    /* minus the number of special lanes so far, in each half */
    __m256i sum = _mm256_add_epi8(s, _mm256_slli_si256(s, 1));
    sum = _mm256_add_epi8(sum, _mm256_slli_si256(sum, 2));
    sum = _mm256_add_epi8(sum, _mm256_slli_si256(sum, 4));
    sum = _mm256_add_epi8(sum, _mm256_slli_si256(sum, 8));
    const int low = (int)rank - 1, high = low + _mm_popcnt_u32(bits & 0xffff);
    const __m256i start = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_set1_epi8((char)low)), _mm_set1_epi8((char)high), 1);
    ranks_t r;
    r.index[0] = _mm256_and_si256(_mm256_sub_epi8(start, sum), _mm256_set1_epi8(127));
    for (int k = 1; k < 8; k++) {
        r.index[k] = _mm256_sub_epi8(r.index[0], _mm256_set1_epi8((char)(16 * k)));
    }
    r.special[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(s));
    r.special[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(s, 1));
    return r;
}

/* The pieces of the first and of the last 16 lanes. */
FDP_ALWAYS_INLINE void ranked(const plane_t *plane, const ranks_t *r, __m256i piece[2])
{
    __m256i byte[2];
    for (size_t h = 0; h < 2; h++) {
        byte[h] = _mm256_shuffle_epi8(plane->part[h][0], r->index[0]);
        for (size_t k = 1; k < 8; k++) {
            byte[h] = _mm256_xor_si256(
                byte[h], _mm256_shuffle_epi8(plane->part[h][k], r->index[k]));
        }
    }
    const __m256i a = _mm256_unpacklo_epi8(byte[0], byte[1]);
    const __m256i b = _mm256_unpackhi_epi8(byte[0], byte[1]);
    piece[0] = _mm256_permute2x128_si256(a, b, 0x20);
    piece[1] = _mm256_permute2x128_si256(a, b, 0x31);
}

static inline void put_at(uint8_t *to, __m256i x, __m256i where)
{
    _mm256_storeu_si256((void *)to, _mm256_blendv_epi8(load32(to), x, where));
}

/* Stores the lower halves of two registers, then the upper ones. */
FDP_ALWAYS_INLINE void put_two(uint8_t *to, size_t apart, __m256i x0, __m256i x1,
                               __m256i where0, __m256i where1)
{
    put_at(to, _mm256_permute2x128_si256(x0, x1, 0x20),
           _mm256_permute2x128_si256(where0, where1, 0x20));
    put_at(to + apart, _mm256_permute2x128_si256(x0, x1, 0x31),
           _mm256_permute2x128_si256(where0, where1, 0x31));
}

/* Inserts the low words of 16 lanes. Unpacking joins pieces to words, and does the same to the mask
 * of special lanes. */
FDP_ALWAYS_INLINE void put_low(const __m256i *piece, __m256i s, uint8_t *to, uint32_t bytes)
{
    if (bytes == 2) {
        put_at(to, piece[0], s);
        return;
    }
    const __m256i s0 = _mm256_unpacklo_epi16(s, s), s1 = _mm256_unpackhi_epi16(s, s);
    const __m256i low0 = _mm256_unpacklo_epi16(piece[0], piece[2]);
    const __m256i low1 = _mm256_unpackhi_epi16(piece[0], piece[2]);
    if (bytes == 4) {
        put_two(to, 32, low0, low1, s0, s1);
        return;
    }
    const __m256i high0 = _mm256_unpacklo_epi16(piece[4], piece[6]);
    const __m256i high1 = _mm256_unpackhi_epi16(piece[4], piece[6]);
    put_two(to, 64, _mm256_unpacklo_epi32(low0, high0), _mm256_unpackhi_epi32(low0, high0),
            _mm256_unpacklo_epi32(s0, s0), _mm256_unpackhi_epi32(s0, s0));
    put_two(to + 32, 64, _mm256_unpacklo_epi32(low1, high1),
            _mm256_unpackhi_epi32(low1, high1), _mm256_unpacklo_epi32(s1, s1),
            _mm256_unpackhi_epi32(s1, s1));
}

/* D is reflected in the half of the block that is farther from zero, if the byte V is below t = (2
 * size + 1) |2 D + 1 - 256| slope / 2^16. D has as many bits as the law gives it. */
FDP_ALWAYS_INLINE void FDP_K(tilt_by)(const fdp_digits_t *law, const uint8_t *word,
                                      size_t stride, const fdp_whole_t *list, size_t rank,
                                      const uint64_t *mask, int16_t *value, void *low,
                                      uint32_t bytes, size_t blocks)
{
    const int spare = law->shift < 8 ? 8 - (int)law->shift : 0;
    const short step = (short)(1 << spare);
    const __m256i kept = _mm256_set1_epi16((short)(256 - step));
    const __m256i start = _mm256_set1_epi16((short)(step - 256));
    const __m256i slope = _mm256_set1_epi16((short)law->tilt.slope);
    const __m256i one = _mm256_set1_epi16(1), whole = _mm256_set1_epi16(255);
    const __m256i zero = _mm256_setzero_si256();
    plane_t high_of, plane[4];
    open_plane(list->high, &high_of);
    for (uint32_t k = 0; k < bytes / 2; k++) {
        uint16_t piece[FDP_RANKS];
        for (size_t r = 0; r < FDP_RANKS; r++) {
            piece[r] = (uint16_t)(list->low[r] >> (16 * k));
        }
        open_plane(piece, &plane[k]);
        fdp_wipe(piece, sizeof piece);
    }
    for (size_t b = 0; b < 2 * blocks; b++) {
        const uint32_t bits = (uint32_t)(mask[b / 2] >> (b % 2 * 32));
        const ranks_t ranks = ranks_of(bits, rank);
        rank += (size_t)_mm_popcnt_u32(bits);
        __m256i own[2], low_of[4][2];
        ranked(&high_of, &ranks, own);
        for (uint32_t k = 0; k < bytes / 2; k++) {
            ranked(&plane[k], &ranks, low_of[k]);
        }
        for (size_t h = 0; h < 2; h++) {
            const size_t lane = 32 * b + 16 * h;
            const uint8_t *w = word + b / 2 * stride + lane % FDP_BLOCK_LANES;
            int16_t *to = value + lane;
            const __m256i v = load32(to);
            const __m256i d = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)w));
            const __m256i u = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(w + 64)));
            const __m256i sign = _mm256_srai_epi16(v, 15);
            const __m256i size = _mm256_xor_si256(v, sign);
            const __m256i odd = _mm256_add_epi16(_mm256_add_epi16(size, size), one);
            const __m256i high = _mm256_and_si256(d, kept);
            /* 0 in the nearer half, so t is 0 there, too */
            const __m256i away = _mm256_max_epi16(
                _mm256_add_epi16(_mm256_add_epi16(high, high), start), zero);
            const __m256i t = _mm256_mulhi_epu16(_mm256_mullo_epi16(odd, away), slope);
            const __m256i flip = _mm256_cmpgt_epi16(t, u);
            const __m256i m =
                _mm256_or_si256(_mm256_slli_epi16(size, 8),
                                _mm256_xor_si256(d, _mm256_and_si256(flip, whole)));
            const __m256i x =
                _mm256_sra_epi16(_mm256_xor_si256(m, sign), _mm_cvtsi32_si128(spare));
            _mm256_storeu_si256((void *)to,
                                _mm256_blendv_epi8(x, own[h], ranks.special[h]));
            if (bytes != 0) {
                put_low(&low_of[0][h], ranks.special[h], (uint8_t *)low + lane * bytes, bytes);
            }
        }
    }
    fdp_wipe(&high_of, sizeof high_of);
    if (bytes != 0) {
        fdp_wipe(plane, bytes / 2 * sizeof plane[0]);
    }
}

/* One of two, by bit `bit` of a number; this bit is taken from the number's double. */
static inline __m256i by_bit(__m256i zero, __m256i one, __m256i place, int bit)
{
    return _mm256_castpd_si256(_mm256_blendv_pd(
        _mm256_castsi256_pd(zero), _mm256_castsi256_pd(one),
        _mm256_castsi256_pd(_mm256_slli_epi64(place, 63 - bit))));
}

/* Looks up nodes by number among 4, 8, 16 or 32. `place` has twice a node's number in its lower
 * half, and twice the number plus 1 in its upper half. */
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

/* One step down the tree, from a level with `width` nodes. */
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

/* The alias if u <= cut, else the column. */
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
                           size_t stride, const fdp_list_t *list, size_t rank,
                           int16_t *value, uint64_t *mask, size_t blocks)
{
    const __m256i k127 = _mm256_set1_epi8(127), k64 = _mm256_set1_epi8(64);
    __m256i cuts[8], aliases[8];
    differences(table->cut, 8, cuts);
    differences(table->alias, 8, aliases);
    (void)list, (void)rank;
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
                            size_t stride, const fdp_list_t *list, size_t rank,
                            uint8_t *value, void *low, uint32_t low_bytes, uint64_t *mask,
                            size_t blocks)
{
    const __m256i k31 = _mm256_set1_epi8(31);
    __m256i cuts[2], aliases[2];
    differences(table->cut, 2, cuts);
    differences(table->alias, 2, aliases);
    (void)list, (void)rank, (void)low, (void)low_bytes;
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
