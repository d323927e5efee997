/* nat.c: natural numbers in limbs of 64 bits. */
#include "nat.h"

#include <math.h>

/* ---- memory ---------------------------------------------------------------- */

uint64_t *fdp_arena_take(fdp_arena_t *a, size_t n)
{
    if (a->failed || n > a->size - a->used) { /* once it has failed it stays failed, so the
                                               * caller may check once at the end */
        a->failed = true;
        return NULL;
    }
    uint64_t *d = a->base + a->used;
    a->used += n;
    if (a->used > a->most) {
        a->most = a->used;
    }
    return d;
}

/* ---- limbs ----------------------------------------------------------------- */

size_t fdp_nat_trim(const uint64_t *d, size_t n)
{
    while (n > 0 && d[n - 1] == 0) {
        n--;
    }
    return n;
}

uint64_t fdp_limbs_add(uint64_t *out, const uint64_t *x, const uint64_t *y, size_t n)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < n; i++) {
        const fdp_u128_t s = (fdp_u128_t)x[i] + y[i] + carry;
        out[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
    return carry;
}

uint64_t fdp_limbs_sub(uint64_t *out, const uint64_t *x, const uint64_t *y, size_t n)
{
    uint64_t borrow = 0;
    for (size_t i = 0; i < n; i++) {
        const fdp_u128_t s = (fdp_u128_t)x[i] - y[i] - borrow;
        out[i] = (uint64_t)s;
        borrow = (uint64_t)(s >> 64) & 1;
    }
    return borrow;
}

void fdp_limbs_mul(uint64_t *out, const uint64_t *x, size_t n, const uint64_t *y, size_t m)
{
    memset(out, 0, (n + m) * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < m; j++) {
            const fdp_u128_t s = (fdp_u128_t)x[i] * y[j] + out[i + j] + carry;
            out[i + j] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
        out[i + m] = carry;
    }
}

/* floor((2^128 - 1) / d) - 2^64 for d with its top bit set (Moeller, Granlund 2011). */
static uint64_t reciprocal(uint64_t d)
{
    return (uint64_t)(((fdp_u128_t)~d << 64 | ~(uint64_t)0) / d);
}

/* (high 2^64 + low) / d for high < d, by the reciprocal v. */
static inline uint64_t divide(uint64_t high, uint64_t low, uint64_t d, uint64_t v,
                              uint64_t *rest)
{
    const fdp_u128_t q = (fdp_u128_t)v * high + ((fdp_u128_t)high << 64 | low);
    uint64_t whole = (uint64_t)(q >> 64) + 1;
    uint64_t left = low - whole * d;
    if (left > (uint64_t)q) {
        whole--;
        left += d;
    }
    if (left >= d) {
        whole++;
        left -= d;
    }
    *rest = left;
    return whole;
}

uint64_t fdp_limbs_div_limb(uint64_t *out, const uint64_t *x, size_t n, uint64_t y)
{
    if (n == 0) {
        return 0;
    }
    const unsigned s = (unsigned)__builtin_clzll(y);
    const uint64_t d = y << s, v = reciprocal(d);
    uint64_t rest = s == 0 ? 0 : x[n - 1] >> (64 - s);
    for (size_t i = n; i-- > 0;) {
        const uint64_t below = s == 0 || i == 0 ? 0 : x[i - 1] >> (64 - s);
        out[i] = divide(rest, x[i] << s | below, d, v, &rest);
    }
    return rest >> s;
}

/* ---- numbers ----------------------------------------------------------------- */

static const fdp_nat_t nothing = {NULL, 0};

unsigned fdp_nat_bits(fdp_nat_t x)
{
    return x.n == 0 ? 0 : (unsigned)(64 * x.n - (size_t)__builtin_clzll(x.d[x.n - 1]));
}

int fdp_nat_compare(fdp_nat_t x, fdp_nat_t y)
{
    if (x.n != y.n) {
        return x.n < y.n ? -1 : 1;
    }
    for (size_t i = x.n; i-- > 0;) {
        if (x.d[i] != y.d[i]) {
            return x.d[i] < y.d[i] ? -1 : 1;
        }
    }
    return 0;
}

fdp_nat_t fdp_nat_of(fdp_arena_t *a, uint64_t x)
{
    uint64_t *d = fdp_arena_take(a, 1);
    if (d == NULL || x == 0) {
        return nothing;
    }
    d[0] = x;
    return (fdp_nat_t){d, 1};
}

fdp_nat_t fdp_nat_copy(fdp_arena_t *a, fdp_nat_t x)
{
    uint64_t *d = fdp_arena_take(a, x.n);
    if (d == NULL || x.n == 0) {
        return nothing;
    }
    memcpy(d, x.d, x.n * sizeof *d);
    return (fdp_nat_t){d, x.n};
}

fdp_nat_t fdp_nat_add(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y)
{
    if (x.n < y.n) {
        const fdp_nat_t z = x;
        x = y;
        y = z;
    }
    uint64_t *d = fdp_arena_take(a, x.n + 1);
    if (d == NULL) {
        return nothing;
    }
    uint64_t carry = fdp_limbs_add(d, x.d, y.d, y.n);
    for (size_t i = y.n; i < x.n; i++) {
        d[i] = x.d[i] + carry;
        carry = d[i] < carry;
    }
    d[x.n] = carry;
    return (fdp_nat_t){d, fdp_nat_trim(d, x.n + 1)};
}

fdp_nat_t fdp_nat_sub(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y)
{
    if (x.n < y.n) { /* happens only after a failure */
        a->failed = true;
        return nothing;
    }
    uint64_t *d = fdp_arena_take(a, x.n);
    if (d == NULL) {
        return nothing;
    }
    uint64_t borrow = fdp_limbs_sub(d, x.d, y.d, y.n);
    for (size_t i = y.n; i < x.n; i++) {
        d[i] = x.d[i] - borrow;
        borrow = x.d[i] < borrow;
    }
    return (fdp_nat_t){d, fdp_nat_trim(d, x.n)};
}

fdp_nat_t fdp_nat_mul(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y)
{
    uint64_t *d = fdp_arena_take(a, x.n + y.n);
    if (d == NULL || x.n == 0 || y.n == 0) {
        return nothing;
    }
    fdp_limbs_mul(d, x.d, x.n, y.d, y.n);
    return (fdp_nat_t){d, fdp_nat_trim(d, x.n + y.n)};
}

fdp_nat_t fdp_nat_left(fdp_arena_t *a, fdp_nat_t x, unsigned places)
{
    const size_t whole = places / 64;
    const unsigned s = places % 64;
    uint64_t *d = fdp_arena_take(a, x.n + whole + 1);
    if (d == NULL || x.n == 0) {
        return nothing;
    }
    memset(d, 0, whole * sizeof *d);
    d[whole] = x.d[0] << s;
    for (size_t i = 1; i < x.n; i++) {
        d[whole + i] = s == 0 ? x.d[i] : x.d[i] << s | x.d[i - 1] >> (64 - s);
    }
    d[whole + x.n] = s == 0 ? 0 : x.d[x.n - 1] >> (64 - s);
    return (fdp_nat_t){d, fdp_nat_trim(d, x.n + whole + 1)};
}

fdp_nat_t fdp_nat_right(fdp_arena_t *a, fdp_nat_t x, unsigned places)
{
    const size_t whole = places / 64;
    const unsigned s = places % 64;
    if (x.n <= whole) {
        return nothing;
    }
    const size_t n = x.n - whole;
    uint64_t *d = fdp_arena_take(a, n);
    if (d == NULL) {
        return nothing;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t above = i + 1 < n && s != 0 ? x.d[whole + i + 1] << (64 - s) : 0;
        d[i] = x.d[whole + i] >> s | above;
    }
    return (fdp_nat_t){d, fdp_nat_trim(d, n)};
}

fdp_nat_t fdp_nat_div_limb(fdp_arena_t *a, fdp_nat_t x, uint64_t y, uint64_t *rest)
{
    uint64_t *d = fdp_arena_take(a, x.n);
    if (d == NULL || x.n == 0) {
        *rest = 0;
        return nothing;
    }
    *rest = fdp_limbs_div_limb(d, x.d, x.n, y);
    return (fdp_nat_t){d, fdp_nat_trim(d, x.n)};
}

fdp_nat_t fdp_nat_div(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y, bool *exact)
{
    if (exact != NULL) {
        *exact = false;
    }
    if (y.n == 0) { /* happens only after a failure */
        a->failed = true;
        return nothing;
    }
    if (x.n < y.n) {
        if (exact != NULL) {
            *exact = x.n == 0;
        }
        return nothing;
    }
    if (y.n == 1) {
        uint64_t rest;
        const fdp_nat_t q = fdp_nat_div_limb(a, x, y.d[0], &rest);
        if (exact != NULL) {
            *exact = rest == 0;
        }
        return q;
    }
    /* Schoolbook division (Knuth, algorithm D): computes the quotient's limbs from the top. */
    const size_t n = y.n, m = x.n - n;
    uint64_t *q = fdp_arena_take(a, m + 1);
    const size_t mark = fdp_arena_mark(a);
    uint64_t *u = fdp_arena_take(a, x.n + 1), *w = fdp_arena_take(a, n);
    if (u == NULL || w == NULL || q == NULL) {
        return nothing;
    }
    const unsigned s = (unsigned)__builtin_clzll(y.d[n - 1]);
    u[x.n] = s == 0 ? 0 : x.d[x.n - 1] >> (64 - s);
    for (size_t i = x.n; i-- > 0;) {
        u[i] = s == 0 || i == 0 ? x.d[i] << s : x.d[i] << s | x.d[i - 1] >> (64 - s);
    }
    for (size_t i = n; i-- > 0;) {
        w[i] = s == 0 || i == 0 ? y.d[i] << s : y.d[i] << s | y.d[i - 1] >> (64 - s);
    }
    const uint64_t d = w[n - 1], e = w[n - 2], v = reciprocal(d);
    for (size_t j = m + 1; j-- > 0;) {
        uint64_t guess, rest;
        bool sure = false;
        if (u[j + n] >= d) { /* the leading limbs are equal */
            guess = ~(uint64_t)0;
            rest = u[j + n - 1] + d;
            sure = rest < d;
        } else {
            guess = divide(u[j + n], u[j + n - 1], d, v, &rest);
        }
        while (!sure && (fdp_u128_t)guess * e > ((fdp_u128_t)rest << 64 | u[j + n - 2])) {
            guess--;
            rest += d;
            sure = rest < d;
        }
        uint64_t carry = 0, borrow = 0;
        for (size_t i = 0; i < n; i++) {
            const fdp_u128_t p = (fdp_u128_t)guess * w[i] + carry;
            carry = (uint64_t)(p >> 64);
            const fdp_u128_t t = (fdp_u128_t)u[i + j] - (uint64_t)p - borrow;
            u[i + j] = (uint64_t)t;
            borrow = (uint64_t)(t >> 64) & 1;
        }
        const fdp_u128_t t = (fdp_u128_t)u[j + n] - carry - borrow;
        u[j + n] = (uint64_t)t;
        if ((uint64_t)(t >> 64) & 1) {
            guess--;
            u[j + n] += fdp_limbs_add(u + j, u + j, w, n);
        }
        q[j] = guess;
    }
    if (exact != NULL) {
        *exact = fdp_nat_trim(u, n) == 0;
    }
    fdp_arena_back(a, mark);
    return (fdp_nat_t){q, fdp_nat_trim(q, m + 1)};
}

fdp_nat_t fdp_nat_div_up(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y)
{
    bool exact;
    uint64_t *room = fdp_arena_take(a, x.n >= y.n ? x.n - y.n + 2 : 1);
    const size_t mark = fdp_arena_mark(a);
    const fdp_nat_t q = fdp_nat_div(a, x, y, &exact);
    uint64_t carry = !exact;
    if (room == NULL || a->failed) {
        return nothing;
    }
    for (size_t i = 0; i < q.n; i++) {
        room[i] = q.d[i] + carry;
        carry = room[i] < carry;
    }
    room[q.n] = carry;
    fdp_arena_back(a, mark);
    return (fdp_nat_t){room, q.n + (carry != 0)};
}

fdp_nat_t fdp_nat_root(fdp_arena_t *a, fdp_nat_t x)
{
    if (x.n == 0) {
        return nothing;
    }
    /* Newton's iteration from above, alternating between two buffers. */
    const unsigned half = (fdp_nat_bits(x) + 1) / 2;
    uint64_t *room[2] = {fdp_arena_take(a, x.n + 2), fdp_arena_take(a, x.n + 2)};
    if (room[0] == NULL || room[1] == NULL) {
        return nothing;
    }
    memset(room[0], 0, (x.n + 2) * sizeof(uint64_t));
    room[0][half / 64] = (uint64_t)1 << (half % 64);
    fdp_nat_t r = {room[0], half / 64 + 1};
    for (int turn = 1;; turn ^= 1) {
        const size_t mark = fdp_arena_mark(a);
        const fdp_nat_t next =
            fdp_nat_right(a, fdp_nat_add(a, r, fdp_nat_div(a, x, r, NULL)), 1);
        if (a->failed || fdp_nat_compare(next, r) >= 0) {
            fdp_arena_back(a, mark);
            return r;
        }
        memcpy(room[turn], next.d, next.n * sizeof(uint64_t));
        r = (fdp_nat_t){room[turn], next.n};
        fdp_arena_back(a, mark);
    }
}

double fdp_nat_quotient(fdp_arena_t *a, fdp_nat_t x, fdp_nat_t y)
{
    /* q = floor(x 2^s / y) has 55 or 56 bits; its last bit is set if there is a remainder. */
    const size_t mark = fdp_arena_mark(a);
    const int s = 55 - (int)fdp_nat_bits(x) + (int)fdp_nat_bits(y);
    bool exact;
    const fdp_nat_t top = s > 0 ? fdp_nat_left(a, x, (unsigned)s) : x;
    const fdp_nat_t low = s < 0 ? fdp_nat_left(a, y, (unsigned)-s) : y;
    const fdp_nat_t q = fdp_nat_div(a, top, low, &exact);
    if (a->failed || q.n != 1) {
        fdp_arena_back(a, mark);
        return 0.0;
    }
    uint64_t w = q.d[0];
    const int more = w >> 55 ? 3 : 2; /* drop 3 of 56 bits or 2 of 55, to get 53 */
    const uint64_t unit = (uint64_t)1 << more, rest = w & (unit - 1);
    w >>= more;
    w += rest > unit / 2 || (rest == unit / 2 && (!exact || (w & 1)));
    fdp_arena_back(a, mark);
    return ldexp((double)w, more - s);
}

double fdp_nat_log(fdp_nat_t x)
{
    const unsigned bits = fdp_nat_bits(x);
    if (bits == 0) {
        return -INFINITY;
    }
    double m = (double)x.d[x.n - 1];
    if (x.n > 1) {
        m += (double)x.d[x.n - 2] * 0x1p-64;
    }
    return log(m) + (double)(64 * (x.n - 1)) * 0.69314718055994530942;
}
