/* bits.c: Bernoulli bits, and answers flipped by them.
 *
 *   draw_chunk    patterns of eight bits by the kernel, ties left out
 *   settle_ties   the ties by 56 more bits, a fixed number at a time
 *   fdp_flip_*    bits onto the caller's data, packed or a byte each
 *
 * A pattern is a byte of packed bits; its highest bit is the first element. The words of
 * a chunk are blocks of 64 columns and 64 first bytes of U. From FAIR on they hold a fair
 * bit for each element, packed in the same way. From TIES on they hold the further bits
 * of the ties, 64 ranks per unit: seven bytes of U for each rank, as planes, then the
 * places of the idle steps.
 */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "labels.h"
#include "resolve.h"

#define PATTERNS (FDP_BITS_CHUNK / 8)
#define BLOCKS (PATTERNS / 64)
#define GROUP 8192 /* answers whose bytes are stored together */
#define FAIR (2 * PATTERNS)
#define TIES (FAIR + PATTERNS)
#define UNIT 1024
/* A pattern is a tie with probability 2^-8. So with a probability below 2^-64, the 4096 patterns of
 * a chunk have more ties than SLOTS; 64 patterns have more than FEW_SLOTS with a probability below
 * 2^-80. */
#define SLOTS 64
#define FEW_SLOTS 16

typedef struct {
    FDP_ALIGNED(64) uint8_t word[2 * PATTERNS];
    FDP_ALIGNED(64) uint8_t flip[PATTERNS];
    FDP_ALIGNED(64) uint8_t fair[PATTERNS];
    FDP_ALIGNED(64) uint8_t more[UNIT];
    FDP_ALIGNED(64) uint8_t column[SLOTS];
    FDP_ALIGNED(64) uint8_t settled[SLOTS];
    uint64_t tie[BLOCKS];
    uint64_t answer[GROUP / 8];
    fdp_chunk_t chunk;
    const fdp_call_t *call;
    const fdp_bernoulli_t *law;
    const fdp_kernels_t *kernels;
    uint64_t number; /* of the chunk */
    bool want_fair;
    fdp_status_t failed; /* why a pattern was not settled, or FDP_OK */
} draw_t;

/* ---- bits ---------------------------------------------------------------- */

/* The position of a pattern's column byte. The pattern's byte of U is 64 bytes later. */
static size_t word_of(size_t place) { return place / 64 * 128 + place % 64; }

/* The pattern of slot i, by the exact resolver. */
static uint8_t resolve(draw_t *d, size_t i, uint16_t place)
{
    uint64_t uniform = d->word[word_of(place) + 64];
    for (size_t b = 0; b < 7; b++) {
        uniform = uniform << 8 | d->more[64 * b + i];
    }
    const fdp_trial_t trial = {d->call, d->number, place};
    uint64_t words[2] = {uniform, d->column[i]};
    int64_t value[2] = {0, 0};
    fdp_resolve(&trial, fdp_settle_pattern, d->law, words, value, &d->failed);
    fdp_wipe(words, sizeof words);
    fdp_wipe_resolver();
    return (uint8_t)value[0];
}

/* Settles the ties. All patterns are read before the first is written, and ties are written last.
 * An idle step may have the same place as a tie or as another idle step, and a load from a place
 * that was just stored to costs cycles. */
static void settle_ties(draw_t *d, size_t blocks)
{
    const size_t slots = blocks == 1 ? FEW_SLOTS : SLOTS;
    bool left = true;
    for (size_t first = 0; left; first += slots) {
        uint16_t idle[SLOTS], place[SLOTS];
        uint64_t used[SLOTS], open;
        uint8_t now[SLOTS];
        fdp_chunk_main(&d->chunk, TIES + first / slots * UNIT, d->more, 9 * SLOTS);
        memcpy(idle, d->more + 7 * SLOTS, sizeof idle);
        left = d->kernels->ranks(d->tie, blocks, first, idle, place, used, slots);
        for (size_t i = 0; i < slots; i++) {
            d->column[i] = d->word[word_of(place[i])];
            now[i] = d->flip[place[i]];
        }
        open = d->kernels->flip_settle(d->law, d->column, d->more, d->settled, slots);
        for (size_t i = 0; FDP_UNLIKELY(open != 0) && i < slots; i++) {
            if ((open >> i) & used[i] & 1) {
                d->settled[i] = resolve(d, i, place[i]);
            }
        }
        for (size_t i = 0; i < slots; i++) { /* until here a tie's pattern is 0 */
            now[i] ^= d->settled[i] & (uint8_t)used[i];
        }
        for (size_t i = slots; i-- > 0;) {
            d->flip[place[i]] = now[i];
        }
        fdp_wipe(idle, sizeof idle);
        fdp_wipe(place, sizeof place);
        fdp_wipe(now, sizeof now);
        fdp_wipe(used, sizeof used);
    }
}

/* Draws the bits of `n` elements of a chunk to d->flip. */
static void draw_chunk(draw_t *d, uint64_t number, size_t n)
{
    const size_t blocks = (n + 511) / 512;
    d->number = number;
    fdp_chunk_open(&d->chunk, &d->call->stream, number);
    fdp_chunk_main(&d->chunk, 0, d->word, blocks * 128);
    if (d->want_fair) {
        fdp_chunk_main(&d->chunk, FAIR, d->fair, blocks * 64);
    }
    d->kernels->flip_patterns(d->law, d->word, d->flip, d->tie, blocks);
    settle_ties(d, blocks);
    fdp_chunk_close(&d->chunk);
}

/* ---- onto the data ------------------------------------------------------- */

static void xor_bits(const draw_t *d, const uint8_t *x, size_t n, uint8_t *out)
{
    const size_t bytes = (n + 7) / 8;
    if (x == NULL) {
        memcpy(out, d->flip, bytes);
    } else {
        d->kernels->xor_bytes(x, d->flip, out, bytes);
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
    d->kernels->flip_bytes(d->flip + first / 8, d->fair + first / 8, other, d->answer,
                           words);
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
    d->failed = FDP_OK;
}

/* Wipes what n bits have used: a small call should not pay for a whole chunk. */
static void draw_close(draw_t *d, size_t n)
{
    fdp_wipe_below(); /* gcc 16 spills keystream in flip_settle */
    if (n > 512) {
        fdp_wipe(d, sizeof *d);
        return;
    }
    fdp_wipe(d->word, UNIT); /* the smallest piece that the stream writes */
    fdp_wipe(d->fair, UNIT);
    fdp_wipe(d->more, UNIT);
    fdp_wipe(d->flip, 64);
    fdp_wipe(d->column, sizeof d->column);
    fdp_wipe(d->settled, sizeof d->settled);
    fdp_wipe(d->tie, sizeof d->tie[0]);
    fdp_wipe(d->answer, 512);
}

fdp_status_t fdp_flip_bits(const fdp_call_t *call, const fdp_bernoulli_t *law,
                           uint64_t first_chunk, size_t n, const uint8_t *x, uint8_t *out)
{
    draw_t d;
    draw_open(&d, call, law, false);
    for (size_t done = 0, part; done < n && d.failed == FDP_OK; done += part) {
        part = n - done < FDP_BITS_CHUNK ? n - done : FDP_BITS_CHUNK;
        draw_chunk(&d, first_chunk++, part);
        xor_bits(&d, x == NULL ? NULL : x + done / 8, part, out + done / 8);
    }
    const fdp_status_t failed = d.failed;
    draw_close(&d, n);
    if (failed != FDP_OK) {
        memset(out, 0, n / 8 + (n % 8 != 0)); /* n + 7 may be 2^32 */
    }
    return failed;
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
    for (size_t done = 0; done < n && d.failed == FDP_OK; done += FDP_BITS_CHUNK) {
        const size_t part = n - done < FDP_BITS_CHUNK ? n - done : FDP_BITS_CHUNK;
        draw_chunk(&d, first_chunk++, part);
        for (size_t at = 0; at < part; at += GROUP) {
            flip_group(&d, at, part - at < GROUP ? part - at : GROUP, x, x_type,
                       done + at, other, out);
        }
    }
    const fdp_status_t failed = d.failed;
    draw_close(&d, n);
    if (failed != FDP_OK) {
        memset(out, 0, n);
    }
    return failed;
}
