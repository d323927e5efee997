/* lanes.h: finds the few set bits of many masks in a fixed number of steps. Which lanes a kernel
 * leaves undecided reveals something about their values, so the steps must be the same whatever the
 * masks hold: docs/proofs/timing.md. */
#ifndef FDP_MECH_LANES_H
#define FDP_MECH_LANES_H

#include "../base/choose.h"
#include "../base/config.h"
#include "../base/wipe.h"
#include "../sampler/bits.h"

#define FDP_MASKS_MOST 512

/* The place that an unused step reads, and to which it writes back what is there. These places are
 * spread over the n places like the used ones, so that memory takes the same time. */
static inline size_t fdp_place_of(size_t i, size_t steps, size_t n)
{
    return (2 * i + 1) * (n / steps) / 2;
}

/* Iterates over the set bits of the masks, as lane numbers. */
typedef struct {
    uint64_t kept[FDP_MASKS_MOST + 2]; /* the masks that have a bit set, then empty ones */
    uint16_t where[FDP_MASKS_MOST + 2];
    size_t at;
    uint64_t left; /* the bits of kept[at] that are left */
    uint64_t next; /* kept[at + 1], loaded before it is known to be needed */
} fdp_lanes_t;

/* masks <= FDP_MASKS_MOST */
static inline void fdp_lanes_open(fdp_lanes_t *l, const uint64_t *mask, size_t masks)
{
    size_t hits = 0;
    for (size_t g = 0; g < masks; g++) {
        l->kept[hits] = mask[g];
        l->where[hits] = (uint16_t)g;
        hits += mask[g] != 0;
    }
    l->kept[hits] = l->kept[hits + 1] = 0;
    l->where[hits] = 0;
    l->at = 0;
    l->left = l->kept[0];
    l->next = l->kept[1];
}

/* The next lane, or `idle` if there is none. */
static inline uint16_t fdp_lanes_next(fdp_lanes_t *l, size_t idle)
{
    const unsigned bit = (unsigned)__builtin_ctzll(l->left | (UINT64_C(1) << 63));
    const uint64_t valid = l->left != 0;
    const uint16_t lane =
        (uint16_t)fdp_pick(fdp_mask(valid), l->where[l->at] * 64u + bit, idle);
    l->left &= l->left - 1;
    const uint64_t more = l->left != 0;
    l->left = fdp_pick(fdp_mask(more), l->left, l->next);
    l->at += (size_t)(valid & (1 - more));
    l->next = l->kept[l->at + 1];
    return lane;
}

/* Wipes the lane numbers: they reveal something about the lanes' values. */
static inline void fdp_lanes_close(fdp_lanes_t *l, size_t masks, uint16_t *lane,
                                   size_t steps)
{
    fdp_wipe(l->kept, (masks + 2) * sizeof l->kept[0]);
    fdp_wipe(l->where, (masks + 2) * sizeof l->where[0]);
    fdp_wipe(&l->at, sizeof l->at + sizeof l->left + sizeof l->next);
    fdp_wipe(lane, steps * sizeof *lane);
}

#endif
