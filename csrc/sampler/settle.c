/* settle.c: see settle.h; error analysis in docs/proofs/kernels.md. */
#include "settle.h"

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
