/* bits.c: Bernoulli bits, and answers flipped by them.
 *
 *   fill_group    the words of up to 8192 lanes, and the bits that 8 + 16 of them decide
 *   settle_late   further bits for the lanes that are left, a fixed number at a time
 *   draw_chunk    the bits of a chunk
 *   fdp_flip_*    bits onto the caller's data, packed or a byte each
 *
 * Element e of a chunk is lane e ^ 7, so that a block's bits, stored little-endian, are
 * bytes packed with the first element on top.
 */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "labels.h"
#include "lanes.h"

#define GROUP 8192 /* lanes whose words lie together: bytes, spares, fair bits */
#define GROUP_BYTES (GROUP + 2048)
#define BLOCKS (GROUP / 64)
#define LATE_SLOTS 8 /* the mean is below 0.006: more have probability below 2^-64 */

typedef struct {
    FDP_ALIGNED(64) uint8_t word[GROUP_BYTES];
    FDP_ALIGNED(64) uint64_t bit[FDP_BITS_CHUNK / 64];
    uint64_t fair[FDP_BITS_CHUNK / 64];
    uint64_t late[FDP_BITS_CHUNK / 64 + 1];
    uint64_t late24[FDP_BITS_CHUNK / 64];
    uint64_t answer[GROUP / 8];
    fdp_lanes_t lanes;
    fdp_chunk_t chunk;
    const fdp_call_t *call;
    const fdp_bernoulli_t *law;
    const fdp_kernels_t *kernels;
    uint64_t number; /* of the chunk */
    bool want_fair;
    bool failed; /* the resolver failed */
} draw_t;

/* ---- bits ---------------------------------------------------------------- */

static void fill_group(draw_t *d, size_t group, size_t blocks)
{
    const uint64_t offset = (uint64_t)group * GROUP_BYTES;
    const size_t first = group * BLOCKS;
    const size_t side = (blocks * 8 + 63) & ~(size_t)63;
    uint8_t *const spare = d->word + GROUP, *const fair = spare + 1024;
    fdp_chunk_main(&d->chunk, offset, d->word, blocks * 64);
    fdp_chunk_main(&d->chunk, offset + GROUP, spare, side);
    if (d->want_fair) {
        fdp_chunk_main(&d->chunk, offset + GROUP + 1024, fair, side);
        memcpy(d->fair + first, fair, blocks * 8);
    }
    d->kernels->bernoulli(d->law, d->word, (const uint64_t *)(const void *)spare,
                          d->bit + first, d->late + first, d->late24 + first, blocks);
}

/* 64 bits of p' from bit `from` (< 128) on, the first of them on top. */
static uint64_t digits_from(const fdp_bernoulli_t *law, unsigned from)
{
    const unsigned word = from / 64, shift = from % 64;
    return law->digit[word] << shift | law->digit[word + 1] >> (64 - shift);
}

/* [U < p'] exactly, by the caller's resolver. */
static uint64_t resolve(draw_t *d, uint32_t lane, unsigned known)
{
    fdp_pending_t pending = {.chunk = d->number, .trial = lane, .owner = d->law->owner};
    pending.word[0] = known;
    pending.word[1] = d->law->digit[0] >> (64 - known);
    int64_t value[2] = {0, 0};
    const int kept = d->call->resolve(d->call->context, &pending, value);
    d->failed |= kept < 0;
    return kept > 0 && value[0] != 0;
}

/* Settles LATE_SLOTS lanes, of which `used` are late; the others are written back. */
static void settle_slots(draw_t *d, const uint16_t *lane, size_t used)
{
    uint32_t trial[LATE_SLOTS];
    uint64_t more[LATE_SLOTS][2];
    for (size_t i = 0; i < LATE_SLOTS; i++) {
        trial[i] = lane[i];
    }
    fdp_chunk_extend(&d->chunk, trial, LATE_SLOTS, 0, (uint8_t *)more);
    for (size_t i = 0; i < LATE_SLOTS; i++) {
        const size_t block = lane[i] / 64;
        const uint64_t valid = i < used;
        const uint64_t has24 = (d->late24[block] >> (lane[i] % 64)) & 1;
        const uint64_t high = fdp_choose(has24, digits_from(d->law, 24),
                                         digits_from(d->law, 8));
        const uint64_t low = fdp_choose(has24, digits_from(d->law, 88),
                                        digits_from(d->law, 72));
        uint64_t below = (more[i][0] < high) |
                         ((more[i][0] == high) & (more[i][1] < low));
        const uint64_t open = valid & (more[i][0] == high) & (more[i][1] == low);
        if (FDP_UNLIKELY(open)) {
            below = resolve(d, lane[i], has24 ? 24 : 8);
        }
        d->bit[block] |= (below & valid) << (lane[i] % 64);
    }
    fdp_wipe(trial, sizeof trial);
    fdp_wipe(more, sizeof more);
}

static void settle_late(draw_t *d, size_t blocks)
{
    const size_t total = fdp_lanes_open(&d->lanes, d->late, blocks);
    uint16_t lane[LATE_SLOTS];
    size_t taken = 0;
    do {
        fdp_lanes_take(&d->lanes, lane, LATE_SLOTS, blocks * 64);
        settle_slots(d, lane, total - taken);
        taken += LATE_SLOTS;
    } while (FDP_UNLIKELY(taken < total));
    fdp_lanes_close(&d->lanes, blocks, lane, LATE_SLOTS);
}

/* The bits of `n` elements of a chunk at d->bit. */
static void draw_chunk(draw_t *d, uint64_t number, size_t n)
{
    const size_t blocks = (n + 63) / 64;
    const uint64_t invert = 0 - (uint64_t)d->law->invert;
    d->number = number;
    fdp_chunk_open(&d->chunk, &d->call->stream, number);
    for (size_t done = 0; done < blocks; done += BLOCKS) {
        fill_group(d, done / BLOCKS, blocks - done < BLOCKS ? blocks - done : BLOCKS);
    }
    settle_late(d, blocks);
    fdp_chunk_close(&d->chunk);
    for (size_t g = 0; g < blocks; g++) {
        d->bit[g] ^= invert;
    }
}

/* ---- onto the data ------------------------------------------------------- */

static void xor_bits(const uint8_t *x, const uint8_t *flip, size_t n, uint8_t *out)
{
    const size_t bytes = (n + 7) / 8;
    if (x == NULL) {
        memcpy(out, flip, bytes);
    } else {
        for (size_t i = 0; i < bytes; i++) {
            out[i] = x[i] ^ flip[i];
        }
    }
    if (n % 8 != 0) {
        out[bytes - 1] &= (uint8_t)(0xff00u >> (n % 8));
    }
}

static void flip_group(draw_t *d, size_t first, size_t n, const void *x,
                       fdp_dtype_t x_type, size_t at, int other, uint8_t *out)
{
    const size_t words = (n + 63) / 64 * 8;
    memset((uint8_t *)d->answer + n, 0, 8 * words - n);
    fdp_load_answers(x, x_type, at, n, (uint8_t *)d->answer);
    d->kernels->flip_bytes((const uint8_t *)d->bit + first / 8,
                           (const uint8_t *)d->fair + first / 8, other, d->answer, words);
    memcpy(out + at, d->answer, n);
}

/* ---- the calls ----------------------------------------------------------- */

static void draw_open(draw_t *d, const fdp_call_t *call, const fdp_bernoulli_t *law,
                      bool want_fair)
{
    d->call = call;
    d->law = law;
    d->kernels = fdp_kernels();
    d->want_fair = want_fair;
    d->failed = false;
}

/* Wipes what n bits have used: a small call must not pay for a chunk. */
static void draw_close(draw_t *d, size_t n)
{
    if (n > 64) {
        fdp_wipe(d, sizeof *d);
        return;
    }
    fdp_wipe(d->word, 1024); /* the least unit of the stream */
    fdp_wipe(d->word + GROUP, 2048);
    fdp_wipe(d->bit, sizeof d->bit[0]);
    fdp_wipe(d->fair, sizeof d->fair[0]);
    fdp_wipe(d->late, 2 * sizeof d->late[0]);
    fdp_wipe(d->late24, sizeof d->late24[0]);
    fdp_wipe(d->answer, 8 * sizeof d->answer[0]);
}

fdp_status_t fdp_flip_bits(const fdp_call_t *call, const fdp_bernoulli_t *law,
                           uint64_t first_chunk, size_t n, const uint8_t *x, uint8_t *out)
{
    draw_t d;
    draw_open(&d, call, law, false);
    for (size_t done = 0; done < n && !d.failed; done += FDP_BITS_CHUNK) {
        const size_t part = n - done < FDP_BITS_CHUNK ? n - done : FDP_BITS_CHUNK;
        draw_chunk(&d, first_chunk++, part);
        xor_bits(x == NULL ? NULL : x + done / 8, (const uint8_t *)d.bit, part,
                 out + done / 8);
    }
    const bool failed = d.failed;
    draw_close(&d, n);
    if (failed) {
        memset(out, 0, (n + 7) / 8);
    }
    return failed ? FDP_ERR_RESOLVER : FDP_OK;
}

fdp_status_t fdp_flip_bytes(const fdp_call_t *call, const fdp_bernoulli_t *law,
                            uint64_t first_chunk, size_t n, const void *x,
                            fdp_dtype_t x_type, int other, uint8_t *out)
{
    draw_t d;
    draw_open(&d, call, law, other < 0 && x_type != FDP_NONE && x_type != FDP_BOOL);
    if (!d.want_fair) {
        memset(d.fair, 0, sizeof d.fair);
    }
    for (size_t done = 0; done < n && !d.failed; done += FDP_BITS_CHUNK) {
        const size_t part = n - done < FDP_BITS_CHUNK ? n - done : FDP_BITS_CHUNK;
        draw_chunk(&d, first_chunk++, part);
        for (size_t at = 0; at < part; at += GROUP) {
            flip_group(&d, at, part - at < GROUP ? part - at : GROUP, x, x_type,
                       done + at, other, out);
        }
    }
    const bool failed = d.failed;
    draw_close(&d, n);
    if (failed) {
        memset(out, 0, n);
    }
    return failed ? FDP_ERR_RESOLVER : FDP_OK;
}
