/* response.c: k-ary response from one word a label.
 *
 *   fdp_respond_chunk   reports by the kernel, where the word decides
 *   settle              the open lanes by 64 more bits, a fixed number of them
 *   fdp_respond         chunks
 *
 * Words of a chunk: 2 bytes a lane up to 64 categories, 4 up to 2^16, else 8; behind those
 * of a whole chunk the further bits of the open lanes, a unit a pass: for each 16 ranks 8
 * bytes each, then 2 each for the places of idle steps.
 */
#include "response.h"

#include <string.h>

#include "../base/mul128.h"
#include "../base/wipe.h"

#define GROUP 16 /* ranks whose bits lie together */
#define UNIT 2048
#define SMALL_CATEGORIES 64
#define MIDDLE_CATEGORIES 65536

/* ---- the law ------------------------------------------------------------- */

static uint32_t bits_of(uint32_t categories)
{
    return categories <= SMALL_CATEGORIES ? 16 : categories <= MIDDLE_CATEGORIES ? 32 : 64;
}

size_t fdp_response_chunk(const fdp_response_t *law)
{
    return law->categories <= SMALL_CATEGORIES ? 8192 : 4096;
}

/* Open lanes that are settled, used or not. A lane is open with probability at most
 * (4 k - 3)/2^b: more have probability below 2^-64. */
static size_t slots_of(uint32_t categories, size_t lanes)
{
    return lanes <= 64 || categories > SMALL_CATEGORIES ? 16 : categories <= 16 ? 48 : 112;
}

static fdp_rate_t rate_of(uint64_t rate, uint32_t shift, uint32_t bits)
{
    const uint64_t one = UINT64_C(1) << (bits - shift);
    return (fdp_rate_t){rate, bits == 64 ? shift : one, 0 - 2 * one};
}

static fdp_step_t step_of(const fdp_response_t *law, int64_t other, uint32_t bits)
{
    const uint32_t k = law->categories, fair = bits - 32 + (uint32_t)__builtin_clz(k);
    const uint32_t spare = 128 - bits;
    fdp_step_t step = {.categories = k, .always = law->always, .other = other,
                       .fair = rate_of((uint64_t)k << fair, fair, bits)};
    if (law->always) {
        step.own = rate_of(0, fair, bits);
    } else if (law->shift >= spare + 2) {
        step.own = rate_of(law->rate[0] >> (64 - bits), law->shift - spare, bits);
    } else { /* c is as large as the words: whatever is not surely the truth stays open */
        step.own = rate_of(UINT64_MAX >> (64 - bits), 2, bits);
        step.own.limit = 0;
    }
    return step;
}

void fdp_respond_open(fdp_respond_t *r, const fdp_call_t *call,
                      const fdp_response_t *law, int64_t other)
{
    r->call = call;
    r->law = law;
    r->kernels = fdp_kernels();
    r->bits = bits_of(law->categories);
    r->step = step_of(law, other, r->bits);
    r->failed = false;
}

void fdp_respond_close(fdp_respond_t *r, size_t n)
{
    const size_t lanes = (n + 63) & ~(size_t)63;
    const size_t chunk = fdp_response_chunk(r->law), most = lanes < chunk ? lanes : chunk;
    const size_t words = most * r->bits / 8, other = most * (r->bits == 16 ? 1 : 4);
    fdp_wipe(r->word, words < 1024 ? 1024 : words); /* the least unit of the stream */
    fdp_wipe(r->label, other);
    fdp_wipe(r->report, other);
    fdp_wipe(r->more, sizeof r->more);
    fdp_wipe(r->special, most / 8);
    fdp_wipe(&r->ranks, sizeof r->ranks);
}

/* ---- open lanes ---------------------------------------------------------- */

#define AT(array, type, i) (((type *)(void *)(array))[i])

/* Elements of the arrays, whose types the law gives. */
FDP_ALWAYS_INLINE uint64_t word_at(const fdp_respond_t *r, uint32_t bits, size_t i)
{
    return bits == 16   ? AT(r->word, const uint16_t, i)
           : bits == 32 ? AT(r->word, const uint32_t, i)
                        : AT(r->word, const uint64_t, i);
}

FDP_ALWAYS_INLINE uint32_t label_at(const fdp_respond_t *r, uint32_t bits, size_t i)
{
    return bits == 16 ? AT(r->label, const uint8_t, i) : AT(r->label, const uint32_t, i);
}

/* E exactly, by the caller's resolver. */
static uint32_t resolve(fdp_respond_t *r, uint32_t place, uint64_t more, uint64_t fair)
{
    fdp_pending_t pending = {.chunk = r->number,
                             .trial = place,
                             .word = {word_at(r, r->bits, place), more, fair},
                             .owner = r->law->owner};
    int64_t value[2] = {0, 0};
    const int kept = r->call->resolve(r->call->context, &pending, value);
    fdp_wipe(&pending, sizeof pending);
    r->failed |= kept < 0;
    return (uint32_t)value[0];
}

/* What a label goes on with: its rate of 128 bits, and S. */
typedef struct {
    uint64_t high, low, shift;
} pace_t;

/* How a lane goes on: a small word (unless P is all but 1, 64 bits in all are enough), any
 * word, and one whose law draws for outside labels alone. */
typedef enum { SMALL, LARGE, OUTSIDE } pursuit_t;

/* E of one lane from 64 more bits of its U, by the high part of a product; 1 in *open where
 * bits below those that are looked at may carry. */
FDP_ALWAYS_INLINE uint64_t step_at(const fdp_respond_t *r, const pace_t *own,
                                   const pace_t *uniform, pursuit_t mode, uint64_t word,
                                   uint64_t more, uint64_t fair, uint64_t *open)
{
    const uint64_t k = r->law->categories, last = k - 1;
    const uint64_t high = fdp_choose(fair, uniform->high, own->high);
    const unsigned shift = (unsigned)fdp_choose(fair, uniform->shift, own->shift);
    uint64_t step, carried;
    if (mode == OUTSIDE) {
        uint64_t above;
        const uint64_t below = fdp_mul_u64(more, k, &above);
        const fdp_u128_t h = (fdp_u128_t)word * k + above;
        step = (uint64_t)(h >> r->bits);
        carried = (uint64_t)((h + (below + k < k)) >> r->bits);
    } else if (mode == SMALL) {
        uint64_t h;
        fdp_mul_u64(word << 48 | more >> 16, high, &h);
        step = h >> (shift - 64);
        carried = (h + 2) >> (shift - 64);
    } else {
        const uint64_t low = fdp_choose(fair, uniform->low, own->low);
        const fdp_u128_t u =
            (fdp_u128_t)word << (128 - r->bits) | (fdp_u128_t)more << (64 - r->bits);
        const fdp_u128_t h = fdp_mul_high_u128(u, (fdp_u128_t)high << 64 | low);
        const fdp_u128_t unknown = ((fdp_u128_t)1 << (64 - r->bits)) + 1;
        step = (uint64_t)(h >> shift);
        carried = (uint64_t)((h + unknown) >> shift);
    }
    const uint64_t within = step < last;
    *open = within & (step != carried);
    return fdp_choose(within, step, last);
}

FDP_ALWAYS_INLINE void put_at(fdp_respond_t *r, uint32_t bits, size_t i, uint64_t used,
                              uint64_t report)
{
    if (bits == 16) {
        uint8_t *to = &AT(r->report, uint8_t, i);
        *to = (uint8_t)fdp_choose(used, report, *to);
    } else {
        uint32_t *to = &AT(r->report, uint32_t, i);
        *to = (uint32_t)fdp_choose(used, report, *to);
    }
}

/* Settles GROUP ranks, whose bits are at `bits`. One loop over the lanes: arrays between
 * two of them would wait for each other's stores. */
FDP_ALWAYS_INLINE void settle_group(fdp_respond_t *r, const pace_t *own,
                                    const pace_t *uniform, pursuit_t mode, size_t lanes,
                                    const uint8_t *bits)
{
    const uint32_t width = mode == SMALL ? 16 : r->bits;
    uint64_t more[GROUP];
    uint16_t idle[GROUP], place[GROUP];
    const uint64_t k = r->law->categories, drawn = r->step.other < 0;
    const uint64_t instead = drawn ? 0 : (uint64_t)r->step.other;
    memcpy(more, bits, sizeof more);
    memcpy(idle, bits + sizeof more, sizeof idle);
    const uint64_t live = fdp_ranks_take(&r->ranks, idle, lanes, place, GROUP);
    for (size_t i = 0; i < GROUP; i++) {
        const size_t at = place[i];
        const uint64_t label = label_at(r, width, at), used = live >> i & 1;
        const uint64_t apart = mode == OUTSIDE || label >= k, fair = apart & drawn;
        uint64_t open;
        uint64_t step = step_at(r, own, uniform, mode, word_at(r, width, at), more[i],
                                fair, &open);
        if (FDP_UNLIKELY(open & used)) {
            step = resolve(r, (uint32_t)at, more[i], fair);
        }
        const uint64_t sum = fdp_choose(apart, instead, label) + step + 1;
        put_at(r, width, at, used, fdp_choose(sum >= k, sum - k, sum));
    }
    fdp_wipe(more, sizeof more);
    fdp_wipe(place, sizeof place);
}

static void settle(fdp_respond_t *r, size_t lanes)
{
    const size_t slots = slots_of(r->law->categories, lanes);
    uint64_t offset = fdp_response_chunk(r->law) * r->bits / 8;
    const uint32_t k = r->law->categories;
    const uint32_t spare = (uint32_t)__builtin_clz(k);
    const pace_t own = {r->law->rate[0], r->law->rate[1], r->law->shift};
    const bool small = r->bits == 16 && r->law->shift >= 80;
    const pace_t uniform = {(uint64_t)k << (32 + spare), 0, 96 + spare};
    fdp_ranks_open(&r->ranks, r->special, lanes / 64);
    do {
        fdp_chunk_main(&r->chunk, offset, r->more, (10 * slots + 63) & ~(size_t)63);
        for (size_t i = 0; i < slots; i += GROUP) {
            const uint8_t *more = r->more + 10 * i;
            if (r->law->always) {
                settle_group(r, &own, &uniform, OUTSIDE, lanes, more);
            } else if (small) {
                settle_group(r, &own, &uniform, SMALL, lanes, more);
            } else {
                settle_group(r, &own, &uniform, LARGE, lanes, more);
            }
        }
        offset += UNIT;
    } while (FDP_UNLIKELY(r->ranks.left != 0));
}

/* ---- chunks -------------------------------------------------------------- */

/* Reports from the words at hand, and the open lanes. */
static void respond(fdp_respond_t *r, size_t n, const void *x, fdp_dtype_t x_type,
                    size_t at)
{
    const fdp_kernels_t *k = r->kernels;
    uint32_t *label = &AT(r->label, uint32_t, 0), *report = &AT(r->report, uint32_t, 0);
    if (r->bits == 16) {
        k->respond16(&r->step, x, x_type, at, n, r->label, &AT(r->word, const uint16_t, 0),
                     r->report, r->special);
    } else if (r->bits == 32) {
        k->respond32(&r->step, x, x_type, at, n, label, &AT(r->word, const uint32_t, 0),
                     report, r->special);
    } else {
        k->respond64(&r->step, x, x_type, at, n, label, &AT(r->word, const uint64_t, 0),
                     report, r->special);
    }
}

void fdp_respond_chunk(fdp_respond_t *r, uint64_t number, size_t n, const void *x,
                       fdp_dtype_t x_type, size_t at, void *out, fdp_dtype_t out_type,
                       size_t to)
{
    const size_t lanes = (n + 63) & ~(size_t)63, bytes = lanes * r->bits / 8;
    if (r->law->always && r->step.other >= 0) { /* nothing is drawn */
        memset(r->word, 0, bytes);
        respond(r, n, x, x_type, at);
    } else {
        r->number = number;
        fdp_chunk_open(&r->chunk, &r->call->stream, number);
        fdp_chunk_main(&r->chunk, 0, r->word, bytes);
        respond(r, n, x, x_type, at);
        settle(r, lanes);
        fdp_chunk_close(&r->chunk);
    }
    if (r->bits == 16) {
        r->kernels->reports8(r->report, out, out_type, to, n);
    } else {
        r->kernels->reports32(&AT(r->report, const uint32_t, 0), out, out_type, to, n);
    }
}

fdp_status_t fdp_respond(const fdp_call_t *call, const fdp_response_t *law,
                         uint64_t first_chunk, size_t n, const void *x,
                         fdp_dtype_t x_type, int64_t other, void *out,
                         fdp_dtype_t out_type)
{
    fdp_respond_t r;
    fdp_respond_open(&r, call, law, other);
    const size_t chunk = fdp_response_chunk(law);
    for (size_t done = 0; done < n && !r.failed; done += chunk) {
        const size_t part = n - done < chunk ? n - done : chunk;
        fdp_respond_chunk(&r, first_chunk++, part, x, x_type, done, out, out_type, done);
    }
    fdp_respond_close(&r, n);
    if (r.failed) {
        memset(out, 0, n * (out_type == FDP_U8 ? 1 : out_type == FDP_U16 ? 2 : 4));
    }
    return r.failed ? FDP_ERR_RESOLVER : FDP_OK;
}
