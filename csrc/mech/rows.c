/* rows.c: sums of rows, such that no row can move a sum further than its bound. fdp_clip_rows
 * computes the integers of each row, within the bound; fdp_clip_sums computes their sums, by block;
 * fdp_clip_groups computes sums of rows in several parts, each group of parts with its own bound.
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
#define BATCH 2048 /* coordinates of the short rows that are processed together */
#define SHORT 32   /* rows with fewer entries are short */
#define PIECE 1024 /* entries of a row that are settled at a time; a multiple of 16 */

/* Rows that come in parts, and memory for a piece of one row. */
typedef struct {
    const fdp_kernels_t *kernels;
    const fdp_clip_t *clip;
    const fdp_part_t *part;
    size_t parts;
    fdp_dtype_t type;
    int single;
    int squares;   /* the norm is a sum of squares */
    double scale;  /* 1 / step */
    double surely; /* a row whose sum in doubles is below this is within the bound */
    double *y;
    int32_t *z;
} rows_t;

/* How a row becomes integers: it is multiplied by `factor` and rounded to nearest or toward 0. If
 * `tame`, it is cleaned and divided by 2^exponent first. If `cut`, each entry is clamped instead. */
typedef struct {
    double factor;
    int nearest, tame, exponent, cut;
} way_t;

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

static rows_t rows_of(const fdp_clip_t *clip, const fdp_part_t *part, size_t parts,
                      fdp_dtype_t type, double *y, int32_t *z)
{
    const double limit = (double)clip->limit;
    const double padded = (double)((clip->dimension + 15) & ~(size_t)15);
    return (rows_t){.kernels = fdp_kernels(),
                    .clip = clip,
                    .part = part,
                    .parts = parts,
                    .type = type,
                    .single = type == FDP_F32,
                    .squares = clip->norm == FDP_NORM_L2,
                    .scale = power(-clip->step),
                    .surely = limit - limit * padded * 0x1p-51,
                    .y = y,
                    .z = z};
}

static const void *entries_of(const rows_t *w, size_t p, size_t r)
{
    const size_t item = w->single ? sizeof(float) : sizeof(double);
    return (const uint8_t *)w->part[p].x + r * w->part[p].size * item;
}

/* A position in a row: part, entry of that part, entry of the row. */
typedef struct {
    size_t p, i, at;
} place_t;

/* Loads the next entries of a row, at most PIECE, as doubles into y, followed by zeros up to a
 * multiple of 16. Returns their number. */
static size_t next_piece(const rows_t *w, size_t r, place_t *place)
{
    while (place->p < w->parts && place->i == w->part[place->p].size) {
        place->p++;
        place->i = 0;
    }
    if (place->p == w->parts) {
        return 0;
    }
    const size_t left = w->part[place->p].size - place->i, m = left < PIECE ? left : PIECE;
    fdp_load_doubles(entries_of(w, place->p, r), w->type, place->i, m, w->y);
    memset(w->y + m, 0, (((m + 15) & ~(size_t)15) - m) * sizeof *w->y);
    place->i += m;
    place->at += m;
    return m;
}

/* Replaces NaN by 0, and an infinity by the largest double. */
static void clean(double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double number = y[i] == y[i] ? y[i] : 0;
        y[i] = number > DBL_MAX ? DBL_MAX : number < -DBL_MAX ? -DBL_MAX : number;
    }
}

static void scale_down(double *y, size_t n, int e)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = y[i] * power(-(e / 2)) * power(-(e - e / 2));
    }
}

/* For a row that overflows, vanishes, or holds NaN or an infinity: it is cleaned and scaled into
 * [-1, 1]. */
static way_t tame(const rows_t *w, size_t r)
{
    way_t way = {.tame = 1};
    double largest = 0, sum = 0;
    place_t place = {0};
    for (size_t m; (m = next_piece(w, r, &place)) > 0;) {
        clean(w->y, m);
        for (size_t i = 0; i < m; i++) {
            largest = fabs(w->y[i]) > largest ? fabs(w->y[i]) : largest;
        }
    }
    if (largest == 0) {
        return way;
    }
    frexp(largest, &way.exponent);
    place = (place_t){0};
    for (size_t m; (m = next_piece(w, r, &place)) > 0;) {
        clean(w->y, m);
        scale_down(w->y, m, way.exponent);
        for (size_t i = 0; i < m; i++) {
            sum += w->squares ? w->y[i] * w->y[i] : fabs(w->y[i]);
        }
    }
    const int e = way.exponent;
    const double reach = w->clip->radius / (w->squares ? sqrt(sum) : sum);
    way.factor = power(e) <= reach ? power(e - w->clip->step) : reach * w->scale;
    return way;
}

/* Clamps each entry. Of the entries that are not 0, only the first `left` are kept. */
static void cut(const rows_t *w, size_t n, size_t *left)
{
    const double most = w->clip->most;
    for (size_t i = 0; i < n; i++) {
        const double v = w->y[i] == w->y[i] ? w->y[i] * w->scale : 0;
        const double held = v < -most ? -most : v > most ? most : v;
        w->z[i] = *left > 0 ? (int32_t)rint(held) : 0;
        *left -= w->z[i] != 0;
    }
}

/* Computes the next integers of a row, in z. Returns their number. */
static size_t next_integers(const rows_t *w, size_t r, const way_t *way, place_t *place,
                            size_t *left)
{
    const size_t m = next_piece(w, r, place);
    if (way->cut) {
        cut(w, m, left);
        return m;
    }
    if (way->tame) {
        clean(w->y, m);
        scale_down(w->y, m, way->exponent);
    }
    w->kernels->rows_round(w->y, way->factor, way->nearest, w->z, m);
    return m;
}

/* Whether the integers of a row are within the bound, computed in integers. */
static bool inside(const rows_t *w, size_t r, const way_t *way)
{
    const int64_t most = (int64_t)w->clip->most;
    place_t place = {0};
    uint64_t sum = 0;
    for (size_t m; (m = next_integers(w, r, way, &place, NULL)) > 0;) {
        for (size_t i = 0; i < m; i++) {
            const int64_t entry = w->z[i], z = entry < 0 ? -entry : entry;
            if (z > most || sum > w->clip->limit) {
                return false;
            }
            sum += (uint64_t)(w->squares ? z * z : z);
        }
    }
    return sum <= w->clip->limit;
}

/* Adds the integers of a row to `to`, or subtracts them. */
static void add_row(const rows_t *w, size_t r, const way_t *way, int sign, int64_t *to)
{
    size_t left = w->clip->changed;
    place_t place = {0};
    for (size_t m; (m = next_integers(w, r, way, &place, &left)) > 0;) {
        for (size_t i = 0; i < m; i++) {
            to[place.at - m + i] += sign * w->z[i];
        }
    }
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

/* A row within the ball is rounded to the nearest integers. A row that was scaled down lies on the
 * surface, where rounding to nearest would move it outside half of the time; it is truncated. */
static way_t settle(const rows_t *w, size_t r, double factor)
{
    way_t way = {.factor = factor};
    if (w->clip->norm == FDP_NORM_MAX) {
        way.cut = 1;
        return way;
    }
    if (factor == 0) {
        way = tame(w, r);
    }
    way.nearest = way.factor == w->scale;
    if (way.nearest && inside(w, r, &way)) {
        return way;
    }
    way.nearest = 0;
    for (int k = 0; k < TRIES; k++) {
        if (inside(w, r, &way)) {
            return way;
        }
        way.factor *= 1 - (double)w->clip->dimension * 0x1p-50;
    }
    way.factor = 0;
    return way;
}

/* Adds the rows r + k for which bit k of `taken` is set. Rows are added first and checked after: a
 * row that may be outside the bound, which is rare, is subtracted again and then settled. */
static void add_rows(const rows_t *w, size_t r, const double *factor, unsigned taken,
                     int64_t *total)
{
    size_t row[FDP_ROWS], n = 0;
    double by[FDP_ROWS], sum[FDP_ROWS] = {0};
    int nearest[FDP_ROWS];
    for (size_t k = 0; k < FDP_ROWS; k++) {
        if ((taken >> k & 1) == 0) {
            continue;
        }
        if (factor[k] == 0) {
            const way_t way = settle(w, r + k, 0);
            add_row(w, r + k, &way, 1, total);
            continue;
        }
        row[n] = r + k;
        by[n] = factor[k];
        nearest[n++] = factor[k] == w->scale;
    }
    size_t at = 0;
    for (size_t p = 0; p < w->parts && n > 0; at += w->part[p++].size) {
        const void *x[FDP_ROWS];
        for (size_t k = 0; k < n; k++) {
            x[k] = entries_of(w, p, row[k]);
        }
        w->kernels->rows_add(x, w->single, by, nearest, w->squares, n, total + at, sum,
                             w->part[p].size);
    }
    for (size_t k = 0; k < n; k++) {
        if (!(sum[k] < w->surely)) {
            way_t way = {.factor = by[k], .nearest = nearest[k]};
            add_row(w, row[k], &way, -1, total);
            way = settle(w, row[k], by[k]);
            add_row(w, row[k], &way, 1, total);
        }
    }
}

/* Computes the factors of n rows, from row r; 0 for a row that must be settled. Bit k of the result
 * says whether all numbers of row r + k are finite. */
static unsigned find_rows(const rows_t *w, size_t r, size_t n, double *factor)
{
    unsigned finite = 0;
    for (size_t k = 0; k < n; k++) {
        factor[k] = 0;
        for (size_t p = 0; p < w->parts; p++) {
            factor[k] += w->kernels->rows_measure(entries_of(w, p, r + k), w->single,
                                                  w->squares, w->part[p].size);
        }
        int good = factor[k] <= DBL_MAX;
        if (!good && !w->single) { /* squares may overflow */
            place_t place = {0};
            good = 1;
            for (size_t m; (m = next_piece(w, r + k, &place)) > 0;) {
                for (size_t i = 0; i < m; i++) {
                    good &= fabs(w->y[i]) <= DBL_MAX;
                }
            }
        }
        finite |= (unsigned)good << k;
    }
    find_factors(w->clip, factor, n);
    for (size_t k = 0; k < n && w->clip->norm == FDP_NORM_MAX; k++) {
        factor[k] = 0;
    }
    return finite;
}

static void add_long(const rows_t *w, size_t n, size_t blocks, const int64_t *block,
                     int64_t *rows, int64_t *total)
{
    for (size_t r = 0; r < n; r += FDP_ROWS) {
        const size_t part = n - r < FDP_ROWS ? n - r : FDP_ROWS;
        double factor[FDP_ROWS];
        unsigned left = (1U << part) - 1;
        find_rows(w, r, part, factor);
        for (size_t k = 0; k < part; k++) {
            const uint64_t at = block == NULL ? 0 : (uint64_t)block[r + k];
            unsigned same = 0;
            for (size_t l = k; l < part; l++) {
                const uint64_t other = block == NULL ? 0 : (uint64_t)block[r + l];
                same |= (other == at ? left >> l & 1 : 0) << l;
            }
            left &= ~same;
            if (same != 0 && at < blocks) {
                add_rows(w, r, factor, same, total + at * w->clip->dimension);
                for (size_t l = 0; l < part; l++) {
                    rows[at] += same >> l & 1;
                }
            }
        }
    }
}

/* ---- short rows ------------------------------------------------------------- */

/* Short rows are stored by entry, so that a vector holds one entry of many rows. Stored by row, most
 * of a vector would be empty, and the passes over a row would cost more than its entries. All rows
 * go through one pass before any goes through the next. */
typedef struct {
    rows_t rows;
    size_t many;    /* number of rows that fit */
    double *y;      /* entry i of row r is y[i many + r] */
    double *factor; /* first the norm of a row, then the factor that converts it to steps */
    double *sum;    /* of squares (or magnitudes) of a row's integers */
    int32_t *z;     /* the rows in steps of the grid: z[i many + r] */
} batch_t;

static void clip_short(const batch_t *b, size_t n, size_t first)
{
    const rows_t *w = &b->rows;
    const fdp_kernels_t *kernels = w->kernels;
    const size_t d = w->clip->dimension, all = (n + 7) & ~(size_t)7;
    /* Older rows follow the rows, up to a multiple of 8. */
    kernels->rows_apart(entries_of(w, 0, first), w->single, d, b->y, b->many, n);
    if (w->clip->norm == FDP_NORM_MAX) {
        kernels->rows_cube(b->y, w->scale, w->clip->most, b->z, b->many * d);
        return;
    }
    kernels->rows_measure_many(b->y, w->squares, w->single, d, b->many, b->factor, all);
    find_factors(w->clip, b->factor, all);
    kernels->rows_round_many(b->y, b->factor, w->scale, w->squares, d, b->many, b->z,
                             b->sum, all);
    for (size_t r = 0; r < n; r++) {
        if (!(b->factor[r] > 0 && b->sum[r] < w->surely)) {
            const way_t way = settle(w, first + r, b->factor[r]);
            next_integers(w, first + r, &way, &(place_t){0}, NULL);
            for (size_t i = 0; i < d; i++) {
                b->z[i * b->many + r] = w->z[i];
            }
        }
    }
}

static void add_short(const batch_t *b, size_t n, size_t blocks, const int64_t *block,
                      int64_t *rows, int64_t *total)
{
    const size_t d = b->rows.clip->dimension;
    for (size_t i = 0; i < d && block == NULL; i++) {
        total[i] += b->rows.kernels->column_sum(b->z + i * b->many, n);
    }
    rows[0] += block == NULL ? (int64_t)n : 0;
    for (size_t r = 0; r < n && block != NULL; r++) {
        const uint64_t at = (uint64_t)block[r];
        if (at >= blocks) {
            continue;
        }
        for (size_t i = 0; i < d; i++) {
            total[at * d + i] += b->z[i * b->many + r];
        }
        rows[at]++;
    }
}

/* ---- the calls -------------------------------------------------------------- */

static bool sound(const fdp_clip_t *clip, fdp_dtype_t type, size_t n)
{
    return (type == FDP_F32 || type == FDP_F64) && n <= UINT32_MAX &&
           clip->dimension >= 1 && (uint64_t)clip->dimension < (UINT64_C(1) << 32) &&
           clip->most >= 0 && clip->most < 0x1p30 && clip->limit <= UINT64_C(1) << 60 &&
           clip->step >= -1000 && clip->step <= 1000 &&
           (clip->norm == FDP_NORM_L1 || clip->norm == FDP_NORM_L2 ||
            clip->norm == FDP_NORM_MAX);
}

/* Bytes for y and z of a piece, and for `shorts` more entries of both. */
static size_t room(size_t shorts)
{
    return (PIECE + shorts) * (sizeof(double) + sizeof(int32_t));
}

fdp_status_t fdp_clip_rows(const fdp_clip_t *law, size_t n, const void *x,
                           fdp_dtype_t type, int64_t *out)
{
    if (!sound(law, type, n)) {
        return FDP_ERR_PARAMETER;
    }
    double *memory = fdp_memory_take(room(0));
    if (memory == NULL) {
        return FDP_ERR_MEMORY;
    }
    const fdp_part_t part = {x, law->dimension};
    const rows_t w =
        rows_of(law, &part, 1, type, memory, (int32_t *)(void *)(memory + PIECE));
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t r = 0; r < n; r++) {
        double factor;
        find_rows(&w, r, 1, &factor);
        const way_t way = settle(&w, r, factor);
        memset(out + r * law->dimension, 0, law->dimension * sizeof *out);
        add_row(&w, r, &way, 1, out + r * law->dimension);
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(memory, room(0));
    return FDP_OK;
}

fdp_status_t fdp_clip_sums(const fdp_clip_t *law, size_t n, const void *x,
                           fdp_dtype_t type, size_t blocks, const int64_t *block,
                           int64_t *rows, int64_t *total)
{
    if (!sound(law, type, n)) {
        return FDP_ERR_PARAMETER;
    }
    const size_t d = law->dimension;
    const bool brief = d < SHORT && (law->norm != FDP_NORM_MAX || law->changed >= d);
    const size_t many = brief ? (BATCH / d) & ~(size_t)7 : 0;
    const size_t size = room(many * (d + 2));
    double *memory = fdp_memory_take(size);
    if (memory == NULL) {
        return FDP_ERR_MEMORY;
    }
    const fdp_part_t part = {x, d};
    batch_t b = {.many = many, .y = memory + PIECE};
    b.factor = b.y + many * d;
    b.sum = b.factor + many;
    int32_t *z = (int32_t *)(void *)(b.sum + many);
    b.z = z + PIECE;
    b.rows = rows_of(law, &part, 1, type, memory, z);
    const fdp_rounding_t rounding = fdp_rounding_enter();
    if (!brief) {
        add_long(&b.rows, n, blocks, block, rows, total);
    } else { /* kernels also read beyond the rows */
        memset(memory, 0, size);
        for (size_t i = 0; i < n; i += many) {
            const size_t some = n - i < many ? n - i : many;
            clip_short(&b, some, i);
            add_short(&b, some, blocks, block == NULL ? NULL : block + i, rows, total);
        }
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(memory, size);
    return FDP_OK;
}

fdp_status_t fdp_clip_groups(size_t groups, const fdp_group_t *group, size_t first,
                             size_t n, fdp_dtype_t type)
{
    if (groups >> 24 != 0) { /* sizes of memory fit into 32 bits */
        return FDP_ERR_PARAMETER;
    }
    for (size_t g = 0; g < groups; g++) {
        size_t size = 0;
        for (size_t p = 0; p < group[g].parts; p++) {
            size += group[g].part[p].size;
        }
        if (!sound(group[g].clip, type, n) || size != group[g].clip->dimension) {
            return FDP_ERR_PARAMETER;
        }
    }
    const size_t factors = groups * FDP_ROWS, size = room(factors);
    double *factor = fdp_memory_take(size);
    if (factor == NULL) {
        return FDP_ERR_MEMORY;
    }
    double *y = factor + factors;
    int32_t *z = (int32_t *)(void *)(y + PIECE);
    const fdp_rounding_t rounding = fdp_rounding_enter();
    for (size_t r = first; r < first + n; r += FDP_ROWS) {
        const size_t some = first + n - r < FDP_ROWS ? first + n - r : FDP_ROWS;
        unsigned finite = (1U << some) - 1;
        for (size_t g = 0; g < groups; g++) {
            const rows_t w =
                rows_of(group[g].clip, group[g].part, group[g].parts, type, y, z);
            finite &= find_rows(&w, r, some, factor + g * FDP_ROWS);
        }
        for (size_t g = 0; g < groups; g++) {
            const rows_t w =
                rows_of(group[g].clip, group[g].part, group[g].parts, type, y, z);
            add_rows(&w, r, factor + g * FDP_ROWS, finite, group[g].total);
        }
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(factor, size);
    return FDP_OK;
}
