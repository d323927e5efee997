/* aes_body.inc.h - the one body of AES-256 counter mode, for any vector width.
 *
 * The including twin defines
 *   FDP_LEVEL       suffix of the function names
 *   FDP_AES_V       vector type of FDP_AES_WIDTH blocks
 *   FDP_AES_SPREAD  a 128-bit vector in every block of a vector
 *   FDP_AES_LOAD, FDP_AES_STORE, FDP_AES_ADD64, FDP_AES_XOR, FDP_AES_ROUND,
 *   FDP_AES_LAST    the obvious instructions
 * and includes config.h, aes.h, wipe.h and <immintrin.h> before its
 * target region.
 *
 *   fdp_aes_rounds       FDP_AES_DEEP vectors at once: enough independent work
 *                        to fill two AES pipes of latency four
 *   fdp_aes256_fill_*    consecutive counters
 *   fdp_aes256_gather_*  scattered counters
 *
 * Straight-line code on public counters: T2.
 * Reference: FIPS 197; the counter block is ours (aes.h).
 */

#define FDP_AES_DEEP 8
#define FDP_AES_PIECE (16u * FDP_AES_WIDTH * FDP_AES_DEEP)

#define FDP_AES_KEY(p) \
    FDP_AES_SPREAD(_mm_loadu_si128((const __m128i *)(const void *)(p)))

/* Explicit names, not an array: the state must stay in registers. */
#define FDP_EACH(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)

FDP_ALWAYS_INLINE void fdp_aes_rounds(const uint8_t *schedule,
                                      const FDP_AES_V in[FDP_AES_DEEP],
                                      uint8_t *out)
{
    FDP_AES_V k = FDP_AES_KEY(schedule);
#define FDP_STEP(i) FDP_AES_V s##i = FDP_AES_XOR(in[i], k);
    FDP_EACH(FDP_STEP)
#undef FDP_STEP
#define FDP_STEP(i) s##i = FDP_AES_ROUND(s##i, k);
    for (int round = 1; round < 14; round++) {
        k = FDP_AES_KEY(schedule + 16 * round);
        FDP_EACH(FDP_STEP)
    }
#undef FDP_STEP
    k = FDP_AES_KEY(schedule + 16 * 14);
#define FDP_STEP(i) FDP_AES_STORE(out + 16 * FDP_AES_WIDTH * i, FDP_AES_LAST(s##i, k));
    FDP_EACH(FDP_STEP)
#undef FDP_STEP
}

void FDP_JOIN(fdp_aes256_fill, FDP_LEVEL)(const uint8_t *schedule, uint64_t counter,
                                          uint64_t nonce, uint8_t *out, size_t nbytes)
{
    static const uint64_t lane[8] = {0, 0, 1, 0, 2, 0, 3, 0};
    const FDP_AES_V step = FDP_AES_SPREAD(_mm_set_epi64x(0, FDP_AES_WIDTH));
    FDP_AES_V in[FDP_AES_DEEP];
    FDP_AES_V next = FDP_AES_ADD64(
        FDP_AES_SPREAD(_mm_set_epi64x((long long)nonce, (long long)counter)),
        FDP_AES_LOAD(lane));

    for (size_t done = 0; done < nbytes; done += FDP_AES_PIECE) {
#define FDP_STEP(i) in[i] = next, next = FDP_AES_ADD64(next, step);
        FDP_EACH(FDP_STEP)
#undef FDP_STEP
        fdp_aes_rounds(schedule, in, out + done);
    }
}

void FDP_JOIN(fdp_aes256_gather, FDP_LEVEL)(const uint8_t *schedule,
                                            const uint32_t *counter, size_t n,
                                            uint64_t nonce, uint8_t *out16)
{
    enum { BLOCKS = FDP_AES_WIDTH * FDP_AES_DEEP };
    uint64_t block[2 * BLOCKS];
    FDP_AES_V in[FDP_AES_DEEP];

    for (size_t done = 0; done < n; done += BLOCKS) {
        const size_t take = n - done < BLOCKS ? n - done : BLOCKS;
        for (size_t i = 0; i < BLOCKS; i++) {
            block[2 * i] = counter[done + (i < take ? i : 0)];
            block[2 * i + 1] = nonce;
        }
        for (size_t i = 0; i < FDP_AES_DEEP; i++)
            in[i] = FDP_AES_LOAD(block + 2 * FDP_AES_WIDTH * i);
        fdp_aes_rounds(schedule, in, (uint8_t *)block);
        memcpy(out16 + 16 * done, block, 16 * take);
    }
    fdp_wipe(block, sizeof block);
}
