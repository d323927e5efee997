/* fastdp.h: the public interface of the fastdp C core.
 *
 * One call = one 256-bit key (fdp_call_open) and any number of draws from
 * disjoint chunks under it (fdp_release and friends), ended by fdp_call_close,
 * which wipes the key. Nothing survives a call: there is no global state but
 * the cached CPU mask.
 *
 * A draw is a pure function of (key, cipher, chunk, trial, bit). Chunk c gives
 * the outputs c * chunk_outputs ... of a call, so disjoint chunk ranges can be
 * drawn by different threads and the result does not depend on their number,
 * nor on the instruction set.
 *
 * Every function that can fail returns a status; on any failure the outputs
 * that it was given are filled with zeros.
 */
#ifndef FASTDP_H
#define FASTDP_H

#include <stddef.h>
#include <stdint.h>

/* Defined empty (-DFDP_API=), a library that has the core in it exports none of it. */
#if defined(FDP_API)
#elif defined(__GNUC__)
#define FDP_API __attribute__((visibility("default")))
#else
#define FDP_API
#endif

#if defined(__GNUC__)
#define FDP_NODISCARD __attribute__((warn_unused_result))
#else
#define FDP_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------ */

typedef enum {
    FDP_OK = 0,
    FDP_ERR_PARAMETER = 1, /* a public parameter is outside its domain        */
    FDP_ERR_ENTROPY = 2,   /* the operating system gave no randomness         */
    FDP_ERR_MEMORY = 3,    /* scratch memory could not be had                 */
    FDP_ERR_RESOLVER = 4,  /* 8,192 bits do not decide, or the law lacks its parameter */
    FDP_ERR_BUILD = 5,     /* this build does not compute as it must           */
    FDP_ERR_LEVEL = 6      /* FASTDP_CPU names no level                        */
} fdp_status_t;

/* ---- randomness -------------------------------------------------------- */

typedef enum {
    FDP_CIPHER_CHACHA20 = 1, /* everywhere; the reference                  */
    FDP_CIPHER_AES256 = 2,   /* counter mode, only with AES instructions   */
    FDP_CIPHER_TAPE = 3      /* tests only: the words come from the caller */
} fdp_cipher_t;

/* Test words. Chunk c reads its main stream at main + c * main_stride and its
 * first 16-byte extension block of trial i at ext + c * ext_stride + 16 * i;
 * what lies beyond the strides or the chunks comes from ChaCha20 under fixed keys. */
typedef struct {
    size_t chunks;
    const uint8_t *main;
    size_t main_stride;
    const uint8_t *ext;
    size_t ext_stride;
} fdp_tape_t;

typedef struct {
    uint32_t cipher; /* fdp_cipher_t */
    uint8_t key[32];
    const fdp_tape_t *tape; /* FDP_CIPHER_TAPE only */
} fdp_stream_t;

/* Under one key threads may draw from any laws, each from chunks of its own. */
typedef struct {
    fdp_stream_t stream;
} fdp_call_t;

/* Tries the arithmetic of every level that may be used, once in a process: FDP_OK,
 * FDP_ERR_BUILD or FDP_ERR_LEVEL. fdp_call_open asks it. */
FDP_API FDP_NODISCARD fdp_status_t fdp_self_check(void);
/* A fresh key from the operating system and the default cipher. */
FDP_API FDP_NODISCARD fdp_status_t fdp_call_open(fdp_call_t *call);
/* Wipes the key. */
FDP_API void fdp_call_close(fdp_call_t *call);
/* 16 bytes: extension block `block` of a trial, most significant bits first in
 * each of its two little-endian 64-bit words. */
FDP_API void fdp_call_extend(const fdp_call_t *call, uint64_t chunk,
                             uint32_t trial, uint32_t block, uint8_t out[16]);
/* Raw main stream of one chunk, for tests; offset a multiple of 1024. */
FDP_API void fdp_call_main(const fdp_call_t *call, uint64_t chunk,
                           uint64_t offset, uint8_t *out, size_t nbytes);
/* Key of call number `index` of a fixed stream. */
FDP_API void fdp_stream_derive(uint8_t out[32], const uint8_t key[32],
                               uint64_t index);

/* ---- machine ----------------------------------------------------------- */

/* The level in force; a level's name by its rank, from 0 ("portable") to the highest of
 * any machine, NULL beyond, and what fdp_cpu_limit takes for it. */
FDP_API const char *fdp_cpu_level(void);
FDP_API const char *fdp_cpu_name(size_t rank, uint32_t *mask);
FDP_API uint32_t fdp_cpu_mask(void);
/* For tests: puts this mask in force, cut down to what the machine and
 * FASTDP_CPU allow; UINT32_MAX restores. Bits: csrc/base/cpu.h. */
FDP_API void fdp_cpu_limit(uint32_t mask);
FDP_API uint32_t fdp_cipher_default(void); /* fdp_cipher_t of the secure default */
FDP_API int fdp_cipher_available(uint32_t cipher); /* at the level in force */

/* ---- samplers ---------------------------------------------------------- */

/* A table of integers: column c and a byte u give alias[c] if u <= cut[c], else c, or
 * "special", 128. The second digit's has 32 columns. */
typedef struct {
    uint8_t cut[128], alias[128];
} fdp_columns_t;

/* ~G with probability theta, else G; P(G >= k) = exp(-k / scale). */
typedef struct {
    uint64_t theta;        /* floor(2^64 theta)                      */
    double scale;          /* nearest                                */
    double inverse_w0;     /* 1 / (1 - theta), nearest               */
    double inverse_w1;     /* 1 / theta, nearest, at most 1e300      */
    double error;          /* derived: bound on |y - true y|, constant */
    double error_relative; /*   and per unit of y                    */
} fdp_geometric_t;

/* Discrete Gaussian of sigma > 8.7: a second digit of eight bits that leans to zero, and
 * tries for special lanes. docs/proofs/discrete_gaussian.md */
typedef struct {
    uint32_t slope;      /* floor(2^14 (2^shift / sigma)^2); 0: not such a law */
    uint64_t block[128]; /* of a block: units of the digit << 32 | of a try   */
    uint64_t unit;       /* hat of a try's unit, 2^-64 each                   */
    double height;       /* the same, nearest                                 */
    double weight;       /* f(x) times this is 2^(23 + shift) P(X = x)        */
    double inverse_2var; /* 1 / (2 sigma^2), nearest                          */
    double edge;         /* a try of a tail with V height >= edge is rejected */
    double acceptance;   /* of a try                                          */
    uint32_t tries[4];   /* derived: worked for 8 lanes, 64, 1024, and a pass */
} fdp_tilt_t;

/* A law of alias digits, kept to |x| <= bound when bound > 0. The caller fills all but
 * what is derived from exact arithmetic. docs/proofs/discrete_laplace.md */
typedef struct {
    uint32_t shift, low; /* bits below the first digit, and drawn one by one */
    uint32_t tails;      /* 1: outcomes 0 and 127 are tails of `tail`; 0: outcome 0 is
                            settled exactly */
    uint32_t tops;       /* thresholds of a correction                        */
    int64_t bound;       /* 0: none                                           */
    double special[2];   /* probability that a lane is special, by digit      */
    fdp_columns_t first, second;
    uint64_t first_rest[128]; /* floor(2^56 cut) << 8 | alias                 */
    uint64_t second_rest[32], second_whole[32];
    uint64_t top[48], copy[48]; /* floors of 2^64 times                        */
    uint64_t mask[48];          /* what the i-th of `top` clears             */
    uint64_t tree[2][64]; /* derived: `top` and `copy` for a search: node i has below it
                             2 i, smaller thresholds, and 2 i + 1 */
    fdp_geometric_t tail;
    fdp_tilt_t tilt;
    uint32_t slots[4]; /* derived: ranks of 64 lanes and of a pass, then of
                             the second digit's */
    uint32_t unsettled;   /* tests: all special lanes are settled exactly        */
} fdp_digits_t;

#define FDP_LIMBS 80 /* of a parameter's numerator and denominator, at most */

typedef struct {
    double acceptance;      /* probability that a trial is within the bound */
    uint32_t chunk_outputs; /* derived: outputs of one chunk                */
    fdp_digits_t law;
    uint64_t num[FDP_LIMBS], den[FDP_LIMBS]; /* the parameter, lowest limb first */
} fdp_sampler_t;

/* A positive rational number num / den in limbs of 64 bits, the lowest first. */
typedef struct {
    const uint64_t *num, *den;
    size_t nums, dens; /* limbs */
} fdp_ratio_t;

/* Discrete Laplace noise of a scale in [1e-6, 2^55], kept to |x| <= bound if bound > 0,
 * which must be at least scale / 100; discrete Gaussian noise of a sigma in [1e-3, 2^55]. FDP_ERR_PARAMETER: out of range, or
 * more than FDP_LIMBS limbs; FDP_ERR_RESOLVER: 8,192 bits of precision do not decide a
 * table. After a failure the sampler is zeros. @timing T0 of public parameters. */
FDP_API FDP_NODISCARD fdp_status_t fdp_sampler_laplace(fdp_sampler_t *sampler,
                                                       const fdp_ratio_t *scale,
                                                       int64_t bound);
FDP_API FDP_NODISCARD fdp_status_t fdp_sampler_gaussian(fdp_sampler_t *sampler,
                                                        const fdp_ratio_t *sigma);

/* Completes the derived fields of a sampler whose exact fields are filled. */
FDP_API FDP_NODISCARD fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler);

/* ---- drawing ----------------------------------------------------------- */

typedef enum {
    FDP_NONE = 0,
    FDP_I8 = 1, FDP_I16 = 2, FDP_I32 = 3, FDP_I64 = 4,
    FDP_U8 = 5, FDP_U16 = 6, FDP_U32 = 7,
    FDP_F32 = 8, FDP_F64 = 9,
    FDP_BOOL = 10 /* a byte, 0 or not */
} fdp_dtype_t;

/* Real data live on the grid of multiples of `step`, a power of two. */
typedef struct {
    double step;
    double low, high;  /* data are clamped to [low, high] first            */
    double nan;        /* what NaN counts as, after clamping               */
} fdp_grid_t;

/* Where noise goes: out = x + noise, saturating at the limits of out's type;
 * x may be absent (FDP_NONE), and may be the same memory as out. Integer x with
 * integer out; float x with the same float out and a grid. Contiguous. */
typedef struct {
    const void *x;
    fdp_dtype_t x_type;
    void *out;
    fdp_dtype_t out_type;
    const fdp_grid_t *grid;
} fdp_target_t;

/* Draws the outputs of chunks first_chunk, first_chunk + 1, ... : n values.
 * exact: yes. @timing T2: see docs/proofs/timing.md. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
            uint64_t first_chunk, size_t n, const fdp_target_t *target);

/* Raw keystream bytes: 16384 a chunk. */
#define FDP_BYTES_CHUNK 16384
FDP_API FDP_NODISCARD fdp_status_t fdp_fill_bytes(const fdp_call_t *call,
                                                  uint64_t first_chunk, size_t n,
                                                  uint8_t *out);

/* Exactly uniform integers low + {0, ..., range - 1}, range 0 meaning 2^64, as
 * int64 (modulo 2^64): 2048 a chunk. @timing T2. */
#define FDP_INTEGERS_CHUNK 2048
FDP_API FDP_NODISCARD fdp_status_t fdp_fill_integers(const fdp_call_t *call,
                                                     uint64_t low, uint64_t range,
                                                     uint64_t first_chunk, size_t n,
                                                     int64_t *out);

/* An exactly uniform permutation of 0 ... n - 1 (Fisher-Yates).
 * @timing T0: memory addresses depend on the permutation. */
FDP_API FDP_NODISCARD fdp_status_t fdp_fill_permutation(const fdp_call_t *call,
                                                        size_t n, int64_t *out);

/* ---- local randomizers --------------------------------------------------- */

/* Bernoulli(p), eight bits at a time: column c gives the pattern alias[c] if U < cut(c),
 * a real number, and c itself if not. docs/proofs/bernoulli.md */
typedef struct {
    uint8_t plane[8][256]; /* byte b of min(floor(2^64 cut), 2^64 - 1), highest first */
    uint8_t alias[256];
    uint64_t num[FDP_LIMBS], den[FDP_LIMBS]; /* p, lowest limb first */
} fdp_bernoulli_t;

/* Bits that are 1 with probability 0 <= p <= 1 (a num of no limbs is 0). FDP_ERR_PARAMETER:
 * out of range, or more than FDP_LIMBS limbs. After a failure the law is zeros.
 * @timing T0 of public parameters. */
FDP_API FDP_NODISCARD fdp_status_t fdp_bernoulli_make(fdp_bernoulli_t *law,
                                                      const fdp_ratio_t *p);

#define FDP_BITS_CHUNK 32768 /* outputs of a chunk of Bernoulli bits */

/* Bits in the order of big-endian packing (bit 7 of a byte first): out = x xor
 * Bernoulli bits for n bits, zeros up to the end of the last byte. x may be NULL, for
 * zeros, and may be out. exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_flip_bits(const fdp_call_t *call, const fdp_bernoulli_t *law, uint64_t first_chunk,
              size_t n, const uint8_t *x, uint8_t *out);

/* The same on bytes 0 and 1, by the same bits. Any other x counts as `other` (0 or 1)
 * or, if that is negative, gives a fair bit. A boolean x has no other values; x_type
 * may be FDP_NONE, for zeros. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_flip_bytes(const fdp_call_t *call, const fdp_bernoulli_t *law, uint64_t first_chunk,
               size_t n, const void *x, fdp_dtype_t x_type, int other, uint8_t *out);

/* Response over `categories` labels: the label itself with probability P, each other
 * one with the same share of the rest. docs/proofs/local_randomizers.md */
typedef struct {
    uint32_t categories; /* k, 2 ... 2^31 - 1                            */
    uint32_t always;     /* P = 1: only outside labels change            */
    uint32_t shift;      /* S: the top bit of rate is set; 32 ... 127    */
    uint64_t rate[2];    /* floor(2^S (k - 1)/(1 - P)), high first       */
    uint64_t truth;      /* 2^64 P, if it is below 1                     */
} fdp_response_t;

/* A response of P = truth 2^-64, or 1 if `always`. FDP_ERR_PARAMETER: categories out of
 * range. After a failure the law is zeros. @timing T0 of public parameters. */
FDP_API FDP_NODISCARD fdp_status_t fdp_response_make(fdp_response_t *law, uint32_t categories,
                                                     uint64_t truth, int always);

/* Labels of a chunk: 8192 where words have 16 bits, else 4096. */
FDP_API size_t fdp_response_chunk(const fdp_response_t *law);

/* Reports of integer labels x in an unsigned type. A label outside 0 ... k - 1 counts
 * as `other` or, if that is negative, leaves as a uniform label. exact: yes.
 * @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_respond(const fdp_call_t *call, const fdp_response_t *law, uint64_t first_chunk,
            size_t n, const void *x, fdp_dtype_t x_type, int64_t other, void *out,
            fdp_dtype_t out_type);

/* Replaces bit label[i] of row i (big-endian, row_bytes each) by bit i of `bits`.
 * requires: label[i] < 8 row_bytes. @timing T2: every byte of a row is rewritten. */
FDP_API void fdp_insert_bits(size_t n, size_t row_bytes, const uint32_t *label,
                             const uint8_t *bits, uint8_t *rows);

/* A report of local hashing: 12 bytes, at any address, as in numpy's packed records. */
#pragma pack(push, 1)
typedef struct {
    uint32_t slope, offset; /* the seed's halves */
    uint32_t value;
} fdp_hashed_t;
#pragma pack(pop)

/* Reports of n users from user `first` on, a multiple of FDP_CLIENTS or, for Hadamard
 * codes, of FDP_BITS_CHUNK. `labeling` is a response with P = 1 that makes categories of
 * values; `other` as for fdp_respond. */
#define FDP_CLIENTS 8192
#define FDP_REGION (UINT64_C(1) << 30) /* chunks of a call for one purpose */

/* Seeds from the chunks of `open`, and responses by `law` to each category's bucket under
 * its own seed: floor(z buckets / 2^l), z the top l bits of a x + b mod 2^32 with a the
 * slope and b the offset. requires: 1 <= l <= 32, buckets <= 2^l. exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_hash_clients(const fdp_call_t *secret, const fdp_call_t *open,
                 const fdp_response_t *labeling, const fdp_response_t *law, uint32_t l,
                 uint64_t first, size_t n, const void *x, fdp_dtype_t x_type,
                 int64_t other, fdp_hashed_t *out);

/* Words mod K = 2^log2k, of 16 bits for K <= 2^16, else 32, moved by one bit if need be to
 * where their scalar product with category + 1 has the parity of a flip by `law`.
 * requires: categories < K. exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_hadamard_clients(const fdp_call_t *call, const fdp_response_t *labeling,
                     const fdp_bernoulli_t *law, uint32_t log2k, uint64_t first, size_t n,
                     const void *x, fdp_dtype_t x_type, int64_t other, void *out,
                     fdp_dtype_t out_type);

/* A subset of `size` among `categories`: with probability truth/2^64 one that has the own
 * category; uniform among those that have it, and among those that do not. */
typedef struct {
    uint64_t truth;
    uint32_t categories, size; /* 2 ... 2^24, 1 ... categories - 1 */
} fdp_subsets_t;

/* Rows of bits (big-endian, the last padded by zeros) of n users with labels below
 * `categories`: 1024 a chunk. exact: yes. @timing T0: addresses depend on draws. */
#define FDP_SUBSETS_CHUNK 1024
FDP_API FDP_NODISCARD fdp_status_t
fdp_fill_subsets(const fdp_call_t *call, const fdp_subsets_t *law, uint64_t first_chunk,
                 size_t n, const uint32_t *label, uint8_t *rows);

/* A number of [low, high] in [0, 2^31] steps, rounded at random to one of the places 0 ...
 * M - w of a window of w among M codes; the code is in the window or not by parts of the
 * 2^64 words: in part i each `size[i]` of them stand for one code, the window's first
 * (i = 0, 2), counted from the place on, modulo M. Parts 0 and 1 are those of one such
 * member of the family, 2 and 3 of another, whose codes come behind: a public mixture.
 * docs/proofs/local_randomizers.md */
typedef struct {
    double low, steps;   /* lower bound; 2^31 / (high - low), both nearest         */
    uint64_t before[4];  /* the last word before a part; 2^64 - 1 if there is none */
    uint64_t begin[4];   /* its first word                                         */
    uint64_t size[4];    /* 2^33 or more                                           */
    uint64_t rate[4];    /* floor(2^64 / size)                                     */
    uint64_t first[4];   /* code of its first word                                 */
    uint64_t plain;      /* the last word of all parts: beyond it put_last         */
    uint64_t outputs[2]; /* M, at most 128                                         */
    uint64_t places[2];  /* M - w                                                  */
    uint64_t middle;     /* a code of value 0, if one is needed                    */
} fdp_number_t;

/* Codes of n numbers, FDP_F64, FDP_F32 or FDP_I64; NaN counts as the lower bound, numbers
 * beyond a bound as that bound. exact: yes. @timing T2. */
#define FDP_NUMBERS_CHUNK 2048
FDP_API FDP_NODISCARD fdp_status_t
fdp_number_clients(const fdp_call_t *call, const fdp_number_t *law, uint64_t first_chunk,
                   size_t n, const void *x, fdp_dtype_t type, uint8_t *out);

/* ---- tallies of public reports (@timing T0) -------------------------------- */

/* count[j] += rows whose bit j (big-endian) is set, for j < columns <= 8 row_bytes. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_columns(size_t n, size_t row_bytes,
                                                     const uint8_t *rows, size_t columns,
                                                     int64_t *count);

/* count[r] += reports equal to r < k; others are passed over. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_values(size_t n, const void *report,
                                                    fdp_dtype_t type, size_t k,
                                                    int64_t *count);

/* count[v] += reports with h(v) = value, for v < categories <= 2^(33 - l); values
 * outside the buckets support nothing. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_support(size_t n, const fdp_hashed_t *report,
                                                     uint32_t buckets, uint32_t l,
                                                     size_t categories, int64_t *count);

/* What a report consists of: one part without a name, or up to two members of an object.
 * A part lies `offset` bytes from the report's start. */
typedef enum {
    FDP_NUMBER = 0, /* an integer of up to 4 bytes */
    FDP_WORD = 1,   /* one of 8 bytes, in hex digits */
    FDP_ROW = 2,    /* bytes, in hex digits */
} fdp_report_kind_t;

typedef struct {
    const char *name;
    fdp_report_kind_t kind;
    size_t offset, bytes;
} fdp_report_part_t;

typedef struct {
    const char *mechanism; /* its fingerprint */
    size_t parts, bytes;   /* bytes of a report */
    fdp_report_part_t part[2];
} fdp_report_form_t;

/* Reads reports from lines of JSON, an envelope (docs/reports.md) a line, until one is not
 * written as fastdp and its clients write it or has more reports than there is room for
 * (`most`). Returns how many were read, from `read` bytes, `lines` lines. */
FDP_API FDP_NODISCARD size_t fdp_report_lines(const fdp_report_form_t *form,
                                              const char *text, size_t size,
                                              uint8_t *out, size_t most, size_t *read,
                                              size_t *lines);

/* a[v] <- sum over y < n of (-1)^<v, y> a[y], n a power of two, in place; sums wrap. */
FDP_API void fdp_walsh_hadamard(size_t n, int64_t *a);

/* Whom supporters who are not users of a category leave: what they number on average is
 * whole + rest; own and cross are the variances of a report's bit. */
typedef struct {
    int64_t whole;
    double rest, scale, own, cross, users;
} fdp_unbiased_t;

/* count[i] = (supporters[i] - whole - rest) / scale, with its standard error. */
FDP_API void fdp_estimate_counts(size_t n, const int64_t *supporters,
                                 const fdp_unbiased_t *law, double *count, double *error);

/* ---- open domains (@timing T0) ---------------------------------------------- */

/* SipHash-2-4 of the n strings text[offset[i]] ... text[offset[i + 1] - 1] under a public
 * key, two little-endian words. */
FDP_API void fdp_digest_strings(const uint64_t key[2], size_t n, const int64_t *offset,
                                const uint8_t *text, uint64_t *out);

/* A hash function of digests x = 2^32 high + low: (a + low)(c + high) + b mod 2^64, whose
 * first bits count. docs/proofs/open_domains.md */
typedef struct {
    uint64_t a, c, b;
} fdp_function_t;

/* The functions of n seeds: words 0, 1, 2 are digests of the seed and the number of the
 * word, 8 bytes each, under the key with every bit turned. */
FDP_API void fdp_seed_words(const uint64_t key[2], size_t n, const uint64_t *seed,
                            fdp_function_t *out);

/* The first `bits` bits of the hash of x[i] by words[row[i]]; 1 <= bits <= 32. */
FDP_API void fdp_row_buckets(const fdp_function_t *words, uint32_t bits, size_t n,
                             const uint16_t *row, const uint64_t *x, uint32_t *out);

/* floor(z buckets/2^32), z the first 32 bits of the hash of x[i] under seed[i]. */
FDP_API void fdp_seed_buckets(const uint64_t key[2], uint32_t buckets, size_t n,
                              const uint64_t *seed, const uint64_t *x, uint32_t *out);

/* sum[i] = sum over rows r of table[2^bits r + the first `bits` bits of the hash of x[i] by
 * words[r]]. */
FDP_API void fdp_sketch_sums(const fdp_function_t *words, size_t rows, uint32_t bits,
                             const int64_t *table, size_t n, const uint64_t *x,
                             int64_t *sum);

/* count[i] += reports whose value is the bucket of x[i] under their seed; values outside
 * the buckets support nothing. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_seed_support(const uint64_t key[2], uint32_t buckets, size_t n,
                 const fdp_hashed_t *report, size_t asked, const uint64_t *x,
                 int64_t *count);

/* Words of normal numbers that a public seed makes (csrc/mech/vectors.c). */
typedef struct {
    const int16_t *table; /* 65536 numbers >= 0, at most 23000: of 15 bits, of 23 bits */
    size_t words, dimension; /* 2 ... 65536, 1 ... 100000 */
} fdp_vectors_t;

/* report[i].value = the word that rank[i] others have a larger product with x[i], a row of
 * `dimension` integers of length 2^24 or less, equal products by the number of the word; of
 * the code that the seed in report[i] makes. exact: yes. @timing T2 */
FDP_API FDP_NODISCARD fdp_status_t fdp_vector_clients(const fdp_vectors_t *code, size_t n,
                                                      const int32_t *x,
                                                      const int64_t *rank,
                                                      fdp_hashed_t *report);

/* sum[0 .. dimension) += the words of the reports, sum[dimension] += their number, without
 * those that name no word. */
FDP_API FDP_NODISCARD fdp_status_t fdp_vector_sums(const fdp_vectors_t *code, size_t n,
                                                   const fdp_hashed_t *report,
                                                   int64_t *sum);

/* ---- selection --------------------------------------------------------- */

typedef enum {
    FDP_RACE_GUMBEL = 0,
    FDP_RACE_LAPLACE = 1,
    FDP_RACE_GAUSSIAN = 2
} fdp_race_t;

/* Choose index i with probability proportional to w_i exp(c s_i), or by the largest
 * c s_i + noise_i. docs/proofs/selection.md */
typedef struct {
    double rate;           /* c, nearest                                               */
    fdp_race_t noise;      /* race only                                                */
    uint64_t fine_rate[2]; /* (the two as 128 bits, the first bit set, plus less than  */
    int32_t fine_place;    /* 1) 2^(fine_place - 128) is c; tests: 0 0, not known      */
    double tolerance;      /* tests: leave at least so much to the exact steps         */
    uint64_t num[FDP_LIMBS], den[FDP_LIMBS]; /* c, lowest limb first                   */
} fdp_selection_t;

/* A law of choice of the rate c in [2^-900, 2^900]. FDP_ERR_PARAMETER: out of range, or more
 * than FDP_LIMBS limbs. After a failure the law is zeros. @timing T0 of c. */
FDP_API FDP_NODISCARD fdp_status_t fdp_selection_make(fdp_selection_t *law,
                                                      const fdp_ratio_t *c, fdp_race_t noise);

/* `rows` sets of `n` candidates each, contiguous. Weights are mantissa 2^exponent,
 * mantissa 0 or in [1/2, 1), nearest to the exact ones, exponents integers in
 * (-2^14, 0], -2^17 of mantissa 0; mantissa NULL: all are 1; only exponent NULL: any
 * doubles >= 0, times 2^-weight_top, the largest of which is in [1/2, 1). `weight` has the
 * exact weights, times 2^weight_top where there are exponents; NULL: mantissa 2^exponent is
 * exact. `weight_stride` is n, or 0 if all rows have the same weights, `weight_spread` that of
 * fdp_weights_range. */
typedef struct {
    size_t rows, n;
    const void *score;
    fdp_dtype_t type; /* FDP_F64 or FDP_I64 */
    const double *mantissa;
    const double *exponent;
    const fdp_ratio_t *weight;
    int32_t weight_top;
    double weight_spread;
    size_t weight_stride;
} fdp_candidates_t;

/* Words of a chunk: draw number t of a call is trial t mod 4096 of chunk t / 4096. */
#define FDP_SELECT_CHUNK 4096

/* Of n base weights: `top`, where the largest is in [1/2, 1) 2^top (0 if all are 0), and
 * `spread`, at least log2 of the ratio of the largest to the least above 0. Refuses NaN,
 * infinity and weights below 0. @timing T0. */
FDP_API FDP_NODISCARD fdp_status_t fdp_weights_range(const double *weight, size_t n,
                                                     int32_t *top, double *spread);

/* k choices without replacement from each row, by inversion: choice j of row r has
 * the word of draw (first_row + r) k + j, an undecided one takes further bits. out has
 * rows * k indices. 1 <= k <= n, k <= FDP_SELECT_MOST. exact: yes. @timing T2: see docs/proofs/selection.md. */
#define FDP_SELECT_MOST 4096
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_inverse(const fdp_call_t *call, const fdp_selection_t *law,
                   const fdp_candidates_t *from, uint64_t first_row, size_t k,
                   int64_t *out);

/* One choice from each row, by integer upper bounds of w_i e^(c s_i) and exact
 * acceptance, two tries for every row. Row r has draws 4 (first_row + r) ... + 3. exact: yes. @timing T2: see docs/proofs/selection.md. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_proposed(const fdp_call_t *call, const fdp_selection_t *law,
                    const fdp_candidates_t *from, uint64_t first_row, int64_t *out);

/* One choice from each row, all weights 1, by permute-and-flip: candidate i of row r comes
 * up if the word of draw (first_row + r) (n + 1) + i is below e^(-c gap), and one of those
 * that came up is taken by the word of the draw after the last one's. exact: yes.
 * @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_flipped(const fdp_call_t *call, const fdp_selection_t *law,
                   const fdp_candidates_t *from, uint64_t first_row, int64_t *out);

/* The winner of each row's race: candidate i of row r has the word of draw first +
 * r n + i (Gaussian: and the same draw of chunks moved by 2^31). exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_race(const fdp_call_t *call, const fdp_selection_t *law,
                const fdp_candidates_t *from, uint64_t first, int64_t *out);

/* Whether the first candidate of `one`, with the word of draw[0], is ahead of that of
 * `other`, with draw[1]: 0 or 1. Both have weights or none. exact: yes. @timing T0. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_race_ahead(const fdp_call_t *call, const fdp_selection_t *law,
               const fdp_candidates_t *one, const fdp_candidates_t *other,
               const uint64_t draw[2], int *ahead);

/* Bounds low <= key <= high of every candidate's key in the race, in the row's order:
 * key = noise - c (largest score - score) + ln weight, low -infinity and high infinity
 * where the word is marked, low -infinity where the gap is stored as 1e300. Lost
 * candidates have -infinity in both, unless a row has no others: then all count as
 * equal, with a gap of 0 and without their weights. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_race_keys(const fdp_call_t *call, const fdp_selection_t *law,
              const fdp_candidates_t *from, uint64_t first, double *low, double *high);

/* ---- clipped sums --------------------------------------------------------- */

typedef enum { FDP_NORM_L1 = 1, FDP_NORM_L2 = 2, FDP_NORM_MAX = 3 } fdp_norm_t;

/* Rows of `dimension` floats as integers, multiples of the grid's step, of a norm that
 * is checked in integers. docs/proofs/sums.md */
typedef struct {
    size_t dimension; /* in [1, 2^32)                                              */
    fdp_norm_t norm;
    double radius;    /* nearest to the radius, in [2^-900, 2^900]                 */
    int32_t step;     /* the grid's step is 2^step, |step| <= 1000                 */
    double most;      /* floor(radius / step), an integer below 2^30               */
    uint64_t limit;   /* floor((radius / step)^2) for L2, else `most`; at most 2^60 */
    size_t changed;   /* MAX: entries other than 0 that a row keeps, from its start */
} fdp_clip_t;

/* The integers of n rows. x has n * dimension floats of type FDP_F32 or FDP_F64, out as
 * many integers. NaN counts as 0, infinities as the largest double.
 * ensures: every row of out has the norm's sum (of squares, of magnitudes, or each
 * magnitude) at most `limit`, whatever x holds. exact: yes. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_clip_rows(const fdp_clip_t *clip, size_t n, const void *x, fdp_dtype_t type,
              int64_t *out);

/* Adds the integers of n < 2^32 rows to total[block * dimension + ...] and 1 to
 * rows[block]. `block` has a number for each row, those outside [0, blocks) are passed
 * over; NULL: all rows are of block 0. Sums of 2^33 rows fit. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_clip_sums(const fdp_clip_t *clip, size_t n, const void *x, fdp_dtype_t type,
              size_t blocks, const int64_t *block, int64_t *rows, int64_t *total);

/* Rows in parts: `size` numbers of each row, a row behind the other. A group of parts is
 * clipped together; `total` has room for the numbers of all its parts. */
typedef struct {
    const void *x;
    size_t size;
} fdp_part_t;
typedef struct {
    const fdp_clip_t *clip; /* of the sum of the sizes */
    const fdp_part_t *part;
    size_t parts;
    int64_t *total;
} fdp_group_t;

/* Adds the integers of rows first, ..., first + n - 1 to the totals, n < 2^32. A row that
 * holds a NaN or an infinity, in any group, adds nothing. What the parts of a group
 * measure is added in their order. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t fdp_clip_groups(size_t groups, const fdp_group_t *group,
                                                   size_t first, size_t n,
                                                   fdp_dtype_t type);

/* A column of numbers between public bounds, as integers
 *     u = floor((x - center) inverse 2^bits + 1/2) in [-2^bits, 2^bits],
 * the difference and its product rounded as doubles are. */
typedef struct {
    double low, high;       /* finite, low < high */
    double center, inverse; /* of the bounds; of half their width, finite, > 0 */
    uint32_t bits;          /* in [1, 30] */
} fdp_column_t;

/* Adds 1, u and round(u^2 / 2^bits) - 2^bits/2 of n < 2^32 values to count, sum and square of the
 * value's group; x is FDP_F64, FDP_F32 or FDP_I64. NaN adds nothing, and neither does a
 * value whose group lies outside [0, groups); group NULL: all are of group 0.
 * exact: yes. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_column_moments(const fdp_column_t *column, size_t n, const void *x, fdp_dtype_t type,
                   size_t groups, const int64_t *group, int64_t *count, int64_t *sum,
                   int64_t *square);

/* ---- sums of privacy losses (@timing T0) ------------------------------------ */

/* Sums of a cell's masses, and of these times how far its edge is below, in two lanes
 * that do not wait for each other, and how many terms each has. */
typedef struct {
    double p[2], d[2];
    uint32_t terms[2];
} fdp_cell_t;

/* Gathers all sums a_i + l_j of two ascending lists in the cells [edge[c], edge[c + 1]):
 * adds to p[c] the products of their masses and to d[c] these times e^(edge[c] - sum) - 1,
 * both right to n + 16 units of 2^-52 relatively, n being what is returned: how many
 * additions follow each other. Of `ratios` d[c] adds up the products times edge[c] - sum.
 * No sum is below edge[0], the last edge is infinite. Of a
 * square the lists are the same, and each pair is taken once, with twice its mass. `cell`
 * is room for a number per column, `some` for a sum per cell, all 0.
 * docs/proofs/numerical_accounting.md */
FDP_API size_t
fdp_gather_sums(size_t rows, const double *row_loss, const double *row_mass, size_t columns,
                const double *loss, const double *mass, int square, int ratios,
                const double *edge, uint32_t *cell, fdp_cell_t *some, double *p, double *d);

#ifdef __cplusplus
}
#endif
#endif
