/* vectors.c: makes codes of normal numbers from a public seed, and finds words in the order of
 * their products with a secret vector. fdp_vector_clients finds, for each user, the word that has
 * the required rank; fdp_vector_sums adds the words that public reports name. Entry e of a code,
 * which is entry e mod d of its word floor(e/d), is made from 32-bit word e of chunk 0 of the
 * ChaCha20 stream whose key is the seed. One bit is the sign. Of the other 31 bits, the first 15
 * are the place in a table, or the first 23 if 8 of them are 0. All is exact: every level, and
 * every other program, finds the same words. docs/proofs/local_randomizers.md. What is drawn and
 * read depends only on public seeds; the search takes the same steps whatever the products are. */
#include <string.h>

#include "../base/config.h"
#include "../base/wipe.h"
#include "../fastdp.h"
#include "../rng/stream.h"
#include "scratch.h"

#define DRAWN 2048 /* entries made together, a multiple of those in a unit */
#define FINE 128   /* cells of the tail that are divided into 256 */

typedef struct {
    FDP_ALIGNED(64) uint32_t word[DRAWN];
    fdp_chunk_t chunk;
} code_t;

static void open_code(code_t *code, uint64_t seed)
{
    fdp_stream_t stream = {.cipher = FDP_CIPHER_CHACHA20};
    for (int i = 0; i < 8; i++) {
        stream.key[i] = (uint8_t)(seed >> 8 * i);
    }
    fdp_chunk_open(&code->chunk, &stream, 0);
}

/* Makes up to DRAWN entries from `from` on (a multiple of 256), those before `end`. */
static size_t draw(code_t *code, uint64_t from, uint64_t end)
{
    const uint64_t left = end - from;
    const size_t n = left < DRAWN ? (size_t)left : DRAWN;
    fdp_chunk_main(&code->chunk, 4 * from, code->word, (4 * n + 63) & ~(size_t)63);
    return n;
}

/* The number that a word gives. Words come from public seeds, so the table may be indexed by
 * them. */
static inline int32_t entry(const int16_t *table, uint32_t word)
{
    const uint32_t place = word & INT32_MAX, cell = place >> 16;
    const int32_t size = table[cell < FINE ? FINE * 256 + (place >> 8) : cell];
    const int32_t sign = -(int32_t)(word >> 31);
    return (size ^ sign) - sign;
}

static int64_t product(const int16_t *table, const uint32_t *word, const int32_t *x,
                       size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (int64_t)entry(table, word[i]) * x[i];
    }
    return sum;
}

/* Computes the keys: 2^16 times the product of each word with x, plus the words' numbers in
 * reverse. So no two keys are equal, and of equal products the first word's key is the largest. */
static void products(const fdp_vectors_t *v, code_t *code, const int32_t *x, int64_t *key)
{
    const size_t d = v->dimension;
    const uint64_t end = (uint64_t)v->words * d;
    size_t j = 0, i = 0;
    int64_t sum = 0;
    for (uint64_t at = 0; at < end; at += DRAWN) {
        const size_t n = draw(code, at, end);
        for (size_t done = 0; done < n;) {
            const size_t part = n - done < d - i ? n - done : d - i;
            sum += product(v->table, code->word + done, x + i, part);
            done += part;
            i += part;
            if (i == d) {
                key[j] = sum * 65536 + (int64_t)(UINT16_MAX - j);
                j++;
                i = 0;
                sum = 0;
            }
        }
    }
}

/* The key that has exactly `rank` of the n keys above it, found bit by bit from the top. */
static int64_t of_rank(const int64_t *key, size_t n, uint64_t rank)
{
    int64_t found = INT64_MIN;
    for (int bit = 63; bit >= 0; bit--) {
        const int64_t next = (int64_t)((uint64_t)found + (UINT64_C(1) << bit));
        uint64_t reached = 0;
        for (size_t j = 0; j < n; j++) {
            reached += key[j] >= next;
        }
        const uint64_t take = 0 - (uint64_t)(reached > rank);
        found = (int64_t)((take & (uint64_t)next) | (~take & (uint64_t)found));
    }
    return found;
}

static bool is_code(const fdp_vectors_t *v)
{
    return v->words >= 1 && v->words <= 65536 && v->dimension >= 1 &&
           v->dimension <= 100000;
}

fdp_status_t fdp_vector_clients(const fdp_vectors_t *v, size_t n, const int32_t *x,
                                const int64_t *rank, fdp_hashed_t *report)
{
    if (!is_code(v)) {
        return FDP_ERR_PARAMETER;
    }
    const size_t size = v->words * sizeof(int64_t);
    int64_t *const key = fdp_memory_take(size);
    if (key == NULL) {
        return FDP_ERR_MEMORY;
    }
    code_t code;
    for (size_t i = 0; i < n; i++) {
        open_code(&code, (uint64_t)report[i].offset << 32 | report[i].slope);
        products(v, &code, x + i * v->dimension, key);
        const int64_t found = of_rank(key, v->words, (uint64_t)rank[i]);
        report[i].value = UINT16_MAX - (uint32_t)(found & UINT16_MAX);
        fdp_chunk_close(&code.chunk);
    }
    fdp_memory_give(key, size);
    return FDP_OK;
}

fdp_status_t fdp_vector_sums(const fdp_vectors_t *v, size_t n, const fdp_hashed_t *report,
                             int64_t *sum)
{
    if (!is_code(v)) {
        return FDP_ERR_PARAMETER;
    }
    code_t code;
    for (size_t i = 0; i < n; i++) {
        if (report[i].value >= v->words) {
            continue;
        }
        const uint64_t first = (uint64_t)report[i].value * v->dimension;
        const uint64_t end = first + v->dimension;
        open_code(&code, (uint64_t)report[i].offset << 32 | report[i].slope);
        for (uint64_t at = first & ~UINT64_C(255); at < end; at += DRAWN) {
            const size_t made = draw(&code, at, end);
            for (size_t k = at < first ? (size_t)(first - at) : 0; k < made; k++) {
                sum[at + k - first] += entry(v->table, code.word[k]);
            }
        }
        fdp_chunk_close(&code.chunk);
        sum[v->dimension]++;
    }
    return FDP_OK;
}
