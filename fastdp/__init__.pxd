# fastdp.h for Cython: `from fastdp cimport fdp_job_t`. A module that uses it is compiled with
# the folder fastdp.get_include(), and linked with libfastdp: docs/howto/be_a_backend.md.
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "fastdp.h" nogil:
    size_t FDP_VERSION_MAJOR
    size_t FDP_VERSION_MINOR
    size_t FDP_VERSION_PATCH
    uint32_t FDP_VERSION

    uint32_t fdp_version()

    ctypedef enum fdp_status_t:
        FDP_OK
        FDP_ERR_PARAMETER
        FDP_ERR_ENTROPY
        FDP_ERR_MEMORY
        FDP_ERR_RESOLVER
        FDP_ERR_BUILD
        FDP_ERR_LEVEL
        FDP_ERR_JOB

    const char *fdp_status_text(fdp_status_t status)

    ctypedef enum fdp_cipher_t:
        FDP_CIPHER_CHACHA20
        FDP_CIPHER_AES256
        FDP_CIPHER_TAPE

    ctypedef struct fdp_tape_t:
        size_t chunks
        const uint8_t *main
        size_t main_stride
        const uint8_t *ext
        size_t ext_stride

    ctypedef struct fdp_stream_t:
        uint32_t cipher
        uint8_t key[32]
        const fdp_tape_t *tape

    ctypedef struct fdp_call_t:
        fdp_stream_t stream

    fdp_status_t fdp_self_check()
    fdp_status_t fdp_call_open(fdp_call_t *call)
    void fdp_call_close(fdp_call_t *call)
    void fdp_call_extend(const fdp_call_t *call, uint64_t chunk, uint32_t trial,
                         uint32_t block, uint8_t *out)
    void fdp_call_main(const fdp_call_t *call, uint64_t chunk, uint64_t offset,
                       uint8_t *out, size_t nbytes)
    void fdp_stream_derive(uint8_t *out, const uint8_t *key, uint64_t index)

    const char *fdp_cpu_level()
    const char *fdp_cpu_name(size_t rank, uint32_t *mask)
    uint32_t fdp_cpu_mask()
    void fdp_cpu_limit(uint32_t mask)
    uint32_t fdp_cipher_default()
    int fdp_cipher_available(uint32_t cipher)

    ctypedef struct fdp_columns_t:
        uint8_t cut[128]
        uint8_t alias[128]

    ctypedef struct fdp_geometric_t:
        uint64_t theta
        double scale
        double inverse_w0
        double inverse_w1
        double error
        double error_relative

    ctypedef struct fdp_tilt_t:
        uint32_t slope
        uint64_t block[128]
        uint64_t unit
        double height
        double weight
        double inverse_2var
        double edge
        double acceptance
        uint32_t tries[5]

    ctypedef struct fdp_digits_t:
        uint32_t shift
        uint32_t low
        uint32_t tails
        uint32_t tops
        int64_t bound
        double special[2]
        fdp_columns_t first
        fdp_columns_t second
        uint64_t first_rest[128]
        uint64_t second_rest[32]
        uint64_t second_whole[32]
        uint64_t top[48]
        uint64_t copy[48]
        uint64_t mask[48]
        uint64_t tree[2][64]
        fdp_geometric_t tail
        fdp_tilt_t tilt
        uint32_t slots[2][4]
        uint32_t unsettled

    ctypedef struct fdp_sampler_t:
        double acceptance
        uint32_t chunk_outputs
        fdp_digits_t law
        uint64_t num[80]
        uint64_t den[80]

    ctypedef struct fdp_ratio_t:
        const uint64_t *num
        const uint64_t *den
        size_t nums
        size_t dens

    fdp_status_t fdp_sampler_laplace(fdp_sampler_t *sampler, const fdp_ratio_t *scale,
                                     int64_t bound)
    fdp_status_t fdp_sampler_gaussian(fdp_sampler_t *sampler, const fdp_ratio_t *sigma)
    fdp_status_t fdp_sampler_prepare(fdp_sampler_t *sampler)

    ctypedef enum fdp_dtype_t:
        FDP_NONE
        FDP_I8
        FDP_I16
        FDP_I32
        FDP_I64
        FDP_U8
        FDP_U16
        FDP_U32
        FDP_F32
        FDP_F64
        FDP_BOOL

    ctypedef struct fdp_grid_t:
        double step
        double low
        double high
        double nan

    ctypedef struct fdp_target_t:
        const void *x
        fdp_dtype_t x_type
        void *out
        fdp_dtype_t out_type
        const fdp_grid_t *grid

    fdp_status_t fdp_release(const fdp_call_t *call, const fdp_sampler_t *sampler,
                             uint64_t first_chunk, size_t n,
                             const fdp_target_t *target)

    uint64_t FDP_JOB_CHUNKS

    ctypedef struct fdp_job_t:
        fdp_call_t call
        uint64_t next
        const void *self
        int64_t process

    fdp_status_t fdp_job_open(fdp_job_t *job)
    void fdp_job_close(fdp_job_t *job)
    fdp_status_t fdp_job_take(fdp_job_t *job, uint64_t chunks, uint64_t *first)
    fdp_status_t fdp_job_release(fdp_job_t *job, const fdp_sampler_t *sampler, size_t n,
                                 const fdp_target_t *target)

    size_t FDP_LIMBS
    size_t FDP_BYTES_CHUNK
    size_t FDP_INTEGERS_CHUNK

    fdp_status_t fdp_fill_bytes(const fdp_call_t *call, uint64_t first_chunk,
                                size_t n, uint8_t *out)
    fdp_status_t fdp_fill_integers(const fdp_call_t *call, uint64_t low,
                                   uint64_t range, uint64_t first_chunk, size_t n,
                                   int64_t *out)
    fdp_status_t fdp_fill_permutation(const fdp_call_t *call, size_t n, int64_t *out)

    ctypedef struct fdp_bernoulli_t:
        uint8_t plane[8][256]
        uint8_t alias[256]
        uint64_t num[80]
        uint64_t den[80]

    fdp_status_t fdp_bernoulli_make(fdp_bernoulli_t *law, const fdp_ratio_t *p)

    ctypedef struct fdp_response_t:
        uint32_t categories
        uint32_t always
        uint32_t shift
        uint64_t rate[2]
        uint64_t truth

    fdp_status_t fdp_response_make(fdp_response_t *law, uint32_t categories,
                                   uint64_t truth, int always)

    ctypedef struct fdp_hashed_t:
        uint32_t slope
        uint32_t offset
        uint32_t value

    size_t FDP_BITS_CHUNK
    size_t fdp_response_chunk(const fdp_response_t *law)
    fdp_status_t fdp_flip_bits(const fdp_call_t *call, const fdp_bernoulli_t *law,
                               uint64_t first_chunk, size_t n, const uint8_t *x,
                               uint8_t *out)
    fdp_status_t fdp_flip_bytes(const fdp_call_t *call, const fdp_bernoulli_t *law,
                                uint64_t first_chunk, size_t n, const void *x,
                                fdp_dtype_t x_type, int other, uint8_t *out)
    fdp_status_t fdp_respond(const fdp_call_t *call, const fdp_response_t *law,
                             uint64_t first_chunk, size_t n, const void *x,
                             fdp_dtype_t x_type, int64_t other, void *out,
                             fdp_dtype_t out_type)
    void fdp_insert_bits(size_t n, size_t row_bytes, const uint32_t *label,
                         const uint8_t *bits, uint8_t *rows)
    size_t FDP_CLIENTS
    fdp_status_t fdp_hash_clients(const fdp_call_t *secret, const fdp_call_t *open,
                                  const fdp_response_t *labeling,
                                  const fdp_response_t *law, uint32_t l, uint64_t first,
                                  size_t n, const void *x, fdp_dtype_t x_type,
                                  int64_t other, fdp_hashed_t *out)
    fdp_status_t fdp_hadamard_clients(const fdp_call_t *call,
                                      const fdp_response_t *labeling,
                                      const fdp_bernoulli_t *law, uint32_t log2k,
                                      uint64_t first, size_t n, const void *x,
                                      fdp_dtype_t x_type, int64_t other, void *out,
                                      fdp_dtype_t out_type)
    ctypedef struct fdp_subsets_t:
        uint64_t truth
        uint32_t categories
        uint32_t size

    size_t FDP_SUBSETS_CHUNK
    fdp_status_t fdp_fill_subsets(const fdp_call_t *call, const fdp_subsets_t *law,
                                  uint64_t first_chunk, size_t n,
                                  const uint32_t *label, uint8_t *rows)

    ctypedef struct fdp_number_t:
        double low
        double steps
        uint64_t before[4]
        uint64_t begin[4]
        uint64_t size[4]
        uint64_t rate[4]
        uint64_t first[4]
        uint64_t plain
        uint64_t outputs[2]
        uint64_t places[2]
        uint64_t middle

    size_t FDP_NUMBERS_CHUNK
    fdp_status_t fdp_number_clients(const fdp_call_t *call, const fdp_number_t *law,
                                    uint64_t first_chunk, size_t n, const void *x,
                                    fdp_dtype_t type, uint8_t *out)
    fdp_status_t fdp_count_columns(size_t n, size_t row_bytes, const uint8_t *rows,
                                   size_t columns, int64_t *count)
    fdp_status_t fdp_count_values(size_t n, const void *report, fdp_dtype_t type,
                                  size_t k, int64_t *count)
    fdp_status_t fdp_count_support(size_t n, const fdp_hashed_t *report,
                                   uint32_t buckets, uint32_t l, size_t categories,
                                   int64_t *count)
    ctypedef enum fdp_report_kind_t:
        FDP_NUMBER
        FDP_WORD
        FDP_ROW

    ctypedef struct fdp_report_part_t:
        const char *name
        fdp_report_kind_t kind
        size_t offset, bytes

    ctypedef struct fdp_report_form_t:
        const char *mechanism
        size_t parts, bytes
        fdp_report_part_t part[2]

    size_t fdp_report_lines(const fdp_report_form_t *form, const char *text, size_t size,
                            uint8_t *out, size_t most, size_t *read, size_t *lines)
    void fdp_walsh_hadamard(size_t n, int64_t *a)

    ctypedef struct fdp_unbiased_t:
        int64_t whole
        double rest
        double scale
        double own
        double cross
        double users

    void fdp_estimate_counts(size_t n, const int64_t *supporters,
                             const fdp_unbiased_t *law, double *count, double *error)

    void fdp_digest_strings(const uint64_t *key, size_t n, const int64_t *offset,
                            const uint8_t *text, uint64_t *out)

    ctypedef struct fdp_function_t:
        uint64_t a
        uint64_t c
        uint64_t b

    void fdp_seed_words(const uint64_t *key, size_t n, const uint64_t *seed,
                        fdp_function_t *out)
    void fdp_row_buckets(const fdp_function_t *words, uint32_t bits, size_t n,
                         const uint16_t *row, const uint64_t *x, uint32_t *out)
    void fdp_seed_buckets(const uint64_t *key, uint32_t buckets, size_t n,
                          const uint64_t *seed, const uint64_t *x, uint32_t *out)
    void fdp_sketch_sums(const fdp_function_t *words, size_t rows, uint32_t bits,
                         const int64_t *table, size_t n, const uint64_t *x,
                         int64_t *sum)
    fdp_status_t fdp_seed_support(const uint64_t *key, uint32_t buckets, size_t n,
                                  const fdp_hashed_t *report, size_t asked,
                                  const uint64_t *x, int64_t *count)

    ctypedef struct fdp_vectors_t:
        const int16_t *table
        size_t words
        size_t dimension

    fdp_status_t fdp_vector_clients(const fdp_vectors_t *code, size_t n,
                                    const int32_t *x, const int64_t *rank,
                                    fdp_hashed_t *report)
    fdp_status_t fdp_vector_sums(const fdp_vectors_t *code, size_t n,
                                 const fdp_hashed_t *report, int64_t *sum)

    ctypedef enum fdp_race_t:
        FDP_RACE_GUMBEL
        FDP_RACE_LAPLACE
        FDP_RACE_GAUSSIAN

    ctypedef struct fdp_selection_t:
        double rate
        fdp_race_t noise
        uint64_t[2] fine_rate
        int32_t fine_place
        double tolerance
        uint64_t num[80]
        uint64_t den[80]

    ctypedef struct fdp_candidates_t:
        size_t rows
        size_t n
        const void *score
        fdp_dtype_t type
        const double *mantissa
        const double *exponent
        const fdp_ratio_t *weight
        int32_t weight_top
        double weight_spread
        size_t weight_stride

    size_t FDP_SELECT_CHUNK
    size_t FDP_SELECT_MOST
    fdp_status_t fdp_selection_make(fdp_selection_t *law, const fdp_ratio_t *c,
                                    fdp_race_t noise)
    fdp_status_t fdp_weights_range(const double *weight, size_t n, int32_t *top,
                                   double *spread)
    fdp_status_t fdp_select_inverse(const fdp_call_t *call, const fdp_selection_t *law,
                                    const fdp_candidates_t *candidates,
                                    uint64_t first_row, size_t k, int64_t *out)
    fdp_status_t fdp_select_proposed(const fdp_call_t *call, const fdp_selection_t *law,
                                     const fdp_candidates_t *candidates,
                                     uint64_t first_row, int64_t *out)
    fdp_status_t fdp_select_flipped(const fdp_call_t *call, const fdp_selection_t *law,
                                    const fdp_candidates_t *candidates,
                                    uint64_t first_row, int64_t *out)
    fdp_status_t fdp_select_race(const fdp_call_t *call, const fdp_selection_t *law,
                                 const fdp_candidates_t *candidates, uint64_t first,
                                 int64_t *out)
    fdp_status_t fdp_race_ahead(const fdp_call_t *call, const fdp_selection_t *law,
                                const fdp_candidates_t *one,
                                const fdp_candidates_t *other, const uint64_t *draw,
                                int *ahead)
    fdp_status_t fdp_race_keys(const fdp_call_t *call, const fdp_selection_t *law,
                               const fdp_candidates_t *candidates, uint64_t first,
                               double *low, double *high)

    ctypedef enum fdp_norm_t:
        FDP_NORM_L1
        FDP_NORM_L2
        FDP_NORM_MAX

    ctypedef struct fdp_clip_t:
        size_t dimension
        fdp_norm_t norm
        double radius
        int32_t step
        double most
        uint64_t limit
        size_t changed

    fdp_status_t fdp_clip_rows(const fdp_clip_t *clip, size_t n, const void *x,
                               fdp_dtype_t type, int64_t *out)
    fdp_status_t fdp_clip_sums(const fdp_clip_t *clip, size_t n, const void *x,
                               fdp_dtype_t type, size_t blocks, const int64_t *block,
                               int64_t *rows, int64_t *total)

    ctypedef struct fdp_part_t:
        const void *x
        size_t size
    ctypedef struct fdp_group_t:
        const fdp_clip_t *clip
        const fdp_part_t *part
        size_t parts
        int64_t *total

    fdp_status_t fdp_clip_groups(size_t groups, const fdp_group_t *group, size_t first,
                                 size_t n, fdp_dtype_t type)

    ctypedef struct fdp_column_t:
        double low
        double high
        double center
        double inverse
        uint32_t bits

    fdp_status_t fdp_column_moments(const fdp_column_t *column, size_t n, const void *x,
                                    fdp_dtype_t type, size_t groups,
                                    const int64_t *group, int64_t *count, int64_t *sum,
                                    int64_t *square)

    ctypedef struct fdp_cell_t:
        double p[2]
        double d[2]
        uint32_t terms[2]

    size_t fdp_gather_sums(size_t rows, const double *row_loss, const double *row_mass,
                           size_t columns, const double *loss, const double *mass,
                           int square, int ratios, const double *edge, uint32_t *cell,
                           fdp_cell_t *some, double *p, double *d)
