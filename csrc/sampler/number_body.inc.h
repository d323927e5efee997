/* number_body.inc.h: codes of numbers between bounds, compiled once per level.
 * docs/proofs/local_randomizers.md, section 8. Timing class T2. */

/* `yes` if the mask is set, else `no`. */
static inline uint64_t FDP_K(either_word)(uint64_t mask, uint64_t yes, uint64_t no)
{
    return (mask & yes) | (~mask & no);
}

/* One of four; the masks are nested. */
static inline uint64_t FDP_K(one_word)(const uint64_t mask[4], const uint64_t of[4])
{
    const uint64_t low = FDP_K(either_word)(mask[1], of[1], of[0]);
    return FDP_K(either_word)(mask[3], of[3], FDP_K(either_word)(mask[2], of[2], low));
}

/* The product of two numbers below 2^32. */
static inline uint64_t FDP_K(short_product)(uint64_t a, uint64_t b)
{
    return (a & UINT32_MAX) * (b & UINT32_MAX);
}

#ifdef FDP_HAVE_NUMBERS
#define FDP_NUMBERS FDP_K(number_codes)
#else
#define FDP_NUMBERS FDP_K(numbers)
#endif

/* Computes the codes of n numbers (a multiple of 64), each from a 64-bit and a 32-bit word. Returns
 * not 0 if a 64-bit word is among the last ones, whose code the caller must set. On doubles it
 * makes one difference, one product and one sum, so no compiler can contract them. */
static uint64_t FDP_NUMBERS(const fdp_number_t *law, const double *restrict x,
                                   const uint64_t *restrict u, const uint32_t *restrict r,
                                   uint8_t *restrict code, size_t n)
{
    const fdp_number_t w = *law;
    uint64_t last = 0;
    for (size_t g = 0; g < n; g += 64) {
        uint64_t drawn[64];
        for (size_t i = 0; i < 64; i++) {
            const double above = (x[g + i] - w.low) * w.steps;
            /* NaN counts as the lower bound */
            const double known = FDP_K(pick)(above > 0, above, 0);
            const double held = FDP_K(pick)(known < 0x1p31, known, 0x1p31);
            const uint64_t t = fdp_double_bits(held + 0x1p52), v = u[g + i];
            uint64_t part[4] = {0};
            for (int k = 1; k < 4; k++) {
                part[k] = 0 - (uint64_t)(v > w.before[k]);
            }
            const uint64_t size = FDP_K(one_word)(part, w.size);
            const uint64_t since = v - FDP_K(one_word)(part, w.begin);
            const uint64_t outputs = FDP_K(either_word)(part[2], w.outputs[1], w.outputs[0]);
            const uint64_t places = FDP_K(either_word)(part[2], w.places[1], w.places[0]);
            /* the quotient by `size` is at most this plus 2 */
            const uint64_t rate = FDP_K(one_word)(part, w.rate);
            const uint64_t step = FDP_K(short_product)(since >> 32, rate) >> 32;
            const uint64_t rest = since - FDP_K(short_product)(step, size) -
                                  (FDP_K(short_product)(step, size >> 32) << 32);
            const uint64_t more = 0 - (uint64_t)(rest >= size);
            const uint64_t most = 0 - (uint64_t)(rest - (more & size) >= size);
            const uint64_t j = FDP_K(one_word)(part, w.first) + step - more - most +
                               ((FDP_K(short_product)(t, places) + (r[g + i] >> 1)) >> 31);
            const uint64_t around = 0 - (uint64_t)(j >= outputs);
            drawn[i] = j - (around & outputs) + (part[2] & w.outputs[0]);
            last |= 0 - (uint64_t)(v > w.plain);
        }
        for (size_t i = 0; i < 64; i++) {
            code[g + i] = (uint8_t)drawn[i];
        }
    }
    return last;
}

#undef FDP_NUMBERS
#ifdef FDP_HAVE_NUMBERS
#include "number_avx512.inc.h"
#endif
