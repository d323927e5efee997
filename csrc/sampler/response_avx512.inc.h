/* response_avx512.inc.h: the first stages of k-ary response, labels and reports of hashing, as in
 * response_body.inc.h, 64 lanes at a time. Whether outside labels are replaced by uniform ones is a
 * constant where a body is inlined. */

/* A rate as the kernels use it, in lanes of `bits` bits. A fraction of s bits is open if all of its
 * upper s - 1 bits are set, or always. */
typedef struct {
    __m512i rate, shift, open;
} FDP_K(rate_t);

static inline FDP_K(rate_t) FDP_K(rate_of)(const fdp_rate_t *from, int bits)
{
    const int s = bits - __builtin_ctzll(from->scale); /* scale: 2^(bits - s) */
    const int open = from->limit == 0 ? 0 : (1 << s) - 2;
    if (bits == 16) {
        return (FDP_K(rate_t)){_mm512_set1_epi16((int16_t)from->rate),
                               _mm512_set1_epi16((int16_t)s),
                               _mm512_set1_epi16((int16_t)open)};
    }
    return (FDP_K(rate_t)){_mm512_set1_epi32((int32_t)from->rate), _mm512_set1_epi32(s),
                           _mm512_set1_epi32(open)};
}

/* Computes the steps of 32 words of 16 bits, and the lanes whose fraction is open. */
FDP_ALWAYS_INLINE __m512i FDP_K(steps16)(const uint16_t *word, FDP_K(rate_t) own,
                                         FDP_K(rate_t) fair, __mmask32 drawn, __mmask32 *near)
{
    const __m512i ones = _mm512_set1_epi16(-1);
    const __m512i rate = _mm512_mask_mov_epi16(own.rate, drawn, fair.rate);
    const __m512i shift = _mm512_mask_mov_epi16(own.shift, drawn, fair.shift);
    const __m512i open = _mm512_mask_mov_epi16(own.open, drawn, fair.open);
    const __m512i h = _mm512_mulhi_epu16(_mm512_loadu_si512(word), rate);
    *near = _mm512_testn_epi16_mask(_mm512_xor_si512(h, ones), open);
    return _mm512_srlv_epi16(h, shift);
}

/* Converts 64 labels of 64 bits to bytes; a label that does not fit becomes all ones. Packing
 * halves the elements within each quarter of a vector. */
static inline __m512i FDP_K(bytes_of)(const int64_t *x)
{
    const __m512i most = _mm512_set1_epi64(UINT8_MAX);
    const __m512i order =
        _mm512_set_epi16(31, 23, 15, 7, 30, 22, 14, 6, 29, 21, 13, 5, 28, 20, 12, 4, 27, 19,
                         11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0);
    __m512i v[8];
    for (size_t i = 0; i < 8; i++) {
        v[i] = _mm512_min_epu64(_mm512_loadu_si512(x + 8 * i), most);
    }
    const __m512i a = _mm512_packus_epi32(_mm512_packus_epi32(v[0], v[1]),
                                          _mm512_packus_epi32(v[2], v[3]));
    const __m512i b = _mm512_packus_epi32(_mm512_packus_epi32(v[4], v[5]),
                                          _mm512_packus_epi32(v[6], v[7]));
    return _mm512_permutexvar_epi16(order, _mm512_packus_epi16(a, b));
}

FDP_ALWAYS_INLINE void FDP_K(respond16_mode)(const fdp_step_t *law, const void *from,
                                             bool narrow, uint8_t *label, const uint16_t *word,
                                             uint8_t *report, uint64_t *special, size_t n,
                                             bool uniform)
{
    const FDP_K(rate_t) own = FDP_K(rate_of)(&law->own, 16);
    const FDP_K(rate_t) fair = FDP_K(rate_of)(&law->fair, 16);
    const __m512i k = _mm512_set1_epi8((int8_t)law->categories);
    const __m512i last = _mm512_set1_epi8((int8_t)(law->categories - 1));
    const __m512i instead = _mm512_set1_epi8((int8_t)(uniform ? 0 : law->other));
    const __m512i one = _mm512_set1_epi8(1);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    for (size_t g = 0; g < n; g += 64) {
        const __m512i x = narrow ? _mm512_loadu_si512((const uint8_t *)from + g)
                                 : FDP_K(bytes_of)((const int64_t *)from + g);
        _mm512_storeu_si512(label + g, x);
        const __mmask64 apart = _mm512_cmpge_epu8_mask(x, k), drawn = uniform ? apart : 0;
        __mmask32 near0, near1;
        const __m512i low =
            FDP_K(steps16)(word + g, own, fair, (__mmask32)drawn, &near0);
        const __m512i high = FDP_K(steps16)(word + g + 32, own, fair,
                                            (__mmask32)(drawn >> 32), &near1);
        const __m512i steps =
            _mm512_permutexvar_epi64(order, _mm512_packus_epi16(low, high));
        const __mmask64 within = _mm512_cmplt_epu8_mask(steps, last);
        const __m512i base = _mm512_mask_mov_epi8(x, apart, instead);
        const __m512i sum =
            _mm512_add_epi8(_mm512_add_epi8(base, _mm512_min_epu8(steps, last)), one);
        _mm512_storeu_si512(report + g, _mm512_min_epu8(sum, _mm512_sub_epi8(sum, k)));
        special[g / 64] = _mm512_kunpackd(near1, near0) & within;
    }
}

/* Converts 32 labels of 64 bits to words; a label that does not fit becomes all ones. */
static inline __m512i FDP_K(words_of)(const int64_t *x)
{
    const __m512i most = _mm512_set1_epi64(UINT16_MAX);
    const __m512i order =
        _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    __m512i v[4];
    for (size_t i = 0; i < 4; i++) {
        v[i] = _mm512_min_epu64(_mm512_loadu_si512(x + 8 * i), most);
    }
    return _mm512_permutexvar_epi32(
        order, _mm512_packus_epi32(_mm512_packus_epi32(v[0], v[1]),
                                   _mm512_packus_epi32(v[2], v[3])));
}

static inline __m512i FDP_K(high32)(__m512i a, __m512i b)
{
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
    const __m512i odd =
        _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    return _mm512_mask_mov_epi32(even, 0xaaaa, odd);
}

/* Converts labels of 64 bits to 32 bits; a label that does not fit becomes all ones. */
static inline __m512i FDP_K(labels_of)(const int64_t *x)
{
    const __m512i most = _mm512_set1_epi64(UINT32_MAX);
    const __m512i order = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8,
                                           6, 4, 2, 0);
    const __m512i a = _mm512_min_epu64(_mm512_loadu_si512(x), most);
    const __m512i b = _mm512_min_epu64(_mm512_loadu_si512(x + 8), most);
    return _mm512_permutex2var_epi32(a, order, b);
}

#define FDP_RELABELS(bits, type, HIGH, LABELS)                                         \
    FDP_ALWAYS_INLINE void FDP_K(relabel##bits##_from)(                                \
        const fdp_step_t *law, const void *from, bool narrow, type *label,             \
        const type *word, type *report, uint64_t *special, size_t n)                   \
    {                                                                                  \
        const __m512i k = _mm512_set1_epi##bits((int##bits##_t)law->categories);       \
        const __m512i least = _mm512_set1_epi##bits((int##bits##_t)law->fair.limit);   \
        const __m512i instead = _mm512_set1_epi##bits((int##bits##_t)law->other);      \
        const FDP_K(mask##bits) fixed = law->other < 0 ? 0 : (FDP_K(mask##bits))~0u;   \
        for (size_t g = 0; g < n; g += 64) {                                           \
            uint64_t mask = 0;                                                         \
            for (size_t v = 0; v < 64; v += 512 / bits) {                              \
                const size_t at = g + v;                                               \
                const __m512i x = narrow ? _mm512_loadu_si512((const type *)from + at) \
                                         : FDP_K(LABELS)((const int64_t *)from + at);  \
                const __m512i w = _mm512_loadu_si512(word + at);                       \
                const __m512i drawn =                                                  \
                    _mm512_mask_mov_epi##bits(HIGH(w, k), fixed, instead);             \
                const __m512i low = _mm512_mullo_epi##bits(w, k);                      \
                const uint32_t open = _mm512_cmplt_epu##bits##_mask(low, least);       \
                _mm512_storeu_si512(label + at, x);                                    \
                _mm512_storeu_si512(                                                   \
                    report + at,                                                       \
                    _mm512_mask_mov_epi##bits(                                         \
                        drawn, _mm512_cmplt_epu##bits##_mask(x, k), x));               \
                mask |= (uint64_t)open << v;                                           \
            }                                                                          \
            special[g / 64] = mask;                                                    \
        }                                                                              \
    }

typedef __mmask16 FDP_K(mask32);
typedef __mmask32 FDP_K(mask16);
FDP_RELABELS(16, uint16_t, _mm512_mulhi_epu16, words_of)
FDP_RELABELS(32, uint32_t, FDP_K(high32), labels_of)
#undef FDP_RELABELS

FDP_ALWAYS_INLINE void FDP_K(respond32_mode)(const fdp_step_t *law, const void *from,
                                             bool narrow, uint32_t *label, const uint32_t *word,
                                             uint32_t *report, uint64_t *special, size_t n,
                                             bool uniform)
{
    const FDP_K(rate_t) own = FDP_K(rate_of)(&law->own, 32);
    const FDP_K(rate_t) fair = FDP_K(rate_of)(&law->fair, 32);
    const __m512i k = _mm512_set1_epi32((int32_t)law->categories);
    const __m512i last = _mm512_set1_epi32((int32_t)(law->categories - 1));
    const __m512i instead = _mm512_set1_epi32((int32_t)(uniform ? 0 : law->other));
    const __m512i one = _mm512_set1_epi32(1), ones = _mm512_set1_epi32(-1);
    for (size_t g = 0; g < n; g += 64) {
        __mmask16 near[4];
        for (size_t v = 0; v < 4; v++) {
            const size_t at = g + 16 * v;
            const __m512i x = narrow ? _mm512_loadu_si512((const uint32_t *)from + at)
                                     : FDP_K(labels_of)((const int64_t *)from + at);
            const __m512i w = _mm512_loadu_si512(word + at);
            const __mmask16 apart = _mm512_cmpge_epu32_mask(x, k);
            _mm512_storeu_si512(label + at, x);
            const __mmask16 drawn = uniform ? apart : 0;
            const __m512i base = _mm512_mask_mov_epi32(x, apart, instead);
            const __m512i shift = _mm512_mask_mov_epi32(own.shift, drawn, fair.shift);
            const __m512i open = _mm512_mask_mov_epi32(own.open, drawn, fair.open);
            const __m512i h =
                FDP_K(high32)(w, _mm512_mask_mov_epi32(own.rate, drawn, fair.rate));
            const __m512i step = _mm512_srlv_epi32(h, shift);
            near[v] = _mm512_mask_testn_epi32_mask(_mm512_cmplt_epu32_mask(step, last),
                                                   _mm512_xor_si512(h, ones), open);
            const __m512i sum = _mm512_add_epi32(
                _mm512_add_epi32(base, _mm512_min_epu32(step, last)), one);
            _mm512_storeu_si512(report + at,
                                _mm512_min_epu32(sum, _mm512_sub_epi32(sum, k)));
        }
        special[g / 64] = (uint64_t)_cvtmask32_u32(_mm512_kunpackw(near[3], near[2])) << 32 |
                          _cvtmask32_u32(_mm512_kunpackw(near[1], near[0]));
    }
}

/* floor(a b / 2^64), from the four products of halves. */
static inline __m512i FDP_K(high64x8)(__m512i a, __m512i b)
{
    const __m512i low = _mm512_set1_epi64(UINT32_MAX);
    const __m512i a1 = _mm512_srli_epi64(a, 32), b1 = _mm512_srli_epi64(b, 32);
    const __m512i middle = _mm512_add_epi64(_mm512_mul_epu32(a1, b),
                                            _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32));
    const __m512i other =
        _mm512_add_epi64(_mm512_mul_epu32(a, b1), _mm512_and_si512(middle, low));
    return _mm512_add_epi64(
        _mm512_add_epi64(_mm512_mul_epu32(a1, b1), _mm512_srli_epi64(middle, 32)),
        _mm512_srli_epi64(other, 32));
}

FDP_ALWAYS_INLINE void FDP_K(respond64_mode)(const fdp_step_t *law, const void *from,
                                             bool narrow, uint32_t *label, const uint64_t *word,
                                             uint32_t *report, uint64_t *special, size_t n,
                                             bool uniform)
{
    const __m512i rate0 = _mm512_set1_epi64((int64_t)law->own.rate);
    const __m512i rate1 = _mm512_set1_epi64((int64_t)law->fair.rate);
    const __m512i shift0 = _mm512_set1_epi64((int64_t)law->own.scale); /* s itself */
    const __m512i shift1 = _mm512_set1_epi64((int64_t)law->fair.scale);
    const uint64_t closed = law->own.limit == 0 ? 0 : (UINT64_C(1) << law->own.scale) - 2;
    const __m512i open0 = _mm512_set1_epi64((int64_t)closed);
    const __m512i open1 =
        _mm512_set1_epi64((int64_t)((UINT64_C(1) << law->fair.scale) - 2));
    const __m512i k = _mm512_set1_epi64(law->categories);
    const __m512i last = _mm512_set1_epi64((int64_t)law->categories - 1);
    const __m512i instead = _mm512_set1_epi64(uniform ? 0 : law->other);
    const __m512i one = _mm512_set1_epi64(1), ones = _mm512_set1_epi64(-1);
    for (size_t g = 0; g < n; g += 64) {
        uint64_t mask = 0;
        for (size_t v = 0; v < 64; v += 8) {
            const size_t at = g + v;
            __m256i *const mine = (__m256i *)(void *)(label + at);
            __m512i x;
            if (narrow) {
                const uint32_t *near = (const uint32_t *)from + at;
                const __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)near);
                _mm256_storeu_si256(mine, half);
                x = _mm512_cvtepu32_epi64(half);
            } else {
                x = _mm512_loadu_si512((const int64_t *)from + at);
                _mm256_storeu_si256(mine, _mm512_cvtusepi64_epi32(x));
            }
            const __mmask8 apart = _mm512_cmpge_epu64_mask(x, k);
            const __mmask8 drawn = uniform ? apart : 0;
            const __m512i rate = _mm512_mask_mov_epi64(rate0, drawn, rate1);
            const __m512i shift = _mm512_mask_mov_epi64(shift0, drawn, shift1);
            const __m512i open = _mm512_mask_mov_epi64(open0, drawn, open1);
            const __m512i base = _mm512_mask_mov_epi64(x, apart, instead);
            const __m512i h = FDP_K(high64x8)(_mm512_loadu_si512(word + at), rate);
            const __m512i step = _mm512_min_epu64(_mm512_srlv_epi64(h, shift), last);
            const __mmask8 near = _mm512_mask_testn_epi64_mask(
                _mm512_cmplt_epu64_mask(step, last), _mm512_xor_si512(h, ones), open);
            mask |= (uint64_t)_cvtmask8_u32(near) << v;
            const __m512i sum = _mm512_add_epi64(_mm512_add_epi64(base, step), one);
            _mm256_storeu_si256(
                (__m256i *)(void *)(report + at),
                _mm512_cvtepi64_epi32(_mm512_min_epu64(sum, _mm512_sub_epi64(sum, k))));
        }
        special[g / 64] = mask;
    }
}

/* Defines one function for each mode. Labels of 64 bits, or of the lanes' type, are read in place,
 * except for those of the last block. */
#define FDP_MODES(bits, label_t, type)                                                 \
    FDP_ALWAYS_INLINE void FDP_K(respond##bits##_from)(                                \
        const fdp_step_t *law, const void *from, bool narrow, label_t *label,          \
        const type *word, label_t *report, uint64_t *special, size_t n)                \
    {                                                                                  \
        if (law->other >= 0) {                                                         \
            FDP_K(respond##bits##_mode)(law, from, narrow, label, word, report,         \
                                        special, n, false);                            \
        } else {                                                                       \
            FDP_K(respond##bits##_mode)(law, from, narrow, label, word, report,         \
                                        special, n, true);                             \
        }                                                                              \
    }

#define FDP_WHERE(name, label_t, type, x_narrow, LABELS)                               \
    static void FDP_K(name)(const fdp_step_t *law, const void *x, fdp_dtype_t x_type,  \
                            size_t at, size_t n, label_t *label, const type *word,     \
                            label_t *report, uint64_t *special)                        \
    {                                                                                  \
        const bool narrow = x_type == x_narrow;                                        \
        const size_t whole = narrow || x_type == FDP_I64 ? n & ~(size_t)63 : 0;        \
        const size_t size = narrow ? sizeof(label_t) : sizeof(int64_t);                \
        const size_t rest = FDP_K(LABELS)(x, x_type, at + whole, label + whole,        \
                                          n - whole);                                  \
        FDP_K(name##_from)(law, (const uint8_t *)x + at * size, narrow, label, word,   \
                           report, special, whole);                                    \
        FDP_K(name##_from)(law, label + whole, true, label + whole, word + whole,      \
                           report + whole, special + whole / 64, rest);                \
    }

FDP_MODES(16, uint8_t, uint16_t)
FDP_MODES(32, uint32_t, uint32_t)
FDP_MODES(64, uint32_t, uint64_t)
FDP_WHERE(respond16, uint8_t, uint16_t, FDP_U8, labels8)
FDP_WHERE(respond32, uint32_t, uint32_t, FDP_U32, labels32)
FDP_WHERE(respond64, uint32_t, uint64_t, FDP_U32, labels32)
FDP_WHERE(relabel16, uint16_t, uint16_t, FDP_U16, labels16)
FDP_WHERE(relabel32, uint32_t, uint32_t, FDP_U32, labels32)
#undef FDP_MODES
#undef FDP_WHERE

/* Makes sixteen reports of hashing, which are three vectors. Words 3 i and 3 i + 1 are the halves
 * of a seed, and word 3 i + 2 is a moved bucket. */
static size_t FDP_K(whole_hashed)(const uint64_t *seed, const uint32_t *label,
                                  const uint32_t *move, uint32_t buckets, unsigned bits,
                                  bool lines, fdp_hashed_t *out, size_t n)
{
    FDP_ALIGNED(64) uint32_t from[3][16], who[3][16];
    __mmask16 answer[3] = {0, 0, 0};
    for (uint32_t d = 0; d < 48; d++) {
        const uint32_t user = d / 3, part = d % 3;
        from[d / 16][d % 16] = 2 * user + part % 2;
        who[d / 16][d % 16] = user;
        answer[d / 16] |= (__mmask16)((uint32_t)(part == 2) << d % 16);
    }
    const __m512i low = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6,
                                         4, 2, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(1));
    const __m512i top = _mm512_set1_epi32((int32_t)(UINT32_MAX << (32 - bits)));
    const __m512i k = _mm512_set1_epi32((int32_t)buckets);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512i a = _mm512_loadu_si512(seed + i), b = _mm512_loadu_si512(seed + i + 8);
        const __m512i slope = _mm512_permutex2var_epi32(a, low, b);
        const __m512i offset = _mm512_permutex2var_epi32(a, high, b);
        const __m512i hash = _mm512_add_epi32(
            _mm512_mullo_epi32(slope, _mm512_loadu_si512(label + i)), offset);
        const __m512i sum =
            _mm512_add_epi32(FDP_K(high32)(_mm512_and_si512(hash, top), k),
                             _mm512_loadu_si512(move + i));
        const __m512i value = _mm512_min_epu32(sum, _mm512_sub_epi32(sum, k));
        for (size_t p = 0; p < 3; p++) {
            const __m512i halves =
                _mm512_permutex2var_epi32(a, _mm512_load_si512(from[p]), b);
            uint32_t *const to = (uint32_t *)(void *)(out + i) + 16 * p;
            const __m512i report = _mm512_mask_permutexvar_epi32(
                halves, answer[p], _mm512_load_si512(who[p]), value);
            if (lines) {
                _mm512_stream_si512((void *)to, report);
            } else {
                _mm512_storeu_si512(to, report);
            }
        }
    }
    if (lines) {
        _mm_sfence();
    }
    return i;
}
