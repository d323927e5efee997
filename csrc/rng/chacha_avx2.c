/* chacha_avx2.c - ChaCha20, 8 lanes; rotations by whole bytes are shuffles. */
#include "../base/config.h"

#if FDP_X86_64

#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "chacha.h"

FDP_TARGET_AVX2

#define FDP_LANES 8
#define FDP_LEVEL avx2
#define FDP_SHUFFLE(v, i0, i1, i2, i3)                                            \
    ((fdp_lanes_t)_mm256_shuffle_epi8(                                            \
        (__m256i)(v),                                                             \
        _mm256_setr_epi8(i0, i1, i2, i3, i0 + 4, i1 + 4, i2 + 4, i3 + 4, i0 + 8,  \
                         i1 + 8, i2 + 8, i3 + 8, i0 + 12, i1 + 12, i2 + 12,       \
                         i3 + 12, i0, i1, i2, i3, i0 + 4, i1 + 4, i2 + 4, i3 + 4, \
                         i0 + 8, i1 + 8, i2 + 8, i3 + 8, i0 + 12, i1 + 12,        \
                         i2 + 12, i3 + 12)))
#define FDP_ROTL16(v) FDP_SHUFFLE(v, 2, 3, 0, 1)
#define FDP_ROTL8(v) FDP_SHUFFLE(v, 3, 0, 1, 2)
#include "chacha_body.inc.h"

FDP_TARGET_END

#else
typedef int fdp_empty_unit_t;
#endif
