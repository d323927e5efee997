/* settle.h: an exponential in 128-bit integers, for second opinions. */
#ifndef FDP_SAMPLER_SETTLE_H
#define FDP_SAMPLER_SETTLE_H

#include "../base/config.h"
#include "../base/mul128.h"

/* 2^127 e^{-r} to within 2^9 units, 0 <= r < 1.5, r given as 2^127 r. */
FDP_INTERNAL fdp_u128_t fdp_exp_minus(fdp_u128_t r);

#endif
