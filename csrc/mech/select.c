/* select.c: words and blocks of candidates for the selections; see select.h. */
#include "select.h"

#include <math.h>
#include <string.h>

#include "../base/rounding.h"
#include "../base/wipe.h"

#define UNIT 128 /* words of a unit of the main stream */

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
        size = size > 1024 ? 1024 : (size + UNIT - 1) / UNIT * UNIT;
        words->from = from;
        words->to = from + size < FDP_SELECT_CHUNK ? from + size : FDP_SELECT_CHUNK;
        size = words->to - from;
        words->most = size > words->most ? size : words->most;
        fdp_chunk_main(&words->chunk, from * 8, words->word, size * 8);
    }
    return words->word + (at - words->from);
}

uint64_t fdp_words_peek(const fdp_words_t *words, uint64_t draw)
{
    const size_t at = (size_t)(draw % FDP_SELECT_CHUNK);
    const uint64_t number = draw / FDP_SELECT_CHUNK;
    if (number + 1 == words->number && at >= words->from && at < words->to) {
        return words->word[at - words->from];
    }
    FDP_ALIGNED(64) uint64_t unit[UNIT];
    fdp_chunk_t chunk;
    fdp_chunk_open(&chunk, &words->call->stream, number + words->shift);
    fdp_chunk_main(&chunk, (at - at % UNIT) * 8, unit, sizeof unit);
    const uint64_t word = unit[at % UNIT];
    fdp_chunk_close(&chunk);
    fdp_wipe(unit, sizeof unit);
    return word;
}

void fdp_words_close(fdp_words_t *words)
{
    fdp_wipe(words->word, words->most * sizeof *words->word);
    fdp_wipe(&words->chunk, sizeof words->chunk);
}

/* ---- blocks ---------------------------------------------------------------- */

/* n elements, then `pad`; a copy unless none is needed. */
static const void *padded(uint64_t *copy, const void *from, size_t n, size_t to,
                          uint64_t pad, bool alike)
{
    if (n == to && !alike) {
        return from;
    }
    for (size_t i = alike ? 0 : n; i < to; i++) {
        copy[i] = pad;
    }
    memcpy(copy, from, n * 8);
    return copy;
}

static void mark_lost(fdp_block_t *b, size_t first, const uint64_t *removed)
{
    for (size_t i = 0; i < b->padded; i++) {
        b->lost_copy[i] = i < b->count ? 0 : ~UINT64_C(0);
    }
    if (b->mantissa != NULL) {
        for (size_t i = 0; i < b->padded; i++) {
            b->lost_copy[i] |= fdp_mask(!(b->mantissa[i] > 0.0));
        }
    }
    if (removed != NULL) {
        for (size_t i = 0; i < b->count; i++) {
            b->lost_copy[i] |= 0 - (removed[(first + i) / 64] >> (first + i) % 64 & 1);
        }
    }
    b->lost = b->lost_copy;
}

void fdp_block_open(fdp_block_t *b, const fdp_candidates_t *from, size_t row,
                    size_t first, size_t count, const uint64_t *removed, bool alike)
{
    const uint64_t none = (uint64_t)INT64_MIN;
    const uint64_t nan = UINT64_C(0x7ff8000000000000);
    b->count = count;
    b->padded = alike ? FDP_BLOCK : fdp_block_padded(count);
    b->score = padded(b->score_copy, (const uint64_t *)from->score + row * from->n + first,
                      count, b->padded, from->type == FDP_I64 ? none : nan, alike);
    b->mantissa = b->exponent = NULL;
    b->lost = NULL;
    if (from->mantissa != NULL) {
        const size_t at = row * from->weight_stride + first;
        b->mantissa = padded((uint64_t *)(void *)b->mantissa_copy, from->mantissa + at,
                             count, b->padded, 0, alike);
        b->exponent = padded((uint64_t *)(void *)b->exponent_copy, from->exponent + at,
                             count, b->padded, 0, alike);
    }
    if (b->mantissa != NULL || removed != NULL ||
        (from->type == FDP_I64 && (count < b->padded || alike))) {
        mark_lost(b, first, removed);
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
