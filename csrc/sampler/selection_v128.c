/* selection_v128.c: the kernels of private selection for vectors of 16 bytes. */
#include "../base/config.h"

#include <math.h>
#include <string.h>

#include "bits.h"
#include "constants.h"
#include "selection.h"
#include "v128.h"

#if FDP_V128

#define FDP_K(name) FDP_JOIN(fdp_##name, v128)
#define FDP_LEVEL v128
#define FDP_WIDTH 2 /* doubles of a vector */

FDP_TARGET_V128
#include "selection_body.inc.h"
#include "proposal_body.inc.h"
#include "race_body.inc.h"
FDP_TARGET_END

#endif
