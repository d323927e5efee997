/* nat.h: natural numbers in limbs of 64 bits, in memory that the caller gives. A number is a
 * pointer and a length; no function allocates. An arena hands out memory from one block and takes
 * it back in reverse order. If a request does not fit, `failed` is set and every later request
 * fails too. Results are then empty numbers, and all loops still end; the caller must check
 * `failed` before it uses a result. Time and addresses depend on the numbers (timing T0). */
#ifndef FDP_EXACT_NAT_H
#define FDP_EXACT_NAT_H

#include "../base/mul128.h"

typedef struct {
    uint64_t *base;
    size_t size, used, most; /* limbs; most: the largest use so far */
    bool failed, vague;      /* vague: an enclosure was too wide to continue */
} fdp_arena_t;

typedef struct {
    uint64_t *d; /* lowest first, no zero at the top */
    size_t n;
} fdp_nat_t;

/* Limbs for one number of at most `n` limbs. */
FDP_INTERNAL uint64_t *fdp_arena_take(fdp_arena_t *a, size_t n);
static inline size_t fdp_arena_mark(const fdp_arena_t *a) { return a->used; }
static inline void fdp_arena_back(fdp_arena_t *a, size_t mark) { a->used = mark; }

FDP_INTERNAL size_t fdp_nat_trim(const uint64_t *d, size_t n);
FDP_INTERNAL unsigned fdp_nat_bits(fdp_nat_t x);
FDP_INTERNAL int fdp_nat_compare(fdp_nat_t x, fdp_nat_t y);
FDP_INTERNAL fdp_nat_t fdp_nat_of(fdp_arena_t *a, uint64_t x);
FDP_INTERNAL fdp_nat_t fdp_nat_copy(fdp_arena_t *a, fdp_nat_t x);
FDP_INTERNAL fdp_nat_t fdp_nat_add(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y);
FDP_INTERNAL fdp_nat_t fdp_nat_sub(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y); /* x >= y */
FDP_INTERNAL fdp_nat_t fdp_nat_mul(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y);
FDP_INTERNAL fdp_nat_t fdp_nat_left(fdp_arena_t *a, fdp_nat_t x, unsigned places);
FDP_INTERNAL fdp_nat_t fdp_nat_right(fdp_arena_t *a, fdp_nat_t x, unsigned places);
/* floor(x / y) for y > 0; *exact says whether the remainder is 0 (exact may be NULL). */
FDP_INTERNAL fdp_nat_t fdp_nat_div(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y, bool *exact);
FDP_INTERNAL fdp_nat_t fdp_nat_div_up(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y);
FDP_INTERNAL fdp_nat_t fdp_nat_div_limb(fdp_arena_t *a, fdp_nat_t x, uint64_t y,
                                        uint64_t *rest);
FDP_INTERNAL fdp_nat_t fdp_nat_root(fdp_arena_t *a, fdp_nat_t x); /* floor of the square root */
/* x / y rounded to nearest, ties to even. requires: x > 0, y > 0, the quotient is a normal
 * double. */
FDP_INTERNAL double fdp_nat_quotient(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y);
/* An approximation of ln x, x > 0. */
FDP_INTERNAL double fdp_nat_log(fdp_nat_t x);

/* On plain limbs: x * y into 2 n (or n + m) limbs; shifts and short division. */
FDP_INTERNAL void fdp_limbs_mul(uint64_t *out, const uint64_t *x, size_t n, const uint64_t *y,
                                size_t m);
FDP_INTERNAL uint64_t fdp_limbs_div_limb(uint64_t *out, const uint64_t *x, size_t n,
                                         uint64_t y);
FDP_INTERNAL uint64_t fdp_limbs_add(uint64_t *out, const uint64_t *x, const uint64_t *y,
                                    size_t n);
FDP_INTERNAL uint64_t fdp_limbs_sub(uint64_t *out, const uint64_t *x, const uint64_t *y,
                                    size_t n);

#endif
