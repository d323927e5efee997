/* resolve.c: see resolve.h. */
#include "resolve.h"

#include "scratch.h"

/* Bytes: most trials need the first; 8,192 bits of precision less than the last. */
#define LEAST_ROOM ((size_t)1 << 17)
#define MOST_ROOM ((size_t)1 << 25)

typedef struct {
    const fdp_call_t *call;
    const fdp_pending_t *pending;
} trial_t;

static void extend(const void *context, uint32_t block, uint8_t out[16])
{
    const trial_t *t = context;
    fdp_call_extend(t->call, t->pending->chunk, t->pending->trial, block, out);
}

int fdp_resolve(const fdp_call_t *call, const fdp_pending_t *pending, fdp_decide_fn decide,
                const void *law, int64_t value[2], fdp_status_t *status)
{
    const trial_t trial = {call, pending};
    const uint64_t *words = pending->more != NULL ? pending->more : pending->word;
    fdp_status_t why = FDP_ERR_RESOLVER;
    int kept = -1;
    bool again = pending->owner == NULL;
    if (!again && call->resolve != NULL) {
        kept = call->resolve(call->context, pending, value);
    }
    for (size_t size = LEAST_ROOM; again && size <= MOST_ROOM; size *= 4) {
        fdp_arena_t arena = {.base = fdp_memory_take(size), .size = size / sizeof(uint64_t)};
        again = arena.base != NULL;
        if (again) {
            fdp_settle_t w = {.a = &arena, .block = extend, .context = &trial};
            kept = decide(&w, law, words, value);
            again = arena.failed;
            kept = again ? -1 : kept;
        } else {
            why = FDP_ERR_MEMORY;
        }
        fdp_memory_give(arena.base, size);
    }
    if (kept < 0) {
        value[0] = value[1] = 0;
        *status = why;
    }
    return kept;
}
