/* digits_v128.c: digit kernels for vectors of 16 bytes with byte tables. */
#include "../base/config.h"

#include <string.h>

#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"
#include "v128.h"

#if FDP_V128

#define FDP_K(name) FDP_JOIN(fdp_##name, v128)
#define FDP_INSERTS false

typedef uint64_t fdp_words_t __attribute__((vector_size(16)));

FDP_TARGET_V128

/* Interleaves the bytes of `count` vectors (a power of two up to 8): those of the first half with
 * those of the second. This rotates the bits of a byte's place by one: each moves up, and the
 * highest becomes the lowest. */
FDP_ALWAYS_INLINE void turn(fdp_b16_t *v, size_t count, size_t times)
{
    while (times-- > 0) {
        fdp_b16_t out[8];
        for (size_t i = 0; i < count / 2; i++) {
            out[2 * i] = fdp_zip_low(v[i], v[i + count / 2]);
            out[2 * i + 1] = fdp_zip_high(v[i], v[i + count / 2]);
        }
        memcpy(v, out, count * sizeof *v);
    }
}

/* Byte p of each of 32 or 128 words, as a table. */
FDP_ALWAYS_INLINE void split(const uint64_t *word, size_t words, uint8_t plane[8][128])
{
    for (size_t k = 0; k < words; k += 16) {
        fdp_b16_t v[8];
        memcpy(v, word + k, sizeof v);
        turn(v, 8, 4);
        for (size_t p = 0; p < 8; p++) {
            fdp_b16_store(plane[p] + k, v[p]);
        }
    }
}

/* The entries at n columns, a multiple of 16, by one byte table after another. */
FDP_ALWAYS_INLINE void entries_at(const uint64_t *entry, size_t entries,
                                  const uint8_t *column, uint64_t *found, size_t n)
{
    FDP_ALIGNED(16) uint8_t plane[8][128], byte[8][FDP_TRIES];
    split(entry, entries, plane);
    for (size_t p = 0; p < 8; p++) {
        fdp_look_t t;
        fdp_look_open(&t, plane[p], entries);
        for (size_t i = 0; i < n; i += 16) {
            fdp_b16_store(byte[p] + i, fdp_look(&t, entries, fdp_b16_load(column + i)));
        }
    }
    for (size_t i = 0; i < n; i += 16) {
        fdp_b16_t v[8];
        for (size_t p = 0; p < 8; p++) {
            v[p] = fdp_b16_load(byte[p] + i);
        }
        turn(v, 8, 3);
        memcpy(found + i, v, sizeof v);
    }
    for (size_t p = 0; p < 8; p++) {
        fdp_wipe(byte[p], n);
    }
}

static void FDP_K(rest)(const uint64_t *entry, size_t columns, const uint64_t *word,
                        uint8_t *outcome, uint8_t *open, size_t ranks)
{
    FDP_ALIGNED(16) uint8_t column[FDP_TRIES];
    FDP_ALIGNED(16) uint64_t found[FDP_TRIES];
    const size_t whole = (ranks + 15) / 16 * 16;
    for (size_t i = 0; i < whole; i++) {
        column[i] = i < ranks ? (uint8_t)(word[i] & (columns - 1)) : 0;
    }
    if (columns <= 32) {
        entries_at(entry, 32, column, found, whole);
    } else {
        entries_at(entry, 128, column, found, whole);
    }
    for (size_t i = 0; i < ranks; i++) {
        const uint64_t u = word[i] >> 8, cut = found[i] >> 8;
        const uint64_t below = 0 - ((u - cut) >> 63);
        outcome[i] = (uint8_t)((found[i] & below) | (column[i] & ~below));
        open[i] = (uint8_t)(((u ^ cut) - 1) >> 63);
    }
    fdp_wipe(column, ranks);
    fdp_wipe(found, whole * sizeof *found);
}

static void FDP_K(find)(const uint64_t *entry, const uint8_t *column, uint64_t *found,
                        size_t n)
{
    entries_at(entry, 128, column, found, n);
}

/* Stores x in the lanes that are all ones; a lane has `bytes` bytes. */
FDP_ALWAYS_INLINE void put_at(uint8_t *to, fdp_b16_t *x, fdp_b16_t special, uint32_t bytes)
{
    const size_t stages = bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    fdp_b16_t where[8];
    for (size_t p = 0; p < bytes; p++) {
        where[p] = special;
    }
    turn(where, bytes, stages);
    turn(x, bytes, stages);
    for (size_t p = 0; p < bytes; p++) {
        const fdp_b16_t own = fdp_b16_load(to + 16 * p);
        fdp_b16_store(to + 16 * p, (x[p] & where[p]) | (own & ~where[p]));
    }
}

/* `spread` converts 16 bits to lanes that are all ones or zero. `counted` gives, for each lane, the
 * number of special lanes up to it, modulo 256; it continues from the last lane of `before`. */
FDP_ALWAYS_INLINE fdp_b16_t spread(uint64_t bits)
{
    const fdp_b16_t byte = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const fdp_b16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const fdp_words_t low = {bits, 0}; /* avoids loading what was just stored */
    return (fdp_b16_t)((fdp_swizzle((fdp_b16_t)low, byte) & bit) == bit);
}

FDP_ALWAYS_INLINE fdp_b16_t counted(fdp_b16_t special, fdp_b16_t before)
{
    const fdp_b16_t lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    fdp_b16_t sum = special;
    for (uint8_t k = 1; k < 16; k *= 2) {
        sum += fdp_swizzle(sum, lane - k);
    }
    return fdp_swizzle(before, (lane & 0) + 15) - sum;
}

/* Tilted digits (explained in digits_tilt.inc.h), 16 lanes at a time. Each lane, special or not,
 * looks up the entry of its rank in byte tables: the two bytes of a value, and those of the low
 * word. */
FDP_ALWAYS_INLINE void FDP_K(tilt_by)(const fdp_digits_t *law, const uint8_t *word,
                                      size_t stride, const fdp_whole_t *list, size_t rank,
                                      const uint64_t *mask, int16_t *value, void *low,
                                      uint32_t bytes, size_t blocks)
{
    const int spare = law->shift < 8 ? 8 - (int)law->shift : 0;
    const uint16_t step = (uint16_t)(1u << spare), kept = (uint16_t)(256u - step);
    const fdp_h8_t slope = (fdp_h8_t){0} + (uint16_t)law->tilt.slope;
    FDP_ALIGNED(16) uint8_t plane[10][FDP_RANKS];
    fdp_look_t table[10];
    for (size_t k = 0; k < FDP_RANKS; k++) {
        plane[0][k] = (uint8_t)list->high[k];
        plane[1][k] = (uint8_t)(list->high[k] >> 8);
    }
    if (bytes != 0) {
        split(list->low, FDP_RANKS, plane + 2);
    }
    for (size_t p = 0; p < 2 + bytes; p++) {
        fdp_look_open(&table[p], plane[p], FDP_RANKS);
    }
    fdp_b16_t at = (fdp_b16_t){0} + (uint8_t)(rank - 1);
    for (size_t i = 0; i < FDP_BLOCK_LANES * blocks; i += 16) {
        const uint8_t *w = word + i / FDP_BLOCK_LANES * stride + i % FDP_BLOCK_LANES;
        const fdp_b16_t d16 = fdp_b16_load(w), u16 = fdp_b16_load(w + 64), zero = {0};
        const fdp_b16_t s = spread(mask[i / FDP_BLOCK_LANES] >> (i % FDP_BLOCK_LANES));
        at = counted(s, at);
        fdp_b16_t found[10];
        for (size_t p = 0; p < 2 + bytes; p++) {
            found[p] = fdp_look(&table[p], FDP_RANKS, at & 127);
        }
        for (size_t half = 0; half < 2; half++) {
            int16_t *to = value + i + 8 * half;
            fdp_s8_t v;
            memcpy(&v, to, sizeof v);
#define HALF(a, b) (half == 0 ? fdp_zip_low(a, b) : fdp_zip_high(a, b))
            const fdp_h8_t d = (fdp_h8_t)HALF(d16, zero), u = (fdp_h8_t)HALF(u16, zero);
            const fdp_h8_t own = (fdp_h8_t)HALF(found[0], found[1]);
            const fdp_h8_t special = (fdp_h8_t)HALF(s, s);
#undef HALF
            const fdp_h8_t sign = (fdp_h8_t)(v >> 15), size = (fdp_h8_t)v ^ sign;
            const fdp_s8_t away = (fdp_s8_t)(2 * (d & kept) + (uint16_t)(step - 256));
            /* 0 in the nearer half, so t is 0 there, too */
            const fdp_h8_t far = (fdp_h8_t)(away & (fdp_s8_t)(away > 0));
            const fdp_h8_t t = fdp_high_product((2 * size + 1) * far, slope);
            const fdp_h8_t flip = (fdp_h8_t)((fdp_s8_t)u < (fdp_s8_t)t) & 0xff;
            const fdp_h8_t m = size << 8 | (d ^ flip);
            const fdp_h8_t x = (fdp_h8_t)((fdp_s8_t)(m ^ sign) >> spare);
            const fdp_h8_t out = (own & special) | (x & ~special);
            memcpy(to, &out, sizeof out);
        }
        if (bytes != 0) {
            put_at((uint8_t *)low + i * bytes, found + 2, s, bytes);
        }
    }
    fdp_wipe(plane, (2 + bytes) * sizeof *plane);
    fdp_wipe(table, (2 + bytes) * sizeof *table);
}

#include "digits_body.inc.h"

static size_t FDP_K(first)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                           const fdp_list_t *list, size_t rank, int16_t *value,
                           uint64_t *mask, size_t blocks)
{
    fdp_look_t cuts, aliases;
    fdp_look_open(&cuts, table->cut, 128);
    fdp_look_open(&aliases, table->alias, 128);
    (void)list, (void)rank;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        fdp_b16_t special[4];
        for (size_t k = 0; k < 4; k++) {
            const fdp_b16_t c = fdp_b16_load(w + 16 * k) & 127;
            const fdp_b16_t u = fdp_b16_load(w + 64 + 16 * k);
            const fdp_b16_t below = (fdp_b16_t)(u <= fdp_look(&cuts, 128, c));
            const fdp_b16_t v = (fdp_look(&aliases, 128, c) & below) | ((c - 64) & ~below);
            special[k] = (fdp_b16_t)(v == FDP_SPECIAL);
            fdp_widen(v, value + FDP_BLOCK_LANES * b + 16 * k);
        }
        mask[b] = fdp_mask64(special);
        total += fdp_ones(mask[b]);
    }
    return total;
}

static size_t FDP_K(second)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                            const fdp_list_t *list, size_t rank, uint8_t *value, void *low,
                            uint32_t low_bytes, uint64_t *mask, size_t blocks)
{
    fdp_look_t cuts, aliases;
    fdp_look_open(&cuts, table->cut, 32);
    fdp_look_open(&aliases, table->alias, 32);
    (void)list, (void)rank, (void)low, (void)low_bytes;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        fdp_b16_t special[4];
        for (size_t k = 0; k < 4; k++) {
            const fdp_b16_t byte = fdp_b16_load(w + 16 * k), c = byte & 31;
            const fdp_b16_t u = fdp_b16_load(w + 64 + 16 * k);
            const fdp_b16_t below = (fdp_b16_t)(u <= fdp_look(&cuts, 32, c));
            const fdp_b16_t v = (fdp_look(&aliases, 32, c) & below) | (c & ~below);
            special[k] = (fdp_b16_t)(v == FDP_SPECIAL);
            fdp_b16_store(value + FDP_BLOCK_LANES * b + 16 * k, (v & 31) | (byte & 0xe0));
        }
        mask[b] = fdp_mask64(special);
        total += fdp_ones(mask[b]);
    }
    return total;
}

#include "digits_table.inc.h"
FDP_TARGET_END

#endif
