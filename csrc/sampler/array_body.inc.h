/* array_body.inc.h: adds noise to the caller's data, compiled once per level. */

static void FDP_K(add_wide)(const int64_t *x, const int64_t *restrict noise,
                            int64_t *out, size_t n)
{
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        out[i] = fdp_add_saturate(x[i], noise[i]);
    }
}

/* a if c, else b, by masks: a conditional choice of doubles may be compiled to a branch on data. */
static inline double FDP_K(pick)(int c, double a, double b)
{
    const uint64_t mask = c ? ~UINT64_C(0) : 0;
    return fdp_bits_double((fdp_double_bits(a) & mask) | (fdp_double_bits(b) & ~mask));
}

#ifndef FDP_HAVE_ADD_GRID
/* Both addends are multiples of the step (x may be so large that it is one by itself). So the
 * result is an exact sum, correctly rounded: this is post-processing. */
static void FDP_K(add_grid)(const fdp_grid_t *grid, const double *x,
                            const int64_t *restrict noise, double *out, size_t n)
{
    const double step = grid->step, low = grid->low, high = grid->high;
    const double nan = grid->nan;
    const double anchor = step * 0x1p52;
    const uint64_t sign_bit = UINT64_C(1) << 63, infinite = UINT64_C(0x7ff) << 52;
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        v = FDP_K(pick)(v == v, v, nan);
        v = FDP_K(pick)(v < low, low, v);
        v = FDP_K(pick)(v > high, high, v);
        const uint64_t sign = fdp_double_bits(v) & sign_bit;
        const double size = fdp_bits_double(fdp_double_bits(v) ^ sign);
        const double snapped = (size + anchor) - anchor;
        const double on_grid = FDP_K(pick)(size < anchor, snapped, size);
        const double base = fdp_bits_double(fdp_double_bits(on_grid) | sign);
        const uint64_t y = fdp_double_bits(base + fdp_from_small(noise[i]) * step);
        /* the largest double is one below infinity, whatever the sign */
        out[i] = fdp_bits_double(y - ((y & ~sign_bit) == infinite ? 1 : 0));
    }
}
#endif
