/* law_settle.c: settles lanes of digits, for Laplace laws and for Gaussian laws of small sigma. */
#include "resolver.h"

#include "../base/wipe.h"

#define COPIES 4
#define MOST_COPIES 1024 /* More copies than this are needed with a probability below 2^-1000;
                          * then the trial fails. */
#define SPARE 3

enum { FIRST = 0, SECOND = 1, WHOLE = 2 };

/* ---- digits ------------------------------------------------------------------- */

/* Counts the units that the integer columns give each outcome, and the units left over. */
static void count_columns(const fdp_columns_t *from, uint32_t n, uint32_t turn,
                          uint32_t *count, uint32_t *units)
{
    memset(count, 0, FDP_COLUMNS * sizeof *count);
    *units = 0;
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t part = (uint32_t)from->cut[c] + 1, alias = from->alias[c];
        count[c] += 256 - part;
        if (alias == FDP_SPECIAL) {
            *units += part;
        } else {
            count[(alias + turn) % 128] += part;
        }
    }
}

static uint32_t second_outcomes(const fdp_settle_t *w) { return 1u << (w->t.shift - w->t.low); }

/* exp(-2^k / t) */
static void enclose_rung(fdp_settle_t *w, const fdp_fx_t *f, uint32_t k, uint64_t *out)
{
    const size_t mark = fdp_arena_mark(w->a);
    const fdp_nat_t top = fdp_nat_left(w->a, w->t.den, k);
    if (!w->a->failed) {
        fdp_fx_exp_neg(f, out, top, w->t.num);
    }
    fdp_arena_back(w->a, mark);
}

/* Encloses `one`, `some` and `none` of the low bits, as in law.h; they have low + 1, low + 1 and
 * one pairs. Each exp(-2^k / t) is the square of the one before. */
static void enclose_corrections(fdp_settle_t *w, const fdp_fx_t *f, uint64_t *one, uint64_t *some,
                                uint64_t *none)
{
    const size_t mark = fdp_arena_mark(w->a);
    uint64_t *ladder = fdp_fx_take(f, w->t.low + 1);
    if (ladder == NULL) {
        return;
    }
    enclose_rung(w, f, 0, ladder);
    for (uint32_t k = 1; k < w->t.low; k++) {
        const uint64_t *last = fdp_fx_lo(f, ladder, k - 1);
        fdp_fx_times(f, fdp_fx_lo(f, ladder, k), last, last);
    }
    if (!w->a->failed) {
        fdp_laplace_corrections(f, ladder, w->t.low, one, some, none);
    }
    fdp_arena_back(w->a, mark);
}

static void first_masses(fdp_settle_t *w, const fdp_fx_t *f, uint64_t *out)
{
    if (w->law->tails == 0) {
        fdp_gaussian_first(f, w->t.num2, w->t.den2, out);
    } else {
        uint64_t *theta = fdp_fx_take(f, 1), *q = fdp_fx_take(f, 1);
        if (q == NULL) {
            return;
        }
        fdp_fx_flip(f, theta, w->t.num, w->t.den);
        enclose_rung(w, f, w->t.shift, q);
        if (!w->a->failed) {
            fdp_laplace_first(f, theta, q, out);
        }
    }
    if (!w->a->failed) {
        fdp_alias_masses(f, out, w->count[0]);
    }
}

static void second_masses(fdp_settle_t *w, const fdp_fx_t *f, bool whole, uint64_t *out)
{
    const uint32_t n = second_outcomes(w);
    uint64_t *q = fdp_fx_take(f, 1), *none = fdp_fx_take(f, 1), *rest = fdp_fx_take(f, 1);
    uint64_t *one = fdp_fx_take(f, w->t.low + 1), *some = fdp_fx_take(f, w->t.low + 1);
    if (some == NULL) {
        return;
    }
    enclose_rung(w, f, w->t.low, q);
    if (w->a->failed) {
        return;
    }
    fdp_laplace_second(f, q, n, out);
    if (!whole) {
        enclose_corrections(w, f, one, some, none);
        if (w->a->failed) {
            return;
        }
        fdp_fx_left_over(f, rest, none, 1 << 13, (1 << 13) - w->units[1]);
    }
    for (uint32_t d = 0; d < n && !w->a->failed; d++) {
        uint64_t *mass = fdp_fx_lo(f, out, d);
        if (!whole) {
            fdp_fx_times(f, mass, none, mass);
            fdp_fx_left_over(f, mass, mass, 1 << 13, w->count[1][d]);
            fdp_fx_over(f, mass, mass, rest);
        }
        fdp_fx_scale(f, mass, mass, n, 1);
    }
}

static const uint64_t *entries_of(const fdp_settle_t *w, int which, uint32_t *n)
{
    *n = which == FIRST ? FDP_COLUMNS : second_outcomes(w);
    return which == FIRST    ? w->law->first_rest
           : which == SECOND ? w->law->second_rest
                             : w->law->second_whole;
}

/* Encloses the cut of column k. */
static void cut_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                      uint64_t *out)
{
    const int which = *(const int *)what;
    uint32_t n;
    uint8_t alias[FDP_COLUMNS];
    const uint64_t *entry = entries_of(w, which, &n);
    uint64_t *mass = fdp_fx_take(f, n), *cut = fdp_fx_take(f, n);
    if (cut == NULL) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        alias[i] = (uint8_t)entry[i];
    }
    if (which == FIRST) {
        first_masses(w, f, mass);
    } else {
        second_masses(w, f, which == WHOLE, mass);
    }
    if (!w->a->failed) {
        fdp_alias_cuts(f, n, alias, mass, cut);
        fdp_fx_copy(f, out, fdp_fx_lo(f, cut, (size_t)k));
    }
}

/* The outcome of a word: its first byte chooses the column, and the rest is a uniform of at least
 * 56 bits. */
static uint32_t outcome_of(fdp_settle_t *w, int which, bool known, uint64_t word, uint32_t start)
{
    uint32_t n;
    uint64_t two[2] = {word, 0};
    const uint64_t *entry = entries_of(w, which, &n);
    if (!known) {
        fdp_uniform_block(w, start, two);
    }
    const uint32_t column = (uint32_t)(two[0] % n);
    const size_t mark = fdp_arena_mark(w->a);
    fdp_uniform_t u = fdp_uniform_open(w, two[0] >> 8, 56, start + 1);
    const bool below = fdp_uniform_below(w, &u, cut_bound, &which, column);
    fdp_arena_back(w->a, mark);
    fdp_wipe(two, sizeof two);
    return below ? (uint8_t)entry[column] : column;
}

/* ---- Laplace -------------------------------------------------------------------- */

static void theta_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                        uint64_t *out)
{
    (void)what;
    (void)k;
    fdp_fx_flip(f, out, w->t.num, w->t.den);
}

/* theta q^k, or theta + (1 - theta) q^k: q = exp(-2^shift / t) */
static void side_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                       uint64_t *out)
{
    const bool negative = *(const bool *)what;
    uint64_t *theta = fdp_fx_take(f, 1), *power = fdp_fx_take(f, 1);
    uint64_t *part = fdp_fx_take(f, 1);
    const fdp_nat_t top =
        fdp_nat_left(w->a, fdp_nat_mul(w->a, fdp_nat_of(w->a, k), w->t.den), w->t.shift);
    if (w->a->failed) {
        return;
    }
    fdp_fx_flip(f, theta, w->t.num, w->t.den);
    fdp_fx_exp_neg(f, power, top, w->t.num);
    if (w->a->failed) {
        return;
    }
    if (negative) {
        fdp_fx_times(f, out, theta, power);
    } else {
        fdp_fx_less(f, part, theta);
        fdp_fx_times(f, out, part, power);
        fdp_fx_add(f, out, out, theta);
    }
}

static double side_guess(fdp_settle_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
{
    const bool negative = *(const bool *)what;
    uint64_t *theta = fdp_fx_take(f, 1);
    const fdp_nat_t one = fdp_nat_left(w->a, fdp_nat_of(w->a, 1), f->bits);
    if (w->a->failed) {
        return 0.0;
    }
    fdp_fx_flip(f, theta, w->t.num, w->t.den);
    if (w->a->failed) {
        return 0.0;
    }
    fdp_nat_t whole = fdp_fx_nat(f, theta), part = x;
    if (!negative && fdp_nat_compare(x, whole) <= 0) {
        return 0.0;
    }
    if (!negative) {
        part = fdp_nat_sub(w->a, x, whole);
        whole = fdp_nat_sub(w->a, one, whole);
    }
    if (w->a->failed || part.n == 0 || whole.n == 0) {
        return 0.0;
    }
    return (fdp_nat_log(whole) - fdp_nat_log(part)) * w->law->tail.scale;
}

static fdp_i128_t laplace_tail(fdp_settle_t *w, uint64_t word, unsigned nbits)
{
    const size_t mark = fdp_arena_mark(w->a);
    fdp_uniform_t u = fdp_uniform_open(w, word, nbits, FDP_BESIDE);
    const bool negative = fdp_uniform_below(w, &u, theta_bound, NULL, 0);
    const fdp_i128_t g = (fdp_i128_t)fdp_uniform_level(w, &u, side_bound, side_guess, &negative);
    fdp_arena_back(w->a, mark);
    return negative ? ~g - 63 : g + 63;
}

/* Encloses the thresholds for the correction: for the first one `top`; for a copy `some`, from the
 * highest bit down. */
static void clear_bounds(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t count,
                         uint64_t *out)
{
    const bool copy = *(const bool *)what;
    uint64_t *one = fdp_fx_take(f, w->t.low + 1), *some = fdp_fx_take(f, w->t.low + 1);
    uint64_t *none = fdp_fx_take(f, 1);
    if (none == NULL) {
        return;
    }
    enclose_corrections(w, f, one, some, none);
    if (!w->a->failed && !copy) {
        fdp_laplace_tops(f, w->t.low, one, some, w->units[1], out);
    }
    for (size_t i = 0; !w->a->failed && copy && i < count; i++) {
        fdp_fx_copy(f, fdp_fx_lo(f, out, i), fdp_fx_lo(f, some, (size_t)count - 1 - i));
    }
}

static uint64_t first_mask(fdp_settle_t *w, uint64_t top, unsigned nbits)
{
    const bool copy = false;
    const uint32_t tops = w->law->tops;
    const size_t mark = fdp_arena_mark(w->a);
    fdp_uniform_t u = fdp_uniform_open(w, top, nbits, 3 * FDP_BESIDE);
    const size_t i = tops == 0 ? 0 : fdp_uniform_first(w, &u, clear_bounds, &copy, tops);
    fdp_arena_back(w->a, mark);
    return i < tops ? w->law->mask[i] : 0;
}

/* The set bits below the highest one. Each of them is the highest set bit of a fresh copy. */
static uint64_t further_mask(fdp_settle_t *w, uint32_t limit, const uint64_t *copies,
                             uint32_t known)
{
    const bool copy = true;
    uint64_t clear = 0;
    for (uint32_t i = 0; limit > 0 && fdp_settle_goes_on(w); i++) {
        if (i == MOST_COPIES) {
            w->failed = true;
            break;
        }
        const size_t mark = fdp_arena_mark(w->a);
        const bool have = i < known;
        fdp_uniform_t u = fdp_uniform_open(w, have ? copies[i] : 0, have ? 64 : 0,
                                           (4 + i) * FDP_BESIDE);
        /* the number of the bit plus 1 */
        const uint32_t k =
            w->t.low - (uint32_t)fdp_uniform_first(w, &u, clear_bounds, &copy, w->t.low);
        if (k == 0) {
            limit = 0;
        } else if (k - 1 < limit) {
            clear |= UINT64_C(1) << (k - 1);
            limit = k - 1;
        }
        fdp_arena_back(w->a, mark);
    }
    return clear;
}

static fdp_i128_t lower_part(fdp_settle_t *w, fdp_i128_t high, const uint64_t *words)
{
    const uint32_t shift = w->t.shift, low = w->t.low;
    if (shift == 0) {
        return high;
    }
    uint64_t clear = 0, digit = words[3];
    if (words[0] & 4) {
        const bool known = words[0] & 8;
        clear = first_mask(w, known ? words[4] : 0, known ? 64 : 0);
        digit = outcome_of(w, clear != 0 ? WHOLE : SECOND, known, words[3], 2 * FDP_BESIDE);
        if (clear != 0 && low > SPARE) {
            clear |= further_mask(w, 63 - (uint32_t)__builtin_clzll(clear), words + 5,
                                  known ? COPIES : 0);
        }
    }
    const uint64_t fair = words[5 + COPIES] & ((UINT64_C(1) << low) - 1) & ~clear;
    const uint64_t turn = high < 0 ? (UINT64_C(1) << shift) - 1 : 0;
    return high * ((fdp_i128_t)1 << shift) + (fdp_i128_t)((digit << low | fair) ^ turn);
}

/* ---- Gaussian of small sigma ------------------------------------------------------ */

static void half_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                       uint64_t *out)
{
    (void)w;
    (void)what;
    (void)k;
    fdp_fx_set_one(f, out);
    fdp_fx_set_one(f, out + f->w);
    fdp_fx_half(f, out, out);
}

/* The sum of exp((64^2 - m^2) / (2 sigma^2)) over m >= start >= 64. Once the lower end of a term is
 * 0, the rest is below its upper end. */
static void far_sum(fdp_settle_t *w, const fdp_fx_t *f, uint64_t start, uint64_t *out)
{
    const size_t mark = fdp_arena_mark(w->a);
    uint64_t *term = fdp_fx_take(f, 1);
    if (term == NULL) {
        return;
    }
    memset(out, 0, 2 * f->w * sizeof *out);
    const fdp_nat_t twice = fdp_nat_left(w->a, w->t.num2, 1);
    bool last = false;
    for (uint64_t m = start; !last && !w->a->failed; m++) {
        const size_t here = fdp_arena_mark(w->a);
        const fdp_nat_t rate = fdp_nat_of(w->a, (m - 64) * (m + 64));
        fdp_fx_exp_neg(f, term, fdp_nat_mul(w->a, rate, w->t.den2), twice);
        if (!w->a->failed) {
            fdp_fx_add(f, out, out, term);
            last = fdp_nat_trim(term, f->w) == 0;
        }
        fdp_arena_back(w->a, here);
    }
    if (last) {
        fdp_limbs_add(out + f->w, out + f->w, term + f->w, f->w);
    }
    fdp_arena_back(w->a, mark);
}

static void far_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                      uint64_t *out)
{
    const bool negative = *(const bool *)what;
    uint64_t *sum = fdp_fx_take(f, 1), *all = fdp_fx_take(f, 1);
    if (all == NULL) {
        return;
    }
    far_sum(w, f, 64 + k, sum);
    far_sum(w, f, 64, all);
    if (w->a->failed) {
        return;
    }
    fdp_fx_over(f, out, sum, all);
    fdp_fx_half(f, out, out);
    if (!negative) {
        half_bound(w, f, NULL, 0, sum);
        fdp_fx_add(f, out, out, sum);
    }
}

static double no_guess(fdp_settle_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
{
    (void)w, (void)f, (void)what, (void)x;
    return 0.0;
}

static fdp_i128_t gaussian_tail(fdp_settle_t *w)
{
    const size_t mark = fdp_arena_mark(w->a);
    fdp_uniform_t u = fdp_uniform_open(w, 0, 0, FDP_BESIDE);
    const bool negative = fdp_uniform_below(w, &u, half_bound, NULL, 0);
    const fdp_i128_t m = 64 + (fdp_i128_t)fdp_uniform_level(w, &u, far_bound, no_guess, &negative);
    fdp_arena_back(w->a, mark);
    return negative ? -m : m;
}

/* ---- entry --------------------------------------------------------------------------- */

static fdp_i128_t settle_digits(fdp_settle_t *w, const uint64_t *words)
{
    const bool laplace = w->law->tails != 0;
    fdp_i128_t high = (int64_t)words[1];
    count_columns(&w->law->first, FDP_COLUMNS, 64, w->count[0], &w->units[0]);
    count_columns(&w->law->second, w->t.shift == 0 ? 0 : 32, 0, w->count[1], &w->units[1]);
    if (words[0] & 1) {
        const bool known = words[0] & 2;
        const uint32_t found = outcome_of(w, FIRST, known, words[1], 0);
        high = (fdp_i128_t)found - 64;
        if (laplace && (found == 0 || found == FDP_COLUMNS - 1)) {
            high = laplace_tail(w, known ? words[2] : 0, known ? 64 : 0);
        } else if (found == 0) {
            high = gaussian_tail(w);
        }
    }
    return laplace ? lower_part(w, high, words) : high;
}

int fdp_law_settle(fdp_arena_t *a, const fdp_digits_t *law, fdp_nat_t num, fdp_nat_t den,
                   const uint64_t *words, fdp_block_fn block, const void *context,
                   int64_t value[2])
{
    fdp_settle_t w = {.a = a, .law = law, .block = block, .context = context};
    w.t = (fdp_sigma_t){.num = num, .den = den, .shift = law->shift, .low = law->low};
    w.t.slope = law->tilt.slope;
    w.t.num2 = fdp_nat_mul(a, num, num);
    w.t.den2 = fdp_nat_mul(a, den, den);
    fdp_i128_t exact = 0;
    int kept = 1;
    if (a->failed) {
        return -1;
    }
    if (law->tilt.slope != 0) {
        kept = fdp_settle_tilted(&w, words, &exact);
    } else {
        exact = settle_digits(&w, words);
    }
    const fdp_i128_t most = (fdp_i128_t)1 << 100;
    if (!fdp_settle_goes_on(&w) || exact >= most || exact <= -most) {
        return -1;
    }
    value[0] = (int64_t)(uint64_t)(fdp_u128_t)exact;
    value[1] = (int64_t)(exact >> 64);
    return kept;
}
