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
    size_t padded;  /* coordinates of a row, rounded up to a multiple of 8 */
    size_t rows;    /* room, in rows */
    double *y;      /* the rows as doubles */
    double *factor; /* first what a row measures, then what takes it to steps */
    float *x;       /* the rows as floats, if they came so */
    int32_t *z;     /* the rows in steps */
    void *memory;
    size_t size;
} batch_t;

static bool batch_open(batch_t *b, const fdp_clip_t *clip)
{
    b->kernels = fdp_kernels();
    b->clip = clip;
    b->squares = clip->norm == FDP_NORM_L2;
    b->padded = (clip->dimension + 7) & ~(size_t)7;
    b->rows = 1 + (BATCH - 1) / b->padded;
    const size_t n = b->rows * b->padded;
    b->size = n * (2 * sizeof(double) + sizeof(float) + sizeof(int32_t));
    b->memory = fdp_memory_take(b->size);
    if (b->memory == NULL) {
        return false;
    }
    memset(b->memory, 0, b->size); /* the entries behind each row's end */
    b->y = b->memory;
    b->factor = b->y + n;
    b->x = (float *)(void *)(b->factor + n);
    b->z = (int32_t *)(void *)(b->x + n);
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

/* For rows that overflow, vanish, or hold what is no number: NaN becomes 0, an infinity
 * the largest double, and the row is scaled into [-1, 1]. Returns the factor from there
 * to steps. */
static double tame(const batch_t *b, double *y)
{
    const fdp_clip_t *clip = b->clip;
    double largest = 0, sum = 0;
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

/* Puts n rows into y as they are, and what they measure into factor. */
static void load(const batch_t *b, size_t n, const void *x, fdp_dtype_t type)
{
    const size_t d = b->clip->dimension, p = b->padded;
    for (size_t r = 0; r < n; r++) {
        if (type == FDP_F64) {
            memcpy(b->y + r * p, (const double *)x + r * d, d * sizeof(double));
        } else {
            memcpy(b->x + r * p, (const float *)x + r * d, d * sizeof(float));
        }
    }
    for (size_t r = 0; r < n; r++) {
        double *y = b->y + r * p;
        b->factor[r] = type == FDP_F64
                           ? b->kernels->rows_measure(y, b->squares, p)
                           : b->kernels->rows_widen(b->x + r * p, y, b->squares, p);
    }
}

/* What takes the rows in y to steps: 1/step within the ball, else to the surface. */
static void find_factors(const batch_t *b, size_t n)
{
    const double radius = b->clip->radius, scale = power(-b->clip->step);
    for (size_t r = 0; r < n; r++) {
        const double measure = b->factor[r];
        const double norm = b->squares ? sqrt(measure) : measure;
        const double shrink = norm <= radius ? 1 : radius / norm;
        b->factor[r] = measure >= 0x1p-150 && measure <= 0x1p250
                           ? shrink * scale
                           : tame(b, b->y + r * b->padded);
    }
}

/* The bound, in integers. */
static bool inside(const batch_t *b, const int32_t *row)
{
    const int64_t most = (int64_t)b->clip->most;
    uint64_t sum = 0;
    for (size_t i = 0; i < b->clip->dimension; i++) {
        const int64_t z = row[i] < 0 ? -(int64_t)row[i] : row[i];
        if (z > most || sum > b->clip->limit) {
            return false;
        }
        sum += (uint64_t)(b->squares ? z * z : z);
    }
    return sum <= b->clip->limit;
}

/* Rounds row r to integers; false if they are outside the bound. A sum in doubles
 * settles what is not within its error of the bound. */
static bool put(const batch_t *b, size_t r, double factor, int nearest)
{
    int32_t *z = b->z + r * b->padded;
    const double limit = (double)b->clip->limit;
    const double doubt = limit * (double)b->padded * 0x1p-51;
    const double sum = b->kernels->rows_round(b->y + r * b->padded, factor, nearest,
                                              b->squares, z, b->padded);
    return sum < limit - doubt || (sum <= limit + doubt && inside(b, z));
}

/* A row within the ball goes to the nearest integers; one that was scaled down lies on
 * the surface, where the nearest would be outside every other time, and is truncated. */
static void clip_to_ball(const batch_t *b, size_t r)
{
    double factor = b->factor[r];
    bool good = factor == power(-b->clip->step) && put(b, r, factor, 1);
    for (int k = 0; k < TRIES && !good; k++) {
        good = put(b, r, factor, 0);
        factor *= 1 - (double)b->clip->dimension * 0x1p-50;
    }
    if (!good) {
        memset(b->z + r * b->padded, 0, b->padded * sizeof *b->z);
    }
}

/* Coordinate by coordinate; of those that are not 0 the first `changed` stay. */
static void clip_to_cube(const batch_t *b, size_t r)
{
    const double most = b->clip->most, scale = power(-b->clip->step);
    const double *y = b->y + r * b->padded;
    int32_t *z = b->z + r * b->padded;
    size_t left = b->clip->changed;
    for (size_t i = 0; i < b->clip->dimension; i++) {
        const double v = y[i] == y[i] ? y[i] * scale : 0;
        const double held = v < -most ? -most : v > most ? most : v;
        z[i] = left > 0 ? (int32_t)rint(held) : 0;
        left -= z[i] != 0;
    }
}

static void clip(const batch_t *b, size_t n, const void *x, fdp_dtype_t type)
{
    load(b, n, x, type);
    if (b->clip->norm == FDP_NORM_MAX) {
        for (size_t r = 0; r < n; r++) {
            clip_to_cube(b, r);
        }
        return;
    }
    find_factors(b, n);
    for (size_t r = 0; r < n; r++) {
        clip_to_ball(b, r);
    }
}

static bool sound(const fdp_clip_t *clip, fdp_dtype_t type)
{
    return (type == FDP_F32 || type == FDP_F64) && clip->dimension >= 1 &&
           clip->dimension < (UINT64_C(1) << 32) && clip->most >= 0 &&
           clip->most < 0x1p30 && clip->limit <= UINT64_C(1) << 60 &&
           clip->step >= -1000 && clip->step <= 1000 &&
           (clip->norm == FDP_NORM_L1 || clip->norm == FDP_NORM_L2 ||
            clip->norm == FDP_NORM_MAX);
}

/* Adds the rows of a batch to their blocks, or writes them out. */
static void add(const batch_t *b, size_t n, size_t blocks, const int64_t *block,
                int64_t *rows, int64_t *total)
{
    for (size_t r = 0; r < n; r++) {
        const uint64_t at = block == NULL ? 0 : (uint64_t)block[r];
        if (at < blocks) {
            b->kernels->rows_add(b->z + r * b->padded, total + at * b->clip->dimension,
                                 b->clip->dimension);
            rows[at]++;
        }
    }
}

static void write(const batch_t *b, size_t n, int64_t *out)
{
    const size_t d = b->clip->dimension;
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < d; i++) {
            out[r * d + i] = b->z[r * b->padded + i];
        }
    }
}

/* Sums by block, or with `out` the rows themselves. */
static fdp_status_t run(const fdp_clip_t *law, size_t n, const void *x, fdp_dtype_t type,
                        size_t blocks, const int64_t *block, int64_t *rows,
                        int64_t *total, int64_t *out)
{
    const size_t d = law->dimension, item = type == FDP_F64 ? 8 : 4;
    batch_t b;
    if (!sound(law, type) || n > UINT32_MAX) {
        return FDP_ERR_PARAMETER;
    }
    if (!batch_open(&b, law)) {
        return FDP_ERR_MEMORY;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t i = 0; i < n; i += b.rows) {
        const size_t part = n - i < b.rows ? n - i : b.rows;
        clip(&b, part, (const uint8_t *)x + i * d * item, type);
        if (out != NULL) {
            write(&b, part, out + i * d);
        } else {
            add(&b, part, blocks, block == NULL ? NULL : block + i, rows, total);
        }
    }
    fdp_rounding_leave(rounding);
    batch_close(&b);
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

/* ---- columns -------------------------------------------------------------- */

#define PIECE 1024 /* values of a column taken together */

typedef struct {
    double x[PIECE];
    int32_t present[PIECE], u[PIECE], square[PIECE];
} piece_t;

static void load_piece(piece_t *piece, const void *x, fdp_dtype_t type, size_t at,
                       size_t n)
{
    switch (type) {
    case FDP_F64: memcpy(piece->x, (const double *)x + at, n * sizeof(double)); break;
    case FDP_F32:
        for (size_t i = 0; i < n; i++) {
            piece->x[i] = (double)((const float *)x)[at + i];
        }
        break;
    default:
        for (size_t i = 0; i < n; i++) {
            piece->x[i] = (double)((const int64_t *)x)[at + i];
        }
    }
}

static void add_by_group(const piece_t *piece, size_t n, size_t groups,
                         const int64_t *group, int64_t *count, int64_t *sum,
                         int64_t *square)
{
    for (size_t i = 0; i < n; i++) {
        if ((uint64_t)group[i] < groups) {
            count[group[i]] += piece->present[i];
            sum[group[i]] += piece->u[i];
            square[group[i]] += piece->square[i];
        }
    }
}

fdp_status_t fdp_column_moments(const fdp_column_t *column, size_t n, const void *x,
                                fdp_dtype_t type, size_t groups, const int64_t *group,
                                int64_t *count, int64_t *sum, int64_t *square)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    if ((type != FDP_F64 && type != FDP_F32 && type != FDP_I64) || n > UINT32_MAX ||
        column->bits < 1 || column->bits > 30 || !(column->half > 0)) {
        return FDP_ERR_PARAMETER;
    }
    piece_t *piece = fdp_memory_take(sizeof *piece);
    if (piece == NULL) {
        return FDP_ERR_MEMORY;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t part = n - at < PIECE ? n - at : PIECE;
        load_piece(piece, x, type, at, part);
        kernels->column(column, piece->x, piece->present, piece->u, piece->square, part);
        if (group != NULL) {
            add_by_group(piece, part, groups, group + at, count, sum, square);
        } else if (groups > 0) {
            count[0] += kernels->column_sum(piece->present, part);
            sum[0] += kernels->column_sum(piece->u, part);
            square[0] += kernels->column_sum(piece->square, part);
        }
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(piece, sizeof *piece);
    return FDP_OK;
}
