/* settle_choice.c: the core's exact steps of selections in memory of every size
 * (test_selection_exact_steps.py): each fails or gives the same. */
#include <stdio.h>
#include <stdlib.h>

#include "exact/choice.h"

#define COUNT(x) (sizeof(x) / sizeof *(x))
#define N 4
#define ROOM ((size_t)1 << 21) /* limbs */

/* Blocks that tell nothing at first: bits go on being read. */
static void give_block(const void *context, uint32_t block, uint8_t out[16])
{
    const int *seed = context;
    memset(out, block % FDP_BESIDE < 2 ? 0 : (int)block * 37 + *seed + 11, 16);
}

typedef int (*decide_fn)(fdp_settle_t *, const void *, const uint64_t *, int64_t *);

static int decide(decide_fn f, const void *what, const uint64_t *words, uint64_t *memory,
                  size_t size, size_t *most, int64_t *value)
{
    static const int seed = 5;
    fdp_arena_t a = {.base = memory, .size = size};
    fdp_settle_t w = {.a = &a, .block = give_block, .context = &seed};
    const int kept = f(&w, what, words, value);
    *most = a.most;
    return a.failed ? -1 : kept;
}

static int check(const char *name, decide_fn f, const void *what, const uint64_t *words)
{
    uint64_t *memory = malloc(ROOM * sizeof *memory);
    size_t most = 0, used;
    int64_t value = 0;
    const int kept = decide(f, what, words, memory, ROOM, &most, &value);
    int wrong = kept != 1;
    free(memory);
    for (size_t size = 0; size < most + 40;
         size += size > most - 20 && size < most + 20 ? 1 : 211) {
        uint64_t *small = malloc(size * sizeof *small + 1);
        int64_t again = 0;
        const int got = decide(f, what, words, small, size, &used, &again);
        free(small);
        wrong |= size < most ? got != -1 : got != kept || again != value;
    }
    if (wrong) {
        printf("%s gives %d, %d\n", name, kept, (int)value);
    }
    return wrong;
}

int main(void)
{
    static const double scores[N] = {1.5, -3e300, 1.25, 5e-324}, doubles[N] = {.5, .25, .5, .75};
    static const double exponents[N] = {0, -30, -900, 0};
    static const int64_t whole[N] = {INT64_MAX, INT64_MIN, 7, INT64_MAX - 1};
    static const uint64_t num[3] = {7, 1, 3}, den[2] = {9, 5}, one[1] = {1};
    static const int own = 1, other = 2, turn = 3;
    const fdp_ratio_t exact[N] = {{num, den, 3, 2}, {den, num, 2, 3}, {one, den, 1, 2},
                                  {one, one, 1, 1}};
    int wrong = 0;
    for (int kind = 0; kind < 24; kind += kind < 8 ? 1 : 3) {
        fdp_selection_t law = {.noise = (fdp_race_t)(kind % 3)};
        fdp_candidates_t from = {.rows = 1, .n = N, .score = kind & 4 ? (const void *)whole : scores,
                                 .type = kind & 4 ? FDP_I64 : FDP_F64};
        memcpy(law.num, kind & 8 ? num : one, (kind & 8 ? 3 : 1) * sizeof *num);
        law.den[0] = kind & 1 ? 3 : 1;
        if (kind % 4 != 0) {
            from.mantissa = doubles;
            from.exponent = kind % 4 == 1 ? NULL : exponents;
            from.weight = kind % 4 == 3 ? exact : NULL;
            from.weight_top = kind % 4 == 3 ? 66 : 0;
        }
        const uint64_t removed[8] = {kind >= 16 ? 1 : 0};
        const fdp_choice_t choice = fdp_choice_of(&law, &from, 0, removed);
        for (int end = 0; end < 2; end++) {
            const uint64_t words[2] = {end ? UINT64_MAX : 0, N - 2};
            wrong |= check("inverse", fdp_settle_inverse, &choice, words);
            wrong |= check("flip", fdp_settle_flip, &choice, words);
            wrong |= check("even", fdp_settle_even, NULL, words);
            fdp_duel_t duel = {.choice = {&choice, &choice}, .index = {N - 2, N - 1},
                               .real = {{&own, &turn}, {&other, &turn}},
                               .word = {{words[0], 5}, {words[0], 6}}};
            wrong |= check("duel", fdp_settle_duel, &duel, NULL);
        }
    }
    return wrong;
}
