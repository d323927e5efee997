/* digit_kernels.h: the vector kernels of alias digits, one row per instruction-set level.
 *
 * A digit takes a column and a byte u to a value by a table of integers, or says that
 * the lane is special. What the k-th special lane yields instead is computed before
 * the trials are looked at, for a fixed number of ranks k: a list. Kernels have fixed
 * cost and no branch that depends on a word; `masks` says where they differ:
 * docs/proofs/timing.md.
 */
#ifndef FDP_SAMPLER_DIGIT_KERNELS_H
#define FDP_SAMPLER_DIGIT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/cpu.h"

#define FDP_BLOCK_LANES 64
#define FDP_RANKS 128     /* special lanes of a pass that have words of their own */
#define FDP_COPIES 4      /* words of a lane for its further corrections          */
#define FDP_RANK_GROUP 16 /* ranks whose words lie together                      */
#define FDP_SPECIAL 0x80
#define FDP_TRIES 384     /* of a pass of tilted digits                          */

/* What special lanes yield, by rank. */
typedef struct {
    FDP_ALIGNED(64) uint8_t low[FDP_RANKS]; /* of a first digit's value; or a second digit
                                  with the complement of the spare bits that are cleared */
    FDP_ALIGNED(64) uint8_t high[FDP_RANKS];   /* of a first digit's value   */
    FDP_ALIGNED(64) uint64_t clear[FDP_RANKS]; /* bits cleared of a low word */
} fdp_list_t;

/* What the special lanes of tilted digits yield: both digits, and the low word. */
typedef struct {
    FDP_ALIGNED(64) uint16_t high[FDP_RANKS];
    FDP_ALIGNED(64) uint64_t low[FDP_RANKS];
} fdp_whole_t;

/* Low bits from four on have words of their own, and further corrections. */
static inline bool fdp_has_copies(const fdp_digits_t *law) { return law->low > 3; }

static inline uint32_t fdp_low_bytes(const fdp_digits_t *law)
{
    const bool none = law->tilt.slope != 0 ? law->low == 0 : !fdp_has_copies(law);
    return none ? 0 : law->low <= 16 ? 2 : law->low <= 32 ? 4 : 8;
}

/* Words of a rank: of the first digit and its tail; of the second digit and its
 * correction; the copies. */
static inline size_t fdp_rank_words(const fdp_digits_t *law)
{
    return law->shift == 0 || law->tilt.slope != 0 ? 2 : fdp_has_copies(law) ? 4 + FDP_COPIES : 4;
}

/* Where the parts of a value go. */
typedef struct {
    uint32_t shift, low; /* bits below the first digit, and drawn one by one */
    uint32_t low_bytes;  /* of a low word: 0 (spare bits), 2, 4 or 8 */
} fdp_parts_t;

typedef struct {
    bool inserts; /* first and second put the lists in; else the caller does */

    /* What special lanes yield, from words of all ranks, and whether the known bits do
     * not decide; ranks is a multiple of 8. */
    void (*list_first)(const fdp_digits_t *law, const uint64_t *word, fdp_list_t *list,
                       uint8_t *open, size_t ranks);
    void (*list_second)(const fdp_digits_t *law, const uint64_t *word, fdp_list_t *list,
                        uint8_t *open, size_t ranks);
    /* Values of the first digit for blocks of 64 lanes, `stride` bytes of words each:
     * 64 columns, 64 times u. mask: a bit a lane that is special, `rank` of which came
     * before. Returns how many. */
    size_t (*first)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                    const fdp_list_t *list, size_t rank, int16_t *value, uint64_t *mask,
                    size_t blocks);
    /* The same for the second digit, below the spare bits of the column's byte; bits
     * of low words are cleared as the list says. */
    size_t (*second)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                     const fdp_list_t *list, size_t rank, uint8_t *value, void *low,
                     uint32_t low_bytes, uint64_t *mask, size_t blocks);
    /* The second digit of eight bits beside the first's values, in their place: 64 bytes
     * of it and 64 of its tilt in a block. The k-th lane of `mask` takes entry `rank` + k
     * of the list, modulo FDP_RANKS, with its low word. */
    void (*tilt)(const fdp_digits_t *law, const uint8_t *word, size_t stride,
                 const fdp_whole_t *list, size_t rank, const uint64_t *mask, int16_t *value,
                 void *low, uint32_t low_bytes, size_t blocks);
    /* What tries yield from their words, and 0: rejected, 1: accepted, 2: open. n is a
     * multiple of 16, at most FDP_TRIES. */
    void (*tries)(const fdp_digits_t *law, const uint64_t *word, int64_t *value,
                  uint8_t *state, size_t n);
    /* out = x + value, with saturation; x NULL: the value alone. */
    void (*join)(const fdp_parts_t *parts, const int16_t *first, const uint8_t *second,
                 const void *low, const int64_t *x, int64_t *out, size_t n);
} fdp_digit_kernels_t;

#define FDP_ROW(name, bit) extern const fdp_digit_kernels_t fdp_digits_##name;
FDP_LEVELS_HERE(FDP_ROW)
#undef FDP_ROW

/* The row of the level in force; that of a rank up to it (fdp_cpu_rank). */
const fdp_digit_kernels_t *fdp_digit_kernels(void);
const fdp_digit_kernels_t *fdp_digit_kernels_at(size_t rank);

#endif
