"""Mechanisms with planted faults, and sound ones, as arguments of `audit.run`.

Generators start from fixed seeds, and sound mechanisms draw from the system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fastdp
from fastdp import accounting, audit, distributions


class Fault(NamedTuple):
    """How to make a mechanism with a fault, the check that finds it, and the draws."""

    make: Callable[[], dict[str, Any]]
    check: str
    draws: int


FAULTS: dict[str, Fault] = {}


def fault(check: str, draws: int = 20_000) -> Callable[[Any], Any]:
    """Enter a factory into `FAULTS`, by its name."""

    def enter(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        FAULTS[make.__name__] = Fault(make, check, draws)
        return make

    return enter


def integer_laplace(scale: float, seed: int = 1) -> Callable[[Any], Any]:
    """Return a function that draws discrete Laplace noise for an array."""
    rng = np.random.default_rng(seed)
    p = 1 - np.exp(-1 / scale)

    def noise(shape: Any) -> Any:
        return rng.geometric(p, shape) - rng.geometric(p, shape)

    return noise


def of_noise(noise: Callable[[Any], Any], claim: Any = (1, 0)) -> dict[str, Any]:
    def release(x: np.ndarray) -> np.ndarray:
        return x + noise(x.shape)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": claim}


LAW = distributions.DiscreteLaplace(1)


def single(release: Callable[[Any], Any]) -> dict[str, Any]:
    return {"mechanism": release, "neighbors": (0, 1), "claim": (1, 0)}


# ---- too little noise ------------------------------------------------------------


@fault("privacy", 400_000)
def scale_8_percent_too_small() -> dict[str, Any]:
    return of_noise(integer_laplace(0.92))


@fault("privacy", 1_500_000)
def scale_5_percent_too_small() -> dict[str, Any]:
    return of_noise(integer_laplace(0.95))


@fault("privacy", 100_000)
def delta_twice_as_large() -> dict[str, Any]:
    noise, rng = integer_laplace(1), np.random.default_rng(2)

    def release(x: np.ndarray) -> np.ndarray:
        bare = rng.random(x.shape) < 0.02
        return np.where(bare, x + 1000, x + noise(x.shape))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0.01)}


@fault("privacy", 100_000)
def noise_cut_off() -> dict[str, Any]:
    noise = integer_laplace(1)
    return of_noise(lambda shape: np.clip(noise(shape), -4, 4))


@fault("privacy")
def sensitivity_of_two() -> dict[str, Any]:
    return {**of_noise(integer_laplace(1)), "neighbors": (0, 2)}


@fault("privacy")
def clamped_after_the_sum() -> dict[str, Any]:
    rng = np.random.default_rng(3)

    def release(x: np.ndarray) -> np.ndarray:
        total = np.clip(x.sum(axis=1), 0, 1000)
        return total + rng.laplace(size=len(x))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "sums", "claim": (1, 0)}


@fault("privacy")
def noise_twice_or_never() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        twice = noise(x.shape) + noise(x.shape)
        return x + np.where(x > 0, twice, 0)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


@fault("privacy")
def sigma_of_half() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    event = accounting.GDPEvent(1)
    return of_noise(lambda shape: rng.normal(0, 0.5, shape), event)


@fault("privacy")
def one_coordinate_without_noise() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        added = noise(x.shape)
        added[:, 2] = 0
        return x + added

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "histograms", "claim": (1, 0)}


@fault("privacy")
def choice_with_twice_the_epsilon() -> dict[str, Any]:
    m = fastdp.ExponentialMechanism(4, sensitivity=1)
    mechanism = audit.batched(m.select)
    return {"mechanism": mechanism, "neighbors": "selections", "claim": (2, 0)}


@fault("privacy")
def zero_has_two_signs() -> dict[str, Any]:
    """Draw a sign and a size, so that 0 is twice as likely."""
    rng = np.random.default_rng(10)
    p = 1 - np.exp(-1)

    def noise(shape: Any) -> Any:
        return rng.choice((-1, 1), shape) * (rng.geometric(p, shape) - 1)

    return of_noise(noise)


@fault("privacy")
def noise_of_one_sign() -> dict[str, Any]:
    rng = np.random.default_rng(11)
    return of_noise(lambda shape: rng.geometric(1 - np.exp(-1), shape))


@fault("privacy")
def clipped_to_the_data_after_noise() -> dict[str, Any]:
    rng = np.random.default_rng(12)

    def release(x: np.ndarray) -> np.ndarray:
        noisy = x.sum(axis=1) + rng.laplace(size=len(x))
        return np.clip(noisy, 0, len(x[0]) * x.max(axis=1))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "sums", "claim": (1, 0)}


@fault("privacy")
def scale_from_the_data() -> dict[str, Any]:
    rng = np.random.default_rng(13)

    def release(x: np.ndarray) -> np.ndarray:
        return x.mean(axis=1) + rng.laplace(size=len(x)) * x.max(axis=1) / 100

    pair = np.zeros(100), np.eye(100)[0]
    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": pair, "claim": (1, 0)}


@fault("privacy")
def count_rounded_to_a_float() -> dict[str, Any]:
    """Move two counts at distance 1 to distance 2: floats are even beyond 2^53."""
    noise, middle = integer_laplace(1), 2**53 + 1

    def release(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64).astype(np.int64) + noise(x.shape)

    mechanism = audit.batched(release)
    pair = middle, middle + 1
    return {"mechanism": mechanism, "neighbors": pair, "claim": (1, 0)}


@fault("privacy")
def two_releases_for_the_price_of_one() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        return x[:, None] + noise((len(x), 2))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


@fault("privacy")
def reports_keep_as_if_of_two_categories() -> dict[str, Any]:
    rng, keep = np.random.default_rng(14), np.e / (1 + np.e)

    def release(x: np.ndarray) -> np.ndarray:
        other = (x + rng.integers(1, 5, x.shape)) % 5
        return np.where(rng.random(x.shape) < keep, x, other)

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": (0, 1), "claim": (1, 0)}


@fault("privacy")
def ties_are_not_broken_at_random() -> dict[str, Any]:
    """Choose the first of the best, unless noise tells them apart."""
    rng = np.random.default_rng(15)

    def select(x: np.ndarray) -> np.ndarray:
        choice = (x + rng.gumbel(size=x.shape) * 2).argmax(axis=1)
        tied = (x == x.max(axis=1, keepdims=True)).sum(axis=1) > 1
        return np.where(tied, x.argmax(axis=1), choice)

    mechanism = audit.batched(select)
    return {"mechanism": mechanism, "neighbors": "selections", "claim": (1, 0)}


@fault("privacy", 4000)
def threshold_without_noise_of_the_queries() -> dict[str, Any]:
    """Answer like the sparse vector technique, with a noisy threshold alone."""
    noise = integer_laplace(1)

    def first_above(answers: tuple[int, ...]) -> str:
        limit = int(noise(()))
        return "".join("above" if y >= limit else "below" for y in answers)

    pair = (0, 1), (1, 0)
    return {"mechanism": first_above, "neighbors": pair, "claim": (1, 0)}


@fault("privacy")
def sample_that_is_everybody() -> dict[str, Any]:
    """Claim the amplification by a sample of a tenth, without the sample."""
    claim = (float(np.log1p(0.1 * np.expm1(1))), 0)
    return of_noise(integer_laplace(1), claim)


@fault("privacy", 4000)
def mean_of_nobody() -> dict[str, Any]:
    rng = np.random.default_rng(16)

    def mean(x: tuple[float, ...]) -> float:
        return sum(x) / len(x) + rng.laplace() if x else float("nan")

    return {"mechanism": mean, "neighbors": ((), (1.0,)), "claim": (1, 0)}


@fault("privacy", 4000)
def answers_are_remembered() -> dict[str, Any]:
    noise, known = integer_laplace(1), dict[int, int]()

    def release(x: int) -> int:
        return known.setdefault(x, 100 * x + int(noise(())))

    return single(release)


# ---- floats ----------------------------------------------------------------------


@fault("precision")
def laplace_of_floats() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return of_noise(lambda shape: rng.laplace(size=shape))


@fault("precision")
def noise_of_even_numbers() -> dict[str, Any]:
    noise = integer_laplace(4)
    return of_noise(lambda shape: 2 * noise(shape))


@fault("precision")
def grid_that_the_data_leave() -> dict[str, Any]:
    noise = integer_laplace(2.0**10)
    claim = {"neighbors": (0.0, 1 / 3), "claim": (1, 0)}
    return {**of_noise(lambda shape: noise(shape) * 2.0**-10), **claim}


@fault("precision")
def noise_of_16_random_bits() -> dict[str, Any]:
    rng = np.random.default_rng(17)

    def noise(shape: Any) -> Any:
        u = (rng.integers(0, 2**16, shape) + 0.5) / 2**16
        return np.sign(u - 0.5) * -np.log(2 * np.minimum(u, 1 - u))

    return of_noise(noise)


@fault("precision")
def noise_of_single_precision() -> dict[str, Any]:
    rng = np.random.default_rng(18)

    def noise(shape: Any) -> Any:
        return rng.laplace(size=shape).astype(np.float32)

    return {**of_noise(noise), "neighbors": (0.0, 0.1), "claim": (0.1, 0)}


@fault("precision")
def one_noise_for_all_cells() -> dict[str, Any]:
    noise = integer_laplace(1)

    def release(x: np.ndarray) -> np.ndarray:
        return x + noise((len(x), 1))

    mechanism = audit.batched(release)
    return {"mechanism": mechanism, "neighbors": "histograms", "claim": (1, 0)}


# ---- the law -----------------------------------------------------------------------


@fault("law", 50_000)
def scale_5_percent_too_large() -> dict[str, Any]:
    return of_noise(integer_laplace(1.05), LAW)


@fault("law", 50_000)
def low_bit_of_two_percent() -> dict[str, Any]:
    noise, rng = integer_laplace(20), np.random.default_rng(6)

    def biased(shape: Any) -> Any:
        drawn = noise(shape)
        return np.where(rng.random(shape) < 0.05, drawn & ~1, drawn)

    return of_noise(biased, distributions.DiscreteLaplace(20))


@fault("law")
def neighbors_correlated() -> dict[str, Any]:
    noise, rng = integer_laplace(1), np.random.default_rng(7)

    def repeated(shape: Any) -> Any:
        drawn = noise(shape)
        again = np.roll(drawn, 1)
        return np.where(rng.random(shape) < 0.2, again, drawn)

    return of_noise(repeated, LAW)


@fault("law", 50_000)
def first_of_32_without_noise() -> dict[str, Any]:
    noise = integer_laplace(1)

    def gap(shape: Any) -> Any:
        drawn = noise(shape)
        drawn[::32] = np.minimum(drawn[::32], 1)
        return drawn

    return of_noise(gap, LAW)


@fault("law", 50_000)
def sum_of_3_uniform_numbers() -> dict[str, Any]:
    rng = np.random.default_rng(19)

    def noise(shape: Any) -> Any:
        return 2 * rng.random((*shape, 3)).sum(axis=-1) - 3

    return {**of_noise(noise, stats.norm()), "neighbors": (0.0, 1.0)}


@fault("law", 50_000)
def positive_in_53_percent() -> dict[str, Any]:
    noise, rng = integer_laplace(20), np.random.default_rng(20)

    def leaning(shape: Any) -> Any:
        size = np.abs(noise(shape))
        return np.where(rng.random(shape) < 0.53, size, -size)

    return of_noise(leaning, distributions.DiscreteLaplace(20))


@fault("law")
def one_noise_for_a_whole_batch() -> dict[str, Any]:
    noise = integer_laplace(1)
    return of_noise(lambda shape: noise(()), LAW)


# ---- sound ones ----------------------------------------------------------------------


def sound() -> dict[str, dict[str, Any]]:
    """Return sound mechanisms of the library by name."""

    def added(m: Any, neighbors: Any, *laws: Any) -> dict[str, Any]:
        mechanism = audit.batched(m.release)
        claim = [m.event(), *laws]
        return {"mechanism": mechanism, "neighbors": neighbors, "claim": claim}

    def chosen(m: Any) -> dict[str, Any]:
        mechanism = audit.batched(m.select)
        return {"mechanism": mechanism, "neighbors": "selections", "claim": m.event()}

    one = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    wide = fastdp.DiscreteLaplace.from_epsilon(0.01, sensitivity=1)
    normal = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=1)
    cut = fastdp.TruncatedLaplace(scale=1, bound=12, sensitivity=1)
    real = fastdp.Laplace.from_epsilon(1, sensitivity=1)
    smooth = fastdp.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=1)
    answer = fastdp.RandomizedResponse.from_epsilon(1, categories=3)

    def reported(m: Any) -> dict[str, Any]:
        mechanism = audit.batched(m.release)
        return {"mechanism": mechanism, "neighbors": (0, 1), "claim": m.event()}

    half = fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1)
    return {
        "DiscreteLaplace": added(one, (0, 1), LAW),
        "DiscreteLaplace of scale 100": added(
            wide, (10**6, 10**6 + 1), distributions.DiscreteLaplace(100)
        ),
        "DiscreteLaplace of counts": added(one, "counts"),
        "DiscreteLaplace of histograms": added(one, "histograms"),
        "DiscreteGaussian": added(
            normal, (0, 1), distributions.DiscreteGaussian(normal.sigma)
        ),
        "TruncatedLaplace": added(
            cut, (0, 1), distributions.TruncatedDiscreteLaplace(1, bound=12)
        ),
        "Laplace": added(real, (0.0, 1.0), stats.laplace()),
        "Gaussian": added(smooth, (0.0, 1.0)),
        "RandomizedResponse": {
            "mechanism": audit.batched(answer.release),
            "neighbors": (0, 1),
            "claim": (1, 0),
        },
        "ExponentialMechanism": chosen(fastdp.ExponentialMechanism(1, sensitivity=1)),
        "PermuteAndFlip": chosen(fastdp.PermuteAndFlip(1, sensitivity=1)),
        **{
            f"ReportNoisyMax of {noise} noise": chosen(
                fastdp.ReportNoisyMax(1, sensitivity=1, noise=noise)
            )
            for noise in ("exponential", "laplace", "gumbel")
        },
        "Laplace of vectors": added(
            fastdp.Laplace.from_epsilon(1, sensitivity=3, coordinates=8), "vectors"
        ),
        "Gaussian of vectors": added(
            fastdp.Gaussian(2, sensitivity=1, coordinates=8), "vectors"
        ),
        "UnaryEncoding": reported(fastdp.UnaryEncoding.from_epsilon(1, categories=4)),
        "HadamardResponse": reported(
            fastdp.HadamardResponse.from_epsilon(1, categories=7)
        ),
        "SubsetSelection": reported(
            fastdp.SubsetSelection.from_epsilon(1, categories=6)
        ),
        "DiscreteLaplace of one count": {
            "mechanism": one.release,
            "neighbors": (0, 1),
            "claim": one.event(),
        },
        "Quantiles": {
            "mechanism": lambda x: float(half.release(x)),
            "neighbors": (np.array([0.1, 0.9]), np.array([0.1, 0.9, 1.0])),
            "claim": (1, 0),
        },
    }
