/* scratch.c: see scratch.h. */
#include "scratch.h"

#include <stdlib.h>

#include "../base/wipe.h"

/* The next `bytes` of the block at `base`; with no block yet, only counts. */
static void *take(uint8_t *base, size_t *at, size_t bytes)
{
    void *p = base == NULL ? NULL : base + *at;
    *at += (bytes + 63) & ~(size_t)63;
    return p;
}

static size_t lay_out(fdp_scratch_t *s, const fdp_shape_t *shape, uint8_t *base)
{
    const size_t group = s->batch < FDP_GROUP ? s->batch : FDP_GROUP;
    const size_t slots = s->batch <= FDP_BATCH_SMALL ? 64 : FDP_SLOTS_MOST;
    size_t at = 0;
    for (size_t p = 0; p < FDP_PARTS; p++) {
        /* the stream is read in units of 1024 bytes, from a unit's start */
        const size_t bytes = shape->part_bytes[p];
        s->part[p] = take(base, &at, bytes == 0 ? 0 : group * bytes + 2048);
    }
    s->block = take(base, &at, group);
    s->height = take(base, &at, group * 2);
    s->value = take(base, &at, (s->batch + 16) * shape->value_bytes);
    s->noise = take(base, &at, (s->batch + FDP_BATCH_AGAIN + 16) * shape->value_bytes);
    s->specials = 2 * slots;
    s->special = take(base, &at, s->specials * sizeof(fdp_special_t));
    s->slot_trial = take(base, &at, slots * 4);
    s->slot_more = take(base, &at, slots * 16);
    s->slot_word = take(base, &at, slots * 8);
    s->slot_value = take(base, &at, slots * 8);
    s->slot_select = take(base, &at, slots * 2);
    s->slot_block = take(base, &at, slots);
    s->slot_height = take(base, &at, slots * 2);
    s->slot_magnitude = take(base, &at, slots * 8);
    s->wide = take(base, &at, s->batch * 8);
    return at;
}

bool fdp_scratch_open(fdp_scratch_t *scratch, const fdp_shape_t *shape, size_t batch,
                      uint8_t *stack)
{
    scratch->batch = batch;
    scratch->memory = NULL;
    scratch->size = lay_out(scratch, shape, NULL);
    scratch->owned = batch > FDP_BATCH_SMALL;
    scratch->memory = scratch->owned ? aligned_alloc(64, scratch->size) : stack;
    if (scratch->memory == NULL || (!scratch->owned && scratch->size > FDP_SCRATCH_SMALL)) {
        return false;
    }
    lay_out(scratch, shape, scratch->memory);
    return true;
}

void fdp_scratch_close(fdp_scratch_t *scratch)
{
    fdp_wipe(scratch->memory, scratch->size);
    if (scratch->owned) {
        free(scratch->memory);
    }
}

void *fdp_memory_take(size_t size)
{
    return aligned_alloc(64, (size + 63) & ~(size_t)63);
}

void fdp_memory_give(void *memory, size_t size)
{
    if (memory != NULL) {
        fdp_wipe(memory, size);
        free(memory);
    }
}
