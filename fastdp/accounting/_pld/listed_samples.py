"""Samples with listed laws: replaced records, public samples, repeated draws.

The pairs and the proofs are in docs/proofs/amplification.md, section 5. Laws with a
density are listed by cells, which are split to their ends for upper bounds and merged
for lower bounds (theorem 17 of docs/proofs/numerical_accounting.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fastdp._validate import float_up
from fastdp.accounting._atoms.law import Law, law_of_cells
from fastdp.accounting._numeric import log_fraction
from fastdp.accounting._pld.families import (
    NOTHING,
    AtomFamily,
    Step,
    between,
    either_order,
    two_points,
)
from fastdp.accounting._pld.listed_loss import Atoms, sampled_loss
from fastdp.accounting._pld.losses import Floats, U
from fastdp.accounting._series import gauss_legendre
from fastdp.exceptions import UnsupportedEventError

#: Cells of the bulk of a law, and of each of its tails.
_BULK, _TAIL = 6000, 500

#: Gaussian noise: the bulk ends at _NEAR standard deviations, the tails at _FAR.
_NEAR, _FAR = 8.0, 37.0

#: List discrete Gaussian noise within _REACH standard deviations, if that is at most
#: _MOST_INTEGERS integers.
_REACH, _MOST_INTEGERS = 30.0, 1 << 18

#: Drop masses below this, or raise them to it for upper bounds; the mass that counts as
#: lost is far larger.
_LEAST_MASS = 1e-280

#: Raise the losses of a list for upper bounds to at least this.
_LEAST_LOSS = -250.0

#: ln of the mass beyond the cells of other laws, which counts as lost.
_LOG_TAIL = -160.0

#: Gauss-Legendre nodes in a cell, and the bound of their relative error.
_NODES, _ERROR = 12, 1e-13

#: Fewest cells of a law within a mixture.
_FEWEST = 64

#: Largest sensitivity over standard deviation; beyond it, cells are too wide.
_LARGEST = 40.0

#: A function of points: the log density of noise around 0, what to add to it for noise
#: around 1 and around -1, and the size of the terms of these two.
Densities = Callable[[Floats], tuple[Floats, Floats, Floats, Floats]]


# ---- a Poisson sample in which one record is replaced ------------------------------


def replaced_gaussian(square: Fraction, least: Fraction, rate: Fraction) -> Step | None:
    """Return the step of Gaussian noise with mu^2 between `least` and `square`.

    Return None if there is too little noise for cells.
    """
    if not 0 < square <= _LARGEST**2:
        return None

    def law(mu: float, upper: bool) -> Atoms:
        def logs(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            moved, less = mu * x, mu * mu / 2
            return -x * x / 2, moved - less, -moved - less, np.abs(moved) + less

        near, far = _NEAR + mu, _FAR + mu
        half = np.concatenate(
            [np.linspace(0, near, _BULK // 2), np.linspace(near, far, _TAIL)[1:]]
        )
        edges = np.concatenate([-half[:0:-1], half])
        found = _listed(logs, edges, rate, math.sqrt(2 * math.pi), upper)
        beyond = math.exp(-_FAR * _FAR / 2)
        return _with_tails(found, beyond, upper)

    above = law(float(square) ** 0.5 * (1 + 2 * U), True)
    below = law(float(least) ** 0.5 * (1 - 2 * U), False)
    return _between(above, below)


def replaced_laplace(epsilon: Fraction, least: Fraction, rate: Fraction) -> Step | None:
    """Return the step of Laplace noise; the epsilons are for upper and lower bounds."""
    if not Fraction(1, 10**6) <= epsilon <= 300:
        return None

    def law(e: float, upper: bool) -> Atoms:
        # In units of the scale. Beyond e the ratios are those at e.
        def logs(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            size = np.abs(x)
            return -size, size - np.abs(x - e), size - np.abs(x + e), size + e

        half = np.linspace(0, e, _BULK // 2)
        edges = np.concatenate([-half[:0:-1], half])
        found = _listed(logs, edges, rate, 2.0, upper)
        zero, grown = np.full(2, -e - math.log(2)), np.array([e, -e])
        return _sorted(found, *_mixed(rate, zero, grown, -grown))

    above = law(float(epsilon) * (1 + U), True)
    below = law(float(least) * (1 - U), False)
    return _between(above, below)


def replaced_discrete_gaussian(shift: int, sigma: float, rate: Fraction) -> Step | None:
    """Return the step of discrete Gaussian noise on one coordinate moved by `shift`."""
    reach = math.ceil(_REACH * sigma) + 1
    if shift > _LARGEST * sigma or 2 * (reach + shift) > _MOST_INTEGERS:
        return None
    x = np.arange(-reach - shift, reach + shift + 1, dtype=np.float64)
    level = -x * x / (2 * sigma * sigma)
    moved, less = x * shift / sigma**2, shift * shift / (2 * sigma * sigma)
    logs = level - math.log(math.fsum(np.exp(level)))
    law = _sorted(None, *_mixed(rate, logs, moved - less, -moved - less))
    beyond = 4 * math.exp(-_REACH * _REACH / 2)
    own = replace(law, lost=Fraction(beyond), other=beyond, sure=Fraction(0))
    return AtomFamily(own, own).step()


def replaced_discrete_laplace(
    shift: int, each: Fraction, rate: Fraction
) -> Step | None:
    """Return the step of discrete Laplace noise moved by `shift` steps of cost `each`.

    Beyond `shift` on either side, all ratios equal those at `shift`.
    """
    if not Fraction(1, 10**6) <= each * shift <= 300:
        return None
    a = float(each)
    x = np.arange(-shift, shift + 1, dtype=np.float64)
    logs = math.log(math.tanh(a / 2)) - a * np.abs(x)
    logs[[0, -1]] = -a * shift - math.log1p(math.exp(-a))
    up = a * (np.abs(x) - np.abs(x - shift))
    law = _sorted(None, *_mixed(rate, logs, up, up[::-1]))
    return AtomFamily(law, law).step()


def replaced_pure(epsilon: Fraction, lost: Fraction, rate: Fraction) -> Step:
    """Return the step for a stated (epsilon, `lost`) alone; rate < 1.

    Each of the two records has a ratio of e^epsilon or e^-epsilon, but not both have
    e^epsilon.
    """
    e = float_up(epsilon)
    if e > 700:
        raise UnsupportedEventError("epsilon must be at most 700 within a sample")
    if lost:
        return _failing(e, lost, rate)
    zero = np.full(3, -e - math.log1p(math.exp(-e)))
    zero[2] += e + math.log(-math.expm1(-e)) if e else -math.inf
    up, down = np.array([e, -e, -e]), np.array([-e, e, -e])
    law = _sorted(None, *_mixed(rate, zero, up, down))
    return AtomFamily(law, law).step()


def _failing(e: float, lost: Fraction, rate: Fraction) -> Step:
    """Return a step that dominates: (ln(1 + q e^epsilon/(1 - q)), q delta).

    If the mechanism fails for one record, it may still reveal the sample without it.
    """
    parts = e, log_fraction(rate), -log_fraction(1 - rate)
    grown = sum(parts)
    shown = max(grown, 0.0) + math.log1p(math.exp(-abs(grown)))
    shown += 8 * U * (shown + sum(map(abs, parts)) * math.exp(min(grown, 0.0)))
    step = two_points(Fraction(shown), rate * lost).step()
    return between(step, NOTHING)


def _mixed(
    rate: Fraction, logs: Floats, up: Floats, down: Floats
) -> tuple[Floats, Floats, float]:
    """Return losses, masses under P, and a bound of the losses' errors.

    `logs` are ln of the masses of noise around 0; `up` and `down` are added to these
    for noise around 1 and around -1.
    """
    first, error = sampled_loss(rate, up)
    second, other = sampled_loss(rate, down)
    q, rest = float(rate), float(1 - rate)
    blur = error + other + 32 * U * (np.abs(first) + np.abs(second))
    masses = rest * np.exp(logs) + q * np.exp(logs + up)
    kept = masses > _LEAST_MASS
    return (first - second)[kept], masses[kept], float(blur[kept].max())


def _listed(
    logs: Densities, edges: Floats, rate: Fraction, scale: float, upper: bool
) -> Atoms:
    """Return the law by cells between the edges; the loss must rise along the edges."""
    q, rest = float(rate), float(1 - rate)

    def loss(x: Floats) -> tuple[Floats, Floats, Floats]:
        log, up, down, size = logs(x)
        first, error = sampled_loss(rate, up)
        second, other = sampled_loss(rate, down)
        share = q * (np.exp(up - first) + np.exp(down - second))
        density = rest * np.exp(log) + q * np.exp(log + up)
        return first - second, error + other + 8 * U * share * size, density

    value, blur, _ = loss(edges)
    ends = value + blur if upper else value - blur
    ends = np.maximum.accumulate(ends)
    rising = np.concatenate([[True], np.diff(ends) > 0])
    ends, x = ends[rising], edges[rising]
    if ends.size < 2:
        raise UnsupportedEventError("the noise is too large to distinguish anything")
    nodes, weights = gauss_legendre(_NODES)
    width = np.diff(x)
    place = x[:-1, None] + np.outer(width, nodes)
    value, blur, density = loss(place)
    part = density * np.outer(width, weights) / scale
    seen = value + blur if upper else value - blur
    fall = np.expm1(np.minimum(ends[:-1, None] - seen, 0.0))
    p, d = part.sum(axis=1), (part * fall).sum(axis=1)
    losses, masses = law_of_cells(ends, p, d, upper, _ERROR)
    return Atoms(losses, masses)


def _with_tails(law: Atoms, beyond: float, upper: bool) -> Atoms:
    """Return a law in which mass beyond the cells is lost (`upper`) or left out."""
    if not upper:
        return _trimmed(law, upper)
    masses = law.masses.copy()
    masses[0] += beyond
    return _trimmed(replace(law, masses=masses, lost=Fraction(beyond)), upper)


def _sorted(law: Atoms | None, losses: Floats, masses: Floats, blur: float) -> Atoms:
    """Return a law with more atoms."""
    if law is not None:
        losses = np.concatenate([law.losses, losses])
        masses = np.concatenate([law.masses, masses])
        blur = max(blur, law.blur)
    order = np.argsort(losses, kind="stable")
    return Atoms(losses[order], masses[order], blur=blur)


def _between(above: Atoms, below: Atoms) -> Step:
    """Return the step with one law for upper bounds and one for lower bounds."""
    upper, lower = AtomFamily(above, above).step(), AtomFamily(below, below).step()
    return between(upper, lower)


# ---- listed laws of any step -------------------------------------------------------


def listed(step: Step, upper: bool, cells: int = _BULK) -> Atoms:
    """Return a list above or below a symmetric step's law.

    Raises
    ------
    UnsupportedEventError
        The two directions differ, or the law has no cells.
    """
    if step.removal != step.addition:
        raise UnsupportedEventError(
            "an event within such a sample must have one law of the privacy loss for "
            "both orders of the datasets"
        )
    side = step.removal
    loss = side.loss if upper or side.exact else side.least
    lost = side.lost if upper else side.sure
    if loss is None:
        return Atoms(np.zeros(1), np.full(1, float(1 - lost)), lost)
    try:
        return _atoms_of(loss.law(None, cells, upper, _LOG_TAIL), lost, upper)
    except OverflowError:
        raise UnsupportedEventError(
            "no cells are known for the law of the event's privacy loss"
        ) from None


def _atoms_of(law: Law, lost: Fraction, upper: bool) -> Atoms:
    share = float(1 - lost)
    whole = lost + (1 - lost) * Fraction(law.lost)
    # Raise smaller losses to _LEAST_LOSS; then Q has some mass where P has none.
    losses = np.maximum(law.loss, _LEAST_LOSS) if upper else law.loss
    masses = law.mass * share
    found = _trimmed(Atoms(losses, masses, whole, float(whole), sure=lost), upper)
    if not upper:
        return found
    other = np.exp(np.log(found.masses) - found.losses)
    spare = 1 - float(whole) - math.fsum(other)
    if spare >= 0:
        return replace(found, other=float(whole) + spare)
    # The least loss carries an upper bound of a tail's mass, and so more mass of Q than
    # is left: raise that mass to a loss of 0.
    masses = found.masses.copy()
    moved = float(masses[0])
    left = max(0.0, 1 - float(whole) - math.fsum(other[1:]))
    masses[0] = max(_LEAST_MASS, left * math.exp(float(found.losses[0])))
    some = replace(found, masses=masses)
    return replace(
        _sorted(some, np.zeros(1), np.full(1, moved), 0.0),
        lost=whole,
        other=float(whole),
        sure=lost,
    )


def _trimmed(law: Atoms, upper: bool) -> Atoms:
    """Raise masses below `_LEAST_MASS` to `_LEAST_MASS` (`upper`), or drop them."""
    masses = np.maximum(law.masses, _LEAST_MASS) if upper else law.masses
    kept = masses >= _LEAST_MASS
    return replace(law, losses=law.losses[kept], masses=masses[kept])


def known(step: Step, rate: Fraction) -> Step:
    """Return the step of a sample whose members may be known.

    With probability 1 - rate the loss is 0, and otherwise the step's loss.
    """
    above, below = (_known(listed(step, upper), rate) for upper in (True, False))
    return _between(above, below)


def _known(law: Atoms, rate: Fraction) -> Atoms:
    q = float(rate)
    losses = np.append(law.losses, 0.0)
    masses = np.append(law.masses * q, float(1 - rate))
    order = np.argsort(losses, kind="stable")
    sure = None if law.sure is None else rate * law.sure
    return replace(
        law,
        losses=losses[order],
        masses=masses[order],
        lost=rate * law.lost,
        other=q * law.other,
        sure=sure,
    )


def drawn(
    weights: Sequence[float],
    rest: float,
    step_of: Callable[[int], Step],
    rate: Fraction,
    *,
    one_more: bool,
) -> Step:
    """Return the step of a sample in which a record may be drawn several times.

    Parameters
    ----------
    weights : sequence of float
        Probabilities of one draw, two draws, and so on, given at least one draw.
    rest : float
        A bound on the probability of more draws, which count as lost.
    step_of : callable
        Function from a group size to the step.
    rate : Fraction
        The probability of at least one draw, or slightly more.
    one_more : bool
        Whether datasets differ by one added record rather than a replaced record.
    """
    roots = np.cbrt(weights)
    sizes = np.maximum(_FEWEST, 2 * _BULK * roots / roots.sum()).astype(int)
    laws = [
        (weight, listed(step_of(1 + i), True, int(sizes[i])))
        for i, weight in enumerate(weights)
    ]
    losses = np.concatenate([law.losses for _, law in laws])
    masses = np.concatenate([weight * law.masses for weight, law in laws])
    order = np.argsort(losses, kind="stable")
    lost = sum((Fraction(weight) * law.lost for weight, law in laws), Fraction(rest))
    law = Atoms(losses[order], masses[order], lost, float(lost), sure=Fraction(0))
    law = _trimmed(law, True)
    family = AtomFamily(law, law)
    # Lower bounds: a mechanism that ignores how often a record is drawn.
    one = listed(step_of(1), False)
    below = AtomFamily(one, one).sampled(rate * (1 - Fraction(1, 10**14)))
    if one_more:
        return between(family.sampled(rate), below)
    return either_order(family.sampled(rate, True), below)
