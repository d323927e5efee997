/* exact.c: numbers and laws of csrc/exact, built with sanitizers.
 *
 *   numbers   division, square roots and quotients by their definitions, with limbs that
 *             meet the rare branches
 *   laws      in memory of every size: a failure below what a law needs, the law from
 *             there on
 *   weights   of wide Gaussian laws in two limbs and in four: where two decide, the tables
 *             are equal
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact/law.h"

#define ROOM 65536

static uint64_t memory[ROOM];
static uint64_t state = 88172645463325252u;
static int failures;

static void expect(int truth, const char *what)
{
    if (!truth && failures++ < 10) {
        printf("failed: %s\n", what);
    }
}

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Limbs of 0, 1, 2^63, 2^64 - 1 and of any bits. */
static fdp_nat_t number(fdp_arena_t *a, size_t n)
{
    static const uint64_t some[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 1};
    uint64_t *d = fdp_arena_take(a, n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t kind = next() % 8;
        d[i] = kind < 5 ? some[kind] : next();
    }
    return (fdp_nat_t){d, fdp_nat_trim(d, n)};
}

static void check_numbers(void)
{
    for (int turn = 0; turn < 20000; turn++) {
        fdp_arena_t arena = {.base = memory, .size = ROOM}, *a = &arena;
        const size_t n = next() % 9, m = 1 + next() % 5;
        const fdp_nat_t x = number(a, n), y = number(a, m);
        if (y.n == 0) {
            continue;
        }
        bool exact;
        const fdp_nat_t q = fdp_nat_div(a, x, y, &exact), back = fdp_nat_mul(a, q, y);
        expect(fdp_nat_compare(back, x) <= 0, "quotient is too large");
        const fdp_nat_t rest = fdp_nat_sub(a, x, back);
        expect(fdp_nat_compare(rest, y) < 0, "quotient is too small");
        expect(exact == (rest.n == 0), "exact");
        const fdp_nat_t up = fdp_nat_div_up(a, x, y), one = fdp_nat_of(a, 1);
        expect(fdp_nat_compare(up, exact ? q : fdp_nat_add(a, q, one)) == 0, "upward");
        const fdp_nat_t r = fdp_nat_root(a, x), s = fdp_nat_add(a, r, one);
        expect(fdp_nat_compare(fdp_nat_mul(a, r, r), x) <= 0, "root is too large");
        expect(fdp_nat_compare(fdp_nat_mul(a, s, s), x) > 0, "root is too small");
        const unsigned places = next() % 200;
        const fdp_nat_t left = fdp_nat_left(a, x, places);
        expect(fdp_nat_compare(fdp_nat_right(a, left, places), x) == 0, "shifts");
        expect(!arena.failed, "memory");
    }
}

static void check_doubles(void)
{
    for (int turn = 0; turn < 20000; turn++) {
        fdp_arena_t arena = {.base = memory, .size = ROOM}, *a = &arena;
        /* exact products and halves of units: ties to even */
        const uint64_t x = (next() >> 11) | 1, half = next() % 4;
        const fdp_nat_t y = fdp_nat_of(a, (next() >> 40) | 1);
        const fdp_nat_t four = fdp_nat_left(a, fdp_nat_of(a, x | UINT64_C(1) << 52), 2);
        const fdp_nat_t top = half == 0 ? four : fdp_nat_add(a, four, fdp_nat_of(a, half));
        const double found =
            fdp_nat_quotient(a, fdp_nat_mul(a, top, y), fdp_nat_left(a, y, 70));
        const uint64_t whole = x | UINT64_C(1) << 52;
        const uint64_t near = half < 2 ? whole : half > 2 ? whole + 1 : whole + (whole & 1);
        expect(found == ldexp((double)near, -68), "nearest double");
    }
}

static fdp_status_t make(int kind, size_t size, fdp_digits_t *law)
{
    static const uint64_t parameter[][2] = {{10, 1}, {1, 7}, {5000, 3}, {UINT64_C(1) << 55, 1},
                                            {5, 1},  {1000, 1}};
    uint64_t *exact = malloc(size == 0 ? 1 : size * sizeof *exact); /* no byte more */
    uint64_t num = parameter[kind][0], den = parameter[kind][1];
    fdp_arena_t arena = {.base = exact, .size = size};
    const fdp_nat_t top = {&num, 1}, below = {&den, 1};
    memset(law, 0, sizeof *law);
    const fdp_status_t status = kind < 4 ? fdp_law_laplace(&arena, top, below, law)
                                         : fdp_law_gaussian(&arena, top, below, law);
    expect(arena.most <= size, "more memory than there is");
    free(exact);
    return status;
}

static void check_memory(void)
{
    for (int kind = 0; kind < 6; kind++) {
        static fdp_digits_t law, again;
        size_t need = 1;
        while (make(kind, need, &law) != FDP_OK) {
            need *= 2;
        }
        for (size_t size = 0, after = 0; after < 3; size += size < 200 ? 1 : 41) {
            const fdp_status_t status = make(kind, size, &again);
            expect(status == FDP_OK || status == FDP_ERR_MEMORY, "status");
            expect(status == FDP_OK || after == 0, "failed with more memory");
            if (status == FDP_OK) {
                expect(memcmp(&law, &again, sizeof law) == 0, "another law");
                after++;
            }
        }
    }
}

/* A table by weights of two limbs or four; 0: not decided. */
static uint64_t units(const fdp_sigma_t *t, const uint64_t *unit, bool wide, uint32_t table[256])
{
    static uint64_t room[ROOM];
    fdp_arena_t arena = {.base = room, .size = ROOM}, *a = &arena;
    const fdp_fx_t f = fdp_fx_at(a, 192);
    uint64_t *step = fdp_fx_take(&f, 1);
    fdp_fx_exp_neg(&f, step, fdp_nat_left(a, t->den2, 2 * t->low), fdp_nat_left(a, t->num2, 1));
    memset(table, 0, 256 * sizeof *table);
    return fdp_tilted_units(a, t, unit, step, wide, table, table + 128);
}

/* Sigmas of every shift; and first weights of which two limbs cannot say the whole part. */
static void check_weights(void)
{
    static uint32_t narrow[256], wide[256];
    for (int turn = 0; turn < 3 * 55; turn++) {
        fdp_arena_t arena = {.base = memory, .size = ROOM}, *a = &arena;
        const uint64_t top = (next() >> 1) | UINT64_C(1) << 62;
        const fdp_nat_t num = fdp_nat_of(a, top);
        const fdp_nat_t den = fdp_nat_of(a, UINT64_C(1) << (8 + turn % 51));
        fdp_sigma_t t = {num, den, fdp_nat_mul(a, num, num), fdp_nat_mul(a, den, den), 0, 0, 0};
        while (10 * (double)top > 87 * (double)den.d[0] * (double)(UINT64_C(1) << t.shift)) {
            t.shift++;
        }
        t.low = t.shift > 8 ? t.shift - 8 : 0;
        const fdp_nat_t slope = fdp_nat_left(a, t.den2, 14 + 2 * t.shift);
        t.slope = (uint32_t)fdp_nat_div(a, slope, t.num2, NULL).d[0];
        const fdp_fx_t f = fdp_fx_at(a, 192);
        uint64_t *unit = fdp_fx_take(&f, 1);
        fdp_tilted_unit(&f, &t, unit);
        const uint64_t height = units(&t, unit, false, narrow);
        expect(height != 0 && height == units(&t, unit, true, wide), "height");
        expect(memcmp(narrow, wide, sizeof wide) == 0, "weights of two limbs");
        unit[2] = UINT64_MAX; /* the second edge of blocks beside zero is near the first */
        unit[1] = UINT64_MAX - next() % (UINT64_C(1) << 52);
        const bool shows = t.low == 0; /* there the first weight itself counts */
        expect(!shows || units(&t, unit, false, narrow) == 0, "not decided");
        expect(units(&t, unit, true, wide) != 0, "four limbs decide");
        expect(!arena.failed, "memory of weights");
    }
}

int main(void)
{
    check_weights();
    check_numbers();
    check_doubles();
    check_memory();
    puts(failures == 0 ? "fine" : "failed");
    return failures != 0;
}
