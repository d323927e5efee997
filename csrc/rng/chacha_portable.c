/* chacha_portable.c - ChaCha20 for every machine: 4 lanes (SSE2, NEON or what
 * the compiler makes of them), and the single block that key schedules use. */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "chacha.h"

#define FDP_LANES 4
#define FDP_LEVEL portable
#include "chacha_body.inc.h"

void fdp_chacha20_block(const uint32_t key[8], uint64_t counter, uint64_t nonce,
                        uint32_t out[16])
{
    const uint32_t start[16] = {
        FDP_SIGMA0,       FDP_SIGMA1,
        FDP_SIGMA2,       FDP_SIGMA3,
        key[0],           key[1],
        key[2],           key[3],
        key[4],           key[5],
        key[6],           key[7],
        (uint32_t)counter, (uint32_t)(counter >> 32),
        (uint32_t)nonce,  (uint32_t)(nonce >> 32)};
    uint32_t x[16];

    memcpy(x, start, sizeof x);
    for (int i = 0; i < 10; i++) {
        /* Here FDP_ROTL16 and FDP_ROTL8 are the plain rotations: scalars do. */
        FDP_QUARTER(x[0], x[4], x[8], x[12]);
        FDP_QUARTER(x[1], x[5], x[9], x[13]);
        FDP_QUARTER(x[2], x[6], x[10], x[14]);
        FDP_QUARTER(x[3], x[7], x[11], x[15]);
        FDP_QUARTER(x[0], x[5], x[10], x[15]);
        FDP_QUARTER(x[1], x[6], x[11], x[12]);
        FDP_QUARTER(x[2], x[7], x[8], x[13]);
        FDP_QUARTER(x[3], x[4], x[9], x[14]);
    }
    for (int w = 0; w < 16; w++)
        out[w] = x[w] + start[w];
}
