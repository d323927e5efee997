/* scratch.h: the memory of a call, wiped at its end. */
#ifndef FDP_MECH_SCRATCH_H
#define FDP_MECH_SCRATCH_H

#include "../base/config.h"

#define FDP_SCRATCH_SMALL 24576 /* bytes of the stack that a small call takes */

/* Plain memory for one call, aligned to 64 bytes; NULL if there is none. `size` is
 * not 0. Giving it back wipes it. */
FDP_INTERNAL void *fdp_memory_take(size_t size);
FDP_INTERNAL void fdp_memory_give(void *memory, size_t size);

#endif
