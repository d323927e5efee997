/* laplace_body.inc.h: discrete Laplace kernels, compiled once per level.
 *
 * One uniform real U decides sign and size without rejection: with
 * q = e^{-1/t}, theta = q / (1 + q), s = [U < theta], V = U or U - theta,
 * W = theta or 1 - theta, the geometric part is floor(-t ln(V / W)), and the
 * value is its complement when s. A kernel sees the first bits of U, computes
 * y ~ -t ln(V / W) with a proved error and decides unless an integer lies
 * within that error. Bounds: docs/proofs/kernels.md.
 */

/* 32 bits of U, float32. a = V 2^31 to within 3/4; 4 roundings reach the
 * logarithm's argument, which costs 2^-22 in E = -ln. */
static void FDP_K(laplace_narrow)(const fdp_laplace_t *law,
                                  const uint32_t *restrict word,
                                  int32_t *restrict value, size_t n)
{
    const uint32_t theta = (uint32_t)(law->theta[1] >> 32);
    const float inverse_w0 = (float)(law->inverse_w0 * 0x1p-31);
    const float inverse_w1 =
        (float)(law->inverse_w1 < 0x1p100 ? law->inverse_w1 * 0x1p-31 : 1.0);
    const float scale = (float)-law->scale;
    const float error = law->narrow_error, relative = law->narrow_error_relative;
    const int32_t least = law->narrow_least;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = word[i];
        const int negative = u < theta;
        const int32_t left = (int32_t)((negative ? u : u - theta) >> 1);
        const float a = (float)left + 0.25f;
        const float v = a * (negative ? inverse_w1 : inverse_w0);
        /* v = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)) */
        const int32_t split = (int32_t)(fdp_float_bits(v) - 0x3f3504f3u);
        const float k = (float)(split >> 23);
        const float f =
            fdp_bits_float(((uint32_t)split & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
        const float y = scale * (k * FDP_LN2F + FDP_LOGF_EVAL(f));
        const int32_t g = (int32_t)y;
        const float part = y - (float)g;
        const float bound = error + relative * y;
        const int undecided =
            (part < bound) | (part > 1.0f - bound) | (left < least);
        const int32_t x = negative ? ~g : g;
        value[i] = undecided ? FDP_UNDECIDED32 : x;
    }
}

/* scale = 2^j t': the word above gives the block of 2^j values by its size alone
 * (theta = 0), the other is [V | L | s]: L within the block and a fair sign, kept
 * when V >= 1 - e^{-(L + s) / scale}. That is at most 2^-11, so that any V with one
 * of its first 11 bits set is kept; the others are left undecided. */
static void FDP_K(laplace_wide)(const fdp_laplace_t *law,
                                const uint32_t *restrict word,
                                const uint64_t *restrict rest,
                                int64_t *restrict value, size_t n)
{
    const uint32_t j = law->shift;
    const uint64_t low_mask = (UINT64_C(1) << j) - 1;
    int32_t high[64];
    for (size_t i = 0; i < n; i += 64) {
        FDP_K(laplace_narrow)(law, word + i, high, 64);
        for (size_t k = 0; k < 64; k++) {
            const uint64_t r = rest[i + k];
            const uint64_t h = (uint64_t)(int64_t)high[k];
            const uint64_t x = ((h << j) | ((r >> 1) & low_mask)) ^ (0 - (r & 1));
            const int64_t undecided =
                high[k] == FDP_UNDECIDED32 || (r >> 53) == 0 ? -1 : 0;
            value[i + k] = (int64_t)((x & (uint64_t)~undecided) |
                                     ((uint64_t)FDP_UNDECIDED64 & (uint64_t)undecided));
        }
    }
}

/* Second stage: 64 bits of U, double. */
static void FDP_K(laplace_second)(const fdp_laplace_t *law,
                                  const uint64_t *restrict word,
                                  int64_t *restrict value, size_t n)
{
    const uint64_t theta = law->theta[1];
    const double inverse_w0 = law->inverse_w0 * 0x1p-63;
    const double inverse_w1 = law->inverse_w1 * 0x1p-63;
    const double scale = -law->scale;
    const double error = law->error, relative = law->error_relative;
    for (size_t i = 0; i < n; i++) {
        const uint64_t u = word[i];
        /* all ones or zero: masks of the width of the values keep the loop in vectors */
        const uint64_t negative = u < theta ? ~UINT64_C(0) : 0;
        const double a = fdp_from_unsigned((u - (theta & ~negative)) >> 1) + 0.25;
        const double v = a * (u < theta ? inverse_w1 : inverse_w0);
        const uint64_t split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;
        const double k = fdp_bits_double(((split + (UINT64_C(1024) << 52)) >> 52) |
                                         0x4330000000000000u) -
                         (0x1p52 + 1024.0);
        const double f =
            fdp_bits_double((split & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
        const double y = scale * (k * FDP_LN2_HI + (k * FDP_LN2_LO + FDP_LOG_EVAL(f)));
        /* 2^-floor(log2 a): at least 1 / a, the width of the unread cell. */
        const double cell = fdp_bits_double(0x7fe0000000000000u -
                                            (fdp_double_bits(a) & 0x7ff0000000000000u));
        const double bound = error + relative * y - scale * cell;
        const double nearest = fdp_nearest(y);
        const double part = y - nearest;
        const double distance = part < 0.0 ? -part : part;
        const uint64_t undecided = (distance < bound ? ~UINT64_C(0) : 0) |
                                   (a < 16.0 ? ~UINT64_C(0) : 0);
        const uint64_t g =
            (uint64_t)fdp_to_small(nearest) + (part < 0.0 ? ~UINT64_C(0) : 0);
        value[i] = (int64_t)(((g ^ negative) & ~undecided) |
                             ((uint64_t)FDP_UNDECIDED64 & undecided));
    }
}
