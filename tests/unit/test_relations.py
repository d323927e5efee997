"""Every public entry takes a neighboring relation by its name, and means the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp import accounting, mechanisms
from fastdp.accounting import NeighboringRelation, amplification, calculators, events
from fastdp.accounting.pld import GridLosses
from fastdp.exceptions import DTypeError
from fastdp.mechanisms._base import Mechanism
from fastdp.testing import FixedStream

R = NeighboringRelation.REPLACE_ONE
MODULES: tuple[ModuleType, ...] = (
    *(fastdp, mechanisms, mechanisms.local),
    *(accounting, amplification, calculators, events),
)

#: What has the parameter and cannot be called by people.
ABSTRACT = {"Accountant", "PrivacyFilter"}

#: Entries that hand options on, so that their signature has no such parameter.
HIDDEN = {
    f"{kind}.{maker}": getattr(getattr(fastdp, kind), maker)
    for kind in ("ClippedSum", "HierarchicalHistogram", "Moments")
    for maker in ("from_epsilon", "from_rho", "from_epsilon_delta")
} | {
    f"{kind.__name__}.{maker}": getattr(kind, maker)
    for kind in (fastdp.Laplace, fastdp.Gaussian)
    for maker in ("from_epsilon", "from_rho", "from_rdp", "from_epsilon_delta")
    if hasattr(kind, maker)
}


def entries() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                yield name, value
                for method in (m for m in dir(value) if m[0] != "_"):
                    yield f"{name}.{method}", getattr(value, method)
            elif inspect.isfunction(value):
                yield name, value


def takes_relation(value: object) -> bool:
    try:
        return "neighboring_relation" in inspect.signature(value).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


ENTRIES = {name: value for name, value in entries() if takes_relation(value)} | HIDDEN

#: An argument for each required parameter, by its name.
USUAL: dict[str, Any] = {
    "addition": None,
    "aggregate": "median",
    "answers": 1,
    "blocks": 9,
    "bound": 40,
    "bounds": (0, 8),
    "copies": 1,
    "delta": 1e-3,
    "dimension": 2,
    "divergence": 0.5,
    "entries": 1,
    "epsilon": 1,
    "epsilons": (1,),
    "event": events.PureDPEvent(1, neighboring_relation="replace_one"),
    "false_negative_rates": (1, 0),
    "false_positive_rates": (0, 1),
    "high": 5,
    "interval": 1.0986122886681098,
    "keys_per_user": 2,
    "largest": 8,
    "last_iterate_only": True,
    "losses": (0,),
    "mechanism": None,
    "leaves": 9,
    "low": 0,
    "norm": 2,
    "mu": 1,
    "noise": "laplace",
    "omega": 9,
    "order": 2,
    "orders": (2,),
    "p": 0.75,
    "participations": 1,
    "passes": 1,
    "sensitivities": (1,),
    "shares": 3,
    "variance": 9,
    "parties": 3,
    "honest": 2,
    "modulus": 99,
    "probabilities": (1,),
    "q": 0.25,
    "radius": 1,
    "removal": GridLosses(lower_index=-1, probabilities=[0.5, 0, 0.5], infinity_mass=0),
    "release_epsilon": 1,
    "rho": 0.5,
    "sample_size": 2,
    "sampling_probability": 0.5,
    "scale": 2,
    "sensitivity": 1,
    "shape": 9,
    "shifts": (1,),
    "sigma": 2,
    "sigmas": (1,),
    "smoothness": 0.1,
    "source_dataset_size": 9,
    "steps": 8,
    "strategy": "tree",
    "test_delta": 1e-6,
    "test_epsilon": 1,
    "threshold": 9,
    "values": np.arange(9),
    "width": 3,
    "x": [1.0, 2.0],
}

#: Where the required parameters do not suffice.
MORE: dict[str, dict[str, Any]] = {
    "ClippedSum": {"sigma": 2},
    "DiscreteGaussian.from_epsilon_delta": {"sensitivity": 1},
    "DiscreteGaussian.from_rho": {"sensitivity": 1},
    "HierarchicalHistogram": {"scale": 2},
    "Moments": {"scale": 2},
    "SubsampleAggregate": {"assignment": "key"},
    "UnknownHistogram": {"scale": 2, "bound": 40},
    "mean": {"epsilon": 1},
    "median": {"epsilon": 1},
    "pate": {"assignment": "key"},
    "privacy_loss_from_pmf": {"probabilities": [0.25, 0, 0.75], "lower_index": -1},
    "subsample_and_aggregate": {"assignment": "key"},
    "sum": {"epsilon": 1},
    "variance": {"epsilon": 1},
}

#: What a method is called on.
OWNERS: dict[str, Any] = {
    "ClippedSum": fastdp.ClippedSum(sigma=2, radius=1, dimension=2, norm=2),
    "DiscreteGaussian": fastdp.DiscreteGaussian(2),
    "DiscreteLaplace": fastdp.DiscreteLaplace(2),
    "Gaussian": fastdp.Gaussian(2, coordinates=1),
    "Laplace": fastdp.Laplace(2, coordinates=1),
    "MatrixPlan": calculators.matrix_mechanism("tree", 8, participations=1),
    "TruncatedLaplace": fastdp.TruncatedLaplace(2, bound=40),
}


def said(name: str, relation: Any) -> Any:
    """Return what an entry made of a relation, so that it can be compared."""
    owner, _, method = name.partition(".")
    call = ENTRIES[name]
    if method == "event":
        call = getattr(OWNERS[owner], method)
    arguments = {}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name == "stream":
            arguments["stream"] = FixedStream("r")
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            arguments[parameter.name] = USUAL[parameter.name]
    arguments |= MORE.get(name, {})
    if method == "event" and "sensitivity" in inspect.signature(call).parameters:
        arguments["sensitivity"] = 1
    return facts(call(**arguments, neighboring_relation=relation))


def facts(made: Any) -> Any:
    if isinstance(made, Mechanism):
        known = "sensitivity" not in inspect.signature(made.event).parameters
        return repr(made), made.event() if known else made.event(sensitivity=1)
    if isinstance(made, (events.Event, fastdp.SkellamShares)):
        return made
    named = getattr(made, "neighboring_relation", None)
    return getattr(made, "event", made) if named is None else named


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - ABSTRACT))
def test_a_name_is_as_good_as_the_relation(name: str) -> None:
    wanted = said(name, R)
    for text in ("replace_one", "REPLACE_ONE"):
        assert said(name, text) == wanted
    if name not in ("quantiles", "RandomizedResponseEvent"):  # do not show it
        assert "REPLACE_ONE" in repr(wanted)


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - ABSTRACT))
def test_an_unknown_name_is_refused(name: str) -> None:
    for wrong in ("remove", 2, True):
        with pytest.raises(DTypeError, match="one of add_or_remove_one, replace_one"):
            said(name, wrong)
