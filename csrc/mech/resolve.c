/* resolve.c: see resolve.h. */
#include "resolve.h"

#include "scratch.h"

/* Bytes. Most trials need at most the first; 8,192 bits of precision need less than the second. */
#define LEAST_ROOM ((size_t)1 << 17)
#define MOST_ROOM ((size_t)1 << 25)

static void extend(const void *context, uint32_t block, uint8_t out[16])
{
    const fdp_trial_t *t = context;
    fdp_call_extend(t->call, t->chunk, t->trial, block, out);
}

int fdp_resolve(const fdp_trial_t *trial, fdp_decide_fn decide, const void *law,
                const uint64_t *words, int64_t value[2], fdp_status_t *status)
{
    fdp_status_t why = FDP_ERR_RESOLVER;
    int kept = -1;
    bool again = true;
    for (size_t size = LEAST_ROOM; again && size <= MOST_ROOM; size *= 4) {
        fdp_arena_t arena = {.base = fdp_memory_take(size), .size = size / sizeof(uint64_t)};
        again = arena.base != NULL;
        if (again) {
            fdp_settle_t w = {.a = &arena, .block = extend, .context = trial};
            kept = decide(&w, law, words, value);
            again = arena.failed;
            kept = again ? -1 : kept;
        } else {
            why = FDP_ERR_MEMORY;
        }
        fdp_memory_give(arena.base, arena.most * sizeof *arena.base);
    }
    if (kept < 0) {
        value[0] = value[1] = 0;
        *status = why;
    }
    return kept;
}
