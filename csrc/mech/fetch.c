/* fetch.c: see fetch.h. */
#include "fetch.h"

#include <string.h>

#include "select.h"

/* Entries that node i has. */
static size_t node_size(const fdp_nodes_t *nodes, size_t i)
{
    const size_t left = nodes->entries - i * nodes->node;
    return left < nodes->node ? left : nodes->node;
}

void fdp_fetch(const fdp_selection_kernels_t *kernels, const fdp_nodes_t *nodes,
               size_t index, bool whole, uint64_t pad, void *to)
{
    const size_t count = (nodes->entries + nodes->node - 1) / nodes->node;
    const size_t start = whole ? 0 : index, stop = whole ? count : index + 1;
    uint64_t *copy = to;
    memset(copy, 0, nodes->node * sizeof *copy);
    for (size_t i = start; i < stop; i++) {
        const uint64_t mask = fdp_mask(i == index);
        const size_t size = node_size(nodes, i);
        kernels->blend((const uint64_t *)nodes->from + i * nodes->node, size, mask, copy);
        for (size_t j = size; j < nodes->node; j++) {
            copy[j] |= pad & mask;
        }
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
    const uint64_t *from = (const uint64_t *)nodes->from + index * nodes->node;
    for (size_t i = 0; i < node_size(nodes, index); i += 8) {
        __builtin_prefetch(from + i, 0, 3);
    }
}
