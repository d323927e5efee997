/* select.c: words and blocks of candidates for the selections; see select.h. */
#include "select.h"

#include <math.h>
#include <string.h>

#include "../base/wipe.h"

#define UNIT 128    /* words of a unit of the main stream */
#define WINDOW 1024 /* words that are kept */

fdp_status_t fdp_select_settle(const fdp_call_t *call, uint64_t draw, fdp_decide_fn decide,
                               const void *law, const uint64_t *words, int64_t *answer)
{
    const fdp_trial_t trial = {call, draw / FDP_SELECT_CHUNK,
                               (uint32_t)(draw % FDP_SELECT_CHUNK)};
    int64_t value[2] = {0, 0};
    fdp_status_t status = FDP_OK;
    fdp_resolve(&trial, decide, law, words, value, &status);
    fdp_wipe_resolver();
    *answer = value[0];
    return status;
}

void fdp_words_open(fdp_words_t *words, const fdp_call_t *call, uint64_t shift)
{
    words->call = call;
    words->shift = shift;
    words->number = 0;
    words->from = words->to = words->most = 0;
}

const uint64_t *fdp_words_at(fdp_words_t *words, uint64_t draw, size_t count,
                             size_t ahead)
{
    const uint64_t number = draw / FDP_SELECT_CHUNK + 1;
    const size_t at = (size_t)(draw % FDP_SELECT_CHUNK);
    if (number != words->number) {
        fdp_chunk_open(&words->chunk, &words->call->stream, number - 1 + words->shift);
        words->number = number;
        words->from = words->to = 0;
    }
    if (at < words->from || at + count > words->to) {
        const size_t from = at - at % UNIT;
        size_t size = at - from + ahead;
        size = size > WINDOW ? WINDOW : (size + UNIT - 1) / UNIT * UNIT;
        words->from = from;
        words->to = from + size < FDP_SELECT_CHUNK ? from + size : FDP_SELECT_CHUNK;
        size = words->to - from;
        words->most = size > words->most ? size : words->most;
        fdp_chunk_main(&words->chunk, from * 8, words->word, size * 8);
    }
    return words->word + (at - words->from);
}

const uint64_t *fdp_words_block(fdp_words_t *words, uint64_t draw, size_t count,
                                size_t ahead, size_t padded, uint64_t *copy)
{
    const size_t chunk = FDP_SELECT_CHUNK - (size_t)(draw % FDP_SELECT_CHUNK);
    if (count == padded && count <= chunk) {
        return fdp_words_at(words, draw, count, ahead);
    }
    const size_t first = count < chunk ? count : chunk;
    memcpy(copy, fdp_words_at(words, draw, first, ahead), first * sizeof *copy);
    if (first < count) {
        memcpy(copy + first,
               fdp_words_at(words, draw + first, count - first, ahead - first),
               (count - first) * sizeof *copy);
    }
    memset(copy + count, 0, (padded - count) * sizeof *copy);
    return copy;
}

/* Whether the words of n draws are in the window. */
static bool words_here(const fdp_words_t *words, uint64_t draw, size_t n)
{
    const size_t at = (size_t)(draw % FDP_SELECT_CHUNK);
    return draw / FDP_SELECT_CHUNK + 1 == words->number && at >= words->from &&
           at + n <= words->to;
}

static uint64_t word_anew(const fdp_words_t *words, uint64_t draw)
{
    const size_t at = (size_t)(draw % FDP_SELECT_CHUNK);
    FDP_ALIGNED(64) uint64_t unit[UNIT];
    fdp_chunk_t chunk;
    fdp_chunk_open(&chunk, &words->call->stream, draw / FDP_SELECT_CHUNK + words->shift);
    fdp_chunk_main(&chunk, (at - at % UNIT) * 8, unit, sizeof unit);
    const uint64_t word = unit[at % UNIT];
    fdp_chunk_close(&chunk);
    fdp_wipe(unit, sizeof unit);
    return word;
}

uint64_t fdp_words_peek(const fdp_words_t *words, uint64_t draw)
{
    const size_t at = (size_t)(draw % FDP_SELECT_CHUNK);
    return words_here(words, draw, 1) ? words->word[at - words->from]
                                      : word_anew(words, draw);
}

uint64_t fdp_entry(const fdp_selection_kernels_t *kernels, const uint64_t *from,
                   size_t rows, size_t at)
{
    uint64_t column[WINDOW / FDP_LANES], found = 0;
    kernels->column(from, rows, at % FDP_LANES, column);
    for (size_t r = 0; r < rows; r++) {
        found |= column[r] & fdp_mask(r == at / FDP_LANES);
    }
    fdp_wipe(column, rows * sizeof *column);
    return found;
}

uint64_t fdp_words_find(const fdp_words_t *words, const fdp_selection_kernels_t *kernels,
                        uint64_t draw, uint64_t first, size_t n)
{
    if (!words_here(words, first, n)) {
        return word_anew(words, draw);
    }
    const size_t start = (size_t)(first % FDP_SELECT_CHUNK) - words->from;
    const size_t at = start + (size_t)(draw - first);
    const size_t top = start / FDP_LANES, rows = (start + n - 1) / FDP_LANES + 1 - top;
    return fdp_entry(kernels, words->word + top * FDP_LANES, rows, at - top * FDP_LANES);
}

void fdp_words_close(fdp_words_t *words)
{
    fdp_wipe(words->word, words->most * sizeof *words->word);
    fdp_wipe(&words->chunk, sizeof words->chunk);
}

/* ---- base weights ----------------------------------------------------------- */

/* The e for which the positive double with these bits is in [1/2, 1) 2^e. */
static int32_t exponent_of(int64_t bits)
{
    const int32_t field = (int32_t)(bits >> 52);
    return field > 0 ? field - 1022 : 64 - __builtin_clzll((uint64_t)bits) - 1074;
}

fdp_status_t fdp_weights_range(const double *weight, size_t n, int32_t *top,
                               double *spread)
{
    int64_t found[3];
    fdp_selection_kernels()->range(weight, n, found);
    const int64_t infinite = INT64_C(2047) << 52;
    const bool none = found[0] == 0;
    *top = none || found[0] >= infinite ? 0 : exponent_of(found[0]);
    *spread = none ? 1.0 : 1.0 + *top - exponent_of(found[1] + 1);
    return found[0] < infinite && found[2] >= 0 ? FDP_OK : FDP_ERR_PARAMETER;
}

/* ---- blocks ---------------------------------------------------------------- */

/* n elements followed by `pad`; a copy if padding is needed. */
static const void *padded(uint64_t *copy, const void *from, size_t n, size_t to,
                          uint64_t pad)
{
    if (n == to) {
        return from;
    }
    for (size_t i = n; i < to; i++) {
        copy[i] = pad;
    }
    memcpy(copy, from, n * 8);
    return copy;
}

/* Marks padding and candidates without weight; the mantissas are padded with 0. */
static void mark_lost(fdp_block_t *b, const fdp_selection_kernels_t *kernels)
{
    if (b->mantissa != NULL) {
        kernels->mark(b->mantissa, b->padded, b->lost_copy);
    } else {
        memset(b->lost_copy, 0, b->count * sizeof *b->lost_copy);
        memset(b->lost_copy + b->count, 255, (b->padded - b->count) * sizeof *b->lost_copy);
    }
    b->lost = b->lost_copy;
}

static void set_weights(fdp_block_t *b, const fdp_selection_kernels_t *kernels,
                        const fdp_candidates_t *from, size_t at)
{
    uint64_t *mantissa = (uint64_t *)(void *)b->mantissa_copy;
    uint64_t *exponent = (uint64_t *)(void *)b->exponent_copy;
    b->mantissa = padded(mantissa, from->mantissa + at, b->count, b->padded, 0);
    if (from->exponent != NULL) {
        b->exponent = padded(exponent, from->exponent + at, b->count, b->padded, 0);
        return;
    }
    if (b->count == b->padded) {
        memcpy(b->mantissa_copy, b->mantissa, b->count * sizeof *b->mantissa_copy);
    }
    kernels->split(b->mantissa_copy, b->padded, from->weight_top, b->exponent_copy);
    b->mantissa = b->mantissa_copy;
    b->exponent = b->exponent_copy;
}

void fdp_block_open(fdp_block_t *b, const fdp_selection_kernels_t *kernels,
                    const fdp_candidates_t *from, size_t row, size_t first, size_t count)
{
    b->count = count;
    b->padded = fdp_block_padded(count);
    b->score = padded(b->score_copy, (const uint64_t *)from->score + row * from->n + first,
                      count, b->padded, fdp_score_none(from->type));
    b->mantissa = b->exponent = NULL;
    b->lost = NULL;
    if (from->mantissa != NULL) {
        set_weights(b, kernels, from, row * from->weight_stride + first);
    }
    if (b->mantissa != NULL || (from->type == FDP_I64 && count < b->padded)) {
        mark_lost(b, kernels);
    }
}

void fdp_block_close(fdp_block_t *b, size_t n)
{
    const size_t used = fdp_block_padded(n) * 8;
    fdp_wipe(b->score_copy, used);
    fdp_wipe(b->lost_copy, used);
    fdp_wipe(b->mantissa_copy, used);
    fdp_wipe(b->exponent_copy, used);
}

/* ---- rows ------------------------------------------------------------------- */

fdp_score_t fdp_row_largest(const fdp_selection_kernels_t *kernels,
                            const fdp_candidates_t *from, size_t row, uint64_t *none)
{
    const bool integer = from->type == FDP_I64, based = from->mantissa != NULL;
    const size_t n = from->n < FDP_LANES ? FDP_LANES : from->n;
    const size_t size = based && n > FDP_BLOCK ? FDP_BLOCK : n;
    FDP_ALIGNED(64) uint64_t lost[FDP_BLOCK], few[2][FDP_LANES];
    const uint64_t *score = padded(few[0], (const uint64_t *)from->score + row * from->n,
                                   from->n, n, fdp_score_none(from->type));
    const double *weight = based ? from->mantissa + row * from->weight_stride : NULL;
    weight = based ? padded(few[1], weight, from->n, n, 0) : NULL;
    fdp_score_t most = {.f64 = -INFINITY};
    most.i64 = integer ? INT64_MIN : most.i64;
    *none = integer && !based ? 0 : ~UINT64_C(0);
    for (size_t at = 0, count; at < n; at += count) {
        count = (n - at < size ? n - at : size) & ~(size_t)(FDP_LANES - 1);
        if (count == 0) { /* the last ones, together with some that were read before */
            count = FDP_LANES;
            at = n - count;
        }
        if (based) {
            *none &= kernels->mark(weight + at, count, lost);
        }
        const fdp_score_t here =
            kernels->largest[integer](score + at, based ? lost : NULL, count);
        const uint64_t more =
            integer ? fdp_mask(here.i64 > most.i64) : fdp_mask(here.f64 > most.f64);
        most.i64 = (int64_t)fdp_pick(more, (uint64_t)here.i64, (uint64_t)most.i64);
    }
    *none = integer ? *none : fdp_mask(!(most.f64 > -INFINITY));
    fdp_wipe(lost, based ? size * sizeof *lost : 0);
    fdp_wipe(few, from->n < FDP_LANES ? sizeof few : 0);
    return most;
}
