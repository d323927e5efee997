/* levels.c: the rows of kernels, by the level's rank. */
#include "../base/cpu.h"
#include "digit_kernels.h"
#include "kernels.h"
#include "selection.h"

#if FDP_X86_64
#define ROWS(family) \
    {&family##_portable, &family##_avx2, &family##_avx512, &family##_avx512vbmi}
#else
#define ROWS(family) {&family##_portable}
#endif

const fdp_kernels_t *fdp_kernels_at(size_t rank)
{
    static const fdp_kernels_t *const rows[] = ROWS(fdp_kernels);
    return rows[rank];
}

const fdp_digit_kernels_t *fdp_digit_kernels_at(size_t rank)
{
    static const fdp_digit_kernels_t *const rows[] = ROWS(fdp_digits);
    return rows[rank];
}

const fdp_kernels_t *fdp_kernels(void) { return fdp_kernels_at(fdp_cpu_rank()); }

const fdp_digit_kernels_t *fdp_digit_kernels(void)
{
    return fdp_digit_kernels_at(fdp_cpu_rank());
}

const fdp_selection_kernels_t *fdp_selection_kernels(void)
{
    static const fdp_selection_kernels_t *const rows[] = ROWS(fdp_selection);
    return rows[fdp_cpu_rank()];
}
