"""The error tree: each error is also the built-in that a caller expects."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastdp
from fastdp import exceptions

BUILTIN = {
    "ParameterError": ValueError,
    "UnitMismatchError": ValueError,
    "DTypeError": TypeError,
    "EntropyError": OSError,
    "FileError": OSError,
    "ExhaustedError": MemoryError,
    "CalibrationError": ArithmeticError,
    "CertificateError": ArithmeticError,
    "UnsupportedEventError": NotImplementedError,
    "BudgetExceededError": RuntimeError,
    "LedgerError": OSError,
    "LabelConflictError": OSError,
    "LabelUsedError": OSError,
    "LedgerRolledBackError": OSError,
    "LedgerUnavailableError": OSError,
}


@pytest.mark.parametrize(("name", "builtin"), BUILTIN.items())
def test_class_is_fastdp_error_and_builtin(name: str, builtin: type) -> None:
    error = getattr(exceptions, name)
    assert issubclass(error, exceptions.FastDPError)
    assert issubclass(error, builtin)


def test_tree_has_no_other_classes() -> None:
    found = {
        name
        for name in vars(exceptions)
        if isinstance(getattr(exceptions, name), type) and not name.startswith("_")
    }
    assert found == {*BUILTIN, "FastDPError", "InsecureStreamWarning"}
    assert found == set(exceptions.__all__)
    assert issubclass(exceptions.InsecureStreamWarning, UserWarning)


def test_top_level_name_is_the_base() -> None:
    assert fastdp.FastDPError is exceptions.FastDPError


@pytest.mark.parametrize("name", BUILTIN)
def test_errors_survive_copy_and_pickle(name: str) -> None:
    error = getattr(exceptions, name)("scale must be > 0, got -1")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)


def test_one_except_clause_catches_both_kinds() -> None:
    for scale in (-1, "ten"):
        with pytest.raises(fastdp.FastDPError):
            fastdp.DiscreteLaplace(scale)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scale"):
        fastdp.DiscreteLaplace(-1)
    with pytest.raises(TypeError, match="scale"):
        fastdp.DiscreteLaplace("ten")  # type: ignore[arg-type]
