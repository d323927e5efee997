/* levels_local.h: the part of levels.c for local randomizers and tallies. Their kernels
 * compute in integers only: all levels are equal, undecided lanes included.
 *
 *   bits       Bernoulli bits, packed and on bytes, of any tables
 *   responses  reports of labels inside and outside the domain
 *   clients    reports that hash or encode a category
 *   oracles    unary rows, and all tallies
 */
#ifndef FDP_LEVELS_LOCAL_H
#define FDP_LEVELS_LOCAL_H

/* Any cuts and aliases: a quarter of the cuts at the ends of their range. */
static fdp_bernoulli_t bernoulli_of(uint64_t seed)
{
    fdp_bernoulli_t law = {.num = {1}, .den = {3}}; /* hardly ever read */
    state = seed;
    for (size_t c = 0; c < 256; c++) {
        const uint64_t cut = next() % 4 == 0 ? 0 - (next() & 1) : next();
        law.alias[c] = (uint8_t)next();
        for (size_t b = 0; b < 8; b++) {
            law.plane[b][c] = (uint8_t)(cut >> (56 - 8 * b));
        }
    }
    return law;
}

#define LOCAL 70000

typedef struct {
    fdp_call_t call;
    fdp_bernoulli_t law;
    size_t n;
    int other;
    fdp_dtype_t type;
} flips_t;

static size_t draw_flips(const void *context, uint8_t *out)
{
    static uint8_t x[8 * LOCAL];
    const flips_t *f = context;
    const size_t packed = (f->n + 7) / 8;
    state = f->n;
    for (size_t i = 0; i < f->n; i++) {
        const uint64_t v = next() % 16 == 0 ? next() : next() % 2;
        memcpy(x + i * sizes[f->type], &v, sizes[f->type]);
    }
    differences += fdp_flip_bits(&f->call, &f->law, 3, f->n, NULL, out) != FDP_OK;
    differences += fdp_flip_bits(&f->call, &f->law, 3, f->n, x, out + packed) != FDP_OK;
    differences += fdp_flip_bytes(&f->call, &f->law, 3, f->n, x, f->type, f->other,
                                  out + 2 * packed) != FDP_OK;
    return 2 * packed + f->n;
}

static void check_flips(uint32_t cipher)
{
    static const size_t lengths[] = {1, 7, 64, 65, 511, 513, 8191, 32768, 32769, LOCAL};
    for (size_t k = 0; k < 7 * COUNT(lengths); k++) {
        const flips_t f = {.call = {.stream = stream_of(cipher)},
                           .law = bernoulli_of(k / COUNT(lengths)),
                           .n = lengths[k % COUNT(lengths)],
                           .other = (int)(k % 3) - 1,
                           .type = (fdp_dtype_t)(FDP_I8 + k % 7)};
        char name[80];
        snprintf(name, sizeof name, "law %zu n %zu type %d other %d",
                 k / COUNT(lengths), f.n, (int)f.type, f.other);
        across("bits", name, cipher, draw_flips, &f, 1);
    }
}

typedef struct {
    fdp_call_t call;
    fdp_response_t law;
    size_t n;
    int64_t other;
    fdp_dtype_t type;
} response_t;

static size_t draw_response(const void *context, uint8_t *out)
{
    static uint8_t x[8 * LOCAL];
    const response_t *r = context;
    state = r->n;
    for (size_t i = 0; i < r->n; i++) {
        const uint64_t v = next() % 4 == 0 ? edge() : next() % r->law.categories;
        memcpy(x + i * sizes[r->type], &v, sizes[r->type]);
    }
    differences += fdp_respond(&r->call, &r->law, 9, r->n, x, r->type, r->other, out,
                               FDP_U32) != FDP_OK;
    return 4 * r->n;
}

static void check_responses(uint32_t cipher)
{
    static const uint32_t ks[] = {2, 3, 16, 64, 1000, 65536, 65537, (1u << 20) + 7, INT32_MAX};
    static const size_t lengths[] = {1, 63, 64, 1024, 4097, 20000};
    for (size_t k = 0; k < COUNT(ks) * COUNT(lengths); k++) {
        const uint32_t categories = ks[k / COUNT(lengths)];
        response_t r = {.call = {.stream = stream_of(cipher)},
                        .law = {.categories = categories,
                                .shift = 97 + (uint32_t)__builtin_clz(categories),
                                .rate = {UINT64_MAX / 3 * 2 + k, 7}},
                        .n = lengths[k % COUNT(lengths)],
                        .other = k % 3 == 0 ? (int64_t)categories - 1 : -1,
                        .type = (fdp_dtype_t)(FDP_I8 + k % 7)};
        r.law.always = k % 5 == 4;
        r.law.shift = k % 7 == 6 ? 32 : r.law.shift;
        char name[80];
        snprintf(name, sizeof name, "k %" PRIu32 " n %zu type %d other %" PRId64,
                 categories, r.n, (int)r.type, r.other);
        across("response", name, cipher, draw_response, &r, 4);
    }
}

typedef struct {
    response_t r;
    fdp_bernoulli_t flips;
    uint32_t categories;
} clients_t;

/* Reports of hashing, for categories of 17 bits, then Hadamard codes of 16 or 17. */
static size_t draw_clients(const void *context, uint8_t *out)
{
    static int64_t x[LOCAL];
    const clients_t *c = context;
    const response_t *r = &c->r;
    const fdp_response_t labeling = {.categories = c->categories, .always = 1};
    const fdp_call_t public = {.stream = stream_of(r->call.stream.cipher)};
    const uint32_t log2k = c->categories < 65536 ? 16 : 17;
    state = r->n;
    for (size_t i = 0; i < r->n; i++) {
        x[i] = next() % 4 == 0 ? (int64_t)edge() : (int64_t)(next() % c->categories);
    }
    differences += fdp_hash_clients(&r->call, &public, &labeling, &r->law, 16, 0, r->n, x,
                                    FDP_I64, r->other, (fdp_hashed_t *)(void *)out) !=
                   FDP_OK;
    differences += fdp_hadamard_clients(&r->call, &labeling, &c->flips, log2k, 0, r->n, x,
                                        FDP_I64, r->other, out + 12 * r->n,
                                        log2k == 16 ? FDP_U16 : FDP_U32) != FDP_OK;
    return (log2k == 16 ? 14 : 16) * r->n;
}

static void check_clients(uint32_t cipher)
{
    static const uint32_t buckets[] = {2, 17, 64, 1000};
    static const size_t lengths[] = {1, 17, 64, 2049, 8192, 16370};
    for (size_t k = 0; k < COUNT(buckets) * COUNT(lengths); k++) {
        const uint32_t g = buckets[k / COUNT(lengths)];
        clients_t c = {.r = {.call = {.stream = stream_of(cipher)},
                             .law = {.categories = g,
                                     .shift = 97 + (uint32_t)__builtin_clz(g),
                                     .rate = {UINT64_MAX / 3 * 2 + k, 7}},
                             .n = lengths[k % COUNT(lengths)],
                             .other = k % 3 == 0 ? 5 : -1},
                       .flips = bernoulli_of(k),
                       .categories = k % 2 == 0 ? 1000 : 70000};
        char name[80];
        snprintf(name, sizeof name, "buckets %" PRIu32 " n %zu categories %" PRIu32, g,
                 c.r.n, c.categories);
        across("clients", name, cipher, draw_clients, &c, 1);
    }
}

#define ROWS 300
#define ROW_BYTES 131

/* Everything that draws nothing: once for each level. */
static size_t draw_oracles(const void *context, uint8_t *out)
{
    static uint8_t rows[ROWS * ROW_BYTES], bits[ROWS];
    static uint32_t label[ROWS], code[ROWS];
    static uint64_t seed[ROWS];
    static fdp_hashed_t report[ROWS];
    static int64_t count[8 * ROW_BYTES], sum[4096];
    const uint32_t buckets = *(const uint32_t *)context;
    size_t at = 0;
    state = buckets;
    memset(count, 0, sizeof count);
    for (size_t i = 0; i < sizeof rows; i++) {
        rows[i] = (uint8_t)next();
    }
    for (size_t i = 0; i < ROWS; i++) {
        label[i] = (uint32_t)(next() % 1000);
        code[i] = (uint32_t)(next() % 1000);
        seed[i] = edge();
        bits[i] = (uint8_t)next();
        report[i] = (fdp_hashed_t){(uint32_t)seed[i], (uint32_t)(seed[i] >> 32),
                                   (uint32_t)(next() % (buckets + 1))};
    }
    fdp_insert_bits(ROWS, ROW_BYTES, label, bits, rows);
    memcpy(out + at, rows, sizeof rows);
    at += sizeof rows;
    for (size_t i = 0; i < COUNT(sum); i++) {
        sum[i] = (int64_t)(next() % 1000);
    }
    fdp_walsh_hadamard(COUNT(sum), sum);
    memcpy(out + at, sum, sizeof sum);
    at += sizeof sum;
    bool ok = fdp_count_columns(ROWS, ROW_BYTES, rows, 1041, count) == FDP_OK;
    ok &= fdp_count_support(ROWS, report, buckets, 23, 1003, count) == FDP_OK;
    ok &= fdp_count_values(ROWS, code, FDP_U32, 900, count) == FDP_OK;
    differences += !ok;
    memcpy(out + at, count, sizeof count);
    return at + sizeof count;
}

static void check_local(uint32_t cipher)
{
    static const uint32_t few[] = {2, 3, 17, 1024, 1025, 100000};
    check_flips(cipher);
    check_responses(cipher);
    check_clients(cipher);
    for (size_t k = 0; k < COUNT(few); k++) {
        char name[40];
        snprintf(name, sizeof name, "buckets %" PRIu32, few[k]);
        across("oracles", name, cipher, draw_oracles, &few[k], 1);
    }
}

#endif
