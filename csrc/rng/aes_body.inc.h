/* aes_body.inc.h - the one body of AES-256 in counter mode. A vector FDP_V holds FDP_WIDTH blocks;
 * FDP_SPREAD copies a block to every place of a vector. FDP_ROUND and FDP_LAST are the rounds; they
 * add the key first if FDP_KEY_FIRST is defined. FDP_LEVEL is the suffix of the function names.
 * This is straight-line code on public counters, so its timing class is T2. Reference: FIPS 197;
 * the counter block is ours (cipher.h). */

/* Vectors processed at once: enough independent work to fill two AES pipes of latency four. They
 * have names instead of being an array, because the state must stay in registers. */
#define FDP_DEEP 8
#define FDP_EACH(step) step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7)

FDP_ALWAYS_INLINE void FDP_JOIN(fdp_aes_rounds, FDP_LEVEL)(const uint8_t *schedule,
                                                           const FDP_V in[FDP_DEEP],
                                                           uint8_t *out)
{
    FDP_V k = FDP_SPREAD(load(schedule)), end = FDP_SPREAD(load(schedule + 16 * 14));
#ifdef FDP_KEY_FIRST
#define FDP_STEP(i) FDP_V s##i = in[i];
#else
#define FDP_STEP(i) FDP_V s##i = in[i] ^ k;
#endif
    FDP_EACH(FDP_STEP)
#undef FDP_STEP
#define FDP_STEP(i) s##i = FDP_ROUND(s##i, k);
#ifdef FDP_KEY_FIRST
    for (int round = 1; round < 14; round++) {
        FDP_EACH(FDP_STEP)
        k = FDP_SPREAD(load(schedule + 16 * round));
    }
#undef FDP_STEP
#define FDP_STEP(i)                                        \
    s##i = FDP_LAST(s##i, k) ^ end;                        \
    memcpy(out + 16 * FDP_WIDTH * i, &s##i, sizeof s##i);
#else
    for (int round = 1; round < 14; round++) {
        k = FDP_SPREAD(load(schedule + 16 * round));
        FDP_EACH(FDP_STEP)
    }
#undef FDP_STEP
#define FDP_STEP(i)                                        \
    s##i = FDP_LAST(s##i, end);                            \
    memcpy(out + 16 * FDP_WIDTH * i, &s##i, sizeof s##i);
#endif
    FDP_EACH(FDP_STEP)
#undef FDP_STEP
}

void FDP_JOIN(fdp_aes_fill, FDP_LEVEL)(const uint32_t *key, uint64_t counter,
                                       uint64_t nonce, uint8_t *out, size_t nbytes)
{
    static const uint64_t lane[8] = {0, 0, 1, 0, 2, 0, 3, 0};
    const FDP_V step = FDP_SPREAD(((fdp_aes_block_t){FDP_WIDTH, 0}));
    FDP_V in[FDP_DEEP], next;
    memcpy(&next, lane, sizeof next);
    next += FDP_SPREAD(((fdp_aes_block_t){counter, nonce}));

    for (size_t done = 0; done < nbytes; done += sizeof in) {
#define FDP_STEP(i) in[i] = next, next += step;
        FDP_EACH(FDP_STEP)
#undef FDP_STEP
        FDP_JOIN(fdp_aes_rounds, FDP_LEVEL)((const uint8_t *)key, in, out + done);
    }
}

void FDP_JOIN(fdp_aes_extend, FDP_LEVEL)(const uint32_t *key, const uint32_t *trial,
                                         size_t n, uint32_t block, uint8_t *out16)
{
    enum { BLOCKS = FDP_WIDTH * FDP_DEEP };
    uint64_t pair[2 * BLOCKS];
    FDP_V in[FDP_DEEP];

    for (size_t done = 0; done < n; done += BLOCKS) {
        const size_t take = n - done < BLOCKS ? n - done : BLOCKS;
        for (size_t i = 0; i < BLOCKS; i++) {
            pair[2 * i] = trial[done + (i < take ? i : 0)];
            pair[2 * i + 1] = block;
        }
        memcpy(in, pair, sizeof in);
        FDP_JOIN(fdp_aes_rounds, FDP_LEVEL)((const uint8_t *)key, in, (uint8_t *)pair);
        memcpy(out16 + 16 * done, pair, 16 * take);
    }
    fdp_wipe(pair, sizeof pair);
}

#undef FDP_DEEP
#undef FDP_EACH
#undef FDP_V
#undef FDP_WIDTH
#undef FDP_SPREAD
#undef FDP_LEVEL
