/* core_alone.c: the C core without Python, as an embedder would use it.
 *
 * test_core_alone.py writes laws.h (a few laws by name and parameter) beside the
 * build and compares the digests that this prints with
 * those of the extension. Built with the sanitizers it shows leaks as well.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fastdp.h"
#include "mech/resolve.h"

#define COUNT 20000

#include "../c_law.h"
/* struct { const char *name; uint64_t num, den; } laws[] = {...}; */
#include "laws.h"

static int failures;

static void expect(int truth, const char *what)
{
    if (!truth) {
        printf("failed: %s\n", what);
        failures++;
    }
}

/* The core's memory, taken and given back through these (ld --wrap). */
static struct {
    unsigned char *at;
    size_t size;
} held[64];
static int taken, fail_at = -1;
static size_t in_use, peak;

void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    size_t i = 0;
    while (held[i].at != NULL) {
        i++;
    }
    if (taken++ == fail_at) {
        return NULL;
    }
    held[i].at = __real_aligned_alloc(alignment, size);
    held[i].size = size;
    in_use += size;
    peak = in_use > peak ? in_use : peak;
    if (held[i].at != NULL) {
        memset(held[i].at, 0, size); /* a sanitizer fills it, and no call all of it */
    }
    return held[i].at;
}

void __wrap_free(void *memory)
{
    for (size_t i = 0; memory != NULL && i < sizeof held / sizeof held[0]; i++) {
        if (held[i].at == memory) {
            unsigned char any = 0;
            for (size_t k = 0; k < held[i].size; k++) {
                any |= held[i].at[k];
            }
            expect(any == 0, "wiped memory");
            held[i].at = NULL;
            in_use -= held[i].size;
        }
    }
    __real_free(memory);
}

/* Exact steps: as they are, or they fail, or give `planted`. */
static enum { AS_THEY_ARE, FAIL, PLANT } exact_steps;
static fdp_i128_t planted;
static int asked;

int __real_fdp_resolve(const fdp_trial_t *, fdp_decide_fn, const void *, const uint64_t *,
                       int64_t *, fdp_status_t *);
int __wrap_fdp_resolve(const fdp_trial_t *trial, fdp_decide_fn decide, const void *law,
                       const uint64_t *words, int64_t *value, fdp_status_t *status);

int __wrap_fdp_resolve(const fdp_trial_t *trial, fdp_decide_fn decide, const void *law,
                       const uint64_t *words, int64_t *value, fdp_status_t *status)
{
    asked++;
    if (exact_steps == AS_THEY_ARE) {
        return __real_fdp_resolve(trial, decide, law, words, value, status);
    }
    value[0] = exact_steps == FAIL ? 0 : (int64_t)(uint64_t)(fdp_u128_t)planted;
    value[1] = exact_steps == FAIL ? 0 : (int64_t)(planted >> 64);
    *status = exact_steps == FAIL ? FDP_ERR_RESOLVER : *status;
    return exact_steps == FAIL ? -1 : 1;
}

/* FNV-1a of the little-endian bytes. */
static uint64_t digest(const void *data, size_t n)
{
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static fdp_call_t fixed_call(void)
{
    fdp_call_t call;
    uint8_t key[32] = {1, 2, 3};
    memset(&call, 0, sizeof call);
    call.stream.cipher = FDP_CIPHER_CHACHA20;
    fdp_stream_derive(call.stream.key, key, 0);
    asked = 0;
    return call;
}

static int all_zero(const int64_t *x, size_t n)
{
    int64_t any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= x[i];
    }
    return any == 0;
}

static void draw_laws(int64_t *out)
{
    fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        fdp_call_t call = fixed_call();
        const fdp_sampler_t sampler = law_of(laws[i].name, laws[i].num, laws[i].den);
        expect(fdp_release(&call, &sampler, 0, COUNT, &target) == FDP_OK, "release");
        printf("%s %016llx\n", laws[i].name,
               (unsigned long long)digest(out, COUNT * sizeof *out));
        fdp_call_close(&call);
    }
}

static void draw_uniform(int64_t *out)
{
    fdp_call_t call = fixed_call();
    expect(fdp_fill_integers(&call, 5, 1000, 0, COUNT, out) == FDP_OK, "integers");
    printf("integers %016llx\n", (unsigned long long)digest(out, COUNT * sizeof *out));
    expect(fdp_fill_permutation(&call, COUNT, out) == FDP_OK, "permutation");
    printf("permutation %016llx\n",
           (unsigned long long)digest(out, COUNT * sizeof *out));
    fdp_call_close(&call);
}

/* A fresh key: nothing repeats, and the key is gone afterwards. */
static void draw_fresh(void)
{
    uint8_t a[64], b[64];
    fdp_call_t call;
    expect(fdp_call_open(&call) == FDP_OK, "open");
    expect(fdp_fill_bytes(&call, 0, sizeof a, a) == FDP_OK, "bytes");
    fdp_call_close(&call);
    for (size_t i = 0; i < sizeof call.stream.key; i++) {
        expect(call.stream.key[i] == 0, "wiped key");
    }
    expect(fdp_call_open(&call) == FDP_OK, "open again");
    expect(fdp_fill_bytes(&call, 0, sizeof b, b) == FDP_OK, "bytes again");
    fdp_call_close(&call);
    expect(memcmp(a, b, sizeof a) != 0, "two calls differ");
}

/* All special lanes to the core's own resolver: what the kernels draw. */
static void settle_alone(int64_t *out)
{
    int settled = 0;
    const size_t few = 3000;
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        fdp_call_t call = fixed_call();
        fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
        fdp_sampler_t sampler = law_of(laws[i].name, laws[i].num, laws[i].den);
        expect(fdp_release(&call, &sampler, 0, few, &target) == FDP_OK, "kernels");
        const uint64_t fast = digest(out, few * sizeof *out);
        sampler.law.unsettled = 1;
        expect(fdp_release(&call, &sampler, 0, few, &target) == FDP_OK, "own resolver");
        expect(digest(out, few * sizeof *out) == fast, "what the kernels draw");
        settled += asked;
        fdp_call_close(&call);
    }
    expect(settled > 100, "exact steps drew");
}

/* The same in memory that ends at every request: an error, and only zeros. */
static void run_out(int64_t *out)
{
    const size_t few = 1000;
    int most = 0;
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        fdp_call_t call = fixed_call();
        fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
        fdp_sampler_t sampler = law_of(laws[i].name, laws[i].num, laws[i].den);
        fdp_status_t status = FDP_ERR_MEMORY;
        sampler.law.unsettled = 1;
        for (fail_at = 0; status == FDP_ERR_MEMORY; fail_at++) {
            taken = 0;
            memset(out, 1, few * sizeof *out);
            status = fdp_release(&call, &sampler, 0, few, &target);
            expect(status == FDP_OK || (status == FDP_ERR_MEMORY && all_zero(out, few)),
                   "zeros without memory");
        }
        expect(status == FDP_OK && taken == fail_at - 1, "memory for all");
        most = taken > most ? taken : most;
        fail_at = -1;
        fdp_call_close(&call);
    }
    expect(most > 10, "many requests");
}

/* Words of ones at cuts just below 1: every pattern of bits goes to the resolver, with
 * memory and without. */
static void settle_bits(void)
{
    static uint8_t main_words[65536], ext[16 * 8192], out[512];
    const uint64_t num = 1, den[2] = {0, 65536}; /* p = 2^-80 */
    const fdp_ratio_t p = {&num, den, 1, 2};
    fdp_tape_t tape = {1, main_words, sizeof main_words, ext, sizeof ext};
    fdp_call_t call = {.stream = {.cipher = FDP_CIPHER_TAPE, .tape = &tape}};
    fdp_bernoulli_t law;
    fdp_status_t status = FDP_ERR_MEMORY;
    memset(main_words, 255, sizeof main_words);
    for (fail_at = 0; status == FDP_ERR_MEMORY; fail_at++) {
        taken = 0;
        status = fdp_bernoulli_make(&law, &p);
        expect(status == FDP_OK || law.den[1] == 0, "no law without memory");
    }
    expect(status == FDP_OK && fail_at > 1, "a law");
    status = FDP_ERR_MEMORY;
    for (fail_at = 0; status == FDP_ERR_MEMORY; fail_at += 1 + fail_at / 4) {
        unsigned any = 0;
        taken = 0;
        memset(out, 1, sizeof out);
        status = fdp_flip_bits(&call, &law, 0, 8 * sizeof out, NULL, out);
        for (size_t i = 0; i < sizeof out; i++) {
            any |= out[i];
        }
        /* U = 1 - 2^-64 and zeros: below the cut of column 255, whose alias is 0 */
        expect((status == FDP_OK || status == FDP_ERR_MEMORY) && any == 0, "bits");
    }
    expect(status == FDP_OK && taken >= (int)sizeof out, "patterns are settled");
    fail_at = -1;
}

static fdp_status_t draw_choice(const fdp_call_t *call, const fdp_selection_t *law,
                                const fdp_candidates_t *from, int method, int64_t *out)
{
    return method == 0   ? fdp_select_proposed(call, law, from, 0, out)
           : method == 1 ? fdp_select_flipped(call, law, from, 0, out)
           : method == 2 ? fdp_select_inverse(call, law, from, 0, 1, out)
                         : fdp_select_race(call, law, from, 0, out);
}

/* Choices of a law made here: what the kernels choose, the exact steps choose as well, and
 * without memory there are zeros. */
static void choose(void)
{
    static const double score[3][4] = {
        {0.5, -1, 3, 2.75}, {1e300, INFINITY, NAN, 0}, {7, 7, 7, 7}};
    const uint64_t num = 1, den = 3, none = 0;
    const fdp_ratio_t third = {&num, &den, 1, 1}, zero = {&none, &den, 1, 1};
    const fdp_candidates_t from = {.rows = 3, .n = 4, .score = score, .type = FDP_F64};
    fdp_candidates_t wrong = from;
    fdp_selection_t law;
    expect(fdp_selection_make(&law, &zero, FDP_RACE_GUMBEL) == FDP_ERR_PARAMETER, "rate 0");
    for (int method = 0; method < 6; method++) {
        const fdp_race_t noise = method == 4   ? FDP_RACE_LAPLACE
                                 : method == 5 ? FDP_RACE_GAUSSIAN
                                               : FDP_RACE_GUMBEL;
        expect(fdp_selection_make(&law, &third, noise) == FDP_OK, "a law of choice");
        fdp_call_t call = fixed_call();
        int64_t fast[3] = {9, 9, 9}, exact[3];
        expect(draw_choice(&call, &law, &from, method, fast) == FDP_OK, "choices");
        law.tolerance = 1e300;
        law.fine_rate[0] = 0;
        fdp_status_t status = FDP_ERR_MEMORY;
        for (fail_at = 0; status == FDP_ERR_MEMORY; fail_at++) {
            taken = 0;
            memset(exact, 1, sizeof exact);
            status = draw_choice(&call, &law, &from, method, exact);
            expect(status == FDP_OK || (status == FDP_ERR_MEMORY && all_zero(exact, 3)),
                   "zeros without memory");
        }
        expect(status == FDP_OK && memcmp(fast, exact, sizeof fast) == 0, "exact choices");
        expect(fail_at > 3, "memory was asked for");
        fail_at = -1;
        wrong.type = FDP_U8;
        expect(draw_choice(&call, &law, &wrong, method, exact) == FDP_ERR_PARAMETER &&
                   all_zero(exact, 3),
               "an unknown type");
        wrong.n = 0;
        wrong.type = FDP_I64;
        expect(draw_choice(&call, &law, &wrong, method, exact) == FDP_ERR_PARAMETER,
               "no candidate");
        wrong = from;
        fdp_call_close(&call);
        printf("choice %d %016llx\n", method, (unsigned long long)digest(fast, sizeof fast));
    }
}

/* All special lanes to exact steps that fail, and to those of a law without a parameter: an
 * error, and only zeros. */
static void fail_closed(int64_t *out)
{
    fdp_call_t call = fixed_call();
    fdp_target_t target = {NULL, FDP_NONE, out, FDP_I64, NULL};
    const fdp_sampler_t law = law_of(laws[0].name, laws[0].num, laws[0].den);
    fdp_sampler_t sampler = law;
    sampler.acceptance = 2.0;
    expect(fdp_sampler_prepare(&sampler) == FDP_ERR_PARAMETER, "acceptance");
    sampler = law;
    sampler.law.tilt.slope = 900;
    expect(fdp_sampler_prepare(&sampler) == FDP_ERR_PARAMETER, "slope");
    sampler = law;
    expect(fdp_sampler_prepare(&sampler) == FDP_OK, "prepare");
    sampler.law.unsettled = 1;
    for (int way = 0; way < 2; way++) {
        exact_steps = way == 0 ? FAIL : AS_THEY_ARE;
        sampler.den[0] = way == 0 ? sampler.den[0] : 0;
        memset(out, 1, COUNT * sizeof *out);
        expect(fdp_release(&call, &sampler, 0, COUNT, &target) == FDP_ERR_RESOLVER,
               "a failure is reported");
        expect(asked > 0, "exact steps were asked");
        expect(all_zero(out, COUNT), "zeros after a failure");
    }
    exact_steps = AS_THEY_ARE;
    fdp_call_close(&call);
}

/* Labels of which every known bit lies at a border: they are settled, or fail and are 0. */
static void fail_labels(void)
{
    static uint8_t main_words[32768];
    static const int64_t x[64];
    /* 2^80 / c = 2^80 (1 - P) / 16 */
    const uint64_t truth = (UINT64_C(1) << 63) + 12345, more = (0 - truth) << 12;
    const uint16_t word = (uint16_t)((0 - truth) >> 52);
    const fdp_tape_t tape = {1, main_words, sizeof main_words, NULL, 0};
    const fdp_call_t call = {.stream = {.cipher = FDP_CIPHER_TAPE, .tape = &tape}};
    fdp_response_t law;
    uint32_t out[64];
    expect(fdp_response_make(&law, 17, truth, 0) == FDP_OK, "a response");
    for (size_t i = 0; i < 8192; i++) {
        memcpy(main_words + 2 * i, &word, sizeof word);
    }
    for (size_t i = 16384; i < sizeof main_words; i += sizeof more) {
        memcpy(main_words + i, &more, sizeof more);
    }
    for (int way = 0; way < 2; way++) {
        unsigned any = 0;
        asked = 0;
        exact_steps = way == 0 ? FAIL : AS_THEY_ARE;
        memset(out, 1, sizeof out);
        const fdp_status_t status = fdp_respond(&call, &law, 0, 64, x, FDP_I64, -1, out, FDP_U32);
        for (size_t i = 0; i < 64; i++) {
            any |= out[i];
        }
        expect(asked > 0, "labels are open");
        expect(way == 0 ? status == FDP_ERR_RESOLVER && any == 0 : status == FDP_OK, "labels");
    }
}

/* Noise that no array of int64 holds: exact sums, which saturate, and a bound that rejects
 * it, though its low 64 bits are within. */
static void plant(int64_t *out)
{
    const size_t few = 3000;
    const uint64_t num = 10, den = 1;
    const fdp_ratio_t scale = {&num, &den, 1, 1};
    const fdp_i128_t far = ((fdp_i128_t)1 << 64) + 9;
    static int64_t plain[3000];
    fdp_call_t call = fixed_call();
    fdp_sampler_t law = law_of("laplace", num, den), within;
    law.law.unsettled = 1;
    exact_steps = PLANT;
    for (int sign = -1; sign < 2; sign += 2) {
        fdp_target_t target = {plain, FDP_I64, plain, FDP_I64, NULL};
        const int64_t end = sign < 0 ? INT64_MIN : INT64_MAX;
        size_t planted_ones = 0;
        for (size_t i = 0; i < few; i++) {
            plain[i] = out[i] = sign * (int64_t)(i << 40) - 1000;
        }
        planted = 0;
        expect(fdp_release(&call, &law, 0, few, &target) == FDP_OK, "small noise");
        target.x = target.out = out;
        planted = sign * far;
        expect(fdp_release(&call, &law, 0, few, &target) == FDP_OK, "far noise");
        for (size_t i = 0; i < few; i++) {
            const bool same = out[i] == plain[i];
            expect(same || out[i] == end, "exact sums saturate");
            planted_ones += !same;
        }
        expect(planted_ones > 3, "far noise is there");
    }
    expect(fdp_sampler_laplace(&within, &scale, 50) == FDP_OK, "a bounded law");
    within.law.unsettled = 1;
    fdp_target_t target = {NULL, FDP_NONE, plain, FDP_I64, NULL};
    planted = 51;
    expect(fdp_release(&call, &within, 0, few, &target) == FDP_OK, "beyond the bound");
    target.out = out;
    planted = far;
    expect(fdp_release(&call, &within, 0, few, &target) == FDP_OK, "far beyond the bound");
    expect(memcmp(plain, out, few * sizeof *out) == 0, "the bound rejects");
    planted = 9;
    expect(fdp_release(&call, &within, 0, few, &target) == FDP_OK, "within the bound");
    expect(memcmp(plain, out, few * sizeof *out) != 0, "the bound keeps");
    exact_steps = AS_THEY_ARE;
    fdp_call_close(&call);
}

/* What csrc/README.md states: the stack of a thread, and memory of the heap. */
#define STACK (120 << 10)
#define HEAP (1 << 20)

static void *run_all(void *unused)
{
    (void)unused;
    /* Exactly as long as it must be: one byte more is an error under ASan. */
    int64_t *out = malloc(COUNT * sizeof *out);
    if (out == NULL) {
        expect(0, "memory of the test");
        return NULL;
    }
    draw_laws(out);
    draw_uniform(out);
    draw_fresh();
    fail_closed(out);
    fail_labels();
    plant(out);
    settle_alone(out);
    run_out(out);
    settle_bits();
    choose();
    free(out);
    expect(peak <= HEAP && in_use == 0, "little memory, all given back");
    return NULL;
}

int main(void)
{
    pthread_attr_t small;
    pthread_t thread;
    expect(pthread_attr_init(&small) == 0, "attributes");
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) /* else frames are larger */
    expect(pthread_attr_setstacksize(&small, STACK) == 0, "a small stack");
#endif
    expect(pthread_create(&thread, &small, run_all, NULL) == 0, "a thread");
    expect(pthread_join(thread, NULL) == 0, "its end");
    return failures != 0;
}
