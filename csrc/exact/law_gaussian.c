/* law_gaussian.c: the tables of the discrete Gaussian law for small sigma. */
#include "law.h"

/* The weights exp(-m^2 / 2 sigma^2), each from the one before: the m-th step multiplies by q^(2m +
 * 1). At the end `term` is the weight of m = 64 and `step` is the next factor. */
static void inner(const fdp_fx_t *f, const uint64_t *twice, uint64_t *step, uint64_t *law,
                  uint64_t *term)
{
    fdp_fx_set_one(f, term);
    fdp_fx_set_one(f, term + f->w);
    for (size_t m = 0; m < 64; m++) {
        fdp_fx_copy(f, fdp_fx_lo(f, law, 64 + m), term);
        fdp_fx_copy(f, fdp_fx_lo(f, law, 64 - m), term);
        fdp_fx_times(f, term, term, step);
        fdp_fx_times(f, step, step, twice);
    }
}

/* Twice the sum of the remaining terms. Each term is below 0.45 times the one before; so once the
 * lower end of a term is 0, the rest is below the term's upper end. */
static void outer(const fdp_fx_t *f, const uint64_t *twice, uint64_t *step, uint64_t *term,
                  uint64_t *sum)
{
    memset(sum, 0, 2 * f->w * sizeof *sum);
    while (fdp_nat_trim(term, f->w) != 0 && !f->a->failed) {
        fdp_fx_add(f, sum, sum, term);
        fdp_fx_times(f, term, term, step);
        fdp_fx_times(f, step, step, twice);
    }
    fdp_fx_add(f, sum, sum, term);
    fdp_limbs_add(sum + f->w, sum + f->w, term + f->w, f->w);
    fdp_fx_scale(f, sum, sum, 2, 1);
}

void fdp_gaussian_first(const fdp_fx_t *f, fdp_nat_t num2, fdp_nat_t den2, uint64_t *law)
{
    const size_t p = 2 * f->w, mark = fdp_arena_mark(f->a);
    uint64_t *step = fdp_fx_take(f, 1), *twice = fdp_fx_take(f, 1);
    uint64_t *term = fdp_fx_take(f, 1), *total = fdp_fx_take(f, 1);
    if (total == NULL) {
        return;
    }
    fdp_fx_exp_neg(f, step, den2, fdp_nat_left(f->a, num2, 1));
    fdp_fx_times(f, twice, step, step);
    inner(f, twice, step, law, term);
    outer(f, twice, step, term, law);
    memset(total, 0, p * sizeof *total);
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        fdp_fx_add(f, total, total, law + i * p);
    }
    fdp_fx_set_one(f, term);
    fdp_fx_set_one(f, term + f->w);
    fdp_fx_over(f, step, term, total);
    for (size_t i = 0; i < FDP_COLUMNS; i++) {
        fdp_fx_times(f, law + i * p, law + i * p, step);
    }
    fdp_arena_back(f->a, mark);
}

static bool attempt(const fdp_fx_t *f, fdp_nat_t num2, fdp_nat_t den2, fdp_digits_t *out)
{
    uint64_t *law = fdp_fx_take(f, FDP_COLUMNS);
    if (law == NULL) {
        return false;
    }
    fdp_gaussian_first(f, num2, den2, law);
    return !f->a->failed && fdp_alias_first(f, law, 1, out);
}

fdp_status_t fdp_law_gaussian(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, fdp_digits_t *law)
{
    if (fdp_nat_compare(fdp_nat_mul(a, fdp_nat_of(a, 1000), num), den) < 0 ||
        fdp_nat_compare(num, fdp_nat_left(a, den, 55)) > 0) {
        return a->failed ? FDP_ERR_MEMORY : FDP_ERR_PARAMETER;
    }
    const fdp_nat_t ten = fdp_nat_mul(a, fdp_nat_of(a, 10), num);
    const fdp_nat_t most = fdp_nat_mul(a, fdp_nat_of(a, 87), den);
    const fdp_nat_t num2 = fdp_nat_mul(a, num, num), den2 = fdp_nat_mul(a, den, den);
    while (!a->failed && fdp_nat_compare(ten, fdp_nat_left(a, most, law->shift)) > 0) {
        law->shift++;
    }
    if (a->failed) {
        return FDP_ERR_MEMORY;
    }
    if (law->shift != 0) {
        law->low = law->shift > 8 ? law->shift - 8 : 0;
        const fdp_sigma_t t = {num, den, num2, den2, law->shift, law->low, 0};
        return fdp_law_tilted(a, &t, law);
    }
    const size_t start = fdp_arena_mark(a);
    bool sure = false;
    for (unsigned bits = 151; !sure && bits <= FDP_LAW_BITS && !a->failed;
         bits = 2 * bits + 40) {
        const fdp_fx_t f = fdp_fx_at(a, bits);
        a->vague = false;
        sure = attempt(&f, num2, den2, law) && !a->vague;
        fdp_arena_back(a, start);
    }
    return a->failed ? FDP_ERR_MEMORY : sure ? FDP_OK : FDP_ERR_RESOLVER;
}
