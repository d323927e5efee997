/* alias.h: alias tables for integer counts and for real cuts. */
#ifndef FDP_EXACT_ALIAS_H
#define FDP_EXACT_ALIAS_H

#include "../fastdp.h"
#include "enclose.h"

#define FDP_COLUMNS 128
#define FDP_SPECIAL 0x80

/* Spreads counts over n columns of 256 units: outcome i gets count[i] units, and FDP_SPECIAL gets
 * the rest. In each step the smallest open outcome is closed if it fits into its column, else the
 * largest one; among equal ones, the first. */
FDP_INTERNAL void fdp_alias_counts(size_t n, const uint32_t *count, uint8_t *cut,
                                   uint8_t *alias);

/* Walker's table of n masses whose sum is n. Below the cut, column c gives the outcome entry[c] &
 * 255; entry[c] >> 8 is the cut in 56 bits. Returns false if the enclosures do not decide the
 * entries. */
FDP_INTERNAL bool fdp_alias_table(const fdp_fx_t *f, size_t n, const uint64_t *masses,
                                  uint64_t *entry);

/* Encloses the cuts of such a table. Overwrites `masses`. */
FDP_INTERNAL void fdp_alias_cuts(const fdp_fx_t *f, size_t n, const uint8_t *alias,
                                 uint64_t *masses, uint64_t *cuts);

/* Computes the integer counts of the first digit and what they leave over. Each count is the
 * floor of 2^15 times the probability, except for the `tails` outcomes (0, then 127). Overwrites
 * `pairs`. */
FDP_INTERNAL bool fdp_alias_first(const fdp_fx_t *f, uint64_t *pairs, unsigned tails,
                                  fdp_digits_t *law);

/* Computes, in place, the 128 masses (2^15 pairs - count) / (what all counts leave over). */
FDP_INTERNAL void fdp_alias_masses(const fdp_fx_t *f, uint64_t *pairs, const uint32_t *count);

/* Fills the kernels' columns for the first digit: outcome v + 64 stands for the value v. */
FDP_INTERNAL void fdp_alias_values(const uint32_t *count, fdp_digits_t *law);

#endif
