/* proposal.c: fdp_select_proposed, one choice by the exponential mechanism.
 *
 *   row_open       integer bounds W_i of all weights, summed by nodes of FDP_NODE
 *   row_find       the candidates that two points of the total fall on
 *   row_accept     each with probability w_i / W_i; the first accepted is the choice
 *
 * W_i >= w_i makes the law exact, whatever the bounds are (rejection). Both tries are
 * made always, and at once, so that the time tells neither which was accepted nor where
 * the other one went: every score is read for it.
 */
#include <math.h>
#include <string.h>

#include "../base/mul128.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../sampler/constants.h"
#include "fetch.h"
#include "scratch.h"
#include "select.h"

#define TRIES 2
#define FEW (FDP_SHORT / FDP_NODE) /* nodes of a short row */
#define WORDS (2 * TRIES) /* a point and an acceptance for each */

/* |acceptance - V| that doubles leave open: docs/proofs/selection.md, theorem 2 */
#define CLOSE 0x1p-44

/* A try: its point, and the candidate that it falls on. */
typedef struct {
    fdp_u128_t point, width; /* the cell of U total is [point, point + width] */
    uint64_t candidate, bound;
    double score; /* of FDP_I64: its distance from the largest one */
} try_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    fdp_proposal_t proposal;
    size_t full, rest; /* nodes; candidates of one more, shorter one */
    uint64_t *sum;     /* of each node, the shorter one included     */
    size_t size;       /* bytes of it                                */
    fdp_u128_t total;
    uint64_t unsure;
    try_t tries[TRIES];
    FDP_ALIGNED(64) uint64_t score[TRIES][FDP_NODE];
    FDP_ALIGNED(64) uint64_t last[FDP_NODE], weight[FDP_NODE];
    FDP_ALIGNED(64) uint64_t start[FDP_LANES];
    fdp_words_t words;
} row_t;

static size_t nodes_of(const row_t *t) { return t->full + (t->rest > 0); }

static const uint64_t *scores_of(const row_t *t, size_t row)
{
    return (const uint64_t *)t->from->score + row * t->from->n;
}

/* Entries of the shorter node, lost ones included. */
static size_t rest_padded(const row_t *t)
{
    return (t->rest + FDP_LANES - 1) & ~(size_t)(FDP_LANES - 1);
}

/* ---- bounds and sums ------------------------------------------------------------ */

static void set_top(row_t *t, const uint64_t *score)
{
    const fdp_selection_kernels_t *k = t->kernels;
    const size_t whole = t->full * FDP_NODE, rest = rest_padded(t);
    fdp_proposal_t *p = &t->proposal;
    p->most = FDP_PROPOSAL_MOST;
    if (t->from->type == FDP_I64) {
        const int64_t a = k->largest_i64((const int64_t *)score, NULL, whole);
        const int64_t b = k->largest_i64((const int64_t *)t->last, NULL, rest);
        p->top.i64 = (int64_t)fdp_pick(fdp_mask(a > b), (uint64_t)a, (uint64_t)b);
    } else {
        const double a = k->largest_f64((const double *)(const void *)score, NULL, whole);
        const double b = k->largest_f64((const double *)(void *)t->last, NULL, rest);
        p->top.f64 = fdp_larger(a, b);
        p->most = fdp_pick_double(fdp_mask(p->top.f64 > -INFINITY), p->most, 0.0);
    }
}

static uint64_t weigh_node(row_t *t, const uint64_t *score, size_t padded, size_t count)
{
    return (t->from->type == FDP_I64 ? t->kernels->bounds_i64 : t->kernels->bounds_f64)(
        score, padded, count, &t->proposal, t->weight, t->start);
}

static void row_open(row_t *t, size_t row)
{
    const uint64_t *score = scores_of(t, row);
    for (size_t i = t->rest; i < rest_padded(t); i++) {
        t->last[i] = fdp_score_none(t->from->type);
    }
    memcpy(t->last, score + t->full * FDP_NODE, t->rest * 8);
    set_top(t, score);
    (t->from->type == FDP_I64 ? t->kernels->totals_i64 : t->kernels->totals_f64)(
        score, t->full, &t->proposal, t->sum);
    t->total = 0;
    if (t->rest > 0) {
        t->sum[t->full] = weigh_node(t, t->last, rest_padded(t), t->rest);
    }
    for (size_t b = 0; b < nodes_of(t); b++) {
        t->total += t->sum[b];
    }
}

/* ---- candidates of the points --------------------------------------------------- */

/* The candidate of a try among those of the node weighed last, whose first is number
 * `first`; `point` counts from there. */
static void find_candidate(row_t *t, try_t *y, const uint64_t *score, size_t padded,
                           uint64_t first, uint64_t point)
{
    fdp_found_t f;
    t->kernels->find(score, t->weight, padded, t->start, point, &f);
    t->unsure |= fdp_mask(y->width >= f.bound - f.rest);
    y->bound = f.bound;
    y->candidate = first + f.place;
    y->score = t->from->type == FDP_I64
                   ? fdp_from_unsigned((uint64_t)t->proposal.top.i64 - f.score)
                   : fdp_bits_double(f.score);
    fdp_wipe(&f, sizeof f);
}

/* The cell of U total for the word of U. */
static void set_point(row_t *t, try_t *y, uint64_t word)
{
    const uint64_t low = (uint64_t)t->total, high = (uint64_t)(t->total >> 64);
    const fdp_u128_t part = (fdp_u128_t)word * low;
    const uint64_t rest = (uint64_t)part;
    y->point = (fdp_u128_t)word * high + (uint64_t)(part >> 64);
    y->width = (((fdp_u128_t)rest + low) >> 64) + high; /* a word more: total more */
}

/* Nodes and what lies before them, for both tries in one pass. */
static void find_nodes(const row_t *t, uint64_t node[TRIES], uint64_t point[TRIES])
{
    fdp_u128_t until = 0, before[TRIES] = {0};
    node[0] = node[1] = 0;
    for (size_t b = 0; b + 1 < nodes_of(t); b++) {
        until += t->sum[b];
        for (size_t j = 0; j < TRIES; j++) {
            const uint64_t beyond = fdp_mask(until <= t->tries[j].point);
            const fdp_u128_t mask = ((fdp_u128_t)beyond << 64) | beyond;
            before[j] = (until & mask) | (before[j] & ~mask);
            node[j] -= beyond;
        }
    }
    for (size_t j = 0; j < TRIES; j++) {
        point[j] = (uint64_t)(t->tries[j].point - before[j]);
    }
}

static void row_find(row_t *t, size_t row, const uint64_t *word)
{
    uint64_t node[TRIES], point[TRIES];
    for (size_t j = 0; j < TRIES; j++) {
        set_point(t, &t->tries[j], word[2 * j]);
    }
    if (t->full == 0) {
        for (size_t j = 0; j < TRIES; j++) {
            find_candidate(t, &t->tries[j], t->last, rest_padded(t), 0,
                           (uint64_t)t->tries[j].point);
        }
        return;
    }
    find_nodes(t, node, point);
    t->kernels->fetch_two(scores_of(t, row), t->full, node, t->score);
    for (size_t j = 0; j < TRIES; j++) {
        if (t->rest > 0) {
            t->kernels->blend(t->last, rest_padded(t), fdp_mask(node[j] == t->full),
                              t->score[j]);
        }
        weigh_node(t, t->score[j], FDP_NODE, t->from->n - node[j] * FDP_NODE);
        find_candidate(t, &t->tries[j], t->score[j], FDP_NODE, node[j] * FDP_NODE,
                       point[j]);
    }
}

/* ---- acceptance ----------------------------------------------------------------- */

/* 2^51 e^-gap, the weight that the bound is one of; 0 for what is lost. */
static double weight_of(const row_t *t, const try_t *y)
{
    const bool real = t->from->type == FDP_F64;
    double gap = y->score;
    uint64_t there = ~UINT64_C(0);
    if (real) {
        const double s = fdp_pick_double(fdp_mask(gap > 0x1.fffffffffffffp1023),
                                         0x1.fffffffffffffp1023, gap);
        there = fdp_mask(s > -INFINITY) | fdp_mask(t->proposal.most == 0.0);
        gap = t->proposal.top.f64 - s;
    }
    const double x = t->law->rate * gap;
    double z = fdp_pick_double(fdp_mask(x < 600.0), x, 600.0);
    z = fdp_pick_double(fdp_mask(t->proposal.most == 0.0), 0.0, z);
    const double k = fdp_nearest(z * FDP_LOG2E);
    const double r = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
    const uint64_t power = (uint64_t)(1023 + 51 - fdp_to_small(k)) << 52;
    const double w = FDP_EXP_EVAL(r) * fdp_bits_double(power);
    return fdp_bits_double(fdp_double_bits(w) & there);
}

/* Mask of whether V < w / W. */
static uint64_t accept(row_t *t, const try_t *y, uint64_t word)
{
    const double bound = fdp_from_unsigned(y->bound);
    const double beyond = weight_of(t, y) - fdp_from_unsigned(word) * 0x1p-64 * bound;
    t->unsure |= fdp_mask(beyond > -CLOSE * bound) & fdp_mask(beyond < CLOSE * bound);
    return fdp_mask(beyond > 0.0);
}

/* ---- rows ----------------------------------------------------------------------- */

/* The resolver makes the choice anew, by all its bits. */
static bool row_settle(const row_t *t, uint64_t row, const uint64_t *word, int64_t *choice)
{
    const uint64_t more[1 + WORDS] = {row, word[0], word[1], word[2], word[3]};
    const uint64_t draw = WORDS * row;
    const fdp_pending_t pending = {.chunk = draw / FDP_SELECT_CHUNK,
                                   .trial = (uint32_t)(draw % FDP_SELECT_CHUNK),
                                   .owner = t->law->owner,
                                   .more = more,
                                   .more_words = 1 + WORDS};
    int64_t value[2] = {0, 0};
    const fdp_rounding_t mode = fdp_rounding_enter();
    const int kept = t->call->resolve(t->call->context, &pending, value);
    fdp_rounding_leave(mode);
    *choice = value[0];
    return kept == 1;
}

static fdp_status_t row_select(row_t *t, size_t r, uint64_t row, int64_t *out)
{
    const size_t ahead = (t->from->rows - r) * WORDS;
    const uint64_t *word = fdp_words_at(&t->words, WORDS * row, WORDS, ahead);
    t->unsure = 0;
    row_open(t, r);
    row_find(t, r, word);
    const uint64_t first = accept(t, &t->tries[0], word[1]);
    const uint64_t second = accept(t, &t->tries[1], word[3]);
    t->unsure |= ~(first | second);
    *out = (int64_t)fdp_pick(first, t->tries[0].candidate, t->tries[1].candidate);
    if (FDP_UNLIKELY(t->unsure != 0) && !row_settle(t, row, word, out)) {
        return FDP_ERR_RESOLVER;
    }
    return FDP_OK;
}

static fdp_status_t select_rows(row_t *t, uint64_t first_row, int64_t *out)
{
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    t->proposal.rate = t->law->rate * FDP_LOG2E;
    fdp_status_t status = FDP_OK;
    for (size_t r = 0; r < t->from->rows && status == FDP_OK; r++) {
        status = row_select(t, r, first_row + r, out + r);
    }
    fdp_rounding_leave(rounding);
    return status;
}

/* A small call uses, and wipes, the beginning of each array only. */
static void wipe_row(row_t *t)
{
    const size_t used = t->full > 0 ? FDP_NODE * 8 : rest_padded(t) * 8;
    fdp_wipe(&t->proposal, sizeof t->proposal);
    fdp_wipe(&t->total, sizeof t->total);
    fdp_wipe(t->tries, sizeof t->tries);
    if (t->full > 0) {
        fdp_wipe(t->score, sizeof t->score);
    }
    fdp_wipe(t->last, used);
    fdp_wipe(t->weight, used);
    fdp_wipe(t->start, sizeof t->start);
    fdp_words_close(&t->words);
}

fdp_status_t fdp_select_proposed(const fdp_call_t *call, const fdp_selection_t *law,
                                 const fdp_candidates_t *from, uint64_t first_row,
                                 int64_t *out)
{
    row_t t; /* its arrays are written before they are read */
    uint64_t few[FEW];
    t.call = call;
    t.law = law;
    t.from = from;
    t.kernels = fdp_selection_kernels();
    t.full = from->n / FDP_NODE;
    t.rest = from->n % FDP_NODE;
    t.size = nodes_of(&t) * sizeof *t.sum;
    t.sum = nodes_of(&t) <= FEW ? few : fdp_memory_take(t.size);
    if (from->n == 0 || from->mantissa != NULL || t.sum == NULL) {
        memset(out, 0, from->rows * sizeof *out);
        return t.sum == NULL ? FDP_ERR_MEMORY : FDP_ERR_PARAMETER;
    }
    fdp_words_open(&t.words, call, 0);
    const fdp_status_t status = select_rows(&t, first_row, out);
    if (status != FDP_OK) {
        memset(out, 0, from->rows * sizeof *out);
    }
    if (t.sum == few) {
        fdp_wipe(few, t.size);
    } else {
        fdp_memory_give(t.sum, t.size);
    }
    wipe_row(&t);
    return status;
}
