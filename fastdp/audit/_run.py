"""The checks of an audit, run together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastdp import _validate
from fastdp._validate import Real, float_down
from fastdp.audit import _budget, _law, _messages, _privacy, _state, _time
from fastdp.audit._bounds import needed
from fastdp.audit._claims import LawClaim, PrivacyClaim, read
from fastdp.audit._findings import Finding
from fastdp.audit._law import Tables
from fastdp.audit._neighbors import Pair, edges_of, pairs_of
from fastdp.audit._outcomes import Outcomes, joined
from fastdp.audit._privacy import Events
from fastdp.audit._report import Report
from fastdp.audit._worker import Batched, LostError, Subject, Worker
from fastdp.exceptions import DTypeError, ParameterError

#: Number of checks that share the level; `messages` needs less than its share.
_STATISTICAL = 7

#: Number of draws of an input at an edge of arithmetic, unless the claim needs more.
_AT_EDGES = 4000

#: Choose events from at most this many outcomes of one input.
_LEARNED = 2**18


def batched(function: Callable[[Any], Any]) -> Batched:
    """Return a mechanism that draws many times in one call.

    Parameters
    ----------
    function : callable
        Function from an array of inputs, shape (draws, ...), to an array of outputs,
        shape (draws,) or (draws, ...), with one independent draw for each input.

    Raises
    ------
    DTypeError
        `function` is not callable.

    Examples
    --------
    >>> import fastdp
    >>> from fastdp import audit
    >>> m = fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1)
    >>> mechanism = audit.batched(m.release)
    """
    if not callable(function):
        raise DTypeError(f"function must be callable, got {type(function).__name__}")
    return Batched(function)


def run(
    mechanism: Callable[[Any], Any] | Batched,
    *,
    neighbors: Any,
    claim: Any,
    draws: int = 200_000,
    level: Real = 1e-9,
    timing: int = 0,
    budget: tuple[Callable[[Any], Any], int] | None = None,
) -> Report:
    """Try to refute the claims about a mechanism.

    Parameters
    ----------
    mechanism : callable or Batched
        `mechanism(x)` makes one draw from the input x. `batched` makes one of a
        function of arrays, which is faster.
    neighbors : pair of inputs, str or iterable of pairs
        A tuple of two inputs that are hard to distinguish under the claim; or "counts",
        "sums", "histograms", "vectors" or "selections", for pairs at distance 1 of an
        integer, of 100 records in [0, 1], of 4 counts, of 8 floats (in L2) and of 4
        scores; or at most 32 pairs, possibly from a generator that searches for them.
        The law and the state are checked for the first pair.
    claim : Event, pair, TradeOffFunction, law, callable or list of these
        An event of `fastdp.accounting` (`ZCDPEvent` for rho, `GDPEvent` for mu), a pair
        (epsilon, delta), or a trade-off function. A law of `fastdp.distributions` or
        scipy is the law of the output minus the input; a function from an input to a
        law gives the law of the output.
    draws : int
        Number of draws from each input. Events are chosen by at most half of the draws
        and tested on the others.
    level : int, float, Fraction or Decimal
        Bound on the probability that a mechanism that keeps its claim is reported, >=
        1e-30.
    timing : int
        Number of pairs of calls for the comparison of run times; 0 without a claim
        about time.
    budget : pair of callable and int, optional
        A function of an input that answers, or raises once its budget is spent, and the
        number of answers that the budget affords. The function is called with the first
        input, in threads, copies and forks. By default no budget is checked.

    Returns
    -------
    Report

    Raises
    ------
    ParameterError
        `draws` or `timing` are too few to refute anything at this level; the message
        has the required number.

    Notes
    -----
    The mechanism runs in processes that are forked from this one, so that it may hang,
    print or end its process: the report says so, and the audit continues. Each check
    has a share of `level`; docs/proofs/audit.md proves that the checks respect it,
    provided that calls of a sound mechanism are independent.

    References
    ----------
    Ding, Wang, Wang, Zhang, Kifer, "Detecting Violations of Differential Privacy"
    (2018); Bichsel, Steffen, Bogunovic, Vechev, "DP-Sniper" (2021); Clopper, Pearson
    (1934); Mironov, "On Significance of the Least Significant Bits" (2012).

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp import audit
    >>> rng = np.random.default_rng()
    >>> def too_little_noise(x):
    ...     return x + rng.laplace(scale=0.5, size=x.shape)
    >>> report = audit.run(audit.batched(too_little_noise), neighbors=(0, 1),
    ...                    claim=(1, 0), draws=20_000)
    >>> report.refuted, report.finding("privacy").status
    (True, 'refuted')
    """
    if not callable(mechanism) and not isinstance(mechanism, Batched):
        raise DTypeError(
            f"mechanism must be callable, got {type(mechanism).__name__} (of a "
            "mechanism of fastdp, its release)"
        )
    pairs = pairs_of(neighbors)
    claims = read(claim)
    n = _validate.integer("draws", draws, 2, 2**40)
    alpha = float_down(_validate.open_unit("level", level))
    if alpha < 1e-30:
        raise ParameterError("level must be at least 1e-30")
    privacy = [c for c in claims if isinstance(c, PrivacyClaim)]
    laws = [c for c in claims if isinstance(c, LawClaim)]
    tables = [_tables(c, pairs[0]) for c in laws]
    pairs_timed = _validate.integer("timing", timing, 0, 2**40)
    if budget is not None:
        _require_budget(budget)
    share = alpha / _STATISTICAL
    _require_enough(n, privacy, share / len(pairs))
    if 0 < pairs_timed < (least := _time.needed(share)):
        raise ParameterError(
            f"timing must be 0, or at least {least} pairs of calls: fewer "
            f"refute nothing at this level, got {pairs_timed}"
        )
    start = time.perf_counter()
    survey = _Survey(mechanism, pairs, privacy, tables)
    survey.run(n)
    findings = [survey.conduct()]
    if privacy:
        findings += [survey.finding(check, share) for check in ("privacy", "precision")]
    if laws:
        findings.append(survey.law(share))
    if privacy:
        findings.append(_at_edges(mechanism, pairs[0], privacy, n, share))
    inputs = pairs[0].first, pairs[0].second
    findings.append(_state.check(mechanism, inputs, share))
    findings.append(_messages.check(mechanism, inputs))
    if pairs_timed:
        findings.append(_time.check(mechanism, inputs, pairs_timed, share))
    if budget is not None:
        findings.append(_budget.check(*budget, inputs[0]))
    return Report(
        mechanism=_name(mechanism),
        claim="; ".join(c.text for c in claims),
        draws=n,
        level=alpha,
        seconds=time.perf_counter() - start,
        findings=tuple(findings),
    )


def _name(mechanism: Any) -> str:
    function = mechanism.function if isinstance(mechanism, Batched) else mechanism
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type(time)):
        return f"{owner!r}.{function.__name__}"
    return str(getattr(function, "__qualname__", repr(function)))


def _require_budget(budget: Any) -> None:
    if not isinstance(budget, tuple) or len(budget) != 2 or not callable(budget[0]):
        raise DTypeError("budget must be a pair of a function and a number of answers")
    _validate.integer("budget", budget[1], 1, 2**20)


def _least(claims: Sequence[PrivacyClaim], level: float) -> int:
    """Return the least number of draws that can refute a claim with a single event."""
    return 2 * min(needed(c.breaks, level / 200) for c in claims)


def _require_enough(n: int, claims: Sequence[PrivacyClaim], level: float) -> None:
    """Refuse draws that cannot refute a claim about any mechanism."""
    if not claims:
        return
    least = _least(claims, level)
    if n < least:
        raise ParameterError(
            f"draws must be at least {least} to refute the claim at this level, got {n}"
        )


def _tables(claim: LawClaim, pair: Pair) -> list[Tables]:
    """Return tables for a law: of both inputs, or one for each."""
    if claim.of_input is None:
        for x in (pair.first, pair.second):
            if np.asarray(x).dtype.kind not in "iuf" or np.ndim(x):
                raise DTypeError(
                    "a law as claim means the law of the noise, and "
                    "needs neighbors that are numbers; give a function "
                    "from an input to a law instead"
                )
        both = Tables(claim.law)
        return [both, both]
    return [Tables(claim.of_input(x)) for x in (pair.first, pair.second)]


def _at_edges(
    mechanism: Any, pair: Pair, claims: Sequence[PrivacyClaim], n: int, level: float
) -> Finding:
    """Return the finding for pairs at the edges of arithmetic."""
    pairs = edges_of(pair)
    if isinstance(mechanism, Batched):
        function = mechanism.function  # call it singly, so that an error is an outcome

        def one(x: Any) -> Any:
            return function(np.asarray(x)[None])[0]
    else:
        one = mechanism
    least = _least(claims, level / max(1, len(pairs)))
    survey = _Survey(one, pairs, claims, [], ("edges",))
    survey.run(min(n, max(2 * least, _AT_EDGES)))
    found = survey.finding("edges", level)
    return replace(found, status="fault") if survey.short else found


class _Survey:
    """The draws of all pairs, in one process, and their counts."""

    def __init__(
        self,
        mechanism: Any,
        pairs: Sequence[Pair],
        claims: Sequence[PrivacyClaim],
        tables: Sequence[list[Tables]],
        checks: Sequence[str] = ("privacy", "precision"),
    ) -> None:
        self._mechanism, self._pairs = mechanism, pairs
        self._claims, self._tables = claims, tables
        self._is_noise = [len({*map(id, each)}) == 1 for each in tables]
        self._events: dict[str, list[Events]] = {check: [] for check in checks}
        self._tested = 0
        self._no_number = ""
        self._faults: dict[str, None] = {}
        self._kinds: dict[str, int] = {}
        self._total = 0
        self.short = ""

    def run(self, n: int) -> None:
        """Draw n times from each input of each pair."""
        inputs = [x for pair in self._pairs for x in (pair.first, pair.second)]
        worker = Worker(self._mechanism, inputs)
        try:
            with worker:
                for k, pair in enumerate(self._pairs):
                    self._survey(worker, k, pair, n)
                if worker.prints():
                    self._faults["prints to standard output or error"] = None
        except LostError as lost:
            self._faults[str(lost)] = None
            self.short = str(lost)
        self._faults |= dict.fromkeys(worker.remarks)

    def _survey(self, worker: Worker, k: int, pair: Pair, n: int) -> None:
        learned: list[list[Outcomes]] = [[], []]
        first = min(n // 2, _LEARNED)

        def learn(which: int, outcomes: Outcomes) -> None:
            learned[which].append(outcomes)
            self._look(k, which, outcomes)

        if not self._draw(worker, k, first, learn):
            return
        whole = [joined(parts) for parts in learned]
        learned.clear()
        found = [Events(check, pair, self._claims, whole) for check in self._events]
        for check, events in zip(self._events, found, strict=True):
            self._events[check].append(events)

        def test(which: int, outcomes: Outcomes) -> None:
            for events in found:
                events.add(which, outcomes)
            self._look(k, which, outcomes)

        if self._draw(worker, k, n - first, test):
            self._tested = n - first

    def _draw(
        self, worker: Worker, k: int, n: int, use: Callable[[int, Outcomes], None]
    ) -> bool:
        """Draw n times from both inputs of a pair, in turn; False if that fails."""
        left = [n, n]
        while any(left):
            for which in (0, 1):
                if not left[which]:
                    continue
                outcomes = worker.do(Subject.draw, 2 * k + which, left[which])
                if outcomes is None:
                    # Stop: the other draws would be biased to batches that succeed.
                    self.short = "a batch failed"
                    return False
                left[which] -= len(outcomes)
                use(which, outcomes)
        return True

    def _look(self, k: int, which: int, outcomes: Outcomes) -> None:
        """Count kinds of outcome, and the noise of the first pair."""
        self._total += len(outcomes)
        for label, times in zip(
            outcomes.labels,
            np.bincount(outcomes.kinds, minlength=len(outcomes.labels)),
            strict=True,
        ):
            if times and label.startswith(("number", "raises", "nan")):
                self._kinds[label] = self._kinds.get(label, 0) + int(times)
        if k or not self._tables:
            return
        usual = outcomes.numbered()
        if not usual.all() or outcomes.values.shape[1] != 1:
            other = [label for label in outcomes.labels if label[:6] != "number"]
            self._no_number = (other or ["several numbers"])[0]
            return
        y = outcomes.values[:, 0]
        x = self._pairs[0].second if which else self._pairs[0].first
        batch = isinstance(self._mechanism, Batched)
        for is_noise, each in zip(self._is_noise, self._tables, strict=True):
            each[which].add(y - x if is_noise else y, batched=batch)

    def conduct(self) -> Finding:
        """Return the finding on anything that the mechanism did besides answering."""
        known = [label for label in self._kinds if label.startswith("raises")]
        total = self._total
        for label in known:
            self._faults[f"{label} in {self._kinds[label]} of {total} draws"] = None
        numbers = [x for x in self._kinds if x[:6] == "number"]
        if len(numbers) > 1:
            self._faults[f"returns different types or shapes: {', '.join(numbers)}"] = (
                None
            )
        if "nan" in self._kinds:
            self._faults[f"returns NaN in {self._kinds['nan']} of {total} draws"] = None
        warned = [x for x in self._faults if x.startswith("warns")]
        faults = [x for x in self._faults if not x.startswith("warns")]
        return Finding(
            check="conduct",
            status="fault" if faults else "nothing found",
            tried="errors, hanging, output, changed inputs, types and shapes, warnings",
            evidence="; ".join(faults) or "it answers, and does nothing else",
            false_alarm=0.0,
            notes=tuple(warned),
        )

    def finding(self, check: str, level: float) -> Finding:
        """Return the finding of a check of privacy or precision."""
        every = self._events[check]
        if self.short or not every or not self._tested:
            return Finding(
                check=check,
                status="not run",
                tried=_privacy.TRIED[check],
                evidence=self.short or "no draws",
                false_alarm=0.0,
            )
        share = level / len(self._pairs)
        measured = [one for events in every for one in events.measured(share)]
        found = _privacy.finding(check, self._claims, measured, level, self._tested)
        shown = next((e for e in every if e.pair.text == found.input), every[0])
        return replace(found, data={**found.data, **shown.data})

    def law(self, level: float) -> Finding:
        """Return the finding of the tables of the first pair."""
        once = list({id(t): t for each in self._tables for t in each}.values())
        return _law.finding(once, self._no_number, level, self._pairs[0].text)
