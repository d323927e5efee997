/* target.h: writes noise to the caller's array. */
#ifndef FDP_MECH_TARGET_H
#define FDP_MECH_TARGET_H

#include "../base/mul128.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"

/* Converts x[at ... at + n] to doubles; the type is FDP_F64, FDP_F32, or else FDP_I64. */
void fdp_load_doubles(const void *x, fdp_dtype_t type, size_t at, size_t n, double *to);

/* out[at ... at + n] = x[at ...] + noise. The noise is int32 (narrow) or int64; `wide` has room for
 * max(n, 64) values. */
void fdp_target_store(const fdp_target_t *target, const fdp_kernels_t *kernels,
                      size_t at, size_t n, const int64_t *noise, int64_t *wide);

/* The same for one element and any noise below 2^100, in two steps: load x[at], then store out[at]
 * = x + noise, computed exactly and rounded once. */
typedef union {
    int64_t integer;
    double real;
} fdp_datum_t;

fdp_datum_t fdp_target_read(const fdp_target_t *target, size_t at);
void fdp_target_write(const fdp_target_t *target, const fdp_kernels_t *kernels, size_t at,
                      fdp_datum_t x, fdp_i128_t noise);

/* Fills n elements of out with zeros. */
void fdp_target_zero(const fdp_target_t *target, size_t n);

#endif
