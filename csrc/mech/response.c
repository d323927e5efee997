/* response.c: k-ary response from one word a label.
 *
 *   fdp_respond_chunk   reports by the kernel, where the word decides
 *   settle              the open lanes by 64 more bits, a fixed number of them
 *   redraw              the open lanes of a relabeling (P = 1), by words of 64 bits
 *   fdp_respond         all chunks of a call
 *
 * A word has 2 bytes per lane for up to 64 categories, 4 for up to 2^16, else 8. After the
 * words of a whole chunk come the further bits of the open lanes, one unit per pass: for
 * every 16 ranks, 8 bytes each, then 2 bytes each for the places of idle steps. A relabeling
 * has 2 bytes per lane if 2^16 mod k is small, else 4, followed by words of 8 bytes.
 */
#include "response.h"

#include <string.h>

#include "../base/choose.h"
#include "../base/mul128.h"
#include "../base/wipe.h"
#include "resolve.h"

#define GROUP 16 /* ranks whose bits are stored together */
#define UNIT 2048
#define LEAST_UNIT 1024 /* smallest unit of the stream */
#define SMALL_CATEGORIES 64
#define MIDDLE_CATEGORIES 65536

/* ---- the law ------------------------------------------------------------- */

/* Bits of a word. A relabeling redraws after at most 1 of 32 words of 16 bits, and after at most 1
 * of 3 other words. */
static uint32_t bits_of(const fdp_response_t *law)
{
    const uint32_t k = law->categories;
    if (law->always) {
        return k <= 32768 && 65536 % k <= 2048 ? 16 : 32;
    }
    return k <= SMALL_CATEGORIES ? 16 : k <= MIDDLE_CATEGORIES ? 32 : 64;
}

size_t fdp_response_chunk(const fdp_response_t *law)
{
    return bits_of(law) == 16 ? 8192 : 4096;
}

/* The number of open lanes that are settled, whether used or not. A lane is open with probability
 * at most (4 k - 3)/2^b, so there are more with a probability below 2^-64. */
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
    fdp_step_t step = {.categories = k, .other = other,
                       .fair = rate_of((uint64_t)k << fair, fair, bits)};
    if (law->always) {
        step.fair.limit = (UINT64_C(1) << bits) % k;
    } else if (law->shift >= spare + 2) {
        step.own = rate_of(law->rate[0] >> (64 - bits), law->shift - spare, bits);
    } else { /* c is as large as the words: every lane that is not surely the truth stays open */
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
    r->bits = bits_of(law);
    r->width = r->bits > 16 ? 4 : law->always ? 2 : 1;
    r->step = step_of(law, other, r->bits);
    r->apart = 0;
    r->failed = FDP_OK;
}

void fdp_respond_close(fdp_respond_t *r, size_t n)
{
    const size_t lanes = (n + 63) & ~(size_t)63;
    const size_t chunk = fdp_response_chunk(r->law), most = lanes < chunk ? lanes : chunk;
    const size_t words = most * r->bits / 8, other = most * r->width;
    fdp_wipe(r->word, words < LEAST_UNIT ? LEAST_UNIT : words);
    fdp_wipe(r->label, other);
    fdp_wipe(r->report, r->apart);
    fdp_wipe(r->more, sizeof r->more);
    fdp_wipe(r->special, most / 8);
}

/* ---- open lanes ---------------------------------------------------------- */

#define AT(array, type, i) (((type *)(void *)(array))[i])

/* Elements of the arrays, whose types depend on the law. */
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

FDP_ALWAYS_INLINE uint32_t report_at(const fdp_respond_t *r, uint32_t bits, size_t i)
{
    return bits == 16 ? AT(r->to, const uint8_t, i) : AT(r->to, const uint32_t, i);
}

FDP_ALWAYS_INLINE void put_at(fdp_respond_t *r, uint32_t bits, size_t i, uint32_t report)
{
    if (bits == 16) {
        AT(r->to, uint8_t, i) = (uint8_t)report;
    } else {
        AT(r->to, uint32_t, i) = report;
    }
}

/* Computes E by the exact resolver. */
static uint32_t resolve(fdp_respond_t *r, uint32_t place, uint64_t more, uint64_t fair)
{
    const fdp_trial_t trial = {r->call, r->number, place};
    uint64_t words[3] = {word_at(r, r->bits, place), more, fair};
    int64_t value[2] = {0, 0};
    fdp_resolve(&trial, fdp_settle_response, r->law, words, value, &r->failed);
    fdp_wipe(words, sizeof words);
    fdp_wipe_resolver();
    return (uint32_t)value[0];
}

/* Computes E of one lane from 64 more bits of its U, by the high part of a product: for the
 * smallest (0) and the largest (1) value of the bits below. */
FDP_ALWAYS_INLINE void step_at(const fdp_pace_t *pace, uint32_t bits, uint64_t word,
                               uint64_t more, uint64_t step[2])
{
    const fdp_u128_t u =
        (fdp_u128_t)word << (128 - bits) | (fdp_u128_t)more << (64 - bits);
    const fdp_u128_t h = fdp_mul_high_u128(u, (fdp_u128_t)pace->high << 64 | pace->low);
    const fdp_u128_t unknown = ((fdp_u128_t)1 << (64 - bits)) + 1;
    step[0] = (uint64_t)(h >> pace->shift);
    step[1] = (uint64_t)((h + unknown) >> pace->shift);
}

/* The report that is `step` + 1 labels after the label, or after the label's replacement. */
FDP_ALWAYS_INLINE uint64_t moved(const fdp_step_t *law, uint64_t label, uint64_t step)
{
    const uint64_t k = law->categories;
    const uint64_t instead = law->other < 0 ? 0 : (uint64_t)law->other;
    const uint64_t sum = fdp_pick(fdp_mask(label >= k), instead, label) + 1 + step;
    return fdp_pick(fdp_mask(sum >= k), sum - k, sum);
}

/* The same as fdp_kernels_t.settle16, with all 64 bits and rates of 128 bits. */
static uint64_t settle_wide(const fdp_step_t *law, uint32_t bits, const fdp_pace_t pace[2],
                            fdp_unsettled_t *l, size_t n)
{
    const uint64_t last = law->categories - 1;
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t fair = fdp_mask((l->label[i] > last) & (law->other < 0));
        const fdp_pace_t own = {fdp_pick(fair, pace[1].high, pace[0].high),
                                fdp_pick(fair, pace[1].low, pace[0].low),
                                fdp_pick(fair, pace[1].shift, pace[0].shift)};
        uint64_t step[2];
        step_at(&own, bits, l->word[i], l->more[i], step);
        for (size_t e = 0; e < 2; e++) {
            step[e] = fdp_pick(fdp_mask(step[e] < last), step[e], last);
        }
        l->report[i] = fdp_pick(l->used[i], moved(law, l->label[i], step[0]), l->report[i]);
        l->open[i] = (step[0] ^ step[1]) & l->used[i];
        any |= l->open[i];
    }
    return any;
}

/* Settles the ranks from `first` on, whose bits are at r->more. Returns whether there are more. All
 * lanes are read before the first is written, and settled lanes are written last. An idle step may
 * have the same place as a settled lane or another idle step, and a load from a place that was just
 * stored to costs cycles. */
FDP_ALWAYS_INLINE bool settle_ranks(fdp_respond_t *r, const fdp_pace_t pace[2], bool small,
                                    size_t lanes, size_t first, size_t slots)
{
    const uint32_t width = small ? 16 : r->bits;
    uint16_t idle[FDP_OPEN_MOST], place[FDP_OPEN_MOST];
    fdp_unsettled_t l;
    for (size_t g = 0; g < slots; g += GROUP) {
        memcpy(idle + g, r->more + 10 * g + 8 * GROUP, GROUP * sizeof idle[0]);
        memcpy(l.more + g, r->more + 10 * g, GROUP * sizeof l.more[0]);
    }
    const bool left =
        r->kernels->ranks(r->special, lanes / 64, first, idle, place, l.used, slots);
    for (size_t i = 0; i < slots; i++) {
        l.word[i] = word_at(r, width, place[i]);
        l.label[i] = label_at(r, width, place[i]);
        l.report[i] = report_at(r, width, place[i]);
    }
    const uint64_t open = small ? r->kernels->settle16(&r->step, pace, &l, slots)
                                : settle_wide(&r->step, width, pace, &l, slots);
    for (size_t i = 0; FDP_UNLIKELY(open != 0) && i < slots; i++) {
        if (l.open[i]) {
            const uint64_t fair = (l.label[i] >= r->step.categories) & (r->step.other < 0);
            const uint32_t step = resolve(r, place[i], l.more[i], fair);
            l.report[i] = moved(&r->step, l.label[i], step);
        }
    }
    for (size_t i = slots; i-- > 0;) {
        put_at(r, width, place[i], (uint32_t)l.report[i]);
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the reports are read soon */
    fdp_wipe(l.word, slots * sizeof l.word[0]);
    fdp_wipe(l.more, slots * sizeof l.more[0]);
    fdp_wipe(l.label, slots * sizeof l.label[0]);
    fdp_wipe(l.report, slots * sizeof l.report[0]);
    fdp_wipe(l.used, slots * sizeof l.used[0]);
    fdp_wipe(l.open, slots * sizeof l.open[0]);
    fdp_wipe(idle, slots * sizeof idle[0]);
    fdp_wipe(place, slots * sizeof place[0]);
    return left;
}

static void settle(fdp_respond_t *r, size_t lanes)
{
    const size_t slots = slots_of(r->law->categories, lanes);
    const uint32_t k = r->law->categories;
    const uint32_t spare = (uint32_t)__builtin_clz(k);
    const fdp_pace_t pace[2] = {{r->law->rate[0], r->law->rate[1], r->law->shift},
                            {(uint64_t)k << (32 + spare), 0, 96 + spare}};
    const bool small = r->bits == 16 && r->law->shift >= 80;
    bool left = true;
    for (size_t first = 0; left; first += slots) {
        const uint64_t behind = fdp_response_chunk(r->law) * r->bits / 8;
        fdp_chunk_main(&r->chunk, behind + first / slots * UNIT, r->more,
                       (10 * slots + 63) & ~(size_t)63);
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* wait for the stores of the first stage as
                                                  * well */
        left = small ? settle_ranks(r, pace, true, lanes, first, slots)
                     : settle_ranks(r, pace, false, lanes, first, slots);
    }
}

/* Draws again for the lanes in which nothing was drawn, from words of 64 bits in order, by the same
 * rule. Which lanes these are reveals nothing: the words alone decide it, and for every label the
 * same number of the accepted words gives it. */
static void redraw(fdp_respond_t *r, size_t lanes)
{
    const uint64_t k = r->law->categories, least = (0 - k) % k; /* 2^64 mod k */
    const uint64_t behind = fdp_response_chunk(r->law) * r->bits / 8;
    const size_t words = LEAST_UNIT / sizeof(uint64_t);
    size_t taken = 0;
    for (size_t g = 0; g < lanes / 64; g++) {
        for (uint64_t left = r->special[g]; left != 0; left &= left - 1) {
            const size_t at = 64 * g + (size_t)__builtin_ctzll(left);
            uint64_t drawn, low;
            do {
                if (taken % words == 0) {
                    fdp_chunk_main(&r->chunk, behind + taken * sizeof(uint64_t), r->more,
                                   LEAST_UNIT);
                }
                low = fdp_mul_u64(AT(r->more, const uint64_t, taken++ % words), k, &drawn);
            } while (low < least);
            if (r->bits == 16) {
                uint16_t *to = &AT(r->to, uint16_t, at);
                const uint64_t apart = fdp_mask(AT(r->label, const uint16_t, at) >= k);
                *to = (uint16_t)fdp_pick(apart, drawn, *to);
            } else {
                uint32_t *to = &AT(r->to, uint32_t, at);
                const uint64_t apart = fdp_mask(AT(r->label, const uint32_t, at) >= k);
                *to = (uint32_t)fdp_pick(apart, drawn, *to);
            }
        }
    }
}

/* ---- chunks -------------------------------------------------------------- */

/* Makes reports from the words at hand, and settles the open lanes. */
static void respond(fdp_respond_t *r, size_t n, const void *x, fdp_dtype_t x_type,
                    size_t at)
{
    const fdp_kernels_t *k = r->kernels;
    const void *word = r->word;
    void *label = r->label, *report = r->to;
    if (r->law->always && r->bits == 16) {
        k->relabel16(&r->step, x, x_type, at, n, label, word, report, r->special);
    } else if (r->law->always) {
        k->relabel32(&r->step, x, x_type, at, n, label, word, report, r->special);
    } else if (r->bits == 16) {
        k->respond16(&r->step, x, x_type, at, n, label, word, report, r->special);
    } else if (r->bits == 32) {
        k->respond32(&r->step, x, x_type, at, n, label, word, report, r->special);
    } else {
        k->respond64(&r->step, x, x_type, at, n, label, word, report, r->special);
    }
}

void fdp_respond_chunk(fdp_respond_t *r, uint64_t number, size_t n, const void *x,
                       fdp_dtype_t x_type, size_t at, void *out, fdp_dtype_t out_type,
                       size_t to)
{
    const size_t lanes = (n + 63) & ~(size_t)63, bytes = lanes * r->bits / 8;
    const size_t width = fdp_width_of(out_type);
    const bool straight = lanes == n && width == r->width;
    r->to = straight ? (uint8_t *)out + to * width : r->report;
    if (!straight && r->apart < lanes * r->width) {
        r->apart = lanes * r->width;
    }
    if (r->law->always && r->step.other >= 0) { /* nothing is random */
        memset(r->word, 0, bytes);
        respond(r, n, x, x_type, at);
    } else {
        r->number = number;
        fdp_chunk_open(&r->chunk, &r->call->stream, number);
        fdp_chunk_main(&r->chunk, 0, r->word, bytes);
        respond(r, n, x, x_type, at);
        if (r->law->always) {
            redraw(r, lanes);
        } else {
            settle(r, lanes);
        }
        fdp_chunk_close(&r->chunk);
    }
    if (straight) {
        return;
    }
    if (r->width == 1) {
        r->kernels->reports8(r->report, out, out_type, to, n);
    } else if (r->width == 2) {
        r->kernels->reports16(&AT(r->report, const uint16_t, 0), out, out_type, to, n);
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
    for (size_t done = 0; done < n && r.failed == FDP_OK; done += chunk) {
        const size_t part = n - done < chunk ? n - done : chunk;
        fdp_respond_chunk(&r, first_chunk++, part, x, x_type, done, out, out_type, done);
    }
    fdp_respond_close(&r, n);
    if (r.failed != FDP_OK) {
        memset(out, 0, n * fdp_width_of(out_type));
    }
    return r.failed;
}
