"""Private selection by the largest noisy score."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from fastdp import _core, _selection, _validate
from fastdp._selection import Noise
from fastdp._stream import Stream, check_stream
from fastdp._validate import Real
from fastdp.accounting.events import (
    Event,
    ExponentialMechanismEvent,
    NeighboringRelation,
    PermuteAndFlipEvent,
    Relation,
)
from fastdp.exceptions import ParameterError
from fastdp.mechanisms.choices.selection import ADD, Selection, choice_of


class _Race(Selection):
    """A selection of the candidate with the largest c score + noise."""

    __slots__ = ("_law",)

    _law: _core.Selection

    def _freeze_selection(self, *arguments: Any, **more: Any) -> None:
        super()._freeze_selection(*arguments, **more)
        self._freeze(_law=_core.Selection(self._rate))

    @property
    @abstractmethod
    def _noise(self) -> Literal["exponential", "laplace", "gumbel"]: ...

    def select(
        self,
        scores: Any,
        *,
        axis: int = -1,
        stream: Stream | None = None,
        workers: int = 1,
    ) -> Any:
        """Return the index of a candidate.

        Parameters
        ----------
        scores, axis, stream, workers
            As in `ExponentialMechanism.select`.

        Returns
        -------
        numpy.int64 or ndarray of int64
            The shape is that of `scores` without `axis`.

        Raises
        ------
        DTypeError, ParameterError, EntropyError
            As in `ExponentialMechanism.select`.

        Privacy
        -------
        The guarantee is `event(rows=...)`. Exact. Timing class T2, as in
        `ExponentialMechanism.select`. For any scores, permute-and-flip needs an exact
        step with a probability of at most 2**-48 per candidate
        (docs/proofs/selection.md has the bound for races).
        """
        check_stream(stream)
        noise = self._noise
        plain = type(workers) is int and workers >= 1
        if noise != "laplace" and type(axis) is int and axis == -1 and plain:
            flip = noise == "exponential"
            one = _core.select_one(self._law, scores, None, stream, flip)
            if one is not None:
                return one
        workers = _validate.integer("workers", workers, 1)
        choice, shape = choice_of(self._rate, scores, None, axis)
        if noise == "exponential":  # permute-and-flip
            chosen = _selection.flip(choice, stream, workers)
        elif noise == "gumbel":  # the exponential mechanism
            chosen = _selection.propose(choice, stream, workers)
        else:
            chosen = _selection.race(choice, noise, stream, workers)
        return chosen.reshape(shape)[()]


class PermuteAndFlip(_Race):
    """Choice of a candidate by permute-and-flip.

    Candidates are visited in a random order, and each is accepted with probability
    exp(c (score - largest score)) until one is accepted. The choice has the same law as
    the largest c score + exponential noise of mean 1. Its expected score is never below
    the exponential mechanism's at the same epsilon.

    Parameters
    ----------
    epsilon, sensitivity, monotonic, neighboring_relation
        As in `ExponentialMechanism`.

    Raises
    ------
    DTypeError, ParameterError
        As in `ExponentialMechanism`.

    Privacy
    -------
    One choice: pure epsilon under the mechanism's neighboring relation (with
    `monotonic` only for adding or removing one record). The losses have no bounded
    range: several choices cost as much as Laplace noise of scale 1/epsilon. Exact.

    References
    ----------
    McKenna, Sheldon, "Permute-and-flip", NeurIPS 2020. Ding, Kifer, Sayed, Steinke,
    Wang, Xiao, Zhang, "The permute-and-flip mechanism is identical to report-noisy-max
    with exponential noise", 2021. docs/proofs/selection.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> m = fastdp.PermuteAndFlip(epsilon=1, sensitivity=1)
    >>> int(m.select(np.array([0.0, 1000.0])))
    1
    """

    __slots__ = ()

    def __init__(
        self,
        epsilon: Real,
        *,
        sensitivity: Real,
        monotonic: bool = False,
        neighboring_relation: Relation = ADD,
    ) -> None:
        self._freeze_selection(epsilon, sensitivity, monotonic, neighboring_relation)

    @property
    def _noise(self) -> Literal["exponential", "laplace", "gumbel"]:
        return "exponential"

    def _single(self, relation: NeighboringRelation) -> Event:
        return PermuteAndFlipEvent(self._epsilon, neighboring_relation=relation)


class ReportNoisyMax(_Race):
    """The candidate whose score plus noise is largest.

    Parameters
    ----------
    epsilon, sensitivity, monotonic, neighboring_relation
        As in `ExponentialMechanism`.
    noise : {"exponential", "laplace", "gumbel"}
        Law of the real-valued noise, with scale 1/c: 2 sensitivity/epsilon, or
        sensitivity/epsilon with `monotonic`.

    Raises
    ------
    DTypeError, ParameterError
        As in `ExponentialMechanism`, or an unknown `noise`.

    Privacy
    -------
    One choice: pure epsilon under the mechanism's neighboring relation (with
    `monotonic` only for adding or removing one record). Gumbel noise makes it the
    exponential mechanism, of bounded range (rho = epsilon**2/8); exponential noise
    makes it permute-and-flip. Several choices with exponential or Laplace noise cost as
    much as Laplace noise of scale 1/epsilon. Exact.

    References
    ----------
    Dwork, Roth, "The algorithmic foundations of differential privacy", 2014, 3.3.
    docs/proofs/selection.md.

    Examples
    --------
    >>> import fastdp
    >>> fastdp.ReportNoisyMax(epsilon=1, sensitivity=1, noise="laplace")
    ReportNoisyMax(epsilon=1, sensitivity=1, noise='laplace')
    """

    __slots__ = ("_kind",)

    _kind: Literal["exponential", "laplace", "gumbel"]

    def __init__(
        self,
        epsilon: Real,
        *,
        sensitivity: Real,
        noise: Literal["exponential", "laplace", "gumbel"] = "exponential",
        monotonic: bool = False,
        neighboring_relation: Relation = ADD,
    ) -> None:
        if noise not in ("exponential", "laplace", "gumbel"):
            raise ParameterError(
                f'noise must be "exponential", "laplace" or "gumbel", got {noise!r}'
            )
        self._freeze_selection(
            epsilon, sensitivity, monotonic, neighboring_relation, noise=noise
        )
        self._freeze(_kind=noise)

    @property
    def _noise(self) -> Literal["exponential", "laplace", "gumbel"]:
        return self._kind

    def _single(self, relation: NeighboringRelation) -> Event:
        gumbel = self._kind == "gumbel"
        event = ExponentialMechanismEvent if gumbel else PermuteAndFlipEvent
        return event(self._epsilon, neighboring_relation=relation)


def noisy_argmax(
    counts: Any,
    *,
    sigma: Real | None = None,
    scale: Real | None = None,
    axis: int = -1,
    stream: Stream | None = None,
    workers: int = 1,
) -> Any:
    """Return the index of the largest count after real-valued noise is added.

    This is the noisy maximum of PATE. The noise is Gaussian or Laplace on the real
    line; as many of its bits are drawn as the comparison needs, so that formulas for
    continuous noise hold unchanged.

    Parameters
    ----------
    counts : ndarray of float64, float32 or integers (not uint64), or column
        Votes; a null counts as 0; a matrix gives an index for each slice along `axis`.
    sigma : int, float, Fraction or Decimal, optional
        Standard deviation of Gaussian noise, in [2**-900, 2**900].
    scale : int, float, Fraction or Decimal, optional
        Scale of Laplace noise, in [2**-900, 2**900]. Exactly one of `sigma` and `scale`
        is given.
    axis, stream, workers
        As in `ExponentialMechanism.select`.

    Returns
    -------
    numpy.int64 or ndarray of int64
        The shape is that of `counts` without `axis`.

    Raises
    ------
    DTypeError, ParameterError, EntropyError
        As in `ExponentialMechanism.select`; also raised unless exactly one of `sigma`
        and `scale` is given.

    Privacy
    -------
    Post-processing of counts with noise. Under any neighboring relation, Gaussian noise
    gives rho = s**2/(2 sigma**2) for L2 sensitivity s (of the whole slice), and Laplace
    noise gives epsilon = s/scale for L1 sensitivity s. Accountants for PATE state less
    if the votes agree. Exact. Timing class T2, as in `ExponentialMechanism.select`.

    References
    ----------
    Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson, "Scalable private
    learning with PATE", ICLR 2018. docs/proofs/selection.md.

    Examples
    --------
    >>> import numpy as np
    >>> import fastdp
    >>> int(fastdp.noisy_argmax(np.array([3, 240, 7]), sigma=10))
    1
    """
    check_stream(stream)
    workers = _validate.integer("workers", workers, 1)
    name, value = _validate.one_of(sigma=sigma, scale=scale)
    noise: Noise = "laplace" if name == "scale" else "gaussian"
    width = _validate.between(name, value, *_selection.RATES)
    choice, shape = choice_of(1 / width, counts, None, axis, "counts")
    return _selection.race(choice, noise, stream, workers).reshape(shape)[()]
