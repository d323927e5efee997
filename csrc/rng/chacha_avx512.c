/* chacha_avx512.c - ChaCha20, 16 lanes: one unit at a time, rotations native. */
#include "../base/config.h"

#if FDP_X86_64

#include <string.h>

#include "../base/wipe.h"
#include "chacha.h"

FDP_TARGET_AVX512

#define FDP_LANES 16
#define FDP_LEVEL avx512
#include "chacha_body.inc.h"

FDP_TARGET_END

#else
typedef int fdp_empty_unit_t;
#endif
