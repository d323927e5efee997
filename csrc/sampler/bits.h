/* bits.h: bits of floats, exact conversions between integers and doubles, and sums. All of them
 * vectorize on every level (AVX2 has no 64-bit integer conversions). */
#ifndef FDP_SAMPLER_BITS_H
#define FDP_SAMPLER_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t fdp_double_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double fdp_bits_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Correctly rounded: both halves are exact, so only their sum is rounded. */
static inline double fdp_from_unsigned(uint64_t n) {
    double low = fdp_bits_double((n & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;
    double high = fdp_bits_double((n >> 32) | 0x4530000000000000u) - 0x1p84;
    return high + low;
}

/* Exact, for |n| < 2^51. */
static inline double fdp_from_small(int64_t n) {
    return fdp_bits_double((uint64_t)n + 0x4338000000000000u) - 0x1.8p52;
}

/* Exact, for integers |x| < 2^51. */
static inline int64_t fdp_to_small(double x) {
    return (int64_t)(fdp_double_bits(x + 0x1.8p52) - 0x4338000000000000u);
}

/* Nearest integer, ties to even, for |x| < 2^51. */
static inline double fdp_nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

/* a + b, saturated at the limits of int64. It uses only masks: gcc would compile a conditional
 * choice to a branch, here on the sign of the data. */
static inline int64_t fdp_add_saturate(int64_t a, int64_t b)
{
    const uint64_t sum = (uint64_t)a + (uint64_t)b;
    const int64_t overflow = (int64_t)(((uint64_t)a ^ sum) & ((uint64_t)b ^ sum));
    const uint64_t limit = (uint64_t)INT64_MAX + ((uint64_t)a >> 63);
    const uint64_t gone = 0 - ((uint64_t)overflow >> 63);
    return (int64_t)(sum ^ ((sum ^ limit) & gone));
}

/* The number of set bits, without a library table. */
static inline size_t fdp_ones(uint64_t x)
{
    x -= (x >> 1) & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + ((x >> 2) & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (size_t)((x * UINT64_C(0x0101010101010101)) >> 56);
}

#endif
