/* inverse_settle.h: a second opinion on a choice by inversion, in 128-bit integers. */
#ifndef FDP_MECH_INVERSE_SETTLE_H
#define FDP_MECH_INVERSE_SETTLE_H

#include "../fastdp.h"
#include "../base/config.h"

/* The choice that 128 bits of the real, `high` and `low`, make among the candidates of a
 * row but those set in the bitmap `removed` (NULL: none). False: not decided, by these
 * bits or by this arithmetic. Its time follows from the scores. */
FDP_INTERNAL bool fdp_inverse_settle(const fdp_selection_t *law,
                                     const fdp_candidates_t *from, size_t row,
                                     const uint64_t *removed, uint64_t high, uint64_t low,
                                     int64_t *choice);

#endif
