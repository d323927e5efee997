# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True, embedsignature=False
"""The extension: converts arguments, calls the C core, maps status to errors.

Arrays arrive checked by the Python layer: contiguous, native, of a known dtype.
"""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject, PyObject_Call, PyObject_CallObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from fastdp._fdp cimport *

import _thread
from functools import update_wrapper as _update_wrapper

import numpy as np

from fastdp.exceptions import EntropyError, FastDPError, ParameterError

cdef extern from "numpy/arrayobject.h":
    object PyArray_Scalar(void *data, cnp.dtype dtype, object base)

cdef extern from *:
    """
    #ifdef __clang__
    #define FDP_COMPILER __VERSION__
    #else
    #define FDP_COMPILER "gcc " __VERSION__
    #endif
    """
    const char *FDP_COMPILER

cnp.import_array()

# Check for pending signals every SLAB chunks: every few milliseconds.
DEF SLAB = 1024
# Keep the interpreter's lock if a call writes at most this many bytes: the kernel then
# takes less time than releasing the lock and getting it back.
DEF BRIEF = 2048

# Kernel type of each numpy type number; FDP_NONE if there is no kernel. It depends on
# the system which two numbers stand for integers of the same size.
cdef fdp_dtype_t[13] _CODES
for _number, _code in enumerate("?bBhHiIlLqQfd"):
    _CODES[_number] = {
        "b1": FDP_BOOL, "i1": FDP_I8, "i2": FDP_I16, "i4": FDP_I32, "i8": FDP_I64,
        "u1": FDP_U8, "u2": FDP_U16, "u4": FDP_U32, "f4": FDP_F32, "f8": FDP_F64,
    }.get(np.dtype(_code).str[1:], FDP_NONE)


# ---- failure ---------------------------------------------------------------

def zero(cnp.ndarray out):
    """Fill an array with zeros; leave object arrays and read-only arrays unchanged.

    Nothing here runs Python code, so no signal can interrupt it.
    """
    cdef object dtype = <object> <PyObject *> cnp.PyArray_DESCR(out)
    if dtype.hasobject or not cnp.PyArray_ISWRITEABLE(out):
        return
    if cnp.PyArray_ISONESEGMENT(out):
        memset(cnp.PyArray_DATA(out), 0, cnp.PyArray_NBYTES(out))
    else:
        cnp.PyArray_CopyInto(out, _zeros((), dtype))


cdef object _zeros = np.zeros


cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object x, int *overflow) except? -1


def zero_on_failure(function, str name="out", bint integers=False):
    """Wrap `function` so that it zeros its argument `name` if it raises.

    The argument is an array or a list of arrays. The wrapper is C, which no signal and
    no tracer can interrupt, so the promise holds from the start of the call. With
    `integers`, `function` is a method that adds the noise of `_sampler` to integers; a
    single numpy int64, or Python int in its range, then takes a shorter path.
    """
    cdef Py_ssize_t place = function.__code__.co_varnames.index(name)
    cdef bint by_place = place < function.__code__.co_argcount

    def guarded(*args, **kwargs):
        cdef int beyond = 0
        if not kwargs and not (by_place and len(args) > place):
            if integers and len(args) == 2:
                alone = type(args[1]) is _INT64
                if type(args[1]) is int:
                    PyLong_AsLongLongAndOverflow(args[1], &beyond)
                    alone = beyond == 0
                if alone:
                    return fill_one(args[0]._sampler, args[1])
            return PyObject_CallObject(function, args)
        try:
            return PyObject_Call(function, args, kwargs)
        except BaseException:
            out = kwargs.get(name)
            if by_place and len(args) > place:
                out = args[place]
            for each in out if type(out) in (list, tuple) else (out,):
                if cnp.PyArray_Check(each):
                    zero(each)
            raise

    return _update_wrapper(guarded, function)


# ---- calls -----------------------------------------------------------------

@cython.final
cdef class Call:
    """The key of one call. As a context it ends the call: the key is wiped and, after
    a failure, `out` filled with zeros.

    `stream` is None for a fresh key from the operating system, or an object whose
    `_next_call()` gives (cipher, key, tape) of a fixed stream.
    """

    cdef fdp_call_t c
    cdef fdp_tape_t tape
    cdef object tape_owner
    cdef cnp.ndarray out

    def __cinit__(self, stream=None, out=None):
        self.out = out
        if stream is None:
            _check(fdp_call_open(&self.c))
        else:
            cipher, key, self.tape_owner = stream._next_call()
            self._fix(cipher, key)

    cdef _fix(self, uint32_t cipher, bytes key):
        _check(fdp_self_check())
        cdef fdp_call_t *c = &self.c
        if not fdp_cipher_available(cipher):
            raise ParameterError("cipher must be one that this machine can run")
        if len(key) != 32:
            raise ParameterError("key must have 32 bytes")
        c.stream.cipher = cipher
        memcpy(c.stream.key, PyBytes_AsString(key), 32)
        if self.tape_owner is not None:
            main, extension = self.tape_owner
            self.tape.chunks = main.shape[0]
            self.tape.main = <const uint8_t *> cnp.PyArray_DATA(main)
            self.tape.main_stride = main.shape[1]
            self.tape.ext = <const uint8_t *> cnp.PyArray_DATA(extension)
            self.tape.ext_stride = extension.shape[1]
            c.stream.tape = &self.tape

    cdef fdp_call_t *key(self) except NULL:
        """Return the open call; refuse a call that has ended."""
        if self.c.stream.cipher == 0:
            raise FastDPError("the call has ended")
        return &self.c

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        fdp_call_close(&self.c)
        if kind is not None and self.out is not None:
            zero(self.out)

    def __dealloc__(self):
        fdp_call_close(&self.c)

    def keystream(self, uint64_t chunk, uint64_t offset, Py_ssize_t n):
        """Return n bytes of a chunk's main stream from a multiple of 1024 on."""
        out = PyBytes_FromStringAndSize(NULL, n)
        fdp_call_main(self.key(), chunk, offset, <uint8_t *> PyBytes_AsString(out), n)
        return out

    def extension(self, uint64_t chunk, uint32_t trial, uint32_t block):
        """Return extension block `block` of a trial, 16 bytes."""
        out = PyBytes_FromStringAndSize(NULL, 16)
        fdp_call_extend(self.key(), chunk, trial, block,
                        <uint8_t *> PyBytes_AsString(out))
        return out


cdef int _check(fdp_status_t status) except -1:
    """Raise the error of a status."""
    if status == FDP_OK:
        return 0
    if status == FDP_ERR_ENTROPY:
        raise EntropyError("the operating system gave no randomness")
    if status == FDP_ERR_MEMORY:
        raise MemoryError("scratch memory for the noise kernels")
    if status == FDP_ERR_BUILD:
        raise FastDPError(
            "this build of fastdp does not compute exactly: build it again without "
            "-ffast-math and its kin in CFLAGS")
    if status == FDP_ERR_LEVEL:
        names = ", ".join(f'"{name}"' for name in LEVELS)
        raise ParameterError(f"FASTDP_CPU must be one of {names} if it is set")
    if status == FDP_ERR_RESOLVER:
        raise FastDPError(
            "8,192 bits of precision do not decide: use parameters of fewer digits")
    raise FastDPError(f"the C core failed with status {<int> status}")


# ---- the driver ------------------------------------------------------------

# Arguments of a kernel except the range to work on. `x` may be NULL; `x_item` and
# `out_item` are the sizes of an element in bytes.
cdef struct Job:
    const fdp_call_t *call
    const void *law
    const uint8_t *x
    uint8_t *out
    size_t x_item, out_item, out_bytes
    fdp_dtype_t x_type, out_type
    const fdp_grid_t *grid
    int64_t other
    uint64_t span
    const fdp_call_t *open
    const fdp_response_t *labeling
    size_t width, columns
    const int64_t *label
    int64_t *count
    int64_t *square

# Draws or counts elements at, ..., at + n - 1, which start with chunk `chunk`.
ctypedef fdp_status_t (*Kernel)(const Job *job, uint64_t chunk, size_t at,
                                size_t n) noexcept nogil


cdef int _drive(Kernel kernel, Job *job, size_t n, size_t chunk, size_t together,
                uint64_t first_chunk) except -1:
    """Run a kernel over n elements and check for pending signals after every
    `together` chunks, some milliseconds. A brief call that draws keeps the
    interpreter's lock."""
    cdef size_t done = 0, part, slab = together * chunk
    cdef fdp_status_t status
    if together == SLAB and 0 < job.out_bytes <= BRIEF:
        return _check(kernel(job, first_chunk, 0, n))
    while done < n:
        part = n - done if n - done < slab else slab
        with nogil:
            status = kernel(job, first_chunk + done // chunk, done, part)
        _check(status)
        done += part
        if done < n:
            PyErr_CheckSignals()
    return 0


cdef int _draw(Kernel kernel, Job *job, size_t n, size_t chunk, source,
               uint64_t first_chunk=0) except -1:
    """Run a kernel that draws under a Call, or under a new key from a stream (None:
    the operating system) that is wiped at the end."""
    cdef fdp_call_t c
    cdef Call call
    if chunk == 0:
        raise FastDPError("the sampler has no law")
    if type(source) is Call:
        call = source
        job.call = call.key()
        return _drive(kernel, job, n, chunk, SLAB, first_chunk)
    try:
        if source is not None:
            call = Call(source)
            job.call = call.key()
            return _drive(kernel, job, n, chunk, SLAB, first_chunk)
        _check(fdp_call_open(&c))
        job.call = &c
        try:
            return _drive(kernel, job, n, chunk, SLAB, first_chunk)
        finally:
            fdp_call_close(&c)
    except BaseException:
        memset(job.out, 0, job.out_bytes)
        raise


cdef Job _job(cnp.ndarray x, cnp.ndarray out) except *:
    """The arrays of a job."""
    cdef Job job
    memset(&job, 0, sizeof(job))
    if x is not None:
        job.x = <const uint8_t *> cnp.PyArray_DATA(x)
        job.x_item = cnp.PyArray_ITEMSIZE(x)
        job.x_type = _dtype_code(x)
    job.out = <uint8_t *> cnp.PyArray_DATA(out)
    job.out_item = cnp.PyArray_ITEMSIZE(out)
    job.out_bytes = cnp.PyArray_NBYTES(out)
    job.out_type = _dtype_code(out)
    return job


cdef const uint8_t *_data(const Job *job, size_t at) noexcept nogil:
    if job.x == NULL:
        return NULL
    return job.x + at


@cython.final
cdef class _Seat:
    """A task on its own thread."""

    cdef object task
    cdef list errors
    cdef object done

    def __cinit__(self, task, list errors):
        self.task, self.errors = task, errors
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def __call__(self):
        try:
            self.task()
        except BaseException as error:
            self.errors.append(error)
        self.done.release()

    cdef _wait(self):
        while True:  # a signal's handler may raise instead of waiting
            try:
                self.done.acquire()
                return
            except BaseException as error:
                self.errors.append(error)


def run(list tasks):
    """Run the tasks, the first here and the others on their own threads.

    No task is running when this returns or raises, even after a signal, so the caller
    can clean up memory that no task touches.
    """
    cdef list errors = [], seats = []
    cdef _Seat seat
    try:
        for task in tasks[1:]:
            seat = _Seat(task, errors)
            _thread.start_new_thread(seat, ())
            seats.append(seat)
        tasks[0]()
    except BaseException as error:
        errors.append(error)
    for seat in seats:
        seat._wait()
    if errors:
        raise errors[0]


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
        """Tries of tilted digits computed for 8 lanes, 64, 1024, and a full pass."""
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


# ---- machine ---------------------------------------------------------------

INTEGERS_CHUNK = FDP_INTEGERS_CHUNK
CIPHERS = {
    "chacha20": FDP_CIPHER_CHACHA20,
    "aes": FDP_CIPHER_AES256,
    "tape": FDP_CIPHER_TAPE,
}


cdef dict _levels():
    """Return fdp_cpu_limit's argument for each known CPU level, lowest first."""
    cdef uint32_t mask = 0
    cdef size_t rank = 0
    cdef const char *name = fdp_cpu_name(rank, &mask)
    cdef dict masks = {}
    while name != NULL:
        masks[name.decode()] = mask
        rank += 1
        name = fdp_cpu_name(rank, &mask)
    return masks


cdef dict _LEVELS = _levels()
LEVELS = tuple(_LEVELS)


def config():
    """Return the CPU level, the cipher of the secure default and the compiler."""
    cdef dict names = {value: name for name, value in CIPHERS.items()}
    _check(fdp_self_check())
    return {
        "cpu": fdp_cpu_level().decode(),
        "cipher": names[fdp_cipher_default()],
        "compiler": FDP_COMPILER.decode(),
    }


def cipher_available(str cipher):
    """Whether this machine can run the cipher at the current level."""
    return bool(fdp_cipher_available(CIPHERS[cipher]))


def limit_cpu(level=None):
    """For tests: lower the CPU level (None restores it); return the current level."""
    fdp_cpu_limit(0xFFFFFFFF if level is None else <uint32_t> _LEVELS[level])
    return fdp_cpu_level().decode()


def derive_key(bytes key, uint64_t index):
    """Return the key of call `index` of a fixed stream: 32 bytes."""
    if len(key) != 32:
        raise ParameterError("key must have 32 bytes")
    out = PyBytes_FromStringAndSize(NULL, 32)
    fdp_stream_derive(<uint8_t *> PyBytes_AsString(out),
                      <const uint8_t *> PyBytes_AsString(key), index)
    return out


# ---- local randomizers -----------------------------------------------------

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


# ---- further parts of this module -------------------------------------------

include "_core_selection.pxi"
include "_core_records.pxi"
include "_core_domains.pxi"
include "_core_arrow.pxi"
