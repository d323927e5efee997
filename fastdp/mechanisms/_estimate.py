"""What the first lines return: a statistic with its interval and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp._validate import Real
from fastdp.accounting.events import Event
from fastdp.exceptions import ParameterError

#: Groups that a repr shows.
_SHOWN = 10


@dataclass(frozen=True)
class Estimate:
    """A released statistic: nothing in it is private any more.

    Attributes
    ----------
    value : int, float or ndarray
        The noisy statistic of the records between the bounds; an entry for each group.
    interval : tuple
        (low, high), of the type of `value`: holds the statistic with probability
        `level` (each entry of an array by itself). Of groups that nobody listed: a
        group is shown with an interval that misses with probability at most 1 - level.
    level : float
        Probability of `interval`.
    event : Event
        What the release costs; accountants and filters take it.
    unit : str
        Whose presence is hidden: "user", or "row" where no users were given.
    keys : list, optional
        The groups, sorted by bytes (strings) or value; None without `by`.
    shares : dict of str to float, optional
        Of epsilon (or rho), what the selection of keys and the statistic cost, where
        the budget was split; None where one noise does for both.
    """

    value: Any
    interval: tuple[Any, Any]
    level: float
    event: Event
    unit: str
    keys: list[Any] | None = None
    shares: dict[str, float] | None = None

    def __repr__(self) -> str:
        low, high = self.interval
        said = f"level={self.level:g}, unit={self.unit!r}"
        if self.shares is not None:
            said += f", shares={self.shares!r}"
        if self.keys is not None:
            listed = zip(self.keys, self.value, low, high, strict=True)
            lines = [f"{key!r}: {_line(*row)}" for key, *row in listed][:_SHOWN]
            left = len(self.keys) - len(lines)
            lines += [f"... and {left} more"] if left else []
            named = f"{len(self.keys)} groups, {said}"
            return "\n    ".join([f"Estimate({named}):", *lines])
        return f"Estimate({_line(self.value, low, high)}, {said})"

    def table(self) -> dict[str, Any]:
        """Return the groups as columns key, value, low and high, for a data frame.

        Raises
        ------
        ParameterError
            The estimate has no groups.
        """
        if self.keys is None:
            raise ParameterError("by must have been given for a table of groups")
        low, high = self.interval
        return {"key": list(self.keys), "value": self.value, "low": low, "high": high}

    def epsilon(self, *, delta: Real = 0) -> float:
        """Return an epsilon that the release meets at `delta`, rounded up."""
        from fastdp.accounting.guarantees import event_epsilon

        return event_epsilon(self.event, delta)


def _line(value: Any, low: Any, high: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value!r}, interval=({low!r}, {high!r})"
    return f"{value:.6g}, interval=({low:.6g}, {high:.6g})"
