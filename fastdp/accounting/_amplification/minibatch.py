"""Noisy SGD with random batches and projections; only the last iterate is released.

Up to some step, two runs are assumed to differ by the diameter. After it, part of each
step's noise pays for this distance; the rest hides which records were in the batch
(docs/proofs/amplification.md, section 2).
"""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real
from fastdp.accounting._amplification.iteration import (
    gradient_contraction,
    late_square,
    require_last_iterate,
)
from fastdp.accounting._numeric import shortened_up, sqrt_up
from fastdp.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GDPEvent,
    NeighboringRelation,
    SampledWithoutReplacementEvent,
    SelfComposedEvent,
)

__all__ = ["noisy_minibatch_sgd"]

_REPLACE = NeighboringRelation.REPLACE_ONE


def noisy_minibatch_sgd(
    *,
    steps: int,
    records: int,
    batch: int,
    sigma: Real,
    step_size: Real,
    lipschitz: Real,
    smoothness: Real,
    strong_convexity: Real = 0,
    diameter: Real,
    window: int | None = None,
    last_iterate_only: bool,
) -> Event:
    """Return the event of the last iterate of projected noisy minibatch SGD.

    x <- project(x - step_size (mean gradient of a batch + sigma * normal noise)), where
    the batch is a uniform subset of the records, drawn again in every step.

    Parameters
    ----------
    steps : int
        Number of steps, >= 1.
    records, batch : int
        Number of records and size of a batch, 1 <= batch <= records; public.
    sigma : int, float, Fraction or Decimal
        Standard deviation of the noise on a batch's mean gradient, > 0.
    step_size, lipschitz, smoothness, strong_convexity, last_iterate_only
        As in `noisy_gradient_descent`.
    diameter : int, float, Fraction or Decimal
        Diameter of the convex set that iterates are projected to, > 0.
    window : int, optional
        Number of last steps that are charged, >= 1; half of their noise pays for the
        steps before. None: the best number for large noise, or all steps with all of
        their noise if there are fewer than four times this number.

    Returns
    -------
    Event
        The event if one record is replaced: Gaussian noise on samples of fixed size,
        and Gaussian privacy for the steps before the window.

    Raises
    ------
    ParameterError
        A condition of the theorem is not met.

    Privacy
    -------
    Approximate. Steps beyond some number cost nothing. All records' losses must be
    convex and smooth, with gradients that are not clipped.

    References
    ----------
    Altschuler, Talwar, "Privacy of Noisy Stochastic Gradient Descent" (2022); Bok, Su,
    Altschuler, "Shifted Interpolation for Differential Privacy" (2024).

    Examples
    --------
    >>> from fastdp.accounting import RDPAccountant
    >>> setting = dict(sigma=4, step_size=0.5, lipschitz=1, smoothness=1, diameter=1)
    >>> for steps in (100, 10_000, 10**9):
    ...     event = noisy_minibatch_sgd(
    ...         steps=steps, records=1000, batch=50, **setting, last_iterate_only=True
    ...     )
    ...     print(round(RDPAccountant().compose(event).epsilon(1e-6), 4))
    0.0177
    0.1269
    0.1269
    """
    require_last_iterate(last_iterate_only)
    count = _validate.integer("steps", steps, 1)
    n = _validate.integer("records", records, 1)
    m = _validate.integer("batch", batch, 1, n)
    eta = _validate.positive("step_size", step_size)
    c = gradient_contraction(
        step_size=step_size, smoothness=smoothness, strong_convexity=strong_convexity
    )
    width = _validate.positive("sigma", sigma)
    size = 2 * _validate.positive("lipschitz", lipschitz) / m
    wide = _validate.positive("diameter", diameter)
    if window is None:
        best = math.ceil(wide / (eta * size * m) * n)
        window = count if count <= 4 * best else best
    kept = min(count, _validate.integer("window", window, 1))
    if kept == count:
        return _sampled(n, m, size, width, kept)
    variance = eta * eta * width * width / 2
    square = late_square(kept, Fraction(0), variance, c, wide)
    before = GDPEvent(sqrt_up(shortened_up(square)), neighboring_relation=_REPLACE)
    # (a little less noise than width/sqrt(2), so that it is rational)
    half = 1 / sqrt_up(2 / (width * width))
    return ComposedEvent((before, _sampled(n, m, size, half, kept)))


def _sampled(
    records: int, batch: int, size: Fraction, width: Fraction, count: int
) -> Event:
    """Return the event of steps if every iterate may be seen."""
    one: Event = GaussianEvent(
        sensitivity=size, sigma=width, neighboring_relation=_REPLACE
    )
    if batch < records:
        one = SampledWithoutReplacementEvent(
            source_dataset_size=records, sample_size=batch, event=one
        )
    return SelfComposedEvent(one, count)
