/* undecided.c: the lanes that a vector kernel does not decide, or rejects.
 *
 *   fdp_collect           picks them from a group, with their words
 *   second_stage          the same trials with 32 more bits, in double
 *   resolve               what is left: the exact resolver
 *   fdp_settle_specials   runs these and stores the values
 *
 * Which lanes are undecided tells of the tail, so picking takes fixed steps and the
 * second stage a fixed number of lanes a batch: docs/proofs/timing.md.
 */
#include <string.h>

#include "../base/wipe.h"
#include "draw.h"
#include "lanes.h"

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


/* The exact answer, in the form of the value array. */
static int64_t resolve(fdp_draw_t *d, const fdp_special_t *s)
{
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
    if (kept <= 0) {
        return 0;
    }
    int64_t value = exact[0];
    /* on a grid: what a double holds exactly, docs/proofs/grid.md */
    if (magnitude >= fdp_far_from(d) || (d->on_grid && magnitude > FDP_GRID_MOST)) {
        if (d->far_count == FDP_FAR_MOST) {
            d->failed = true;
            return 0;
        }
        d->far[d->far_count] = whole;
        value = fdp_far_from(d) + (int64_t)d->far_count++;
    }
    return 2 * value + 1;
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

/* The same trials with 32 more bits of V, in double; slot_value receives 2 * value + keep
 * or FDP_UNDECIDED64. */
static void second_stage(fdp_draw_t *d, size_t from)
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
        second_stage(d, from);
        for (size_t i = 0; i < d->slots; i++) {
            const uint64_t used = from + i < d->specials;
            const fdp_special_t *e = special_of(d, from + i);
            int64_t value = d->scratch.slot_value[i];
            if (FDP_UNLIKELY(fdp_choose(used, (uint64_t)value, 0) ==
                             (uint64_t)FDP_UNDECIDED64)) {
                value = resolve(d, e);
            }
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
