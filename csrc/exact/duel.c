/* duel.c: which of two candidates of a race is ahead; see choice.h.
 *
 *   gumbel, exponential, gaussian   the noise on the cells of its reals
 *   add_scores                      the distance of the scores, and of the weights
 *   leader_of                       which candidate is ahead, if this is decided
 */
#include "choice.h"

/* An enclosure of a candidate's noise, or of another term of its key: both ends in two's
 * complement. open[0]: unbounded below; open[1]: unbounded above. */
typedef struct {
    uint64_t *pair;
    bool open[2];
} ends_t;

/* -ln(num / 2^nbits); unbounded if num is 0. */
static bool minus_log(const fdp_fx_t *f, uint64_t *out, fdp_nat_t num, unsigned nbits)
{
    const size_t mark = fdp_arena_mark(f->a);
    const fdp_nat_t one = fdp_nat_left(f->a, fdp_nat_of(f->a, 1), nbits);
    const bool bounded = num.n != 0;
    if (bounded && !f->a->failed) {
        fdp_fx_log(f, out, one, num);
    }
    fdp_arena_back(f->a, mark);
    return bounded;
}

/* -ln of the cell [a, a + 1) 2^-nbits. */
static void exponential(const fdp_fx_t *f, ends_t *e, fdp_nat_t a, unsigned nbits)
{
    uint64_t *some = fdp_fx_take(f, 1);
    if (some == NULL) {
        return;
    }
    memset(some, 0, 2 * f->w * sizeof *some);
    minus_log(f, e->pair, fdp_nat_add(f->a, a, fdp_nat_of(f->a, 1)), nbits);
    e->open[0] = false;
    e->open[1] = !minus_log(f, some, a, nbits);
    memcpy(e->pair + f->w, some + f->w, f->w * sizeof *some);
}

/* -ln(1 - U) on the cell of U. */
static void complement(const fdp_fx_t *f, ends_t *e, const fdp_uniform_t *u)
{
    const fdp_nat_t one = fdp_nat_of(f->a, 1);
    const fdp_nat_t most = fdp_nat_sub(f->a, fdp_nat_left(f->a, one, u->nbits), one);
    exponential(f, e, fdp_nat_sub(f->a, most, fdp_uniform_nat(u)), u->nbits);
}

/* -ln(-ln(1 - U)). It falls as -ln(1 - U) rises, and -ln(1 - U) may be as small as U. */
static void gumbel(const fdp_fx_t *f, ends_t *e, const fdp_uniform_t *u)
{
    const fdp_fx_t fine = fdp_fx_at(f->a, f->bits + u->nbits);
    ends_t size = {.pair = fdp_fx_take(&fine, 1)};
    uint64_t *some = fdp_fx_take(f, 1);
    if (some == NULL) {
        return;
    }
    complement(&fine, &size, u);
    const fdp_nat_t one = fdp_nat_left(f->a, fdp_nat_of(f->a, 1), fine.bits);
    if (f->a->failed) {
        return;
    }
    for (size_t side = 0; side < 2 && !f->a->failed; side++) { /* of the key */
        const fdp_nat_t x = fdp_fx_nat(&fine, size.pair + (1 - side) * fine.w);
        e->open[side] = size.open[1 - side] || x.n == 0;
        if (!e->open[side]) {
            fdp_fx_log_signed(f, some, one, x);
            memcpy(e->pair + side * f->w, some + side * f->w, f->w * sizeof *some);
        }
    }
}

/* sqrt(-2 ln(1 - U)) cos(pi/2 A). */
static void gaussian(const fdp_fx_t *f, ends_t *e, const fdp_uniform_t *u,
                     const fdp_uniform_t *angle)
{
    ends_t size = {.pair = fdp_fx_take(f, 1)};
    uint64_t *turn = fdp_fx_take(f, 1), *most = fdp_fx_take(f, 1);
    if (most == NULL) {
        return;
    }
    complement(f, &size, u);
    const fdp_nat_t a = fdp_uniform_nat(angle), one = fdp_nat_of(f->a, 1);
    fdp_fx_cos_quarter(f, turn, fdp_nat_add(f->a, a, one), angle->nbits);
    fdp_fx_cos_quarter(f, most, a, angle->nbits);
    if (f->a->failed) {
        return;
    }
    memcpy(turn + f->w, most + f->w, f->w * sizeof *most);
    for (size_t side = 0; side < 2 && !size.open[side]; side++) {
        const fdp_nat_t x = fdp_fx_nat(f, size.pair + side * f->w);
        const fdp_nat_t root = fdp_nat_root(f->a, fdp_nat_left(f->a, x, f->bits + 1));
        const fdp_nat_t up = side == 0 ? root : fdp_nat_add(f->a, root, one);
        if (f->a->failed) {
            return;
        }
        fdp_fx_set_nat(f, size.pair + side * f->w, up);
    }
    e->open[0] = false;
    e->open[1] = size.open[1];
    if (e->open[1]) {
        memcpy(size.pair + f->w, size.pair, f->w * sizeof *most);
    }
    fdp_fx_times(f, e->pair, size.pair, turn);
}

typedef struct {
    const fdp_duel_t *duel;
    bool plain; /* the keys are the noise alone */
    fdp_uniform_t u[2], angle[2];
} race_t;

static bool is_negative(const race_t *r, size_t j)
{
    const fdp_race_t noise = r->duel->choice[0]->law->noise;
    const uint64_t *word = r->duel->word[j];
    return noise == FDP_RACE_LAPLACE ? word[0] & 1 : noise == FDP_RACE_GAUSSIAN && word[1] & 1;
}

static void noise_of(const race_t *r, const fdp_fx_t *f, size_t j, ends_t *e)
{
    const fdp_uniform_t *u = &r->u[j];
    switch (r->duel->choice[0]->law->noise) {
    case FDP_RACE_GUMBEL: gumbel(f, e, u); break;
    case FDP_RACE_LAPLACE: exponential(f, e, fdp_uniform_nat(u), u->nbits); break;
    default: gaussian(f, e, u, &r->angle[j]); break;
    }
    if (is_negative(r, j) && !f->a->failed) {
        const bool low = e->open[0];
        fdp_fx_negate(f, e->pair);
        e->open[0] = e->open[1];
        e->open[1] = low;
    }
}

#define FAR 30 /* c times a distance is cut off at 2^30, far beyond all noise */

/* Adds c (score - other score) + ln(weight / other weight). */
static void add_scores(const race_t *r, const fdp_fx_t *f, uint64_t *sum)
{
    const fdp_choice_t *const *c = r->duel->choice;
    const size_t *index = r->duel->index;
    fdp_arena_t *a = f->a;
    uint64_t *pair = fdp_fx_take(f, 1);
    fdp_any_score_t score[2];
    fdp_nat_t num, den, top[2], low[2];
    for (size_t j = 0; j < 2; j++) {
        score[j].type = c[j]->from->type;
        fdp_choice_score(c[j], index[j], &score[j].bits);
    }
    const bool below = fdp_choice_gap(a, c[0]->law, score[0], score[1], &num, &den);
    if (a->failed) {
        return;
    }
    if ((int)fdp_nat_bits(num) - (int)fdp_nat_bits(den) > FAR) {
        num = fdp_nat_left(a, fdp_nat_of(a, 1), FAR);
        den = fdp_nat_of(a, 1);
    }
    num = fdp_nat_left(a, num, f->bits);
    const fdp_nat_t least = fdp_nat_div(a, num, den, NULL), most = fdp_nat_div_up(a, num, den);
    if (a->failed) {
        return;
    }
    fdp_fx_set_nat(f, pair, least);
    fdp_fx_set_nat(f, pair + f->w, most);
    if (below) {
        fdp_fx_negate(f, pair);
    }
    fdp_fx_add(f, sum, sum, pair);
    if (c[0]->mantissa != NULL) {
        for (size_t j = 0; j < 2; j++) {
            fdp_choice_weight(a, c[j], index[j], fdp_choice_top(c[j]), &top[j], &low[j]);
        }
        num = fdp_nat_mul(a, top[0], low[1]);
        den = fdp_nat_mul(a, top[1], low[0]);
        if (!a->failed) {
            fdp_fx_log_signed(f, pair, num, den);
        }
        if (!a->failed) {
            fdp_fx_add(f, sum, sum, pair);
        }
    }
}

/* 1: the first is ahead; -1: the second is ahead; 0: undecided. */
static int leader_of(const race_t *r, const fdp_fx_t *f)
{
    ends_t own = {.pair = fdp_fx_take(f, 1)}, other = {.pair = fdp_fx_take(f, 1)};
    if (other.pair == NULL) {
        return 0;
    }
    memset(own.pair, 0, 4 * f->w * sizeof *own.pair);
    noise_of(r, f, 0, &own);
    noise_of(r, f, 1, &other);
    if (f->a->failed) {
        return 0;
    }
    fdp_fx_negate(f, other.pair);
    fdp_fx_add(f, own.pair, own.pair, other.pair);
    if (!r->plain) {
        add_scores(r, f, own.pair);
    }
    if (f->a->failed || f->a->vague) {
        return 0;
    }
    const bool bounded = !own.open[0] && !other.open[1];
    if (bounded && fdp_fx_sign(own.pair, f->w) >= 0) {
        return 1;
    }
    const bool below = !own.open[1] && !other.open[0];
    return below && fdp_fx_sign(own.pair + f->w, f->w) <= 0 ? -1 : 0;
}

static void read_more(fdp_settle_t *w, race_t *r)
{
    for (size_t j = 0; j < 2; j++) {
        w->context = r->duel->real[j][0];
        fdp_uniform_extend(w, &r->u[j]);
        if (r->duel->choice[0]->law->noise == FDP_RACE_GAUSSIAN) {
            w->context = r->duel->real[j][1];
            fdp_uniform_extend(w, &r->angle[j]);
        }
    }
}

int fdp_settle_duel(fdp_settle_t *w, const void *duel, const uint64_t *words, int64_t *value)
{
    race_t r = {.duel = duel};
    uint64_t score;
    bool counts[2];
    (void)words;
    for (size_t j = 0; j < 2; j++) {
        const uint64_t *word = r.duel->word[j];
        const bool sign = r.duel->choice[0]->law->noise == FDP_RACE_LAPLACE;
        counts[j] = fdp_choice_score(r.duel->choice[j], r.duel->index[j], &score);
        r.u[j] = fdp_uniform_open(w, word[0] >> sign, 64 - sign, 0);
        r.angle[j] = fdp_uniform_open(w, word[1] >> 1, 63, 0);
    }
    r.plain = !counts[0];
    value[0] = counts[0];
    for (int ahead = 0; counts[0] == counts[1] && ahead == 0 && fdp_settle_goes_on(w);) {
        const size_t mark = fdp_arena_mark(w->a);
        const unsigned known = r.u[0].nbits; /* at least 63 */
        const fdp_fx_t f = fdp_fx_at(w->a, known + 64);
        w->a->vague = false;
        ahead = leader_of(&r, &f);
        value[0] = ahead > 0;
        fdp_arena_back(w->a, mark);
        if (ahead == 0 && fdp_settle_goes_on(w)) {
            read_more(w, &r);
        }
    }
    return fdp_settle_goes_on(w) ? 1 : -1;
}
