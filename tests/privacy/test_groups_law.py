"""Statistics by group: their whole law on small datasets, for all neighbors.

The functions themselves are run, with every draw replaced by one of its outcomes, one
run for each sequence of outcomes. A noisy number is told by its cell: cells have the
width of one record, so that nothing of the loss in the tails is lost. Each planted
fault is found by the same check.
"""

import itertools
import math

import numpy as np
import pytest

import fastdp
from fastdp import calibration
from fastdp.accounting.events import NeighboringRelation
from fastdp.accounting.guarantees import event_delta
from fastdp.mechanisms import _groups, _moments_shape, contributions
from fastdp.mechanisms._moments_shape import Shape
from fastdp.mechanisms.integer import DiscreteLaplace, _Integer
from fastdp.mechanisms.key_selection import KeySelection
from fastdp.mechanisms.unknown_histogram import UnknownHistogram

A = NeighboringRelation.ADD_OR_REMOVE_ONE
R = NeighboringRelation.REPLACE_ONE
#: A group and a value; users have lists of them, and datasets are lists of users.
RECORDS = [("a", 1.0), ("a", -1.0), ("b", 1.0)]
OTHERS = [(), ((("b", 1.0),), (("a", -1.0),))]
#: Groups that are shown anyway.
MANY = tuple(((key, x),) for key in "ba" for x in (1.0, -1.0)) * 7
#: Beyond the sums of floats and the room that accountants leave.
SLACK = 1e-9


class Outcomes:
    """Runs a function once for every sequence of outcomes of its draws."""

    def law(self, function):
        self.path, found = [], {}
        while True:
            self.at, self.chance = 0, 1.0
            result = function()
            found[result] = found.get(result, 0.0) + self.chance
            while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
                self.path.pop()
            if not self.path:
                return found
            self.path[-1][0] += 1

    def draw(self, outcomes):
        """Return one of the outcomes, each given with its probability."""
        possible = [(value, p) for value, p in outcomes if p > 0]
        if self.at == len(self.path):
            self.path.append([0, len(possible)])
        value, p = possible[self.path[self.at][0]]
        self.at += 1
        self.chance *= p
        return value

    # ---- what stands for the package's draws ----------------------------------

    def bounded(self, users, keys=None, **bounds):
        """`bound_contributions`: uniform keys of a user, uniform records of a key."""
        mask = np.zeros(len(users), bool)
        many, each = bounds["keys_per_user"], bounds["records_per_key"]
        for user in sorted(set(users.tolist())):
            rows = {}
            for i in np.flatnonzero(users == user).tolist():
                rows.setdefault(keys[i], []).append(i)
            for key in self.subset(sorted(rows), many):
                mask[list(self.subset(rows[key], each))] = True
        return mask

    def subset(self, items, most):
        ways = list(itertools.combinations(items, min(most, len(items))))
        return self.draw([(way, 1 / len(ways)) for way in ways])

    def noise(self, unit, cells):
        """`release`: the cell (j unit, (j + 1) unit] that a noisy number is in."""

        known = {}

        def release(m, x, **_):
            exact, sf = np.asarray(x), m._law.sf
            noisy = np.zeros(exact.shape, np.int64)
            width = unit(m)
            for place in np.ndindex(*exact.shape):
                low, high = cells(place)
                asked = m, int(exact[place]), low, high
                if asked not in known:
                    ends = [j * width - asked[1] for j in range(low + 1, high)]
                    above = [1.0, *(float(sf(end)) for end in ends), 0.0]
                    known[asked] = list(
                        zip(range(low, high), -np.diff(above), strict=True)
                    )
                noisy[place] = width * self.draw(known[asked])
            return noisy + 1

        return release

    def selected(self, m, users_per_key, **_):
        """`KeySelection.select`."""
        chances = [m.probability(int(n)) for n in users_per_key]
        return np.array([self.draw([(True, p), (False, 1 - p)]) for p in chances], bool)


def shown(estimate):
    """What is seen: keys in their order, and values."""
    value = np.asarray(estimate.value)
    return (*estimate.keys, *np.round(value, 6).ravel().tolist())


# ---- statistics --------------------------------------------------------------------


class Case:
    """One statistic with its parameters; `law` gives that of a dataset."""

    def __init__(self, call, unit, cells, groups=1, records=1, **options):
        self.call, self.unit, self.cells = call, unit, cells
        self.options = {"groups_per_user": groups, "records_per_group": records}
        self.options |= options
        self.found, self.event, self.selected = {}, None, None

    def law(self, monkeypatch, dataset):
        if dataset not in self.found:
            rows = [(i, *row) for i, user in enumerate(dataset) for row in user]
            outcomes = Outcomes()
            with monkeypatch.context() as patch:
                patch.setattr(
                    _Integer, "release", outcomes.noise(self.unit, self.cells)
                )
                patch.setattr(KeySelection, "select", free(outcomes.selected))
                patch.setattr(_groups.Question, "selection", self.once())
                if _groups.bound_contributions is fastdp.bound_contributions:
                    patch.setattr(_groups, "bound_contributions", outcomes.bounded)
                self.found[dataset] = outcomes.law(lambda: self.run(rows))
        return self.found[dataset]

    def once(self):
        """Make the selection once: its table takes longer than all the rest."""
        make = _groups.Question.selection

        def selection(asked):
            if self.selected is None:
                self.selected = make(asked)
            return self.selected

        return selection

    def run(self, rows):
        users = [f"user {i}" for i, _, _ in rows]
        options = dict(self.options)
        if options.get("neighboring_relation") is R:
            del options["groups_per_user"], options["records_per_group"]
        else:
            options["user"] = users
        by, x = [key for _, key, _ in rows], [value for _, _, value in rows]
        found = self.call(x, by=by, **options)
        self.event = found.event
        return shown(found)


def free(method):
    return lambda m, users, **options: method(m, users, **options)


def one(_):
    return 1


def steps(m):
    """Of moments: 2**30 steps are one record."""
    return 2**30


def radius(records):
    """Of sums: the radius, from noise for half of epsilon 1 (or of rho 1/2)."""

    def unit(m):
        moved = m.scale / 2 if isinstance(m, DiscreteLaplace) else m.sigma * 0.5**0.5
        return 1 if moved < 2**20 else round(float(moved) / records)

    return unit


def moments(threshold):
    """A row of counts, above and below the threshold, and one of sums."""
    return lambda place: (threshold - 1, threshold + 2) if place[0] == 0 else (-1, 1)


def count(groups=1, records=1):
    budget = {"epsilon": 1, "delta": 0.05}
    m = UnknownHistogram.from_epsilon_delta(
        keys_per_user=groups, records_per_key=records, **budget
    )
    # What is not shown is one cell.
    cells = m._least - 1, m._least + 4
    return Case(fastdp.count, one, lambda place: cells, groups, records, **budget)


def mean(delta=0.1, **options):
    budget = {"epsilon": 1, "delta": delta, "bounds": (-1, 1)}
    m = fastdp.Moments.from_epsilon(
        **budget,
        moments=1,
        groups_per_unit=options.get("groups", 1),
        records_per_group=options.get("records", 1),
        neighboring_relation=options.get("neighboring_relation", A),
    )
    return Case(fastdp.mean, steps, moments(m.threshold), **budget, **options)


def total(records=1, **options):
    return Case(
        fastdp.sum,
        radius(records),
        lambda place: (-1, 1),
        records=records,
        epsilon=1,
        delta=0.1,
        bounds=(-1, 1),
        **options,
    )


def histogram(**options):
    def call(x, **more):
        return fastdp.histogram(x, [-2, 0, 2], **more)

    return Case(call, one, lambda place: (-1, 1), epsilon=1, delta=0.1, **options)


def people(most):
    """Return all that a user can have, up to `most` records."""
    return [
        rows
        for n in range(1, most + 1)
        for rows in itertools.combinations_with_replacement(RECORDS, n)
    ]


def excess(case, monkeypatch, stated=None, most=2, others=OTHERS, enough=math.inf):
    """Return the largest excess of a hockey stick over what the event allows.

    The maximum is over all datasets of the others and one user, and over all their
    neighbors: without the user, or with other rows. It is negative if every hockey
    stick is allowed. `stated` replaces the case's event. The search stops at an excess
    above `enough`.
    """
    worst, case.used, allowed = -math.inf, 0.0, {}
    owners = [(person,) for person in people(most)]
    replaced = case.options.get("neighboring_relation") is R
    for rest in others:
        for before, after in itertools.product(owners if replaced else [()], owners):
            laws = [case.law(monkeypatch, (*own, *rest)) for own in (before, after)]
            for (p, q), epsilon in itertools.product((laws, laws[::-1]), (0.5, 1, 1.5)):
                if epsilon < 1 and "delta" in case.options:
                    continue  # of a pure guarantee only
                if epsilon not in allowed:
                    allowed[epsilon] = event_delta(stated or case.event, epsilon)
                grown = math.exp(epsilon)
                gaps = (chance - grown * q.get(o, 0.0) for o, chance in p.items())
                gap = sum(max(one, 0.0) for one in gaps)
                worst = max(worst, gap - allowed[epsilon])
                case.used = max(case.used, gap / max(allowed[epsilon], SLACK))
                if worst > enough:
                    return worst
    return worst


def public(call, **options):
    def unit(m):
        return 2**30 if call is fastdp.mean else round(m.scale)

    def cells(place):
        if call is fastdp.sum:
            return -2, 2
        return (1, 3) if place[0] == 0 else (-1, 1)

    options |= {"keys": ["b", "a"], "epsilon": 1}
    return Case(call, unit, cells, **options)


CASES = {
    "count": lambda: count(),
    "count, two records": lambda: count(records=2),
    "count, two groups": lambda: count(groups=2),
    "mean": lambda: mean(),
    "mean, two records": lambda: mean(records=2),
    "mean, two groups": lambda: mean(groups=2),
    "mean, rows replaced": lambda: mean(neighboring_relation=R),
    "mean of public groups": lambda: public(fastdp.mean, bounds=(-1, 1)),
    "sum of public groups": lambda: public(fastdp.sum, bounds=(-1, 1)),
    "sum": lambda: total(),
    "sum, two records": lambda: total(records=2),
    "sum, two groups": lambda: total(groups=2),
    "histogram": lambda: histogram(),
    "histogram, two groups": lambda: histogram(groups=2),
}


@pytest.mark.rest
@pytest.mark.parametrize("name", CASES)
def test_no_neighbors_are_told_apart_by_more_than_the_event(name, monkeypatch):
    case = CASES[name]()
    most = 1 if "replaced" in name else 2
    assert excess(case, monkeypatch, most=most) <= SLACK
    assert all(abs(sum(law.values()) - 1) < 1e-9 for law in case.found.values())
    assert case.used > 0.2  # what is allowed is no idle statement


# ---- planted faults ----------------------------------------------------------------


def everything(users, keys=None, **_):
    return np.ones(len(users), bool)


def rows_for_users(self):
    return self.counts()


def as_they_come(listed, present, public):
    """Keys in the order of the data."""
    chosen = np.flatnonzero(present)
    seen = list(dict.fromkeys(listed[chosen].tolist()))
    group = np.full(len(listed), -1, np.int64)
    group[chosen] = [seen.index(key) for key in listed[chosen].tolist()]
    keys = np.empty(len(seen), object)
    keys[:] = seen
    return group, keys


BOUND = calibration.truncated_laplace_bound
LEAST = _moments_shape.least_threshold


def one_less(function):
    return lambda *args, **options: function(*args, **options) - 1


def once_more(patch):
    """Selection and statistic with the whole budget each, where each has half."""
    patch.setattr(
        _groups.Budget, "halved", lambda self: self._replace(delta=None), raising=True
    )


def one_group(patch):
    """Noise for one group, where users are in two."""
    init = _groups.Question.__init__

    def wrong(self, *args, **x):
        init(self, *args, **x)
        self.noised, self.groups = self.groups, 1

    bounded = _groups.Question._bounded

    def right(self, owner, group):
        self.groups = self.noised
        try:
            return bounded(self, owner, group)
        finally:
            self.groups = 1

    patch.setattr(_groups.Question, "__init__", wrong)
    patch.setattr(_groups.Question, "_bounded", right)


FAULTS = {
    "a count's threshold is lower by one": (
        count,
        lambda patch: patch.setattr(
            calibration, "truncated_laplace_bound", one_less(BOUND)
        ),
    ),
    "a mean's threshold is lower by one": (
        mean,
        lambda patch: patch.setattr(_moments_shape, "least_threshold", one_less(LEAST)),
    ),
    "users are not bounded": (
        count,
        lambda patch: patch.setattr(_groups, "bound_contributions", everything),
    ),
    "rows are counted for users": (
        lambda: total(records=2),
        lambda patch: patch.setattr(_groups.Records, "users_per_key", rows_for_users),
    ),
    "keys come as in the data": (
        total,
        lambda patch: patch.setattr(_groups, "_placed", as_they_come),
    ),
    "a budget is spent twice": (total, once_more),
    "noise of a mean for one group": (lambda: mean(groups=2), one_group),
    "noise of a count for one group": (lambda: count(groups=2), one_group),
    "a replaced row moves once": (
        lambda: mean(delta=0.001, neighboring_relation=R),
        lambda patch: patch.setattr(Shape, "_twice", 1),
    ),
}


@pytest.mark.rest
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, monkeypatch):
    make, plant = FAULTS[name]
    right, most = make(), 1 if "replaced" in name else 2
    right.law(monkeypatch, OTHERS[1])
    plant(monkeypatch)
    others = [*OTHERS, MANY]
    assert excess(make(), monkeypatch, right.event, most, others, SLACK) > SLACK


def test_a_key_without_a_number_is_absent():
    """Noise of thousands would show about half of 60 keys."""
    m = fastdp.Moments(scale=1e4, bounds=(0, 1), threshold=2)
    keys = [f"key {i}" for i in range(60)]
    assert m.release(np.full(60, math.nan), by=keys).keys == []
    assert m.release(np.zeros(60), by=[None] * 60).keys == []


# ---- contributions -----------------------------------------------------------------


def kept_law(monkeypatch, rows, groups, records):
    """The law of what stays of rows (user, key), over all permutations."""
    outcomes = Outcomes()

    def permutation(n, **_):
        ways = list(itertools.permutations(range(n)))
        return np.array(outcomes.draw([(way, 1 / len(ways)) for way in ways]), int)

    users, keys = ([row[i] for row in rows] for i in (0, 1))
    with monkeypatch.context() as patch:
        patch.setattr(contributions.fdp_random, "permutation", permutation)
        return outcomes.law(
            lambda: tuple(
                fastdp.bound_contributions(
                    users, keys, keys_per_user=groups, records_per_key=records
                ).tolist()
            )
        )


@pytest.mark.rest
@pytest.mark.parametrize(("groups", "records"), [(1, 1), (2, 1), (1, 2)])
def test_what_stays_of_a_user_is_uniform_and_its_own(monkeypatch, groups, records):
    """Five rows, every order of every draw: a product of uniform subsets."""
    rows = [("u", "a"), ("v", "a"), ("u", "b"), ("u", "a"), ("v", "b")]
    law = kept_law(monkeypatch, rows, groups, records)
    parts = []
    for user in "uv":
        own = [i for i, row in enumerate(rows) if row[0] == user]
        alone = kept_law(monkeypatch, [rows[i] for i in own], groups, records)
        parts.append((own, alone))
        ways = {}
        for key in "ab":
            places = [i for i in own if rows[i][1] == key]
            subsets = itertools.combinations(places, min(records, len(places)))
            ways[key] = [set(way) for way in subsets]
        kept = list(itertools.combinations("ab", min(groups, 2)))
        for mask, p in alone.items():
            found = {i for i, stays in zip(own, mask, strict=True) if stays}
            names = tuple(sorted({rows[i][1] for i in found}))
            assert names in kept
            uniform = math.prod(1 / len(ways[key]) for key in names) / len(kept)
            assert p == pytest.approx(uniform, rel=1e-12)
    for mask, p in law.items():
        product = math.prod(alone[tuple(mask[i] for i in own)] for own, alone in parts)
        assert p == pytest.approx(product, rel=1e-12)
