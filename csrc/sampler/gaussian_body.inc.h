/* gaussian_body.inc.h: discrete Gaussian kernels, compiled once per level.
 *
 * A dyadic step hat over |x|: block H holds 2^j values at height n_H c, n_H
 * integers with sum 8192, so a 16-bit word picks the block exactly (integer
 * alias method). A trial with L uniform in the block is kept when
 * V n_H c < f(m), m = 2^j H + L, f(m) = exp(-m^2 / (2 sigma^2)), f(0) halved.
 * Block 31 is the tail: rejected for certain unless V n c < tail.
 * Bounds: docs/proofs/discrete_gaussian.md.
 *
 * Results are 2 * value + keep.
 */

/* f(m) in double, relative error below 2^-44 for exponents up to 600. */
static inline double FDP_K(gaussian_density)(double m, double inverse_2var)
{
    double z = m * m * inverse_2var;
    z = z < 600.0 ? z : 600.0;
    const double k = fdp_nearest(z * FDP_LOG2E);
    const double r = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
    const double p = FDP_EXP_EVAL(r);
    const double f =
        p * fdp_bits_double((uint64_t)(1023 - fdp_to_small(k)) << 52);
    return m > 0.0 ? f : 0.5;
}

static void FDP_K(gaussian_narrow)(const fdp_gaussian_t *law,
                                   const uint8_t *restrict block,
                                   const uint16_t *restrict height,
                                   const uint32_t *restrict word,
                                   int32_t *restrict tagged, size_t n)
{
    const uint32_t j = law->shift;
    const uint32_t low_mask = (UINT32_C(1) << j) - 1;
    /* V has 31 - j bits */
    const float unit = (float)(law->unit * fdp_bits_double((uint64_t)(1023 - 31 + j) << 52));
    const float inverse_2var = (float)law->inverse_2var;
    const float tail = (float)(law->tail * 1.0001);
    const float error = law->narrow_error;
    for (size_t i = 0; i < n; i++) {
        const uint32_t w = word[i];
        const uint32_t h = block[i];
        const int32_t m = (int32_t)((h << j) | ((w >> 1) & low_mask));
        const float step = (float)(int32_t)height[i] * unit;
        const float hat = ((float)(int32_t)(w >> (j + 1)) + 0.5f) * step;
        const float mf = (float)m;
        /* at most 80, by the order of the bits: gcc would turn a choice of floats
         * here, or of f(0) below, into branches */
        const uint32_t exponent = fdp_float_bits(mf * mf * inverse_2var);
        const uint32_t most = 0x42a00000; /* 80.0f */
        const float z = fdp_bits_float(exponent < most ? exponent : most);
        const int32_t k = (int32_t)(z * FDP_LOG2EF + 0.5f);
        const float r = (float)k * FDP_LN2F - z;
        const float p = FDP_EXPF_EVAL(r);
        const float e = p * fdp_bits_float((uint32_t)(127 - k) << 23);
        /* f(0) = 1/2 */
        const uint32_t f0 = fdp_float_bits(e) - ((uint32_t)(m == 0) << 23);
        const uint32_t in_tail = h == 31 ? ~UINT32_C(0) : 0;
        const float f = fdp_bits_float(f0 & ~in_tail);
        const float bound =
            error * f + (0.75f * step + fdp_bits_float(fdp_float_bits(tail) & in_tail));
        const float margin = f - hat;
        const float distance = margin < 0.0f ? -margin : margin;
        const uint32_t sign = w & 1;
        const uint32_t x = ((uint32_t)m ^ (0 - sign)) + sign;
        const uint32_t keep = margin > 0.0f ? 1 : 0;
        const uint32_t undecided = distance < bound ? ~UINT32_C(0) : 0;
        tagged[i] = (int32_t)((((x << 1) | keep) & ~undecided) |
                              ((uint32_t)FDP_UNDECIDED32 & undecided));
    }
}

/* One trial in double: V is `v` units of 2^-bits, exact to within its cell. */
static inline int64_t FDP_K(gaussian_trial)(const fdp_gaussian_t *law, uint64_t h,
                                            uint64_t height, uint64_t m, uint64_t v,
                                            double v_unit, uint64_t sign)
{
    const double step = fdp_from_unsigned(height) * law->unit * v_unit;
    const double hat = (fdp_from_unsigned(v) + 0.5) * step;
    const double f0 = FDP_K(gaussian_density)(fdp_from_unsigned(m), law->inverse_2var);
    const uint64_t in_tail = h == 31 ? ~UINT64_C(0) : 0;
    const double f = fdp_bits_double(fdp_double_bits(f0) & ~in_tail);
    const double tail = fdp_bits_double(fdp_double_bits(law->tail) & in_tail);
    const double bound = law->error * f + 0x1p-50 * hat + (0.75 * step + tail);
    const double margin = f - hat;
    const double distance = margin < 0.0 ? -margin : margin;
    const uint64_t x = (m ^ (0 - sign)) + sign;
    const uint64_t keep = margin > 0.0 ? 1 : 0;
    const uint64_t undecided = distance < bound ? ~UINT64_C(0) : 0;
    return (int64_t)((((x << 1) | keep) & ~undecided) |
                     ((uint64_t)FDP_UNDECIDED64 & undecided));
}

static void FDP_K(gaussian_double)(const fdp_gaussian_t *law,
                                   const uint8_t *restrict block,
                                   const uint16_t *restrict height,
                                   const uint64_t *restrict word,
                                   int64_t *restrict tagged, size_t n)
{
    const fdp_gaussian_t local = *law;
    const uint32_t j = local.shift;
    const uint64_t low_mask = (UINT64_C(1) << j) - 1;
    const double v_unit = fdp_bits_double((uint64_t)(1023 - 63 + j) << 52);
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = word[i];
        const uint64_t h = block[i];
        tagged[i] = FDP_K(gaussian_trial)(&local, h, height[i],
                                          (h << j) | ((w >> 1) & low_mask),
                                          w >> (j + 1), v_unit, w & 1);
    }
}

static void FDP_K(gaussian_wide)(const fdp_gaussian_t *law,
                                 const uint8_t *restrict block,
                                 const uint16_t *restrict height,
                                 const uint64_t *restrict word,
                                 const uint64_t *restrict rest,
                                 int64_t *restrict tagged, size_t n)
{
    const fdp_gaussian_t local = *law;
    const uint32_t j = local.shift;
    for (size_t i = 0; i < n; i++) {
        const uint64_t w = word[i];
        const uint64_t h = block[i];
        tagged[i] = FDP_K(gaussian_trial)(&local, h, height[i],
                                          (h << j) | (rest[i] >> (64 - j)), w >> 1,
                                          0x1p-63, w & 1);
    }
}
