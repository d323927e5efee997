# Private selection: laws of choice and the calls that choose; part of _core.pyx.

SELECT_CHUNK = FDP_SELECT_CHUNK
SELECT_MOST = FDP_SELECT_MOST
RACES = {
    "gumbel": FDP_RACE_GUMBEL,
    "laplace": FDP_RACE_LAPLACE,
    "gaussian": FDP_RACE_GAUSSIAN,
}


@cython.final
cdef class Ratios:
    """Positive rational numbers as an array of fdp_ratio_t."""

    cdef cnp.ndarray table
    cdef list limbs

    def __cinit__(self, list numbers):
        self.table = np.zeros((len(numbers), sizeof(fdp_ratio_t)), np.uint8)
        cdef fdp_ratio_t *ratio = <fdp_ratio_t *> cnp.PyArray_DATA(self.table)
        self.limbs = [_ratio(&ratio[i], number) for i, number in enumerate(numbers)]


@cython.final
cdef class Selection:
    """The law of a choice: its exact rate, and the noise that the scores get.

    `weights` is None or (mantissa, exponent, top, spread, exact), float64 arrays of n
    or rows * n entries, as in fastdp.h. If `exponent` is None, the mantissas are the
    weights and `top` is their largest binary exponent. `exact` is a Ratios or None.
    """

    cdef fdp_selection_t c
    cdef object mantissa
    cdef object exponent
    cdef Ratios exact
    cdef int32_t top
    cdef double spread

    def __cinit__(self, rate, noise=None, weights=None):
        cdef fdp_ratio_t ratio
        num, den = _ratio(&ratio, rate)
        _check(fdp_selection_make(&self.c, &ratio,
                                  <fdp_race_t> <int> RACES[noise or "gumbel"]))
        self.mantissa, self.exponent, self.top, self.spread, self.exact = (
            weights or (None, None, 0, 0.0, None))

    def structure(self):
        """The prepared fdp_selection_t, for tests that call the core themselves."""
        return PyBytes_FromStringAndSize(<char *> &self.c, sizeof(fdp_selection_t))

    def widen(self, double tolerance=0.0, *, bint fine=True, bint exact=True):
        """Return a copy that sends more cases to the exact steps, for tests.

        fine=False skips the step of 128 bits; exact=False makes the last step fail. The
        law stays the same.
        """
        cdef Selection other = Selection.__new__(Selection, 1)
        other.c = self.c
        other.c.tolerance = tolerance
        if not fine:
            other.c.fine_rate[0] = 0
        if not exact:
            memset(other.c.den, 0, sizeof(other.c.den))
        other.mantissa, other.exponent, other.exact = self.mantissa, self.exponent, self.exact
        other.top, other.spread = self.top, self.spread
        return other

    cdef fdp_candidates_t _of(self, cnp.ndarray scores, size_t first_row) except *:
        """The rows of a C-contiguous matrix of float64 or int64, from a row on."""
        cdef fdp_candidates_t c
        c.rows = cnp.PyArray_DIM(scores, 0)
        c.n = cnp.PyArray_DIM(scores, 1)
        c.score = cnp.PyArray_DATA(scores)
        c.type = FDP_I64 if cnp.PyArray_TYPE(scores) == cnp.NPY_INT64 else FDP_F64
        c.mantissa = c.exponent = NULL
        c.weight = NULL
        c.weight_top = self.top
        c.weight_spread = self.spread
        c.weight_stride = 0
        if self.mantissa is not None:
            c.mantissa = <const double *> cnp.PyArray_DATA(self.mantissa)
            if self.exponent is not None:
                c.exponent = <const double *> cnp.PyArray_DATA(self.exponent)
            if self.exact is not None:
                c.weight = <const fdp_ratio_t *> cnp.PyArray_DATA(self.exact.table)
            if <size_t> cnp.PyArray_SIZE(self.mantissa) > c.n:
                c.weight_stride = c.n
                c.mantissa += first_row * c.n
                if c.exponent != NULL:
                    c.exponent += first_row * c.n
                if c.weight != NULL:
                    c.weight += first_row * c.n
        return c


cdef bint _is_vector(x):
    """Whether `x` is a nonempty, one-dimensional, contiguous array of float64."""
    if not cnp.PyArray_CheckExact(x):
        return False
    cdef cnp.ndarray array = x
    return (cnp.PyArray_NDIM(array) == 1 and cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE
            and cnp.PyArray_ISCARRAY_RO(array) and cnp.PyArray_SIZE(array) > 0)


def weights_range(cnp.ndarray weights):
    """Return (top, spread) of a contiguous array of float64, as in `Weights`.

    None if a weight is negative, infinite or NaN.
    """
    cdef int32_t top
    cdef double spread
    cdef fdp_status_t status = fdp_weights_range(
        <const double *> cnp.PyArray_DATA(weights), cnp.PyArray_SIZE(weights), &top, &spread)
    return None if status != FDP_OK else (top, spread)


def select_one(Selection law, scores, weights, stream=None, bint flip=False):
    """Return one choice by proposals, or by flips, as a numpy int64: the fast path.

    None unless `scores`, and `weights` if not None, are nonempty, one-dimensional,
    contiguous arrays of float64 of the same length, and the weights are valid.
    """
    cdef Call call
    cdef fdp_call_t c
    cdef fdp_candidates_t candidates
    cdef fdp_status_t status
    cdef int64_t chosen
    if not _is_vector(scores):
        return None
    cdef cnp.ndarray array = scores
    memset(&candidates, 0, sizeof(candidates))
    candidates.rows = 1
    candidates.n = cnp.PyArray_SIZE(array)
    candidates.score = cnp.PyArray_DATA(array)
    candidates.type = FDP_F64
    if weights is not None:
        if not _is_vector(weights) or cnp.PyArray_SIZE(weights) != cnp.PyArray_SIZE(array):
            return None
        candidates.mantissa = <const double *> cnp.PyArray_DATA(weights)
        if fdp_weights_range(candidates.mantissa, candidates.n, &candidates.weight_top,
                             &candidates.weight_spread) != FDP_OK:
            return None
    if stream is None:
        _check(fdp_call_open(&c))
        with nogil:
            status = (fdp_select_flipped if flip else fdp_select_proposed)(
                &c, &law.c, &candidates, 0, &chosen)
        fdp_call_close(&c)
        _check(status)
    else:
        with Call(stream) as call:
            status = (fdp_select_flipped if flip else fdp_select_proposed)(
                call.key(), &law.c, &candidates, 0, &chosen)
            _check(status)
    return PyArray_Scalar(&chosen, _INT64_DTYPE, None)


ctypedef fdp_status_t (*Select)(const fdp_call_t *, const fdp_selection_t *,
                                const fdp_candidates_t *, uint64_t, int64_t *) noexcept nogil


cdef int _select(Select select, Call call, Selection law, cnp.ndarray scores,
                 cnp.ndarray out, size_t first_row, uint64_t number) except -1:
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    with nogil:
        status = select(key, &law.c, &candidates, number, data)
    return _check(status)


def select_proposed(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                    size_t first_row=0):
    """Fill `out` with a choice from each row of `scores`; the rows' numbers start with
    `first_row`."""
    _select(fdp_select_proposed, call, law, scores, out, first_row, first_row)


def select_flipped(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                   size_t first_row=0):
    """Fill `out` with a choice from each row of `scores` by permute-and-flip."""
    _select(fdp_select_flipped, call, law, scores, out, first_row, first_row)


def select_race(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                size_t first_row=0, uint64_t first=0):
    """Fill `out` with the winner of each row's race, from draw `first` on."""
    _select(fdp_select_race, call, law, scores, out, first_row,
            first + first_row * cnp.PyArray_DIM(scores, 1))


def select_inverse(Call call, Selection law, cnp.ndarray scores, cnp.ndarray out,
                   size_t first_row=0):
    """Fill each row of `out` with choices without replacement from `scores`' row."""
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef size_t k = cnp.PyArray_DIM(out, 1)
    cdef int64_t *data = <int64_t *> cnp.PyArray_DATA(out)
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    with nogil:
        status = fdp_select_inverse(key, &law.c, &candidates, first_row, k, data)
    _check(status)


def race_ahead(Call call, Selection law, tuple one, tuple other):
    """Return whether the first of two candidates is ahead.

    Each is (scores, row, i, draw): candidate i of the only row of `scores`, which has
    the weights of row `row`.
    """
    cdef fdp_candidates_t[2] known
    cdef uint64_t[2] draw
    cdef size_t at
    cdef int j, ahead
    for j, (scores, row, i, number) in enumerate((one, other)):
        known[j] = law._of(scores, row)
        at, draw[j] = i, number
        known[j].n = 1
        known[j].score = <const uint64_t *> known[j].score + at
        if known[j].mantissa != NULL:
            known[j].mantissa += at
        if known[j].exponent != NULL:
            known[j].exponent += at
        if known[j].weight != NULL:
            known[j].weight += at
    _check(fdp_race_ahead(call.key(), &law.c, &known[0], &known[1], draw, &ahead))
    return ahead != 0


def race_keys(Call call, Selection law, cnp.ndarray scores, cnp.ndarray low,
              cnp.ndarray high, size_t first_row=0):
    """Fill `low` and `high` with bounds on the race's keys."""
    cdef fdp_candidates_t candidates = law._of(scores, first_row)
    cdef double *lower = <double *> cnp.PyArray_DATA(low)
    cdef double *upper = <double *> cnp.PyArray_DATA(high)
    cdef uint64_t draw = first_row * candidates.n
    cdef const fdp_call_t *key = call.key()
    cdef fdp_status_t status
    with nogil:
        status = fdp_race_keys(key, &law.c, &candidates, draw, lower, upper)
    _check(status)
