/* draw.c: fdp_release, and the driver of the wide discrete Gaussian.
 *
 *   fill_words, run_kernel   the words of up to 1024 trials, and their values
 *   draw_batch, draw_chunk   accepted values of a chunk, in order
 *   store_chunk              noise into the caller's array
 *
 * A chunk's accepted trials, in their order, are its outputs. Which lanes a kernel
 * leaves undecided differs by level and compiler; a trial's further bits are
 * addressed by its number, so no output depends on that.
 */
#include "draw.h"

#include <string.h>

#include "../base/rounding.h"
#include "../base/wipe.h"
#include "digits.h"
#include "target.h"

/* ---- words and values --------------------------------------------------- */

/* Points word[p] at part p of the words of trials first ... first + count of
 * the chunk, which lie in one group: part after part, 1024 trials each. */
static void fill_words(fdp_draw_t *d, size_t first, size_t count,
                       const uint8_t *word[FDP_PARTS])
{
    const uint8_t *bytes = d->shape.part_bytes;
    const size_t within = first % FDP_GROUP;
    uint64_t offset =
        (uint64_t)(first / FDP_GROUP) * FDP_GROUP *
        ((uint64_t)bytes[0] + bytes[1] + bytes[2]);
    for (size_t p = 0; p < FDP_PARTS && bytes[p] != 0; p++) {
        const size_t start = within * bytes[p];
        const size_t skipped = start % 1024;
        fdp_chunk_main(&d->chunk, offset + start - skipped, d->scratch.part[p],
                       (skipped + count * bytes[p] + 63) & ~(size_t)63);
        word[p] = d->scratch.part[p] + skipped;
        offset += (uint64_t)FDP_GROUP * bytes[p];
    }
}

/* Values of `count` trials; lanes beyond count (a multiple of 64) are not touched. */
static void run_kernel(fdp_draw_t *d, const uint8_t *const word[FDP_PARTS], void *value,
                       size_t count)
{
    const fdp_kernels_t *k = d->kernels;
    const fdp_gaussian_t *law = &d->sampler->law.gaussian;
    const void *w0 = word[0], *w1 = word[1], *w2 = word[2];
    uint8_t *block = d->scratch.block;
    uint16_t *height = d->scratch.height;
    k->gaussian_select(law, w0, block, height, count);
    if (d->sampler->kind == FDP_GAUSSIAN_NARROW) {
        k->gaussian_narrow(law, block, height, w1, value, count);
    } else {
        k->gaussian_wide(law, block, height, w1, w2, value, count);
    }
}

/* ---- batches and chunks ------------------------------------------------- */

/* Runs trials first ... first + trials and appends what they yield at noise +
 * got; returns how many. */
static size_t draw_batch(fdp_draw_t *d, size_t first, size_t trials, size_t got)
{
    uint8_t *const noise = (uint8_t *)d->scratch.noise + got * d->shape.value_bytes;
    void *const values = d->scratch.value;
    d->specials = 0;
    d->slots = fdp_law_slots(d->sampler, trials);
    for (size_t done = 0; done < trials;) {
        const size_t left = FDP_GROUP - (first + done) % FDP_GROUP;
        const size_t count = trials - done < left ? trials - done : left;
        const uint8_t *word[FDP_PARTS] = {NULL, NULL, NULL};
        fill_words(d, first + done, count, word);
        run_kernel(d, word, (uint8_t *)values + done * d->shape.value_bytes, count);
        fdp_collect(d, word, values, done, first + done, count, trials);
        done += count;
    }
    fdp_settle_specials(d, values, trials);
    return d->shape.value_bytes == 4
               ? d->kernels->compact32(values, (int32_t *)(void *)noise, trials)
               : d->kernels->compact64(values, (int64_t *)(void *)noise, trials);
}

/* `need` accepted values of a chunk, in order, at scratch.noise. */
static void draw_chunk(fdp_draw_t *d, uint64_t number, size_t need)
{
    d->number = number;
    d->far_count = 0;
    fdp_chunk_open(&d->chunk, &d->call->stream, number);
    size_t trial = 0, got = 0;
    while (got < need && !d->failed) {
        const size_t most = trial == 0 ? d->scratch.batch : FDP_BATCH_AGAIN;
        const size_t wanted = fdp_law_trials(d->sampler, need - got);
        size_t trials = wanted < most ? wanted : most;
        trials = trials < d->scratch.batch ? trials : d->scratch.batch;
        got += draw_batch(d, trial, trials, got);
        trial += trials;
    }
    fdp_chunk_close(&d->chunk);
}

/* Adds the chunk's noise to the data, values put aside in a step of their own. */
static void store_chunk(fdp_draw_t *d, const fdp_target_t *target, size_t done, size_t need)
{
    const bool narrow = d->shape.value_bytes == 4;
    size_t at[FDP_FAR_MOST] = {need, need, need, need}; /* not among the outputs */
    fdp_datum_t x[FDP_FAR_MOST] = {{0}};
    for (size_t i = 0; d->far_count != 0 && i < need; i++) {
        const int64_t v = narrow ? ((const int32_t *)d->scratch.noise)[i]
                                 : ((const int64_t *)d->scratch.noise)[i];
        if (v >= fdp_far_from(d)) {
            at[v - fdp_far_from(d)] = i;
            x[v - fdp_far_from(d)] = fdp_target_read(target, done + i);
        }
    }
    fdp_target_store(target, d->kernels, done, need, d->scratch.noise, narrow,
                     d->scratch.wide);
    for (size_t k = 0; k < d->far_count; k++) {
        if (at[k] < need) {
            fdp_target_write(target, d->kernels, done + at[k], x[k], d->far[k]);
        }
    }
    fdp_wipe(x, sizeof x);
}

fdp_status_t fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                         uint64_t first_chunk, size_t n, const fdp_target_t *target)
{
    const size_t per_chunk = sampler->chunk_outputs;
    if (per_chunk == 0) { /* fdp_sampler_prepare was not called */
        fdp_target_zero(target, n);
        return FDP_ERR_PARAMETER;
    }
    if (sampler->kind == FDP_DIGITS) {
        return fdp_digits_release(call, sampler, first_chunk, n, target);
    }
    FDP_ALIGNED(64) uint8_t stack[FDP_SCRATCH_SMALL];
    fdp_draw_t d = {.call = call,
                .sampler = sampler,
                .kernels = fdp_kernels(),
                .shape = fdp_law_shape(sampler->kind),
                .on_grid = target->grid != NULL};
    const size_t batch = n >= per_chunk ? FDP_BATCH : fdp_law_trials(sampler, n);
    if (!fdp_scratch_open(&d.scratch, &d.shape, batch == 0 ? 64 : batch, stack)) {
        fdp_target_zero(target, n);
        return FDP_ERR_MEMORY;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t done = 0; done < n && !d.failed; done += per_chunk) {
        const size_t need = n - done < per_chunk ? n - done : per_chunk;
        draw_chunk(&d, first_chunk++, need);
        store_chunk(&d, target, done, need);
    }
    fdp_rounding_leave(rounding);
    fdp_scratch_close(&d.scratch);
    const bool failed = d.failed;
    fdp_wipe(&d, sizeof d);
    if (failed) {
        fdp_target_zero(target, n);
        return FDP_ERR_RESOLVER;
    }
    return FDP_OK;
}
