/* clients.c: whole reports of the frequency oracles that hash or encode a category, from
 * the caller's labels in one pass.
 *
 * Draws for different purposes use different regions of chunks: answers (or flips) begin at
 * 0, Hadamard words at FDP_REGION, and the words of labels at twice FDP_REGION. Seeds are
 * public and use another key.
 */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"
#include "response.h"
#include "scratch.h"

/* Responses to n labels from x[at] on, for users from `first` on. The chunks of these users begin
 * in `region`. */
static void respond_to(fdp_respond_t *r, uint64_t region, uint64_t first, size_t n,
                       const void *x, fdp_dtype_t x_type, size_t at, void *out,
                       fdp_dtype_t out_type)
{
    const size_t chunk = fdp_response_chunk(r->law);
    for (size_t done = 0; done < n && r->failed == FDP_OK; done += chunk) {
        const size_t part = n - done < chunk ? n - done : chunk;
        fdp_respond_chunk(r, region + (first + done) / chunk, part, x, x_type, at + done,
                          out, out_type, done);
    }
}

#define SEEDS (FDP_BYTES_CHUNK / 8) /* seeds of a chunk */
#define FAR ((size_t)1 << 23)       /* bytes of reports that do not fit into the near caches */

/* Draws random words, and meanwhile prefetches the values that are read next: `item` bytes for each
 * word. */
static void draw_seeds(const fdp_chunk_t *chunk, uint64_t *seed, size_t n,
                       const uint8_t *next, size_t item)
{
    const size_t part = 128, line = 64; /* words of a unit of the stream; bytes of a cache line */
    for (size_t i = 0; i < n; i += part) {
        for (size_t at = i * item; at < (i + part) * item; at += line) {
            __builtin_prefetch(next + at);
        }
        const size_t words = n - i < part ? n - i : part;
        fdp_chunk_main(chunk, i * sizeof *seed, seed + i,
                       (words * sizeof *seed + 63) & ~(size_t)63);
    }
}

/* The bucket is always one of the law's labels. So the response is the bucket, moved by the
 * response to label 0. */
fdp_status_t fdp_hash_clients(const fdp_call_t *secret, const fdp_call_t *open,
                              const fdp_response_t *labeling, const fdp_response_t *law,
                              uint32_t l, uint64_t first, size_t n, const void *x,
                              fdp_dtype_t x_type, int64_t other, fdp_hashed_t *out)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    const size_t most = n < FDP_CLIENTS ? (n + 15) & ~(size_t)15 : FDP_CLIENTS;
    const size_t size = 2 * most * sizeof(uint32_t);
    FDP_ALIGNED(64) uint64_t seed[SEEDS];
    uint32_t *const label = fdp_memory_take(size), *const move = label + most;
    if (label == NULL) {
        memset(out, 0, n * sizeof *out);
        return FDP_ERR_MEMORY;
    }
    const size_t item = x_type == FDP_I64 ? 8 : 0; /* narrow types need no prefetch */
    const bool far = n * sizeof *out > FAR;
    fdp_respond_t labels, moves;
    fdp_respond_open(&labels, secret, labeling, other);
    fdp_respond_open(&moves, secret, law, 0);
    for (size_t at = 0; at < n && labels.failed == FDP_OK && moves.failed == FDP_OK; at += FDP_CLIENTS) {
        const size_t part = n - at < FDP_CLIENTS ? n - at : FDP_CLIENTS;
        respond_to(&labels, 2 * FDP_REGION, first + at, part, x, x_type, at, label, FDP_U32);
        respond_to(&moves, 0, first + at, part, NULL, FDP_NONE, 0, move, FDP_U32);
        for (size_t done = 0; done < part; done += SEEDS) {
            const size_t few = part - done < SEEDS ? part - done : SEEDS;
            fdp_chunk_t chunk;
            fdp_chunk_open(&chunk, &open->stream, (first + at + done) / SEEDS);
            const size_t next = at + FDP_CLIENTS + done;
            draw_seeds(&chunk, seed, few, (const uint8_t *)x + next * item,
                       next + few <= n ? item : 0);
            fdp_chunk_close(&chunk);
            kernels->hashed(seed, label + done, move + done, law->categories, l, far,
                            out + at + done, few);
        }
    }
    const fdp_status_t failed = labels.failed != FDP_OK ? labels.failed : moves.failed;
    fdp_respond_close(&labels, n);
    fdp_respond_close(&moves, n);
    fdp_memory_give(label, size); /* seeds are public, so they need not be wiped here */
    if (failed != FDP_OK) {
        memset(out, 0, n * sizeof *out);
    }
    return failed;
}

/* ---- Hadamard ------------------------------------------------------------- */

typedef struct {
    FDP_ALIGNED(64) uint8_t flip[FDP_BITS_CHUNK / 8];
    fdp_respond_t labels;
    const fdp_call_t *call;
    uint8_t *word, *label, *code; /* a chunk's codes: 2 bytes for each user, or 4 if
                                   * there are more than 2^16 codes */
    size_t bytes;
    uint32_t log2k;
} hadamard_t;

/* Codes of n <= FDP_CLIENTS users. Bit i of `flip` is the parity that code i must have. */
static void encode(hadamard_t *h, uint64_t first, size_t n, const uint8_t *flip,
                   const void *x, fdp_dtype_t x_type, size_t at, void *out,
                   fdp_dtype_t out_type)
{
    const fdp_kernels_t *kernels = h->labels.kernels;
    const size_t lanes = (n + 63) & ~(size_t)63, bytes = h->bytes;
    fdp_chunk_t chunk;
    respond_to(&h->labels, 2 * FDP_REGION, first, n, x, x_type, at, h->label,
               bytes == 2 ? FDP_U16 : FDP_U32);
    memset(h->label + n * bytes, 0, (lanes - n) * bytes);
    fdp_chunk_open(&chunk, &h->call->stream, FDP_REGION + first / FDP_CLIENTS);
    fdp_chunk_main(&chunk, 0, h->word, lanes * bytes);
    fdp_chunk_close(&chunk);
    const void *word = h->word, *label = h->label;
    const bool straight = lanes == n && fdp_width_of(out_type) == bytes;
    void *code = straight ? (uint8_t *)out + at * bytes : h->code;
    if (bytes == 2) {
        kernels->hadamard16(label, flip, (uint16_t)((1u << h->log2k) - 1), word, code, lanes);
    } else {
        kernels->hadamard32(label, flip, (1u << h->log2k) - 1, word, code, lanes);
    }
    if (!straight && bytes == 2) {
        kernels->reports16(code, out, out_type, at, n);
    } else if (!straight) {
        kernels->reports32(code, out, out_type, at, n);
    }
}

fdp_status_t fdp_hadamard_clients(const fdp_call_t *call, const fdp_response_t *labeling,
                                  const fdp_bernoulli_t *law, uint32_t log2k,
                                  uint64_t first, size_t n, const void *x,
                                  fdp_dtype_t x_type, int64_t other, void *out,
                                  fdp_dtype_t out_type)
{
    const size_t most = n < FDP_CLIENTS ? (n + 63) & ~(size_t)63 : FDP_CLIENTS;
    const size_t bytes = log2k <= 16 ? 2 : 4;
    const size_t size = (most * bytes + 1023) & ~(size_t)1023; /* a multiple of the stream's unit */
    hadamard_t h;
    h.word = fdp_memory_take(3 * size);
    if (h.word == NULL) {
        memset(out, 0, n * fdp_width_of(out_type));
        return FDP_ERR_MEMORY;
    }
    h.label = h.word + size;
    h.code = h.label + size;
    h.call = call;
    h.bytes = bytes;
    h.log2k = log2k;
    fdp_respond_open(&h.labels, call, labeling, other);
    fdp_status_t status = FDP_OK;
    for (size_t done = 0; done < n && status == FDP_OK; done += FDP_BITS_CHUNK) {
        const size_t block = n - done < FDP_BITS_CHUNK ? n - done : FDP_BITS_CHUNK;
        memset(h.flip, 0, sizeof h.flip);
        status = fdp_flip_bits(call, law, (first + done) / FDP_BITS_CHUNK, block, NULL,
                               h.flip);
        for (size_t at = 0; at < block; at += FDP_CLIENTS) {
            const size_t part = block - at < FDP_CLIENTS ? block - at : FDP_CLIENTS;
            encode(&h, first + done + at, part, h.flip + at / 8, x, x_type, done + at, out,
                   out_type);
        }
        status = h.labels.failed != FDP_OK ? h.labels.failed : status;
    }
    fdp_respond_close(&h.labels, n);
    fdp_memory_give(h.word, 3 * size);
    fdp_wipe(h.flip, sizeof h.flip);
    if (status != FDP_OK) {
        memset(out, 0, n * fdp_width_of(out_type));
    }
    return status;
}
