"""Measure what importing fastdp costs beyond numpy; exit 1 above the limit.

    python tools/import_time.py

Each figure is the least of several fresh interpreters, the start of the
interpreter itself subtracted by importing numpy alone in the same way.
"""

from __future__ import annotations

import subprocess
import sys
import time

#: Seconds that ``import fastdp`` may take beyond ``import numpy``.
LIMIT = 0.05

FIRST_USE = "import fastdp; fastdp.DiscreteLaplace(scale=10).release(1)"


def seconds(code: str, repetitions: int = 5) -> float:
    """Return the least run time of `code` after ``import numpy``, in seconds."""
    least = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import numpy; {code}"], check=True)
        least = min(least, time.perf_counter() - start)
    return least


def main() -> int:
    """Print the figures; return 1 if the import is too slow."""
    numpy = seconds("pass")
    package = seconds("import fastdp") - numpy
    first = seconds(FIRST_USE) - numpy
    print(
        f"import numpy                    {numpy * 1e3:6.1f} ms, interpreter included"
    )
    print(f"import fastdp, beyond numpy     {package * 1e3:6.1f} ms (limit 50)")
    print(f"to the first release            {first * 1e3:6.1f} ms beyond numpy")
    return int(package > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
