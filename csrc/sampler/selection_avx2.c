/* selection_avx2.c: the kernels of private selection for AVX2 with FMA. */
#include "../base/config.h"

#if FDP_X86_64
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "bits.h"
#include "constants.h"
#include "selection.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, avx2)
#define FDP_LEVEL avx2
#define FDP_WIDTH 4 /* doubles of a vector */

FDP_TARGET_AVX2
#include "selection_body.inc.h"
#include "proposal_body.inc.h"
#include "race_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_selection_avx2;
#endif
