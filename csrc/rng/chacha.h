/* chacha.h - ChaCha20 (RFC 8439 block function, 20 rounds), every level.
 *
 * State words 12..15 are a 64-bit block counter and a 64-bit nonce, low word
 * first. All levels give the same bytes.
 */
#ifndef FDP_RNG_CHACHA_H
#define FDP_RNG_CHACHA_H

#include "../base/config.h"

#define FDP_CHACHA_UNIT 1024u      /* bytes of one bulk unit */
#define FDP_CHACHA_UNIT_BLOCKS 16u /* blocks interleaved in it */

/* One 64-byte block in the standard order. `key` is 8 little-endian words. */
FDP_INTERNAL void fdp_chacha20_block(const uint32_t key[8], uint64_t counter,
                                     uint64_t nonce, uint32_t out[16]);

/* Bulk: `units` units from block `counter` (a multiple of 16) on. In each unit
 * 16 consecutive blocks are interleaved by word: 32-bit word 16 w + i is word w
 * of block i, so that no level has to transpose. */
typedef void fdp_chacha20_fill_fn(const uint32_t key[8], uint64_t counter,
                                  uint64_t nonce, uint8_t *out, size_t units);

/* Gather: the 16 bytes 16 part .. 16 part + 15 of the blocks at counter[0..n),
 * one after the other. part < 4. */
typedef void fdp_chacha20_gather_fn(const uint32_t key[8], const uint32_t *counter,
                                    size_t n, uint64_t nonce, unsigned part,
                                    uint8_t *out16);

FDP_INTERNAL fdp_chacha20_fill_fn fdp_chacha20_fill_portable;
FDP_INTERNAL fdp_chacha20_gather_fn fdp_chacha20_gather_portable;
#if FDP_X86_64
FDP_INTERNAL fdp_chacha20_fill_fn fdp_chacha20_fill_avx2, fdp_chacha20_fill_avx512;
FDP_INTERNAL fdp_chacha20_gather_fn fdp_chacha20_gather_avx2,
    fdp_chacha20_gather_avx512;
#endif

#endif
