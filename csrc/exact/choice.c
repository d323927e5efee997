/* choice.c: see choice.h.
 *
 *   fdp_choice_*      scores, gaps and weights of a row as rationals
 *   accept_bound      the probability of an acceptance
 *   order_next        the order in which inversion sums weights
 *   place_of          where U falls among them, in two passes and no memory of n
 */
#include "choice.h"

#define TOP 51 /* log2 of the weight of the largest score, in the integer bounds */
#define DOUBLE_MOST UINT64_C(0x7fefffffffffffff)
#define DOUBLE_SIGN (UINT64_C(1) << 63)

/* ---- a row ------------------------------------------------------------------------ */

fdp_choice_t fdp_choice_of(const fdp_selection_t *law, const fdp_candidates_t *from, size_t row,
                           const uint64_t *removed)
{
    const size_t at = row * from->weight_stride;
    return (fdp_choice_t){
        .law = law,
        .from = from,
        .score = (const uint64_t *)from->score + row * from->n,
        .mantissa = from->mantissa == NULL ? NULL : from->mantissa + at,
        .exponent = from->exponent == NULL ? NULL : from->exponent + at,
        .weight = from->weight == NULL ? NULL : from->weight + at,
        .removed = removed,
    };
}

bool fdp_choice_removed(const fdp_choice_t *c, size_t i)
{
    return c->removed != NULL && (c->removed[i / 64] >> i % 64 & 1) != 0;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

bool fdp_choice_score(const fdp_choice_t *c, size_t i, uint64_t *score)
{
    *score = c->score[i];
    if (fdp_choice_removed(c, i) ||
        (c->mantissa != NULL && bits_of(c->mantissa[i]) << 1 == 0)) {
        return false;
    }
    if (c->from->type == FDP_I64) {
        return true;
    }
    const uint64_t size = *score & ~DOUBLE_SIGN;
    const bool infinite = size == DOUBLE_MOST + 1 && (*score & DOUBLE_SIGN) == 0;
    *score = infinite ? DOUBLE_MOST : *score;
    return size <= DOUBLE_MOST || infinite;
}

static bool less(const fdp_choice_t *c, uint64_t a, uint64_t b)
{
    if (c->from->type != FDP_I64) { /* map doubles to integers of the same order */
        a ^= (a & DOUBLE_SIGN) != 0 ? ~DOUBLE_SIGN : 0;
        b ^= (b & DOUBLE_SIGN) != 0 ? ~DOUBLE_SIGN : 0;
    }
    return (int64_t)a < (int64_t)b;
}

bool fdp_choice_most(const fdp_choice_t *c, uint64_t *most)
{
    bool any = false;
    for (size_t i = 0; i < c->from->n; i++) {
        uint64_t score;
        if (fdp_choice_score(c, i, &score)) {
            *most = !any || less(c, *most, score) ? score : *most;
            any = true;
        }
    }
    return any;
}

uint64_t fdp_double_part(uint64_t bits, int *place)
{
    const int field = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    *place = (field == 0 ? 1 : field) - 1075;
    return fraction | (field == 0 ? 0 : UINT64_C(1) << 52);
}

/* The magnitude of a score, part * 2^place. Returns whether the score is negative. */
static bool size_of(fdp_dtype_t type, uint64_t bits, uint64_t *part, int *place)
{
    const bool below = (bits & DOUBLE_SIGN) != 0; /* integers have this sign bit, too */
    *place = 0;
    if (type == FDP_I64) {
        *part = below ? 0 - bits : bits;
    } else {
        *part = fdp_double_part(bits, place);
    }
    return below;
}

/* Multiplies num / den by 2^place. */
static void scale(fdp_arena_t *a, int64_t place, fdp_nat_t *num, fdp_nat_t *den)
{
    if (place > 0) {
        *num = fdp_nat_left(a, *num, (unsigned)place);
    } else if (place < 0) {
        *den = fdp_nat_left(a, *den, (unsigned)-place);
    }
}

static fdp_nat_t number(const uint64_t *limbs, size_t n)
{
    return (fdp_nat_t){(uint64_t *)(uintptr_t)limbs, fdp_nat_trim(limbs, n)};
}

bool fdp_choice_gap(fdp_arena_t *arena, const fdp_selection_t *law, fdp_any_score_t a,
                    fdp_any_score_t b, fdp_nat_t *num, fdp_nat_t *den)
{
    uint64_t part_a, part_b;
    int place_a, place_b;
    const bool below_a = size_of(a.type, a.bits, &part_a, &place_a);
    const bool below_b = size_of(b.type, b.bits, &part_b, &place_b);
    const int place = place_a < place_b ? place_a : place_b;
    const fdp_nat_t x =
        fdp_nat_left(arena, fdp_nat_of(arena, part_a), (unsigned)(place_a - place));
    const fdp_nat_t y =
        fdp_nat_left(arena, fdp_nat_of(arena, part_b), (unsigned)(place_b - place));
    const bool more = fdp_nat_compare(x, y) >= 0;
    const fdp_nat_t distance = below_a != below_b
                                   ? fdp_nat_add(arena, x, y)
                                   : fdp_nat_sub(arena, more ? x : y, more ? y : x);
    *num = fdp_nat_mul(arena, number(law->num, FDP_LIMBS), distance);
    *den = number(law->den, FDP_LIMBS);
    arena->failed |= den->n == 0; /* a law that fdp_selection_make did not make */
    scale(arena, place, num, den);
    return below_a != below_b ? below_a : below_a == more;
}

void fdp_choice_weight(fdp_arena_t *a, const fdp_choice_t *c, size_t i, int64_t place,
                       fdp_nat_t *num, fdp_nat_t *den)
{
    int more = 0;
    *den = fdp_nat_of(a, 1);
    if (c->mantissa == NULL) {
        *num = *den;
        return;
    }
    if (c->weight != NULL) {
        *num = number(c->weight[i].num, c->weight[i].nums);
        *den = number(c->weight[i].den, c->weight[i].dens);
        more = c->exponent == NULL ? 0 : -c->from->weight_top;
    } else {
        *num = fdp_nat_of(a, fdp_double_part(bits_of(c->mantissa[i]), &more));
        more += c->exponent == NULL ? 0 : (int)c->exponent[i];
    }
    scale(a, more - place, num, den);
}

static void gap_of(fdp_arena_t *a, const fdp_choice_t *c, uint64_t most, uint64_t score,
                   fdp_nat_t *num, fdp_nat_t *den)
{
    const fdp_dtype_t type = c->from->type;
    fdp_choice_gap(a, c->law, (fdp_any_score_t){most, type}, (fdp_any_score_t){score, type},
                   num, den);
}

/* ---- acceptances -------------------------------------------------------------------- */

/* The acceptance threshold 2^TOP exp(-num / den) top / low. `more`: extra bits for a large ratio
 * times a small exponential. */
typedef struct {
    fdp_nat_t num, den, top, low;
    unsigned more;
} share_t;

static void accept_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                         uint64_t *out)
{
    const share_t *s = what;
    const fdp_fx_t fine = fdp_fx_at(w->a, f->bits + TOP + s->more);
    uint64_t *q = fdp_fx_take(&fine, 1);
    (void)k;
    if (q == NULL) {
        return;
    }
    fdp_fx_exp_neg(&fine, q, s->num, s->den);
    if (w->a->failed) {
        return;
    }
    const fdp_nat_t low = fdp_nat_mul(w->a, fdp_fx_nat(&fine, q), s->top);
    const fdp_nat_t high = fdp_nat_mul(w->a, fdp_fx_nat(&fine, q + fine.w), s->top);
    const fdp_nat_t least = fdp_nat_right(w->a, fdp_nat_div(w->a, low, s->low, NULL), s->more);
    const fdp_nat_t most = fdp_nat_right(w->a, fdp_nat_div_up(w->a, high, s->low), s->more);
    const fdp_nat_t above =
        s->more == 0 ? most : fdp_nat_add(w->a, most, fdp_nat_of(w->a, 1));
    if (!w->a->failed) {
        fdp_fx_set_nat(f, out, least);
        fdp_fx_set_nat(f, out + f->w, above);
    }
}

static bool accepts(fdp_settle_t *w, fdp_uniform_t *v, share_t *s)
{
    const int more = (int)fdp_nat_bits(s->top) - (int)fdp_nat_bits(s->low) + TOP;
    s->more = more > 0 ? (unsigned)more : 0;
    return fdp_settle_goes_on(w) && fdp_uniform_below(w, v, accept_bound, s, 0);
}

bool fdp_choice_accepts(fdp_settle_t *w, const fdp_choice_t *c, bool even, uint64_t most,
                        size_t i, uint64_t bound, int place, fdp_uniform_t *v)
{
    uint64_t score;
    share_t s = {.den = fdp_nat_of(w->a, 1)};
    if (even) {
        s.top = fdp_nat_of(w->a, 1);
        s.low = fdp_nat_of(w->a, c->mantissa == NULL ? 1 : 2);
    } else if (fdp_choice_score(c, i, &score)) {
        gap_of(w->a, c, most, score, &s.num, &s.den);
        fdp_choice_weight(w->a, c, i, place, &s.top, &s.low);
    } else {
        return false;
    }
    s.low = fdp_nat_mul(w->a, s.low, fdp_nat_of(w->a, bound));
    return accepts(w, v, &s);
}

int fdp_settle_flip(fdp_settle_t *w, const void *choice, const uint64_t *words, int64_t *value)
{
    const fdp_choice_t *c = choice;
    uint64_t most;
    fdp_uniform_t v = fdp_uniform_open(w, words[0], 64, 0);
    value[0] = !fdp_choice_most(c, &most) ||
               fdp_choice_accepts(w, c, false, most, (size_t)words[1], UINT64_C(1) << TOP, 0, &v);
    return fdp_settle_goes_on(w) ? 1 : -1;
}

int fdp_settle_even(fdp_settle_t *w, const void *unused, const uint64_t *words, int64_t *value)
{
    (void)unused;
    fdp_uniform_t u = fdp_uniform_open(w, words[0], 64, 0);
    value[0] = (int64_t)fdp_uniform_step(w, &u, fdp_nat_of(w->a, words[1]),
                                         fdp_nat_of(w->a, 1), words[1] - 1);
    return fdp_settle_goes_on(w) ? 1 : -1;
}

/* ---- inversion ---------------------------------------------------------------------- */

/* Finds the next candidate at place *p or later in the order of the leaves, or returns n if there
 * is none. A child of the root has `span` leaves. */
static size_t order_next(size_t n, size_t span, size_t *p)
{
    while (*p / span < FDP_TREE_BLOCK) {
        size_t i = 0, unit = span;
        for (;; unit /= FDP_TREE_BLOCK) {
            const size_t child = *p / unit % FDP_TREE_BLOCK;
            const size_t rows = FDP_TREE_BLOCK / FDP_TREE_LANES;
            i += (child % rows * FDP_TREE_LANES + child / rows) * unit;
            if (i >= n || unit == 1) {
                break;
            }
        }
        *p += unit - *p % unit;
        if (i < n) {
            return i;
        }
    }
    return n;
}

/* Encloses weight * e^-gap of a candidate; 0 if it is lost. */
static void mass_of(fdp_settle_t *w, const fdp_fx_t *f, const fdp_choice_t *c, uint64_t most,
                    size_t i, uint64_t *out)
{
    uint64_t score;
    fdp_nat_t num, den;
    memset(out, 0, 2 * f->w * sizeof *out);
    if (!fdp_choice_score(c, i, &score)) {
        return;
    }
    const size_t mark = fdp_arena_mark(w->a);
    gap_of(w->a, c, most, score, &num, &den);
    if (!w->a->failed) {
        fdp_fx_exp_neg(f, out, num, den);
    }
    if (c->mantissa != NULL && !w->a->failed) {
        fdp_choice_weight(w->a, c, i, fdp_choice_top(c), &num, &den);
        const fdp_nat_t low = fdp_nat_mul(w->a, fdp_fx_nat(f, out), num);
        const fdp_nat_t high = fdp_nat_mul(w->a, fdp_fx_nat(f, out + f->w), num);
        const fdp_nat_t least = fdp_nat_div(w->a, low, den, NULL);
        const fdp_nat_t above = fdp_nat_div_up(w->a, high, den);
        if (!w->a->failed) {
            fdp_fx_set_nat(f, out, least);
            fdp_fx_set_nat(f, out + f->w, above);
        }
    }
    fdp_arena_back(w->a, mark);
}

/* The candidate number `place` among those that remain. */
static size_t left_at(const fdp_choice_t *c, uint64_t place)
{
    for (size_t i = 0; i < c->from->n; i++) {
        if (!fdp_choice_removed(c, i) && place-- == 0) {
            return i;
        }
    }
    return 0;
}

/* The candidate that U falls on, if enclosures at `bits` bits decide it; n if they do not. */
static size_t place_of(fdp_settle_t *w, const fdp_choice_t *c, uint64_t most, size_t span,
                       const fdp_uniform_t *u, unsigned bits)
{
    const fdp_fx_t f = fdp_fx_at(w->a, bits);
    const size_t n = c->from->n;
    uint64_t *sum = fdp_fx_take(&f, 1), *mass = fdp_fx_take(&f, 1);
    uint64_t *least = fdp_arena_take(w->a, f.w), *end = fdp_arena_take(w->a, f.w);
    uint64_t *before = fdp_arena_take(w->a, f.w);
    if (before == NULL) {
        return n;
    }
    size_t last = n;
    memset(sum, 0, 2 * f.w * sizeof *sum);
    for (size_t p = 0, i; (i = order_next(n, span, &p)) < n && !w->a->failed;) {
        uint64_t score;
        if (fdp_choice_score(c, i, &score)) {
            mass_of(w, &f, c, most, i, mass);
            fdp_fx_add(&f, sum, sum, mass);
            last = i;
        }
    }
    /* The cell of U times the total, in units of 2^-bits, rounded outward. */
    const fdp_nat_t x = fdp_uniform_nat(u), one = fdp_nat_of(w->a, 1);
    const fdp_nat_t low = fdp_nat_mul(w->a, x, fdp_fx_nat(&f, sum));
    const fdp_nat_t high =
        fdp_nat_mul(w->a, fdp_nat_add(w->a, x, one), fdp_fx_nat(&f, sum + f.w));
    const fdp_nat_t unit = fdp_nat_left(w->a, one, u->nbits);
    const fdp_nat_t up = fdp_nat_add(w->a, high, fdp_nat_sub(w->a, unit, one));
    if (w->a->failed) {
        return n;
    }
    fdp_fx_set_nat(&f, least, fdp_nat_right(w->a, low, u->nbits));
    fdp_fx_set_nat(&f, end, fdp_nat_right(w->a, up, u->nbits));
    memset(sum, 0, 2 * f.w * sizeof *sum);
    memset(before, 0, f.w * sizeof *before);
    for (size_t p = 0, i; (i = order_next(n, span, &p)) < n && !w->a->failed;) {
        mass_of(w, &f, c, most, i, mass);
        memcpy(before, sum + f.w, f.w * sizeof *before);
        fdp_fx_add(&f, sum, sum, mass);
        if (i == last || fdp_fx_compare(least, sum, f.w) < 0) {
            /* for the last candidate U < 1 is the upper bound */
            const bool within = i == last || fdp_fx_compare(end, sum, f.w) <= 0;
            return within && fdp_fx_compare(before, least, f.w) <= 0 ? i : n;
        }
    }
    return n;
}

size_t fdp_choice_invert(fdp_settle_t *w, const fdp_choice_t *c, fdp_uniform_t *u)
{
    const size_t n = c->from->n;
    uint64_t most, left = 0;
    if (!fdp_choice_most(c, &most)) {
        for (size_t i = 0; i < n; i++) {
            left += !fdp_choice_removed(c, i);
        }
        return left_at(c, fdp_uniform_step(w, u, fdp_nat_of(w->a, left), fdp_nat_of(w->a, 1),
                                           left - 1));
    }
    size_t span = 1;
    while ((n - 1) / span >= FDP_TREE_BLOCK) {
        span *= FDP_TREE_BLOCK;
    }
    for (unsigned bits = 128; fdp_settle_goes_on(w); bits *= 2) {
        const size_t mark = fdp_arena_mark(w->a);
        w->a->vague = false;
        const size_t found = place_of(w, c, most, span, u, bits);
        fdp_arena_back(w->a, mark);
        if (found < n && !w->a->failed && !w->a->vague) {
            return found;
        }
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return 0;
}

int fdp_settle_inverse(fdp_settle_t *w, const void *choice, const uint64_t *words,
                       int64_t *value)
{
    fdp_uniform_t u = fdp_uniform_open(w, words[0], 64, 0);
    value[0] = (int64_t)fdp_choice_invert(w, choice, &u);
    return fdp_settle_goes_on(w) ? 1 : -1;
}
