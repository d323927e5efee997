/* law.h: computes the kernels' tables of a law from its exact parameter. Except for a wide
 * Gaussian, every entry is the floor of a real number or the outcome of comparisons of real
 * numbers. So every precision that decides an entry gives the same entry. If an attempt leaves an
 * entry undecided, the next one uses twice the bits. docs/proofs/resolver.md, section 6. */
#ifndef FDP_EXACT_LAW_H
#define FDP_EXACT_LAW_H

#include "alias.h"

#define FDP_LAW_BITS 8192 /* largest precision, in bits */

/* Fills the fields that prepare does not derive. FDP_ERR_PARAMETER: the parameter is outside the
 * law's range; FDP_ERR_MEMORY: the arena is too small; FDP_ERR_RESOLVER: FDP_LAW_BITS bits do not
 * decide. requires: num > 0, den > 0. */
typedef fdp_status_t (*fdp_law_fn)(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                   fdp_digits_t *law);
FDP_INTERNAL fdp_status_t fdp_law_laplace(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                          fdp_digits_t *law);
FDP_INTERNAL fdp_status_t fdp_law_gaussian(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                           fdp_digits_t *law);

/* 2^53 P(|X| <= bound) for a Laplace law, rounded to nearest, at least 1. Same statuses as for its
 * tables; also FDP_ERR_PARAMETER for a bound below scale / 100. */
FDP_INTERNAL fdp_status_t fdp_laplace_within(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                             uint64_t bound, uint64_t *within);

/* A sigma > 8.7 and its square, and the shift and low bits of its digits. */
typedef struct {
    fdp_nat_t num, den, num2, den2;
    uint32_t shift, low, slope;
} fdp_sigma_t;

/* Also computes `slope`. */
FDP_INTERNAL fdp_status_t fdp_law_tilted(fdp_arena_t *a, const fdp_sigma_t *sigma,
                                         fdp_digits_t *law);

/* The table of patterns, 0 <= num <= den; and the rate of a response whose categories and truth are
 * set. */
FDP_INTERNAL fdp_status_t fdp_law_patterns(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                           fdp_bernoulli_t *law);
FDP_INTERNAL fdp_status_t fdp_law_response(fdp_arena_t *a, fdp_response_t *law);

/* ---- enclosures that tables and the resolver share ------------------------------ */

/* The law of the first digit, which has 128 outcomes; and of the second digit, which has n. */
FDP_INTERNAL void fdp_laplace_first(const fdp_fx_t *f, const uint64_t *theta,
                                    const uint64_t *q, uint64_t *out);
FDP_INTERNAL void fdp_laplace_second(const fdp_fx_t *f, const uint64_t *q, size_t n,
                                     uint64_t *out);
FDP_INTERNAL void fdp_laplace_corrections(const fdp_fx_t *f, const uint64_t *ladder,
                                          size_t low, uint64_t *one, uint64_t *some,
                                          uint64_t *none);
FDP_INTERNAL void fdp_laplace_tops(const fdp_fx_t *f, size_t low, const uint64_t *one,
                                   const uint64_t *some, uint32_t units, uint64_t *out);
FDP_INTERNAL void fdp_gaussian_first(const fdp_fx_t *f, fdp_nat_t num2, fdp_nat_t den2,
                                     uint64_t *law);
FDP_INTERNAL void fdp_tilted_unit(const fdp_fx_t *f, const fdp_sigma_t *t, uint64_t *out);
FDP_INTERNAL uint32_t fdp_tilted_share(const fdp_sigma_t *t, uint32_t size, uint32_t digit);
FDP_INTERNAL uint64_t fdp_tilted_units(fdp_arena_t *a, const fdp_sigma_t *t,
                                       const uint64_t *unit, const uint64_t *step, bool wide,
                                       uint32_t *count, uint32_t *choice);

/* ---- the resolver ---------------------------------------------------------------- */

/* Writes extension block `block` of the current trial. */
typedef void (*fdp_block_fn)(const void *context, uint32_t block, uint8_t out[16]);

/* Settles a pending trial. Returns 1 and sets the value; or 0 (rejected); or -1: the arena is too
 * small (a->failed), or 8,192 bits of a uniform do not decide. `law` are the tables of the
 * parameter num / den. The caller must wipe the arena. */
FDP_INTERNAL int fdp_law_settle(fdp_arena_t *a, const fdp_digits_t *law, fdp_nat_t num,
                                fdp_nat_t den, const uint64_t *words, fdp_block_fn block,
                                const void *context, int64_t value[2]);

#endif
