/* bits_body.inc.h: flips packed bits and bytes 0 and 1, compiled once per level. */

/* out = x xor flip; x may be out. */
static void FDP_K(xor_bytes)(const uint8_t *x, const uint8_t *restrict flip, uint8_t *out,
                             size_t n)
{
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        out[i] = x[i] ^ flip[i];
    }
}

#ifndef FDP_HAVE_EXPAND
/* Expands the bits of n bytes, most significant first, to bytes 0 or 1. */
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

/* Flips answers in place; a word of x has eight of them, as bytes. Bytes 0 and 1 are flipped.
 * Any other byte counts as `other`; if that is negative, it becomes a fair bit. n is a multiple
 * of 8. */
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
