/* v128.h: what vectors of 16 bytes need beyond the compilers' vector extensions, on
 * AArch64 (NEON), WebAssembly (simd128) and x86-64.
 *
 *   fdp_look_t, fdp_look_open, fdp_look   tables of 32 or 128 bytes at 16 indices
 *   fdp_mask64                            one bit of each of 64 lanes of all ones or zeros
 *   fdp_swizzle                           bytes of one vector; 0 beyond it
 *   fdp_widen                             16 signed bytes as 16-bit integers
 *   fdp_high_product                      the high halves of products of 16 bits
 *   fdp_zip_low, fdp_zip_high             bytes of two vectors by turns
 *
 * Tables lie in registers; no address depends on an index: T2.
 */
#ifndef FDP_SAMPLER_V128_H
#define FDP_SAMPLER_V128_H

#include <string.h>

#include "../base/config.h"

#if FDP_V128

#if FDP_X86_64
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#include <wasm_simd128.h>
#endif

typedef uint8_t fdp_b16_t __attribute__((vector_size(16)));
typedef uint16_t fdp_h8_t __attribute__((vector_size(16)));
typedef int16_t fdp_s8_t __attribute__((vector_size(16)));

FDP_TARGET_V128

FDP_ALWAYS_INLINE fdp_b16_t fdp_b16_load(const void *p)
{
    fdp_b16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

FDP_ALWAYS_INLINE void fdp_b16_store(void *p, fdp_b16_t v) { memcpy(p, &v, sizeof v); }

#if defined(__aarch64__)

typedef struct {
    uint8x16x4_t part[2];
} fdp_look_t;

FDP_ALWAYS_INLINE void fdp_look_open(fdp_look_t *t, const uint8_t *table, size_t entries)
{
    for (size_t k = 0; k < entries / 16; k++) {
        t->part[k / 4].val[k % 4] = vld1q_u8(table + 16 * k);
    }
}

/* An index beyond a table gives 0 (tbl) or the old value (tbx). */
FDP_ALWAYS_INLINE fdp_b16_t fdp_look(const fdp_look_t *t, size_t entries, fdp_b16_t i)
{
    if (entries == 32) {
        const uint8x16x2_t two = {{t->part[0].val[0], t->part[0].val[1]}};
        return (fdp_b16_t)vqtbl2q_u8(two, (uint8x16_t)i);
    }
    const uint8x16_t low = vqtbl4q_u8(t->part[0], (uint8x16_t)i);
    return (fdp_b16_t)vqtbx4q_u8(low, t->part[1], (uint8x16_t)(i - 64));
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_swizzle(fdp_b16_t table, fdp_b16_t i)
{
    return (fdp_b16_t)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)i);
}

FDP_ALWAYS_INLINE fdp_h8_t fdp_high_product(fdp_h8_t a, fdp_h8_t b)
{
    const uint32x4_t low = vmull_u16(vget_low_u16((uint16x8_t)a), vget_low_u16((uint16x8_t)b));
    const uint32x4_t high = vmull_high_u16((uint16x8_t)a, (uint16x8_t)b);
    return (fdp_h8_t)vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}

FDP_ALWAYS_INLINE uint64_t fdp_mask64(const fdp_b16_t v[4])
{
    const fdp_b16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t a = vpaddq_u8((uint8x16_t)(v[0] & bit), (uint8x16_t)(v[1] & bit));
    const uint8x16_t b = vpaddq_u8((uint8x16_t)(v[2] & bit), (uint8x16_t)(v[3] & bit));
    const uint8x16_t c = vpaddq_u8(a, b);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(c, c)), 0);
}

FDP_ALWAYS_INLINE void fdp_widen(fdp_b16_t v, int16_t *to)
{
    vst1q_s16(to, vmovl_s8(vget_low_s8((int8x16_t)v)));
    vst1q_s16(to + 8, vmovl_high_s8((int8x16_t)v));
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_zip_low(fdp_b16_t a, fdp_b16_t b)
{
    return (fdp_b16_t)vzip1q_u8((uint8x16_t)a, (uint8x16_t)b);
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_zip_high(fdp_b16_t a, fdp_b16_t b)
{
    return (fdp_b16_t)vzip2q_u8((uint8x16_t)a, (uint8x16_t)b);
}

#else

/* The parts of a table, whose shuffles are added. An index below a part gives 0 or, on x86-64, an
 * entry at its low four bits from 16 k on. So on x86-64 each part is stored as the difference
 * (exclusive or) from the part before. */
typedef struct {
    fdp_b16_t part[8];
} fdp_look_t;

FDP_ALWAYS_INLINE void fdp_look_open(fdp_look_t *t, const uint8_t *table, size_t entries)
{
    fdp_b16_t before = {0};
    for (size_t k = 0; k < entries / 16; k++) {
        const fdp_b16_t part = fdp_b16_load(table + 16 * k);
        t->part[k] = part ^ before;
#if FDP_X86_64
        before = part;
#endif
    }
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_swizzle(fdp_b16_t table, fdp_b16_t i)
{
#if FDP_X86_64
    return (fdp_b16_t)_mm_shuffle_epi8((__m128i)table, (__m128i)i);
#else
    return (fdp_b16_t)wasm_i8x16_swizzle((v128_t)table, (v128_t)i);
#endif
}

FDP_ALWAYS_INLINE fdp_h8_t fdp_high_product(fdp_h8_t a, fdp_h8_t b)
{
#if FDP_X86_64
    return (fdp_h8_t)_mm_mulhi_epu16((__m128i)a, (__m128i)b);
#else
    return (fdp_h8_t)wasm_i16x8_shuffle(wasm_u32x4_extmul_low_u16x8((v128_t)a, (v128_t)b),
                                        wasm_u32x4_extmul_high_u16x8((v128_t)a, (v128_t)b),
                                        1, 3, 5, 7, 9, 11, 13, 15);
#endif
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_look(const fdp_look_t *t, size_t entries, fdp_b16_t i)
{
    fdp_b16_t sum = fdp_swizzle(t->part[0], i);
    for (size_t k = 1; k < entries / 16; k++) {
        i -= 16;
        sum ^= fdp_swizzle(t->part[k], i);
    }
    return sum;
}

FDP_ALWAYS_INLINE uint64_t fdp_mask64(const fdp_b16_t v[4])
{
    uint64_t mask = 0;
    for (unsigned k = 0; k < 4; k++) {
#if FDP_X86_64
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8((__m128i)v[k]) << (16 * k);
#else
        mask |= (uint64_t)wasm_i8x16_bitmask((v128_t)v[k]) << (16 * k);
#endif
    }
    return mask;
}

FDP_ALWAYS_INLINE void fdp_widen(fdp_b16_t v, int16_t *to)
{
#if FDP_X86_64
    fdp_b16_store(to, (fdp_b16_t)_mm_cvtepi8_epi16((__m128i)v));
    fdp_b16_store(to + 8, (fdp_b16_t)_mm_cvtepi8_epi16(_mm_srli_si128((__m128i)v, 8)));
#else
    wasm_v128_store(to, wasm_i16x8_extend_low_i8x16((v128_t)v));
    wasm_v128_store(to + 8, wasm_i16x8_extend_high_i8x16((v128_t)v));
#endif
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_zip_low(fdp_b16_t a, fdp_b16_t b)
{
#if FDP_X86_64
    return (fdp_b16_t)_mm_unpacklo_epi8((__m128i)a, (__m128i)b);
#else
    return (fdp_b16_t)wasm_i8x16_shuffle((v128_t)a, (v128_t)b, 0, 16, 1, 17, 2, 18, 3, 19,
                                         4, 20, 5, 21, 6, 22, 7, 23);
#endif
}

FDP_ALWAYS_INLINE fdp_b16_t fdp_zip_high(fdp_b16_t a, fdp_b16_t b)
{
#if FDP_X86_64
    return (fdp_b16_t)_mm_unpackhi_epi8((__m128i)a, (__m128i)b);
#else
    return (fdp_b16_t)wasm_i8x16_shuffle((v128_t)a, (v128_t)b, 8, 24, 9, 25, 10, 26, 11, 27,
                                         12, 28, 13, 29, 14, 30, 15, 31);
#endif
}

#endif

FDP_TARGET_END

#endif /* FDP_V128 */
#endif
