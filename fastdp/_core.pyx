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

from fastdp cimport *

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


include "_core_noise.pxi"


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


# ---- further parts of this module -------------------------------------------

include "_core_local.pxi"
include "_core_selection.pxi"
include "_core_records.pxi"
include "_core_domains.pxi"
include "_core_arrow.pxi"
