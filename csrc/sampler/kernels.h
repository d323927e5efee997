/* kernels.h: the vector kernels, one table row per instruction-set level.
 *
 * Kernels have fixed cost and no branch or address that depends on a word.
 */
#ifndef FDP_SAMPLER_KERNELS_H
#define FDP_SAMPLER_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/cpu.h"

#define FDP_ROWS 4         /* most rows of a clipped sum that are added together */
#define FDP_RANK_MASKS 128 /* most masks (of 64 lanes each) in which ranks are searched */

/* A report of local hashing, prepared for comparison with categories v: it supports v if slope v +
 * offset < limit, as signed numbers modulo 2^32. */
typedef struct {
    uint32_t slope, offset;
    int32_t limit;
} fdp_support_t;

/* A report under a seeded hash function, prepared for comparison with digests: it supports a digest
 * if its hash is below width; `b` was lowered by the first hash of the bucket. */
typedef struct {
    fdp_function_t words;
    uint64_t width;
} fdp_seeded_t;

/* A rate c in units of 2^-s, for words of b bits. rate = floor(2^s c); scale = 2^(b - s), or s if b
 * = 64; limit = the smallest fraction that may carry. docs/proofs/local_randomizers.md */
typedef struct {
    uint64_t rate, scale, limit;
} fdp_rate_t;

/* A k-ary response, as its kernels take it. `own` is for labels inside the domain; `fair` is for
 * others, if `other` is negative. For relabelings only fair.limit = 2^b mod k is used. */
typedef struct {
    uint32_t categories;
    int64_t other;
    fdp_rate_t own, fair;
} fdp_step_t;

/* Lanes of a response that their words leave open, and idle lanes (used = 0). In: word, more
 * (further bits), label, report. Out: report, now from all bits; open, not 0 if even these do not
 * decide. A pace is a rate of 2^shift. */
#define FDP_OPEN_MOST 128 /* 112 rounded up to whole blocks */
typedef struct {
    FDP_ALIGNED(64) uint64_t word[FDP_OPEN_MOST];
    uint64_t more[FDP_OPEN_MOST], label[FDP_OPEN_MOST], report[FDP_OPEN_MOST];
    uint64_t used[FDP_OPEN_MOST], open[FDP_OPEN_MOST];
} fdp_unsettled_t;
typedef struct {
    uint64_t high, low, shift;
} fdp_pace_t;

typedef struct {
    /* out = x + noise, saturated; x may equal out. */
    void (*add_wide)(const int64_t *x, const int64_t *noise, int64_t *out, size_t n);
    /* out = round(x to grid) + noise * step, |noise| < 2^51 */
    void (*add_grid)(const fdp_grid_t *grid, const double *x, const int64_t *noise,
                     double *out, size_t n);

    /* Computes patterns of eight bits for blocks of 64 columns and 64 first bytes of U, and the
     * mask of ties. Then settles 16 or 64 ties by 56 more bits, and returns which stay open. */
    void (*flip_patterns)(const fdp_bernoulli_t *law, const uint8_t *word,
                          uint8_t *pattern, uint64_t *tie, size_t blocks);
    uint64_t (*flip_settle)(const fdp_bernoulli_t *law, const uint8_t *column,
                            const uint8_t *more, uint8_t *pattern, size_t n);
    /* The places of lanes by rank, from rank `first` on: ranks_body.inc.h. */
    bool (*ranks)(const uint64_t *mask, size_t masks, size_t first, const uint16_t *idle,
                  uint16_t *place, uint64_t *used, size_t steps);
    void (*xor_bytes)(const uint8_t *x, const uint8_t *flip, uint8_t *out, size_t n);
    /* Flips 8 n answers, as bytes, in place, by 8 n packed flips and fair bits; n is a multiple of
     * 8. */
    void (*flip_bytes)(const uint8_t *flip, const uint8_t *fair, int other, uint64_t *x,
                       size_t n);

    /* Computes the reports of n labels of the caller's type, from x[at] on; any number >= the
     * categories is outside. Sets the bits of lanes that the words leave open; their report is
     * meaningless. `report` may be the memory where x begins. Works on whole blocks of 64 lanes;
     * lanes beyond the last label have label 0. `label` gets the labels in the lanes' type.
     * `relabel` keeps labels that are inside; its open lanes are those whose word gives nothing,
     * whatever the label. The last kernels convert reports to the caller's type. */
    void (*respond16)(const fdp_step_t *law, const void *x, fdp_dtype_t type, size_t at,
                      size_t n, uint8_t *label, const uint16_t *word, uint8_t *report,
                      uint64_t *special);
    void (*respond32)(const fdp_step_t *law, const void *x, fdp_dtype_t type, size_t at,
                      size_t n, uint32_t *label, const uint32_t *word, uint32_t *report,
                      uint64_t *special);
    void (*respond64)(const fdp_step_t *law, const void *x, fdp_dtype_t type, size_t at,
                      size_t n, uint32_t *label, const uint64_t *word, uint32_t *report,
                      uint64_t *special);
    /* Settles n open lanes of 16-bit words (n a multiple of 16) by 48 bits of each `more`. pace[0]
     * is for labels inside, pace[1] for labels that are replaced by uniform ones. */
    uint64_t (*settle16)(const fdp_step_t *law, const fdp_pace_t pace[2], fdp_unsettled_t *lanes,
                         size_t n);
    void (*relabel16)(const fdp_step_t *law, const void *x, fdp_dtype_t type, size_t at,
                      size_t n, uint16_t *label, const uint16_t *word, uint16_t *report,
                      uint64_t *special);
    void (*relabel32)(const fdp_step_t *law, const void *x, fdp_dtype_t type, size_t at,
                      size_t n, uint32_t *label, const uint32_t *word, uint32_t *report,
                      uint64_t *special);
    void (*reports8)(const uint8_t *report, void *out, fdp_dtype_t type, size_t at,
                     size_t n);
    void (*reports16)(const uint16_t *report, void *out, fdp_dtype_t type, size_t at,
                      size_t n);
    void (*reports32)(const uint32_t *report, void *out, fdp_dtype_t type, size_t at,
                      size_t n);
    void (*hashed)(const uint64_t *seed, const uint32_t *label, const uint32_t *move,
                   uint32_t buckets, unsigned bits, bool far, fdp_hashed_t *out, size_t n);
    void (*hadamard16)(const uint16_t *label, const uint8_t *bits, uint16_t mask,
                       const uint16_t *word, uint16_t *code, size_t n);
    void (*hadamard32)(const uint32_t *label, const uint8_t *bits, uint32_t mask,
                       const uint32_t *word, uint32_t *code, size_t n);

    /* Computes codes of numbers. Returns not 0 if the caller must set some of them:
     * number_body.inc.h. */
    uint64_t (*numbers)(const fdp_number_t *law, const double *x, const uint64_t *u,
                        const uint32_t *r, uint8_t *code, size_t n);

    /* Sets of eight users among at most 128 categories, or NULL: see subsets_avx512.inc.h. */
    size_t (*subsets8)(const fdp_subsets_t *law, const uint32_t *word, const uint32_t *label,
                       uint64_t *set);

    /* Counts public reports; n is a multiple of 8 (support4). */
    void (*support4)(const fdp_support_t user[4], uint32_t start, uint32_t *count,
                     size_t n);
    void (*columns16)(const uint8_t *row, size_t stride, uint8_t *plane, size_t n);
    void (*columns_add)(const uint8_t *plane, size_t n, int64_t *count, size_t columns);
    void (*butterflies)(uint64_t *a, size_t n, size_t half);
    void (*sketch_row)(const fdp_function_t *words, uint32_t shift, const int64_t *table,
                       const uint64_t *x, int64_t *sum, size_t n);
    void (*seeded4)(const fdp_seeded_t user[4], const uint64_t *x, int64_t *count,
                    size_t n);

    /* Counts without bias, and their standard errors: see fdp_estimate_counts. */
    void (*estimate)(const fdp_unbiased_t *law, const int64_t *supporters, double *count,
                     double *error, size_t n);

    /* out = mass (e^x - 1), x <= 0: gather.c. */
    void (*fall)(const double *x, const double *mass, double *out, size_t n);

    /* Rows of a clipped sum, and values of a column: see rows_body.inc.h, column_body.inc.h. */
    double (*rows_measure)(const void *x, int single, int squares, size_t n);
    void (*rows_round)(const double *y, double r, int nearest, int32_t *z, size_t n);
    void (*rows_add)(const void *const *x, int single, const double *r, const int *nearest,
                     int squares, size_t rows, int64_t *total, double *sum, size_t n);
    void (*rows_apart)(const void *x, int single, size_t d, double *y, size_t stride,
                       size_t n);
    void (*rows_measure_many)(const double *y, int squares, int single, size_t d,
                              size_t stride, double *measure, size_t n);
    void (*rows_round_many)(const double *y, const double *factor, double scale,
                            int squares, size_t d, size_t stride, int32_t *z,
                            double *sum, size_t n);
    void (*rows_cube)(const double *y, double scale, double most, int32_t *z, size_t n);
    void (*column)(const fdp_column_t *c, const double *x, int64_t *present, int64_t *u,
                   int64_t *square, size_t n);
    void (*column_total)(const fdp_column_t *c, const double *x, int64_t total[3],
                         size_t n);
    int64_t (*column_sum)(const int32_t *z, size_t n);
} fdp_kernels_t;

#define FDP_ROW(name, bit) extern const fdp_kernels_t fdp_kernels_##name;
FDP_LEVELS_HERE(FDP_ROW)
#undef FDP_ROW

/* The row of the current level; and the row of a lower level's rank (fdp_cpu_rank). */
const fdp_kernels_t *fdp_kernels(void);
const fdp_kernels_t *fdp_kernels_at(size_t rank);

#endif
