/* inverse_settle.h: settles an undecided choice by inversion, in 128-bit integers. */
#ifndef FDP_MECH_INVERSE_SETTLE_H
#define FDP_MECH_INVERSE_SETTLE_H

#include "../exact/choice.h"

/* Makes a choice among the remaining candidates of a row, by 128 bits of the real, `high` and
 * `low`. Returns false if neither these bits nor this arithmetic decides it. The run time depends
 * on the scores. */
FDP_INTERNAL bool fdp_inverse_settle(const fdp_choice_t *c, uint64_t high, uint64_t low,
                                     int64_t *choice);

#endif
