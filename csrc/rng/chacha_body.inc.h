/* chacha_body.inc.h - the one ChaCha20 body, in gcc vector extensions.
 *
 * The including twin defines FDP_LANES (4, 8 or 16 blocks side by side, one per
 * 32-bit lane) and FDP_LEVEL (the suffix of the function names), and may define
 * FDP_ROTL16 and FDP_ROTL8 where the machine has a byte shuffle. It includes
 * config.h, chacha.h, wipe.h and <string.h> before it opens its target region.
 *
 *   fdp_chacha_rounds      20 rounds on 16 vectors
 *   fdp_chacha20_fill_*    bulk units, interleaved by word (chacha.h)
 *   fdp_chacha20_gather_*  16 bytes each of scattered blocks
 *
 * Straight-line code on public counters: T2.
 * Reference: RFC 8439 section 2.3 (with the original 64-bit counter and nonce).
 */

typedef uint32_t fdp_lanes_t __attribute__((vector_size(4 * FDP_LANES)));

#define FDP_ROTL(v, n) ((v) << (n) | (v) >> (32 - (n)))
#ifndef FDP_ROTL16
#define FDP_ROTL16(v) FDP_ROTL(v, 16)
#define FDP_ROTL8(v) FDP_ROTL(v, 8)
#endif

#define FDP_QUARTER(a, b, c, d)                           \
    do {                                                  \
        a += b, d ^= a, d = FDP_ROTL16(d);                \
        c += d, b ^= c, b = FDP_ROTL(b, 12);              \
        a += b, d ^= a, d = FDP_ROTL8(d);                 \
        c += d, b ^= c, b = FDP_ROTL(b, 7);               \
    } while (0)

FDP_ALWAYS_INLINE void fdp_chacha_rounds(fdp_lanes_t x[16])
{
    for (int i = 0; i < 10; i++) {
        FDP_QUARTER(x[0], x[4], x[8], x[12]);
        FDP_QUARTER(x[1], x[5], x[9], x[13]);
        FDP_QUARTER(x[2], x[6], x[10], x[14]);
        FDP_QUARTER(x[3], x[7], x[11], x[15]);
        FDP_QUARTER(x[0], x[5], x[10], x[15]);
        FDP_QUARTER(x[1], x[6], x[11], x[12]);
        FDP_QUARTER(x[2], x[7], x[8], x[13]);
        FDP_QUARTER(x[3], x[4], x[9], x[14]);
    }
}

/* "expand 32-byte k" */
#define FDP_SIGMA0 UINT32_C(0x61707865)
#define FDP_SIGMA1 UINT32_C(0x3320646e)
#define FDP_SIGMA2 UINT32_C(0x79622d32)
#define FDP_SIGMA3 UINT32_C(0x6b206574)

#define FDP_ALL(word) ((fdp_lanes_t){0} + (uint32_t)(word))

/* The state of FDP_LANES blocks: counter words differ by lane. */
#define FDP_STATE(key, low, high, nonce)                                       \
    {                                                                          \
        FDP_ALL(FDP_SIGMA0), FDP_ALL(FDP_SIGMA1), FDP_ALL(FDP_SIGMA2),         \
        FDP_ALL(FDP_SIGMA3), FDP_ALL((key)[0]), FDP_ALL((key)[1]),             \
        FDP_ALL((key)[2]), FDP_ALL((key)[3]), FDP_ALL((key)[4]),               \
        FDP_ALL((key)[5]), FDP_ALL((key)[6]), FDP_ALL((key)[7]), low, high,    \
        FDP_ALL(nonce), FDP_ALL((nonce) >> 32)                                 \
    }

void FDP_JOIN(fdp_chacha20_fill, FDP_LEVEL)(const uint32_t key[8], uint64_t counter,
                                            uint64_t nonce, uint8_t *out, size_t units)
{
    fdp_lanes_t lane;
    for (uint32_t i = 0; i < FDP_LANES; i++)
        lane[i] = i;

    for (size_t done = 0; done < units * FDP_CHACHA_UNIT_BLOCKS; done += FDP_LANES) {
        const uint64_t at = counter + done;
        /* at is a multiple of FDP_LANES: adding a lane number never carries. */
        const fdp_lanes_t low = FDP_ALL(at) | lane, high = FDP_ALL(at >> 32);
        const fdp_lanes_t start[16] = FDP_STATE(key, low, high, nonce);
        fdp_lanes_t x[16] = FDP_STATE(key, low, high, nonce);
        uint8_t *to = out + done / FDP_CHACHA_UNIT_BLOCKS * FDP_CHACHA_UNIT +
                      done % FDP_CHACHA_UNIT_BLOCKS * sizeof(uint32_t);

        fdp_chacha_rounds(x);
        for (int w = 0; w < 16; w++) {
            const fdp_lanes_t y = x[w] + start[w];
            memcpy(to + (size_t)w * FDP_CHACHA_UNIT_BLOCKS * sizeof(uint32_t), &y,
                   sizeof y);
        }
    }
}

void FDP_JOIN(fdp_chacha20_gather, FDP_LEVEL)(const uint32_t key[8],
                                              const uint32_t *counter, size_t n,
                                              uint64_t nonce, unsigned part,
                                              uint8_t *out16)
{
    uint32_t word[4][FDP_LANES];

    for (size_t done = 0; done < n; done += FDP_LANES) {
        const size_t take = n - done < FDP_LANES ? n - done : FDP_LANES;
        fdp_lanes_t low = {0};
        for (size_t i = 0; i < FDP_LANES; i++)
            low[i] = counter[done + (i < take ? i : 0)];
        const fdp_lanes_t start[16] = FDP_STATE(key, low, FDP_ALL(0), nonce);
        fdp_lanes_t x[16] = FDP_STATE(key, low, FDP_ALL(0), nonce);

        fdp_chacha_rounds(x);
        /* Constant subscripts keep x in registers; part is public. */
#define FDP_TAKE(p)                                            \
    do {                                                       \
        for (int w = 0; w < 4; w++) {                          \
            const fdp_lanes_t y = x[4 * p + w] + start[4 * p + w]; \
            memcpy(word[w], &y, sizeof y);                     \
        }                                                      \
    } while (0)
        switch (part) {
        case 0: FDP_TAKE(0); break;
        case 1: FDP_TAKE(1); break;
        case 2: FDP_TAKE(2); break;
        default: FDP_TAKE(3); break;
        }
#undef FDP_TAKE
        for (size_t i = 0; i < take; i++) {
            const uint32_t block[4] = {word[0][i], word[1][i], word[2][i], word[3][i]};
            memcpy(out16 + 16 * (done + i), block, sizeof block);
        }
    }
    fdp_wipe(word, sizeof word);
}
