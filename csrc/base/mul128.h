/* mul128.h - 64 x 64 -> 128-bit products.
 *
 * One multiply instruction on every supported machine; its time does not depend
 * on the operands.
 */
#ifndef FDP_BASE_MUL128_H
#define FDP_BASE_MUL128_H

#include "config.h"

__extension__ typedef unsigned __int128 fdp_u128_t;
__extension__ typedef __int128 fdp_i128_t;

/* floor(a * b / 2^128) */
static inline fdp_u128_t fdp_mul_high_u128(fdp_u128_t a, fdp_u128_t b)
{
    const uint64_t a0 = (uint64_t)a, a1 = (uint64_t)(a >> 64);
    const uint64_t b0 = (uint64_t)b, b1 = (uint64_t)(b >> 64);
    const fdp_u128_t low = (fdp_u128_t)a0 * b0;
    const fdp_u128_t mid1 = (fdp_u128_t)a1 * b0 + (uint64_t)(low >> 64);
    const fdp_u128_t mid2 = (fdp_u128_t)a0 * b1 + (uint64_t)mid1;
    return (fdp_u128_t)a1 * b1 + (uint64_t)(mid1 >> 64) + (uint64_t)(mid2 >> 64);
}

/* The 128-bit product: *high receives bits 64 to 127, the result is bits 0 to 63. */
FDP_ALWAYS_INLINE uint64_t fdp_mul_u64(uint64_t a, uint64_t b, uint64_t *high)
{
    const fdp_u128_t p = (fdp_u128_t)a * b;
    *high = (uint64_t)(p >> 64);
    return (uint64_t)p;
}

#endif
