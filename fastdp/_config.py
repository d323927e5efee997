"""Versions, CPU level, cipher, compiler and C header of this installation."""

from __future__ import annotations

import platform
from pathlib import Path

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


def get_include() -> str:
    """Return the folder of `fastdp.h`, for extensions in C and Cython.

    `fastdp/__init__.pxd` declares the header for Cython (``from fastdp cimport
    fdp_job_t``). The functions are in the C library, which the extension links: the
    package holds no copy that others can link.

    Returns
    -------
    str
        The folder of the header that belongs to this version.

    Examples
    --------
    >>> import fastdp, os
    >>> os.listdir(fastdp.get_include()).count("fastdp.h")
    1
    """
    package = Path(fastdp.__file__).parent
    installed = package / "include"
    # An editable installation uses the folders of the sources.
    return str(installed if installed.is_dir() else package.parent / "csrc")
