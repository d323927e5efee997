/* resolve.h: settles trials that known bits leave open, in integers, in memory of its own. */
#ifndef FDP_MECH_RESOLVE_H
#define FDP_MECH_RESOLVE_H

#include "../exact/resolver.h"

/* Decides a trial of a law from its words: 1 and the value, below 2^100 in magnitude, as 128
 * bits in two's complement, the low 64 first (only noise needs the second); 0 if the law
 * rejects the trial; -1 on failure. */
typedef int (*fdp_decide_fn)(fdp_settle_t *w, const void *law, const uint64_t *words,
                             int64_t *value);

/* The context of the block function: the trial whose extension blocks are read. */
typedef struct {
    const fdp_call_t *call;
    uint64_t chunk;
    uint32_t trial;
} fdp_trial_t;

/* Settles a trial by `decide`, in more and more memory. Returns 1 and sets the value, 0
 * (rejected), or -1: then *status says why, and the value is zero. The caller must wipe the stack
 * below (fdp_wipe_resolver). */
FDP_INTERNAL int fdp_resolve(const fdp_trial_t *trial, fdp_decide_fn decide, const void *law,
                             const uint64_t *words, int64_t value[2], fdp_status_t *status);

#endif
