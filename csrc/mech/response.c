/* response.c: k-ary response.
 *
 *   draw_group     words of up to 1024 trials, reports, and the undecided lanes
 *   settle_slots   more bits of both uniforms for these, a fixed number at a time
 *   fdp_respond    chunks
 */
#include <string.h>

#include "../base/config.h"
#include "../base/mul128.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "labels.h"
#include "lanes.h"

#define GROUP 1024
/* Undecided lanes of a chunk: at most 0.07 in the mean, so that more than this many
 * have probability below 2^-64. */
#define SLOTS 16
/* Extension blocks from this one on are the second uniform's. */
#define SECOND_UNIFORM (UINT32_C(1) << 20)

/* What the caller gave. */
typedef struct {
    const void *x;
    fdp_dtype_t x_type;
    int64_t other;
} source_t;

typedef struct {
    FDP_ALIGNED(64) uint32_t word[FDP_RESPONSE_CHUNK];
    FDP_ALIGNED(64) uint8_t v[FDP_RESPONSE_CHUNK * 8]; /* uint32_t if narrow, or uint64_t */
    FDP_ALIGNED(64) uint32_t report[FDP_RESPONSE_CHUNK];
    FDP_ALIGNED(64) uint32_t label[GROUP];
    FDP_ALIGNED(64) int32_t undecided[GROUP];
    uint64_t mask[FDP_RESPONSE_CHUNK / 64 + 1];
    fdp_lanes_t lanes;
    fdp_chunk_t chunk;
    source_t source;
    const fdp_call_t *call;
    const fdp_response_t *law;
    const fdp_kernels_t *kernels;
    uint64_t number; /* of the chunk */
    size_t v_bytes;  /* 4 if narrow, or 8 */
    bool failed;     /* the resolver failed */
} draw_t;

/* Reports and masks of n trials from `first` on, of one group; x begins at `at`. */
static void draw_group(draw_t *d, size_t at, size_t first, size_t n)
{
    const size_t lanes = (n + 63) & ~(size_t)63;
    const uint64_t offset = first * (4 + d->v_bytes);
    uint32_t *const word = d->word + first, *const report = d->report + first;
    uint8_t *const v = d->v + first * d->v_bytes;
    memset(d->label + n, 0, (lanes - n) * sizeof d->label[0]);
    fdp_load_labels(d->kernels, d->source.x, d->source.x_type, at + first, n, d->label);
    fdp_chunk_main(&d->chunk, offset, word, lanes * 4);
    fdp_chunk_main(&d->chunk, offset + GROUP * 4, v, lanes * d->v_bytes);
    if (d->v_bytes == 4) {
        d->kernels->respond_narrow(d->law, d->source.other, d->label, word,
                                   (const uint32_t *)(const void *)v, report,
                                   d->undecided, lanes);
    } else {
        d->kernels->respond_wide(d->law, d->source.other, d->label, word,
                                 (const uint64_t *)(const void *)v, report,
                                 d->undecided, lanes);
    }
    d->kernels->special32(d->undecided, d->mask + first / 64, lanes);
}

/* ---- the undecided ------------------------------------------------------- */

typedef struct {
    uint32_t word;
    uint64_t v;
    uint64_t more_word[2], more_v[2];
} trial_t;

/* D exactly, by the caller's resolver. */
static uint32_t resolve(draw_t *d, uint32_t lane, const trial_t *t, uint64_t uniform)
{
    fdp_pending_t pending = {.chunk = d->number,
                             .trial = lane,
                             .word = {t->word, t->v, uniform},
                             .owner = d->law->owner};
    int64_t value[2] = {0, 0};
    const int kept = d->call->resolve(d->call->context, &pending, value);
    fdp_wipe(&pending, sizeof pending);
    d->failed |= kept < 0;
    return (uint32_t)value[0];
}

/* floor(V (k - 1)), V having 64 more bits; false if even these may carry. */
static bool shift_of(const draw_t *d, const trial_t *t, uint32_t *shift)
{
    const uint64_t others = d->law->categories - 1;
    uint64_t carry, high;
    const uint64_t low = fdp_mul_u64(t->more_v[0], others, &carry);
    if (d->v_bytes == 4) {
        high = (t->v * others + carry) >> 32;
    } else {
        const uint64_t middle = fdp_mul_u64(t->v, others, &high);
        high += middle + carry < middle;
    }
    *shift = (uint32_t)high;
    return low <= 0 - others;
}

/* [W < theta], W having 96 more bits, for a label inside or outside the domain; false
 * if they are theta's own and it has more. */
static bool keep_of(const draw_t *d, const trial_t *t, uint64_t uniform, uint64_t *keep)
{
    const fdp_response_t *law = d->law;
    const uint64_t high = (uint64_t)t->word << 32 | t->more_word[0] >> 32;
    const uint64_t low = t->more_word[0] << 32 | t->more_word[1] >> 32;
    const uint64_t theta = fdp_choose(uniform, law->share[0], law->truth);
    const uint64_t theta_low = fdp_choose(uniform, law->share[1], 0);
    const uint64_t same = high == theta;
    *keep = (high < theta) | (same & (low < theta_low)) | (law->always & (1 - uniform));
    return !(same & uniform & (low == theta_low));
}

/* Settles SLOTS lanes, of which `used` are undecided; the others are written back. */
static void settle_slots(draw_t *d, size_t at, size_t n, const uint16_t *lane, size_t used)
{
    uint32_t trial[SLOTS];
    uint64_t more_word[SLOTS][2], more_v[SLOTS][2];
    const uint32_t k = d->law->categories;
    for (size_t i = 0; i < SLOTS; i++) {
        trial[i] = lane[i];
    }
    fdp_chunk_extend(&d->chunk, trial, SLOTS, 0, (uint8_t *)more_word);
    fdp_chunk_extend(&d->chunk, trial, SLOTS, SECOND_UNIFORM, (uint8_t *)more_v);
    for (size_t i = 0; i < SLOTS; i++) {
        trial_t t = {.word = d->word[lane[i]]};
        memcpy(&t.v, d->v + lane[i] * d->v_bytes, d->v_bytes);
        memcpy(t.more_word, more_word[i], sizeof t.more_word);
        memcpy(t.more_v, more_v[i], sizeof t.more_v);
        uint32_t label;
        fdp_load_labels(d->kernels, d->source.x, d->source.x_type,
                        at + (size_t)fdp_choose(lane[i] < n, lane[i], 0), 1, &label);
        const uint64_t valid = i < used, apart = label >= k;
        const uint64_t uniform = apart & (d->source.other < 0);
        uint64_t keep;
        uint32_t shift;
        const unsigned sure = (unsigned)keep_of(d, &t, uniform, &keep) &
                              (unsigned)shift_of(d, &t, &shift);
        uint32_t change = (uint32_t)fdp_choose(keep, 0, shift + 1);
        if (FDP_UNLIKELY(valid & (sure ^ 1))) {
            change = resolve(d, lane[i], &t, uniform);
        }
        const uint64_t instead = d->source.other < 0 ? 0 : (uint64_t)d->source.other;
        const uint64_t sum = fdp_choose(apart, instead, label) + change;
        d->report[lane[i]] = (uint32_t)fdp_choose(
            valid, fdp_choose(sum >= k, sum - k, sum), d->report[lane[i]]);
        fdp_wipe(&t, sizeof t);
    }
    fdp_wipe(trial, sizeof trial);
    fdp_wipe(more_word, sizeof more_word);
    fdp_wipe(more_v, sizeof more_v);
}

/* Reports of n trials of a chunk at d->report; x begins at `at`. */
static void draw_chunk(draw_t *d, uint64_t number, size_t at, size_t n)
{
    uint16_t lane[SLOTS];
    d->number = number;
    fdp_chunk_open(&d->chunk, &d->call->stream, number);
    for (size_t first = 0; first < n; first += GROUP) {
        draw_group(d, at, first, n - first < GROUP ? n - first : GROUP);
    }
    const size_t masks = (n + 63) / 64;
    const size_t total = fdp_lanes_open(&d->lanes, d->mask, masks);
    size_t taken = 0;
    do {
        fdp_lanes_take(&d->lanes, lane, SLOTS, masks * 64);
        settle_slots(d, at, n, lane, total - taken);
        taken += SLOTS;
    } while (FDP_UNLIKELY(taken < total));
    fdp_lanes_close(&d->lanes, masks, lane, SLOTS);
    fdp_chunk_close(&d->chunk);
}

/* Wipes what n trials have used: a small call must not pay for a chunk. */
static void draw_close(draw_t *d, size_t n)
{
    if (n > 64) {
        fdp_wipe(d, sizeof *d);
        return;
    }
    fdp_wipe(d->word, 1024); /* the least unit of the stream */
    fdp_wipe(d->v, 1024);
    fdp_wipe(d->report, 64 * sizeof d->report[0]);
    fdp_wipe(d->label, 64 * sizeof d->label[0]);
    fdp_wipe(d->undecided, 64 * sizeof d->undecided[0]);
    fdp_wipe(d->mask, 2 * sizeof d->mask[0]);
}

fdp_status_t fdp_respond(const fdp_call_t *call, const fdp_response_t *law,
                         uint64_t first_chunk, size_t n, const void *x,
                         fdp_dtype_t x_type, int64_t other, void *out,
                         fdp_dtype_t out_type)
{
    draw_t d;
    d.call = call;
    d.law = law;
    d.kernels = fdp_kernels();
    d.source = (source_t){x, x_type, other};
    d.v_bytes = law->categories <= FDP_NARROW_CATEGORIES ? 4 : 8;
    d.failed = false;
    for (size_t done = 0; done < n && !d.failed; done += FDP_RESPONSE_CHUNK) {
        const size_t part = n - done < FDP_RESPONSE_CHUNK ? n - done : FDP_RESPONSE_CHUNK;
        draw_chunk(&d, first_chunk++, done, part);
        fdp_store_reports(d.report, part, out, out_type, done);
    }
    const bool failed = d.failed;
    draw_close(&d, n);
    if (failed) {
        memset(out, 0, n * fdp_report_bytes(out_type));
    }
    return failed ? FDP_ERR_RESOLVER : FDP_OK;
}
