/* aes_vaes256.c - AES-256 on 256-bit registers (AVX2 and VAES): two blocks each. */
#include "../base/config.h"

#if FDP_X86_64

#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "aes.h"

FDP_TARGET_AVX2_AES

#define FDP_LEVEL vaes256
#define FDP_AES_V __m256i
#define FDP_AES_WIDTH 2
#define FDP_AES_SPREAD _mm256_broadcastsi128_si256
#define FDP_AES_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define FDP_AES_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define FDP_AES_ADD64 _mm256_add_epi64
#define FDP_AES_XOR _mm256_xor_si256
#define FDP_AES_ROUND _mm256_aesenc_epi128
#define FDP_AES_LAST _mm256_aesenclast_epi128
#include "aes_body.inc.h"

FDP_TARGET_END

#else
typedef int fdp_empty_unit_t;
#endif
