/* build_flags.c: what a build with odd flags releases: 0.3 with noise, on a grid of 1,
 * at every level; and what the self-check says of it. laws.h as in core_alone.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fastdp.h"
#include "../c_law.h"
#include "laws.h"

#define COUNT 1000

int main(void)
{
    const uint32_t masks[] = {0, 0xD, 0xF, UINT32_MAX};
    const fdp_grid_t grid = {1.0, -1e300, 1e300, 0.0};
    const fdp_sampler_t sampler = law_of(laws[0].name, laws[0].num, laws[0].den);
    int off = 0;
    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        fdp_cpu_limit(masks[m]);
        fdp_call_t call;
        memset(&call, 0, sizeof call);
        call.stream.cipher = FDP_CIPHER_CHACHA20;
        double x[COUNT];
        for (int i = 0; i < COUNT; i++) {
            x[i] = 0.3;
        }
        const fdp_target_t target = {x, FDP_F64, x, FDP_F64, &grid};
        if (fdp_release(&call, &sampler, 0, COUNT, &target) != FDP_OK) {
            return 2;
        }
        for (int i = 0; i < COUNT; i++) {
            uint64_t bits; /* the fraction, in integers: this file has the flags, too */
            memcpy(&bits, &x[i], sizeof bits);
            const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
            const uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
            const int whole = exponent < 0 ? bits == 0
                                           : exponent >= 52 || (mantissa << exponent &
                                                ((UINT64_C(1) << 52) - 1)) == 0;
            off += !whole;
        }
    }
    printf("%d off the grid, self-check %d\n", off, (int)fdp_self_check());
    return 0;
}
