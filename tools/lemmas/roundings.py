"""Rounding errors of floating-point expressions, by gappa."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Iterator
from fractions import Fraction

from ._header import coefficients, constant
from ._lemma import prover


def prove(scripts: Iterable[str]) -> str:
    """Run gappa on each script; it answers with its exit status."""
    for script in scripts:
        run = subprocess.run(
            ["gappa"], input=script, capture_output=True, text=True, timeout=60
        )
        if run.returncode != 0 and "not satisfied" in run.stderr:
            return "refuted"
        if run.returncode != 0:
            return f"gappa says {run.stderr.strip()}"
    return "proved"


lemma = prover(prove)


def floor(x: Fraction) -> Fraction:
    """Round a small number down to a dyadic one."""
    return Fraction(math.floor(x * 2**80), 2**80)


def number(x: Fraction) -> str:
    """Return a dyadic number as gappa reads it."""
    return f"{x.numerator}b-{x.denominator.bit_length() - 1}"


def horner(name: str, rounding: str, fused: bool) -> str:
    """Spell FDP_<name>_EVAL in steps, each rounded, as gappa reads them."""
    terms = coefficients(name)
    most = max(terms)
    inner = f"c{most}"
    lines = [f"c{k} = {number(c)};" for k, c in sorted(terms.items())]
    for k in range(most - 1, -1, -1):
        product = f"x * {inner}" if fused else f"{rounding}(x * {inner})"
        lines += [f"p{k} = {rounding}(c{k} + {product});"]
        inner = f"p{k}"
    exact = f"c{most}"
    for k in range(most - 1, -1, -1):
        exact = f"(c{k} + x * {exact})"
    return "\n".join([*lines, f"exact = {exact};"])


@lemma(
    "polynomials.md",
    "**Theorem 2 (evaluation).**",
    "csrc/sampler/constants.h: FDP_EXPF_EVAL(r) (1.0f + (r) * FDP_EXPF_POLY(r))",
    "csrc/sampler/constants.h: FDP_EXP_EVAL(r) (1.0 + (r) * FDP_EXP_POLY(r))",
    wrong=[{"share": Fraction(1, 2)}],
)
def exp_roundings(share: Fraction = Fraction(1)) -> Iterator[str]:
    # For every number of the type in the domain, what is computed differs from the
    # polynomial by at most EVAL_ERR less FIT_ERR, relative to the function: without
    # any product contracted, and with all.
    for name, bits in (("EXPF", 32), ("EXP", 64)):
        fit, whole = constant(f"{name}_FIT_ERR"), constant(f"{name}_EVAL_ERR")
        most = floor(share * (whole - fit) / (1 + fit))
        low, high = constant(f"{name}_MIN"), constant(f"{name}_MAX")
        for fused in (False, True):
            yield f"""@rnd = float<ieee_{bits}, ne>;
x = rnd(X);
{horner(name, "rnd", fused)}
{{ x in [{number(low)}, {number(high)}]
   -> (p0 - exact) / exact in [-{number(most)}, {number(most)}] }}
$ x in 16;
"""
