"""Build of the one extension; everything else is in pyproject.toml.

``FASTDP_SANITIZE=address,undefined`` adds asserts and takes wrapping integers away.
"""

import os
import platform
import sys
import sysconfig
from glob import glob

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

# The stable ABI makes one wheel serve every version from 3.11 on; builds without
# the global interpreter lock do not have it yet.
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")

# After those of CFLAGS: they take back what the proofs forbid. What they do not reach,
# csrc/base/config.h and fdp_self_check refuse.
EXACT = "fast-math unsafe-math-optimizations associative-math reciprocal-math"
# gcc's -std=c11 alone switches contraction off, which costs up to half the speed;
# the error bounds hold with and without it. Never -ffast-math, never -march.
FLAGS = [
    "-std=c11",
    "-O3",
    "-D_DEFAULT_SOURCE",
    *("-fvisibility=hidden", "-DFDP_API="),  # export PyInit__core only
    *(f"-fno-{name}" for name in EXACT.split()),
    "-fno-finite-math-only",
    "-fsigned-zeros",
    "-ffp-contract=fast",
    "-fno-math-errno",
    *("-fno-trapping-math", "-Wno-overriding-t-option"),  # clang: of -fno-fast-math
    "-g0",  # CPython's own flags ask for debugging symbols: half of a wheel
]
LINK_FLAGS = []

# Checks of the program that runs; the sanitizers have their own. CFLAGS may set another
# _FORTIFY_SOURCE, by -Wp. An older libc warns that it takes 3 for 2: hence -Wno-cpp.
FLAGS += ["-Wp,-U_FORTIFY_SOURCE"]
if not (sanitize := os.environ.get("FASTDP_SANITIZE")):
    FLAGS += ["-Wp,-D_FORTIFY_SOURCE=3", "-Wno-cpp", "-fstack-protector-strong"]
    if sys.platform == "linux":
        FLAGS += ["-fstack-clash-protection"]
        LINK_FLAGS += ["-Wl,-z,relro,-z,now,-z,noexecstack"]
        if platform.machine() == "x86_64":
            FLAGS += ["-fcf-protection"]
else:
    FLAGS += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=undefined"]
    FLAGS += ["-g", "-UNDEBUG", "-fno-wrapv", "-fno-omit-frame-pointer"]
    LINK_FLAGS += [f"-fsanitize={sanitize}"]
if os.environ.get("FASTDP_WERROR"):
    FLAGS += ["-Werror"]

MACROS: list[tuple[str, str | None]] = [
    ("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_1_25_API_VERSION"),
]
if STABLE_ABI:
    MACROS.append(("Py_LIMITED_API", "0x030B0000"))

core = Extension(
    "fastdp._core",
    sources=["fastdp/_core.pyx", *sorted(glob("csrc/*/*.c"))],
    depends=[*glob("fastdp/*.px[di]"), *glob("csrc/*.h"), *glob("csrc/*/*.h")],
    include_dirs=["csrc", numpy.get_include()],
    define_macros=MACROS,
    extra_compile_args=FLAGS,
    extra_link_args=LINK_FLAGS,
    libraries=["m"],
    py_limited_api=STABLE_ABI,
)

setup(
    ext_modules=cythonize([core], build_dir="build", language_level=3),
    # The oldest version whose ABI the extension keeps to.
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
)
