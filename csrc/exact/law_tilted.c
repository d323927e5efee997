/* law_tilted.c: the tables of discrete Gaussian noise of sigma > 8.7 by tilted digits. They are
 * floors of lower ends with 192 bits. These floors, one by one, define the tables, and so they
 * define what the words of a key mean. docs/proofs/discrete_gaussian.md */
#include "law.h"

#define BITS 192
#define LIMBS 4 /* limbs of a weight in units of 2^-192; a step has one limb fewer */
#define DIGIT 8 /* bits of the second digit */
#define CHOICES (1u << 24)
#define BLOCKS 63

/* 2^(23 + shift) / Z by Poisson summation, for sigma > 8:
 * Z = sigma sqrt(2 pi) (1 + 2 q + 2 q^4 + 2 q^9 + ...), q = exp(-2 pi^2 sigma^2). */
void fdp_tilted_unit(const fdp_fx_t *f, const fdp_sigma_t *t, uint64_t *out)
{
    fdp_arena_t *a = f->a;
    const size_t mark = fdp_arena_mark(a), w = f->w;
    const unsigned bits = f->bits, point = bits + 64;
    const fdp_fx_t fine = fdp_fx_at(a, point);
    uint64_t *root = fdp_fx_take(f, 1), *wide = fdp_fx_take(&fine, 1);
    uint64_t *q = fdp_fx_take(f, 1), *sum = fdp_fx_take(f, 1);
    if (sum == NULL) {
        return;
    }
    fdp_fx_root_two_pi(f, root);
    fdp_fx_root_two_pi(&fine, wide);
    if (a->failed) {
        return;
    }
    fdp_nat_t fourth[2]; /* the fourth power of sqrt(2 pi), which is 4 pi^2: twice the 2 pi^2 of
                          * q */
    for (size_t side = 0; side < 2; side++) {
        const fdp_nat_t x = fdp_fx_nat(&fine, wide + side * fine.w);
        const fdp_nat_t y = fdp_nat_mul(a, x, x);
        fourth[side] = fdp_nat_right(a, fdp_nat_mul(a, y, y), 3 * point);
    }
    fourth[1] = fdp_nat_add(a, fourth[1], fdp_nat_of(a, 1));
    const fdp_nat_t scale = fdp_nat_left(a, t->den2, point + 1);
    fdp_fx_set_one(f, sum);
    fdp_fx_set_one(f, sum + w);
    bool last = false;
    for (uint64_t n = 1; !last && !a->failed; n++) {
        const fdp_nat_t rate = fdp_nat_mul(a, fdp_nat_of(a, n * n), t->num2);
        fdp_fx_exp_neg(f, q, fdp_nat_mul(a, fourth[1], rate), scale);
        last = fdp_nat_trim(q, w) == 0;
        fdp_fx_scale(f, q, q, 2, 1);
        fdp_limbs_add(sum, sum, q, w);
        fdp_fx_exp_neg(f, q, fdp_nat_mul(a, fourth[0], rate), scale);
        fdp_fx_scale(f, q, q, 2, 1);
        fdp_limbs_add(sum + w, sum + w, q + w, w);
    }
    /* all further terms together are below one unit */
    const fdp_nat_t high = fdp_nat_add(a, fdp_fx_nat(f, sum + w), fdp_nat_of(a, 2));
    const fdp_nat_t most =
        fdp_nat_right(a, fdp_nat_mul(a, fdp_fx_nat(f, root + w), high), bits);
    const fdp_nat_t least =
        fdp_nat_right(a, fdp_nat_mul(a, fdp_fx_nat(f, root), fdp_fx_nat(f, sum)), bits);
    const fdp_nat_t top = fdp_nat_left(a, t->den, 23 + t->shift + 2 * bits);
    const fdp_nat_t above = fdp_nat_mul(a, t->num, fdp_nat_add(a, most, fdp_nat_of(a, 1)));
    const fdp_nat_t lower = fdp_nat_div(a, top, above, NULL);
    const fdp_nat_t upper = fdp_nat_div_up(a, top, fdp_nat_mul(a, t->num, least));
    if (!a->failed) {
        fdp_fx_set_nat(f, out, lower);
        fdp_fx_set_nat(f, out + w, upper);
    }
    fdp_arena_back(a, mark);
}

/* The upper end of 2^23 exp(-M^2 / 2 sigma^2) f(M) / (Z (1 - r)), with r = exp(-M / sigma^2), and M
 * = 63 2^shift (side 0) or one more (side 1). */
static fdp_nat_t tail_edge(const fdp_fx_t *f, const fdp_sigma_t *t, const uint64_t *unit,
                           uint64_t side)
{
    fdp_arena_t *a = f->a;
    const unsigned wide = f->bits + t->shift;
    const fdp_fx_t fine = fdp_fx_at(a, wide);
    uint64_t *x = fdp_fx_take(f, 1), *r = fdp_fx_take(&fine, 1);
    const fdp_nat_t block = fdp_nat_left(a, fdp_nat_of(a, BLOCKS), t->shift);
    const fdp_nat_t first = fdp_nat_add(a, block, fdp_nat_of(a, side));
    const fdp_nat_t square = fdp_nat_mul(a, first, first);
    if (r == NULL || a->failed) {
        return (fdp_nat_t){NULL, 0};
    }
    fdp_fx_exp_neg(f, x, fdp_nat_mul(a, square, t->den2), fdp_nat_left(a, t->num2, 1));
    fdp_fx_exp_neg(&fine, r, fdp_nat_mul(a, first, t->den2), t->num2);
    fdp_fx_less(&fine, r, r);
    fdp_fx_times(f, x, x, unit);
    return fdp_nat_div_up(a, fdp_nat_left(a, fdp_fx_nat(f, x + f->w), wide),
                          fdp_nat_left(a, fdp_fx_nat(&fine, r), t->shift));
}

/* 256 times the density of a second digit, divided by the density of its block. */
uint32_t fdp_tilted_share(const fdp_sigma_t *t, uint32_t size, uint32_t digit)
{
    const int32_t step = 1 << (t->shift < DIGIT ? DIGIT - t->shift : 0);
    const int32_t away = step * (int32_t)(2 * digit + 1) - 256;
    const uint64_t far = (uint64_t)(away < 0 ? -away : away);
    const uint64_t tilt = (2 * (uint64_t)size + 1) * far * t->slope >> 16;
    const uint32_t cut = tilt > 256 ? 256 : (uint32_t)tilt;
    return away > 0 ? 256 - cut : 256 + cut;
}

/* ---- weights ----------------------------------------------------------------- */

/* A weight has `n` limbs. With 4, it is in units of 2^-192 and a step has 3 limbs in units of
 * 2^-192: these weights define the tables. With 2, it is in units of 2^-96 and a step has 2 limbs
 * in units of 2^-128: such a weight is at most SLACK below the one of 4 limbs, and never above it.
 * docs/proofs/discrete_gaussian.md, section 2. */
#define NARROW 2
#define SLACK (UINT64_C(1) << 20) /* 2^-76 in units of 2^-96 */

/* The weights at the edges of sub-blocks (at all values if shift <= 8), one after the other. */
typedef struct {
    uint64_t value[LIMBS], step[LIMBS - 1], twice[LIMBS - 1];
} walk_t;

/* x = floor(x y 2^-192); x has n limbs, y has three. */
FDP_ALWAYS_INLINE void multiply(uint64_t *x, size_t n, const uint64_t *y)
{
    uint64_t room[2 * LIMBS - 1] = {0};
    for (size_t i = 0; i < LIMBS - 1; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < n; j++) {
            const fdp_u128_t s = (fdp_u128_t)y[i] * x[j] + room[i + j] + carry;
            room[i + j] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
        room[i + n] = carry;
    }
    memcpy(x, room + LIMBS - 1, n * sizeof *x);
}

static void walk_wide(walk_t *w, uint64_t *edge, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(edge + LIMBS * i, w->value, sizeof w->value);
        multiply(w->value, LIMBS, w->step);
        multiply(w->step, LIMBS - 1, w->twice);
    }
}

/* x y 2^-128, too small by less than three units. The exact product would take twice as long. */
FDP_ALWAYS_INLINE fdp_u128_t product(fdp_u128_t x, fdp_u128_t y)
{
    const uint64_t x1 = (uint64_t)(x >> 64), y1 = (uint64_t)(y >> 64);
    return (fdp_u128_t)x1 * y1 + (uint64_t)((fdp_u128_t)x1 * (uint64_t)y >> 64) +
           (uint64_t)((fdp_u128_t)y1 * (uint64_t)x >> 64);
}

FDP_ALWAYS_INLINE fdp_u128_t two(const uint64_t *x) { return (fdp_u128_t)x[1] << 64 | x[0]; }

FDP_ALWAYS_INLINE void put_two(uint64_t *to, fdp_u128_t x)
{
    to[0] = (uint64_t)x;
    to[1] = (uint64_t)(x >> 64);
}

static void walk_narrow(walk_t *w, uint64_t *edge, size_t count)
{
    fdp_u128_t value = two(w->value), step = two(w->step);
    const fdp_u128_t twice = two(w->twice);
    for (size_t i = 0; i < count; i++) {
        put_two(edge + NARROW * i, value);
        value = product(value, step);
        step = product(step, twice);
    }
    put_two(w->value, value);
    put_two(w->step, step);
}

/* The walk from the first weight, of four limbs, by the first step, of three. */
static walk_t start_walk(const uint64_t *unit, const uint64_t *step, size_t n)
{
    walk_t w;
    memcpy(w.value, unit, sizeof w.value);
    memcpy(w.step, step, sizeof w.step);
    memcpy(w.twice, step, sizeof w.twice);
    multiply(w.twice, LIMBS - 1, w.step);
    if (n == NARROW) {
        w.value[0] = unit[1] >> 32 | unit[2] << 32;
        w.value[1] = unit[2] >> 32 | unit[3] << 32;
        memmove(w.step, w.step + 1, 2 * sizeof *w.step);
        memmove(w.twice, w.twice + 1, 2 * sizeof *w.twice);
    }
    return w;
}

static bool is_above(const uint64_t *x, const uint64_t *y)
{
    for (size_t i = LIMBS; i-- > 0;) {
        if (x[i] != y[i]) {
            return x[i] > y[i];
        }
    }
    return false;
}

/* The whole part of a weight, below 2^20. */
FDP_ALWAYS_INLINE uint32_t whole_of(const uint64_t *x, size_t n)
{
    return (uint32_t)(n == NARROW ? x[1] >> 32 : x[LIMBS - 1]);
}

/* Whether x + SLACK could have another whole part. */
FDP_ALWAYS_INLINE bool is_near_whole(const uint64_t *x, size_t n)
{
    return n == NARROW && (uint32_t)x[1] == UINT32_MAX && x[0] >= 0 - SLACK;
}

/* Sets the largest count that the digits of a block may have, and the hat of the rest: the largest
 * remaining weight. Returns whether the weights decide the count. */
FDP_ALWAYS_INLINE bool block_count(const uint32_t *share, const uint64_t *inside,
                                   const uint64_t *outside, uint32_t digits, size_t n,
                                   uint32_t *count, uint64_t *hat)
{
    uint32_t least = UINT32_MAX;
    bool open = false;
    for (uint32_t d = 0; d < digits; d++) {
        /* floor(w / s) depends only on the whole part of w */
        const uint32_t whole = whole_of(outside + n * d, n);
        open |= is_near_whole(outside + n * d, n);
        if ((uint64_t)least * share[d] > whole) {
            least = whole / share[d];
        }
    }
    *count = least == UINT32_MAX ? 0 : least;
    uint64_t most[LIMBS] = {0};
    fdp_u128_t narrow = 0;
    for (uint32_t d = 0; d < digits && n == NARROW; d++) {
        const fdp_u128_t rest = two(inside + n * d) - ((fdp_u128_t)(*count * share[d]) << 96);
        narrow = rest > narrow ? rest : narrow;
    }
    for (uint32_t d = 0; d < digits && n == LIMBS; d++) {
        uint64_t rest[LIMBS];
        memcpy(rest, inside + n * d, sizeof rest);
        rest[LIMBS - 1] -= *count * share[d];
        if (is_above(rest, most)) {
            memcpy(most, rest, sizeof rest);
        }
    }
    if (n == NARROW) {
        put_two(most + 1, narrow << 32);
        most[3] = (uint64_t)(narrow >> 96);
    }
    const uint64_t lack[LIMBS] = {0, 0, 1, 0}; /* the lower ends may be too small by 2^-64 */
    fdp_limbs_add(hat, most, lack, LIMBS);
    return !open;
}

/* Computes the counts and hats of all blocks except the tails. Returns whether the weights decide
 * the counts. `edge` has room for 257 weights. */
FDP_ALWAYS_INLINE bool all_blocks(const fdp_sigma_t *t, walk_t *w, uint64_t *edge, size_t n,
                                  uint32_t *count, uint64_t (*hat)[LIMBS])
{
    const uint32_t digits = 1u << (t->shift < DIGIT ? t->shift : DIGIT);
    const bool coarse = t->low > 0;
    void (*const walk)(walk_t *, uint64_t *, size_t) = n == NARROW ? walk_narrow : walk_wide;
    bool sure = true;
    walk(w, edge, 1);
    for (uint32_t size = 0; size < BLOCKS; size++) {
        const size_t up = 64 + size, down = BLOCKS - size;
        uint32_t share[1 << DIGIT];
        for (uint32_t d = 0; d < digits; d++) {
            share[d] = fdp_tilted_share(t, size, d);
        }
        walk(w, edge + n, digits);
        sure &= block_count(share, edge, edge + (coarse ? n : 0), digits, n, &count[up], hat[up]);
        if (coarse) { /* both sides have the same ends */
            count[down] = count[up];
            memcpy(hat[down], hat[up], sizeof hat[up]);
        } else {
            sure &= block_count(share, edge + n, edge + n, digits, n, &count[down], hat[down]);
        }
        memcpy(edge, edge + n * digits, n * sizeof *edge);
    }
    return sure;
}

/* ---- tries --------------------------------------------------------------------- */

/* The share of each block in units of 2^-24, from the hats; `height` is the height of one unit in
 * units of 2^-64. */
static void choose_units(const uint64_t (*hat)[LIMBS], uint64_t height, uint32_t *choice)
{
    uint32_t chosen = 2;
    choice[0] = choice[FDP_COLUMNS - 1] = 1; /* the tails */
    for (size_t i = 1; i < FDP_COLUMNS - 1; i++) {
        const fdp_u128_t top = (fdp_u128_t)hat[i][3] << 64 | hat[i][2];
        const bool more = top % height != 0 || (hat[i][0] | hat[i][1]) != 0;
        const uint32_t units = (uint32_t)(top / height) + more;
        choice[i] = units == 0 ? 1 : units;
        chosen += choice[i];
    }
    choice[64] += CHOICES - chosen;
}

/* Spreads the units over 128 columns of 2^17 units. */
static void choose_columns(const uint32_t *choice, uint64_t *entry)
{
    const uint32_t column = CHOICES / FDP_COLUMNS;
    uint32_t left[FDP_COLUMNS];
    uint8_t small[FDP_COLUMNS], large[FDP_COLUMNS];
    size_t smalls = 0, larges = 0;
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        left[i] = choice[i];
        entry[i] = i;
        if (left[i] < column) {
            small[smalls++] = (uint8_t)i;
        } else {
            large[larges++] = (uint8_t)i;
        }
    }
    while (smalls != 0 && larges != 0) {
        const uint8_t i = small[--smalls], giver = large[larges - 1];
        const uint32_t cut = column - left[i];
        entry[i] = (uint64_t)cut << 47 | giver;
        left[giver] -= cut;
        if (left[giver] < column) {
            small[smalls++] = large[--larges];
        }
    }
}

/* The height of one unit: the sum of all hats times 2^-24, rounded up to a multiple of 2^-64. */
static uint64_t unit_height(fdp_arena_t *a, const uint64_t (*hat)[LIMBS])
{
    uint64_t total[LIMBS] = {0};
    for (size_t i = 1; i < FDP_COLUMNS - 1; i++) {
        fdp_limbs_add(total, total, hat[i], LIMBS);
    }
    const fdp_nat_t sum = {total, fdp_nat_trim(total, LIMBS)};
    const fdp_nat_t mean = fdp_nat_div_up(a, sum, fdp_nat_of(a, CHOICES - 256));
    if (a->failed || mean.n != 3) {
        return 0;
    }
    return mean.d[2] + ((mean.d[0] | mean.d[1]) != 0);
}

/* Sets the counts, and the units of tries, of all blocks. Returns the height of a unit, or 0 if
 * there is no memory or the weights of two limbs do not decide. */
uint64_t fdp_tilted_units(fdp_arena_t *a, const fdp_sigma_t *t, const uint64_t *unit,
                          const uint64_t *step, bool wide, uint32_t *count, uint32_t *choice)
{
    const size_t mark = fdp_arena_mark(a), n = wide ? LIMBS : NARROW;
    uint64_t *edge = fdp_arena_take(a, n * ((1 << DIGIT) + 1)), hat[FDP_COLUMNS][LIMBS];
    walk_t w = start_walk(unit, step, n);
    bool sure = false;
    if (edge != NULL) {
        sure = wide ? all_blocks(t, &w, edge, LIMBS, count, hat)
                    : all_blocks(t, &w, edge, NARROW, count, hat);
    }
    fdp_arena_back(a, mark);
    const uint64_t height = sure ? unit_height(a, (const uint64_t (*)[LIMBS])hat) : 0;
    if (height == 0) {
        return 0;
    }
    choose_units((const uint64_t (*)[LIMBS])hat, height, choice);
    if (!wide) { /* both grow with the hats */
        const uint64_t slack[LIMBS] = {0, SLACK << 32, 0, 0};
        uint32_t again[FDP_COLUMNS];
        for (size_t i = 1; i < FDP_COLUMNS - 1; i++) {
            fdp_limbs_add(hat[i], hat[i], slack, LIMBS);
        }
        sure = unit_height(a, (const uint64_t (*)[LIMBS])hat) == height;
        choose_units((const uint64_t (*)[LIMBS])hat, height, again);
        sure &= memcmp(choice, again, sizeof again) == 0;
    }
    fdp_arena_back(a, mark);
    return sure ? height : 0;
}

/* ---- the law -------------------------------------------------------------------- */

static void fill_doubles(const fdp_fx_t *f, const fdp_sigma_t *t, const uint64_t *unit,
                         fdp_digits_t *law)
{
    fdp_arena_t *a = f->a;
    const fdp_nat_t one = fdp_nat_left(a, fdp_nat_of(a, 1), BITS);
    fdp_nat_t edge = fdp_nat_left(a, fdp_nat_of(a, 1), 92);
    for (uint64_t side = 0; side < 2; side++) {
        const fdp_nat_t e = tail_edge(f, t, unit, side);
        edge = fdp_nat_compare(e, edge) > 0 ? e : edge;
    }
    law->tilt.weight = fdp_nat_quotient(a, fdp_fx_nat(f, unit), one);
    law->tilt.inverse_2var = fdp_nat_quotient(a, t->den2, fdp_nat_left(a, t->num2, 1));
    law->tilt.edge = fdp_nat_quotient(a, edge, one);
    law->tilt.acceptance = law->special[0] * 0x1p23 / (law->tilt.height * 0x1p24);
}

fdp_status_t fdp_law_tilted(fdp_arena_t *a, const fdp_sigma_t *sigma, fdp_digits_t *law)
{
    fdp_sigma_t t = *sigma;
    const fdp_fx_t f = fdp_fx_at(a, BITS);
    /* floor(2^14 (2^shift / sigma)^2) */
    const fdp_nat_t slope = fdp_nat_div(a, fdp_nat_left(a, t.den2, 14 + 2 * t.shift), t.num2, NULL);
    uint64_t *unit = fdp_fx_take(&f, 1), *step = fdp_fx_take(&f, 1);
    if (step == NULL || slope.n != 1) {
        return FDP_ERR_MEMORY;
    }
    t.slope = (uint32_t)slope.d[0];
    fdp_tilted_unit(&f, &t, unit);
    fdp_fx_exp_neg(&f, step, fdp_nat_left(a, t.den2, 2 * t.low),
                   fdp_nat_left(a, t.num2, 1));
    if (a->failed) {
        return FDP_ERR_MEMORY;
    }
    uint32_t count[FDP_COLUMNS] = {0}, choice[FDP_COLUMNS];
    uint64_t height = fdp_tilted_units(a, &t, unit, step, false, count, choice);
    if (height == 0 && !a->failed) {
        height = fdp_tilted_units(a, &t, unit, step, true, count, choice);
    }
    if (height == 0) {
        return FDP_ERR_MEMORY;
    }
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        law->tilt.block[i] = (uint64_t)count[i] << 32 | choice[i];
    }
    fdp_alias_values(count, law);
    choose_columns(choice, law->first_rest);
    law->tilt.slope = t.slope;
    law->tilt.unit = height;
    law->tilt.height =
        fdp_nat_quotient(a, fdp_nat_of(a, height), fdp_nat_left(a, fdp_nat_of(a, 1), 64));
    fill_doubles(&f, &t, unit, law);
    return a->failed ? FDP_ERR_MEMORY : FDP_OK;
}
