/* labels.h: converts the caller's answers, of any integer type, for a kernel. */
#ifndef FDP_MECH_LABELS_H
#define FDP_MECH_LABELS_H

#include "../fastdp.h"

/* answer[i] = x[at + i] if that is 0 or 1, else a number of at least 2. Booleans are 0 or 1.
 * For FDP_NONE every answer is 0. */
void fdp_load_answers(const void *x, fdp_dtype_t type, size_t at, size_t n,
                      uint8_t *answer);

#endif
