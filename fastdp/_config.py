"""Versions, CPU level, cipher and compiler of this installation."""

from __future__ import annotations

import platform

import numpy as np

import fastdp
from fastdp import _core


def show_config() -> dict[str, str]:
    """Return the versions of fastdp and its platform, CPU level, cipher and compiler.

    Returns
    -------
    dict
        Keys "fastdp", "cpu" (the highest of the levels "portable", "v128", "avx2",
        "avx512" and "avx512vbmi" that the processor has; the environment variable
        FASTDP_CPU can name a lower one), "cipher"
        ("aes" or "chacha20", of the secure default), "compiler" (of the extension),
        "numpy", "python" and "machine".

    Examples
    --------
    >>> import fastdp
    >>> sorted(fastdp.show_config())
    ['cipher', 'compiler', 'cpu', 'fastdp', 'machine', 'numpy', 'python']
    """
    return {
        "fastdp": fastdp.__version__,
        **_core.config(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
