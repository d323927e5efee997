/* settle.c: the core's own resolver on lanes from standard input (test_settled.py).
 *
 * A lane: family numerator denominator seed, a number of words and these, a number of
 * blocks and for each its number and two words; all in hexadecimal. Other blocks come
 * from the seed. Prints what it gives: kept, low and high word. With an argument, every
 * lane is tried in memory of many sizes: each fails or gives the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "exact/law.h"

#define LIMBS 40
#define MOST 80
#define ROOM ((size_t)1 << 21) /* limbs */

typedef struct {
    uint64_t seed;
    size_t count;
    uint64_t number[MOST], word[MOST][2];
} blocks_t;

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void give_block(const void *context, uint32_t block, uint8_t out[16])
{
    const blocks_t *b = context;
    uint64_t two[2] = {mix(b->seed ^ mix(2 * (uint64_t)block)),
                       mix(b->seed ^ mix(2 * (uint64_t)block + 1))};
    for (size_t i = 0; i < b->count; i++) {
        if (b->number[i] == block) {
            memcpy(two, b->word[i], sizeof two);
        }
    }
    memcpy(out, two, sizeof two);
}

static uint64_t read_word(void)
{
    uint64_t x = 0;
    if (scanf("%" SCNx64, &x) != 1) {
        exit(3);
    }
    return x;
}

static size_t read_count(size_t most)
{
    const uint64_t n = read_word();
    if (n > most) {
        exit(4);
    }
    return n;
}

/* A number: how many limbs, and these, the lowest first. */
static fdp_nat_t read_number(uint64_t *limbs)
{
    const size_t n = read_count(LIMBS);
    for (size_t i = 0; i < n; i++) {
        limbs[i] = read_word();
    }
    return (fdp_nat_t){limbs, fdp_nat_trim(limbs, n)};
}

int main(int count, char **argument)
{
    (void)argument;
    static fdp_digits_t law;
    char family;
    uint64_t *memory = malloc(ROOM * sizeof *memory);
    while (memory != NULL && scanf(" %c", &family) == 1) {
        uint64_t top[LIMBS], low[LIMBS], words[MOST] = {0};
        blocks_t blocks = {0};
        const fdp_nat_t num = read_number(top), den = read_number(low);
        blocks.seed = read_word();
        const size_t n = read_count(MOST);
        for (size_t i = 0; i < n; i++) {
            words[i] = read_word();
        }
        blocks.count = read_count(MOST);
        for (size_t i = 0; i < blocks.count; i++) {
            blocks.number[i] = read_word();
            blocks.word[i][0] = read_word();
            blocks.word[i][1] = read_word();
        }
        fdp_arena_t a = {.base = memory, .size = ROOM};
        memset(&law, 0, sizeof law);
        if ((family == 'l' ? fdp_law_laplace : fdp_law_gaussian)(&a, num, den, &law) != FDP_OK) {
            return 5;
        }
        int64_t value[2] = {0, 0};
        fdp_arena_t b = {.base = memory, .size = ROOM};
        const int kept = fdp_law_settle(&b, &law, num, den, words, give_block, &blocks, value);
        printf("%d %" PRIx64 " %" PRIx64 "\n", kept, (uint64_t)value[0], (uint64_t)value[1]);
        for (size_t size = 0; count > 1 && size < b.most + 40;
             size += size > b.most - 20 && size < b.most + 20 ? 1 : 211) {
            uint64_t *small = malloc(size * sizeof *small + 1);
            int64_t again[2] = {0, 0};
            fdp_arena_t c = {.base = small, .size = size};
            const int got = fdp_law_settle(&c, &law, num, den, words, give_block, &blocks, again);
            free(small);
            if (size < b.most ? got != -1 || !c.failed
                              : got != kept || again[0] != value[0] || again[1] != value[1]) {
                printf("memory of %zu limbs\n", size);
                return 6;
            }
        }
    }
    free(memory);
    return 0;
}
