"""Measure what importing fastdp costs beyond numpy; exit 1 above the limit.

    python tools/import_time.py

Each figure is the least processor time of several fresh interpreters, the start of the
interpreter itself subtracted by importing numpy alone in the same way, in turn with it.
On a machine on which numpy takes longer than a quarter of a second, so may fastdp.
"""

from __future__ import annotations

import resource
import subprocess
import sys

#: Seconds that ``import fastdp`` may take beyond ``import numpy``, or share of these.
LIMIT, SHARE = 0.05, 0.2

#: Rounds of a pass; above the limit there is another.
ROUNDS, PASSES = 3, 5

FIRST_USE = "import fastdp; fastdp.DiscreteLaplace(scale=10).release(1)"


def seconds(code: str) -> float:
    """Return the processor time of `code` after ``import numpy``, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", f"import numpy; {code}"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figures() -> tuple[float, float, float]:
    """Return what numpy takes, fastdp beyond it, and its limit, in seconds."""
    numpy = both = float("inf")
    for _ in range(PASSES):
        for _ in range(ROUNDS):
            numpy = min(numpy, seconds("pass"))
            both = min(both, seconds("import fastdp"))
        limit = max(LIMIT, SHARE * numpy)
        if both - numpy <= limit:
            break
    return numpy, both - numpy, limit


def main() -> int:
    """Print the figures; return 1 if the import is too slow."""
    numpy, package, limit = figures()
    first = min(seconds(FIRST_USE) for _ in range(ROUNDS)) - numpy
    print(f"import numpy                {numpy * 1e3:6.1f} ms, interpreter included")
    print(
        f"import fastdp, beyond numpy {package * 1e3:6.1f} ms (limit {limit * 1e3:.0f})"
    )
    print(f"to the first release        {first * 1e3:6.1f} ms beyond numpy")
    return int(package > limit)


if __name__ == "__main__":
    sys.exit(main())
