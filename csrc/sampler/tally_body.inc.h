/* tally_body.inc.h: counts of public reports, and sums of losses, compiled once per level. Timing
 * class T0: reports and laws are public. */

typedef uint32_t FDP_K(lane8) __attribute__((vector_size(32), aligned(4)));
typedef int32_t FDP_K(mask8) __attribute__((vector_size(32), aligned(4)));

/* Adds the support of four users' reports to count[v], for n (a multiple of 8) categories from
 * `start` on. User u supports v if slope v + offset < limit, as signed numbers (fdp_support_t). */
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

typedef uint64_t FDP_K(lanes) __attribute__((vector_size(FDP_VECTOR)));
/* The same vector at any address: gcc 12 copies 32 bytes in halves, by way of the stack. */
typedef FDP_K(lanes) FDP_K(lanes_at) __attribute__((aligned(1), may_alias));
#define FDP_AT(p) (*(FDP_K(lanes_at) *)(void *)(p))
#define FDP_FROM(p) (*(const FDP_K(lanes_at) *)(const void *)(p))

/* The sum and carry of three bits in every position; sum may be one of the inputs. */
#ifndef FDP_ADD3
#define FDP_ADD3(a, b, c, sum, carry)                                     \
    do {                                                                  \
        const FDP_K(lanes) half = (a) ^ (b), first = (a), third = (c);    \
        sum = half ^ third;                                               \
        carry = first ^ (half & (first ^ third));                         \
    } while (0)
#endif

/* Adds two more rows to the count of ones; the carry counts twos. */
#define FDP_TWO(carry, k)                                             \
    do {                                                              \
        const FDP_K(lanes) even = FDP_FROM(row + (k) * stride + w);       \
        const FDP_K(lanes) odd = FDP_FROM(row + ((k) + 1) * stride + w);  \
        FDP_ADD3(one, even, odd, one, carry);                             \
    } while (0)
#define FDP_FOUR(carry, k)                    \
    do {                                      \
        FDP_K(lanes) a2, b2;                  \
        FDP_TWO(a2, k);                       \
        FDP_TWO(b2, (k) + 2);                 \
        FDP_ADD3(two, a2, b2, two, carry);    \
    } while (0)
#define FDP_EIGHT(carry, k)                   \
    do {                                      \
        FDP_K(lanes) a4, b4;                  \
        FDP_FOUR(a4, k);                      \
        FDP_FOUR(b4, (k) + 4);                \
        FDP_ADD3(four, a4, b4, four, carry);  \
    } while (0)

/* Adds the bits of 16 rows of n bytes (a multiple of 64), `stride` apart, to 8-bit counters
 * stored in planes: bit p of a column's counter is the column's bit in plane p, which begins at
 * byte p n. */
static void FDP_K(columns16)(const uint8_t *restrict row, size_t stride,
                             uint8_t *restrict plane, size_t n)
{
    for (size_t w = 0; w < n; w += FDP_VECTOR) {
        FDP_K(lanes) one = FDP_AT(plane + w), two = FDP_AT(plane + n + w);
        FDP_K(lanes) four = FDP_AT(plane + 2 * n + w), eight = FDP_AT(plane + 3 * n + w);
        FDP_K(lanes) carry, a8, b8;
        FDP_EIGHT(a8, 0);
        FDP_EIGHT(b8, 8);
        FDP_ADD3(eight, a8, b8, eight, carry);
        FDP_AT(plane + w) = one;
        FDP_AT(plane + n + w) = two;
        FDP_AT(plane + 2 * n + w) = four;
        FDP_AT(plane + 3 * n + w) = eight;
        for (size_t p = 4; p < 8; p++) {
            const FDP_K(lanes) bit = FDP_AT(plane + p * n + w);
            FDP_AT(plane + p * n + w) = bit ^ carry;
            carry &= bit;
        }
    }
}
#undef FDP_EIGHT
#undef FDP_FOUR
#undef FDP_TWO
#undef FDP_ADD3

/* One step of a transposition: in each group of 2 x 2 parts of `bits` bits (indexed by the word's
 * number and the part's place in it), exchanges the two parts that are not on the diagonal. */
FDP_ALWAYS_INLINE void FDP_K(exchange)(FDP_K(lanes) word[8], size_t apart, int bits,
                                       uint64_t low)
{
    for (size_t k = 0; k < 8; k++) {
        if ((k & apart) == 0) {
            const FDP_K(lanes) moved = ((word[k] >> bits) ^ word[k + apart]) & low;
            word[k + apart] ^= moved;
            word[k] ^= moved << bits;
        }
    }
}

/* Adds the counters of the planes (columns16) to the counts of their columns. The first column of a
 * byte is its highest bit. */
static void FDP_K(columns_add)(const uint8_t *restrict plane, size_t n,
                               int64_t *restrict count, size_t columns)
{
#if FDP_VECTOR == 64
    const FDP_K(lanes) byte = {0, 8, 16, 24, 32, 40, 48, 56};
#elif FDP_VECTOR == 32
    const FDP_K(lanes) byte = {0, 8, 16, 24};
#else
    const FDP_K(lanes) byte = {0, 8};
#endif
    for (size_t w = 0; 8 * w < columns; w += FDP_VECTOR) {
        FDP_K(lanes) word[8], back[8];
        FDP_ALIGNED(64) uint8_t sum[8 * FDP_VECTOR];
        for (size_t p = 0; p < 8; p++) {
            word[p] = FDP_FROM(plane + p * n + w);
        }
        FDP_K(exchange)(word, 1, 1, UINT64_C(0x5555555555555555));
        FDP_K(exchange)(word, 2, 2, UINT64_C(0x3333333333333333));
        FDP_K(exchange)(word, 4, 4, UINT64_C(0x0f0f0f0f0f0f0f0f));
        /* Byte k of word b is the count of bit b of byte k. */
        for (size_t b = 0; b < 8; b++) {
            back[7 - b] = word[b];
        }
        FDP_K(exchange)(back, 1, 8, UINT64_C(0x00ff00ff00ff00ff));
        FDP_K(exchange)(back, 2, 16, UINT64_C(0x0000ffff0000ffff));
        FDP_K(exchange)(back, 4, 32, UINT64_C(0x00000000ffffffff));
        /* Word k has the counts of byte k in the order of the columns. */
        memcpy(sum, back, sizeof sum);
        const size_t left = columns - 8 * w, whole = left / 8;
        int64_t *to = count + 8 * w;
        size_t k = 0;
        for (; k < FDP_VECTOR && k < whole; k++) {
            uint64_t eight;
            memcpy(&eight, sum + FDP_VECTOR * (k % 8) + k / 8 * 8, sizeof eight);
            for (size_t b = 0; b < 8; b += FDP_VECTOR / 8) {
                const FDP_K(lanes) all = (FDP_K(lanes)){0} + (eight >> (8 * b));
                FDP_AT(to + 8 * k + b) += all >> byte & 255;
            }
        }
        for (size_t b = 0; k < FDP_VECTOR && b < left % 8; b++) {
            to[8 * k + b] += sum[FDP_VECTOR * (k % 8) + k / 8 * 8 + b];
        }
    }
}

/* The lanes that are `apart` lanes away, and which lanes are the second of their pairs. */
#if defined(__clang__)
#define FDP_SWAP(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define FDP_SWAP(x, ...) __builtin_shuffle(x, (FDP_K(lanes)){__VA_ARGS__})
#endif
#define FDP_NO UINT64_C(0)
#define FDP_YES UINT64_MAX
#if FDP_VECTOR == 64
#define FDP_ACROSS(LEVEL)                                                                 \
    LEVEL((FDP_SWAP(x, 1, 0, 3, 2, 5, 4, 7, 6)),                                          \
          {FDP_NO, FDP_YES, FDP_NO, FDP_YES, FDP_NO, FDP_YES, FDP_NO, FDP_YES})           \
    LEVEL((FDP_SWAP(x, 2, 3, 0, 1, 6, 7, 4, 5)),                                          \
          {FDP_NO, FDP_NO, FDP_YES, FDP_YES, FDP_NO, FDP_NO, FDP_YES, FDP_YES})           \
    LEVEL((FDP_SWAP(x, 4, 5, 6, 7, 0, 1, 2, 3)),                                          \
          {FDP_NO, FDP_NO, FDP_NO, FDP_NO, FDP_YES, FDP_YES, FDP_YES, FDP_YES})
#elif FDP_VECTOR == 32
#define FDP_ACROSS(LEVEL)                                                \
    LEVEL((FDP_SWAP(x, 1, 0, 3, 2)), {FDP_NO, FDP_YES, FDP_NO, FDP_YES}) \
    LEVEL((FDP_SWAP(x, 2, 3, 0, 1)), {FDP_NO, FDP_NO, FDP_YES, FDP_YES})
#else
#define FDP_ACROSS(LEVEL) LEVEL((FDP_SWAP(x, 1, 0)), {FDP_NO, FDP_YES})
#endif
#define FDP_LEVEL_ACROSS(swapped, ...)                  \
    {                                                   \
        const FDP_K(lanes) second = __VA_ARGS__;        \
        x = swapped + ((x ^ second) - second);          \
    }

/* The passes whose distance is shorter than a vector. */
FDP_ALWAYS_INLINE FDP_K(lanes) FDP_K(across)(FDP_K(lanes) x)
{
    FDP_ACROSS(FDP_LEVEL_ACROSS)
    return x;
}
#undef FDP_SWAP
#undef FDP_NO
#undef FDP_YES
#undef FDP_ACROSS
#undef FDP_LEVEL_ACROSS

/* The passes at distance `half` and its multiples, as many as `radix` (2, 4, 8) has factors of two,
 * in registers; with `inside` also those within vectors. */
FDP_ALWAYS_INLINE void FDP_K(walsh)(uint64_t *a, size_t n, size_t half, size_t radix,
                                    bool inside)
{
    for (size_t i = 0; i < n; i += radix * half) {
        for (size_t k = i; k < i + half; k += FDP_VECTOR / 8) {
            FDP_K(lanes) x[8];
            for (size_t j = 0; j < radix; j++) {
                x[j] = FDP_AT(a + k + j * half);
                x[j] = inside ? FDP_K(across)(x[j]) : x[j];
            }
            for (size_t apart = 1; apart < radix; apart *= 2) {
                for (size_t j = 0; j < radix; j++) {
                    if ((j & apart) == 0) {
                        const FDP_K(lanes) low = x[j], high = x[j + apart];
                        x[j] = low + high;
                        x[j + apart] = low - high;
                    }
                }
            }
            for (size_t j = 0; j < radix; j++) {
                FDP_AT(a + k + j * half) = x[j];
            }
        }
    }
}

/* The passes of the Walsh-Hadamard transform of n words (a power of 2), at distances from `half`
 * (1, or 64 and more) on; three passes at once if three are left. Sums wrap. */
static void FDP_K(butterflies)(uint64_t *a, size_t n, size_t half)
{
    const size_t lanes = FDP_VECTOR / 8;
    if (half == 1 && n >= 8 * lanes) {
        FDP_K(walsh)(a, n, lanes, 8, true);
        half = 8 * lanes;
    }
    for (; half < lanes && half < n; half *= 2) {
        for (size_t i = 0; i < n; i += 2 * half) {
            for (size_t k = i; k < i + half; k++) {
                const uint64_t x = a[k], y = a[k + half];
                a[k] = x + y;
                a[k + half] = x - y;
            }
        }
    }
    for (; 8 * half <= n; half *= 8) {
        FDP_K(walsh)(a, n, half, 8, false);
    }
    if (4 * half == n) {
        FDP_K(walsh)(a, n, half, 4, false);
    } else if (2 * half == n) {
        FDP_K(walsh)(a, n, half, 2, false);
    }
}
#undef FDP_AT
#undef FDP_FROM

/* sum[i] += table[the first bits of the hash of x[i]]; the last `shift` bits are ignored. */
static void FDP_K(sketch_row)(const fdp_function_t *words, uint32_t shift,
                              const int64_t *restrict table, const uint64_t *restrict x,
                              int64_t *restrict sum, size_t n)
{
    const uint64_t a = words->a, c = words->c, b = words->b;
    for (size_t i = 0; i < n; i++) {
        sum[i] += table[((a + (uint32_t)x[i]) * (c + (x[i] >> 32)) + b) >> shift];
    }
}

/* count[i] += the number of the four seeded reports that support x[i]. */
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

#define FDP_PART 64 /* categories whose errors are worked on together */

/* See fdp_estimate_counts. Products and sums are apart, so that no level fuses them. */
static void FDP_K(estimate)(const fdp_unbiased_t *law, const int64_t *restrict supporters,
                            double *restrict count, double *restrict error, size_t n)
{
    const fdp_unbiased_t l = *law; /* no store changes it: the loops become vectors */
    double spread[FDP_PART];
    for (size_t i = 0; i < n; i += FDP_PART) {
        const size_t part = n - i < FDP_PART ? n - i : FDP_PART;
        for (size_t j = i; j < i + part; j++) {
            count[j] = ((double)(supporters[j] - l.whole) - l.rest) / l.scale;
        }
        for (size_t j = 0; j < part; j++) {
            const double some = count[i + j] > 0 ? count[i + j] : 0;
            const double own = some < l.users ? some : l.users;
            spread[j] = own * l.own;
            error[i + j] = (l.users - own) * l.cross;
        }
        for (size_t j = 0; j < part; j++) {
            error[i + j] = sqrt(error[i + j] + spread[j]) / l.scale;
        }
    }
}
#undef FDP_PART

/* out[j] = mass[j] (e^x[j] - 1) for x <= 0. It is computed as 2^k (e^r - 1) + (2^k - 1) with |r| <=
 * ln(2)/2 and k <= 0, with a Taylor series of 14 terms for e^r - 1. The relative error is at most 3
 * units of 2^-52, also near 0, where k = 0 and r = x (theorem 18 of
 * docs/proofs/numerical_accounting.md). Below -700, e^x - 1 is -1 to all digits. */
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
