/* settle.c: the core's own resolver on lanes from standard input (test_settled.py).
 *
 * A lane: family numerator denominator seed, a number of words and these, a number of
 * blocks and for each its number and two words; all in hexadecimal. The numbers of a
 * response are its categories and 2^64 times its truth. Other blocks come from the seed.
 * Prints what it gives: kept, low and high word. With an argument, every lane is tried in
 * memory of many sizes: each fails or gives the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "exact/resolver.h"

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

typedef struct {
    char family; /* laplace, gaussian, bernoulli, response */
    uint64_t top[LIMBS], low[LIMBS];
    fdp_nat_t num, den;
    fdp_digits_t digits;
    fdp_bernoulli_t bits;
    fdp_response_t labels;
} law_t;

static fdp_status_t make_law(law_t *law, uint64_t *memory)
{
    fdp_arena_t a = {.base = memory, .size = ROOM};
    memset(&law->digits, 0, sizeof law->digits);
    memset(&law->bits, 0, sizeof law->bits);
    memset(&law->labels, 0, sizeof law->labels);
    switch (law->family) {
    case 'l': return fdp_law_laplace(&a, law->num, law->den, &law->digits);
    case 'g': return fdp_law_gaussian(&a, law->num, law->den, &law->digits);
    case 'b':
        memcpy(law->bits.num, law->top, law->num.n * sizeof *law->top);
        memcpy(law->bits.den, law->low, law->den.n * sizeof *law->low);
        return fdp_law_patterns(&a, law->num, law->den, &law->bits);
    default: /* categories, and 2^64 truth */
        law->labels.categories = (uint32_t)law->top[0];
        law->labels.always = law->den.n == 2;
        law->labels.truth = law->den.n == 1 ? law->low[0] : 0;
        return law->labels.always ? FDP_OK : fdp_law_response(&a, &law->labels);
    }
}

static int settle(const law_t *law, fdp_arena_t *a, const uint64_t *words,
                  const blocks_t *blocks, int64_t value[2])
{
    fdp_settle_t w = {.a = a, .block = give_block, .context = blocks};
    switch (law->family) {
    case 'b': return fdp_settle_pattern(&w, &law->bits, words, value);
    case 'r': return fdp_settle_response(&w, &law->labels, words, value);
    default:
        return fdp_law_settle(a, &law->digits, law->num, law->den, words, give_block, blocks,
                              value);
    }
}

int main(int count, char **argument)
{
    (void)argument;
    static law_t law, next;
    uint64_t *memory = malloc(ROOM * sizeof *memory);
    while (memory != NULL && scanf(" %c", &next.family) == 1) {
        uint64_t words[MOST] = {0};
        blocks_t blocks = {0};
        next.num = read_number(next.top);
        next.den = read_number(next.low);
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
        if (next.family != law.family || fdp_nat_compare(next.num, law.num) != 0 ||
            fdp_nat_compare(next.den, law.den) != 0) {
            law = next;
            law.num.d = law.top;
            law.den.d = law.low;
            if (make_law(&law, memory) != FDP_OK) {
                return 5;
            }
        }
        int64_t value[2] = {0, 0};
        fdp_arena_t b = {.base = memory, .size = ROOM};
        const int kept = settle(&law, &b, words, &blocks, value);
        printf("%d %" PRIx64 " %" PRIx64 "\n", kept, (uint64_t)value[0], (uint64_t)value[1]);
        for (size_t size = 0; count > 1 && size < b.most + 40;
             size += size > b.most - 20 && size < b.most + 20 ? 1 : 211) {
            uint64_t *small = malloc(size * sizeof *small + 1);
            int64_t again[2] = {0, 0};
            fdp_arena_t c = {.base = small, .size = size};
            const int got = settle(&law, &c, words, &blocks, again);
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
