/* proposal_body.inc.h: integer upper bounds of weights, compiled once per level. All operations
 * except the gap are on integers, and the gap takes three operations that no compiler may contract.
 * So the bounds are the same numbers on every level, as the law of the words requires.
 * docs/proofs/selection.md, section 4. */

/* The product a b of numbers below 2^32. */
#if FDP_X86_64 && FDP_WIDTH == 8
#define FDP_PRODUCT(a, b) (FDP_K(units))_mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#elif FDP_X86_64 && FDP_WIDTH == 4
#define FDP_PRODUCT(a, b) (FDP_K(units))_mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#elif FDP_X86_64
#define FDP_PRODUCT(a, b) (FDP_K(units))_mm_mul_epu32((__m128i)(a), (__m128i)(b))
#else
#define FDP_PRODUCT(a, b) ((a) * (b))
#endif

/* c + floor(a b / 2^24) and c + a b, for a < 2^24 and b < 2^28. */
#if defined(FDP_MADD52)
#define FDP_LAST(c, a, b) FDP_MADD52(lo, none + c, a, b)
#define FDP_STEP(c, a, b) FDP_MADD52(hi, none + c, a << 28, b)
#else
#define FDP_STEP(c, a, b) (c + (FDP_PRODUCT(a, b) >> 24))
#define FDP_LAST(c, a, b) (c + FDP_PRODUCT(a, b))
#endif

/* An upper bound of 2^51 2^-z, before a shift by *down. The last bits of z + 2^28 are z in
 * multiples of 2^-24. */
static inline FDP_K(units) FDP_K(power)(FDP_K(doubles) z, FDP_K(units) *down)
{
    const FDP_K(units) none = {0};
    const FDP_K(units) bits = (FDP_K(units))(z + 0x1p28);
    const FDP_K(units) f = ~bits & ((UINT64_C(1) << 24) - 1);
    FDP_K(units) t = FDP_STEP(FDP_PROPOSAL_C4, f, (none + FDP_PROPOSAL_C5));
    t = FDP_STEP(FDP_PROPOSAL_C3, f, t);
    t = FDP_STEP(FDP_PROPOSAL_C2, f, t);
    t = FDP_STEP(FDP_PROPOSAL_C1, f, t);
    *down = (bits & ((UINT64_C(1) << 30) - 1)) >> 24;
    return FDP_LAST(FDP_PROPOSAL_C0, f, t);
}

/* ---- candidates ------------------------------------------------------------------- */

/* The distances from the largest score; NaN if the score is NaN. */
static inline FDP_K(doubles) FDP_K(gap_f64)(const fdp_row_t *from, size_t i,
                                            const fdp_proposal_t *law)
{
    FDP_K(doubles) s;
    memcpy(&s, (const double *)from->score + i, sizeof s);
    s = FDP_LEAST(FDP_K(all_of)(FDP_DOUBLE_MOST), s);
    return FDP_K(all_of)(law->top.f64) - s;
}

static inline FDP_K(doubles) FDP_K(gap_i64)(const fdp_row_t *from, size_t i,
                                            const fdp_proposal_t *law)
{
    FDP_K(units) s;
    memcpy(&s, (const uint64_t *)from->score + i, sizeof s);
    const FDP_K(units) gap = (uint64_t)law->top.i64 - s;
    const FDP_K(units) low = (gap & 0xffffffffu) | 0x4330000000000000u;
    const FDP_K(units) high = (gap >> 32) | 0x4530000000000000u;
    return ((FDP_K(doubles))high - 0x1p84) + ((FDP_K(doubles))low - 0x1p52);
}

/* The same as `take_apart`, with the exponents that come with the weights. */
static inline FDP_K(units) FDP_K(based)(const fdp_row_t *from, size_t i,
                                        FDP_K(doubles) *exponent)
{
    const FDP_K(units) bits = FDP_K(take_apart)(from->weight + i, exponent);
    if (from->exponent != NULL) {
        FDP_K(doubles) more;
        memcpy(&more, from->exponent + i, sizeof more);
        *exponent += more;
    }
    return bits;
}

/* Distances of scores from the largest one: infinite if lost, 0 with `all`. */
#define FDP_GAPS(type, away)                                                            \
    static void FDP_K(gaps_##type)(const void *score, const uint64_t *lost, size_t n,   \
                                   fdp_score_t largest, double rate, uint64_t all,      \
                                   double *restrict gap)                                \
    {                                                                                   \
        const fdp_row_t from = {.score = score};                                        \
        const fdp_proposal_t law = {.top = largest};                                    \
        for (size_t i = 0; i < n; i += FDP_WIDTH) {                                     \
            FDP_K(doubles) s, x = FDP_K(gap_##type)(&from, i, &law);                    \
            memcpy(&s, (const double *)score + i, sizeof s);                            \
            FDP_K(units) none = away, gone;                                             \
            if (lost != NULL) {                                                         \
                memcpy(&gone, lost + i, sizeof gone);                                   \
                none |= gone;                                                           \
            }                                                                           \
            x = FDP_LEAST(x * FDP_K(all_of)(rate), FDP_K(all_of)(FDP_GAP_FAR));         \
            x = FDP_K(either)((FDP_K(masks))none, FDP_K(all_of)(INFINITY), x);          \
            gone = (FDP_K(units))x & ~all;                                              \
            memcpy(gap + i, &gone, sizeof gone);                                        \
        }                                                                               \
    }

FDP_GAPS(f64, ~(FDP_K(units))(s > FDP_K(all_of)(-INFINITY)))
FDP_GAPS(i64, {0})

/* ---- flips ------------------------------------------------------------------------ */

/* The signs of the lanes, as bits. */
static inline uint64_t FDP_K(signs)(FDP_K(units) lanes)
{
#if FDP_X86_64 && FDP_WIDTH == 8
    return _mm512_movepi64_mask((__m512i)lanes);
#elif FDP_X86_64 && FDP_WIDTH == 4
    return (uint64_t)_mm256_movemask_pd((__m256d)lanes);
#elif FDP_X86_64
    return (uint64_t)_mm_movemask_pd((__m128d)lanes);
#else
    uint64_t bits = 0;
    for (size_t j = 0; j < FDP_WIDTH; j++) {
        bits |= lanes[j] >> 63 << j;
    }
    return bits;
#endif
}

/* Whether a < b, as bits: gcc does not take them from a comparison of vectors. */
static inline uint64_t FDP_K(less)(FDP_K(doubles) a, FDP_K(doubles) b)
{
#if FDP_X86_64 && FDP_WIDTH == 8
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
#else
    return FDP_K(signs)((FDP_K(units))(a < b));
#endif
}

/* e^-x for x in [0, 700], as a product of two factors, the second one a power of 2 where there are
 * no tables of 16 doubles. With them, it is 2^(-m/16), and the first one has fewer terms. */
#if FDP_X86_64 && FDP_WIDTH == 8
/* The bits of 2^(-j/16), plus j 2^48: less m 2^48 with m = j mod 16, those of 2^(-m/16). */
static const uint64_t FDP_K(roots)[16] = {
    0x3ff0000000000000, 0x3fefa4afa2a490da, 0x3fef5818dcfba487, 0x3fef199bdd85529c,
    0x3feee89f995ad3ad, 0x3feec49182a3f090, 0x3feeace5422aa0db, 0x3feea11473eb0187,
    0x3feea09e667f3bcd, 0x3feeab07dd485429, 0x3feebfdad5362a27, 0x3feedea64c123422,
    0x3fef06fe0a31b715, 0x3fef387a6e756238, 0x3fef72b83c7d517b, 0x3fefb5586cf9890f};

static inline FDP_K(doubles) FDP_K(decay)(FDP_K(doubles) x, FDP_K(doubles) *second)
{
    const __m512d y = (__m512d)x, shift = _mm512_set1_pd(0x1.8p52);
    const __m512d moved = _mm512_fmadd_pd(y, _mm512_set1_pd(16 * FDP_LOG2E), shift);
    const __m512d m = _mm512_sub_pd(moved, shift);
    const __m512d near = _mm512_fmsub_pd(m, _mm512_set1_pd(FDP_LN2_HI / 16), y);
    const __m512d r = _mm512_fmadd_pd(m, _mm512_set1_pd(FDP_LN2_LO / 16), near);
    const __m512i bits = _mm512_castpd_si512(moved);
    const __m512i root = _mm512_permutex2var_epi64(_mm512_loadu_si512(FDP_K(roots)), bits,
                                                   _mm512_loadu_si512(FDP_K(roots) + 8));
    *second = (FDP_K(doubles))_mm512_sub_epi64(root, _mm512_slli_epi64(bits, 48));
    static const double term[] = {1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0};
    __m512d sum = _mm512_set1_pd(1.0 / 5040);
    for (size_t i = 0; i < sizeof term / sizeof *term; i++) {
        sum = _mm512_fmadd_pd(sum, r, _mm512_set1_pd(term[i]));
    }
    return (FDP_K(doubles))sum;
}
#else
static inline FDP_K(doubles) FDP_K(decay)(FDP_K(doubles) x, FDP_K(doubles) *second)
{
    const FDP_K(doubles) moved = x * FDP_LOG2E + 0x1.8p52;
    const FDP_K(doubles) k = moved - 0x1.8p52;
    const FDP_K(doubles) r = (k * FDP_LN2_HI - x) + k * FDP_LN2_LO;
    *second = (FDP_K(doubles))((1023 - (FDP_K(units))moved) << 52);
    return FDP_EXP_EVAL(r);
}
#endif

/* e^-gap minus a number in [0, 1). */
#define FDP_FLIPS(type)                                                                 \
    static inline FDP_K(doubles) FDP_K(beyond_##type)(                                  \
        const fdp_row_t *from, size_t i, const uint64_t *word, const fdp_proposal_t *law) \
    {                                                                                   \
        FDP_K(units) w;                                                                 \
        memcpy(&w, word + i, sizeof w);                                                 \
        const FDP_K(doubles) v =                                                        \
            (FDP_K(doubles))((w >> 12) | 0x3ff0000000000000u) - 1.0;                    \
        const FDP_K(doubles) x =                                                        \
            FDP_LEAST(FDP_K(gap_##type)(from, i, law) * FDP_K(all_of)(law->rate),       \
                      FDP_K(all_of)(law->most));                                        \
        FDP_K(doubles) second;                                                          \
        const FDP_K(doubles) first = FDP_K(decay)(x, &second);                          \
        return first * second - v;                                                      \
    }                                                                                   \
    static void FDP_K(flips_##type)(const fdp_row_t *from, const uint64_t *word,        \
                                    size_t n, const fdp_proposal_t *law,                \
                                    uint64_t *kept, uint64_t *open)                     \
    {                                                                                   \
        for (size_t i = 0; i < n; i += 64) {                                            \
            uint64_t down = 0, near = 0;                                                \
            for (size_t p = 0; p < 64 && p < n - i; p += FDP_WIDTH) {                   \
                const FDP_K(doubles) beyond =                                           \
                    FDP_K(beyond_##type)(from, i + p, word, law);                       \
                down |= FDP_K(signs)((FDP_K(units))beyond) << p;                        \
                near |= FDP_K(less)(beyond * beyond,                                    \
                                    FDP_K(all_of)(FDP_FLIP_CLOSE * FDP_FLIP_CLOSE))     \
                        << p;                                                           \
            }                                                                           \
            kept[i / 64] = ~down;                                                       \
            open[i / 64] = near;                                                        \
        }                                                                               \
    }

FDP_FLIPS(f64)
FDP_FLIPS(i64)

/* ---- bounds ----------------------------------------------------------------------- */

/* The bounds minus 1. If all weights are 1, they are bounds of 2^51 2^-(gap rate); for weights
 * mantissa 2^exponent, of 2^51 mantissa 2^-(place - exponent + gap rate). */
#define FDP_BOUNDS(type)                                                                \
    static inline FDP_K(units) FDP_K(bound_##type)(const fdp_row_t *from, size_t i,     \
                                                   const fdp_proposal_t *law)           \
    {                                                                                   \
        FDP_K(units) down;                                                              \
        const FDP_K(doubles) gap = FDP_K(gap_##type)(from, i, law);                     \
        const FDP_K(units) power = FDP_K(power)(                                        \
            FDP_LEAST(gap * FDP_K(all_of)(law->rate), FDP_K(all_of)(law->most)),        \
            &down);                                                                     \
        return power >> down;                                                           \
    }                                                                                   \
    /* A weight of 0 may have a score above the largest one that counts. */             \
    static inline FDP_K(doubles) FDP_K(depth_##type)(const fdp_row_t *from, size_t i,   \
                                                     const fdp_proposal_t *law)         \
    {                                                                                   \
        const FDP_K(doubles) gap = FDP_K(gap_##type)(from, i, law);                     \
        return FDP_MOST(FDP_LEAST(gap * FDP_K(all_of)(law->rate),                       \
                                  FDP_K(all_of)(FDP_PROPOSAL_FAR)),                     \
                        FDP_K(all_of)(0.0));                                            \
    }                                                                                   \
    static inline FDP_K(units) FDP_K(bound_based_##type)(                               \
        const fdp_row_t *from, size_t i, const fdp_proposal_t *law)                     \
    {                                                                                   \
        FDP_K(units) down;                                                              \
        FDP_K(doubles) exponent;                                                        \
        const FDP_K(units) bits = FDP_K(based)(from, i, &exponent);                     \
        const FDP_K(doubles) z =                                                        \
            (law->place - exponent) + FDP_K(depth_##type)(from, i, law);                \
        const FDP_K(units) power =                                                      \
            FDP_K(power)(FDP_LEAST(z, FDP_K(all_of)(law->most)), &down);                \
        const FDP_K(units) mantissa = ((bits & law->mantissa) >> 25) + ((1 << 27) + 2); \
        return FDP_PRODUCT((power >> 28) + 1, mantissa) >> down;                        \
    }                                                                                   \
    static double FDP_K(place_##type)(const fdp_row_t *from, size_t n,                  \
                                      const fdp_proposal_t *law)                        \
    {                                                                                   \
        FDP_K(doubles) most = FDP_K(all_of)(-INFINITY), exponent;                       \
        for (size_t i = 0; i < n; i += FDP_WIDTH) {                                     \
            FDP_K(based)(from, i, &exponent);                                           \
            const FDP_K(doubles) at = exponent - FDP_K(depth_##type)(from, i, law);     \
            most = FDP_MOST(at, most);                                                  \
        }                                                                               \
        double best = -INFINITY;                                                        \
        for (size_t j = 0; j < FDP_WIDTH; j++) {                                        \
            best = FDP_K(choose)(FDP_MASK(most[j] > best), most[j], best);              \
        }                                                                               \
        return best;                                                                    \
    }

FDP_BOUNDS(f64)
FDP_BOUNDS(i64)

static const uint64_t FDP_K(number)[FDP_LANES] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                  8, 9, 10, 11, 12, 13, 14, 15};

/* Computes where each lane starts if the lanes are concatenated. Returns the total. */
static uint64_t FDP_K(lay_out)(const FDP_K(units) *sum, uint64_t *start)
{
    uint64_t lane[FDP_LANES], until = 0;
    memcpy(lane, sum, sizeof lane);
    for (size_t l = 0; l < FDP_LANES; l++) {
        start[l] = until;
        until += lane[l];
    }
    return until;
}

/* Defines the kernels for both kinds of scores, with weights and without. */
#define FDP_PROPOSALS(kind)                                                             \
    static void FDP_K(totals_##kind)(const fdp_row_t *from, size_t nodes,               \
                                     const fdp_proposal_t *law, uint64_t *total)        \
    {                                                                                   \
        for (size_t b = 0; b < nodes; b++) {                                            \
            const size_t at = b * FDP_NODE;                                             \
            FDP_K(units) sum[2] = {{0}, {0}};                                           \
            for (size_t i = 0; i < FDP_NODE; i += 2 * FDP_WIDTH) {                      \
                sum[0] += FDP_K(bound_##kind)(from, at + i, law);                       \
                sum[1] += FDP_K(bound_##kind)(from, at + i + FDP_WIDTH, law);           \
            }                                                                           \
            sum[0] += sum[1];                                                           \
            uint64_t all = FDP_NODE;                                                    \
            for (size_t j = 0; j < FDP_WIDTH; j++) {                                    \
                all += sum[0][j];                                                       \
            }                                                                           \
            total[b] = all;                                                             \
        }                                                                               \
    }                                                                                   \
    static uint64_t FDP_K(bounds_##kind)(const fdp_row_t *from, size_t n, size_t count, \
                                         const fdp_proposal_t *law, uint64_t *weight,   \
                                         uint64_t *start)                               \
    {                                                                                   \
        FDP_K(units) sum[FDP_PARTS] = {{0}}, left;                                      \
        memcpy(&left, FDP_K(number), sizeof left);                                      \
        left -= count; /* the sign is set where there is a candidate */                 \
        for (size_t i = 0; i < n; i += FDP_LANES) {                                     \
            for (size_t p = 0; p < FDP_PARTS; p++, left += FDP_WIDTH) {                 \
                const size_t at = i + p * FDP_WIDTH;                                    \
                const FDP_K(units) w = (FDP_K(bound_##kind)(from, at, law) + 1) &       \
                                       (0 - (left >> 63));                              \
                memcpy(weight + at, &w, sizeof w);                                      \
                sum[p] += w;                                                            \
            }                                                                           \
        }                                                                               \
        return FDP_K(lay_out)(sum, start);                                              \
    }

FDP_PROPOSALS(f64)
FDP_PROPOSALS(i64)
FDP_PROPOSALS(based_f64)
FDP_PROPOSALS(based_i64)

#if FDP_X86_64 && FDP_WIDTH == 8
#define FDP_LESSER_OF(a, b) (FDP_K(masks))_mm512_min_epi64((__m512i)(a), (__m512i)(b))
#define FDP_LARGER_OF(a, b) (FDP_K(masks))_mm512_max_epi64((__m512i)(a), (__m512i)(b))
#else
#define FDP_LESSER_OF(a, b) FDP_K(either_of)((a) < (b), a, b)
#define FDP_LARGER_OF(a, b) FDP_K(either_of)((a) > (b), a, b)
static inline FDP_K(masks) FDP_K(either_of)(FDP_K(masks) mask, FDP_K(masks) a, FDP_K(masks) b)
{
    return (mask & a) | (~mask & b);
}
#endif

static void FDP_K(range)(const double *weight, size_t n, int64_t found[3])
{
    FDP_K(masks) most = {0}, above = most + INT64_MAX;
    FDP_K(units) below = {0}; /* the sign is set if a weight is negative */
    FDP_K(units) bits, last = {0};
    memcpy(&last, weight + n - n % FDP_WIDTH, n % FDP_WIDTH * sizeof *weight);
    for (size_t i = 0; i < n; i += FDP_WIDTH) {
        memcpy(&bits, n - i < FDP_WIDTH ? (const double *)&last : weight + i, sizeof bits);
        const FDP_K(units) size = bits << 1;
        below |= bits & (size | (0 - size));
        bits = size >> 1;
        most = FDP_LARGER_OF(most, (FDP_K(masks))bits);
        above = FDP_LESSER_OF(above, (FDP_K(masks))((bits - 1) << 1 >> 1));
    }
    found[0] = found[2] = 0;
    found[1] = INT64_MAX;
    for (size_t j = 0; j < FDP_WIDTH; j++) {
        found[0] = most[j] > found[0] ? most[j] : found[0];
        found[1] = above[j] < found[1] ? above[j] : found[1];
        found[2] |= (int64_t)below[j];
    }
}

#undef FDP_LESSER_OF
#undef FDP_LARGER_OF

/* Marks the candidates that are lost because their weight is 0. */
static uint64_t FDP_K(mark)(const double *weight, size_t n, uint64_t *lost)
{
    FDP_K(units) bits, all = ~(FDP_K(units)){0};
    for (size_t i = 0; i < n; i += FDP_WIDTH) {
        memcpy(&bits, weight + i, sizeof bits);
        bits = 0 - (((bits & (~UINT64_C(0) >> 1)) - 1) >> 63);
        memcpy(lost + i, &bits, sizeof bits);
        all &= bits;
    }
    uint64_t lane[FDP_WIDTH], none = FDP_ONES; /* if `all` were indexed, gcc would keep it in
                                                * memory */
    memcpy(lane, &all, sizeof lane);
    for (size_t j = 0; j < FDP_WIDTH; j++) {
        none &= lane[j];
    }
    return none;
}

/* All ones if a <= b; both are below 2^63. */
#if FDP_X86_64 && FDP_WIDTH == 2 /* SSE2 cannot compare 64-bit integers */
#define FDP_REACHED(a, b) (0 - (~((b) - (a)) >> 63))
#else
#define FDP_REACHED(a, b) (FDP_K(units))((FDP_K(masks))(a) <= (FDP_K(masks))(b))
#endif

/* Finds the one of n weights that a point of their sum falls on. */
static void FDP_K(find)(const uint64_t *score, const uint64_t *weight, size_t n,
                        const uint64_t *first, uint64_t point, fdp_found_t *found)
{
    const FDP_K(units) none = {0}, at_point = none + point;
    FDP_K(units) own = none, rest = none, what = none, where = none;
    for (size_t p = 0; p < FDP_LANES; p += FDP_WIDTH) {
        FDP_K(units) start, place, w, s;
        memcpy(&start, first + p, sizeof start);
        memcpy(&place, FDP_K(number) + p, sizeof place);
        FDP_K(units) reached = FDP_REACHED(start, at_point);
        for (size_t i = p; i < n; i += FDP_LANES) {
            memcpy(&w, weight + i, sizeof w);
            memcpy(&s, score + i, sizeof s);
            const FDP_K(units) end = start + w, beyond = FDP_REACHED(end, at_point);
            const FDP_K(units) here = reached & ~beyond;
            own |= w & here;
            rest |= (at_point - start) & here;
            what |= s & here;
            where |= place & here;
            start = end;
            reached = beyond;
            place += FDP_LANES;
        }
    }
    *found = (fdp_found_t){0};
    for (size_t j = 0; j < FDP_WIDTH; j++) {
        found->bound |= own[j];
        found->rest |= rest[j];
        found->score |= what[j];
        found->place |= where[j];
    }
}

#undef FDP_REACHED
#define FDP_SLICE 4 /* vectors of a node that are read together, for both tries */
#define FDP_TILE 32 /* nodes whose slices are all read before those of other nodes */

/* Copies the entries of nodes index[0] and index[1]; all whole nodes are read. */
static void FDP_K(fetch_two)(const uint64_t *from, size_t nodes, const uint64_t index[2],
                             uint64_t (*to)[FDP_NODE])
{
    memset(to, 0, 2 * sizeof *to);
    for (size_t tile = 0; tile < nodes; tile += FDP_TILE) {
        const size_t end = nodes - tile < FDP_TILE ? nodes : tile + FDP_TILE;
        for (size_t at = 0; at < FDP_NODE; at += FDP_SLICE * FDP_WIDTH) {
            FDP_K(units) found[2][FDP_SLICE], part;
            memcpy(found[0], to[0] + at, sizeof found[0]);
            memcpy(found[1], to[1] + at, sizeof found[1]);
            for (size_t b = tile; b < end; b++) {
                const uint64_t first = fdp_mask(b == index[0]);
                const uint64_t second = fdp_mask(b == index[1]);
                const uint64_t *slice = from + b * FDP_NODE + at;
                for (size_t p = 0; p < FDP_SLICE; p++) {
                    memcpy(&part, slice + p * FDP_WIDTH, sizeof part);
                    found[0][p] |= part & first;
                    found[1][p] |= part & second;
                }
            }
            memcpy(to[0] + at, found[0], sizeof found[0]);
            memcpy(to[1] + at, found[1], sizeof found[1]);
        }
    }
}

#undef FDP_TILE
#undef FDP_SLICE
#undef FDP_PROPOSALS
#undef FDP_BOUNDS
#undef FDP_FLIPS
#undef FDP_GAPS
#undef FDP_PRODUCT
#undef FDP_STEP
#undef FDP_LAST
