/* race.c: fdp_select_race and fdp_race_keys: the largest of noise - gap + ln weight.
 *
 *   block_keys    noise and gaps of one block of a row
 *   row_reference the score that gaps are taken from
 *   row_winner    the winner, if the words decide it
 *   row_settle    otherwise compares, one by one, the candidates that can still win
 *
 * The noise of a candidate is real-valued, and its word gives the first 64 bits. So a key is
 * known up to the tolerance, which covers the arithmetic, and up to the cell of the word:
 * high = key + tolerance, low = key - tolerance - cell.
 */
#include <math.h>
#include <string.h>

#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../exact/choice.h"
#include "select.h"

/* Chunks of the angles of Gaussian noise. */
#define ANGLES (UINT64_C(1) << 31)

typedef struct {
    const fdp_call_t *call;
    const fdp_selection_t *law;
    const fdp_candidates_t *from;
    const fdp_selection_kernels_t *kernels;
    double tolerance;       /* of a key */
    size_t row;
    uint64_t first;         /* draw of the row's first candidate */
    fdp_score_t reference;  /* the row's largest score                      */
    uint64_t all;           /* mask: all ones if all candidates are lost; then all of them count */
    double noise[FDP_BLOCK], plain[FDP_BLOCK], gap[FDP_BLOCK];
    fdp_block_t block;
    fdp_words_t words, angles;
} race_t;

/* The size of the row's next block: at most FDP_BLOCK candidates, whose words are in one chunk. */
static size_t block_size(const race_t *r, size_t done)
{
    const size_t left = r->from->n - done;
    const size_t chunk = FDP_SELECT_CHUNK - (size_t)((r->first + done) % FDP_SELECT_CHUNK);
    const size_t most = chunk < FDP_BLOCK ? chunk : FDP_BLOCK;
    return left < most ? left : most;
}

static void block_noise(race_t *r, size_t done, size_t count, double *noise)
{
    uint64_t word_copy[FDP_BLOCK], angle_copy[FDP_BLOCK];
    const size_t n = r->block.padded;
    const size_t ahead = (r->from->rows - r->row) * r->from->n - done;
    const uint64_t *word =
        fdp_words_block(&r->words, r->first + done, count, ahead, n, word_copy);
    const uint64_t *angle;
    switch (r->law->noise) {
    case FDP_RACE_GUMBEL: r->kernels->noise_gumbel(word, n, noise); break;
    case FDP_RACE_LAPLACE: r->kernels->noise_laplace(word, n, noise); break;
    default:
        angle = fdp_words_block(&r->angles, r->first + done, count, ahead, n, angle_copy);
        r->kernels->noise_gaussian(word, angle, n, noise);
        fdp_wipe(angle_copy, angle == angle_copy ? n * sizeof *angle_copy : 0);
        break;
    }
    fdp_wipe(word_copy, word == word_copy ? n * sizeof *word_copy : 0);
}

/* Computes r->noise and r->gap for the row's candidates from `done` on. ln weight is added to the
 * noise, unless no candidate has a weight. */
static void block_keys(race_t *r, size_t done, size_t count)
{
    const fdp_block_t *b = &r->block;
    fdp_block_open(&r->block, r->kernels, r->from, r->row, done, count);
    block_noise(r, done, count, r->noise);
    r->kernels->gaps[r->from->type == FDP_I64](b->score, b->lost, b->padded, r->reference,
                                               r->law->rate, r->all, r->gap);
    for (size_t i = count; i < b->padded; i++) {
        r->gap[i] = INFINITY; /* even if all gaps are 0 */
    }
    if (b->mantissa != NULL) {
        memcpy(r->plain, r->noise, b->padded * sizeof *r->plain);
        r->kernels->add_log(b->mantissa, b->exponent, b->padded, r->noise);
        for (size_t i = 0; i < b->padded; i++) {
            r->noise[i] = fdp_pick_double(r->all, r->plain[i], r->noise[i]);
        }
    }
}

/* ---- a row ------------------------------------------------------------------- */

static void row_reference(race_t *r, size_t row, uint64_t first)
{
    r->row = row;
    r->first = first + (uint64_t)row * r->from->n;
    r->reference = fdp_row_largest(r->kernels, r->from, row, &r->all);
}

/* 2^-floor(log2 w), which is at least 1 / w; w > 0. */
static double inverse_bound(uint64_t w)
{
    return fdp_bits_double((uint64_t)(1023 - 63 + __builtin_clzll(w)) << 52);
}

/* The distance between the ends of a word's noise; infinite for a marked word. */
static double cell_of(fdp_race_t noise, uint64_t word)
{
    const uint64_t rest = ~word;
    const bool low = word < FDP_WORD_LEAST, high = rest < FDP_WORD_LEAST;
    switch (noise) {
    case FDP_RACE_GUMBEL:
        return low || high ? INFINITY
                           : 2.0 * (inverse_bound(word) + inverse_bound(rest));
    case FDP_RACE_LAPLACE:
        return word < 2 * FDP_WORD_LEAST ? INFINITY : inverse_bound(word >> 1);
    default:
        return low || high ? INFINITY
                           : (word >> 44 == 0 ? 0x1p-32 : 0x1p10 * inverse_bound(rest)) +
                                 0x1p-58;
    }
}

/* Finds the row's leader. Returns false if another candidate may be ahead. */
static bool row_winner(race_t *r, int64_t *winner)
{
    fdp_leaders_t l;
    for (size_t i = 0; i < FDP_LANES; i++) {
        l.best[i] = l.second[i] = -INFINITY;
        l.index[i] = 0;
    }
    for (size_t done = 0, count; done < r->from->n; done += count) {
        count = block_size(r, done);
        block_keys(r, done, count);
        r->kernels->lead(r->noise, r->gap, r->block.padded, (int64_t)done, &l);
    }
    double best = l.best[0], second = l.second[0];
    uint64_t index = (uint64_t)l.index[0];
    for (size_t i = 1; i < FDP_LANES; i++) {
        const uint64_t ahead = fdp_mask(l.best[i] > best);
        const double less = fdp_pick_double(ahead, best, l.best[i]);
        second = fdp_larger(fdp_larger(second, less), l.second[i]);
        best = fdp_pick_double(ahead, l.best[i], best);
        index = fdp_pick(ahead, (uint64_t)l.index[i], index);
    }
    const uint64_t word =
        fdp_words_find(&r->words, r->kernels, r->first + index, r->first, r->from->n);
    const double reach = 2.0 * r->tolerance + cell_of(r->law->noise, word);
    *winner = (int64_t)index;
    fdp_wipe(&l, sizeof l);
    return (best < INFINITY) & (best - reach > second);
}

/* Computes bounds of a block's keys. */
static void block_bounds(race_t *r, size_t done, size_t count, double *low, double *high)
{
    block_keys(r, done, count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = fdp_words_peek(&r->words, r->first + done + i);
        const double cell = cell_of(r->law->noise, word);
        const double error = r->tolerance + 0x1p-50 * r->gap[i];
        const double key = r->noise[i] - r->gap[i];
        const uint64_t lost = fdp_mask(!(r->gap[i] < INFINITY));
        const uint64_t marked = fdp_mask(!(cell < INFINITY));
        high[i] = fdp_pick_double(lost, -INFINITY,
                                  fdp_pick_double(marked, INFINITY, key + error));
        const uint64_t far = fdp_mask(!(r->gap[i] < FDP_GAP_FAR));
        low[i] = fdp_pick_double(lost | marked | far, -INFINITY, key - error - cell);
    }
}

/* Sets *ahead to whether the first of two candidates is ahead, by all bits of their draws. */
static fdp_status_t duel(race_t *r, fdp_duel_t *d, const uint64_t draw[2], int64_t *ahead)
{
    fdp_trial_t real[2][2];
    for (size_t j = 0; j < 2; j++) {
        const uint64_t chunk = draw[j] / FDP_SELECT_CHUNK;
        const uint32_t trial = (uint32_t)(draw[j] % FDP_SELECT_CHUNK);
        d->word[j][0] = fdp_words_peek(&r->words, draw[j]);
        d->word[j][1] =
            r->law->noise == FDP_RACE_GAUSSIAN ? fdp_words_peek(&r->angles, draw[j]) : 0;
        for (size_t k = 0; k < 2; k++) {
            real[j][k] = (fdp_trial_t){r->call, chunk + k * ANGLES, trial};
            d->real[j][k] = &real[j][k];
        }
    }
    const fdp_status_t status =
        fdp_select_settle(r->call, draw[0], fdp_settle_duel, d, NULL, ahead);
    fdp_wipe(d->word, sizeof d->word);
    return status;
}

/* Finds the winner among the candidates that can still win. If none is known to be ahead of another
 * one, these are all candidates of the row. */
static fdp_status_t row_settle(race_t *r, int64_t *winner)
{
    double low[FDP_BLOCK], high[FDP_BLOCK];
    double least = -INFINITY;
    fdp_status_t status = FDP_OK;
    for (size_t done = 0, count; done < r->from->n; done += count) {
        count = block_size(r, done);
        block_bounds(r, done, count, low, high);
        for (size_t i = 0; i < count; i++) {
            least = fdp_larger(least, low[i]);
        }
    }
    const fdp_choice_t choice = fdp_choice_of(r->law, r->from, r->row, NULL);
    size_t leader = r->from->n;
    for (size_t done = 0, count; done < r->from->n; done += count) {
        count = block_size(r, done);
        block_bounds(r, done, count, low, high);
        for (size_t i = 0; i < count && status == FDP_OK; i++) {
            if (high[i] >= least) {
                fdp_duel_t d = {.choice = {&choice, &choice}, .index = {done + i, leader}};
                const uint64_t draw[2] = {r->first + done + i, r->first + leader};
                int64_t ahead = 1;
                status = leader < r->from->n ? duel(r, &d, draw, &ahead) : FDP_OK;
                leader = ahead != 0 ? done + i : leader;
            }
        }
    }
    fdp_wipe(low, sizeof low);
    fdp_wipe(high, sizeof high);
    *winner = (int64_t)leader;
    return status;
}

/* ---- the calls ----------------------------------------------------------------- */

static void race_open(race_t *r, const fdp_call_t *call, const fdp_selection_t *law,
                      const fdp_candidates_t *from)
{
    r->call = call;
    r->law = law;
    r->from = from;
    r->tolerance = fdp_race_tolerance(law, from);
    r->kernels = fdp_selection_kernels();
    fdp_words_open(&r->words, call, 0);
    fdp_words_open(&r->angles, call, ANGLES);
}

static void race_close(race_t *r) { fdp_wipe(r, sizeof *r); }

fdp_status_t fdp_select_race(const fdp_call_t *call, const fdp_selection_t *law,
                             const fdp_candidates_t *from, uint64_t first, int64_t *out)
{
    race_t r; /* not initialized: its arrays are written before they are read */
    if (!fdp_candidates_valid(from)) {
        memset(out, 0, from->rows * sizeof *out);
        return FDP_ERR_PARAMETER;
    }
    race_open(&r, call, law, from);
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    fdp_status_t status = FDP_OK;
    for (size_t row = 0; row < from->rows && status == FDP_OK; row++) {
        row_reference(&r, row, first);
        if (FDP_UNLIKELY(!row_winner(&r, &out[row]))) {
            status = row_settle(&r, &out[row]);
        }
    }
    fdp_rounding_leave(rounding);
    race_close(&r);
    if (status != FDP_OK) {
        memset(out, 0, from->rows * sizeof *out);
    }
    return status;
}

fdp_status_t fdp_race_keys(const fdp_call_t *call, const fdp_selection_t *law,
                           const fdp_candidates_t *from, uint64_t first, double *low,
                           double *high)
{
    race_t r;
    race_open(&r, call, law, from);
    const fdp_rounding_t rounding = fdp_rounding_enter_flushed();
    for (size_t row = 0; row < from->rows; row++) {
        row_reference(&r, row, first);
        for (size_t done = 0, count; done < from->n; done += count) {
            count = block_size(&r, done);
            block_bounds(&r, done, count, low + row * from->n + done,
                         high + row * from->n + done);
        }
    }
    fdp_rounding_leave(rounding);
    race_close(&r);
    return FDP_OK;
}

fdp_status_t fdp_race_ahead(const fdp_call_t *call, const fdp_selection_t *law,
                            const fdp_candidates_t *one, const fdp_candidates_t *other,
                            const uint64_t draw[2], int *ahead)
{
    const fdp_choice_t choice[2] = {fdp_choice_of(law, one, 0, NULL),
                                    fdp_choice_of(law, other, 0, NULL)};
    fdp_duel_t d = {.choice = {&choice[0], &choice[1]}};
    int64_t first;
    race_t r;
    race_open(&r, call, law, one);
    const fdp_status_t status = duel(&r, &d, draw, &first);
    race_close(&r);
    *ahead = first != 0;
    return status;
}
