# Laws of noise, the arrays that draws accept, and draws; part of _core.pyx.

# ---- samplers --------------------------------------------------------------

cdef bytes _limbs(number):
    return number.to_bytes((number.bit_length() + 63) // 64 * 8, "little")


cdef tuple _ratio(fdp_ratio_t *ratio, fraction):
    """Return the limbs, which `ratio` points into."""
    cdef bytes num = _limbs(fraction.numerator), den = _limbs(fraction.denominator)
    ratio.num = <const uint64_t *> PyBytes_AsString(num)
    ratio.den = <const uint64_t *> PyBytes_AsString(den)
    ratio.nums, ratio.dens = len(num) // 8, len(den) // 8
    return num, den


@cython.final
cdef class Sampler:
    """A prepared law: the kernel's table and the law's parameter."""

    cdef fdp_sampler_t c

    def __cinit__(self):
        memset(&self.c, 0, sizeof(fdp_sampler_t))

    @staticmethod
    def laplace(scale, int64_t bound=0):
        """Discrete Laplace noise of a rational scale; |x| <= bound if bound > 0."""
        cdef Sampler self = Sampler.__new__(Sampler)
        cdef fdp_ratio_t ratio
        num, den = _ratio(&ratio, scale)
        _check(fdp_sampler_laplace(&self.c, &ratio, bound))
        return self

    @staticmethod
    def gaussian(sigma):
        """Discrete Gaussian noise of a rational sigma."""
        cdef Sampler self = Sampler.__new__(Sampler)
        cdef fdp_ratio_t ratio
        num, den = _ratio(&ratio, sigma)
        _check(fdp_sampler_gaussian(&self.c, &ratio))
        return self

    @property
    def chunk_outputs(self):
        """Outputs of one chunk."""
        return self.c.chunk_outputs

    @property
    def acceptance(self):
        """Probability that a trial gives an output."""
        return self.c.acceptance

    @property
    def bytes_per_sample(self):
        """Mean random bytes per lane in full passes, special lanes included."""
        cdef uint32_t low = self.c.law.low
        cdef size_t word = 0 if low == 0 else 2 if low <= 16 else 4 if low <= 32 else 8
        if self.c.law.tilt.slope != 0:
            return 4 + word + 16.0 * 384 / 8192
        if self.c.law.shift == 0:
            return 2 + 16.0 * 128 / 8192
        if low <= 3:
            return 4 + 32.0 * 128 / 8192
        return 4 + word + 64.0 * 128 / 8192

    @property
    def tries(self):
        """Tries of tilted digits for 8, 64, 256 and 1024 lanes and for a full pass."""
        return tuple(self.c.law.tilt.tries)

    def structure(self):
        """The prepared fdp_sampler_t, for tests that call the core themselves."""
        return PyBytes_FromStringAndSize(<char *> &self.c, sizeof(fdp_sampler_t))

    def widen(self, *, double narrow=0.0, double wide=0.0, bint sure=False,
              bint exact=True):
        """Return a copy that sends more lanes to later steps, for tests.

        `narrow` leaves 16 ranks in the lists and no tries in small calls; `wide` sends
        every special lane, or every try, to the exact steps; exact=False makes these
        fail. `sure` treats every trial as within the bound. The law stays the same.
        """
        cdef Sampler other = Sampler.__new__(Sampler)
        other.c = self.c
        if not exact:
            memset(other.c.den, 0, sizeof(other.c.den))
        if sure:
            other.c.acceptance = 1.0
            _check(fdp_sampler_prepare(&other.c))
        if narrow > 0:
            for i in range(4):
                other.c.law.slots[0][i] = other.c.law.slots[1][i] = 16
                other.c.law.tilt.tries[i] = 0
        if wide > 0:
            other.c.law.unsettled = 1
        return other


# ---- drawing ---------------------------------------------------------------

cdef fdp_dtype_t _dtype_code(cnp.ndarray array) except *:
    cdef int kind = cnp.PyArray_TYPE(array)
    if not 0 <= kind < 13 or _CODES[kind] == FDP_NONE:
        raise KeyError(kind)
    return _CODES[kind]


def dtype_supported(dtype):
    """Whether a native dtype has a kernel."""
    return dtype.isnative and dtype.num < 13 and _CODES[<int> dtype.num] != FDP_NONE


def plain(x, bint real, bint writeable=False):
    """Whether the kernels accept `x` unchanged: floats if `real`, else integers."""
    cdef int kind
    if not cnp.PyArray_CheckExact(x) or not cnp.PyArray_ISCARRAY_RO(x):
        return False
    kind = cnp.PyArray_TYPE(x)
    if real:
        known = kind == cnp.NPY_FLOAT or kind == cnp.NPY_DOUBLE
    else:
        known = kind == cnp.NPY_LONG or (cnp.NPY_BYTE <= kind <= cnp.NPY_UINT)
    return known and (not writeable or cnp.PyArray_ISWRITEABLE(x))


def flat(cnp.ndarray x, int axes=0):
    """Return a contiguous array as one axis of elements, without a copy.

    Elements are numbers, or rows over the last `axes` axes. The array has numpy's own
    class: a slice of a matrix, which stays two-dimensional, would not be a part of its
    elements, and an element read twice would be released twice.
    """
    if cnp.PyArray_CheckExact(x) and cnp.PyArray_NDIM(x) == 1 + axes:
        return x
    row = np.shape(x)[cnp.PyArray_NDIM(x) - axes:]
    return np.asarray(x).reshape(-1, *row)


def fits(out, dtype, tuple shape):
    """Whether the kernels can write into `out` as an array of this dtype and shape."""
    cdef int axis
    if not cnp.PyArray_CheckExact(out) or not cnp.PyArray_ISCARRAY(out):
        return False
    if cnp.PyArray_NDIM(out) != len(shape):
        return False
    for axis in range(cnp.PyArray_NDIM(out)):
        if cnp.PyArray_DIM(out, axis) != <Py_ssize_t> shape[axis]:
            return False
    given = <object> <PyObject *> cnp.PyArray_DESCR(out)
    return given is dtype or given == dtype


def share(cnp.ndarray x, cnp.ndarray y):
    """Whether two C-contiguous arrays have bytes in common."""
    cdef size_t a = <size_t> cnp.PyArray_DATA(x), b = <size_t> cnp.PyArray_DATA(y)
    return a < b + cnp.PyArray_NBYTES(y) and b < a + cnp.PyArray_NBYTES(x)


cdef fdp_status_t _release(const Job *job, uint64_t chunk, size_t at,
                           size_t n) noexcept nogil:
    cdef fdp_target_t target
    target.x = _data(job, at * job.x_item)
    target.x_type = job.x_type
    target.out = job.out + at * job.out_item
    target.out_type = job.out_type
    target.grid = job.grid
    return fdp_release(job.call, <const fdp_sampler_t *> job.law, chunk, n, &target)


cdef object _empty = np.empty


def fill(source, Sampler sampler, cnp.ndarray x, out, uint64_t first_chunk=0, grid=None):
    """Write x + noise (noise alone when x is None) into `out` and return it.

    The key comes from a Call, or from a new Call made from a stream or None.
    Both arrays are C-contiguous, native and of one size. `grid` is (step, low, high,
    nan) for float data. `out` may be the shape of a new array; its dtype is that of x
    for floats, else int64. A new array is not initialized: only this function, which is
    C, refers to it until every element is written, and drops it after a failure. So
    neither signal handlers nor tracebacks can see old memory.
    """
    if isinstance(out, tuple):
        out = _empty(out, _INT64_DTYPE if grid is None else x.dtype)
    cdef Job job = _job(x, out)
    cdef fdp_grid_t c_grid
    if grid is not None:
        c_grid.step, c_grid.low, c_grid.high, c_grid.nan = grid
        job.grid = &c_grid
    job.law = &sampler.c
    _draw(_release, &job, cnp.PyArray_SIZE(out), sampler.c.chunk_outputs, source,
          first_chunk)
    return out


cdef object _INT64 = np.int64
cdef cnp.dtype _INT64_DTYPE = np.dtype(np.int64)
cdef cnp.dtype _FLOAT64_DTYPE = np.dtype(np.float64)


cdef int _fill_scalar(Sampler sampler, object stream, const fdp_target_t *target) except -1:
    """Draw one value without releasing the interpreter's lock, and without a Call
    unless there is a stream: both would cost more than the draw."""
    cdef fdp_call_t c
    cdef fdp_status_t status
    cdef Call call
    if stream is None:
        _check(fdp_call_open(&c))
        status = fdp_release(&c, &sampler.c, 0, 1, target)
        fdp_call_close(&c)
        return _check(status)
    call = Call.__new__(Call, stream)
    status = fdp_release(call.key(), &sampler.c, 0, 1, target)
    fdp_call_close(&call.c)
    return _check(status)


cpdef fill_one(Sampler sampler, x, stream=None):
    """Return x + noise, saturated, as a numpy int64: the fast path for scalars.

    `x` is an int in the range of int64, or a numpy int64. A numpy int64 avoids Python's
    own integers, because their run time depends on the value.
    """
    cdef fdp_target_t target
    cdef int64_t value = 0
    if type(x) is _INT64:
        cnp.PyArray_ScalarAsCtype(x, &value)
    else:
        value = x
    memset(&target, 0, sizeof(target))
    target.x = &value
    target.x_type = FDP_I64
    target.out = &value
    target.out_type = FDP_I64
    _fill_scalar(sampler, stream, &target)
    return PyArray_Scalar(&value, _INT64_DTYPE, None)


cdef extern from "Python.h":
    # `noexcept` without a test for -1, the value for an error: the test would branch on
    # data, which may be -1.
    double float_of "PyFloat_AsDouble"(object x) noexcept


def fill_one_real(Sampler sampler, number, grid, stream=None):
    """Return a float plus noise on the grid (step, low, high, nan), as a float64."""
    if not isinstance(number, float):
        raise TypeError(f"a float is needed, got {type(number).__name__}")
    cdef double x = float_of(number)
    cdef fdp_target_t target
    cdef fdp_grid_t c_grid
    c_grid.step, c_grid.low, c_grid.high, c_grid.nan = grid
    memset(&target, 0, sizeof(target))
    target.x = &x
    target.x_type = FDP_F64
    target.out = &x
    target.out_type = FDP_F64
    target.grid = &c_grid
    _fill_scalar(sampler, stream, &target)
    return PyArray_Scalar(&x, _FLOAT64_DTYPE, None)


cdef fdp_status_t _bytes(const Job *job, uint64_t chunk, size_t at,
                         size_t n) noexcept nogil:
    return fdp_fill_bytes(job.call, chunk, n, job.out + at)


def fill_bytes(Call call, Py_ssize_t n):
    """Return n uniformly random bytes."""
    out = PyBytes_FromStringAndSize(NULL, n)
    cdef Job job
    memset(&job, 0, sizeof(job))
    job.out = <uint8_t *> PyBytes_AsString(out)
    _draw(_bytes, &job, n, FDP_BYTES_CHUNK, call)
    return out


def fill_bytes_into(Call call, cnp.ndarray out, uint64_t first_chunk=0):
    """Fill a contiguous array of any dtype with uniformly random bytes."""
    cdef Job job
    memset(&job, 0, sizeof(job))
    job.out = <uint8_t *> cnp.PyArray_DATA(out)
    _draw(_bytes, &job, cnp.PyArray_NBYTES(out), FDP_BYTES_CHUNK, call, first_chunk)


cdef fdp_status_t _integers(const Job *job, uint64_t chunk, size_t at,
                            size_t n) noexcept nogil:
    return fdp_fill_integers(job.call, <uint64_t> job.other, job.span, chunk, n,
                             <int64_t *> job.out + at)


def fill_integers(Call call, int64_t low, uint64_t span, cnp.ndarray out,
                  uint64_t first_chunk=0):
    """Fill an int64 array with uniform integers low ... low + span - 1; span 0
    means 2**64."""
    cdef Job job = _job(None, out)
    job.other, job.span = low, span
    _draw(_integers, &job, cnp.PyArray_SIZE(out), FDP_INTEGERS_CHUNK, call, first_chunk)


def fill_permutation(Call call, cnp.ndarray out):
    """Fill an int64 array with a uniform permutation of 0 ... n - 1."""
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef size_t n = cnp.PyArray_SIZE(out)
    cdef const fdp_call_t *c = call.key()
    cdef fdp_status_t status
    with nogil:
        status = fdp_fill_permutation(c, n, data)
    _check(status)
