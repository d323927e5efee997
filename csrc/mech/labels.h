/* labels.h: the caller's categories, of any integer type, on their way to a kernel. */
#ifndef FDP_MECH_LABELS_H
#define FDP_MECH_LABELS_H

#include "../fastdp.h"
#include "../sampler/kernels.h"

/* label[i] = x[at + i], or a number of at least 2^31 where that is negative or has
 * more than 32 bits. */
void fdp_load_labels(const fdp_kernels_t *kernels, const void *x, fdp_dtype_t type,
                     size_t at, size_t n, uint32_t *label);

/* answer[i] = x[at + i] if that is 0 or 1, else a number of at least 2; booleans are
 * 0 or 1, FDP_NONE is 0. */
void fdp_load_answers(const void *x, fdp_dtype_t type, size_t at, size_t n,
                      uint8_t *answer);

/* out[at + i] = report[i] in an unsigned type that holds it. */
void fdp_store_reports(const uint32_t *report, size_t n, void *out, fdp_dtype_t type,
                       size_t at);

size_t fdp_report_bytes(fdp_dtype_t type);

#endif
