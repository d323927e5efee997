/* config.h - what the core asks of the compiler and the machine.
 *
 * Layer L0: included first by every file, includes nothing of ours. It holds
 *   - the refusals: anything the proofs do not cover stops the build here;
 *   - short names for attributes;
 *   - target regions: FDP_TARGET_x ... FDP_TARGET_END around a body compiles
 *     it for one instruction set, so that no file needs flags of its own.
 *
 * A target region must not contain a system header: include those before it.
 */
#ifndef FDP_BASE_CONFIG_H
#define FDP_BASE_CONFIG_H

#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- what is refused -------------------------------------------------- */

#if !defined(__GNUC__)
#error "fastdp needs gcc or clang (vector extensions, inline assembly)"
#endif
#if !defined(__linux__) && !defined(__APPLE__) && !defined(_WIN32) && !defined(__wasi__)
#error "fastdp runs on Linux, macOS, Windows and WASI: no other entropy source was reviewed"
#endif
/* On Windows gcc aligns the stack only to 16 bytes, so AVX variables on it fault (gcc bug
 * 54412). */
#if defined(_WIN32) && !defined(__clang__)
#error "fastdp needs clang on Windows"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "fastdp needs a little-endian machine"
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||                     \
    defined(__NO_SIGNED_ZEROS__)
#error "the proofs do not hold under -ffast-math, -Ofast, -funsafe-math-optimizations, \
-fassociative-math, -freciprocal-math, -ffinite-math-only or -fno-signed-zeros"
#endif
/* clang defines no macro for most of these options, so it gets them here as pragmas. Options that
 * have no pragma are tested at run time, by fdp_self_check. */
#if defined(__clang__)
#pragma clang fp reassociate(off)
#endif
_Static_assert(sizeof(1.0) == sizeof(double),
               "fastdp needs double constants: no -fsingle-precision-constant");

/* WebAssembly has addresses of 32 bits, but registers and products of 64. */
#if defined(__wasm32__)
#define FDP_ADDRESS_BYTES 4
#else
#define FDP_ADDRESS_BYTES 8
#endif
_Static_assert(CHAR_BIT == 8 && sizeof(void *) == FDP_ADDRESS_BYTES &&
                   sizeof(size_t) == FDP_ADDRESS_BYTES,
               "fastdp needs a 64-bit machine, or WebAssembly");
_Static_assert(FLT_RADIX == 2 && DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024 &&
                   FLT_MANT_DIG == 24 && FLT_MAX_EXP == 128,
               "fastdp needs IEEE 754 binary32 and binary64");
/* With extended intermediate precision the error bounds would depend on which values are
 * spilled. */
_Static_assert(FLT_EVAL_METHOD == 0, "fastdp needs float and double evaluated as such");
_Static_assert((-1 & 3) == 3 && (-1 >> 1) == -1,
               "fastdp needs two's complement and an arithmetic right shift");

/* ---- which machine ---------------------------------------------------- */

#if defined(__x86_64__)
#define FDP_X86_64 1
#else
#define FDP_X86_64 0
#endif

/* 1 if vectors of 16 bytes can be byte tables. On x86-64 the processor is asked at run time. */
#if FDP_X86_64 || defined(__aarch64__) || defined(__wasm_simd128__)
#define FDP_V128 1
#else
#define FDP_V128 0
#endif
/* 1 if the processor may have AES instructions. */
#if FDP_X86_64 || defined(__aarch64__)
#define FDP_AES 1
#else
#define FDP_AES 0
#endif

/* ---- attributes ------------------------------------------------------- */

#ifndef FDP_NODISCARD /* fastdp.h defines it, too, for programs that include only that */
#define FDP_NODISCARD __attribute__((warn_unused_result))
#endif
#define FDP_ALIGNED(n) __attribute__((aligned(n)))
#define FDP_INTERNAL __attribute__((visibility("hidden")))
#define FDP_ALWAYS_INLINE static inline __attribute__((always_inline))
/* The iterations of the loop that follows do not depend on each other. */
#if defined(__clang__)
#define FDP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FDP_INDEPENDENT _Pragma("GCC ivdep")
#endif
/* Makes the compiler add vectors in the written order. gcc would reorder a long sum as a tree, and
 * keep the leaves of the tree in memory. */
#define FDP_IN_ORDER(x) __asm__("" : "+v"(x))
/* _FORTIFY_SOURCE replaces memcpy by a function that takes the address of a vector. clang
 * then stores the vector on the stack, and leaves it there. Constant sizes of up to 64
 * bytes go to the builtin; _FORTIFY_SOURCE still checks longer copies. */
#if defined(__clang__) && !defined(memcpy)
#define memcpy(to, from, n)                                                     \
    (__builtin_constant_p(n) && (n) <= 64 ? __builtin_memcpy(to, from, n)       \
                                          : memcpy(to, from, n))
#endif
#define FDP_LIKELY(x) __builtin_expect(!!(x), 1)
#define FDP_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* FDP_JOIN(name, suffix) expands its arguments first. A shared body uses it to name the functions
 * of the level that includes it. */
#define FDP_JOIN_(a, b) a##_##b
#define FDP_JOIN(a, b) FDP_JOIN_(a, b)

/* ---- target regions --------------------------------------------------- */

/* cpu.c checks these features before it enables the level: change both together. gcc may use
 * 256-bit vectors only, unless told otherwise. */
#define FDP_FEATURES_V128 "sse3,ssse3,sse4.1,sse4.2,popcnt" /* x86-64-v2 */
#define FDP_FEATURES_AVX2 "avx2,fma,bmi,bmi2,popcnt,lzcnt"
#define FDP_FEATURES_AVX512 \
    FDP_FEATURES_AVX2 ",avx512f,avx512dq,avx512bw,avx512vl,avx512cd"
/* 52-bit products, byte tables in registers, compression of bytes, bit counts. */
#define FDP_FEATURES_AVX512VBMI \
    FDP_FEATURES_AVX512 ",avx512ifma,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq"

#define FDP_PRAGMA_(text) _Pragma(#text)

#if defined(__clang__)
#define FDP_TARGET_(...)                                                       \
    FDP_PRAGMA_(clang attribute push(__attribute__((target(__VA_ARGS__))),     \
                                     apply_to = function))
#define FDP_TARGET_BASE _Pragma("clang attribute push")
#define FDP_TARGET_END _Pragma("clang attribute pop")
#define FDP_WIDE_
#else
#define FDP_TARGET_(...)          \
    _Pragma("GCC push_options")   \
    FDP_PRAGMA_(GCC target(__VA_ARGS__))
#define FDP_TARGET_BASE _Pragma("GCC push_options")
#define FDP_TARGET_END _Pragma("GCC pop_options")
#define FDP_WIDE_ ",prefer-vector-width=512"
#endif

#if FDP_X86_64
/* AES-NI on 128-bit registers, for machines with or without AVX. */
#define FDP_TARGET_AES FDP_TARGET_("aes,ssse3,sse4.1")
#define FDP_TARGET_V128 FDP_TARGET_(FDP_FEATURES_V128)
#define FDP_TARGET_AVX2 FDP_TARGET_(FDP_FEATURES_AVX2)
#define FDP_TARGET_AVX2_AES FDP_TARGET_(FDP_FEATURES_AVX2 ",aes,vaes")
#define FDP_TARGET_AVX512 FDP_TARGET_(FDP_FEATURES_AVX512 FDP_WIDE_)
#define FDP_TARGET_AVX512VBMI FDP_TARGET_(FDP_FEATURES_AVX512VBMI FDP_WIDE_)
#define FDP_TARGET_AVX512_AES FDP_TARGET_(FDP_FEATURES_AVX512 ",aes,vaes" FDP_WIDE_)
#else /* all these machines have vectors of 16 bytes; AES is an extension of ARMv8 */
#define FDP_TARGET_V128 FDP_TARGET_BASE
#if defined(__clang__)
#define FDP_TARGET_AES FDP_TARGET_("aes")
#else
#define FDP_TARGET_AES FDP_TARGET_("+crypto")
#endif
#endif

#endif
