/* selection_body.inc.h: gaps of scores and weights exp(-gap), compiled once per level. Everything
 * is relative to a reference score. Its choice changes no law, because it is a common factor of all
 * weights. Subnormal operands may count as 0; the driver sets the processor to that mode, so that
 * they take no extra time. Bounds: docs/proofs/selection.md. */

#define FDP_ONES ~UINT64_C(0)
#ifndef FDP_MASK /* if these loops are vectorized, choices do not become branches */
#define FDP_MASK(c) ((c) ? FDP_ONES : 0)
#define FDP_LESSER(a, b) ((a) < (b) ? (a) : (b))
#define FDP_LARGER(a, b) ((a) > (b) ? (a) : (b))
#else
#define FDP_LESSER(a, b) FDP_K(choose)(FDP_MASK((a) < (b)), a, b)
#define FDP_LARGER(a, b) FDP_K(choose)(FDP_MASK((a) > (b)), a, b)
#endif
#define FDP_DOUBLE_MOST 0x1.fffffffffffffp1023

/* a if the mask is set, else b. */
static inline double FDP_K(choose)(uint64_t mask, double a, double b)
{
    return fdp_bits_double((fdp_double_bits(a) & mask) | (fdp_double_bits(b) & ~mask));
}

/* Explicit vectors of the level. Otherwise gcc compiles some of these choices of doubles to
 * branches, which would reveal keys. A mask has all bits of a lane set, or none. */
typedef double FDP_K(doubles) __attribute__((vector_size(8 * FDP_WIDTH)));
typedef int64_t FDP_K(masks) __attribute__((vector_size(8 * FDP_WIDTH)));

typedef uint64_t FDP_K(units) __attribute__((vector_size(8 * FDP_WIDTH)));

#define FDP_PARTS (FDP_LANES / FDP_WIDTH)

/* The lesser and the larger one; b if either is NaN. */
#if FDP_X86_64 && FDP_WIDTH == 8
#define FDP_LEAST(a, b) (FDP_K(doubles))_mm512_min_pd((__m512d)(a), (__m512d)(b))
#define FDP_MOST(a, b) (FDP_K(doubles))_mm512_max_pd((__m512d)(a), (__m512d)(b))
#elif FDP_X86_64 && FDP_WIDTH == 4
#define FDP_LEAST(a, b) (FDP_K(doubles))_mm256_min_pd((__m256d)(a), (__m256d)(b))
#define FDP_MOST(a, b) (FDP_K(doubles))_mm256_max_pd((__m256d)(a), (__m256d)(b))
#elif FDP_X86_64
#define FDP_LEAST(a, b) (FDP_K(doubles))_mm_min_pd((__m128d)(a), (__m128d)(b))
#define FDP_MOST(a, b) (FDP_K(doubles))_mm_max_pd((__m128d)(a), (__m128d)(b))
#else
#define FDP_LEAST(a, b) FDP_K(either)((FDP_K(masks))((a) < (b)), a, b)
#define FDP_MOST(a, b) FDP_K(either)((FDP_K(masks))((a) > (b)), a, b)
#endif

static inline FDP_K(doubles) FDP_K(either)(FDP_K(masks) mask, FDP_K(doubles) a,
                                           FDP_K(doubles) b)
{
    return (FDP_K(doubles))((mask & (FDP_K(masks))a) | (~mask & (FDP_K(masks))b));
}

static inline FDP_K(doubles) FDP_K(all_of)(double x)
{
    return x - (FDP_K(doubles)){0};
}

/* ---- scores -------------------------------------------------------------- */

static fdp_score_t FDP_K(largest_f64)(const void *from, const uint64_t *lost, size_t n)
{
    const double *score = from;
    FDP_K(doubles) lane[FDP_PARTS], v;
    for (size_t p = 0; p < FDP_PARTS; p++) {
        lane[p] = FDP_K(all_of)(-INFINITY);
    }
    for (size_t i = 0; i < n; i += FDP_LANES) {
        for (size_t p = 0; p < FDP_PARTS; p++) {
            const size_t at = i + p * FDP_WIDTH;
            memcpy(&v, score + at, sizeof v);
            if (lost != NULL) {
                FDP_K(units) gone;
                memcpy(&gone, lost + at, sizeof gone);
                v = (FDP_K(doubles))((FDP_K(units))v | gone); /* a NaN */
            }
            lane[p] = FDP_MOST(v, lane[p]);
        }
    }
    for (size_t p = 1; p < FDP_PARTS; p++) {
        lane[0] = FDP_MOST(lane[p], lane[0]);
    }
    double most[FDP_WIDTH];
    memcpy(most, &lane[0], sizeof most);
    for (size_t half = FDP_WIDTH / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            most[l] = FDP_LARGER(most[l + half], most[l]);
        }
    }
    return (fdp_score_t){.f64 = FDP_LESSER(FDP_DOUBLE_MOST, most[0])};
}

static fdp_score_t FDP_K(largest_i64)(const void *from, const uint64_t *lost, size_t n)
{
    const int64_t *score = from;
    int64_t lane[FDP_LANES];
    for (size_t l = 0; l < FDP_LANES; l++) {
        lane[l] = INT64_MIN;
    }
    for (size_t i = 0; i < n; i += FDP_LANES) {
        for (size_t l = 0; l < FDP_LANES; l++) {
            uint64_t v = (uint64_t)score[i + l];
            if (lost != NULL) {
                v = (v & ~lost[i + l]) | ((uint64_t)INT64_MIN & lost[i + l]);
            }
            const uint64_t more = FDP_MASK((int64_t)v > lane[l]);
            lane[l] = (int64_t)((v & more) | ((uint64_t)lane[l] & ~more));
        }
    }
    int64_t most = lane[0];
    for (size_t l = 1; l < FDP_LANES; l++) {
        const uint64_t more = FDP_MASK(lane[l] > most);
        most = (int64_t)(((uint64_t)lane[l] & more) | ((uint64_t)most & ~more));
    }
    return (fdp_score_t){.i64 = most};
}

/* ---- weights ------------------------------------------------------------- */

static inline void FDP_K(sum_lanes)(const double *weight, size_t n, double *lane)
{
    double sum[FDP_LANES] = {0};
    for (size_t i = 0; i < n; i += FDP_LANES) {
        for (size_t l = 0; l < FDP_LANES; l++) {
            sum[l] += weight[i + l];
        }
    }
    memcpy(lane, sum, sizeof sum);
}

static void FDP_K(weigh)(const double *restrict gap, size_t n, double *restrict weight,
                         double *lane)
{
    for (size_t i = 0; i < n; i++) {
        const double x = gap[i];
        const double z = FDP_LESSER(x, FDP_GAP_MOST);
        const double k = fdp_nearest(z * FDP_LOG2E);
        const double r = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
        const uint64_t power = (uint64_t)(1023 - fdp_to_small(k)) << 52;
        const double w = FDP_EXP_EVAL(r) * fdp_bits_double(power);
        const uint64_t near = FDP_MASK(x < FDP_GAP_MOST);
        weight[i] = fdp_bits_double(fdp_double_bits(w) & near);
    }
    FDP_K(sum_lanes)(weight, n, lane);
}

static void FDP_K(power51)(const double *restrict nats, const double *restrict bits,
                           double *restrict power)
{
    for (size_t i = 0; i < FDP_POWERS; i++) {
        const double k = fdp_nearest(nats[i] * FDP_LOG2E);
        const double r = (k * FDP_LN2_HI - nats[i]) + k * FDP_LN2_LO;
        const double far = FDP_LESSER(k + bits[i], 900.0);
        const uint64_t scale = (uint64_t)(1023 + 51 - fdp_to_small(far)) << 52;
        power[i] = FDP_EXP_EVAL(r) * fdp_bits_double(scale);
    }
}

/* The bits of base weights and their exponents. For subnormal weights (which operations may treat
 * as 0), the bits are those of the weight in units of 2^-1074. The exponent of 0 is below all
 * others. */
static inline FDP_K(units) FDP_K(take_apart)(const double *weight,
                                             FDP_K(doubles) *exponent)
{
    const uint64_t one = UINT64_C(1) << 52, at_one = 0x4330000000000000u;
    FDP_K(units) bits;
    memcpy(&bits, weight, sizeof bits);
    bits &= ~UINT64_C(0) >> 1; /* removes the sign of -0 */
    const FDP_K(units) small = (FDP_K(units))((FDP_K(masks))(bits - one) >> 63);
    const FDP_K(doubles) scaled = (FDP_K(doubles))((bits & small) | at_one) - 0x1p52;
    bits = (bits & ~small) | ((FDP_K(units))scaled & small);
    const FDP_K(doubles) place = (FDP_K(doubles))((bits >> 52) | at_one);
    const FDP_K(units) lower = (FDP_K(units))FDP_K(all_of)(1074.0) & small;
    *exponent = (place - (0x1p52 + 1022.0)) - (FDP_K(doubles))lower;
    return bits;
}

static void FDP_K(split)(double *weight, size_t n, double top, double *exponent)
{
    const uint64_t fraction = (UINT64_C(1) << 52) - 1;
    for (size_t i = 0; i < n; i += FDP_WIDTH) {
        FDP_K(doubles) power;
        FDP_K(units) bits = FDP_K(take_apart)(weight + i, &power);
        const FDP_K(units) there = 0 - ((0 - bits) >> 63);
        power = (FDP_K(doubles))((FDP_K(units))(power - top) & there);
        bits = ((bits & fraction) | 0x3fe0000000000000u) & there;
        memcpy(weight + i, &bits, sizeof bits);
        memcpy(exponent + i, &power, sizeof power);
    }
}

/* Gaps up to 2^14 matter here, because weights may differ by a factor of up to 2^8800. */
static double FDP_K(weigh_scaled)(const double *restrict gap,
                                  const double *restrict mantissa,
                                  const double *restrict exponent, size_t n,
                                  double *restrict factor, double *restrict weight,
                                  double *lane)
{
    double place[FDP_BLOCK], most[FDP_LANES];
    for (size_t i = 0; i < n; i++) {
        const double x = gap[i];
        const double z = FDP_LESSER(x, 0x1p14);
        const double k = fdp_nearest(z * FDP_LOG2E);
        const double r = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
        const uint64_t there = FDP_MASK(x < INFINITY) &
                               FDP_MASK(mantissa[i] > 0.0);
        factor[i] = FDP_EXP_EVAL(r);
        place[i] = FDP_K(choose)(there, exponent[i] - k, -0x1p50);
    }
    for (size_t l = 0; l < FDP_LANES; l++) {
        most[l] = -0x1p50;
    }
    for (size_t i = 0; i < n; i += FDP_LANES) {
        for (size_t l = 0; l < FDP_LANES; l++) {
            most[l] = FDP_LARGER(place[i + l], most[l]);
        }
    }
    double top = most[0];
    for (size_t l = 1; l < FDP_LANES; l++) {
        top = FDP_K(choose)(FDP_MASK(most[l] > top), most[l], top);
    }
    for (size_t i = 0; i < n; i++) {
        const double down = place[i] - top; /* <= 0 */
        const uint64_t near = FDP_MASK(down > -1000.0) &
                              FDP_MASK(place[i] > -0x1p49);
        const double k = FDP_LARGER(down, -1000.0);
        const uint64_t power = (uint64_t)(1023 + fdp_to_small(k)) << 52;
        factor[i] = fdp_bits_double(fdp_double_bits(factor[i] * fdp_bits_double(power)) &
                                    near);
        weight[i] = factor[i] * mantissa[i];
    }
    FDP_K(sum_lanes)(weight, n, lane);
    return top;
}

/* ---- parts of blocks --------------------------------------------------------- */

static void FDP_K(blend)(const uint64_t *restrict from, size_t n, uint64_t mask,
                         uint64_t *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] |= from[i] & mask;
    }
}

static void FDP_K(column)(const void *from, size_t rows, size_t lane, void *restrict to)
{
    FDP_K(masks) here[FDP_PARTS];
    for (int l = 0; l < FDP_LANES; l++) {
        here[l / FDP_WIDTH][l % FDP_WIDTH] = l;
    }
    for (size_t p = 0; p < FDP_PARTS; p++) {
        here[p] = here[p] == (int64_t)lane;
    }
    for (size_t r = 0; r < rows; r++) {
        FDP_K(masks) found = {0}, part;
        for (size_t p = 0; p < FDP_PARTS; p++) {
            memcpy(&part, (const uint8_t *)from + r * 8 * FDP_LANES + p * sizeof part,
                   sizeof part);
            found |= part & here[p];
        }
        int64_t entry = found[0];
        for (size_t j = 1; j < FDP_WIDTH; j++) {
            entry |= found[j];
        }
        memcpy((uint8_t *)to + r * sizeof entry, &entry, sizeof entry);
    }
}
