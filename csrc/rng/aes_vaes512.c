/* aes_vaes512.c - AES-256 on 512-bit registers (AVX-512 and VAES): four blocks
 * each. */
#include "../base/config.h"

#if FDP_X86_64

#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "aes.h"

FDP_TARGET_AVX512_AES

#define FDP_LEVEL vaes512
#define FDP_AES_V __m512i
#define FDP_AES_WIDTH 4
#define FDP_AES_SPREAD _mm512_broadcast_i32x4
#define FDP_AES_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define FDP_AES_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define FDP_AES_ADD64 _mm512_add_epi64
#define FDP_AES_XOR _mm512_xor_si512
#define FDP_AES_ROUND _mm512_aesenc_epi128
#define FDP_AES_LAST _mm512_aesenclast_epi128
#include "aes_body.inc.h"

FDP_TARGET_END

#else
typedef int fdp_empty_unit_t;
#endif
