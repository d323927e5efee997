/* digits_avx512.c: digit kernels for AVX-512 (F, DQ, BW, VL). */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <string.h>

#include "../base/cpu.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "digit_kernels.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512)
#define FDP_LEVEL_MASK (FDP_CPU_AVX2 | FDP_CPU_AVX512)
#define FDP_INSERTS false
#define FDP_HAVE_CHOOSE

FDP_TARGET_AVX512
#include "digits_rest512.inc.h"
#include "digits_body.inc.h"
#include "digits_avx2.inc.h"
#include "digits_table.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_digits_avx512;
#endif
