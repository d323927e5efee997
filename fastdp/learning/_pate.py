"""PATE: a student that learns from noisy votes of teachers on public records."""

from __future__ import annotations

import copy
import hashlib
import random
import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fastdp import _validate
from fastdp._doorway import one_index
from fastdp._stream import Stream
from fastdp._validate import Real
from fastdp.accounting.events import NeighboringRelation, Relation
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.learning._base import Array, Estimator, matrix
from fastdp.learning._logistic import checked_classes, coded
from fastdp.ledger import Ledger
from fastdp.mechanisms import DiscreteGaussian, DiscreteLaplace
from fastdp.tables import Rows

#: Share of the budget for the tests, if only some queries are answered.
_TESTS = Fraction(3, 40)

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE


class PATE(Estimator):
    """A student trained on public records with labels from noisy teachers' votes.

    The records are dealt to teachers, each trained on its own part. For each record of
    the public pool every teacher votes for a class, and the class with the most votes
    after noise becomes the label. The student learns only from these labels.

    Parameters
    ----------
    teacher : object with fit(X, y) and predict(X)
        A classifier, trained or not: each teacher is a copy of it.
    teachers : int
        Number of teachers, in [1, 2**20].
    pool : array of numbers, shape (queries, features)
        Public records to be labeled.
    classes : sequence of int, float, bool or str
        Public list of all classes, two or more. Records of other classes are left out.
    unit, neighboring_relation, epsilon, delta, rho
        As in `LinearRegression`.
    answers : int, optional
        Maximum number of labels to release: each query's largest count is first tested
        with noise, and the first queries that pass are answered. None answers all
        queries.
    threshold : int, optional
        With `answers`: number of votes that the noisy largest count must reach.
    student : object with fit(X, y) and predict(X), optional
        Learns from the labeled pool; None takes a copy of the teacher.

    Attributes
    ----------
    student_ : object
        The trained student; None if all labels have the same class, which `predict`
        then returns.
    answered_ : ndarray of int64
        Places in the pool of the queries that were answered.
    labels_ : ndarray
        Labels of the answered queries.
    classes_ : ndarray
    n_features_in_ : int

    Privacy
    -------
    Each `fit` has the guarantee of `event()`, exactly, for all possible votes. A record
    belongs to one teacher, chosen by its place in `X` if records are replaced and
    otherwise by its own features, so that no record moves another. So a record changes
    one vote on each query: two counts by at most 1, and the largest count by at most 1.
    All counts are released with integer noise; labels and student follow from them.

    This holds if a teacher's votes depend only on its own records. Each copy is fitted
    separately, with the global generators of `random` and `numpy.random` seeded by the
    teacher's number; numpy's error settings are restored. **A teacher must keep no
    other state that copies share**, such as a file, and must print and log nothing. A
    teacher that fails on its records, or exits, votes for no class. A record with NaN
    or an infinity, or without a class, is left out. Timing class T0.

    References
    ----------
    Papernot, Abadi, Erlingsson, Goodfellow, Talwar, "Semi-supervised knowledge transfer
    for deep learning from private training data", ICLR 2017. Papernot, Song, Mironov,
    Raghunathan, Talwar, Erlingsson, "Scalable private learning with PATE", ICLR 2018.
    docs/learning.md.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp.learning import PATE
    >>> class Threshold:
    ...     def fit(self, x, y):
    ...         self.middle = (x[y == 0].mean() + x[y == 1].mean()) / 2
    ...     def predict(self, x):
    ...         return (x[:, 0] > self.middle).astype(int)
    >>> x = np.linspace(-1, 1, 10_000)[:, None]
    >>> model = PATE(
    ...     Threshold(),
    ...     teachers=100,
    ...     pool=np.linspace(-1, 1, 20)[:, None],
    ...     classes=[0, 1],
    ...     unit="row",
    ...     neighboring_relation="replace_one",
    ...     rho=0.5,
    ... )
    >>> model.fit(x, x[:, 0] > 0).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    _estimator_type: ClassVar[str | None] = "classifier"

    student_: Any
    answered_: Array
    labels_: Array
    classes_: Array

    def __init__(
        self,
        teacher: Any,
        *,
        teachers: int,
        pool: Any,
        classes: Sequence[Any],
        unit: Rows | str,
        neighboring_relation: Relation,
        epsilon: Real | None = None,
        delta: Real | None = None,
        rho: Real | None = None,
        answers: int | None = None,
        threshold: int | None = None,
        student: Any = None,
    ) -> None:
        self.teacher = teacher
        self.teachers = teachers
        self.pool = pool
        self.classes = classes
        self.unit = unit
        self.neighboring_relation = neighboring_relation
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.answers = answers
        self.threshold = threshold
        self.student = student

    def _known_features(self) -> int:
        return int(self._public()[0].shape[1])

    def _public(self) -> tuple[Array, int, int]:
        """Return the pool, the number of teachers and the maximum number of answers."""
        pool = matrix(self.pool)
        if not len(pool) or not np.isfinite(pool).all():
            raise ParameterError("pool must have a record, and finite numbers")
        teachers = _validate.integer("teachers", self.teachers, 1, 2**20)
        for name in ("teacher", "student"):
            model = getattr(self, name)
            if not (hasattr(model, "fit") and hasattr(model, "predict")):
                if model is None and name == "student":
                    continue
                raise DTypeError(f"{name} must have fit(X, y) and predict(X)")
        if (self.answers is None) is not (self.threshold is None):
            raise ParameterError("answers and threshold must be given together")
        if self.answers is None:
            return pool, teachers, len(pool)
        _validate.integer("threshold", self.threshold, 0, 2**20)
        return pool, teachers, _validate.integer("answers", self.answers, 1, len(pool))

    def _mechanisms(self, features: int) -> tuple[Any, ...]:
        pool, _, answers = self._public()
        changes = [2 * answers]  # of counts, each by 1
        shares = [Fraction(1)]
        if self.answers is not None:
            changes, shares = [len(pool), *changes], [_TESTS, 1 - _TESTS]
        if self._norm == 1:
            shapes = [{"sensitivity": count} for count in changes]
            return self._made(shares, shapes, [DiscreteLaplace] * len(changes))
        shapes = [{"squared_sensitivity": c, "coordinates": c} for c in changes]
        return self._made(shares, shapes, [DiscreteGaussian] * len(changes))

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        ledger: Ledger | None = None,
        label: str | None = None,
        budgets: str | Iterable[str] | None = None,
        stream: Stream | None = None,
    ) -> Self:
        """Train teachers, release noisy votes on the pool, and train the student.

        Parameters, errors and privacy are as in `LinearRegression.fit`, with two
        exceptions: `y` holds classes, and errors that the teacher or the student raises
        on public records are passed on. In a ledger, tests and votes have separate
        labels: `label` followed by "1/2" and by "2/2".
        """
        pool, _, answers = self._public()
        classes = checked_classes(self.classes)
        self._rehearse(pool, classes)
        x, codes = self._records(X, y)
        fitting = self._fitting(x.shape[1], ledger, label, budgets, stream)
        votes = self._counted(x, codes)
        answered = np.arange(len(pool))
        if self.threshold is not None:
            tests = fitting.draw(0, fitting.mechanisms[0], votes.max(axis=1))
            answered = np.flatnonzero(tests >= self.threshold)[:answers]
        last = len(fitting.mechanisms) - 1
        noisy = fitting.draw(last, fitting.mechanisms[last], votes[answered])
        labels = np.array(classes)[noisy.argmax(axis=1)]
        student = None
        if len(set(labels.tolist())) > 1:
            model = self.teacher if self.student is None else self.student
            student = copy.deepcopy(model)
            student.fit(pool[answered], labels)
        learned = {"student_": student, "answered_": answered, "labels_": labels}
        return self._keep(X, x.shape[1], **learned, classes_=np.array(classes))

    def votes(self, X: Any, y: Any) -> Array:
        """Return the counts of the teachers' votes, **without noise**.

        The counts are as secret as the records. They are for the vote-dependent cost
        `calculators`, which hold for the real-valued noise of `fastdp.noisy_argmax`.

        Returns
        -------
        ndarray of int64, shape (queries, classes)
        """
        self._public()
        return self._counted(*self._records(X, y))

    def _records(self, X: Any, y: Any) -> tuple[Array, Array]:
        one_index(X=X, y=y)
        x = self._entered(X)
        wanted = self._known_features()
        if x.shape[1] != wanted:
            raise ParameterError(
                f"X must have {wanted} features, as pool has, got {x.shape[1]}"
            )
        return x, coded(y, checked_classes(self.classes), len(x))

    def _rehearse(self, pool: Array, classes: list[Any]) -> None:
        """Try teacher and student on public records, to raise errors before the fit."""
        rows = np.resize(pool, (max(len(pool), 2 * len(classes)), pool.shape[1]))
        labels = np.array(classes)[np.arange(len(rows)) % len(classes)]
        for name in ("teacher", "student"):
            model = getattr(self, name)
            if model is None:
                continue
            if copy.deepcopy(model) is model:
                raise DTypeError(
                    f"{name} must not be its own copy.deepcopy, as a class or a module "
                    "is: give an object that copies can change by themselves"
                )
            _votes_of(model, 0, rows, labels, pool, classes)

    def _counted(self, x: Array, codes: Array) -> Array:
        """Return the votes of all teachers, shape (queries, classes)."""
        pool, teachers, _ = self._public()
        classes = checked_classes(self.classes)
        dealt = np.arange(len(x)) % teachers
        if self._relation is ADD:
            dealt = np.array([_key(row) for row in x], np.int64) % teachers
        dealt[~np.isfinite(x).all(axis=1) | (codes < 0)] = teachers  # left out
        order = np.argsort(dealt, kind="stable")
        ends = np.searchsorted(dealt[order], np.arange(1, teachers + 1))
        parts = np.split(order, ends)
        names = np.array(classes)
        counts = np.zeros((len(pool), len(classes)), np.int64)
        for k, own in enumerate(parts[:teachers]):
            try:
                with warnings.catch_warnings():  # their texts may show records
                    warnings.simplefilter("ignore")
                    part = x[own], names[codes[own]]
                    found = _votes_of(self.teacher, k, *part, pool, classes)
            except (Exception, SystemExit):  # whose text may show records too
                continue
            counts[found >= 0, found[found >= 0]] += 1
        return counts

    def predict(self, X: Any) -> Array:
        """Return the student's class of each record, shape (n,)."""
        x = self._entered(X, fitted=True)
        if self.student_ is not None:
            return np.asarray(self.student_.predict(x))
        only = self.labels_[0] if len(self.labels_) else self.classes_[0]
        return np.full(len(x), only)

    def score(self, X: Any, y: Any) -> float:
        """Return the share of records whose class is predicted, without noise."""
        found = self.predict(X)
        classes = checked_classes(self.classes)
        codes = coded(y, classes, len(found))
        return float((codes == coded(found, classes, len(found))).mean())


def _votes_of(
    teacher: Any, seed: int, x: Array, y: Array, pool: Array, classes: list[Any]
) -> Array:
    """Return the class of each query by a copy of a teacher, fitted to records.

    scikit-learn's models draw from numpy's global generator, other models from
    Python's: both generators are seeded, so that no teacher depends on draws of other
    teachers, and then restored. Each teacher has its own copy of the pool, which it may
    change.
    """
    state, other = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        with np.errstate():
            trained = copy.deepcopy(teacher)
            trained.fit(x, y)
            return coded(trained.predict(pool.copy()), classes, len(pool))
    finally:
        np.random.set_state(state)  # noqa: NPY002
        random.setstate(other)


def _key(row: Array) -> int:
    """Return a number that depends only on a record's features."""
    digest = hashlib.blake2b(row.tobytes(), digest_size=7).digest()
    return int.from_bytes(digest, "little")
