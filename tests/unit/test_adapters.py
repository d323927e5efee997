"""Adapters without their libraries: none is loaded early, a missing one is named."""

import importlib
import importlib.metadata
import subprocess
import sys
import types

import pytest

from fastdp.adapters import _library
from fastdp.exceptions import FastDPError

#: Each module under fastdp.adapters, its extra, and the library that it loads.
ADAPTERS = {
    "dp_accounting": ("dp_accounting", "dp_accounting"),
    "jax_privacy": ("jax_privacy", "jax_privacy"),
    "opacus": ("opacus", "opacus"),
    "opendp": ("opendp", "opendp"),
    "pipeline_dp": ("pipeline_dp", "pipeline_dp"),
}


def test_no_library_is_loaded_before_its_adapter():
    libraries = {library for _, library in ADAPTERS.values()}
    code = (
        "import sys, fastdp, fastdp.adapters\n"
        "fastdp.DiscreteLaplace(scale=1).release(1)\n"
        f"assert not {libraries} & sys.modules.keys()\n"
        "assert not [m for m in sys.modules if m.startswith('fastdp.adapters.')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_missing_library_is_named(name, monkeypatch):
    extra, _ = ADAPTERS[name]
    monkeypatch.setattr(importlib, "import_module", _missing)
    assert _library.load("nowhere", package="nowhere", tested=("1", "2")) is None
    with pytest.raises(FastDPError, match=rf'pip install "fastdp\[{extra}\]"'):
        _library.require(None, extra)


def _missing(name):
    raise ImportError(name)


@pytest.mark.parametrize("version", ["0.5.9", "0.7.0", "1.0rc1"])
def test_an_untested_version_is_warned_of(version, monkeypatch):
    library = _installed(monkeypatch, version)
    with pytest.warns(
        UserWarning, match=f"some-lib >= 0.6 and < 0.7, not with {version}"
    ):
        found = _library.load("some_lib", package="some-lib", tested=("0.6", "0.7"))
    assert found is library


@pytest.mark.parametrize("version", ["0.6", "0.6.0", "0.6.12"])
def test_a_tested_version_is_loaded_without_a_word(version, monkeypatch):
    library = _installed(monkeypatch, version)
    assert (
        _library.load("some_lib", package="some-lib", tested=("0.6", "0.7")) is library
    )


def _installed(monkeypatch, version):
    library = types.ModuleType("some_lib")
    monkeypatch.setitem(sys.modules, "some_lib", library)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: version)
    return library
