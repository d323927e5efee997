/* selection.c: picks the row of selection kernels, best level first. */
#include "selection.h"

#include "../base/config.h"
#include "../base/cpu.h"

const fdp_selection_kernels_t *fdp_selection_kernels(void)
{
#if FDP_X86_64
    static const fdp_selection_kernels_t *const rows[] = {
        &fdp_selection_avx512vbmi, &fdp_selection_avx512, &fdp_selection_avx2};
    const uint32_t mask = fdp_cpu_mask();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((rows[i]->required & ~mask) == 0) {
            return rows[i];
        }
    }
#endif
    return &fdp_selection_portable;
}
