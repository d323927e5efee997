"""Use an installed fastdp, far from its sources: one call of each kind.

Prints the interpreter and, last, a digest of noise from a fixed stream, which is
the same on every interpreter and machine.
"""

from __future__ import annotations

import hashlib
import platform
import sys
import sysconfig
import warnings
from pathlib import Path

import numpy as np

import fastdp
from fastdp.testing import FixedStream

PARAMETERS = (0.3, 10, 5000, 2**20, 2**40)


def main() -> int:
    """Run every mechanism once and print the digest."""
    warnings.simplefilter("ignore", fastdp.exceptions.InsecureStreamWarning)
    home = Path(fastdp.__file__).parent
    if home.parent == Path.cwd():
        print(f"fastdp was imported from the current folder: {home}")
        return 1
    if sysconfig.get_config_var("Py_GIL_DISABLED") and sys._is_gil_enabled():  # type: ignore[attr-defined]
        print("importing fastdp switched the interpreter's lock on")
        return 1

    if not Path(fastdp.get_include(), "fastdp.h").is_file():
        print("the C header is not there")
        return 1

    counts = np.arange(1000)
    mechanisms = (
        fastdp.DiscreteLaplace.from_epsilon(1, sensitivity=1),
        fastdp.DiscreteGaussian.from_rho(0.5, sensitivity=1),
        fastdp.TruncatedLaplace.from_epsilon_delta(
            epsilon=1, delta=1e-6, sensitivity=1
        ),
        fastdp.Laplace.from_epsilon(1, sensitivity=1),
        fastdp.Gaussian.from_epsilon_delta(epsilon=1, delta=1e-6, sensitivity=1),
    )
    for mechanism in mechanisms:
        x = counts.astype(float) if hasattr(mechanism, "granularity") else counts
        released = mechanism.release(x, workers=2)
        if released.shape != x.shape or (released == x).all():
            print(f"no noise from {mechanism!r}")
            return 1

    digest = hashlib.sha256()
    for parameter in PARAMETERS:
        for draw in (fastdp.random.discrete_laplace, fastdp.random.discrete_gaussian):
            drawn = draw(parameter, size=5000, stream=FixedStream("smoke"))
            digest.update(drawn.tobytes())
    config = fastdp.show_config()
    print(
        f"python {platform.python_version()}, numpy {config['numpy']}, "
        f"{config['cpu']}, {config['cipher']}: {digest.hexdigest()[:16]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
