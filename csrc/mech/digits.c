/* digits.c: laws of alias digits. Values are drawn in passes (digits_pass.c) and added to the
 * caller's data. fdp_release is a call; store_piece adds values to the caller's array; draw_within
 * draws from truncated laws, pass after pass, until there are enough values. */
#include <math.h>
#include <string.h>

#include "../base/rounding.h"
#include "../base/wipe.h"
#include "digits_pass.h"
#include "scratch.h"

#define PART 1024 /* values converted at a time for arrays of other types */
#define REJECTED INT64_MIN /* a mark: no value of a law is this */

/* ---- values --------------------------------------------------------------- */

static fdp_parts_t parts_of(const fdp_digits_t *law)
{
    const uint32_t r = law->low;
    if (law->tilt.slope != 0) { /* the value holds both digits */
        return (fdp_parts_t){r, r, fdp_low_bytes(law)};
    }
    return (fdp_parts_t){law->shift, r, fdp_low_bytes(law)};
}

/* Writes x + values from lane `from` on, or the values alone if x is NULL. */
static void join(const fdp_pass_t *p, size_t from, const int64_t *x, int64_t *out, size_t n)
{
    const fdp_parts_t parts = parts_of(p->law);
    p->kernels->join(&parts, p->first + from, p->second + from,
                     p->low + from * parts.low_bytes, x, out, n);
}

/* Whether the values can be added to the data in one step. */
static bool is_straight(const fdp_target_t *target)
{
    return target->grid == NULL && target->out_type == FDP_I64 &&
           (target->x_type == FDP_I64 || target->x_type == FDP_NONE);
}

/* Adds a piece to the data: directly for int64, otherwise through parts of `noise`. */
static void store_piece(fdp_pass_t *p, const fdp_target_t *target, size_t done, size_t need)
{
    const bool straight = is_straight(target);
    for (size_t k = 0; k < p->late_count; k++) {
        fdp_open_t *late = &p->late[k];
        if (late->lane < need) {
            late->x = fdp_target_read(target, done + late->lane);
        }
    }
    if (straight) {
        const int64_t *x = target->x;
        join(p, 0, x == NULL ? NULL : x + done, (int64_t *)target->out + done, need);
    }
    for (size_t at = 0; at < need && !straight; at += PART) {
        const size_t n = need - at < PART ? need - at : PART;
        join(p, at, NULL, p->noise, n);
        fdp_target_store(target, fdp_kernels(), done + at, n, p->noise, p->noise + n);
    }
    for (size_t k = 0; k < p->late_count; k++) {
        const fdp_open_t *late = &p->late[k];
        if (late->lane < need) {
            fdp_target_write(target, fdp_kernels(), done + late->lane, late->x,
                             late->value);
        }
    }
}

/* Adds a pass to the caller's array. */
static void store_pass(fdp_pass_t *p, const fdp_target_t *target, size_t done, size_t need)
{
    const size_t piece = fdp_pass_piece(p->law, p->kernels);
    fdp_pass_open(p, need);
    for (size_t at = 0; at < need && p->status == FDP_OK; at += piece) {
        const size_t n = need - at < piece ? need - at : piece;
        fdp_pass_draw(p, at, n);
        store_piece(p, target, done + at, n);
        fdp_pass_drop(p);
    }
    fdp_pass_close(p);
}

/* ---- truncated laws ------------------------------------------------------- */

/* Packs the values within the bound, and keeps their order. Most pieces of 64 have no rejected
 * value and move as a whole. */
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

/* Draws the values of a pass; REJECTED where the resolver returned a value beyond the bound. */
static void draw_pass(fdp_pass_t *p, size_t lanes, int64_t *noise)
{
    const size_t piece = fdp_pass_piece(p->law, p->kernels);
    fdp_pass_open(p, lanes);
    for (size_t at = 0; at < lanes && p->status == FDP_OK; at += piece) {
        const size_t n = lanes - at < piece ? lanes - at : piece;
        fdp_pass_draw(p, at, n);
        join(p, 0, NULL, noise + at, n);
        for (size_t k = 0; k < p->late_count; k++) {
            const fdp_open_t *late = &p->late[k];
            const bool fits = late->value <= p->law->bound && late->value >= -p->law->bound;
            noise[at + late->lane] = fits ? (int64_t)late->value : REJECTED;
        }
        fdp_pass_drop(p);
    }
    fdp_pass_close(p);
}

/* Draws `need` values within the bound to p->noise: passes until there are enough. */
static void draw_within(fdp_pass_t *p, size_t need)
{
    const size_t most = FDP_PASS;
    const double a = p->sampler->acceptance;
    for (size_t got = 0; got < need && p->status == FDP_OK; p->pass++) {
        const double n = (double)(need - got);
        const double wanted = n / a + 4.0 * sqrt(n * (1.0 - a)) / a + 1.0;
        const size_t lanes = wanted >= (double)most ? most : ((size_t)wanted + 63) & ~(size_t)63;
        draw_pass(p, lanes, p->noise + got);
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

static size_t in_pages(size_t bytes) { return (bytes + FDP_PAGE - 1) & ~(size_t)(FDP_PAGE - 1); }

/* Divides memory among the arrays of passes of up to `lanes` trials. If base is NULL, only counts
 * the bytes. */
static size_t lay_out(fdp_pass_t *p, uint8_t *base, size_t lanes, bool straight)
{
    const fdp_digits_t *law = p->law;
    const size_t most = fdp_pass_piece(law, p->kernels), piece = lanes < most ? lanes : most;
    const size_t blocks = (piece + FDP_BLOCK_LANES - 1) / FDP_BLOCK_LANES;
    const size_t trials = blocks * FDP_BLOCK_LANES;
    const size_t noise = law->bound != 0 ? 2 * FDP_PASS + 64
                         : straight     ? 0
                         : lanes < PART ? 2 * lanes
                                        : 2 * PART;
    size_t slots[2], at = 0;
    fdp_pass_slots(law, lanes, slots);
    if (law->tilt.slope != 0) {
        slots[0] = law->tilt.tries[fdp_pass_size(lanes)];
    }
    /* the stream writes whole pages */
    p->area = take(base, &at, in_pages(fdp_area_bytes(
                                  law, slots[0] > slots[1] ? slots[0] : slots[1])));
    p->word = take(base, &at, in_pages(blocks * fdp_block_bytes(law)));
    p->low = take(base, &at, in_pages(trials * fdp_low_bytes(law)));
    p->first = take(base, &at, trials * sizeof *p->first);
    p->second = take(base, &at, law->shift == 0 ? 0 : trials);
    p->mask[0] = take(base, &at, blocks * sizeof(uint64_t));
    p->mask[1] = take(base, &at, blocks * sizeof(uint64_t));
    p->tries = take(base, &at, law->tilt.slope == 0 ? 0 : fdp_tilt_bytes());
    p->noise = take(base, &at, noise * sizeof *p->noise);
    return at;
}

fdp_status_t fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                         uint64_t first_chunk, size_t n, const fdp_target_t *target)
{
    if (sampler->chunk_outputs == 0) { /* fdp_sampler_prepare was not called */
        fdp_target_zero(target, n);
        return FDP_ERR_PARAMETER;
    }
    FDP_ALIGNED(64) uint8_t stack[FDP_SCRATCH_SMALL];
    fdp_pass_t p;
    p.call = call;
    p.sampler = sampler;
    p.law = &sampler->law;
    p.kernels = fdp_digit_kernels();
    p.status = FDP_OK;
    const size_t trials = FDP_PASS, per_chunk = sampler->chunk_outputs;
    const bool bounded = p.law->bound != 0;
    const bool straight = is_straight(target);
    const size_t lanes = bounded || n >= trials ? trials : n;
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
            fdp_target_store(target, fdp_kernels(), done, need, p.noise, p.noise + trials);
        } else {
            store_pass(&p, target, done, need);
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

/* Stores ascending thresholds as a tree of six levels; after the last threshold it has infinity. */
static void grow_tree(const uint64_t *edge, size_t count, uint64_t tree[64])
{
    tree[0] = 0; /* not a node */
    for (size_t level = 0; level < 6; level++) {
        const size_t width = (size_t)1 << level;
        for (size_t i = 0; i < width; i++) {
            const size_t at = (2 * i + 1) * (32 / width) - 1;
            tree[width + i] = at < count ? edge[at] : UINT64_MAX;
        }
    }
}

#define SLOTS_MOST 256
/* -ln of the probability of too few tries: 2^-64, or 2^-44 in a call of at most FDP_FEW_LANES. The
 * latter is as rare as more than FDP_RANKS special lanes. */
#define RARE 44.4
#define FEW_RARE 30.5

/* A number that a binomial count of this mean exceeds with a probability below 2^-64, by Chernoff's
 * bound e^-mean (e mean / c)^c; a multiple of 16. */
static uint32_t slots_for(double trials, double rate)
{
    const double mean = trials * rate;
    uint32_t slots = 16;
    while (slots < SLOTS_MOST &&
           (slots < mean ||
            slots * log2(slots / (2.7183 * mean)) + 1.4426 * mean < 64.0)) {
        slots += 16;
    }
    return slots;
}

/* A number of tries. With a probability below e^-rare, fewer tries are accepted than lanes are
 * special. The proof: then the difference is at least 1, and its moment generating function bounds
 * that at several points. A multiple of 16. */
static uint32_t tries_for(double trials, const fdp_digits_t *law, double rare)
{
    const double rate = law->special[0], acceptance = law->tilt.acceptance;
    uint32_t tries = 0;
    bool enough = false;
    while (!enough && tries < FDP_TRIES) {
        tries += FDP_RANK_GROUP;
        for (double s = 0.25; s < 6.0; s += 0.25) {
            const double special = trials * rate * (exp(s) - 1.0);
            const double accepted = tries * log(1.0 - acceptance * (1.0 - exp(-s)));
            enough |= special + accepted - s < -rare;
        }
    }
    return tries;
}

/* Checks what `tilt` and `tries` assume: no bound, and a second digit of eight bits or of all bits
 * that there are. */
static bool fits_tilt(const fdp_digits_t *law)
{
    const uint32_t j = law->shift;
    return j >= 1 && j <= 54 && law->low == (j > 8 ? j - 8 : 0) && law->bound == 0 &&
           law->tops == 0 && law->tails == 0 && law->tilt.slope <= 865;
}

static bool prepare(fdp_digits_t *law)
{
    static const double trials[FDP_SIZES] = {FDP_FEW_LANES, 64, 256, 1024, FDP_PASS};
    const bool tilted = law->tilt.slope != 0;
    if (tilted ? !fits_tilt(law)
               : law->shift > 57 || law->low > law->shift || law->low > 48 ||
                     law->shift - law->low > 5 || law->tops > 48 || law->tails > 1) {
        return false;
    }
    for (int size = 0; size < FDP_SIZES; size++) {
        for (int digit = 0; digit < 2 && size > 0; digit++) {
            const uint32_t slots = slots_for(trials[size], law->special[digit]);
            law->slots[digit][size - 1] = slots < FDP_RANKS ? slots : FDP_RANKS;
        }
        law->tilt.tries[size] =
            tilted ? tries_for(trials[size], law, size == 0 ? FEW_RARE : RARE) : 0;
    }
    grow_tree(law->top, law->tops, law->tree[0]);
    grow_tree(law->copy, law->tops, law->tree[1]);
    law->tail.error = law->tail.scale * 0x1p-48;
    law->tail.error_relative = 0x1p-49;
    law->unsettled = 0;
    return true;
}

/* The square root of x, rounded up; x < 2^124. */
static uint64_t root_of(fdp_u128_t x)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 61; bit != 0; bit >>= 1) {
        const uint64_t more = root | bit;
        root = (fdp_u128_t)more * more <= x ? more : root;
    }
    return root + ((fdp_u128_t)root * root < x);
}

/* Outputs of a chunk: the mean minus six standard deviations minus 4, so a full pass nearly always
 * fills the chunk. Computed in integers, in units of 2^-53, because it decides which words a value
 * has. */
static uint32_t chunk_outputs(double acceptance)
{
    const uint64_t one = UINT64_C(1) << 53, a = (uint64_t)(acceptance * 0x1p53);
    if (acceptance == 1.0) {
        return FDP_PASS;
    }
    const fdp_u128_t mean = (fdp_u128_t)FDP_PASS * a;
    const fdp_u128_t less = (fdp_u128_t)root_of((fdp_u128_t)a * (one - a) * 36 * FDP_PASS) +
                            (fdp_u128_t)4 * one;
    const uint64_t sure = mean < less ? 0 : (uint64_t)((mean - less) >> 53);
    return sure < 16 ? 16 : (uint32_t)sure & ~UINT32_C(15);
}

fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler)
{
    const bool fits = sampler->acceptance > 0.0 && sampler->acceptance <= 1.0 &&
                      prepare(&sampler->law);
    sampler->chunk_outputs = fits ? chunk_outputs(sampler->acceptance) : 0;
    return fits ? FDP_OK : FDP_ERR_PARAMETER;
}
