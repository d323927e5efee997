/* digits_pass.c: the lanes of a pass. draw_lists draws the values that special lanes will take,
 * for a fixed number of ranks; draw_trials draws the digits of a piece and inserts the lists by
 * rank. */
#include "digits_pass.h"

#include <string.h>

#include "../base/wipe.h"
#include "lanes.h"
#include "scratch.h"

void fdp_pass_slots(const fdp_digits_t *law, size_t lanes, size_t slots[2])
{
    const size_t size = fdp_pass_size(lanes);
    for (size_t digit = 0; digit < 2; digit++) {
        slots[digit] = size == 0 ? FDP_FEW_LANES : law->slots[digit][size - 1];
    }
    slots[1] = law->shift == 0 ? 0 : slots[1];
}

/* Draws the lists. The words of the ranks are at the start of the area, 16 ranks together. */
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
    p->first[i] = (int16_t)fdp_pick(fdp_mask(used), v, (uint16_t)p->first[i]);
}

static void insert_second(fdp_pass_t *p, size_t k, size_t i)
{
    const uint64_t used = k < p->total[1], v = p->list[1].low[k] & (p->second[i] | 31u);
    p->second[i] = (uint8_t)fdp_pick(fdp_mask(used), v, p->second[i]);
}

#define CLEAR(type)                                                         \
    do {                                                                    \
        type *const low = (type *)(void *)p->low;                           \
        for (size_t k = 0; k < p->slots[1]; k++) {                          \
            const uint64_t used = k < p->total[1];                          \
            low[lane[k]] &= (type)~fdp_pick(fdp_mask(used), p->list[1].clear[k], 0); \
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

/* Writes the lists into their lanes, in a fixed number of steps; an unused step rewrites what is
 * there. The two digits alternate, because a step must wait for the step before it in the same
 * digit. */
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

/* Counts the special lanes of a mask that are used, `total` at first. Lanes from `need` on are not
 * used: they are cleared. */
static size_t trim(uint64_t *mask, size_t total, size_t need)
{
    if (need % 64 != 0) {
        const uint64_t kept = (UINT64_C(1) << need % 64) - 1;
        total -= fdp_ones(mask[need / 64] & ~kept);
        mask[need / 64] &= kept;
    }
    return total;
}

static size_t blocks_of(size_t need)
{
    return (need + FDP_BLOCK_LANES - 1) / FDP_BLOCK_LANES;
}

void fdp_pass_first(fdp_pass_t *p, size_t need)
{
    const fdp_digits_t *law = p->law;
    const size_t stride = fdp_block_bytes(law), blocks = blocks_of(need);
    fdp_pass_fill(p, fdp_word_start(p), p->word, blocks * stride);
    p->total[0] += trim(p->mask[0],
                        p->kernels->first(&law->first, p->word, stride, &p->list[0],
                                          p->before[0], p->first, p->mask[0], blocks),
                        need);
}

static void draw_trials(fdp_pass_t *p, size_t need)
{
    const fdp_digits_t *law = p->law;
    const size_t stride = fdp_block_bytes(law), low_bytes = fdp_low_bytes(law);
    const size_t blocks = blocks_of(need), lanes = blocks * FDP_BLOCK_LANES;
    fdp_pass_first(p, need);
    if (law->shift != 0) {
        if (low_bytes != 0) {
            fdp_pass_fill(p, fdp_low_start(p), p->low, lanes * low_bytes);
        }
        p->total[1] += trim(p->mask[1],
                            p->kernels->second(&law->second, p->word + 128, stride,
                                               &p->list[1], p->before[1], p->second, p->low,
                                               (uint32_t)low_bytes, p->mask[1], blocks),
                            need);
    }
    if (!p->kernels->inserts) {
        insert_lists(p, lanes);
    }
}

/* Returns the number of ranks before the first open one; except in one of 2^36 passes, these are
 * all ranks. */
static size_t sure_of(const uint8_t *open, size_t ranks)
{
    uint64_t any = 0;
    for (size_t k = 0; k < ranks; k++) {
        any |= open[k];
    }
    size_t k = any == 0 ? ranks : 0;
    while (FDP_UNLIKELY(k < ranks) && open[k] == 0) {
        k++;
    }
    return k;
}

/* ---- a pass --------------------------------------------------------------- */

/* Steps that insert lists work on a whole pass, not on a piece. */
size_t fdp_pass_piece(const fdp_digits_t *law, const fdp_digit_kernels_t *kernels)
{
    return kernels->inserts || law->tilt.slope != 0 ? FDP_PIECE : FDP_PASS;
}

void fdp_pass_open(fdp_pass_t *p, size_t need)
{
    fdp_pass_slots(p->law, need, p->slots);
    p->late_count = 0;
    p->late = NULL;
    p->total[0] = p->total[1] = 0;
    if (p->law->tilt.slope != 0) {
        fdp_tilt_open(p, need);
        return;
    }
    draw_lists(p);
    for (size_t digit = 0; digit < 2; digit++) {
        p->sure[digit] = p->law->unsettled ? 0 : sure_of(p->open[digit], p->slots[digit]);
    }
}

void fdp_pass_draw(fdp_pass_t *p, size_t at, size_t need)
{
    p->at = at;
    p->before[0] = p->total[0];
    p->before[1] = p->total[1];
    if (p->law->tilt.slope != 0) {
        fdp_tilt_draw(p, need);
        return;
    }
    draw_trials(p, need);
    if (FDP_UNLIKELY((p->total[0] > p->sure[0]) | (p->total[1] > p->sure[1]))) {
        fdp_pass_settle(p, need);
    }
}

void fdp_pass_close(fdp_pass_t *p)
{
    if (p->law->tilt.slope != 0) {
        fdp_tilt_close(p);
    }
}

/* ---- open lanes ----------------------------------------------------------- */

static size_t late_bytes(const fdp_pass_t *p)
{
    const size_t first = p->total[0] - p->before[0], second = p->total[1] - p->before[1];
    return (first + second) * sizeof *p->late;
}

bool fdp_pass_keep(fdp_pass_t *p)
{
    p->late = late_bytes(p) == 0 ? NULL : fdp_memory_take(late_bytes(p));
    return p->late != NULL || late_bytes(p) == 0;
}

void fdp_pass_drop(fdp_pass_t *p)
{
    if (p->late != NULL) {
        fdp_memory_give(p->late, late_bytes(p));
        p->late = NULL;
        fdp_wipe_resolver();
    }
    p->late_count = 0;
}
