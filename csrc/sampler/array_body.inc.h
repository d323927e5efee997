/* array_body.inc.h: what happens to arrays of values between a sampler kernel
 * and the caller's memory, compiled once per level: marking the lanes that need
 * more, packing accepted values, adding noise to data. A level that has better
 * instructions for a function defines FDP_HAVE_... and its own version. */

#ifndef FDP_HAVE_SPECIAL
static void FDP_K(special32)(const int32_t *restrict value, uint64_t *restrict mask,
                             size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        uint64_t bits = 0;
        for (size_t k = 0; k < 64; k++) {
            bits |= (uint64_t)(value[i + k] <= FDP_UNDECIDED32) << k;
        }
        mask[i / 64] = bits;
    }
}

static void FDP_K(special64)(const int64_t *restrict value, uint64_t *restrict mask,
                             size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        uint64_t bits = 0;
        for (size_t k = 0; k < 64; k++) {
            bits |= (uint64_t)(value[i + k] <= FDP_UNDECIDED64) << k;
        }
        mask[i / 64] = bits;
    }
}
#endif

#ifndef FDP_HAVE_COMPACT
/* (tagged - keep) / 2 without a 64-bit arithmetic shift, which AVX2 lacks. */
static inline int64_t FDP_K(untag64)(int64_t tagged)
{
    const uint64_t half = (uint64_t)tagged >> 1;
    return (int64_t)((half ^ (UINT64_C(1) << 62)) - (UINT64_C(1) << 62));
}

static size_t FDP_K(compact32)(const int32_t *restrict tagged, int32_t *restrict out,
                               size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        out[kept] = tagged[i] >> 1;
        kept += (size_t)(tagged[i] & 1);
    }
    return kept;
}

static size_t FDP_K(compact64)(const int64_t *restrict tagged, int64_t *restrict out,
                               size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        out[kept] = FDP_K(untag64)(tagged[i]);
        kept += (size_t)(tagged[i] & 1);
    }
    return kept;
}
#endif

#ifndef FDP_HAVE_SELECT
/* No byte shuffle on this level: every table entry is read for every lane, so
 * that no address depends on a word. */
typedef uint8_t FDP_K(bytes) __attribute__((vector_size(16)));

/* One table with each entry in all lanes, and the entries' numbers likewise. */
typedef struct {
    FDP_K(bytes) entry[32];
} FDP_K(table);

static void FDP_K(spread)(FDP_K(table) *to, const uint8_t from[32])
{
    for (int k = 0; k < 32; k++) {
        to->entry[k] = (FDP_K(bytes)){0} + from[k];
    }
}

static inline FDP_K(bytes) FDP_K(lookup)(const FDP_K(table) *table,
                                         const FDP_K(table) *number,
                                         FDP_K(bytes) index)
{
    FDP_K(bytes) value = {0};
    for (int k = 0; k < 32; k++) {
        value |= (FDP_K(bytes))(index == number->entry[k]) & table->entry[k];
    }
    return value;
}

static void FDP_K(gaussian_select)(const fdp_gaussian_t *law,
                                   const uint16_t *restrict word,
                                   uint8_t *restrict block,
                                   uint16_t *restrict height, size_t n)
{
    FDP_K(table) cuts, aliases, lows, highs, numbers;
    FDP_K(spread)(&cuts, law->cut);
    FDP_K(spread)(&aliases, law->alias);
    FDP_K(spread)(&lows, law->height_low);
    FDP_K(spread)(&highs, law->height_high);
    for (int k = 0; k < 32; k++) {
        numbers.entry[k] = (FDP_K(bytes)){0} + (uint8_t)k;
    }
    for (size_t i = 0; i < n; i += 16) {
        uint8_t columns[16], us[16], low_bytes[16], high_bytes[16];
        for (size_t k = 0; k < 16; k++) {
            columns[k] = (uint8_t)((word[i + k] >> 8) & 31);
            us[k] = (uint8_t)word[i + k];
        }
        FDP_K(bytes) column, u;
        memcpy(&column, columns, sizeof column);
        memcpy(&u, us, sizeof u);
        const FDP_K(bytes) cut = FDP_K(lookup)(&cuts, &numbers, column);
        const FDP_K(bytes) alias = FDP_K(lookup)(&aliases, &numbers, column);
        const FDP_K(bytes) below = (FDP_K(bytes))(u < cut);
        const FDP_K(bytes) h = (alias & below) | (column & ~below);
        const FDP_K(bytes) low = FDP_K(lookup)(&lows, &numbers, h);
        const FDP_K(bytes) high = FDP_K(lookup)(&highs, &numbers, h);
        memcpy(block + i, &h, sizeof h);
        memcpy(low_bytes, &low, sizeof low);
        memcpy(high_bytes, &high, sizeof high);
        for (size_t k = 0; k < 16; k++) {
            height[i + k] = (uint16_t)(low_bytes[k] | ((uint32_t)high_bytes[k] << 8));
        }
    }
}
#endif

static void FDP_K(add_narrow)(const int64_t *x, const int32_t *restrict noise,
                              int64_t *out, size_t n)
{
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        out[i] = fdp_add_saturate(x[i], noise[i]);
    }
}

static void FDP_K(add_wide)(const int64_t *x, const int64_t *restrict noise,
                            int64_t *out, size_t n)
{
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        out[i] = fdp_add_saturate(x[i], noise[i]);
    }
}

#ifndef FDP_HAVE_ADD_GRID
/* a if c, else b, by masks: a choice of doubles may become a branch, on data. */
static inline double FDP_K(pick)(int c, double a, double b)
{
    const uint64_t mask = c ? ~UINT64_C(0) : 0;
    return fdp_bits_double((fdp_double_bits(a) & mask) | (fdp_double_bits(b) & ~mask));
}

/* Both addends are multiples of the step (or x is so large that it is one), so
 * the sum is the correctly rounded value of an exact sum: post-processing. */
static void FDP_K(add_grid)(const fdp_grid_t *grid, const double *x,
                            const int64_t *restrict noise, double *out, size_t n)
{
    const double step = grid->step, low = grid->low, high = grid->high;
    const double nan = grid->nan;
    const double anchor = step * 0x1p52, largest = 0x1.fffffffffffffp1023;
    const uint64_t sign_bit = UINT64_C(1) << 63;
    FDP_INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        double v = x[i];
        v = FDP_K(pick)(v == v, v, nan);
        v = FDP_K(pick)(v < low, low, v);
        v = FDP_K(pick)(v > high, high, v);
        const uint64_t sign = fdp_double_bits(v) & sign_bit;
        const double size = fdp_bits_double(fdp_double_bits(v) ^ sign);
        const double snapped = (size + anchor) - anchor;
        const double on_grid = FDP_K(pick)(size < anchor, snapped, size);
        const double base = fdp_bits_double(fdp_double_bits(on_grid) | sign);
        double y = base + fdp_from_small(noise[i]) * step;
        y = FDP_K(pick)(y > largest, largest, y);
        y = FDP_K(pick)(y < -largest, -largest, y);
        out[i] = y;
    }
}
#endif
