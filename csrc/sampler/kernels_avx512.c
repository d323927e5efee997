/* kernels_avx512.c: the vector kernels for AVX-512 (F, DQ, BW, VL). It also has the row for
 * machines with byte tables in registers (VBMI), which shares all other kernels. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <math.h>

#include "../base/choose.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512)
#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)
#define FDP_LEVEL avx512
#define FDP_VECTOR 64
#define FDP_HAVE_EXPAND
#define FDP_HAVE_ADD_GRID
#define FDP_HAVE_NUMBERS
#define FDP_HAVE_RESPOND
#define FDP_HAVE_RANKS

FDP_TARGET_AVX512

static inline void FDP_K(expand)(const uint8_t *restrict bits, uint64_t *restrict out,
                                 size_t n)
{
    const __m512i byte = _mm512_set_epi64(
        0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
        0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m512i bit = _mm512_set1_epi64(0x0102040810204080);
    for (size_t i = 0; i < n; i += 8) {
        long long eight;
        memcpy(&eight, bits + i, sizeof eight);
        const __m512i b = _mm512_shuffle_epi8(_mm512_set1_epi64(eight), byte);
        _mm512_storeu_si512(out + i, _mm512_maskz_set1_epi8(
                                         _mm512_test_epi8_mask(b, bit), 1));
    }
}

/* The same steps as in array_body.inc.h. If an operand is NaN, a minimum or maximum returns the
 * second operand, as the choices there do. */
static inline __m512d FDP_K(on_grid)(const fdp_grid_t *grid, __m512d v, __m512i noise)
{
    const __m512d anchor = _mm512_set1_pd(grid->step * 0x1p52);
    const __m512d most = _mm512_set1_pd(DBL_MAX), least = _mm512_set1_pd(-DBL_MAX);
    const __mmask8 number = _mm512_cmp_pd_mask(v, v, _CMP_ORD_Q);
    v = _mm512_mask_mov_pd(_mm512_set1_pd(grid->nan), number, v);
    v = _mm512_max_pd(_mm512_set1_pd(grid->low), v);
    v = _mm512_min_pd(_mm512_set1_pd(grid->high), v);
    const __m512d size = _mm512_abs_pd(v);
    const __mmask8 small = _mm512_cmp_pd_mask(size, anchor, _CMP_LT_OQ);
    const __m512d snapped =
        _mm512_mask_sub_pd(size, small, _mm512_add_pd(size, anchor), anchor);
    const __m512d sign = _mm512_and_pd(v, _mm512_set1_pd(-0.0));
    const __m512d y = _mm512_fmadd_pd(_mm512_cvtepi64_pd(noise), _mm512_set1_pd(grid->step),
                                      _mm512_or_pd(snapped, sign));
    return _mm512_max_pd(least, _mm512_min_pd(most, y));
}

static void FDP_K(add_grid)(const fdp_grid_t *grid, const double *x,
                            const int64_t *restrict noise, double *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm512_storeu_pd(out + i, FDP_K(on_grid)(grid, _mm512_loadu_pd(x + i),
                                                 _mm512_loadu_si512(noise + i)));
    }
    const __mmask8 rest = (__mmask8)((1u << (n - i)) - 1);
    _mm512_mask_storeu_pd(out + i, rest,
                          FDP_K(on_grid)(grid, _mm512_maskz_loadu_pd(rest, x + i),
                                         _mm512_maskz_loadu_epi64(rest, noise + i)));
}

#include "array_body.inc.h"
#include "bits_body.inc.h"
#include "words_avx512.h"
#include "look_avx512.inc.h"
#include "pattern_body.inc.h"
#include "ranks_body.inc.h"
#include "response_body.inc.h"
#include "number_body.inc.h"
#include "tally_body.inc.h"
#include "rows_body.inc.h"
#include "column_body.inc.h"
#include "subsets_avx512.inc.h"
#define FDP_HAVE_SUBSETS
#include "table_body.inc.h"
FDP_TARGET_END

#undef FDP_LEVEL
#define FDP_LEVEL avx512vbmi

FDP_TARGET_AVX512VBMI
#include "look_vbmi.inc.h"
#include "pattern_body.inc.h"
FDP_TARGET_END

#include "table_body.inc.h"

#else
typedef int fdp_no_avx512;
#endif
