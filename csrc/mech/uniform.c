/* uniform.c: raw bytes, uniform integers, permutations and subsets.
 *
 * Integers use Lemire's multiplication with rejection (ACM TOMACS 2019): the result is the
 * high half of word * range, and the word is redrawn while the low half is below 2^64 mod
 * range. So exactly the same number of words gives each value. Whether a word is redrawn
 * does not depend on its value.
 */
#include <string.h>

#include "../base/config.h"
#include "../base/mul128.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "../sampler/kernels.h"

#define UNIT 1024
#define HALVES (UNIT / 4)

/* Reads the words of a chunk's main stream in order, a unit at a time: words of 64 bits, or their
 * halves, the low one first. */
typedef struct {
    FDP_ALIGNED(64) uint32_t half[HALVES];
    fdp_chunk_t chunk;
    uint64_t offset;
    size_t next;
} words_t;

static void words_open(words_t *w, const fdp_call_t *call, uint64_t chunk)
{
    fdp_chunk_open(&w->chunk, &call->stream, chunk);
    w->offset = 0;
    w->next = HALVES;
}

static void refill(words_t *w)
{
    fdp_chunk_main(&w->chunk, w->offset, w->half, UNIT);
    w->offset += UNIT;
    w->next = 0;
}

static uint32_t half_take(words_t *w)
{
    if (FDP_UNLIKELY(w->next == HALVES)) {
        refill(w);
    }
    return w->half[w->next++];
}

static uint64_t words_take(words_t *w)
{
    if (w->next == HALVES) {
        refill(w);
    }
    uint64_t word;
    memcpy(&word, w->half + w->next, sizeof word);
    w->next += 2;
    return word;
}

static void words_close(words_t *w) { fdp_wipe(w, sizeof *w); }

/* 2^64 mod range: a word whose low half is below this is surplus. */
static uint64_t surplus_of(uint64_t range) { return (0 - range) % range; }

static uint64_t below(words_t *w, uint64_t range, uint64_t surplus)
{
    uint64_t high;
    while (fdp_mul_u64(words_take(w), range, &high) < surplus) {
    }
    return high;
}

fdp_status_t fdp_fill_bytes(const fdp_call_t *call, uint64_t first_chunk, size_t n,
                            uint8_t *out)
{
    while (n > 0) {
        const size_t part = n < FDP_BYTES_CHUNK ? n : FDP_BYTES_CHUNK;
        fdp_call_main(call, first_chunk++, 0, out, part);
        out += part;
        n -= part;
    }
    return FDP_OK;
}

fdp_status_t fdp_fill_integers(const fdp_call_t *call, uint64_t low, uint64_t range,
                               uint64_t first_chunk, size_t n, int64_t *out)
{
    const uint64_t surplus = range == 0 ? 0 : surplus_of(range);
    words_t words;
    for (size_t done = 0; done < n; done += FDP_INTEGERS_CHUNK) {
        const size_t part = n - done < FDP_INTEGERS_CHUNK ? n - done : FDP_INTEGERS_CHUNK;
        words_open(&words, call, first_chunk++);
        for (size_t i = 0; i < part; i++) {
            const uint64_t v =
                range == 0 ? words_take(&words) : below(&words, range, surplus);
            out[done + i] = (int64_t)(low + v);
        }
    }
    words_close(&words);
    return FDP_OK;
}

fdp_status_t fdp_fill_permutation(const fdp_call_t *call, size_t n, int64_t *out)
{
    words_t words;
    words_open(&words, call, 0);
    uint64_t chunk = 0;
    for (size_t i = 0; i < n; i++) {
        if (words.offset >= FDP_BYTES_CHUNK && words.next == HALVES) {
            words_open(&words, call, ++chunk);
        }
        const uint64_t range = i + 1;
        const size_t k = (size_t)below(&words, range, surplus_of(range));
        out[i] = k == i ? 0 : out[k]; /* Fisher-Yates, inside-out */
        out[k] = (int64_t)i;
    }
    words_close(&words);
    return FDP_OK;
}

/* ---- subsets --------------------------------------------------------------- */

/* A row with at most this many categories is drawn in marks, a byte for each. A row with more
 * categories, or with few chosen ones, is drawn in bits; there, loads wait for earlier stores. */
#define MOST_MARKS 16384
#define SPARSE 64

/* Chooses a subset of the other d - 1 categories by Floyd's algorithm, on the numbers 0 ... d - 2;
 * the number of the own category stands for the last one. For each `last` a number t <= last is
 * inserted, or `last` if t is already there. No address of a mark depends on a load, so loads need
 * not wait for stores. */
FDP_ALWAYS_INLINE void choose(words_t *w, uint32_t d, uint32_t size, uint32_t own,
                              uint8_t *to, bool marks)
{
    for (uint32_t last = d - 1 - size; last < d - 1;) {
        if (w->next == HALVES) {
            refill(w);
        }
        size_t i = w->next;
        for (; i < HALVES && last < d - 1; i++) {
            const uint32_t range = last + 1;
            const uint64_t product = (uint64_t)w->half[i] * range;
            if (FDP_UNLIKELY((uint32_t)product < range) &&
                (uint32_t)product < (0 - range) % range) {
                continue; /* surplus: take the next word */
            }
            const uint32_t t = (uint32_t)(product >> 32);
            if (marks) {
                const uint8_t taken = to[t];
                to[last] = taken;
                to[t] = 1;
            } else {
                const uint32_t at = t == own ? d - 1 : t, end = last == own ? d - 1 : last;
                const uint32_t taken = 0u - (to[at / 8] >> (7 - at % 8) & 1u);
                const uint32_t set = (end & taken) | (at & ~taken);
                to[set / 8] |= (uint8_t)(0x80 >> set % 8);
            }
            last++;
        }
        w->next = i;
    }
}

/* Packs 8 width marks into bits. */
static void pack(const uint8_t *mark, size_t width, uint8_t *row)
{
    for (size_t i = 0; i < width; i++) {
        uint64_t eight;
        memcpy(&eight, mark + 8 * i, sizeof eight);
        row[i] = (uint8_t)(eight * UINT64_C(0x8040201008040201) >> 56);
    }
}

/* Draws rows from the words at hand, one after the other. */
static void draw_rows(words_t *words, const fdp_subsets_t *law, size_t n,
                      const uint32_t *label, uint8_t *rows)
{
    const uint32_t d = law->categories;
    const size_t width = ((size_t)d + 7) / 8;
    const bool marked = d <= MOST_MARKS && d / SPARSE <= law->size;
    uint8_t marks[2][MOST_MARKS]; /* packed one row later, when the stores have left the queue */
    for (size_t i = 0; i < n; i++) {
        uint8_t *row = rows + i * width, *mark = marks[i % 2];
        const uint64_t low = half_take(words);
        const uint64_t word = (uint64_t)half_take(words) << 32 | low;
        const uint32_t own = word < law->truth, x = label[i];
        if (marked) {
            memset(mark, 0, 8 * width);
            choose(words, d, law->size - own, x, mark, true);
            mark[d - 1] = mark[x];
            mark[x] = (uint8_t)own;
            if (i > 0) {
                pack(marks[(i - 1) % 2], width, row - width);
            }
        } else {
            memset(row, 0, width);
            choose(words, d, law->size - own, x, row, false);
            row[x / 8] |= (uint8_t)((own << 7) >> x % 8);
        }
    }
    if (marked && n > 0) {
        pack(marks[(n - 1) % 2], width, rows + (n - 1) * width);
        fdp_wipe(marks[0], 8 * width);
        fdp_wipe(marks[1], 8 * width);
    }
}

/* Words of a chunk for several rows, for a kernel. */
#define MOST_PLACES 128 /* categories of its sets */
#define AHEAD 8         /* units */

typedef struct {
    FDP_ALIGNED(64) uint32_t word[AHEAD * HALVES + 16];
    size_t begin, end; /* numbers of the words at hand */
} ahead_t;

/* Returns the words of a chunk from number `at` on, at least `need`; `most` are of use. */
static const uint32_t *look_ahead(ahead_t *a, const fdp_chunk_t *chunk, size_t at, size_t need,
                                  size_t most)
{
    if (at < a->begin || at + need > a->end) {
        const size_t first = at / HALVES, units = (at + most + HALVES - 1) / HALVES - first;
        const size_t taken = units < AHEAD ? units : AHEAD;
        fdp_chunk_main(chunk, first * UNIT, a->word, taken * UNIT);
        a->begin = first * HALVES;
        a->end = a->begin + taken * HALVES;
    }
    return a->word + (at - a->begin);
}

/* Draws rows of a chunk eight at a time. */
static void draw_eights(words_t *words, const fdp_kernels_t *kernels,
                        const fdp_subsets_t *law, size_t n, const uint32_t *label,
                        uint8_t *rows)
{
    const size_t width = ((size_t)law->categories + 7) / 8, each = 2 + (size_t)law->size;
    size_t at = 0; /* number of the next word */
    ahead_t ahead;
    ahead.begin = ahead.end = 0;
    memset(ahead.word + AHEAD * HALVES, 0, 16 * sizeof *ahead.word);
    for (size_t i = 0; i < n; i += 8) {
        const size_t part = n - i < 8 ? n - i : 8;
        size_t taken = 0;
        if (part == 8) {
            uint64_t set[16];
            taken = kernels->subsets8(law,
                                      look_ahead(&ahead, &words->chunk, at, 8 * each,
                                                 (n - i) * each),
                                      label + i, set);
            for (size_t r = 0; r < 8; r++) {
                memcpy(rows + (i + r) * width, set + 2 * r, width);
            }
            fdp_wipe(set, sizeof set);
        }
        if (taken == 0) { /* the last rows, or a word that may be surplus */
            words->offset = at / HALVES * UNIT;
            refill(words);
            words->next = at % HALVES;
            draw_rows(words, law, part, label + i, rows + i * width);
            taken = (size_t)(words->offset / 4 - HALVES + words->next - at);
        }
        at += taken;
    }
    fdp_wipe(&ahead, sizeof ahead);
}

fdp_status_t fdp_fill_subsets(const fdp_call_t *call, const fdp_subsets_t *law,
                              uint64_t first_chunk, size_t n, const uint32_t *label,
                              uint8_t *rows)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    const size_t width = ((size_t)law->categories + 7) / 8;
    words_t words;
    for (size_t i = 0; i < n; i += FDP_SUBSETS_CHUNK) {
        const size_t part = n - i < FDP_SUBSETS_CHUNK ? n - i : FDP_SUBSETS_CHUNK;
        words_open(&words, call, first_chunk++);
        if (kernels->subsets8 != NULL && law->categories <= MOST_PLACES) {
            draw_eights(&words, kernels, law, part, label + i, rows + i * width);
        } else {
            draw_rows(&words, law, part, label + i, rows + i * width);
        }
    }
    words_close(&words);
    return FDP_OK;
}
