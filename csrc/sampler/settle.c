/* settle.c: see settle.h; error analysis in docs/proofs/kernels.md.
 *
 *   fdp_exp_minus  e^{-r} in fixed point
 *   laplace_settle the boundary nearest to -t ln(V / W), compared with V itself
 *   settle_keep    the acceptance test of the wide kind
 */
#include "settle.h"

#include "../base/config.h"
#include "../base/mul128.h"
#include "bits.h"
#include "constants.h"

fdp_u128_t fdp_exp_minus(fdp_u128_t r)
{
    const fdp_u128_t one = (fdp_u128_t)1 << 127;
    const fdp_u128_t z = r >> 4; /* 2^128 (r / 32), below 2^128 * 0.047 */
    fdp_u128_t sum = one;
    for (unsigned n = 20; n >= 1; n--) {
        sum = one - fdp_mul_high_u128(z, sum) / n; /* alternating Taylor, Horner */
    }
    for (int k = 0; k < 5; k++) {
        sum = fdp_mul_high_u128(sum, sum) << 1;
    }
    return sum;
}

/* round(-scale * ln(a * 2^-63 / w)), within half a unit of the true value. */
static int64_t nearest_boundary(double v, double scale)
{
    const uint64_t split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;
    const double k = (double)(int64_t)((split + (UINT64_C(1024) << 52)) >> 52) - 1024.0;
    const double f =
        fdp_bits_double((split & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    const double y =
        -scale * (k * FDP_LN2_HI + (k * FDP_LN2_LO + FDP_LOG_EVAL(f)));
    return fdp_to_small(fdp_nearest(y));
}

bool fdp_laplace_settle(const fdp_laplace_t *law, uint64_t high, uint64_t low,
                        int64_t *value)
{
    const fdp_u128_t u = ((fdp_u128_t)high << 64) | low;
    const fdp_u128_t theta = ((fdp_u128_t)law->theta[1] << 64) | law->theta[0];
    const bool negative = u < theta;
    const fdp_u128_t v = negative ? u : u - theta;   /* 2^128 V to within 1 */
    const fdp_u128_t w = negative ? theta : (fdp_u128_t)0 - theta - (theta != 0);
    const fdp_u128_t whole = theta == 0 ? ~(fdp_u128_t)0 : w; /* 2^128 W within 1 */
    /* A cell this wide could hide more than half a unit of y. */
    if ((uint64_t)(v >> 84) == 0) {
        return false;
    }
    const double inverse_w = negative ? law->inverse_w1 : law->inverse_w0;
    const double a = fdp_from_unsigned((uint64_t)(v >> 65)) + 0.25;
    const int64_t boundary = nearest_boundary(a * (inverse_w * 0x1p-63), law->scale);
    if (boundary < 0) {
        return false;
    }
    int64_t g = 0;
    if (boundary > 0) {
        /* r = boundary / scale, 128 fractional bits: rest.p1.p0 */
        const uint64_t b = (uint64_t)boundary;
        const fdp_u128_t p0 = (fdp_u128_t)b * law->inverse[0];
        const fdp_u128_t p1 = (fdp_u128_t)b * law->inverse[1] + (uint64_t)(p0 >> 64);
        const fdp_u128_t p2 = (fdp_u128_t)b * law->inverse[2] + (uint64_t)(p1 >> 64);
        if (p2 >= 64) {
            return false;
        }
        const double r = (double)(uint64_t)p2 + (double)(uint64_t)p1 * 0x1p-64;
        const double q = r * FDP_LOG2E - 0x1p-20;
        const unsigned halvings = q > 0.0 ? (unsigned)q : 0;
        /* r - halvings ln 2 in [0, 0.7), with 127 fractional bits */
        const fdp_u128_t fraction = ((fdp_u128_t)(uint64_t)p1 << 64) | (uint64_t)p0;
        const fdp_u128_t ln2 = ((fdp_u128_t)FDP_LN2_128_HI << 64) | FDP_LN2_128_LO;
        const fdp_u128_t ln2_low = (ln2 & ~(uint64_t)0) * halvings;
        const fdp_u128_t ln2_high = (ln2 >> 64) * halvings + (ln2_low >> 64);
        const fdp_u128_t taken =
            (ln2_high << 64) | (uint64_t)ln2_low; /* modulo 1, 128 bits */
        const uint64_t taken_whole = (uint64_t)(ln2_high >> 64);
        const uint64_t whole_left =
            (uint64_t)p2 - taken_whole - (fraction < taken ? 1 : 0);
        const fdp_u128_t left =
            ((fdp_u128_t)whole_left << 127) | ((fraction - taken) >> 1);
        const fdp_u128_t e =
            (fdp_mul_high_u128(whole, fdp_exp_minus(left)) << 1) >> halvings;
        const fdp_u128_t slack = (e >> 104) + 16;
        if (v > e + slack) {
            g = boundary - 1;
        } else if (v + slack < e) {
            g = boundary;
        } else {
            return false;
        }
    }
    *value = negative ? ~g : g;
    return v != 0;
}

bool fdp_laplace_settle_keep(const fdp_laplace_t *law, uint64_t rest, uint64_t more,
                             bool *keep)
{
    const uint32_t j = law->shift;
    const double unit = fdp_bits_double((uint64_t)(1023 - 63 + j) << 52);
    const uint64_t low = (rest >> 1) & ((UINT64_C(1) << j) - 1);
    const double z = fdp_from_unsigned(low + (rest & 1)) * law->inverse_scale;
    const double refuse = FDP_EXPM1_SMALL_EVAL(z);
    const double v = fdp_from_unsigned(rest >> (j + 1)) * unit +
                     fdp_from_unsigned(more) * 0x1p-64 * unit;
    const double margin = v - refuse;
    *keep = margin > 0.0;
    return margin > 0x1p-56 || margin < -0x1p-56;
}
