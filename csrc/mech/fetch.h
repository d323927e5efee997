/* fetch.h: reads and writes at places that depend on the scores, in a time that does not. Arrays of
 * a short row are read whole, under masks. For a long row, the needed cache lines are prefetched
 * while a fixed number of steps passes, and then read: docs/proofs/timing.md. */
#ifndef FDP_MECH_FETCH_H
#define FDP_MECH_FETCH_H

#include "../base/config.h"
#include "../sampler/selection.h"

/* A row of at most this many candidates counts as short. */
#define FDP_SHORT 4096

/* An array of 64-bit entries; each node has `node` of them. */
typedef struct {
    const void *from;
    size_t entries, node;
} fdp_nodes_t;

/* Copies the entries of one node, with `pad` beyond the end of the array. */
FDP_INTERNAL void fdp_fetch(const fdp_selection_kernels_t *kernels,
                            const fdp_nodes_t *nodes, size_t index, bool whole,
                            uint64_t pad, void *to);

/* to[index] = value; `to` has n entries. */
FDP_INTERNAL void fdp_store(void *to, size_t n, size_t index, uint64_t value,
                            bool whole);

/* Prefetches a node's cache lines, if there is an array. */
FDP_INTERNAL void fdp_expect(const fdp_nodes_t *nodes, size_t index);

/* Waits as long as memory takes to answer for arrays of n entries: about 500 cycles if the
 * processor's caches hold them, 2000 if they may not. */
static inline void fdp_wait(size_t n)
{
    uint64_t x = 1;
    for (int i = 0; i < (n <= 1 << 18 ? 128 : 512); i++) {
        x = x * 3 + 1;
        __asm__("" : "+r"(x));
    }
}

#endif
