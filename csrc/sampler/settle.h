/* settle.h: an exponential in 128-bit integers, to settle what doubles leave open. */
#ifndef FDP_SAMPLER_SETTLE_H
#define FDP_SAMPLER_SETTLE_H

#include "../base/config.h"
#include "../base/mul128.h"

/* 2^127 e^{-r}, with an error of at most 2^9 units, for 0 <= r < 1.5; r is given as 2^127 r. */
FDP_INTERNAL fdp_u128_t fdp_exp_minus(fdp_u128_t r);

#endif
