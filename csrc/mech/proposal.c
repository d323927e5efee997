/* proposal.c: fdp_select_proposed, one choice by the exponential mechanism.
 *
 *   row_open       integer bounds W_i of all weights, summed by nodes of FDP_NODE
 *   row_find       the candidates that two points of the total fall on
 *   accept         accepts each with probability w_i / W_i; the first accepted is the choice
 *   settle_row     the same by all bits, if known bits leave the choice open
 *
 * With base weights, bounds are relative to the largest w_i, which is known to within a
 * factor of 4. The law is exact for any bounds W_i >= w_i (rejection). Both tries are always
 * made, together, and every score is read for them. So the time reveals neither which try
 * was accepted nor the candidate of the other one.
 */
#include <math.h>
#include <string.h>

#include "../base/mul128.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../exact/choice.h"
#include "../sampler/constants.h"
#include "fetch.h"
#include "scratch.h"
#include "select.h"

#define TRIES 2
#define FEW (FDP_SHORT / FDP_NODE) /* most nodes of a short row */
#define WORDS (2 * TRIES) /* a try takes two words: one for a point, one to accept it */
#define GROUP (FDP_POWERS / TRIES) /* rows that are accepted together */
#define PARTS 3           /* arrays of a candidate: score, base weight, its exponent */
#define NO_EXPONENT -0x1p17 /* exponent of a weight of 0 */

/* A try: its point, and the candidate that it falls on. */
typedef struct {
    fdp_u128_t point, width; /* the cell of U total is [point, point + width] */
    uint64_t candidate, bound;
    double score; /* for FDP_I64: its distance from the largest score */
    double mantissa, power; /* base weight: mantissa 2^power */
    uint64_t there; /* mask: the candidate has a weight */
} try_t;

/* What the acceptance of some rows needs. */
typedef struct {
    double nats[GROUP][TRIES], bits[GROUP][TRIES], power[GROUP][TRIES];
    try_t tries[GROUP][TRIES];
    uint64_t word[GROUP][WORDS], unsure[GROUP];
} group_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    double tolerance;   /* of an acceptance */
    size_t type, based; /* index of the kernels: by integer scores and base weights */
    fdp_row_t row;      /* the candidates; the shorter node's are copied */
    fdp_proposal_t proposal;
    size_t full, rest; /* number of full nodes; candidates of one more, shorter node */
    size_t padded;     /* entries of the shorter node, with padding */
    bool whole;        /* the shorter node is read where it lies */
    uint64_t *sum;     /* the sum of each node, also of the shorter one */
    size_t size;       /* bytes of `sum` */
    fdp_u128_t total;
    uint64_t unsure;
    try_t tries[TRIES];
    group_t group;
    FDP_ALIGNED(64) uint64_t near[PARTS][TRIES][FDP_NODE]; /* copies of the tries' nodes */
    FDP_ALIGNED(64) uint64_t last[PARTS][FDP_NODE], weight[FDP_NODE];
    FDP_ALIGNED(64) uint64_t start[FDP_LANES];
    fdp_words_t words;
} row_t;

/* What is needed to settle a row. */
typedef struct {
    row_t *t;
    fdp_choice_t choice;
} settle_t;

static size_t nodes_of(const row_t *t) { return t->full + (t->rest > 0); }

/* An array of the candidates `from`, as 64-bit entries; NULL if they lack it. */
static const uint64_t *part_of(const fdp_row_t *from, size_t part)
{
    const void *parts[PARTS] = {from->score, from->weight, from->exponent};
    return parts[part];
}

static fdp_row_t row_of(const row_t *t, uint64_t *score, uint64_t *weight,
                        uint64_t *exponent)
{
    return (fdp_row_t){
        .score = score,
        .weight = t->row.weight == NULL ? NULL : (const double *)(void *)weight,
        .exponent = t->row.exponent == NULL ? NULL : (const double *)(void *)exponent};
}

/* The shorter node: a copy, or the row itself if entries of another row follow it. */
static fdp_row_t last_of(row_t *t)
{
    return t->whole ? t->row : row_of(t, t->last[0], t->last[1], t->last[2]);
}

/* ---- bounds and sums ------------------------------------------------------------ */

/* Sets the reference of the bounds. `none`: no candidate has any weight. */
static void set_place(row_t *t, const fdp_row_t *last, uint64_t none)
{
    fdp_proposal_t *p = &t->proposal;
    double place = t->kernels->place[t->type](&t->row, t->full * FDP_NODE, p);
    place = fdp_larger(t->kernels->place[t->type](last, t->padded, p), place);
    p->place = fdp_pick_double(none, 0.0, fdp_nearest(fdp_pick_double(none, 0.0, place) + 0.5));
    p->mantissa = ((UINT64_C(1) << 52) - 1) & ~none;
}

static void set_top(row_t *t, size_t row, const fdp_row_t *last)
{
    uint64_t none;
    t->proposal.top = fdp_row_largest(t->kernels, t->from, row, &none);
    t->proposal.most = fdp_pick_double(none, 0.0, FDP_PROPOSAL_MOST);
    if (t->based) {
        set_place(t, last, none);
    }
}

/* Copies the shorter node, padded with lost candidates. */
static void copy_last(row_t *t)
{
    const uint64_t none[PARTS] = {fdp_score_none(t->from->type), 0,
                                  fdp_double_bits(NO_EXPONENT)};
    for (size_t p = 0; p < PARTS; p++) {
        if (part_of(&t->row, p) != NULL) {
            for (size_t i = t->rest; i < t->padded; i++) {
                t->last[p][i] = none[p];
            }
            memcpy(t->last[p], part_of(&t->row, p) + t->full * FDP_NODE, t->rest * 8);
        }
    }
}

static void row_open(row_t *t, size_t row)
{
    const fdp_candidates_t *c = t->from;
    const size_t at = row * c->weight_stride;
    t->row.score = (const uint64_t *)c->score + row * c->n;
    t->row.weight = c->mantissa == NULL ? NULL : c->mantissa + at;
    t->row.exponent = c->exponent == NULL ? NULL : c->exponent + at;
    /* What is read beyond a short row's end has no weight. */
    t->whole = t->full == 0 && !t->based && row * c->n + t->padded <= c->rows * c->n;
    if (!t->whole) {
        copy_last(t);
    }
    const fdp_row_t last = last_of(t);
    set_top(t, row, &last);
    t->kernels->totals[t->type][t->based](&t->row, t->full, &t->proposal, t->sum);
    t->total = 0;
    if (t->rest > 0) {
        t->sum[t->full] = t->kernels->bounds[t->type][t->based](
            &last, t->padded, t->rest, &t->proposal, t->weight, t->start);
    }
    for (size_t b = 0; b < nodes_of(t); b++) {
        t->total += t->sum[b];
    }
}

/* ---- candidates of the points --------------------------------------------------- */

/* Finds the candidate on which a try falls. Its node must be the one weighed most recently; the
 * node's first candidate has number `first`, and `point` is relative to the node. */
static void find_candidate(row_t *t, try_t *y, const fdp_row_t *from, size_t padded,
                           uint64_t first, uint64_t point)
{
    fdp_found_t f;
    t->kernels->find(from->score, t->weight, padded, t->start, point, &f);
    t->unsure |= fdp_mask(y->width >= f.bound - f.rest);
    y->bound = f.bound;
    y->candidate = first + f.place;
    const size_t place = (size_t)f.place;
    y->score = t->from->type == FDP_I64
                   ? fdp_from_unsigned((uint64_t)t->proposal.top.i64 - f.score)
                   : fdp_bits_double(f.score);
    y->mantissa = 1.0;
    y->power = 0.0;
    if (from->weight != NULL) {
        y->mantissa = fdp_bits_double(
            fdp_entry(t->kernels, part_of(from, 1), padded / FDP_LANES, place));
    }
    if (from->exponent != NULL) {
        y->power = fdp_bits_double(
            fdp_entry(t->kernels, part_of(from, 2), padded / FDP_LANES, place));
    }
    fdp_wipe(&f, sizeof f);
}

/* Sets the cell of U total from the word of U. */
static void set_point(row_t *t, try_t *y, uint64_t word)
{
    const uint64_t low = (uint64_t)t->total, high = (uint64_t)(t->total >> 64);
    const fdp_u128_t part = (fdp_u128_t)word * low;
    const uint64_t rest = (uint64_t)part;
    y->point = (fdp_u128_t)word * high + (uint64_t)(part >> 64);
    y->width = (((fdp_u128_t)rest + low) >> 64) + high; /* one word more is `total` more */
}

/* Finds the nodes, and the sums before them, for both tries in one pass. */
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

/* Copies the nodes of both tries. */
static void fetch_nodes(row_t *t, const uint64_t node[TRIES])
{
    for (size_t p = 0; p < PARTS; p++) {
        if (part_of(&t->row, p) != NULL) {
            t->kernels->fetch_two(part_of(&t->row, p), t->full, node, t->near[p]);
            for (size_t j = 0; j < TRIES && t->rest > 0; j++) {
                t->kernels->blend(t->last[p], t->padded, fdp_mask(node[j] == t->full),
                                  t->near[p][j]);
            }
        }
    }
}

static void row_find(row_t *t, const uint64_t *word)
{
    uint64_t node[TRIES], point[TRIES];
    for (size_t j = 0; j < TRIES; j++) {
        set_point(t, &t->tries[j], word[2 * j]);
    }
    if (t->full == 0) {
        const fdp_row_t last = last_of(t);
        for (size_t j = 0; j < TRIES; j++) {
            find_candidate(t, &t->tries[j], &last, t->padded, 0,
                           (uint64_t)t->tries[j].point);
        }
        return;
    }
    find_nodes(t, node, point);
    fetch_nodes(t, node);
    for (size_t j = 0; j < TRIES; j++) {
        const fdp_row_t near = row_of(t, t->near[0][j], t->near[1][j], t->near[2][j]);
        t->kernels->bounds[t->type][t->based](&near, FDP_NODE,
                                              (size_t)(t->from->n - node[j] * FDP_NODE),
                                              &t->proposal, t->weight, t->start);
        find_candidate(t, &t->tries[j], &near, FDP_NODE, node[j] * FDP_NODE, point[j]);
    }
}

/* ---- acceptance ----------------------------------------------------------------- */

/* Splits the base weights of the tries into mantissa and exponent; 1/2 if no weight counts. */
static void take_apart(row_t *t)
{
    double mantissa[FDP_LANES] = {0}, power[FDP_LANES];
    const uint64_t none = fdp_mask(t->proposal.most == 0.0);
    for (size_t j = 0; j < TRIES; j++) {
        mantissa[j] = t->tries[j].mantissa;
    }
    t->kernels->split(mantissa, FDP_LANES, 0.0, power);
    for (size_t j = 0; j < TRIES; j++) {
        try_t *y = &t->tries[j];
        y->mantissa = fdp_pick_double(none, 0.5, mantissa[j]);
        y->power = fdp_pick_double(none, 0.0, y->power + power[j]);
    }
    fdp_wipe(mantissa, sizeof mantissa);
    fdp_wipe(power, sizeof power);
}

/* Sets the logarithm of the weight w: 2^51 e^-gap, times the base weight 2^-place. It is `nats`
 * and `bits` below 51 bits. */
static void set_depth(const row_t *t, try_t *y, double *nats, double *bits)
{
    const uint64_t none = fdp_mask(t->proposal.most == 0.0);
    double gap = y->score;
    y->there = ~UINT64_C(0);
    if (!t->type) {
        const double s = fdp_pick_double(fdp_mask(gap > 0x1.fffffffffffffp1023),
                                         0x1.fffffffffffffp1023, gap);
        y->there = fdp_mask(s > -INFINITY) | none;
        gap = t->proposal.top.f64 - s;
    }
    const double x = t->law->rate * gap;
    const double z = fdp_pick_double(fdp_mask(x < FDP_PROPOSAL_FAR), x, FDP_PROPOSAL_FAR);
    /* Candidates without weight may be above all that count. */
    *nats = fdp_pick_double(none | fdp_mask(z < 0.0), 0.0, z);
    *bits = t->proposal.place - y->power;
}

/* The mask of whether V < w / W; `power` is w without its mantissa. */
static uint64_t accept(const row_t *t, const try_t *y, double power, uint64_t word,
                       uint64_t *unsure)
{
    const double w = fdp_bits_double(fdp_double_bits(power * y->mantissa) & y->there);
    const double bound = fdp_from_unsigned(y->bound), close = t->tolerance * bound;
    const double beyond = w - fdp_from_unsigned(word) * 0x1p-64 * bound;
    *unsure |= fdp_mask(beyond > -close) & fdp_mask(beyond < close);
    return fdp_mask(beyond > 0.0);
}

/* ---- rows ----------------------------------------------------------------------- */

/* The candidate that a point of the total falls on, and its bound. The order is that of the nodes,
 * and of the lanes within each node. */
static size_t candidate_at(row_t *t, fdp_u128_t point, uint64_t *bound)
{
    fdp_u128_t until = 0;
    size_t node = 0;
    for (; node + 1 < nodes_of(t) && until + t->sum[node] <= point; node++) {
        until += t->sum[node];
    }
    const size_t first = node * FDP_NODE, padded = node == t->full ? t->padded : FDP_NODE;
    const fdp_row_t last = last_of(t);
    fdp_row_t from = t->row;
    from.score = (const uint64_t *)from.score + first;
    from.weight = from.weight == NULL ? NULL : from.weight + first;
    from.exponent = from.exponent == NULL ? NULL : from.exponent + first;
    t->kernels->bounds[t->type][t->based](node == t->full ? &last : &from, padded,
                                          t->from->n - first, &t->proposal, t->weight,
                                          t->start);
    size_t found = first;
    for (size_t l = 0; l < FDP_LANES && until <= point; l++) {
        for (size_t i = l; i < padded && until <= point; i += FDP_LANES) {
            until += t->weight[i];
            found = first + i;
        }
    }
    *bound = t->weight[found - first];
    return found;
}

/* Finds the candidate of a try by all bits of U: until both ends of the cell of U total are in one
 * candidate. */
static size_t find_exactly(fdp_settle_t *w, row_t *t, fdp_uniform_t *u, uint64_t *bound)
{
    const fdp_u128_t total = t->total;
    while (fdp_settle_goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_nat_t one = fdp_nat_of(w->a, 1), x = fdp_uniform_nat(u);
        const fdp_nat_t all =
            fdp_nat_add(w->a, fdp_nat_left(w->a, fdp_nat_of(w->a, (uint64_t)(total >> 64)), 64),
                        fdp_nat_of(w->a, (uint64_t)total));
        const fdp_nat_t end = fdp_nat_mul(w->a, fdp_nat_add(w->a, x, one), all);
        const fdp_nat_t ends[2] = {fdp_nat_mul(w->a, x, all), fdp_nat_sub(w->a, end, one)};
        size_t found[2] = {0, 1};
        for (size_t j = 0; j < 2; j++) {
            const fdp_nat_t at = fdp_nat_right(w->a, ends[j], u->nbits);
            if (!w->a->failed) {
                const uint64_t low = at.n > 0 ? at.d[0] : 0, high = at.n > 1 ? at.d[1] : 0;
                found[j] = candidate_at(t, ((fdp_u128_t)high << 64) | low, bound);
            }
        }
        fdp_arena_back(w->a, mark);
        if (!w->a->failed && found[0] == found[1]) {
            return found[0];
        }
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return 0;
}

/* Makes the choice again, by all bits of the tries, or else by inversion. */
static int settle_row(fdp_settle_t *w, const void *what, const uint64_t *word, int64_t *choice)
{
    const settle_t *s = what;
    const fdp_choice_t *c = &s->choice;
    uint64_t most = 0, bound = 1, two[2];
    const bool even = !fdp_choice_most(c, &most);
    for (uint32_t j = 0; j < TRIES && fdp_settle_goes_on(w); j++) {
        const size_t mark = fdp_arena_mark(w->a);
        fdp_uniform_t u = fdp_uniform_open(w, word[2 * j], 64, 2 * j * FDP_BESIDE);
        fdp_uniform_t v = fdp_uniform_open(w, word[2 * j + 1], 64, (2 * j + 1) * FDP_BESIDE);
        const size_t i = find_exactly(w, s->t, &u, &bound);
        if (fdp_settle_goes_on(w) &&
            fdp_choice_accepts(w, c, even, most, i, bound, (int)s->t->proposal.place, &v)) {
            *choice = (int64_t)i;
            return fdp_settle_goes_on(w) ? 1 : -1;
        }
        fdp_arena_back(w->a, mark);
    }
    fdp_uniform_block(w, WORDS * FDP_BESIDE, two);
    fdp_uniform_t u = fdp_uniform_open(w, two[0], 64, WORDS * FDP_BESIDE + 1);
    fdp_wipe(two, sizeof two);
    *choice = (int64_t)fdp_choice_invert(w, c, &u);
    return fdp_settle_goes_on(w) ? 1 : -1;
}

/* Selects from some rows. Their tries' weights are computed together: the exponentials of one
 * try alone would wait for each other's products. */
static fdp_status_t select_some(row_t *t, size_t r, size_t rows, uint64_t row, int64_t *out)
{
    group_t *g = &t->group;
    for (size_t k = 0; k < rows; k++) {
        const size_t ahead = (t->from->rows - r - k) * WORDS;
        memcpy(g->word[k], fdp_words_at(&t->words, WORDS * (row + k), WORDS, ahead),
               sizeof g->word[k]);
        t->unsure = 0;
        row_open(t, r + k);
        row_find(t, g->word[k]);
        if (t->based) {
            take_apart(t);
        }
        for (size_t j = 0; j < TRIES; j++) {
            set_depth(t, &t->tries[j], &g->nats[k][j], &g->bits[k][j]);
        }
        memcpy(g->tries[k], t->tries, sizeof g->tries[k]);
        g->unsure[k] = t->unsure;
    }
    t->kernels->power51(g->nats[0], g->bits[0], g->power[0]);
    for (size_t k = 0; k < rows; k++) {
        const try_t *y = g->tries[k];
        const uint64_t *word = g->word[k];
        uint64_t unsure = g->unsure[k];
        const uint64_t first = accept(t, &y[0], g->power[k][0], word[1], &unsure);
        const uint64_t second = accept(t, &y[1], g->power[k][1], word[3], &unsure);
        unsure |= ~(first | second);
        out[k] = (int64_t)fdp_pick(first, y[0].candidate, y[1].candidate);
        if (FDP_UNLIKELY(unsure != 0)) {
            row_open(t, r + k);
            const settle_t s = {t, fdp_choice_of(t->law, t->from, r + k, NULL)};
            const fdp_status_t status = fdp_select_settle(t->call, WORDS * (row + k),
                                                          settle_row, &s, word, out + k);
            if (status != FDP_OK) {
                return status;
            }
        }
    }
    return FDP_OK;
}

static fdp_status_t select_rows(row_t *t, uint64_t first_row, int64_t *out)
{
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    t->proposal.rate = t->law->rate * FDP_LOG2E;
    t->proposal.place = 0.0;
    t->proposal.mantissa = 0;
    memset(&t->group, 0, sizeof t->group); /* the kernel reads all of its places */
    fdp_status_t status = FDP_OK;
    for (size_t r = 0; r < t->from->rows && status == FDP_OK; r += GROUP) {
        const size_t left = t->from->rows - r;
        status = select_some(t, r, left < GROUP ? left : GROUP, first_row + r, out + r);
    }
    fdp_rounding_leave(rounding);
    return status;
}

/* A small call uses, and wipes, only the beginning of each array. */
static void wipe_row(row_t *t)
{
    const size_t used = t->full > 0 ? FDP_NODE * 8 : t->padded * 8;
    fdp_wipe(&t->proposal, sizeof t->proposal);
    fdp_wipe(&t->total, sizeof t->total);
    fdp_wipe(t->tries, sizeof t->tries);
    fdp_wipe(&t->group, sizeof t->group);
    for (size_t p = 0; p < PARTS; p++) {
        if (part_of(&t->row, p) != NULL) {
            fdp_wipe(t->near[p], t->full > 0 ? sizeof t->near[p] : 0);
            fdp_wipe(t->last[p], used);
        }
    }
    fdp_wipe(t->weight, used);
    fdp_wipe(t->start, sizeof t->start);
    fdp_words_close(&t->words);
}

fdp_status_t fdp_select_proposed(const fdp_call_t *call, const fdp_selection_t *law,
                                 const fdp_candidates_t *from, uint64_t first_row,
                                 int64_t *out)
{
    row_t t; /* not initialized: its arrays are written before they are read */
    uint64_t few[FEW];
    if (!fdp_candidates_valid(from)) {
        memset(out, 0, from->rows * sizeof *out);
        return FDP_ERR_PARAMETER;
    }
    t.call = call;
    t.law = law;
    t.from = from;
    t.kernels = fdp_selection_kernels();
    t.tolerance = fdp_propose_tolerance(law, from);
    t.type = from->type == FDP_I64;
    t.based = from->mantissa != NULL;
    t.row = (fdp_row_t){NULL, NULL, NULL};
    t.full = from->n > FDP_NODE ? from->n / FDP_NODE : 0;
    t.rest = from->n - t.full * FDP_NODE;
    t.padded = fdp_block_padded(t.rest);
    t.size = nodes_of(&t) * sizeof *t.sum;
    t.sum = nodes_of(&t) <= FEW ? few : fdp_memory_take(t.size);
    if (t.sum == NULL) {
        memset(out, 0, from->rows * sizeof *out);
        return FDP_ERR_MEMORY;
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
