/* race_body.inc.h: the noise of races and their leaders, compiled once per level. In a race every
 * candidate has the key noise - gap, and the largest key wins. The noise is real-valued. A kernel
 * computes the upper end of the noise in the word's cell, up to the arithmetic's error. Words near
 * the ends of their range have a wide cell; it marks them by infinite noise. Bounds:
 * docs/proofs/selection.md. */

/* Splits a positive normal double into k and f: 2^k (1 + f). */
static inline double FDP_K(split_log)(double v, double *f)
{
    const uint64_t split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;
    *f = fdp_bits_double((split & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    return fdp_bits_double(((split + (UINT64_C(1024) << 52)) >> 52) |
                           0x4330000000000000u) -
           (0x1p52 + 1024.0);
}

static inline double FDP_K(join_log)(double k, double f)
{
    return k * FDP_LN2_HI + (k * FDP_LN2_LO + FDP_LOG_EVAL(f));
}

/* ln of a positive normal double. */
static inline double FDP_K(log)(double v)
{
    double f;
    const double k = FDP_K(split_log)(v, &f);
    return FDP_K(join_log)(k, f);
}

/* -ln(1 - v 2^-64) for v >= FDP_WORD_LEAST. Near v = 0 it uses the exact v 2^-64, because 1 - v
 * 2^-64 would lose its last bits. */
static inline double FDP_K(minus_log_rest)(uint64_t v)
{
    double high;
    const double low = fdp_from_unsigned(v) * -0x1p-64;
    const double k = FDP_K(split_log)(fdp_from_unsigned(0 - v) * 0x1p-64, &high);
    return -FDP_K(join_log)(k, FDP_K(choose)(FDP_MASK(k < 0.0), high, low));
}

static void FDP_K(noise_gumbel)(const uint64_t *restrict word, size_t n,
                                double *restrict noise)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = word[i];
        const double g = -FDP_K(log)(FDP_K(minus_log_rest)(w));
        noise[i] = FDP_K(choose)(FDP_MASK(w >= FDP_WORD_LEAST), g, INFINITY);
    }
}

#if FDP_X86_64 && FDP_WIDTH == 8
/* Numbers near 1 / (1 + (j + 1/2) / 16), multiples of 2^-8, and minus their logarithms. */
static const double FDP_K(inverses)[16] = {
    0x1.fp-1, 0x1.d4p-1, 0x1.bap-1, 0x1.a4p-1,
    0x1.9p-1, 0x1.7ep-1, 0x1.6cp-1, 0x1.5cp-1,
    0x1.4ep-1, 0x1.42p-1, 0x1.36p-1, 0x1.2ap-1,
    0x1.2p-1, 0x1.16p-1, 0x1.0cp-1, 0x1.04p-1};
static const double FDP_K(logs)[16] = {
    0x1.0415d89e74444p-5, 0x1.700d30aeac0e1p-4, 0x1.2d1610c86813ap-3, 0x1.95a5adcf7017fp-3,
    0x1.f991c6cb3b379p-3, 0x1.2bef07cdc9354p-2, 0x1.5d5bddf595f3p-2, 0x1.8b639a88b2df5p-2,
    0x1.b56fa04462909p-2, 0x1.dae75484c9616p-2, 0x1.00e5ae5b207abp-1, 0x1.151c3f6f29612p-1,
    0x1.269621134db92p-1, 0x1.38ae2171976e7p-1, 0x1.4b6fd6f970c1fp-1, 0x1.5af405c3649ep-1};

/* ln of positive normal doubles, with an error that is small compared with 1. */
static inline __m512d FDP_K(log8)(__m512d x)
{
    const __m512d one = _mm512_set1_pd(1.0), k = _mm512_getexp_pd(x);
    const __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    const __m512i j = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);
    const double *inverse = FDP_K(inverses), *log = FDP_K(logs);
    const __m512d part = _mm512_permutex2var_pd(_mm512_loadu_pd(inverse), j,
                                                _mm512_loadu_pd(inverse + 8));
    const __m512d whole = _mm512_permutex2var_pd(_mm512_loadu_pd(log), j,
                                                 _mm512_loadu_pd(log + 8));
    const __m512d f = _mm512_fmsub_pd(m, part, one); /* at most 2^-5 */
    __m512d sum = _mm512_set1_pd(1.0 / 9);
    for (int n = 8; n > 0; n--) {
        sum = _mm512_fmadd_pd(sum, f, _mm512_set1_pd(n % 2 ? 1.0 / n : -1.0 / n));
    }
    const __m512d low = _mm512_fmadd_pd(sum, f, whole);
    return _mm512_fmadd_pd(k, _mm512_set1_pd(FDP_LN2_HI),
                           _mm512_fmadd_pd(k, _mm512_set1_pd(FDP_LN2_LO), low));
}

/* The lowest bit is the sign; the other bits are U. */
static void FDP_K(noise_laplace)(const uint64_t *restrict word, size_t n,
                                 double *restrict noise)
{
    const __m512i one = _mm512_set1_epi64(1);
    for (size_t i = 0; i < n; i += 8) {
        const __m512i w = _mm512_loadu_si512(word + i);
        const __m512i u = _mm512_add_epi64(_mm512_srli_epi64(w, 1), _mm512_and_si512(w, one));
        const __m512d x = _mm512_mul_pd(_mm512_cvtepu64_pd(u), _mm512_set1_pd(0x1p-63));
        const __m512d minus =
            _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_andnot_si512(w, one), 63));
        const __m512d y = _mm512_xor_pd(FDP_K(log8)(x), minus);
        const __mmask8 wide =
            _mm512_cmplt_epu64_mask(w, _mm512_set1_epi64(2 * FDP_WORD_LEAST));
        _mm512_storeu_pd(noise + i,
                         _mm512_mask_mov_pd(y, wide, _mm512_set1_pd(INFINITY)));
    }
}
#else
/* The lowest bit is the sign; the other bits are U. */
static void FDP_K(noise_laplace)(const uint64_t *restrict word, size_t n,
                                 double *restrict noise)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = word[i];
        const uint64_t sign = (w & 1) << 63;
        const double l = FDP_K(log)(fdp_from_unsigned((w >> 1) + (w & 1)) * 0x1p-63);
        const double y = fdp_bits_double(fdp_double_bits(-l) ^ sign);
        noise[i] =
            FDP_K(choose)(FDP_MASK(w >= 2 * FDP_WORD_LEAST), y, INFINITY);
    }
}
#endif

/* The square root of a positive normal double, to 4 units in the last place. It does not use the
 * processor's instruction, whose time may depend on the operand. */
static inline double FDP_K(square_root)(double x)
{
    double y = fdp_bits_double(0x5fe6eb50c7b537a9u - (fdp_double_bits(x) >> 1));
    const double half = 0.5 * x;
    for (int k = 0; k < 4; k++) {
        y = y * (1.5 - half * y * y);
    }
    const double root = x * y;
    return root + 0.5 * y * (x - root * root);
}

/* sqrt(2 E) cos(pi A / 2) with a sign. E = -ln(1 - V) is from the first word, A is the upper 63
 * bits of the second word, and the lowest bit of that is the sign. */
static void FDP_K(noise_gaussian)(const uint64_t *restrict word,
                                  const uint64_t *restrict angle, size_t n,
                                  double *restrict noise)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t v = word[i], a = angle[i] >> 1, sign = angle[i] << 63;
        const uint64_t up = v + 1 - (angle[i] & 1); /* the larger end */
        const double size = FDP_K(square_root)(2.0 * FDP_K(minus_log_rest)(up));
        /* beyond 45 degrees use the sine of the complement */
        const uint64_t steep = 0 - (a >> 62);
        const uint64_t small = (a ^ (steep >> 1)) + (steep & 1);
        const double t = fdp_from_unsigned(small) * (FDP_HALF_PI * 0x1p-63);
        const double s = t * t;
        const double cosine = FDP_COS_EVAL(s), sine = t * FDP_SIN_EVAL(s);
        const double y = size * FDP_K(choose)(steep, sine, cosine);
        const uint64_t inside = FDP_MASK(v >= FDP_WORD_LEAST) &
                                FDP_MASK(v <= FDP_ONES - FDP_WORD_LEAST);
        noise[i] = FDP_K(choose)(inside, fdp_bits_double(fdp_double_bits(y) ^ sign),
                                 INFINITY);
    }
}

static void FDP_K(add_log)(const double *restrict mantissa,
                           const double *restrict exponent, size_t n,
                           double *restrict noise)
{
    for (size_t i = 0; i < n; i++) {
        const double e = exponent[i];
        noise[i] += e * FDP_LN2_HI + (e * FDP_LN2_LO + FDP_K(log)(mantissa[i]));
    }
}

/* Lost candidates have an infinite gap and come last, even if they are marked. */
static void FDP_K(lead)(const double *restrict noise, const double *restrict gap,
                        size_t n, int64_t first, fdp_leaders_t *restrict leaders)
{
    FDP_K(doubles) best[FDP_PARTS], second[FDP_PARTS];
    FDP_K(masks) index[FDP_PARTS], at[FDP_PARTS];
    const FDP_K(doubles) none = (FDP_K(doubles)){0} - INFINITY;
    memcpy(best, leaders->best, sizeof best);
    memcpy(second, leaders->second, sizeof second);
    memcpy(index, leaders->index, sizeof index);
    for (int l = 0; l < FDP_LANES; l++) {
        at[l / FDP_WIDTH][l % FDP_WIDTH] = first + l;
    }
    for (size_t i = 0; i < n; i += FDP_LANES) {
        for (size_t p = 0; p < FDP_PARTS; p++) {
            FDP_K(doubles) y, x;
            memcpy(&y, noise + i + p * FDP_WIDTH, sizeof y);
            memcpy(&x, gap + i + p * FDP_WIDTH, sizeof x);
            const FDP_K(doubles) key = FDP_K(either)(x < -none, y - x, none);
            const FDP_K(masks) ahead = key > best[p];
            const FDP_K(doubles) less = FDP_K(either)(ahead, best[p], key);
            second[p] = FDP_K(either)(less > second[p], less, second[p]);
            best[p] = FDP_K(either)(ahead, key, best[p]);
            index[p] = (ahead & at[p]) | (~ahead & index[p]);
            at[p] += FDP_LANES;
        }
    }
    memcpy(leaders->best, best, sizeof best);
    memcpy(leaders->second, second, sizeof second);
    memcpy(leaders->index, index, sizeof index);
}

#undef FDP_PARTS

const fdp_selection_kernels_t FDP_JOIN(fdp_selection, FDP_LEVEL) = {
    .largest = {FDP_K(largest_f64), FDP_K(largest_i64)},
    .gaps = {FDP_K(gaps_f64), FDP_K(gaps_i64)},
    .weigh = FDP_K(weigh),
    .power51 = FDP_K(power51),
    .split = FDP_K(split),
    .weigh_scaled = FDP_K(weigh_scaled),
    .totals = {{FDP_K(totals_f64), FDP_K(totals_based_f64)},
               {FDP_K(totals_i64), FDP_K(totals_based_i64)}},
    .bounds = {{FDP_K(bounds_f64), FDP_K(bounds_based_f64)},
               {FDP_K(bounds_i64), FDP_K(bounds_based_i64)}},
    .place = {FDP_K(place_f64), FDP_K(place_i64)},
    .range = FDP_K(range),
    .mark = FDP_K(mark),
    .find = FDP_K(find),
    .fetch_two = FDP_K(fetch_two),
    .flips = {FDP_K(flips_f64), FDP_K(flips_i64)},
    .blend = FDP_K(blend),
    .column = FDP_K(column),
    .noise_gumbel = FDP_K(noise_gumbel),
    .noise_laplace = FDP_K(noise_laplace),
    .noise_gaussian = FDP_K(noise_gaussian),
    .add_log = FDP_K(add_log),
    .lead = FDP_K(lead),
};
