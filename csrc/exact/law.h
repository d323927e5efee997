/* law.h: the kernels' tables of a law, from its exact parameter.
 *
 * But for a wide Gaussian's, every entry is a floor of a real number or the outcome of
 * comparisons of real numbers: every precision that decides it gives the same entry. An
 * attempt that leaves something open is made again with twice the bits.
 * docs/proofs/resolver.md, section 6.
 */
#ifndef FDP_EXACT_LAW_H
#define FDP_EXACT_LAW_H

#include "alias.h"

#define FDP_LAW_BITS 8192 /* of precision, at most */

/* Fills what prepare does not derive. FDP_ERR_PARAMETER: outside the law's range;
 * FDP_ERR_MEMORY: the arena is too small; FDP_ERR_RESOLVER: FDP_LAW_BITS do not decide.
 * requires: num > 0, den > 0. */
typedef fdp_status_t (*fdp_law_fn)(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                   fdp_digits_t *law);
FDP_INTERNAL fdp_status_t fdp_law_laplace(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                          fdp_digits_t *law);
FDP_INTERNAL fdp_status_t fdp_law_gaussian(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                           fdp_digits_t *law);
/* A Gaussian of sigma > 8.7, from sigma and sigma^2, with `shift` and `low` filled. */
FDP_INTERNAL fdp_status_t fdp_law_tilted(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den,
                                         fdp_nat_t num2, fdp_nat_t den2, fdp_digits_t *law);

#endif
