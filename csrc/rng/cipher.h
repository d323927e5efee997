/* cipher.h - ChaCha20 (RFC 8439's block function) and AES-256 in counter mode (by AES
 * instructions only: tables leak through the cache), every level.
 *
 * A key is 8 little-endian words of ChaCha20, or an AES schedule of 15 round keys of 16
 * bytes. Counter and nonce have 64 bits each, low word first: words 12..15 of ChaCha20's
 * state, or an AES block. All levels give the same bytes.
 */
#ifndef FDP_RNG_CIPHER_H
#define FDP_RNG_CIPHER_H

#include "../base/config.h"

#define FDP_CHACHA_UNIT 1024u      /* bytes of one bulk unit */
#define FDP_CHACHA_UNIT_BLOCKS 16u /* blocks interleaved in it */
#define FDP_AES_SCHEDULE 240u      /* bytes */

/* Fills `out` with keystream from block `counter` on. nbytes is rounded up to whole units
 * (ChaCha20) or to pieces of up to 512 bytes (AES). A ChaCha20 unit has 16 consecutive blocks, from
 * a multiple of 16 on, interleaved by word: 32-bit word 16 w + i is word w of block i. So no level
 * has to transpose. */
typedef void fdp_fill_fn(const uint32_t *key, uint64_t counter, uint64_t nonce,
                         uint8_t *out, size_t nbytes);

/* Writes extension block number `block` (stream.h) of each trial in trial[0..n), 16 bytes each. */
typedef void fdp_extend_fn(const uint32_t *key, const uint32_t *trial, size_t n,
                           uint32_t block, uint8_t *out16);

FDP_INTERNAL fdp_fill_fn fdp_chacha_fill_portable;
FDP_INTERNAL fdp_extend_fn fdp_chacha_extend_portable;

/* One 64-byte block in the standard order. */
FDP_INTERNAL void fdp_chacha_block(const uint32_t key[8], uint64_t counter,
                                   uint64_t nonce, uint32_t out[16]);

#if FDP_X86_64
FDP_INTERNAL fdp_fill_fn fdp_chacha_fill_avx2, fdp_chacha_fill_avx512,
    fdp_aes_fill_vaes256, fdp_aes_fill_vaes512;
FDP_INTERNAL fdp_extend_fn fdp_chacha_extend_avx2, fdp_chacha_extend_avx512,
    fdp_aes_extend_vaes256, fdp_aes_extend_vaes512;
#endif

#if FDP_AES
FDP_INTERNAL fdp_fill_fn fdp_aes_fill_v128;
FDP_INTERNAL fdp_extend_fn fdp_aes_extend_v128;

/* The two schedules of chunk `chunk`: the blocks {4 chunk + 0 .. 3, nonce 0} under `key`
 * are the main key (two blocks) and the extension key. */
FDP_INTERNAL void fdp_aes_chunk(uint8_t main_schedule[FDP_AES_SCHEDULE],
                                uint8_t ext_schedule[FDP_AES_SCHEDULE],
                                const uint8_t key[32], uint64_t chunk);
#endif

#endif
