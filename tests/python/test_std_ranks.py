"""Calls of std/ with tensors of fewer or more dimensions than the function's text has, as PyTorch and NumPy take them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from std_torch import same, same_with_derivatives, some
from tilec import std

PRODUCTS = [
    *((2, 3, 4), (4,)), *((3,), (2, 3, 4)), *((5, 2, 3, 4), (4,)), *((3, 4), (4,)), *((3,), (3, 4)), *((4,), (4,)),
    *((5, 2, 3, 4), (4, 6)), *((6, 3), (2, 3, 4)), *((2, 6, 3), (5, 2, 3, 4)), *((5, 1, 6, 3), (2, 3, 4)),
    *((1, 6, 3), (2, 3, 4)), *((2, 6, 3), (2, 3, 4)), *((1, 6, 3), (1, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("a, b", [*zip(PRODUCTS[::2], PRODUCTS[1::2])])
def test_matmul(a, b):
    same_with_derivatives(std.matmul.vjp, torch.matmul, some(*a), some(*b))
    x, y = some(*a), some(*b)
    same(std.matmul(x, y), torch.matmul(x, y))


@pytest.mark.parametrize("a, b", [((2, 3, 4), (3,)), ((3,), (2, 4, 3)), ((2, 3, 4), (3, 4, 5)), ((), (3,))])
def test_matmul_refuses(a, b):
    with pytest.raises(Exception, match="error.E0"):
        std.matmul(some(*a), some(*b))


@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_round(decimals, dtype):
    x = torch.cat([some(50) * 100, torch.tensor([0.5, 1.5, 0.25, 25, 35, -250, 4096, torch.inf, torch.nan])]).to(dtype)
    same(std.round(x, decimals=decimals), torch.round(x, decimals=decimals))
    same(std.round(x.numpy(), decimals), np.round(x.numpy(), decimals))
    whole = np.array([15, 25, -35, 1249, 2**53 + 1])
    same(std.round(whole, max(decimals, 0)), np.round(whole, max(decimals, 0)))
    same(std.round(whole[:4], decimals), np.round(whole[:4], decimals))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu(dim):
    same_with_derivatives(lambda x: std.glu.vjp(x, dim), lambda x: F.glu(x, dim), some(4, 6, 2))


OF_ONE = {
    **{name: {} for name in ("softmax", "log_softmax", "softmin", "logsumexp", "cumsum", "cumprod", "logcumsumexp")},
    **{name: {} for name in ("sort", "argsort", "mode", "cummax", "cummin")},
    **{name: {"k": 1} for name in ("topk", "kthvalue")},
}


@pytest.mark.parametrize("name", [*OF_ONE])
def test_a_scalar_is_one_element(name):
    x, options = some(), OF_ONE[name]
    for dim in (0, -1):
        other = F.softmin if name == "softmin" else getattr(torch, name)
        expected = other(x, dim=dim, **options)
        expected = tuple(expected) if isinstance(expected, tuple) else expected
        got = getattr(std, name)(x, dim=dim, **options)
        same(got, expected if type(got) is type(expected) or isinstance(expected, torch.Tensor) else expected[0])
    with pytest.raises(Exception, match="dim"):
        getattr(std, name)(x, dim=1, **options)


def test_a_scalar_has_derivatives():
    same_with_derivatives(lambda x: std.logsumexp.vjp(x, 0), lambda x: torch.logsumexp(x, 0), some())
    same_with_derivatives(lambda x: std.cumsum.vjp(x, 0), lambda x: torch.cumsum(x, 0), some())
    same(std.cumsum(np.float64(2)), np.cumsum(np.float64(2)))


def test_tile_of_more_numbers_than_dimensions():
    for shape, reps in [((3, 4), (2, 1, 3)), ((), (2,)), ((3,), (2, 2, 2)), ((3, 4), (2, 1, 1, 1))]:
        same_with_derivatives(lambda x: std.tile.vjp(x, reps), lambda x: torch.tile(x, reps), some(*shape))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_one_sample(reduction):
    label, weight = torch.tensor(2), some(4).abs()
    options = {"reduction": reduction}
    for name in ("cross_entropy", "nll_loss"):
        own, other = getattr(std, name), getattr(F, name)
        same_with_derivatives(
            lambda x: own.vjp(x, label, weight, wrt=own.inputs[0], **options),
            lambda x: other(x, label, weight, **options),
            some(4),
        )
        same(own(some(4) * 0, label, weight=weight, **options), other(some(4) * 0, label, weight=weight, **options))
    share = torch.softmax(some(4), 0)
    x = some(4)
    options["label_smoothing"] = 0.1
    same(std.cross_entropy(x, share, **options), F.cross_entropy(x, share, **options))


LAYERS = [
    ("conv1d_ncw", F.conv1d, ((3, 9), (4, 3, 2), (4,)), {"stride": 2}),
    ("conv2d_nchw", F.conv2d, ((4, 5, 6), (4, 2, 2, 3), (4,)), {"padding": (1, 0), "groups": 2}),
    ("conv2d_nchw", F.conv2d, ((4, 5, 6), (3, 4, 3, 3)), {"padding": "same"}),
    ("conv3d_ncdhw", F.conv3d, ((2, 3, 4, 5), (3, 2, 2, 2, 2)), {}),
    ("conv2d_transpose_nchw", F.conv_transpose2d, ((3, 5, 6), (3, 4, 2, 2)), {"stride": 2}),
    ("max_pool1d_ncw", F.max_pool1d, ((3, 6),), {"kernel_size": 2}),
    ("max_pool2d_nchw", F.max_pool2d, ((3, 5, 6),), {"kernel_size": (2, 3), "stride": 1}),
    ("avg_pool2d_nchw", F.avg_pool2d, ((3, 5, 6),), {"kernel_size": 2}),
    ("avg_pool3d_ncdhw", F.avg_pool3d, ((3, 4, 5, 6),), {"kernel_size": 2}),
    ("adaptive_avg_pool2d_nchw", F.adaptive_avg_pool2d, ((3, 5, 6),), {"output_size": (2, 3)}),
]


@pytest.mark.parametrize("name, other, shapes, options", LAYERS)
def test_layers_of_one_sample(name, other, shapes, options):
    tensors = [some(*shape) for shape in shapes]
    own = getattr(std, name)
    same_with_derivatives(lambda *each: own.vjp(*each, **options), lambda *each: other(*each, **options), *tensors)


def test_layers_of_one_sample_with_channels_last():
    x, k = some(5, 6, 3), some(2, 2, 3, 4)
    expected = F.conv2d(x.permute(2, 0, 1), k.permute(3, 2, 0, 1), stride=2).permute(1, 2, 0)
    same(std.conv2d(x, k, stride=2), expected)
    same(std.max_pool2d(x, 2), F.max_pool2d(x.permute(2, 0, 1), 2).permute(1, 2, 0))
