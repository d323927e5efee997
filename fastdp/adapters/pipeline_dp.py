"""PipelineDP's engine with our noise and selection (docs/howto/pipeline_dp.md)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp import _public
from fastdp.adapters import _library
from fastdp.exceptions import UnsupportedEventError
from fastdp.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    KeySelection,
    UnknownHistogram,
)
from fastdp.mechanisms.records._thresholds import least_threshold

dp: Any = _library.load("pipeline_dp", package="pipeline-dp", tested=("0.3.1", "0.4"))


def _their(module: str, name: str) -> Any:
    """Return a class of PipelineDP, or a placeholder if it is not installed."""
    return getattr(getattr(dp, module), name) if dp else type(name, (), {})


__all__ = ["DPEngine"]

#: Its metrics and strategies that are not here, and why.
_REFUSED = {
    "VECTOR_SUM": "norms of vectors are found in floats; use fastdp.ClippedSum",
    "PERCENTILE": "its tree draws its own noise; use fastdp.Quantiles",
    "WEIGHTED_GAUSSIAN_THRESHOLDING": "its weights are roots in floats",
}

#: Sums are rounded to a grid of at most this part of what a user moves one by.
_GRID = Fraction(1, 2**24)

#: What their bounds may be short of by rounding, and what an integer may be.
_SLACK, _MOST = 1 + Fraction(1, 2**40), 2**62


@lru_cache(maxsize=256)
def _noise(
    gaussian: bool, epsilon: Any, delta: Any, groups: int, moved: Any, whole: bool
) -> tuple[Any, Fraction]:
    """Return noise on integers, and the step of the integers."""
    step, steps = Fraction(1), int(moved)
    if not whole:
        exact = Fraction(moved) * _SLACK
        step = Fraction(2) ** math.floor(math.log2(exact * _GRID))
        steps = math.floor(exact / step) + 1  # two sums are rounded apart
    if not gaussian:
        return DiscreteLaplace.from_epsilon(epsilon, sensitivity=groups * steps), step
    m = DiscreteGaussian.from_epsilon_delta(
        epsilon=epsilon,
        delta=delta,
        squared_sensitivity=groups * steps**2,
        coordinates=groups,
    )
    return m, step


@lru_cache(maxsize=256)
def _selector(strategy: str, epsilon: float, delta: float, groups: int) -> Any:
    """Return the selector of partitions by numbers of users."""
    epsilon = min(epsilon, 4096.0 * groups)  # no table is as long as more would need
    given: Any = {"epsilon": epsilon, "delta": delta, "keys_per_user": groups}
    if strategy == "TRUNCATED_GEOMETRIC":
        return KeySelection.from_epsilon_delta(**given)
    if strategy == "LAPLACE_THRESHOLDING":
        return UnknownHistogram.from_epsilon_delta(**given)
    half = Fraction(delta) / 2
    noise, _ = _noise(True, epsilon, half, groups, 1, True)
    return UnknownHistogram(
        sigma=noise.sigma,
        threshold=least_threshold(noise, half / groups, 1),
        keys_per_user=groups,
    )


class _Additive(_their("dp_computations", "AdditiveMechanism")):  # type: ignore[misc]
    """Noise with PipelineDP's interface: for integers, or exact sums on a grid."""

    def __init__(
        self, spec: Any, bounds: Any, *, whole: bool = False, shares: int = 1
    ) -> None:
        self._kind = spec.mechanism_type.to_noise_kind()
        self._spec, self._bounds = spec, bounds
        gaussian = self._kind == dp.NoiseKind.GAUSSIAN
        epsilon = Fraction(spec.eps) / shares
        delta = Fraction(spec.delta if gaussian else 0) / shares
        size = (bounds.l0, bounds.linf)
        self._noise, self._step = _noise(gaussian, epsilon, delta, *size, whole)

    def add_noise(self, value: Any) -> Any:
        """Return the number, or each number of an array, with noise."""
        if isinstance(value, np.ndarray):
            noisy = [self.add_noise(x) for x in value.ravel().tolist()]
            return np.array(noisy).reshape(value.shape)
        steps = round(_exact(value) / self._step)
        inside = max(-_MOST, min(steps, _MOST))
        return float(int(self._noise.release(inside)) * self._step)

    noise_kind = property(lambda self: self._kind)
    std = property(lambda self: float(self._noise.std * float(self._step)))
    sensitivity = property(lambda self: float(self._noise.sensitivity) * self._step)

    @property
    def noise_parameter(self) -> float:
        """Return the scale of Laplace noise or the sigma of Gaussian noise."""
        noise = self._noise
        return float(getattr(noise, "scale", None) or noise.sigma) * float(self._step)

    def describe(self) -> str:
        """Return a line for PipelineDP's report."""
        return f"{self._noise!r} in steps of {float(self._step)!r}"

    def adding(self) -> str:
        """Return a line for PipelineDP's report of `add_dp_noise`."""
        return f"Adding {self._kind} noise with parameter {self.noise_parameter}"


class _Count(_their("combiners", "CountCombiner")):  # type: ignore[misc]
    def create_mechanism(self) -> Any:
        return _Additive(self.mechanism_spec(), self.sensitivities(), whole=True)


class _Users(_their("combiners", "PrivacyIdCountCombiner")):  # type: ignore[misc]
    create_mechanism = _Count.create_mechanism


class _Sum(_their("combiners", "SumCombiner")):  # type: ignore[misc]
    def create_accumulator(self, values: Any) -> Fraction:
        low, high = self._min_bound, self._max_bound
        if self._bounding_per_partition:
            values = [sum(values)]
        return sum(_clipped(values, low, high), Fraction(0))

    def create_mechanism(self) -> Any:
        return _Additive(self.mechanism_spec(), self.sensitivities())


class _Mean(_their("combiners", "MeanCombiner")):  # type: ignore[misc]
    def create_accumulator(self, values: Any) -> tuple[int, Fraction]:
        low, high = Fraction(self._min_value), Fraction(self._max_value)
        exact = _clipped(values, self._min_value, self._max_value)
        return len(exact), sum(exact, Fraction(0)) - len(exact) * (low + high) / 2

    def create_mechanism(self) -> Any:
        count = _Additive(self._count_spec, self._count_sensitivities, whole=True)
        total = _Additive(self._sum_spec, self._sum_sensitivities)
        middle = dp.dp_computations.compute_middle(self._min_value, self._max_value)
        return dp.dp_computations.MeanMechanism(middle, count, total)


class _Variance(_their("combiners", "VarianceCombiner")):  # type: ignore[misc]
    """Three sums: of ones, of c, and of c**2 - h**2/2, for c in [-h, h]."""

    def _half(self) -> tuple[Any, Fraction, Fraction]:
        p = self._params.aggregate_params
        low, high = Fraction(p.min_value), Fraction(p.max_value)
        return p, (low + high) / 2, (high - low) / 2

    def create_accumulator(self, values: Any) -> tuple[int, Fraction, Fraction]:
        p, middle, half = self._half()
        exact = [x - middle for x in _clipped(values, p.min_value, p.max_value)]
        squares = sum((x * x for x in exact), Fraction(0))
        return len(exact), sum(exact, Fraction(0)), squares - len(exact) * half**2 / 2

    def compute_metrics(self, accum: Any) -> dict[str, float]:
        p, middle, half = self._half()
        noisy = []
        reach = (1, half or 1, half**2 / 2 or 1)  # of equal bounds the sums are 0
        for i, (value, each) in enumerate(zip(accum, reach, strict=True)):
            size = dp.dp_computations.Sensitivities(
                l0=p.max_partitions_contributed,
                linf=p.max_contributions_per_partition * each,
            )
            spec = self._params.mechanism_spec
            m = _Additive(spec, size, whole=i == 0, shares=3)
            noisy.append(m.add_noise(value))
        count, total, squares = noisy
        n, h = max(count, 1.0), float(half)
        mean = min(max(total / n, -h), h)
        spread = min(max(squares / n + h * h / 2 - mean * mean, 0.0), h * h)
        mean += float(middle)
        found = {"count": count, "sum": mean * count, "mean": mean, "variance": spread}
        return {name: found[name] for name in self._metrics_to_compute}


class _Threshold(
    _their("combiners", "PostAggregationThresholdingCombiner")  # type: ignore[misc]
):
    def create_mechanism(self) -> Any:
        spec = self.mechanism_spec()
        strategy = spec.mechanism_type.to_partition_selection_strategy()
        return _Keep(spec, self._sensitivities.l0, strategy, self._pre_threshold)


class _Keep:
    """Selection of partitions by their numbers of users; picklable."""

    def __init__(
        self, spec: Any, groups: int, strategy: Any, least: int | None
    ) -> None:
        self._spec, self._groups = spec, groups
        self._strategy, self._below = strategy.name, max((least or 1) - 1, 0)

    def _select(self) -> Any:
        s = self._spec  # its budget has been set by now
        return _selector(self._strategy, s.eps, s.delta, self._groups)

    def should_keep(self, users: int) -> bool:
        counted = np.array([max(int(users) - self._below, 0)])
        return bool(self._select().select(counted)[0])

    def noised_value_if_should_keep(self, users: int) -> float | None:
        counted = np.array([max(int(users) - self._below, 0)])
        _, shown = self._select().release(["this one"], counted)
        return float(shown[0]) + self._below if len(shown) else None

    def describe(self) -> str:
        return f"Private Partition selection: using {self._select()!r}"


class DPEngine(_their("dp_engine", "DPEngine")):  # type: ignore[misc]
    """PipelineDP's engine with our noise and our choice of partitions.

    Parameters
    ----------
    budget_accountant : pipeline_dp.NaiveBudgetAccountant
        Accountant that splits epsilon and delta among the aggregations.
    backend : pipeline_dp.PipelineBackend
        Backend of the computations; its workers need fastdp.

    Raises
    ------
    UnsupportedEventError
        Raised here or in a method, with the reason: another accountant, or a metric,
        strategy or bound without exact noise.

    Privacy
    -------
    For one user added or removed, each aggregation has the epsilon and delta that the
    accountant assigns. Counts are integers; sums are exact, rounded once to a public
    grid, which the sensitivity covers. NaN counts as 0. PipelineDP is responsible for
    bounding each user's contributions. Exact. Timing class T0 for noise and selection,
    not for sums.
    """

    def __init__(self, budget_accountant: Any, backend: Any) -> None:
        _library.require(dp, "pipeline_dp")
        if not isinstance(budget_accountant, dp.NaiveBudgetAccountant):
            raise UnsupportedEventError(
                "budget_accountant must be a NaiveBudgetAccountant, got "
                f"{type(budget_accountant).__name__}: other accountants "
                "plan for noise in floats"
            )
        super().__init__(budget_accountant, backend)

    def aggregate(self, col: Any, params: Any, *args: Any, **options: Any) -> Any:
        """Return statistics by partition; arguments are as in PipelineDP."""
        for metric in params.metrics or ():
            _refuse("metrics", metric.name)
        _refuse_given(params, "custom_combiners", "their noise is their own")
        _refuse_given(
            params,
            "max_contributions",
            "no bound of one partition is known; give max_partitions_contributed and "
            "max_contributions_per_partition",
        )
        _refuse(
            "partition_selection_strategy", params.partition_selection_strategy.name
        )
        return super().aggregate(col, params, *args, **options)

    def select_partitions(self, col: Any, params: Any, data_extractors: Any) -> Any:
        """Return the partitions that may be shown; arguments are as in PipelineDP."""
        _refuse(
            "partition_selection_strategy", params.partition_selection_strategy.name
        )
        return super().select_partitions(col, params, data_extractors)

    def calculate_private_contribution_bounds(self, *_: Any, **__: Any) -> Any:
        """Refuse: PipelineDP's method chooses by floats of numpy's generator."""
        raise UnsupportedEventError(
            "calculate_private_contribution_bounds is refused, because "
            "it chooses by weights in floats: use public bounds, or "
            "fastdp.Quantiles"
        )

    def _create_compound_combiner(self, params: Any) -> Any:
        compound = super()._create_compound_combiner(params)
        ours = {
            kind.__mro__[1]: kind
            for kind in (_Count, _Users, _Sum, _Mean, _Variance, _Threshold)
        }
        for combiner in compound._combiners:
            combiner.__class__ = ours[type(combiner)]
        return compound

    def _select_private_partitions_internal(
        self,
        col: Any,
        max_partitions_contributed: int,
        max_rows_per_privacy_id: int,
        strategy: Any,
        pre_threshold: int | None,
    ) -> Any:
        spec = self._budget_accountant.request_budget(
            strategy.mechanism_type, name="PartitionSelection"
        )
        keep = _Keep(spec, max_partitions_contributed, strategy, pre_threshold)
        self._add_report_stage(keep.describe)

        def kept(row: Any) -> bool:  # a user may have several rows in `col`
            return keep.should_keep(-(-row[1][0] // max_rows_per_privacy_id))

        return self._backend.filter(col, kept, "Filter private partitions")

    def _add_dp_noise(self, col: Any, params: Any) -> Any:
        for name in ("l0_sensitivity", "linf_sensitivity"):
            if getattr(params, name) is None:
                raise UnsupportedEventError(f"{name} must be given: a grid needs both")
        spec = self._budget_accountant.request_budget(
            params.noise_kind.convert_to_mechanism_type(), name="AddDPNoise"
        )
        bounds = dp.dp_computations.Sensitivities(
            l0=params.l0_sensitivity, linf=params.linf_sensitivity
        )
        self._add_report_stage(lambda: _Additive(spec, bounds).adding())

        def noisy(value: Any) -> Any:
            m = _Additive(spec, bounds)
            shown = m.add_noise(value)
            if params.output_noise_stddev:
                return dp.dp_engine.DpNoiseAdditionResult(shown, m.std)
            return shown

        return self._backend.map_values(col, noisy, "Add noise")


def _exact(value: Any) -> Fraction:
    """Return a number as a fraction, or 0 if it is not finite."""
    finite = isinstance(value, (int, Fraction)) or math.isfinite(value)
    return Fraction(value) if finite else Fraction(0)


def _clipped(values: Any, low: float, high: float) -> list[Fraction]:
    """Return the numbers of one user in one partition, exactly."""
    array = np.asarray(list(values), dtype=float)
    array[np.isnan(array)] = 0
    return [Fraction(x) for x in np.clip(array, low, high).tolist()]


def _refuse(name: str, value: str) -> None:
    if value in _REFUSED:
        raise UnsupportedEventError(f"{name} has no {value}: {_REFUSED[value]}")


def _refuse_given(params: Any, name: str, reason: str) -> None:
    if getattr(params, name):
        raise UnsupportedEventError(f"{name} must be None: {reason}")


_public.show(globals())
