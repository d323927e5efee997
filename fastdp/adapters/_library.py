"""Loads a library, and warns if its version was not tested."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import warnings
from typing import Any

from fastdp.exceptions import FastDPError


def load(module: str, *, package: str, tested: tuple[str, str]) -> Any:
    """Return a library's module, or None if it is not installed.

    Parameters
    ----------
    module : str
        The module to import.
    package : str
        The name of its installed package.
    tested : tuple of str
        The first tested version, and the first version above the tested ones.
    """
    try:
        found = importlib.import_module(module)
        version = importlib.metadata.version(package)
    except ImportError:
        return None
    first, end = tested
    if not _numbers(first) <= _numbers(version) < _numbers(end):
        warnings.warn(
            f"fastdp.adapters.{module.partition('.')[0]} is tested with {package} >= "
            f"{first} and < {end}, not with {version}: compare a few results with "
            "the library's own",
            stacklevel=2,
        )
    return found


def require(library: Any, extra: str) -> None:
    """Raise an error if a library is not installed."""
    if library is None:
        raise FastDPError(
            f'fastdp.adapters.{extra} needs its library: pip install "fastdp[{extra}]"'
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
