/* lanes.h: the few set bits of many masks, found in a fixed number of steps.
 *
 * Which lanes a kernel leaves undecided tells of their values, so that picking them
 * takes the same steps whatever the masks hold: docs/proofs/timing.md.
 */
#ifndef FDP_MECH_LANES_H
#define FDP_MECH_LANES_H

#include "../base/config.h"
#include "../base/wipe.h"

#define FDP_MASKS_MOST 512

/* a if c is 1, b if it is 0, and never a branch: the compiler is not told that the
 * mask has only two values. */
static inline uint64_t fdp_choose(uint64_t c, uint64_t a, uint64_t b)
{
    uint64_t mask = 0 - c;
    __asm__("" : "+r"(mask));
    return (a & mask) | (b & ~mask);
}

/* Where an unused step reads and an unused slot writes back what is there: spread
 * over the n places as the used ones are, for the memory's time to be alike. */
static inline size_t fdp_place_of(size_t i, size_t steps, size_t n)
{
    return (2 * i + 1) * (n / steps) / 2;
}

/* The next set bits of the masks as lane numbers. */
typedef struct {
    const uint64_t *mask;
    uint16_t where[FDP_MASKS_MOST + 1]; /* masks with a bit set, then an empty one */
    size_t at;
    uint64_t left; /* of mask[where[at]] */
} fdp_lanes_t;

/* How many bits are set. mask has room for one more, which is cleared;
 * masks <= FDP_MASKS_MOST. */
static inline size_t fdp_lanes_open(fdp_lanes_t *l, uint64_t *mask, size_t masks)
{
    size_t total = 0, hits = 0;
    mask[masks] = 0;
    for (size_t g = 0; g < masks; g++) {
        l->where[hits] = (uint16_t)g;
        hits += mask[g] != 0;
        total += (size_t)__builtin_popcountll(mask[g]);
    }
    l->where[hits] = (uint16_t)masks;
    l->mask = mask;
    l->at = 0;
    l->left = mask[l->where[0]];
    return total;
}

/* The next `steps` lanes, and regular places among `lanes` when there are no more. */
static inline void fdp_lanes_take(fdp_lanes_t *l, uint16_t *lane, size_t steps,
                                  size_t lanes)
{
    for (size_t i = 0; i < steps; i++) {
        const unsigned bit = (unsigned)__builtin_ctzll(l->left | (UINT64_C(1) << 63));
        const uint64_t valid = l->left != 0;
        lane[i] = (uint16_t)fdp_choose(valid, l->where[l->at] * 64u + bit,
                                       fdp_place_of(i, steps, lanes));
        l->left &= l->left - 1;
        const uint64_t more = l->left != 0;
        l->at += (size_t)fdp_choose(valid, 1 - more, 0);
        l->left = fdp_choose(more, l->left, l->mask[l->where[l->at]]);
    }
}

/* Which lanes were taken tells of their values. */
static inline void fdp_lanes_close(fdp_lanes_t *l, size_t masks, uint16_t *lane,
                                   size_t steps)
{
    fdp_wipe(l->where, (masks + 1) * sizeof l->where[0]);
    fdp_wipe(&l->at, sizeof l->at + sizeof l->left);
    fdp_wipe(lane, steps * sizeof *lane);
}

#endif
