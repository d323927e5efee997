/* aes.c - AES-256: the body on 128-bit registers (AES-NI), 256 and 512 (VAES), and the
 * key schedules, which every level shares.
 *
 *   next_even, next_odd  one step of the schedule. All four columns of the
 *                        substituted word are equal, so the ShiftRows inside
 *                        AESENCLAST does nothing: it serves as SubWord, faster
 *                        than AESKEYGENASSIST.
 *   fdp_aes_chunk        call key -> two chunk keys -> their schedules, with
 *                        independent chains side by side
 */
#include "../base/config.h"

#if FDP_X86_64

#include <immintrin.h>
#include <string.h>

#include "../base/wipe.h"
#include "cipher.h"

FDP_TARGET_AESNI
FDP_ALWAYS_INLINE __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

FDP_ALWAYS_INLINE void store(uint8_t *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

#define FDP_LEVEL aesni
#define FDP_V __m128i
#define FDP_WIDTH 1
#define FDP_SPREAD(v) (v)
#define FDP_ROUND _mm_aesenc_si128
#define FDP_LAST _mm_aesenclast_si128
#include "aes_body.inc.h"

/* Word i becomes the exclusive or of words 0..i. */
FDP_ALWAYS_INLINE __m128i prefix(__m128i k)
{
    k = _mm_xor_si128(k, _mm_slli_si128(k, 4));
    return _mm_xor_si128(k, _mm_slli_si128(k, 8));
}

/* Round key 2i from 2i-2 and 2i-1: SubWord(RotWord(last word)) and Rcon. */
FDP_ALWAYS_INLINE __m128i next_even(__m128i k, __m128i other, int rcon)
{
    const __m128i rotated = _mm_shuffle_epi8(other, _mm_set1_epi32(0x0c0f0e0d));
    return _mm_xor_si128(prefix(k), _mm_aesenclast_si128(rotated, _mm_set1_epi32(rcon)));
}

/* Round key 2i+1 from 2i-1 and 2i: SubWord(last word). */
FDP_ALWAYS_INLINE __m128i next_odd(__m128i k, __m128i other)
{
    const __m128i word = _mm_shuffle_epi32(other, 0xff);
    return _mm_xor_si128(prefix(k), _mm_aesenclast_si128(word, _mm_setzero_si128()));
}

void fdp_aes_chunk(uint8_t main_schedule[FDP_AES_SCHEDULE],
                   uint8_t ext_schedule[FDP_AES_SCHEDULE], const uint8_t key[32],
                   uint64_t chunk)
{
    __m128i even = load(key), odd = load(key + 16);
    __m128i s[4];

    /* The call key's schedule is used as it appears and never stored. */
    for (int b = 0; b < 4; b++)
        s[b] = _mm_xor_si128(_mm_set_epi64x(0, (long long)(4 * chunk + (uint64_t)b)),
                             even);
    for (int i = 1; i < 7; i++) {
        for (int b = 0; b < 4; b++)
            s[b] = _mm_aesenc_si128(s[b], odd);
        even = next_even(even, odd, 1 << (i - 1));
        for (int b = 0; b < 4; b++)
            s[b] = _mm_aesenc_si128(s[b], even);
        odd = next_odd(odd, even);
    }
    even = next_even(even, odd, 1 << 6);
    for (int b = 0; b < 4; b++)
        s[b] = _mm_aesenclast_si128(_mm_aesenc_si128(s[b], odd), even);

    __m128i main_even = s[0], main_odd = s[1], ext_even = s[2], ext_odd = s[3];
    store(main_schedule, main_even);
    store(ext_schedule, ext_even);
    for (int i = 1; i < 8; i++) {
        store(main_schedule + 32 * i - 16, main_odd);
        store(ext_schedule + 32 * i - 16, ext_odd);
        main_even = next_even(main_even, main_odd, 1 << (i - 1));
        ext_even = next_even(ext_even, ext_odd, 1 << (i - 1));
        store(main_schedule + 32 * i, main_even);
        store(ext_schedule + 32 * i, ext_even);
        main_odd = next_odd(main_odd, main_even); /* the last ones are not used */
        ext_odd = next_odd(ext_odd, ext_even);
    }
}
FDP_TARGET_END

FDP_TARGET_AVX2_AES
#define FDP_LEVEL vaes256
#define FDP_V __m256i
#define FDP_WIDTH 2
#define FDP_SPREAD _mm256_broadcastsi128_si256
#define FDP_ROUND _mm256_aesenc_epi128
#define FDP_LAST _mm256_aesenclast_epi128
#include "aes_body.inc.h"
FDP_TARGET_END

FDP_TARGET_AVX512_AES
#define FDP_LEVEL vaes512
#define FDP_V __m512i
#define FDP_WIDTH 4
#define FDP_SPREAD _mm512_broadcast_i32x4
#define FDP_ROUND _mm512_aesenc_epi128
#define FDP_LAST _mm512_aesenclast_epi128
#include "aes_body.inc.h"
FDP_TARGET_END

#else
typedef int fdp_no_aes;
#endif
