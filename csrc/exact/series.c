/* series.c: enclosures of sqrt(2 pi), of logarithms and of cosines, by sums of series. */
#include "enclose.h"

/* arctan(1/n) 2^point, and the number of the last term, as in exact_tilt.root_two_pi. */
static fdp_nat_t arctan(fdp_arena_t *a, uint64_t n, unsigned point, uint64_t *last)
{
    uint64_t rest;
    fdp_nat_t term = fdp_nat_div_limb(a, fdp_nat_left(a, fdp_nat_of(a, 1), point), n, &rest);
    fdp_nat_t total = fdp_nat_copy(a, term);
    const size_t room = total.n + 1;
    uint64_t k = 1;
    uint64_t *two[2] = {fdp_arena_take(a, room), fdp_arena_take(a, room)};
    uint64_t *sum[2] = {fdp_arena_take(a, room), fdp_arena_take(a, room)};
    int turn = 0;
    while (term.n != 0 && !a->failed) {
        const size_t mark = fdp_arena_mark(a);
        const fdp_nat_t next = fdp_nat_div_limb(a, term, n * n, &rest);
        k += 2;
        const fdp_nat_t part = fdp_nat_div_limb(a, next, k, &rest);
        const fdp_nat_t both =
            k & 2 ? fdp_nat_sub(a, total, part) : fdp_nat_add(a, total, part);
        if (a->failed) {
            break;
        }
        memcpy(two[turn], next.d, next.n * sizeof(uint64_t));
        memcpy(sum[turn], both.d, both.n * sizeof(uint64_t));
        term = (fdp_nat_t){two[turn], next.n};
        total = (fdp_nat_t){sum[turn], both.n};
        turn ^= 1;
        fdp_arena_back(a, mark);
    }
    *last = k;
    return total;
}

void fdp_fx_root_two_pi(const fdp_fx_t *f, uint64_t *out)
{
    fdp_arena_t *a = f->a;
    const size_t mark = fdp_arena_mark(a);
    const unsigned point = f->bits + 32;
    uint64_t i, k;
    fdp_fx_set_nothing(f, out);
    const fdp_nat_t first = arctan(a, 5, point, &i), second = arctan(a, 239, point, &k);
    const fdp_nat_t pi = fdp_nat_left(a, fdp_nat_sub(a, fdp_nat_left(a, first, 2), second), 2);
    const fdp_nat_t error = fdp_nat_of(a, 16 * i + 4 * k);
    const fdp_nat_t low = fdp_nat_left(a, fdp_nat_sub(a, pi, error), point + 1);
    const fdp_nat_t high = fdp_nat_left(a, fdp_nat_add(a, pi, error), point + 1);
    if (a->failed) {
        return;
    }
    fdp_fx_set_nat(f, out, fdp_nat_right(a, fdp_nat_root(a, low), 32));
    fdp_fx_set_nat(
        f, out + f->w,
        fdp_nat_add(a, fdp_nat_right(a, fdp_nat_root(a, high), 32), fdp_nat_of(a, 2)));
    fdp_arena_back(a, mark);
}

/* 2 atanh(top / bottom) 2^point for a quotient in [0, 1/3], in point / 64 + 1 limbs. The error is
 * at most *ulps = 2 (3 n + 5) for n terms: the floors, and the rest of the series. */
static uint64_t *log_series(fdp_arena_t *a, fdp_nat_t top, fdp_nat_t bottom, unsigned point,
                            uint64_t *ulps)
{
    const size_t p = point / 64 + 1;
    uint64_t *total = fdp_arena_take(a, p), *term = fdp_arena_take(a, p);
    uint64_t *square = fdp_arena_take(a, p), *room = fdp_arena_take(a, 2 * p);
    const fdp_nat_t z = fdp_nat_div(a, fdp_nat_left(a, top, point), bottom, NULL);
    uint64_t n = 0;
    *ulps = 0;
    if (a->failed) {
        return total;
    }
    memset(total, 0, p * sizeof *total);
    memset(term, 0, p * sizeof *term);
    if (z.n != 0) {
        memcpy(term, z.d, z.n * sizeof *term);
    }
    fdp_limbs_mul(room, term, p, term, p);
    fdp_fx_shift(square, p, room, 2 * p, point, false);
    for (size_t limbs = z.n; limbs != 0; limbs = fdp_nat_trim(term, limbs), n++) {
        fdp_limbs_div_limb(room, term, limbs, 2 * n + 1);
        memset(room + limbs, 0, (p - limbs) * sizeof *room);
        fdp_limbs_add(total, total, room, p);
        fdp_limbs_mul(room, term, limbs, square, p);
        fdp_fx_shift(term, limbs, room, limbs + p, point, false);
    }
    fdp_limbs_add(total, total, total, p);
    *ulps = 2 * (3 * n + 5);
    return total;
}

void fdp_fx_log(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den)
{
    fdp_arena_t *a = f->a;
    const size_t mark = fdp_arena_mark(a), w = f->w;
    fdp_fx_set_nothing(f, out);
    /* 2^power m, 1 <= m < 2 */
    unsigned power = fdp_nat_bits(num) - fdp_nat_bits(den);
    power -= fdp_nat_compare(num, fdp_nat_left(a, den, power)) < 0;
    const unsigned guard = fdp_fx_length(f->bits) + fdp_fx_length(power) + 12, point = f->bits + guard;
    const fdp_nat_t low = fdp_nat_left(a, den, power);
    const size_t p = point / 64 + 1;
    uint64_t ulps, more = 0;
    const uint64_t *part =
        log_series(a, fdp_nat_sub(a, num, low), fdp_nat_add(a, num, low), point, &ulps);
    uint64_t *total = fdp_arena_take(a, w + p), *error = fdp_arena_take(a, w + p);
    if (a->failed) {
        return;
    }
    memset(total, 0, (w + p) * sizeof *total);
    memset(error, 0, (w + p) * sizeof *error);
    if (power != 0) {
        const uint64_t *two = log_series(a, fdp_nat_of(a, 1), fdp_nat_of(a, 3), point, &more);
        if (a->failed) {
            return;
        }
        const uint64_t times = power;
        fdp_limbs_mul(total, two, p, &times, 1);
    }
    memcpy(error, part, p * sizeof *part);
    fdp_limbs_add(total, total, error, w + p);
    memset(error, 0, (w + p) * sizeof *error);
    error[0] = ulps + power * more;
    uint64_t *high = fdp_arena_take(a, w + p);
    if (high == NULL) {
        return;
    }
    fdp_limbs_add(high, total, error, w + p);
    if (fdp_limbs_sub(total, total, error, w + p) != 0) {
        memset(total, 0, (w + p) * sizeof *total);
    }
    fdp_fx_shift(out, w, total, w + p, guard, false);
    fdp_fx_shift(out + w, w, high, w + p, guard, true);
    fdp_arena_back(a, mark);
}

void fdp_fx_log_signed(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den)
{
    if (fdp_nat_compare(num, den) >= 0) {
        fdp_fx_log(f, out, num, den);
    } else {
        fdp_fx_log(f, out, den, num);
        fdp_fx_negate(f, out);
    }
}

void fdp_fx_cos_quarter(const fdp_fx_t *f, uint64_t *out, fdp_nat_t part, unsigned nbits)
{
    fdp_arena_t *a = f->a;
    const size_t mark = fdp_arena_mark(a), w = f->w;
    const unsigned guard = fdp_fx_length(f->bits) + 12, point = f->bits + guard;
    const size_t p = point / 64 + 2; /* one bit more, because the sums may be negative */
    uint64_t i, k, n = 0;
    fdp_fx_set_nothing(f, out);
    const fdp_nat_t first = arctan(a, 5, point, &i), second = arctan(a, 239, point, &k);
    /* pi / 2 = 8 arctan(1/5) - 2 arctan(1/239), with an error of at most 8 i + 2 k units */
    const fdp_nat_t half =
        fdp_nat_sub(a, fdp_nat_left(a, first, 3), fdp_nat_left(a, second, 1));
    const fdp_nat_t angle = fdp_nat_right(a, fdp_nat_mul(a, half, part), nbits);
    const fdp_nat_t square = fdp_nat_right(a, fdp_nat_mul(a, angle, angle), point);
    uint64_t *total = fdp_arena_take(a, p), *term = fdp_arena_take(a, p);
    uint64_t *room = fdp_arena_take(a, 2 * p);
    if (a->failed) {
        return;
    }
    memset(total, 0, p * sizeof *total);
    memset(term, 0, p * sizeof *term);
    term[point / 64] = (uint64_t)1 << (point % 64);
    for (size_t limbs = p; fdp_nat_trim(term, limbs) != 0; n++) {
        if (n & 1) {
            fdp_limbs_sub(total, total, term, p);
        } else {
            fdp_limbs_add(total, total, term, p);
        }
        fdp_limbs_mul(room, term, p, square.d, square.n);
        fdp_fx_shift(term, p, room, p + square.n, point, false);
        fdp_limbs_div_limb(term, term, p, (2 * n + 1) * (2 * n + 2));
    }
    /* The error: floors, the rest of the series, and the error of the angle (|cos'| <= 1). */
    memset(term, 0, p * sizeof *term);
    term[0] = 6 * n + 6 + 8 * i + 2 * k + 2;
    fdp_limbs_sub(room, total, term, p);
    fdp_limbs_add(total, total, term, p);
    if (fdp_fx_sign(room, p) < 0) {
        memset(room, 0, p * sizeof *room);
    }
    if (fdp_fx_sign(total, p) < 0) { /* impossible */
        a->vague = true;
        memset(total, 0, p * sizeof *total);
    }
    fdp_fx_shift(out, w, room, p, guard, false);
    fdp_fx_shift(out + w, w, total, p, guard, true);
    fdp_arena_back(a, mark);
}
