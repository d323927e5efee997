/* digits_pass.c: the lanes of a pass.
 *
 *   draw_lists     what special lanes will yield, for a fixed number of ranks
 *   draw_trials    the digits, the lists put in by rank
 */
#include "digits_pass.h"

#include <string.h>

#include "../base/wipe.h"
#include "lanes.h"

#define FEW_LANES 8 /* a kernel's least number of ranks */

void fdp_pass_slots(const fdp_digits_t *law, size_t lanes, size_t slots[2])
{
    const size_t size = lanes > FDP_SMALL_LANES;
    for (size_t digit = 0; digit < 2; digit++) {
        /* few lanes have as few ranks */
        const size_t most = law->slots[2 * digit + size];
        slots[digit] = lanes <= FEW_LANES ? FEW_LANES : most;
    }
    slots[1] = law->shift == 0 ? 0 : slots[1];
}

/* The words of ranks lie at the area's start, each 16 ranks' together. */
static void draw_lists(fdp_pass_t *p)
{
    const size_t most = p->slots[0] > p->slots[1] ? p->slots[0] : p->slots[1];
    fdp_pass_fill(p, fdp_pass_start(p), p->area, fdp_area_bytes(p->law, most));
    const uint64_t *word = (const uint64_t *)(const void *)p->area;
    p->kernels->list_first(p->law, word, &p->list[0], p->open[0], p->slots[0]);
    if (p->slots[1] != 0) {
        p->kernels->list_second(p->law, word, &p->list[1], p->open[1], p->slots[1]);
    }
}

/* ---- for levels whose kernels do not insert ------------------------------- */

static void insert_first(fdp_pass_t *p, size_t k, size_t i)
{
    const fdp_list_t *list = &p->list[0];
    const uint64_t used = k < p->total[0], v = list->low[k] | (uint64_t)list->high[k] << 8;
    p->first[i] = (int16_t)fdp_choose(used, v, (uint16_t)p->first[i]);
}

static void insert_second(fdp_pass_t *p, size_t k, size_t i)
{
    const uint64_t used = k < p->total[1], v = p->list[1].low[k] & (p->second[i] | 31u);
    p->second[i] = (uint8_t)fdp_choose(used, v, p->second[i]);
}

#define CLEAR(type)                                                         \
    do {                                                                    \
        type *const low = (type *)(void *)p->low;                           \
        for (size_t k = 0; k < p->slots[1]; k++) {                          \
            const uint64_t used = k < p->total[1];                          \
            low[lane[k]] &= (type)~fdp_choose(used, p->list[1].clear[k], 0); \
        }                                                                   \
    } while (0)

static void clear_low(fdp_pass_t *p, const uint16_t *lane)
{
    switch (fdp_low_bytes(p->law)) {
    case 0: break;
    case 2: CLEAR(uint16_t); break;
    case 4: CLEAR(uint32_t); break;
    default: CLEAR(uint64_t); break;
    }
}

/* The lists into their lanes, in a fixed number of steps; an unused step rewrites what
 * is there. Both digits by turns: a step waits for the one before it. */
static void insert_lists(fdp_pass_t *p, size_t lanes)
{
    uint16_t lane[2][FDP_RANKS];
    fdp_lanes_t taken[2];
    const size_t masks = lanes / FDP_BLOCK_LANES, s0 = p->slots[0], s1 = p->slots[1];
    fdp_lanes_open(&taken[0], p->mask[0], masks);
    if (s1 != 0) {
        fdp_lanes_open(&taken[1], p->mask[1], masks);
    }
    size_t k = 0;
    for (; k < s0 && k < s1; k++) {
        lane[0][k] = fdp_lanes_next(&taken[0], fdp_place_of(k, s0, lanes));
        lane[1][k] = fdp_lanes_next(&taken[1], fdp_place_of(k, s1, lanes));
    }
    for (size_t r = k; r < s0; r++) {
        lane[0][r] = fdp_lanes_next(&taken[0], fdp_place_of(r, s0, lanes));
    }
    for (size_t r = k; r < s1; r++) {
        lane[1][r] = fdp_lanes_next(&taken[1], fdp_place_of(r, s1, lanes));
    }
    for (size_t r = 0; r < s0; r++) {
        insert_first(p, r, lane[0][r]);
    }
    for (size_t r = 0; r < s1; r++) {
        insert_second(p, r, lane[1][r]);
    }
    if (s1 != 0) {
        clear_low(p, lane[1]);
        fdp_lanes_close(&taken[1], masks, lane[1], s1);
    }
    fdp_lanes_close(&taken[0], masks, lane[0], s0);
}

/* ---- trials --------------------------------------------------------------- */

/* Lanes that nobody uses are not special. */
size_t fdp_pass_trim(uint64_t *mask, size_t total, size_t need)
{
    if (need % 64 != 0) {
        const uint64_t kept = (UINT64_C(1) << need % 64) - 1;
        total -= fdp_ones(mask[need / 64] & ~kept);
        mask[need / 64] &= kept;
    }
    return total;
}

static void draw_trials(fdp_pass_t *p, size_t need)
{
    const fdp_digits_t *law = p->law;
    const fdp_digit_kernels_t *k = p->kernels;
    const size_t stride = fdp_block_bytes(law), low_bytes = fdp_low_bytes(law);
    const size_t blocks = (need + FDP_BLOCK_LANES - 1) / FDP_BLOCK_LANES;
    const size_t lanes = blocks * FDP_BLOCK_LANES;
    fdp_pass_fill(p, fdp_pass_start(p) + fdp_area_bytes(law, fdp_pass_ranks(law)), p->word,
                  blocks * stride);
    p->total[0] = fdp_pass_trim(p->mask[0], k->first(&law->first, p->word, stride, &p->list[0],
                                            p->first, p->mask[0], blocks), need);
    p->total[1] = 0;
    if (law->shift != 0) {
        if (low_bytes != 0) {
            fdp_pass_fill(p, fdp_low_start(p), p->low, lanes * low_bytes);
        }
        p->total[1] = fdp_pass_trim(p->mask[1],
                           k->second(&law->second, p->word + 128, stride, &p->list[1],
                                     p->second, p->low, (uint32_t)low_bytes, p->mask[1],
                                     blocks), need);
    }
    if (!k->inserts) {
        insert_lists(p, lanes);
    }
}

/* 1 if some special lane is not decided. */
static uint64_t any_open(const fdp_pass_t *p)
{
    uint64_t any = p->law->unsettled;
    for (size_t digit = 0; digit < 2; digit++) {
        any |= p->total[digit] > p->slots[digit];
        for (size_t k = 0; k < p->slots[digit]; k++) {
            any |= p->open[digit][k] & (uint64_t)(k < p->total[digit]);
        }
    }
    return any;
}

void fdp_pass_draw(fdp_pass_t *p, size_t need)
{
    fdp_pass_slots(p->law, need, p->slots);
    p->late_count = 0;
    p->late = NULL;
    if (p->law->tilt.slope != 0) {
        fdp_tilt_draw(p, need);
        return;
    }
    draw_lists(p);
    draw_trials(p, need);
    if (FDP_UNLIKELY(any_open(p) != 0)) {
        fdp_pass_settle(p, need);
    }
}
