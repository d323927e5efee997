"""The commands that compile and gather; pyproject.toml names them.

Without a compiler the log ends with one sentence that says what to install.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

_WAYS_OUT = {
    "darwin": "xcode-select --install",
    "linux": "apt-get install gcc libc6-dev (Debian, Ubuntu), dnf install gcc (Fedora) "
    "or apk add gcc musl-dev (Alpine)",
}

_HEADERS = (
    "apt-get install python3-dev (Debian, Ubuntu), dnf install python3-devel (Fedora)"
)


class BuildExt(build_ext):
    """Compiles as setuptools does, once what it needs is there."""

    def build_extensions(self) -> None:
        """Compile the extension.

        Raises
        ------
        SystemExit
            There is no C compiler, or no header of Python: one sentence, the last of
            the log, says what to install.
        """
        missing = self.missing()
        if missing is not None:
            # No traceback: it would hide the sentence.
            raise SystemExit(f"error: {missing}")
        super().build_extensions()

    def missing(self) -> str | None:
        """Return the sentence about what is not there, None where all is."""
        compiler = getattr(self.compiler, "compiler", ["cc"])[0]
        if shutil.which(compiler) is None:
            way = _WAYS_OUT.get(sys.platform, "install gcc or clang")
            return (
                f"fastdp is compiled from C and found no compiler ({compiler!r}): "
                f"install one, {way}, and run the same command again."
            )
        header = Path(sysconfig.get_path("include"), "Python.h")
        if not header.exists():
            return (
                f"fastdp is compiled from C and found no {header}: install Python's "
                f"headers, {_HEADERS}, and run the same command again."
            )
        return None


class BuildPy(build_py):
    """Copies the modules, and the C header for `fastdp.get_include`."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # there the sources' own header is found
            folder = Path(self.build_lib, "fastdp", "include")
            self.mkpath(str(folder))
            self.copy_file("csrc/fastdp.h", str(folder))
