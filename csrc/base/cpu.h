/* cpu.h - which instruction sets may be used.
 *
 * One 32-bit mask, read from the processor on first use and cached. It decides
 * speed and which cipher the secure default takes; never an output of a given
 * key and cipher.
 */
#ifndef FDP_BASE_CPU_H
#define FDP_BASE_CPU_H

#include "../fastdp.h"
#include "config.h"

enum {
    FDP_CPU_AVX2 = 1,   /* FDP_FEATURES_AVX2 and ymm state saved by the system */
    FDP_CPU_AVX512 = 2, /* FDP_FEATURES_AVX512 and zmm state; implies AVX2 */
    FDP_CPU_AES = 4,    /* AES-NI with SSSE3 and SSE4.1 */
    FDP_CPU_VAES = 8,   /* AES on ymm (with AVX512: zmm); implies AVX2 and AES */
    FDP_CPU_VBMI = 16   /* FDP_FEATURES_AVX512VBMI; implies AVX512 */
};

/* Declared in fastdp.h:
 *
 * fdp_cpu_mask()   the mask in force. The environment variable FASTDP_CPU is
 *   read once, by the first call, and can only lower it: "portable" gives 0
 *   (hence ChaCha20), "avx2" removes AVX512, "avx512" removes VBMI.
 *   "avx512vbmi" and "" remove nothing. With any other value no call is opened.
 * fdp_cpu_level()  "avx512vbmi", "avx512", "avx2" or "portable": the widest level in
 *   the mask.
 * fdp_cpu_limit(mask)  for tests: puts `mask` in force, cut down to what the
 *   processor and FASTDP_CPU allow; UINT32_MAX restores everything. A chunk that
 *   is open keeps the level it was opened with. */

/* Whether FASTDP_CPU, if set, names a level. */
FDP_INTERNAL bool fdp_cpu_named(void);
/* The level in force: 0 portable, 1 AVX2, 2 AVX-512, 3 with VBMI. */
FDP_INTERNAL size_t fdp_cpu_rank(void);

#endif
