/* cpu.h - which instruction sets may be used.
 *
 * One 32-bit mask, read from the processor on first use and cached. It decides the speed
 * and the cipher of the secure default. It never changes the outputs of a given key and
 * cipher.
 */
#ifndef FDP_BASE_CPU_H
#define FDP_BASE_CPU_H

#include "../fastdp.h"
#include "config.h"

enum {
    FDP_CPU_AVX2 = 1,   /* FDP_FEATURES_AVX2 and ymm state; implies V128 */
    FDP_CPU_AVX512 = 2, /* FDP_FEATURES_AVX512 and zmm state; implies AVX2 */
    FDP_CPU_AES = 4,    /* AES-NI with SSSE3 and SSE4.1, or AES of ARMv8 */
    FDP_CPU_VAES = 8,   /* AES on ymm registers (with AVX512: zmm); implies AVX2 and AES */
    FDP_CPU_VBMI = 16,  /* FDP_FEATURES_AVX512VBMI; implies AVX512 */
    FDP_CPU_V128 = 32   /* byte tables in vectors of 16: FDP_FEATURES_V128, NEON or simd128 */
};

/* The levels, in ascending order: X(name, bit of the mask). Each level is above those that it
 * implies. A level has a row in each of the tables of sampler/levels.c, fdp_kernels_<name>,
 * fdp_digits_<name> and fdp_selection_<name>, on the machines for which FDP_LEVELS_HERE builds
 * it. */
#define FDP_LEVELS_ANY(X) X(portable, 0)
#define FDP_LEVELS_V128(X) X(v128, FDP_CPU_V128)
#define FDP_LEVELS_X86_64(X)  \
    X(avx2, FDP_CPU_AVX2)     \
    X(avx512, FDP_CPU_AVX512) \
    X(avx512vbmi, FDP_CPU_VBMI)

#define FDP_LEVELS(X) FDP_LEVELS_ANY(X) FDP_LEVELS_V128(X) FDP_LEVELS_X86_64(X)
#if FDP_X86_64
#define FDP_LEVELS_HERE(X) FDP_LEVELS(X)
#elif FDP_V128
#define FDP_LEVELS_HERE(X) FDP_LEVELS_ANY(X) FDP_LEVELS_V128(X)
#else
#define FDP_LEVELS_HERE(X) FDP_LEVELS_ANY(X)
#endif

/* Declared in fastdp.h:
 *
 * fdp_cpu_mask()   the mask in force. The environment variable FASTDP_CPU is
 *   read once, by the first call, and can only lower it: "portable" gives 0
 *   (hence ChaCha20), another level removes those above it, "" nothing. With any other
 *   value no call is opened.
 * fdp_cpu_level()  the highest level in the mask.
 * fdp_cpu_name(rank, mask)  a level's name, NULL after the last; *mask gets its
 *   argument for fdp_cpu_limit.
 * fdp_cpu_limit(mask)  for tests: puts `mask` in force, cut down to what the
 *   processor and FASTDP_CPU allow; UINT32_MAX restores everything. A chunk that
 *   is open keeps the level it was opened with. */

/* Returns whether FASTDP_CPU, if set, names a level. */
FDP_INTERNAL bool fdp_cpu_named(void);
/* The level in use, by its rank in FDP_LEVELS. */
FDP_INTERNAL size_t fdp_cpu_rank(void);

#endif
