/* scratch.c: see scratch.h. */
#include "scratch.h"

#include <stdlib.h>
#if defined(_WIN32)
#include <malloc.h>
#endif

#include "../base/wipe.h"

void *fdp_memory_take(size_t size)
{
    const size_t whole = (size + 63) & ~(size_t)63;
#if defined(_WIN32) /* Windows has no aligned_alloc, and its free accepts no aligned memory */
    return _aligned_malloc(whole, 64);
#else
    return aligned_alloc(64, whole);
#endif
}

void fdp_memory_give(void *memory, size_t size)
{
    if (memory != NULL) {
        fdp_wipe(memory, size);
#if defined(_WIN32)
        _aligned_free(memory);
#else
        free(memory);
#endif
    }
}
