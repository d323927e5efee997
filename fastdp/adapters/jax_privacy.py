"""jax-privacy with our accounting and noise. See docs/howto/jax_privacy.md."""

from __future__ import annotations

import importlib
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp import _public, _validate
from fastdp._validate import Real
from fastdp.adapters import _library
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.mechanisms import Gaussian

jp: Any = _library.load("jax_privacy", package="jax-privacy", tested=("2.0", "2.1"))
_accounting: Any = importlib.import_module("jax_privacy.accounting") if jp else None
_Config: Any = _accounting.PldAccountantConfig if jp else object

__all__ = ["PldAccountantConfig", "gaussian_privatizer", "mechanism"]


class PldAccountantConfig(_Config):  # type: ignore[misc]
    """Configuration of jax-privacy's accountants and calibrations, for proved bounds.

    Its argument, a discretization, has no effect.
    """

    def create_accountant(self) -> Any:
        """Return a new `fastdp.adapters.dp_accounting.PLDAccountant`."""
        _library.require(jp, "jax_privacy")
        from fastdp.adapters.dp_accounting import PLDAccountant

        return PLDAccountant("add_or_remove_one")


@lru_cache(maxsize=64)
def mechanism(*, stddev: Real, sensitivity: Real, coordinates: int) -> Gaussian:
    """Return the noise mechanism of one step; its `event()` is the step's cost.

    Parameters
    ----------
    stddev : int, float, Fraction or Decimal
        Standard deviation of each entry, > 0. The noise is larger by a relative amount
        below 1e-6, to make up for the rounding of records to the grid.
    sensitivity : int, float, Fraction or Decimal
        Largest change of the sum by one record in the L2 norm, > 0: the clipping norm,
        or twice that if records are replaced.
    coordinates : int
        Number of entries of all parameters together, >= 1.
    """
    sigma = _validate.positive("stddev", stddev)
    moved = _validate.positive("sensitivity", sensitivity)
    noise = Gaussian(sigma, sensitivity=moved, coordinates=coordinates)
    step: Any = noise.event()  # includes the rounding to the grid
    wider = Fraction(step.sensitivity) / step.sigma * sigma / moved
    exact = sigma * wider * (1 + Fraction(1, 2**40))
    return Gaussian(exact, sensitivity=moved, coordinates=coordinates)


def gaussian_privatizer(
    *, stddev: Real, sensitivity: Real, prng_key: None = None
) -> Any:
    """Return an optax transformation that adds exact noise to sums of gradients.

    It replaces `jax_privacy.noise_addition.gaussian_privatizer`, also inside
    ``jax.jit``: values go to the host and back, once for each step.

    Parameters
    ----------
    stddev, sensitivity : int, float, Fraction or Decimal
        As in `mechanism`.
    prng_key : None
        Must be None: a key is refused.

    Returns
    -------
    optax.GradientTransformation
        Its state is empty. Leaves keep their shapes and dtypes, which must be floats.

    Raises
    ------
    DTypeError, ParameterError
        A parameter has a wrong type or is out of its range, a key is given, or leaves
        are integers.

    Privacy
    -------
    A step has the guarantee ``mechanism(...).event()`` with the number of entries, if
    one record changes the given sum by at most `sensitivity`. XLA's rounding while
    clipping and summing is not covered; `fastdp.training.GradientSum` covers it. NaN
    counts as 0. Exact for the given sum. Timing class T0.
    """
    _library.require(jp, "jax_privacy")
    if prng_key is not None:
        raise ParameterError(
            "prng_key must be None (fresh randomness from the operating "
            f"system), got {type(prng_key).__name__}: anyone who knows a "
            "key knows the noise"
        )
    mechanism(stddev=stddev, sensitivity=sensitivity, coordinates=1)  # check arguments
    import jax
    import optax
    from jax.experimental import io_callback

    def update(sum_of_clipped_grads: Any, noise_state: Any, params: Any = None) -> Any:
        leaves, tree = jax.tree.flatten(sum_of_clipped_grads)
        if not all(jax.numpy.issubdtype(x.dtype, jax.numpy.floating) for x in leaves):
            raise DTypeError("sum_of_clipped_grads must contain only floats")
        sizes = [x.size for x in leaves]
        noise = mechanism(
            stddev=stddev, sensitivity=sensitivity, coordinates=sum(sizes)
        )

        def add(*arrays: Any) -> list[Any]:
            flat = [np.asarray(a).astype(np.float64).ravel() for a in arrays]
            noisy = np.split(noise.release(np.concatenate(flat)), np.cumsum(sizes)[:-1])
            shapes = zip(noisy, leaves, strict=True)
            return [part.reshape(x.shape).astype(x.dtype) for part, x in shapes]

        kinds = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        # Ordered: XLA may neither repeat a draw, nor share it between two steps.
        noisy = io_callback(add, kinds, *leaves, ordered=True)
        return jax.tree.unflatten(tree, noisy), noise_state

    return optax.GradientTransformation(lambda _: (), update)


_public.show(globals())
