/* digits_portable.c: digit kernels for any machine. Without byte shuffles, tables are looked up by
 * planes of bits, two blocks at a time. */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"
#include "planes.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, portable)
#define FDP_INSERTS false

typedef uint8_t fdp_bytes_t __attribute__((vector_size(16)));
typedef uint32_t fdp_halves_t __attribute__((vector_size(16)));

/* Reads every entry for every rank, two columns at a time: baseline x86-64 has no 64-bit
 * comparison. */
static void fdp_rest_portable(const uint64_t *entry, size_t columns, const uint64_t *word,
                              uint8_t *outcome, uint8_t *open, size_t ranks)
{
    for (size_t i = 0; i < ranks; i++) {
        const uint64_t column = word[i] & (columns - 1);
        const fdp_halves_t here = (fdp_halves_t){0} + (uint32_t)column;
        fdp_halves_t number = {0, 0, 1, 1}, sum = {0};
        for (size_t c = 0; c < columns; c += 2) {
            fdp_halves_t two;
            memcpy(&two, entry + c, sizeof two);
            sum |= two & (fdp_halves_t)(number == here);
            number += 2;
        }
        uint64_t both[2];
        memcpy(both, &sum, sizeof both);
        const uint64_t found = both[0] | both[1];
        const uint64_t u = word[i] >> 8, cut = found >> 8;
        const uint64_t below = 0 - ((u - cut) >> 63);
        outcome[i] = (uint8_t)((found & below) | (column & ~below));
        open[i] = (uint8_t)(((u ^ cut) - 1) >> 63);
    }
}

static void fdp_find_portable(const uint64_t *entry, const uint8_t *column, uint64_t *found,
                              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const fdp_halves_t here = (fdp_halves_t){0} + (uint32_t)column[i];
        fdp_halves_t number = {0, 0, 1, 1}, sum = {0};
        for (size_t c = 0; c < 128; c += 2) {
            fdp_halves_t two;
            memcpy(&two, entry + c, sizeof two);
            sum |= two & (fdp_halves_t)(number == here);
            number += 2;
        }
        uint64_t both[2];
        memcpy(both, &sum, sizeof both);
        found[i] = both[0] | both[1];
    }
}

/* Goes lane by lane. For each lane it reads the entry of the next rank, whether it is used or
 * not. */
FDP_ALWAYS_INLINE void put(const fdp_whole_t *list, size_t rank, const uint64_t *mask,
                           int16_t *value, uint8_t *low, uint32_t bytes, size_t blocks)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < FDP_BLOCK_LANES; i++) {
            const size_t lane = FDP_BLOCK_LANES * b + i, k = rank % FDP_RANKS;
            const uint64_t used = mask[b] >> i & 1;
            uint64_t all = 0 - used;
            __asm__("" : "+r"(all)); /* a mask, never a branch */
            value[lane] = (int16_t)((list->high[k] & all) | ((uint16_t)value[lane] & ~all));
            if (bytes != 0) {
                uint64_t word = 0;
                memcpy(&word, low + lane * bytes, bytes);
                word = (list->low[k] & all) | (word & ~all);
                memcpy(low + lane * bytes, &word, bytes);
            }
            rank += used;
        }
    }
}

#include "digits_tilt.inc.h"
#include "digits_body.inc.h"

static inline fdp_bytes_t load(const uint8_t *p)
{
    fdp_bytes_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline fdp_bytes_t pick(fdp_bytes_t mask, fdp_bytes_t a, fdp_bytes_t b)
{
    return (a & mask) | (b & ~mask);
}

/* Takes one bit of each of 16 lanes, which are all ones or zero. */
static inline uint64_t bits_of(fdp_bytes_t lanes)
{
    uint64_t half[2];
    memcpy(half, &lanes, sizeof half);
    const uint64_t pick = UINT64_C(0x8040201008040201), add = UINT64_C(0x0101010101010101);
    return ((half[0] & pick) * add) >> 56 | (((half[1] & pick) * add) >> 56) << 8;
}

/* The entries of two tables at the columns of block b, and of the next block if there is one. */
FDP_ALWAYS_INLINE void look_up(const fdp_forms_t *forms, size_t columns,
                               const uint8_t *word, size_t stride, size_t b,
                               size_t blocks, uint8_t *cut, uint8_t *alias)
{
    const uint8_t *here = word + b * stride;
    fdp_planes_look(forms, columns, here, b + 1 < blocks ? here + stride : here, cut,
                    alias);
}

static size_t fdp_first_portable(const fdp_columns_t *table, const uint8_t *word,
                                 size_t stride, const fdp_list_t *list, size_t rank,
                                 int16_t *value, uint64_t *mask, size_t blocks)
{
    uint8_t cut[FDP_PLANE_LANES], alias[FDP_PLANE_LANES];
    fdp_forms_t forms;
    fdp_forms_load(table->cut, table->alias, 128, &forms);
    (void)list, (void)rank;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const size_t half = b % 2 * FDP_BLOCK_LANES;
        if (half == 0) {
            look_up(&forms, 128, word, stride, b, blocks, cut, alias);
        }
        mask[b] = 0;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i += 16) {
            const fdp_bytes_t c = load(w + i), u = load(w + 64 + i);
            const fdp_bytes_t v = pick((fdp_bytes_t)(u <= load(cut + half + i)),
                                       load(alias + half + i), (c & 127) - 64);
            mask[b] |= bits_of((fdp_bytes_t)(v == FDP_SPECIAL)) << i;
            int8_t bytes[16];
            memcpy(bytes, &v, sizeof bytes);
            for (size_t k = 0; k < 16; k++) {
                value[FDP_BLOCK_LANES * b + i + k] = bytes[k];
            }
        }
        total += fdp_ones(mask[b]);
    }
    fdp_wipe(cut, sizeof cut);
    fdp_wipe(alias, sizeof alias);
    return total;
}

static size_t fdp_second_portable(const fdp_columns_t *table, const uint8_t *word,
                                  size_t stride, const fdp_list_t *list, size_t rank,
                                  uint8_t *value, void *low, uint32_t low_bytes,
                                  uint64_t *mask, size_t blocks)
{
    uint8_t cut[FDP_PLANE_LANES], alias[FDP_PLANE_LANES];
    fdp_forms_t forms;
    fdp_forms_load(table->cut, table->alias, 32, &forms);
    (void)list, (void)rank, (void)low, (void)low_bytes;
    size_t total = 0;
    for (size_t b = 0; b < blocks; b++) {
        const uint8_t *w = word + b * stride;
        const size_t half = b % 2 * FDP_BLOCK_LANES;
        if (half == 0) {
            look_up(&forms, 32, word, stride, b, blocks, cut, alias);
        }
        mask[b] = 0;
        for (size_t i = 0; i < FDP_BLOCK_LANES; i += 16) {
            const fdp_bytes_t c = load(w + i), u = load(w + 64 + i);
            const fdp_bytes_t v = pick((fdp_bytes_t)(u <= load(cut + half + i)),
                                       load(alias + half + i), c & 31);
            mask[b] |= bits_of((fdp_bytes_t)(v == FDP_SPECIAL)) << i;
            const fdp_bytes_t out = (v & 31) | (c & 0xe0);
            memcpy(value + FDP_BLOCK_LANES * b + i, &out, sizeof out);
        }
        total += fdp_ones(mask[b]);
    }
    fdp_wipe(cut, sizeof cut);
    fdp_wipe(alias, sizeof alias);
    return total;
}

#include "digits_table.inc.h"
