/* rows.c: sums of rows, such that no row can move a sum further than its bound. fdp_clip_rows
 * computes the integers of each row, within the bound; fdp_clip_sums computes their sums, by block.
 * A row first becomes integers: it is scaled down to the ball if it lies outside, divided by the
 * grid's step and rounded. Then the bound is checked in integers. So rounding in floats affects
 * only the accuracy, never privacy. docs/proofs/sums.md. Timing class T0. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"
#include "scratch.h"
#include "target.h"

#define TRIES 3    /* attempts at truncating a row that rounding moved outside */
#define BATCH 2048 /* coordinates of the rows that are processed together */
#define SHORT 32   /* rows with fewer entries are short */

/* Rows that become integers. All rows go through one pass before any goes through the next;
 * otherwise the passes of one row would wait for each other's stores. Short rows are stored by
 * entry, so that a vector holds one entry of many rows. Stored by row, most of a vector would be
 * empty, and a row's three passes would cost more than its entries. */
typedef struct {
    const fdp_kernels_t *kernels;
    const fdp_clip_t *clip;
    bool brief;            /* the rows are short */
    int squares;           /* the norm is a sum of squares */
    double surely, perhaps; /* a sum in doubles below `surely` is within the bound; one above
                             * `perhaps` is not */
    size_t item;           /* bytes of an entry */
    size_t padded;         /* coordinates of a row, rounded up to a multiple of 16 */
    size_t rows;           /* number of rows that fit */
    double *y;             /* short rows as doubles: entry i of row r is y[i rows + r] */
    double *one;           /* a row that must be copied */
    double *factor;        /* first the norm of a row, then the factor that converts it to steps */
    double *sum;           /* of squares (or magnitudes) of a short row's integers */
    int32_t *z;            /* the rows in steps of the grid: z[i rows + r], or z[r padded + i] */
    int32_t *alone;        /* a short row that is processed like a long one */
    void *memory;
    size_t size;
} batch_t;

static bool batch_open(batch_t *b, const fdp_clip_t *clip, fdp_dtype_t type)
{
    const size_t d = clip->dimension;
    b->kernels = fdp_kernels();
    b->clip = clip;
    b->brief = d < SHORT && (clip->norm != FDP_NORM_MAX || clip->changed >= d);
    b->squares = clip->norm == FDP_NORM_L2;
    b->item = type == FDP_F64 ? sizeof(double) : sizeof(float);
    b->padded = (d + 15) & ~(size_t)15;
    b->rows = b->brief ? (BATCH / d) & ~(size_t)7 : 1 + (BATCH - 1) / b->padded;
    const double limit = (double)clip->limit;
    b->surely = limit - limit * (double)b->padded * 0x1p-51;
    b->perhaps = limit + limit * (double)b->padded * 0x1p-51;
    const size_t shorts = b->brief ? b->rows : 0, width = b->brief ? d : b->padded;
    b->size = (shorts * (d + 1) + d + b->rows) * sizeof(double) +
              (b->rows * width + b->padded) * sizeof(int32_t);
    b->memory = fdp_memory_take(b->size);
    if (b->memory == NULL) {
        return false;
    }
    b->y = b->memory;
    b->factor = b->y + shorts * d;
    b->sum = b->factor + b->rows;
    b->one = b->sum + shorts;
    b->z = (int32_t *)(void *)(b->one + d);
    b->alone = b->z + b->rows * width;
    if (b->brief) { /* kernels also read beyond the rows */
        memset(b->memory, 0, b->size);
    }
    return true;
}

/* 2^e; 0 if it is below the normal doubles, infinity if it is above them. */
static double power(int e)
{
    const uint64_t bits = e < -1022  ? 0
                          : e > 1023 ? UINT64_C(0x7ff) << 52
                                     : (uint64_t)(e + 1023) << 52;
    double result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* Converts a row of floats or doubles to doubles. */
static const double *copied(const batch_t *b, const void *row, int single)
{
    fdp_load_doubles(row, single ? FDP_F32 : FDP_F64, 0, b->clip->dimension, b->one);
    return b->one;
}

/* For a copied row that overflows, vanishes, or holds NaN or an infinity: replaces NaN by 0 and an
 * infinity by the largest double, and scales the row into [-1, 1]. Returns the factor that converts
 * the result to steps. */
static double tame(const batch_t *b)
{
    const fdp_clip_t *clip = b->clip;
    double *y = b->one, largest = 0, sum = 0;
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

/* Replaces the norms of rows by the factors that convert the rows to steps: 1/step within the ball;
 * outside, a factor that moves the row to the surface; 0 for rows that overflow, vanish, or hold
 * NaN or an infinity. */
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

/* Whether a row of integers is within the bound; its entries are `apart`. The sum in doubles,
 * `rounded`, decides unless it is close to the bound. */
static bool inside(const batch_t *b, const int32_t *row, size_t apart, double rounded)
{
    if (rounded < b->surely || !(rounded <= b->perhaps)) {
        return rounded < b->surely;
    }
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

/* Rounds a row to integers z. Returns false if they are outside the bound. */
static bool put(const batch_t *b, int32_t *z, const void *row, int single, double factor,
                int nearest)
{
    return inside(b, z, 1,
                  b->kernels->rows_round(row, single, factor, nearest, b->squares, z,
                                         b->clip->dimension));
}

/* A row within the ball is rounded to the nearest integers. A row that was scaled down lies on the
 * surface, where rounding to nearest would move it outside half of the time; it is truncated. */
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

/* Clamps each coordinate. Of the coordinates that are not 0, only the first `changed` are kept. */
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

/* Processes long rows, and those short rows that the passes cannot settle. */
static void clip_long(const batch_t *b, int32_t *z, size_t n, const uint8_t *rows)
{
    const int single = b->item == sizeof(float);
    const size_t d = b->clip->dimension, apart = d * b->item;
    if (b->clip->norm == FDP_NORM_MAX) {
        for (size_t r = 0; r < n; r++) {
            clip_to_cube(b, z + r * b->padded, copied(b, rows + r * apart, single));
        }
        return;
    }
    for (size_t r = 0; r < n; r++) {
        b->factor[r] =
            b->kernels->rows_measure(rows + r * apart, single, b->squares, d);
    }
    find_factors(b->clip, b->factor, n);
    for (size_t r = 0; r < n; r++) {
        clip_to_ball(b, z + r * b->padded, rows + r * apart, single, b->factor[r]);
    }
}

static void clip_short(const batch_t *b, size_t n, const uint8_t *rows)
{
    const fdp_clip_t *clip = b->clip;
    const fdp_kernels_t *kernels = b->kernels;
    const int single = b->item == sizeof(float);
    const size_t d = clip->dimension, all = (n + 7) & ~(size_t)7;
    const double scale = power(-clip->step);
    /* Up to a multiple of 8, what follows the rows are older rows. */
    kernels->rows_apart(rows, single, d, b->y, b->rows, n);
    if (clip->norm == FDP_NORM_MAX) {
        kernels->rows_cube(b->y, scale, clip->most, b->z, b->rows * d);
        return;
    }
    kernels->rows_measure_many(b->y, b->squares, single, d, b->rows, b->factor, all);
    find_factors(clip, b->factor, all);
    kernels->rows_round_many(b->y, b->factor, scale, b->squares, d, b->rows, b->z, b->sum,
                             all);
    for (size_t r = 0; r < n; r++) {
        if (!(b->factor[r] > 0 && inside(b, b->z + r, b->rows, b->sum[r]))) {
            clip_long(b, b->alone, 1, rows + r * d * b->item); /* overwrites factor[0] */
            for (size_t i = 0; i < d; i++) {
                b->z[i * b->rows + r] = b->alone[i];
            }
        }
    }
}

/* ---- the calls -------------------------------------------------------------- */

/* Adds all rows of a batch to one block. */
static void add_all(const batch_t *b, size_t n, int64_t *rows, int64_t *total)
{
    const size_t d = b->clip->dimension;
    if (!b->brief) {
        b->kernels->rows_add(b->z, b->padded, n, total, d);
    }
    for (size_t i = 0; i < d && b->brief; i++) {
        total[i] += b->kernels->column_sum(b->z + i * b->rows, n);
    }
    rows[0] += (int64_t)n;
}

static void add_by_block(const batch_t *b, size_t n, size_t blocks, const int64_t *block,
                         int64_t *rows, int64_t *total)
{
    const size_t d = b->clip->dimension;
    for (size_t r = 0; r < n; r++) {
        const uint64_t at = (uint64_t)block[r];
        if (at >= blocks) {
            continue;
        }
        if (!b->brief) {
            b->kernels->rows_add(b->z + r * b->padded, b->padded, 1, total + at * d, d);
        } else {
            for (size_t i = 0; i < d; i++) {
                total[at * d + i] += b->z[i * b->rows + r];
            }
        }
        rows[at]++;
    }
}

static void write_out(const batch_t *b, size_t n, int64_t *out)
{
    const size_t d = b->clip->dimension;
    for (size_t r = 0; r < n && b->brief; r++) {
        for (size_t i = 0; i < d; i++) {
            out[r * d + i] = b->z[i * b->rows + r];
        }
    }
    for (size_t r = 0; r < n && !b->brief; r++) {
        for (size_t i = 0; i < d; i++) {
            out[r * d + i] = b->z[r * b->padded + i];
        }
    }
}

static bool sound(const fdp_clip_t *clip, fdp_dtype_t type)
{
    return (type == FDP_F32 || type == FDP_F64) && clip->dimension >= 1 &&
           (uint64_t)clip->dimension < (UINT64_C(1) << 32) && clip->most >= 0 &&
           clip->most < 0x1p30 && clip->limit <= UINT64_C(1) << 60 &&
           clip->step >= -1000 && clip->step <= 1000 &&
           (clip->norm == FDP_NORM_L1 || clip->norm == FDP_NORM_L2 ||
            clip->norm == FDP_NORM_MAX);
}

/* Computes sums by block, or with `out` the rows themselves. */
static fdp_status_t run(const fdp_clip_t *law, size_t n, const void *x, fdp_dtype_t type,
                        size_t blocks, const int64_t *block, int64_t *rows,
                        int64_t *total, int64_t *out)
{
    batch_t b;
    if (!sound(law, type) || n > UINT32_MAX) {
        return FDP_ERR_PARAMETER;
    }
    if (!batch_open(&b, law, type)) {
        return FDP_ERR_MEMORY;
    }
    const size_t d = law->dimension;
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t i = 0; i < n; i += b.rows) {
        const size_t part = n - i < b.rows ? n - i : b.rows;
        const uint8_t *from = (const uint8_t *)x + i * d * b.item;
        if (b.brief) {
            clip_short(&b, part, from);
        } else {
            clip_long(&b, b.z, part, from);
        }
        if (out != NULL) {
            write_out(&b, part, out + i * d);
        } else if (block != NULL) {
            add_by_block(&b, part, blocks, block + i, rows, total);
        } else if (blocks > 0) {
            add_all(&b, part, rows, total);
        }
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(b.memory, b.size);
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
