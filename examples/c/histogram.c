/* histogram.c: releases a histogram, handles an error, and repeats fixed draws.
 *
 * histogram FILE compares the draws of a fixed key with those of tests/vectors/draws.txt.
 * A line of the file has a law, the numerator and denominator of its parameter, how many
 * values are drawn, and the FNV-1a hash of their bytes. With the library that README installs:
 *
 *     cc -O2 examples/c/histogram.c $(pkg-config --cflags --libs fastdp) -o histogram
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastdp.h"

/* Adds noise to n values, or leaves zeros. Under one key that is done once: the same key gives
 * the same noise again. */
static fdp_status_t release(const fdp_call_t *call, const char *name, uint64_t num,
                            uint64_t den, int64_t *values, size_t n)
{
    const fdp_ratio_t parameter = {&num, &den, 1, 1};
    const fdp_target_t target = {values, FDP_I64, values, FDP_I64, NULL};
    fdp_sampler_t law;
    fdp_status_t status = strcmp(name, "laplace") == 0 ? fdp_sampler_laplace(&law, &parameter, 0)
                                                       : fdp_sampler_gaussian(&law, &parameter);
    if (status == FDP_OK) {
        status = fdp_release(call, &law, 0, n, &target);
    } else {
        memset(values, 0, n * sizeof *values);
    }
    return status;
}

static uint64_t hash(const int64_t *values, size_t n)
{
    uint64_t state = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < 8 * n; i++) {
        const uint64_t byte = (uint64_t)values[i / 8] >> (8 * (i % 8)) & 255;
        state = (state ^ byte) * UINT64_C(0x100000001b3);
    }
    return state;
}

/* How many lines of the file differ. */
static int compare(FILE *file)
{
    char name[16];
    uint64_t num, den, want;
    size_t n;
    int differ = 0, lines = 0;
    const uint8_t key[32] = {1, 2, 3}; /* for tests: whoever has the key knows the noise */
    fdp_call_t call = {.stream = {.cipher = FDP_CIPHER_CHACHA20}};
    fdp_stream_derive(call.stream.key, key, 0);
    while (fscanf(file, "%15s %" SCNu64 " %" SCNu64 " %zu %" SCNx64, name, &num, &den, &n,
                  &want) == 5) {
        int64_t *values = calloc(n, sizeof *values);
        differ += values == NULL || release(&call, name, num, den, values, n) != FDP_OK ||
                  hash(values, n) != want;
        lines++;
        free(values);
    }
    printf("%d vectors, %d differ\n", lines, differ);
    return differ + (lines == 0);
}

int main(int count, char **argument)
{
    int64_t counts[] = {120, 7, 0, 31}, refused[] = {120, 7, 0, 31};
    fdp_call_t call; /* a fresh key for each call */
    if (fdp_call_open(&call) != FDP_OK || release(&call, "laplace", 1, 1, counts, 4) != FDP_OK) {
        return 1;
    }
    printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", counts[0], counts[1], counts[2],
           counts[3]);
    const fdp_status_t status = release(&call, "laplace", 0, 1, refused, 4);
    printf("a scale of 0: status %d, first count %" PRId64 "\n", (int)status, refused[0]);
    fdp_call_close(&call);
    FILE *file = count > 1 ? fopen(argument[1], "r") : NULL;
    const int wrong = count > 1 && (file == NULL || compare(file) != 0);
    if (file != NULL) {
        fclose(file);
    }
    return wrong;
}
