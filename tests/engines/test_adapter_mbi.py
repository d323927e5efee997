"""mbi: noisy marginals of a small table, and a model from them."""

import itertools
import warnings

import numpy as np
import pytest

import fastdp
from fastdp.accounting import l2_sensitivity
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream
from tests.engines.conftest import REPLACE, needs

needs("mbi")
with warnings.catch_warnings(action="ignore"):  # it warns of float32 when loaded
    mbi = pytest.importorskip("mbi")
    from fastdp.adapters import mbi as adapter

DOMAIN = mbi.Domain(["a", "b", "c"], [2, 3, 4])
CLIQUES = [("a",), ("b", "a"), ("c", "b")]
NOISE = fastdp.TruncatedLaplace(scale=1, bound=20, sensitivity=1)


def table(records=2000):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, records)
    b = (a + (rng.random(records) < 0.2)) % 3
    return {"a": a, "b": b, "c": (b + rng.integers(0, 2, records)) % 4}


def counts(data, clique):
    return adapter._counts(mbi.Dataset(data, DOMAIN), clique)


def test_a_model_of_a_small_table_is_near_it():
    data = mbi.Dataset(table(), DOMAIN)
    m = fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=1)
    measured = adapter.measure(m, data, CLIQUES, stream=FixedStream(b"t" * 32))
    assert [x.clique for x in measured] == CLIQUES
    assert {x.stddev for x in measured} == {m.std}
    model = mbi.estimation.MirrorDescent().estimate(DOMAIN, measured)
    for clique in (("a", "b"), ("b", "c")):
        ours = np.asarray(model.project(clique).datavector())
        assert abs(ours - counts(table(), clique)).sum() < 0.05 * 2000


@pytest.mark.parametrize(
    "clique", [c for n in (1, 2, 3) for c in itertools.permutations("abc", n)]
)
def test_cells_are_in_their_order(clique):
    data = mbi.Dataset(table(), DOMAIN)
    theirs = np.asarray(data.project(clique).datavector())
    np.testing.assert_array_equal(counts(table(), clique), theirs)


def test_one_record_moves_one_cell_by_one_whatever_it_holds():
    base = table(50)
    for extra in itertools.product([0, 1, 5, -1, 2**62, -(2**63)], repeat=3):
        more = {k: np.append(base[k], v) for k, v in zip("abc", extra, strict=True)}
        for clique in CLIQUES:
            moved = counts(more, clique) - counts(base, clique)
            assert abs(moved).sum() <= 1


def test_counts_are_integers_where_float32_has_none():
    big = {"a": np.zeros(2**24 + 1, np.int8)}
    data = mbi.Dataset(big, mbi.Domain(["a"], [2]))
    assert adapter._counts(data, ("a",))[0] == 2**24 + 1
    assert float(data.project(("a",)).datavector()[0]) == 2**24


@pytest.mark.parametrize(
    ("mechanism", "given", "error", "message"),
    [
        (fastdp.Gaussian(1), {}, DTypeError, "mechanism must be a DiscreteGaussian"),
        (fastdp.DiscreteLaplace(1), {}, ParameterError, "at least 1, .* got None"),
        (
            fastdp.DiscreteLaplace(1, sensitivity=1, neighboring_relation=REPLACE),
            {}, ParameterError, "at least 2, .* got 1",
        ),
        (
            fastdp.DiscreteGaussian(1, sensitivity=1, neighboring_relation=REPLACE),
            {}, ParameterError, "at least 1.41",
        ),
        (NOISE, {"dataset": table()}, DTypeError, "an mbi.Dataset, got dict"),
        (NOISE, {"cliques": [("a", "z")]}, ParameterError, "got {'z'}"),
        (NOISE, {"stream": 3}, DTypeError, "seeds and numpy generators"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(mechanism, given, error, message):
    arguments = {"dataset": mbi.Dataset(table(), DOMAIN), "cliques": CLIQUES, **given}
    with pytest.raises(error, match=message):
        adapter.measure(mechanism, **arguments)


def test_a_replaced_record_moves_two_cells():
    data = mbi.Dataset(table(), DOMAIN)
    m = fastdp.DiscreteGaussian(
        1, sensitivity=l2_sensitivity(2), neighboring_relation=REPLACE
    )
    assert len(adapter.measure(m, data, CLIQUES)) == 3


def test_a_replaced_record_needs_two_coordinates():
    one = fastdp.DiscreteGaussian(
        1, squared_sensitivity=2, coordinates=1, neighboring_relation=REPLACE
    )
    with pytest.raises(ParameterError, match="coordinates of at least 2"):
        adapter.measure(one, mbi.Dataset(table(), DOMAIN), CLIQUES)
