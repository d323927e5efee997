/* tally.c: sums over public reports, from which the frequency oracles estimate.
 *
 *   fdp_count_columns    unary rows: sixteen at a time by full adders
 *   fdp_count_values     labels
 *   fdp_count_support    hashed reports: four users at a time against all categories
 *   fdp_walsh_hadamard   the transform that undoes Hadamard codes
 *   fdp_estimate_counts  users and standard errors from numbers of supporters
 *
 * Timing class T0: everyone may see a report.
 */
#include <string.h>

#include "../base/config.h"
#include "../fastdp.h"
#include "../sampler/kernels.h"

/* ---- columns ------------------------------------------------------------- */

#define PANEL 256 /* bytes of a row that are counted together, a multiple of BLOCK */
#define BLOCK 64  /* bytes of a row that a kernel takes at once: the widest vector */
#define ROWS_MOST 240 /* most rows whose sum fits into 8 bits, a multiple of 16 */

/* Counts the columns of n rows in the bytes from `first` on, at most a panel. */
static void count_panel(const fdp_kernels_t *kernels, size_t n, size_t row_bytes,
                        const uint8_t *rows, size_t first, size_t columns, int64_t *count)
{
    const size_t left = row_bytes - first;
    const size_t bytes = left < PANEL ? left : PANEL;
    const size_t wide = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    FDP_ALIGNED(64) uint8_t plane[8 * PANEL];
    FDP_ALIGNED(64) uint8_t copy[16 * PANEL];
    for (size_t done = 0; done < n; done += ROWS_MOST) {
        const size_t stop = n - done < ROWS_MOST ? n : done + ROWS_MOST;
        memset(plane, 0, 8 * wide);
        for (size_t row = done; row < stop; row += 16) {
            const uint8_t *from = rows + row * row_bytes + first;
            /* Bytes read beyond a row's end belong to the next rows, or are 0 in a copy. Columns
             * beyond the last are ignored. */
            if (stop - row >= 16 && wide <= (n - row - 15) * row_bytes - first) {
                kernels->columns16(from, row_bytes, plane, wide);
                continue;
            }
            memset(copy, 0, 16 * wide);
            for (size_t r = 0; r < 16 && r < stop - row; r++) {
                memcpy(copy + r * wide, from + r * row_bytes, bytes);
            }
            kernels->columns16(copy, wide, plane, wide);
        }
        kernels->columns_add(plane, wide, count, columns);
    }
}

fdp_status_t fdp_count_columns(size_t n, size_t row_bytes, const uint8_t *rows,
                               size_t columns, int64_t *count)
{
    if (columns > 8 * row_bytes) {
        return FDP_ERR_PARAMETER;
    }
    for (size_t first = 0; 8 * first < columns; first += PANEL) {
        const size_t here = columns - 8 * first;
        count_panel(fdp_kernels(), n, row_bytes, rows, first,
                    here < 8 * PANEL ? here : 8 * PANEL, count + 8 * first);
    }
    return FDP_OK;
}

/* ---- values -------------------------------------------------------------- */

#define SMALL 2048 /* labels for which several tables fit into the nearest cache */

/* Counts four labels of 16 bits each, in four tables: with one table, a label that occurs twice
 * in a row would wait for its own sum. */
FDP_ALWAYS_INLINE void count_four(uint32_t table[4][SMALL + 1], const uint16_t *label)
{
    uint64_t four;
    memcpy(&four, label, sizeof four);
    for (size_t t = 0; t < 4; t++) {
        table[t][four >> (16 * t) & 0xffff]++;
    }
}

/* A value that is not a label counts as label k. All values of a block are compared at once, and
 * read four at a time: one load for each would cost as much as its count. */
#define COUNT_SMALL(type)                                                     \
    do {                                                                      \
        const type *from = (const type *)report;                              \
        for (size_t i = 0; i < n; i += 64) {                                  \
            const size_t part = n - i < 64 ? n - i : 64;                      \
            uint16_t label[64];                                               \
            for (size_t j = part & ~(size_t)3; j < 64; j++) {                 \
                label[j] = (uint16_t)k;                                       \
            }                                                                 \
            for (size_t j = 0; j < part; j++) {                               \
                label[j] = (uint16_t)(from[i + j] < k ? from[i + j] : k);     \
            }                                                                 \
            for (size_t j = 0; j < part; j += 4) {                            \
                count_four(table, label + j);                                 \
            }                                                                 \
        }                                                                     \
    } while (0)

#define COUNT_LARGE(type)                            \
    do {                                             \
        const type *from = (const type *)report;     \
        for (size_t i = 0; i < n; i++) {             \
            if (from[i] < k) {                       \
                count[from[i]]++;                    \
            }                                        \
        }                                            \
    } while (0)

static void count_small(size_t n, const void *report, fdp_dtype_t type, uint32_t k,
                        int64_t *count)
{
    uint32_t table[4][SMALL + 1];
    memset(table, 0, sizeof table);
    switch (type) {
    case FDP_U8: COUNT_SMALL(uint8_t); break;
    case FDP_U16: COUNT_SMALL(uint16_t); break;
    default: COUNT_SMALL(uint32_t); break;
    }
    for (size_t v = 0; v < k; v++) {
        count[v] += table[0][v] + table[1][v] + table[2][v] + table[3][v]; /* at most n */
    }
}

fdp_status_t fdp_count_values(size_t n, const void *report, fdp_dtype_t type, size_t k,
                              int64_t *count)
{
    const size_t most = UINT32_MAX; /* largest value of an entry in a small table */
    if (type != FDP_U8 && type != FDP_U16 && type != FDP_U32) {
        return FDP_ERR_PARAMETER;
    }
    if (k <= SMALL && n <= most) {
        count_small(n, report, type, (uint32_t)k, count);
        return FDP_OK;
    }
    switch (type) {
    case FDP_U8: COUNT_LARGE(uint8_t); break;
    case FDP_U16: COUNT_LARGE(uint16_t); break;
    default: COUNT_LARGE(uint32_t); break;
    }
    return FDP_OK;
}

/* ---- hashes -------------------------------------------------------------- */

#define TILE 2048  /* categories counted together */
#define USERS 1024 /* users prepared together */
#define TABLE 1024 /* most buckets whose limits are stored */

typedef struct {
    uint32_t buckets, l;
    uint64_t limit[TABLE + 1]; /* the first hash input of each bucket, if there are few */
} hash_t;

/* The least z with floor(z buckets / 2^l) = value, scaled to 32 bits. */
static uint64_t limit_of(const hash_t *h, uint64_t value)
{
    const uint64_t first = ((value << h->l) + h->buckets - 1) / h->buckets;
    return first << (32 - h->l);
}

static void hash_open(hash_t *h, uint32_t buckets, uint32_t l)
{
    h->buckets = buckets;
    h->l = l;
    for (uint32_t v = 0; v <= buckets && buckets <= TABLE; v++) {
        h->limit[v] = limit_of(h, v);
    }
}

/* h(v) = value if and only if a v + b lies in [low, high) modulo 2^32. Here it is shifted down by
 * low and by half the range, so that one signed comparison is enough. */
static fdp_support_t support_of(const hash_t *h, const fdp_hashed_t *report)
{
    const bool few = h->buckets <= TABLE, inside = report->value < h->buckets;
    const uint64_t value = inside ? report->value : 0;
    const uint64_t low = few ? h->limit[value] : limit_of(h, value);
    const uint64_t high = few ? h->limit[value + 1] : limit_of(h, value + 1);
    const uint32_t width = inside ? (uint32_t)(high - low) : 0;
    const uint32_t half = UINT32_C(1) << 31;
    return (fdp_support_t){report->slope, report->offset - (uint32_t)low + half,
                           (int32_t)(width ^ half)};
}

/* Adds the support by `users` prepared users (a multiple of 4) to n counts. */
static void count_tile(const fdp_kernels_t *kernels, const fdp_support_t *user,
                       size_t users, size_t start, size_t n, int64_t *count)
{
    uint32_t tally[TILE];
    memset(tally, 0, sizeof tally);
    for (size_t i = 0; i < users; i += 4) {
        kernels->support4(user + i, (uint32_t)start, tally, (n + 7) & ~(size_t)7);
    }
    for (size_t v = 0; v < n; v++) {
        count[start + v] += tally[v];
    }
}

fdp_status_t fdp_count_support(size_t n, const fdp_hashed_t *report, uint32_t buckets,
                               uint32_t l, size_t categories, int64_t *count)
{
    if (l < 1 || l > 32 || buckets < 2 || buckets > (UINT64_C(1) << l) ||
        categories > (UINT64_C(1) << (33 - l))) {
        return FDP_ERR_PARAMETER;
    }
    const fdp_kernels_t *kernels = fdp_kernels();
    const fdp_support_t nobody = {0, 0, INT32_MIN};
    hash_t h;
    hash_open(&h, buckets, l);
    fdp_support_t user[USERS];
    for (size_t done = 0; done < n; done += USERS) {
        const size_t part = n - done < USERS ? n - done : USERS;
        const size_t users = (part + 3) & ~(size_t)3;
        for (size_t i = 0; i < users; i++) {
            user[i] = i < part ? support_of(&h, report + done + i) : nobody;
        }
        for (size_t v = 0; v < categories; v += TILE) {
            const size_t tile = categories - v < TILE ? categories - v : TILE;
            count_tile(kernels, user, users, v, tile, count);
        }
    }
    return FDP_OK;
}

/* ---- Hadamard ------------------------------------------------------------ */

#define NEAR 4096 /* numbers that stay in the first cache */

void fdp_walsh_hadamard(size_t n, int64_t *a)
{
    const fdp_kernels_t *kernels = fdp_kernels();
    uint64_t *word = (uint64_t *)a;
    const size_t part = n < NEAR ? n : NEAR;
    for (size_t i = 0; i < n; i += part) {
        kernels->butterflies(word + i, part, 1);
    }
    if (n > part) {
        kernels->butterflies(word, n, part);
    }
}

/* ---- estimates ------------------------------------------------------------ */

void fdp_estimate_counts(size_t n, const int64_t *supporters, const fdp_unbiased_t *law,
                         double *count, double *error)
{
    fdp_kernels()->estimate(law, supporters, count, error, n);
}
