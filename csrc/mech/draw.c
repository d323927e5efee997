/* draw.c: fdp_release, the driver of the discrete samplers.
 *
 *   shape_of, fdp_sampler_prepare  what a law needs: words, error bounds, slots
 *   fill_words, run_kernel         the words of up to 1024 trials, and values
 *   collect                        undecided and rejected lanes, with their words
 *   second_stage_*, resolve        settle them: double, 128 bits, the resolver
 *   draw_batch, draw_chunk         accepted values of a chunk, in order
 *
 * A chunk's accepted trials, in their order, are its outputs. Which lanes a
 * kernel leaves undecided differs by level and compiler; a trial's further bits
 * are addressed by its number, so no output depends on that. A narrow kernel
 * leaves tail words undecided, so its second stage runs a fixed number of lanes
 * (slots) a batch whatever was found: docs/proofs/timing.md.
 */
#include <math.h>
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../rng/stream.h"
#include "../sampler/bits.h"
#include "../sampler/constants.h"
#include "../sampler/kernels.h"
#include "../sampler/settle.h"
#include "scratch.h"
#include "target.h"

/* Extension blocks from this one on are a second uniform real of the trial. */
#define SECOND_UNIFORM (UINT32_C(1) << 20)

typedef struct {
    const fdp_call_t *call;
    const fdp_sampler_t *sampler;
    const fdp_kernels_t *kernels;
    fdp_shape_t shape;
    fdp_scratch_t scratch;
    fdp_chunk_t chunk;
    uint64_t number;   /* of the chunk */
    size_t specials;   /* in scratch.special */
    size_t slots;      /* lanes of one second-stage pass */
    bool any_rejected; /* of the batch (Laplace) */
    bool failed;       /* the resolver failed */
} draw_t;

/* ---- what a law needs --------------------------------------------------- */

static fdp_shape_t shape_of(fdp_kind_t kind)
{
    switch (kind) {
    case FDP_LAPLACE_NARROW: return (fdp_shape_t){{4, 0, 0}, 4, false};
    case FDP_LAPLACE_DOUBLE: return (fdp_shape_t){{8, 0, 0}, 8, false};
    case FDP_LAPLACE_WIDE: return (fdp_shape_t){{8, 8, 0}, 8, false};
    case FDP_GAUSSIAN_NARROW: return (fdp_shape_t){{2, 4, 0}, 4, true};
    case FDP_GAUSSIAN_DOUBLE: return (fdp_shape_t){{2, 8, 0}, 8, true};
    default: return (fdp_shape_t){{2, 8, 8}, 8, true};
    }
}

static bool is_laplace(fdp_kind_t kind) { return kind <= FDP_LAPLACE_WIDE; }

/* Least number of lanes that a Poisson count of mean trials * rate exceeds with
 * probability below 2^-64, by (e mean / c)^c; a multiple of 16. */
static uint32_t slots_for(double trials, double rate)
{
    const double mean = trials * rate;
    uint32_t slots = 16;
    while (slots < FDP_SLOTS_MOST &&
           slots * (log2((double)slots) - log2(2.7183 * mean)) < 64.0) {
        slots += 16;
    }
    return slots;
}

/* Bounds on |y - true y| = error + error_relative * y, docs/proofs/discrete_laplace.md.
 * Returns the share of words that the narrow kernel leaves undecided. */
static double prepare_laplace(fdp_laplace_t *law)
{
    const double scale = law->scale;
    law->error = scale * 0x1p-48;
    law->error_relative = 0x1p-49;
    law->unsettled = 0;
    /* Words below `least` are left undecided, so that the cell of the others is
     * at most 0.76 / least of E: the power of two that leaves fewest. */
    int power = 12;
    while (power < 24 && ldexp(3.0 * scale, -power - 1) > ldexp(1.0, power - 30)) {
        power++;
    }
    law->narrow_least = INT32_C(1) << power;
    law->narrow_error = (float)(scale * (0x1.4p-21 + ldexp(0.77, -power)) * 1.01);
    law->narrow_error_relative = 0x1.2p-22f;
    /* boundaries (y is `scale` on average), words with little left */
    return 2.0 * (double)law->narrow_error +
           2.0 * scale * (double)law->narrow_error_relative + ldexp(2.0, power - 31);
}

static uint32_t chunk_outputs(double acceptance)
{
    if (acceptance == 1.0) {
        return FDP_BATCH;
    }
    /* A full batch nearly always fills the chunk. */
    const double mean = FDP_BATCH * acceptance;
    const double sure = mean - 6.0 * sqrt(mean * (1.0 - acceptance)) - 4.0;
    return sure < 16.0 ? 16 : (uint32_t)sure & ~UINT32_C(15);
}

fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler)
{
    const fdp_kind_t kind = sampler->kind;
    if (kind < FDP_LAPLACE_NARROW || kind > FDP_GAUSSIAN_WIDE ||
        !(sampler->acceptance > 0.0 && sampler->acceptance <= 1.0)) {
        return FDP_ERR_PARAMETER;
    }
    double rate = 0.0;
    if (is_laplace(kind)) {
        rate = prepare_laplace(&sampler->law.laplace);
    } else {
        sampler->law.gaussian.error = 0x1p-44;
        sampler->law.gaussian.narrow_error = 0x1.6p-17f;
        rate = 0x1p-14;
    }
    if (kind != FDP_LAPLACE_NARROW && kind != FDP_GAUSSIAN_NARROW) {
        rate = 0.0;
    }
    const double trials[3] = {FDP_BATCH_SMALL, FDP_GROUP, FDP_BATCH};
    for (int i = 0; i < 3; i++) {
        sampler->slots[i] = rate == 0.0 ? 0 : slots_for(trials[i], rate);
    }
    sampler->chunk_outputs = chunk_outputs(sampler->acceptance);
    return FDP_OK;
}

/* Lanes of one second-stage pass for a batch (or group) of this many trials. */
static size_t slots_of(const fdp_sampler_t *sampler, size_t trials)
{
    return sampler->slots[trials <= FDP_BATCH_SMALL ? 0 : trials <= FDP_GROUP ? 1 : 2];
}

/* ---- words and values --------------------------------------------------- */

/* Points word[p] at part p of the words of trials first ... first + count of
 * the chunk, which lie in one group: part after part, 1024 trials each. */
static void fill_words(draw_t *d, size_t first, size_t count,
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
static void run_kernel(draw_t *d, const uint8_t *const word[FDP_PARTS], void *value,
                       size_t count)
{
    const fdp_kernels_t *k = d->kernels;
    const fdp_laplace_t *laplace = &d->sampler->law.laplace;
    const fdp_gaussian_t *gaussian = &d->sampler->law.gaussian;
    const void *w0 = word[0], *w1 = word[1], *w2 = word[2];
    uint8_t *block = d->scratch.block;
    uint16_t *height = d->scratch.height;
    if (!is_laplace(d->sampler->kind)) {
        k->gaussian_select(gaussian, w0, block, height, count);
    }
    switch (d->sampler->kind) {
    case FDP_LAPLACE_NARROW: k->laplace_narrow(laplace, w0, value, count); break;
    case FDP_LAPLACE_DOUBLE: k->laplace_double(laplace, w0, value, count); break;
    case FDP_LAPLACE_WIDE: k->laplace_wide(laplace, w0, w1, value, count); break;
    case FDP_GAUSSIAN_NARROW:
        k->gaussian_narrow(gaussian, block, height, w1, value, count);
        break;
    case FDP_GAUSSIAN_DOUBLE:
        k->gaussian_double(gaussian, block, height, w1, value, count);
        break;
    default: k->gaussian_wide(gaussian, block, height, w1, w2, value, count); break;
    }
}

static void store_value(const draw_t *d, void *values, size_t index, int64_t value)
{
    if (d->shape.value_bytes == 8) {
        ((int64_t *)values)[index] = value;
    } else {
        ((int32_t *)values)[index] = (int32_t)value;
    }
}

/* ---- undecided lanes ---------------------------------------------------- */

/* The exact answer, saturated to what the value array can hold: values that
 * large have probability below 2^-100 (docs/proofs). */
static int64_t resolve(draw_t *d, const fdp_special_t *s)
{
    fdp_pending_t pending = {.chunk = d->number, .trial = s->trial};
    memcpy(pending.word, s->word, sizeof pending.word);
    int64_t value = 0;
    const int kept = d->call->resolve(d->call->context, &pending, &value);
    fdp_wipe(&pending, sizeof pending);
    d->failed |= kept < 0;
    int64_t most = d->shape.value_bytes == 8 ? INT64_MAX - 1 : INT32_MAX - 1;
    if (d->shape.tagged) {
        most /= 2;
    }
    value = value > most ? most : value < -most ? -most : value;
    if (kept <= 0) {
        return d->shape.tagged ? 0 : FDP_REJECTED64;
    }
    return d->shape.tagged ? 2 * value + 1 : value;
}

static void extension_words(draw_t *d, const fdp_special_t *s, uint32_t block,
                            uint64_t more[2])
{
    fdp_chunk_extend(&d->chunk, &s->trial, 1, block, (uint8_t *)more);
}

/* 128 bits instead of 64: decides all but a share of 2^-80 of the lanes. */
static bool settle_laplace(draw_t *d, const fdp_special_t *s, int64_t *value)
{
    const fdp_laplace_t *law = &d->sampler->law.laplace;
    uint64_t more[2];
    bool settled;
    if (law->unsettled != 0) {
        return false;
    }
    if (d->sampler->kind == FDP_LAPLACE_WIDE) {
        const uint64_t rest = s->word[1];
        const uint64_t low = (rest >> 1) & ((UINT64_C(1) << law->shift) - 1);
        int64_t high = 0;
        bool keep = false;
        extension_words(d, s, SECOND_UNIFORM, more);
        settled = fdp_laplace_settle(law, s->word[0], more[0], &high);
        extension_words(d, s, 0, more);
        settled &= fdp_laplace_settle_keep(law, rest, more[0], &keep);
        const uint64_t x = (((uint64_t)high << law->shift) | low) ^ (0 - (rest & 1));
        *value = keep ? (int64_t)x : FDP_REJECTED64;
    } else {
        extension_words(d, s, 0, more);
        const bool narrow = d->sampler->kind == FDP_LAPLACE_NARROW;
        const uint64_t high =
            narrow ? (s->word[0] << 32) | (more[0] >> 32) : s->word[0];
        const uint64_t low = narrow ? (more[0] << 32) | (more[1] >> 32) : more[0];
        settled = fdp_laplace_settle(law, high, low, value);
    }
    fdp_wipe(more, sizeof more);
    return settled;
}

static int64_t settle(draw_t *d, const fdp_special_t *s)
{
    int64_t value;
    if (is_laplace(d->sampler->kind) && settle_laplace(d, s, &value)) {
        return value;
    }
    return resolve(d, s);
}

/* One pass of the narrow kinds' second stage over specials from ... on: the same
 * trials with 32 more bits of the same uniform, in double; lanes without a
 * special write to the spare place behind the batch. */
static void second_stage_pass(draw_t *d, size_t from, void *values, size_t spare)
{
    const fdp_scratch_t *s = &d->scratch;
    const size_t slots = d->slots;
    for (size_t i = 0; i < slots; i++) {
        const bool used = from + i < d->specials;
        s->slot_trial[i] = used ? s->special[from + i].trial : 0;
    }
    fdp_chunk_extend(&d->chunk, s->slot_trial, slots, 0, s->slot_more);
    for (size_t i = 0; i < slots; i++) {
        const fdp_special_t *e = &s->special[from + i < d->specials ? from + i : 0];
        uint64_t more;
        memcpy(&more, s->slot_more + 16 * i, sizeof more);
        if (is_laplace(d->sampler->kind)) {
            s->slot_word[i] = (e->word[0] << 32) | (more >> 32);
        } else {
            const uint32_t below = d->sampler->law.gaussian.shift + 1;
            const uint64_t v = ((e->word[1] >> below) << 32) | (more >> 32);
            s->slot_word[i] =
                (v << below) | (e->word[1] & ((UINT64_C(1) << below) - 1));
            const uint16_t select = (uint16_t)e->word[0];
            memcpy(s->slot_more + 2 * i, &select, sizeof select);
        }
    }
    if (is_laplace(d->sampler->kind)) {
        d->kernels->laplace_double(&d->sampler->law.laplace, s->slot_word,
                                   s->slot_value, slots);
    } else {
        const fdp_gaussian_t *law = &d->sampler->law.gaussian;
        d->kernels->gaussian_select(law, (const uint16_t *)(const void *)s->slot_more,
                                    s->slot_block, s->slot_height, slots);
        d->kernels->gaussian_double(law, s->slot_block, s->slot_height, s->slot_word,
                                    s->slot_value, slots);
    }
    for (size_t i = 0; i < slots; i++) {
        const bool used = from + i < d->specials;
        const fdp_special_t *e = &s->special[used ? from + i : 0];
        int64_t value = s->slot_value[i];
        if (FDP_UNLIKELY(used && value == FDP_UNDECIDED64)) {
            value = settle(d, e);
        }
        store_value(d, values, used ? e->index : spare, value);
    }
}

/* Settles the collected specials and empties the list. */
static void settle_specials(draw_t *d, void *values, size_t spare)
{
    if (d->slots != 0) {
        size_t from = 0;
        do {
            second_stage_pass(d, from, values, spare);
            from += d->slots;
        } while (FDP_UNLIKELY(from < d->specials));
    } else {
        int64_t *value = values;
        for (size_t i = 0; i < d->specials; i++) {
            const fdp_special_t *e = &d->scratch.special[i];
            if (value[e->index] == FDP_UNDECIDED64) {
                value[e->index] = settle(d, e);
            }
            d->any_rejected |= !d->shape.tagged && value[e->index] == FDP_REJECTED64;
        }
    }
    d->specials = 0;
}

static uint64_t word_at(const uint8_t *words, uint8_t bytes, size_t i)
{
    switch (bytes) {
    case 2: return ((const uint16_t *)(const void *)words)[i];
    case 4: return ((const uint32_t *)(const void *)words)[i];
    default: return ((const uint64_t *)(const void *)words)[i];
    }
}

/* Appends the special lanes of a group, with their words, to the list. Takes a
 * fixed number of steps unless more lanes are special than that: `slots` for the
 * narrow kinds, whose undecided lanes tell of the tail. */
static void collect(draw_t *d, const uint8_t *const word[FDP_PARTS], void *values,
                    size_t base, size_t first, size_t count, size_t spare)
{
    fdp_scratch_t *s = &d->scratch;
    const void *at = (const uint8_t *)values + base * d->shape.value_bytes;
    if (d->shape.value_bytes == 4) {
        d->kernels->special32(at, s->mask, count);
    } else {
        d->kernels->special64(at, s->mask, count);
    }
    const size_t masks = count / 64;
    uint8_t where[FDP_GROUP / 64 + 1]; /* masks with a bit set, then the empty one */
    size_t hits = 0;
    s->mask[masks] = 0;
    for (size_t g = 0; g < masks; g++) {
        where[hits] = (uint8_t)g;
        hits += s->mask[g] != 0;
    }
    where[hits] = (uint8_t)masks;
    const size_t steps = d->slots == 0 ? 0 : slots_of(d->sampler, count);
    const size_t capacity = 2 * (s->batch <= FDP_BATCH_SMALL ? 64 : FDP_SLOTS_MOST);
    size_t hit = 0;
    uint64_t mask = s->mask[where[0]];
    for (size_t step = 0; step < steps || hit < hits; step++) {
        if (FDP_UNLIKELY(d->specials == capacity)) {
            settle_specials(d, values, spare);
        }
        const bool valid = mask != 0;
        const unsigned bit = (unsigned)__builtin_ctzll(mask | (UINT64_C(1) << 63));
        const size_t lane = valid ? (size_t)where[hit] * 64 + bit : 0;
        fdp_special_t *e = &s->special[d->specials < capacity ? d->specials : 0];
        e->index = (uint32_t)(base + lane);
        e->trial = (uint32_t)(first + lane);
        for (size_t p = 0; p < FDP_PARTS && d->shape.part_bytes[p] != 0; p++) {
            e->word[p] = word_at(word[p], d->shape.part_bytes[p], lane);
        }
        d->specials += valid;
        mask &= mask - 1;
        hit += valid && mask == 0;
        mask = mask != 0 ? mask : s->mask[where[hit]];
    }
}

/* ---- batches and chunks ------------------------------------------------- */

/* Packs the values that are kept: not rejected and, with a bound, within it. */
#define PACK(name, type, is_kept)                            \
    static size_t name(type *value, size_t n, int64_t bound) \
    {                                                        \
        size_t kept = 0;                                     \
        for (size_t i = 0; i < n; i++) {                     \
            const type v = value[i];                         \
            value[kept] = v;                                 \
            kept += (is_kept);                               \
        }                                                    \
        return kept;                                         \
    }

PACK(pack32, int32_t, v <= bound && v >= -bound)
PACK(pack64, int64_t, v != FDP_REJECTED64 && v <= bound && v >= -bound)

/* Runs trials first ... first + trials and appends what they yield at noise +
 * got; returns how many. */
static size_t draw_batch(draw_t *d, size_t first, size_t trials, size_t got)
{
    uint8_t *const noise = (uint8_t *)d->scratch.noise + got * d->shape.value_bytes;
    uint8_t *const values = d->shape.tagged ? d->scratch.value : noise;
    d->specials = 0;
    d->any_rejected = false;
    d->slots = slots_of(d->sampler, trials);
    for (size_t done = 0; done < trials;) {
        const size_t left = FDP_GROUP - (first + done) % FDP_GROUP;
        const size_t count = trials - done < left ? trials - done : left;
        const uint8_t *word[FDP_PARTS] = {NULL, NULL, NULL};
        fill_words(d, first + done, count, word);
        run_kernel(d, word, values + done * d->shape.value_bytes, count);
        collect(d, word, values, done, first + done, count, trials);
        done += count;
    }
    settle_specials(d, values, trials);
    if (d->shape.tagged) {
        return d->shape.value_bytes == 4
                   ? d->kernels->compact32((const int32_t *)(void *)values,
                                           (int32_t *)(void *)noise, trials)
                   : d->kernels->compact64((const int64_t *)(void *)values,
                                           (int64_t *)(void *)noise, trials);
    }
    const int64_t bound = d->sampler->law.laplace.bound;
    if (bound == 0 && !d->any_rejected) {
        return trials;
    }
    const int64_t most = bound == 0 ? INT64_MAX : bound;
    return d->shape.value_bytes == 4 ? pack32((int32_t *)(void *)noise, trials, most)
                                     : pack64((int64_t *)(void *)noise, trials, most);
}

/* Trials that nearly always give `outputs`, a multiple of 64. */
static size_t trials_for(const fdp_sampler_t *sampler, size_t outputs)
{
    const double a = sampler->acceptance;
    const double n = (double)outputs;
    const double extra = a == 1.0 ? 0.0 : 4.0 * sqrt(n * (1.0 - a)) / a;
    const double trials = n / a + extra;
    return trials >= FDP_BATCH ? FDP_BATCH : ((size_t)trials + 63) & ~(size_t)63;
}

/* `need` accepted values of a chunk, in order, at scratch.noise. */
static void draw_chunk(draw_t *d, uint64_t number, size_t need)
{
    d->number = number;
    fdp_chunk_open(&d->chunk, &d->call->stream, number);
    size_t trial = 0, got = 0;
    while (got < need && !d->failed) {
        const size_t most = trial == 0 ? d->scratch.batch : FDP_BATCH_AGAIN;
        const size_t wanted = trials_for(d->sampler, need - got);
        size_t trials = wanted < most ? wanted : most;
        trials = trials < d->scratch.batch ? trials : d->scratch.batch;
        got += draw_batch(d, trial, trials, got);
        trial += trials;
    }
    fdp_chunk_close(&d->chunk);
}

fdp_status_t fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                         uint64_t first_chunk, size_t n, const fdp_target_t *target)
{
    FDP_ALIGNED(64) uint8_t stack[FDP_SCRATCH_SMALL];
    const size_t per_chunk = sampler->chunk_outputs;
    draw_t d = {.call = call,
                .sampler = sampler,
                .kernels = fdp_kernels(),
                .shape = shape_of(sampler->kind)};
    const size_t batch = n >= per_chunk ? FDP_BATCH : trials_for(sampler, n);
    if (!fdp_scratch_open(&d.scratch, &d.shape, batch == 0 ? 64 : batch, stack)) {
        fdp_target_zero(target, n);
        return FDP_ERR_MEMORY;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t done = 0; done < n && !d.failed; done += per_chunk) {
        const size_t need = n - done < per_chunk ? n - done : per_chunk;
        draw_chunk(&d, first_chunk++, need);
        fdp_target_store(target, d.kernels, done, need, d.scratch.noise,
                         d.shape.value_bytes == 4, d.scratch.wide);
    }
    fdp_rounding_leave(rounding);
    fdp_scratch_close(&d.scratch);
    if (d.failed) {
        fdp_target_zero(target, n);
        return FDP_ERR_RESOLVER;
    }
    return FDP_OK;
}
