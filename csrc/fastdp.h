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
 * No two draws may share a chunk of one key: whoever sees both outputs would see
 * the difference of the data. Functions with a `first_chunk` leave this to the
 * caller; a job (fdp_job_open) sees to it, for any number of threads.
 *
 * Every function that can fail returns a status; on any failure the outputs
 * that it was given are filled with zeros.
 */
#ifndef FASTDP_H
#define FASTDP_H

#include <stddef.h>
#include <stdint.h>

/* A library that includes the core can hide it: -DFDP_API= exports no function. */
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

/* ---- version ----------------------------------------------------------- */

#define FDP_VERSION_MAJOR 0
#define FDP_VERSION_MINOR 1
#define FDP_VERSION_PATCH 0
#define FDP_VERSION (FDP_VERSION_MAJOR * 10000 + FDP_VERSION_MINOR * 100 + FDP_VERSION_PATCH)

/* FDP_VERSION of the library, which may not be that of this header. */
FDP_API uint32_t fdp_version(void);

/* ---- status ------------------------------------------------------------ */

typedef enum {
    FDP_OK = 0,
    FDP_ERR_PARAMETER = 1, /* a public parameter is outside its domain        */
    FDP_ERR_ENTROPY = 2,   /* the operating system gave no randomness         */
    FDP_ERR_MEMORY = 3,    /* no memory for scratch space                     */
    FDP_ERR_RESOLVER = 4,  /* 8,192 bits do not decide, or the law lacks its parameter */
    FDP_ERR_BUILD = 5,     /* the arithmetic of this build is wrong            */
    FDP_ERR_LEVEL = 6,     /* FASTDP_CPU names no level                        */
    FDP_ERR_JOB = 7        /* the job is not open here, or has too few chunks left */
} fdp_status_t;

/* What a status says, for people: a constant of the library, "unknown status" for any other
 * number. */
FDP_API const char *fdp_status_text(fdp_status_t status);

/* ---- randomness -------------------------------------------------------- */

typedef enum {
    FDP_CIPHER_CHACHA20 = 1, /* everywhere; the reference                  */
    FDP_CIPHER_AES256 = 2,   /* counter mode, only with AES instructions   */
    FDP_CIPHER_TAPE = 3      /* tests only: the words come from the caller */
} fdp_cipher_t;

/* Test words. Chunk c reads its main stream at main + c * main_stride and its
 * first 16-byte extension block of trial i at ext + c * ext_stride + 16 * i.
 * Words beyond the strides or the chunks come from ChaCha20 under fixed keys. */
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

/* Threads may draw from any laws under one key, if each uses different chunks. */
typedef struct {
    fdp_stream_t stream;
} fdp_call_t;

/* Tests the arithmetic of every available level, once in a process. Returns FDP_OK,
 * FDP_ERR_BUILD or FDP_ERR_LEVEL. fdp_call_open calls it. */
FDP_API FDP_NODISCARD fdp_status_t fdp_self_check(void);
/* A fresh key from the operating system and the default cipher. */
FDP_API FDP_NODISCARD fdp_status_t fdp_call_open(fdp_call_t *call);
/* Wipes the key. Drawing from a closed call, or from one that did not open, ends the process,
 * because no output would be safe; a job returns FDP_ERR_JOB instead. */
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

/* fdp_cpu_level: the level in force. fdp_cpu_name: the name of the level with this rank,
 * from 0 ("portable") upward, NULL after the last; *mask gets its argument for
 * fdp_cpu_limit. */
FDP_API const char *fdp_cpu_level(void);
FDP_API const char *fdp_cpu_name(size_t rank, uint32_t *mask);
FDP_API uint32_t fdp_cpu_mask(void);
/* For tests: puts this mask in force, cut down to what the machine and
 * FASTDP_CPU allow; UINT32_MAX restores. Bits: csrc/base/cpu.h. */
FDP_API void fdp_cpu_limit(uint32_t mask);
FDP_API uint32_t fdp_cipher_default(void); /* fdp_cipher_t of the secure default */
FDP_API int fdp_cipher_available(uint32_t cipher); /* at the level in force */

/* ---- samplers ---------------------------------------------------------- */

/* An alias table of integers: column c and a byte u give alias[c] if u <= cut[c], else c.
 * The value 128 means "special". The table of the second digit has 32 columns. */
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

/* A discrete Gaussian with sigma > 8.7: the second digit has eight bits and a slope toward
 * zero; special lanes use rejection tries. docs/proofs/discrete_gaussian.md */
typedef struct {
    uint32_t slope;      /* floor(2^14 (2^shift / sigma)^2); 0: no tilt      */
    uint64_t block[128]; /* for a block: units of the digit << 32 | units of a try */
    uint64_t unit;       /* hat of one unit of a try, in units of 2^-64       */
    double height;       /* the same, nearest                                 */
    double weight;       /* f(x) times this is 2^(23 + shift) P(X = x)        */
    double inverse_2var; /* 1 / (2 sigma^2), nearest                          */
    double edge;         /* a try in a tail is rejected if V height >= edge   */
    double acceptance;   /* probability that a try is accepted                */
    uint32_t tries[5];   /* derived: tries for 8, 64, 256 and 1024 lanes and for a pass */
} fdp_tilt_t;

/* A law of alias digits, truncated to |x| <= bound if bound > 0. The caller fills all fields
 * from exact arithmetic, except the derived ones. docs/proofs/discrete_laplace.md */
typedef struct {
    uint32_t shift, low; /* bits below the first digit; bits drawn one by one */
    uint32_t tails;      /* 1: outcomes 0 and 127 are tails, drawn from `tail`; 0: the exact
                            resolver settles outcome 0 */
    uint32_t tops;       /* number of thresholds in `top` and `copy`          */
    int64_t bound;       /* 0: none                                           */
    double special[2];   /* probability that a lane is special, by digit      */
    fdp_columns_t first, second;
    uint64_t first_rest[128]; /* floor(2^56 cut) << 8 | alias                 */
    uint64_t second_rest[32], second_whole[32];
    uint64_t top[48], copy[48]; /* floor(2^64 times the threshold)             */
    uint64_t mask[48];          /* bits that threshold i of `top` clears     */
    uint64_t tree[2][64]; /* derived: `top` and `copy` as search trees: the children of node i
                             are 2 i (smaller thresholds) and 2 i + 1 */
    fdp_geometric_t tail;
    fdp_tilt_t tilt;
    uint32_t slots[2][4]; /* derived: ranks, by digit, for 64, 256 and 1024 lanes and for a
                             pass */
    uint32_t unsettled;   /* tests: the exact resolver settles all special lanes */
} fdp_digits_t;

#define FDP_LIMBS 80 /* most limbs in the numerator or denominator of a parameter */

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

/* fdp_sampler_laplace: discrete Laplace noise with a scale in [1e-6, 2^55]. If bound > 0, it
 * must be at least scale / 100, and the noise is truncated to |x| <= bound.
 * fdp_sampler_gaussian: discrete Gaussian noise with a sigma in [1e-3, 2^55].
 * FDP_ERR_PARAMETER: a parameter is out of range or has more than FDP_LIMBS limbs.
 * FDP_ERR_RESOLVER: 8,192 bits of precision do not decide a table. After a failure the
 * sampler is all zeros. @timing T0 of public parameters. */
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

/* Real data are rounded to multiples of `step`, a power of two. */
typedef struct {
    double step;
    double low, high;  /* data are clamped to [low, high] first            */
    double nan;        /* the value that replaces NaN, after clamping      */
} fdp_grid_t;

/* Where noise goes: out = x + noise, saturating at the limits of out's type;
 * x may be absent (FDP_NONE), and may be the same memory as out. Integer x needs an
 * integer out; float x needs an out of the same type and a grid. Arrays are contiguous. */
typedef struct {
    const void *x;
    fdp_dtype_t x_type;
    void *out;
    fdp_dtype_t out_type;
    const fdp_grid_t *grid;
} fdp_target_t;

/* Draws n values, the outputs of chunks first_chunk, first_chunk + 1, ...
 * exact: yes. @timing T2: see docs/proofs/timing.md. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
            uint64_t first_chunk, size_t n, const fdp_target_t *target);

/* ---- jobs -------------------------------------------------------------- */

#define FDP_JOB_CHUNKS (UINT64_C(1) << 32) /* of a job */

/* A call that gives out each of its chunks once. Its fields belong to the library. A job must stay
 * where it was opened: a copy is refused, and so is a forked process, by its number. A process that
 * is forked into a new process namespace may have the same number: it must open a job of its
 * own. */
typedef struct {
    fdp_call_t call;
    uint64_t next; /* the first chunk that nobody has; atomic */
    const void *self;
    int64_t process;
} fdp_job_t;

/* fdp_job_open: as fdp_call_open. fdp_job_close wipes the key, after the last draw. Any number of
 * threads may call fdp_job_take and fdp_job_release on one job. These refuse, with FDP_ERR_JOB, a
 * job that is closed or was opened elsewhere, and more chunks than the job has left. */
FDP_API FDP_NODISCARD fdp_status_t fdp_job_open(fdp_job_t *job);
FDP_API void fdp_job_close(fdp_job_t *job);

/* Reserves chunks *first, ..., *first + chunks - 1 of &job->call, for one draw by a function with
 * a `first_chunk`. A draw of n values takes n / (values per chunk) chunks, rounded up. The other
 * functions that draw (choices, permutations, clients) number their words differently: open a
 * call for each of their calls. */
FDP_API FDP_NODISCARD fdp_status_t fdp_job_take(fdp_job_t *job, uint64_t chunks,
                                                uint64_t *first);

/* fdp_release under chunks of its own. Which part of the noise a release gets depends on the
 * order in which threads arrive. */
FDP_API FDP_NODISCARD fdp_status_t fdp_job_release(fdp_job_t *job,
                                                   const fdp_sampler_t *sampler, size_t n,
                                                   const fdp_target_t *target);

/* ---- bytes, integers, permutations ------------------------------------- */

/* Raw keystream bytes, 16384 per chunk. */
#define FDP_BYTES_CHUNK 16384
FDP_API FDP_NODISCARD fdp_status_t fdp_fill_bytes(const fdp_call_t *call,
                                                  uint64_t first_chunk, size_t n,
                                                  uint8_t *out);

/* Exactly uniform integers in low + {0, ..., range - 1} as int64 (modulo 2^64), 2048 per
 * chunk. A range of 0 means 2^64. @timing T2. */
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

/* Bernoulli(p), eight bits at a time: column c gives the pattern alias[c] if U < cut(c), and
 * c otherwise; the cuts are real numbers. docs/proofs/bernoulli.md */
typedef struct {
    uint8_t plane[8][256]; /* byte b of min(floor(2^64 cut), 2^64 - 1), highest first */
    uint8_t alias[256];
    uint64_t num[FDP_LIMBS], den[FDP_LIMBS]; /* p, lowest limb first */
} fdp_bernoulli_t;

/* Bits that are 1 with probability p, 0 <= p <= 1. A num without limbs is 0.
 * FDP_ERR_PARAMETER: p is out of range or has more than FDP_LIMBS limbs. After a failure the
 * law is all zeros.
 * @timing T0 of public parameters. */
FDP_API FDP_NODISCARD fdp_status_t fdp_bernoulli_make(fdp_bernoulli_t *law,
                                                      const fdp_ratio_t *p);

#define FDP_BITS_CHUNK 32768 /* Bernoulli bits per chunk */

/* out = x xor n Bernoulli bits, packed big-endian (bit 7 of a byte first); the rest of the
 * last byte is zeros. x may be NULL (zeros) and may be the same memory as out. exact: yes.
 * @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_flip_bits(const fdp_call_t *call, const fdp_bernoulli_t *law, uint64_t first_chunk,
              size_t n, const uint8_t *x, uint8_t *out);

/* The same for bytes 0 and 1, with the same bits. Any other x counts as `other` (0 or 1); if
 * `other` is negative, it gives a fair bit. A nonzero byte of a boolean x counts as 1.
 * x_type may be FDP_NONE (zeros). @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_flip_bytes(const fdp_call_t *call, const fdp_bernoulli_t *law, uint64_t first_chunk,
               size_t n, const void *x, fdp_dtype_t x_type, int other, uint8_t *out);

/* k-ary randomized response: the report is the label with probability P, and each other
 * label with the same probability. docs/proofs/local_randomizers.md */
typedef struct {
    uint32_t categories; /* k, 2 ... 2^31 - 1                            */
    uint32_t always;     /* 1: P = 1, so only labels outside [0, k) change */
    uint32_t shift;      /* S, 32 ... 127, so that the top bit of rate is set */
    uint64_t rate[2];    /* floor(2^S (k - 1)/(1 - P)), high word first  */
    uint64_t truth;      /* 2^64 P, if P < 1                             */
} fdp_response_t;

/* Randomized response with P = truth 2^-64, or P = 1 if `always`. FDP_ERR_PARAMETER:
 * categories is out of range. After a failure the law is all zeros. @timing T0 of public
 * parameters. */
FDP_API FDP_NODISCARD fdp_status_t fdp_response_make(fdp_response_t *law, uint32_t categories,
                                                     uint64_t truth, int always);

/* Labels per chunk: 8192 if words have 16 bits, else 4096. */
FDP_API size_t fdp_response_chunk(const fdp_response_t *law);

/* Reports for integer labels x; the type of out is unsigned. A label outside 0 ... k - 1
 * counts as `other`; if `other` is negative, its report is a uniform label. exact: yes.
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

/* Reports of n users, beginning with user `first`, a multiple of FDP_CLIENTS (for Hadamard
 * codes, of FDP_BITS_CHUNK). `labeling` is a response with P = 1 that maps values to
 * categories; `other` is as for fdp_respond. */
#define FDP_CLIENTS 8192
#define FDP_REGION (UINT64_C(1) << 30) /* chunks of a call for one purpose */

/* Local hashing: each user's seed comes from the chunks of `open`, and `law` randomizes the
 * bucket of the user's category x under that seed: floor(z buckets / 2^l), where z is the
 * top l bits of slope x + offset mod 2^32. requires: 1 <= l <= 32, buckets <= 2^l.
 * exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_hash_clients(const fdp_call_t *secret, const fdp_call_t *open,
                 const fdp_response_t *labeling, const fdp_response_t *law, uint32_t l,
                 uint64_t first, size_t n, const void *x, fdp_dtype_t x_type,
                 int64_t other, fdp_hashed_t *out);

/* Hadamard response: a report is a random word mod K = 2^log2k, of 16 bits if K <= 2^16, else
 * of 32. One of its bits is flipped if its scalar product with category + 1 does not have the
 * parity that `law` draws. requires: categories < K. exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_hadamard_clients(const fdp_call_t *call, const fdp_response_t *labeling,
                     const fdp_bernoulli_t *law, uint32_t log2k, uint64_t first, size_t n,
                     const void *x, fdp_dtype_t x_type, int64_t other, void *out,
                     fdp_dtype_t out_type);

/* A random subset of `size` of the `categories`. With probability truth/2^64 it contains the
 * user's category. It is uniform among the subsets that contain it, and uniform among those
 * that do not. */
typedef struct {
    uint64_t truth;
    uint32_t categories, size; /* 2 ... 2^24, 1 ... categories - 1 */
} fdp_subsets_t;

/* Subsets of n users as rows of bits (big-endian, padded by zeros at the end), 1024 per chunk.
 * requires: labels below `categories`. exact: yes. @timing T0: addresses depend on draws. */
#define FDP_SUBSETS_CHUNK 1024
FDP_API FDP_NODISCARD fdp_status_t
fdp_fill_subsets(const fdp_call_t *call, const fdp_subsets_t *law, uint64_t first_chunk,
                 size_t n, const uint32_t *label, uint8_t *rows);

/* Local mean. A number in [low, high] is scaled to [0, 2^31] and rounded at random to a place
 * in 0 ... M - w, where a window of w of the M codes begins. A word of 64 bits chooses the
 * code: the words are divided into parts, and in part i every `size[i]` words give one code,
 * counted from the place, modulo M. Codes in the window come first (i = 0, 2). Parts 0 and 1
 * belong to one member of the family and parts 2 and 3 to another, whose codes follow those of
 * the first: a public mixture. docs/proofs/local_randomizers.md */
typedef struct {
    double low, steps;   /* lower bound; 2^31 / (high - low), both nearest         */
    uint64_t before[4];  /* the last word before a part; 2^64 - 1 if there is none */
    uint64_t begin[4];   /* its first word                                         */
    uint64_t size[4];    /* 2^33 or more                                           */
    uint64_t rate[4];    /* floor(2^64 / size)                                     */
    uint64_t first[4];   /* code of its first word                                 */
    uint64_t plain;      /* the last word of all parts; later words use put_last   */
    uint64_t outputs[2]; /* M, at most 128                                         */
    uint64_t places[2];  /* M - w                                                  */
    uint64_t middle;     /* the code with value 0, if there is one                 */
} fdp_number_t;

/* Codes of n numbers of type FDP_F64, FDP_F32 or FDP_I64. A number beyond a bound counts as
 * that bound, and NaN as the lower bound. exact: yes. @timing T2. */
#define FDP_NUMBERS_CHUNK 2048
FDP_API FDP_NODISCARD fdp_status_t
fdp_number_clients(const fdp_call_t *call, const fdp_number_t *law, uint64_t first_chunk,
                   size_t n, const void *x, fdp_dtype_t type, uint8_t *out);

/* ---- tallies of public reports (@timing T0) -------------------------------- */

/* count[j] += rows whose bit j (big-endian) is set, for j < columns <= 8 row_bytes. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_columns(size_t n, size_t row_bytes,
                                                     const uint8_t *rows, size_t columns,
                                                     int64_t *count);

/* count[r] += reports equal to r, for r < k. Other reports are ignored. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_values(size_t n, const void *report,
                                                    fdp_dtype_t type, size_t k,
                                                    int64_t *count);

/* count[v] += reports with h(v) = value, for v < categories <= 2^(33 - l). A report whose
 * value is not a bucket is ignored. */
FDP_API FDP_NODISCARD fdp_status_t fdp_count_support(size_t n, const fdp_hashed_t *report,
                                                     uint32_t buckets, uint32_t l,
                                                     size_t categories, int64_t *count);

/* The parts of a report: one part without a name, or up to two members of an object.
 * A part begins `offset` bytes after the start of the report. */
typedef enum {
    FDP_NUMBER = 0, /* an integer of up to 4 bytes */
    FDP_WORD = 1,   /* an integer of 8 bytes, in hex digits */
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

/* Reads reports from JSON lines, one envelope (docs/reports.md) per line. Stops at the first
 * line that is not in the form that fastdp and its clients write, or whose reports do not fit
 * into `most`. Returns the number of reports; *read and *lines get the bytes and lines read. */
FDP_API FDP_NODISCARD size_t fdp_report_lines(const fdp_report_form_t *form,
                                              const char *text, size_t size,
                                              uint8_t *out, size_t most, size_t *read,
                                              size_t *lines);

/* a[v] <- sum over y < n of (-1)^<v, y> a[y], n a power of two, in place; sums wrap. */
FDP_API void fdp_walsh_hadamard(size_t n, int64_t *a);

/* Removes the bias from support counts. whole + rest is the mean number of supporters who do
 * not have the category. own and cross are the variances of a report's bit for users who have
 * the category and for users who do not. */
typedef struct {
    int64_t whole;
    double rest, scale, own, cross, users;
} fdp_unbiased_t;

/* count[i] = (supporters[i] - whole - rest) / scale; error[i] is its standard error. */
FDP_API void fdp_estimate_counts(size_t n, const int64_t *supporters,
                                 const fdp_unbiased_t *law, double *count, double *error);

/* ---- open domains (@timing T0) ---------------------------------------------- */

/* SipHash-2-4 of the n strings text[offset[i]] ... text[offset[i + 1] - 1] under a public
 * key of two little-endian words. */
FDP_API void fdp_digest_strings(const uint64_t key[2], size_t n, const int64_t *offset,
                                const uint8_t *text, uint64_t *out);

/* A hash function of digests x = 2^32 high + low: the first bits of
 * (a + low)(c + high) + b mod 2^64. docs/proofs/open_domains.md */
typedef struct {
    uint64_t a, c, b;
} fdp_function_t;

/* The functions of n seeds. Words 0, 1 and 2 of a function are digests of the seed and the
 * number of the word, 8 bytes each, under the complement of the key. */
FDP_API void fdp_seed_words(const uint64_t key[2], size_t n, const uint64_t *seed,
                            fdp_function_t *out);

/* out[i] = the first `bits` bits of the hash of x[i] by words[row[i]]; 1 <= bits <= 32. */
FDP_API void fdp_row_buckets(const fdp_function_t *words, uint32_t bits, size_t n,
                             const uint16_t *row, const uint64_t *x, uint32_t *out);

/* out[i] = floor(z buckets/2^32), where z is the first 32 bits of the hash of x[i] under
 * seed[i]. */
FDP_API void fdp_seed_buckets(const uint64_t key[2], uint32_t buckets, size_t n,
                              const uint64_t *seed, const uint64_t *x, uint32_t *out);

/* sum[i] = sum over rows r of table[2^bits r + the first `bits` bits of the hash of x[i] by
 * words[r]]. */
FDP_API void fdp_sketch_sums(const fdp_function_t *words, size_t rows, uint32_t bits,
                             const int64_t *table, size_t n, const uint64_t *x,
                             int64_t *sum);

/* count[i] += reports whose value is the bucket of x[i] under their seed. A report whose value
 * is not a bucket is ignored. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_seed_support(const uint64_t key[2], uint32_t buckets, size_t n,
                 const fdp_hashed_t *report, size_t asked, const uint64_t *x,
                 int64_t *count);

/* Codes: a public seed makes words of normal numbers (csrc/mech/vectors.c). */
typedef struct {
    const int16_t *table; /* 65536 numbers in [0, 23000] */
    size_t words, dimension; /* 2 ... 65536, 1 ... 100000 */
} fdp_vectors_t;

/* For each row x[i] of `dimension` integers of length at most 2^24: takes the code made from
 * the seed in report[i], orders its words by their scalar product with x[i], largest first
 * (equal products in the order of the words), and sets report[i].value to the word at position
 * rank[i]. exact: yes. @timing T2 */
FDP_API FDP_NODISCARD fdp_status_t fdp_vector_clients(const fdp_vectors_t *code, size_t n,
                                                      const int32_t *x,
                                                      const int64_t *rank,
                                                      fdp_hashed_t *report);

/* sum[0 .. dimension) += the words of the reports, sum[dimension] += their number. Reports
 * whose value is not a word are ignored. */
FDP_API FDP_NODISCARD fdp_status_t fdp_vector_sums(const fdp_vectors_t *code, size_t n,
                                                   const fdp_hashed_t *report,
                                                   int64_t *sum);

/* ---- selection --------------------------------------------------------- */

typedef enum {
    FDP_RACE_GUMBEL = 0,
    FDP_RACE_LAPLACE = 1,
    FDP_RACE_GAUSSIAN = 2
} fdp_race_t;

/* Chooses index i with probability proportional to w_i exp(c s_i), or the index with the
 * largest c s_i + noise_i. docs/proofs/selection.md */
typedef struct {
    double rate;           /* c, nearest                                               */
    fdp_race_t noise;      /* for a race                                               */
    uint64_t fine_rate[2]; /* F, the first 128 bits of c, top bit set; tests: 0        */
    int32_t fine_place;    /* F <= 2^(128 - fine_place) c < F + 1                      */
    double tolerance;      /* tests: the least share that is left to the exact steps   */
    uint64_t num[FDP_LIMBS], den[FDP_LIMBS]; /* c, lowest limb first                   */
} fdp_selection_t;

/* Makes a law with rate c in [2^-900, 2^900]. FDP_ERR_PARAMETER: c is out of range or has more
 * than FDP_LIMBS limbs. After a failure the law is all zeros. @timing T0 of c. */
FDP_API FDP_NODISCARD fdp_status_t fdp_selection_make(fdp_selection_t *law,
                                                      const fdp_ratio_t *c, fdp_race_t noise);

/* `rows` sets of `n` candidates each, contiguous. Base weights have one of three forms:
 *   - mantissa NULL: all weights are 1;
 *   - mantissa and exponent: the nearest doubles are mantissa 2^exponent, with a mantissa of 0
 *     or in [1/2, 1) and an integer exponent in (-2^14, 0], or -2^17 if the mantissa is 0;
 *   - exponent NULL: mantissa holds any doubles >= 0; the weights are these times
 *     2^-weight_top, and the largest is in [1/2, 1).
 * `weight` holds the exact weights (times 2^weight_top if there are exponents); NULL: the
 * doubles are exact. `weight_stride` is n, or 0 if all rows share their weights.
 * `weight_spread` comes from fdp_weights_range. */
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

/* Measures n base weights. *top: the largest is in [1/2, 1) 2^top (0 if all are 0). *spread: at
 * least log2(largest / smallest above 0). Refuses NaN, infinity and negative weights.
 * @timing T0. */
FDP_API FDP_NODISCARD fdp_status_t fdp_weights_range(const double *weight, size_t n,
                                                     int32_t *top, double *spread);

/* k choices without replacement from each row, by inversion. Choice j of row r uses the word of
 * draw (first_row + r) k + j, and further bits if that does not decide. out has rows * k
 * indices. requires: 1 <= k <= n, k <= FDP_SELECT_MOST. exact: yes. @timing T2: see
 * docs/proofs/selection.md. */
#define FDP_SELECT_MOST 4096
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_inverse(const fdp_call_t *call, const fdp_selection_t *law,
                   const fdp_candidates_t *from, uint64_t first_row, size_t k,
                   int64_t *out);

/* One choice from each row: proposes by integer upper bounds of w_i e^(c s_i) and accepts
 * exactly, with two tries for every row. Row r uses draws 4 (first_row + r), ..., + 3.
 * exact: yes. @timing T2: see docs/proofs/selection.md. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_proposed(const fdp_call_t *call, const fdp_selection_t *law,
                    const fdp_candidates_t *from, uint64_t first_row, int64_t *out);

/* One choice from each row by permute-and-flip, with weights 1. The coin of candidate i of row
 * r is heads if the word of draw (first_row + r) (n + 1) + i is below e^(-c gap). The word of
 * the draw after the last candidate's takes one of the heads, uniformly. exact: yes.
 * @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_flipped(const fdp_call_t *call, const fdp_selection_t *law,
                   const fdp_candidates_t *from, uint64_t first_row, int64_t *out);

/* The winner of each row's race. Candidate i of row r uses the word of draw first + r n + i;
 * with Gaussian noise, also that draw's word 2^31 chunks later. exact: yes. @timing T2. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_select_race(const fdp_call_t *call, const fdp_selection_t *law,
                const fdp_candidates_t *from, uint64_t first, int64_t *out);

/* *ahead = 1 if the first candidate of `one`, with the word of draw[0], is ahead of the first
 * candidate of `other`, with the word of draw[1]; else 0. Both have weights, or neither has.
 * exact: yes. @timing T0. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_race_ahead(const fdp_call_t *call, const fdp_selection_t *law,
               const fdp_candidates_t *one, const fdp_candidates_t *other,
               const uint64_t draw[2], int *ahead);

/* Bounds low <= key <= high for every candidate, in the row's order, where
 * key = noise - c (largest score - score) + ln weight. low = -infinity and high = infinity if
 * the word is marked; low = -infinity if the gap is stored as 1e300. Both are -infinity for
 * excluded candidates. If a row has only excluded candidates, all count as equal, with a gap
 * of 0 and weight 1. */
FDP_API FDP_NODISCARD fdp_status_t
fdp_race_keys(const fdp_call_t *call, const fdp_selection_t *law,
              const fdp_candidates_t *from, uint64_t first, double *low, double *high);

/* ---- clipped sums --------------------------------------------------------- */

typedef enum { FDP_NORM_L1 = 1, FDP_NORM_L2 = 2, FDP_NORM_MAX = 3 } fdp_norm_t;

/* Converts rows of `dimension` floats to integers (multiples of the grid's step) whose norm is
 * checked in integers. docs/proofs/sums.md */
typedef struct {
    size_t dimension; /* in [1, 2^32)                                              */
    fdp_norm_t norm;
    double radius;    /* nearest to the radius, in [2^-900, 2^900]                 */
    int32_t step;     /* the grid's step is 2^step, |step| <= 1000                 */
    double most;      /* floor(radius / step), an integer below 2^30               */
    uint64_t limit;   /* floor((radius / step)^2) for L2, else `most`; at most 2^60 */
    size_t changed;   /* MAX: a row keeps its first `changed` nonzero entries      */
} fdp_clip_t;

/* The integers of n rows. x has n * dimension floats of type FDP_F32 or FDP_F64, and out the
 * same number of integers. NaN counts as 0, an infinity as the largest double of its sign.
 * ensures, for every x: in each row of out, the sum of squares (L2), the sum of magnitudes (L1)
 * or each magnitude (MAX) is at most `limit`. exact: yes. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_clip_rows(const fdp_clip_t *clip, size_t n, const void *x, fdp_dtype_t type,
              int64_t *out);

/* Adds the integers of n < 2^32 rows to total[block * dimension + ...], and the number of rows
 * to rows[block]. `block` holds the block of each row; rows with a block outside [0, blocks)
 * are ignored. NULL: all rows belong to block 0. Sums of 2^33 rows fit. @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_clip_sums(const fdp_clip_t *clip, size_t n, const void *x, fdp_dtype_t type,
              size_t blocks, const int64_t *block, int64_t *rows, int64_t *total);

/* Rows in parts: a part holds `size` numbers of each row, row after row. The parts of a group
 * are clipped together; `total` has room for the numbers of all its parts. */
typedef struct {
    const void *x;
    size_t size;
} fdp_part_t;
typedef struct {
    const fdp_clip_t *clip; /* its dimension is the sum of the sizes */
    const fdp_part_t *part;
    size_t parts;
    int64_t *total;
} fdp_group_t;

/* Adds the integers of rows first, ..., first + n - 1 to the totals, n < 2^32, groups < 2^24.
 * A row with a NaN or an infinity in any group adds nothing. The norm of a group sums its parts in
 * their order.
 * @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t fdp_clip_groups(size_t groups, const fdp_group_t *group,
                                                   size_t first, size_t n,
                                                   fdp_dtype_t type);

/* A column of numbers between public bounds, as integers
 *     u = floor((x - center) inverse 2^bits + 1/2) in [-2^bits, 2^bits],
 * where the difference and the product are rounded to doubles. */
typedef struct {
    double low, high;       /* finite, low < high */
    double center, inverse; /* midpoint of the bounds; 2 / (high - low), finite, > 0 */
    uint32_t bits;          /* in [1, 30] */
} fdp_column_t;

/* For each of n < 2^32 values, adds 1, u and round(u^2 / 2^bits) - 2^bits/2 to count, sum and
 * square of its group. The type of x is FDP_F64, FDP_F32 or FDP_I64. NaN and values whose group
 * is outside [0, groups) add nothing. group NULL: all values belong to group 0. exact: yes.
 * @timing T0 */
FDP_API FDP_NODISCARD fdp_status_t
fdp_column_moments(const fdp_column_t *column, size_t n, const void *x, fdp_dtype_t type,
                   size_t groups, const int64_t *group, int64_t *count, int64_t *sum,
                   int64_t *square);

/* ---- sums of privacy losses (@timing T0) ------------------------------------ */

/* For one cell: the sum of its masses (p), the sum of the masses times their distance from the
 * cell's edge (d), and the number of terms, each in two independent lanes. */
typedef struct {
    double p[2], d[2];
    uint32_t terms[2];
} fdp_cell_t;

/* Gathers all sums a_i + l_j of two ascending lists of losses into the cells
 * [edge[c], edge[c + 1]). p[c] gets the products of the masses, and d[c] the products times
 * e^(edge[c] - sum) - 1 or, if `ratios`, times edge[c] - sum. Returns n, the most additions in a
 * chain; p and d have a relative error of at most (n + 16) 2^-52. No sum is below edge[0], and
 * the last edge is infinite. If `square`, both lists are the same, and each pair counts once,
 * with twice its mass. `cell` has room for one number per column, `some` for one sum per cell,
 * all zeros. docs/proofs/numerical_accounting.md */
FDP_API size_t
fdp_gather_sums(size_t rows, const double *row_loss, const double *row_mass, size_t columns,
                const double *loss, const double *mass, int square, int ratios,
                const double *edge, uint32_t *cell, fdp_cell_t *some, double *p, double *d);

#ifdef __cplusplus
}
#endif
#endif
