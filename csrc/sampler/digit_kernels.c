/* digit_kernels.c: picks the row of digit kernels, best level first. */
#include "digit_kernels.h"

#include "../base/cpu.h"

static const fdp_digit_kernels_t *const rows[] = {
#if FDP_X86_64
    &fdp_digits_avx512vbmi, &fdp_digits_avx512, &fdp_digits_avx2,
#endif
    &fdp_digits_portable};

const fdp_digit_kernels_t *fdp_digit_kernels_at(size_t place)
{
    const uint32_t mask = fdp_cpu_mask();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((rows[i]->required & ~mask) == 0 && place-- == 0) {
            return rows[i];
        }
    }
    return NULL;
}

const fdp_digit_kernels_t *fdp_digit_kernels(void) { return fdp_digit_kernels_at(0); }
