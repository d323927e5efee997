/* alias.h: alias tables, of integers and of real cuts. */
#ifndef FDP_EXACT_ALIAS_H
#define FDP_EXACT_ALIAS_H

#include "../fastdp.h"
#include "enclose.h"

#define FDP_COLUMNS 128
#define FDP_SPECIAL 0x80

/* Spreads counts over n columns of 256 units: outcome i has count[i] of them and
 * FDP_SPECIAL what is left. The least open outcome is closed if it fits, else the largest
 * one; the first of equals. */
FDP_INTERNAL void fdp_alias_counts(size_t n, const uint32_t *count, uint8_t *cut,
                                   uint8_t *alias);

/* Walker's table of n masses whose sum is n: column c is entry[c] & 255 below the cut of
 * which entry[c] >> 8 are 56 bits. False: the enclosures do not decide. */
FDP_INTERNAL bool fdp_alias_table(const fdp_fx_t *f, size_t n, const uint64_t *masses,
                                  uint64_t *entry);

/* Encloses the cuts of such a table; `masses` are used up. */
FDP_INTERNAL void fdp_alias_cuts(const fdp_fx_t *f, size_t n, const uint8_t *alias,
                                 uint64_t *masses, uint64_t *cuts);

/* The first digit: its integers, which are floors of 2^15 times the law but for `tails`
 * outcomes (0, then 127), and what they leave. `pairs` are used up. */
FDP_INTERNAL bool fdp_alias_first(const fdp_fx_t *f, uint64_t *pairs, unsigned tails,
                                  fdp_digits_t *law);

/* 2^15 pairs - count over what all counts leave: 128 masses, in place. */
FDP_INTERNAL void fdp_alias_masses(const fdp_fx_t *f, uint64_t *pairs, const uint32_t *count);

/* The kernels' columns of the first digit: outcome v + 64 is the value v. */
FDP_INTERNAL void fdp_alias_values(const uint32_t *count, fdp_digits_t *law);

#endif
