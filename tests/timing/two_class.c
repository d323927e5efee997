/* two_class.c: times a release over two classes of input in random order.
 *
 * Loaded as a shared library; the functions of the core come in as pointers, so
 * that what is timed is the extension as it is installed. For each timing one
 * class is drawn, and an input of it is put into the one buffer that the work
 * reads (data, random words, or what is inside a Python object) by selections that
 * read both classes alike; then the work alone is timed. Words of the additive laws
 * are put together anew each time: a few blocks, repeated, would differ by chance in
 * what they cost.
 */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "fastdp.h"

#if defined(__x86_64__)
#include <x86intrin.h>

static uint64_t ticks(void)
{
    _mm_lfence();
    const uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
}
#else
static uint64_t ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
#endif

typedef fdp_status_t (*prepare_fn)(fdp_sampler_t *);

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* ---- prepared samplers --------------------------------------------------- */

size_t sampler_size(void) { return sizeof(fdp_sampler_t); }

/* Copies block `which` of the two at `pair`, and reads both, so that the caches
 * are the same whatever the class. */
static void take_class(uint8_t *buffer, const uint8_t *pair, unsigned which, size_t bytes)
{
    const uint64_t mask = 0 - (uint64_t)which;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t a, b;
        memcpy(&a, pair + i, 8);
        memcpy(&b, pair + bytes + i, 8);
        a = (a & ~mask) | (b & mask);
        memcpy(buffer + i, &a, 8);
    }
}

/* ---- what is timed --------------------------------------------------------- */

typedef enum {
    RELEASE, FLIP_BITS, FLIP_BYTES, RESPOND, INSERT_BITS, HASH_CLIENTS, HADAMARD,
    SELECT_PROPOSED, SELECT_FLIPPED, SELECT_INVERSE, SELECT_RACE, NUMBERS, PYTHON
} kind_t;

/* One of the core's functions with all its arguments, or a Python callable `law` with
 * its argument x; `buffer` below is the memory of one of them. */
typedef struct {
    int32_t kind;
    uint32_t size; /* row bytes, bits of a hash or a Hadamard code, or choices */
    size_t n;
    union {
        fdp_status_t (*release)(const fdp_call_t *, const fdp_sampler_t *, uint64_t,
                                size_t, const fdp_target_t *);
        fdp_status_t (*flip_bits)(const fdp_call_t *, const fdp_bernoulli_t *, uint64_t,
                                  size_t, const uint8_t *, uint8_t *);
        fdp_status_t (*flip_bytes)(const fdp_call_t *, const fdp_bernoulli_t *, uint64_t,
                                   size_t, const void *, fdp_dtype_t, int, uint8_t *);
        fdp_status_t (*respond)(const fdp_call_t *, const fdp_response_t *, uint64_t,
                                size_t, const void *, fdp_dtype_t, int64_t, void *,
                                fdp_dtype_t);
        void (*insert_bits)(size_t, size_t, const uint32_t *, const uint8_t *, uint8_t *);
        fdp_status_t (*hash_clients)(const fdp_call_t *, const fdp_call_t *,
                                     const fdp_response_t *, const fdp_response_t *,
                                     uint32_t, uint64_t, size_t, const void *,
                                     fdp_dtype_t, int64_t, fdp_hashed_t *);
        fdp_status_t (*hadamard)(const fdp_call_t *, const fdp_response_t *,
                                 const fdp_bernoulli_t *, uint32_t, uint64_t, size_t,
                                 const void *, fdp_dtype_t, int64_t, void *,
                                 fdp_dtype_t);
        fdp_status_t (*select_inverse)(const fdp_call_t *, const fdp_selection_t *,
                                       const fdp_candidates_t *, uint64_t, size_t,
                                       int64_t *);
        fdp_status_t (*select_proposed)(const fdp_call_t *, const fdp_selection_t *,
                                        const fdp_candidates_t *, uint64_t, int64_t *);
        fdp_status_t (*select_race)(const fdp_call_t *, const fdp_selection_t *,
                                    const fdp_candidates_t *, uint64_t, int64_t *);
        fdp_status_t (*numbers)(const fdp_call_t *, const fdp_number_t *, uint64_t,
                                size_t, const void *, fdp_dtype_t, uint8_t *);
        void *(*python)(void *, void *);
    } function;
    void *law;
    void *x;
    void *out;
    int32_t x_type, out_type;
    int64_t other;
    const void *labeling; /* of the clients */
    const uint8_t *bits;
    const double *grid;        /* RELEASE: NULL, or the fields of fdp_grid_t */
    const double *mantissa, *exponent; /* SELECT_*: of one row's weights, or NULL */
    void (*forget)(void *);    /* PYTHON: drops a reference */
} work_t;

static fdp_status_t release(const work_t *w, const fdp_call_t *call)
{
    fdp_grid_t grid = {0};
    fdp_target_t target = {.x = w->x, .x_type = (fdp_dtype_t)w->x_type,
                           .out = w->out, .out_type = (fdp_dtype_t)w->out_type};
    if (w->grid != NULL) {
        grid = (fdp_grid_t){w->grid[0], w->grid[1], w->grid[2], w->grid[3]};
        target.grid = &grid;
    }
    return w->function.release(call, w->law, 0, w->n, &target);
}

/* The candidates of `work`: n scores in one row, or rows of `other`. */
static fdp_candidates_t candidates(const work_t *w)
{
    const size_t row = (size_t)w->other;
    return (fdp_candidates_t){.rows = w->n / row, .n = row, .score = w->x,
                              .type = (fdp_dtype_t)w->x_type,
                              .mantissa = w->mantissa, .exponent = w->exponent,
                              .weight_spread = 11.0};
}

static fdp_status_t choose(const work_t *w, const fdp_call_t *call)
{
    const fdp_candidates_t from = candidates(w);
    if (w->kind == SELECT_PROPOSED || w->kind == SELECT_FLIPPED) {
        return w->function.select_proposed(call, w->law, &from, 0, w->out);
    }
    return w->kind == SELECT_RACE
               ? w->function.select_race(call, w->law, &from, 0, w->out)
               : w->function.select_inverse(call, w->law, &from, 0, w->size, w->out);
}

/* Does the work; what Python returned is left at `result`. */
static fdp_status_t run(const work_t *w, const fdp_call_t *call, void **result)
{
    switch ((kind_t)w->kind) {
    case RELEASE:
        return release(w, call);
    case FLIP_BITS:
        return w->function.flip_bits(call, w->law, 0, w->n, w->x, w->out);
    case FLIP_BYTES:
        return w->function.flip_bytes(call, w->law, 0, w->n, w->x,
                                      (fdp_dtype_t)w->x_type, (int)w->other, w->out);
    case RESPOND:
        return w->function.respond(call, w->law, 0, w->n, w->x, (fdp_dtype_t)w->x_type,
                                   w->other, w->out, (fdp_dtype_t)w->out_type);
    case INSERT_BITS:
        w->function.insert_bits(w->n, w->size, w->x, w->bits, w->out);
        return FDP_OK;
    case HASH_CLIENTS:
        return w->function.hash_clients(call, call, w->labeling, w->law, w->size, 0, w->n,
                                        w->x, (fdp_dtype_t)w->x_type, w->other, w->out);
    case HADAMARD:
        return w->function.hadamard(call, w->labeling, w->law, w->size, 0, w->n, w->x,
                                    (fdp_dtype_t)w->x_type, w->other, w->out,
                                    (fdp_dtype_t)w->out_type);
    case SELECT_PROPOSED:
    case SELECT_FLIPPED:
    case SELECT_INVERSE:
    case SELECT_RACE:
        return choose(w, call);
    case NUMBERS:
        return w->function.numbers(call, w->law, 0, w->n, w->x, (fdp_dtype_t)w->x_type,
                                   w->out);
    case PYTHON:
        *result = w->function.python(w->law, w->x);
        return *result != NULL ? FDP_OK : FDP_ERR_PARAMETER;
    }
    return FDP_ERR_PARAMETER;
}

/* ---- the experiment ------------------------------------------------------ */

/* Times the work `rounds` times. The pool holds entries * 2 blocks of `bytes` (a
 * multiple of 8), class 0 first, for a `buffer` that is the tape, if `on_tape`, or data;
 * then every call has another key. Fills class_of, entry_of and taken; returns 0, or -1 on
 * an error. */
int two_class(const work_t *work, uint32_t cipher, int on_tape, uint8_t *buffer,
                  size_t bytes, const uint8_t *pool, size_t entries, uint64_t seed,
                  size_t rounds, uint8_t *class_of, uint32_t *entry_of, uint32_t *taken)
{
    fdp_tape_t tape = {.chunks = 1, .main = buffer, .main_stride = bytes};
    fdp_call_t call = {.stream = {.cipher = on_tape ? FDP_CIPHER_TAPE : cipher,
                                  .tape = on_tape ? &tape : NULL}};
    for (size_t i = 0; i < rounds; i++) {
        const uint64_t r = next(&seed);
        const unsigned which = (unsigned)(r >> 63);
        const size_t entry = (size_t)(r & 0xffffffff) % entries;
        take_class(buffer, pool + 2 * entry * bytes, which, bytes);
        for (size_t k = 0; k < 32; k += 8) {
            const uint64_t word = next(&seed);
            memcpy(call.stream.key + k, &word, 8);
        }
        void *result = NULL;
        const uint64_t start = ticks();
        const fdp_status_t status = run(work, &call, &result);
        const uint64_t stop = ticks();
        if (status != FDP_OK) {
            return -1;
        }
        if (result != NULL) {
            work->forget(result);
        }
        class_of[i] = (uint8_t)which;
        entry_of[i] = (uint32_t)entry;
        taken[i] = (uint32_t)(stop - start);
    }
    return 0;
}
