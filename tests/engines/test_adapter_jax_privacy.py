"""jax-privacy: a model trained with our noise, and its accounting over ours."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from fastdp import accounting
from fastdp.exceptions import DTypeError, FastDPError
from tests.engines.conftest import needs

needs("jax_privacy")
with warnings.catch_warnings(action="ignore"):
    import jax
    import optax
    from dp_accounting import UnsupportedEventError
    from jax import numpy as jnp
    from jax_privacy import accounting as theirs
    from jax_privacy.clipping import clipped_grad

    from fastdp.adapters import jax_privacy as adapter


def params(**given):
    return theirs.DpParams(
        **{
            "noise_multipliers": 1.1, "batch_size": 100, "num_samples": 10_000,
            "delta": 1e-5, **given,
        }
    )  # fmt: skip


def test_a_model_is_trained():
    x = np.random.default_rng(1).normal(size=(500, 6)).astype(np.float32)
    y = (x @ np.linspace(-1, 1, 6) > 0).astype(np.float32)

    def loss(w, x, y):
        return optax.sigmoid_binary_cross_entropy(x @ w["w"] + w["b"], y).mean()

    gradient = clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2))
    private = adapter.gaussian_privatizer(
        stddev=1.0 * gradient.sensitivity(), sensitivity=gradient.sensitivity()
    )
    optimizer = optax.chain(private, optax.sgd(0.005))
    model = {"w": jnp.zeros(6), "b": jnp.zeros(())}
    state = optimizer.init(model)

    @jax.jit
    def step(model, state):
        change, state = optimizer.update(gradient(model, x, y), state)
        return optax.apply_updates(model, change), state

    for _ in range(40):
        model, state = step(model, state)
    assert ((x @ model["w"] + model["b"] > 0) == (y > 0)).mean() > 0.9


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("jit", [False, True])
def test_noise_keeps_shapes_and_is_fresh_each_time(dtype, jit):
    private = adapter.gaussian_privatizer(stddev=2.0, sensitivity=1.0)
    model = {"a": jnp.full((200, 50), 10, dtype), "b": [jnp.zeros((), dtype)]}

    def twice(sums, state):
        first, state = private.update(sum_of_clipped_grads=sums, noise_state=state)
        return first, private.update(sums, state)[0]

    run = jax.jit(twice) if jit else twice
    found = [*run(model, private.init(model)), *run(model, private.init(model))]
    for each in found:
        assert jax.tree.map(lambda x: (x.shape, x.dtype), each) == jax.tree.map(
            lambda x: (x.shape, x.dtype), model
        )
        noise = np.asarray(each["a"], np.float64) - 10
        # eight standard errors of 10,000 entries; bfloat16 rounds by less
        assert abs(noise.std() / 2 - 1) < 8 / math.sqrt(20_000)
        assert abs(noise.mean()) < 8 * 2 / 100
    rows = [np.asarray(each["a"], np.float64).ravel() for each in found]
    for i, row in enumerate(rows):
        for other in rows[:i]:
            assert abs(np.corrcoef(row, other)[0, 1]) < 8 / 100


@pytest.mark.parametrize("entries", [1, 7, 10**6, 2**31])
@pytest.mark.parametrize(("stddev", "moved"), [(1.1, 1.0), (1e-3, 10.0), (0.3, 1 / 3)])
def test_the_grid_does_not_lower_the_noise_multiplier(entries, stddev, moved):
    m = adapter.mechanism(stddev=stddev, sensitivity=moved, coordinates=entries)
    event = m.event()
    assert event.coordinates == entries
    assert event.sensitivity / event.sigma <= Fraction(moved) / Fraction(stddev)
    assert m.sigma < stddev * (1 + 1e-6)


def test_its_accountants_take_ours():
    ours = theirs.DpsgdTrainingAccountant(adapter.PldAccountantConfig())
    other = theirs.DpsgdTrainingAccountant(theirs.PldAccountantConfig())
    step = accounting.PoissonSampledEvent(
        0.01, accounting.GaussianEvent(sensitivity=1, sigma=1.1)
    )
    exact = accounting.PLDAccountant().compose(step, 1000).epsilon(1e-5)
    assert ours.compute_epsilon(1000, params()) == exact
    assert exact == pytest.approx(other.compute_epsilon(1000, params()), rel=1e-3)
    noise = theirs.calibrate_noise_multiplier(
        target_epsilon=2, accountant=ours, batch_sizes=100, num_updates=1000,
        num_samples=10_000, target_delta=1e-5, tol=1e-4,
    )  # fmt: skip
    reached = ours.compute_epsilon(1000, params(noise_multipliers=noise))
    assert 1.99 < reached <= 2


def test_what_has_no_counterpart_is_refused():
    ours = theirs.DpsgdTrainingAccountant(adapter.PldAccountantConfig())
    with pytest.raises(UnsupportedEventError, match="Truncated"):
        ours.compute_epsilon(1000, params(truncated_batch_size=200))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prng_key": 3}, "prng_key must be None.*anyone who knows"),
        ({"stddev": 0.0}, "stddev"),
        ({"sensitivity": math.inf}, "sensitivity"),
    ],
)
def test_bad_arguments_are_refused(given, message):
    with pytest.raises(FastDPError, match=message):
        adapter.gaussian_privatizer(**{"stddev": 1.0, "sensitivity": 1.0, **given})


def test_integers_are_refused():
    private = adapter.gaussian_privatizer(stddev=1.0, sensitivity=1.0)
    with pytest.raises(DTypeError, match="only floats"):
        private.update({"a": jnp.zeros(3, int)}, ())
