/* laws.c: makes prepared laws from exact parameters, in memory of the size that they need. */
#include "../base/rounding.h"
#include "../exact/law.h"
#include "scratch.h"

/* Bytes. Parameters of about 300 bits need less than the first; 8,192 bits of precision need less
 * than the second. */
#define LEAST_ROOM ((size_t)1 << 16)
#define MOST_ROOM ((size_t)1 << 24)

static fdp_nat_t number(const uint64_t *limbs, size_t n)
{
    return (fdp_nat_t){(uint64_t *)(uintptr_t)limbs, fdp_nat_trim(limbs, n)};
}

/* Fills `law`, and sets *within = 2^53 P(|X| <= bound). */
static fdp_status_t fill(fdp_law_fn make, fdp_nat_t num, fdp_nat_t den, fdp_digits_t *law,
                         uint64_t bound, uint64_t *within)
{
    fdp_status_t status = FDP_ERR_MEMORY;
    for (size_t size = LEAST_ROOM; status == FDP_ERR_MEMORY && size <= MOST_ROOM; size *= 4) {
        fdp_arena_t arena = {.base = fdp_memory_take(size), .size = size / sizeof(uint64_t)};
        if (arena.base == NULL) {
            return FDP_ERR_MEMORY;
        }
        memset(law, 0, sizeof *law);
        *within = UINT64_C(1) << 53;
        status = make(&arena, num, den, law);
        if (status == FDP_OK && bound != 0) {
            status = fdp_laplace_within(&arena, num, den, bound, within);
        }
        fdp_memory_give(arena.base, arena.most * sizeof *arena.base);
    }
    return status;
}

static fdp_status_t make_law(fdp_sampler_t *sampler, fdp_law_fn make,
                             const fdp_ratio_t *parameter, int64_t bound)
{
    const fdp_nat_t num = number(parameter->num, parameter->nums);
    const fdp_nat_t den = number(parameter->den, parameter->dens);
    uint64_t within;
    memset(sampler, 0, sizeof *sampler);
    if (num.n == 0 || den.n == 0 || num.n > FDP_LIMBS || den.n > FDP_LIMBS || bound < 0) {
        return FDP_ERR_PARAMETER;
    }
    const fdp_rounding_t saved = fdp_rounding_enter();
    fdp_status_t status = fill(make, num, den, &sampler->law, (uint64_t)bound, &within);
    if (status == FDP_OK) {
        memcpy(sampler->num, num.d, num.n * sizeof *num.d);
        memcpy(sampler->den, den.d, den.n * sizeof *den.d);
        sampler->law.bound = bound;
        sampler->acceptance = (double)within * 0x1p-53;
        status = fdp_sampler_prepare(sampler);
    }
    if (status != FDP_OK) {
        memset(sampler, 0, sizeof *sampler);
    }
    fdp_rounding_leave(saved);
    return status;
}

fdp_status_t fdp_sampler_laplace(fdp_sampler_t *sampler, const fdp_ratio_t *scale,
                                 int64_t bound)
{
    return make_law(sampler, fdp_law_laplace, scale, bound);
}

fdp_status_t fdp_sampler_gaussian(fdp_sampler_t *sampler, const fdp_ratio_t *sigma)
{
    return make_law(sampler, fdp_law_gaussian, sigma, 0);
}

fdp_status_t fdp_bernoulli_make(fdp_bernoulli_t *law, const fdp_ratio_t *p)
{
    const fdp_nat_t num = number(p->num, p->nums), den = number(p->den, p->dens);
    fdp_status_t status = FDP_ERR_MEMORY;
    memset(law, 0, sizeof *law);
    if (den.n == 0 || den.n > FDP_LIMBS || fdp_nat_compare(num, den) > 0) {
        return FDP_ERR_PARAMETER;
    }
    for (size_t size = LEAST_ROOM; status == FDP_ERR_MEMORY && size <= MOST_ROOM; size *= 4) {
        fdp_arena_t arena = {.base = fdp_memory_take(size), .size = size / sizeof(uint64_t)};
        if (arena.base == NULL) {
            break;
        }
        memset(law, 0, sizeof *law);
        status = fdp_law_patterns(&arena, num, den, law);
        fdp_memory_give(arena.base, arena.most * sizeof *arena.base);
    }
    if (status != FDP_OK) {
        memset(law, 0, sizeof *law);
        return status;
    }
    memcpy(law->num, num.d, num.n * sizeof *num.d);
    memcpy(law->den, den.d, den.n * sizeof *den.d);
    return FDP_OK;
}

fdp_status_t fdp_response_make(fdp_response_t *law, uint32_t categories, uint64_t truth,
                               int always)
{
    uint64_t room[256];
    fdp_arena_t arena = {.base = room, .size = sizeof room / sizeof *room};
    memset(law, 0, sizeof *law);
    if (categories < 2 || categories > INT32_MAX) {
        return FDP_ERR_PARAMETER;
    }
    law->categories = categories;
    law->always = always != 0;
    law->truth = always ? 0 : truth;
    return always ? FDP_OK : fdp_law_response(&arena, law);
}

/* The first 128 bits of num / den and its place: num / den = bits 2^(place - 128). */
static void fine_rate(fdp_arena_t *a, fdp_nat_t num, fdp_nat_t den, fdp_selection_t *law)
{
    int place = (int)fdp_nat_bits(num) - (int)fdp_nat_bits(den);
    const fdp_nat_t above = place < 0 ? fdp_nat_left(a, num, (unsigned)-place) : num;
    const fdp_nat_t below = place > 0 ? fdp_nat_left(a, den, (unsigned)place) : den;
    place += fdp_nat_compare(above, below) >= 0;
    const int up = 128 - place;
    const fdp_nat_t top = up > 0 ? fdp_nat_left(a, num, (unsigned)up) : num;
    const fdp_nat_t low = up < 0 ? fdp_nat_left(a, den, (unsigned)-up) : den;
    const fdp_nat_t bits = fdp_nat_div(a, top, low, NULL);
    if (!a->failed && bits.n == 2) {
        law->fine_rate[0] = bits.d[1];
        law->fine_rate[1] = bits.d[0];
        law->fine_place = place;
    }
}

fdp_status_t fdp_selection_make(fdp_selection_t *law, const fdp_ratio_t *c, fdp_race_t noise)
{
    uint64_t room[16 * FDP_LIMBS];
    fdp_arena_t arena = {.base = room, .size = sizeof room / sizeof *room};
    const fdp_nat_t num = number(c->num, c->nums), den = number(c->den, c->dens);
    memset(law, 0, sizeof *law);
    if (num.n == 0 || den.n == 0 || num.n > FDP_LIMBS || den.n > FDP_LIMBS ||
        (noise != FDP_RACE_GUMBEL && noise != FDP_RACE_LAPLACE && noise != FDP_RACE_GAUSSIAN)) {
        return FDP_ERR_PARAMETER;
    }
    fine_rate(&arena, num, den, law);
    arena.used = 0;
    const int place = law->fine_place;
    const bool inside = !arena.failed && place > -900 && place <= 901;
    law->rate = inside ? fdp_nat_quotient(&arena, num, den) : 0.0;
    if (arena.failed || !(law->rate >= 0x1p-900) || !(law->rate <= 0x1p900)) {
        memset(law, 0, sizeof *law);
        return FDP_ERR_PARAMETER;
    }
    memcpy(law->num, num.d, num.n * sizeof *num.d);
    memcpy(law->den, den.d, den.n * sizeof *den.d);
    law->noise = noise;
    return FDP_OK;
}
