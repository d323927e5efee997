/* kernels_portable.c: the vector kernels for any machine; gcc and clang compile them for the
 * baseline's vectors (SSE2, NEON). */
#include "../base/config.h"

#include <math.h>
#include <string.h>
#if FDP_X86_64
#include <emmintrin.h>
#endif

#include "../base/choose.h"
#include "../base/wipe.h"
#include "bits.h"
#include "constants.h"
#include "kernels.h"
#include "planes.h"

#define FDP_K(name) FDP_JOIN(fdp_##name, portable)
#define FDP_BYTE(name) FDP_JOIN(fdp_##name, FDP_LEVEL)
#define FDP_LEVEL portable
#define FDP_VECTOR 16

#include "array_body.inc.h"
#include "bits_body.inc.h"
#include "look_portable.inc.h"
#include "pattern_body.inc.h"
#include "ranks_body.inc.h"
#include "response_body.inc.h"
#include "number_body.inc.h"
#include "tally_body.inc.h"
#include "rows_body.inc.h"
#include "column_body.inc.h"
#include "table_body.inc.h"
