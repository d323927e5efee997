/* levels.c: the tables of kernels, one row for each level, in the order of the levels' ranks. */
#include "../base/cpu.h"
#include "digit_kernels.h"
#include "kernels.h"
#include "selection.h"

#define KERNELS(name, bit) &fdp_kernels_##name,
#define DIGITS(name, bit) &fdp_digits_##name,
#define SELECTION(name, bit) &fdp_selection_##name,

const fdp_kernels_t *fdp_kernels_at(size_t rank)
{
    static const fdp_kernels_t *const rows[] = {FDP_LEVELS_HERE(KERNELS)};
    return rows[rank];
}

const fdp_digit_kernels_t *fdp_digit_kernels_at(size_t rank)
{
    static const fdp_digit_kernels_t *const rows[] = {FDP_LEVELS_HERE(DIGITS)};
    return rows[rank];
}

const fdp_kernels_t *fdp_kernels(void) { return fdp_kernels_at(fdp_cpu_rank()); }

const fdp_digit_kernels_t *fdp_digit_kernels(void)
{
    return fdp_digit_kernels_at(fdp_cpu_rank());
}

const fdp_selection_kernels_t *fdp_selection_kernels(void)
{
    static const fdp_selection_kernels_t *const rows[] = {FDP_LEVELS_HERE(SELECTION)};
    return rows[fdp_cpu_rank()];
}
