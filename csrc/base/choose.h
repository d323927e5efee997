/* choose.h: a choice that is never a branch. */
#ifndef FDP_BASE_CHOOSE_H
#define FDP_BASE_CHOOSE_H

#include <stdint.h>

/* a if c is 1, b if it is 0: the compiler is not told that the mask has only two values. */
static inline uint64_t fdp_choose(uint64_t c, uint64_t a, uint64_t b)
{
    uint64_t mask = 0 - c;
    __asm__("" : "+r"(mask));
    return (a & mask) | (b & ~mask);
}

#endif
