"""Rounding errors of floating-point expressions, by gappa."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterable, Iterator
from fractions import Fraction

from ._header import coefficients, constant
from ._lemma import prover

SECONDS = 90  # of one script


def prove(scripts: Iterable[str]) -> str:
    """Run gappa on each script; it answers with its exit status."""
    for script in scripts:
        command = ["timeout", str(SECONDS), "gappa"]
        run = subprocess.run(command, input=script, capture_output=True, text=True)
        if run.returncode == 124:
            return f"gappa takes more than {SECONDS} s"
        if "not satisfied" in run.stderr or "no contradiction" in run.stderr:
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
    "csrc/sampler/constants.h: FDP_EXP_EVAL(r) (1.0 + (r) * FDP_EXP_POLY(r))",
    wrong=[{"share": Fraction(1, 2)}],
)
def exp_roundings(share: Fraction = Fraction(1)) -> Iterator[str]:
    # For every double in the domain, what is computed differs from the polynomial by at
    # most EVAL_ERR less FIT_ERR, relative to the function: without any product
    # contracted, and with all.
    fit, whole = constant("EXP_FIT_ERR"), constant("EXP_EVAL_ERR")
    most = floor(share * (whole - fit) / (1 + fit))
    low, high = constant("EXP_MIN"), constant("EXP_MAX")
    for fused in (False, True):
        yield f"""@rnd = float<ieee_64, ne>;
x = rnd(X);
{horner("EXP", "rnd", fused)}
{{ x in [{number(low)}, {number(high)}]
   -> (p0 - exact) / exact in [-{number(most)}, {number(most)}] }}
$ x in 16;
"""


@lemma(
    "kernels.md",
    "`fdp_nearest` is round-half-even there",
    "csrc/sampler/bits.h: return (x + 0x1.8p52) - 0x1.8p52;",
    wrong=[{"offset": 54}, {"offset": 53}],
)
def nearest(size: int = 51, offset: int = 52) -> Iterator[str]:
    # For doubles |x| <= 2^51 the result is an integer within 1/2 of x.
    yield f"""@rnd = float<ieee_64, ne>;
x = rnd(X);
a = rnd(x + 3b{offset - 1});
y = rnd(a - 3b{offset - 1});
{{ x in [-1b{size}, 1b{size}] -> y - x in [-0.5, 0.5] /\\ @FIX(y, 0) }}
y - x -> (y - (a - 3b{offset - 1})) + (a - (x + 3b{offset - 1}));
"""


@lemma(
    "selection.md",
    "k is the floor of a double between x log2 e - 2^-19 and x log2 e - 2^-21",
    "csrc/mech/inverse_settle.c: size = (double)(uint64_t)(gap >> 64) * 0x1p-48;",
    "csrc/mech/inverse_settle.c: nats = size * FDP_LOG2E - 0x1p-20;",
    wrong=[{"off": 36}, {"off": 18}],
)
def fine_places(off: int = 20) -> Iterator[str]:
    # For 0 <= x < 2^16 in units of 2^-112, log2 e within 2^-53 of the constant.
    log2e = constant("LOG2E")
    yield f"""@rnd = float<ieee_64, ne>;
size = rnd(fixed<-48, dn>(x));
L = {number(log2e)};
n = rnd(rnd(size * L) - 1b-{off});
{{ x in [0, 65536] /\\ e in [-1b-53, 1b-53]
   -> n - x * (L + e) in [-1b-19, -1b-21] }}
n - x * (L + e) -> (n - (rnd(size * L) - 1b-{off}))
    + (rnd(size * L) - size * L) + (size - x) * L - x * e - 1b-{off};
size - x -> (size - fixed<-48, dn>(x)) + (fixed<-48, dn>(x) - x);
"""
