/* kernels.h: the vector kernels, one table row per instruction-set level.
 *
 * A kernel maps words to values for n trials, n a multiple of 64, with fixed
 * cost and no branch or address that depends on a word. A value it cannot
 * decide within its proved error is FDP_UNDECIDED, a trial that the law
 * rejects is FDP_REJECTED (Laplace) or has its lowest bit clear (Gaussian,
 * whose values are stored as 2 * value + keep).
 */
#ifndef FDP_SAMPLER_KERNELS_H
#define FDP_SAMPLER_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../fastdp.h"

#define FDP_UNDECIDED32 INT32_MIN
#define FDP_REJECTED32 (INT32_MIN + 1)
#define FDP_UNDECIDED64 INT64_MIN
#define FDP_REJECTED64 (INT64_MIN + 1)
#define FDP_GRID_MOST ((INT64_C(1) << 51) - 1) /* |noise| on a grid */

typedef struct {
    const char *name;
    uint32_t required; /* CPU mask */

    void (*laplace_narrow)(const fdp_laplace_t *law, const uint32_t *word,
                           int32_t *value, size_t n);
    void (*laplace_wide)(const fdp_laplace_t *law, const uint32_t *word,
                         const uint64_t *rest, int64_t *value, size_t n);
    void (*laplace_second)(const fdp_laplace_t *law, const uint64_t *word,
                           int64_t *value, size_t n);

    void (*gaussian_select)(const fdp_gaussian_t *law, const uint16_t *word,
                            uint8_t *block, uint16_t *height, size_t n);
    void (*gaussian_narrow)(const fdp_gaussian_t *law, const uint8_t *block,
                            const uint16_t *height, const uint32_t *word,
                            int32_t *tagged, size_t n);
    void (*gaussian_wide)(const fdp_gaussian_t *law, const uint8_t *block,
                          const uint16_t *height, const uint32_t *word,
                          const uint64_t *rest, int64_t *tagged, size_t n);
    void (*gaussian_second)(const fdp_gaussian_t *law, const uint8_t *block,
                            const uint16_t *height, const uint64_t *magnitude,
                            const uint64_t *v, uint32_t bits, int64_t *decision,
                            size_t n);

    /* Bit i of the mask: value i is undecided or rejected. */
    void (*special32)(const int32_t *value, uint64_t *mask, size_t n);
    void (*special64)(const int64_t *value, uint64_t *mask, size_t n);

    /* Kept values of a tagged array, in order; out has room for n. */
    size_t (*compact32)(const int32_t *tagged, int32_t *out, size_t n);
    size_t (*compact64)(const int64_t *tagged, int64_t *out, size_t n);

    /* out = x + noise with saturation; x may equal out. */
    void (*add_narrow)(const int64_t *x, const int32_t *noise, int64_t *out, size_t n);
    void (*add_wide)(const int64_t *x, const int64_t *noise, int64_t *out, size_t n);
    /* out = round(x to grid) + noise * step, |noise| <= FDP_GRID_MOST */
    void (*add_grid)(const fdp_grid_t *grid, const double *x, const int64_t *noise,
                     double *out, size_t n);
} fdp_kernels_t;

extern const fdp_kernels_t fdp_kernels_portable;
extern const fdp_kernels_t fdp_kernels_avx2;
extern const fdp_kernels_t fdp_kernels_avx512;

/* The best row that this CPU (and FASTDP_CPU) allows. */
const fdp_kernels_t *fdp_kernels(void);

#endif
