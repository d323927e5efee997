/* fetch.h: reads and writes at places that follow from the scores, in a time that does
 * not.
 *
 * Arrays of a short row are gone through whole, under masks. Of a long one the lines
 * that are wanted are brought into the cache while a fixed number of steps passes, and
 * then read where they are: docs/proofs/timing.md.
 */
#ifndef FDP_MECH_FETCH_H
#define FDP_MECH_FETCH_H

#include "../base/config.h"
#include "../sampler/selection.h"

/* Candidates of a row up to which it counts as short. */
#define FDP_SHORT 4096

/* An array of 64-bit entries, `node` of them belonging together. */
typedef struct {
    const void *from;
    size_t entries, node;
} fdp_nodes_t;

/* Copies the entries of one node, `pad` where the array has ended. */
FDP_INTERNAL void fdp_fetch(const fdp_selection_kernels_t *kernels,
                            const fdp_nodes_t *nodes, size_t index, bool whole,
                            uint64_t pad, void *to);

/* to[index] = value, one of n entries. */
FDP_INTERNAL void fdp_store(void *to, size_t n, size_t index, uint64_t value,
                            bool whole);

/* Asks for a node's lines, if there is an array. */
FDP_INTERNAL void fdp_expect(const fdp_nodes_t *nodes, size_t index);

/* Lets pass what memory takes to answer, that of arrays of n entries: some 500 or 2000
 * cycles, for what the processor holds and for what it may not. */
static inline void fdp_wait(size_t n)
{
    uint64_t x = 1;
    for (int i = 0; i < (n <= 1 << 18 ? 128 : 512); i++) {
        x = x * 3 + 1;
        __asm__("" : "+r"(x));
    }
}

#endif
