/* sketch.c: hashing for open domains: digests of strings, buckets of digests, and the number
 * of public reports that support each value.
 *
 *   fdp_digest_strings   SipHash-2-4 of strings (Aumasson, Bernstein 2012)
 *   fdp_seed_words       the three words of the hash function of a seed
 *   fdp_row_buckets      buckets under functions of few seeds, whose words are given
 *   fdp_seed_buckets     buckets under one function for each digest, made from its seed
 *   fdp_sketch_sums      sums over all rows of a sketch
 *   fdp_seed_support     how many seeded reports support each digest
 *
 * The hash of a digest with halves low and high is the first bits of
 * z = (a + low)(c + high) + b mod 2^64 (docs/proofs/open_domains.md). Keys and reports are
 * public. Timing class T0: the time of a digest grows with the length of its string.
 */
#include <string.h>

#include "../base/config.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"

/* ---- digests --------------------------------------------------------------- */

typedef struct {
    uint64_t v0, v1, v2, v3;
} sip_t;

static inline uint64_t turned(uint64_t x, unsigned by) { return x << by | x >> (64 - by); }

static inline void sip_round(sip_t *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = turned(s->v1, 13) ^ s->v0;
    s->v3 = turned(s->v3, 16) ^ s->v2;
    s->v0 = turned(s->v0, 32) + s->v3;
    s->v2 += s->v1;
    s->v3 = turned(s->v3, 21) ^ s->v0;
    s->v1 = turned(s->v1, 17) ^ s->v2;
    s->v2 = turned(s->v2, 32);
}

static inline sip_t sip_open(const uint64_t key[2])
{
    return (sip_t){key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
}

static inline void sip_word(sip_t *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t sip_close(sip_t *s, uint64_t last)
{
    sip_word(s, last);
    s->v2 ^= 0xff;
    for (int i = 0; i < 4; i++) {
        sip_round(s);
    }
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static uint64_t digest(const uint64_t key[2], const uint8_t *text, size_t size)
{
    sip_t s = sip_open(key);
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, text + at, 8);
        sip_word(&s, word);
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; at + i < size; i++) {
        last |= (uint64_t)text[at + i] << 8 * i;
    }
    return sip_close(&s, last);
}

void fdp_digest_strings(const uint64_t key[2], size_t n, const int64_t *offset,
                        const uint8_t *text, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = digest(key, text + offset[i], (size_t)(offset[i + 1] - offset[i]));
    }
}

/* ---- hash functions --------------------------------------------------------- */

/* Word j of a seed's function: the digest of the seed and j, 8 bytes each, under the key with every
 * bit inverted. */
static inline uint64_t seed_word(const uint64_t turned_key[2], uint64_t seed, uint64_t j)
{
    sip_t s = sip_open(turned_key);
    sip_word(&s, seed);
    sip_word(&s, j);
    return sip_close(&s, UINT64_C(16) << 56);
}

static fdp_function_t words_of(const uint64_t key[2], uint64_t seed)
{
    const uint64_t turned_key[2] = {~key[0], ~key[1]};
    return (fdp_function_t){seed_word(turned_key, seed, 0), seed_word(turned_key, seed, 1),
                         seed_word(turned_key, seed, 2)};
}

static inline uint64_t hash(const fdp_function_t *w, uint64_t x)
{
    return (w->a + (uint32_t)x) * (w->c + (x >> 32)) + w->b;
}

void fdp_seed_words(const uint64_t key[2], size_t n, const uint64_t *seed, fdp_function_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = words_of(key, seed[i]);
    }
}

void fdp_row_buckets(const fdp_function_t *words, uint32_t bits, size_t n, const uint16_t *row,
                     const uint64_t *x, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint32_t)(hash(words + row[i], x[i]) >> (64 - bits));
    }
}

void fdp_seed_buckets(const uint64_t key[2], uint32_t buckets, size_t n, const uint64_t *seed,
                      const uint64_t *x, uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const fdp_function_t words = words_of(key, seed[i]);
        out[i] = (uint32_t)((hash(&words, x[i]) >> 32) * buckets >> 32);
    }
}

/* ---- what reports say -------------------------------------------------------- */

#define QUERIES 512 /* digests processed together, so that their sums stay in the nearest cache */

void fdp_sketch_sums(const fdp_function_t *words, size_t rows, uint32_t bits,
                     const int64_t *table, size_t n, const uint64_t *x, int64_t *sum)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    memset(sum, 0, n * sizeof *sum);
    for (size_t done = 0; done < n; done += QUERIES) {
        const size_t part = n - done < QUERIES ? n - done : QUERIES;
        for (size_t r = 0; r < rows; r++) {
            kernels->sketch_row(words + r, 64 - bits, table + (r << bits), x + done,
                                sum + done, part);
        }
    }
}

/* Bucket j of `buckets` is z in [ceil(2^32 j/buckets) 2^32, ceil(2^32 (j + 1)/buckets) 2^32). */
static fdp_seeded_t seeded(const uint64_t key[2], uint32_t buckets, uint64_t seed,
                           uint32_t value)
{
    const uint64_t inside = value < buckets, v = inside ? value : 0;
    const uint64_t low = ((v << 32) + buckets - 1) / buckets;
    const uint64_t high = (((v + 1) << 32) + buckets - 1) / buckets;
    const fdp_function_t w = words_of(key, seed);
    return (fdp_seeded_t){{w.a, w.c, w.b - (low << 32)}, inside ? (high - low) << 32 : 0};
}

fdp_status_t fdp_seed_support(const uint64_t key[2], uint32_t buckets, size_t n,
                              const fdp_hashed_t *report, size_t asked, const uint64_t *x,
                              int64_t *count)
{
    if (buckets < 2) {
        return FDP_ERR_PARAMETER;
    }
    const fdp_kernels_t *kernels = fdp_kernels();
    for (size_t done = 0; done < n; done += 4) {
        fdp_seeded_t user[4];
        for (size_t u = 0; u < 4; u++) {
            const fdp_hashed_t *r = report + (done + u < n ? done + u : done);
            const uint64_t seed = (uint64_t)r->offset << 32 | r->slope;
            user[u] = seeded(key, buckets, seed, done + u < n ? r->value : UINT32_MAX);
        }
        kernels->seeded4(user, x, count, asked);
    }
    return FDP_OK;
}
