"""The polynomials of the kernels: reproducible, and within the bounds they state.

The macros are read from the header as text and evaluated as they are written there;
the true values come from mpmath.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from tools import make_constants
from tools.polynomial_search import exp_bounds, log_bounds, specs, to_mpf

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc" / "sampler" / "constants.h"
PAGE = ROOT / "docs" / "proofs" / "polynomials.md"

NAMES = ["LOG", "EXP"]
TRUE: dict[str, Callable[[Any], Any]] = {
    "LOG": mpmath.log1p,
    "EXP": mpmath.exp,
}


def read_header() -> tuple[dict[str, float], dict[str, tuple[str, str]], str]:
    """Return the numbers, the function-like macros (argument, body) and the text."""
    text = HEADER.read_text()
    joined = text.replace("\\\n", " ")
    numbers = {}
    literal = r"^#define FDP_(\w+) \(?(-?0x[0-9a-f.]+p[+-]\d+)\)?(?: |$)"
    for name, value in re.findall(literal, joined, re.M):
        numbers[name] = float.fromhex(value)
    macros = {}
    for name, argument, body in re.findall(
        r"^#define FDP_(\w+)\((\w)\) (.*)$", joined, re.M
    ):
        macros[name] = (argument, " ".join(body.split()))
    return numbers, macros, text


NUMBERS, MACROS, TEXT = read_header()


def coefficients(name: str) -> list[float]:
    """Coefficients of the polynomial, lowest power first."""
    found = re.findall(rf"^#define FDP_{name}_C(\d+) ", TEXT, re.M)
    powers = [int(k) for k in found]
    assert powers == list(range(powers[0], powers[0] + len(powers)))
    return [NUMBERS[f"{name}_C{k}"] for k in powers]


def evaluate(name: str, x: Any) -> Any:
    """Evaluate the EVAL macro as written, one rounding per operation."""
    argument, body = MACROS[f"{name}_EVAL"]
    inner_argument, inner = MACROS[f"{name}_POLY"]
    assert argument == inner_argument
    body = body.replace(f"FDP_{name}_POLY({argument})", inner)
    scope: dict[str, Any] = {
        f"FDP_{key}": np.float64(value) for key, value in NUMBERS.items()
    }
    scope[argument] = x
    return eval(body, {"__builtins__": {}}, scope)  # noqa: S307 - our own header


def fused(a: Any, b: Any, c: Any) -> Any:
    """a b + c with one rounding."""
    exact = [
        float(Fraction(p) * Fraction(q) + Fraction(r))
        for p, q, r in np.broadcast(a, b, c)
    ]
    return np.array(exact)


def evaluate_fused(name: str, x: Any) -> Any:
    """Evaluate the expression with every product and sum contracted."""
    *rest, last = coefficients(name)
    p = np.full(x.shape, last)
    for c in reversed(rest):
        p = fused(x, p, c)
    if name == "LOG":
        return fused(p, x * x, x)
    return fused(p, x, 1.0)


def points(name: str) -> Any:
    """Dense, random, tiny and extreme arguments of the domain."""
    low, high = NUMBERS.get(f"{name}_MIN", 0.0), NUMBERS[f"{name}_MAX"]
    rng = np.random.default_rng(20240229)
    count = 700
    tiny = high * 2.0 ** -rng.uniform(0, 55, count // 2)
    parts = [
        np.linspace(low, high, count),
        rng.uniform(low, high, count),
        tiny,
        -tiny if low < 0 else tiny / 3,
        np.array([low, high, 0.0]),
    ]
    x = np.concatenate(parts)
    return x[(x >= low) & (x <= high)]


def errors(name: str, x: Any, computed: Any) -> tuple[Any, Any]:
    """Return the errors, and the true values."""
    with mpmath.workdps(40):
        exact = [TRUE[name](mpmath.mpf(float(v))) for v in x]
        pairs = zip(computed, exact, strict=True)
        gaps = [float(abs(mpmath.mpf(float(c)) - t)) for c, t in pairs]
        return np.array(gaps), np.array([abs(float(t)) for t in exact])


@pytest.mark.parametrize("form", [evaluate, evaluate_fused])
@pytest.mark.parametrize("name", NAMES)
def test_computed_error_is_within_the_bounds_and_near_them(
    name: str, form: Callable[[str, Any], Any]
) -> None:
    x = points(name)
    error, true = errors(name, x, form(name, x))
    nonzero = x != 0
    bound = NUMBERS[f"{name}_EVAL_ERR"]
    if name == "LOG":
        assert bound / 4 <= error.max() <= bound
        bound = NUMBERS[f"{name}_EVAL_ERR_REL"]
        worst = (error[nonzero] / np.abs(x[nonzero])).max()
    else:
        worst = (error[nonzero] / true[nonzero]).max()
    assert bound / 4 <= worst <= bound
    # At 0 the answer is exact, whatever the bound allows.
    assert (error[~nonzero] == 0).all()
    assert (~nonzero).any()


@pytest.mark.parametrize("name", NAMES)
def test_fit_error_is_within_its_bound_and_near_it(name: str) -> None:
    low, high = NUMBERS.get(f"{name}_MIN", 0.0), NUMBERS[f"{name}_MAX"]
    worst = worst_relative = mpmath.mpf(0)
    with mpmath.workdps(50):
        powers = [mpmath.mpf(c) for c in coefficients(name)]
        for i in range(1001):  # Chebyshev points: they are dense at the ends
            cosine = mpmath.cos(mpmath.pi * i / 1000)
            x = (mpmath.mpf(low) + high) / 2 - (mpmath.mpf(high) - low) / 2 * cosine
            x = min(max(x, mpmath.mpf(low)), mpmath.mpf(high))
            if x == 0:
                continue
            p = sum(c * x**k for k, c in enumerate(powers))
            shape = x + x * x * p if name == "LOG" else 1 + x * p
            true = TRUE[name](x)
            gap = abs(shape - true)
            if name == "LOG":
                worst = max(worst, gap)
                worst_relative = max(worst_relative, gap / abs(x))
            else:
                worst = max(worst, gap / abs(true))
        bound = NUMBERS[f"{name}_FIT_ERR"]
        assert bound / 1.25 <= worst <= bound
        if name == "LOG":
            bound = NUMBERS[f"{name}_FIT_ERR_REL"]
            assert bound / 1.25 <= worst_relative <= bound


def test_promised_accuracy() -> None:
    limits = {
        "LOG": -52,
        "EXP": -57,  # a Taylor polynomial of the same degree stays at 2^-47
    }
    for name, limit in limits.items():
        assert NUMBERS[f"{name}_FIT_ERR"] <= 2.0**limit
        assert NUMBERS[f"{name}_EVAL_ERR"] >= NUMBERS[f"{name}_FIT_ERR"]
        terms = re.search(rf"^#define FDP_{name}_TERMS (\d+)$", TEXT, re.M)
        assert terms is not None
        assert int(terms.group(1)) == len(coefficients(name))


def test_domains_cover_the_range_reductions() -> None:
    assert NUMBERS["LOG_MIN"] < math.sqrt(0.5) - 1 - 2.0**-21
    assert NUMBERS["LOG_MAX"] > math.sqrt(2) - 1 + 2.0**-21
    assert NUMBERS["EXP_MAX"] > math.log(2) / 2 + 2.0**-11
    assert NUMBERS["EXP_MIN"] == -NUMBERS["EXP_MAX"]


def test_ln2() -> None:
    with mpmath.workdps(80):
        ln2 = mpmath.log(2)
        split = mpmath.mpf(NUMBERS["LN2_HI"]) + mpmath.mpf(NUMBERS["LN2_LO"])
        gap = abs(split - ln2)
        bound = NUMBERS["LN2_SPLIT_ERR"]
        assert bound / 1.02 <= gap <= bound
        gap = abs(mpmath.mpf(NUMBERS["LN2"]) - ln2)
        assert NUMBERS["LN2_ERR"] / 1.02 <= gap <= NUMBERS["LN2_ERR"]
        assert gap <= mpmath.mpf(2) ** -54
    # k * HI needs no rounding in the type.
    mantissa = Fraction(NUMBERS["LN2_HI"]).numerator
    for k in range(2048):
        product = k * mantissa
        odd = product // (product & -product) if product else 0
        assert odd.bit_length() <= 53


def test_log2e_and_the_fixed_point_ln2() -> None:
    with mpmath.workdps(80):
        log2e = 1 / mpmath.log(2)
        assert NUMBERS["LOG2E"] == float(log2e)
        words = [
            re.search(rf"FDP_LN2_128_{part} UINT64_C\((0x[0-9a-f]{{16}})\)", TEXT)
            for part in ("HI", "LO")
        ]
        assert words[0] is not None
        assert words[1] is not None
        value = int(words[0].group(1), 16) << 64 | int(words[1].group(1), 16)
        assert value == int(mpmath.floor(mpmath.log(2) * mpmath.mpf(2) ** 128))


def test_enclosures_of_the_proof() -> None:
    rng = np.random.default_rng(5)
    with mpmath.workdps(90):
        for value in rng.uniform(0.5, 2, 100):
            low, high = log_bounds(Fraction(float(value)))
            true = mpmath.log(mpmath.mpf(float(value)))
            assert to_mpf(low) <= true <= to_mpf(high)
            assert high - low < Fraction(1, 1 << 200)
        for value in rng.uniform(-0.5, 0.5, 100):
            low, high = exp_bounds(Fraction(float(value)))
            true = mpmath.exp(mpmath.mpf(float(value)))
            assert to_mpf(low) <= true <= to_mpf(high)
            assert high - low < Fraction(1, 1 << 200)


@pytest.mark.rest
@pytest.mark.parametrize("name", NAMES)
def test_proof_sees_a_damaged_coefficient(name: str) -> None:
    spec = next(s for s in specs() if s.name == name)
    values = coefficients(name)
    shift = 2.0**-18
    values[1] += shift
    free = {spec.first + i: Fraction(c) for i, c in enumerate(values)}
    bounds = make_constants.prove(spec, free)
    # The damage moves the expression by shift * x^k at the right end of the domain.
    moved = shift * float(spec.high) ** (spec.first + 1)
    if name != "LOG":
        moved /= float(TRUE[name](float(spec.high)))
    fit = float(bounds.fit.absolute if name == "LOG" else bounds.fit.relative)
    assert moved - 2.0**-22 <= fit <= 3 * moved + 2.0**-22
    assert fit > NUMBERS[f"{name}_FIT_ERR"]


def test_check_reports_a_difference(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "constants.h"
    monkeypatch.setattr(make_constants, "HEADER", copy)
    monkeypatch.setattr(make_constants, "header", lambda: "one\n")
    assert make_constants.main(["--check"]) == 1
    assert make_constants.main([]) == 0
    assert copy.read_text() == "one\n"
    assert make_constants.main(["--check"]) == 0
    copy.write_text("two\n")
    assert make_constants.main(["--check"]) == 1


def test_page_quotes_the_bounds_of_the_header() -> None:
    page = PAGE.read_text()
    for name in NAMES:
        for kind in ("FIT_ERR", "EVAL_ERR", "FIT_ERR_REL", "EVAL_ERR_REL"):
            value = NUMBERS.get(f"{name}_{kind}")
            if value is not None:
                row = re.search(
                    rf"^\| `FDP_{name}_{kind}` \| `(\S+?)f?` \|", page, re.M
                )
                assert row is not None, (name, kind)
                assert float.fromhex(row.group(1)) == value
