/* inverse.c: fdp_select_inverse, the exponential mechanism by inversion.
 *
 *   weigh_node     weights of a node's children, the mass of the node
 *   pick           the child that a point of the mass falls on
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
#include "scratch.h"
#include "select.h"

#define DEPTH_MOST 8 /* 512^7 > 2^59 */

typedef struct {
    size_t count, padded; /* by lost ones: to whole nodes if there are several */
    fdp_score_t *reference;
    double *sum, *place;
} level_t;

/* The children of the node weighed last: weights in units of the node. */
typedef struct {
    double lane[FDP_LANES];
    double sum, place;
    fdp_score_t reference;
    size_t padded;
    double gap[FDP_BLOCK], factor[FDP_BLOCK], weight[FDP_BLOCK];
} node_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    size_t row, k;
    size_t depth;              /* of the tree: 1 if the root's children are candidates */
    level_t level[DEPTH_MOST]; /* level[d]: nodes of height d, d < depth               */
    uint64_t *removed;         /* bitmap of the row's candidates, NULL if k = 1        */
    size_t *taken;             /* the same, ascending                                  */
    size_t gone;               /* how many                                             */
    void *memory;
    size_t size;
    node_t node;
    fdp_block_t block;
    fdp_words_t words;
} tree_t;

static double sum_of(const double lane[FDP_LANES])
{
    double sum = 0.0;
    for (size_t l = 0; l < FDP_LANES; l++) {
        sum += lane[l];
    }
    return sum;
}

static size_t children(size_t of, size_t index)
{
    const size_t left = of - index * FDP_BLOCK;
    return left < FDP_BLOCK ? left : FDP_BLOCK;
}

/* Weighs the children of node `index` of height `height`; `alike` where the index
 * follows from the scores. */
static void weigh_node(tree_t *t, size_t height, size_t index, bool alike)
{
    node_t *node = &t->node;
    const fdp_selection_kernels_t *k = t->kernels;
    fdp_block_t *b = &t->block;
    if (height == 1) {
        fdp_block_open(b, t->from, t->row, index * FDP_BLOCK,
                       children(t->from->n, index), t->gone > 0 ? t->removed : NULL,
                       alike);
    } else {
        const level_t *below = &t->level[height - 1];
        b->count = b->padded = children(below->padded, index);
        b->score = below->reference + index * FDP_BLOCK;
        b->mantissa = below->sum + index * FDP_BLOCK;
        b->exponent = below->place + index * FDP_BLOCK;
        b->lost = NULL; /* masses of 0 are */
    }
    node->padded = b->padded;
    node->reference = fdp_block_largest(k, t->from->type, b);
    fdp_block_gaps(k, t->from->type, b, node->reference, t->law->rate, 0, node->gap);
    if (b->mantissa == NULL) {
        k->weigh(node->gap, b->padded, node->weight, node->lane);
        node->place = 0.0;
    } else {
        node->place = k->weigh_scaled(node->gap, b->mantissa, b->exponent, b->padded,
                                      node->factor, node->weight, node->lane);
    }
    node->sum = sum_of(node->lane);
}

static void keep_node(tree_t *t, size_t height, size_t index)
{
    level_t *level = &t->level[height];
    level->reference[index] = t->node.reference;
    level->sum[index] = t->node.sum;
    level->place[index] = t->node.place;
}

/* Steps over prefix sums without a branch: where the next one is not beyond the
 * point, goes on. */
static void step(double point, double unit, double part, uint64_t *going, size_t *at,
                 double *before)
{
    const double next = *before + part;
    *going &= fdp_mask(unit * next <= point);
    *at += *going & 1;
    *before = fdp_pick_double(*going, next, *before);
}

/* The child of the weighed node on which `point` falls, `unit` being the size of the
 * node's unit; reduces the point to what lies before it within the child. */
static size_t pick(const tree_t *t, double unit, double *point, double tolerance,
                   uint64_t *unsure)
{
    const node_t *node = &t->node;
    size_t lane = 0, row = 0;
    double before = 0.0;
    uint64_t going = ~UINT64_C(0);
    for (size_t l = 0; l + 1 < FDP_LANES; l++) {
        step(*point, unit, node->lane[l], &going, &lane, &before);
    }
    going = ~UINT64_C(0);
    for (size_t r = 0; r + 1 < node->padded / FDP_LANES; r++) {
        step(*point, unit, node->weight[r * FDP_LANES + lane], &going, &row, &before);
    }
    const size_t child = row * FDP_LANES + lane;
    *point -= unit * before;
    const double beyond = unit * node->weight[child] - *point;
    *unsure |= (uint64_t)(*point < tolerance) | (uint64_t)(beyond < tolerance);
    return child;
}

/* ---- a row ------------------------------------------------------------------- */

static size_t nodes_above(size_t count) { return (count + FDP_BLOCK - 1) / FDP_BLOCK; }

/* Lays the levels out in `memory`; with none, only counts the bytes. */
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
        if (memory != NULL) {
            t->removed = (uint64_t *)(void *)(memory + at);
            t->taken = (size_t *)(void *)(memory + at + (t->from->n / 64 + 1) * 8);
        }
        at += (t->from->n / 64 + 1 + t->k) * 8;
    }
    return at;
}

/* Masses of all nodes; the root stays weighed. */
static void row_open(tree_t *t, size_t row)
{
    t->row = row;
    t->gone = 0;
    if (t->removed != NULL) {
        memset(t->removed, 0, (t->from->n / 64 + 1) * 8);
    }
    for (size_t height = 1; height < t->depth; height++) {
        const level_t *level = &t->level[height];
        for (size_t i = 0; i < level->count; i++) {
            weigh_node(t, height, i, false);
            keep_node(t, height, i);
        }
        for (size_t i = level->count; i < level->padded; i++) { /* lost */
            t->node.reference.i64 = INT64_MIN;
            if (t->from->type != FDP_I64) {
                t->node.reference.f64 = -INFINITY;
            }
            t->node.sum = t->node.place = 0.0;
            keep_node(t, height, i);
        }
    }
    weigh_node(t, t->depth, 0, false);
}

/* Takes a candidate away: its path is weighed anew, the root last. */
static void row_remove(tree_t *t, size_t candidate)
{
    t->removed[candidate / 64] |= UINT64_C(1) << candidate % 64;
    size_t at = t->gone++;
    for (; at > 0 && t->taken[at - 1] > candidate; at--) {
        t->taken[at] = t->taken[at - 1];
    }
    t->taken[at] = candidate;
    size_t index = candidate;
    for (size_t height = 1; height <= t->depth; height++) {
        index /= FDP_BLOCK;
        weigh_node(t, height, index, t->depth > 1);
        if (height < t->depth) {
            keep_node(t, height, index);
        }
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

/* The row's next choice by `word`; sets unsure if further bits are needed. */
static size_t row_choose(tree_t *t, uint64_t word, uint64_t *unsure)
{
    const double total = t->node.sum;
    const double tolerance = t->law->tolerance * total;
    double point = ((double)(word >> 11) + 0.5) * 0x1p-53 * total;
    double unit = 1.0;
    uint64_t near = 0;
    size_t index = pick(t, unit, &point, tolerance, &near);
    for (size_t height = t->depth; height-- > 1;) {
        unit *= t->node.factor[index % FDP_BLOCK];
        const size_t last = t->level[height].count - 1;
        index = index < last ? index : last; /* beyond it only where unsure */
        weigh_node(t, height, index, true);
        index = index * FDP_BLOCK + pick(t, unit, &point, tolerance, &near);
    }
    /* no weight left: uniform among the candidates left */
    const size_t left = t->from->n - t->gone;
    uint64_t place;
    const uint64_t low = fdp_mul_u64(word, left, &place);
    const size_t even = place_left(t, (size_t)place);
    const uint64_t none = fdp_mask(!(total > 0.0));
    const uint64_t split = low > 0 - (uint64_t)left;
    *unsure = fdp_pick(none, split, near);
    return (size_t)fdp_pick(none, even, index);
}

static fdp_status_t row_select(tree_t *t, uint64_t row, int64_t *out)
{
    const uint64_t draw = row * t->k;
    for (size_t j = 0; j < t->k; j++) {
        const size_t ahead = (t->from->rows - t->row) * t->k - j;
        const uint64_t word = *fdp_words_at(&t->words, draw + j, 1, ahead);
        uint64_t unsure;
        out[j] = (int64_t)row_choose(t, word, &unsure);
        if (FDP_UNLIKELY(unsure != 0)) {
            if (!fdp_ask(t->call, t->law, draw + j, word, row, j, &out[j])) {
                return FDP_ERR_RESOLVER;
            }
        }
        if (j + 1 < t->k) {
            row_remove(t, (size_t)out[j]);
        }
    }
    return FDP_OK;
}

/* A small call uses, and wipes, the beginning of each array only. */
static void wipe_tree(tree_t *t)
{
    const size_t n = t->from->n;
    const size_t used = fdp_block_padded(n) * sizeof(double);
    fdp_wipe(&t->node, offsetof(node_t, gap));
    fdp_wipe(t->node.gap, used);
    fdp_wipe(t->node.factor, used);
    fdp_wipe(t->node.weight, used);
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
    tree_t t; /* its arrays are written before they are read */
    t.call = call;
    t.law = law;
    t.from = from;
    t.kernels = fdp_selection_kernels();
    t.k = k;
    t.removed = NULL;
    t.taken = NULL;
    if (k == 0 || k > from->n || k > FDP_SELECT_MOST) {
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
    fdp_words_open(&t.words, call, 0);
    const fdp_status_t status = select_rows(&t, first_row, out);
    if (status != FDP_OK) {
        memset(out, 0, from->rows * k * sizeof *out);
    }
    fdp_memory_give(t.memory, t.size);
    wipe_tree(&t);
    return status;
}
