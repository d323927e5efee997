"""opacus: a small network trained with our noise, its sums, batches and accounting."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from fastdp import accounting
from fastdp.exceptions import FastDPError, ParameterError, UnsupportedEventError
from fastdp.training import GradientSum
from tests.engines.conftest import needs

needs("opacus")
with warnings.catch_warnings(action="ignore"):
    import opacus
    import torch
    from opacus.optimizers import DPOptimizer as TheirOptimizer
    from opacus.utils.batch_memory_manager import BatchMemoryManager
    from torch import nn

    from fastdp.adapters.opacus import Accountant, DPOptimizer, PrivacyEngine

DELTA = 1e-5
RECORDS, BATCH = 1000, 100


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))


def records():
    torch.manual_seed(2)
    x = torch.randn(RECORDS, 8)
    return x, (x @ torch.linspace(-1, 1, 8) > 0).long()


def private(model=None, *, epsilon=None, engine=None, **options):
    """Return an engine, and what it makes of a network, an optimizer and a loader."""
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    data = torch.utils.data.TensorDataset(*records())
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH)
    engine = engine or PrivacyEngine()
    given = {"module": model, "optimizer": optimizer, "data_loader": loader}
    if epsilon is not None:
        made = engine.make_private_with_epsilon(
            **given,
            target_epsilon=epsilon,
            target_delta=DELTA,
            epochs=3,
            max_grad_norm=1,
        )
    else:
        options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, **options}
        made = engine.make_private(**given, **options)
    return engine, *made


def backward(model, optimizer, x, y, **options):
    optimizer.zero_grad()
    nn.CrossEntropyLoss(**options)(model(x), y).backward()


def bare(gradients, **options):
    """Return an optimizer whose parameters' gradients of examples are given."""
    parameters = [nn.Parameter(torch.zeros(g.shape[1:])) for g in gradients]
    inner = torch.optim.SGD(parameters, lr=1.0)
    options = {"noise_multiplier": 1e-6, "max_grad_norm": 1.0, **options}
    optimizer = DPOptimizer(
        inner, expected_batch_size=None, loss_reduction="sum", **options
    )
    for p, g in zip(parameters, gradients, strict=True):
        p.grad_sample = torch.as_tensor(g)
    return optimizer, parameters


def test_a_small_network_is_trained():
    engine, model, optimizer, loader = private(epsilon=3)
    for _ in range(3):
        for x, y in loader:
            backward(model, optimizer, x, y)
            optimizer.step()
    assert len(engine.accountant) == 30
    step = optimizer.mechanism.sampled_event(sampling_probability=1 / 10)
    total = accounting.PLDAccountant().compose(step, 30)
    assert engine.get_epsilon(DELTA) == total.epsilon(DELTA) <= 3
    x, y = records()
    assert (model(x).argmax(1) == y).float().mean() > 0.85


def test_sums_are_clipped_as_integers_of_the_grid():
    rng = np.random.default_rng(1)
    gradients = [rng.normal(size=(5, 3, 2)), rng.normal(size=(5, 4))]
    gradients = [g.astype(np.float32) for g in gradients]
    gradients[1][3, 2] = np.nan  # counts as 0, alone
    optimizer, parameters = bare(gradients)
    optimizer.step()
    flat = np.concatenate([g.reshape(5, -1) for g in gradients], axis=1)
    flat = np.delete(flat, 3, axis=0)
    flat /= np.maximum(1, np.linalg.norm(flat, axis=1, keepdims=True))
    found = np.concatenate([p.grad.numpy().ravel() for p in parameters])
    np.testing.assert_allclose(found, flat.sum(0), atol=2e-5)
    grid = optimizer.mechanism.granularity
    assert (found / grid == np.rint(found / grid)).all()
    event = optimizer.event()
    assert event.coordinates == 10
    assert event.sensitivity * grid <= 1


def test_the_noise_has_the_deviation_that_is_stated():
    optimizer, (p,) = bare([np.zeros((3, 20_000), np.float32)], noise_multiplier=0.5)
    optimizer.step()
    # seven standard errors of a variance of 20,000: by chance once in 4e11 runs
    assert abs(p.grad.var().item() / 0.25 - 1) < 7 * math.sqrt(2 / 20_000)
    assert abs(p.grad.mean().item()) < 7 * 0.5 / math.sqrt(20_000)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_gradients_come_in_the_parameters_dtype(kind):
    model = nn.Linear(3, 1).to(kind)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=2,
    )  # fmt: skip
    for p in model.parameters():
        p.grad_sample = torch.zeros(2, *p.shape, dtype=kind)
    optimizer.step()
    assert {p.grad.dtype for p in model.parameters()} == {kind}


def test_layers_have_bounds_of_their_own():
    gradients = [np.full((1, 4), 9.0, np.float32), np.full((1, 1), 9.0, np.float32)]
    bounds = [2.0, 0.5]
    optimizer, (a, b) = bare(gradients, max_grad_norm=bounds, clipping="per_layer")
    assert optimizer.mechanism == GradientSum(
        sigma=1e-6 * math.hypot(*bounds), radius=bounds, shapes=[(4,), (1,)]
    )
    optimizer.step()
    np.testing.assert_allclose(a.grad, np.full(4, 1.0), atol=1e-4)
    np.testing.assert_allclose(b.grad, [0.5], atol=1e-4)
    _, model, optimizer, loader = private(
        clipping="per_layer", max_grad_norm=[1.0, 0.1, 1.0, 0.1], workers=2
    )
    backward(model, optimizer, *next(iter(loader)))
    optimizer.step()
    assert optimizer.event().sensitivity > 2**29


def test_a_batch_in_parts_is_one_step():
    engine, model, optimizer, loader = private(
        noise_multiplier=1e-6, loss_reduction="sum"
    )
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=7, optimizer=optimizer
    ) as parts:
        sums, whole = np.zeros(8 * 16), None
        for x, y in parts:
            backward(model, optimizer, x, y, reduction="sum")
            clipped = optimizer.param_groups[0]["params"][0].grad_sample.flatten(1)
            lengths = sum(
                p.grad_sample.flatten(1).square().sum(1) for p in optimizer.params
            )
            sums += (clipped / lengths.sqrt().clamp(min=1)[:, None]).sum(0).numpy()
            optimizer.original_optimizer.param_groups[0]["lr"] = 0.0
            optimizer.step()
            if len(engine.accountant) == 1:
                whole = optimizer.params[0].grad.numpy().ravel()
                break
    np.testing.assert_allclose(whole, sums, atol=1e-3)
    assert len(engine.accountant) == 1


def total_of(model, optimizer, x, y, part, reduction):
    """Return the integers that a batch sums to, in physical parts."""
    optimizer._total = None
    for i in range(0, len(x), part):
        for p in optimizer.params:
            p.grad_sample = None
        backward(
            model, optimizer, x[i : i + part], y[i : i + part], reduction=reduction
        )
        optimizer._is_last_step_skipped = True
        optimizer.clip_and_accumulate()
    return optimizer._total._totals[0].clamped()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_an_example_moves_the_sum_by_its_own_gradient(reduction):
    """Alone in its physical batch, to the last step of the grid."""
    _, model, optimizer, _ = private(loss_reduction=reduction)
    x, y = (each[:13] for each in records())

    def total(rows, part):
        return total_of(model, optimizer, x[rows], y[rows], part, reduction)

    without, one = total(slice(0, 12), 1), total(slice(12, 13), 1)
    assert (total(slice(0, 13), 1) - without == one).all()
    limit = sum(c._limit for c, _ in optimizer.mechanism._groups)
    assert sum(int(v) ** 2 for v in one) <= limit
    if reduction == "mean":  # 13 times a thirteenth is not what 12 twelfths are
        assert (total(slice(0, 13), 13) - total(slice(0, 12), 13) != one).any()


def test_batches_are_poisson_samples():
    _, _, _, loader = private()
    assert len(loader) == 10
    drawn = [np.bincount(rows, minlength=RECORDS) for rows in loader.batch_sampler]
    assert len(drawn) == 10
    assert max(counts.max() for counts in drawn) == 1
    # seven standard deviations of 10,000 bits of probability 1/10
    assert abs(sum(counts.sum() for counts in drawn) - 1000) < 7 * 30
    rest = [len(x) for x, _ in loader]
    assert len(set(rest)) > 1


@pytest.mark.parametrize("empty", [0, 1])
def test_an_empty_batch_is_a_step(empty):
    engine, model, optimizer, _ = private()
    x, y = records()
    backward(model, optimizer, x[:empty], y[:empty])
    optimizer.step()
    assert len(engine.accountant) == 1
    assert optimizer.params[0].grad.std() > 0


# ---- accounting ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(1.5, 0.04, 2250), (0.8, 0.01, 300)]
)
def test_epsilon_is_below_their_upper_bound(noise, rate, steps):
    ours = opacus.accountants.create_accountant("fastdp")
    theirs = opacus.accountants.create_accountant("prv")
    assert isinstance(ours, Accountant)
    for _ in range(steps):
        ours.step(noise_multiplier=noise, sample_rate=rate)
    theirs.history = [(noise, rate, steps)]
    high = theirs.get_epsilon(DELTA)
    assert high - 0.03 < ours.get_epsilon(DELTA) <= high
    assert ours.history == [(noise, rate, steps)]
    assert len(ours) == steps


def test_a_step_without_noise_has_no_epsilon():
    a = Accountant()
    assert a.get_epsilon(DELTA) == 0
    a.step(noise_multiplier=0, sample_rate=0.1)
    assert a.get_epsilon(DELTA) == math.inf


def test_an_optimizer_of_theirs_is_counted_as_gaussian_noise():
    a = Accountant()
    p = nn.Parameter(torch.zeros(3))
    optimizer = TheirOptimizer(
        torch.optim.SGD([p], lr=1.0),
        noise_multiplier=2.0, max_grad_norm=1.0, expected_batch_size=4,
    )  # fmt: skip
    optimizer.attach_step_hook(a.get_optimizer_hook_fn(0.5))
    p.grad_sample = torch.zeros(4, 3)
    optimizer.step()
    assert a.history == [(2.0, 0.5, 1)]
    optimizer.zero_grad()
    p.grad_sample = [torch.zeros(4, 3)] * 2
    with pytest.raises(UnsupportedEventError, match="in several batches"):
        optimizer.step()


def test_two_batches_in_one_step_cost_more_than_their_accountants_say():
    """An example is in both with probability 1/4, and moves the sum by two bounds."""
    theirs = opacus.accountants.create_accountant("prv")
    theirs.step(noise_multiplier=5.0, sample_rate=2 * 0.5)
    claimed = theirs.get_epsilon(1e-10)
    t = np.arange(0, 60, 0.1)
    tails = [norm.sf(t, bounds, 5) for bounds in (0, 1, 2)]
    with_it = tails[0] / 4 + tails[1] / 2 + tails[2] / 4
    # outcomes above t alone: no smaller delta is true at the epsilon that they claim
    assert (with_it - math.exp(claimed) * tails[0]).max() > 2e-10


def test_a_checkpoint_resumes(tmp_path):
    engine, model, optimizer, loader = private()
    for x, y in loader:
        backward(model, optimizer, x, y)
        optimizer.step()
    path = tmp_path / "checkpoint.pt"
    engine.save_checkpoint(path=path, module=model, optimizer=optimizer)
    second, model, optimizer, _ = private()
    second.load_checkpoint(path=path, module=model, optimizer=optimizer)
    assert second.accountant.history == engine.accountant.history
    backward(model, optimizer, x, y)
    optimizer.step()
    assert len(second.accountant) == 11
    assert len(second.accountant.history) == 1
    assert second.get_epsilon(DELTA) > engine.get_epsilon(DELTA) > 0
    with pytest.raises(ValueError, match="prv"):
        second.accountant.load_state_dict({"history": [], "mechanism": "prv"})


def test_noise_that_a_scheduler_changes_is_counted():
    engine, model, optimizer, loader = private()
    scheduler = opacus.schedulers.ExponentialNoise(optimizer, gamma=0.5)
    batch = next(iter(loader))
    for _ in range(2):
        backward(model, optimizer, *batch)
        optimizer.step()
        scheduler.step()
    events = [accounting.Event.from_json(e) for e, _, _ in engine.accountant.history]
    assert events[0].sigma == 2 * events[1].sigma


# ---- refusals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_generator": torch.Generator()}, "noise_generator must be None.*seed"),
        ({"poisson_sampling": False}, "poisson_sampling must be True.*Poisson"),
        ({"rand_on_empty": True}, "rand_on_empty must be False.*invented"),
        ({"clipping": "adaptive"}, "clipping must be 'flat' or 'per_layer'.*private"),
        ({"grad_sample_mode": "ghost"}, "grad_sample_mode must be 'hooks'.*floats"),
    ],
)
def test_what_has_no_exact_sensitivity_is_refused(options, message):
    model = network()
    with pytest.raises(UnsupportedEventError, match=message):
        private(model, **options)
    assert not any(hasattr(p, "grad_sample") for p in model.parameters())


def test_machines_are_refused():
    with pytest.raises(UnsupportedEventError, match="distributed must be False"):
        PrivacyEngine()._prepare_optimizer(optimizer=None, distributed=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generator": torch.Generator()}, "generator must be None"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be finite and > 0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"max_grad_norm": -1.0}, "max_grad_norm must be finite and > 0"),
        ({"max_grad_norm": [1.0, 1.0]}, "radius must be one for each of 1"),
        ({"workers": 0}, "workers"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(FastDPError, match=message):
        bare([np.zeros((1, 2), np.float32)], **options)


def test_gradients_count_once():
    optimizer, parameters = bare([np.ones((2, 3), np.float32)])
    optimizer.step()
    with pytest.raises(ParameterError, match="zero_grad"):
        optimizer.step()
    optimizer.zero_grad()
    with pytest.raises(ParameterError, match="backward"):
        optimizer.add_noise()
    parameters[0].grad_sample = [torch.zeros(2, 3)] * 2
    with pytest.raises(UnsupportedEventError, match="BatchMemoryManager"):
        optimizer.step()
