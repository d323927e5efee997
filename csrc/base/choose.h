/* choose.h: choices that are never branches. */
#ifndef FDP_BASE_CHOOSE_H
#define FDP_BASE_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

/* All ones if c, else zero. The assembly hides from the compiler that the mask has only two values;
 * otherwise it could turn a choice by the mask into a branch. */
static inline uint64_t fdp_mask(bool c)
{
    uint64_t mask = 0 - (uint64_t)c;
    __asm__("" : "+r"(mask));
    return mask;
}

/* a where the mask is set, else b. */
static inline uint64_t fdp_pick(uint64_t mask, uint64_t a, uint64_t b)
{
    return (a & mask) | (b & ~mask);
}

#endif
