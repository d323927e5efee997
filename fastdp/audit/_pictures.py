"""Pictures of a report, as SVG within the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

#: Size of a picture, and of its frame's margins: left, top, right, bottom.
_WIDTH, _HEIGHT = 360, 270
_LEFT, _TOP, _RIGHT, _BOTTOM = 48, 12, 12, 42

#: Colors of the first input and the second.
_COLORS = ("#2f6f9f", "#b45f06")

Points = Sequence[tuple[float, float]]


class _Plot:
    """A frame with axes; lines are drawn in the data's coordinates."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], names: tuple[str, str]
    ) -> None:
        self._x, self._y = x, y
        label = escape(f"{names[1]}, by {names[0]}")
        self._parts = [
            f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='{label}'>"
        ]
        for value, text in _ticks(*x):
            at = self.at(value, y[0])
            self._parts.append(
                f"<line class='grid' x1='{at[0]:.1f}' x2='{at[0]:.1f}' y1='{_TOP}' "
                f"y2='{_HEIGHT - _BOTTOM}'/><text x='{at[0]:.1f}' "
                f"y='{_HEIGHT - _BOTTOM + 14}' text-anchor='middle'>{text}</text>"
            )
        for value, text in _ticks(*y):
            at = self.at(x[0], value)
            self._parts.append(
                f"<line class='grid' x1='{_LEFT}' x2='{_WIDTH - _RIGHT}' "
                f"y1='{at[1]:.1f}' y2='{at[1]:.1f}'/><text x='{_LEFT - 5}' "
                f"y='{at[1] + 4:.1f}' text-anchor='end'>{text}</text>"
            )
        middle = (_HEIGHT - _BOTTOM + _TOP) / 2
        for name, place in (
            (names[0], f"translate({(_WIDTH + _LEFT) / 2} {_HEIGHT - 6})"),
            (names[1], f"translate(11 {middle}) rotate(-90)"),
        ):
            text = (
                f"<text transform='{place}' text-anchor='middle'>{escape(name)}</text>"
            )
            self._parts.append(text)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point in the picture."""
        across = (x - self._x[0]) / (self._x[1] - self._x[0])
        up = (y - self._y[0]) / (self._y[1] - self._y[0])
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * wide, _HEIGHT - _BOTTOM - up * high

    def line(self, points: Points, style: str, closed: bool = False) -> None:
        """Draw a line, or an area."""
        path = "L".join("{:.1f},{:.1f}".format(*self.at(*p)) for p in points)
        self._parts.append(f"<path d='M{path}{'Z' * closed}' style='{style}'/>")

    def dot(self, x: float, y: float, radius: float, style: str) -> None:
        """Draw a dot."""
        at = self.at(x, y)
        self._parts.append(
            f"<circle cx='{at[0]:.1f}' cy='{at[1]:.1f}' r='{radius:.1f}' "
            f"style='{style}'/>"
        )

    def figure(self, title: str, text: str, key: Iterable[tuple[str, str]]) -> str:
        """Return the picture with its title, key and explanation."""
        keys = "".join(
            f"<span><i style='background:{color}'></i>{escape(name)}</span>"
            for name, color in key
        )
        return (
            f"<figure><h3>{escape(title)}</h3>{''.join(self._parts)}</svg>"
            f"<div class='key'>{keys}</div><figcaption>{escape(text)}</figcaption>"
            "</figure>"
        )


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return four to eight round numbers in a range, with their texts."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough)
    first = math.ceil(low / step - 1e-9)
    numbers = [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(x, f"{x:.7g}" if abs(x) < 1e6 else f"{x:.3g}") for x in numbers]


def _stroke(color: str, width: float = 1.8, more: str = "") -> str:
    return f"fill:none;stroke:{color};stroke-width:{width};{more}"


_INPUTS = [("first input", _COLORS[0]), ("second input", _COLORS[1])]


def trade_off(data: dict[str, Any]) -> str:
    """Draw the error rates of tests on the outcomes, and those that a claim allows."""
    names = ("share of wrong alarms", "share of misses")
    plot = _Plot((0, 1), (0, 1), names)
    rules = np.array(data["curve"])
    worse = rules[:, [0, 2]].sum(axis=1) > 1  # worse than guessing: invert the test
    rules[worse] = (1 - rules[worse])[:, [1, 0, 3, 2]]
    low, high = _hulls(rules)
    fill = "fill:#2f6f9f;fill-opacity:.28;stroke:none"
    plot.line([*low, *high[::-1]], fill, closed=True)
    plot.line([(0, 1), (1, 0)], _stroke("#9aa5b1", 1, "stroke-dasharray:2 3"))
    x = np.linspace(0, 1, len(data["claims"][0])).tolist()
    for claim in data["claims"]:
        points = list(zip(x, claim, strict=True))
        plot.line(points, _stroke("#a61b1b", 1.8, "stroke-dasharray:6 4"))
    for a, b, c, d in rules.tolist():
        plot.dot((a + b) / 2, (c + d) / 2, 1.6, "fill:#1d2733")
    text = (
        "Somebody sees an outcome and says which input it was. The dots are rules for "
        "saying so, with the two ways of being wrong. The band is where the best rule "
        "lies, as far as these draws tell. Nobody may get below the red line: the "
        "claim is refuted if the whole band is below it at some place. On the dotted "
        "line an outcome tells nothing."
    )
    key = [("the claim", "#a61b1b"), ("measured, with its band", _COLORS[0])]
    return plot.figure("How well inputs can be told apart", text, key)


def _hulls(curve: np.ndarray) -> tuple[Points, Points]:
    """Return lower hulls of the boxes' lower left and upper right corners.

    A mixture of two tests is a test, so the set of reachable error rates is convex.
    """
    found = []
    for corner in ((0, 2), (1, 3)):
        points = sorted({(0.0, 1.0), (1.0, 0.0), *map(tuple, curve[:, corner])})
        hull: list[tuple[float, float]] = []
        for p in points:
            while len(hull) > 1 and _turns_up(hull[-2], hull[-1], p):
                hull.pop()
            hull.append(p)
        found.append(hull)
    return found[0], found[1]


def _turns_up(a: Any, b: Any, c: Any) -> bool:
    return bool((b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0]))


def outputs(data: dict[str, Any]) -> str:
    """Draw the distributions of the outputs for both inputs."""
    edges, shares = data["edges"], data["shares"]
    top = max(map(max, shares)) * 1.05
    offset = edges[0] if abs(edges[0]) > 1e6 else 0
    name = f"first number of the output, minus {offset:.17g}" if offset else "output"
    edges = [x - offset for x in edges]
    plot = _Plot((edges[0], edges[-1]), (0, top), (name, "share of the draws"))
    for color, heights in zip(_COLORS, shares, strict=True):
        points = [(edges[0], 0.0)]
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            points += [(left, height), (right, height)]
        plot.line([*points, (edges[-1], 0.0)], _stroke(color))
    text = (
        "The more the two lines overlap, the less an output tells. Seen at the first "
        "pair of inputs, without the most extreme outputs."
    )
    return plot.figure("What comes out", text, _INPUTS)


def support(rows: Sequence[Sequence[float]]) -> str:
    """Draw which floats occur as outputs, by size and by precision."""
    binades, lowest = [row[0] for row in rows], [row[1] for row in rows]
    x, y = (min(binades) - 1, max(binades) + 1), (min(lowest) - 2, max(lowest) + 2)
    names = (
        "size of the output: 2 to the power of",
        "precision: a multiple of 2 to the",
    )
    plot = _Plot(x, y, names)
    for binade, low, *shares in rows:
        for which, share in enumerate(shares):
            if share:
                radius = 1 + 6 * math.sqrt(share)
                at = binade + (0.18, -0.18)[which == 0]
                style = f"fill:{_COLORS[which]};fill-opacity:.6"
                plot.dot(at, low, radius, style)
    text = (
        "Numbers in a computer are multiples of a power of two, finer for small ones. "
        "Dots of one color where the other has none are outputs that only one input "
        "gives: they tell it for certain. Sound noise lies on one grid, whatever the "
        "input: no dot is below its horizontal line."
    )
    return plot.figure("The last digits of outputs", text, _INPUTS)


def times(quantiles: Sequence[Sequence[float]]) -> str:
    """Draw the share of calls that are done after each time, for both inputs."""
    most = max(q[-6] for q in quantiles)  # the 95 % quantile
    least = min(q[0] for q in quantiles)
    high = most + 0.1 * (most - least) + 1
    plot = _Plot((least, high), (0, 1), ("ns of a call", "share of the calls that end"))
    for color, values in zip(_COLORS, quantiles, strict=True):
        at = [(v, i / 100) for i, v in enumerate(values) if v <= high]
        plot.line(at, _stroke(color))
    text = (
        "If the two lines lie on each other, the time of a call does not tell which "
        "input it had."
    )
    return plot.figure("How long calls take", text, _INPUTS)
