/* ranks.h: the few lanes of a chunk that need more bits, in order, in fixed steps.
 *
 * Which lanes these are tells of their values. So picking them takes the same steps
 * whatever the masks hold, and a step without a lane takes a place from words of its own:
 * places of lanes and these are alike uniform, so that neither the steps' addresses nor
 * their time tell how many lanes there were. The lane of rank r has the r-th share of
 * further bits of the chunk. docs/proofs/timing.md
 */
#ifndef FDP_MECH_RANKS_H
#define FDP_MECH_RANKS_H

#include "lanes.h"

#define FDP_RANK_MASKS 256 /* of 64 lanes each */

typedef struct {
    uint64_t kept[FDP_RANK_MASKS + 2]; /* the masks with a bit set, then empty ones */
    uint8_t where[FDP_RANK_MASKS + 2]; /* and their numbers                         */
    size_t at;
} fdp_ranks_t;

static inline uint64_t fdp_any(uint64_t m) { return (m | (0 - m)) >> 63; }

/* masks <= FDP_RANK_MASKS. Nothing that is stored here may be loaded at once: where the
 * last stores go depends on the masks, and a processor foretells by the addresses of the
 * instructions, which differ from process to process, whether a load meets such a store. A
 * wrong guess costs cycles that depend on the masks. Callers fetch words in between. */
static inline void fdp_ranks_open(fdp_ranks_t *r, const uint64_t *mask, size_t masks)
{
    size_t hits = 0;
    for (size_t g = 0; g < masks; g++) {
        r->kept[hits] = mask[g];
        r->where[hits] = (uint8_t)g;
        hits += (size_t)fdp_any(mask[g]);
    }
    r->kept[hits] = r->kept[hits + 1] = 0;
    r->where[hits] = 0;
    r->at = 0;
}

static inline bool fdp_ranks_left(const fdp_ranks_t *r) { return r->kept[r->at] != 0; }

/* The places of the next `steps` lanes, and idle[i] of 2^16 parts of `lanes` where there
 * is none. Returns the mask of the steps that have a lane; steps <= 64. */
static inline uint64_t fdp_ranks_take(fdp_ranks_t *r, const uint16_t *idle, size_t lanes,
                                      uint16_t *place, size_t steps)
{
    size_t at = r->at;
    uint64_t live = 0, left = r->kept[at], next = r->kept[at + 1];
    for (size_t i = 0; i < steps; i++) {
        const uint64_t valid = fdp_any(left);
        const unsigned bit = (unsigned)__builtin_ctzll(left | (UINT64_C(1) << 63));
        place[i] = (uint16_t)fdp_choose(valid, r->where[at] * 64u + bit,
                                        (idle[i] * lanes) >> 16);
        live |= valid << i;
        left &= left - 1;
        const uint64_t more = fdp_any(left);
        left = fdp_choose(more, left, next);
        at += (size_t)(valid & (1 - more));
        next = r->kept[at + 1];
    }
    r->at = at;
    r->kept[at] = left;
    return live;
}

#endif
