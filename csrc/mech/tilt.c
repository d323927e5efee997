/* tilt.c: passes of tilted digits: the lanes, and the tries that special lanes take. draw_tries
 * makes tries from words of their own and keeps the accepted ones in order; list_whole assigns the
 * k-th accepted try to the k-th special lane; settle_tries and settle_lanes give what known bits
 * leave open to the resolver. */
#include <string.h>

#include "../base/wipe.h"
#include "digits_pass.h"
#include "scratch.h"

typedef struct fdp_tries {
    FDP_ALIGNED(64) int64_t value[FDP_TRIES]; /* all tries, later the accepted ones in order */
    uint8_t state[FDP_TRIES];
    fdp_whole_t list;
    fdp_i128_t *exact; /* what was settled exactly; NULL if nothing was */
    size_t tried, count;
} fdp_tries_t;

size_t fdp_tilt_bytes(void) { return sizeof(fdp_tries_t); }

/* ---- open tries and lanes: words are [1, word, place] for a try, [0, 0, 0] for a lane ---- */

/* Settles open tries. A pass has one with a probability below 2^-23. */
static void settle_tries(fdp_pass_t *p)
{
    fdp_tries_t *t = p->tries;
    t->exact = fdp_memory_take(FDP_TRIES * sizeof *t->exact);
    if (t->exact == NULL) {
        p->status = FDP_ERR_MEMORY;
        return;
    }
    for (size_t i = 0; i < t->tried && p->status == FDP_OK; i++) {
        t->exact[i] = t->value[i];
        if (t->state[i] != 2 && !p->law->unsettled) {
            continue;
        }
        const size_t at = 2 * (i - i % FDP_RANK_GROUP) + i % FDP_RANK_GROUP;
        uint64_t more[3] = {1, 0, 0};
        memcpy(&more[1], p->area + 8 * at, 8);
        memcpy(&more[2], p->area + 8 * (at + FDP_RANK_GROUP), 8);
        const int kept = fdp_pass_resolve(p, (uint32_t)(FDP_PASS + i), more, &t->exact[i]);
        fdp_wipe(more, sizeof more);
        t->state[i] = kept > 0;
    }
}

/* The number of the k-th accepted try. */
static size_t kept_try(const fdp_tries_t *t, size_t k)
{
    size_t i = 0;
    for (size_t kept = t->state[0]; kept <= k; kept += t->state[i]) {
        i++;
    }
    return i;
}

/* Moves to `late` the lanes for which no try is left, and those whose try the resolver settled. */
static void settle_lanes(fdp_pass_t *p, size_t need)
{
    const fdp_tries_t *t = p->tries;
    if (!fdp_pass_keep(p)) {
        p->status = FDP_ERR_MEMORY;
        return;
    }
    size_t rank = p->before[0];
    for (size_t i = 0; i < need && p->status == FDP_OK; i++) {
        if ((p->mask[0][i / 64] >> (i % 64) & 1) == 0) {
            continue;
        }
        const size_t k = rank++;
        fdp_open_t late = {.lane = i};
        if (k >= t->count) {
            const uint64_t more[3] = {0, 0, 0};
            if (fdp_pass_resolve(p, (uint32_t)(p->at + i), more, &late.value) == 0) {
                p->status = FDP_ERR_RESOLVER;
            }
        } else if (t->exact != NULL) {
            late.value = t->exact[kept_try(t, k)];
        } else if (k >= FDP_RANKS) {
            late.value = t->value[k];
        } else {
            continue;
        }
        p->late[p->late_count++] = late;
    }
}

/* ---- tries and lanes ------------------------------------------------------ */

static void drop_exact(fdp_tries_t *t)
{
    if (t->exact != NULL) {
        fdp_memory_give(t->exact, FDP_TRIES * sizeof *t->exact);
        t->exact = NULL;
        fdp_wipe_resolver();
    }
}

static void draw_tries(fdp_pass_t *p, size_t tried)
{
    fdp_tries_t *t = p->tries;
    t->exact = NULL;
    t->tried = tried;
    fdp_pass_fill(p, fdp_pass_start(p), p->area, fdp_area_bytes(p->law, t->tried));
    p->kernels->tries(p->law, (const uint64_t *)(const void *)p->area, t->value, t->state,
                      t->tried);
    uint64_t open = p->law->unsettled;
    for (size_t i = 0; i < t->tried; i++) {
        open |= t->state[i] >> 1;
    }
    if (FDP_UNLIKELY(open != 0)) {
        settle_tries(p);
    }
    size_t count = 0;
    for (size_t i = 0; i < t->tried; i++) {
        t->value[count] = t->value[i];
        count += t->state[i] & 1; /* state 2: still open, after a failure */
    }
    t->count = count;
}

/* Makes all tries of the pass, if those of a small call were too few. */
static void draw_more(fdp_pass_t *p)
{
    const size_t tried = p->law->tilt.tries[FDP_SIZES - 1];
    const size_t bytes = fdp_area_bytes(p->law, FDP_TRIES);
    uint8_t *const area = p->area;
    drop_exact(p->tries);
    p->area = fdp_memory_take(bytes);
    if (p->area == NULL) {
        p->status = FDP_ERR_MEMORY;
    } else {
        draw_tries(p, tried);
        fdp_memory_give(p->area, bytes);
    }
    p->area = area;
}

/* Lists the accepted tries by rank, in two parts. No lane before `need` has a rank beyond them. */
static void list_whole(fdp_tries_t *t, const fdp_digits_t *law, size_t need)
{
    const size_t ranks = need <= FDP_FEW_LANES ? FDP_FEW_LANES : FDP_RANKS;
    if (t->tried < ranks) {
        memset(t->value + t->tried, 0, (ranks - t->tried) * sizeof *t->value);
    }
    for (size_t k = 0; k < ranks; k++) {
        const int64_t v = t->value[k];
        t->list.high[k] = (uint16_t)(v >> law->low);
        t->list.low[k] = (uint64_t)(v ^ (v < 0 ? -1 : 0));
    }
}

void fdp_tilt_open(fdp_pass_t *p, size_t need)
{
    draw_tries(p, p->law->tilt.tries[fdp_pass_size(need)]);
    list_whole(p->tries, p->law, need);
    if (p->kernels->inserts) { /* zero for now: the tilt inserts both digits */
        memset(p->list[0].low, 0, sizeof p->list[0].low);
        memset(p->list[0].high, 0, sizeof p->list[0].high);
    }
}

void fdp_tilt_draw(fdp_pass_t *p, size_t need)
{
    const fdp_digits_t *law = p->law;
    const size_t stride = fdp_block_bytes(law), low_bytes = fdp_low_bytes(law);
    const size_t blocks = (need + FDP_BLOCK_LANES - 1) / FDP_BLOCK_LANES;
    fdp_tries_t *t = p->tries;
    fdp_pass_first(p, need);
    if (FDP_UNLIKELY(p->total[0] > t->count && t->tried < law->tilt.tries[FDP_SIZES - 1])) {
        draw_more(p);
        list_whole(t, law, FDP_PASS);
    }
    if (low_bytes != 0) {
        fdp_pass_fill(p, fdp_low_start(p), p->low, blocks * FDP_BLOCK_LANES * low_bytes);
    }
    p->kernels->tilt(law, p->word + 128, stride, &t->list, p->before[0], p->mask[0],
                     p->first, p->low, (uint32_t)low_bytes, blocks);
    if (FDP_UNLIKELY((t->exact != NULL) | (p->total[0] > t->count) |
                     (p->total[0] > FDP_RANKS))) {
        settle_lanes(p, need);
    }
}

void fdp_tilt_close(fdp_pass_t *p) { drop_exact(p->tries); }
