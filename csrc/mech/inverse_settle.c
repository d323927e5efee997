/* inverse_settle.c: see inverse_settle.h; error analysis in docs/proofs/selection.md.
 *
 *   distance_*, gap_*   exact differences of scores, times the rate
 *   mass_*           weights in fixed point, and sums of them over the tree
 *   walk             the child that the point of the mass falls on, height by height
 */
#include "inverse_settle.h"

#include "../base/mul128.h"
#include "../sampler/constants.h"
#include "../sampler/selection.h"
#include "../sampler/bits.h"
#include "../sampler/settle.h"

#define GAP_POINT 112  /* fractional bits of a gap */
#define GAP_TOP 15     /* gaps of 2^15 or more have no weight */
#define PLACE_LEAST (-(1 << 14))

_Static_assert(FDP_TREE_BLOCK == FDP_BLOCK && FDP_TREE_LANES == FDP_LANES, "one tree");

typedef struct {
    const fdp_choice_t *c;
    uint64_t largest;      /* the largest score */
    int64_t top;           /* the largest place of a weight */
    unsigned fit;          /* bits dropped so that the sum of n masses fits */
} row_t;

/* A weight, mass * 2^(place - 127). It counts for nothing if mass is 0. */
typedef struct {
    fdp_u128_t mass;
    int64_t place;
} weight_t;

/* ---- scores ---------------------------------------------------------------------- */

#define DOUBLE_SIGN (UINT64_C(1) << 63)

/* a - b >= 0 as distance * 2^place. The distance is below 2^119 and has an error of at most one
 * unit; it is exact if it is below 2^115. */
static fdp_u128_t distance_of(uint64_t a, uint64_t b, int *place)
{
    int place_a, place_b;
    const uint64_t part_a = fdp_double_part(a, &place_a), part_b = fdp_double_part(b, &place_b);
    const int most = place_a > place_b ? place_a : place_b;
    const int down_a = most - place_a, down_b = most - place_b;
    const fdp_u128_t size_a = down_a > 127 ? 0 : ((fdp_u128_t)part_a << 64) >> down_a;
    const fdp_u128_t size_b = down_b > 127 ? 0 : ((fdp_u128_t)part_b << 64) >> down_b;
    *place = most - 64;
    if (((a ^ b) & DOUBLE_SIGN) != 0) {
        return size_a + size_b;
    }
    return (a & DOUBLE_SIGN) == 0 ? size_a - size_b : size_b - size_a;
}

static unsigned leading_zeros(fdp_u128_t x)
{
    const uint64_t high = (uint64_t)(x >> 64);
    return (unsigned)(high != 0 ? __builtin_clzll(high)
                                : 64 + __builtin_clzll((uint64_t)x));
}

/* The gap of a score in units of 2^-112. Returns false if the gap is about 2^15 or more. */
static bool gap_of(const row_t *r, uint64_t score, fdp_u128_t *gap)
{
    int place = 0;
    const fdp_u128_t distance =
        r->c->from->type == FDP_I64 ? (fdp_u128_t)(r->largest - score)
                                 : distance_of(r->largest, score, &place);
    *gap = 0;
    if (distance == 0) {
        return true;
    }
    const unsigned up = leading_zeros(distance);
    const fdp_u128_t rate =
        ((fdp_u128_t)r->c->law->fine_rate[0] << 64) | r->c->law->fine_rate[1];
    const fdp_u128_t product = fdp_mul_high_u128(rate, distance << up);
    /* gap = product * 2^(down - 112), product at least 2^126 */
    const int64_t down = (int64_t)r->c->law->fine_place + place - (int64_t)up + GAP_POINT;
    if (down > GAP_TOP + GAP_POINT - 127) {
        return false;
    }
    *gap = down <= -128 ? 0 : product >> -down;
    return true;
}

/* ---- masses ---------------------------------------------------------------------- */

/* k ln 2 in units of 2^-112; k < 2^15 log2(e) < 2^16, because gaps are below 2^15. */
static fdp_u128_t times_log_two(uint64_t k)
{
    return ((fdp_u128_t)FDP_LN2_128_HI * k << 48) + ((fdp_u128_t)FDP_LN2_128_LO * k >> 16);
}

/* A base weight > 0 as mantissa 2^(exponent - 64), with the mantissa's top bit set. Returns the
 * exponent. */
static int64_t mantissa_of(const row_t *r, size_t i, uint64_t *mantissa)
{
    int place;
    const uint64_t part = fdp_double_part(fdp_double_bits(r->c->mantissa[i]), &place);
    const int up = __builtin_clzll(part);
    *mantissa = part << up;
    return place - up + 64 +
           (r->c->exponent != NULL ? (int64_t)r->c->exponent[i] : -r->c->from->weight_top);
}

static weight_t weight_of(const row_t *r, size_t i, bool place_only)
{
    weight_t w = {0, INT64_MIN / 2};
    uint64_t score;
    fdp_u128_t gap;
    if (!fdp_choice_score(r->c, i, &score) || !gap_of(r, score, &gap)) {
        return w;
    }
    const double size = (double)(uint64_t)(gap >> 64) * 0x1p-48;
    const double nats = size * FDP_LOG2E - 0x1p-20;
    const uint64_t k = nats > 0.0 ? (uint64_t)nats : 0;
    uint64_t mantissa = 0;
    w.place = r->c->mantissa == NULL ? 0 : mantissa_of(r, i, &mantissa);
    w.place -= (int64_t)k;
    if (place_only) {
        return w;
    }
    w.mass = fdp_exp_minus((gap - times_log_two(k)) << (127 - GAP_POINT));
    if (r->c->mantissa != NULL) {
        w.mass = fdp_mul_high_u128(w.mass, (fdp_u128_t)mantissa << 64);
    }
    return w;
}

/* Mass of the candidates first ... last - 1. */
static fdp_u128_t mass_of(const row_t *r, size_t first, size_t last)
{
    fdp_u128_t sum = 0;
    for (size_t i = first; i < last; i++) {
        const weight_t w = weight_of(r, i, false);
        const int64_t down = r->top - w.place + r->fit;
        sum += down > 127 ? 0 : w.mass >> down;
    }
    return sum;
}

/* The masses of a node's children, `span` candidates each; `first` is the node's first candidate.
 * Returns the number of children. */
static size_t masses_of(const row_t *r, size_t first, size_t span, fdp_u128_t *mass)
{
    const size_t left = r->c->from->n - first;
    const size_t whole = left / span + (left % span != 0);
    const size_t count = whole < FDP_BLOCK ? whole : FDP_BLOCK;
    for (size_t c = 0; c < count; c++) {
        const size_t from = first + c * span;
        const size_t size = r->c->from->n - from < span ? r->c->from->n - from : span;
        mass[c] = mass_of(r, from, from + size);
    }
    return count;
}

/* ---- the choice ------------------------------------------------------------------- */

/* The candidate that a real of 128 bits falls on. Returns false if this is not decided. */
static bool walk(const row_t *r, fdp_u128_t u, int64_t *choice)
{
    fdp_u128_t mass[FDP_BLOCK];
    size_t span = 1, first = 0;
    while ((r->c->from->n - 1) / span >= FDP_BLOCK) {
        span *= FDP_BLOCK;
    }
    size_t count = masses_of(r, first, span, mass);
    fdp_u128_t total = 0, before = 0;
    for (size_t c = 0; c < count; c++) {
        total += mass[c];
    }
    const fdp_u128_t point = fdp_mul_high_u128(u, total);
    const fdp_u128_t slack = (total >> 96) + 2 * (fdp_u128_t)r->c->from->n + 4;
    for (;;) {
        size_t found = count;
        for (size_t l = 0; l < FDP_LANES && found == count; l++) {
            for (size_t c = l; c < count && found == count; c += FDP_LANES) {
                if (point - before < mass[c]) {
                    found = c;
                } else {
                    before += mass[c];
                }
            }
        }
        if (found == count) {
            return false;
        }
        first += found * span;
        if (span == 1) {
            *choice = (int64_t)first;
            return point - before >= slack && before + mass[found] - point >= slack;
        }
        span /= FDP_BLOCK;
        count = masses_of(r, first, span, mass);
    }
}

/* The candidate number floor(U m) of the m remaining ones. */
static bool choose_evenly(const row_t *r, fdp_u128_t u, int64_t *choice)
{
    uint64_t left = 0;
    for (size_t i = 0; i < r->c->from->n; i++) {
        left += !fdp_choice_removed(r->c, i);
    }
    uint64_t place = (uint64_t)fdp_mul_high_u128(u, left);
    const fdp_u128_t rest = u * left;
    for (size_t i = 0; i < r->c->from->n; i++) {
        if (!fdp_choice_removed(r->c, i) && place-- == 0) {
            *choice = (int64_t)i;
            break;
        }
    }
    return rest <= 0 - (fdp_u128_t)left;
}

bool fdp_inverse_settle(const fdp_choice_t *c, uint64_t high, uint64_t low, int64_t *choice)
{
    row_t r = {.c = c};
    const size_t n = c->from->n;
    const fdp_u128_t u = ((fdp_u128_t)high << 64) | low;
    if (c->law->fine_rate[0] == 0 || c->weight != NULL) {
        return false;
    }
    for (size_t i = 0; i < n && c->exponent != NULL; i++) {
        uint64_t score;
        if (fdp_choice_score(c, i, &score) && c->exponent[i] < PLACE_LEAST) {
            return false;
        }
    }
    if (!fdp_choice_most(c, &r.largest)) {
        return choose_evenly(&r, u, choice);
    }
    r.fit = 65 - (unsigned)__builtin_clzll(n);
    r.top = c->mantissa == NULL ? 0 : INT64_MIN;
    for (size_t i = 0; i < n && c->mantissa != NULL; i++) {
        const int64_t place = weight_of(&r, i, true).place;
        r.top = place > r.top ? place : r.top;
    }
    return walk(&r, u, choice);
}
