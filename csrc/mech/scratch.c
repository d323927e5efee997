/* scratch.c: see scratch.h. */
#include "scratch.h"

#include <stdlib.h>

#include "../base/wipe.h"

void *fdp_memory_take(size_t size)
{
    return aligned_alloc(64, (size + 63) & ~(size_t)63);
}

void fdp_memory_give(void *memory, size_t size)
{
    if (memory != NULL) {
        fdp_wipe(memory, size);
        free(memory);
    }
}
