/* rows_body.inc.h: the passes over one row of a clipped sum, and over a column, compiled
 * once per level. Rows lie in buffers of n doubles, n a multiple of 8, zeros behind the
 * row's end.
 *
 * Every level gives the same integers: eight lanes are added in one order whatever the
 * vectors' width, every product that is added to something is exact or shows in no
 * result, so that contraction changes nothing, and rounding is the conversion's own.
 * docs/proofs/sums.md. Timing class T0: what a row holds decides what is done with it. */

#define FDP_LANES (FDP_VECTOR / 8)
#define FDP_ACROSS (8 / FDP_LANES) /* vectors that hold eight lanes */

typedef double FDP_K(reals) __attribute__((vector_size(FDP_VECTOR)));
typedef int64_t FDP_K(longs) __attribute__((vector_size(FDP_VECTOR)));
typedef int32_t FDP_K(ints) __attribute__((vector_size(FDP_VECTOR / 2)));
typedef float FDP_K(floats) __attribute__((vector_size(FDP_VECTOR / 2)));

/* Doubles to the nearest integers (ties to even), or to those towards 0. Beyond 31 bits
 * the result is some integer of more than 30. */
static inline FDP_K(ints) FDP_K(to_ints)(FDP_K(reals) v, int nearest)
{
#if FDP_VECTOR == 64
    return (FDP_K(ints))(nearest ? _mm512_cvtpd_epi32((__m512d)v)
                                 : _mm512_cvttpd_epi32((__m512d)v));
#elif FDP_VECTOR == 32
    return (FDP_K(ints))(nearest ? _mm256_cvtpd_epi32((__m256d)v)
                                 : _mm256_cvttpd_epi32((__m256d)v));
#elif FDP_X86_64
    const __m128i whole =
        nearest ? _mm_cvtpd_epi32((__m128d)v) : _mm_cvttpd_epi32((__m128d)v);
    FDP_K(ints) result;
    memcpy(&result, &whole, sizeof result);
    return result;
#else
    FDP_K(ints) result;
    for (int l = 0; l < FDP_LANES; l++) {
        const double held = v[l] < -0x1p31 ? -0x1p31 : v[l] > 0x1p30 ? 0x1p30 : v[l];
        result[l] = (int32_t)(nearest ? rint(held) : held);
    }
    return result;
#endif
}

/* One level's way to take `yes` where the mask is set, and else `no`. */
static inline FDP_K(reals) FDP_K(either)(FDP_K(longs) mask, FDP_K(reals) yes,
                                         FDP_K(reals) no)
{
    return (FDP_K(reals))(((FDP_K(longs))yes & mask) | ((FDP_K(longs))no & ~mask));
}

static inline double FDP_K(fold)(const FDP_K(reals) *sum)
{
    double s[8];
    memcpy(s, sum, sizeof s);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Sum of squares of the row (or of magnitudes) but for (d + 8) 2^-53 of it. A square is
 * that of head + rest, of 24 and 29 bits: both products are exact; rest^2 is left out.
 * Exact products need entries above 2^-100: those below show in no sum of 2^-150 or
 * more, and a smaller one, or one that is not finite, the caller does not use. */
static double FDP_K(rows_measure)(const double *y, int squares, size_t n)
{
    FDP_K(reals) sum[FDP_ACROSS] = {0}, cross[FDP_ACROSS] = {0};
    for (size_t i = 0; i < n; i += 8) {
        for (int k = 0; k < FDP_ACROSS; k++) {
            FDP_K(reals) v;
            memcpy(&v, y + i + FDP_LANES * k, sizeof v);
            if (squares) {
                const FDP_K(reals) head = __builtin_convertvector(
                    __builtin_convertvector(v, FDP_K(floats)), FDP_K(reals));
                sum[k] += head * head;
                cross[k] += head * (v - head);
            } else {
                sum[k] += (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
            }
        }
    }
    return FDP_K(fold)(sum) + 2 * FDP_K(fold)(cross);
}

/* The same, of floats, on the way to doubles. */
static double FDP_K(rows_widen)(const float *x, double *y, int squares, size_t n)
{
    FDP_K(reals) sum[FDP_ACROSS] = {0};
    for (size_t i = 0; i < n; i += 8) {
        for (int k = 0; k < FDP_ACROSS; k++) {
            FDP_K(floats) f;
            memcpy(&f, x + i + FDP_LANES * k, sizeof f);
            const FDP_K(reals) v = __builtin_convertvector(f, FDP_K(reals));
            memcpy(y + i + FDP_LANES * k, &v, sizeof v);
            sum[k] += squares ? v * v : (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
        }
    }
    return FDP_K(fold)(sum);
}

/* z = y r in integers; returns the sum of their squares (or magnitudes) as a double,
 * exact up to 2^53 and else but for n 2^-53 of it. */
static double FDP_K(rows_round)(const double *y, double r, int nearest, int squares,
                                int32_t *z, size_t n)
{
    FDP_K(reals) sum[FDP_ACROSS] = {0};
    for (size_t i = 0; i < n; i += 8) {
        for (int k = 0; k < FDP_ACROSS; k++) {
            FDP_K(reals) v;
            memcpy(&v, y + i + FDP_LANES * k, sizeof v);
            const FDP_K(ints) whole = FDP_K(to_ints)(v * r, nearest);
            memcpy(z + i + FDP_LANES * k, &whole, sizeof whole);
            v = __builtin_convertvector(whole, FDP_K(reals));
            sum[k] += squares ? v * v : (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
        }
    }
    return FDP_K(fold)(sum);
}

static void FDP_K(rows_add)(const int32_t *z, int64_t *total, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        total[i] += z[i];
    }
}

/* Many short rows at once, a lane for each: entry i of row r is y[i stride + r], n rows,
 * a multiple of 8. What rows_measure gives, from the same sums in the same order. */
static void FDP_K(rows_measure_many)(const double *y, int squares, int single, size_t d,
                                     size_t stride, double *measure, size_t n)
{
    for (size_t r = 0; r < n; r += FDP_LANES) {
        FDP_K(reals) s[8] = {0}, t[8] = {0};
        for (size_t i = 0; i < d; i++) {
            FDP_K(reals) v;
            memcpy(&v, y + i * stride + r, sizeof v);
            if (!squares) {
                s[i % 8] += (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
            } else if (single) {
                s[i % 8] += v * v;
            } else {
                const FDP_K(reals) head = __builtin_convertvector(
                    __builtin_convertvector(v, FDP_K(floats)), FDP_K(reals));
                s[i % 8] += head * head;
                t[i % 8] += head * (v - head);
            }
        }
        const FDP_K(reals) sum =
            ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
        const FDP_K(reals) cross =
            ((t[0] + t[4]) + (t[2] + t[6])) + ((t[1] + t[5]) + (t[3] + t[7]));
        const FDP_K(reals) all = sum + (cross + cross);
        memcpy(measure + r, &all, sizeof all);
    }
}

/* z = y factor in integers, of each row by its own factor: to nearest where that is
 * `scale`, else towards 0, and 0 where it is 0. Writes sums as rows_round returns. */
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
            const FDP_K(ints) whole = (FDP_K(to_ints)(v, 1) & near) |
                                      (FDP_K(to_ints)(v, 0) & ~near);
            memcpy(z + i * stride + r, &whole, sizeof whole);
            v = __builtin_convertvector(whole, FDP_K(reals));
            all += squares ? v * v : (FDP_K(reals))((FDP_K(longs))v & INT64_MAX);
        }
        memcpy(sum + r, &all, sizeof all);
    }
}

/* Entries by themselves: y scale in integers, held to [-most, most], 0 for NaN. */
static void FDP_K(rows_cube)(const double *y, double scale, double most, int32_t *z,
                             size_t n)
{
    for (size_t r = 0; r < n; r += FDP_LANES) {
        FDP_K(reals) v, top = {0};
        memcpy(&v, y + r, sizeof v);
        const FDP_K(longs) there = (FDP_K(longs))(v == v);
        top += most;
        v *= scale;
        v = FDP_K(either)((FDP_K(longs))(v < -top), -top, v);
        v = FDP_K(either)((FDP_K(longs))(v > top), top, v);
        v = (FDP_K(reals))((FDP_K(longs))v & there);
        const FDP_K(ints) whole = FDP_K(to_ints)(v, 1);
        memcpy(z + r, &whole, sizeof whole);
    }
}

/* Squares of lanes of 32 bits. */
static inline FDP_K(longs) FDP_K(squared)(FDP_K(longs) u)
{
#if FDP_VECTOR == 64
    return (FDP_K(longs))_mm512_mul_epi32((__m512i)u, (__m512i)u);
#elif FDP_VECTOR == 32
    return (FDP_K(longs))_mm256_mul_epi32((__m256i)u, (__m256i)u);
#else
    return u * u;
#endif
}

/* u = floor((x - center)/half * 2^bits + 1/2), held to [-2^bits, 2^bits], and
 * round(u^2 / 2^bits) - 2^bits/2, halves up; 0 for NaN, which is not `present`. The
 * product by a power of two is exact. */
static void FDP_K(column)(const fdp_column_t *column, const double *restrict x,
                          int32_t *restrict present, int32_t *restrict u,
                          int32_t *restrict square, size_t n)
{
    const fdp_column_t c = *column;
    const double steps = (double)(INT64_C(1) << c.bits);
    const int64_t half = (INT64_C(1) << c.bits) / 2;
    for (size_t i = 0; i < n; i++) {
        const double above = x[i] > c.low ? x[i] : c.low;
        const double held = above < c.high ? above : c.high;
        const double v = (held - c.center) / c.half * steps + 0.5;
        const double low = v > -steps ? v : -steps;
        const double last = low < steps ? low : steps;
        const int32_t whole = (int32_t)last; /* towards 0: one too many below it */
        const int32_t there = x[i] == x[i];
        present[i] = there;
        u[i] = (whole - (last < (double)whole)) & -there;
    }
    for (size_t i = 0; i < n; i++) {
        const int64_t z = u[i];
        square[i] = (int32_t)(((z * z + half) >> c.bits) - half) & -present[i];
    }
}

/* The same added up at once, n a multiple of 8: of what is there, how many, u, square. */
static void FDP_K(column_total)(const fdp_column_t *column, const double *x,
                                int64_t total[3], size_t n)
{
    const fdp_column_t c = *column;
    const double steps = (double)(INT64_C(1) << c.bits);
    const int64_t half = (INT64_C(1) << c.bits) / 2;
    FDP_K(longs) count = {0}, sum = {0}, squares = {0};
    FDP_K(reals) low = {0}, high = {0}, last = {0};
    low += c.low;
    high += c.high;
    last += steps;
    for (size_t i = 0; i < n; i += FDP_LANES) {
        FDP_K(reals) v;
        memcpy(&v, x + i, sizeof v);
        const FDP_K(longs) there = (FDP_K(longs))(v == v);
        v = FDP_K(either)((FDP_K(longs))(v > low), v, low);
        v = FDP_K(either)((FDP_K(longs))(v < high), v, high);
        v = (v - c.center) / c.half * steps + 0.5;
        v = FDP_K(either)((FDP_K(longs))(v > -last), v, -last);
        v = FDP_K(either)((FDP_K(longs))(v < last), v, last);
        const FDP_K(ints) whole = FDP_K(to_ints)(v, 0);
        const FDP_K(reals) back = __builtin_convertvector(whole, FDP_K(reals));
        FDP_K(longs) u = __builtin_convertvector(whole, FDP_K(longs));
        u = (u + (FDP_K(longs))(v < back)) & there; /* true is -1 */
        const FDP_K(longs) square = ((FDP_K(squared)(u) + half) >> c.bits) - half;
        count -= there;
        sum += u;
        squares += square & there;
    }
    for (int l = 0; l < FDP_LANES; l++) {
        total[0] += count[l];
        total[1] += sum[l];
        total[2] += squares[l];
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

#undef FDP_LANES
#undef FDP_ACROSS
