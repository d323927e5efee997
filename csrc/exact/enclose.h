/* enclose.h: enclosures of reals in fixed point, equal to those of the Python reference. With
 * precision `bits`, a number is `w` limbs in two's complement, w = fdp_fx_width(bits), in units of
 * 2^-bits. A pair is a lower end followed by an upper end. */
#ifndef FDP_EXACT_ENCLOSE_H
#define FDP_EXACT_ENCLOSE_H

#include "nat.h"

#define FDP_FX_ROOM 40 /* bits above the binary point, without the sign */

static inline size_t fdp_fx_width(unsigned bits) { return (bits + FDP_FX_ROOM) / 64 + 1; }

typedef struct {
    fdp_arena_t *a;
    unsigned bits;
    size_t w;
} fdp_fx_t;

static inline fdp_fx_t fdp_fx_at(fdp_arena_t *a, unsigned bits)
{
    return (fdp_fx_t){a, bits, fdp_fx_width(bits)};
}

static inline uint64_t *fdp_fx_lo(const fdp_fx_t *f, uint64_t *pairs, size_t i)
{
    return pairs + 2 * i * f->w;
}
static inline uint64_t *fdp_fx_hi(const fdp_fx_t *f, uint64_t *pairs, size_t i)
{
    return pairs + (2 * i + 1) * f->w;
}
/* Memory for n pairs. */
static inline uint64_t *fdp_fx_take(const fdp_fx_t *f, size_t n)
{
    return fdp_arena_take(f->a, 2 * n * f->w);
}

/* A pair for an arena that has failed, so that no later step reads memory that nobody wrote. */
static inline void fdp_fx_set_nothing(const fdp_fx_t *f, uint64_t *out)
{
    memset(out, 0, 2 * f->w * sizeof *out);
}

/* The bits of x without leading zeros. */
static inline unsigned fdp_fx_length(uint64_t x)
{
    return x == 0 ? 0 : 64 - (unsigned)__builtin_clzll(x);
}

/* out (w limbs) = x (n limbs) >> places; if `up`, rounded up. */
FDP_INTERNAL void fdp_fx_shift(uint64_t *out, size_t w, const uint64_t *x, size_t n,
                               unsigned places, bool up);
FDP_INTERNAL void fdp_fx_set_nat(const fdp_fx_t *f, uint64_t *x, fdp_nat_t n);
FDP_INTERNAL void fdp_fx_set_one(const fdp_fx_t *f, uint64_t *x);                /* 1 */
FDP_INTERNAL int fdp_fx_compare(const uint64_t *x, const uint64_t *y, size_t w); /* signed */
FDP_INTERNAL int fdp_fx_sign(const uint64_t *x, size_t w);
FDP_INTERNAL fdp_nat_t fdp_fx_nat(const fdp_fx_t *f, const uint64_t *x); /* x >= 0; not a copy */

/* Operations on pairs whose ends are not negative. */
FDP_INTERNAL void fdp_fx_copy(const fdp_fx_t *f, uint64_t *out, const uint64_t *a);
FDP_INTERNAL void fdp_fx_times(const fdp_fx_t *f, uint64_t *out, const uint64_t *a,
                               const uint64_t *b);
FDP_INTERNAL void fdp_fx_over(const fdp_fx_t *f, uint64_t *out, const uint64_t *a,
                              const uint64_t *b);
FDP_INTERNAL void fdp_fx_less(const fdp_fx_t *f, uint64_t *out, const uint64_t *a); /* 1 - a */
FDP_INTERNAL void fdp_fx_add(const fdp_fx_t *f, uint64_t *out, const uint64_t *a,
                             const uint64_t *b);
/* factor * x / divisor, rounded outward; and factor * x - count, with the lower end at least 0 */
FDP_INTERNAL void fdp_fx_scale(const fdp_fx_t *f, uint64_t *out, const uint64_t *a,
                               uint64_t factor, uint64_t divisor);
FDP_INTERNAL void fdp_fx_left_over(const fdp_fx_t *f, uint64_t *out, const uint64_t *a,
                                   uint64_t factor, uint64_t count);
FDP_INTERNAL void fdp_fx_half(const fdp_fx_t *f, uint64_t *out, const uint64_t *a);
/* Sets *floor = floor(2^to x) for a number x below 1. Returns whether the pair decides it. to <=
 * 64 */
FDP_INTERNAL bool fdp_fx_floor(const fdp_fx_t *f, const uint64_t *pair, unsigned to,
                               uint64_t *floor);

/* exp(-num / den): both ends are equal to those of the reference exp_neg. */
FDP_INTERNAL void fdp_fx_exp_neg(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num,
                                 fdp_nat_t den);
/* q / (1 + q) with q = exp(-den / num): _exact.flip. */
FDP_INTERNAL void fdp_fx_flip(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den);
/* fdp_fx_log: ln(num / den) for num >= den > 0. fdp_fx_log_signed: for any two positive numbers,
 * with the ends in two's complement. */
FDP_INTERNAL void fdp_fx_log(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den);
FDP_INTERNAL void fdp_fx_log_signed(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num,
                                    fdp_nat_t den);
/* Replaces a by -a; both ends are in two's complement. */
FDP_INTERNAL void fdp_fx_negate(const fdp_fx_t *f, uint64_t *pair);
/* cos(pi/2 a 2^-nbits), 0 <= a <= 2^nbits. */
FDP_INTERNAL void fdp_fx_cos_quarter(const fdp_fx_t *f, uint64_t *out, fdp_nat_t a,
                                     unsigned nbits);
/* sqrt(2 pi): exact_tilt.root_two_pi. */
FDP_INTERNAL void fdp_fx_root_two_pi(const fdp_fx_t *f, uint64_t *out);

#endif
