/* chacha_body.inc.h - the one ChaCha20 body, in gcc vector extensions: FDP_LANES blocks
 * side by side, one per 32-bit lane; FDP_LEVEL is the suffix of the function names.
 *
 * Straight-line code on public counters: T2.
 * Reference: RFC 8439 section 2.3 (with the original 64-bit counter and nonce).
 */

#define FDP_V FDP_JOIN(fdp_lanes, FDP_LEVEL)
typedef uint32_t FDP_V __attribute__((vector_size(4 * FDP_LANES)));

#define FDP_ALL(word) ((FDP_V){0} + (uint32_t)(word))

/* The state of FDP_LANES blocks: counter words differ by lane. */
#define FDP_STATE(key, low, high, nonce)                                      \
    {                                                                         \
        FDP_ALL(SIGMA0), FDP_ALL(SIGMA1), FDP_ALL(SIGMA2), FDP_ALL(SIGMA3),   \
        FDP_ALL((key)[0]), FDP_ALL((key)[1]), FDP_ALL((key)[2]),              \
        FDP_ALL((key)[3]), FDP_ALL((key)[4]), FDP_ALL((key)[5]),              \
        FDP_ALL((key)[6]), FDP_ALL((key)[7]), low, high,                      \
        FDP_ALL(nonce), FDP_ALL((nonce) >> 32)                                \
    }

void FDP_JOIN(fdp_chacha_fill, FDP_LEVEL)(const uint32_t *key, uint64_t counter,
                                          uint64_t nonce, uint8_t *out, size_t nbytes)
{
    const size_t blocks =
        (nbytes + FDP_CHACHA_UNIT - 1) / FDP_CHACHA_UNIT * FDP_CHACHA_UNIT_BLOCKS;
    FDP_V lane;
    for (uint32_t i = 0; i < FDP_LANES; i++)
        lane[i] = i;

    for (size_t done = 0; done < blocks; done += FDP_LANES) {
        const uint64_t at = counter + done;
        /* `at` is a multiple of FDP_LANES, so adding a lane number never carries. */
        const FDP_V low = FDP_ALL(at) | lane, high = FDP_ALL(at >> 32);
        const FDP_V start[16] = FDP_STATE(key, low, high, nonce);
        FDP_V x[16] = FDP_STATE(key, low, high, nonce);
        uint8_t *to = out + done / FDP_CHACHA_UNIT_BLOCKS * FDP_CHACHA_UNIT +
                      done % FDP_CHACHA_UNIT_BLOCKS * sizeof(uint32_t);

        ROUNDS(x)
        for (int w = 0; w < 16; w++) {
            const FDP_V y = x[w] + start[w];
            memcpy(to + (size_t)w * FDP_CHACHA_UNIT_BLOCKS * sizeof(uint32_t), &y,
                   sizeof y);
        }
    }
}

void FDP_JOIN(fdp_chacha_extend, FDP_LEVEL)(const uint32_t *key, const uint32_t *trial,
                                            size_t n, uint32_t block, uint8_t *out16)
{
    uint32_t word[4][FDP_LANES];

    for (size_t done = 0; done < n; done += FDP_LANES) {
        const size_t take = n - done < FDP_LANES ? n - done : FDP_LANES;
        const uint64_t nonce = block >> 2;
        FDP_V low = {0};
        for (size_t i = 0; i < FDP_LANES; i++)
            low[i] = trial[done + (i < take ? i : 0)];
        const FDP_V start[16] = FDP_STATE(key, low, FDP_ALL(0), nonce);
        FDP_V x[16] = FDP_STATE(key, low, FDP_ALL(0), nonce);

        ROUNDS(x)
        /* Constant subscripts keep x in registers; the block's number is public. */
#define FDP_TAKE(part)                                                   \
    for (int w = 0; w < 4; w++) {                                        \
        const FDP_V y = x[4 * part + w] + start[4 * part + w];           \
        memcpy(word[w], &y, sizeof y);                                   \
    }                                                                    \
    break;
        switch (block & 3) {
        case 0: FDP_TAKE(0)
        case 1: FDP_TAKE(1)
        case 2: FDP_TAKE(2)
        default: FDP_TAKE(3)
        }
#undef FDP_TAKE
        for (size_t i = 0; i < take; i++) {
            const uint32_t four[4] = {word[0][i], word[1][i], word[2][i], word[3][i]};
            memcpy(out16 + 16 * (done + i), four, sizeof four);
        }
    }
    fdp_wipe(word, sizeof word);
}

#undef FDP_V
#undef FDP_ALL
#undef FDP_STATE
#undef FDP_LANES
#undef FDP_LEVEL
