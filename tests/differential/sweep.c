/* sweep.c: the float32 Laplace stage over all 2^32 words against exact thresholds.
 *
 *   sweep FILE MASK
 *
 * FILE: the law's exact fields, the number of thresholds, their floors times 2^64
 * in ascending order, and the values of the steps between them (one more). Prints
 * the level's name, the undecided and the wrongly decided words, and the error
 * bounds: constant, per unit of y, and the least word left that is decided.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fastdp.h"
#include "sampler/kernels.h"

#define WORDS 4096

typedef struct {
    uint64_t theta[2];
    uint64_t inverse[3];
    double scale, inverse_w0, inverse_w1, inverse_scale;
    uint64_t count;
} header_t;

static void *get(size_t size, size_t count, FILE *file)
{
    void *memory = malloc(size * count);
    if (memory == NULL || fread(memory, size, count, file) != count) {
        fputs("sweep: cannot read the thresholds\n", stderr);
        exit(2);
    }
    return memory;
}

int main(int argc, char **argv)
{
    static uint32_t word[WORDS];
    static int32_t value[WORDS];
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL) {
        fputs("usage: sweep FILE MASK\n", stderr);
        return 2;
    }
    const header_t *h = get(sizeof *h, 1, file);
    const uint64_t *edge = get(sizeof *edge, h->count, file);
    const int32_t *step = get(sizeof *step, h->count + 1, file);

    fdp_sampler_t sampler = {.kind = FDP_LAPLACE_NARROW, .acceptance = 1.0};
    fdp_laplace_t *law = &sampler.law.laplace;
    for (int i = 0; i < 3; i++) {
        law->theta[i % 2] = h->theta[i % 2];
        law->inverse[i] = h->inverse[i];
    }
    law->scale = h->scale;
    law->inverse_w0 = h->inverse_w0;
    law->inverse_w1 = h->inverse_w1;
    law->inverse_scale = h->inverse_scale;
    if (fdp_sampler_prepare(&sampler) != FDP_OK) {
        return 2;
    }
    fdp_cpu_limit((uint32_t)strtoul(argv[2], NULL, 0));
    const fdp_kernels_t *kernels = fdp_kernels();

    uint64_t undecided = 0, wrong = 0, below = 0;
    for (uint64_t first = 0; first < UINT64_C(1) << 32; first += WORDS) {
        for (uint32_t i = 0; i < WORDS; i++) {
            word[i] = (uint32_t)first + i;
        }
        kernels->laplace_narrow(law, word, value, WORDS);
        for (uint32_t i = 0; i < WORDS; i++) {
            /* thresholds below the word's cell, then whether one lies inside it */
            while (below < h->count && edge[below] >> 32 < word[i]) {
                below++;
            }
            const int inside = below < h->count && edge[below] >> 32 == word[i];
            const int open = value[i] == FDP_UNDECIDED32;
            undecided += (uint64_t)open;
            wrong += !open && (inside || value[i] != step[below]);
        }
    }
    printf("%s %" PRIu64 " %" PRIu64 " %a %a %d\n", kernels->name, undecided, wrong,
           (double)law->narrow_error, (double)law->narrow_error_relative,
           (int)law->narrow_least);
    return 0;
}
