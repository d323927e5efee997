/* law_laplace.c: the tables of the discrete Laplace law, all computed from one exponential. */
#include "law.h"

#define DIGIT 5 /* most bits of the second digit */
#define SPARE 3 /* low bits stored in the same byte */
#define HUGE_INVERSE 1e300
#define LEAST_PART 100 /* a bound is at least scale / this: else a draw takes too many passes */

typedef struct {
    fdp_nat_t num, den; /* the scale t */
    uint32_t shift, low, outcomes;
} scale_t;

static void set_ones(const fdp_fx_t *f, uint64_t *out)
{
    fdp_fx_set_one(f, out);
    fdp_fx_set_one(f, out + f->w);
}

/* q^i, i < n */
static void powers(const fdp_fx_t *f, const uint64_t *q, size_t n, uint64_t *out)
{
    set_ones(f, out);
    for (size_t i = 1; i < n; i++) {
        fdp_fx_times(f, fdp_fx_lo(f, out, i), fdp_fx_lo(f, out, i - 1), q);
    }
}

/* The first digit's law, of 128 outcomes: q = exp(-2^shift / t). */
void fdp_laplace_first(const fdp_fx_t *f, const uint64_t *theta, const uint64_t *q,
                       uint64_t *out)
{
    const size_t mark = fdp_arena_mark(f->a);
    uint64_t *power = fdp_fx_take(f, 64), *part = fdp_fx_take(f, 3);
    if (part == NULL) {
        return;
    }
    uint64_t *up = fdp_fx_lo(f, part, 1), *down = fdp_fx_lo(f, part, 2);
    powers(f, q, 64, power);
    fdp_fx_less(f, part, q);
    fdp_fx_less(f, up, theta);
    fdp_fx_times(f, up, up, part);
    fdp_fx_times(f, down, theta, part);
    fdp_fx_half(f, out, fdp_fx_lo(f, power, 63)); /* one half for each tail */
    fdp_fx_copy(f, fdp_fx_lo(f, out, 127), out);
    for (size_t v = 0; v < 63; v++) {
        fdp_fx_times(f, fdp_fx_lo(f, out, 64 + v), up, fdp_fx_lo(f, power, v));
        fdp_fx_times(f, fdp_fx_lo(f, out, 63 - v), down, fdp_fx_lo(f, power, v));
    }
    fdp_arena_back(f->a, mark);
}

/* P(D = d), in proportion to q^d: q = exp(-2^low / t). */
void fdp_laplace_second(const fdp_fx_t *f, const uint64_t *q, size_t n, uint64_t *out)
{
    const size_t mark = fdp_arena_mark(f->a);
    uint64_t *total = fdp_fx_take(f, 1);
    if (total == NULL) {
        return;
    }
    memset(total, 0, 2 * f->w * sizeof *total);
    powers(f, q, n, out);
    for (size_t d = 0; d < n; d++) {
        fdp_fx_add(f, total, total, fdp_fx_lo(f, out, d));
    }
    for (size_t d = 0; d < n; d++) {
        fdp_fx_over(f, fdp_fx_lo(f, out, d), fdp_fx_lo(f, out, d), total);
    }
    fdp_arena_back(f->a, mark);
}

/* one[k] = P(c_k = 1) = tanh(2^k / 2t); some[k] = P(one of c_k, c_(k+1), ... is 1); none = P(no c_k
 * is 1). The ladder has exp(-2^k / t). */
void fdp_laplace_corrections(const fdp_fx_t *f, const uint64_t *ladder, size_t low,
                             uint64_t *one, uint64_t *some, uint64_t *none)
{
    const size_t mark = fdp_arena_mark(f->a), p = 2 * f->w;
    uint64_t *x = fdp_fx_take(f, 2);
    if (x == NULL) {
        return;
    }
    set_ones(f, none);
    for (size_t k = low; k-- > 0;) {
        fdp_fx_less(f, x, ladder + k * p);
        set_ones(f, x + p);
        fdp_fx_add(f, x + p, x + p, ladder + k * p);
        fdp_fx_over(f, one + k * p, x, x + p);
        fdp_fx_less(f, x, one + k * p);
        fdp_fx_times(f, none, none, x);
        fdp_fx_less(f, some + k * p, none);
    }
    fdp_arena_back(f->a, mark);
}

/* ---- tables ------------------------------------------------------------------ */

/* The thresholds for choosing a correction: of all sets if there are few low bits, else of the
 * highest set bit. */
void fdp_laplace_tops(const fdp_fx_t *f, size_t low, const uint64_t *one,
                      const uint64_t *some, uint32_t units, uint64_t *out)
{
    const size_t p = 2 * f->w, mark = fdp_arena_mark(f->a);
    const uint32_t tops = low <= SPARE ? (1u << low) - 1 : (uint32_t)low;
    uint64_t *sum = fdp_fx_take(f, 1), *part = fdp_fx_take(f, 1), *less = fdp_fx_take(f, 1);
    if (less == NULL) {
        return;
    }
    memset(sum, 0, p * sizeof *sum);
    for (uint32_t i = 0; i < tops; i++) {
        if (low > SPARE) {
            fdp_fx_copy(f, sum, some + (low - 1 - i) * p);
        } else {
            set_ones(f, part);
            for (size_t k = 0; k < low; k++) {
                fdp_fx_less(f, less, one + k * p);
                fdp_fx_times(f, part, part, (tops - i) >> k & 1 ? one + k * p : less);
            }
            fdp_fx_add(f, sum, sum, part);
        }
        fdp_fx_scale(f, out + i * p, sum, 1 << 13, units);
    }
    fdp_arena_back(f->a, mark);
}

static bool low_bits(const fdp_fx_t *f, const scale_t *t, const uint64_t *one,
                     const uint64_t *some, uint32_t units, fdp_digits_t *law)
{
    const size_t p = 2 * f->w, low = t->low, mark = fdp_arena_mark(f->a);
    law->tops = low <= SPARE ? (1u << low) - 1 : (uint32_t)low;
    uint64_t *top = fdp_fx_take(f, law->tops);
    if (top == NULL) {
        return false;
    }
    bool sure = true;
    fdp_laplace_tops(f, low, one, some, units, top);
    for (uint32_t i = 0; i < law->tops && sure; i++) {
        law->mask[i] = low > SPARE ? UINT64_C(1) << (low - 1 - i) : law->tops - i;
        sure &= low <= SPARE || fdp_fx_floor(f, some + (low - 1 - i) * p, 64, &law->copy[i]);
        sure &= fdp_fx_floor(f, top + i * p, 64, &law->top[i]);
    }
    fdp_arena_back(f->a, mark);
    return sure && !f->a->failed;
}

static bool second_digit(const fdp_fx_t *f, const scale_t *t, const uint64_t *ladder,
                         fdp_digits_t *law)
{
    const size_t p = 2 * f->w, n = t->outcomes, low = t->low;
    uint64_t *digit = fdp_fx_take(f, n), *left = fdp_fx_take(f, n);
    uint64_t *one = fdp_fx_take(f, low + 1), *some = fdp_fx_take(f, low + 1);
    uint64_t *none = fdp_fx_take(f, 1), *rest = fdp_fx_take(f, 1);
    if (rest == NULL) {
        return false;
    }
    fdp_laplace_second(f, ladder + low * p, n, digit);
    fdp_laplace_corrections(f, ladder, low, one, some, none);
    uint32_t count[1 << DIGIT] = {0}, units = 1 << 13;
    bool sure = !f->a->failed;
    for (size_t d = 0; d < n && sure; d++) {
        uint64_t floor;
        fdp_fx_times(f, left + d * p, none, digit + d * p);
        sure &= fdp_fx_floor(f, left + d * p, 13, &floor);
        count[d] = (uint32_t)floor;
        units -= count[d];
    }
    if (!sure) {
        return false;
    }
    fdp_alias_counts(1 << DIGIT, count, law->second.cut, law->second.alias);
    law->special[1] = (double)units / 8192.0;
    /* the mass left for digits without a correction */
    fdp_fx_left_over(f, rest, none, 1 << 13, (1 << 13) - units);
    for (size_t d = 0; d < n; d++) {
        fdp_fx_left_over(f, left + d * p, left + d * p, 1 << 13, count[d]);
        fdp_fx_over(f, left + d * p, left + d * p, rest);
        fdp_fx_scale(f, left + d * p, left + d * p, n, 1);
        fdp_fx_scale(f, digit + d * p, digit + d * p, n, 1);
    }
    return !f->a->vague && fdp_alias_table(f, n, left, law->second_rest) &&
           (low == 0 || (fdp_alias_table(f, n, digit, law->second_whole) &&
                         low_bits(f, t, one, some, units, law)));
}

static bool attempt(const fdp_fx_t *f, const scale_t *t, fdp_digits_t *law)
{
    const size_t p = 2 * f->w;
    uint64_t *ladder = fdp_fx_take(f, t->shift + 1), *theta = fdp_fx_take(f, 1);
    uint64_t *whole = fdp_fx_take(f, 1), *first = fdp_fx_take(f, FDP_COLUMNS);
    if (first == NULL) {
        return false;
    }
    fdp_fx_exp_neg(f, ladder, t->den, t->num);
    for (size_t k = 0; k < t->shift; k++) {
        fdp_fx_times(f, ladder + (k + 1) * p, ladder + k * p, ladder + k * p);
    }
    set_ones(f, whole);
    fdp_fx_add(f, whole, whole, ladder);
    fdp_fx_over(f, theta, ladder, whole);
    fdp_laplace_first(f, theta, ladder + t->shift * p, first);
    return !f->a->failed && fdp_fx_floor(f, theta, 64, &law->tail.theta) &&
           fdp_alias_first(f, first, 2, law) &&
           (t->shift == 0 || second_digit(f, t, ladder, law));
}

/* 1 + q and min(1 + 1/q, HUGE_INVERSE), rounded to nearest. */
static bool inverses(const fdp_fx_t *f, const scale_t *t, bool steep, fdp_geometric_t *tail)
{
    fdp_arena_t *a = f->a;
    const size_t w = f->w;
    uint64_t *q = fdp_fx_take(f, 1), *sum = fdp_fx_take(f, 1), *one = fdp_arena_take(a, w);
    if (one == NULL) {
        return false;
    }
    fdp_fx_exp_neg(f, q, t->den, t->num);
    fdp_fx_set_one(f, one);
    fdp_limbs_add(sum, q, one, w);
    fdp_limbs_add(sum + w, q + w, one, w);
    const fdp_nat_t unit = fdp_fx_nat(f, one), least = fdp_fx_nat(f, q);
    const fdp_nat_t low = fdp_fx_nat(f, sum), high = fdp_fx_nat(f, sum + w);
    tail->inverse_w0 = fdp_nat_quotient(a, low, unit);
    tail->inverse_w1 = HUGE_INVERSE;
    bool sure = tail->inverse_w0 == fdp_nat_quotient(a, high, unit);
    if (!steep && least.n == 0) {
        return false;
    }
    if (!steep) {
        const double x = fdp_nat_quotient(a, low, least);
        const double y = fdp_nat_quotient(a, high, fdp_fx_nat(f, q + w));
        tail->inverse_w1 = x < HUGE_INVERSE ? x : HUGE_INVERSE;
        sure &= tail->inverse_w1 == (y < HUGE_INVERSE ? y : HUGE_INVERSE);
    }
    return sure;
}

/* Whether the scale is between 1e-6 (as a double) and 2^55. */
static bool in_range(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den)
{
    const fdp_nat_t least = fdp_nat_mul(a, fdp_nat_of(a, 0x10c6f7a0b5ed8d), den);
    return fdp_nat_compare(fdp_nat_left(a, num, 72), least) >= 0 &&
           fdp_nat_compare(num, fdp_nat_left(a, den, 55)) <= 0;
}

fdp_status_t fdp_law_laplace(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, fdp_digits_t *law)
{
    const size_t start = fdp_arena_mark(a);
    const bool fits = in_range(a, num, den);
    if (!fits || a->failed) {
        return a->failed ? FDP_ERR_MEMORY : FDP_ERR_PARAMETER;
    }
    scale_t t = {.num = num, .den = den};
    const fdp_nat_t ten = fdp_nat_mul(a, fdp_nat_of(a, 10), den);
    while (!a->failed && fdp_nat_compare(num, fdp_nat_left(a, ten, t.shift)) > 0) {
        t.shift++;
    }
    t.low = t.shift > DIGIT ? t.shift - DIGIT : 0;
    t.outcomes = 1u << (t.shift < DIGIT ? t.shift : DIGIT);
    law->shift = t.shift;
    law->low = t.low;
    law->tails = 1;
    law->tail.scale = fdp_nat_quotient(a, num, fdp_nat_left(a, den, t.shift));
    const fdp_nat_t floor = fdp_nat_div(a, den, num, NULL);
    const unsigned rate = floor.n == 0 ? 0 : (unsigned)floor.d[0]; /* at most 10^6 */
    /* exp(691) = 1.2e300 */
    const bool steep = fdp_nat_compare(den, fdp_nat_mul(a, fdp_nat_of(a, 691), num)) > 0;
    fdp_arena_back(a, start);
    /* each step of the ladder doubles the error */
    unsigned bits = t.shift > 40 ? 215 : 151;
    bool sure = false;
    for (; !sure && bits <= FDP_LAW_BITS && !a->failed; bits = 2 * bits + 40) {
        const fdp_fx_t f = fdp_fx_at(a, bits);
        a->vague = false;
        sure = attempt(&f, &t, law) && !a->vague;
        fdp_arena_back(a, start);
    }
    bool near = false;
    for (bits = 128 + (steep ? 0 : 2 * rate); sure && !near && bits <= FDP_LAW_BITS;
         bits += 64) {
        const fdp_fx_t f = fdp_fx_at(a, bits);
        near = inverses(&f, &t, steep, &law->tail);
        sure = !a->failed;
        fdp_arena_back(a, start);
    }
    return near ? FDP_OK : a->failed ? FDP_ERR_MEMORY : FDP_ERR_RESOLVER;
}

/* P(|X| > bound) = 2 q^(bound + 1) / (1 + q), q = exp(-1 / t). */
fdp_status_t fdp_laplace_within(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, uint64_t bound,
                                uint64_t *within)
{
    const size_t start = fdp_arena_mark(a);
    const fdp_nat_t most = fdp_nat_mul(a, fdp_nat_mul(a, fdp_nat_of(a, bound), den),
                                       fdp_nat_of(a, LEAST_PART));
    if (!a->failed && fdp_nat_compare(num, most) > 0) {
        return FDP_ERR_PARAMETER;
    }
    bool sure = false;
    for (unsigned bits = 128; !sure && bits <= FDP_LAW_BITS && !a->failed; bits *= 2) {
        const fdp_fx_t f = fdp_fx_at(a, bits);
        uint64_t *far = fdp_fx_take(&f, 1), *whole = fdp_fx_take(&f, 1), *q = fdp_fx_take(&f, 1);
        const fdp_nat_t steps = fdp_nat_mul(a, fdp_nat_of(a, bound + 1), den);
        uint64_t floor = 0;
        a->vague = false;
        if (!a->failed) {
            fdp_fx_exp_neg(&f, far, steps, num);
            fdp_fx_exp_neg(&f, q, den, num);
            set_ones(&f, whole);
            fdp_fx_add(&f, whole, whole, q);
            fdp_fx_over(&f, far, far, whole);
            fdp_fx_scale(&f, far, far, 2, 1);
            sure = !a->failed && !a->vague && fdp_fx_floor(&f, far, 54, &floor);
        }
        *within = (UINT64_C(1) << 53) - (floor + 1) / 2;
        *within += *within == 0;
        fdp_arena_back(a, start);
    }
    return sure ? FDP_OK : a->failed ? FDP_ERR_MEMORY : FDP_ERR_RESOLVER;
}
