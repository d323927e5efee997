/* rows_body.inc.h: the passes over one row of a clipped sum and over many short rows, compiled
 * once per level. Every level gives the same integers: sixteen lanes are added in
 * the same order whatever the width of the vectors; every product that is added to something is
 * exact or affects no result, so contraction changes nothing; and only conversions round.
 * docs/proofs/sums.md. Timing class T0: the processing of a row depends on its values. */

/* Without this, gcc keeps sums in memory instead of registers. */
#if defined(__clang__)
#define FDP_UNROLL _Pragma("unroll")
#else
#define FDP_UNROLL _Pragma("GCC unroll 8")
#endif
#define FDP_SUMS 16 /* lanes of a sum: more than the number of additions in flight */
#define FDP_LANES (FDP_VECTOR / 8)
#define FDP_ACROSS (FDP_SUMS / FDP_LANES) /* vectors that hold the lanes */

typedef double FDP_K(reals) __attribute__((vector_size(FDP_VECTOR)));
typedef int64_t FDP_K(longs) __attribute__((vector_size(FDP_VECTOR)));
typedef int32_t FDP_K(ints) __attribute__((vector_size(FDP_VECTOR / 2)));
typedef float FDP_K(floats) __attribute__((vector_size(FDP_VECTOR / 2)));

/* Operations on vectors: doubles to the nearest integers (ties to even), or truncated toward 0; a
 * double beyond 31 bits gives some integer of more than 30 bits; conversion to wider lanes (gcc 12
 * converts vectors of 8 lane by lane); the larger (lesser) of v and the bound, and the bound if v
 * is NaN; squares of 32-bit lanes; and both roundings with the result as a double. */
#if FDP_VECTOR == 64
#define FDP_NEAREST(v) (FDP_K(ints))_mm512_cvtpd_epi32((__m512d)(v))
#define FDP_TOWARDS_0(v) (FDP_K(ints))_mm512_cvttpd_epi32((__m512d)(v))
#define FDP_FROM_INTS(v) (FDP_K(reals))_mm512_cvtepi32_pd((__m256i)(v))
#define FDP_FROM_FLOATS(v) (FDP_K(reals))_mm512_cvtps_pd((__m256)(v))
#define FDP_ABOVE(v, bound) (FDP_K(reals))_mm512_max_pd((__m512d)(v), (__m512d)(bound))
#define FDP_BELOW(v, bound) (FDP_K(reals))_mm512_min_pd((__m512d)(v), (__m512d)(bound))
#define FDP_SQUARED(u) (FDP_K(longs))_mm512_mul_epi32((__m512i)(u), (__m512i)(u))
#define FDP_WHOLE_NEAR(v) (FDP_K(reals))_mm512_roundscale_pd((__m512d)(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define FDP_WHOLE(v) (FDP_K(reals))_mm512_roundscale_pd((__m512d)(v), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#elif FDP_VECTOR == 32
#define FDP_NEAREST(v) (FDP_K(ints))_mm256_cvtpd_epi32((__m256d)(v))
#define FDP_TOWARDS_0(v) (FDP_K(ints))_mm256_cvttpd_epi32((__m256d)(v))
#define FDP_FROM_INTS(v) (FDP_K(reals))_mm256_cvtepi32_pd((__m128i)(v))
#define FDP_FROM_FLOATS(v) (FDP_K(reals))_mm256_cvtps_pd((__m128)(v))
#define FDP_ABOVE(v, bound) (FDP_K(reals))_mm256_max_pd((__m256d)(v), (__m256d)(bound))
#define FDP_BELOW(v, bound) (FDP_K(reals))_mm256_min_pd((__m256d)(v), (__m256d)(bound))
#define FDP_SQUARED(u) (FDP_K(longs))_mm256_mul_epi32((__m256i)(u), (__m256i)(u))
#define FDP_WHOLE_NEAR(v) (FDP_K(reals))_mm256_round_pd((__m256d)(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define FDP_WHOLE(v) (FDP_K(reals))_mm256_round_pd((__m256d)(v), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#else
#define FDP_NEAREST(v) FDP_K(to_ints)(v, 1)
#define FDP_TOWARDS_0(v) FDP_K(to_ints)(v, 0)
#define FDP_FROM_INTS(v) __builtin_convertvector(v, FDP_K(reals))
#define FDP_FROM_FLOATS(v) __builtin_convertvector(v, FDP_K(reals))
#define FDP_ABOVE(v, bound) FDP_K(either)((FDP_K(longs))((v) > (bound)), v, bound)
#define FDP_BELOW(v, bound) FDP_K(either)((FDP_K(longs))((v) < (bound)), v, bound)
#define FDP_SQUARED(u) ((u) * (u))
#define FDP_WHOLE_NEAR(v) FDP_FROM_INTS(FDP_NEAREST(v))
#define FDP_WHOLE(v) FDP_FROM_INTS(FDP_TOWARDS_0(v))

static inline FDP_K(ints) FDP_K(to_ints)(FDP_K(reals) v, int nearest)
{
    FDP_K(ints) result;
#if FDP_X86_64
    const __m128i whole =
        nearest ? _mm_cvtpd_epi32((__m128d)v) : _mm_cvttpd_epi32((__m128d)v);
    memcpy(&result, &whole, sizeof result);
#else
    for (int l = 0; l < FDP_LANES; l++) {
        const double held = v[l] < -0x1p31 ? -0x1p31 : v[l] > 0x1p30 ? 0x1p30 : v[l];
        result[l] = (int32_t)(nearest ? rint(held) : held);
    }
#endif
    return result;
}

static inline FDP_K(reals) FDP_K(either)(FDP_K(longs) mask, FDP_K(reals) a, FDP_K(reals) b)
{
    return (FDP_K(reals))(((FDP_K(longs))a & mask) | ((FDP_K(longs))b & ~mask));
}
#endif

/* Entries i, i + 1, ... of a row of doubles, or of floats if `single`. */
static inline FDP_K(reals) FDP_K(entries)(const void *x, int single, size_t i)
{
    FDP_K(reals) v;
    if (single) {
        FDP_K(floats) f;
        memcpy(&f, (const float *)x + i, sizeof f);
        return FDP_FROM_FLOATS(f);
    }
    memcpy(&v, (const double *)x + i, sizeof v);
    return v;
}

/* The same near the end of a row of n entries, followed by zeros. */
static inline FDP_K(reals) FDP_K(last_entries)(const void *x, int single, size_t i,
                                               size_t n)
{
    const size_t left = n > i ? n - i : 0;
#if FDP_VECTOR == 64
    const __mmask8 there = (__mmask8)(left < 8 ? (1U << left) - 1 : 0xff);
    if (single) {
        return (FDP_K(reals))_mm512_cvtps_pd(
            _mm256_maskz_loadu_ps(there, (const float *)x + i));
    }
    return (FDP_K(reals))_mm512_maskz_loadu_pd(there, (const double *)x + i);
#elif FDP_VECTOR == 32
    const int most = left < 4 ? (int)left : 4;
    if (single) {
        const __m128i there =
            _mm_cmpgt_epi32(_mm_set1_epi32(most), _mm_setr_epi32(0, 1, 2, 3));
        return (FDP_K(reals))_mm256_cvtps_pd(
            _mm_maskload_ps((const float *)x + i, there));
    }
    const __m256i there =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(most), _mm256_setr_epi64x(0, 1, 2, 3));
    return (FDP_K(reals))_mm256_maskload_pd((const double *)x + i, there);
#else
    FDP_K(reals) v = {0};
    for (size_t l = 0; l < FDP_LANES && l < left; l++) {
        v[l] = single ? (double)((const float *)x)[i + l] : ((const double *)x)[i + l];
    }
    return v;
#endif
}

static inline FDP_K(reals) FDP_K(magnitude)(FDP_K(reals) v)
{
    return (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
}

/* Adds sixteen lanes: lane l and lane l + 8, then l + 4, l + 2 and l + 1. */
static inline double FDP_K(fold)(const FDP_K(reals) *sum)
{
#if FDP_VECTOR == 64
    const FDP_K(reals) all = sum[0] + sum[1];
#elif FDP_VECTOR == 32
    const FDP_K(reals) all = (sum[0] + sum[2]) + (sum[1] + sum[3]);
#else
    const FDP_K(reals) all =
        ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
#endif
#if FDP_VECTOR >= 32
#if FDP_VECTOR == 64
    const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256((__m512d)all),
                                       _mm512_extractf64x4_pd((__m512d)all, 1));
#else
    const __m256d four = (__m256d)all;
#endif
    const __m128d two =
        _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
#else
    return all[0] + all[1];
#endif
}

/* Adds squares (or magnitudes) to sum. A double is split into head + rest, of 26 and 27 bits, so
 * that the products head^2 and head rest are exact; rest^2 is left out. The square of a float is
 * exact. */
static inline void FDP_K(measure)(FDP_K(reals) v, int single, int squares,
                                  FDP_K(reals) *sum, FDP_K(reals) *cross)
{
    if (!squares) {
        *sum += FDP_K(magnitude)(v);
    } else if (single) {
        *sum += v * v;
    } else {
        const FDP_K(reals) head = (FDP_K(reals))((FDP_K(longs))v & -(INT64_C(1) << 27));
        *sum += head * head;
        *cross += head * (v - head);
    }
}

static inline double FDP_K(measure_row)(const void *x, int single, int squares, size_t n)
{
    FDP_K(reals) sum[FDP_ACROSS], cross[FDP_ACROSS];
    size_t i = 0;
    FDP_UNROLL
    for (size_t k = 0; k < FDP_ACROSS; k++) {
        sum[k] = cross[k] = (FDP_K(reals)){0};
    }
    for (; i + FDP_SUMS <= n; i += FDP_SUMS) {
        FDP_UNROLL
        for (size_t k = 0; k < FDP_ACROSS; k++) {
            const FDP_K(reals) v = FDP_K(entries)(x, single, i + FDP_LANES * k);
            FDP_K(measure)(v, single, squares, &sum[k], &cross[k]);
        }
    }
    FDP_UNROLL
    for (size_t k = 0; k < FDP_ACROSS && i < n; k++) {
        const FDP_K(reals) v = FDP_K(last_entries)(x, single, i + FDP_LANES * k, n);
        FDP_K(measure)(v, single, squares, &sum[k], &cross[k]);
    }
    return squares && !single ? FDP_K(fold)(sum) + 2 * FDP_K(fold)(cross)
                              : FDP_K(fold)(sum);
}

/* The sum of the squares (or magnitudes) of a row, with a relative error of at most (n + 16) 2^-53.
 * The products are exact for entries above 2^-100; smaller entries do not affect a sum of 2^-150 or
 * more. The caller ignores smaller sums, and sums that are not finite. */
static double FDP_K(rows_measure)(const void *x, int single, int squares, size_t n)
{
    if (single) {
        return squares ? FDP_K(measure_row)(x, 1, 1, n) : FDP_K(measure_row)(x, 1, 0, n);
    }
    return squares ? FDP_K(measure_row)(x, 0, 1, n) : FDP_K(measure_row)(x, 0, 0, n);
}

/* z = y r in integers, rounded to nearest or toward 0; n is rounded up to a multiple of 16. */
static void FDP_K(rows_round)(const double *y, double r, int nearest, int32_t *z, size_t n)
{
    for (size_t i = 0; i < n; i += FDP_LANES) {
        const FDP_K(reals) v = FDP_K(entries)(y, 0, i) * r;
        const FDP_K(ints) whole = nearest ? FDP_NEAREST(v) : FDP_TOWARDS_0(v);
        memcpy(z + i, &whole, sizeof whole);
    }
}

/* Rounds vectors v of some rows, returns `sum` plus these integers, and adds their squares (or
 * magnitudes) to `all`. */
static inline FDP_K(longs) FDP_K(add_entries)(const FDP_K(reals) *v, const int *nearest,
                                              int squares, size_t rows, FDP_K(longs) sum,
                                              FDP_K(reals) *all)
{
    const double unit = 0x1.8p52; /* added to it, a double's last place is 1 */
    int64_t origin;
    FDP_K(reals) part = {0};
    memcpy(&origin, &unit, sizeof origin);
    FDP_UNROLL
    for (size_t k = 0; k < rows; k++) {
        const FDP_K(reals) u = nearest[k] ? FDP_WHOLE_NEAR(v[k]) : FDP_WHOLE(v[k]);
        part += u;
        all[k] += squares ? u * u : FDP_K(magnitude)(u);
    }
    return sum + ((FDP_K(longs))(part + unit) - origin);
}

FDP_ALWAYS_INLINE void FDP_K(add_some)(const void *const *x, int single, const double *r,
                                       const int *nearest, int squares, size_t rows,
                                       int64_t *total, double *sum, size_t n)
{
    FDP_K(reals) all[FDP_ROWS], v[FDP_ROWS];
    FDP_K(longs) to = {0};
    size_t i = 0;
    FDP_UNROLL
    for (size_t k = 0; k < rows; k++) {
        all[k] = (FDP_K(reals)){0};
    }
    for (; i + FDP_LANES <= n; i += FDP_LANES) {
        memcpy(&to, total + i, sizeof to);
        FDP_UNROLL
        for (size_t k = 0; k < rows; k++) {
            v[k] = FDP_K(entries)(x[k], single, i) * r[k];
        }
        to = FDP_K(add_entries)(v, nearest, squares, rows, to, all);
        memcpy(total + i, &to, sizeof to);
    }
    if (i < n) {
        memcpy(&to, total + i, (n - i) * sizeof *total);
        FDP_UNROLL
        for (size_t k = 0; k < rows; k++) {
            v[k] = FDP_K(last_entries)(x[k], single, i, n) * r[k];
        }
        to = FDP_K(add_entries)(v, nearest, squares, rows, to, all);
        memcpy(total + i, &to, (n - i) * sizeof *total);
    }
    for (size_t k = 0; k < rows; k++) {
        double lane[FDP_LANES];
        memcpy(lane, &all[k], sizeof lane);
        for (size_t w = FDP_LANES / 2; w > 0; w /= 2) {
            for (size_t l = 0; l < w; l++) {
                lane[l] += lane[l + w];
            }
        }
        sum[k] += lane[0];
    }
}

/* Adds the integers of rows x[k] r[k] to total, rounded to nearest or toward 0; their magnitudes are
 * at most 2^30 + 1. Adds the sum of a row's squares (or magnitudes) to sum[k], with a relative error
 * of at most (n + 5) 2^-53. The order of additions differs between levels. */
static void FDP_K(rows_add)(const void *const *x, int single, const double *r,
                            const int *nearest, int squares, size_t rows, int64_t *total,
                            double *sum, size_t n)
{
    const size_t some = rows == FDP_ROWS ? FDP_ROWS : 1;
    for (size_t k = 0; k < rows; k += some) {
        if (some == 1 && single && squares) {
            FDP_K(add_some)(x + k, 1, r + k, nearest + k, 1, 1, total, sum + k, n);
        } else if (some == 1) {
            FDP_K(add_some)(x + k, single, r + k, nearest + k, squares, 1, total, sum + k, n);
        } else if (single && squares) {
            FDP_K(add_some)(x, 1, r, nearest, 1, FDP_ROWS, total, sum, n);
        } else {
            FDP_K(add_some)(x, single, r, nearest, squares, FDP_ROWS, total, sum, n);
        }
    }
}

/* Transposes n short rows of d entries: entry i of row r goes to y[i stride + r]. */
static void FDP_K(rows_apart)(const void *x, int single, size_t d, double *y,
                              size_t stride, size_t n)
{
    const float *f = x;
    const double *g = x;
    if (d == 1 && single) { /* entries are adjacent: convert them in vectors; with a stride this
                             * is not possible */
        for (size_t r = 0; r < n; r++) {
            y[r] = (double)f[r];
        }
        return;
    }
    for (size_t i = 0; i < d; i++) {
        if (single) {
            for (size_t r = 0; r < n; r++) {
                y[i * stride + r] = (double)f[r * d + i];
            }
        } else {
            for (size_t r = 0; r < n; r++) {
                y[i * stride + r] = g[r * d + i];
            }
        }
    }
}

/* The same result as rows_measure, for many short rows at once, a lane for each: entry i of row r
 * is y[i stride + r]. There are n rows, a multiple of 8. The sums are made in the same order. */
static void FDP_K(rows_measure_many)(const double *y, int squares, int single, size_t d,
                                     size_t stride, double *measure, size_t n)
{
    const size_t lanes = d < FDP_SUMS ? d : FDP_SUMS;
    for (size_t r = 0; r < n; r += FDP_LANES) {
        FDP_K(reals) s[FDP_SUMS], t[FDP_SUMS];
        for (size_t i = 0; i < d; i++) {
            const size_t l = i % FDP_SUMS;
            FDP_K(reals) sum = {0}, cross = {0};
            if (i >= FDP_SUMS) {
                sum = s[l];
                cross = t[l];
            }
            FDP_K(measure)(FDP_K(entries)(y + i * stride + r, 0, 0), single, squares, &sum,
                           &cross);
            s[l] = sum;
            t[l] = cross;
        }
        for (size_t w = FDP_SUMS / 2, left = lanes; w > 0; w /= 2) {
            for (size_t l = 0; l + w < left; l++) {
                s[l] += s[l + w];
                t[l] += t[l + w];
            }
            left = left < w ? left : w;
        }
        const FDP_K(reals) all = s[0] + (t[0] + t[0]);
        memcpy(measure + r, &all, sizeof all);
    }
}

/* z = y factor in integers; each row has its own factor. Rounds to nearest if the factor is
 * `scale`, else toward 0; the result is 0 if the factor is 0. Writes the sums that rows_round
 * returns. */
static void FDP_K(rows_round_many)(const double *y, const double *factor, double scale,
                                   int squares, size_t d, size_t stride, int32_t *z,
                                   double *sum, size_t n)
{
    for (size_t r = 0; r < n; r += FDP_LANES) {
        FDP_K(reals) f, all = {0};
        memcpy(&f, factor + r, sizeof f);
        const FDP_K(longs) good = (FDP_K(longs))(f > 0);
        const FDP_K(ints) near =
            __builtin_convertvector((FDP_K(longs))(f == scale), FDP_K(ints));
        for (size_t i = 0; i < d; i++) {
            FDP_K(reals) v;
            memcpy(&v, y + i * stride + r, sizeof v);
            v = (FDP_K(reals))((FDP_K(longs))(v * f) & good);
            const FDP_K(ints) whole = (FDP_NEAREST(v) & near) | (FDP_TOWARDS_0(v) & ~near);
            memcpy(z + i * stride + r, &whole, sizeof whole);
            v = FDP_FROM_INTS(whole);
            all += squares ? v * v : FDP_K(magnitude)(v);
        }
        memcpy(sum + r, &all, sizeof all);
    }
}

/* Clamps each entry: y scale in integers, clamped to [-most, most]; 0 for NaN. */
static void FDP_K(rows_cube)(const double *y, double scale, double most, int32_t *z,
                             size_t n)
{
    for (size_t r = 0; r < n; r += FDP_LANES) {
        FDP_K(reals) v, top = {0};
        memcpy(&v, y + r, sizeof v);
        const FDP_K(longs) there = (FDP_K(longs))(v == v);
        top += most;
        v *= scale;
        v = FDP_BELOW(FDP_ABOVE(v, -top), top);
        v = (FDP_K(reals))((FDP_K(longs))v & there);
        const FDP_K(ints) whole = FDP_NEAREST(v);
        memcpy(z + r, &whole, sizeof whole);
    }
}
