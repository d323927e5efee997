/* levels_selection.h: the part of levels.c for private selection: the same choices at
 * all levels, by proposals, by inversion, by its 128-bit step and by every race. What a
 * level leaves undecided fails, for the law here has no exact rate: with random words that
 * has a probability below 2^-20 for all cases together. */
#ifndef FDP_LEVELS_SELECTION_H
#define FDP_LEVELS_SELECTION_H

#define CANDIDATES 6000

typedef struct {
    fdp_call_t call;
    fdp_selection_t law;
    fdp_candidates_t from;
    size_t k; /* choices by inversion; 0: a race; SIZE_MAX: proposals, less 1: flips */
} choice_t;

static size_t draw_choice(const void *context, uint8_t *out)
{
    const choice_t *c = context;
    int64_t *index = (int64_t *)(void *)out;
    if (c->k == SIZE_MAX) {
        differences += fdp_select_proposed(&c->call, &c->law, &c->from, 77, index) != FDP_OK;
        return c->from.rows * sizeof *index;
    }
    if (c->k == SIZE_MAX - 1) {
        differences += fdp_select_flipped(&c->call, &c->law, &c->from, 77, index) != FDP_OK;
        return c->from.rows * sizeof *index;
    }
    const fdp_status_t status =
        c->k == 0 ? fdp_select_race(&c->call, &c->law, &c->from, 77, index)
                  : fdp_select_inverse(&c->call, &c->law, &c->from, 77, c->k, index);
    differences += status != FDP_OK;
    return c->from.rows * (c->k == 0 ? 1 : c->k) * sizeof *index;
}

/* Scores of a few nats' range, some lost, infinite or equal. */
static void some_scores(fdp_dtype_t type, double *real, int64_t *whole, double *mantissa,
                        double *exponent)
{
    for (size_t i = 0; i < CANDIDATES; i++) {
        const uint64_t r = next();
        real[i] = r % 50 == 0 ? (r % 100 == 0 ? NAN : -INFINITY)
                              : (double)(r >> 40) * 0x1p-20 - 3.0;
        whole[i] = r % 1000 == 0 ? INT64_MIN + 5 : (int64_t)((r >> 32) % 40);
        mantissa[i] = r % 9 == 0 ? 0.0 : 0.5 + (double)(r % 1024) * 0x1p-11;
        exponent[i] = r % 9 == 0 ? -0x1p17 : -(double)(r % 20);
    }
    if (type == FDP_F64) {
        real[17] = 9.5;
    }
}

static void check_choices(uint32_t cipher)
{
    static double real[CANDIDATES], mantissa[CANDIDATES], exponent[CANDIDATES];
    static int64_t whole[CANDIDATES];
    static const size_t shapes[][2] = {{1, 1},   {100, 1},  {9, 15},  {7, 16},  {5, 17},
                                       {3, 511}, {3, 512}, {2, 513}, {1, 6000}};
    for (size_t j = 0; j < COUNT(shapes) * 2 * 2 * 8; j++) {
        const size_t *shape = shapes[j % COUNT(shapes)];
        const size_t kind = j / COUNT(shapes);
        const size_t method = kind / 4;
        const bool weighted = kind % 2 != 0 && method != 5;
        const fdp_dtype_t type = kind / 2 % 2 != 0 ? FDP_I64 : FDP_F64;
        state = j + 1;
        some_scores(type, real, whole, mantissa, exponent);
        const choice_t c = {
            .call = {.stream = stream_of(cipher)},
            .law = {.rate = 0.7,
                    .tolerance = method == 6 ? 1.0 : 0.0,
                    .noise = method < 2 ? FDP_RACE_GUMBEL
                                        : (fdp_race_t)((method - 2) % 3),
                    .fine_rate = {UINT64_C(0xb333333333333000), 0}},
            .from = {.rows = shape[0],
                     .n = shape[1],
                     .score = type == FDP_F64 ? (const void *)real : whole,
                     .type = type,
                     .mantissa = weighted ? mantissa : NULL,
                     .exponent = weighted ? exponent : NULL,
                     .weight_spread = 22.0,
                     .weight_stride = shape[1]},
            .k = method == 7 ? SIZE_MAX : method == 5 ? SIZE_MAX - 1 : method == 0 || method == 6 ? 1 : method == 1 ? (shape[1] + 2) / 3 : 0};
        char name[100];
        snprintf(name, sizeof name, "method %zu rows %zu n %zu type %d weights %d", method,
                 shape[0], shape[1], (int)type, (int)weighted);
        across("choice", name, cipher, draw_choice, &c, sizeof(int64_t));
    }
}

#endif
