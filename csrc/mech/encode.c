/* encode.c: how unary encoding writes a category into a report. No randomness is drawn
 * here, and every step is the same for every category.
 */
#include <string.h>

#include "../base/config.h"
#include "../fastdp.h"

/* All ones if x = 0, for x < 2^63. */
static uint64_t zero_mask(uint64_t x) { return 0 - ((x - 1) >> 63); }

/* Bit i of big-endian packed bits, as 0 or 1. */
static uint64_t bit_of(const uint8_t *bits, size_t i)
{
    return (uint64_t)(bits[i / 8] >> (7 - i % 8)) & 1;
}

/* Replaces the bit at `place` of a row by `value`, which is all ones or zero. */
static void insert(uint8_t *row, size_t bytes, uint64_t place, uint64_t value)
{
    const size_t words = bytes / 8;
    const uint64_t one = UINT64_C(1) << ((place % 64) ^ 7); /* big-endian within its byte */
    for (size_t w = 0; w < words; w++) {
        const uint64_t hit = one & zero_mask(w ^ (place / 64));
        uint64_t word;
        memcpy(&word, row + 8 * w, sizeof word);
        word = (word & ~hit) | (value & hit);
        memcpy(row + 8 * w, &word, sizeof word);
    }
    /* One mask for all bytes of the tail: a mask computed for each byte showed in the run time. */
    uint64_t hit = one & zero_mask(words ^ (place / 64));
    for (size_t b = 8 * words; b < bytes; b++) {
        row[b] = (uint8_t)((row[b] & ~hit) | (value & hit));
        hit >>= 8;
    }
}

void fdp_insert_bits(size_t n, size_t row_bytes, const uint32_t *label,
                     const uint8_t *bits, uint8_t *rows)
{
    for (size_t i = 0; i < n; i++) {
        insert(rows + i * row_bytes, row_bytes, label[i], 0 - bit_of(bits, i));
    }
}
