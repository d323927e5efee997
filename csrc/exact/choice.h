/* choice.h: makes the choices that known bits leave open, from the exact scores and weights of a
 * row. A score has its exact value; +infinity counts as the largest double. A candidate is lost if
 * its score is NaN or -infinity or its weight is 0. docs/proofs/selection.md, sections 2 and 3. */
#ifndef FDP_EXACT_CHOICE_H
#define FDP_EXACT_CHOICE_H

#include "resolver.h"

/* The tree of inversion: children of a node, and lanes of a node. */
#define FDP_TREE_BLOCK 512
#define FDP_TREE_LANES 16

/* The candidates of one row. */
typedef struct {
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const uint64_t *score;             /* bits */
    const double *mantissa, *exponent; /* as in fdp_candidates_t */
    const fdp_ratio_t *weight;         /* as in fdp_candidates_t */
    const uint64_t *removed;           /* bitmap of the candidates already taken, or NULL */
} fdp_choice_t;

FDP_INTERNAL fdp_choice_t fdp_choice_of(const fdp_selection_t *law,
                                        const fdp_candidates_t *from, size_t row,
                                        const uint64_t *removed);
FDP_INTERNAL bool fdp_choice_removed(const fdp_choice_t *c, size_t i);
/* Returns whether candidate i counts. *score gets the bits of its score, in the type of the
 * scores. */
FDP_INTERNAL bool fdp_choice_score(const fdp_choice_t *c, size_t i, uint64_t *score);
/* Sets *most to the largest score that counts. Returns false if none counts. */
FDP_INTERNAL bool fdp_choice_most(const fdp_choice_t *c, uint64_t *most);
/* The magnitude of a double: part * 2^place, place >= -1074. */
FDP_INTERNAL uint64_t fdp_double_part(uint64_t bits, int *place);

/* Computes |a - b| c as num / den. Returns whether a < b (either result if they are equal). */
typedef struct {
    uint64_t bits;
    fdp_dtype_t type;
} fdp_any_score_t;
FDP_INTERNAL bool fdp_choice_gap(fdp_arena_t *arena, const fdp_selection_t *law,
                                 fdp_any_score_t a, fdp_any_score_t b, fdp_nat_t *num,
                                 fdp_nat_t *den);
/* A weight in units of 2^place, as num / den; and the place at which the largest weight is about
 * 1. */
FDP_INTERNAL void fdp_choice_weight(fdp_arena_t *a, const fdp_choice_t *c, size_t i,
                                    int64_t place, fdp_nat_t *num, fdp_nat_t *den);
static inline int64_t fdp_choice_top(const fdp_choice_t *c)
{
    return c->exponent == NULL ? c->from->weight_top : 0;
}

/* Returns whether V < 2^51 e^(-c gap) weight / bound for a candidate; the weight is in units of
 * 2^place. If `even`, no candidate counts: gaps are then 0, and weights are 1/2, or 1 if there are
 * no weights. */
FDP_INTERNAL bool fdp_choice_accepts(fdp_settle_t *w, const fdp_choice_t *c, bool even,
                                     uint64_t most, size_t i, uint64_t bound, int place,
                                     fdp_uniform_t *v);
/* The candidate that U falls on among the cumulative weights, in the order of the tree. */
FDP_INTERNAL size_t fdp_choice_invert(fdp_settle_t *w, const fdp_choice_t *c,
                                      fdp_uniform_t *u);

/* Callbacks for fdp_resolve. A choice by inversion takes the word of U; U's further bits are in
 * blocks 0, 1, ... A flip takes its word and the candidate, and returns 0 or 1. A uniform choice
 * among words[1] candidates takes its word. */
FDP_INTERNAL int fdp_settle_inverse(fdp_settle_t *w, const void *choice,
                                    const uint64_t *words, int64_t *value);
FDP_INTERNAL int fdp_settle_flip(fdp_settle_t *w, const void *choice, const uint64_t *words,
                                 int64_t *value);
FDP_INTERNAL int fdp_settle_even(fdp_settle_t *w, const void *unused, const uint64_t *words,
                                 int64_t *value);

/* Two candidates of a race: their words, and for each of their reals the context of the block
 * function. */
typedef struct {
    const fdp_choice_t *choice[2];
    size_t index[2];
    const void *real[2][2];
    uint64_t word[2][2];
} fdp_duel_t;

/* Returns 1 if the first of two candidates is ahead, else 0. The key is noise - gap + ln weight. A
 * lost candidate is behind every other one; among lost candidates the key is the noise alone. */
FDP_INTERNAL int fdp_settle_duel(fdp_settle_t *w, const void *duel, const uint64_t *words,
                                 int64_t *value);

#endif
