/* select.c: words and blocks of candidates for the selections; see select.h. */
#include "select.h"

#include <math.h>
#include <string.h>

#include "../base/rounding.h"
#include "../base/wipe.h"

#define UNIT 128    /* words of a unit of the main stream */
#define WINDOW 1024 /* of words kept */

bool fdp_ask(const fdp_call_t *call, const fdp_selection_t *law, uint64_t draw,
             uint64_t a, uint64_t b, uint64_t c, int64_t *answer)
{
    const fdp_pending_t pending = {.chunk = draw / FDP_SELECT_CHUNK,
                                   .trial = (uint32_t)(draw % FDP_SELECT_CHUNK),
                                   .word = {a, b, c},
                                   .owner = law->owner};
    int64_t value[2] = {0, 0};
    const fdp_rounding_t mode = fdp_rounding_enter();
    const int kept = call->resolve(call->context, &pending, value);
    fdp_rounding_leave(mode);
    *answer = value[0];
    return kept == 1;
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

/* Whether the words of n draws are here. */
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

uint64_t fdp_words_find(const fdp_words_t *words, const fdp_selection_kernels_t *kernels,
                        uint64_t draw, uint64_t first, size_t n)
{
    if (!words_here(words, first, n)) {
        return word_anew(words, draw);
    }
    uint64_t column[WINDOW / FDP_LANES];
    const size_t start = (size_t)(first % FDP_SELECT_CHUNK) - words->from;
    const size_t at = start + (size_t)(draw - first);
    const size_t top = start / FDP_LANES, rows = (start + n - 1) / FDP_LANES + 1 - top;
    kernels->column(words->word + top * FDP_LANES, rows, at % FDP_LANES, column);
    uint64_t word = 0;
    for (size_t r = 0; r < rows; r++) {
        word |= column[r] & fdp_mask(top + r == at / FDP_LANES);
    }
    fdp_wipe(column, rows * sizeof *column);
    return word;
}

void fdp_words_close(fdp_words_t *words)
{
    fdp_wipe(words->word, words->most * sizeof *words->word);
    fdp_wipe(&words->chunk, sizeof words->chunk);
}

/* ---- base weights ----------------------------------------------------------- */

/* e where the positive double of these bits is in [1/2, 1) 2^e. */
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

/* n elements, then `pad`; a copy if there are any to pad. */
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

/* What is beyond the count, and what has no weight; the mantissas are padded by 0. */
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

fdp_score_t fdp_block_largest(const fdp_selection_kernels_t *kernels, fdp_dtype_t type,
                              const fdp_block_t *b)
{
    fdp_score_t largest;
    if (type == FDP_I64) {
        largest.i64 = kernels->largest_i64(b->score, b->lost, b->padded);
    } else {
        largest.f64 = kernels->largest_f64(b->score, b->lost, b->padded);
    }
    return largest;
}

void fdp_block_gaps(const fdp_selection_kernels_t *kernels, fdp_dtype_t type,
                    const fdp_block_t *b, fdp_score_t largest, double rate, uint64_t all,
                    double *gap)
{
    if (type == FDP_I64) {
        kernels->gaps_i64(b->score, b->lost, b->padded, largest.i64, rate, all, gap);
    } else {
        kernels->gaps_f64(b->score, b->lost, b->padded, largest.f64, rate, all, gap);
    }
    for (size_t i = b->count; i < b->padded; i++) {
        gap[i] = INFINITY; /* also if all gaps are 0 */
    }
}
