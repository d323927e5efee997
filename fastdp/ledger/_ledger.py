"""`Ledger`: releases by label, each drawn and charged once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastdp import _validate
from fastdp.accounting.events import Event
from fastdp.exceptions import ParameterError
from fastdp.ledger import _counters, _files, _protocol, _shown, _terms
from fastdp.ledger._answers import Answer
from fastdp.ledger._counters import LedgerCounter, LedgerPrefixSums
from fastdp.ledger._opened import Opened
from fastdp.ledger._receipts import Receipt, receipts_json
from fastdp.ledger._terms import Terms
from fastdp.mechanisms import Counter, PrefixSums
from fastdp.mechanisms._base import Mechanism
from fastdp.mechanisms.choices.selection import Selection

__all__ = ["Ledger"]


class Ledger(Opened):
    """Budgets and answers that outlive the process, from `open` and `create`.

    Threads may share it. It must not be copied or pickled, and a forked process must
    open its own. It closes at the end of a `with` block.
    """

    def release(
        self,
        mechanism: Mechanism,
        x: Any,
        *,
        label: str,
        budgets: str | Iterable[str],
        source: str | None = None,
        unit: str | None = None,
    ) -> Answer:
        """Return `mechanism.release(x)`, drawn once and charged once for the label.

        Parameters
        ----------
        mechanism : Mechanism
            A mechanism with `release`; the cost is for the sensitivity that it
            remembers.
        x : ndarray, numpy scalar or number
            Data as for `mechanism.release`. All attempts of a label must pass the same
            values: sum integers, not floats, and read a snapshot.
        label : str
            Public name of this transaction: 1 to 200 printable ASCII characters. It
            should name the query, the window of the data and the run.
        budgets : str or iterable of str
            Budgets to charge: all of them or none.
        source : str, optional
            Public name of the snapshot that `x` was computed from.
        unit : str, optional
            Privacy unit of the sensitivity, such as "person". The charge refuses a
            budget of another unit. With None, no unit is compared.

        Returns
        -------
        Answer
            Its `value` is the result of `mechanism.release`.

        Raises
        ------
        BudgetExceededError, UnsupportedEventError
            A budget does not cover the mechanism, or cannot price it.
        LabelConflictError
            The label belongs to another mechanism, shape or dtype, or to other budgets.
        DTypeError, ParameterError
            As for the mechanism, before anything is charged.
        UnitMismatchError
            A budget has a unit other than `unit`.
        LedgerError
            The ledger cannot be used.

        Privacy
        -------
        The guarantee is `mechanism.event()`, for any number of attempts, crashes and
        readers (docs/proofs/ledger.md). A second attempt after a crash adds a distance
        that the budget states, or is charged again. Timing class T0.
        """
        m = _terms.check_mechanism(mechanism, "release")
        data = _terms.check_data("x", x)
        wanted = _terms.terms_of_call(
            label, "release", budgets, m.event(), m, data, source
        )
        return self._called(wanted.per(unit), m, m.release, data)

    def select(
        self,
        mechanism: Mechanism,
        scores: Any,
        *,
        label: str,
        budgets: str | Iterable[str],
        k: int = 1,
        axis: int = -1,
        source: str | None = None,
        unit: str | None = None,
    ) -> Answer:
        """Return `mechanism.select(scores)`, drawn once and charged for every attempt.

        Parameters
        ----------
        mechanism : Mechanism
            A mechanism with `select`, such as `ExponentialMechanism` or `KeySelection`.
        scores : ndarray
            Scores as for `mechanism.select`.
        label, budgets, source, unit
            As for `release`.
        k : int
            Number of choices from each set of candidates, if the mechanism has this
            option.
        axis : int
            Axis of the candidates, if the mechanism has this option.

        Returns
        -------
        Answer
            Its `value` is the result of `mechanism.select`: indices, or a mask of keys.

        Raises
        ------
        BudgetExceededError, LabelConflictError, DTypeError, ParameterError, LedgerError
            As for `release`.

        Privacy
        -------
        The guarantee is `mechanism.event()` for k choices from each set, charged for
        each attempt that draws, because the time of a selection may depend on the
        choice. Timing class T0.
        """
        m = _terms.check_mechanism(mechanism, "select")
        data = _terms.check_data("scores", scores)
        times = _validate.integer("k", k, 1)
        place = _validate.integer("axis", axis, -64, 63)
        many = {"k": times} if times != 1 else {}
        options = {**many, **({"axis": place} if place != -1 else {})}
        for name in options.keys() - inspect.signature(m.select).parameters.keys():
            raise ParameterError(
                f"{name} must be left out with a {type(m).__name__}, whose select does "
                "not take it"
            )

        def call(values: Any) -> Any:
            return m.select(values, **options)

        event = m.event()
        if isinstance(m, Selection):
            rows = max(1, _terms.rehearsed(call, data).size // times)
            event = m.event(**many, rows=rows)
        wanted = _terms.terms_of_call(
            label, "select", budgets, event, m, data, source, k=str(times), axis=place
        )
        return self._called(wanted.per(unit), m, call, data)

    def _called(
        self, wanted: Terms, mechanism: Mechanism, call: Callable[[Any], Any], data: Any
    ) -> Answer:
        """Answer by one call with one array; try it on zeros before the charge."""
        found = _protocol.stored(self._store, wanted)
        if found is not None:
            return self._answered(found, _terms.unpacked)
        trial = _terms.rehearsed(call, data)
        _terms.require_size(trial.nbytes)
        rare = _terms.rare_step(mechanism) if wanted.kind == "release" else None
        if rare is not None:
            wanted = replace(wanted, distance=rare * max(1, trial.size))

        def draw(_: int, __: object) -> tuple[str, bytes]:
            return "array", _terms.packed(call(data))

        return self._drawn(wanted, draw, _terms.unpacked)

    def table(
        self,
        columns: Mapping[str, tuple[Mechanism, Any]],
        *,
        keys: Mapping[str, Any],
        label: str,
        budgets: str | Iterable[str],
        select: tuple[Mechanism, Any] | tuple[str, int, Event] | None = None,
        most_rows: int | None = None,
        source: str | None = None,
        unit: str | None = None,
    ) -> Answer:
        """Return keys and noisy columns, drawn once and charged as one transaction.

        Parameters
        ----------
        columns : dict of str to (mechanism, array of shape (n,) or (n, m))
            Each is released by its own mechanism; all are charged together.
        keys : dict of str to array of shape (n,)
            Names of the rows: integers, strings or bytes of fixed width. Without
            `select` the keys are public, and other keys are another transaction. With
            `select`, only selected keys are shown; keys may then also be objects of
            `bytes`, and the answer is no wider than the shown keys.
        label, budgets, source, unit
            As for `release`.
        select : (mechanism, array of shape (n,)), optional
            A mechanism with `select` that returns a mask of n bools: the keys to show.
            Or (column, number, event): a key is shown if its noisy value in this column
            is above the number and its exact value is above 0. The event is the cost of
            this choice, without the cost of the column's noise.
        most_rows : int
            Largest number of rows to show, required with `select`: the first rows in
            the order of the keys are kept, and at most 512 MiB. It must not depend on
            the data.

        Returns
        -------
        Answer
            Its `value` is a dict of arrays, keys first; with `select`, rows are in the
            order of the keys.

        Raises
        ------
        BudgetExceededError, LabelConflictError, DTypeError, ParameterError, LedgerError
            As for `release`.

        Privacy
        -------
        The guarantee is the composition of the mechanisms' events; with `select`, it is
        charged for each attempt that draws. Timing class T0.
        """
        wanted, draw = _shown.asked(
            columns, keys, label, budgets, select, most_rows, source
        )
        return self._drawn(wanted.per(unit), draw, _terms.unpacked_table)

    def counter(
        self, mechanism: Counter, *, label: str, budgets: str | Iterable[str]
    ) -> LedgerCounter:
        """Return the running total of a label, which survives a crash.

        All its steps are charged once, when the label is new. A later call with the
        same label and an equal mechanism continues it.

        Parameters
        ----------
        mechanism : Counter
            A new mechanism, which the ledger takes over: it must take no steps by
            itself.
        label, budgets
            As for `release`: this label names the counter, and each step has its own
            label.

        Returns
        -------
        LedgerCounter
            Its `add(count, label=...)` takes a step.

        Raises
        ------
        BudgetExceededError, UnsupportedEventError
            A budget does not cover all steps together, or cannot price them.
        LabelConflictError
            The label belongs to another mechanism or to other budgets.
        DTypeError, ParameterError
            `mechanism` has a wrong type, has taken steps or stores more than 64 MiB.
        LedgerError
            The ledger cannot be used, has an older format, or can be read by others
            than its owner, although it would hold exact sums (docs/ledger.md).

        Privacy
        -------
        The guarantee is `mechanism.event()`, for all steps, crashes and readers of
        totals together. As with `release`, a second attempt after a crash adds a
        distance that the budget states, or is charged again. Timing class T0.
        """
        found: LedgerCounter = _counters.opened(
            self, mechanism, label, budgets, Counter
        )
        return found

    def prefix_sums(
        self, mechanism: PrefixSums, *, label: str, budgets: str | Iterable[str]
    ) -> LedgerPrefixSums:
        """Return running sums of rows under a label: DP-FTRL that survives a restart.

        All its steps are charged once, when the label is new. A later call with the
        same label and an equal mechanism continues it. Each step's sum is stored.

        Parameters
        ----------
        mechanism : PrefixSums
            A new mechanism, which the ledger takes over: it must take no steps by
            itself.
        label, budgets
            As for `release`: this label names the sums, and each step has its own
            label.

        Returns
        -------
        LedgerPrefixSums
            Its `step(rows, label=...)` takes a step.

        Raises
        ------
        BudgetExceededError, LabelConflictError, DTypeError, ParameterError, LedgerError
            As for `counter`.

        Privacy
        -------
        As for `counter`. Timing class T0.
        """
        found: LedgerPrefixSums = _counters.opened(
            self, mechanism, label, budgets, PrefixSums
        )
        return found

    def spend(
        self,
        event: Event | Mechanism,
        *,
        label: str,
        budgets: str | Iterable[str],
        count: int = 1,
        source: str | None = None,
        unit: str | None = None,
    ) -> tuple[Receipt, ...]:
        """Charge for a release outside of the ledger, once for the label.

        Use it for stateful mechanisms (a `SparseVector`) and for all answers that the
        ledger cannot draw by itself: charge first, then release. The answer is not
        stored, so the label cannot be used again.

        Parameters
        ----------
        event : Event or mechanism
            A mechanism stands for its `event()`.
        label, budgets, source, unit
            As for `release`.
        count : int
            Number of times that the event will happen, >= 1.

        Returns
        -------
        tuple of Receipt
            One for each budget.

        Raises
        ------
        LabelUsedError
            The label was spent before.
        BudgetExceededError, LabelConflictError, DTypeError, ParameterError, LedgerError
            As for `release`.
        """
        cost = _terms.event_of_cost(event)
        wanted = _terms.terms(
            label, "spend", budgets, cost, {}, count=count, source=source
        ).per(unit)
        with _protocol.alone(self._store, self._uuid, wanted.label):
            _, _, receipts = _protocol.charge(self._store, self._uuid, wanted)
        self._witness(receipts)
        return tuple(receipts)

    def write(
        self,
        path: str | os.PathLike[str],
        draw: Callable[[Path, str], object],
        *,
        event: Event | Mechanism,
        label: str,
        budgets: str | Iterable[str],
        facts: Mapping[str, str | int] | None = None,
        source: str | None = None,
        unit: str | None = None,
    ) -> Answer:
        """Write a released file, or folder of files, once for the label.

        Parameters
        ----------
        path : str or path
            The path to write; it must not exist before the label is charged.
        draw : callable
            Called as ``draw(staging, receipts)`` once the charge is durable. It draws,
            and writes a file or a folder at `staging`, with columns of fixed width and
            without compression. `receipts` is JSON text to put into the file. It must
            not use another label of this ledger.
        event : Event or mechanism
            The cost of `draw`.
        label, budgets, source, unit
            As for `release`.
        facts : dict of str to str or int, optional
            Public facts that identify the transaction, such as the names of columns and
            the parameters of the mechanism.

        Returns
        -------
        Answer
            Its `value` is the path.

        Raises
        ------
        LedgerError
            As for `release`; also raised if the file of a stored label is missing or
            was altered (it is not drawn again).
        BudgetExceededError, LabelConflictError, DTypeError, ParameterError
            As for `release`; also raised if `path` exists, or its folder does not
            exist.

        Privacy
        -------
        The guarantee is `event`, charged for each attempt that draws. Timing class T0.
        """
        place = Path(path).absolute()
        wanted = _terms.terms(
            label,
            "write",
            budgets,
            _terms.event_of_cost(event),
            {"name": place.name, "facts": dict(facts or {})},
            source=source,
        ).per(unit)
        found = _protocol.stored(self._store, wanted)
        if found is None:
            if place.exists():
                raise ParameterError(
                    f"path must not exist before its label is charged, but {place} does"
                )
            if not place.parent.is_dir():
                raise ParameterError(
                    "path must lie in an existing folder, but "
                    f"{place.parent} is not one"
                )

            def stage(attempt: int, receipts: list[Receipt]) -> tuple[str, bytes]:
                staged = _files.staging(place, attempt)
                _files.remove(staged)  # left by a ledger that is gone
                draw(staged, receipts_json(receipts))
                return "manifest", _files.manifest(place, attempt, staged)

            found = _protocol.answer(
                self._store, self._uuid, self._witness, wanted, stage
            )
        answer = self._answered(found, lambda _: place)
        _files.finish(place, found.body)
        return answer
