"""Calibration: the noise parameter that gives a wanted guarantee.

Every result is rounded toward more privacy: exact rationals where the relation is
rational, otherwise a double at which the evaluated proved bound is within the target.
Discrete laws are calibrated from their own profiles; the continuous formulas are not
bounds for them. Proofs: docs/proofs/calibration.md.

`epsilon` may be 0 only for Gaussian noise with a delta; an infinite epsilon, a delta
of 0 or at least 1, and non-positive sensitivities are refused by name: DTypeError for a
wrong type, otherwise ParameterError. Docstrings name the other errors.
"""

from fastdp import _public
from fastdp.calibration._grid import (
    charged_l1,
    charged_l2,
    grid_coordinates,
    grid_gaussian_sigma,
    grid_gaussian_sigma_from_rho,
    grid_granularity,
    grid_laplace_scale,
    grid_laplace_scale_from_rdp,
    grid_laplace_scale_from_rho,
    rho_from_rdp,
)
from fastdp.calibration._integers import (
    discrete_gaussian_sigma,
    gaussian_sigma_from_rho,
    laplace_scale,
    laplace_scale_from_rho,
    truncated_laplace_bound,
)

__all__ = [
    "charged_l1",
    "charged_l2",
    "discrete_gaussian_sigma",
    "gaussian_sigma_from_rho",
    "grid_coordinates",
    "grid_gaussian_sigma",
    "grid_gaussian_sigma_from_rho",
    "grid_granularity",
    "grid_laplace_scale",
    "grid_laplace_scale_from_rdp",
    "grid_laplace_scale_from_rho",
    "laplace_scale",
    "laplace_scale_from_rho",
    "rho_from_rdp",
    "truncated_laplace_bound",
]

_public.show(globals())
