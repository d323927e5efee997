/* self_check.c: does this build compute as the proofs assume? Some compiler flags let the compiler
 * reassociate sums, replace divisions, or ignore the signs of zero and NaN. config.h refuses these
 * flags if the compiler announces them. Not every compiler does, so each level's arithmetic is
 * tested once in a process, before the first key is drawn. This takes some microseconds. */
#include <float.h>
#include <stdatomic.h>
#include <string.h>

#include "../base/cpu.h"
#include "../base/rounding.h"
#include "../fastdp.h"
#include "../sampler/bits.h"
#include "../sampler/digit_kernels.h"
#include "../sampler/kernels.h"

/* ---- rounding ------------------------------------------------------------- */

/* Hides a value from the compiler. */
static double opaque(double x)
{
    volatile double y = x;
    return y;
}

static bool same(double x, double y) { return fdp_double_bits(x) == fdp_double_bits(y); }

static bool rounds(void)
{
    const double tie = opaque(2.5), odd = opaque(-3.5), third = opaque(1.0) / opaque(3.0);
    const double large = opaque(0x1p53), one = opaque(1.0);
    return same(fdp_nearest(tie), 2.0) && same(fdp_nearest(odd), -4.0) &&
           same(fdp_nearest(opaque(0.3)), 0.0) && fdp_to_small(odd) == -4 &&
           same(fdp_from_small((int64_t)opaque(-7.0)), -7.0) &&
           same(fdp_from_unsigned(((uint64_t)opaque(1.0) << 63) + 1025), 0x1p63 + 2048.0) &&
           same((large + one) - large, 0.0) && same(third, 0x1.5555555555555p-2) &&
           same(opaque(7.0) / opaque(49.0), 0x1.2492492492492p-3);
}

/* ---- the grid ------------------------------------------------------------- */

#define POINTS 14

/* Rounds x to the nearest integer and adds 3. Compares bits, because a zero must have no sign. */
static bool snaps(const fdp_kernels_t *kernels)
{
    static const double x[POINTS] = {
        0.3, -0.3, 0.5, -0.5, 1.5, -2.5, 0x1.8p52, 0x1.0000000000001p51, 5e-324, -5e-324,
        -0.0, (double)__builtin_nanf(""), (double)__builtin_inff(), -(double)__builtin_inff()};
    static const double base[POINTS] = {0, 0, 0, 0, 2, -2, 0x1.8p52, 0x1p51, 0,
                                        0, 0, 0, DBL_MAX, -DBL_MAX};
    const fdp_grid_t grid = {1.0, -DBL_MAX, DBL_MAX, 0.0};
    /* In place, three times: in full vectors, in the remainder loop, and alone. */
    double y[3 * POINTS];
    int64_t noise[3 * POINTS];
    for (size_t i = 0; i < 3 * POINTS; i++) {
        y[i] = opaque(x[i % POINTS]);
        noise[i] = i < POINTS ? 0 : 3;
    }
    kernels->add_grid(&grid, y, noise, y, 2 * POINTS - 1);
    for (size_t i = 2 * POINTS - 1; i < 3 * POINTS; i++) {
        kernels->add_grid(&grid, y + i, noise + i, y + i, 1);
    }
    bool good = true;
    for (size_t i = 0; i < 3 * POINTS; i++) {
        const double sum = base[i % POINTS] + (double)noise[i];
        good &= same(y[i], sum);
    }
    return good;
}

/* ---- a law ---------------------------------------------------------------- */

#define TRIALS 64

/* Tails of a first digit of scale 10, from fixed words. A lane that a level leaves open counts as
 * correct. */
static bool draws(const fdp_digit_kernels_t *kernels)
{
    static const int8_t known[TRIALS] = {
        13, -7,  3,  -1, -17, 8,  -4,  1, 17, -10, 4,   -2, -27, 10, -6, 2,
        28, -14, 6,  -3, 0,   14, -8,  3, -1, -20, 9,   -5, 1,   20, -11, 5,
        -2, -36, 12, -7, 2,   39, -16, 7, -4, 0,   16,  -9, 4,   -2, -24, 10,
        -6, 2,   24, -13, 6,  -3, 0,   13, -8, 3,  -1,  -18, 8,  -5, 1,   18};
    fdp_digits_t law = {.tails = 1,
                        .tail = {.theta = UINT64_C(0x799af6c6b28241e8),
                                 .scale = 10.0,
                                 .inverse_w0 = 0x1.e7a36ccea959dp+0,
                                 .inverse_w1 = 0x1.0d763d9ad006ap+1,
                                 .error = 10.0 * 0x1p-48,
                                 .error_relative = 0x1p-49}};
    FDP_ALIGNED(64) uint64_t word[2 * TRIALS];
    FDP_ALIGNED(64) uint8_t open[TRIALS];
    fdp_list_t list;
    for (uint32_t i = 0; i < TRIALS; i++) {
        const size_t at = 2 * (i - i % FDP_RANK_GROUP) + i % FDP_RANK_GROUP;
        word[at] = 256; /* column 0, above its cut: this is a tail */
        word[at + FDP_RANK_GROUP] = (uint64_t)((i + 1) * UINT32_C(0x9e3779b9)) << 32 | 1u << 31;
    }
    kernels->list_first(&law, word, &list, open, TRIALS);
    size_t wrong = 0, decided = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        const int value = known[i] + (known[i] < 0 ? -63 : 63);
        const uint16_t found =
            (uint16_t)(list.low[i] | (uint32_t)list.high[i] << 8);
        decided += open[i] == 0;
        wrong += open[i] == 0 && found != (uint16_t)value;
    }
    return wrong == 0 && decided > TRIALS / 2;
}

/* ---- all of it ------------------------------------------------------------ */

static fdp_status_t check(void)
{
    if (!fdp_cpu_named()) {
        return FDP_ERR_LEVEL;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    bool good = rounds();
    for (size_t rank = 0; rank <= fdp_cpu_rank(); rank++) {
        good = good && snaps(fdp_kernels_at(rank)) && draws(fdp_digit_kernels_at(rank));
    }
    fdp_rounding_leave(rounding);
    return good ? FDP_OK : FDP_ERR_BUILD;
}

fdp_status_t fdp_self_check(void)
{
    /* The verdict plus 1. Racing threads compute the same one. */
    static _Atomic uint32_t known;
    uint32_t verdict = atomic_load_explicit(&known, memory_order_relaxed);
    if (FDP_UNLIKELY(verdict == 0)) {
        verdict = (uint32_t)check() + 1;
        atomic_store(&known, verdict);
    }
    return (fdp_status_t)(verdict - 1);
}
