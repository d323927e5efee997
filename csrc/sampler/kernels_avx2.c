/* kernels_avx2.c: the vector kernels for AVX2 with FMA. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <math.h>

#include "../base/choose.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx2)
#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)
#define FDP_LEVEL avx2
#define FDP_VECTOR 32
#define FDP_HAVE_EXPAND
#define FDP_HAVE_RESPOND64

FDP_TARGET_AVX2

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
#include "column_body.inc.h"
#include "table_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_avx2;
#endif
