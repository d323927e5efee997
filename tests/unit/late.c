/* late.c: sums with noise of any size below 2^100, which only exact steps can give
 * (test_large_values.py).
 *
 * A line: the types of the data and of the result, bits of the step (0: integers), of the
 * data, and of the noise, high word first; in hexadecimal. Prints the bits of the result.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mech/target.h"

int main(void)
{
    unsigned from, to;
    uint64_t step, x, high, low;
    while (scanf("%x %x %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &from, &to, &step, &x,
                 &high, &low) == 6) {
        uint64_t out = 0;
        fdp_grid_t grid = {.low = -0x1.fffffffffffffp1023, .high = 0x1.fffffffffffffp1023};
        memcpy(&grid.step, &step, sizeof step);
        const fdp_target_t target = {.x = &x, .x_type = (fdp_dtype_t)from,
                                     .out = &out, .out_type = (fdp_dtype_t)to,
                                     .grid = step == 0 ? NULL : &grid};
        const fdp_datum_t datum = fdp_target_read(&target, 0);
        fdp_target_write(&target, &fdp_kernels_portable, 0, datum,
                         (fdp_i128_t)((fdp_u128_t)high << 64 | low));
        printf("%" PRIx64 "\n", out);
    }
    return 0;
}
