/* inverse.c: fdp_select_inverse, the exponential mechanism by inversion.
 *
 *   weigh_*        weights of children, the mass of their node
 *   pick_*         the child that a point of the mass falls on
 *   row_*          a row's tree, its choices one after another
 *
 * Candidates are the leaves of a tree whose nodes have at most 512 children. The mass
 * of a node is sum 2^place e^{c reference}: relative to its own largest score, so that
 * no gap between scores is too large, and taking a candidate away touches one path.
 * Within a node the children are passed in the order of (i mod 16, i div 16).
 */
#include <math.h>
#include <string.h>

#include "../base/mul128.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../exact/choice.h"
#include "fetch.h"
#include "inverse_settle.h"
#include "scratch.h"
#include "select.h"

#define DEPTH_MOST 8 /* 512^7 > 2^59 */

/* The nodes of one height. Their masses are the weights of children for the height above. */
typedef struct {
    size_t count, padded; /* padded with lost nodes to whole parents, if there are several */
    fdp_score_t *reference;
    double *sum, *place;
} level_t;

/* The children of the node weighed last: their weights, in units of the node. */
typedef struct {
    double lane[FDP_LANES];
    double sum, place;
    fdp_score_t reference;
    size_t padded;
    double gap[FDP_BLOCK], factor[FDP_BLOCK], weight[FDP_BLOCK];
    double column[2][FDP_BLOCK / FDP_LANES]; /* weights and factors of one lane */
} node_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    double tolerance;          /* error of cumulative weights over their total */
    size_t row, k;
    bool whole;                /* the row is short: see fetch.h */
    size_t depth;              /* depth of the tree: 1 if the root's children are candidates */
    level_t level[DEPTH_MOST]; /* level[d]: nodes of height d, d < depth               */
    uint64_t *removed;         /* bitmap of the row's candidates, NULL if k = 1        */
    size_t *taken;             /* the candidates taken, in ascending order */
    size_t gone;               /* the number of candidates taken */
    void *memory;
    size_t size;
    node_t node;
    fdp_block_t block;
    fdp_words_t words;
} tree_t;

static size_t children(size_t of, size_t index)
{
    const size_t left = of - index * FDP_BLOCK;
    return left < FDP_BLOCK ? left : FDP_BLOCK;
}

/* Words of the bitmap: it covers whole nodes. */
static size_t removed_words(size_t n)
{
    return (n + FDP_BLOCK - 1) / FDP_BLOCK * (FDP_BLOCK / 64);
}

/* ---- masses ------------------------------------------------------------------- */

/* Weighs the children to which the block points. */
static void weigh_block(tree_t *t)
{
    node_t *node = &t->node;
    const fdp_selection_kernels_t *k = t->kernels;
    const fdp_block_t *b = &t->block;
    node->padded = b->padded;
    const bool integer = t->from->type == FDP_I64;
    node->reference = k->largest[integer](b->score, b->lost, b->padded);
    k->gaps[integer](b->score, b->lost, b->padded, node->reference, t->law->rate, 0,
                     node->gap);
    if (b->mantissa == NULL) {
        k->weigh(node->gap, b->padded, node->weight, node->lane);
        node->place = 0.0;
    } else {
        node->place = k->weigh_scaled(node->gap, b->mantissa, b->exponent, b->padded,
                                      node->factor, node->weight, node->lane);
    }
    double sum = 0.0;
    for (size_t l = 0; l < FDP_LANES; l++) {
        sum += node->lane[l];
    }
    node->sum = sum;
}

/* Weighs the children of node `index` of height `height`. */
static void weigh_node(tree_t *t, size_t height, size_t index)
{
    fdp_block_t *b = &t->block;
    if (height == 1) {
        fdp_block_open(b, t->kernels, t->from, t->row, index * FDP_BLOCK,
                       children(t->from->n, index));
    } else {
        const level_t *below = &t->level[height - 1];
        b->count = b->padded = children(below->padded, index);
        b->score = below->reference + index * FDP_BLOCK;
        b->mantissa = below->sum + index * FDP_BLOCK;
        b->exponent = below->place + index * FDP_BLOCK;
        b->lost = NULL; /* a mass of 0 counts as lost */
    }
    weigh_block(t);
}

/* Stores the results for node `index`. The index depends on the scores. */
static void keep_again(tree_t *t, size_t height, size_t index)
{
    const level_t *level = &t->level[height];
    const node_t *node = &t->node;
    const size_t n = level->padded;
    fdp_store(level->reference, n, index, (uint64_t)node->reference.i64, t->whole);
    fdp_store(level->sum, n, index, fdp_double_bits(node->sum), t->whole);
    fdp_store(level->place, n, index, fdp_double_bits(node->place), t->whole);
}

/* Nodes beyond the last have no mass. */
static void keep_lost(const tree_t *t, const level_t *level)
{
    for (size_t i = level->count; i < level->padded; i++) {
        level->reference[i].i64 = (int64_t)fdp_score_none(t->from->type);
        level->sum[i] = level->place[i] = 0.0;
    }
}

/* ---- parts of nodes whose index depends on the scores ------------------------------- */

/* The children of a node: arrays of 64-bit entries. */
typedef struct {
    fdp_nodes_t score;
    fdp_nodes_t mantissa; /* from is NULL if all weights are 1 */
    fdp_nodes_t exponent; /* from is NULL if the mantissas are doubles to split */
    fdp_nodes_t removed;                   /* from is NULL if none is removed */
} family_t;

static family_t family_of(const tree_t *t, size_t height)
{
    family_t f = {{NULL, 0, FDP_BLOCK}, {NULL, 0, FDP_BLOCK}, {NULL, 0, FDP_BLOCK},
                  {NULL, 0, FDP_BLOCK / 64}};
    if (height == 1) {
        const fdp_candidates_t *from = t->from;
        const size_t at = t->row * from->weight_stride;
        f.score.from = (const uint64_t *)from->score + t->row * from->n;
        f.mantissa.from = from->mantissa == NULL ? NULL : from->mantissa + at;
        f.exponent.from = from->exponent == NULL ? NULL : from->exponent + at;
        f.removed.from = t->gone > 0 ? t->removed : NULL;
        f.removed.entries = removed_words(from->n);
        f.score.entries = f.mantissa.entries = f.exponent.entries = from->n;
    } else {
        const level_t *below = &t->level[height - 1];
        f.score.from = below->reference;
        f.mantissa.from = below->sum;
        f.exponent.from = below->place;
        f.score.entries = f.mantissa.entries = f.exponent.entries = below->padded;
    }
    return f;
}

/* Prefetches node `index`. */
static void expect_node(const tree_t *t, const family_t *f, size_t index)
{
    if (t->whole) {
        return;
    }
    fdp_expect(&f->score, index);
    fdp_expect(&f->mantissa, index);
    fdp_expect(&f->exponent, index);
    fdp_expect(&f->removed, index);
    fdp_wait(t->from->n);
}

/* Copies the children of node `index` into the block. */
static void copy_children(tree_t *t, const family_t *f, size_t index)
{
    fdp_block_t *b = &t->block;
    const fdp_selection_kernels_t *k = t->kernels;
    fdp_fetch(k, &f->score, index, t->whole, fdp_score_none(t->from->type), b->score_copy);
    b->score = b->score_copy;
    b->mantissa = b->exponent = NULL;
    b->lost = NULL;
    if (f->mantissa.from != NULL) {
        fdp_fetch(k, &f->mantissa, index, t->whole, 0, b->mantissa_copy);
        if (f->exponent.from != NULL) {
            fdp_fetch(k, &f->exponent, index, t->whole, 0, b->exponent_copy);
        } else {
            k->split(b->mantissa_copy, FDP_BLOCK, t->from->weight_top, b->exponent_copy);
        }
        b->mantissa = b->mantissa_copy;
        b->exponent = b->exponent_copy;
    }
    b->count = b->padded = FDP_BLOCK;
}

/* Marks the candidates of node `index` that do not count: those taken, those without weight and
 * those beyond the last. */
static void mark_lost(tree_t *t, const family_t *f, size_t index)
{
    fdp_block_t *b = &t->block;
    if (b->mantissa == NULL && f->removed.from == NULL && t->from->type != FDP_I64) {
        return; /* the padding is NaN */
    }
    uint64_t bits[FDP_BLOCK / 64] = {0};
    if (f->removed.from != NULL) {
        fdp_fetch(t->kernels, &f->removed, index, t->whole, 0, bits);
    }
    /* By signs: with comparisons the compiler would not vectorize this loop. */
    const uint64_t left = t->from->n - index * FDP_BLOCK;
    for (size_t i = 0; i < b->padded && b->mantissa == NULL; i++) {
        b->lost_copy[i] = 0 - ((left - 1 - i) >> 63);
    }
    if (b->mantissa != NULL) { /* the padding has no weight */
        t->kernels->mark(b->mantissa, b->padded, b->lost_copy);
    }
    for (size_t i = 0; i < b->padded && f->removed.from != NULL; i += 64) {
        const size_t most = b->padded - i < 64 ? b->padded - i : 64;
        for (size_t j = 0; j < most; j++) {
            b->lost_copy[i + j] |= 0 - (bits[i / 64] >> j & 1);
        }
    }
    fdp_wipe(bits, sizeof bits);
    b->lost = b->lost_copy;
}

/* Weighs the children of a node again. If its index depends on the scores, its block is copied and
 * padded, so that all nodes take the same time. */
static void weigh_again(tree_t *t, size_t height, size_t index)
{
    const family_t f = family_of(t, height);
    expect_node(t, &f, index);
    if (height == t->depth) {
        weigh_node(t, height, 0);
        return;
    }
    copy_children(t, &f, index);
    if (height == 1) {
        mark_lost(t, &f, index);
    }
    weigh_block(t);
}

/* ---- picking -------------------------------------------------------------------- */

/* A point of a mass, and the nodes in which it was found so far. */
typedef struct {
    double point; /* minus the mass before the child */
    double unit;  /* the size of the node's unit */
    double factor; /* factor of the child picked last */
    double tolerance;
    uint64_t unsure;
} search_t;

/* Advances over a prefix sum without a branch: continues if the next sum is not beyond the
 * point. */
static inline uint64_t step(const search_t *s, double part, uint64_t going, size_t *at,
                            double *before)
{
    const double next = *before + part;
    going &= fdp_mask(s->unit * next <= s->point);
    *at += going & 1;
    *before = fdp_pick_double(going, next, *before);
    return going;
}

static size_t pick_lane(search_t *s, const double *lane)
{
    size_t at = 0;
    double before = 0.0;
    uint64_t going = ~UINT64_C(0);
    for (size_t l = 0; l + 1 < FDP_LANES; l++) {
        going = step(s, lane[l], going, &at, &before);
    }
    s->point -= s->unit * before;
    return at;
}

/* The row of the child among the first `rows` rows of a column. If `factor` is given, also its
 * factor. */
static size_t pick_row(search_t *s, const double *weight, const double *factor,
                       size_t rows)
{
    size_t at = 0;
    double before = 0.0, own = weight[0];
    uint64_t going = ~UINT64_C(0);
    for (size_t r = 0; r + 1 < rows; r++) {
        going = step(s, weight[r], going, &at, &before);
        own = fdp_pick_double(going, weight[r + 1], own);
    }
    for (size_t r = 0; r < rows && factor != NULL; r++) {
        s->factor = fdp_pick_double(fdp_mask(r == at), factor[r], s->factor);
    }
    s->point -= s->unit * before;
    const double beyond = s->unit * own - s->point;
    s->unsure |= (uint64_t)(s->point < s->tolerance) | (uint64_t)(beyond < s->tolerance);
    return at;
}

/* Picks the child of the node weighed last. */
static size_t pick_child(tree_t *t, search_t *s)
{
    node_t *node = &t->node;
    const size_t rows = node->padded / FDP_LANES;
    const size_t lane = pick_lane(s, node->lane);
    t->kernels->column(node->weight, rows, lane, node->column[0]);
    if (t->depth > 1) {
        t->kernels->column(node->factor, rows, lane, node->column[1]);
    }
    return lane + FDP_LANES * pick_row(s, node->column[0],
                                       t->depth > 1 ? node->column[1] : NULL, rows);
}

/* ---- a row ------------------------------------------------------------------- */

static size_t nodes_above(size_t count) { return (count + FDP_BLOCK - 1) / FDP_BLOCK; }

/* Divides `memory` among the levels; if it is NULL, only counts the bytes. */
static size_t lay_out(tree_t *t, uint8_t *memory)
{
    size_t at = 0, count = t->from->n;
    t->depth = 1;
    while (count > FDP_BLOCK) {
        count = nodes_above(count);
        level_t *level = &t->level[t->depth++];
        level->count = count;
        const size_t whole = count > FDP_BLOCK ? FDP_BLOCK : FDP_LANES;
        level->padded = (count + whole - 1) / whole * whole;
        const size_t bytes = level->padded * 8;
        if (memory != NULL) {
            level->reference = (fdp_score_t *)(void *)(memory + at);
            level->sum = (double *)(void *)(memory + at + bytes);
            level->place = (double *)(void *)(memory + at + 2 * bytes);
        }
        at += 3 * bytes;
    }
    if (t->k > 1) {
        const size_t bytes = removed_words(t->from->n) * 8;
        if (memory != NULL) {
            t->removed = (uint64_t *)(void *)(memory + at);
            t->taken = (size_t *)(void *)(memory + at + bytes);
        }
        at += bytes + t->k * 8;
    }
    return at;
}

/* Computes the masses of all nodes; the root is weighed last and stays in t->node. */
static void row_open(tree_t *t, size_t row)
{
    t->row = row;
    t->gone = 0;
    if (t->removed != NULL) {
        memset(t->removed, 0, removed_words(t->from->n) * 8);
    }
    for (size_t height = 1; height < t->depth; height++) {
        const level_t *level = &t->level[height];
        for (size_t i = 0; i < level->count; i++) {
            weigh_node(t, height, i);
            level->reference[i] = t->node.reference;
            level->sum[i] = t->node.sum;
            level->place[i] = t->node.place;
        }
        keep_lost(t, level);
    }
    weigh_node(t, t->depth, 0);
}

/* Adds a candidate to those taken, without a branch on its place. */
static void enter_taken(tree_t *t, size_t candidate)
{
    const size_t word = candidate / 64;
    const size_t first = t->whole ? 0 : word;
    const size_t last = t->whole ? removed_words(t->from->n) : word + 1;
    for (size_t i = first; i < last; i++) {
        t->removed[i] |= fdp_mask(i == word) & UINT64_C(1) << candidate % 64;
    }
    uint64_t carried = candidate;
    for (size_t i = 0; i < t->gone; i++) {
        const uint64_t here = t->taken[i], less = fdp_mask(carried < here);
        t->taken[i] = (size_t)fdp_pick(less, carried, here);
        carried = fdp_pick(less, here, carried);
    }
    t->taken[t->gone++] = (size_t)carried;
}

/* Removes a candidate: weighs its path again, the root last. The walk to the choice left the
 * candidates of its node in the block. That is not so if the choice is another one: because no
 * candidate has any weight, or because the resolver made it (`elsewhere`). */
static void row_remove(tree_t *t, size_t candidate, bool elsewhere)
{
    fdp_block_t *b = &t->block;
    size_t index = candidate / FDP_BLOCK;
    enter_taken(t, candidate);
    if (elsewhere && t->depth > 1) {
        weigh_again(t, 1, index);
    } else {
        if (b->lost == NULL) {
            memset(b->lost_copy, 0, b->padded * sizeof *b->lost_copy);
            b->lost = b->lost_copy;
        }
        for (size_t i = 0; i < b->padded; i++) {
            const uint64_t apart = i ^ candidate % FDP_BLOCK;
            b->lost_copy[i] |= 0 - ((apart - 1) >> 63);
        }
        weigh_block(t);
    }
    for (size_t height = 1; height < t->depth; height++) {
        keep_again(t, height, index);
        index /= FDP_BLOCK;
        weigh_again(t, height + 1, index);
    }
}

/* Candidate number `place` among those not taken. */
static size_t place_left(const tree_t *t, size_t place)
{
    for (size_t i = 0; i < t->gone; i++) {
        place += t->taken[i] <= place;
    }
    return place;
}

/* Makes the row's next choice by `word`; sets *unsure if further bits are needed. */
static size_t row_choose(tree_t *t, uint64_t word, uint64_t *unsure)
{
    const double total = t->node.sum;
    search_t s = {.point = ((double)(word >> 11) + 0.5) * 0x1p-53 * total,
                  .unit = 1.0,
                  .tolerance = t->tolerance * total};
    size_t index = pick_child(t, &s);
    for (size_t height = t->depth; height-- > 1;) {
        const size_t last = t->level[height].count - 1;
        index = index < last ? index : last; /* greater only if the choice is unsure */
        s.unit *= s.factor;
        weigh_again(t, height, index);
        index = index * FDP_BLOCK + pick_child(t, &s);
    }
    /* No weight is left: choose uniformly among the remaining candidates. */
    const size_t left = t->from->n - t->gone;
    uint64_t place;
    const uint64_t low = fdp_mul_u64(word, left, &place);
    const size_t even = place_left(t, (size_t)place);
    const uint64_t none = fdp_mask(!(total > 0.0));
    const uint64_t split = low > 0 - (uint64_t)left;
    *unsure = fdp_pick(none, split, s.unsure);
    return (size_t)fdp_pick(none, even, index);
}

/* Makes a choice that the kernels leave open, by further bits of the same real: first in 128-bit
 * integers, then in integers of any size. */
static fdp_status_t row_settle(tree_t *t, uint64_t draw, uint64_t word, int64_t *choice)
{
    const fdp_choice_t row =
        fdp_choice_of(t->law, t->from, t->row, t->gone > 0 ? t->removed : NULL);
    const uint32_t trial = (uint32_t)(draw % FDP_SELECT_CHUNK);
    fdp_chunk_t chunk;
    uint64_t more[2];
    fdp_chunk_open(&chunk, &t->call->stream, draw / FDP_SELECT_CHUNK);
    fdp_chunk_extend(&chunk, &trial, 1, 0, (uint8_t *)more);
    fdp_chunk_close(&chunk);
    const bool settled = fdp_inverse_settle(&row, word, more[0], choice);
    fdp_wipe(more, sizeof more);
    return settled ? FDP_OK
                   : fdp_select_settle(t->call, draw, fdp_settle_inverse, &row, &word, choice);
}

static fdp_status_t row_select(tree_t *t, uint64_t row, int64_t *out)
{
    const uint64_t draw = row * t->k;
    for (size_t j = 0; j < t->k; j++) {
        const size_t ahead = (t->from->rows - t->row) * t->k - j;
        const uint64_t word = *fdp_words_at(&t->words, draw + j, 1, ahead);
        uint64_t unsure;
        out[j] = (int64_t)row_choose(t, word, &unsure);
        const bool asked = unsure != 0;
        const fdp_status_t status =
            FDP_UNLIKELY(asked) ? row_settle(t, draw + j, word, &out[j]) : FDP_OK;
        if (status != FDP_OK) {
            return status;
        }
        if (j + 1 < t->k) {
            row_remove(t, (size_t)out[j], asked);
        }
    }
    return FDP_OK;
}

/* A small call uses, and wipes, only the beginning of each array. */
static void wipe_tree(tree_t *t)
{
    const size_t n = t->from->n;
    const size_t used = fdp_block_padded(n) * sizeof(double);
    fdp_wipe(&t->node, offsetof(node_t, gap));
    fdp_wipe(t->node.gap, used);
    fdp_wipe(t->node.factor, used);
    fdp_wipe(t->node.weight, used);
    fdp_wipe(t->node.column[0], used / FDP_LANES);
    fdp_wipe(t->node.column[1], used / FDP_LANES);
    fdp_block_close(&t->block, n);
    fdp_words_close(&t->words);
}

/* ---- the call ------------------------------------------------------------------ */

static fdp_status_t select_rows(tree_t *t, uint64_t first_row, int64_t *out)
{
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    fdp_status_t status = FDP_OK;
    for (size_t r = 0; r < t->from->rows && status == FDP_OK; r++) {
        row_open(t, r);
        status = row_select(t, first_row + r, out + r * t->k);
    }
    fdp_rounding_leave(rounding);
    return status;
}

fdp_status_t fdp_select_inverse(const fdp_call_t *call, const fdp_selection_t *law,
                                const fdp_candidates_t *from, uint64_t first_row,
                                size_t k, int64_t *out)
{
    tree_t t; /* not initialized: its arrays are written before they are read */
    t.call = call;
    t.law = law;
    t.from = from;
    t.kernels = fdp_selection_kernels();
    t.k = k;
    t.whole = from->n <= FDP_SHORT;
    t.removed = NULL;
    t.taken = NULL;
    if (!fdp_candidates_valid(from) || k == 0 || k > from->n || k > FDP_SELECT_MOST) {
        memset(out, 0, from->rows * k * sizeof *out);
        return FDP_ERR_PARAMETER;
    }
    t.size = lay_out(&t, NULL);
    t.memory = t.size == 0 ? NULL : fdp_memory_take(t.size);
    if (t.size != 0 && t.memory == NULL) {
        memset(out, 0, from->rows * k * sizeof *out);
        return FDP_ERR_MEMORY;
    }
    lay_out(&t, t.memory);
    t.tolerance = fdp_inverse_tolerance(law, from, t.depth);
    fdp_words_open(&t.words, call, 0);
    const fdp_status_t status = select_rows(&t, first_row, out);
    if (status != FDP_OK) {
        memset(out, 0, from->rows * k * sizeof *out);
    }
    fdp_memory_give(t.memory, t.size);
    wipe_tree(&t);
    return status;
}
