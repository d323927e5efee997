"""Statistics by group: their whole law on small datasets, for all neighbors.

The functions themselves are run, with every draw replaced by one of its outcomes, one
run for each sequence of outcomes. A noisy number is told by its cell: cells have the
width of one record, so that nothing of the loss in the tails is lost. Each planted
fault is found by the same check.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import fastdp
from fastdp.accounting.events import NeighboringRelation
from fastdp.accounting.guarantees import event_delta
from fastdp.mechanisms import KeySelection
from fastdp.mechanisms.noise.integer import Integer
from fastdp.mechanisms.records import _moments_shape, contributions
from fastdp.mechanisms.records._moments_shape import Shape
from fastdp.tables import _memory, _noise

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


def shown(found):
    """What is seen: keys in their order, and what was drawn."""
    drawn = (tuple(x.ravel().tolist()) for x in found._noisy.values())
    return (*found.groups(), *drawn)


# ---- statistics --------------------------------------------------------------------


class Case:
    """One statistic with its parameters; `law` gives that of a dataset.

    `above` is what a number that selects its groups must be above; what is not shown is
    one cell.
    """

    def __init__(self, call, cells=(-1, 1), above=None, groups=1, records=1, **options):
        self.call, self.cells, self.above = call, cells, above
        self.groups, self.records, self.options = groups, records, options
        self.found, self.event, self.selected = {}, None, None

    def law(self, monkeypatch, dataset):
        if dataset not in self.found:
            rows = [(i, *row) for i, user in enumerate(dataset) for row in user]
            outcomes = Outcomes()
            with monkeypatch.context() as patch:
                patch.setattr(Integer, "release", self.noise(outcomes))
                patch.setattr(KeySelection, "select", free(outcomes.selected))
                patch.setattr(_noise.Noise, "selection", self.once())
                if _memory.bound_contributions is fastdp.bound_contributions:
                    patch.setattr(_memory, "bound_contributions", outcomes.bounded)
                self.found[dataset] = outcomes.law(lambda: self.run(rows))
        return self.found[dataset]

    def noise(self, outcomes):
        """`release`: of a number that selects, which is drawn first, near `above`."""
        rest = outcomes.noise(unit, lambda _: self.cells)
        first = rest
        if self.above is not None:
            ends = self.above - 1, self.above + 1 + self.cells[1]
            first = outcomes.noise(unit, lambda _: ends)

        def release(m, x, **_):
            draw = first if self.first else rest
            self.first = False
            return draw(m, x)

        return release

    def once(self):
        """Make the selection once: its table takes longer than all the rest."""
        make = _noise.Noise.selection

        def selection(noise):
            if self.selected is None:
                self.selected = make(noise)
            return self.selected

        return selection

    def run(self, rows):
        self.first = True
        by, x = [key for _, key, _ in rows], [value for _, _, value in rows]
        users = [f"user {i}" for i, _, _ in rows]
        unit = fastdp.Unit(users, groups=self.groups, records=self.records)
        found = self.call(x, by=by, unit=unit, **self.options)
        self.event = found.event()
        return shown(found)


def free(method):
    return lambda m, users, **options: method(m, users, **options)


def unit(m):
    """A record, in the steps of noise: sums have 2**30 of them."""
    return 1 if (m.sensitivity or 2**30) < 2**20 else 2**30


def above(groups, records, **words):
    """Return what the noisy number of a plan must be above, in records."""
    plan = fastdp.Plan(
        unit=fastdp.Unit("who", groups=groups, records=records), by="town", **words
    )
    return plan._noise.threshold.above // plan._noise.threshold.step


def count(groups=1, records=1):
    budget = {"epsilon": 1, "delta": 0.05}
    least = above(groups, records, count=True, **budget)
    return Case(fastdp.count, (-1, 3), least, groups, records, **budget)


def mean(groups=1, records=1, delta=0.1):
    budget = {"epsilon": 1, "delta": delta}
    least = above(groups, records, mean="x", bounds={"x": (-1, 1)}, **budget)
    options = {**budget, "bounds": (-1, 1)}
    return Case(fastdp.mean, (-1, 1), least, groups, records, **options)


def total(groups=1, records=1):
    options = {"epsilon": 1, "delta": 0.1, "bounds": (-1, 1)}
    return Case(fastdp.sum, groups=groups, records=records, **options)


def histogram(**options):
    def call(x, **more):
        return fastdp.histogram(x, [-2, 0, 2], **more)

    return Case(call, epsilon=1, delta=0.1, **options)


class OfMoments:
    """A release of `Moments` with a threshold, in the form of the others."""

    def __init__(self, found):
        self._found, self._noisy = found, {"sums": np.round(found._sums, 6)}

    def groups(self):
        return self._found.keys

    def event(self):
        return self._found.mechanism.event()


def moments(neighboring_relation=A, delta=0.1):
    """Means of rows by `Moments`, which also knows rows that are replaced."""
    options = {"delta": delta, "bounds": (-1, 1), "moments": 1}
    relation = {"neighboring_relation": neighboring_relation}
    m = fastdp.Moments.from_epsilon(1, **relation, **options)

    def call(x, by, unit, neighboring_relation, delta):
        made = fastdp.Moments.from_epsilon(
            1, neighboring_relation=neighboring_relation, **options
        )
        return OfMoments(made.release(x, by=by))

    case = Case(call, delta=delta, **relation)

    def noise(outcomes):  # a row of counts and one of sums, in one draw
        least = m.threshold
        rows = [(least - 1, least + 2), (-1, 1)]
        return outcomes.noise(unit, lambda place: rows[min(place[0], 1)])

    case.noise = noise
    return case


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


def public(call, cells):
    options = {"keys": ["b", "a"], "epsilon": 1, "bounds": (-1, 1)}
    return Case(call, cells, **options)


CASES = {
    "count": lambda: count(),
    "count, two records": lambda: count(records=2),
    "count, two groups": lambda: count(groups=2),
    "mean": lambda: mean(),
    "mean, two records": lambda: mean(records=2),
    "mean, two groups": lambda: mean(groups=2),
    "moments of rows": moments,
    "moments of rows replaced": lambda: moments(R),
    "mean of public groups": lambda: public(fastdp.mean, (-1, 2)),
    "sum of public groups": lambda: public(fastdp.sum, (-2, 2)),
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
    most = 1 if "rows" in name else 2
    assert excess(case, monkeypatch, most=most) <= SLACK
    assert all(abs(sum(law.values()) - 1) < 1e-9 for law in case.found.values())
    assert case.used > 0.2  # what is allowed is no idle statement


# ---- planted faults ----------------------------------------------------------------


def everything(users, keys=None, **_):
    return np.ones(len(users), bool)


def rows_for_users(patch):
    exact = _memory.Memory.exact

    def wrong(self, *rest):
        found = exact(self, *rest)
        return {**found, "users": found["n"]}

    patch.setattr(_memory.Memory, "exact", wrong)


def as_they_come(listed):
    """Keys in the order of the data."""
    seen = list(dict.fromkeys(listed.tolist()))
    return np.array(seen), np.array([seen.index(key) for key in listed], np.int64)


LEAST = _noise.least_threshold


def lower(patch):
    """A threshold that is lower by one."""
    patch.setattr(_noise, "least_threshold", lambda *rest: LEAST(*rest) - 1)


def lower_moments(patch):
    patch.setattr(_moments_shape, "least_threshold", lambda *rest: LEAST(*rest) - 1)


def once_more(patch):
    """Selection and statistic with the whole budget each, where each has half."""
    twice = property(lambda self: 2 * Fraction(self.epsilon))
    patch.setattr(_noise.Budget, "amount", twice)


def one_group(patch):
    """Noise for one group, where users are in two."""
    init = _noise.Noise.__init__

    def wrong(self, budget, kept, **words):
        init(self, budget, (1, kept[1]), **words)

    patch.setattr(_noise.Noise, "__init__", wrong)


FAULTS = {
    "a count's threshold is lower by one": (count, lower),
    "a mean's threshold is lower by one": (mean, lower),
    "a threshold of moments is lower by one": (moments, lower_moments),
    "users are not bounded": (
        count,
        lambda patch: patch.setattr(_memory, "bound_contributions", everything),
    ),
    "rows are counted for users": (lambda: total(records=2), rows_for_users),
    "keys come as in the data": (
        total,
        lambda patch: patch.setattr(_memory, "distinct", as_they_come),
    ),
    "a budget is spent twice": (total, once_more),
    "noise of a mean for one group": (lambda: mean(groups=2), one_group),
    "noise of a count for one group": (lambda: count(groups=2), one_group),
    "a replaced row moves once": (
        lambda: moments(R, delta=0.001),
        lambda patch: patch.setattr(Shape, "_twice", 1),
    ),
}


@pytest.mark.rest
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, monkeypatch):
    make, plant = FAULTS[name]
    right, most = make(), 1 if make is moments or "replaced" in name else 2
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
