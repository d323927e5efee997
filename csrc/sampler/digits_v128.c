/* digits_v128.c: digit kernels for vectors of 16 bytes with tables of bytes. */
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

FDP_TARGET_V128

/* Bytes of `count` vectors, a power of two up to 8, by turns of the first half and the
 * second: the bits of a byte's place move up by one, the highest to the lowest. */
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

/* The entries at n columns, a multiple of 16: one table of bytes after the other. */
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

/* x in the lanes of all ones; a lane has `bytes` of them. */
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

/* Each lane finds the entry of its rank, special or not, in tables of bytes: of the first
 * two of a value, and of the low word's. */
FDP_ALWAYS_INLINE void put(const fdp_whole_t *list, size_t rank, const uint64_t *mask,
                           int16_t *value, uint8_t *low, uint32_t bytes, size_t blocks)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    FDP_ALIGNED(16) uint8_t high[2][FDP_RANKS], plane[8][FDP_RANKS];
    for (size_t k = 0; k < FDP_RANKS; k += 16) {
        for (size_t i = k; i < k + 16; i++) {
            high[0][i] = (uint8_t)list->high[i];
            high[1][i] = (uint8_t)(list->high[i] >> 8);
        }
    }
    if (bytes != 0) {
        split(list->low, FDP_RANKS, plane);
    }
    FDP_ALIGNED(16) uint8_t special[64], at[64], found[10][64];
    for (size_t b = 0; b < blocks; b++) {
        for (size_t k = 0; k < 8; k++) {
            const uint64_t bits = (mask[b] >> (8 * k) & 0xff) * ones;
            const uint64_t one = ((bits & UINT64_C(0x8040201008040201)) +
                                  UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & ones;
            const uint64_t upto = one * ones; /* special lanes up to each of the eight */
            const uint64_t all = one * 0xff;
            const uint64_t index = (upto + ((rank + 127) % 128) * ones) & (127 * ones);
            memcpy(special + 8 * k, &all, 8);
            memcpy(at + 8 * k, &index, 8);
            rank += upto >> 56;
        }
        for (size_t p = 0; p < 2 + bytes; p++) {
            fdp_look_t t;
            fdp_look_open(&t, p < 2 ? high[p] : plane[p - 2], FDP_RANKS);
            for (size_t i = 0; i < 64; i += 16) {
                fdp_b16_store(found[p] + i, fdp_look(&t, FDP_RANKS, fdp_b16_load(at + i)));
            }
        }
        for (size_t i = 0; i < 64; i += 16) {
            const size_t lane = FDP_BLOCK_LANES * b + i;
            const fdp_b16_t s = fdp_b16_load(special + i);
            fdp_b16_t x[8] = {fdp_b16_load(found[0] + i), fdp_b16_load(found[1] + i)};
            put_at((uint8_t *)(value + lane), x, s, 2);
            for (size_t p = 0; p < bytes; p++) {
                x[p] = fdp_b16_load(found[2 + p] + i);
            }
            if (bytes != 0) {
                put_at(low + lane * bytes, x, s, bytes);
            }
        }
    }
    fdp_wipe(high, sizeof high);
    fdp_wipe(plane, bytes * sizeof *plane);
    fdp_wipe(found, (2 + bytes) * sizeof *found);
}

#include "digits_tilt.inc.h"
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
