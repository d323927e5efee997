/* gather.c: all sums of two public lists of losses, gathered in cells.
 *
 * What compositions of privacy losses take most of their time with. A row's sums ascend,
 * and those of a column ascend with the rows: so each column remembers its cell, and
 * moves on from there.
 *
 * Timing class T0: laws of losses are public.
 */
#include <float.h>
#include <string.h>

#include "../base/config.h"
#include "../base/cpu.h"
#include "../base/rounding.h"
#include "../fastdp.h"

#define BLOCK 256 /* sums that are worked on at once: they stay in the nearest cache */
#define LANES 2   /* of fdp_cell_t */
#define ROWS 8    /* rows that are added up apart, so that few roundings follow each other */

/* out[j] = mass[j] (e^x[j] - 1), x <= 0. As 2^k (e^r - 1) + (2^k - 1) with |r| <= ln(2)/2
 * and k <= 0, Taylor's series of 14 terms for e^r - 1: within 3 units of 2^-52 relatively,
 * also next to 0, where k = 0 and r = x (theorem 18 of
 * docs/proofs/numerical_accounting.md). Below -700 it is -1 to all digits. */
FDP_ALWAYS_INLINE void fall(size_t n, const double *x, const double *mass, double *out)
{
    FDP_INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        const double y = x[j] < -700.0 ? -700.0 : x[j];
        const double shifted = y * 0x1.71547652b82fep+0 + 0x1.8p52;
        const double k = shifted - 0x1.8p52;
        const double r = (y - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
        double s = 1.0 / 87178291200.0;
        s = s * r + 1.0 / 6227020800.0;
        s = s * r + 1.0 / 479001600.0;
        s = s * r + 1.0 / 39916800.0;
        s = s * r + 1.0 / 3628800.0;
        s = s * r + 1.0 / 362880.0;
        s = s * r + 1.0 / 40320.0;
        s = s * r + 1.0 / 5040.0;
        s = s * r + 1.0 / 720.0;
        s = s * r + 1.0 / 120.0;
        s = s * r + 1.0 / 24.0;
        s = s * r + 1.0 / 6.0;
        s = s * r + 0.5;
        s = s * r + 1.0;
        int64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (int64_t)((uint64_t)bits << 52) + 0x3ff0000000000000;
        double power;
        memcpy(&power, &bits, sizeof power);
        out[j] = mass[j] * (power * (s * r) + (power - 1.0));
    }
}

typedef void fall_t(size_t n, const double *x, const double *mass, double *out);

static void fall_portable(size_t n, const double *x, const double *mass, double *out)
{
    fall(n, x, mass, out);
}

#if FDP_X86_64
FDP_TARGET_AVX2
static void fall_avx2(size_t n, const double *x, const double *mass, double *out)
{
    fall(n, x, mass, out);
}
FDP_TARGET_END
#endif

static fall_t *fall_here(void)
{
#if FDP_X86_64
    if (fdp_cpu_mask() & FDP_CPU_AVX2) {
        return fall_avx2;
    }
#endif
    return fall_portable;
}

/* The sum of two losses: beyond all doubles it is the largest, in the last cell. */
FDP_ALWAYS_INLINE double sum_of(double a, double b)
{
    const double sum = a + b;
    return sum > DBL_MAX ? DBL_MAX : sum;
}

/* Moves columns on to the cells of their sums with a, and writes how far the left ends
 * are below the sums. */
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

/* Adds the sums of some rows, lane by lane, to those of all, and starts them anew.
 * Returns the most terms of a lane. */
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
                       const double *edge, uint32_t *cell, fdp_cell_t *some, double *p,
                       double *d)
{
    const fdp_rounding_t saved = fdp_rounding_enter();
    fall_t *const falls = fall_here();
    double gap[BLOCK], part[BLOCK];
    uint32_t most = 0;
    size_t folds = 0, lowest = 0;
    memset(cell, 0, columns * sizeof *cell);
    for (size_t i = 0; i < rows; i++) {
        for (size_t first = square ? i : 0, n; first < columns; first += n) {
            n = columns - first < BLOCK ? columns - first : BLOCK;
            place(n, row_loss[i], loss + first, edge, cell + first, gap);
            falls(n, gap, mass + first, part);
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
