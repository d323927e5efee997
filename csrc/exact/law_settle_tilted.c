/* law_settle_tilted.c: settles tries of tilted digits (fdp_settle_tilted). */
#include "resolver.h"

#include "../base/wipe.h"

#define MOST_TRIES 256

typedef struct {
    uint32_t choice, taken;
    uint64_t side, at; /* |x|, or g in a tail */
} try_t;

static fdp_nat_t square_of(const fdp_settle_t *w, uint64_t x)
{
    const fdp_nat_t n = fdp_nat_of(w->a, x);
    return fdp_nat_mul(w->a, n, n);
}

/* Divides [low, high] by the hat, whose height is 2^-64 height for each unit of choice. */
static void over_hat(fdp_settle_t *w, const fdp_fx_t *f, const try_t *t, fdp_nat_t low,
                     fdp_nat_t high, uint64_t *out)
{
    const fdp_nat_t hat =
        fdp_nat_mul(w->a, fdp_nat_of(w->a, w->law->tilt.unit), fdp_nat_of(w->a, t->choice));
    const fdp_nat_t least = fdp_nat_div(w->a, fdp_nat_left(w->a, low, 64), hat, NULL);
    const fdp_nat_t most = fdp_nat_div_up(w->a, fdp_nat_left(w->a, high, 64), hat);
    if (!w->a->failed) {
        fdp_fx_set_nat(f, out, least);
        fdp_fx_set_nat(f, out + f->w, most);
    }
}

static void try_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                      uint64_t *out)
{
    const try_t *t = what;
    uint64_t *x = fdp_fx_take(f, 1), *unit = fdp_fx_take(f, 1);
    const fdp_nat_t top = fdp_nat_mul(w->a, square_of(w, t->at), w->t.den2);
    const fdp_nat_t low = fdp_nat_left(w->a, w->t.num2, 1);
    (void)k;
    if (w->a->failed) {
        return;
    }
    fdp_fx_exp_neg(f, x, top, low);
    fdp_tilted_unit(f, &w->t, unit);
    if (w->a->failed) {
        return;
    }
    fdp_fx_times(f, x, x, unit);
    fdp_fx_left_over(f, x, x, 1, t->taken);
    if (!w->a->failed) {
        over_hat(w, f, t, fdp_fx_nat(f, x), fdp_fx_nat(f, x + f->w), out);
    }
}

static uint64_t tail_start(const fdp_settle_t *w, uint64_t side)
{
    return (UINT64_C(63) << w->t.shift) + side;
}

/* 2^23 exp(-(M^2 + g^2) / 2 sigma^2) / (Z (1 - r)) divided by the hat, r = exp(-M / sigma^2). */
static void edge_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                       uint64_t *out)
{
    const try_t *t = what;
    const unsigned wide = f->bits + w->t.shift;
    const fdp_fx_t fine = fdp_fx_at(w->a, wide);
    const uint64_t first = tail_start(w, t->side);
    uint64_t *x = fdp_fx_take(f, 1), *unit = fdp_fx_take(f, 1), *r = fdp_fx_take(&fine, 1);
    const fdp_nat_t both = fdp_nat_add(w->a, square_of(w, first), square_of(w, t->at));
    const fdp_nat_t top = fdp_nat_mul(w->a, both, w->t.den2);
    const fdp_nat_t low = fdp_nat_left(w->a, w->t.num2, 1);
    const fdp_nat_t rate = fdp_nat_mul(w->a, fdp_nat_of(w->a, first), w->t.den2);
    (void)k;
    if (w->a->failed) {
        return;
    }
    fdp_fx_exp_neg(f, x, top, low);
    fdp_fx_exp_neg(&fine, r, rate, w->t.num2);
    fdp_tilted_unit(f, &w->t, unit);
    if (w->a->failed) {
        return;
    }
    fdp_fx_times(f, x, x, unit);
    fdp_fx_less(&fine, r, r);
    const fdp_nat_t above = fdp_nat_left(w->a, fdp_fx_nat(&fine, r + fine.w), w->t.shift);
    const fdp_nat_t below = fdp_nat_left(w->a, fdp_fx_nat(&fine, r), w->t.shift);
    if (w->a->failed || below.n == 0) {
        w->a->vague = true;
        return;
    }
    const fdp_nat_t least =
        fdp_nat_div(w->a, fdp_nat_left(w->a, fdp_fx_nat(f, x), wide), above, NULL);
    const fdp_nat_t most =
        fdp_nat_div_up(w->a, fdp_nat_left(w->a, fdp_fx_nat(f, x + f->w), wide), below);
    if (!w->a->failed) {
        over_hat(w, f, t, least, most, out);
    }
}

/* exp(-k M / sigma^2) */
static void beyond_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                         uint64_t *out)
{
    const uint64_t first = tail_start(w, ((const try_t *)what)->side);
    const fdp_nat_t steps = fdp_nat_mul(w->a, fdp_nat_of(w->a, k), fdp_nat_of(w->a, first));
    const fdp_nat_t top = fdp_nat_mul(w->a, steps, w->t.den2);
    if (!w->a->failed) {
        fdp_fx_exp_neg(f, out, top, w->t.num2);
    }
}

static double beyond_guess(fdp_settle_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
{
    const uint64_t first = tail_start(w, ((const try_t *)what)->side);
    const fdp_nat_t low = fdp_nat_mul(w->a, w->t.den2, fdp_nat_of(w->a, first));
    if (w->a->failed) {
        return 0.0;
    }
    const double scale = fdp_nat_quotient(w->a, w->t.num2, low);
    return ((double)f->bits * 0.69314718055994530942 - fdp_nat_log(x)) * scale;
}

/* Makes one attempt. Returns 1 and sets the value, or returns 0. */
static int attempt(fdp_settle_t *w, uint64_t word, uint64_t place, fdp_i128_t *value)
{
    const uint64_t entry = w->law->first_rest[word & 127];
    const bool under = word >> 47 < entry >> 47;
    const uint32_t chosen = under ? (uint8_t)entry : (uint32_t)(word & 127);
    const size_t mark = fdp_arena_mark(w->a);
    fdp_uniform_t v = fdp_uniform_open(w, word >> 8 & ((UINT64_C(1) << 39) - 1), 39, 0);
    try_t t = {.choice = (uint32_t)w->law->tilt.block[chosen]};
    const int32_t h = (int32_t)chosen - 64;
    bool kept;
    if (h == -64 || h == 63) {
        t.side = h < 0;
        kept = fdp_uniform_below(w, &v, edge_bound, &t, 0);
        if (kept) {
            fdp_uniform_t u = fdp_uniform_open(w, 0, 0, FDP_BESIDE);
            t.at = fdp_uniform_level(w, &u, beyond_bound, beyond_guess, &t);
            kept = fdp_uniform_below(w, &v, edge_bound, &t, 0);
        }
        const fdp_i128_t size = (fdp_i128_t)tail_start(w, t.side) + (fdp_i128_t)t.at;
        *value = t.side != 0 ? -size : size;
    } else {
        const uint32_t block = (uint32_t)(h < 0 ? ~h : h);
        const uint64_t inner = place >> (64 - w->t.shift);
        const uint64_t size = ((uint64_t)block << w->t.shift) | inner;
        t.taken = w->count[0][chosen] *
                  fdp_tilted_share(&w->t, block, (uint32_t)(inner >> w->t.low));
        t.at = size + (h < 0);
        kept = fdp_uniform_below(w, &v, try_bound, &t, 0);
        *value = h < 0 ? ~(fdp_i128_t)size : (fdp_i128_t)size;
    }
    fdp_wipe(&t, sizeof t);
    fdp_arena_back(w->a, mark);
    return kept && fdp_settle_goes_on(w);
}

/* Settles a try; or settles a lane for which no accepted try is left, by further tries from the
 * lane's own extension blocks. */
int fdp_settle_tilted(fdp_settle_t *w, const uint64_t *words, fdp_i128_t *value)
{
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        w->count[0][i] = (uint32_t)(w->law->tilt.block[i] >> 32);
    }
    if (words[0] != 0) {
        return attempt(w, words[1], words[2], value);
    }
    for (uint32_t k = 1; k < MOST_TRIES && fdp_settle_goes_on(w); k++) {
        uint64_t two[2];
        w->base = 0;
        fdp_uniform_block(w, k << 24, two);
        w->base = (k << 24) + 1;
        const int kept = attempt(w, two[0], two[1], value);
        fdp_wipe(two, sizeof two);
        if (kept) {
            return 1;
        }
    }
    w->failed = true;
    return 0;
}
