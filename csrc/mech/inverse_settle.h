/* inverse_settle.h: a second opinion on a choice by inversion, in 128-bit integers. */
#ifndef FDP_MECH_INVERSE_SETTLE_H
#define FDP_MECH_INVERSE_SETTLE_H

#include "../exact/choice.h"

/* The choice that 128 bits of the real, `high` and `low`, make among the candidates left of
 * a row. False: not decided, by these bits or by this arithmetic. Its time follows from the
 * scores. */
FDP_INTERNAL bool fdp_inverse_settle(const fdp_choice_t *c, uint64_t high, uint64_t low,
                                     int64_t *choice);

#endif
