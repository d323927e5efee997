/* fetch.c: see fetch.h. */
#include "fetch.h"

#include <string.h>

#include "../base/wipe.h"
#include "select.h"

/* The number of entries of node i. */
static size_t node_size(const fdp_nodes_t *nodes, size_t i)
{
    const size_t left = nodes->entries - i * nodes->node;
    return left < nodes->node ? left : nodes->node;
}

/* Copies a node of a short array, by reading the whole array. */
static void fetch_blended(const fdp_selection_kernels_t *kernels,
                          const fdp_nodes_t *nodes, size_t index, uint64_t pad,
                          uint64_t *to)
{
    const size_t count = (nodes->entries + nodes->node - 1) / nodes->node;
    memset(to, 0, nodes->node * sizeof *to);
    for (size_t i = 0; i < count; i++) {
        const uint64_t mask = fdp_mask(i == index);
        const size_t size = node_size(nodes, i);
        kernels->blend((const uint64_t *)nodes->from + i * nodes->node, size, mask, to);
        for (size_t j = size; j < nodes->node; j++) {
            to[j] |= pad & mask;
        }
    }
}

/* Copies a node of a long array. For the last, shorter node it reads as many entries as for others,
 * including some of the node before. */
static void fetch_near(const fdp_nodes_t *nodes, size_t index, uint64_t pad, uint64_t *to)
{
    uint64_t window[2 * FDP_BLOCK];
    const size_t missing = nodes->node - node_size(nodes, index);
    const size_t start = index * nodes->node - missing;
    memcpy(window, (const uint64_t *)nodes->from + start, nodes->node * sizeof *to);
    for (size_t j = 0; j < nodes->node; j++) {
        window[nodes->node + j] = pad;
    }
    memcpy(to, window + missing, nodes->node * sizeof *to);
    fdp_wipe(window, 2 * nodes->node * sizeof *window);
}

void fdp_fetch(const fdp_selection_kernels_t *kernels, const fdp_nodes_t *nodes,
               size_t index, bool whole, uint64_t pad, void *to)
{
    if (whole) {
        fetch_blended(kernels, nodes, index, pad, to);
    } else {
        fetch_near(nodes, index, pad, to);
    }
}

void fdp_store(void *to, size_t n, size_t index, uint64_t value, bool whole)
{
    uint64_t *array = to;
    const size_t start = whole ? 0 : index, stop = whole ? n : index + 1;
    for (size_t i = start; i < stop; i++) {
        array[i] = fdp_pick(fdp_mask(i == index), value, array[i]);
    }
}

void fdp_expect(const fdp_nodes_t *nodes, size_t index)
{
    if (nodes->from == NULL) {
        return;
    }
    const size_t start = (index + 1) * nodes->node < nodes->entries
                             ? index * nodes->node
                             : nodes->entries - nodes->node;
    const uint64_t *from = (const uint64_t *)nodes->from + start;
    for (size_t i = 0; i < nodes->node; i += 8) {
        __builtin_prefetch(from + i, 0, 3);
    }
}
