/* draw.h: the state of one drawing call, shared by its driver (draw.c) and the
 * settling of undecided lanes (undecided.c). */
#ifndef FDP_MECH_DRAW_H
#define FDP_MECH_DRAW_H

#include "../base/mul128.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "law.h"
#include "scratch.h"

#define FDP_FAR_MOST 4 /* of a chunk; one alone has probability below 2^-90 */

typedef struct {
    const fdp_call_t *call;
    const fdp_sampler_t *sampler;
    const fdp_kernels_t *kernels;
    fdp_shape_t shape;
    fdp_scratch_t scratch;
    fdp_chunk_t chunk;
    uint64_t number;   /* of the chunk */
    size_t specials;   /* in scratch.special */
    size_t slots;      /* lanes of one second-stage pass of the batch */
    bool on_grid;      /* the noise must convert to double exactly */
    fdp_i128_t far[FDP_FAR_MOST]; /* values that the value array cannot hold */
    size_t far_count;
    bool failed;       /* the resolver failed */
} fdp_draw_t;

/* No kernel gives a magnitude of this size; the resolver's values that do are put
 * aside in `far`, with this number plus their place there to stand for them. */
static inline int64_t fdp_far_from(const fdp_draw_t *d)
{
    return INT64_C(1) << (d->shape.value_bytes == 8 ? 61 : 28);
}

/* Appends the special lanes of a group, with their words, to the list. `values` is
 * the batch of `trials`, whose `base`-th value is trial `first` of the chunk. */
void fdp_collect(fdp_draw_t *d, const uint8_t *const word[FDP_PARTS], void *values,
                 size_t base, size_t first, size_t count, size_t trials);

/* Settles the listed lanes and empties the list. */
void fdp_settle_specials(fdp_draw_t *d, void *values, size_t trials);

#endif
