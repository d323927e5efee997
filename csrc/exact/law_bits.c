/* law_bits.c: alias tables of Bernoulli patterns and rates of responses, from exact probabilities;
 * and trials of these that 64 bits or more leave undecided. */
#include "resolver.h"

/* ---- patterns of eight bits --------------------------------------------------- */

/* The masses 256 den^8 P(c) of the patterns, in `width` limbs each; `whole` is den^8. */
typedef struct {
    uint64_t *mass, *one, *gap;
    size_t width;
    fdp_nat_t whole;
} masses_t;

static fdp_nat_t mass_of(const masses_t *m, size_t c)
{
    uint64_t *d = m->mass + m->width * c;
    return (fdp_nat_t){d, fdp_nat_trim(d, m->width)};
}

static bool open_masses(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, masses_t *m)
{
    const fdp_nat_t zeros = fdp_nat_sub(a, den, num);
    fdp_nat_t ones[9], none[9];
    m->whole = ones[0] = none[0] = fdp_nat_of(a, 1);
    for (size_t k = 1; k < 9; k++) {
        ones[k] = fdp_nat_mul(a, ones[k - 1], num);
        none[k] = fdp_nat_mul(a, none[k - 1], zeros);
        m->whole = fdp_nat_mul(a, m->whole, den);
    }
    m->width = m->whole.n + 2;
    m->mass = fdp_arena_take(a, 256 * m->width);
    m->one = fdp_arena_take(a, m->width);
    m->gap = fdp_arena_take(a, m->width);
    if (m->gap == NULL) {
        return false;
    }
    memset(m->mass, 0, 256 * m->width * sizeof *m->mass);
    memset(m->one, 0, m->width * sizeof *m->one);
    memcpy(m->one, m->whole.d, m->whole.n * sizeof *m->one);
    for (size_t c = 0; c < 256 && !a->failed; c++) {
        const size_t mark = fdp_arena_mark(a), k = (size_t)__builtin_popcountll(c);
        const fdp_nat_t x = fdp_nat_left(a, fdp_nat_mul(a, ones[k], none[8 - k]), 8);
        if (!a->failed && x.n != 0) {
            memcpy(m->mass + m->width * c, x.d, x.n * sizeof *x.d);
        }
        fdp_arena_back(a, mark);
    }
    return !a->failed;
}

/* Walker's method: closes one column after another. If `only` < 256, stops at that column and
 * returns whether it was closed; its cut is then gap / whole. Otherwise fills the whole table. */
static bool close_columns(fdp_arena_t *a, masses_t *m, size_t only, fdp_bernoulli_t *law)
{
    uint8_t small[256], large[256];
    size_t smalls = 0, larges = 0;
    for (size_t c = 0; c < 256; c++) {
        const int way = fdp_nat_compare(mass_of(m, c), m->whole);
        small[smalls] = large[larges] = (uint8_t)c;
        smalls += way < 0;
        larges += way > 0;
    }
    while (smalls != 0 && larges != 0 && !a->failed) { /* a large column fills up a small
                                                        * one */
        const uint8_t c = small[--smalls], other = large[larges - 1];
        uint64_t *its = m->mass + m->width * other;
        fdp_limbs_sub(m->gap, m->one, m->mass + m->width * c, m->width);
        if (only == c) {
            return true;
        }
        if (only > 255) {
            const size_t mark = fdp_arena_mark(a);
            const fdp_nat_t cut = {m->gap, fdp_nat_trim(m->gap, m->width)};
            const fdp_nat_t q = fdp_nat_div(a, fdp_nat_left(a, cut, 64), m->whole, NULL);
            const uint64_t floor = q.n == 0 ? 0 : q.n > 1 ? UINT64_MAX : q.d[0];
            for (size_t b = 0; b < 8; b++) {
                law->plane[b][c] = (uint8_t)(floor >> (56 - 8 * b));
            }
            law->alias[c] = other;
            fdp_arena_back(a, mark);
        }
        fdp_limbs_sub(its, its, m->gap, m->width);
        const int way = fdp_nat_compare(mass_of(m, other), m->whole);
        larges -= way <= 0;
        small[smalls] = other;
        smalls += way < 0;
    }
    return false;
}

fdp_status_t fdp_law_patterns(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, fdp_bernoulli_t *law)
{
    masses_t m;
    for (size_t c = 0; c < 256; c++) {
        law->alias[c] = (uint8_t)c;
    }
    if (open_masses(a, num, den, &m)) {
        close_columns(a, &m, 256, law);
    }
    return a->failed ? FDP_ERR_MEMORY : FDP_OK;
}

static void cut_bound(fdp_settle_t *w, const fdp_fx_t *f, const void *what, uint64_t k,
                      uint64_t *out)
{
    const masses_t *m = what;
    const fdp_nat_t cut = {m->gap, fdp_nat_trim(m->gap, m->width)};
    const fdp_nat_t scaled = fdp_nat_left(w->a, cut, f->bits);
    const fdp_nat_t least = fdp_nat_div(w->a, scaled, m->whole, NULL);
    const fdp_nat_t most = fdp_nat_div_up(w->a, scaled, m->whole);
    (void)k;
    if (!w->a->failed) {
        fdp_fx_set_nat(f, out, least);
        fdp_fx_set_nat(f, out + f->w, most);
    }
}

static fdp_nat_t number(const uint64_t *limbs)
{
    return (fdp_nat_t){(uint64_t *)(uintptr_t)limbs, fdp_nat_trim(limbs, FDP_LIMBS)};
}

int fdp_settle_pattern(fdp_settle_t *w, const void *what, const uint64_t *word, int64_t *value)
{
    const fdp_bernoulli_t *law = what;
    const uint8_t column = (uint8_t)word[1];
    masses_t m;
    bool below = false;
    fdp_uniform_t u = fdp_uniform_open(w, word[0], 64, 0);
    const fdp_nat_t den = number(law->den);
    if (den.n == 0) { /* the caller's law was not made by this library */
        return -1;
    }
    if (open_masses(w->a, number(law->num), den, &m) &&
        close_columns(w->a, &m, column, NULL)) {
        below = fdp_uniform_below(w, &u, cut_bound, &m, 0);
    }
    value[0] = below ? law->alias[column] : column;
    return fdp_settle_goes_on(w) ? 1 : -1;
}

/* ---- responses ------------------------------------------------------------------- */

fdp_status_t fdp_law_response(fdp_arena_t *a, fdp_response_t *law)
{
    /* (k - 1) 2^64 / (2^64 - truth) */
    const fdp_nat_t one = fdp_nat_left(a, fdp_nat_of(a, 1), 64);
    const fdp_nat_t rest = fdp_nat_sub(a, one, fdp_nat_of(a, law->truth));
    const fdp_nat_t rate = fdp_nat_left(a, fdp_nat_of(a, law->categories - 1), 64);
    law->shift = 128 - fdp_nat_bits(fdp_nat_div(a, rate, rest, NULL));
    const fdp_nat_t scaled = fdp_nat_div(a, fdp_nat_left(a, rate, law->shift), rest, NULL);
    if (a->failed || scaled.n != 2) {
        return FDP_ERR_MEMORY;
    }
    law->rate[0] = scaled.d[1];
    law->rate[1] = scaled.d[0];
    return FDP_OK;
}

int fdp_settle_response(fdp_settle_t *w, const void *what, const uint64_t *word, int64_t *value)
{
    const fdp_response_t *law = what;
    const bool fair = word[2] & 1;
    const uint64_t last = law->categories - 1;
    const unsigned bits = law->categories <= 64 ? 16 : law->categories <= 1 << 16 ? 32 : 64;
    value[0] = (int64_t)last;
    if (law->always && !fair) {
        return 1;
    }
    fdp_nat_t num = fdp_nat_of(w->a, law->categories), den = fdp_nat_of(w->a, 1);
    if (!fair) {
        den = fdp_nat_sub(w->a, fdp_nat_left(w->a, den, 64), fdp_nat_of(w->a, law->truth));
        num = fdp_nat_left(w->a, fdp_nat_of(w->a, last), 64);
    }
    fdp_uniform_t u = fdp_uniform_open(w, word[1], bits + 64, 0);
    if (u.d != NULL) {
        u.d[1] = word[0];
        value[0] = (int64_t)fdp_uniform_step(w, &u, num, den, last);
    }
    return fdp_settle_goes_on(w) ? 1 : -1;
}
