/* levels.c: every instruction-set level against the others, bit for bit.
 *
 *   levels [ROUNDS]
 *
 * Built with the core's sources and with levels_laws.h, which levels_laws.py writes,
 * and nothing else, so that it runs where Python does not: in emulators of other
 * processors (docs/emulation.md). ROUNDS: long releases a law, 1 if absent. A mask
 * is a set of FDP_CPU_* bits; those that the machine lacks are skipped and said so.
 *
 *   ciphers    main streams and extension blocks of all masks are equal
 *   adding     noise and grids: equal
 *   releases   fdp_release is equal at all masks, as it is, with few ranks, and with
 *              all special lanes settled exactly
 *   the rest   levels_local.h, levels_selection.h
 *
 * Prints a digest a case, equal on all machines but for lines that begin with #.
 * Exit status 0: no difference.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/cpu.h"
#include "fastdp.h"
#include "rng/stream.h"
#include "sampler/kernels.h"
#include "../c_law.h"

typedef struct {
    const char *name;
    int64_t numerator, denominator; /* of the scale or sigma */
    fdp_sampler_t sampler;
} law_t;

#include "levels_laws.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t differences, compared;

/* ---- words and digests --------------------------------------------------- */

static uint64_t state = 1;

/* splitmix64 */
static uint64_t next(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Random, or few bits set or clear, or few low bits: the words of the tails. */
static uint64_t edge(void)
{
    const uint64_t r = next(), kind = next() % 8;
    const unsigned a = (unsigned)(next() % 64);
    switch (kind) {
    case 0: return r >> a;
    case 1: return ~(r >> a);
    case 2: return UINT64_C(1) << a;
    case 3: return (UINT64_C(1) << a) - 1;
    case 4: return ~(UINT64_C(1) << a);
    case 5: return r << a;
    default: return r;
    }
}

static uint64_t digest(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* Compares with the reference and tells the first difference. */
static void compare(const char *what, const char *law, uint32_t mask, const void *a,
                    const void *b, size_t n, size_t size)
{
    compared += n;
    if (memcmp(a, b, n * size) == 0) {
        return;
    }
    const uint8_t *x = a, *y = b;
    for (size_t i = 0, shown = 0; i < n; i++) {
        if (memcmp(x + i * size, y + i * size, size) != 0) {
            uint64_t u = 0, v = 0;
            memcpy(&u, x + i * size, size);
            memcpy(&v, y + i * size, size);
            differences++;
            if (shown++ < 3) {
                printf("DIFFERENT %s %s mask %" PRIu32 " element %zu of %zu: %#" PRIx64
                       ", reference %#" PRIx64 "\n",
                       what, law, mask, i, n, u, v);
            }
        }
    }
}

/* ---- masks ---------------------------------------------------------------- */

#define AVX2 (FDP_CPU_AES | FDP_CPU_V128 | FDP_CPU_AVX2)
#define AVX512 (AVX2 | FDP_CPU_AVX512)

static const uint32_t masks[] = {
    0,
    FDP_CPU_AES,
    FDP_CPU_V128,
    FDP_CPU_V128 | FDP_CPU_AES,
    AVX2,
    AVX2 | FDP_CPU_VAES,
    AVX512,
    AVX512 | FDP_CPU_VAES,
    AVX512 | FDP_CPU_VAES | FDP_CPU_VBMI,
};

/* Puts a mask in force, or false when the machine lacks some of it. */
static bool take(uint32_t mask)
{
    fdp_cpu_limit(mask);
    return fdp_cpu_mask() == mask;
}

/* ---- ciphers ---------------------------------------------------------------- */

static const uint32_t ciphers[] = {FDP_CIPHER_CHACHA20, FDP_CIPHER_AES256};

/* Puts a mask in force; false when there is nothing new to see for this cipher. */
static bool take_for(uint32_t cipher, uint32_t mask)
{
    const bool chacha = cipher == FDP_CIPHER_CHACHA20;
    if (chacha && (mask == FDP_CPU_AES || (mask & FDP_CPU_VAES) != 0)) {
        return false;
    }
    return take(mask) && fdp_cipher_available(cipher);
}

static const char *cipher_name(uint32_t cipher)
{
    return cipher == FDP_CIPHER_AES256 ? "aes256" : "chacha20";
}

static fdp_stream_t stream_of(uint32_t cipher)
{
    fdp_stream_t stream = {.cipher = cipher};
    for (size_t i = 0; i < sizeof stream.key; i++) {
        stream.key[i] = (uint8_t)(7 * i + 1);
    }
    return stream;
}

static uint8_t expected[1 << 18], got[1 << 18];

/* Fills `out`, the same at all masks; returns how many bytes. */
typedef size_t draw_fn(const void *context, uint8_t *out);

/* Draws at all masks and compares, in elements of `size` bytes. */
static void across(const char *what, const char *name, uint32_t cipher, draw_fn *draw,
                   const void *context, size_t size)
{
    size_t bytes = 0;
    for (size_t m = 0; m < COUNT(masks); m++) {
        if (!take_for(cipher, masks[m])) {
            continue;
        }
        const size_t now = draw(context, bytes == 0 ? expected : got);
        if (bytes != 0) {
            compare(what, name, masks[m], got, expected, now / size, size);
        }
        bytes = now;
    }
    if (bytes != 0) {
        printf("%s %s %s: %016" PRIx64 "\n", what, cipher_name(cipher), name,
               digest(expected, bytes));
    }
}

#define STREAM 65536
#define TRIALS 100

typedef struct {
    fdp_stream_t stream;
    uint64_t index;
} chunk_t;

/* What one chunk gives: a long stretch, stretches of other lengths and places, and
 * blocks of 1 to TRIALS trials. */
static size_t draw_stream(const void *context, uint8_t *out)
{
    static FDP_ALIGNED(64) uint8_t buffer[STREAM];
    const chunk_t *c = context;
    fdp_chunk_t chunk;
    size_t at = STREAM;
    fdp_chunk_open(&chunk, &c->stream, c->index);
    fdp_chunk_main(&chunk, 0, buffer, STREAM);
    memcpy(out, buffer, STREAM);
    for (size_t n = 64; n <= 2048; n += 64) {
        fdp_chunk_main(&chunk, (uint64_t)n * n * 1024, buffer, n);
        memcpy(out + at, buffer, n);
        at += n;
    }
    for (unsigned power = 36; power <= 38; power++) { /* counters pass 2^32 */
        fdp_chunk_main(&chunk, (UINT64_C(1) << power) - 1024, buffer, 2048);
        memcpy(out + at, buffer, 2048);
        at += 2048;
    }
    state = c->index;
    for (uint32_t n = 1; n <= TRIALS; n++) {
        uint32_t trial[TRIALS];
        for (size_t i = 0; i < n; i++) {
            trial[i] = (uint32_t)edge();
        }
        fdp_chunk_extend(&chunk, trial, n, n % 2 ? n % 8 : (uint32_t)next(), out + at);
        at += 16 * n;
    }
    fdp_chunk_close(&chunk);
    return at;
}

static void check_streams(uint32_t cipher)
{
    static const uint64_t chunks[] = {0, 1, 2, 1000000, UINT32_MAX};
    for (size_t k = 0; k < COUNT(chunks); k++) {
        const chunk_t c = {stream_of(cipher), chunks[k]};
        char name[40];
        snprintf(name, sizeof name, "chunk %" PRIu64, chunks[k]);
        across("stream", name, cipher, draw_stream, &c, 1);
    }
}

static size_t draw_uniform(const void *context, uint8_t *out)
{
    static const uint64_t ranges[] = {0, 1, 3, 1000, UINT64_C(0xc000000000000001)};
    static int64_t value[20000];
    fdp_status_t status = fdp_fill_bytes(context, 5, 40000, out);
    for (size_t k = 0; k < COUNT(ranges) && status == FDP_OK; k++) {
        status = fdp_fill_integers(context, 7, ranges[k], k, 3000, value + 3000 * k);
    }
    if (status == FDP_OK) {
        status = fdp_fill_permutation(context, 5000, value + 15000);
    }
    differences += status != FDP_OK;
    memcpy(out + 40000, value, sizeof value);
    return 40000 + sizeof value;
}

/* ---- adding noise ----------------------------------------------------------- */

#define LANES 8192

static double some_double(void)
{
    static const double special[] = {0.0,     -0.0,    0x1p-1074, -0x1p-1022, 0x1p51,
                                     0x1p52,  -0x1p53, 0.5,       1.5,        2.5,
                                     -0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023};
    const uint64_t r = next();
    double x;
    switch (next() % 4) {
    case 0: return special[r % COUNT(special)];
    case 1: return r % 16 == 0 ? (double)NAN : r % 16 == 1 ? (double)INFINITY : -1e9;
    case 2: return ((double)(r >> 11) - 0x1p52) * 0x1p-30;
    default: memcpy(&x, &r, sizeof x); return x;
    }
}

static void check_adding(void)
{
    static FDP_ALIGNED(64) int64_t x[LANES], wide[LANES], out[LANES], sums[LANES];
    static FDP_ALIGNED(64) int64_t steps[LANES];
    static double real[LANES], real_out[LANES], real_expected[LANES];
    static const int powers[] = {-1000, -30, 0, 20, 900};
    state = 12345;
    for (size_t i = 0; i < LANES; i++) {
        x[i] = (int64_t)edge();
        wide[i] = (int64_t)edge();
        steps[i] = (int64_t)edge() >> 13; /* at most 2^50 in size */
        real[i] = some_double();
    }
    for (size_t m = 0; m < COUNT(masks); m++) {
        if (!take(masks[m])) {
            continue;
        }
        const fdp_kernels_t *k = fdp_kernels();
        for (size_t n = m == 0 ? LANES : 0; n <= LANES; n += n < 130 ? 1 : LANES - n) {
            const bool last = n == LANES;
            const size_t from = (n & 7) * !last; /* arrays that are not aligned */
            for (size_t i = 0; i < LANES; i++) {
                if (__builtin_add_overflow(x[i], wide[i], &sums[i])) {
                    sums[i] = x[i] < 0 ? INT64_MIN : INT64_MAX;
                }
            }
            memcpy(out, x, sizeof out); /* in place */
            k->add_wide(out + from, wide + from, out + from, n);
            memcpy(sums, x, from * 8);
            memcpy(sums + from + n, x + from + n, (LANES - from - n) * 8);
            compare("sum", fdp_cpu_level(), masks[m], out, sums, LANES, 8);
            if (last) {
                break;
            }
        }
        for (size_t p = 0; p < COUNT(powers); p++) {
            const double step = ldexp(1.0, powers[p]);
            const fdp_grid_t grid = {step, p % 2 == 0 ? -DBL_MAX : -step * 1e6,
                                     p % 2 == 0 ? DBL_MAX : step * 2e6, 0.0};
            k->add_grid(&grid, real, steps, real_out, LANES);
            fdp_kernels_portable.add_grid(&grid, real, steps, real_expected, LANES);
            compare("grid", fdp_cpu_level(), masks[m], real_out, real_expected, LANES, 8);
            if (m == 0) {
                printf("grid 2^%d: %016" PRIx64 "\n", powers[p],
                       digest(real_out, sizeof real_out));
            }
        }
    }
}

/* ---- releases ---------------------------------------------------------------- */

typedef struct {
    const law_t *law;
    fdp_call_t call;
    fdp_sampler_t sampler;
    uint64_t chunk;
    size_t n;
    fdp_dtype_t type; /* FDP_NONE: noise alone, as int64 */
} release_t;

static void some_data(fdp_dtype_t type, size_t size, size_t n, uint8_t *out)
{
    state = type;
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = next();
        const double d = some_double();
        const float f = (float)(fabs(d) < 0x1p100 ? d : 7.25);
        const void *from = &word;
        from = type == FDP_F64 ? &d : type == FDP_F32 ? (const void *)&f : from;
        memcpy(out + i * size, from, size);
    }
}

static const size_t sizes[] = {8, 1, 2, 4, 8, 1, 2, 4, 4, 8}; /* by fdp_dtype_t */

static size_t draw_release(const void *context, uint8_t *out)
{
    static const fdp_grid_t grid = {0x1p-10, -1e6, 1e6, 0.0};
    const release_t r = *(const release_t *)context;
    const bool noise = r.type == FDP_NONE;
    some_data(r.type, sizes[r.type], r.n, out);
    const fdp_target_t target = {.x = noise ? NULL : out,
                                 .x_type = r.type,
                                 .out = out,
                                 .out_type = noise ? FDP_I64 : r.type,
                                 .grid = r.type >= FDP_F32 ? &grid : NULL};
    if (fdp_release(&r.call, &r.sampler, r.chunk, r.n, &target) != FDP_OK) {
        printf("FAILED %s\n", r.law->name);
        differences++;
    }
    return r.n * sizes[r.type];
}

/* More lanes sent onward: 1 for want of ranks, 2 all special ones. */
static fdp_sampler_t widened(const law_t *law, int widen)
{
    fdp_sampler_t s = law->sampler;
    for (int i = 0; widen >= 1 && i < 4; i++) {
        s.law.slots[0][i] = s.law.slots[1][i] = 16;
    }
    s.law.unsettled = widen == 2;
    return s;
}

static void check_release(const law_t *law, uint32_t cipher, int widen,
                          fdp_dtype_t type, uint64_t chunk, size_t n)
{
    char name[100];
    const release_t r = {.law = law,
                         .call = {.stream = stream_of(cipher)},
                         .sampler = widened(law, widen),
                         .chunk = chunk,
                         .n = n,
                         .type = type};
    snprintf(name, sizeof name, "%s widen %d type %d chunk %" PRIu64 " n %zu", law->name,
             widen, (int)type, chunk, n);
    across("release", name, cipher, draw_release, &r, sizes[type]);
}

static void check_releases(const law_t *law, uint32_t cipher, uint64_t rounds)
{
    static const size_t few[] = {1, 2, 63, 64, 65, 127, 128, 129, 130, 700};
    for (size_t k = 0; k < COUNT(few); k++) {
        check_release(law, cipher, (int)(k % 3), FDP_NONE, k, few[k]);
    }
    for (uint64_t round = 0; round < rounds; round++) {
        check_release(law, cipher, 0, FDP_NONE, 100 + 4 * round, 12500);
    }
    check_release(law, cipher, 1, FDP_NONE, 50, 2500);
    check_release(law, cipher, 2, FDP_NONE, 60, 2500);
    /* a grid takes noise of at most 2^50 steps: mechanisms see to it */
    const bool far = law->numerator / law->denominator > INT64_C(1) << 40;
    for (fdp_dtype_t type = FDP_I8; type <= (far ? FDP_U32 : FDP_F64); type++) {
        check_release(law, cipher, 0, type, 3, 300 + 70 * (size_t)type);
    }
    if (law->sampler.law.tails) {
        law_t bounded = *law;
        const double scale = (double)law->numerator / (double)law->denominator;
        bounded.sampler.law.bound = (int64_t)(scale * 1.5) + 1;
        bounded.sampler.acceptance *= 0.75;
        differences += fdp_sampler_prepare(&bounded.sampler) != FDP_OK;
        check_release(&bounded, cipher, 0, FDP_NONE, 70, 4500);
        check_release(&bounded, cipher, 2, FDP_NONE, 70, 1000);
    }
}

#include "levels_local.h"
#include "levels_selection.h"

int main(int argc, char **argv)
{
    const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    static law_t law[COUNT(laws)];
    memcpy(law, laws, sizeof laws);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t m = 0; m < COUNT(masks); m++) {
        const bool there = take(masks[m]);
        printf("# mask %" PRIu32 " %s\n", masks[m], there ? fdp_cpu_level() : "absent");
    }
    check_adding();
    for (size_t i = 0; i < COUNT(laws); i++) {
        law[i].sampler = law_of(law[i].name, (uint64_t)law[i].numerator,
                                (uint64_t)law[i].denominator);
    }
    for (size_t c = 0; c < COUNT(ciphers); c++) {
        const fdp_call_t call = {.stream = stream_of(ciphers[c])};
        check_streams(ciphers[c]);
        across("uniform", "", ciphers[c], draw_uniform, &call, 8);
        for (size_t i = 0; i < COUNT(laws); i++) {
            check_releases(&law[i], ciphers[c], rounds);
        }
        check_local(ciphers[c]);
        check_choices(ciphers[c]);
    }
    printf("# compared %" PRIu64 " differences %" PRIu64 "\n", compared, differences);
    puts(differences == 0 ? "EQUAL" : "NOT EQUAL");
    return differences == 0 ? 0 : 1;
}
