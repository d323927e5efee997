/* undecided.c: the lanes that a vector kernel does not decide, or rejects.
 *
 *   fdp_collect           picks them from a group, with their words
 *   second_stage_*        the same trials with 32 more bits, in double
 *   settle, resolve       what is left: 128 bits, then the exact resolver
 *   fdp_settle_specials   runs these and stores the values
 *
 * Which lanes are undecided tells of the tail, so picking takes fixed steps and the
 * second stage a fixed number of lanes a batch: docs/proofs/timing.md.
 */
#include <string.h>

#include "../base/wipe.h"
#include "../sampler/settle.h"
#include "draw.h"
#include "lanes.h"

/* Extension blocks from this one on are a second uniform real of the trial. */
#define SECOND_UNIFORM (UINT32_C(1) << 20)

static void store_value(const fdp_draw_t *d, void *values, size_t index, int64_t value)
{
    if (d->shape.value_bytes == 8) {
        ((int64_t *)values)[index] = value;
    } else {
        ((int32_t *)values)[index] = (int32_t)value;
    }
}

static int64_t load_value(const fdp_draw_t *d, const void *values, size_t index)
{
    return d->shape.value_bytes == 8 ? ((const int64_t *)values)[index]
                                     : ((const int32_t *)values)[index];
}

/* What a rejected trial leaves in the value array. */
static int64_t rejected_value(const fdp_draw_t *d)
{
    if (d->shape.tagged) {
        return 0;
    }
    return d->shape.value_bytes == 8 ? FDP_REJECTED64 : FDP_REJECTED32;
}

/* The exact answer, in the form of the value array. */
static int64_t resolve(fdp_draw_t *d, const fdp_special_t *s)
{
    const int64_t bound = fdp_is_laplace(d->sampler) ? d->sampler->law.laplace.bound : 0;
    fdp_pending_t pending = {
        .chunk = d->number, .trial = s->trial, .owner = d->sampler->owner};
    memcpy(pending.word, s->word, sizeof pending.word);
    int64_t exact[2] = {0, 0};
    const int kept = d->call->resolve(d->call->context, &pending, exact);
    fdp_wipe(&pending, sizeof pending);
    d->failed |= kept < 0;
    const fdp_i128_t whole =
        (fdp_i128_t)((fdp_u128_t)(uint64_t)exact[1] << 64 | (uint64_t)exact[0]);
    const fdp_i128_t magnitude = whole < 0 ? -whole : whole;
    if (kept <= 0 || (bound != 0 && magnitude > bound)) {
        return rejected_value(d);
    }
    int64_t value = exact[0];
    /* on a grid: what a double holds exactly, docs/proofs/grid.md */
    if (magnitude >= fdp_far_from(d) || (d->on_grid && magnitude > FDP_GRID_MOST)) {
        if (d->far_count == FDP_FAR_MOST) {
            d->failed = true;
            return rejected_value(d);
        }
        d->far[d->far_count] = whole;
        value = fdp_far_from(d) + (int64_t)d->far_count++;
    }
    return d->shape.tagged ? 2 * value + 1 : value;
}

static void extension_words(fdp_draw_t *d, const fdp_special_t *s, uint32_t block,
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
    return (!near_zero) | (settled & (law->unsettled == 0));
}

/* 128 bits of U instead of 64: decides all but V < 2^-44 and a share of 2^-80. */
static bool settle_laplace(fdp_draw_t *d, const fdp_special_t *s, int64_t *value)
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

static int64_t settle(fdp_draw_t *d, const fdp_special_t *s)
{
    int64_t value;
    if (fdp_is_laplace(d->sampler) && settle_laplace(d, s, &value)) {
        return value;
    }
    return resolve(d, s);
}

/* The special of lane i of a pass; lanes without one run on the first's words. */
static const fdp_special_t *special_of(const fdp_draw_t *d, size_t i)
{
    return &d->scratch.special[fdp_choose(i < d->specials, i, 0)];
}

/* Extension block `block` of the trials of a pass. */
static void extend_slots(fdp_draw_t *d, size_t from, uint32_t block)
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
static void second_stage_laplace(fdp_draw_t *d, size_t from)
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
        const uint64_t value = fdp_choose(keep, (uint64_t)wide_value(law, high, rest),
                                      (uint64_t)FDP_REJECTED64);
        s->slot_value[i] = (int64_t)fdp_choose(settled & (high != FDP_UNDECIDED64), value,
                                           (uint64_t)FDP_UNDECIDED64);
    }
}

/* The same for the Gaussian; slot_value receives 2 * value + keep. */
static void second_stage_gaussian(fdp_draw_t *d, size_t from)
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
        s->slot_value[i] = (int64_t)fdp_choose(keep == FDP_UNDECIDED64, (uint64_t)keep,
                                           (x << 1) | (uint64_t)keep);
    }
}

/* Settles the collected specials and empties the list: passes of `slots` lanes,
 * one of them nearly always. */
void fdp_settle_specials(fdp_draw_t *d, void *values, size_t trials)
{
    size_t from = 0;
    do {
        if (fdp_is_laplace(d->sampler)) {
            second_stage_laplace(d, from);
        } else {
            second_stage_gaussian(d, from);
        }
        for (size_t i = 0; i < d->slots; i++) {
            const uint64_t used = from + i < d->specials;
            const fdp_special_t *e = special_of(d, from + i);
            int64_t value = d->scratch.slot_value[i];
            if (FDP_UNLIKELY(fdp_choose(used, (uint64_t)value, 0) ==
                             (uint64_t)FDP_UNDECIDED64)) {
                value = settle(d, e);
            }
            d->any_rejected |=
                used & (d->shape.tagged ? 0 : 1) & (value == rejected_value(d));
            const size_t index =
                (size_t)fdp_choose(used, e->index, fdp_place_of(i, d->slots, trials));
            const int64_t before = load_value(d, values, index);
            store_value(d, values, index,
                        (int64_t)fdp_choose(used, (uint64_t)value, (uint64_t)before));
        }
        from += d->slots;
    } while (FDP_UNLIKELY(from < d->specials));
    d->specials = 0;
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
void fdp_collect(fdp_draw_t *d, const uint8_t *const word[FDP_PARTS], void *values,
                    size_t base, size_t first, size_t count, size_t trials)
{
    fdp_scratch_t *s = &d->scratch;
    const void *at = (const uint8_t *)values + base * d->shape.value_bytes;
    if (d->shape.value_bytes == 4) {
        d->kernels->special32(at, s->mask, count);
    } else {
        d->kernels->special64(at, s->mask, count);
    }
    fdp_lanes_t lanes;
    uint16_t lane[FDP_SLOTS_MOST];
    const size_t total = fdp_lanes_open(&lanes, s->mask, count / 64);
    const size_t steps = fdp_law_slots(d->sampler, count);
    size_t taken = 0;
    do {
        if (FDP_UNLIKELY(d->specials + steps > s->specials)) {
            fdp_settle_specials(d, values, trials);
        }
        fdp_special_t *to = &s->special[d->specials];
        fdp_lanes_take(&lanes, lane, steps, count);
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
    fdp_lanes_close(&lanes, count / 64, lane, steps);
}
