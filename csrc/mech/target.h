/* target.h: noise on its way into the caller's array. */
#ifndef FDP_MECH_TARGET_H
#define FDP_MECH_TARGET_H

#include "../fastdp.h"
#include "../sampler/kernels.h"

/* out[at ... at + n] = x[at ...] + noise; noise is int32 (narrow) or int64;
 * `wide` has room for max(n, 64) values. */
void fdp_target_store(const fdp_target_t *target, const fdp_kernels_t *kernels,
                      size_t at, size_t n, const void *noise, int narrow,
                      int64_t *wide);

/* The same for one integer, in two steps: x[at], then out[at] = x + value + excess,
 * value and excess of one sign. */
int64_t fdp_target_read(const fdp_target_t *target, size_t at);
void fdp_target_write(const fdp_target_t *target, size_t at, int64_t x, int64_t value,
                      int64_t excess);

/* Fills n elements of out with zeros. */
void fdp_target_zero(const fdp_target_t *target, size_t n);

#endif
