"""Arrays of other libraries: their memory is read as numpy's is, without a copy."""

import array

import numpy as np
import pytest

import fastdp
from fastdp import _doorway
from fastdp.exceptions import DTypeError, ParameterError
from fastdp.testing import FixedStream


class Tensor:
    """What other libraries give: memory by DLPack, here of the host, and a trap."""

    def __init__(self, x, device=1):
        self.x, self.device = x, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **options):
        assert self.device == 1, "nothing is asked of another device"
        return self.x.__dlpack__(**options)

    def __array__(self, *_, **__):
        raise AssertionError("this may copy")


class Graph(Tensor):
    def __dlpack__(self, **_):
        raise BufferError("0.123 requires grad")


WHOLE = np.arange(12)
REAL = np.linspace(0, 1, 12)
ROWS = REAL.reshape(3, 4)
ONE = {"epsilon": 1, "sensitivity": 1}

READING = [
    (fastdp.DiscreteLaplace(2), WHOLE),
    (fastdp.DiscreteGaussian(2), WHOLE.reshape(3, 4)),
    (fastdp.DiscreteLaplace(2), np.array(7)),
    (fastdp.Laplace(2), REAL),
    (fastdp.Gaussian(2, coordinates=12), ROWS.astype(np.float32)),
    (fastdp.ClippedSum(sigma=1, radius=1, dimension=4, norm=2), ROWS),
    (fastdp.Moments.from_epsilon(1, bounds=(0, 1)), REAL),
    (fastdp.Quantiles(0.5, bounds=(0, 1), epsilon=1), REAL),
    (fastdp.HierarchicalHistogram.from_epsilon(1, leaves=12), WHOLE),
    (fastdp.RandomizedResponse.from_epsilon(1, categories=12), WHOLE),
    (fastdp.UnaryEncoding.from_epsilon(1, categories=12), WHOLE),
    (fastdp.LocalMean.from_epsilon(1, bounds=(0, 1)), REAL),
    (fastdp.VectorResponse.from_epsilon(1, dimension=4), ROWS),
    (fastdp.ExponentialMechanism(**ONE), REAL),
    (fastdp.PermuteAndFlip(**ONE), WHOLE),
    (fastdp.ReportNoisyMax(**ONE), ROWS),
]


@pytest.mark.parametrize("wrap", [Tensor, memoryview])
@pytest.mark.parametrize(("m", "x"), READING, ids=lambda v: type(v).__name__)
def test_every_mechanism_reads_it_as_numpys(m, x, wrap):
    call = getattr(m, "release", None) or m.select
    before = x.copy()
    ours, numpys = (call(v, stream=FixedStream(bytes(32))) for v in (wrap(x), x))
    assert type(ours) is type(numpys)
    assert repr(ours) == repr(numpys)
    np.testing.assert_array_equal(x, before)


def test_nothing_is_copied():
    for wrap in (Tensor, memoryview):
        assert np.shares_memory(_doorway.shared("x", wrap(REAL)), REAL)


def test_buffers_are_read_where_they_are_given_as_such():
    m = fastdp.DiscreteLaplace(2)
    assert m.release(memoryview(array.array("q", [1, 2, 3]))).shape == (3,)
    with pytest.raises(DTypeError, match="x must be"):
        m.release(b"abc")
    with pytest.raises(DTypeError, match="got dtype uint64"):
        m.release(memoryview(array.array("Q", [1])))


@pytest.mark.parametrize(("m", "x"), READING[:6], ids=lambda v: type(v).__name__)
def test_memory_that_cannot_be_read_is_refused_with_the_way_out(m, x):
    with pytest.raises(ParameterError, match=r"in the host.s memory, got .* device 2"):
        m.release(Tensor(x, device=2))
    with pytest.raises(DTypeError, match=r"raised BufferError: .* x\.detach") as caught:
        m.release(Graph(x))
    assert "0.123" not in str(caught.value)
