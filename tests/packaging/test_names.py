"""Public names: they resolve, they are listed, and importing them stays light."""

import ast
import importlib
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import fastdp
from fastdp import accounting, exceptions
from tools import import_time

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(fastdp.__path__, "fastdp.")
    if not info.name.endswith("__main__")
)
PUBLIC = [name for name in MODULES if not any(p[0] == "_" for p in name.split("."))]
#: The others are reached through these: a command by the command line.
LISTING = [
    name
    for name in PUBLIC
    if not name.startswith(("fastdp.cli.", "fastdp.mechanisms."))
]


def test_modules_are_found():
    assert {"fastdp.random", "fastdp.accounting.events", "fastdp.cli"} <= set(PUBLIC)


@pytest.mark.parametrize("name", fastdp.__all__)
def test_public_name_resolves(name):
    assert getattr(fastdp, name) is not None


def test_the_package_lists_its_modules_and_names():
    assert dir(fastdp) == fastdp.__all__ == sorted(set(fastdp.__all__))
    assert {
        "DiscreteGaussian",
        "DiscreteLaplace",
        "Gaussian",
        "Laplace",
        "TruncatedLaplace",
        "accounting",
        "calibration",
        "distributions",
        "random",
        "show_config",
    } <= set(fastdp.__all__)


def public_things():
    """Yield each class and function that a public module lists, and the module."""
    for name in PUBLIC:
        module = importlib.import_module(name)
        for entry in getattr(module, "__all__", ()):
            thing = getattr(module, entry)
            if isinstance(thing, type | FunctionType):
                yield module, entry, thing


def test_what_is_public_shows_a_public_module():
    things = list(public_things())
    assert len(things) > 150
    for _, entry, thing in things:
        shown = sys.modules[thing.__module__]
        assert "._" not in thing.__module__, thing
        assert getattr(shown, entry) is thing


def test_pickle_finds_public_classes_where_they_say_that_they_are():
    for _, _, thing in public_things():
        assert pickle.loads(pickle.dumps(thing)) is thing


def statically_imported(module):
    """Return the names that a package's imports for type checkers alone bind."""
    tree = ast.parse(Path(module.__file__).read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If)]
    names = set()
    for node in blocks[0].body:
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            if alias.name == "*":
                names |= set(importlib.import_module(node.module).__all__)
            else:
                names.add(alias.name)
    return names


def test_type_checkers_see_the_names_that_there_are():
    assert statically_imported(fastdp) == set(fastdp.__all__) - {"__version__"}
    later = {name for names in accounting._LATER.values() for name in names}
    modules = {"approx", "fdp", "filters", "rdp"}
    assert statically_imported(accounting) - modules == later


def test_testing_is_not_a_public_name():
    assert "testing" not in fastdp.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'laplace_noise'"):
        _ = fastdp.laplace_noise


@pytest.mark.parametrize("name", LISTING)
def test_all_names_of_a_module_exist(name):
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__) > 0
    missing = [entry for entry in module.__all__ if not hasattr(module, entry)]
    assert missing == []


def test_version_is_that_of_the_metadata():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{fastdp.__version__}"\n' in text


def test_the_changelog_has_this_version_and_a_privacy_section():
    text = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    _, found, after = text.partition(f"\n## [{fastdp.__version__}]")
    assert found
    assert "\n### Privacy\n" in after.partition("\n## [")[0]


# ---- errors ------------------------------------------------------------------

ERRORS = {
    "ParameterError": ValueError,
    "DTypeError": TypeError,
    "EntropyError": OSError,
    "FileError": OSError,
    "ExhaustedError": MemoryError,
    "CalibrationError": ArithmeticError,
    "CertificateError": ArithmeticError,
    "UnsupportedEventError": NotImplementedError,
    "BudgetExceededError": RuntimeError,
    "LedgerError": OSError,
}
#: What a ledger refuses by name; each is a LedgerError.
LEDGER_ERRORS = {
    *("LabelConflictError", "LabelUsedError"),
    *("LedgerRolledBackError", "LedgerUnavailableError"),
}


@pytest.mark.parametrize(("name", "builtin"), ERRORS.items())
def test_errors_are_what_a_caller_of_python_expects(name, builtin):
    error = getattr(exceptions, name)
    assert error.__bases__ == (exceptions.FastDPError, builtin)


def test_the_error_tree_is_whole():
    found = {
        name
        for name in exceptions.__all__
        if issubclass(getattr(exceptions, name), Exception)
        and not issubclass(getattr(exceptions, name), Warning)
    }
    assert found == {*ERRORS, *LEDGER_ERRORS, "FastDPError", "UnitMismatchError"}
    assert exceptions.UnitMismatchError.__bases__ == (exceptions.ParameterError,)


@pytest.mark.parametrize("name", sorted(LEDGER_ERRORS))
def test_errors_of_a_ledger_are_ledger_errors(name):
    assert getattr(exceptions, name).__bases__ == (exceptions.LedgerError,)


# ---- imports -----------------------------------------------------------------


def modules_after(code):
    program = f"{code}; import sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_neither_core_nor_scipy():
    loaded = modules_after("import fastdp")
    assert "fastdp" in loaded
    heavy = {"fastdp._core", "fastdp.mechanisms", "numpy", "scipy", "pyarrow"}
    assert not heavy & loaded


@pytest.mark.rest
def test_accounting_loads_the_core_for_sums_of_losses_alone():
    loaded = modules_after("import fastdp.accounting, fastdp.calibration")
    assert "fastdp.accounting.conversions" in loaded
    assert not {"fastdp._core", "fastdp.testing"} & loaded
    code = (
        "from fastdp.accounting import *; a = PLDAccountant(); "
        "noise = GaussianEvent(sensitivity=1, sigma=1); "
        "a.compose(PoissonSampledEvent({}, noise), 99); a.epsilon(1e-9)"
    )
    assert "fastdp._core" not in modules_after(code.format(1e-2))
    assert "fastdp._core" in modules_after(code.format(1e-7))


def test_an_adapter_is_what_loads_its_library():
    loaded = modules_after("import fastdp.adapters, fastdp.training")
    assert "fastdp.training" in loaded
    theirs = {*fastdp.adapters.__all__, "jax", "sklearn", "torch"}
    assert not {name.partition(".")[0] for name in loaded} & theirs


def test_drawing_loads_no_optional_package():
    loaded = modules_after(
        "import fastdp; fastdp.DiscreteLaplace(scale=2).release(1); "
        "fastdp.mean([1.0], bounds=(0, 2), unit='row', epsilon=1)"
    )
    assert "fastdp._core" in loaded
    # scipy alone takes as long as the first answer.
    optional = {"scipy", "pyarrow", "tqdm", "matplotlib", "statsmodels"}
    later = {"mpmath", "fastdp.testing", "fastdp.accounting.calculators"}
    assert not (optional | later) & loaded


@pytest.mark.alone
def test_import_takes_less_than_50_ms_beyond_numpy():
    _, extra, limit = import_time.figures()
    assert extra <= limit, f"import fastdp takes {extra * 1e3:.0f} ms beyond numpy"
