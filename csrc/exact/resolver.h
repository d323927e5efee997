/* resolver.h: a trial that the exact resolver settles: integers only, more bits until all
 * is decided.
 *
 * A uniform is a prefix of known bits and a place in the trial's extension blocks. What
 * words mean is the reference's: docs/proofs/resolver.md, sections 1 and 4.
 */
#ifndef FDP_EXACT_RESOLVER_H
#define FDP_EXACT_RESOLVER_H

#include "law.h"

#define FDP_BESIDE (1u << 20) /* blocks between the uniforms of a trial */

typedef struct {
    fdp_arena_t *a;
    fdp_block_fn block;
    const void *context;
    uint32_t base; /* added to every block's number */
    bool failed;   /* a uniform's bits ran out */
    const fdp_digits_t *law;
    fdp_sigma_t t; /* of a Laplace law num and den are the scale */
    uint32_t count[2][FDP_COLUMNS], units[2];
} fdp_settle_t;

typedef struct {
    uint64_t *d; /* FDP_LAW_BITS of them */
    unsigned nbits, read, first;
} fdp_uniform_t;

/* Encloses the k-th threshold. */
typedef void (*fdp_bound_fn)(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                             uint64_t *out);
/* About the k of a real, which decides nothing. */
typedef double (*fdp_guess_fn)(fdp_settle_t *w, const fdp_fx_t *f, const void *what,
                               fdp_nat_t middle);

static inline bool fdp_settle_goes_on(const fdp_settle_t *w)
{
    return !w->failed && !w->a->failed;
}

FDP_INTERNAL void fdp_uniform_block(const fdp_settle_t *w, uint32_t number, uint64_t two[2]);
/* Of `nbits` known bits; the next are in block `first`. */
FDP_INTERNAL fdp_uniform_t fdp_uniform_open(fdp_settle_t *w, uint64_t prefix, unsigned nbits,
                                            uint32_t first);
/* The bits that are known; reads more: one block, then as many as before in all. */
FDP_INTERNAL fdp_nat_t fdp_uniform_nat(const fdp_uniform_t *u);
FDP_INTERNAL void fdp_uniform_extend(fdp_settle_t *w, fdp_uniform_t *u);
/* Whether the uniform is below the k-th threshold. */
FDP_INTERNAL bool fdp_uniform_below(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound,
                                    const void *what, uint64_t k);
/* The first of `count` thresholds that it is below, all made by one call with `out` of so
 * many pairs; or `count`. */
FDP_INTERNAL size_t fdp_uniform_first(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn all,
                                      const void *what, size_t count);
/* The k with threshold(k + 1) <= the uniform < threshold(k). */
FDP_INTERNAL uint64_t fdp_uniform_level(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound,
                                        fdp_guess_fn guess, const void *what);
/* floor(U c) of a rational c = num / den, at most `last`. */
FDP_INTERNAL uint64_t fdp_uniform_step(fdp_settle_t *w, fdp_uniform_t *u, fdp_nat_t num,
                                       fdp_nat_t den, uint64_t last);

/* A trial of tilted digits (law_settle_tilted.c): 1 and the value, or 0. */
FDP_INTERNAL int fdp_settle_tilted(fdp_settle_t *w, const uint64_t *words, fdp_i128_t *value);

/* Bits and labels (law_bits.c). The law is a fdp_bernoulli_t, the words are 64 bits of U
 * and a column; or a fdp_response_t, the first bits of U, 64 more, and whether the label
 * is to be uniform. */
FDP_INTERNAL int fdp_settle_pattern(fdp_settle_t *w, const void *what, const uint64_t *word,
                                    int64_t *value);
FDP_INTERNAL int fdp_settle_response(fdp_settle_t *w, const void *what, const uint64_t *word,
                                     int64_t *value);

#endif
