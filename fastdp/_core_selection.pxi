# Private selection: laws of choice and the calls that choose; part of _core.pyx.

SELECT_CHUNK = FDP_SELECT_CHUNK
SELECT_MOST = FDP_SELECT_MOST
RACES = {
    "gumbel": FDP_RACE_GUMBEL,
    "laplace": FDP_RACE_LAPLACE,
    "gaussian": FDP_RACE_GAUSSIAN,
}


def propose_tolerance(double spread):
    """Return a bound on the error of a try's acceptance: selection.md, section 4."""
    return 2.0**-44 + 2.0**-51 * spread


@cython.final
cdef class Selection:
    """A law of choice: rate and tolerance of the kernels, and the noise of a race.

    `weights` is None or (mantissa, exponent, top), float64 arrays of n or rows * n
    entries, as in fastdp.h; exponent None: doubles, of which `top` is the largest place.
    `fine` is the rate for inversion as fine_rate and fine_place in fastdp.h, or None.
    """

    cdef fdp_selection_t c
    cdef object mantissa
    cdef object exponent
    cdef int32_t top

    def __cinit__(self, double rate, double tolerance, noise=None, weights=None,
                  fine=None):
        self.c.rate = rate
        self.c.fine_rate[0], self.c.fine_rate[1], self.c.fine_place = fine or (0, 0, 0)
        self.c.tolerance = tolerance
        self.c.noise = <fdp_race_t> <int> RACES[noise or "gumbel"]
        self.mantissa, self.exponent, self.top = weights or (None, None, 0)

    cdef fdp_candidates_t _of(self, cnp.ndarray scores, size_t first_row) except *:
        """The rows of a C-contiguous matrix of float64 or int64, from a row on."""
        cdef fdp_candidates_t c
        c.rows = cnp.PyArray_DIM(scores, 0)
        c.n = cnp.PyArray_DIM(scores, 1)
        c.score = cnp.PyArray_DATA(scores)
        c.type = FDP_I64 if cnp.PyArray_TYPE(scores) == cnp.NPY_INT64 else FDP_F64
        c.mantissa = c.exponent = NULL
        c.weight_top = self.top
        c.weight_stride = 0
        if self.mantissa is not None:
            c.mantissa = <const double *> cnp.PyArray_DATA(self.mantissa)
            if self.exponent is not None:
                c.exponent = <const double *> cnp.PyArray_DATA(self.exponent)
            if <size_t> cnp.PyArray_SIZE(self.mantissa) > c.n:
                c.weight_stride = c.n
                c.mantissa += first_row * c.n
                if c.exponent != NULL:
                    c.exponent += first_row * c.n
        return c


cdef bint _is_vector(x):
    """Tell whether `x` is a one-dimensional, contiguous array of float64, not empty."""
    if not cnp.PyArray_CheckExact(x):
        return False
    cdef cnp.ndarray array = x
    return (cnp.PyArray_NDIM(array) == 1 and cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE
            and cnp.PyArray_ISCARRAY_RO(array) and cnp.PyArray_SIZE(array) > 0)


def weights_range(cnp.ndarray weights):
    """Return (top, spread) of a contiguous array of float64, as `Weights` has them.

    None if a weight is below 0, infinite or no number.
    """
    cdef int32_t top
    cdef double spread
    cdef fdp_status_t status = fdp_weights_range(
        <const double *> cnp.PyArray_DATA(weights), cnp.PyArray_SIZE(weights), &top, &spread)
    return None if status != FDP_OK else (top, spread)


def select_one(Selection law, scores, weights, resolver, stream=None, bint flip=False):
    """Return one choice by proposals, or by flips, as a numpy int64: the short way.

    None unless `scores`, and `weights` if not None, are one-dimensional, contiguous
    arrays of float64 of one length, not empty, and the weights are valid.
    `resolver(scores, weights, words, block)` settles the choice as in
    `select_proposed`, or the flip as in `select_flipped`.
    """
    cdef Call call
    cdef Keyed keyed
    cdef fdp_candidates_t candidates
    cdef fdp_selection_t c
    cdef fdp_status_t status
    cdef int64_t chosen
    cdef double spread
    if not _is_vector(scores):
        return None
    cdef cnp.ndarray array = scores
    candidates.rows = 1
    candidates.n = cnp.PyArray_SIZE(array)
    candidates.score = cnp.PyArray_DATA(array)
    candidates.type = FDP_F64
    candidates.mantissa = candidates.exponent = NULL
    candidates.weight_top = 0
    candidates.weight_stride = 0
    c = law.c
    if weights is not None:
        if not _is_vector(weights) or cnp.PyArray_SIZE(weights) != cnp.PyArray_SIZE(array):
            return None
        candidates.mantissa = <const double *> cnp.PyArray_DATA(weights)
        if fdp_weights_range(candidates.mantissa, candidates.n, &candidates.weight_top,
                             &spread) != FDP_OK:
            return None
        c.tolerance = propose_tolerance(spread)
    settle = lambda words, block: resolver(array, weights, words, block)
    c.owner = <void *> settle
    if stream is None:
        _open(&keyed)
        with nogil:
            status = (fdp_select_flipped if flip else fdp_select_proposed)(
                &keyed.c, &c, &candidates, 0, &chosen)
        fdp_call_close(&keyed.c)
        _check(status, &keyed)
    else:
        with Call(stream) as call:
            status = (fdp_select_flipped if flip else fdp_select_proposed)(
                call.key(), &c, &candidates, 0, &chosen)
            _check(status, &call.keyed)
    return PyArray_Scalar(&chosen, _INT64_DTYPE, None)


def select_proposed(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                    resolver, size_t first_row=0):
    """Fill `out` with a choice from each row of `scores`.

    `resolver((row, point, acceptance, point, acceptance), block)` settles row
    `first_row` and on, from the words of its two tries.
    """
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef fdp_selection_t c = law.c
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    c.owner = <void *> resolver
    with nogil:
        status = fdp_select_proposed(key, &c, &candidates, first_row, data)
    _check(status, &call.keyed)


def select_flipped(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                   resolver, size_t first_row=0):
    """Fill `out` with a choice from each row of `scores` by permute-and-flip.

    `resolver((word, row, i), block)` settles a flip as 0 or 1, and
    `resolver((word, count, 2**64 - 1), block)` the choice among so many.
    """
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef fdp_selection_t c = law.c
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    c.owner = <void *> resolver
    with nogil:
        status = fdp_select_flipped(key, &c, &candidates, first_row, data)
    _check(status, &call.keyed)


def select_inverse(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                   resolver, size_t first_row=0):
    """Fill the rows of `out` with choices without replacement from those of `scores`.

    `resolver((word, row, j), block)` settles choice j of row `first_row` and on.
    """
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef size_t k = cnp.PyArray_DIM(out, 1)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef fdp_selection_t c = law.c
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    c.owner = <void *> resolver
    with nogil:
        status = fdp_select_inverse(key, &c, &candidates, first_row, k, data)
    _check(status, &call.keyed)


def select_race(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out, resolver,
                size_t first_row=0, uint64_t first=0):
    """Fill `out` with the winner of each row's race, from draw `first` on.

    `resolver` is told the contenders of a row one by one, as (word, draw, second
    word), and asked for the winner by (first draw of the row, 2**64 - 1, 0).
    """
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef uint64_t draw = first + first_row * candidates.n
    cdef fdp_selection_t c = law.c
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    c.owner = <void *> resolver
    with nogil:
        status = fdp_select_race(key, &c, &candidates, draw, data)
    _check(status, &call.keyed)


def race_keys(Call call, Selection law, cnp.ndarray scores, cnp.ndarray low,
              cnp.ndarray high, size_t first_row=0):
    """Fill `low` and `high` with bounds of the race's keys."""
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef double *lower = <double *> cnp.PyArray_DATA(low)
    cdef double *upper = <double *> cnp.PyArray_DATA(high)
    cdef uint64_t draw = first_row * candidates.n
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    with nogil:
        status = fdp_race_keys(key, &law.c, &candidates, draw, lower, upper)
    _check(status, &call.keyed)
