/* digits_body.inc.h: the parts of the digit kernels that all levels share, compiled once per level.
 * A level defines `rest` first. If it has better instructions, it also defines `choose`, and
 * FDP_HAVE_CHOOSE. */

#define FDP_UNKNOWN INT64_MIN /* a mark: signed_geometric never returns this value */

/* The tail of a first digit. One uniform real U decides sign and size: s = [U < theta], V = U or U
 * - theta, W = theta or 1 - theta, G = floor(-t ln(V / W)). U has 64 bits, and the arithmetic is in
 * double. Bounds: docs/proofs/kernels.md. */
static void FDP_K(signed_geometric)(const fdp_geometric_t *law,
                                    const uint64_t *restrict word,
                                    int64_t *restrict value, size_t n)
{
    const uint64_t theta = law->theta;
    const double inverse_w0 = law->inverse_w0 * 0x1p-63;
    const double inverse_w1 = law->inverse_w1 * 0x1p-63;
    const double scale = -law->scale;
    const double error = law->error, relative = law->error_relative;
    for (size_t i = 0; i < n; i++) {
        const uint64_t u = word[i];
        /* all ones or zero: masks as wide as the values keep the loop in vectors */
        const uint64_t negative = u < theta ? ~UINT64_C(0) : 0;
        const double a = fdp_from_unsigned((u - (theta & ~negative)) >> 1) + 0.25;
        /* by masks: gcc makes a branch of a choice of doubles, on the sign of the noise */
        const double inverse =
            fdp_bits_double((fdp_double_bits(inverse_w1) & negative) |
                            (fdp_double_bits(inverse_w0) & ~negative));
        const double v = a * inverse;
        const uint64_t split = fdp_double_bits(v) - 0x3fe6a09e667f3bcdu;
        const double k = fdp_bits_double(((split + (UINT64_C(1024) << 52)) >> 52) |
                                         0x4330000000000000u) -
                         (0x1p52 + 1024.0);
        const double f =
            fdp_bits_double((split & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
        const double y = scale * (k * FDP_LN2_HI + (k * FDP_LN2_LO + FDP_LOG_EVAL(f)));
        /* 2^-floor(log2 a), which is at least 1 / a: the width of the unread cell */
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
                             ((uint64_t)FDP_UNKNOWN & undecided));
    }
}

/* The outcome of a word among ascending thresholds: the mask of the first threshold above the word.
 * It is open if the word equals a threshold. */
static void FDP_K(choose)(const uint64_t *edge, const uint64_t *mask, size_t count,
                          const uint64_t *restrict word, uint64_t *restrict clear,
                          uint64_t *restrict open, size_t ranks)
{
    memset(clear, 0, ranks * sizeof *clear);
    for (size_t k = count; k-- > 0;) {
        for (size_t i = 0; i < ranks; i++) {
            const uint64_t below = word[i] < edge[k] ? ~UINT64_C(0) : 0;
            clear[i] = (mask[k] & below) | (clear[i] & ~below);
            open[i] |= word[i] == edge[k] ? 1 : 0;
        }
    }
}

#ifndef FDP_HAVE_HIGHEST
/* The highest set bit of a correction, from the first word (which = 0) or from a copy's word. */
static void FDP_K(highest)(const fdp_digits_t *law, int which,
                           const uint64_t *restrict word, uint64_t *restrict clear,
                           uint64_t *restrict open, size_t ranks)
{
    FDP_K(choose)(which == 0 ? law->top : law->copy, law->mask, law->tops, word, clear,
                  open, ranks);
}
#endif

/* ---- lists ---------------------------------------------------------------- */

/* The number of ranks whose words are read, rounded up: the words of 16 ranks are stored
 * together. */
static inline size_t FDP_K(whole)(size_t ranks)
{
    return (ranks + FDP_RANK_GROUP - 1) / FDP_RANK_GROUP * FDP_RANK_GROUP;
}

/* Gathers word `which` of every rank. */
static void FDP_K(gather)(const fdp_digits_t *law, const uint64_t *word, size_t which,
                          uint64_t *to, size_t ranks)
{
    size_t k = 0;
    do { /* there is at least one rank */
        memcpy(to + k, word + k * fdp_rank_words(law) + which * FDP_RANK_GROUP,
               FDP_RANK_GROUP * sizeof *to);
        k += FDP_RANK_GROUP;
    } while (k < ranks);
}

/* Widens outcomes to the width of what is computed from them. A loop over both widths would use as
 * many values at once as a vector has bytes, far more than there are registers. */
static void FDP_K(widen)(const uint8_t *restrict outcome, uint64_t *restrict id, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        id[i] = outcome[i];
    }
}

static void FDP_K(list_first)(const fdp_digits_t *law, const uint64_t *area,
                              fdp_list_t *list, uint8_t *open, size_t ranks)
{
    FDP_ALIGNED(64) uint64_t word[FDP_RANKS], id[FDP_RANKS];
    FDP_ALIGNED(64) uint8_t outcome[FDP_RANKS];
    FDP_ALIGNED(64) int64_t tail[FDP_RANKS];
    FDP_K(gather)(law, area, 0, word, ranks);
    FDP_K(rest)(law->first_rest, 128, word, outcome, open, ranks);
    FDP_K(gather)(law, area, 1, word, ranks);
    FDP_K(signed_geometric)(&law->tail, word, tail, ranks);
    FDP_K(widen)(outcome, id, ranks);
    const uint64_t tails = law->tails == 0 ? 0 : ~UINT64_C(0);
    for (size_t i = 0; i < ranks; i++) {
        /* all ones where the number is 127 or 0: gcc makes a branch of a comparison */
        const uint64_t last = 0 - (((id[i] ^ 127) - 1) >> 63), none = 0 - ((id[i] - 1) >> 63);
        const uint64_t is_tail = none | (last & tails);
        const uint64_t unknown = (tail[i] == FDP_UNKNOWN ? ~UINT64_C(0) : 0) | ~tails;
        const uint64_t far = (uint64_t)tail[i] + (uint64_t)(tail[i] < 0 ? INT64_C(-63) : INT64_C(63));
        word[i] = (far & is_tail) | ((id[i] - 64) & ~is_tail);
        id[i] = is_tail & unknown;
    }
    for (size_t i = 0; i < ranks; i++) {
        list->low[i] = (uint8_t)word[i];
        list->high[i] = (uint8_t)(word[i] >> 8);
        open[i] |= (uint8_t)(id[i] & 1);
    }
    const size_t whole = FDP_K(whole)(ranks);
    fdp_wipe(word, whole * sizeof *word);
    fdp_wipe(id, ranks * sizeof *id);
    fdp_wipe(outcome, ranks);
    fdp_wipe(tail, ranks * sizeof *tail);
}

/* The set bits below the highest one: the highest bit of each copy, as long as it is lower. */
static void FDP_K(further)(const fdp_digits_t *law, const uint64_t *area,
                           uint64_t *restrict clear, uint64_t *restrict open,
                           size_t ranks)
{
    uint64_t word[FDP_RANKS], bit[FDP_RANKS], limit[FDP_RANKS];
    memcpy(limit, clear, ranks * sizeof *limit); /* the bit itself; 0 if nothing is below */
    for (size_t copy = 0; copy < FDP_COPIES; copy++) {
        FDP_K(gather)(law, area, 4 + copy, word, ranks);
        FDP_K(highest)(law, 1, word, bit, open, ranks);
        for (size_t i = 0; i < ranks; i++) {
            const uint64_t lower = bit[i] < limit[i] ? ~UINT64_C(0) : 0;
            clear[i] |= bit[i] & lower;
            limit[i] = (bit[i] & lower) | (limit[i] & ~lower);
            limit[i] &= ~UINT64_C(1); /* nothing is below the lowest bit */
        }
    }
    for (size_t i = 0; i < ranks; i++) {
        open[i] |= limit[i] != 0 ? 1 : 0;
    }
    fdp_wipe(word, FDP_K(whole)(ranks) * sizeof *word);
    fdp_wipe(bit, ranks * sizeof *bit);
    fdp_wipe(limit, ranks * sizeof *limit);
}

/* Computes second digits, and which low bits below them are cleared. */
static void FDP_K(list_second)(const fdp_digits_t *law, const uint64_t *area,
                               fdp_list_t *list, uint8_t *open, size_t ranks)
{
    const size_t columns = (size_t)1 << (law->shift - law->low);
    uint64_t word[FDP_RANKS], clear[FDP_RANKS], late[FDP_RANKS];
    uint8_t rest[FDP_RANKS], whole[FDP_RANKS], tie[FDP_RANKS];
    memset(clear, 0, ranks * sizeof *clear);
    memset(late, 0, ranks * sizeof *late);
    memset(whole, 0, ranks);
    memset(tie, 0, ranks);
    FDP_K(gather)(law, area, 2, word, ranks);
    FDP_K(rest)(law->second_rest, columns, word, rest, open, ranks);
    if (law->low != 0) {
        FDP_K(rest)(law->second_whole, columns, word, whole, tie, ranks);
        FDP_K(gather)(law, area, 3, word, ranks);
        if (fdp_has_copies(law)) {
            FDP_K(highest)(law, 0, word, clear, late, ranks);
            FDP_K(further)(law, area, clear, late, ranks);
        } else {
            FDP_K(choose)(law->top, law->mask, law->tops, word, clear, late, ranks);
        }
    }
    const uint64_t spare = fdp_low_bytes(law) == 0 ? ~UINT64_C(0) : 0;
    for (size_t i = 0; i < ranks; i++) {
        const uint64_t corrected = clear[i] != 0 ? ~UINT64_C(0) : 0;
        const uint64_t d = (whole[i] & corrected) | (rest[i] & ~corrected);
        /* if there are only spare bits: 1 where they stay */
        list->low[i] = (uint8_t)(d | (~(clear[i] & spare) << 5));
        open[i] |= tie[i] | (uint8_t)late[i];
    }
    memcpy(list->clear, clear, ranks * sizeof *clear);
    fdp_wipe(word, FDP_K(whole)(ranks) * sizeof *word);
    fdp_wipe(clear, ranks * sizeof *clear);
    fdp_wipe(late, ranks * sizeof *late);
    fdp_wipe(rest, ranks);
    fdp_wipe(whole, ranks);
}

/* ---- tilted digits -------------------------------------------------------- */

static void FDP_K(tilt)(const fdp_digits_t *law, const uint8_t *word, size_t stride,
                        const fdp_whole_t *list, size_t rank, const uint64_t *mask,
                        int16_t *value, void *low, uint32_t low_bytes, size_t blocks)
{
    switch (low_bytes) {
    case 0: FDP_K(tilt_by)(law, word, stride, list, rank, mask, value, low, 0, blocks); break;
    case 2: FDP_K(tilt_by)(law, word, stride, list, rank, mask, value, low, 2, blocks); break;
    case 4: FDP_K(tilt_by)(law, word, stride, list, rank, mask, value, low, 4, blocks); break;
    default: FDP_K(tilt_by)(law, word, stride, list, rank, mask, value, low, 8, blocks); break;
    }
}

/* The product of factors below 2^32: vectors have no other product, unless a level defines one. */
#ifndef FDP_PRODUCT
#define FDP_PRODUCT(a, b) ((uint64_t)(uint32_t)(a) * (uint64_t)(uint32_t)(b))
#endif

/* A try is a block, a place in it, and V. It is accepted if V times the block's hat is below the
 * part of the value's weight that the digits leave. The arithmetic is in double; bounds:
 * docs/proofs/kernels.md. */
static void FDP_K(tries)(const fdp_digits_t *law, const uint64_t *area,
                         int64_t *restrict value, uint8_t *restrict state, size_t n)
{
    FDP_ALIGNED(64) uint64_t word[FDP_TRIES], place[FDP_TRIES], block[FDP_TRIES];
    FDP_ALIGNED(64) uint64_t number[FDP_TRIES];
    FDP_ALIGNED(64) uint8_t outcome[FDP_TRIES];
    FDP_K(gather)(law, area, 0, word, n);
    FDP_K(gather)(law, area, 1, place, n);
    FDP_K(rest)(law->first_rest, 128, word, outcome, state, n); /* for a tie the first outcome */
    FDP_K(find)(law->tilt.block, outcome, block, n);
    FDP_K(widen)(outcome, number, n);
    const uint32_t j = law->shift, r = law->low, spare = j < 8 ? 8 - j : 0;
    const int64_t step = INT64_C(1) << spare;
    const uint64_t slope = law->tilt.slope;
    const double weight = law->tilt.weight, inverse_2var = law->tilt.inverse_2var;
    const double unit = law->tilt.height * 0x1p-39, edge = law->tilt.edge * 1.0001;
    const double error = weight * 0x1p-46;
    for (size_t i = 0; i < n; i++) {
        const uint64_t id = number[i];
        const uint64_t sign = id < 64 ? ~UINT64_C(0) : 0;
        const uint64_t size = (id - 64) ^ sign;
        const uint64_t l = place[i] >> (64 - j);
        const uint64_t m = size << j | l;
        const int64_t away = (int64_t)((l >> r) * 2 + 1) * step - 256;
        const uint64_t far = (uint64_t)(away < 0 ? -away : away);
        const uint64_t t0 = FDP_PRODUCT(FDP_PRODUCT(2 * size + 1, far), slope) >> 16;
        const uint64_t t = t0 < 256 ? t0 : 256;
        const uint64_t share = 256 + (away > 0 ? 0 - t : t);
        const double taken =
            fdp_from_small((int64_t)FDP_PRODUCT(block[i] >> 32, share));
        const double x = fdp_from_unsigned(m + (sign & 1));
        double z = x * x * inverse_2var;
        z = z < 600.0 ? z : 600.0;
        const double k = fdp_nearest(z * FDP_LOG2E);
        const double part = (k * FDP_LN2_HI - z) + k * FDP_LN2_LO;
        const double f = FDP_EXP_EVAL(part) *
                         fdp_bits_double((uint64_t)(1023 - fdp_to_small(k)) << 52);
        const uint64_t tail = id == 0 || id == 127 ? ~UINT64_C(0) : 0;
        const double left =
            fdp_bits_double(fdp_double_bits(weight * f - taken) & ~tail);
        const double height =
            unit * fdp_from_small((int64_t)(block[i] & UINT32_MAX));
        const uint64_t v = (word[i] >> 8) & ((UINT64_C(1) << 39) - 1);
        const double hat = (fdp_from_small((int64_t)v) + 0.5) * height;
        const double bound =
            error + 0.75 * height + fdp_bits_double(fdp_double_bits(edge) & tail);
        const double margin = left - hat;
        const double distance = margin < 0.0 ? -margin : margin;
        const uint64_t kept = margin > 0.0 ? 1 : 0;
        block[i] = distance < bound ? 2 : kept;
        value[i] = (int64_t)(m ^ sign);
    }
    for (size_t i = 0; i < n; i++) {
        state[i] = (uint8_t)block[i];
    }
    fdp_wipe(word, n * sizeof *word);
    fdp_wipe(place, n * sizeof *place);
    fdp_wipe(block, n * sizeof *block);
    fdp_wipe(number, n * sizeof *number);
    fdp_wipe(outcome, n);
}

/* ---- values --------------------------------------------------------------- */

#define FDP_JOIN_PIECE 256

/* v 2^d + D, or the complement of D if v is negative; below 2^14 in magnitude. */
static void FDP_K(both)(const int16_t *restrict first, const uint8_t *restrict second,
                        uint32_t d, int16_t *restrict value, size_t n)
{
    const uint16_t most = (uint16_t)((1u << d) - 1);
    for (size_t i = 0; i < n; i++) {
        const uint16_t sign = (uint16_t)(first[i] >> 15);
        const uint16_t v = (uint16_t)((uint16_t)first[i] << d);
        value[i] = (int16_t)(v | ((second[i] ^ sign) & most));
    }
}

/* The same, followed by r low bits. */
static inline int64_t FDP_K(value)(int16_t high, uint64_t low, uint32_t r, uint64_t keep)
{
    const uint64_t v = (uint64_t)(int64_t)high;
    return (int64_t)((v << r) | ((low ^ (0 - (v >> 63))) & keep));
}

static inline int64_t FDP_K(narrow)(int16_t high, uint32_t low, uint32_t r, uint32_t keep)
{
    const uint32_t v = (uint32_t)(int32_t)high;
    return (int32_t)((v << r) | ((low ^ (0 - (v >> 31))) & keep));
}

/* v 2^shift plus one byte with everything below it, D and spare bits: shift <= 8. */
static inline int64_t FDP_K(short_value)(int16_t first, uint8_t second, uint32_t shift,
                                         uint32_t r, uint32_t keep)
{
    const int32_t v = first;
    const uint32_t lower = (second & 31u) << r | (((uint32_t)second >> 5) & keep);
    const uint32_t below = ((1u << shift) - 1) & (uint32_t)(v >> 31);
    return (int32_t)(((uint32_t)v << shift) | (lower ^ below));
}

#define FDP_JOIN_LOOP(value)                             \
    do {                                                 \
        if (x == NULL) {                                 \
            FDP_INDEPENDENT                              \
            for (size_t i = 0; i < n; i++) {             \
                out[i] = (value);                        \
            }                                            \
        } else {                                         \
            FDP_INDEPENDENT                              \
            for (size_t i = 0; i < n; i++) {             \
                out[i] = fdp_add_saturate(x[i], (value)); \
            }                                            \
        }                                                \
    } while (0)

#define FDP_WITH_LOW(type) \
    FDP_JOIN_LOOP(FDP_K(value)(high[i], ((const type *)low)[i], r, keep))

static void FDP_K(join_low)(const fdp_parts_t *parts, const int16_t *restrict high,
                            const void *restrict low, const int64_t *x, int64_t *out,
                            size_t n)
{
    const uint32_t r = parts->low;
    const uint64_t keep = (UINT64_C(1) << r) - 1;
    switch (parts->low_bytes) {
    case 2: /* 32 bits in all */
        FDP_JOIN_LOOP(FDP_K(narrow)(high[i], ((const uint16_t *)low)[i], r, (uint32_t)keep));
        break;
    case 4: FDP_WITH_LOW(uint32_t); break;
    default: FDP_WITH_LOW(uint64_t); break;
    }
}

static void FDP_K(join)(const fdp_parts_t *parts, const int16_t *restrict first,
                        const uint8_t *restrict second, const void *restrict low,
                        const int64_t *x, int64_t *out, size_t n)
{
    const uint32_t shift = parts->shift, r = parts->low;
    if (shift == 0) {
        FDP_JOIN_LOOP(first[i]);
        return;
    }
    if (parts->low_bytes == 0) {
        const uint32_t keep = (1u << r) - 1;
        FDP_JOIN_LOOP(FDP_K(short_value)(first[i], second[i], shift, r, keep));
        return;
    }
    if (shift == r) {
        FDP_K(join_low)(parts, first, low, x, out, n);
        return;
    }
    FDP_ALIGNED(64) int16_t high[FDP_JOIN_PIECE];
    for (size_t at = 0; at < n; at += FDP_JOIN_PIECE) {
        const size_t part = n - at < FDP_JOIN_PIECE ? n - at : FDP_JOIN_PIECE;
        FDP_K(both)(first + at, second + at, shift - r, high, part);
        FDP_K(join_low)(parts, high, (const uint8_t *)low + at * parts->low_bytes,
                        x == NULL ? NULL : x + at, out + at, part);
    }
    fdp_wipe(high, (n < FDP_JOIN_PIECE ? n : FDP_JOIN_PIECE) * sizeof *high);
}
