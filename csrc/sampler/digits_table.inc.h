/* digits_table.inc.h: one level's row of the digit kernels, after all bodies. */

const fdp_digit_kernels_t FDP_K(digits) = {
    .inserts = FDP_INSERTS,
    .list_first = FDP_K(list_first),
    .list_second = FDP_K(list_second),
    .first = FDP_K(first),
    .second = FDP_K(second),
    .tilt = FDP_K(tilt),
    .tries = FDP_K(tries),
    .join = FDP_K(join),
};
