/* target.c: see target.h. Arrays of int64 and float64 take one fused pass. The other types go
 * through 64-bit scratch memory and saturate when stored. */
#include "target.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "../sampler/bits.h"

static size_t size_of(fdp_dtype_t type)
{
    static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 4, 8};
    return sizes[type];
}

#define LOAD(type, to_type, to)                       \
    do {                                              \
        const type *from = (const type *)x + at;      \
        for (size_t i = 0; i < n; i++) {              \
            to[i] = (to_type)from[i];                 \
        }                                             \
    } while (0)

void fdp_load_doubles(const void *x, fdp_dtype_t type, size_t at, size_t n, double *to)
{
    switch (type) {
    case FDP_F64: memcpy(to, (const double *)x + at, n * sizeof *to); break;
    case FDP_F32: LOAD(float, double, to); break;
    default: LOAD(int64_t, double, to); break;
    }
}

static void load_integers(const void *x, fdp_dtype_t type, size_t at, size_t n,
                          int64_t *wide)
{
    switch (type) {
    case FDP_I8: LOAD(int8_t, int64_t, wide); break;
    case FDP_I16: LOAD(int16_t, int64_t, wide); break;
    case FDP_I32: LOAD(int32_t, int64_t, wide); break;
    case FDP_U8: LOAD(uint8_t, int64_t, wide); break;
    case FDP_U16: LOAD(uint16_t, int64_t, wide); break;
    case FDP_U32: LOAD(uint32_t, int64_t, wide); break;
    case FDP_I64: LOAD(int64_t, int64_t, wide); break;
    default: memset(wide, 0, n * sizeof *wide); break; /* FDP_NONE */
    }
}

#define STORE(type, least, most)                           \
    do {                                                   \
        type *to = (type *)out + at;                       \
        for (size_t i = 0; i < n; i++) {                   \
            int64_t v = wide[i];                           \
            v = v < (least) ? (least) : v;                 \
            v = v > (most) ? (most) : v;                   \
            to[i] = (type)v;                               \
        }                                                  \
    } while (0)

static void store_integers(void *out, fdp_dtype_t type, size_t at, size_t n,
                           const int64_t *wide)
{
    switch (type) {
    case FDP_I8: STORE(int8_t, INT8_MIN, INT8_MAX); break;
    case FDP_I16: STORE(int16_t, INT16_MIN, INT16_MAX); break;
    case FDP_I32: STORE(int32_t, INT32_MIN, INT32_MAX); break;
    case FDP_U8: STORE(uint8_t, 0, UINT8_MAX); break;
    case FDP_U16: STORE(uint16_t, 0, UINT16_MAX); break;
    case FDP_U32: STORE(uint32_t, 0, UINT32_MAX); break;
    default: STORE(int64_t, INT64_MIN, INT64_MAX); break;
    }
}

static void store_integer_sum(const fdp_target_t *t, const fdp_kernels_t *k, size_t at,
                              size_t n, const int64_t *noise, int64_t *wide)
{
    const bool in_place = t->out_type == FDP_I64;
    int64_t *const out = in_place ? (int64_t *)t->out + at : wide;
    const int64_t *x = wide;
    if (in_place && t->x_type == FDP_NONE) {
        memcpy(out, noise, n * sizeof *out);
        return;
    }
    if (t->x_type == FDP_I64) {
        x = (const int64_t *)t->x + at;
    } else {
        load_integers(t->x, t->x_type, at, n, wide);
    }
    k->add_wide(x, noise, out, n);
    if (!in_place) {
        store_integers(t->out, t->out_type, at, n, wide);
    }
}

/* y clamped to [-most, most], by masks: a conditional choice of doubles may be compiled to a branch
 * on data. Magnitudes have the same order as their bits. */
static double clamp(double y, double most)
{
    const uint64_t bits = fdp_double_bits(y), limit = fdp_double_bits(most);
    const uint64_t sign = bits & (UINT64_C(1) << 63);
    const uint64_t size = bits ^ sign;
    const uint64_t above = 0 - (uint64_t)((limit - size) >> 63);
    return fdp_bits_double(sign | (limit & above) | (size & ~above));
}

/* Values stored at a time, so that the scratch memory for doubles is small. */
#define PIECE 256

static void store_real_sum(const fdp_target_t *t, const fdp_kernels_t *k, size_t at,
                           size_t n, const int64_t *noise)
{
    if (t->out_type == FDP_F64) {
        k->add_grid(t->grid, (const double *)t->x + at, noise, (double *)t->out + at, n);
        return;
    }
    double piece[PIECE];
    for (size_t done = 0; done < n; done += PIECE) {
        const size_t m = n - done < PIECE ? n - done : PIECE;
        float *out = (float *)t->out + at + done;
        fdp_load_doubles(t->x, FDP_F32, at + done, m, piece);
        k->add_grid(t->grid, piece, noise + done, piece, m);
        for (size_t i = 0; i < m; i++) {
            out[i] = (float)clamp(piece[i], (double)FLT_MAX);
        }
    }
    fdp_wipe(piece, sizeof piece);
}

void fdp_target_store(const fdp_target_t *target, const fdp_kernels_t *kernels,
                      size_t at, size_t n, const int64_t *noise, int64_t *wide)
{
    if (target->grid == NULL) {
        store_integer_sum(target, kernels, at, n, noise, wide);
        return;
    }
    store_real_sum(target, kernels, at, n, noise);
}

fdp_datum_t fdp_target_read(const fdp_target_t *target, size_t at)
{
    fdp_datum_t x;
    if (target->grid == NULL) {
        load_integers(target->x, target->x_type, at, 1, &x.integer);
    } else {
        fdp_load_doubles(target->x, target->x_type, at, 1, &x.real);
    }
    return x;
}

/* A double's mantissa can be doubled this often and still be added exactly to the noise in 128
 * bits. */
#define DOUBLINGS 70

/* base + noise * step, rounded once; base is a multiple of the step. Computed in integers. If base
 * is too large for them, it is far larger than the noise; the noise's low bits are then replaced by
 * one bit that is set if any of them is. */
static double add_far(double base, double step, fdp_i128_t noise)
{
    int above, unit;
    (void)frexp(step, &unit); /* step = 2^(unit - 1) */
    int64_t whole = (int64_t)ldexp(frexp(base, &above), 53);
    int doublings = whole == 0 ? 0 : above - 53 - (unit - 1), dropped = 0;
    for (; doublings < 0; doublings++) {
        whole /= 2;
    }
    if (doublings > DOUBLINGS) {
        dropped = doublings - DOUBLINGS < 120 ? doublings - DOUBLINGS : 120;
        const bool rest = (noise & (((fdp_i128_t)1 << dropped) - 1)) != 0;
        noise = (noise >> dropped) | rest;
        dropped = doublings - DOUBLINGS;
        doublings = DOUBLINGS;
    }
    const fdp_i128_t sum = whole * ((fdp_i128_t)1 << doublings) + noise;
    return clamp(ldexp((double)sum, unit - 1 + dropped), DBL_MAX);
}

void fdp_target_write(const fdp_target_t *target, const fdp_kernels_t *kernels, size_t at,
                      fdp_datum_t x, fdp_i128_t noise)
{
    if (target->grid == NULL) {
        const fdp_i128_t whole = x.integer + noise;
        const int64_t sum = whole < INT64_MIN   ? INT64_MIN
                            : whole > INT64_MAX ? INT64_MAX
                                                : (int64_t)whole;
        store_integers(target->out, target->out_type, at, 1, &sum);
        return;
    }
    const int64_t none = 0;
    double y;
    kernels->add_grid(target->grid, &x.real, &none, &y, 1);
    y = add_far(y, target->grid->step, noise);
    if (target->out_type == FDP_F64) {
        ((double *)target->out)[at] = y;
    } else {
        ((float *)target->out)[at] = (float)clamp(y, (double)FLT_MAX);
    }
}

void fdp_target_zero(const fdp_target_t *target, size_t n)
{
    if (n != 0) {
        memset(target->out, 0, n * size_of(target->out_type));
    }
}
