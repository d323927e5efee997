/* law_settle.c: the exact resolver: integers only, more bits until all is decided.
 *
 * A uniform is a prefix of known bits and a place in the trial's extension blocks. What
 * words mean is the reference's: docs/proofs/resolver.md, sections 1 and 4.
 */
#include "../base/wipe.h"
#include "law.h"

#define BESIDE (1u << 20) /* blocks between the uniforms of a trial */
#define SLACK 64          /* bits of a threshold beyond those of the uniform */
#define PREFIX FDP_LAW_BITS
#define PREFIX_LIMBS (PREFIX / 64)
#define COPIES 4
#define MOST_COPIES 1024 /* beyond, with a probability below 2^-1000, nothing is decided */
#define MOST_TRIES 256
#define SPARE 3

enum { FIRST = 0, SECOND = 1, WHOLE = 2 };

typedef struct {
    fdp_arena_t *a;
    const fdp_digits_t *law;
    fdp_sigma_t t; /* of a Laplace law num and den are the scale */
    fdp_block_fn block;
    const void *context;
    uint32_t base; /* added to every block's number */
    uint32_t count[2][FDP_COLUMNS], units[2];
    uint64_t height;
    bool failed; /* a uniform's bits ran out */
} work_t;

typedef struct {
    uint64_t *d; /* PREFIX_LIMBS */
    unsigned nbits, read, first;
} uniform_t;

/* ---- uniforms --------------------------------------------------------------- */

static void read_block(const work_t *w, uint32_t number, uint64_t two[2])
{
    uint8_t raw[16];
    w->block(w->context, w->base + number, raw);
    memcpy(two, raw, sizeof raw);
    fdp_wipe(raw, sizeof raw);
}

static uniform_t open_uniform(work_t *w, uint64_t prefix, unsigned nbits, uint32_t first)
{
    uniform_t u = {.nbits = nbits, .first = first};
    u.d = fdp_arena_take(w->a, PREFIX_LIMBS);
    if (u.d != NULL) {
        memset(u.d, 0, PREFIX / 8);
        u.d[0] = prefix;
    }
    return u;
}

/* One block at first, then each time as many as before in all. */
static void extend(work_t *w, uniform_t *u)
{
    const unsigned more = u->read == 0 ? 1 : u->read, room = (PREFIX - SLACK - u->nbits) / 128;
    const unsigned count = more < room ? more : room;
    if (count == 0) {
        w->failed = true;
        return;
    }
    for (unsigned k = 0; k < count; k++) {
        uint64_t two[2];
        read_block(w, u->first + u->read + k, two);
        memmove(u->d + 2, u->d, PREFIX / 8 - 16);
        u->d[1] = two[0];
        u->d[0] = two[1];
        fdp_wipe(two, sizeof two);
    }
    u->nbits += 128 * count;
    u->read += count;
}

/* The cell [low, high) in units of 2^-(nbits + SLACK). */
static void cell_of(const work_t *w, const uniform_t *u, fdp_nat_t *low, fdp_nat_t *high)
{
    const fdp_nat_t x = {u->d, fdp_nat_trim(u->d, PREFIX_LIMBS)};
    *low = fdp_nat_left(w->a, x, SLACK);
    *high = fdp_nat_left(w->a, fdp_nat_add(w->a, x, fdp_nat_of(w->a, 1)), SLACK);
}

static bool goes_on(const work_t *w) { return !w->failed && !w->a->failed; }

/* Encloses the k-th threshold. */
typedef void (*bound_fn)(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                         uint64_t *out);

/* -1: the whole cell is below the threshold; 1: at or above it; 0: open. */
static int compare(work_t *w, const fdp_fx_t *f, bound_fn bound, const void *what, uint64_t k,
                   fdp_nat_t low, fdp_nat_t high)
{
    const size_t mark = fdp_arena_mark(w->a);
    uint64_t *pair = fdp_fx_take(f, 1);
    if (pair == NULL) {
        return 0;
    }
    w->a->vague = false;
    bound(w, f, what, k, pair);
    int side = 0;
    if (!w->a->failed && !w->a->vague) {
        const bool under = fdp_nat_compare(high, fdp_fx_nat(f, pair)) <= 0;
        const bool over = fdp_nat_compare(low, fdp_fx_nat(f, pair + f->w)) >= 0;
        side = under ? -1 : over;
    }
    fdp_arena_back(w->a, mark);
    return side;
}

/* Whether the uniform is below the threshold. */
static bool is_below(work_t *w, uniform_t *u, bound_fn bound, const void *what, uint64_t k)
{
    while (goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_fx_t f = fdp_fx_at(w->a, u->nbits + SLACK);
        fdp_nat_t low, high;
        cell_of(w, u, &low, &high);
        const int side = w->a->failed ? 0 : compare(w, &f, bound, what, k, low, high);
        fdp_arena_back(w->a, mark);
        if (side != 0) {
            return side < 0;
        }
        if (goes_on(w)) {
            extend(w, u);
        }
    }
    return false;
}

typedef double (*guess_fn)(work_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t middle);

/* The k with threshold(k + 1) <= the uniform < threshold(k); the guess decides nothing. */
static uint64_t find_level(work_t *w, uniform_t *u, bound_fn bound, guess_fn guess,
                           const void *what)
{
    while (goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_fx_t f = fdp_fx_at(w->a, u->nbits + SLACK);
        fdp_nat_t low, high;
        cell_of(w, u, &low, &high);
        const fdp_nat_t middle = fdp_nat_right(w->a, fdp_nat_add(w->a, low, high), 1);
        const double about = w->a->failed ? 0.0 : guess(w, &f, what, middle);
        if (!(about < 0x1p62)) { /* with a probability below 2^-1000 */
            w->failed = true;
        }
        uint64_t k = goes_on(w) && about > 0.0 ? (uint64_t)about : 0;
        bool found = false, open = false;
        while (goes_on(w) && !found && !open) {
            const int next = compare(w, &f, bound, what, k + 1, low, high);
            if (next < 0) {
                k++;
                continue;
            }
            int here = next == 0 ? 0 : -1;
            if (next > 0 && k > 0) {
                here = compare(w, &f, bound, what, k, low, high);
            }
            found = here < 0;
            open = here == 0;
            k -= here > 0;
        }
        fdp_arena_back(w->a, mark);
        if (found) {
            return k;
        }
        if (goes_on(w)) {
            extend(w, u);
        }
    }
    return 0;
}

/* ---- digits ------------------------------------------------------------------- */

/* What the integer columns give each outcome, and what they leave. */
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

static uint32_t second_outcomes(const work_t *w) { return 1u << (w->t.shift - w->t.low); }

/* exp(-2^k / t) */
static void enclose_rung(work_t *w, const fdp_fx_t *f, uint32_t k, uint64_t *out)
{
    const size_t mark = fdp_arena_mark(w->a);
    const fdp_nat_t top = fdp_nat_left(w->a, w->t.den, k);
    if (!w->a->failed) {
        fdp_fx_exp_neg(f, out, top, w->t.num);
    }
    fdp_arena_back(w->a, mark);
}

/* Of the low bits: `one`, `some` and `none` as in law.h; low + 1 pairs each, and one. */
static void enclose_corrections(work_t *w, const fdp_fx_t *f, uint64_t *one, uint64_t *some,
                                uint64_t *none)
{
    const size_t mark = fdp_arena_mark(w->a);
    uint64_t *ladder = fdp_fx_take(f, w->t.low + 1);
    if (ladder == NULL) {
        return;
    }
    for (uint32_t k = 0; k < w->t.low; k++) {
        enclose_rung(w, f, k, fdp_fx_lo(f, ladder, k));
    }
    if (!w->a->failed) {
        fdp_laplace_corrections(f, ladder, w->t.low, one, some, none);
    }
    fdp_arena_back(w->a, mark);
}

static void first_masses(work_t *w, const fdp_fx_t *f, uint64_t *out)
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

static void second_masses(work_t *w, const fdp_fx_t *f, bool whole, uint64_t *out)
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

static const uint64_t *entries_of(const work_t *w, int which, uint32_t *n)
{
    *n = which == FIRST ? FDP_COLUMNS : second_outcomes(w);
    return which == FIRST    ? w->law->first_rest
           : which == SECOND ? w->law->second_rest
                             : w->law->second_whole;
}

/* The cut of column k. */
static void cut_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
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

/* The outcome of a word: a uniform of 56 bits or more, a byte of column. */
static uint32_t outcome_of(work_t *w, int which, bool known, uint64_t word, uint32_t start)
{
    uint32_t n;
    uint64_t two[2] = {word, 0};
    const uint64_t *entry = entries_of(w, which, &n);
    if (!known) {
        read_block(w, start, two);
    }
    const uint32_t column = (uint32_t)(two[0] % n);
    const size_t mark = fdp_arena_mark(w->a);
    uniform_t u = open_uniform(w, two[0] >> 8, 56, start + 1);
    const bool below = is_below(w, &u, cut_bound, &which, column);
    fdp_arena_back(w->a, mark);
    fdp_wipe(two, sizeof two);
    return below ? (uint8_t)entry[column] : column;
}

/* ---- Laplace -------------------------------------------------------------------- */

static void theta_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                        uint64_t *out)
{
    (void)what;
    (void)k;
    fdp_fx_flip(f, out, w->t.num, w->t.den);
}

/* theta q^k, or theta + (1 - theta) q^k: q = exp(-2^shift / t) */
static void side_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
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

static double side_guess(work_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
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

static fdp_i128_t laplace_tail(work_t *w, uint64_t word, unsigned nbits)
{
    const size_t mark = fdp_arena_mark(w->a);
    uniform_t u = open_uniform(w, word, nbits, BESIDE);
    const bool negative = is_below(w, &u, theta_bound, NULL, 0);
    const fdp_i128_t g = (fdp_i128_t)find_level(w, &u, side_bound, side_guess, &negative);
    fdp_arena_back(w->a, mark);
    return negative ? ~g - 63 : g + 63;
}

/* What is cleared, first: threshold k of `top`; or a copy's bits, threshold k of `some`. */
static void clear_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                        uint64_t *out)
{
    const bool copy = *(const bool *)what;
    uint64_t *one = fdp_fx_take(f, w->t.low + 1), *some = fdp_fx_take(f, w->t.low + 1);
    uint64_t *none = fdp_fx_take(f, 1), *top = fdp_fx_take(f, 48);
    if (top == NULL) {
        return;
    }
    enclose_corrections(w, f, one, some, none);
    if (!w->a->failed && !copy) {
        fdp_laplace_tops(f, w->t.low, one, some, w->units[1], top);
    }
    if (!w->a->failed) {
        fdp_fx_copy(f, out, fdp_fx_lo(f, copy ? some : top, (size_t)k));
    }
}

static uint64_t first_mask(work_t *w, uint64_t top, unsigned nbits)
{
    const bool copy = false;
    const size_t mark = fdp_arena_mark(w->a);
    uniform_t u = open_uniform(w, top, nbits, 3 * BESIDE);
    uint64_t found = 0;
    for (uint32_t i = 0; i < w->law->tops && found == 0 && goes_on(w); i++) {
        found = is_below(w, &u, clear_bound, &copy, i) ? w->law->mask[i] : 0;
    }
    fdp_arena_back(w->a, mark);
    return found;
}

/* The set bits below the highest, each the highest of a fresh copy. */
static uint64_t further_mask(work_t *w, uint32_t limit, const uint64_t *copies, uint32_t known)
{
    const bool copy = true;
    uint64_t clear = 0;
    for (uint32_t i = 0; limit > 0 && goes_on(w); i++) {
        if (i == MOST_COPIES) {
            w->failed = true;
            break;
        }
        const size_t mark = fdp_arena_mark(w->a);
        const bool have = i < known;
        uniform_t u = open_uniform(w, have ? copies[i] : 0, have ? 64 : 0, (4 + i) * BESIDE);
        uint32_t k = w->t.low; /* one more than the bit */
        while (k > 0 && goes_on(w) && !is_below(w, &u, clear_bound, &copy, k - 1)) {
            k--;
        }
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

static fdp_i128_t lower_part(work_t *w, fdp_i128_t high, const uint64_t *words)
{
    const uint32_t shift = w->t.shift, low = w->t.low;
    if (shift == 0) {
        return high;
    }
    uint64_t clear = 0, digit = words[3];
    if (words[0] & 4) {
        const bool known = words[0] & 8;
        clear = first_mask(w, known ? words[4] : 0, known ? 64 : 0);
        digit = outcome_of(w, clear != 0 ? WHOLE : SECOND, known, words[3], 2 * BESIDE);
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

static void half_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                       uint64_t *out)
{
    (void)w;
    (void)what;
    (void)k;
    fdp_fx_set_one(f, out);
    fdp_fx_set_one(f, out + f->w);
    fdp_fx_half(f, out, out);
}

/* The sum of exp((64^2 - m^2) / (2 sigma^2)) over m >= start >= 64: once a term's lower
 * end is 0, the rest is below its upper end. */
static void far_sum(work_t *w, const fdp_fx_t *f, uint64_t start, uint64_t *out)
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

static void far_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
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

static double no_guess(work_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
{
    (void)w, (void)f, (void)what, (void)x;
    return 0.0;
}

static fdp_i128_t gaussian_tail(work_t *w)
{
    const size_t mark = fdp_arena_mark(w->a);
    uniform_t u = open_uniform(w, 0, 0, BESIDE);
    const bool negative = is_below(w, &u, half_bound, NULL, 0);
    const fdp_i128_t m = 64 + (fdp_i128_t)find_level(w, &u, far_bound, no_guess, &negative);
    fdp_arena_back(w->a, mark);
    return negative ? -m : m;
}

/* ---- tilted digits ----------------------------------------------------------------- */

typedef struct {
    uint32_t choice, taken;
    uint64_t side, at; /* |x|, or g of a tail */
} try_t;

static fdp_nat_t square_of(const work_t *w, uint64_t x)
{
    const fdp_nat_t n = fdp_nat_of(w->a, x);
    return fdp_nat_mul(w->a, n, n);
}

/* [low, high] over the hat: 2^-64 height for each unit of choice. */
static void over_hat(work_t *w, const fdp_fx_t *f, const try_t *t, fdp_nat_t low,
                     fdp_nat_t high, uint64_t *out)
{
    const fdp_nat_t hat =
        fdp_nat_mul(w->a, fdp_nat_of(w->a, w->height), fdp_nat_of(w->a, t->choice));
    const fdp_nat_t least = fdp_nat_div(w->a, fdp_nat_left(w->a, low, 64), hat, NULL);
    const fdp_nat_t most = fdp_nat_div_up(w->a, fdp_nat_left(w->a, high, 64), hat);
    if (!w->a->failed) {
        fdp_fx_set_nat(f, out, least);
        fdp_fx_set_nat(f, out + f->w, most);
    }
}

static void try_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
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

static uint64_t tail_start(const work_t *w, uint64_t side)
{
    return (UINT64_C(63) << w->t.shift) + side;
}

/* 2^23 exp(-(M^2 + g^2) / 2 sigma^2) / (Z (1 - r)), r = exp(-M / sigma^2), over the hat. */
static void edge_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
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
static void beyond_bound(work_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                         uint64_t *out)
{
    const uint64_t first = tail_start(w, ((const try_t *)what)->side);
    const fdp_nat_t steps = fdp_nat_mul(w->a, fdp_nat_of(w->a, k), fdp_nat_of(w->a, first));
    const fdp_nat_t top = fdp_nat_mul(w->a, steps, w->t.den2);
    if (!w->a->failed) {
        fdp_fx_exp_neg(f, out, top, w->t.num2);
    }
}

static double beyond_guess(work_t *w, const fdp_fx_t *f, const void *what, fdp_nat_t x)
{
    const uint64_t first = tail_start(w, ((const try_t *)what)->side);
    const fdp_nat_t low = fdp_nat_mul(w->a, w->t.den2, fdp_nat_of(w->a, first));
    if (w->a->failed) {
        return 0.0;
    }
    const double scale = fdp_nat_quotient(w->a, w->t.num2, low);
    return ((double)f->bits * 0.69314718055994530942 - fdp_nat_log(x)) * scale;
}

/* 1 and the value, or 0. */
static int attempt(work_t *w, uint64_t word, uint64_t place, fdp_i128_t *value)
{
    const uint64_t entry = w->law->first_rest[word & 127];
    const bool under = word >> 47 < entry >> 47;
    const uint32_t chosen = under ? (uint8_t)entry : (uint32_t)(word & 127);
    const size_t mark = fdp_arena_mark(w->a);
    uniform_t v = open_uniform(w, word >> 8 & ((UINT64_C(1) << 39) - 1), 39, 0);
    try_t t = {.choice = (uint32_t)w->law->tilt.block[chosen]};
    const int32_t h = (int32_t)chosen - 64;
    bool kept;
    if (h == -64 || h == 63) {
        t.side = h < 0;
        kept = is_below(w, &v, edge_bound, &t, 0);
        if (kept) {
            uniform_t u = open_uniform(w, 0, 0, BESIDE);
            t.at = find_level(w, &u, beyond_bound, beyond_guess, &t);
            kept = is_below(w, &v, edge_bound, &t, 0);
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
        kept = is_below(w, &v, try_bound, &t, 0);
        *value = h < 0 ? ~(fdp_i128_t)size : (fdp_i128_t)size;
    }
    fdp_wipe(&t, sizeof t);
    fdp_arena_back(w->a, mark);
    return kept && goes_on(w);
}

/* A try's value; or, of a lane that no accepted try is left for, that of its own tries in
 * its extension blocks. */
static int settle_tilted(work_t *w, const uint64_t *words, fdp_i128_t *value)
{
    fdp_digits_t *again =
        (void *)fdp_arena_take(w->a, (sizeof *again + 7) / sizeof(uint64_t));
    if (again == NULL || fdp_law_tilted(w->a, &w->t, again, &w->height) != FDP_OK) {
        w->a->failed = true;
        return 0;
    }
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        w->count[0][i] = (uint32_t)(w->law->tilt.block[i] >> 32);
    }
    if (words[0] != 0) {
        return attempt(w, words[1], words[2], value);
    }
    for (uint32_t k = 1; k < MOST_TRIES && goes_on(w); k++) {
        uint64_t two[2];
        w->base = 0;
        read_block(w, k << 24, two);
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

/* ---- entry --------------------------------------------------------------------------- */

static fdp_i128_t settle_digits(work_t *w, const uint64_t *words)
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
    work_t w = {.a = a, .law = law, .block = block, .context = context};
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
        kept = settle_tilted(&w, words, &exact);
    } else {
        exact = settle_digits(&w, words);
    }
    const fdp_i128_t most = (fdp_i128_t)1 << 100;
    if (!goes_on(&w) || exact >= most || exact <= -most) {
        return -1;
    }
    value[0] = (int64_t)(uint64_t)(fdp_u128_t)exact;
    value[1] = (int64_t)(exact >> 64);
    return kept;
}
