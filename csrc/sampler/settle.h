/* settle.h: scalar second opinions, in 128-bit integers, for lanes that the
 * second stage leaves undecided. What these cannot decide either goes to the
 * exact resolver. */
#ifndef FDP_SAMPLER_SETTLE_H
#define FDP_SAMPLER_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/config.h"
#include "../base/mul128.h"
#include "../fastdp.h"

/* 2^127 e^{-r} to within 2^9 units, 0 <= r < 1.5, r given as 2^127 r. */
FDP_INTERNAL fdp_u128_t fdp_exp_minus(fdp_u128_t r);

/* The direct rule with 128 bits of U (high, low); for the wide kind the block
 * number H. False when 128 bits or the arithmetic do not decide. */
bool fdp_laplace_settle(const fdp_laplace_t *law, uint64_t high, uint64_t low,
                        int64_t *value);

/* Whether a wide trial is kept, V continued by 64 more bits; false: undecided. */
bool fdp_laplace_settle_keep(const fdp_laplace_t *law, uint64_t rest,
                             uint64_t more, bool *keep);

#endif
