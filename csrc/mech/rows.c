/* rows.c: sums of rows that no row can move further than its bound.
 *
 *   fdp_clip_rows   the integers of each row, held to the bound
 *   fdp_clip_sums   their sums, by block
 *
 * A row becomes integers first: scaled down to the ball if it lies outside, divided by
 * the grid's step and rounded. The bound is then checked in integers, so that floats
 * decide about accuracy only, never about privacy. docs/proofs/sums.md
 *
 * Timing class T0.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"
#include "scratch.h"

#define TRIES 3    /* truncations of a row that rounding put outside */
#define BATCH 2048 /* coordinates of the rows that are worked on together */

/* Rows on their way to integers. All go through one pass before any goes through the
 * next: the passes of one row would wait for each other's stores. */
typedef struct {
    const fdp_kernels_t *kernels;
    const fdp_clip_t *clip;
    int squares;    /* the norm is of squares */
    size_t padded;  /* coordinates of a row, rounded up to a multiple of 16 */
    size_t rows;    /* room, in rows */
    double *y;      /* a row of which a copy is needed */
    double *factor; /* first what a row measures, then what takes it to steps */
    int32_t *z;     /* the rows in steps */
    void *memory;
    size_t size;
} batch_t;

static bool batch_open(batch_t *b, const fdp_clip_t *clip)
{
    b->kernels = fdp_kernels();
    b->clip = clip;
    b->squares = clip->norm == FDP_NORM_L2;
    b->padded = (clip->dimension + 15) & ~(size_t)15;
    b->rows = 1 + (BATCH - 1) / b->padded;
    const size_t n = b->rows * b->padded;
    b->size = (clip->dimension + b->rows) * sizeof(double) + n * sizeof(int32_t);
    b->memory = fdp_memory_take(b->size);
    if (b->memory == NULL) {
        return false;
    }
    b->y = b->memory;
    b->factor = b->y + clip->dimension;
    b->z = (int32_t *)(void *)(b->factor + b->rows);
    return true;
}

static void batch_close(batch_t *b) { fdp_memory_give(b->memory, b->size); }

/* 2^e, 0 below the normal doubles and infinity above them. */
static double power(int e)
{
    const uint64_t bits = e < -1022  ? 0
                          : e > 1023 ? UINT64_C(0x7ff) << 52
                                     : (uint64_t)(e + 1023) << 52;
    double result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* A row of floats or doubles, as doubles. */
static const double *copied(const batch_t *b, const void *row, int single)
{
    if (single) {
        for (size_t i = 0; i < b->clip->dimension; i++) {
            b->y[i] = (double)((const float *)row)[i];
        }
    } else {
        memcpy(b->y, row, b->clip->dimension * sizeof(double));
    }
    return b->y;
}

/* For a copied row that overflows, vanishes, or holds what is no number: NaN becomes 0,
 * an infinity the largest double, and the row is scaled into [-1, 1]. Returns the factor
 * from there to steps. */
static double tame(const batch_t *b)
{
    const fdp_clip_t *clip = b->clip;
    double *y = b->y, largest = 0, sum = 0;
    int e;
    for (size_t i = 0; i < clip->dimension; i++) {
        const double number = y[i] == y[i] ? y[i] : 0;
        y[i] = number > DBL_MAX ? DBL_MAX : number < -DBL_MAX ? -DBL_MAX : number;
        largest = fabs(y[i]) > largest ? fabs(y[i]) : largest;
    }
    if (largest == 0) {
        return 0;
    }
    frexp(largest, &e);
    for (size_t i = 0; i < clip->dimension; i++) {
        y[i] = y[i] * power(-(e / 2)) * power(-(e - e / 2));
        sum += b->squares ? y[i] * y[i] : fabs(y[i]);
    }
    const double reach = clip->radius / (b->squares ? sqrt(sum) : sum);
    return power(e) <= reach ? power(e - clip->step) : reach * power(-clip->step);
}

/* From what rows measure to what takes them to steps: 1/step within the ball, else to
 * the surface; 0 for rows that overflow, vanish, or hold what is no number. */
static void find_factors(const fdp_clip_t *clip, double *factor, size_t n)
{
    const double radius = clip->radius, scale = power(-clip->step);
    const int squares = clip->norm == FDP_NORM_L2;
    for (size_t r = 0; r < n; r++) {
        const double measure = factor[r];
        const double norm = squares ? sqrt(measure) : measure;
        const double shrink = norm <= radius ? 1 : radius / norm;
        const int usual = (measure >= 0x1p-150) & (measure <= 0x1p250);
        factor[r] = usual ? shrink * scale : 0;
    }
}

/* The bound, in integers, of a row whose entries are `apart`. */
static bool inside(const batch_t *b, const int32_t *row, size_t apart)
{
    const int64_t most = (int64_t)b->clip->most;
    uint64_t sum = 0;
    for (size_t i = 0; i < b->clip->dimension; i++) {
        const int64_t entry = row[i * apart], z = entry < 0 ? -entry : entry;
        if (z > most || sum > b->clip->limit) {
            return false;
        }
        sum += (uint64_t)(b->squares ? z * z : z);
    }
    return sum <= b->clip->limit;
}

/* Rounds a row to integers z; false if they are outside the bound. A sum in doubles
 * settles what is not within its error of the bound. */
static bool put(const batch_t *b, int32_t *z, const void *row, int single, double factor,
                int nearest)
{
    const double limit = (double)b->clip->limit;
    const double doubt = limit * (double)b->padded * 0x1p-51;
    const double sum = b->kernels->rows_round(row, single, factor, nearest, b->squares, z,
                                              b->clip->dimension);
    return sum < limit - doubt || (sum <= limit + doubt && inside(b, z, 1));
}

/* A row within the ball goes to the nearest integers; one that was scaled down lies on
 * the surface, where the nearest would be outside every other time, and is truncated. */
static void clip_to_ball(const batch_t *b, int32_t *z, const void *row, int single,
                         double factor)
{
    if (factor == 0) {
        row = copied(b, row, single);
        single = 0;
        factor = tame(b);
    }
    bool good =
        factor == power(-b->clip->step) && put(b, z, row, single, factor, 1);
    for (int k = 0; k < TRIES && !good; k++) {
        good = put(b, z, row, single, factor, 0);
        factor *= 1 - (double)b->clip->dimension * 0x1p-50;
    }
    if (!good) {
        memset(z, 0, b->clip->dimension * sizeof *z);
    }
}

/* Coordinate by coordinate; of those that are not 0 the first `changed` stay. */
static void clip_to_cube(const batch_t *b, int32_t *z, const double *y)
{
    const double most = b->clip->most, scale = power(-b->clip->step);
    size_t left = b->clip->changed;
    for (size_t i = 0; i < b->clip->dimension; i++) {
        const double v = y[i] == y[i] ? y[i] * scale : 0;
        const double held = v < -most ? -most : v > most ? most : v;
        z[i] = left > 0 ? (int32_t)rint(held) : 0;
        left -= z[i] != 0;
    }
}

static void clip_long(const batch_t *b, size_t n, const void *x, fdp_dtype_t type)
{
    const int single = type == FDP_F32;
    const size_t d = b->clip->dimension, apart = d * (single ? sizeof(float) : sizeof(double));
    const uint8_t *rows = x;
    if (b->clip->norm == FDP_NORM_MAX) {
        for (size_t r = 0; r < n; r++) {
            clip_to_cube(b, b->z + r * b->padded, copied(b, rows + r * apart, single));
        }
        return;
    }
    for (size_t r = 0; r < n; r++) {
        b->factor[r] =
            b->kernels->rows_measure(rows + r * apart, single, b->squares, d);
    }
    find_factors(b->clip, b->factor, n);
    for (size_t r = 0; r < n; r++) {
        clip_to_ball(b, b->z + r * b->padded, rows + r * apart, single, b->factor[r]);
    }
}

/* Adds the rows of a batch to their blocks, or writes them out. */
static void add_long(const batch_t *b, size_t n, size_t blocks, const int64_t *block,
                     int64_t *rows, int64_t *total)
{
    const size_t d = b->clip->dimension;
    if (block == NULL && blocks > 0) {
        b->kernels->rows_add(b->z, b->padded, n, total, d);
        rows[0] += (int64_t)n;
        return;
    }
    for (size_t r = 0; r < n && block != NULL; r++) {
        const uint64_t at = (uint64_t)block[r];
        if (at < blocks) {
            b->kernels->rows_add(b->z + r * b->padded, b->padded, 1, total + at * d, d);
            rows[at]++;
        }
    }
}

static void write_long(const batch_t *b, size_t n, int64_t *out)
{
    const size_t d = b->clip->dimension;
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < d; i++) {
            out[r * d + i] = b->z[r * b->padded + i];
        }
    }
}

/* ---- short rows -------------------------------------------------------------
 * Rows of few entries leave most of a vector empty, and a row's three passes cost more
 * than its entries. They lie by entry instead, and a vector holds one entry of many rows.
 * A row that these passes cannot settle goes the way of the long ones. */

#define SHORT 32 /* entries below which rows are short */

typedef struct {
    batch_t one;    /* a row that goes the long way */
    size_t rows;    /* room, a multiple of 8: entry i of row r is y[i rows + r] */
    double *y;      /* the rows as doubles */
    double *factor; /* what takes a row to steps; 0 if the long way must find out */
    double *sum;    /* of squares (or magnitudes) of its integers */
    int32_t *z;     /* the rows in steps */
    void *memory;
    size_t size;
} short_t;

static bool short_open(short_t *s, const fdp_clip_t *clip)
{
    const size_t d = clip->dimension;
    s->rows = (BATCH / d) & ~(size_t)7;
    s->size = s->rows * ((d + 2) * sizeof(double) + d * sizeof(int32_t));
    s->memory = fdp_memory_take(s->size);
    if (s->memory == NULL) {
        return false;
    }
    memset(s->memory, 0, s->size);
    s->y = s->memory;
    s->factor = s->y + s->rows * d;
    s->sum = s->factor + s->rows;
    s->z = (int32_t *)(void *)(s->sum + s->rows);
    if (!batch_open(&s->one, clip)) {
        fdp_memory_give(s->memory, s->size);
        return false;
    }
    return true;
}

static void short_close(short_t *s)
{
    batch_close(&s->one);
    fdp_memory_give(s->memory, s->size);
}

static void clip_short(const short_t *s, size_t n, const void *x, fdp_dtype_t type)
{
    const batch_t *one = &s->one;
    const fdp_clip_t *clip = one->clip;
    const fdp_kernels_t *kernels = one->kernels;
    const size_t d = clip->dimension, all = (n + 7) & ~(size_t)7;
    const double scale = power(-clip->step), limit = (double)clip->limit;
    const double doubt = limit * (double)one->padded * 0x1p-51;
    /* What lies behind the rows up to a multiple of 8 are rows of before. */
    kernels->rows_apart(x, type == FDP_F32, d, s->y, s->rows, n);
    if (clip->norm == FDP_NORM_MAX) {
        kernels->rows_cube(s->y, scale, clip->most, s->z, s->rows * d);
        return;
    }
    kernels->rows_measure_many(s->y, one->squares, type == FDP_F32, d, s->rows, s->factor,
                               all);
    find_factors(clip, s->factor, all);
    kernels->rows_round_many(s->y, s->factor, scale, one->squares, d, s->rows, s->z,
                             s->sum, all);
    for (size_t r = 0; r < n; r++) {
        const bool good = s->factor[r] > 0 && (s->sum[r] < limit - doubt ||
                                               (s->sum[r] <= limit + doubt &&
                                                inside(one, s->z + r, s->rows)));
        if (!good) {
            const size_t item = type == FDP_F64 ? 8 : 4;
            clip_long(one, 1, (const uint8_t *)x + r * d * item, type);
            for (size_t i = 0; i < d; i++) {
                s->z[i * s->rows + r] = one->z[i];
            }
        }
    }
}

static void add_short(const short_t *s, size_t n, size_t blocks, const int64_t *block,
                      int64_t *rows, int64_t *total)
{
    const size_t d = s->one.clip->dimension;
    if (block == NULL) {
        for (size_t i = 0; i < d && blocks > 0; i++) {
            total[i] += s->one.kernels->column_sum(s->z + i * s->rows, n);
        }
        rows[0] += blocks > 0 ? (int64_t)n : 0;
        return;
    }
    for (size_t r = 0; r < n; r++) {
        const uint64_t at = (uint64_t)block[r];
        if (at < blocks) {
            for (size_t i = 0; i < d; i++) {
                total[at * d + i] += s->z[i * s->rows + r];
            }
            rows[at]++;
        }
    }
}

static void write_short(const short_t *s, size_t n, int64_t *out)
{
    const size_t d = s->one.clip->dimension;
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < d; i++) {
            out[r * d + i] = s->z[i * s->rows + r];
        }
    }
}

/* ---- both -------------------------------------------------------------------- */

static bool sound(const fdp_clip_t *clip, fdp_dtype_t type)
{
    return (type == FDP_F32 || type == FDP_F64) && clip->dimension >= 1 &&
           clip->dimension < (UINT64_C(1) << 32) && clip->most >= 0 &&
           clip->most < 0x1p30 && clip->limit <= UINT64_C(1) << 60 &&
           clip->step >= -1000 && clip->step <= 1000 &&
           (clip->norm == FDP_NORM_L1 || clip->norm == FDP_NORM_L2 ||
            clip->norm == FDP_NORM_MAX);
}

/* Sums by block, or with `out` the rows themselves. */
static fdp_status_t run(const fdp_clip_t *law, size_t n, const void *x, fdp_dtype_t type,
                        size_t blocks, const int64_t *block, int64_t *rows,
                        int64_t *total, int64_t *out)
{
    const size_t d = law->dimension, item = type == FDP_F64 ? 8 : 4;
    if (!sound(law, type) || n > UINT32_MAX) {
        return FDP_ERR_PARAMETER;
    }
    const bool brief =
        d < SHORT && (law->norm != FDP_NORM_MAX || law->changed >= law->dimension);
    short_t s;
    batch_t b;
    if (brief ? !short_open(&s, law) : !batch_open(&b, law)) {
        return FDP_ERR_MEMORY;
    }
    const size_t room = brief ? s.rows : b.rows;
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t i = 0; i < n; i += room) {
        const size_t part = n - i < room ? n - i : room;
        const uint8_t *rows_of = (const uint8_t *)x + i * d * item;
        const int64_t *own = block == NULL ? NULL : block + i;
        if (brief) {
            clip_short(&s, part, rows_of, type);
        } else {
            clip_long(&b, part, rows_of, type);
        }
        if (out != NULL && brief) {
            write_short(&s, part, out + i * d);
        } else if (out != NULL) {
            write_long(&b, part, out + i * d);
        } else if (brief) {
            add_short(&s, part, blocks, own, rows, total);
        } else {
            add_long(&b, part, blocks, own, rows, total);
        }
    }
    fdp_rounding_leave(rounding);
    if (brief) {
        short_close(&s);
    } else {
        batch_close(&b);
    }
    return FDP_OK;
}

fdp_status_t fdp_clip_rows(const fdp_clip_t *law, size_t n, const void *x,
                           fdp_dtype_t type, int64_t *out)
{
    return run(law, n, x, type, 0, NULL, NULL, NULL, out);
}

fdp_status_t fdp_clip_sums(const fdp_clip_t *law, size_t n, const void *x,
                           fdp_dtype_t type, size_t blocks, const int64_t *block,
                           int64_t *rows, int64_t *total)
{
    return run(law, n, x, type, blocks, block, rows, total, NULL);
}
