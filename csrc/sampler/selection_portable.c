/* selection_portable.c: the kernels of private selection for any machine. */
#include "../base/config.h"

#if FDP_X86_64
#include <emmintrin.h>
#endif
#include <math.h>
#include <string.h>

#include "bits.h"
#include "constants.h"
#include "selection.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, portable)
#define FDP_LEVEL portable
#if FDP_X86_64 /* SSE2 cannot compare 64-bit integers, so these loops are not vectorized */
#define FDP_MASK(c) fdp_mask(c)
#endif
#define FDP_WIDTH 2 /* doubles of a vector */

#include "selection_body.inc.h"
#include "proposal_body.inc.h"
#include "race_body.inc.h"
