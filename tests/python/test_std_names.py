"""Names of PyTorch and NumPy that std/ has as calls or as functions of their own: what they give there, with
derivatives."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from std_torch import RNG, same, same_with_derivatives, some
from tilec import std
from tilec._std_texts import CALLS

ROOT = pathlib.Path(__file__).parent.parent.parent


@pytest.mark.parametrize("chunks, dim", [(2, 0), (3, 1), (2, -1), (5, 1), (9, 2)])
def test_chunk(chunks, dim):
    x = some(2, 7, 4)
    same(std.chunk(x, chunks, dim), torch.chunk(x, chunks, dim))
    same_with_derivatives(lambda x: std.chunk.vjp(x, chunks, dim), lambda x: torch.chunk(x, chunks, dim), x)


def test_one_part_is_a_tuple_too():
    x = some(1, 3)
    same(std.chunk(x, 1), torch.chunk(x, 1))
    same(std.unbind(x), torch.unbind(x))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unbind(dim):
    x = some(2, 3, 4)
    same(std.unbind(x, dim), torch.unbind(x, dim))
    same_with_derivatives(lambda x: std.unbind.vjp(x, dim), lambda x: torch.unbind(x, dim), x)


def test_dstack():
    for shapes in ([(3,), (3,)], [(2, 3), (2, 3), (2, 3)], [(2, 3, 2), (2, 3, 1)], [(3,), (1, 3)], [(), ()]):
        tensors = [some(*shape) for shape in shapes]
        same(std.dstack(tensors), torch.dstack(tensors))
        same_with_derivatives(lambda *each: std.dstack.vjp(list(each)), lambda *each: torch.dstack(each), *tensors)


def test_unflatten():
    x = some(2, 12, 3)
    for dim, sizes in [(1, (3, 4)), (-2, (2, -1, 3)), (0, (-1, 1)), (2, (3,))]:
        same(std.unflatten(x, dim, sizes), torch.unflatten(x, dim, sizes))
        same_with_derivatives(lambda x: std.unflatten.vjp(x, dim, sizes), lambda x: x.unflatten(dim, sizes), x)
    with pytest.raises(TypeError, match="dimension 1 has 12 elements"):
        std.unflatten(x, 1, (5, -1))


INTERPOLATIONS = [
    ((2, 3, 5), dict(size=7)),
    ((2, 3, 5), dict(scale_factor=2, mode="linear")),
    ((2, 3, 5), dict(size=8, mode="linear", align_corners=True)),
    ((2, 3, 5), dict(size=3, mode="area")),
    ((2, 3, 5, 4), dict(size=(7, 3))),
    ((2, 3, 5, 4), dict(size=7, mode="nearest-exact")),
    ((2, 3, 5, 4), dict(scale_factor=(2, 1.5), mode="bilinear")),
    ((2, 3, 5, 4), dict(scale_factor=1.5, mode="bilinear", recompute_scale_factor=True)),
    ((2, 3, 5, 4), dict(scale_factor=1.5, mode="bilinear", align_corners=True)),
    ((2, 3, 5, 4), dict(size=(7, 6), mode="bicubic", align_corners=False)),
    ((2, 3, 5, 4), dict(size=(2, 3), mode="bilinear", antialias=True)),
    ((2, 3, 4, 4), dict(scale_factor=0.5, mode="area")),
    ((1, 2, 3, 4, 5), dict(size=(4, 4, 3), mode="trilinear")),
    ((1, 2, 3, 4, 5), dict(scale_factor=2)),
]


@pytest.mark.parametrize("shape, options", INTERPOLATIONS)
def test_interpolate(shape, options):
    x = some(*shape)
    same_with_derivatives(lambda x: std.interpolate.vjp(x, **options), lambda x: F.interpolate(x, **options), x)
    same(std.interpolate(input=x, **options), F.interpolate(x, **options))


@pytest.mark.parametrize(
    "shape, options, said",
    [
        ((2, 3, 5), dict(size=7, mode="bilinear"), "no mode 'bilinear' for 3 dimensions: give one of nearest"),
        ((2, 3, 5), dict(scale_factor=1.5), "give size=\\(7,\\) or recompute_scale_factor"),
        ((2, 3, 5), dict(size=7, scale_factor=2), "one of size= and scale_factor="),
        ((2, 3, 5), {}, "one of size= and scale_factor="),
        ((2, 3, 5), dict(size=(7, 3)), "give a number or 1 of them"),
        ((2, 3, 5), dict(size=7, align_corners=True), "linear and cubic modes"),
        ((5,), dict(size=7), "3 to 5 dimensions"),
        ((2, 3, 5), dict(size=7, unknown=1), "unknown"),
    ],
)
def test_interpolate_refuses(shape, options, said):
    with pytest.raises(TypeError, match=said):
        std.interpolate(some(*shape), **options)


def test_bincount():
    x, w = RNG.integers(0, 6, 40), RNG.standard_normal(40)
    for size in (0, 3, 9):
        same(std.bincount(x, minlength=size), np.bincount(x, minlength=size))
        same(std.bincount(x, None, size), np.bincount(x, None, size))
        same(std.bincount(x, w, size), np.bincount(x, w, size))
        same(std.bincount(x, x + 2**40, size), np.bincount(x, x + 2**40, size))
        given = torch.tensor(x), torch.tensor(w), size
        same(std.bincount(*given), torch.bincount(*given))
    same_with_derivatives(
        lambda w: std.bincount.vjp(torch.tensor(x), w, wrt="WEIGHTS"),
        lambda w: torch.zeros(6).double().index_add(0, torch.tensor(x), w),
        torch.tensor(w),
    )
    with pytest.raises(ValueError, match="from 0 on: the smallest of X is -2"):
        std.bincount(np.array([3, -2]))
    with pytest.raises(Exception, match="E0"):
        std.bincount(np.array([0.5, 2]))


def test_mode():
    x = torch.tensor(RNG.integers(0, 4, (3, 7, 2)).astype("f8"))
    for dim in (0, 1, -1):
        got, place = std.mode(x, dim)
        same(got, torch.mode(x, dim).values)
        same(torch.gather(x, dim, place.unsqueeze(dim)).squeeze(dim), got)
    y, backward = std.mode.vjp(x, 1, of="V")
    assert np.asarray(backward(torch.ones(3, 2).double())).sum() == 6


@pytest.mark.filterwarnings("ignore:All-NaN")
def test_nanmedian():
    x = some(4, 5, 3)
    x[x > 0.5] = torch.nan
    x[0, 1] = torch.nan
    same(std.nanmedian(x, lower_of_two=1), torch.nanmedian(x))
    for dim in (0, 1, 2):
        same(std.nanmedian(x, lower_of_two=1, dim=dim), torch.nanmedian(x, dim).values)
        same(std.nanmedian(x, lower_of_two=0, dim=dim, keepdim=True), np.nanmedian(x.numpy(), dim, keepdims=True))
    same_with_derivatives(
        lambda x: std.nanmedian.vjp(x, lower_of_two=1, dim=1), lambda x: torch.nanmedian(x, 1).values, some(4, 5, 3)
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_histc(dtype):
    x = (some(300) * 3).to(dtype)
    x[:9] = torch.tensor([-2.0, 3, 2, -1, 0, 0.5, torch.inf, -torch.inf, torch.nan])
    same(std.histc(x, 7, -2, 3), torch.histc(x, 7, -2, 3))
    same(std.histc(x, bins=10, min=-2, max=3), torch.histc(x, 10, -2, 3))
    for finite in (x[9:], x[9:].reshape(3, -1), x[:1], x[:1].expand(5)):
        same(std.histc(finite), torch.histc(finite))
        same(std.histc(finite, bins=3), torch.histc(finite, 3))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize(
    "options", [{}, {"bins": 7}, {"bins_x": 3, "bins_y": 5, "min_x": -1, "max_x": 2, "min_y": -1, "max_y": 1}]
)
def test_histogram2d(dtype, options):
    x, y = RNG.normal(size=(2, 400)).astype(dtype)
    edges = [[options["min_x"], options["max_x"]], [options["min_y"], options["max_y"]]] if "min_x" in options else None
    bins = [options["bins_x"], options["bins_y"]] if "bins_x" in options else options.get("bins", 10)
    weights = RNG.uniform(size=400)
    for given in ((), (weights,)):
        got = std.histogram2d(x, y, *given, **options)
        expected = np.histogram2d(x.astype("f8"), y.astype("f8"), bins, edges, weights=given[0] if given else None)
        for own, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(own, theirs, rtol=4 * np.finfo(dtype).eps, atol=1e-14 if dtype == "f8" else 1e-7)
            assert own.dtype == dtype


def test_the_last_edge_belongs_to_the_last_rectangle():
    i = RNG.integers(0, 5, 200)
    np.testing.assert_array_equal(std.histogram2d(i, i[::-1], bins=4)[0], np.histogram2d(i, i[::-1], 4)[0])


ELEMENTWISE = {
    "erfinv": (torch.erfinv, torch.cat([torch.linspace(-1, 1, 401), 1 - 2.0 ** -torch.arange(2, 24.0)]), 4),
    "lgamma": (
        torch.lgamma,
        torch.cat([torch.linspace(0.01, 30, 401), torch.tensor([0, 1e-30, 1e10, 3e38, 1, 2])]),
        12,
    ),
    "digamma": (torch.digamma, torch.cat([torch.linspace(0.01, 30, 401), torch.tensor([0.0, 1e-30, 1e10, -2])]), 8),
    "trigamma": (
        lambda x: torch.polygamma(1, x),
        torch.cat([torch.linspace(0.01, 30, 401), -torch.linspace(0.01, 0.99, 99)]),
        8,
    ),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_elementwise(name, dtype):
    """Of f32 by PyTorch's f64; its trigamma is good for nine digits."""
    exact, points, ulps = ELEMENTWISE[name]
    x = points.to(dtype)
    y, backward = getattr(std, name).vjp(x)
    wide = x.double().requires_grad_()
    expected = exact(wide)
    few = 1e-9 if name == "trigamma" else 1e-13
    tolerance = few if dtype == torch.float64 else ulps * torch.finfo(dtype).eps
    np.testing.assert_allclose(y, expected.detach().to(dtype), rtol=tolerance, atol=tolerance)
    (slope,) = torch.autograd.grad(expected.sum(), wide)
    finite = torch.isfinite(slope) & (slope.abs() < 1e30) & (wide.abs() > 1e-3)
    found = torch.as_tensor(np.asarray(backward(torch.ones_like(x))))
    near = 1e-9 if dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(found[finite], slope[finite].to(dtype), rtol=near, atol=tolerance)


def test_lgamma_and_digamma_below_0():
    x = -some(200).abs() * 7 - 1e-3
    same(std.lgamma(x), torch.lgamma(x))
    np.testing.assert_allclose(std.digamma(x), torch.digamma(x), rtol=1e-10)


@pytest.mark.parametrize("name", [*CALLS])
def test_the_command_says_what_it_has_for_each_call_of_python(name):
    command = [os.environ.get("TILEC", ROOT / "build/cli/tilec"), "run", "std:" + name, "X=ones:3"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode != 0
    assert "whose comment names it" in said.stderr


def test_derivatives_at_ends():
    x, low, high = (torch.tensor(v, dtype=torch.float64) for v in ([-1, 0, 0.25, 0.5, 0.75, 1, 2], 0, 1))
    same_with_derivatives(std.logit.vjp, torch.logit, x)
    same_with_derivatives(lambda x: std.logit.vjp(x, eps=0.25), lambda x: torch.logit(x, 0.25), x)
    same_with_derivatives(lambda x: std.clip.vjp(x, low, high, wrt="X"), lambda x: torch.clip(x, 0, 1), x)
    y, x = (
        each.flatten() for each in torch.meshgrid(*[torch.tensor([-1.0, -0.0, 0.0, 1.0]).double()] * 2, indexing="ij")
    )
    same_with_derivatives(std.atan2.vjp, torch.atan2, y, x)
