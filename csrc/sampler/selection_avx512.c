/* selection_avx512.c: the kernels of private selection for AVX-512. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "bits.h"
#include "constants.h"
#include "selection.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx512)
#define FDP_LEVEL avx512
#define FDP_WIDTH 8 /* doubles of a vector */

FDP_TARGET_AVX512
#include "selection_body.inc.h"
#include "proposal_body.inc.h"
#include "race_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_selection_avx512;
#endif
