# Randomizers of users' reports, and tallies of the reports; part of _core.pyx.

BITS_CHUNK = FDP_BITS_CHUNK
BYTES_CHUNK = FDP_BYTES_CHUNK
CLIENTS = FDP_CLIENTS


@cython.final
cdef class Bernoulli:
    """A prepared Bernoulli law: the alias table of its patterns, and its p.

    exact=False makes the exact steps fail, for tests."""

    cdef fdp_bernoulli_t c

    def __cinit__(self, p, *, bint exact=True):
        cdef fdp_ratio_t ratio
        num, den = _ratio(&ratio, p)
        _check(fdp_bernoulli_make(&self.c, &ratio))
        if not exact:
            memset(self.c.den, 0, sizeof(self.c.den))

    def structure(self):
        """The prepared fdp_bernoulli_t, for tests that call the core themselves."""
        return PyBytes_FromStringAndSize(<char *> &self.c, sizeof(fdp_bernoulli_t))

    @property
    def chunk(self):
        """Bits of one chunk."""
        return FDP_BITS_CHUNK


@cython.final
cdef class Response:
    """A prepared k-ary response; `truth` is a multiple of 2**-64."""

    cdef fdp_response_t c

    def __cinit__(self, truth, uint32_t categories):
        cdef bint always = truth == 1
        cdef uint64_t scaled = 0 if always else int(truth * 2**64)
        _check(fdp_response_make(&self.c, categories, scaled, always))

    def structure(self):
        """The prepared fdp_response_t, for tests that call the core themselves."""
        return PyBytes_FromStringAndSize(<char *> &self.c, sizeof(fdp_response_t))

    @property
    def chunk(self):
        """Labels of one chunk."""
        return fdp_response_chunk(&self.c)


cdef fdp_status_t _flip_bits(const Job *job, uint64_t chunk, size_t at,
                             size_t n) noexcept nogil:
    return fdp_flip_bits(job.call, <const fdp_bernoulli_t *> job.law, chunk, n,
                         _data(job, at // 8),
                         job.out + at // 8)


def flip_bits(source, Bernoulli law, cnp.ndarray x, cnp.ndarray out, size_t n,
              uint64_t first_chunk=0):
    """Write x xor n Bernoulli bits, packed, into `out`; x None counts as zeros."""
    cdef Job job = _job(x, out)
    job.law = &law.c
    _draw(_flip_bits, &job, n, FDP_BITS_CHUNK, source, first_chunk)


cdef fdp_status_t _flip_bytes(const Job *job, uint64_t chunk, size_t at,
                              size_t n) noexcept nogil:
    return fdp_flip_bytes(job.call, <const fdp_bernoulli_t *> job.law, chunk, n,
                          _data(job, at * job.x_item),
                          job.x_type, <int> job.other, job.out + at)


def flip_bytes(source, Bernoulli law, cnp.ndarray x, cnp.ndarray out, int other=-1,
               uint64_t first_chunk=0):
    """Write the answers x, 0 or 1, flipped by Bernoulli bits, into bytes."""
    cdef Job job = _job(x, out)
    job.law, job.other = &law.c, other
    _draw(_flip_bytes, &job, cnp.PyArray_SIZE(out), FDP_BITS_CHUNK, source, first_chunk)


cdef fdp_status_t _respond(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    return fdp_respond(job.call, <const fdp_response_t *> job.law, chunk, n,
                       job.x + at * job.x_item, job.x_type, job.other,
                       job.out + at * job.out_item, job.out_type)


def respond(source, Response law, cnp.ndarray x, cnp.ndarray out,
            int64_t other=-1, uint64_t first_chunk=0):
    """Write the reports of integer labels x into an unsigned array of the same size."""
    cdef Job job = _job(x, out)
    job.law, job.other = &law.c, other
    _draw(_respond, &job, cnp.PyArray_SIZE(out), fdp_response_chunk(&law.c), source,
          first_chunk)


def insert_bits(cnp.ndarray rows, size_t row_bytes, cnp.ndarray labels,
                cnp.ndarray bits):
    """Replace bit labels[i] of row i by bit i of the packed `bits`."""
    cdef uint8_t *data = <uint8_t *> cnp.PyArray_DATA(rows)
    cdef const uint32_t *label = <const uint32_t *> cnp.PyArray_DATA(labels)
    cdef const uint8_t *bit = <const uint8_t *> cnp.PyArray_DATA(bits)
    cdef size_t n = cnp.PyArray_SIZE(labels)
    with nogil:
        fdp_insert_bits(n, row_bytes, label, bit, data)


cdef uint32_t _hash_bits(size_t categories) noexcept nogil:
    """Number of bits l of a hash value: 33 - u for categories of u bits, the largest
    number for which the hash functions are pairwise independent."""
    cdef uint32_t u = 1
    while categories - 1 >> u != 0:
        u += 1
    return 33 - u


cdef fdp_status_t _hash_clients(const Job *job, uint64_t chunk, size_t at,
                                size_t n) noexcept nogil:
    return fdp_hash_clients(job.call, job.open, job.labeling,
                            <const fdp_response_t *> job.law, <uint32_t> job.width,
                            chunk * FDP_CLIENTS, n, job.x + at * job.x_item, job.x_type,
                            job.other, <fdp_hashed_t *> job.out + at)


def hash_clients(Call call, Call public, Response labeling, Response law,
                 cnp.ndarray x, cnp.ndarray out, size_t categories, int64_t other=-1,
                 uint64_t first_chunk=0):
    """Write the hashed reports of integer values, from chunk `first_chunk` of CLIENTS
    users on; seeds are drawn under `public`."""
    cdef Job job
    memset(&job, 0, sizeof(job))
    job.x = <const uint8_t *> cnp.PyArray_DATA(x)
    job.x_item, job.x_type = cnp.PyArray_ITEMSIZE(x), _dtype_code(x)
    job.out = <uint8_t *> cnp.PyArray_DATA(out)
    job.open, job.labeling, job.law = public.key(), &labeling.c, &law.c
    job.width, job.other = _hash_bits(categories), other
    _draw(_hash_clients, &job, cnp.PyArray_SIZE(x), FDP_CLIENTS, call, first_chunk)


cdef fdp_status_t _hadamard_clients(const Job *job, uint64_t chunk, size_t at,
                                    size_t n) noexcept nogil:
    return fdp_hadamard_clients(job.call, job.labeling,
                                <const fdp_bernoulli_t *> job.law, <uint32_t> job.width,
                                chunk * FDP_BITS_CHUNK, n, job.x + at * job.x_item,
                                job.x_type, job.other, job.out + at * job.out_item,
                                job.out_type)


def hadamard_clients(source, Response labeling, Bernoulli law, cnp.ndarray x,
                     cnp.ndarray out, uint32_t bits, int64_t other=-1,
                     uint64_t first_chunk=0):
    """Write the Hadamard codes, of `bits` bits, of integer values, from chunk
    `first_chunk` of BITS_CHUNK users on."""
    cdef Job job = _job(x, out)
    job.labeling, job.law = &labeling.c, &law.c
    job.width, job.other = bits, other
    _draw(_hadamard_clients, &job, cnp.PyArray_SIZE(x), FDP_BITS_CHUNK, source, first_chunk)


# ---- subsets ---------------------------------------------------------------

SUBSETS_CHUNK = FDP_SUBSETS_CHUNK


cdef fdp_status_t _subsets(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    cdef const fdp_subsets_t *law = <const fdp_subsets_t *> job.law
    return fdp_fill_subsets(job.call, law, chunk, n, <const uint32_t *> job.x + at,
                            job.out + at * ((law.categories + 7) // 8))


def fill_subsets(Call call, truth, uint32_t categories, uint32_t size,
                 cnp.ndarray labels, cnp.ndarray rows, uint64_t first_chunk=0):
    """Write subsets of the categories as packed rows; each contains its label with
    probability `truth`, a multiple of 2**-64."""
    cdef Job job = _job(labels, rows)
    cdef fdp_subsets_t law
    law.truth = truth.numerator * (2**64 // truth.denominator)
    law.categories, law.size = categories, size
    job.law = &law
    _draw(_subsets, &job, cnp.PyArray_SIZE(labels), FDP_SUBSETS_CHUNK, call, first_chunk)


# ---- numbers ---------------------------------------------------------------

NUMBERS_CHUNK = FDP_NUMBERS_CHUNK


@cython.final
cdef class Numbers:
    """The prepared law of codes of numbers: `low` and `steps` are doubles, `parts` up to
    four (first word, words of a code, first code), `members` one or two (M, w)."""

    cdef fdp_number_t c

    def __cinit__(self, double low, double steps, parts, members, uint64_t spare,
                  uint64_t middle):
        memset(&self.c, 0, sizeof(self.c))
        self.c.low, self.c.steps = low, steps
        for i in range(4):
            self.c.before[i] = self.c.plain = 0xFFFFFFFFFFFFFFFF
            self.c.size[i] = 0xFFFFFFFFFFFFFFFF
        for i, (begin, size, first) in enumerate(parts):
            self.c.before[i] = begin - 1 if begin else 0
            self.c.begin[i], self.c.size[i] = begin, size
            self.c.first[i], self.c.rate[i] = first, 2**64 // size
        for i, (outputs, window) in enumerate(members):
            self.c.outputs[i], self.c.places[i] = outputs, outputs - window
        self.c.plain -= spare
        self.c.middle = middle


cdef fdp_status_t _numbers(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    return fdp_number_clients(job.call, <const fdp_number_t *> job.law, chunk, n,
                              job.x + at * job.x_item, job.x_type, job.out + at)


def number_clients(source, Numbers law, cnp.ndarray x, cnp.ndarray out,
                   uint64_t first_chunk=0):
    """Write the codes of numbers, doubles, floats or int64, into bytes."""
    cdef Job job = _job(x, out)
    job.law = &law.c
    _draw(_numbers, &job, cnp.PyArray_SIZE(out), FDP_NUMBERS_CHUNK, source, first_chunk)


# ---- tallies of public reports ---------------------------------------------

# Check for pending signals after this many reports: every few milliseconds.
DEF TALLY = 65536


cdef fdp_status_t _columns(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    return fdp_count_columns(n, job.width, job.x + at * job.width, job.columns,
                             <int64_t *> job.out)


def column_sums(cnp.ndarray rows, size_t row_bytes, cnp.ndarray out):
    """Add the number of set bits of each column of packed rows to an int64 array."""
    cdef Job job = _job(rows, out)
    job.width, job.columns = row_bytes, cnp.PyArray_SIZE(out)
    _drive(_columns, &job, cnp.PyArray_SIZE(rows) // row_bytes, TALLY, 1, 0)


cdef fdp_status_t _values(const Job *job, uint64_t chunk, size_t at,
                          size_t n) noexcept nogil:
    return fdp_count_values(n, job.x + at * job.x_item, job.x_type, job.columns,
                            <int64_t *> job.out)


def histogram(cnp.ndarray reports, cnp.ndarray out):
    """Add the number of reports of each value to an int64 array; ignore values beyond
    its end."""
    cdef Job job = _job(reports, out)
    job.columns = cnp.PyArray_SIZE(out)
    _drive(_values, &job, cnp.PyArray_SIZE(reports), TALLY, 256, 0)


cdef fdp_status_t _support(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    return fdp_count_support(n, <const fdp_hashed_t *> job.x + at, <uint32_t> job.width,
                             _hash_bits(job.columns), job.columns,
                             <int64_t *> job.out)


def hash_support(cnp.ndarray reports, size_t categories, uint32_t buckets,
                 cnp.ndarray out):
    """Add the number of hashed reports that support each category to an int64 array."""
    cdef Job job = _job(None, out)
    job.x = <const uint8_t *> cnp.PyArray_DATA(reports)
    job.width, job.columns = buckets, categories
    # 1024 reports at a time: whole blocks of the kernel
    _drive(_support, &job, cnp.PyArray_SIZE(reports), 1024,
           1 + (1 << 15) // (categories + 1), 0)


def report_lines(bytes text, size_t start, bytes mechanism, list parts, cnp.ndarray out):
    """Read reports from lines of JSON, from byte `start` on, into an array of them.

    `parts` has (name or None, kind, offset, bytes) of each part. Return how many reports
    were read, and from how many bytes and lines: until the text ends, the array is
    full, or a line does not have the usual form.
    """
    cdef fdp_report_form_t form
    cdef size_t read = 0, lines = 0, count, size = len(text) - start
    cdef size_t most = out.shape[0]
    cdef const char *begin = PyBytes_AsString(text) + start
    cdef uint8_t *to = <uint8_t *> cnp.PyArray_DATA(out)
    form.mechanism = PyBytes_AsString(mechanism)
    form.parts, form.bytes = len(parts), <size_t> out.strides[0]
    for k, (name, kind, offset, width) in enumerate(parts):
        form.part[k].name = NULL if name is None else PyBytes_AsString(name)
        form.part[k].kind = <fdp_report_kind_t> <int> kind
        form.part[k].offset, form.part[k].bytes = offset, width
    with nogil:
        count = fdp_report_lines(&form, begin, size, to, most, &read, &lines)
    return count, read, lines


def hadamard_supporters(cnp.ndarray tally, cnp.npy_intp categories):
    """Return the number of reports in the half of each category, as int64.

    `tally` has the int64 number of reports of each position, a power of two of them
    above the number of categories. Position 0 of its transform is the number of all
    reports; v + 1 is the number in the half of v minus the number outside.
    """
    cdef cnp.ndarray signed = cnp.PyArray_Copy(tally)
    cdef cnp.ndarray out = cnp.PyArray_EMPTY(1, &categories, cnp.NPY_INT64, 0)
    cdef int64_t *a = <int64_t *> cnp.PyArray_DATA(signed)
    cdef int64_t *half = <int64_t *> cnp.PyArray_DATA(out)
    cdef cnp.npy_intp v
    with nogil:
        fdp_walsh_hadamard(cnp.PyArray_SIZE(signed), a)
        for v in range(categories):
            half[v] = (a[0] + a[v + 1]) >> 1
    return out


def estimate_counts(cnp.ndarray supporters, int64_t whole, double rest, double users,
                    doubles):
    """Return (supporters - whole - rest) / scale and standard errors, from int64 numbers
    and the scale and two variances of `Support`."""
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(supporters)
    cdef cnp.ndarray count = cnp.PyArray_EMPTY(1, &n, cnp.NPY_DOUBLE, 0)
    cdef cnp.ndarray error = cnp.PyArray_EMPTY(1, &n, cnp.NPY_DOUBLE, 0)
    cdef fdp_unbiased_t law = fdp_unbiased_t(whole, rest, doubles[0], doubles[1],
                                             doubles[2], users)
    fdp_estimate_counts(n, <const int64_t *> cnp.PyArray_DATA(supporters), &law,
                        <double *> cnp.PyArray_DATA(count),
                        <double *> cnp.PyArray_DATA(error))
    return count, error
