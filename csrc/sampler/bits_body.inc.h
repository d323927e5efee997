/* bits_body.inc.h: Bernoulli bits, compiled once per level.
 *
 * bit = [U < p]: 8 bits of U decide most lanes. The first four ties of a block of 64
 * lanes take 16 more from the block's spare word; what ties again, or is a fifth, is
 * late and left to the driver. docs/proofs/bernoulli.md
 */

#ifndef FDP_HAVE_COMPARE8
#define FDP_BYTES(b) ((b) * UINT64_C(0x0101010101010101))

/* Bit k of the result: the top bit of byte k, all other bits of x being clear. */
static inline uint64_t FDP_K(gather8)(uint64_t x)
{
    return (x >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

/* For 64 lanes: bytes below `first` <= 128, and bytes equal to it. */
static inline void FDP_K(compare8)(const uint8_t *byte, uint8_t first, uint64_t *below,
                                   uint64_t *equal)
{
    const uint64_t top = FDP_BYTES(0x80), low = FDP_BYTES(0x7f);
    const uint64_t limit = FDP_BYTES((uint64_t)first);
    uint64_t b = 0, e = 0;
    for (size_t k = 0; k < 8; k++) {
        uint64_t x;
        memcpy(&x, byte + 8 * k, sizeof x);
        /* no byte borrows from its neighbour: 128 + 7 bits - first >= 0 */
        const uint64_t less = ~((x | top) - limit) & ~x & top;
        const uint64_t z = x ^ limit;
        const uint64_t same = ~(((z & low) + low) | z) & top;
        b |= FDP_K(gather8)(less) << (8 * k);
        e |= FDP_K(gather8)(same) << (8 * k);
    }
    *below = b;
    *equal = e;
}
#undef FDP_BYTES
#endif

/* All ones if x, a multiple of its top bit's worth, is negative. */
static inline uint64_t FDP_K(sign_mask)(uint64_t x) { return 0 - (x >> 63); }

static void FDP_K(bernoulli)(const fdp_bernoulli_t *law, const uint8_t *restrict byte,
                             const uint64_t *restrict spare, uint64_t *restrict bit,
                             uint64_t *restrict late, uint64_t *restrict late24,
                             size_t blocks)
{
    const uint8_t first = (uint8_t)(law->digit[0] >> 56);
    const uint64_t second = (law->digit[0] >> 40) & 0xffff;
    const uint64_t rest = law->digit[1] | law->digit[2] | law->beyond;
    const uint64_t more8 = (law->digit[0] << 8 | rest) != 0 ? ~UINT64_C(0) : 0;
    const uint64_t more24 = (law->digit[0] << 24 | rest) != 0 ? ~UINT64_C(0) : 0;
    for (size_t g = 0; g < blocks; g++) {
        FDP_K(compare8)(byte + 64 * g, first, &bit[g], &late[g]);
    }
    for (size_t g = 0; g < blocks; g++) {
        uint64_t ties = late[g] & more8, below = 0, again = 0;
        for (unsigned k = 0; k < 4; k++) {
            const uint64_t lane = ties & (0 - ties);
            const uint64_t d = ((spare[g] >> (16 * k)) & 0xffff) - second;
            ties ^= lane;
            below |= lane & FDP_K(sign_mask)(d);
            again |= lane & FDP_K(sign_mask)((d - 1) & ~d);
        }
        bit[g] |= below;
        late24[g] = again & more24;
        late[g] = ties | late24[g];
    }
}

#ifndef FDP_HAVE_EXPAND
/* The bits of n bytes, most significant first, as bytes 0 or 1. */
static inline void FDP_K(expand)(const uint8_t *restrict bits, uint64_t *restrict out,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t b = bits[i];
        b |= b << 8;
        b |= b << 16;
        b |= b << 32;
        b &= UINT64_C(0x0102040810204080);
        out[i] = ((b + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7) & UINT64_C(0x0101010101010101);
    }
}
#endif

/* x: eight answers a word, as bytes; in place. 0 and 1 are flipped; other bytes count
 * as `other` or, if that is negative, leave as a fair bit. n is a multiple of 8. */
static void FDP_K(flip_bytes)(const uint8_t *restrict flip, const uint8_t *restrict fair,
                              int other, uint64_t *restrict x, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), low = ones * 0x7f;
    const uint64_t uniform = other < 0 ? ~UINT64_C(0) : 0;
    const uint64_t fixed = other > 0 ? ones : 0;
    uint64_t f[64], r[64] = {0};
    for (size_t i = 0; i < n; i += 64) {
        const size_t part = n - i < 64 ? n - i : 64;
        FDP_K(expand)(flip + i, f, part);
        if (other < 0) {
            FDP_K(expand)(fair + i, r, part);
        }
        for (size_t k = 0; k < part; k++) {
            const uint64_t v = x[i + k];
            const uint64_t outside = ((((v & low) + (low - ones)) | v) >> 7) & ones;
            const uint64_t instead = (uniform & (r[k] ^ f[k])) | (~uniform & fixed);
            x[i + k] = ((v & ones & ~outside) | (instead & outside)) ^ f[k];
        }
    }
}
