/* tally_body.inc.h: counting public reports, and sums of losses, compiled once per level.
 * Timing class T0: reports and laws are what everyone may see. */

typedef uint32_t FDP_K(lane8) __attribute__((vector_size(32), aligned(4)));
typedef int32_t FDP_K(mask8) __attribute__((vector_size(32), aligned(4)));

/* What four users' reports support, added to count[v] for n (a multiple of 8)
 * categories from `start` on. User u supports v if
 * slope v + offset < limit as signed numbers (fdp_support_t). */
static void FDP_K(support4)(const fdp_support_t user[4], uint32_t start,
                            uint32_t *restrict count, size_t n)
{
    FDP_K(lane8) at[4], step[4];
    FDP_K(mask8) limit[4];
    const FDP_K(lane8) first = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int u = 0; u < 4; u++) {
        at[u] = (first + start) * user[u].slope + user[u].offset;
        step[u] = (FDP_K(lane8)){0} + 8 * user[u].slope;
        limit[u] = (FDP_K(mask8)){0} + user[u].limit;
    }
    for (size_t v = 0; v < n; v += 8) {
        FDP_K(mask8) hits = {0};
        for (int u = 0; u < 4; u++) {
            hits += (FDP_K(mask8))at[u] < limit[u]; /* -1 for a hit */
            at[u] += step[u];
        }
        FDP_K(lane8) sum;
        memcpy(&sum, count + v, sizeof sum);
        sum -= (FDP_K(lane8))hits;
        memcpy(count + v, &sum, sizeof sum);
    }
}

/* sum and carry of three bits in every position */
#define FDP_ADD3(a, b, c, sum, carry)               \
    do {                                            \
        const uint64_t half = (a) ^ (b);            \
        const uint64_t both = (a) & (b), third = c; \
        sum = half ^ third;                         \
        carry = both | (half & third);              \
    } while (0)

/* Adds the bits of 7 rows of n words, `stride` bytes apart, to counts of 8 bits: byte k
 * of count[b n + w] counts bit b of byte k of word w. */
static void FDP_K(column7)(const uint8_t *restrict row, size_t stride,
                           uint64_t *restrict count, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    for (size_t w = 0; w < n; w++) {
        uint64_t r[7], one_a, one_b, two_a, two_b, two_c, one, two, four;
        for (size_t k = 0; k < 7; k++) {
            memcpy(&r[k], row + k * stride + 8 * w, 8);
        }
        FDP_ADD3(r[0], r[1], r[2], one_a, two_a);
        FDP_ADD3(r[3], r[4], r[5], one_b, two_b);
        FDP_ADD3(one_a, one_b, r[6], one, two_c);
        FDP_ADD3(two_a, two_b, two_c, two, four);
        for (unsigned b = 0; b < 8; b++) {
            count[b * n + w] += ((one >> b) & ones) + (((two >> b) & ones) << 1) +
                                (((four >> b) & ones) << 2);
        }
    }
}
#undef FDP_ADD3

/* One pass of the Walsh-Hadamard transform: pairs at distance `half`. */
static void FDP_K(butterfly)(int64_t *a, size_t n, size_t half)
{
    for (size_t i = 0; i < n; i += 2 * half) {
        int64_t *restrict low = a + i, *restrict high = a + i + half;
        for (size_t k = 0; k < half; k++) {
            const int64_t x = low[k], y = high[k];
            low[k] = x + y;
            high[k] = x - y;
        }
    }
}

/* sum[i] += table[the first bits of the hash of x[i]]; `shift` bits do not count. */
static void FDP_K(sketch_row)(const fdp_function_t *words, uint32_t shift,
                              const int64_t *restrict table, const uint64_t *restrict x,
                              int64_t *restrict sum, size_t n)
{
    const uint64_t a = words->a, c = words->c, b = words->b;
    for (size_t i = 0; i < n; i++) {
        sum[i] += table[((a + (uint32_t)x[i]) * (c + (x[i] >> 32)) + b) >> shift];
    }
}

/* count[i] += how many of four seeded reports support x[i]. */
static void FDP_K(seeded4)(const fdp_seeded_t user[4], const uint64_t *restrict x,
                           int64_t *restrict count, size_t n)
{
    const fdp_seeded_t u0 = user[0], u1 = user[1], u2 = user[2], u3 = user[3];
    for (size_t i = 0; i < n; i++) {
        const uint64_t low = (uint32_t)x[i], high = x[i] >> 32;
        int64_t hits = (u0.words.a + low) * (u0.words.c + high) + u0.words.b < u0.width;
        hits += (u1.words.a + low) * (u1.words.c + high) + u1.words.b < u1.width;
        hits += (u2.words.a + low) * (u2.words.c + high) + u2.words.b < u2.width;
        hits += (u3.words.a + low) * (u3.words.c + high) + u3.words.b < u3.width;
        count[i] += hits;
    }
}

/* out[j] = mass[j] (e^x[j] - 1), x <= 0. As 2^k (e^r - 1) + (2^k - 1) with |r| <= ln(2)/2
 * and k <= 0, Taylor's series of 14 terms for e^r - 1: within 3 units of 2^-52 relatively,
 * also next to 0, where k = 0 and r = x (theorem 18 of
 * docs/proofs/numerical_accounting.md). Below -700 it is -1 to all digits. */
static void FDP_K(fall)(const double *x, const double *mass, double *out, size_t n)
{
    FDP_INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        const double y = x[j] < -700.0 ? -700.0 : x[j];
        const double shifted = y * 0x1.71547652b82fep+0 + 0x1.8p52;
        const double k = shifted - 0x1.8p52;
        const double r = (y - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
        double s = 1.0 / 87178291200.0;
        s = s * r + 1.0 / 6227020800.0;
        s = s * r + 1.0 / 479001600.0;
        s = s * r + 1.0 / 39916800.0;
        s = s * r + 1.0 / 3628800.0;
        s = s * r + 1.0 / 362880.0;
        s = s * r + 1.0 / 40320.0;
        s = s * r + 1.0 / 5040.0;
        s = s * r + 1.0 / 720.0;
        s = s * r + 1.0 / 120.0;
        s = s * r + 1.0 / 24.0;
        s = s * r + 1.0 / 6.0;
        s = s * r + 0.5;
        s = s * r + 1.0;
        int64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (int64_t)((uint64_t)bits << 52) + 0x3ff0000000000000;
        double power;
        memcpy(&power, &bits, sizeof power);
        out[j] = mass[j] * (power * (s * r) + (power - 1.0));
    }
}
