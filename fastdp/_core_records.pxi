# Integer sums of bounded records; part of _core.pyx.

cdef dict _NORMS = {"l1": FDP_NORM_L1, "l2": FDP_NORM_L2, "max": FDP_NORM_MAX}

# Check for pending signals after this many rows or values: every few milliseconds.
DEF ROWS = 65536


cdef size_t _rows_slab(size_t dimension):
    return 8 + ROWS // dimension


cdef const int64_t *_labels(object labels) except *:
    """None, or an int64 array."""
    if labels is None:
        return NULL
    return <const int64_t *> cnp.PyArray_DATA(<cnp.ndarray> labels)


cdef const int64_t *_labels_from(const Job *job, size_t at) noexcept nogil:
    if job.label == NULL:
        return NULL
    return job.label + at


cdef fdp_status_t _clip_rows(const Job *job, uint64_t chunk, size_t at,
                             size_t n) noexcept nogil:
    return fdp_clip_rows(<const fdp_clip_t *> job.law, n,
                         job.x + at * job.width * job.x_item, job.x_type,
                         <int64_t *> job.out + at * job.width)


cdef fdp_status_t _clip_sums(const Job *job, uint64_t chunk, size_t at,
                             size_t n) noexcept nogil:
    return fdp_clip_sums(<const fdp_clip_t *> job.law, n,
                         job.x + at * job.width * job.x_item, job.x_type, job.columns,
                         _labels_from(job, at), job.count, <int64_t *> job.out)


@cython.final
cdef class Clip:
    """Clipping of rows to integers of bounded norm: fdp_clip_t."""

    cdef fdp_clip_t c

    def __cinit__(self, size_t dimension, norm, double radius, int step, double most,
                  uint64_t limit, size_t changed):
        self.c.dimension = dimension
        self.c.norm = <fdp_norm_t> <int> _NORMS[norm]
        self.c.radius, self.c.step, self.c.most = radius, step, most
        self.c.limit, self.c.changed = limit, changed

    def rows(self, cnp.ndarray x, cnp.ndarray out):
        """Write the integers of the rows x into an int64 array of x's shape."""
        cdef Job job = _job(x, out)
        job.law, job.width = &self.c, self.c.dimension
        _drive(_clip_rows, &job, cnp.PyArray_DIM(x, 0), _rows_slab(job.width), 1, 0)

    def sums(self, cnp.ndarray x, block, cnp.ndarray rows, cnp.ndarray total):
        """Add the integers of the rows x to the int64 array total[block], and the
        number of rows to rows[block]; `block` is None or an int64 array."""
        cdef Job job = _job(x, total)
        job.law, job.width = &self.c, self.c.dimension
        job.columns, job.label = cnp.PyArray_SIZE(rows), _labels(block)
        job.count = <int64_t *> cnp.PyArray_DATA(rows)
        _drive(_clip_sums, &job, cnp.PyArray_DIM(x, 0), _rows_slab(job.width), 1, 0)


def clip_groups(list groups, size_t first, size_t n):
    """Add the integers of rows first, ..., first + n - 1; skip rows with a number that
    is not finite. A group is a Clip, a list of arrays with equally many rows and one
    dtype, and the int64 array to which it adds."""
    cdef size_t i = 0, width = 0, done = 0, some, many = sum([len(g[1]) for g in groups])
    cdef cnp.ndarray memory = np.zeros(
        len(groups) * sizeof(fdp_group_t) + many * sizeof(fdp_part_t), np.uint8)
    cdef fdp_group_t *group = <fdp_group_t *> cnp.PyArray_DATA(memory)
    cdef fdp_part_t *part = <fdp_part_t *> (group + len(groups))
    cdef fdp_dtype_t code = _dtype_code(groups[0][1][0])
    cdef fdp_status_t status
    cdef size_t count = len(groups)
    cdef Clip clip
    cdef cnp.ndarray x, total
    for clip, arrays, total in groups:
        group[i].clip, group[i].part, group[i].parts = &clip.c, part, len(arrays)
        group[i].total = <int64_t *> cnp.PyArray_DATA(total)
        width += clip.c.dimension
        i += 1
        for x in arrays:
            part.x, part.size = cnp.PyArray_DATA(x), cnp.PyArray_DIM(x, 1)
            part += 1
    while done < n:
        some = min(n - done, _rows_slab(width))
        with nogil:
            status = fdp_clip_groups(count, group, first + done, some, code)
        _check(status)
        done += some
        if done < n:
            PyErr_CheckSignals()


cdef fdp_status_t _moments(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    return fdp_column_moments(<const fdp_column_t *> job.law, n,
                              job.x + at * job.x_item, job.x_type, job.columns,
                              _labels_from(job, at), job.count, <int64_t *> job.out,
                              job.square)


def column_moments(column, cnp.ndarray x, group, cnp.ndarray count, cnp.ndarray total,
                   cnp.ndarray square):
    """Add 1, u and u^2 - 1/2 of each value to the int64 arrays of its group.

    `column` is (low, high, center, 1/half, bits), `group` None or an int64 array.
    """
    cdef fdp_column_t c
    cdef Job job = _job(x, total)
    c.low, c.high, c.center, c.inverse, c.bits = column
    job.law, job.columns, job.label = &c, cnp.PyArray_SIZE(count), _labels(group)
    job.count = <int64_t *> cnp.PyArray_DATA(count)
    job.square = <int64_t *> cnp.PyArray_DATA(square)
    _drive(_moments, &job, cnp.PyArray_SIZE(x), ROWS, 16, 0)


def gather_sums(cnp.ndarray row_loss, cnp.ndarray row_mass, cnp.ndarray loss,
                cnp.ndarray mass, cnp.ndarray edge, bint square, bint ratios=False):
    """Return p and d of the cells, and the number of additions; see fastdp.h.

    All are float64 arrays; the last edge is infinite.
    """
    cdef size_t rows = cnp.PyArray_SIZE(row_loss), columns = cnp.PyArray_SIZE(loss)
    cdef object cells = cnp.PyArray_SIZE(edge) - 1
    cdef cnp.ndarray p = np.zeros(cells), d = np.zeros(cells)
    cdef cnp.ndarray work = np.zeros(cells * sizeof(fdp_cell_t), np.uint8)
    cdef cnp.ndarray cell = np.empty(columns, np.uint32)
    cdef const double *a = <const double *> cnp.PyArray_DATA(row_loss)
    cdef const double *u = <const double *> cnp.PyArray_DATA(row_mass)
    cdef const double *b = <const double *> cnp.PyArray_DATA(loss)
    cdef const double *v = <const double *> cnp.PyArray_DATA(mass)
    cdef const double *e = <const double *> cnp.PyArray_DATA(edge)
    cdef uint32_t *place = <uint32_t *> cnp.PyArray_DATA(cell)
    cdef fdp_cell_t *some = <fdp_cell_t *> cnp.PyArray_DATA(work)
    cdef size_t terms
    cdef double *x = <double *> cnp.PyArray_DATA(p)
    cdef double *y = <double *> cnp.PyArray_DATA(d)
    with nogil:
        terms = fdp_gather_sums(rows, a, u, columns, b, v, square, ratios, e, place, some, x, y)
    return p, d, terms
