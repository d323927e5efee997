"""Bounds on delta for discrete Gaussian noise on integer vectors.

The analytic Gaussian formula is not a bound for this law (it is 4-5 times too low
for sigma below 1), so the profile is summed where possible and otherwise bounded by the
theorem of docs/proofs/calibration.md, section 4:

* one coordinate moves: the exact sum of positive terms (section 2);
* few coordinates, small sigma: the largest of the exact sums for all integer shift
  patterns that no larger pattern covers (section 3);
* sigma >= 4: analytic profile + allowance, for any shifts (section 4);
* otherwise: zero-concentrated privacy and its conversion.

Every function returns an upper bound of ln(delta), rounding included.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from fastdp._special import LOG_SQRT_2PI, log_normalizer
from fastdp.accounting import _gaussian, _zcdp
from fastdp.accounting._numeric import inflate, log_fraction, sqrt_up

#: Most terms in a sum over one coordinate: about a millisecond.
MAX_TERMS = 30_000
#: Patterns are enumerated up to this squared sensitivity and below this sigma.
MAX_PATTERN_NORM = 16
PATTERN_SIGMA = 8
#: The allowance for large sigma: (least sigma, constant), best first (section 4).
ALLOWANCES = ((16, 0.09), (8, 0.12), (4, 0.25))
#: A tilted coordinate is kept for 12 sigma + 4 on each side; the 4 matters when
#: sigma is so small that neighbors differ by more than exp(-72).
_REACH, _REACH_FLAT = 12, 4
#: Patterns are summed up to kinks this many sigma away.
_FAR = 100


def log_delta(
    epsilon: Fraction, sensitivity: Fraction, sigma: Fraction, coordinates: int | None
) -> float:
    """Return an upper bound of ln(delta(epsilon)).

    Integer answers change by integer vectors of squared length at most `norm`, the
    floor of the squared sensitivity; a sensitivity below 1 counts as 1.
    """
    norm = max(1, int(sensitivity * sensitivity))
    if coordinates == 1 or norm == 1:
        return _one_coordinate(epsilon, math.isqrt(norm), sigma)
    if norm <= MAX_PATTERN_NORM and sigma < PATTERN_SIGMA:
        worst = max(
            pattern_log_delta(epsilon, pattern, sigma)
            for pattern in maximal_patterns(norm, coordinates)
        )
        return min(worst, _zcdp.log_delta(epsilon, norm / (2 * sigma * sigma)))
    return steady_log_delta(epsilon, sensitivity, sigma)


def log_delta_between(
    epsilon: Fraction,
    sensitivity: Fraction,
    low: Fraction,
    high: Fraction,
    coordinates: int | None,
) -> float:
    """Return an upper bound of ln(delta(epsilon)) for every sigma in [low, high].

    With r = (high/low)^2 and n changed coordinates it is r^(1 + n/2) delta(epsilon/r)
    at `high` (docs/proofs/calibration.md, section 4).
    """
    norm = max(1, int(sensitivity * sensitivity))
    moved = norm if coordinates is None else min(norm, coordinates)
    r = (high / low) ** 2
    more = (1 + moved / 2) * log_fraction(r)
    return inflate(log_delta(epsilon / r, sensitivity, high, coordinates) + more)


def steady_log_delta(
    epsilon: Fraction, sensitivity: Fraction, sigma: Fraction
) -> float:
    """Return an upper bound of ln(delta(epsilon)) that falls as sigma grows."""
    norm = max(1, int(sensitivity * sensitivity))
    length = min(sensitivity, sqrt_up(Fraction(norm))) if sensitivity > 1 else 1
    return _large_or_concentrated(epsilon, Fraction(length), norm, sigma)


def piece(epsilon: Fraction, shift: int, sigma: Fraction) -> int:
    """Return the last integer that does not contribute to one coordinate's delta.

    As long as it is the same, the sigmas with delta above a given number form an
    interval (docs/proofs/calibration.md, section 4).
    """
    return math.floor(epsilon * sigma * sigma / shift - Fraction(shift, 2))


def _one_coordinate(epsilon: Fraction, shift: int, sigma: Fraction) -> float:
    kink = epsilon * sigma * sigma / shift - Fraction(shift, 2)
    if kink < -(40 * sigma + 2):  # 1 - delta is below the least double
        return 0.0
    if _terms(epsilon, shift, sigma) <= MAX_TERMS:
        return single_log_delta(epsilon, shift, sigma)
    return _large_or_concentrated(epsilon, Fraction(shift), shift * shift, sigma)


def _large_or_concentrated(
    epsilon: Fraction, length: Fraction, norm: int, sigma: Fraction
) -> float:
    concentrated = _zcdp.log_delta(epsilon, norm / (2 * sigma * sigma))
    if sigma < ALLOWANCES[-1][0]:
        return concentrated
    return min(concentrated, large_sigma_log_delta(epsilon, length, sigma))


def single_log_delta(epsilon: Fraction, shift: int, sigma: Fraction) -> float:
    """Return ln(delta) of one coordinate moved by `shift` >= 1, by direct summation.

    delta = sum over x > kink of P(x) (1 - exp(-(shift/sigma^2)(x - kink))), with
    kink = epsilon sigma^2/shift - shift/2 (Canonne, Kamath and Steinke 2020, Thm 7).
    The first integer and its distance from the kink are exact.
    """
    variance = sigma * sigma
    kink = epsilon * variance / shift - Fraction(shift, 2)
    first = math.floor(kink) + 1
    rate = float(shift / variance)
    reach = _reach(rate)
    width = float(variance)
    # Left of the center nothing beyond the reach matters: all but a part of the
    # mass that the bound on `missing` covers lies within it.
    start = max(first, -math.ceil(math.sqrt(2 * width * reach)) - 1)
    anchor = max(start, 0)
    stop = anchor + math.ceil(_right(float(anchor), 2 * width * reach)) + 1
    steps = np.arange(start - anchor, stop - anchor + 1, dtype=np.float64)
    gaps = float(start - kink) + (steps - steps[0])
    terms = np.exp(-steps * (2 * float(anchor) + steps) / (2 * width))
    total = float(np.sum(terms * -np.expm1(-rate * gaps)))
    missing = (1 + width / stop) * float(terms[-1])
    if start > first:
        missing *= 2
    log_anchor = -float(anchor * anchor / (2 * variance))
    return inflate(log_anchor - log_normalizer(sigma) + math.log(total + missing))


def _reach(rate: float) -> float:
    """Return the largest exponent to sum, beyond which the rest is negligible."""
    return 50 + max(0.0, -2 * math.log(rate))


def _terms(epsilon: Fraction, shift: int, sigma: Fraction) -> float:
    """Return about how many terms `single_log_delta` sums, without overflow."""
    if sigma > 1 << 40:
        return math.inf
    variance = float(sigma * sigma)
    kink = float(epsilon) * variance / shift - shift / 2
    span = 2 * variance * _reach(shift / variance)
    return _right(max(kink, 0.0), span) + min(max(-kink, 0.0), math.sqrt(span))


def _right(anchor: float, span: float) -> float:
    """Return sqrt(anchor^2 + span) - anchor without cancellation."""
    return span / (math.hypot(anchor, math.sqrt(span)) + anchor)


def large_sigma_log_delta(
    epsilon: Fraction, length: Fraction, sigma: Fraction
) -> float:
    """Return a bound of ln(delta) for any integer shifts of length <= `length`.

    delta <= analytic(epsilon, mu) + C mu exp(E) / (sqrt(2 pi) sigma^2), mu =
    length/sigma, E = tau^2/2 - tau a, a = epsilon/mu - mu/2, tau = max(a, 1/100),
    with C from `ALLOWANCES`, sigma >= 4 (proved in docs/proofs/calibration.md,
    section 4, for any number of coordinates).
    """
    mu = length / sigma
    log_allowance = large_sigma_allowance(epsilon, mu, 2 * log_fraction(sigma))
    analytic = _gaussian.log_delta(epsilon, mu)
    larger = max(analytic, log_allowance)
    smaller = min(analytic, log_allowance)
    return inflate(larger + math.log1p(math.exp(smaller - larger)))


def large_sigma_allowance(
    epsilon: Fraction, mu: Fraction, log_variance: float
) -> float:
    """Return ln of a bound on the profile's distance from the analytic profile."""
    least = log_variance / 2 * (1 + 1e-12)
    constant = next(c for sigma, c in ALLOWANCES if least >= math.log(sigma))
    a = epsilon / mu - mu / 2
    tau = max(a, Fraction(1, 100))
    exponent = float(max(tau * tau / 2 - tau * a, Fraction(-(10**18))))
    log_scale = math.log(constant) + log_fraction(mu) - log_variance
    return exponent - LOG_SQRT_2PI + log_scale


@functools.lru_cache(maxsize=64)
def maximal_patterns(norm: int, coordinates: int | None) -> tuple[tuple[int, ...], ...]:
    """Return the shift patterns that no other pattern within the norm exceeds.

    A pattern lists positive integers, largest first, with at most `coordinates`
    entries and squares adding up to at most `norm`. Enlarging any entry gives a
    dominating pair, so the worst pattern is among those returned.
    """
    longest = norm if coordinates is None else min(norm, coordinates)
    found: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) < longest:
            top = min(math.isqrt(left), prefix[-1] if prefix else left)
            for part in range(top, 0, -1):
                extend((*prefix, part), left - part * part)
            if left >= 1:
                return
        if prefix and all(2 * part + 1 > left for part in prefix):
            found.append(prefix)

    extend((), norm)
    return tuple(found)


def pattern_log_delta(
    epsilon: Fraction, pattern: tuple[int, ...], sigma: Fraction
) -> float:
    """Return ln(delta) when the coordinates move by exactly `pattern`.

    The loss depends on x only through w = <x, pattern>. The law of w is a convolution,
    computed under an exponential tilt that centers it at the kink, so that all terms
    are positive and none underflows.
    """
    if len(pattern) == 1:
        return single_log_delta(epsilon, pattern[0], sigma)
    variance = sigma * sigma
    norm = sum(part * part for part in pattern)
    kink = epsilon * variance - Fraction(norm, 2)
    if kink > _FAR * norm * sigma:  # centers would lose digits; ln(delta) < -5000
        return _zcdp.log_delta(epsilon, norm / (2 * variance))
    tilt = Fraction(max(0.0, float(kink / norm)))
    weights, lowest, lost = _tilted_convolution(pattern, float(tilt), sigma)
    first = math.floor(kink) + 1
    skip = max(0, first - lowest)
    steps = np.arange(len(weights) - skip, dtype=np.float64)
    start = max(first, lowest)
    decay = np.exp(-float(tilt / variance) * ((start - first) + steps))
    gaps = -np.expm1(-(float(start - kink) + steps) / float(variance))
    total = float(np.sum(weights[skip:] * decay * gaps)) + lost
    log_first = -float((2 * tilt * first - tilt * tilt * norm) / (2 * variance))
    # Convolutions of some thousand terms lose more than one sum does: 1e-11 covers.
    return inflate(log_first + math.log(total) + 1e-11)


def _tilted_convolution(
    pattern: tuple[int, ...], tilt: float, sigma: Fraction
) -> tuple[np.ndarray, int, float]:
    """Return weights of w under the tilt, the least w, and a bound on lost mass."""
    width, z = float(sigma), math.exp(log_normalizer(sigma))
    reach = _REACH * width + _REACH_FLAT
    beyond = math.exp(-((reach / width) ** 2) / 2) * (1 + width * width / reach)
    law, lowest = np.ones(1), 0
    for part in pattern:
        center = tilt * part
        low, high = math.floor(center - reach), math.ceil(center + reach)
        x = np.arange(low, high + 1, dtype=np.float64) - center
        spread = np.zeros((high - low) * part + 1)
        spread[::part] = np.exp(-x * x / (2 * width * width)) / z
        law = np.convolve(law, spread)
        lowest += low * part
    # Each coordinate leaves out at most 2 beyond/z of mass at most 1; what
    # underflows on the way is below 1e-290 together.
    lost = 2.2 * len(pattern) * beyond / z + 1e-290
    return law, lowest, lost
