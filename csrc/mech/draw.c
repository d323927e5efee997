/* draw.c: fdp_release, the driver of the discrete samplers.
 *
 *   shape_of, fdp_sampler_prepare  what a law needs: words, error bounds, slots
 *   fill_words, run_kernel         the words of up to 1024 trials, and values
 *   collect                        undecided and rejected lanes, with their words
 *   second_stage_*, settle, resolve  decide them: double, 128 bits, the resolver
 *   draw_batch, draw_chunk         accepted values of a chunk, in order
 *
 * A chunk's accepted trials, in their order, are its outputs. Which lanes a
 * kernel leaves undecided differs by level and compiler; a trial's further bits
 * are addressed by its number, so no output depends on that. Words of the tail are
 * among the undecided, so the second stage runs a fixed number of lanes (slots) a
 * batch whatever was found: docs/proofs/timing.md.
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

/* A value of the resolver that the value array cannot hold: value + excess. */
typedef struct {
    int64_t value, excess;
} far_t;

#define FAR_MOST 4 /* of a chunk; one alone has probability below 2^-90 */

typedef struct {
    const fdp_call_t *call;
    const fdp_sampler_t *sampler;
    const fdp_kernels_t *kernels;
    fdp_shape_t shape;
    fdp_scratch_t scratch;
    fdp_chunk_t chunk;
    uint64_t number;   /* of the chunk */
    size_t specials;   /* in scratch.special */
    size_t slots;      /* lanes of one second-stage pass of the batch */
    bool any_rejected; /* of the batch (Laplace) */
    bool on_grid;      /* the noise must convert to double exactly */
    far_t far[FAR_MOST];
    size_t far_count;
    bool failed;       /* the resolver failed */
} draw_t;

/* ---- what a law needs --------------------------------------------------- */

static fdp_shape_t shape_of(fdp_kind_t kind)
{
    switch (kind) {
    case FDP_LAPLACE_NARROW: return (fdp_shape_t){{4, 0, 0}, 4, false};
    case FDP_LAPLACE_WIDE: return (fdp_shape_t){{4, 8, 0}, 8, false};
    case FDP_GAUSSIAN_NARROW: return (fdp_shape_t){{2, 4, 0}, 4, true};
    default: return (fdp_shape_t){{2, 4, 8}, 8, true};
    }
}

static bool is_laplace(fdp_kind_t kind) { return kind <= FDP_LAPLACE_WIDE; }

/* A number of lanes that a binomial count of this mean exceeds with probability
 * below 2^-64, by Chernoff's e^-mean (e mean / c)^c; a multiple of 16. */
static uint32_t slots_for(double trials, double rate)
{
    const double mean = trials * rate;
    uint32_t slots = 16;
    while (slots < FDP_SLOTS_MOST &&
           (slots < mean ||
            slots * log2(slots / (2.7183 * mean)) + 1.4426 * mean < 64.0)) {
        slots += 16;
    }
    return slots;
}

/* Bounds on |y - true y| = error + error_relative * y, docs/proofs/kernels.md.
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
    while (power < 24 &&
           ldexp((2.0 * scale + 1.0) * 0.77, -power - 1) > ldexp(1.0, power - 30)) {
        power++;
    }
    law->narrow_least = INT32_C(1) << power;
    law->narrow_error = (float)(scale * (0x1.8p-22 + ldexp(0.77, -power)) * 1.01);
    law->narrow_error_relative = 0x1.2p-22f;
    /* boundaries (y is `scale` on average; y = 0 has one side), words with little
     * left: docs/proofs/kernels.md, lemma 6 */
    return (2.0 + 1.0 / scale) * (double)law->narrow_error +
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
    double rate;
    if (is_laplace(kind)) {
        rate = prepare_laplace(&sampler->law.laplace);
        rate += kind == FDP_LAPLACE_WIDE ? 0x1p-11 : 0.0; /* V near 0 */
    } else {
        sampler->law.gaussian.error = 0x1p-44;
        sampler->law.gaussian.narrow_error =
            kind == FDP_GAUSSIAN_NARROW ? 0x1.6p-17f : 0x1.2p-16f;
        rate = 0x1p-14;
    }
    const double trials[3] = {FDP_BATCH_SMALL, FDP_GROUP, FDP_BATCH};
    for (int i = 0; i < 3; i++) {
        sampler->slots[i] = slots_for(trials[i], rate);
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
    case FDP_LAPLACE_WIDE: k->laplace_wide(laplace, w0, w1, value, count); break;
    case FDP_GAUSSIAN_NARROW:
        k->gaussian_narrow(gaussian, block, height, w1, value, count);
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

/* No kernel gives a magnitude of this size; the resolver's values that do are put
 * aside, with this number plus their place in the list to stand for them. */
static int64_t far_from(const draw_t *d)
{
    return INT64_C(1) << (d->shape.value_bytes == 8 ? 61 : 28);
}

static int64_t magnitude_of(int64_t v) { return v < 0 ? -v : v; }

/* What a rejected trial leaves in the value array. */
static int64_t rejected_value(const draw_t *d)
{
    if (d->shape.tagged) {
        return 0;
    }
    return d->shape.value_bytes == 8 ? FDP_REJECTED64 : FDP_REJECTED32;
}

/* The exact answer, in the form of the value array. */
static int64_t resolve(draw_t *d, const fdp_special_t *s)
{
    const int64_t bound = is_laplace(d->sampler->kind) ? d->sampler->law.laplace.bound : 0;
    fdp_pending_t pending = {.chunk = d->number, .trial = s->trial};
    memcpy(pending.word, s->word, sizeof pending.word);
    int64_t exact[2] = {0, 0};
    const int kept = d->call->resolve(d->call->context, &pending, exact);
    fdp_wipe(&pending, sizeof pending);
    d->failed |= kept < 0;
    /* magnitudes that int64 holds on either side */
    int64_t value = exact[0] == INT64_MIN ? -INT64_MAX : exact[0];
    const int64_t excess =
        exact[1] <= -INT64_MAX ? -INT64_MAX : exact[1] + (exact[0] - value);
    if (kept <= 0 || (bound != 0 && (magnitude_of(value) > bound || excess != 0))) {
        return rejected_value(d);
    }
    if (d->on_grid) { /* what a double holds exactly: docs/proofs/grid.md */
        value = value > FDP_GRID_MOST ? FDP_GRID_MOST : value;
        value = value < -FDP_GRID_MOST ? -FDP_GRID_MOST : value;
    } else if (magnitude_of(value) >= far_from(d)) {
        if (d->far_count == FAR_MOST) {
            d->failed = true;
            return rejected_value(d);
        }
        d->far[d->far_count] = (far_t){value, excess};
        value = far_from(d) + (int64_t)d->far_count++;
    }
    return d->shape.tagged ? 2 * value + 1 : value;
}

static void extension_words(draw_t *d, const fdp_special_t *s, uint32_t block,
                            uint64_t more[2])
{
    fdp_chunk_extend(&d->chunk, &s->trial, 1, block, (uint8_t *)more);
}

static int64_t wide_value(const fdp_laplace_t *law, int64_t high, uint64_t rest)
{
    const uint64_t low = (rest >> 1) & ((UINT64_C(1) << law->shift) - 1);
    return (int64_t)((((uint64_t)high << law->shift) | low) ^ (0 - (rest & 1)));
}

/* Whether a wide trial is kept, given the next 64 bits of V; false: undecided. */
static bool wide_kept(const fdp_laplace_t *law, uint64_t rest, uint64_t more, bool *keep)
{
    const bool near_zero = rest >> 53 == 0;
    const bool settled = fdp_laplace_settle_keep(law, rest, more, keep);
    *keep |= !near_zero;
    return !near_zero || (settled && law->unsettled == 0);
}

/* 128 bits of U instead of 64: decides all but V < 2^-44 and a share of 2^-80. */
static bool settle_laplace(draw_t *d, const fdp_special_t *s, int64_t *value)
{
    const fdp_laplace_t *law = &d->sampler->law.laplace;
    const bool wide = d->sampler->kind == FDP_LAPLACE_WIDE;
    if (law->unsettled != 0) {
        return false;
    }
    uint64_t more[2];
    extension_words(d, s, wide ? SECOND_UNIFORM : 0, more);
    bool settled = fdp_laplace_settle(law, (s->word[0] << 32) | (more[0] >> 32),
                                      (more[0] << 32) | (more[1] >> 32), value);
    if (wide && settled) {
        bool keep = false;
        extension_words(d, s, 0, more);
        settled = wide_kept(law, s->word[1], more[0], &keep);
        *value = keep ? wide_value(law, *value, s->word[1]) : FDP_REJECTED64;
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

/* The special of lane i of a pass; lanes without one run on the first's words. */
static const fdp_special_t *special_of(const draw_t *d, size_t i)
{
    return &d->scratch.special[i < d->specials ? i : 0];
}

/* Extension block `block` of the trials of a pass. */
static void extend_slots(draw_t *d, size_t from, uint32_t block)
{
    const fdp_scratch_t *s = &d->scratch;
    for (size_t i = 0; i < d->slots; i++) {
        s->slot_trial[i] = special_of(d, from + i)->trial;
    }
    fdp_chunk_extend(&d->chunk, s->slot_trial, d->slots, block, s->slot_more);
}

static uint64_t more_of(const fdp_scratch_t *s, size_t i)
{
    uint64_t more;
    memcpy(&more, s->slot_more + 16 * i, sizeof more);
    return more;
}

/* The same trials with 32 more bits of the same uniform, in double; slot_value
 * receives values, FDP_REJECTED64 or FDP_UNDECIDED64. */
static void second_stage_laplace(draw_t *d, size_t from)
{
    const fdp_scratch_t *s = &d->scratch;
    const fdp_laplace_t *law = &d->sampler->law.laplace;
    const bool wide = d->sampler->kind == FDP_LAPLACE_WIDE;
    extend_slots(d, from, wide ? SECOND_UNIFORM : 0);
    for (size_t i = 0; i < d->slots; i++) {
        s->slot_word[i] = (special_of(d, from + i)->word[0] << 32) | (more_of(s, i) >> 32);
    }
    d->kernels->laplace_second(law, s->slot_word, s->slot_value, d->slots);
    if (!wide) {
        return;
    }
    extend_slots(d, from, 0);
    for (size_t i = 0; i < d->slots; i++) {
        const uint64_t rest = special_of(d, from + i)->word[1];
        bool keep = false;
        const bool settled = wide_kept(law, rest, more_of(s, i), &keep);
        const int64_t high = s->slot_value[i];
        const int64_t value = keep ? wide_value(law, high, rest) : FDP_REJECTED64;
        s->slot_value[i] =
            settled && high != FDP_UNDECIDED64 ? value : FDP_UNDECIDED64;
    }
}

/* The same for the Gaussian; slot_value receives 2 * value + keep. */
static void second_stage_gaussian(draw_t *d, size_t from)
{
    const fdp_scratch_t *s = &d->scratch;
    const fdp_gaussian_t *law = &d->sampler->law.gaussian;
    const bool wide = d->sampler->kind == FDP_GAUSSIAN_WIDE;
    const uint32_t j = law->shift;
    const uint32_t below = wide ? 1 : j + 1; /* bits of the word below V */
    extend_slots(d, from, 0);
    for (size_t i = 0; i < d->slots; i++) {
        const fdp_special_t *e = special_of(d, from + i);
        s->slot_select[i] = (uint16_t)e->word[0];
        s->slot_word[i] = ((e->word[1] >> below) << 32) | (more_of(s, i) >> 32);
    }
    d->kernels->gaussian_select(law, s->slot_select, s->slot_block, s->slot_height,
                                (d->slots + 31) & ~(size_t)31);
    for (size_t i = 0; i < d->slots; i++) {
        const fdp_special_t *e = special_of(d, from + i);
        const uint64_t low = wide ? e->word[2] >> (64 - j)
                                  : (e->word[1] >> 1) & ((UINT64_C(1) << j) - 1);
        s->slot_magnitude[i] = ((uint64_t)s->slot_block[i] << j) | low;
    }
    d->kernels->gaussian_second(law, s->slot_block, s->slot_height, s->slot_magnitude,
                                s->slot_word, 64 - below, s->slot_value, d->slots);
    for (size_t i = 0; i < d->slots; i++) {
        const uint64_t sign = special_of(d, from + i)->word[1] & 1;
        const uint64_t x = (s->slot_magnitude[i] ^ (0 - sign)) + sign;
        const int64_t keep = s->slot_value[i];
        s->slot_value[i] = keep == FDP_UNDECIDED64 ? keep : (int64_t)(x << 1) | keep;
    }
}

/* Settles the collected specials and empties the list: passes of `slots` lanes,
 * one of them nearly always; spare lanes write behind the batch. */
static void settle_specials(draw_t *d, void *values, size_t spare)
{
    size_t from = 0;
    do {
        if (is_laplace(d->sampler->kind)) {
            second_stage_laplace(d, from);
        } else {
            second_stage_gaussian(d, from);
        }
        for (size_t i = 0; i < d->slots; i++) {
            const bool used = from + i < d->specials;
            const fdp_special_t *e = special_of(d, from + i);
            int64_t value = d->scratch.slot_value[i];
            if (FDP_UNLIKELY(used && value == FDP_UNDECIDED64)) {
                value = settle(d, e);
            }
            d->any_rejected |= used && !d->shape.tagged && value == rejected_value(d);
            store_value(d, values, used ? e->index : spare, value);
        }
        from += d->slots;
    } while (FDP_UNLIKELY(from < d->specials));
    d->specials = 0;
}

/* The next `steps` set bits of a group's masks as lane numbers, lane 0 when there
 * are no more; every step costs the same. */
typedef struct {
    const uint64_t *mask;
    uint8_t where[FDP_GROUP / 64 + 1]; /* masks with a bit set, then an empty one */
    size_t at;
    uint64_t left; /* of mask[where[at]] */
} lanes_t;

static size_t lanes_open(lanes_t *l, uint64_t *mask, size_t masks)
{
    size_t total = 0, hits = 0;
    mask[masks] = 0;
    for (size_t g = 0; g < masks; g++) {
        l->where[hits] = (uint8_t)g;
        hits += mask[g] != 0;
        total += (size_t)__builtin_popcountll(mask[g]);
    }
    l->where[hits] = (uint8_t)masks;
    l->mask = mask;
    l->at = 0;
    l->left = mask[l->where[0]];
    return total;
}

static void lanes_take(lanes_t *l, uint16_t *lane, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        const unsigned bit = (unsigned)__builtin_ctzll(l->left | (UINT64_C(1) << 63));
        const bool valid = l->left != 0;
        lane[i] = (uint16_t)(valid ? l->where[l->at] * 64u + bit : 0);
        l->left &= l->left - 1;
        l->at += valid && l->left == 0;
        l->left = l->left != 0 ? l->left : l->mask[l->where[l->at]];
    }
}

#define GATHER(type)                                                \
    for (size_t i = 0; i < n; i++) {                                \
        to[i].word[p] = ((const type *)(const void *)words)[lane[i]]; \
    }

static void gather_words(fdp_special_t *to, size_t p, const uint8_t *words,
                         uint8_t bytes, const uint16_t *lane, size_t n)
{
    switch (bytes) {
    case 2: GATHER(uint16_t) break;
    case 4: GATHER(uint32_t) break;
    default: GATHER(uint64_t) break;
    }
}

/* Appends the special lanes of a group, with their words, to the list. Takes one
 * fixed number of steps unless more lanes are special than that: which lanes are
 * undecided tells of the tail. */
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
    lanes_t lanes;
    uint16_t lane[FDP_SLOTS_MOST];
    const size_t total = lanes_open(&lanes, s->mask, count / 64);
    const size_t steps = slots_of(d->sampler, count);
    size_t taken = 0;
    do {
        if (FDP_UNLIKELY(d->specials + steps > s->specials)) {
            settle_specials(d, values, spare);
        }
        fdp_special_t *to = &s->special[d->specials];
        lanes_take(&lanes, lane, steps);
        for (size_t i = 0; i < steps; i++) {
            to[i].index = (uint32_t)(base + lane[i]);
            to[i].trial = (uint32_t)(first + lane[i]);
        }
        for (size_t p = 0; p < FDP_PARTS && d->shape.part_bytes[p] != 0; p++) {
            gather_words(to, p, word[p], d->shape.part_bytes[p], lane, steps);
        }
        d->specials += total - taken < steps ? total - taken : steps;
        taken += steps;
    } while (FDP_UNLIKELY(taken < total));
}

/* ---- batches and chunks ------------------------------------------------- */

/* Packs the values that are kept: not rejected and, with a bound, within it. Most
 * pieces of 64 lose nothing and move as they are. */
#define PACK(name, type, is_kept)                                  \
    static size_t name(type *value, size_t n, int64_t bound)       \
    {                                                              \
        size_t kept = 0;                                           \
        for (size_t i = 0; i < n; i += 64) {                       \
            unsigned lost = 0;                                     \
            for (size_t k = 0; k < 64; k++) {                      \
                const type v = value[i + k];                       \
                lost += !(is_kept);                                \
            }                                                      \
            if (lost == 0) {                                       \
                memmove(value + kept, value + i, 64 * sizeof(type)); \
                kept += 64;                                        \
                continue;                                          \
            }                                                      \
            for (size_t k = 0; k < 64; k++) {                      \
                const type v = value[i + k];                       \
                value[kept] = v;                                   \
                kept += (is_kept);                                 \
            }                                                      \
        }                                                          \
        return kept;                                               \
    }

PACK(pack32, int32_t, v != FDP_REJECTED32 && v <= bound && v >= -bound)
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
    const int64_t most = bound == 0 || bound >= far_from(d) ? INT64_MAX : bound;
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
    d->far_count = 0;
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

/* Adds the chunk's noise to the data, values put aside in a step of their own. */
static void store_chunk(draw_t *d, const fdp_target_t *target, size_t done, size_t need)
{
    const bool narrow = d->shape.value_bytes == 4;
    size_t at[FAR_MOST] = {need, need, need, need}; /* not among the outputs */
    int64_t x[FAR_MOST] = {0};
    for (size_t i = 0; d->far_count != 0 && i < need; i++) {
        const int64_t v = narrow ? ((const int32_t *)d->scratch.noise)[i]
                                 : ((const int64_t *)d->scratch.noise)[i];
        if (v >= far_from(d)) {
            at[v - far_from(d)] = i;
            x[v - far_from(d)] = fdp_target_read(target, done + i);
        }
    }
    fdp_target_store(target, d->kernels, done, need, d->scratch.noise, narrow,
                     d->scratch.wide);
    for (size_t k = 0; k < d->far_count; k++) {
        if (at[k] < need) {
            fdp_target_write(target, done + at[k], x[k], d->far[k].value,
                             d->far[k].excess);
        }
    }
    fdp_wipe(x, sizeof x);
}

fdp_status_t fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                         uint64_t first_chunk, size_t n, const fdp_target_t *target)
{
    FDP_ALIGNED(64) uint8_t stack[FDP_SCRATCH_SMALL];
    const size_t per_chunk = sampler->chunk_outputs;
    draw_t d = {.call = call,
                .sampler = sampler,
                .kernels = fdp_kernels(),
                .shape = shape_of(sampler->kind),
                .on_grid = target->grid != NULL};
    const size_t batch = n >= per_chunk ? FDP_BATCH : trials_for(sampler, n);
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
    if (d.failed) {
        fdp_target_zero(target, n);
        return FDP_ERR_RESOLVER;
    }
    return FDP_OK;
}
