/* aes.h - AES-256 in counter mode, by AES instructions only (x86-64).
 *
 * A counter block is 16 bytes, little-endian {u64 counter, u64 nonce}. There is
 * no software AES: tables leak through the cache. All levels give the same
 * bytes. A key schedule is 15 round keys of 16 bytes.
 */
#ifndef FDP_RNG_AES_H
#define FDP_RNG_AES_H

#include "../base/config.h"

#if FDP_X86_64

#define FDP_AES_SCHEDULE 240u /* bytes */

/* The schedule of one key. */
FDP_INTERNAL void fdp_aes256_expand(uint8_t schedule[FDP_AES_SCHEDULE],
                                    const uint8_t key[32]);

/* The two schedules of chunk `chunk`: the blocks {4 chunk + 0 .. 3, nonce 0}
 * under `key` are the main key (two blocks) and the extension key. */
FDP_INTERNAL void fdp_aes256_chunk(uint8_t main_schedule[FDP_AES_SCHEDULE],
                                   uint8_t ext_schedule[FDP_AES_SCHEDULE],
                                   const uint8_t key[32], uint64_t chunk);

/* Bulk: nbytes of keystream from block `counter` on. Writes whole pieces of up
 * to 512 bytes: `out` has room for nbytes rounded up to that. */
typedef void fdp_aes256_fill_fn(const uint8_t *schedule, uint64_t counter,
                                uint64_t nonce, uint8_t *out, size_t nbytes);

/* Gather: the blocks {counter[i], nonce} for i < n, one after the other. */
typedef void fdp_aes256_gather_fn(const uint8_t *schedule, const uint32_t *counter,
                                  size_t n, uint64_t nonce, uint8_t *out16);

FDP_INTERNAL fdp_aes256_fill_fn fdp_aes256_fill_aesni, fdp_aes256_fill_vaes256,
    fdp_aes256_fill_vaes512;
FDP_INTERNAL fdp_aes256_gather_fn fdp_aes256_gather_aesni, fdp_aes256_gather_vaes256,
    fdp_aes256_gather_vaes512;

#endif /* FDP_X86_64 */

#endif
