"""Public docstrings have their sections, and their examples are true."""

import doctest
import importlib
import inspect
import pkgutil
import re
from typing import get_origin

import pytest

import fastdp

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(fastdp.__path__, "fastdp.")
    if not info.name.endswith(("__main__", "_core"))
)

LISTED = [getattr(fastdp.mechanisms, name) for name in fastdp.mechanisms.__all__]
MECHANISMS = [
    thing
    for thing in LISTED
    if inspect.isclass(thing) and not inspect.isabstract(thing)
]
DRAWING = [
    *(getattr(fastdp.random, name) for name in fastdp.random.__all__),
    *(
        getattr(mechanism, verb)
        for mechanism in MECHANISMS
        for verb in ("release", "select", "test", "answer")
        if hasattr(mechanism, verb)
    ),
]
SOURCES = [
    importlib.import_module(name)
    for name in (
        "fastdp.accounting",
        "fastdp.accounting.amplification",
        "fastdp.accounting.calculators",
        "fastdp.accounting.conversions",
        "fastdp.calibration",
        "fastdp.distributions",
        "fastdp.mechanisms",
        "fastdp.mechanisms.local",
        "fastdp.random",
        "fastdp.testing",
    )
]
NAMED = [getattr(module, name) for module in SOURCES for name in module.__all__]
PUBLIC = list(
    {
        id(thing): thing
        for thing in NAMED
        if callable(thing) and get_origin(thing) is None  # aliases have no docstring
    }.values()
)


def sections(thing):
    """Return the headed sections of a docstring."""
    text = inspect.getdoc(thing) or ""
    return set(re.findall(r"^(\w[\w ]*)\n-{3,}$", text, re.M))


def name_of(thing):
    return thing.__qualname__


@pytest.mark.parametrize("thing", PUBLIC, ids=name_of)
def test_public_objects_are_documented(thing):
    text = inspect.getdoc(thing) or ""
    assert text.split("\n")[0].rstrip(":;,")
    assert text == inspect.cleandoc(thing.__doc__ or ""), "inherited, not its own"


def test_wrong_parameters_of_the_accounting_wing_are_stated_once():
    """Its sections of errors are left to what is not obvious."""
    package = importlib.import_module("fastdp.accounting")
    assert {"DTypeError", "ParameterError"} <= set(re.findall(r"\w+", package.__doc__))
    wing = [name for name in MODULES if name.startswith("fastdp.accounting")]
    stated = 0
    for name in wing:
        source = inspect.getsource(importlib.import_module(name))
        for section in re.findall(r"Raises\n +-{6}\n(.*?)(?:\n\n|\"{3})", source, re.S):
            stated += 1
            assert "DTypeError" not in section, (name, section)
    assert stated > 20


def test_wrong_parameters_of_mechanisms_are_stated_once():
    """No section of errors says only that a parameter is refused."""
    for name in ("fastdp.calibration", "fastdp.mechanisms", "fastdp.mechanisms.local"):
        text = importlib.import_module(name).__doc__
        assert {"DTypeError", "ParameterError"} <= set(re.findall(r"\w+", text))
    alone = re.compile(
        r"Raises\n +-{6}\n +DTypeError, ParameterError\n"
        r" +A parameter is (of (a|the) wrong type( or|,) )?"
        r"out of its (range|domain)\.\n"
        r"\n? *(\w+\n +-{3}|\"{3})"
    )
    assert alone.search(
        "Raises\n    ------\n    DTypeError, ParameterError\n"
        '        A parameter is of a wrong type or out of its range.\n    """'
    )
    for name in MODULES:
        found = alone.search(inspect.getsource(importlib.import_module(name)))
        assert found is None, (name, found)


@pytest.mark.parametrize("thing", DRAWING, ids=name_of)
def test_what_draws_states_errors_privacy_and_timing(thing):
    assert {"Raises", "Privacy"} <= sections(thing)
    text = re.sub(r"\s+", " ", inspect.getdoc(thing))
    privacy = text.partition("Privacy ---")[2]
    assert re.search(r"iming class T[012]|As `permutation`", privacy)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=name_of)
def test_mechanisms_state_all(mechanism):
    wanted = {"Parameters", "Privacy", "References", "Examples"}
    assert wanted <= sections(mechanism)
    privacy = (inspect.getdoc(mechanism) or "").partition("Privacy\n---")[2]
    assert "sensitivity" in privacy
    assert "neighboring" in privacy
    assert "Exact" in privacy or "pproximate" in privacy


def functions_with(section):
    return [
        thing
        for thing in PUBLIC
        if inspect.isfunction(thing) and section in sections(thing)
    ]


@pytest.mark.parametrize("thing", functions_with("Parameters"), ids=name_of)
def test_the_parameters_section_names_every_parameter(thing):
    text = inspect.getdoc(thing).partition("Parameters\n---")[2]
    listed = re.search(r"-*\n(.*?)(?:\n\n\w[\w ]*\n---|\Z)", text, re.S)[1]
    names = {
        name.strip()
        for line in listed.split("\n")
        if line and not line.startswith(" ")
        for name in line.partition(":")[0].split(",")
    }
    assert names == set(inspect.signature(thing).parameters)


def test_some_functions_have_a_parameters_section():
    assert len(functions_with("Parameters")) > 10


def examples():
    """Yield each docstring's examples once: a class shows its public module alone."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    seen = set()
    for name in MODULES:
        module = importlib.import_module(name)
        found = finder.find(module)
        for thing in vars(module).values():
            if inspect.isclass(thing) and thing.__module__.startswith("fastdp"):
                whole = f"{thing.__module__}.{thing.__name__}"
                found += finder.find(
                    thing, whole, module=False, globs=dict(vars(module))
                )
        for test in found:
            if test.examples and test.docstring not in seen:
                seen.add(test.docstring)
                yield test


@pytest.mark.parametrize("test", list(examples()), ids=lambda test: test.name)
def test_examples(test):
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_there_are_examples_to_run():
    assert len(list(examples())) >= 10
