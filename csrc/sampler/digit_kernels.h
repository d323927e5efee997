/* digit_kernels.h: the vector kernels of alias digits, one row per instruction-set level. A digit
 * maps a column and a byte u to a value, by a table of integers, or marks the lane as special. The
 * value that the k-th special lane gets instead is computed before the trials are read, for a fixed
 * number of ranks k: these values are a list. Kernels have a fixed cost and no branch that depends
 * on a word. docs/proofs/timing.md */
#ifndef FDP_SAMPLER_DIGIT_KERNELS_H
#define FDP_SAMPLER_DIGIT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/cpu.h"

#define FDP_BLOCK_LANES 64
#define FDP_RANKS 128     /* special lanes of a pass that have words of their own */
#define FDP_COPIES 4      /* words of a lane for its further corrections */
#define FDP_RANK_GROUP 16 /* ranks whose words are stored together */
#define FDP_SPECIAL 0x80
#define FDP_TRIES 384     /* tries of a pass of tilted digits */

/* The values of the special lanes, by rank. */
typedef struct {
    FDP_ALIGNED(64) uint8_t low[FDP_RANKS]; /* low byte of a first digit's value; or a second
                                             * digit with the complement of the spare bits that
                                             * are cleared */
    FDP_ALIGNED(64) uint8_t high[FDP_RANKS];   /* high byte of a first digit's value */
    FDP_ALIGNED(64) uint64_t clear[FDP_RANKS]; /* bits to clear in a low word */
} fdp_list_t;

/* The values of the special lanes of tilted digits: both digits, and the low word. */
typedef struct {
    FDP_ALIGNED(64) uint16_t high[FDP_RANKS];
    FDP_ALIGNED(64) uint64_t low[FDP_RANKS];
} fdp_whole_t;

/* Four or more low bits have words of their own, and further corrections. */
static inline bool fdp_has_copies(const fdp_digits_t *law) { return law->low > 3; }

static inline uint32_t fdp_low_bytes(const fdp_digits_t *law)
{
    const bool none = law->tilt.slope != 0 ? law->low == 0 : !fdp_has_copies(law);
    return none ? 0 : law->low <= 16 ? 2 : law->low <= 32 ? 4 : 8;
}

/* The number of words of a rank: of the first digit and its tail; of the second digit and its
 * correction; the copies. */
static inline size_t fdp_rank_words(const fdp_digits_t *law)
{
    return law->shift == 0 || law->tilt.slope != 0 ? 2 : fdp_has_copies(law) ? 4 + FDP_COPIES : 4;
}

/* The positions of a value's parts. */
typedef struct {
    uint32_t shift, low; /* bits below the first digit; bits drawn one by one */
    uint32_t low_bytes;  /* bytes of a low word: 0 (spare bits), 2, 4 or 8 */
} fdp_parts_t;

typedef struct {
    bool inserts; /* `first` and `second` insert the lists; otherwise the caller does */

    /* Computes the values of special lanes from the words of all ranks, and whether the known bits
     * leave them open; ranks is a multiple of 8. */
    void (*list_first)(const fdp_digits_t *law, const uint64_t *word, fdp_list_t *list,
                       uint8_t *open, size_t ranks);
    void (*list_second)(const fdp_digits_t *law, const uint64_t *word, fdp_list_t *list,
                        uint8_t *open, size_t ranks);
    /* Computes values of the first digit for blocks of 64 lanes, with `stride` bytes of words each:
     * 64 columns, then 64 bytes u. Sets the mask of special lanes; `rank` special lanes came
     * before. Returns their number. */
    size_t (*first)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                    const fdp_list_t *list, size_t rank, int16_t *value, uint64_t *mask,
                    size_t blocks);
    /* The same for the second digit, which is below the spare bits of the column's byte. Clears
     * bits of low words as the list says. */
    size_t (*second)(const fdp_columns_t *table, const uint8_t *word, size_t stride,
                     const fdp_list_t *list, size_t rank, uint8_t *value, void *low,
                     uint32_t low_bytes, uint64_t *mask, size_t blocks);
    /* Adds a second digit of eight bits to the values of the first, in place; a block has 64 bytes
     * of the digit and 64 of its tilt. The k-th lane of `mask` gets entry `rank` + k of the list,
     * modulo FDP_RANKS, with its low word. */
    void (*tilt)(const fdp_digits_t *law, const uint8_t *word, size_t stride,
                 const fdp_whole_t *list, size_t rank, const uint64_t *mask, int16_t *value,
                 void *low, uint32_t low_bytes, size_t blocks);
    /* Computes the values of tries from their words. The state is 0: rejected, 1: accepted, 2:
     * open. n is a multiple of 16, at most FDP_TRIES. */
    void (*tries)(const fdp_digits_t *law, const uint64_t *word, int64_t *value,
                  uint8_t *state, size_t n);
    /* out = x + value, saturated; if x is NULL, the value alone. */
    void (*join)(const fdp_parts_t *parts, const int16_t *first, const uint8_t *second,
                 const void *low, const int64_t *x, int64_t *out, size_t n);
} fdp_digit_kernels_t;

#define FDP_ROW(name, bit) extern const fdp_digit_kernels_t fdp_digits_##name;
FDP_LEVELS_HERE(FDP_ROW)
#undef FDP_ROW

/* The row of the current level; and the row of a lower level's rank (fdp_cpu_rank). */
const fdp_digit_kernels_t *fdp_digit_kernels(void);
const fdp_digit_kernels_t *fdp_digit_kernels_at(size_t rank);

#endif
