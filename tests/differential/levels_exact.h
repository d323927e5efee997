/* levels_exact.h: the laws in 113-bit arithmetic, for levels.c: what a trial gives
 * from its words and the further bits of its uniforms. */
#ifndef FDP_TESTS_LEVELS_EXACT_H
#define FDP_TESTS_LEVELS_EXACT_H

#include "base/config.h"
#include "fastdp.h"

typedef struct {
    const char *name;
    int64_t numerator, denominator; /* of the scale or sigma */
    fdp_sampler_t sampler;
} law_t;

typedef unsigned __int128 u128;

#if defined(__x86_64__)
typedef __float128 quad;
extern quad logq(quad), expq(quad), expm1q(quad), floorq(quad);
#define log_quad logq
#define exp_quad expq
#define expm1_quad expm1q
#define floor_quad floorq
#else
typedef long double quad; /* binary128 on aarch64 */
_Static_assert(LDBL_MANT_DIG >= 113, "needs a type of 113 bits");
#define log_quad logl
#define exp_quad expl
#define expm1_quad expm1l
#define floor_quad floorl
#endif

/* u + 1/2 units of 2^-128 */
static quad real_of(u128 u)
{
    const quad low = (quad)(uint64_t)u + (quad)0.5;
    return ((quad)(uint64_t)(u >> 64) + low * (quad)0x1p-64) * (quad)0x1p-64;
}

/* 128 bits: `bits` of a prefix, then of `more`. */
static u128 joined(uint64_t prefix, int bits, const uint64_t more[2])
{
    const u128 tail = (u128)more[0] << 64 | more[1];
    return bits == 0 ? tail : (u128)prefix << (128 - bits) | tail >> bits;
}

static bool is_digits(const law_t *law) { return law->sampler.kind == FDP_DIGITS; }

static bool is_narrow(const law_t *law)
{
    return law->sampler.kind == FDP_GAUSSIAN_NARROW;
}

static uint32_t shift_of(const law_t *law) { return law->sampler.law.gaussian.shift; }

static quad parameter(const law_t *law)
{
    return (quad)law->numerator / (quad)law->denominator;
}

/* 1: kept, 0: rejected, -1: in the tail, which this cannot tell. */
static int exact_gaussian_keep(const law_t *law, uint64_t block, uint64_t m, u128 v)
{
    const fdp_gaussian_t *g = &law->sampler.law.gaussian;
    const quad count = (quad)(g->height_low[block] + 256 * g->height_high[block]);
    const quad hat = count * (quad)g->unit * real_of(v);
    if (block == 31) {
        return hat >= (quad)g->tail ? 0 : -1;
    }
    const quad x = (quad)m / parameter(law);
    return hat < (m == 0 ? (quad)0.5 : exp_quad(-x * x / 2));
}

static uint64_t block_of(const law_t *law, uint64_t select)
{
    const fdp_gaussian_t *g = &law->sampler.law.gaussian;
    const uint64_t column = (select >> 8) & 31;
    return (select & 255) < g->cut[column] ? g->alias[column] : column;
}

/* Bits below V in a Gaussian's 32-bit word. */
static uint32_t below_of(const law_t *law)
{
    return is_narrow(law) ? shift_of(law) + 1 : 1;
}

static uint64_t magnitude_of(const law_t *law, const uint64_t word[3])
{
    const uint32_t j = shift_of(law);
    const uint64_t low = is_narrow(law) ? (word[1] >> 1) & ((UINT64_C(1) << j) - 1)
                                        : word[2] >> (64 - j);
    return block_of(law, word[0]) << j | low;
}

/* The value of a trial of a hat, 1, or 0 for a rejected one, -1 for one that this
 * cannot tell. `more` are the further bits of V. */
static int exact(const law_t *law, const uint64_t word[3], const uint64_t more[2],
                 int64_t *value)
{
    const uint32_t below = below_of(law);
    const u128 v = joined(word[1] >> below, 32 - (int)below, more);
    const uint64_t m = magnitude_of(law, word);
    *value = (word[1] & 1) != 0 ? -(int64_t)m : (int64_t)m;
    return exact_gaussian_keep(law, block_of(law, word[0]), m, v);
}

#endif
