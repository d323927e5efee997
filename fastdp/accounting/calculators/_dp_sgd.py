"""Private training by noisy clipped gradients: the cost of a schedule of batches."""

from __future__ import annotations

import math
from fractions import Fraction

from fastdp import _validate
from fastdp._validate import Real, float_up
from fastdp.accounting.calculators._dp_sgd_setting import (
    MOST_STEPS,
    SIGMAS,
    DPSGDPlan,
    Maker,
    Setting,
    steps_of_epoch,
    target_of,
)
from fastdp.accounting.events import (
    Event,
)
from fastdp.accounting.events._base import check_event
from fastdp.accounting.pld import PLDAccountant
from fastdp.accounting.rdp import RDPAccountant
from fastdp.exceptions import (
    DTypeError,
    ParameterError,
)

__all__ = ["DPSGDPlan", "dp_sgd"]


def dp_sgd(
    records: int,
    *,
    batch: int | None = None,
    sampling_rate: Real | None = None,
    steps: int | None = None,
    epochs: Real | None = None,
    sigma: Real | None = None,
    epsilon: Real | None = None,
    delta: Real,
    sampling: str,
    before: Event | None = None,
    accountant: Maker | None = None,
    assume_poisson: bool = False,
    largest_batch: int | None = None,
) -> DPSGDPlan:
    """Return a schedule of private training, solving for the missing parameter.

    Leave out exactly one of `batch`, `steps`, `sigma` and `epsilon`; `sampling_rate`
    may replace `batch`, and `epochs` may replace `steps`.

    Parameters
    ----------
    records : int
        Number of records, >= 1; public.
    batch : int, optional
        Batch size, 1 ... records: exact, or the mean for Poisson batches. For allocated
        batches an epoch has records/batch steps, rounded up, and the mean batch is
        records over this number. If left out: the largest batch that meets the target.
    sampling_rate : int, float, Fraction or Decimal, optional
        In place of `batch`: batch/records, > 0 and <= 1. For Poisson batches it is the
        exact probability of each record; for fixed and shuffled batches it must give a
        whole batch.
    steps : int, optional
        Number of steps, >= 1. If left out: the largest number that meets the target.
    epochs : int, float, Fraction or Decimal, optional
        In place of `steps`: passes over the records, > 0; epochs * records/batch steps,
        rounded up. The batch must be known. A shuffled epoch has records // batch steps
        and leaves out the records that do not fill a batch.
    sigma : int, float, Fraction or Decimal, optional
        Noise multiplier, > 0. If left out: the least multiplier that meets the target.
    epsilon : int, float, Fraction or Decimal, optional
        Target, > 0. If left out: the schedule's guarantee.
    delta : int, float, Fraction or Decimal
        > 0 and < 1.
    sampling : str
        How the training code draws batches: "poisson" (each record by its own coin in
        every step), "allocated" (each record joins one step of every epoch, uniformly
        and independently: `fastdp.random.allocate`), "fixed" (a uniform subset of
        `batch` records, drawn again in every step) or "shuffled" (disjoint batches of a
        permutation, as in most data loaders; changing one line to "allocated" costs far
        less).
    before : Event, optional
        Earlier phases of the same training (the `event` of their plan), for the same
        neighboring relation; the guarantee includes them.
    accountant : callable, optional
        Callable that makes an empty accountant. None: `PLDAccountant`, or for "fixed"
        `RDPAccountant`, which is far faster for "fixed" and a few percent less tight.
    assume_poisson : bool
        Only with "shuffled". True gives the figures for Poisson batches, which do not
        hold for shuffled batches (the true epsilon may be ten times as large); the plan
        says so. False charges every record in full once per epoch of records // batch
        steps, which holds.
    largest_batch : int, optional
        Only with "poisson": a larger batch is cut to this number of records (a uniform
        subset, or the first in a public order), so that all arrays have one shape.

    Returns
    -------
    DPSGDPlan

    Raises
    ------
    CalibrationError
        No value of the missing parameter meets the target.
    UnsupportedEventError
        The accountant has no bound for these events, or `before` is for another
        neighboring relation.

    Privacy
    -------
    The guarantee is for all iterates together. Poisson and allocated batches: one
    record added or removed (sensitivity 1 in clipping norms); sums must be divided by a
    public number, not by the batch size, and nothing may reveal the members or the size
    of a batch. Fixed and shuffled batches: one record replaced (sensitivity 2). Cut
    Poisson batches cost more than uncut ones, because one record may push out another
    (docs/proofs/amplification.md, section 6). Allocated batches: an epoch that is cut
    short is a sample of a shorter one. In one shuffled epoch each record is in at most
    one batch, so that an epoch is one Gaussian release; a partial epoch counts as a
    whole one, and a smaller last batch counts as the first of a new epoch.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy" (2016); Chua et al., "How
    Private are DP-SGD Implementations?" (2024), for shuffled batches; Feldman and
    Shenfeld, "Privacy Amplification by Random Allocation" (2025).

    Examples
    --------
    >>> plan = dp_sgd(60_000, batch=256, steps=3510, sigma=1.1, delta=1e-5,
    ...               sampling="poisson")
    >>> round(plan.epsilon, 3), plan.certified
    (1.133, True)
    >>> plan = dp_sgd(60_000, batch=256, steps=3510, epsilon=1, delta=1e-5,
    ...               sampling="poisson")
    >>> plan.epsilon <= 1, round(plan.sigma, 3)
    (True, 1.184)
    """
    n = _validate.integer("records", records, 1)
    wanted = {
        "batch": _one_of("batch", batch, "sampling_rate", sampling_rate),
        "steps": _one_of("steps", steps, "epochs", epochs),
        "sigma": sigma,
        "epsilon": epsilon,
    }
    left_out = [name for name, value in wanted.items() if value is None]
    if len(left_out) != 1:
        raise ParameterError(
            "exactly one of batch (or sampling_rate), steps (or epochs), sigma and "
            f"epsilon must be left out, got {len(left_out)} left out"
        )
    _check_sampling(sampling, assume_poisson)
    if largest_batch is not None:
        largest_batch = _validate.integer("largest_batch", largest_batch, 1)
        if sampling != "poisson":
            raise ParameterError(
                "largest_batch must be None unless batches are Poisson "
                "samples: it is proved only for these, got "
                f"sampling={sampling!r}"
            )
    setting = Setting(
        n,
        sampling,
        largest_batch,
        assume_poisson,
        None if before is None else check_event("before", before),
        accountant or (RDPAccountant if sampling == "fixed" else PLDAccountant),
        float_up(_validate.open_unit("delta", delta)),
    )
    m = None if batch is None else Fraction(_validate.integer("batch", batch, 1, n))
    if sampling_rate is not None:
        m = _batch_of(sampling_rate, n, whole=not setting.by_coins)
    m = m and setting.batch(m)
    count = None if steps is None else _validate.integer("steps", steps, 1)
    if epochs is not None:
        count = _steps_of(epochs, n, m, sampling)
    width = None if sigma is None else _validate.between("sigma", sigma, *SIGMAS)
    met: Real | None = None
    if epsilon is not None:
        target = target_of(epsilon, delta)
        if m is None and count is not None and width is not None:
            m = setting.largest_batch(target, count, width)
        elif count is None and m is not None and width is not None:
            count = setting.most_steps(target, m, width)
        elif width is None and m is not None and count is not None:
            width, met = setting.least_sigma(target, m, count), epsilon
    assert m is not None
    assert count is not None
    assert width is not None
    return setting.plan(m, count, width, delta, met)


def _one_of(name: str, value: object, other: str, instead: object) -> object:
    """Return the given one of two equivalent parameters."""
    if value is not None and instead is not None:
        raise ParameterError(
            f"{name} and {other} state the same number: give only one of them"
        )
    return instead if value is None else value


def _batch_of(sampling_rate: Real, records: int, *, whole: bool) -> Fraction:
    """Return the batch of a rate; if it must be whole, round a nearly whole one."""
    rate = _validate.positive("sampling_rate", sampling_rate)
    if rate > 1:
        raise ParameterError(
            f"sampling_rate must be <= 1, got {_validate.shown(sampling_rate)}"
        )
    batch = rate * records
    if not whole:
        return batch
    nearest = round(batch)
    if nearest < 1 or abs(batch - nearest) > batch / 10**9:
        raise ParameterError(
            "sampling_rate times records must be a whole number if "
            "batches have a fixed size, got "
            f"{_validate.shown(sampling_rate)} times {records}: give "
            "batch instead"
        )
    return Fraction(nearest)


def _steps_of(epochs: Real, records: int, batch: Fraction | None, sampling: str) -> int:
    """Return the number of steps for `epochs` passes over the records, rounded up."""
    passes = _validate.positive("epochs", epochs)
    if batch is None:
        raise ParameterError(
            "epochs must come with batch or sampling_rate: give steps instead"
        )
    found = (
        passes * steps_of_epoch(records, batch, sampling) * (1 - Fraction(1, 10**12))
    )
    return _validate.integer("steps", math.ceil(found), 1, MOST_STEPS)


def _check_sampling(sampling: str, assume_poisson: bool) -> None:
    if sampling not in ("poisson", "allocated", "fixed", "shuffled"):
        raise ParameterError(
            "sampling must be 'poisson', 'allocated', 'fixed' or 'shuffled': what the "
            f"training code does, got {sampling!r}"
        )
    if not isinstance(assume_poisson, bool):
        raise DTypeError(
            f"assume_poisson must be a bool, got {type(assume_poisson).__name__}"
        )
    if assume_poisson and sampling != "shuffled":
        raise ParameterError(
            "assume_poisson must be False unless sampling is 'shuffled'"
        )
