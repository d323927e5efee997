/* planes.h: looks up two byte tables at 128 indices, for machines without byte shuffles. Indices
 * are converted to planes, each with one bit of 128 lanes. Bit o of an entry is a Boolean function
 * of the bits of the index. Four entries that differ in the lowest two bits of the index are one of
 * the 16 functions of these bits, a *form*. Forms are combined by Horner's scheme for polynomials
 * over GF(2) in the upper bits. Which memory is read depends on the tables alone. A lane costs a
 * third of comparing its index with every entry, or of evaluating the polynomial on whole bytes. */
#ifndef FDP_SAMPLER_PLANES_H
#define FDP_SAMPLER_PLANES_H

#include <stdint.h>
#include <string.h>

#include "../base/config.h"

#define FDP_PLANE_LANES 128
#define FDP_FORMS 64 /* of the longest tables, which have 256 entries */

typedef uint64_t fdp_plane_t __attribute__((vector_size(16)));

/* The coefficients of the polynomials, each as the place of a form. They are ordered by output bit,
 * those of the first table before those of the second. */
typedef struct {
    FDP_ALIGNED(16) uint8_t place[16][FDP_FORMS];
} fdp_forms_t;

/* Converts, in place, a function on 4 m entries to a polynomial in the bits above the lowest two; a
 * word has eight coefficients. */
static inline void fdp_forms_sum(uint64_t *eight, size_t m)
{
    for (size_t i = 0; i < m / 8; i++) {
        eight[i] ^= (eight[i] & UINT64_C(0x00ff00ff00ff00ff)) << 8;
        eight[i] ^= (eight[i] & UINT64_C(0x0000ffff0000ffff)) << 16;
        eight[i] ^= eight[i] << 32;
    }
    for (size_t step = 1; step < m / 8; step *= 2) {
        for (size_t i = step; i < m / 8; i = (i + 1) | step) {
            eight[i] ^= eight[i - step];
        }
    }
}

/* entries: 32, 128 or 256 */
FDP_ALWAYS_INLINE void fdp_forms_load(const uint8_t *one, const uint8_t *two,
                                      size_t entries, fdp_forms_t *forms)
{
    const uint32_t low = UINT32_C(0x01010101), together = UINT32_C(0x10204080);
    for (unsigned o = 0; o < 16; o++) {
        const uint8_t *table = o < 8 ? one : two;
        for (size_t g = 0; g < entries / 4; g++) {
            uint32_t four;
            memcpy(&four, table + 4 * g, sizeof four);
            /* sixteen times the number that the four bits form */
            forms->place[o][g] = (uint8_t)(((four >> o % 8) & low) * together >> 24);
        }
        fdp_forms_sum((uint64_t *)(void *)forms->place[o], entries / 4);
    }
}

/* Transposes: bit i of eight registers becomes register i; applied again, it reverses this. */
static inline void fdp_planes_turn(fdp_plane_t r[8])
{
    static const uint64_t keep[3] = {UINT64_C(0x0f0f0f0f0f0f0f0f),
                                     UINT64_C(0x3333333333333333),
                                     UINT64_C(0x5555555555555555)};
    for (unsigned stage = 0, step = 4; step > 0; stage++, step /= 2) {
        for (unsigned i = 0; i < 8; i++) {
            if ((i & step) == 0) {
                const fdp_plane_t t = ((r[i] >> step) ^ r[i + step]) & keep[stage];
                r[i + step] ^= t;
                r[i] ^= t << step;
            }
        }
    }
}

#define FDP_P0(b) (*(const fdp_plane_t *)(const void *)((const uint8_t *)form + place[b]))
#define FDP_P1(b) (FDP_P0(b) ^ (x[2] & FDP_P0((b) + 1)))
#define FDP_P2(b) (FDP_P1(b) ^ (x[3] & FDP_P1((b) + 2)))
#define FDP_P3(b) (FDP_P2(b) ^ (x[4] & FDP_P2((b) + 4)))
#define FDP_P4(b) (FDP_P3(b) ^ (x[5] & FDP_P3((b) + 8)))
#define FDP_P5(b) (FDP_P4(b) ^ (x[6] & FDP_P4((b) + 16)))
#define FDP_P6(b) (FDP_P5(b) ^ (x[7] & FDP_P5((b) + 32)))

/* The entries of both tables at 64 indices from `index` on and 64 from `after` on. */
FDP_ALWAYS_INLINE void fdp_planes_look(const fdp_forms_t *forms, size_t entries,
                                       const uint8_t *index, const uint8_t *after,
                                       uint8_t *one, uint8_t *two)
{
    fdp_plane_t x[8], form[16], sum[16];
    memcpy(x, index, 64);
    memcpy(x + 4, after, 64);
    fdp_planes_turn(x);
    form[0] = (fdp_plane_t){0};
    form[1] = ~(x[0] | x[1]);
    form[2] = x[0] & ~x[1];
    form[4] = x[1] & ~x[0];
    form[8] = x[0] & x[1];
    for (unsigned f = 3; f < 16; f++) {
        form[f] = form[f & (f - 1)] | form[f & (0 - f)];
    }
    for (unsigned o = 0; o < 16; o++) {
        const uint8_t *place = forms->place[o];
        sum[o] = entries == 32 ? FDP_P3(0) : entries == 128 ? FDP_P5(0) : FDP_P6(0);
    }
    fdp_planes_turn(sum);
    fdp_planes_turn(sum + 8);
    memcpy(one, sum, FDP_PLANE_LANES);
    memcpy(two, sum + 8, FDP_PLANE_LANES);
}

#endif
