/* cpu.c - our own CPUID and XGETBV reader, and what Linux says of ARMv8.
 *
 *   fdp_cpu_read      processor and operating system -> mask
 *   fdp_cpu_env       FASTDP_CPU -> the bits that may stay
 *   fdp_cpu_state     the one global of the core: an atomic word, bits 0-7 the
 *                     mask in force, bits 8-15 what may be restored, bit 31
 *                     "filled". Filling is idempotent: racing threads compute
 *                     the same word, and the compare-exchange keeps a limit set
 *                     in between.
 *
 * __builtin_cpu_supports is not used: it needs a run-time library that not
 * every clang installation links.
 */
#include "cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define STATE_FILLED UINT32_C(0x80000000)
#define STATE_SHIFT 8
#define STATE_BITS UINT32_C(0xff)

static _Atomic uint32_t fdp_cpu_state;

/* Drops every bit whose prerequisites are missing. Code that uses a feature then has to test only
 * one bit. */
static uint32_t fdp_cpu_close(uint32_t mask)
{
    if (!(mask & FDP_CPU_V128))
        mask &= ~(uint32_t)FDP_CPU_AVX2;
    if (!(mask & FDP_CPU_AVX2))
        mask &= ~(uint32_t)(FDP_CPU_AVX512 | FDP_CPU_VAES);
    if (!(mask & FDP_CPU_AVX512))
        mask &= ~(uint32_t)FDP_CPU_VBMI;
    if (!(mask & FDP_CPU_AES))
        mask &= ~(uint32_t)FDP_CPU_VAES;
    return mask;
}

#if FDP_X86_64

typedef struct {
    uint32_t eax, ebx, ecx, edx;
} fdp_cpuid_t;

static fdp_cpuid_t fdp_cpuid(uint32_t leaf)
{
    fdp_cpuid_t r;
    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(0));
    return r;
}

/* XCR0: which registers the operating system saves and restores. */
static uint32_t fdp_xgetbv(void)
{
    uint32_t eax, edx;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" /* xgetbv, for old assemblers */
                     : "=a"(eax), "=d"(edx)
                     : "c"(0));
    return eax;
}

static bool fdp_all(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

#define BIT(n) (UINT32_C(1) << (n))

static uint32_t fdp_cpu_read(void)
{
    const uint32_t top = fdp_cpuid(0).eax;
    if (top < 7)
        return 0;
    const uint32_t top_ext = fdp_cpuid(UINT32_C(0x80000000)).eax;
    const fdp_cpuid_t one = fdp_cpuid(1), seven = fdp_cpuid(7);
    const uint32_t ext =
        top_ext > UINT32_C(0x80000000) ? fdp_cpuid(UINT32_C(0x80000001)).ecx : 0;
    uint32_t mask = 0;

    /* leaf 1 ecx: sse3 0, ssse3 9, fma 12, sse4.1 19, sse4.2 20, popcnt 23,
     * aes 25, osxsave 27, avx 28 */
    if (fdp_all(one.ecx, BIT(0) | BIT(9) | BIT(19) | BIT(25)))
        mask |= FDP_CPU_AES;
    if (fdp_all(one.ecx, BIT(0) | BIT(9) | BIT(19) | BIT(20) | BIT(23)))
        mask |= FDP_CPU_V128;
    if (!fdp_all(one.ecx, BIT(27)))
        return mask;

    const uint32_t xcr0 = fdp_xgetbv();
    const uint32_t ymm = BIT(1) | BIT(2), zmm = ymm | BIT(5) | BIT(6) | BIT(7);
    /* leaf 7 ebx: bmi 3, avx2 5, bmi2 8; leaf 0x80000001 ecx: lzcnt 5 */
    if (fdp_all(xcr0, ymm) &&
        fdp_all(one.ecx,
                BIT(0) | BIT(9) | BIT(12) | BIT(19) | BIT(20) | BIT(23) | BIT(28)) &&
        fdp_all(seven.ebx, BIT(3) | BIT(5) | BIT(8)) && fdp_all(ext, BIT(5)))
        mask |= FDP_CPU_AVX2;
    /* leaf 7 ebx: avx512 f 16, dq 17, cd 28, bw 30, vl 31 */
    if (fdp_all(xcr0, zmm) &&
        fdp_all(seven.ebx, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31)))
        mask |= FDP_CPU_AVX512;
    /* leaf 7 ebx: ifma 21; ecx: vbmi 1, vbmi2 6, bitalg 12, vpopcntdq 14 */
    if (fdp_all(seven.ebx, BIT(21)) &&
        fdp_all(seven.ecx, BIT(1) | BIT(6) | BIT(12) | BIT(14)))
        mask |= FDP_CPU_VBMI;
    if (fdp_all(seven.ecx, BIT(9)))
        mask |= FDP_CPU_VAES;
    return fdp_cpu_close(mask);
}

#else

#if defined(__aarch64__) && defined(__linux__)
static bool fdp_has_aes(void) { return (getauxval(AT_HWCAP) & (1ul << 3)) != 0; }
#else /* every Apple processor with ARMv8 has AES */
static bool fdp_has_aes(void) { return FDP_AES; }
#endif

static uint32_t fdp_cpu_read(void)
{
    return (FDP_V128 ? (uint32_t)FDP_CPU_V128 : 0) |
           (fdp_has_aes() ? (uint32_t)FDP_CPU_AES : 0);
}

#endif

static const struct level {
    const char *name;
    uint32_t bit;
} levels[] = {
#define LEVEL(name, bit) {#name, bit},
    FDP_LEVELS(LEVEL)
#undef LEVEL
};

#define LEVELS (sizeof levels / sizeof levels[0])

const char *fdp_cpu_name(size_t rank, uint32_t *mask)
{
    if (rank >= LEVELS)
        return NULL;
    *mask = rank == 0            ? 0
            : rank + 1 == LEVELS ? STATE_BITS
                                 : fdp_cpu_close(STATE_BITS & ~levels[rank + 1].bit);
    return levels[rank].name;
}

/* Sets *kept to the bits of the mask that the level named in FASTDP_CPU keeps: all bits if it names
 * no level. Returns whether the name is a level. */
static bool fdp_cpu_env(uint32_t *kept)
{
    const char *asked = getenv("FASTDP_CPU"), *name;
    *kept = STATE_BITS;
    if (asked == NULL || *asked == 0)
        return true;
    for (size_t rank = 0; (name = fdp_cpu_name(rank, kept)) != NULL; rank++) {
        if (strcmp(asked, name) == 0)
            return true;
    }
    *kept = STATE_BITS;
    return false;
}

bool fdp_cpu_named(void)
{
    uint32_t kept;
    return fdp_cpu_env(&kept);
}

static uint32_t fdp_cpu_load(void)
{
    uint32_t state = atomic_load_explicit(&fdp_cpu_state, memory_order_relaxed);
    if (FDP_LIKELY(state != 0))
        return state;
    uint32_t kept;
    (void)fdp_cpu_env(&kept); /* fdp_cpu_named refuses a name that is not a level */
    const uint32_t mask = fdp_cpu_close(fdp_cpu_read() & kept);
    const uint32_t fresh = STATE_FILLED | mask << STATE_SHIFT | mask;
    if (atomic_compare_exchange_strong(&fdp_cpu_state, &state, fresh))
        return fresh;
    return state;
}

uint32_t fdp_cpu_mask(void) { return fdp_cpu_load() & STATE_BITS; }

size_t fdp_cpu_rank(void)
{
    const uint32_t mask = fdp_cpu_mask();
    size_t rank = 0;
    for (size_t i = 1; i < LEVELS; i++) {
        if (mask & levels[i].bit)
            rank = i;
    }
    return rank;
}

const char *fdp_cpu_level(void) { return levels[fdp_cpu_rank()].name; }

void fdp_cpu_limit(uint32_t mask)
{
    const uint32_t allowed = fdp_cpu_load() >> STATE_SHIFT & STATE_BITS;
    const uint32_t active = fdp_cpu_close(allowed & mask);
    atomic_store(&fdp_cpu_state, STATE_FILLED | allowed << STATE_SHIFT | active);
}
