/* scratch.h: memory for one call, wiped at its end. */
#ifndef FDP_MECH_SCRATCH_H
#define FDP_MECH_SCRATCH_H

#include "../base/config.h"

#define FDP_SCRATCH_SMALL 24576 /* bytes of stack that a small call uses */

/* Returns memory for one call, aligned to 64 bytes, or NULL if there is none; `size` must not be 0.
 * Giving it back wipes the first `size` bytes: all that was written. */
FDP_INTERNAL void *fdp_memory_take(size_t size);
FDP_INTERNAL void fdp_memory_give(void *memory, size_t size);

#endif
