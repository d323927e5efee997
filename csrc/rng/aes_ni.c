/* aes_ni.c - AES-256 by AES-NI on 128-bit registers, and the key schedules,
 * which every level shares.
 *
 *   next_even, next_odd  one step of the schedule. All four columns of the
 *                        substituted word are equal, so the ShiftRows inside
 *                        AESENCLAST does nothing: it serves as SubWord, faster
 *                        than AESKEYGENASSIST.
 *   fdp_aes256_expand    one key
 *   fdp_aes256_chunk     call key -> two chunk keys -> their schedules, with
 *                        independent chains side by side
 */
#include "../base/config.h"

#if FDP_X86_64

#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "aes.h"

FDP_TARGET_AESNI

#define FDP_LEVEL aesni
#define FDP_AES_V __m128i
#define FDP_AES_WIDTH 1
#define FDP_AES_SPREAD(v) (v)
#define FDP_AES_LOAD(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define FDP_AES_STORE(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define FDP_AES_ADD64 _mm_add_epi64
#define FDP_AES_XOR _mm_xor_si128
#define FDP_AES_ROUND _mm_aesenc_si128
#define FDP_AES_LAST _mm_aesenclast_si128
#include "aes_body.inc.h"

/* Word i becomes the exclusive or of words 0..i. */
FDP_ALWAYS_INLINE __m128i fdp_aes_prefix(__m128i k)
{
    k = _mm_xor_si128(k, _mm_slli_si128(k, 4));
    return _mm_xor_si128(k, _mm_slli_si128(k, 8));
}

/* Round key 2i from 2i-2 and 2i-1: SubWord(RotWord(last word)) and Rcon. */
FDP_ALWAYS_INLINE __m128i fdp_aes_next_even(__m128i k, __m128i other, int rcon)
{
    const __m128i rotated = _mm_shuffle_epi8(other, _mm_set1_epi32(0x0c0f0e0d));
    return _mm_xor_si128(fdp_aes_prefix(k),
                         _mm_aesenclast_si128(rotated, _mm_set1_epi32(rcon)));
}

/* Round key 2i+1 from 2i-1 and 2i: SubWord(last word). */
FDP_ALWAYS_INLINE __m128i fdp_aes_next_odd(__m128i k, __m128i other)
{
    const __m128i word = _mm_shuffle_epi32(other, 0xff);
    return _mm_xor_si128(fdp_aes_prefix(k),
                         _mm_aesenclast_si128(word, _mm_setzero_si128()));
}

void fdp_aes256_expand(uint8_t schedule[FDP_AES_SCHEDULE], const uint8_t key[32])
{
    __m128i even = FDP_AES_LOAD(key), odd = FDP_AES_LOAD(key + 16);

    FDP_AES_STORE(schedule, even);
    for (int i = 1; i < 8; i++) {
        FDP_AES_STORE(schedule + 32 * i - 16, odd);
        even = fdp_aes_next_even(even, odd, 1 << (i - 1));
        FDP_AES_STORE(schedule + 32 * i, even);
        odd = fdp_aes_next_odd(odd, even); /* the last one is not used */
    }
}

void fdp_aes256_chunk(uint8_t main_schedule[FDP_AES_SCHEDULE],
                      uint8_t ext_schedule[FDP_AES_SCHEDULE], const uint8_t key[32],
                      uint64_t chunk)
{
    __m128i even = FDP_AES_LOAD(key), odd = FDP_AES_LOAD(key + 16);
    __m128i s[4];

    /* The call key's schedule is used as it appears and never stored. */
    for (int b = 0; b < 4; b++)
        s[b] = _mm_xor_si128(_mm_set_epi64x(0, (long long)(4 * chunk + (uint64_t)b)),
                             even);
    for (int i = 1; i < 7; i++) {
        for (int b = 0; b < 4; b++)
            s[b] = _mm_aesenc_si128(s[b], odd);
        even = fdp_aes_next_even(even, odd, 1 << (i - 1));
        for (int b = 0; b < 4; b++)
            s[b] = _mm_aesenc_si128(s[b], even);
        odd = fdp_aes_next_odd(odd, even);
    }
    even = fdp_aes_next_even(even, odd, 1 << 6);
    for (int b = 0; b < 4; b++)
        s[b] = _mm_aesenclast_si128(_mm_aesenc_si128(s[b], odd), even);

    __m128i main_even = s[0], main_odd = s[1], ext_even = s[2], ext_odd = s[3];
    FDP_AES_STORE(main_schedule, main_even);
    FDP_AES_STORE(ext_schedule, ext_even);
    for (int i = 1; i < 8; i++) {
        FDP_AES_STORE(main_schedule + 32 * i - 16, main_odd);
        FDP_AES_STORE(ext_schedule + 32 * i - 16, ext_odd);
        main_even = fdp_aes_next_even(main_even, main_odd, 1 << (i - 1));
        ext_even = fdp_aes_next_even(ext_even, ext_odd, 1 << (i - 1));
        FDP_AES_STORE(main_schedule + 32 * i, main_even);
        FDP_AES_STORE(ext_schedule + 32 * i, ext_even);
        main_odd = fdp_aes_next_odd(main_odd, main_even);
        ext_odd = fdp_aes_next_odd(ext_odd, ext_even);
    }
}

FDP_TARGET_END

#else
typedef int fdp_empty_unit_t;
#endif
