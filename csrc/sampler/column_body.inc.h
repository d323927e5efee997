/* column_body.inc.h: sums of a column as integers, compiled once per level after rows_body.inc.h,
 * whose vectors it uses. Every level gives the same integers. docs/proofs/sums.md, "Columns".
 * Timing class T0. */

/* For t in [-1, 1] and `twice` = 2^(bits + 1): floor(t twice/2 + 1/2), exactly. After adding 1.5
 * 2^52, a double's last place is 1; the product is exact. */
static inline FDP_K(longs) FDP_K(placed)(FDP_K(reals) t, FDP_K(reals) twice)
{
    const double unit = 0x1.8p52;
    int64_t origin;
    memcpy(&origin, &unit, sizeof origin);
#if FDP_VECTOR == 64
    const FDP_K(longs) floored = (FDP_K(longs))_mm512_fmadd_round_pd(
        (__m512d)t, (__m512d)twice, _mm512_set1_pd(unit),
        _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    const FDP_K(reals) nearest = t * twice + unit;
    /* true is -1 */
    const FDP_K(longs) floored =
        (FDP_K(longs))nearest + (FDP_K(longs))(nearest - unit > t * twice);
#endif
    return (floored - (origin - 1)) >> 1;
}

/* Whether the bounds are the first and the last place. Then values beyond the bounds get these
 * places, and need not be clamped first. */
static inline int FDP_K(spans)(const fdp_column_t *c)
{
    const double twice = (double)(INT64_C(2) << c->bits);
    return (c->high - c->center) * c->inverse * twice >= twice - 1 &&
           (c->low - c->center) * c->inverse * twice < 1 - twice;
}

/* u = floor((x - center) inverse 2^bits + 1/2), clamped to [-2^bits, 2^bits], and round(u^2 /
 * 2^bits), halves up. Both are 0 for NaN, which does not count as `there`. */
FDP_ALWAYS_INLINE FDP_K(longs) FDP_K(units)(const fdp_column_t *c, int clamp,
                                            FDP_K(reals) v, FDP_K(longs) *there,
                                            FDP_K(longs) *square)
{
    const FDP_K(reals) zero = {0};
    const int64_t one = INT64_C(1) << c->bits;
    *there = (FDP_K(longs))(v == v);
    if (clamp) {
        v = FDP_BELOW(FDP_ABOVE(v, zero + c->low), zero + c->high);
    }
    v = (v - c->center) * c->inverse;
    v = FDP_BELOW(FDP_ABOVE(v, zero - 1), zero + 1);
    const FDP_K(longs) u = FDP_K(placed)(v, zero + (double)(2 * one)) & *there;
    *square = (FDP_SQUARED(u) + one / 2) >> c->bits;
    return u;
}

/* For each value: whether it is there, u, and the square minus 2^bits/2. The arrays are padded to a
 * multiple of 8. */
static void FDP_K(column)(const fdp_column_t *column, const double *restrict x,
                          int64_t *restrict present, int64_t *restrict u,
                          int64_t *restrict square, size_t n)
{
    const fdp_column_t c = *column;
    const int64_t half = (INT64_C(1) << c.bits) / 2;
    for (size_t i = 0; i < n; i += FDP_LANES) {
        FDP_K(reals) v;
        FDP_K(longs) there, squares;
        memcpy(&v, x + i, sizeof v);
        const FDP_K(longs) whole = FDP_K(units)(&c, 1, v, &there, &squares);
        squares -= there & half;
        there = -there;
        memcpy(present + i, &there, sizeof there);
        memcpy(u + i, &whole, sizeof whole);
        memcpy(square + i, &squares, sizeof squares);
    }
}

FDP_ALWAYS_INLINE void FDP_K(add_column)(const fdp_column_t *column, int clamp,
                                         const double *x, int64_t total[3], size_t n)
{
    const fdp_column_t c = *column;
    FDP_K(longs) count = {0}, sum = {0}, squares = {0};
    for (size_t i = 0; i < n; i += FDP_LANES) {
        FDP_K(reals) v;
        FDP_K(longs) there, square;
        memcpy(&v, x + i, sizeof v);
        sum += FDP_K(units)(&c, clamp, v, &there, &square);
        squares += square;
        count -= there;
    }
    for (int l = 0; l < FDP_LANES; l++) {
        total[0] += count[l];
        total[1] += sum[l];
        total[2] += squares[l] - count[l] * ((INT64_C(1) << c.bits) / 2);
    }
}

/* The sums of these numbers; n is a multiple of 8. */
static void FDP_K(column_total)(const fdp_column_t *column, const double *x,
                                int64_t total[3], size_t n)
{
    if (FDP_K(spans)(column)) {
        FDP_K(add_column)(column, 0, x, total, n);
    } else {
        FDP_K(add_column)(column, 1, x, total, n);
    }
}

static int64_t FDP_K(column_sum)(const int32_t *z, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += z[i];
    }
    return sum;
}
