/* resolver.h: settles a trial exactly, in integers only: it reads more bits until everything is
 * decided. A uniform is a prefix of known bits and a place in the trial's extension blocks. The
 * Python reference defines what the words mean: docs/proofs/resolver.md, sections 1 and 4. */
#ifndef FDP_EXACT_RESOLVER_H
#define FDP_EXACT_RESOLVER_H

#include "law.h"

#define FDP_BESIDE (1u << 20) /* blocks between two uniforms of a trial */

typedef struct {
    fdp_arena_t *a;
    fdp_block_fn block;
    const void *context;
    uint32_t base; /* added to every block's number */
    bool failed;   /* a uniform has no bits left */
    const fdp_digits_t *law;
    fdp_sigma_t t; /* for a Laplace law, num and den are the scale */
    uint32_t count[2][FDP_COLUMNS], units[2];
} fdp_settle_t;

typedef struct {
    uint64_t *d; /* room for FDP_LAW_BITS bits */
    unsigned nbits, read, first;
} fdp_uniform_t;

/* Encloses the k-th threshold. */
typedef void (*fdp_bound_fn)(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                             uint64_t *out);
/* Guesses k for a real number. The guess decides nothing. */
typedef double (*fdp_guess_fn)(fdp_settle_t *w, const fdp_fx_t *f, const void *what,
                               fdp_nat_t middle);

static inline bool fdp_settle_goes_on(const fdp_settle_t *w)
{
    return !w->failed && !w->a->failed;
}

FDP_INTERNAL void fdp_uniform_block(const fdp_settle_t *w, uint32_t number, uint64_t two[2]);
/* Opens a uniform with `nbits` known bits; its next bits are in block `first`. */
FDP_INTERNAL fdp_uniform_t fdp_uniform_open(fdp_settle_t *w, uint64_t prefix, unsigned nbits,
                                            uint32_t first);
/* The known bits of a uniform. fdp_uniform_extend reads more: first one block, then each time as
 * many as all before. */
FDP_INTERNAL fdp_nat_t fdp_uniform_nat(const fdp_uniform_t *u);
FDP_INTERNAL void fdp_uniform_extend(fdp_settle_t *w, fdp_uniform_t *u);
/* Whether the uniform is below the k-th threshold. */
FDP_INTERNAL bool fdp_uniform_below(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound,
                                    const void *what, uint64_t k);
/* The index of the first of `count` thresholds that the uniform is below, or `count` if there is
 * none. One call of `all` encloses all thresholds, in `count` pairs. */
FDP_INTERNAL size_t fdp_uniform_first(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn all,
                                      const void *what, size_t count);
/* The k with threshold(k + 1) <= the uniform < threshold(k). */
FDP_INTERNAL uint64_t fdp_uniform_level(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound,
                                        fdp_guess_fn guess, const void *what);
/* floor(U c) for a rational c = num / den, but at most `last`. */
FDP_INTERNAL uint64_t fdp_uniform_step(fdp_settle_t *w, fdp_uniform_t *u, fdp_nat_t num,
                                       fdp_nat_t den, uint64_t last);

/* A trial of tilted digits (law_settle_tilted.c). Returns 1 and sets the value, or returns 0. */
FDP_INTERNAL int fdp_settle_tilted(fdp_settle_t *w, const uint64_t *words, fdp_i128_t *value);

/* Bits and labels (law_bits.c). For bits the law is a fdp_bernoulli_t, and the words are 64 bits of
 * U and a column. For labels it is a fdp_response_t, and the words are the first bits of U, 64
 * more, and whether the label is to be uniform. */
FDP_INTERNAL int fdp_settle_pattern(fdp_settle_t *w, const void *what, const uint64_t *word,
                                    int64_t *value);
FDP_INTERNAL int fdp_settle_response(fdp_settle_t *w, const void *what, const uint64_t *word,
                                     int64_t *value);

#endif
