/* choice.h: choices that known bits leave open, by the exact scores and weights of a row.
 *
 * Scores count at their exact values, +infinity as the largest double; NaN, -infinity and
 * what has no weight is lost. docs/proofs/selection.md, sections 2 and 3.
 */
#ifndef FDP_EXACT_CHOICE_H
#define FDP_EXACT_CHOICE_H

#include "resolver.h"

/* Of the tree that inversion passes: children of a node, and lanes of a node. */
#define FDP_TREE_BLOCK 512
#define FDP_TREE_LANES 16

/* The candidates of one row. */
typedef struct {
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const uint64_t *score;             /* bits */
    const double *mantissa, *exponent; /* as in fdp_candidates_t */
    const fdp_ratio_t *weight;         /* the same */
    const uint64_t *removed;           /* bitmap of those that count no more; NULL: none */
} fdp_choice_t;

FDP_INTERNAL fdp_choice_t fdp_choice_of(const fdp_selection_t *law,
                                        const fdp_candidates_t *from, size_t row,
                                        const uint64_t *removed);
FDP_INTERNAL bool fdp_choice_removed(const fdp_choice_t *c, size_t i);
/* Whether candidate i counts; its score, in the bits of its type. */
FDP_INTERNAL bool fdp_choice_score(const fdp_choice_t *c, size_t i, uint64_t *score);
/* The largest score that counts; false: none does. */
FDP_INTERNAL bool fdp_choice_most(const fdp_choice_t *c, uint64_t *most);
/* Size of a double: part * 2^place, place >= -1074. */
FDP_INTERNAL uint64_t fdp_double_part(uint64_t bits, int *place);

/* |a - b| c as num / den; whether a < b, or either way where they are equal. */
typedef struct {
    uint64_t bits;
    fdp_dtype_t type;
} fdp_any_score_t;
FDP_INTERNAL bool fdp_choice_gap(fdp_arena_t *arena, const fdp_selection_t *law,
                                 fdp_any_score_t a, fdp_any_score_t b, fdp_nat_t *num,
                                 fdp_nat_t *den);
/* A weight in units of 2^place as num / den; the place where the largest is about 1. */
FDP_INTERNAL void fdp_choice_weight(fdp_arena_t *a, const fdp_choice_t *c, size_t i,
                                    int64_t place, fdp_nat_t *num, fdp_nat_t *den);
static inline int64_t fdp_choice_top(const fdp_choice_t *c)
{
    return c->exponent == NULL ? c->from->weight_top : 0;
}

/* V < 2^51 e^(-c gap) weight / bound for a candidate, the weight in units of 2^place;
 * `even`: no candidate counts, gaps are 0 and weights 1/2, or 1 without weights. */
FDP_INTERNAL bool fdp_choice_accepts(fdp_settle_t *w, const fdp_choice_t *c, bool even,
                                     uint64_t most, size_t i, uint64_t bound, int place,
                                     fdp_uniform_t *v);
/* The candidate that U falls on among the cumulative weights, in the order of the tree. */
FDP_INTERNAL size_t fdp_choice_invert(fdp_settle_t *w, const fdp_choice_t *c,
                                      fdp_uniform_t *u);

/* For fdp_resolve. A choice by inversion: the word of U, its further bits in blocks 0, 1,
 * ... A flip: its word and the candidate; 0 or 1. One of `words[1]` alike: its word. */
FDP_INTERNAL int fdp_settle_inverse(fdp_settle_t *w, const void *choice,
                                    const uint64_t *words, int64_t *value);
FDP_INTERNAL int fdp_settle_flip(fdp_settle_t *w, const void *choice, const uint64_t *words,
                                 int64_t *value);
FDP_INTERNAL int fdp_settle_even(fdp_settle_t *w, const void *unused, const uint64_t *words,
                                 int64_t *value);

/* Two candidates of a race, what the block function takes for each of their reals, and
 * their words. */
typedef struct {
    const fdp_choice_t *choice[2];
    size_t index[2];
    const void *real[2][2];
    uint64_t word[2][2];
} fdp_duel_t;

/* Whether the first of two is ahead, 0 or 1: the key is noise - gap + ln weight. What is
 * lost is behind what counts, and its keys are noise alone among its like. */
FDP_INTERNAL int fdp_settle_duel(fdp_settle_t *w, const void *duel, const uint64_t *words,
                                 int64_t *value);

#endif
