/* gather.c: all sums of two public lists, of losses or of ratios, gathered in cells. Compositions
 * of privacy losses take most of their time here. The sums of a row ascend, and so do the sums of a
 * column from row to row. So each column remembers its cell and continues from there. Timing class
 * T0: laws of losses are public. */
#include <float.h>
#include <string.h>

#include "../base/config.h"
#include "../base/rounding.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"

#define BLOCK 256 /* sums processed at once, so that they stay in the nearest cache */
#define LANES 2   /* lanes of fdp_cell_t */
#define ROWS 8    /* rows added up separately, so that few roundings follow each other */

/* The sum of two losses. If it exceeds all doubles, it is replaced by the largest one, which is in
 * the last cell. */
FDP_ALWAYS_INLINE double sum_of(double a, double b)
{
    const double sum = a + b;
    return sum > DBL_MAX ? DBL_MAX : sum;
}

/* Advances the columns to the cells of their sums with a, and writes how far the left edges are
 * below the sums. */
static void place(size_t n, double a, const double *loss, const double *edge,
                  uint32_t *cell, double *gap)
{
    unsigned more = 0;
    for (size_t j = 0; j < n; j++) {
        const double sum = sum_of(a, loss[j]);
        uint32_t c = cell[j];
        c += edge[c + 1] <= sum;
        c += edge[c + 1] <= sum;
        more |= edge[c + 1] <= sum;
        cell[j] = c;
        const double below = edge[c] - sum;
        gap[j] = below < 0.0 ? below : 0.0;
    }
    if (!more) {
        return;
    }
    uint32_t c = cell[0];
    for (size_t j = 0; j < n; j++) {
        const double sum = sum_of(a, loss[j]);
        c = c < cell[j] ? cell[j] : c;
        while (edge[c + 1] <= sum) {
            c++;
        }
        cell[j] = c;
        const double below = edge[c] - sum;
        gap[j] = below < 0.0 ? below : 0.0;
    }
}

/* Adds the sums of some rows, lane by lane, to the totals, and resets them. Returns the largest
 * number of terms in a lane. */
static uint32_t fold(size_t cells, fdp_cell_t *some, double *p, double *d)
{
    uint32_t most = 0;
    for (size_t c = 0; c < cells; c++) {
        for (size_t k = 0; k < LANES; k++) {
            p[c] += some[c].p[k];
            d[c] += some[c].d[k];
            most = some[c].terms[k] > most ? some[c].terms[k] : most;
        }
        memset(&some[c], 0, sizeof some[c]);
    }
    return most;
}

size_t fdp_gather_sums(size_t rows, const double *row_loss, const double *row_mass,
                       size_t columns, const double *loss, const double *mass, int square,
                       int ratios, const double *edge, uint32_t *cell, fdp_cell_t *some, double *p,
                       double *d)
{
    const fdp_rounding_t saved = fdp_rounding_enter();
    const fdp_kernels_t *kernels = fdp_kernels();
    double gap[BLOCK], part[BLOCK];
    uint32_t most = 0;
    size_t folds = 0, lowest = 0;
    memset(cell, 0, columns * sizeof *cell);
    for (size_t i = 0; i < rows; i++) {
        for (size_t first = square ? i : 0, n; first < columns; first += n) {
            n = columns - first < BLOCK ? columns - first : BLOCK;
            place(n, row_loss[i], loss + first, edge, cell + first, gap);
            if (ratios) {
                for (size_t j = 0; j < n; j++) {
                    part[j] = gap[j] * mass[first + j];
                }
            } else {
                kernels->fall(gap, mass + first, part, n);
            }
            if (i % ROWS == 0 && first == (square ? i : 0)) {
                lowest = cell[first];
            }
            for (size_t j = 0; j < n; j++) {
                fdp_cell_t *const sum = &some[cell[first + j]];
                const double weight = square && first + j > i ? 2 * row_mass[i] : row_mass[i];
                sum->p[j % LANES] += weight * mass[first + j];
                sum->d[j % LANES] += weight * part[j];
                sum->terms[j % LANES]++;
            }
        }
        if (i % ROWS == ROWS - 1 || i == rows - 1) {
            const size_t cells = cell[columns - 1] - lowest + 1;
            const uint32_t here = fold(cells, some + lowest, p + lowest, d + lowest);
            most = here > most ? here : most;
            folds++;
        }
    }
    fdp_rounding_leave(saved);
    return most + LANES * folds;
}
