/* aes.c - AES-256: the body on 128-bit registers (AES-NI, ARMv8), 256 and 512 (VAES), and
 * the key schedules, which every level shares.
 *
 *   next_even, next_odd  one step of the schedule. All four columns of the
 *                        substituted word are equal, so the ShiftRows inside
 *                        AESENCLAST does nothing: it serves as SubWord, faster
 *                        than AESKEYGENASSIST.
 *   fdp_aes_chunk        call key -> two chunk keys -> their schedules, with
 *                        independent chains side by side
 */
#include "../base/config.h"

#if FDP_AES

#if FDP_X86_64
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif
#include <string.h>

#include "../base/wipe.h"
#include "cipher.h"

typedef uint64_t fdp_aes_block_t __attribute__((vector_size(16)));
typedef uint32_t fdp_aes_words_t __attribute__((vector_size(16)));

FDP_TARGET_AES
FDP_ALWAYS_INLINE fdp_aes_block_t load(const uint8_t *p)
{
    fdp_aes_block_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

FDP_ALWAYS_INLINE void store(uint8_t *p, fdp_aes_block_t v) { memcpy(p, &v, sizeof v); }

FDP_ALWAYS_INLINE fdp_aes_block_t words(uint32_t word)
{
    return (fdp_aes_block_t)((fdp_aes_words_t){0} + word);
}

/* An AES round adds its key last, or first if FDP_KEY_FIRST is defined: AESE adds it first, and is
 * fused with the AESMC that follows. */
#if FDP_X86_64
#define FDP_ROUND(s, k) \
    (fdp_aes_block_t)_mm_aesenc_si128((__m128i)(s), (__m128i)(k))
#define FDP_LAST(s, k) \
    (fdp_aes_block_t)_mm_aesenclast_si128((__m128i)(s), (__m128i)(k))
#define KEY_LAST_ROUND FDP_ROUND
#define KEY_LAST FDP_LAST
#define UP(v, bytes) (fdp_aes_block_t)_mm_slli_si128((__m128i)(v), bytes)

FDP_ALWAYS_INLINE fdp_aes_block_t at(fdp_aes_block_t v, fdp_aes_block_t byte)
{
    return (fdp_aes_block_t)_mm_shuffle_epi8((__m128i)v, (__m128i)byte);
}
#else
#define FDP_KEY_FIRST
#define FDP_ROUND(s, k) \
    (fdp_aes_block_t)vaesmcq_u8(vaeseq_u8((uint8x16_t)(s), (uint8x16_t)(k)))
#define FDP_LAST(s, k) (fdp_aes_block_t)vaeseq_u8((uint8x16_t)(s), (uint8x16_t)(k))
#define KEY_LAST_ROUND(s, k) (FDP_ROUND(s, words(0)) ^ (k))
#define KEY_LAST(s, k) (FDP_LAST(s, words(0)) ^ (k))
#define UP(v, bytes) \
    (fdp_aes_block_t)vextq_u8((uint8x16_t)words(0), (uint8x16_t)(v), 16 - (bytes))

FDP_ALWAYS_INLINE fdp_aes_block_t at(fdp_aes_block_t v, fdp_aes_block_t byte)
{
    return (fdp_aes_block_t)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)byte);
}
#endif

#define FDP_LEVEL v128
#define FDP_V fdp_aes_block_t
#define FDP_WIDTH 1
#define FDP_SPREAD(v) (v)
#include "aes_body.inc.h"

/* Word i becomes the exclusive or of words 0..i. */
FDP_ALWAYS_INLINE fdp_aes_block_t prefix(fdp_aes_block_t k)
{
    k ^= UP(k, 4);
    return k ^ UP(k, 8);
}

/* Round key 2i from 2i-2 and 2i-1: SubWord(RotWord(last word)) and Rcon. */
FDP_ALWAYS_INLINE fdp_aes_block_t next_even(fdp_aes_block_t k, fdp_aes_block_t other,
                                            uint32_t rcon)
{
    return prefix(k) ^ KEY_LAST(at(other, words(0x0c0f0e0d)), words(rcon));
}

/* Round key 2i+1 from 2i-1 and 2i: SubWord(last word). */
FDP_ALWAYS_INLINE fdp_aes_block_t next_odd(fdp_aes_block_t k, fdp_aes_block_t other)
{
    return prefix(k) ^ KEY_LAST(at(other, words(0x0f0e0d0c)), words(0));
}

void fdp_aes_chunk(uint8_t main_schedule[FDP_AES_SCHEDULE],
                   uint8_t ext_schedule[FDP_AES_SCHEDULE], const uint8_t key[32],
                   uint64_t chunk)
{
    fdp_aes_block_t even = load(key), odd = load(key + 16);
    fdp_aes_block_t s[4];

    /* The call key's schedule is used as it is computed and never stored. */
    for (uint64_t b = 0; b < 4; b++)
        s[b] = (fdp_aes_block_t){4 * chunk + b, 0} ^ even;
    for (int i = 1; i < 7; i++) {
        for (int b = 0; b < 4; b++)
            s[b] = KEY_LAST_ROUND(s[b], odd);
        even = next_even(even, odd, 1u << (i - 1));
        for (int b = 0; b < 4; b++)
            s[b] = KEY_LAST_ROUND(s[b], even);
        odd = next_odd(odd, even);
    }
    even = next_even(even, odd, 1u << 6);
    for (int b = 0; b < 4; b++)
        s[b] = KEY_LAST(KEY_LAST_ROUND(s[b], odd), even);

    fdp_aes_block_t main_even = s[0], main_odd = s[1], ext_even = s[2], ext_odd = s[3];
    store(main_schedule, main_even);
    store(ext_schedule, ext_even);
    for (int i = 1; i < 8; i++) {
        store(main_schedule + 32 * i - 16, main_odd);
        store(ext_schedule + 32 * i - 16, ext_odd);
        main_even = next_even(main_even, main_odd, 1u << (i - 1));
        ext_even = next_even(ext_even, ext_odd, 1u << (i - 1));
        store(main_schedule + 32 * i, main_even);
        store(ext_schedule + 32 * i, ext_even);
        main_odd = next_odd(main_odd, main_even); /* the last ones are not used */
        ext_odd = next_odd(ext_odd, ext_even);
    }
}
#undef FDP_ROUND
#undef FDP_LAST
FDP_TARGET_END

#if FDP_X86_64
FDP_TARGET_AVX2_AES
#define FDP_LEVEL vaes256
#define FDP_V __m256i
#define FDP_WIDTH 2
#define FDP_SPREAD(v) _mm256_broadcastsi128_si256((__m128i)(v))
#define FDP_ROUND _mm256_aesenc_epi128
#define FDP_LAST _mm256_aesenclast_epi128
#include "aes_body.inc.h"
#undef FDP_ROUND
#undef FDP_LAST
FDP_TARGET_END

FDP_TARGET_AVX512_AES
#define FDP_LEVEL vaes512
#define FDP_V __m512i
#define FDP_WIDTH 4
#define FDP_SPREAD(v) _mm512_broadcast_i32x4((__m128i)(v))
#define FDP_ROUND _mm512_aesenc_epi128
#define FDP_LAST _mm512_aesenclast_epi128
#include "aes_body.inc.h"
FDP_TARGET_END
#endif

#else
typedef int fdp_no_aes;
#endif
