/* resolver.c: compares uniforms with thresholds, and reads further bits of the uniform until the
 * comparison is decided. */
#include "resolver.h"

#include "../base/wipe.h"

#define SLACK 64 /* a threshold has this many bits more than the uniform */
#define PREFIX FDP_LAW_BITS
#define PREFIX_LIMBS (PREFIX / 64)

void fdp_uniform_block(const fdp_settle_t *w, uint32_t number, uint64_t two[2])
{
    uint8_t raw[16];
    w->block(w->context, w->base + number, raw);
    memcpy(two, raw, sizeof raw);
    fdp_wipe(raw, sizeof raw);
}

fdp_uniform_t fdp_uniform_open(fdp_settle_t *w, uint64_t prefix, unsigned nbits, uint32_t first)
{
    fdp_uniform_t u = {.nbits = nbits, .first = first};
    u.d = fdp_arena_take(w->a, PREFIX_LIMBS);
    if (u.d != NULL) {
        memset(u.d, 0, PREFIX / 8);
        u.d[0] = prefix;
    }
    return u;
}

void fdp_uniform_extend(fdp_settle_t *w, fdp_uniform_t *u)
{
    const unsigned more = u->read == 0 ? 1 : u->read, room = (PREFIX - SLACK - u->nbits) / 128;
    const unsigned count = more < room ? more : room;
    if (count == 0) {
        w->failed = true;
        return;
    }
    for (unsigned k = 0; k < count; k++) {
        uint64_t two[2];
        fdp_uniform_block(w, u->first + u->read + k, two);
        memmove(u->d + 2, u->d, PREFIX / 8 - 16);
        u->d[1] = two[0];
        u->d[0] = two[1];
        fdp_wipe(two, sizeof two);
    }
    u->nbits += 128 * count;
    u->read += count;
}

fdp_nat_t fdp_uniform_nat(const fdp_uniform_t *u)
{
    return (fdp_nat_t){u->d, fdp_nat_trim(u->d, PREFIX_LIMBS)};
}

/* The cell [low, high) of a uniform, in units of 2^-(nbits + SLACK). */
static void cell_of(const fdp_settle_t *w, const fdp_uniform_t *u, fdp_nat_t *low, fdp_nat_t *high)
{
    const fdp_nat_t x = fdp_uniform_nat(u);
    *low = fdp_nat_left(w->a, x, SLACK);
    *high = fdp_nat_left(w->a, fdp_nat_add(w->a, x, fdp_nat_of(w->a, 1)), SLACK);
}

/* -1: the whole cell is below the threshold; 1: all of it is at or above the threshold; 0:
 * undecided. */
static int side_of(const fdp_fx_t *f, const uint64_t *pair, fdp_nat_t low, fdp_nat_t high)
{
    const bool under = fdp_nat_compare(high, fdp_fx_nat(f, pair)) <= 0;
    return under ? -1 : fdp_nat_compare(low, fdp_fx_nat(f, pair + f->w)) >= 0;
}

static int compare(fdp_settle_t *w, const fdp_fx_t *f, fdp_bound_fn bound, const void *what,
                   uint64_t k, fdp_nat_t low, fdp_nat_t high)
{
    const size_t mark = fdp_arena_mark(w->a);
    uint64_t *pair = fdp_fx_take(f, 1);
    if (pair == NULL) {
        return 0;
    }
    w->a->vague = false;
    bound(w, f, what, k, pair);
    const bool known = !w->a->failed && !w->a->vague;
    const int side = known ? side_of(f, pair, low, high) : 0;
    fdp_arena_back(w->a, mark);
    return side;
}

bool fdp_uniform_below(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound, const void *what, uint64_t k)
{
    while (fdp_settle_goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_fx_t f = fdp_fx_at(w->a, u->nbits + SLACK);
        fdp_nat_t low, high;
        cell_of(w, u, &low, &high);
        const int side = w->a->failed ? 0 : compare(w, &f, bound, what, k, low, high);
        fdp_arena_back(w->a, mark);
        if (side != 0) {
            return side < 0;
        }
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return false;
}

size_t fdp_uniform_first(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn all, const void *what,
                         size_t count)
{
    while (fdp_settle_goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_fx_t f = fdp_fx_at(w->a, u->nbits + SLACK);
        fdp_nat_t low, high;
        cell_of(w, u, &low, &high);
        uint64_t *pairs = fdp_fx_take(&f, count);
        size_t k = 0;
        int side = 0;
        w->a->vague = false;
        if (pairs != NULL) {
            all(w, &f, what, count, pairs);
        }
        if (!w->a->failed && !w->a->vague) {
            do {
                side = side_of(&f, fdp_fx_lo(&f, pairs, k), low, high);
            } while (side > 0 && ++k < count);
        }
        fdp_arena_back(w->a, mark);
        if (side != 0) {
            return k;
        }
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return count;
}

uint64_t fdp_uniform_level(fdp_settle_t *w, fdp_uniform_t *u, fdp_bound_fn bound, fdp_guess_fn guess,
                           const void *what)
{
    while (fdp_settle_goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_fx_t f = fdp_fx_at(w->a, u->nbits + SLACK);
        fdp_nat_t low, high;
        cell_of(w, u, &low, &high);
        const fdp_nat_t middle = fdp_nat_right(w->a, fdp_nat_add(w->a, low, high), 1);
        const double about = w->a->failed ? 0.0 : guess(w, &f, what, middle);
        if (!(about < 0x1p62)) { /* happens with a probability below 2^-1000 */
            w->failed = true;
        }
        uint64_t k = fdp_settle_goes_on(w) && about > 0.0 ? (uint64_t)about : 0;
        bool found = false, open = false;
        while (fdp_settle_goes_on(w) && !found && !open) {
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
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return 0;
}

uint64_t fdp_uniform_step(fdp_settle_t *w, fdp_uniform_t *u, fdp_nat_t num, fdp_nat_t den,
                          uint64_t last)
{
    while (fdp_settle_goes_on(w)) {
        const size_t mark = fdp_arena_mark(w->a);
        const fdp_nat_t x = fdp_uniform_nat(u), one = fdp_nat_of(w->a, 1);
        const fdp_nat_t least = fdp_nat_div(w->a, fdp_nat_mul(w->a, x, num), den, NULL);
        const fdp_nat_t end = fdp_nat_mul(w->a, fdp_nat_add(w->a, x, one), num);
        const fdp_nat_t most = fdp_nat_sub(w->a, fdp_nat_div_up(w->a, end, den), one);
        const fdp_nat_t low = fdp_nat_right(w->a, least, u->nbits);
        const fdp_nat_t high = fdp_nat_right(w->a, most, u->nbits);
        const bool known = !w->a->failed && fdp_nat_compare(low, high) == 0;
        const uint64_t step = w->a->failed || low.n == 0 ? 0 : low.n > 1 ? last : low.d[0];
        fdp_arena_back(w->a, mark);
        if (!w->a->failed && (known || step >= last)) {
            return step < last ? step : last;
        }
        if (fdp_settle_goes_on(w)) {
            fdp_uniform_extend(w, u);
        }
    }
    return 0;
}
