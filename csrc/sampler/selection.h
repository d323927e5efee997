/* selection.h: the vector kernels of private selection, one table row per level. They work on
 * blocks of at most FDP_BLOCK candidates; `n` is a multiple of FDP_LANES. They compute gaps of
 * scores to a reference, in nats; weights exp(-gap) and their sums; the noise of a race; and the
 * two best keys of a block. The cost is fixed, and no branch or address depends on a score, a
 * weight or a word. Bounds: docs/proofs/selection.md. */
#ifndef FDP_SAMPLER_SELECTION_H
#define FDP_SAMPLER_SELECTION_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "../base/choose.h"
#include "../base/cpu.h"

#define FDP_BLOCK 512 /* candidates of a block, children of a node */
#define FDP_LANES 16  /* candidate i of a block is in lane i mod 16 */

/* A gap beyond this has weight 0: e^-700 is far below every error bound. */
#define FDP_GAP_MOST 700.0
/* A larger gap, even one beyond the doubles, is stored as this value: only lost candidates have an
 * infinite gap. */
#define FDP_GAP_FAR 1e300

#define FDP_POWERS 8 /* exponentials of candidates that are taken together */
#define FDP_NODE 128 /* candidates whose integer bounds are summed together */

/* Coefficients of an upper bound of 2^(f - 1) for f in (0, 1], in multiples of 2^-24 that are
 * counted from 0. The bound is too large by 2^-25.6 to 2^-21.9. It is (C0 + f (C1 + f (C2 + f (C3 +
 * f (C4 + f C5))))) 2^-51; all products but the last are shifted by 24, to units of 2^-27. */
#define FDP_PROPOSAL_C0 UINT64_C(0x4000009f6ea98)
#define FDP_PROPOSAL_C1 UINT64_C(0x2c5c9f1)
#define FDP_PROPOSAL_C2 UINT64_C(0xf5ead6)
#define FDP_PROPOSAL_C3 UINT64_C(0x392a89)
#define FDP_PROPOSAL_C4 UINT64_C(0x93480)
#define FDP_PROPOSAL_C5 UINT64_C(0x1ec32)
#define FDP_PROPOSAL_MOST 53.0 /* at this gap or more, the bound is 1 */
#define FDP_PROPOSAL_FAR 0x1p16 /* in bits: no base weight makes up for such a gap */

/* A score as a kernel takes it: a double or an int64. */
typedef union {
    double f64;
    int64_t i64;
} fdp_score_t;

/* What integer bounds depend on, in addition to a score. */
typedef struct {
    fdp_score_t top; /* the largest score                                       */
    double rate;     /* c log2 e, rounded twice                                 */
    double most;     /* FDP_PROPOSAL_MOST; 0 if all scores are lost, since all candidates are
                      * then equal */
    double place;    /* with base weights: the least integer that is not below any exponent - gap
                      * rate, or that plus 1 */
    uint64_t mantissa; /* mask of the bits of base weights that are used: none if all are lost */
} fdp_proposal_t;

/* Candidates: scores; base weights as doubles (NULL if all are 1), to be multiplied by 2^exponent
 * unless that is NULL. */
typedef struct {
    const void *score;
    const double *weight, *exponent;
} fdp_row_t;

/* A candidate of a node, and the distance of the point from the start of its weight. */
typedef struct {
    uint64_t place, bound, rest, score;
} fdp_found_t;

/* A flip is decided if its word is at least this far from its probability. */
#define FDP_FLIP_CLOSE 0x1p-49

/* Words below this have a cell that is too wide, and are marked by infinite noise. If the other end
 * of the noise is wide, too, so are words above the complement. */
#define FDP_WORD_LEAST UINT64_C(16)

/* pi / 2; and Taylor polynomials of cos t and sin t / t in t^2, for t <= pi / 4. Their truncation
 * errors are below 2^-58 and 2^-62. */
#define FDP_HALF_PI 0x1.921fb54442d18p+0
#define FDP_COS_EVAL(s)                                                         \
    (1.0 + (s) * (-1.0 / 2 + (s) * (1.0 / 24 + (s) * (-1.0 / 720 + (s) *        \
    (1.0 / 40320 + (s) * (-1.0 / 3628800 + (s) * (1.0 / 479001600 + (s) *       \
    (-1.0 / 87178291200 + (s) * (1.0 / 20922789888000)))))))))
#define FDP_SIN_EVAL(s)                                                         \
    (1.0 + (s) * (-1.0 / 6 + (s) * (1.0 / 120 + (s) * (-1.0 / 5040 + (s) *      \
    (1.0 / 362880 + (s) * (-1.0 / 39916800 + (s) * (1.0 / 6227020800 + (s) *    \
    (-1.0 / 1307674368000 + (s) * (1.0 / 355687428096000)))))))))

/* The largest keys of a race so far, for each lane. */
typedef struct {
    double best[FDP_LANES];
    double second[FDP_LANES];
    int64_t index[FDP_LANES]; /* row index of the best */
} fdp_leaders_t;

typedef struct {
    /* For doubles or integers (the index): the largest score that is not lost; -infinity or
     * INT64_MIN if there is none. Lost are the scores whose `lost` is set (all bits; NULL: none),
     * NaN and -infinity. +infinity counts as the largest double. */
    fdp_score_t (*largest[2])(const void *score, const uint64_t *lost, size_t n);

    /* gap = rate (largest - score), infinite if lost; with `all` (a mask) every gap is 0. */
    void (*gaps[2])(const void *score, const uint64_t *lost, size_t n,
                    fdp_score_t largest, double rate, uint64_t all, double *gap);

    /* Splits doubles >= 0, times 2^-top, into exponents and mantissas, which are 0 or in [1/2, 1)
     * and replace the doubles. */
    void (*split)(double *weight, size_t n, double top, double *exponent);
    /* weight = exp(-gap), and the sums of the lanes. */
    void (*weigh)(const double *gap, size_t n, double *weight, double *lane);
    /* power = 2^51 e^-nats 2^-bits, for FDP_POWERS numbers, nats in [0, 2^16]. */
    void (*power51)(const double *nats, const double *bits, double *power);
    /* weight = factor * mantissa, factor = exp(-gap) 2^(exponent - top). Returns top, chosen so
     * that the largest factors are about 1. A mantissa of 0 means lost. */
    double (*weigh_scaled)(const double *gap, const double *mantissa,
                           const double *exponent, size_t n, double *factor,
                           double *weight, double *lane);

    /* Integer bounds: at least 2^51 2^-(rate (top - score)), or with base weights (the second
     * index) at least 2^51 2^-(rate (top - score) + place) weight; 1 for a lost candidate. The
     * first index is doubles or integers. `totals` writes their sums over each of several nodes.
     * `bounds` writes those of n candidates, 0 from number `count` on; it also writes where each
     * lane starts if the lanes are concatenated, and returns the total. */
    void (*totals[2][2])(const fdp_row_t *from, size_t nodes, const fdp_proposal_t *law,
                         uint64_t *total);
    uint64_t (*bounds[2][2])(const fdp_row_t *from, size_t n, size_t count,
                             const fdp_proposal_t *law, uint64_t *weight,
                             uint64_t *start);
    /* The largest value of exponent - rate (top - score). */
    double (*place[2])(const fdp_row_t *from, size_t n, const fdp_proposal_t *law);
    /* From the bits of n weights, without signs: the largest; the least above 0, minus 1, or
     * INT64_MAX; and a negative number if a weight is negative. */
    void (*range)(const double *weight, size_t n, int64_t found[3]);
    /* Writes all ones for each weight that is 0. Returns whether all weights are. */
    uint64_t (*mark)(const double *weight, size_t n, uint64_t *lost);
    /* Finds which of n weights contains a point below the total, if the weights are concatenated
     * in the order of the lanes. */
    void (*find)(const uint64_t *score, const uint64_t *weight, size_t n,
                 const uint64_t *start, uint64_t point, fdp_found_t *found);
    /* to[j] = node index[j], or zeros if there is no such node. All nodes are read. */
    void (*fetch_two)(const uint64_t *from, size_t nodes, const uint64_t index[2],
                      uint64_t (*to)[FDP_NODE]);

    /* Sets the bits of whether word 2^-64 < e^-(rate gap), where gaps are cut off at `most`, and of
     * whether doubles leave this open. Bits beyond the n-th are meaningless. */
    void (*flips[2])(const fdp_row_t *from, const uint64_t *word, size_t n,
                     const fdp_proposal_t *law, uint64_t *kept, uint64_t *open);

    /* to[i] |= from[i] & mask */
    void (*blend)(const uint64_t *from, size_t n, uint64_t mask, uint64_t *to);
    /* Entry `lane` of each of `rows` rows of FDP_LANES entries; all of them are read. */
    void (*column)(const void *from, size_t rows, size_t lane, void *to);

    /* The upper end of the noise in each word's cell: -ln(-ln(1 - U)), Laplace of scale 1, Gaussian
     * of standard deviation 1. */
    void (*noise_gumbel)(const uint64_t *word, size_t n, double *noise);
    void (*noise_laplace)(const uint64_t *word, size_t n, double *noise);
    void (*noise_gaussian)(const uint64_t *word, const uint64_t *angle, size_t n,
                           double *noise);

    /* noise += ln (mantissa 2^exponent) */
    void (*add_log)(const double *mantissa, const double *exponent, size_t n,
                    double *noise);
    /* Adds the keys noise - gap of candidates first, first + 1, ... of a row. */
    void (*lead)(const double *noise, const double *gap, size_t n, int64_t first,
                 fdp_leaders_t *leaders);
} fdp_selection_kernels_t;

#define FDP_ROW(name, bit) extern const fdp_selection_kernels_t fdp_selection_##name;
FDP_LEVELS_HERE(FDP_ROW)
#undef FDP_ROW

/* The row of the current level. */
const fdp_selection_kernels_t *fdp_selection_kernels(void);

#endif
