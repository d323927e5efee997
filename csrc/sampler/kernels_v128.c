/* kernels_v128.c: the vector kernels for vectors of 16 bytes with byte tables. */
#include "../base/config.h"

#include <math.h>
#include <string.h>

#include "../base/choose.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "kernels.h"
#include "v128.h"

#if FDP_V128

#define FDP_K(name) FDP_JOIN(fdp_##name, v128)
#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)
#define FDP_LEVEL v128
#define FDP_VECTOR 16

FDP_TARGET_V128
#include "array_body.inc.h"
#include "bits_body.inc.h"
#include "look_v128.inc.h"
#include "pattern_body.inc.h"
#include "ranks_body.inc.h"
#include "response_body.inc.h"
#include "number_body.inc.h"
#include "tally_body.inc.h"
#include "rows_body.inc.h"
#include "column_body.inc.h"
#include "table_body.inc.h"
FDP_TARGET_END

#endif
