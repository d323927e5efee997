/* select.h: words, rows and blocks, which all kinds of private selection share. */
#ifndef FDP_MECH_SELECT_H
#define FDP_MECH_SELECT_H

#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/bits.h"
#include "../sampler/selection.h"
#include "resolve.h"

static inline double fdp_pick_double(uint64_t mask, double a, double b)
{
    return fdp_bits_double(fdp_pick(mask, fdp_double_bits(a), fdp_double_bits(b)));
}

static inline double fdp_larger(double a, double b)
{
    return fdp_pick_double(fdp_mask(a > b), a, b);
}

/* Settles in integers a draw that the kernels leave open. On failure the answer is 0. */
FDP_INTERNAL fdp_status_t fdp_select_settle(const fdp_call_t *call, uint64_t draw,
                                            fdp_decide_fn decide, const void *law,
                                            const uint64_t *words, int64_t *answer);

static inline bool fdp_candidates_valid(const fdp_candidates_t *from)
{
    return from->n > 0 && (from->type == FDP_F64 || from->type == FDP_I64);
}

/* The tolerances proved in docs/proofs/selection.md, sections 4 and 5: of an acceptance, of
 * cumulative weights over their total, of a key. */
static inline double fdp_spread_of(const fdp_candidates_t *from)
{
    return from->mantissa == NULL ? 0.0 : from->weight_spread;
}

static inline double fdp_propose_tolerance(const fdp_selection_t *law,
                                           const fdp_candidates_t *from)
{
    return fdp_larger(law->tolerance, 0x1p-44 + 0x1p-51 * fdp_spread_of(from));
}

static inline double fdp_inverse_tolerance(const fdp_selection_t *law,
                                           const fdp_candidates_t *from, size_t depth)
{
    const double nats = 0.6931472 * (double)(64 - __builtin_clzll(from->n)); /* > ln n */
    return fdp_larger(law->tolerance, 0x1p-53 * (64.0 * (double)depth + 32.0 +
                                                 4.0 * (nats + 0.7 * fdp_spread_of(from))));
}

static inline double fdp_race_tolerance(const fdp_selection_t *law,
                                        const fdp_candidates_t *from)
{
    return fdp_larger(law->tolerance, 0x1.4p-44 + 0x1p-49 * fdp_spread_of(from));
}

/* Words of consecutive draws, in a window of at most 1024. */
typedef struct {
    FDP_ALIGNED(64) uint64_t word[1024];
    fdp_chunk_t chunk;
    const fdp_call_t *call;
    uint64_t shift;  /* added to the number of the chunk */
    uint64_t number; /* number of the open chunk plus 1; 0 if none is open */
    size_t from, to; /* draws of the chunk whose words are in the window */
    size_t most;     /* the largest number of words in the window so far */
} fdp_words_t;

FDP_INTERNAL void fdp_words_open(fdp_words_t *words, const fdp_call_t *call,
                                 uint64_t shift);
/* The words of `count` draws from `draw` on, all in one chunk; count <= FDP_BLOCK. The caller will
 * need about `ahead` >= count draws. */
FDP_INTERNAL const uint64_t *fdp_words_at(fdp_words_t *words, uint64_t draw,
                                          size_t count, size_t ahead);
/* The same for draws that may be in two chunks, followed by zeros up to `padded`. The words are in
 * `copy` if the window does not hold them in this form. */
FDP_INTERNAL const uint64_t *fdp_words_block(fdp_words_t *words, uint64_t draw,
                                             size_t count, size_t ahead, size_t padded,
                                             uint64_t *copy);
/* The word of one draw; the window does not change. */
FDP_INTERNAL uint64_t fdp_words_peek(const fdp_words_t *words, uint64_t draw);
/* The same for a draw that depends on the scores. It is one of the n draws from `first` on, whose
 * words were read in order. */
FDP_INTERNAL uint64_t fdp_words_find(const fdp_words_t *words,
                                     const fdp_selection_kernels_t *kernels,
                                     uint64_t draw, uint64_t first, size_t n);
FDP_INTERNAL void fdp_words_close(fdp_words_t *words);

/* Entry number `at` of `rows` rows of FDP_LANES entries; all rows are read. */
FDP_INTERNAL uint64_t fdp_entry(const fdp_selection_kernels_t *kernels,
                                const uint64_t *from, size_t rows, size_t at);

/* The bits of a lost score. Integers have no such value: they are lost only by a mark. */
static inline uint64_t fdp_score_none(fdp_dtype_t type)
{
    return type == FDP_I64 ? (uint64_t)INT64_MIN : UINT64_C(0x7ff8000000000000);
}

/* The candidates of one block, and lost candidates that pad it to a multiple of FDP_LANES. */
typedef struct {
    size_t count, padded;
    const void *score;
    const uint64_t *lost; /* NULL: only the scores say what is lost */
    const double *mantissa, *exponent;
    uint64_t score_copy[FDP_BLOCK];
    uint64_t lost_copy[FDP_BLOCK];
    double mantissa_copy[FDP_BLOCK], exponent_copy[FDP_BLOCK];
} fdp_block_t;

/* Points the block at candidates first ... first + count of a row. */
FDP_INTERNAL void fdp_block_open(fdp_block_t *block,
                                 const fdp_selection_kernels_t *kernels,
                                 const fdp_candidates_t *from, size_t row, size_t first,
                                 size_t count);

/* The number of entries of a block of the first of n candidates, with padding. */
static inline size_t fdp_block_padded(size_t n)
{
    return n < FDP_BLOCK ? (n + FDP_LANES - 1) & ~(size_t)(FDP_LANES - 1) : FDP_BLOCK;
}

/* Wipes the data of blocks of at most n candidates. */
FDP_INTERNAL void fdp_block_close(fdp_block_t *block, size_t n);

/* The largest score of a row's candidates that have any weight. Sets the mask *none if there is
 * none. */
FDP_INTERNAL fdp_score_t fdp_row_largest(const fdp_selection_kernels_t *kernels,
                                         const fdp_candidates_t *from, size_t row,
                                         uint64_t *none);

#endif
