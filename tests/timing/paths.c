/* paths.c: calls whose data and random words come from a seed, for an emulator that
 * writes down which blocks of instructions run: test_paths.py.
 *
 *   paths MASK CIPHER SEED [FAULT]
 *
 * FAULT: reads one bit of the data by a branch, which the test must find.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/cpu.h"
#include "fastdp.h"
#include "../c_law.h"

#define N 2200

static uint64_t state;

static uint64_t next(void) /* splitmix64 */
{
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int64_t whole[N], out[2 * N];
static double real[N];
static uint8_t bytes[8 * N];

static void expect(fdp_status_t status)
{
    if (status != FDP_OK) {
        printf("status %d\n", (int)status);
        exit(1);
    }
}

static void noise(const fdp_call_t *call, const char *name, uint64_t num, uint64_t den)
{
    const fdp_sampler_t s = law_of(name, num, den);
    const fdp_grid_t grid = {0x1p-10, -1e6, 1e6, 0.0};
    const fdp_target_t alone = {.out = out, .x_type = FDP_NONE, .out_type = FDP_I64};
    const fdp_target_t added = {.x = whole, .out = out, .x_type = FDP_I64, .out_type = FDP_I64};
    const fdp_target_t on_grid = {.x = real, .out = real, .x_type = FDP_F64,
                                  .out_type = FDP_F64, .grid = &grid};
    expect(fdp_release(call, &s, 0, N, &alone));
    expect(fdp_release(call, &s, 1, 700, &added));
    expect(fdp_release(call, &s, 2, 1, &added));
    if (num / den <= UINT64_C(1) << 40) {
        expect(fdp_release(call, &s, 3, 700, &on_grid));
    }
}

static void local(const fdp_call_t *call)
{
    fdp_bernoulli_t flips = {0};
    state = 1; /* the law is public */
    for (size_t c = 0; c < 256; c++) {
        flips.alias[c] = (uint8_t)next();
        for (size_t b = 0; b < 8; b++) {
            flips.plane[b][c] = (uint8_t)next();
        }
    }
    expect(fdp_flip_bits(call, &flips, 0, 4 * N, bytes, (uint8_t *)out));
    for (size_t i = 0; i < N; i++) {
        bytes[i] &= 1;
    }
    expect(fdp_flip_bytes(call, &flips, 1, N, bytes, FDP_U8, -1, (uint8_t *)out));
    static const uint32_t categories[] = {2, 16, 1000, (1u << 20) + 7};
    for (size_t k = 0; k < sizeof categories / sizeof *categories; k++) {
        const uint32_t d = categories[k];
        const fdp_response_t law = {.categories = d,
                                    .shift = 97 + (uint32_t)__builtin_clz(d),
                                    .rate = {UINT64_MAX / 3 * 2 + k, 7}};
        for (size_t i = 0; i < N; i++) {
            out[i] = (int64_t)((uint64_t)whole[i] % d);
        }
        expect(fdp_respond(call, &law, 2, N, out, FDP_I64, -1, out, FDP_U32));
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = strtoull(argv[3], NULL, 10);
    fdp_cpu_limit((uint32_t)strtoul(argv[1], NULL, 10));
    if (fdp_cpu_mask() != strtoul(argv[1], NULL, 10)) {
        puts("absent");
        return 0;
    }
    fdp_call_t call = {.stream = {.cipher = (uint32_t)strtoul(argv[2], NULL, 10)}};
    state = seed;
    for (size_t i = 0; i < sizeof call.stream.key; i++) {
        call.stream.key[i] = (uint8_t)next();
    }
    for (size_t i = 0; i < N; i++) {
        whole[i] = (int64_t)next();
        real[i] = (double)(int64_t)next() * 0x1p-50;
        memcpy(bytes + 8 * i, &whole[i], 8);
    }
    if (argc > 4 && whole[0] % 2 == 0) {
        puts("even");
    }
    noise(&call, "laplace", 1, 1);
    noise(&call, "laplace", 10, 1);
    noise(&call, "laplace", 5000, 1);
    noise(&call, "laplace", UINT64_C(1) << 40, 1);
    noise(&call, "gaussian", 1, 1);
    noise(&call, "gaussian", 10, 1);
    noise(&call, "gaussian", 1000000, 1);
    noise(&call, "gaussian", UINT64_C(1) << 40, 1);
    local(&call);
    puts("done");
    return 0;
}
