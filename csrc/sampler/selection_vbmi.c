/* selection_vbmi.c: the kernels of private selection for the VBMI level of AVX-512. It has 52-bit
 * products with addition in one instruction (IFMA). */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "bits.h"
#include "constants.h"
#include "selection.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512vbmi)
#define FDP_LEVEL avx512vbmi
#define FDP_WIDTH 8 /* doubles of a vector */

#define FDP_MADD52(half, c, a, b)                                                       \
    (FDP_K(units))_mm512_madd52##half##_epu64((__m512i)(c), (__m512i)(a), (__m512i)(b))

FDP_TARGET_AVX512VBMI
#include "selection_body.inc.h"
#include "proposal_body.inc.h"
#include "race_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_selection_vbmi;
#endif
