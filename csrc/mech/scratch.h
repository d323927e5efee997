/* scratch.h: the memory of one drawing call: one block, wiped at the end.
 *
 * A small call (a scalar, a short array) uses a block on the stack that costs
 * little to wipe; any other allocates one block for a batch of up to 4096
 * trials, laid out for the sampler at hand.
 */
#ifndef FDP_MECH_SCRATCH_H
#define FDP_MECH_SCRATCH_H

#include "../base/config.h"

#define FDP_BATCH 4096      /* most trials of one batch                      */
#define FDP_BATCH_SMALL 128 /* and of a small one                            */
#define FDP_BATCH_AGAIN 256 /* and of a batch that replaces rejected trials  */
#define FDP_GROUP 1024      /* trials whose words lie together in the stream */
#define FDP_PARTS 3         /* words a trial has at most                     */
#define FDP_SLOTS_MOST 256  /* lanes of one second-stage pass                */

/* What the sampler's trials look like. */
typedef struct {
    uint8_t part_bytes[FDP_PARTS]; /* bytes of each word; 0: none */
    uint8_t value_bytes;           /* 4 or 8                      */
} fdp_shape_t;

/* An undecided or rejected trial of the batch at hand, with its words. */
typedef struct {
    uint32_t index; /* position in the batch */
    uint32_t trial; /* number in the chunk   */
    uint64_t word[FDP_PARTS];
} fdp_special_t;

typedef struct {
    size_t batch; /* capacity in trials, a multiple of 64 */
    uint8_t *part[FDP_PARTS];
    uint8_t *block;  /* Gaussian: block of each trial of the group         */
    uint16_t *height;
    uint64_t mask[FDP_GROUP / 64 + 1]; /* a bit a trial of the group: special */
    void *value;     /* tagged values of the batch              */
    void *noise;     /* accepted values of the chunk                       */
    int64_t *wide;   /* a batch of 64-bit values on the way out            */
    fdp_special_t *special;
    size_t specials; /* room in it */
    uint32_t *slot_trial; /* second stage: trials, further bits, words, values */
    uint8_t *slot_more;
    uint64_t *slot_word;
    int64_t *slot_value;
    uint16_t *slot_select;
    uint8_t *slot_block;
    uint16_t *slot_height;
    uint64_t *slot_magnitude;
    uint8_t *memory;
    size_t size;
    bool owned;
} fdp_scratch_t;

#define FDP_SCRATCH_SMALL 24576

/* Lays the arrays out in `stack` (FDP_SCRATCH_SMALL bytes, aligned to 64) for a
 * small batch, else in memory of its own. False: no memory. */
bool fdp_scratch_open(fdp_scratch_t *scratch, const fdp_shape_t *shape, size_t batch,
                      uint8_t *stack);
void fdp_scratch_close(fdp_scratch_t *scratch);

/* Plain memory for one call, aligned to 64 bytes; NULL if there is none. `size` is
 * not 0. Giving it back wipes it. */
FDP_INTERNAL void *fdp_memory_take(size_t size);
FDP_INTERNAL void fdp_memory_give(void *memory, size_t size);

#endif
