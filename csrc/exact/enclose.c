/* enclose.c: enclosures of reals in fixed point. */
#include "enclose.h"

void fdp_fx_set_nat(const fdp_fx_t *f, uint64_t *x, fdp_nat_t n)
{
    const bool beyond = n.n > f->w || (n.n == f->w && n.d[n.n - 1] >> 63);
    f->a->vague |= beyond; /* the value must fit into FDP_FX_ROOM bits */
    memset(x, 0, f->w * sizeof *x);
    if (n.n != 0 && !beyond) {
        memcpy(x, n.d, n.n * sizeof *x);
    }
}

void fdp_fx_set_one(const fdp_fx_t *f, uint64_t *x)
{
    memset(x, 0, f->w * sizeof *x);
    x[f->bits / 64] = (uint64_t)1 << (f->bits % 64);
}

int fdp_fx_sign(const uint64_t *x, size_t w)
{
    return x[w - 1] >> 63 ? -1 : fdp_nat_trim(x, w) != 0;
}

int fdp_fx_compare(const uint64_t *x, const uint64_t *y, size_t w)
{
    const bool a = x[w - 1] >> 63, b = y[w - 1] >> 63;
    if (a != b) {
        return a ? -1 : 1;
    }
    for (size_t i = w; i-- > 0;) {
        if (x[i] != y[i]) {
            return x[i] < y[i] ? -1 : 1;
        }
    }
    return 0;
}

fdp_nat_t fdp_fx_nat(const fdp_fx_t *f, const uint64_t *x)
{
    return (fdp_nat_t){(uint64_t *)x, fdp_nat_trim(x, f->w)};
}

void fdp_fx_copy(const fdp_fx_t *f, uint64_t *out, const uint64_t *a)
{
    memcpy(out, a, 2 * f->w * sizeof *out);
}

static void one_up(uint64_t *x, size_t n, uint64_t by)
{
    for (size_t i = 0; i < n && by != 0; i++) {
        x[i] += by;
        by = x[i] < by;
    }
}

void fdp_fx_shift(uint64_t *out, size_t w, const uint64_t *x, size_t n, unsigned places,
                  bool up)
{
    const size_t whole = places / 64;
    const unsigned s = places % 64;
    uint64_t lost = 0;
    for (size_t i = 0; i < whole && i < n; i++) {
        lost |= x[i];
    }
    if (s != 0 && whole < n) {
        lost |= x[whole] << (64 - s);
    }
    for (size_t i = 0; i < w; i++) {
        const uint64_t here = whole + i < n ? x[whole + i] : 0;
        const uint64_t above = whole + i + 1 < n ? x[whole + i + 1] : 0;
        out[i] = s == 0 ? here : here >> s | above << (64 - s);
    }
    one_up(out, w, up && lost != 0);
}

static void product(const fdp_fx_t *f, uint64_t *out, const uint64_t *x, const uint64_t *y,
                    bool up)
{
    const size_t n = fdp_nat_trim(x, f->w), m = fdp_nat_trim(y, f->w);
    uint64_t *room = fdp_arena_take(f->a, 2 * f->w);
    if (room == NULL) {
        memset(out, 0, f->w * sizeof *out);
        return;
    }
    fdp_limbs_mul(room, x, n, y, m);
    fdp_fx_shift(out, f->w, room, n + m, f->bits, up);
    fdp_arena_back(f->a, f->a->used - 2 * f->w);
}

void fdp_fx_times(const fdp_fx_t *f, uint64_t *out, const uint64_t *a, const uint64_t *b)
{
    product(f, out, a, b, false);
    product(f, out + f->w, a + f->w, b + f->w, true);
}

void fdp_fx_over(const fdp_fx_t *f, uint64_t *out, const uint64_t *a, const uint64_t *b)
{
    const size_t mark = fdp_arena_mark(f->a);
    const fdp_nat_t low = fdp_fx_nat(f, b), high = fdp_fx_nat(f, b + f->w);
    if (low.n == 0 || high.n == 0) {
        f->a->vague = true;
        fdp_fx_set_nothing(f, out);
        return;
    }
    const fdp_nat_t least =
        fdp_nat_div(f->a, fdp_nat_left(f->a, fdp_fx_nat(f, a), f->bits), high, NULL);
    const fdp_nat_t most =
        fdp_nat_div_up(f->a, fdp_nat_left(f->a, fdp_fx_nat(f, a + f->w), f->bits), low);
    fdp_fx_set_nat(f, out, least);
    fdp_fx_set_nat(f, out + f->w, most);
    fdp_arena_back(f->a, mark);
}

void fdp_fx_less(const fdp_fx_t *f, uint64_t *out, const uint64_t *a)
{
    uint64_t *one = fdp_arena_take(f->a, 2 * f->w);
    if (one == NULL) {
        fdp_fx_set_nothing(f, out);
        return;
    }
    uint64_t *low = one + f->w;
    fdp_fx_set_one(f, one);
    fdp_limbs_sub(low, one, a + f->w, f->w);
    fdp_limbs_sub(out + f->w, one, a, f->w);
    memcpy(out, low, f->w * sizeof *out);
    fdp_arena_back(f->a, f->a->used - 2 * f->w);
}

void fdp_fx_add(const fdp_fx_t *f, uint64_t *out, const uint64_t *a, const uint64_t *b)
{
    fdp_limbs_add(out, a, b, f->w);
    fdp_limbs_add(out + f->w, a + f->w, b + f->w, f->w);
}

static void small_product(uint64_t *out, const uint64_t *x, size_t w, uint64_t y)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < w; i++) {
        const fdp_u128_t p = (fdp_u128_t)x[i] * y + carry;
        out[i] = (uint64_t)p;
        carry = (uint64_t)(p >> 64);
    }
}

void fdp_fx_scale(const fdp_fx_t *f, uint64_t *out, const uint64_t *a, uint64_t factor,
                  uint64_t divisor)
{
    const size_t w = f->w;
    small_product(out, a, w, factor);
    small_product(out + w, a + w, w, factor);
    if (divisor != 1) {
        fdp_limbs_div_limb(out, out, w, divisor);
        one_up(out + w, w, fdp_limbs_div_limb(out + w, out + w, w, divisor) != 0);
    }
}

void fdp_fx_left_over(const fdp_fx_t *f, uint64_t *out, const uint64_t *a, uint64_t factor,
                      uint64_t count)
{
    const size_t w = f->w;
    uint64_t *less = fdp_arena_take(f->a, w);
    if (less == NULL) {
        fdp_fx_set_nothing(f, out);
        return;
    }
    small_product(out, a, w, factor);
    small_product(out + w, a + w, w, factor);
    fdp_fx_set_one(f, less);
    small_product(less, less, w, count);
    fdp_limbs_sub(out, out, less, w);
    fdp_limbs_sub(out + w, out + w, less, w);
    if (fdp_fx_sign(out, w) < 0) {
        memset(out, 0, w * sizeof *out);
    }
    if (fdp_fx_sign(out + w, w) < 0) { /* impossible, because the number is positive */
        f->a->vague = true;
        fdp_fx_set_nothing(f, out);
    }
    fdp_arena_back(f->a, f->a->used - w);
}

void fdp_fx_half(const fdp_fx_t *f, uint64_t *out, const uint64_t *a)
{
    const size_t w = f->w;
    fdp_fx_shift(out, w, a, w, 1, false);
    fdp_fx_shift(out + w, w, a + w, w, 1, true);
}

static uint64_t floor_of(const fdp_fx_t *f, const uint64_t *x, unsigned to)
{
    const unsigned whole = f->bits / 64, part = f->bits % 64;
    uint64_t above = x[whole] >> part; /* at least 1 */
    for (size_t i = whole + 1; i < f->w; i++) {
        above |= x[i];
    }
    if (above != 0) {
        return to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    }
    uint64_t found = part == 0 ? x[whole - 1] : x[whole] << (64 - part);
    if (part != 0 && whole > 0) {
        found |= x[whole - 1] >> part;
    }
    return found >> (64 - to);
}

bool fdp_fx_floor(const fdp_fx_t *f, const uint64_t *pair, unsigned to, uint64_t *floor)
{
    *floor = floor_of(f, pair, to);
    return *floor == floor_of(f, pair + f->w, to);
}

/* ---- numbers ----------------------------------------------------------------- */

static unsigned root_of(unsigned x)
{
    unsigned r = 0;
    while ((r + 1) * (r + 1) <= x) {
        r++;
    }
    return r;
}

void fdp_fx_exp_neg(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den)
{
    fdp_arena_t *a = f->a;
    const unsigned bits = f->bits;
    const size_t mark = fdp_arena_mark(a), w = f->w;
    fdp_fx_set_nothing(f, out);
    if (num.n == 0) {
        fdp_fx_set_one(f, out);
        fdp_fx_set_one(f, out + w);
        return;
    }
    const fdp_nat_t whole = fdp_nat_div(a, num, den, NULL);
    if (a->failed) {
        return;
    }
    if (whole.n > 1 || (whole.n == 1 && whole.d[0] >= bits)) {
        out[w] = 1;
        fdp_arena_back(a, mark);
        return;
    }
    const unsigned steps = (root_of(bits) >> 1) + 2, halvings = steps + fdp_nat_bits(whole);
    const unsigned guard = halvings + fdp_fx_length(bits) + 6, point = bits + guard;
    const size_t p = point / 64 + 1;
    const fdp_nat_t z = fdp_nat_div(a, fdp_nat_left(a, num, point - halvings), den, NULL);
    uint64_t *value = fdp_arena_take(a, p), *term = fdp_arena_take(a, p),
             *room = fdp_arena_take(a, 2 * p);
    if (a->failed) {
        return;
    }
    memset(value, 0, p * sizeof *value);
    memset(term, 0, p * sizeof *term);
    value[point / 64] = (uint64_t)1 << (point % 64);
    if (z.n != 0) {
        memcpy(term, z.d, z.n * sizeof *term);
    }
    fdp_limbs_sub(value, value, term, p);
    size_t n = z.n; /* limbs of the term */
    uint64_t i = 1;
    while (n != 0) {
        i++;
        fdp_limbs_mul(room, term, n, z.d, z.n);
        const size_t all = n + z.n, gone = point / 64;
        n = all > gone ? all - gone : 0;
        fdp_fx_shift(term, n, room, all, point, false);
        n = fdp_nat_trim(term, n);
        fdp_limbs_div_limb(term, term, n, i);
        n = fdp_nat_trim(term, n);
        memset(term + n, 0, (p - n) * sizeof *term);
        if (i & 1) {
            fdp_limbs_sub(value, value, term, p);
        } else {
            fdp_limbs_add(value, value, term, p);
        }
    }
    for (unsigned h = 0; h < halvings; h++) {
        n = fdp_nat_trim(value, p);
        fdp_limbs_mul(room, value, n, value, n);
        fdp_fx_shift(value, p, room, 2 * n, point, false);
    }
    /* ulps = (2 i + 4) << halvings */
    uint64_t *ulps = term;
    memset(ulps, 0, p * sizeof *ulps);
    const uint64_t count = 2 * i + 4;
    ulps[halvings / 64] = count << (halvings % 64);
    if (halvings % 64 != 0) {
        ulps[halvings / 64 + 1] = count >> (64 - halvings % 64);
    }
    if (fdp_limbs_sub(room, value, ulps, p) != 0) {
        memset(room, 0, p * sizeof *room);
    }
    fdp_limbs_add(value, value, ulps, p);
    fdp_fx_shift(out, w, room, p, guard, false);
    fdp_fx_shift(out + w, w, value, p, guard, false);
    one_up(out + w, w, 1);
    uint64_t *one = room;
    fdp_fx_set_one(f, one);
    if (fdp_fx_compare(out + w, one, w) > 0) {
        memcpy(out + w, one, w * sizeof *out);
    }
    fdp_arena_back(a, mark);
}

void fdp_fx_flip(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, fdp_nat_t den)
{
    const size_t mark = fdp_arena_mark(f->a), w = f->w;
    uint64_t *q = fdp_fx_take(f, 1), *more = fdp_fx_take(f, 1);
    fdp_fx_set_nothing(f, out);
    if (more == NULL) {
        return;
    }
    fdp_fx_exp_neg(f, q, den, num);
    for (int side = 0; side < 2; side++) {
        uint64_t *one = more + (size_t)side * w;
        fdp_fx_set_one(f, one);
        fdp_limbs_add(one, one, q + (size_t)side * w, w);
        const fdp_nat_t top = fdp_nat_left(f->a, fdp_fx_nat(f, q + (size_t)side * w), f->bits);
        const fdp_nat_t low = fdp_fx_nat(f, one);
        if (f->a->failed) {
            return;
        }
        fdp_fx_set_nat(f, out + (size_t)side * w,
                       side ? fdp_nat_div_up(f->a, top, low)
                            : fdp_nat_div(f->a, top, low, NULL));
    }
    fdp_arena_back(f->a, mark);
}

void fdp_fx_negate(const fdp_fx_t *f, uint64_t *pair)
{
    for (size_t i = 0; i < f->w; i++) {
        const uint64_t low = pair[i];
        pair[i] = ~pair[f->w + i];
        pair[f->w + i] = ~low;
    }
    one_up(pair, f->w, 1);
    one_up(pair + f->w, f->w, 1);
}
