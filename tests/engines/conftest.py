"""Engines as people start them, one in each file; workers find this tree and python."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

import fastdp
from fastdp import accounting

ROOT = Path(__file__).parents[2]

#: The relation of randomized response: a user's value is replaced.
REPLACE = accounting.NeighboringRelation.REPLACE_ONE


def needs(module, *, program=None):
    """Skip a file by name where an engine is not installed; nothing is imported."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed", allow_module_level=True)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"{program} is not here", allow_module_level=True)


def pytest_collection_modifyitems(items):
    """Mark all of these tests: they start engines, and whatever those warn of."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


def pytest_configure():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the faults of a file of tests."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture
def ledger(tmp_path):
    """A ledger on this machine's disk, with a budget for users and one for rows."""
    with fastdp.ledger.create(tmp_path / "budget.db") as book:
        yield with_budgets(book)


def with_budgets(book):
    rule = accounting.ApproximateFilter(epsilon=1000, delta=1e-3)
    book.add_budget("users", rule, unit="person")
    rows = accounting.PureFilter(1000, neighboring_relation=REPLACE)
    book.add_budget("rows", rows, unit="person")
    return book


def spent(book, name):
    """Return the epsilon that a budget has spent, exactly."""
    return book.budget(name).spent["epsilon"]


def staged(folder):
    """Return what is left beside a released folder: nothing should be."""
    return [path.name for path in Path(folder).glob(".*staging*")]
