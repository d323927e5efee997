/* chacha.c - ChaCha20: the body for each level, and the single block that key schedules
 * use. */
#include "../base/config.h"

#include <string.h>
#if FDP_X86_64
#include <immintrin.h>
#endif

#include "../base/wipe.h"
#include "cipher.h"

/* "expand 32-byte k" */
#define SIGMA0 UINT32_C(0x61707865)
#define SIGMA1 UINT32_C(0x3320646e)
#define SIGMA2 UINT32_C(0x79622d32)
#define SIGMA3 UINT32_C(0x6b206574)

/* Rotations of words or of vectors of words. A level may define faster rotations by whole bytes. */
#define ROTL(v, n) ((v) << (n) | (v) >> (32 - (n)))
#define ROTL16(v) ROTL(v, 16)
#define ROTL8(v) ROTL(v, 8)

#define QUARTER(a, b, c, d)             \
    a += b, d ^= a, d = ROTL16(d);      \
    c += d, b ^= c, b = ROTL(b, 12);    \
    a += b, d ^= a, d = ROTL8(d);       \
    c += d, b ^= c, b = ROTL(b, 7);

#define ROUNDS(x)                               \
    for (int i = 0; i < 10; i++) {              \
        QUARTER(x[0], x[4], x[8], x[12])        \
        QUARTER(x[1], x[5], x[9], x[13])        \
        QUARTER(x[2], x[6], x[10], x[14])       \
        QUARTER(x[3], x[7], x[11], x[15])       \
        QUARTER(x[0], x[5], x[10], x[15])       \
        QUARTER(x[1], x[6], x[11], x[12])       \
        QUARTER(x[2], x[7], x[8], x[13])        \
        QUARTER(x[3], x[4], x[9], x[14])        \
    }

void fdp_chacha_block(const uint32_t key[8], uint64_t counter, uint64_t nonce,
                      uint32_t out[16])
{
    const uint32_t start[16] = {
        SIGMA0,            SIGMA1,
        SIGMA2,            SIGMA3,
        key[0],            key[1],
        key[2],            key[3],
        key[4],            key[5],
        key[6],            key[7],
        (uint32_t)counter, (uint32_t)(counter >> 32),
        (uint32_t)nonce,   (uint32_t)(nonce >> 32)};
    uint32_t x[16];

    memcpy(x, start, sizeof x);
    ROUNDS(x)
    for (int w = 0; w < 16; w++)
        out[w] = x[w] + start[w];
}

/* Compiled for SSE2, NEON or any other vectors of the machine. */
#define FDP_LANES 4
#define FDP_LEVEL portable
#include "chacha_body.inc.h"

#if FDP_X86_64
FDP_TARGET_AVX512
#define FDP_LANES 16
#define FDP_LEVEL avx512
#include "chacha_body.inc.h"
FDP_TARGET_END

FDP_TARGET_AVX2
#undef ROTL16
#undef ROTL8
#define SHUFFLE(v, i0, i1, i2, i3)                                                 \
    (FDP_V) _mm256_shuffle_epi8(                                                   \
        (__m256i)(v),                                                              \
        _mm256_setr_epi8(i0, i1, i2, i3, i0 + 4, i1 + 4, i2 + 4, i3 + 4, i0 + 8,   \
                         i1 + 8, i2 + 8, i3 + 8, i0 + 12, i1 + 12, i2 + 12,        \
                         i3 + 12, i0, i1, i2, i3, i0 + 4, i1 + 4, i2 + 4, i3 + 4,  \
                         i0 + 8, i1 + 8, i2 + 8, i3 + 8, i0 + 12, i1 + 12,         \
                         i2 + 12, i3 + 12))
#define ROTL16(v) SHUFFLE(v, 2, 3, 0, 1)
#define ROTL8(v) SHUFFLE(v, 3, 0, 1, 2)
#define FDP_LANES 8
#define FDP_LEVEL avx2
#include "chacha_body.inc.h"
FDP_TARGET_END
#endif
