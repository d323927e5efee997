/* gaussian_body.inc.h: discrete Gaussian kernels, compiled once per level.
 *
 * A dyadic step hat over |x|: block H holds 2^j values at height n_H c, n_H
 * integers with sum 8192, so a 16-bit word picks the block exactly (integer
 * alias method). A trial with L uniform in the block is kept when
 * V n_H c < f(m), m = 2^j H + L, f(m) = exp(-m^2 / (2 sigma^2)), f(0) halved.
 * Block 31 is the tail: rejected for certain unless V n c < tail.
 * Bounds: docs/proofs/kernels.md.
 *
 * First stages give 2 * value + keep.
 */

/* 1: keep, 2: undecided, in float32: x = m in a unit in which f(x) is
 * exp(-x^2 inverse_2var), V in units of 1 / 2^bits, `unit` = c / 2^bits. */
static inline uint32_t FDP_K(gaussian_decide)(float x, uint32_t is_zero, uint32_t v,
                                              uint32_t block, uint32_t height,
                                              float unit, float inverse_2var,
                                              float error, float tail)
{
    const float step = (float)(int32_t)height * unit;
    const float hat = ((float)(int32_t)v + 0.5f) * step;
    /* at most 80, by the order of the bits: gcc would turn a choice of floats
     * here, or of f(0) below, into branches */
    const uint32_t exponent = fdp_float_bits(x * x * inverse_2var);
    const uint32_t most = 0x42a00000; /* 80.0f */
    const float z = fdp_bits_float(exponent < most ? exponent : most);
    const int32_t k = (int32_t)(z * FDP_LOG2EF + 0.5f);
    const float r = (float)k * FDP_LN2F - z;
    const float p = FDP_EXPF_EVAL(r);
    const float e = p * fdp_bits_float((uint32_t)(127 - k) << 23);
    /* f(0) = 1/2 */
    const uint32_t f0 = fdp_float_bits(e) - (is_zero << 23);
    const uint32_t in_tail = block == 31 ? ~UINT32_C(0) : 0;
    const float f = fdp_bits_float(f0 & ~in_tail);
    const float bound =
        error * f + (0.75f * step + fdp_bits_float(fdp_float_bits(tail) & in_tail));
    const float margin = f - hat;
    const float distance = margin < 0.0f ? -margin : margin;
    return (margin > 0.0f ? 1u : 0u) | (distance < bound ? 2u : 0u);
}

/* j <= 8: the word is [V: 31 - j bits | L: j bits | s]. */
static void FDP_K(gaussian_narrow)(const fdp_gaussian_t *law,
                                   const uint8_t *restrict block,
                                   const uint16_t *restrict height,
                                   const uint32_t *restrict word,
                                   int32_t *restrict tagged, size_t n)
{
    const uint32_t j = law->shift;
    const uint32_t low_mask = (UINT32_C(1) << j) - 1;
    const float unit = (float)(law->unit * fdp_bits_double((uint64_t)(1023 - 31 + j) << 52));
    const float inverse_2var = (float)law->inverse_2var;
    const float tail = (float)(law->tail * 1.0001);
    const float error = law->narrow_error;
    for (size_t i = 0; i < n; i++) {
        const uint32_t w = word[i];
        const uint32_t h = block[i];
        const uint32_t m = (h << j) | ((w >> 1) & low_mask);
        const uint32_t decision = FDP_K(gaussian_decide)(
            (float)(int32_t)m, m == 0, w >> (j + 1), h, height[i], unit, inverse_2var,
            error, tail);
        const uint32_t sign = w & 1;
        const uint32_t x = (m ^ (0 - sign)) + sign;
        const uint32_t undecided = 0 - (decision >> 1);
        tagged[i] = (int32_t)((((x << 1) | (decision & 1)) & ~undecided) |
                              ((uint32_t)FDP_UNDECIDED32 & undecided));
    }
}

/* j > 8: the word is [V: 31 bits | s], and L is the first j bits of the rest. */
static void FDP_K(gaussian_wide)(const fdp_gaussian_t *law,
                                 const uint8_t *restrict block,
                                 const uint16_t *restrict height,
                                 const uint32_t *restrict word,
                                 const uint64_t *restrict rest,
                                 int64_t *restrict tagged, size_t n)
{
    const uint32_t j = law->shift;
    const float unit = (float)(law->unit * 0x1p-31);
    /* in units of 2^j */
    const float inverse_2var =
        (float)(law->inverse_2var * fdp_bits_double((uint64_t)(1023 + 2 * j) << 52));
    const float tail = (float)(law->tail * 1.0001);
    const float error = law->narrow_error;
    const uint64_t low_bits = ~UINT64_C(0) << (64 - j); /* those of L alone */
    const uint32_t unsure = j > 31 ? 2 : 0; /* x may be 0 where m is not */
    uint32_t decision[64], first[64];
    for (size_t i = 0; i < n; i += 64) {
        for (size_t k = 0; k < 64; k++) {
            first[k] = (uint32_t)((rest[i + k] & low_bits) >> 33);
        }
        for (size_t k = 0; k < 64; k++) {
            const uint32_t h = block[i + k];
            const float x = (float)(int32_t)h + (float)(int32_t)first[k] * 0x1p-31f;
            const uint32_t is_zero = (h | first[k]) == 0 ? 1u : 0u;
            decision[k] = (unsure & (0 - is_zero)) |
                          FDP_K(gaussian_decide)(x, is_zero, word[i + k] >> 1, h,
                                                 height[i + k], unit, inverse_2var,
                                                 error, tail);
        }
        for (size_t k = 0; k < 64; k++) {
            const uint64_t m = ((uint64_t)block[i + k] << j) | (rest[i + k] >> (64 - j));
            const uint64_t sign = word[i + k] & 1;
            const uint64_t x = (m ^ (0 - sign)) + sign;
            const uint64_t d = decision[k];
            const uint64_t undecided = 0 - (d >> 1);
            tagged[i + k] = (int64_t)((((x << 1) | (d & 1)) & ~undecided) |
                                      ((uint64_t)FDP_UNDECIDED64 & undecided));
        }
    }
}

/* Second stage: V as `v` units of 2^-bits, in double. Decisions: 0, 1 or
 * FDP_UNDECIDED64. The relative error of f is below 2^-44 up to exponents of 100;
 * beyond, f is far below a step of V. */
static void FDP_K(gaussian_second)(const fdp_gaussian_t *law,
                                   const uint8_t *restrict block,
                                   const uint16_t *restrict height,
                                   const uint64_t *restrict magnitude,
                                   const uint64_t *restrict v, uint32_t bits,
                                   int64_t *restrict decision, size_t n)
{
    const double unit = law->unit * fdp_bits_double((uint64_t)(1023 - bits) << 52);
    const double inverse_2var = law->inverse_2var, error = law->error, tail = law->tail;
    for (size_t i = 0; i < n; i++) {
        const double step = fdp_from_unsigned(height[i]) * unit;
        const double hat = (fdp_from_unsigned(v[i]) + 0.5) * step;
        const double m = fdp_from_unsigned(magnitude[i]);
        double z = m * m * inverse_2var;
        z = z < 600.0 ? z : 600.0;
        const double k = fdp_nearest(z * FDP_LOG2E);
        const double r = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
        const double e = FDP_EXP_EVAL(r) *
                         fdp_bits_double((uint64_t)(1023 - fdp_to_small(k)) << 52);
        const double f0 = m > 0.0 ? e : 0.5;
        const uint64_t in_tail = block[i] == 31 ? ~UINT64_C(0) : 0;
        const double f = fdp_bits_double(fdp_double_bits(f0) & ~in_tail);
        const double reach = fdp_bits_double(fdp_double_bits(tail) & in_tail);
        const double bound = error * f + 0x1p-50 * hat + (0.75 * step + reach);
        const double margin = f - hat;
        const double distance = margin < 0.0 ? -margin : margin;
        const int64_t keep = margin > 0.0 ? 1 : 0;
        decision[i] = distance < bound ? FDP_UNDECIDED64 : keep;
    }
}
