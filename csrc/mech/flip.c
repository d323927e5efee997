/* flip.c: fdp_select_flipped, permute-and-flip by its flips. row_flip makes one flip for each
 * candidate, which succeeds with probability e^-gap; row_settle settles the flips that doubles
 * leave open, by all their bits; row_pick picks one of the candidates whose flip succeeded, each
 * with the same probability. The flips do not depend on the order of the candidates, so the first
 * success in a random order is a uniform choice among all successes. So neither an order nor a
 * candidate's noise is drawn. */
#include <math.h>
#include <string.h>

#include "../base/mul128.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../exact/choice.h"
#include "lanes.h"
#include "scratch.h"
#include "select.h"

#define FEW 64 /* masks of a short row */

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    fdp_proposal_t gap;
    size_t masks; /* masks; each covers 64 candidates */
    uint64_t all; /* mask: if set (by tests), all flips go to the exact step */
    uint64_t *kept, *open; /* bits of the flips that succeeded, and of those undecided */
    uint64_t word[FDP_BLOCK];
    fdp_block_t block;
    fdp_words_t words;
} flips_t;

/* Makes the flips of all candidates. Returns whether some are undecided. */
static uint64_t row_flip(flips_t *t, size_t row, uint64_t draw)
{
    const size_t n = t->from->n;
    uint64_t open = 0;
    for (size_t at = 0; at < n; at += FDP_BLOCK) {
        const size_t count = n - at < FDP_BLOCK ? n - at : FDP_BLOCK;
        const size_t ahead = (t->from->rows - row) * (n + 1) - at;
        const size_t padded = fdp_block_padded(count), first = row * n + at;
        const size_t chunk = FDP_SELECT_CHUNK - (size_t)((draw + at) % FDP_SELECT_CHUNK);
        fdp_row_t from = {.score = (const uint64_t *)t->from->score + first};
        if (first + padded > t->from->rows * n) { /* nothing is left to read after the row */
            fdp_block_open(&t->block, t->kernels, t->from, row, at, count);
            from.score = t->block.score;
        }
        /* Padding gets words of later draws, and its flips do not count. */
        const uint64_t *word =
            fdp_words_block(&t->words, draw + at, padded <= chunk ? padded : count,
                            ahead + FDP_LANES, padded, t->word);
        t->kernels->flips[t->from->type == FDP_I64](&from, word, padded, &t->gap,
                                                    t->kept + at / 64, t->open + at / 64);
    }
    const uint64_t there = ~UINT64_C(0) >> (64 * t->masks - n);
    t->kept[t->masks - 1] &= there;
    for (size_t g = 0; g < t->masks; g++) {
        t->open[g] |= t->all;
        t->open[g] &= g + 1 < t->masks ? ~UINT64_C(0) : there;
        open |= t->open[g];
    }
    return open;
}

static fdp_status_t row_settle(flips_t *t, size_t r, uint64_t draw)
{
    const fdp_choice_t choice = fdp_choice_of(t->law, t->from, r, NULL);
    fdp_status_t status = FDP_OK;
    for (size_t g = 0; g < t->masks; g++) {
        for (uint64_t left = t->open[g]; left != 0 && status == FDP_OK; left &= left - 1) {
            const unsigned bit = (unsigned)__builtin_ctzll(left);
            const uint64_t i = 64 * g + bit;
            uint64_t words[2] = {fdp_words_peek(&t->words, draw + i), i};
            int64_t up;
            status = fdp_select_settle(t->call, draw + i, fdp_settle_flip, &choice, words, &up);
            t->kept[g] = (t->kept[g] & ~(UINT64_C(1) << bit)) | ((uint64_t)up & 1) << bit;
            fdp_wipe(words, sizeof words);
        }
    }
    return status;
}

/* The place of the set bit with this rank. */
static uint64_t place_of(const flips_t *t, uint64_t rank)
{
    uint64_t mask = 0, place = 0, before = 0, until = 0;
    for (size_t g = 0; g < t->masks; g++) {
        const uint64_t here = fdp_mask(until <= rank);
        mask = fdp_pick(here, t->kept[g], mask);
        place = fdp_pick(here, 64 * g, place);
        before = fdp_pick(here, until, before);
        until += fdp_ones(t->kept[g]);
    }
    for (unsigned half = 32; half > 0; half /= 2) {
        const uint64_t low = mask & ((UINT64_C(1) << half) - 1);
        const uint64_t ones = fdp_ones(low), beyond = fdp_mask(before + ones <= rank);
        before += ones & beyond;
        place += half & beyond;
        mask = fdp_pick(beyond, mask >> half, low);
    }
    return place;
}

static fdp_status_t row_pick(flips_t *t, uint64_t draw, uint64_t word, int64_t *out)
{
    uint64_t count = 0, rank;
    for (size_t g = 0; g < t->masks; g++) {
        count += fdp_ones(t->kept[g]);
    }
    const uint64_t low = fdp_mul_u64(word, count, &rank);
    int64_t exact = (int64_t)rank;
    if (FDP_UNLIKELY((low > 0 - count) | (t->all != 0))) {
        uint64_t words[2] = {word, count};
        const fdp_status_t status =
            fdp_select_settle(t->call, draw, fdp_settle_even, NULL, words, &exact);
        fdp_wipe(words, sizeof words);
        if (status != FDP_OK) {
            return status;
        }
    }
    const uint64_t place = place_of(t, (uint64_t)exact), last = t->from->n - 1;
    /* No flip succeeded: only possible if another thread changed the scores between two
     * readings. */
    *out = (int64_t)fdp_pick(fdp_mask(place > last), last, place);
    return FDP_OK;
}

static fdp_status_t row_select(flips_t *t, size_t r, uint64_t row, int64_t *out)
{
    const size_t n = t->from->n;
    const uint64_t draw = row * (n + 1);
    uint64_t none;
    t->gap.top = fdp_row_largest(t->kernels, t->from, r, &none);
    t->gap.most = fdp_pick_double(none, 0.0, FDP_GAP_MOST);
    const uint64_t open = row_flip(t, r, draw);
    const fdp_status_t status = FDP_UNLIKELY(open != 0) ? row_settle(t, r, draw) : FDP_OK;
    if (status != FDP_OK) {
        return status;
    }
    const size_t ahead = (t->from->rows - r - 1) * (n + 1) + 1;
    return row_pick(t, draw + n, *fdp_words_at(&t->words, draw + n, 1, ahead), out);
}

static fdp_status_t select_rows(flips_t *t, uint64_t first_row, int64_t *out)
{
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    fdp_status_t status = FDP_OK;
    for (size_t r = 0; r < t->from->rows && status == FDP_OK; r++) {
        status = row_select(t, r, first_row + r, out + r);
    }
    fdp_rounding_leave(rounding);
    return status;
}

fdp_status_t fdp_select_flipped(const fdp_call_t *call, const fdp_selection_t *law,
                                const fdp_candidates_t *from, uint64_t first_row,
                                int64_t *out)
{
    if (!fdp_candidates_valid(from) || from->mantissa != NULL) {
        memset(out, 0, from->rows * sizeof *out);
        return FDP_ERR_PARAMETER;
    }
    flips_t t; /* its arrays are written before they are read */
    uint64_t few[2 * FEW];
    t.call = call;
    t.law = law;
    t.from = from;
    t.kernels = fdp_selection_kernels();
    t.gap.rate = law->rate;
    t.all = fdp_mask(law->tolerance > 0.0);
    t.masks = (from->n + 63) / 64;
    const size_t size = 2 * t.masks * sizeof *t.kept;
    t.kept = t.masks <= FEW ? few : fdp_memory_take(size);
    if (t.kept == NULL) {
        memset(out, 0, from->rows * sizeof *out);
        return FDP_ERR_MEMORY;
    }
    t.open = t.kept + t.masks;
    fdp_words_open(&t.words, call, 0);
    const fdp_status_t status = select_rows(&t, first_row, out);
    if (status != FDP_OK) {
        memset(out, 0, from->rows * sizeof *out);
    }
    if (t.kept == few) {
        fdp_wipe(few, size);
    } else {
        fdp_memory_give(t.kept, size);
    }
    fdp_wipe(&t.gap, sizeof t.gap);
    fdp_wipe(t.word, fdp_block_padded(from->n) * 8);
    fdp_block_close(&t.block, from->n);
    fdp_words_close(&t.words);
    return status;
}
