/* table_body.inc.h: one level's row of the table, after all bodies. FDP_BYTE names
 * the kernels that look bytes up: a level above may have its own. */

#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)

const fdp_kernels_t FDP_BYTE(kernels) = {
    .name = FDP_LEVEL_NAME,
    .required = FDP_LEVEL_MASK,
    .laplace_narrow = FDP_K(laplace_narrow),
    .laplace_wide = FDP_K(laplace_wide),
    .laplace_second = FDP_K(laplace_second),
    .gaussian_select = FDP_K(gaussian_select),
    .gaussian_narrow = FDP_K(gaussian_narrow),
    .gaussian_wide = FDP_K(gaussian_wide),
    .gaussian_second = FDP_K(gaussian_second),
    .special32 = FDP_K(special32),
    .special64 = FDP_K(special64),
    .compact32 = FDP_K(compact32),
    .compact64 = FDP_K(compact64),
    .add_narrow = FDP_K(add_narrow),
    .add_wide = FDP_K(add_wide),
    .add_grid = FDP_K(add_grid),
    .bernoulli = FDP_K(bernoulli),
    .flip_bytes = FDP_K(flip_bytes),
    .respond_narrow = FDP_K(respond_narrow),
    .respond_wide = FDP_K(respond_wide),
    .labels64 = FDP_K(labels64),
    .hash = FDP_K(hash),
    .hadamard = FDP_K(hadamard),
    .support4 = FDP_K(support4),
    .column7 = FDP_K(column7),
    .butterfly = FDP_K(butterfly),
    .rows_measure = FDP_K(rows_measure),
    .rows_widen = FDP_K(rows_widen),
    .rows_round = FDP_K(rows_round),
    .rows_add = FDP_K(rows_add),
    .column = FDP_K(column),
    .column_sum = FDP_K(column_sum),
};

#undef FDP_BYTE
