/* stream.h - what the samplers draw from.
 *
 * A call has one key (fdp_stream_t, fdp_cipher_t, fdp_tape_t: fastdp.h). Chunk c
 * of a call has two keys of its own: the main key, whose keystream is the words
 * of the chunk's trials in order, and the extension key, whose blocks hold
 * further bits of single trials. So a draw is a pure function of (key, cipher,
 * chunk, trial, bit), whatever the machine, the level and the other trials.
 *
 *   chunk keys  64 bytes = the block at counter c, nonce 0 (ChaCha20), or the
 *               blocks {4c .. 4c+3, nonce 0} (AES), under the call key: main key
 *               first.
 *   main        AES: blocks {i, nonce 0}. ChaCha20: units of 16 blocks from
 *               counter 0, nonce 0, interleaved by word (cipher.h).
 *   extension   block b of trial i. AES: {i, nonce b}. ChaCha20: bytes
 *               16 (b & 3) .. + 15 of the block at counter i, nonce b >> 2.
 *   tape        main: the caller's units, then ChaCha20 units of the zero key,
 *               nonce 1, counter (c << 32) + 16 unit. Extension: block 0 of the
 *               trials inside ext_stride, everything else by ChaCha20 as above.
 *
 * Timing class of everything here: T2 (no value is read).
 */
#ifndef FDP_RNG_STREAM_H
#define FDP_RNG_STREAM_H

#include "../base/config.h"
#include "../fastdp.h"

struct fdp_cipher_row;

/* One open chunk, on the caller's stack. ChaCha20 uses only the first 8 words of each key. It holds
 * secrets: call fdp_chunk_close on every exit path. */
typedef struct fdp_chunk {
    FDP_ALIGNED(64) uint32_t main_key[60];
    FDP_ALIGNED(64) uint32_t ext_key[60];
    const struct fdp_cipher_row *row;
    const fdp_tape_t *tape; /* NULL unless the cipher is FDP_CIPHER_TAPE */
    uint64_t index;
} fdp_chunk_t;

/* requires: fdp_cipher_available(stream->cipher) was true when the call began (any other cipher
 * ends the process, because nothing safe can be returned); index < 2^32. */
FDP_INTERNAL void fdp_chunk_open(fdp_chunk_t *chunk, const fdp_stream_t *stream,
                                 uint64_t index);

/* Writes the main stream from byte `offset` on. requires: offset is a multiple of 1024 and nbytes
 * of 64; buf is 64-byte aligned and has room for nbytes rounded up to 1024 (all of this room may be
 * written). */
FDP_INTERNAL void fdp_chunk_main(const fdp_chunk_t *chunk, uint64_t offset, void *buf,
                                 size_t nbytes);

/* Writes extension block `block` of each of n trials, 16 bytes each, in the order of the trials. */
FDP_INTERNAL void fdp_chunk_extend(const fdp_chunk_t *chunk, const uint32_t *trial,
                                   size_t n, uint32_t block, uint8_t *out16);

/* Wipes the chunk. */
FDP_INTERNAL void fdp_chunk_close(fdp_chunk_t *chunk);

/* Declared in fastdp.h: fdp_cipher_available(); fdp_cipher_default(), which returns AES-256 if it
 * is available, else ChaCha20; and fdp_stream_derive(), which returns the key of call `index` of a
 * fixed stream: the first 32 bytes of the ChaCha20 block at counter `index` of a nonce that no
 * chunk uses. */

#endif
