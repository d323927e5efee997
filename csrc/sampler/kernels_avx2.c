/* kernels_avx2.c: the vector kernels for AVX2 with FMA. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>

#include "../base/cpu.h"
#include "../base/choose.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "kernels.h"
#include "lanes_avx2.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx2)
#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)
#define FDP_LEVEL avx2
#define FDP_VECTOR 32
#define FDP_LEVEL_NAME "avx2"
#define FDP_LEVEL_MASK FDP_CPU_AVX2
#define FDP_HAVE_SELECT
#define FDP_HAVE_COMPACT
#define FDP_HAVE_SPECIAL
#define FDP_HAVE_EXPAND
#define FDP_HAVE_RESPOND64

FDP_TARGET_AVX2
#include "gaussian_body.inc.h"
#include "select_avx2.inc.h"

static size_t FDP_K(compact32)(const int32_t *restrict tagged, int32_t *restrict out,
                               size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i += 8) {
        const __m256i t = _mm256_loadu_si256((const __m256i *)(const void *)(tagged + i));
        const unsigned keep = (unsigned)_mm256_movemask_ps(
            _mm256_castsi256_ps(_mm256_slli_epi32(t, 31)));
        const __m256i order = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)fdp_pack8[keep]));
        const __m256i packed =
            _mm256_permutevar8x32_epi32(_mm256_srai_epi32(t, 1), order);
        _mm256_storeu_si256((__m256i *)(void *)(out + kept), packed);
        kept += (size_t)_mm_popcnt_u32(keep);
    }
    return kept;
}

static size_t FDP_K(compact64)(const int64_t *restrict tagged, int64_t *restrict out,
                               size_t n)
{
    const __m256i sign = _mm256_set1_epi64x(INT64_C(1) << 62);
    size_t kept = 0;
    for (size_t i = 0; i < n; i += 4) {
        const __m256i t = _mm256_loadu_si256((const __m256i *)(const void *)(tagged + i));
        const unsigned keep = (unsigned)_mm256_movemask_pd(
            _mm256_castsi256_pd(_mm256_slli_epi64(t, 63)));
        const __m256i order = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64((const __m128i *)(const void *)fdp_pack4[keep]));
        const __m256i half = _mm256_srli_epi64(t, 1);
        const __m256i value = _mm256_sub_epi64(_mm256_xor_si256(half, sign), sign);
        _mm256_storeu_si256((__m256i *)(void *)(out + kept),
                            _mm256_permutevar8x32_epi32(value, order));
        kept += (size_t)_mm_popcnt_u32(keep);
    }
    return kept;
}

static void FDP_K(special32)(const int32_t *restrict value, uint64_t *restrict mask,
                             size_t n)
{
    const __m256i limit = _mm256_set1_epi32(FDP_UNDECIDED32);
    for (size_t i = 0; i < n; i += 64) {
        uint64_t bits = 0;
        for (size_t k = 0; k < 8; k++) {
            const __m256i v = _mm256_loadu_si256(
                (const __m256i *)(const void *)(value + i + 8 * k));
            const unsigned hit = (unsigned)_mm256_movemask_ps(
                _mm256_castsi256_ps(_mm256_cmpeq_epi32(v, limit)));
            bits |= (uint64_t)hit << (8 * k);
        }
        mask[i / 64] = bits;
    }
}

static void FDP_K(special64)(const int64_t *restrict value, uint64_t *restrict mask,
                             size_t n)
{
    const __m256i least = _mm256_set1_epi64x(FDP_UNDECIDED64 + 1);
    for (size_t i = 0; i < n; i += 64) {
        uint64_t bits = 0;
        for (size_t k = 0; k < 16; k++) {
            const __m256i v = _mm256_loadu_si256(
                (const __m256i *)(const void *)(value + i + 4 * k));
            const unsigned hit = (unsigned)_mm256_movemask_pd(
                _mm256_castsi256_pd(_mm256_cmpgt_epi64(least, v)));
            bits |= (uint64_t)hit << (4 * k);
        }
        mask[i / 64] = bits;
    }
}

static inline void FDP_K(expand)(const uint8_t *restrict bits, uint64_t *restrict out,
                                 size_t n)
{
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                            0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(0x0102040810204080);
    for (size_t i = 0; i < n; i += 4) {
        int four;
        memcpy(&four, bits + i, sizeof four);
        const __m256i b = _mm256_shuffle_epi8(_mm256_set1_epi32(four), byte);
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(b, bit), bit);
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            _mm256_and_si256(set, _mm256_set1_epi8(1)));
    }
}

#include "array_body.inc.h"
#include "bits_body.inc.h"
#include "look_avx2.inc.h"
#include "pattern_body.inc.h"
#include "ranks_body.inc.h"
#include "response_body.inc.h"
#include "number_body.inc.h"
#include "tally_body.inc.h"
#include "rows_body.inc.h"
#include "table_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_avx2;
#endif
