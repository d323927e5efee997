# Open domains: digests of strings, and tallies of reports on them; part of _core.pyx.

@cython.final
cdef class HashKey:
    """A public key of 16 bytes for digests of strings and for hash functions."""

    cdef uint64_t c[2]

    def __cinit__(self, bytes key):
        if len(key) != 16:
            raise ParameterError("key must have 16 bytes")
        memcpy(self.c, PyBytes_AsString(key), 16)

    def digests(self, cnp.ndarray offsets, cnp.ndarray text, cnp.ndarray out):
        """Write SipHash-2-4 of text[offsets[i]:offsets[i + 1]] into the uint64 array
        out; offsets are int64, the text bytes."""
        cdef const int64_t *offset = <const int64_t *> cnp.PyArray_DATA(offsets)
        cdef const uint8_t *data = <const uint8_t *> cnp.PyArray_DATA(text)
        cdef uint64_t *to = <uint64_t *> cnp.PyArray_DATA(out)
        cdef size_t n = cnp.PyArray_SIZE(out)
        with nogil:
            fdp_digest_strings(self.c, n, offset, data, to)

    def words(self, cnp.ndarray seeds, cnp.ndarray out):
        """Write the three words of the hash function of each uint64 seed."""
        cdef const uint64_t *seed = <const uint64_t *> cnp.PyArray_DATA(seeds)
        cdef fdp_function_t *to = <fdp_function_t *> cnp.PyArray_DATA(out)
        cdef size_t n = cnp.PyArray_SIZE(seeds)
        with nogil:
            fdp_seed_words(self.c, n, seed, to)

    def buckets(self, cnp.ndarray seeds, uint32_t buckets, cnp.ndarray x,
                cnp.ndarray out):
        """Write the bucket of each digest under its own seed into the uint32 array."""
        cdef const uint64_t *seed = <const uint64_t *> cnp.PyArray_DATA(seeds)
        cdef const uint64_t *digest = <const uint64_t *> cnp.PyArray_DATA(x)
        cdef uint32_t *to = <uint32_t *> cnp.PyArray_DATA(out)
        cdef size_t n = cnp.PyArray_SIZE(x)
        with nogil:
            fdp_seed_buckets(self.c, buckets, n, seed, digest, to)

    def support(self, cnp.ndarray reports, uint32_t buckets, cnp.ndarray x,
                cnp.ndarray out):
        """Add to an int64 array how many seeded reports support each digest."""
        cdef Job job = _job(None, out)
        job.law = &self.c
        job.x = <const uint8_t *> cnp.PyArray_DATA(reports)
        job.width, job.columns = buckets, cnp.PyArray_SIZE(x)
        job.label = <const int64_t *> cnp.PyArray_DATA(x)
        _drive(_seed_support, &job, cnp.PyArray_SIZE(reports), 4,
               1 + (1 << 22) // (job.columns + 1), 0)


cdef fdp_status_t _seed_support(const Job *job, uint64_t chunk, size_t at,
                                size_t n) noexcept nogil:
    return fdp_seed_support(<const uint64_t *> job.law, <uint32_t> job.width, n,
                            <const fdp_hashed_t *> job.x + at, job.columns,
                            <const uint64_t *> job.label, <int64_t *> job.out)


def row_buckets(cnp.ndarray words, uint32_t bits, cnp.ndarray rows, cnp.ndarray x,
                cnp.ndarray out):
    """Write the first bits of each digest's hash under its row's words."""
    cdef const fdp_function_t *word = <const fdp_function_t *> cnp.PyArray_DATA(words)
    cdef const uint16_t *row = <const uint16_t *> cnp.PyArray_DATA(rows)
    cdef const uint64_t *digest = <const uint64_t *> cnp.PyArray_DATA(x)
    cdef uint32_t *to = <uint32_t *> cnp.PyArray_DATA(out)
    cdef size_t n = cnp.PyArray_SIZE(x)
    with nogil:
        fdp_row_buckets(word, bits, n, row, digest, to)


cdef fdp_status_t _sketch_sums(const Job *job, uint64_t chunk, size_t at,
                               size_t n) noexcept nogil:
    fdp_sketch_sums(<const fdp_function_t *> job.law, job.columns, <uint32_t> job.width,
                    job.label, n, <const uint64_t *> job.x + at,
                    <int64_t *> job.out + at)
    return FDP_OK


def sketch_sums(cnp.ndarray words, uint32_t bits, cnp.ndarray table, cnp.ndarray x,
                cnp.ndarray out):
    """Write for each digest the sum of its cells over all rows of an int64 table."""
    cdef Job job = _job(None, out)
    job.law = cnp.PyArray_DATA(words)
    job.columns, job.width = cnp.PyArray_DIM(words, 0), bits
    job.label = <const int64_t *> cnp.PyArray_DATA(table)
    job.x = <const uint8_t *> cnp.PyArray_DATA(x)
    _drive(_sketch_sums, &job, cnp.PyArray_SIZE(x), 512,
           1 + (1 << 13) // (job.columns + 1), 0)


@cython.final
cdef class VectorCode:
    """Codes of `words` normal vectors each; a public seed determines its code."""

    cdef fdp_vectors_t c
    cdef cnp.ndarray table

    def __cinit__(self, cnp.ndarray table, size_t words, size_t dimension):
        self.table = table
        self.c.table = <const int16_t *> cnp.PyArray_DATA(table)
        self.c.words, self.c.dimension = words, dimension

    def clients(self, cnp.ndarray x, cnp.ndarray ranks, cnp.ndarray reports):
        """Write the value of each report: the index of the word of its seed's code
        that ranks[i] (int64) others exceed in their product with row i of x (int32)."""
        cdef Job job = _job(None, ranks)
        job.law, job.width = &self.c, self.c.dimension
        job.x = <const uint8_t *> cnp.PyArray_DATA(x)
        job.label = <const int64_t *> cnp.PyArray_DATA(ranks)
        job.out = <uint8_t *> cnp.PyArray_DATA(reports)
        _drive(_vector_clients, &job, cnp.PyArray_SIZE(reports), 1,
               1 + (1 << 22) // (self.c.words * self.c.dimension), 0)

    def sums(self, cnp.ndarray reports, cnp.ndarray out):
        """Add the words and the number of the reports to an int64 array."""
        cdef Job job = _job(None, out)
        job.law = &self.c
        job.x = <const uint8_t *> cnp.PyArray_DATA(reports)
        _drive(_vector_sums, &job, cnp.PyArray_SIZE(reports), 1,
               1 + (1 << 22) // self.c.dimension, 0)


cdef fdp_status_t _vector_clients(const Job *job, uint64_t chunk, size_t at,
                                  size_t n) noexcept nogil:
    return fdp_vector_clients(<const fdp_vectors_t *> job.law, n,
                              <const int32_t *> job.x + at * job.width,
                              job.label + at, <fdp_hashed_t *> job.out + at)


cdef fdp_status_t _vector_sums(const Job *job, uint64_t chunk, size_t at,
                               size_t n) noexcept nogil:
    return fdp_vector_sums(<const fdp_vectors_t *> job.law, n,
                           <const fdp_hashed_t *> job.x + at, <int64_t *> job.out)
