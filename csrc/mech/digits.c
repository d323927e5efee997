/* digits.c: the driver of laws of alias digits.
 *
 *   draw_lists       what special lanes will yield, for a fixed number of ranks
 *   draw_trials      the digits of a pass, the lists put in by rank
 *   settle_open      the exact resolver, for lanes that known bits do not decide
 *   store_pass       values into the caller's array
 *
 * Words of a pass (docs/proofs/discrete_laplace.md, section 4): those of 128 ranks, 16
 * together, then the trials in blocks of 64, then a low word a trial. A pass begins where the one
 * before it ends; all but truncated laws need one pass a chunk.
 */
#include "digits.h"

#include <math.h>
#include <string.h>

#include "../base/mul128.h"
#include "../base/rounding.h"
#include "../base/wipe.h"
#include "../rng/stream.h"
#include "../sampler/digit_kernels.h"
#include "lanes.h"
#include "law.h"
#include "scratch.h"
#include "target.h"

#define PAGE 1024          /* bytes: what the main stream is addressed by */
#define SMALL_LANES 64
#define REJECTED INT64_MIN /* no value of a law is */

typedef struct {
    size_t lane;
    fdp_datum_t x;
    fdp_i128_t value;
} open_t;

typedef struct {
    const fdp_call_t *call;
    const fdp_sampler_t *sampler;
    const fdp_digits_t *law;
    const fdp_digit_kernels_t *kernels;
    fdp_chunk_t chunk;
    uint64_t number; /* of the chunk */
    uint32_t pass;   /* of the chunk */
    size_t slots[2]; /* ranks that are worked, by digit */
    size_t total[2]; /* special lanes, by digit */
    uint8_t *area, *word, *low, *second;
    int16_t *first;
    int64_t *noise;
    uint64_t *mask[2];
    fdp_list_t list[2];
    uint8_t open[2][FDP_RANKS];
    open_t *late;
    size_t late_count;
    uint8_t *memory;
    size_t size;
    fdp_status_t status;
} pass_t;

/* ---- where words lie ------------------------------------------------------ */

/* Bytes of the words of `ranks` ranks. */
static size_t area_bytes(const fdp_digits_t *law, size_t ranks)
{
    return ranks * fdp_rank_words(law) * sizeof(uint64_t);
}

static size_t stride_of(const fdp_digits_t *law) { return law->shift == 0 ? 128 : 256; }

static uint64_t pass_start(const pass_t *p)
{
    const size_t trials = FDP_PASS;
    const size_t blocks = trials / FDP_BLOCK_LANES;
    return (uint64_t)p->pass * (area_bytes(p->law, FDP_RANKS) + blocks * stride_of(p->law) +
                                trials * fdp_low_bytes(p->law));
}

/* The low words follow the trials that the pass could have. */
static uint64_t low_start(const pass_t *p)
{
    return pass_start(p) + area_bytes(p->law, FDP_RANKS) +
           FDP_PASS / FDP_BLOCK_LANES * stride_of(p->law);
}

/* Words `which` of 16 ranks: 0 of the first digit, 1 its tail, 2 of the second digit,
 * 3 its correction, 4 ... the copies. */
static const uint64_t *words_of(const pass_t *p, size_t group, size_t which)
{
    const size_t at = (group * fdp_rank_words(p->law) + which) * FDP_RANK_GROUP;
    return (const uint64_t *)(const void *)p->area + at;
}

static void fill(pass_t *p, uint64_t offset, uint8_t *to, size_t bytes)
{
    fdp_chunk_main(&p->chunk, offset, to, (bytes + 63) & ~(size_t)63);
}

/* ---- lists ---------------------------------------------------------------- */

static void draw_lists(pass_t *p)
{
    const size_t most = p->slots[0] > p->slots[1] ? p->slots[0] : p->slots[1];
    fill(p, pass_start(p), p->area, area_bytes(p->law, most));
    const uint64_t *word = words_of(p, 0, 0);
    p->kernels->list_first(p->law, word, &p->list[0], p->open[0], p->slots[0]);
    if (p->slots[1] != 0) {
        p->kernels->list_second(p->law, word, &p->list[1], p->open[1], p->slots[1]);
    }
}

/* ---- trials --------------------------------------------------------------- */

/* For levels whose kernels do not insert: the lists into their lanes, in a fixed number
 * of steps; an unused step rewrites what is there. */
static void insert_lists(pass_t *p, size_t lanes)
{
    uint16_t lane[FDP_RANKS];
    fdp_lanes_t taken;
    const size_t digits = p->law->shift == 0 ? 1 : 2;
    const uint32_t bytes = fdp_low_bytes(p->law);
    for (size_t digit = 0; digit < digits; digit++) {
        const size_t steps = p->slots[digit];
        const fdp_list_t *list = &p->list[digit];
        fdp_lanes_open(&taken, p->mask[digit], lanes / 64);
        fdp_lanes_take(&taken, lane, steps, lanes);
        for (size_t k = 0; k < steps; k++) {
            const uint64_t used = k < p->total[digit];
            const size_t i = lane[k];
            const uint64_t list0 = list->plane[0][k];
            if (digit == 0) {
                const uint64_t v = list0 | (uint64_t)list->plane[1][k] << 8;
                p->first[i] = (int16_t)fdp_choose(used, v, (uint16_t)p->first[i]);
                continue;
            }
            const uint64_t v = list0 & (p->second[i] | 31u);
            p->second[i] = (uint8_t)fdp_choose(used, v, p->second[i]);
            for (uint32_t b = 0; b < bytes; b++) {
                uint8_t *const at = p->low + i * bytes + b;
                *at = (uint8_t)(*at & ~fdp_choose(used, list->plane[1 + b][k], 0));
            }
        }
    }
}

static void draw_trials(pass_t *p, size_t lanes)
{
    const fdp_digits_t *law = p->law;
    const fdp_digit_kernels_t *k = p->kernels;
    const size_t stride = stride_of(law), blocks = lanes / FDP_BLOCK_LANES;
    const uint64_t start = pass_start(p) + area_bytes(law, FDP_RANKS);
    fill(p, start, p->word, blocks * stride);
    p->total[0] = k->first(&law->first, p->word, stride, &p->list[0], p->first,
                           p->mask[0], blocks);
    p->total[1] = 0;
    if (law->shift != 0) {
        if (fdp_low_bytes(law) != 0) {
            fill(p, low_start(p), p->low, lanes * fdp_low_bytes(law));
        }
        p->total[1] = k->second(&law->second, p->word + 128, stride, &p->list[1],
                                p->second, p->low, fdp_low_bytes(law), p->mask[1], blocks);
    }
    if (!k->inserts) {
        insert_lists(p, lanes);
    }
}

/* ---- the resolver --------------------------------------------------------- */

/* 1 if some special lane is not decided. */
static uint64_t any_open(const pass_t *p)
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

/* Further words of a lane: flags, the digits as they are known, the low word.
 * fastdp/_digits.py, settle. */
#define WORDS (6 + FDP_COPIES)

/* The low bits of a trial as they were read: a kernel may have cleared some. */
static uint64_t low_word(const pass_t *p, size_t i)
{
    const fdp_digits_t *law = p->law;
    const size_t bytes = fdp_low_bytes(law);
    if (bytes == 0) {
        return p->word[i / FDP_BLOCK_LANES * 256 + 128 + i % FDP_BLOCK_LANES] >> 5;
    }
    FDP_ALIGNED(64) uint8_t page[PAGE];
    const uint64_t at = low_start(p) + i * bytes;
    uint64_t low = 0;
    fdp_chunk_main(&p->chunk, at - at % PAGE, page, PAGE);
    memcpy(&low, page + at % PAGE, bytes);
    fdp_wipe(page, sizeof page);
    return low;
}

static void resolve(pass_t *p, size_t i, const size_t rank[2], const bool special[2])
{
    const fdp_digits_t *law = p->law;
    uint64_t more[WORDS] = {0};
    more[1] = (uint64_t)(int64_t)p->first[i];
    if (law->shift != 0) {
        more[3] = p->second[i] & 31;
        more[5 + FDP_COPIES] = low_word(p, i);
    }
    for (size_t digit = 0; digit < 2; digit++) {
        if (!special[digit]) {
            continue;
        }
        const size_t k = rank[digit], g = k / FDP_RANK_GROUP, at = k % FDP_RANK_GROUP;
        more[0] |= UINT64_C(1) << (2 * digit);
        if (k >= FDP_RANKS) {
            continue;
        }
        more[0] |= UINT64_C(2) << (2 * digit);
        more[1 + 2 * digit] = words_of(p, g, 2 * digit)[at];
        more[2 + 2 * digit] = words_of(p, g, 2 * digit + 1)[at];
        for (size_t c = 0; digit == 1 && fdp_has_copies(law) && c < FDP_COPIES; c++) {
            more[5 + c] = words_of(p, g, 4 + c)[at];
        }
    }
    const fdp_pending_t pending = {
        .chunk = p->number,
        .trial = (uint32_t)(p->pass * FDP_PASS + i),
        .owner = p->sampler->owner,
        .more = more,
        .more_words = WORDS,
    };
    open_t *const late = &p->late[p->late_count++];
    int64_t value[2] = {0, 0};
    if (p->call->resolve(p->call->context, &pending, value) <= 0) {
        p->status = FDP_ERR_RESOLVER;
    }
    late->lane = i;
    late->value = (fdp_i128_t)((fdp_u128_t)(uint64_t)value[1] << 64 | (uint64_t)value[0]);
    fdp_wipe(more, sizeof more);
    fdp_wipe(value, sizeof value);
}

static bool is_open(const pass_t *p, size_t digit, size_t rank)
{
    return p->law->unsettled || rank >= p->slots[digit] || p->open[digit][rank];
}

/* Hands the lanes that are open to the resolver: with a probability below 2^-40 a pass
 * there is one. Its words are read again, for all ranks and as they were. */
static void settle_open(pass_t *p, size_t lanes)
{
    const fdp_digits_t *law = p->law;
    fill(p, pass_start(p), p->area, area_bytes(law, FDP_RANKS));
    const size_t most = p->total[0] + p->total[1];
    p->late = fdp_memory_take(most * sizeof *p->late);
    if (p->late == NULL) {
        p->status = FDP_ERR_MEMORY;
        return;
    }
    size_t rank[2] = {0, 0};
    for (size_t i = 0; i < lanes && p->status == FDP_OK; i++) {
        bool special[2] = {false, false}, open = false;
        for (size_t digit = 0; digit < (law->shift == 0 ? 1u : 2u); digit++) {
            special[digit] = p->mask[digit][i / 64] >> (i % 64) & 1;
            open |= special[digit] && is_open(p, digit, rank[digit]);
        }
        if (open) {
            resolve(p, i, rank, special);
        }
        rank[0] += special[0];
        rank[1] += special[1];
    }
}

/* ---- values --------------------------------------------------------------- */

static fdp_parts_t parts_of(const fdp_digits_t *law)
{
    return (fdp_parts_t){law->shift, law->low, fdp_low_bytes(law)};
}

/* x + values from lane `from` on, or the values alone. */
static void join(const pass_t *p, size_t from, const int64_t *x, int64_t *out, size_t n)
{
    const fdp_parts_t parts = parts_of(p->law);
    p->kernels->join(&parts, p->first + from, p->second + from,
                     p->low + from * parts.low_bytes, x, out, n);
}

/* Draws the lanes of a pass; those that are open are in `late`. */
static void draw_pass(pass_t *p, size_t lanes)
{
    const fdp_digits_t *law = p->law;
    const size_t size = lanes > SMALL_LANES;
    p->slots[0] = law->slots[size];
    p->slots[1] = law->shift == 0 ? 0 : law->slots[2 + size];
    p->late_count = 0;
    p->late = NULL;
    draw_lists(p);
    draw_trials(p, lanes);
    if (FDP_UNLIKELY(any_open(p) != 0)) {
        settle_open(p, lanes);
    }
}

static void drop_late(pass_t *p)
{
    if (p->late != NULL) {
        fdp_memory_give(p->late, (p->total[0] + p->total[1]) * sizeof *p->late);
        p->late = NULL;
    }
}

/* Whether values join the data in one step. */
static bool is_straight(const fdp_target_t *target)
{
    return target->grid == NULL && target->out_type == FDP_I64 &&
           (target->x_type == FDP_I64 || target->x_type == FDP_NONE);
}

/* Adds a pass to the data: straight into int64, through pieces of `noise` else. */
static void store_pass(pass_t *p, const fdp_target_t *target, size_t done, size_t need)
{
    const bool straight = is_straight(target);
    for (size_t k = 0; k < p->late_count; k++) {
        open_t *late = &p->late[k];
        if (late->lane < need) {
            late->x = fdp_target_read(target, done + late->lane);
        }
    }
    if (straight) {
        const int64_t *x = target->x;
        join(p, 0, x == NULL ? NULL : x + done, (int64_t *)target->out + done, need);
    }
    for (size_t at = 0; at < need && !straight; at += FDP_GROUP) {
        const size_t n = need - at < FDP_GROUP ? need - at : FDP_GROUP;
        join(p, at, NULL, p->noise, n);
        fdp_target_store(target, fdp_kernels(), done + at, n, p->noise, 0,
                         p->noise + FDP_GROUP);
    }
    for (size_t k = 0; k < p->late_count; k++) {
        const open_t *late = &p->late[k];
        if (late->lane < need) {
            fdp_target_write(target, fdp_kernels(), done + late->lane, late->x,
                             late->value);
        }
    }
}

/* ---- truncated laws ------------------------------------------------------- */

/* Packs the values within the bound: their order stays. Most pieces of 64 lose nothing
 * and move as they are. */
static size_t pack(int64_t *value, size_t n, int64_t bound)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i += 64) {
        unsigned lost = 0;
        for (size_t k = 0; k < 64; k++) {
            lost += value[i + k] > bound || value[i + k] < -bound;
        }
        if (lost == 0) {
            memmove(value + kept, value + i, 64 * sizeof *value);
            kept += 64;
            continue;
        }
        for (size_t k = 0; k < 64; k++) {
            const int64_t v = value[i + k];
            value[kept] = v;
            kept += v <= bound && v >= -bound;
        }
    }
    return kept;
}

/* `need` values within the bound at p->noise: passes until there are enough. */
static void draw_within(pass_t *p, size_t need)
{
    const size_t most = FDP_PASS;
    const double a = p->sampler->acceptance;
    for (size_t got = 0; got < need && p->status == FDP_OK; p->pass++) {
        const double n = (double)(need - got);
        const double wanted = n / a + 4.0 * sqrt(n * (1.0 - a)) / a + 1.0;
        const size_t lanes = wanted >= (double)most ? most : ((size_t)wanted + 63) & ~(size_t)63;
        draw_pass(p, lanes);
        join(p, 0, NULL, p->noise + got, lanes);
        for (size_t k = 0; k < p->late_count; k++) {
            const open_t *late = &p->late[k];
            const bool fits = late->value <= p->law->bound && late->value >= -p->law->bound;
            p->noise[got + late->lane] = fits ? (int64_t)late->value : REJECTED;
        }
        drop_late(p);
        got += pack(p->noise + got, lanes, p->law->bound);
    }
}

/* ---- a call --------------------------------------------------------------- */

static void *take(uint8_t *base, size_t *at, size_t bytes)
{
    void *here = base == NULL ? NULL : base + *at;
    *at += (bytes + 63) & ~(size_t)63;
    return here;
}

/* Lays out memory for passes of up to `lanes` trials; with no base, only counts. */
static size_t lay_out(pass_t *p, uint8_t *base, size_t lanes, bool straight)
{
    const fdp_digits_t *law = p->law;
    const size_t masks = (lanes / 64 + 1) * sizeof(uint64_t);
    const size_t noise = law->bound != 0 ? 2 * FDP_PASS + 64
                         : straight     ? 0
                                        : 2 * FDP_GROUP;
    size_t at = 0;
    /* the stream writes whole pages */
    p->area = take(base, &at, area_bytes(law, FDP_RANKS));
    p->word = take(base, &at, lanes / 64 * stride_of(law) + PAGE);
    p->low = take(base, &at, lanes * fdp_low_bytes(law) + PAGE);
    p->first = take(base, &at, lanes * sizeof *p->first);
    p->second = take(base, &at, lanes);
    p->mask[0] = take(base, &at, masks);
    p->mask[1] = take(base, &at, masks);
    p->noise = take(base, &at, noise * sizeof *p->noise);
    return at;
}

fdp_status_t fdp_digits_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                                uint64_t first_chunk, size_t n,
                                const fdp_target_t *target)
{
    FDP_ALIGNED(64) uint8_t stack[FDP_SCRATCH_SMALL];
    pass_t p;
    p.call = call;
    p.sampler = sampler;
    p.law = &sampler->law.digits;
    p.kernels = fdp_digit_kernels();
    p.status = FDP_OK;
    const size_t trials = FDP_PASS, per_chunk = sampler->chunk_outputs;
    const bool bounded = p.law->bound != 0;
    const bool straight = is_straight(target);
    const size_t lanes = bounded || n >= trials ? trials : (n + 63) & ~(size_t)63;
    const size_t size = lay_out(&p, NULL, lanes, straight);
    uint8_t *const memory = size <= sizeof stack ? stack : fdp_memory_take(size);
    if (memory == NULL) {
        fdp_target_zero(target, n);
        return FDP_ERR_MEMORY;
    }
    lay_out(&p, memory, lanes, straight);
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t done = 0; done < n && p.status == FDP_OK; done += per_chunk) {
        const size_t need = n - done < per_chunk ? n - done : per_chunk;
        p.number = first_chunk++;
        p.pass = 0;
        fdp_chunk_open(&p.chunk, &call->stream, p.number);
        if (bounded) {
            draw_within(&p, need);
            fdp_target_store(target, fdp_kernels(), done, need, p.noise, 0,
                             p.noise + trials);
        } else {
            draw_pass(&p, (need + 63) & ~(size_t)63);
            store_pass(&p, target, done, need);
            drop_late(&p);
        }
        fdp_chunk_close(&p.chunk);
    }
    fdp_rounding_leave(rounding);
    if (memory == stack) {
        fdp_wipe(memory, size);
    } else {
        fdp_memory_give(memory, size);
    }
    const fdp_status_t status = p.status;
    fdp_wipe(&p, sizeof p);
    if (status != FDP_OK) {
        fdp_target_zero(target, n);
    }
    return status;
}

/* ---- prepared laws -------------------------------------------------------- */

bool fdp_digits_prepare(fdp_digits_t *law)
{
    const double trials[2] = {SMALL_LANES, FDP_PASS};
    if (law->shift > 57 || law->low > law->shift || law->low > 48 ||
        law->shift - law->low > 5 || law->tops > 48 || law->tails > 1) {
        return false;
    }
    for (int digit = 0; digit < 2; digit++) {
        for (int size = 0; size < 2; size++) {
            const uint32_t slots = fdp_slots_for(trials[size], law->special[digit]);
            law->slots[2 * digit + size] = slots < FDP_RANKS ? slots : FDP_RANKS;
        }
    }
    law->tail.error = law->tail.scale * 0x1p-48;
    law->tail.error_relative = 0x1p-49;
    law->unsettled = 0;
    return true;
}
