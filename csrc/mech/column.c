/* column.c: moments of a column, each value an exact integer before it is added.
 *
 *   fdp_column_moments   counts, sums of u and sums of its square, by group
 *
 * docs/proofs/sums.md, "Columns". Timing class T0.
 */
#include <math.h>
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"
#include "scratch.h"
#include "target.h"

#define PIECE 1024 /* values of a column that are processed together, a multiple of 8 */

typedef struct {
    double x[PIECE];
    int64_t present[PIECE], u[PIECE], square[PIECE];
} piece_t;

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
        column->bits < 1 || column->bits > 30 ||
        !(column->inverse > 0 && column->inverse < INFINITY)) {
        return FDP_ERR_PARAMETER;
    }
    piece_t *piece = fdp_memory_take(sizeof *piece);
    if (piece == NULL) {
        return FDP_ERR_MEMORY;
    }
    const fdp_rounding_t rounding = fdp_rounding_enter();
    int64_t total[3] = {0};
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t part = n - at < PIECE ? n - at : PIECE;
        if (group == NULL && part == PIECE && type == FDP_F64) {
            kernels->column_total(column, (const double *)x + at, total, PIECE);
            continue;
        }
        fdp_load_doubles(x, type, at, part, piece->x);
        for (size_t i = part; i < PIECE; i++) {
            piece->x[i] = NAN; /* padding: NaN is not counted */
        }
        if (group == NULL) {
            kernels->column_total(column, piece->x, total, PIECE);
        } else {
            kernels->column(column, piece->x, piece->present, piece->u, piece->square,
                            part);
            add_by_group(piece, part, groups, group + at, count, sum, square);
        }
    }
    if (group == NULL && groups > 0) {
        count[0] += total[0];
        sum[0] += total[1];
        square[0] += total[2];
    }
    fdp_rounding_leave(rounding);
    fdp_memory_give(piece, sizeof *piece);
    return FDP_OK;
}
