/* lanes.h: the few set bits of many masks, found in a fixed number of steps.
 *
 * Which lanes a kernel leaves undecided tells of their values, so that picking them
 * takes the same steps whatever the masks hold: docs/proofs/timing.md.
 */
#ifndef FDP_MECH_LANES_H
#define FDP_MECH_LANES_H

#include "../base/choose.h"
#include "../base/config.h"
#include "../base/wipe.h"
#include "../sampler/bits.h"

#define FDP_MASKS_MOST 512

/* Where an unused step reads and an unused slot writes back what is there: spread
 * over the n places as the used ones are, for the memory's time to be alike. */
static inline size_t fdp_place_of(size_t i, size_t steps, size_t n)
{
    return (2 * i + 1) * (n / steps) / 2;
}

/* The next set bits of the masks as lane numbers. */
typedef struct {
    uint64_t kept[FDP_MASKS_MOST + 2]; /* masks with a bit set, then empty ones */
    uint16_t where[FDP_MASKS_MOST + 2];
    size_t at;
    uint64_t left; /* of kept[at] */
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

/* Which lanes were taken tells of their values. */
static inline void fdp_lanes_close(fdp_lanes_t *l, size_t masks, uint16_t *lane,
                                   size_t steps)
{
    fdp_wipe(l->kept, (masks + 2) * sizeof l->kept[0]);
    fdp_wipe(l->where, (masks + 2) * sizeof l->where[0]);
    fdp_wipe(&l->at, sizeof l->at + sizeof l->left + sizeof l->next);
    fdp_wipe(lane, steps * sizeof *lane);
}

#endif
