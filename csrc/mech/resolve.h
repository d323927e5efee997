/* resolve.h: settles trials that known bits leave open, in integers, in memory of its own. */
#ifndef FDP_MECH_RESOLVE_H
#define FDP_MECH_RESOLVE_H

#include "../exact/resolver.h"

/* Decides a trial of a law from its words: 1 and the value, 0 (rejected), or -1. */
typedef int (*fdp_decide_fn)(fdp_settle_t *w, const void *law, const uint64_t *words,
                             int64_t *value);

/* The context of the block function: the trial whose extension blocks are read. */
typedef struct {
    const fdp_call_t *call;
    uint64_t chunk;
    uint32_t trial;
} fdp_trial_t;

/* Settles a trial by `decide`. Returns -1 on failure: *status then says why, and the value is
 * zero. */
FDP_INTERNAL int fdp_resolve_trial(const fdp_trial_t *trial, fdp_decide_fn decide,
                                   const void *law, const uint64_t *words, int64_t value[2],
                                   fdp_status_t *status);

/* Settles a pending trial by `decide`, or by call->resolve if the law has an owner. Returns -1 on
 * failure; *status then says why. The caller must wipe the stack below (fdp_wipe_resolver). */
FDP_INTERNAL int fdp_resolve(const fdp_call_t *call, const fdp_pending_t *pending,
                             fdp_decide_fn decide, const void *law, int64_t value[2],
                             fdp_status_t *status);

#endif
