"""Bessel's functions, zeta and polygamma of std/special.tile: beside known numbers, PyTorch's, and identities that tie
them to each other."""

import numpy as np
import pytest

import tilec
from tilec import std

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(19)
X = np.concatenate([RNG.uniform(0.01, 40, 300), [2.0, 5.0, 1e-3, 1e-8, 90.0]])
# Abramowitz and Stegun, tables 9.1, 9.8 and 6.1
KNOWN = {
    "bessel_j0": {2.0: 0.22389077914123567, 10.0: -0.24593576445134834, 30.0: -0.08636798358104031},
    "bessel_j1": {2.0: 0.5767248077568734, 10.0: 0.04347274616886144, -2.0: -0.5767248077568734},
    "bessel_y0": {2.0: 0.5103756726497451, 10.0: 0.05567116728359939},
    "bessel_y1": {2.0: -0.10703243154093755, 10.0: 0.24901542420695388},
    "modified_bessel_k0": {0.5: 0.9244190712276659, 3.0: 0.03473950438627925},
    "modified_bessel_k1": {0.5: 1.6564411200033009, 3.0: 0.040156431128194185},
}


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", KNOWN)
def test_known_numbers(name):
    x = np.array([*KNOWN[name]])
    expected = np.array([*KNOWN[name].values()])
    np.testing.assert_allclose(getattr(std, name)(x), expected, rtol=2e-14)
    np.testing.assert_allclose(getattr(std, name)(x.astype("f4")), expected, rtol=3e-6)


@pytest.mark.parametrize("dtype, tolerance", [("f8", 2e-15), ("f4", 3e-7)])
def test_the_two_kinds_of_one_order_and_the_next(dtype, tolerance):
    """J1*Y0 - J0*Y1 = 2/(pi*X), and I0*K1 + I1*K0 = 1/X."""
    x = X.astype(dtype)
    one = std.bessel_j1(x) * std.bessel_y0(x) - std.bessel_j0(x) * std.bessel_y1(x)
    close(one * np.pi * x / 2, 1, 200 * tolerance)
    scaled = std.i0e(x) * std.scaled_modified_bessel_k1(x) + std.i1e(x) * std.scaled_modified_bessel_k0(x)
    close(scaled * x, 1, 10 * tolerance)
    for name in ("k0", "k1"):
        plain, times = getattr(std, "modified_bessel_" + name)(x), getattr(std, "scaled_modified_bessel_" + name)(x)
        close(np.exp(x.astype("f8")) * plain / times, np.ones(x.shape), 60 * tolerance)


@pytest.mark.parametrize("name", [*KNOWN, "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"])
def test_beside_pytorch(name):
    """PyTorch rounds the angle of J and Y to f32."""
    own, theirs = getattr(std, name), getattr(torch.special, name)
    close(own(X), theirs(torch.tensor(X)).numpy(), 1e-6 if "_j" in name or "_y" in name else 1e-14)
    edges = np.array([0.0, -1.0, np.nan, np.inf])
    np.testing.assert_allclose(own(edges), theirs(torch.tensor(edges)).numpy(), rtol=1e-7)
    assert own(np.array([1], "f2")).dtype == np.float16 and own(np.array([1], "i4")).dtype == np.float32


def test_the_second_kind_at_the_smallest_numbers():
    x = np.array([5e-324, 1e-310])
    np.testing.assert_allclose(std.modified_bessel_k0(x), [744.556003437039675, 713.917310343812578], rtol=1e-15)
    np.testing.assert_array_equal(std.modified_bessel_k1(x), np.inf)


def test_zeta():
    x = np.concatenate([RNG.uniform(1.01, 12, 200), RNG.integers(2, 9, 100)])
    q = np.concatenate([RNG.uniform(0.01, 30, 200), RNG.uniform(-9, 9, 100)])
    np.testing.assert_allclose(std.zeta(x, q), torch.special.zeta(torch.tensor(x), torch.tensor(q)), rtol=2e-14)
    close(std.zeta(np.array([2.0, 4.0]), np.ones(2)), [np.pi**2 / 6, np.pi**4 / 90], 1e-15)
    x, q = (each.ravel() for each in np.meshgrid([0.5, 1, 1.5, 2, 3, 100], [0, -1, -1.5, 0.5, 1, 1e10]))
    np.testing.assert_allclose(std.zeta(x, q), torch.special.zeta(torch.tensor(x), torch.tensor(q)), rtol=1e-13)
    y, backward = std.zeta.vjp(np.array([2.5]), np.array([3.0]))                 # by each of them
    by_x, by_q = backward(np.ones(1))
    close(by_q, -2.5 * std.zeta(np.array([3.5]), np.array([3.0])), 1e-14)
    above, below = std.zeta(np.array([2.5001, 2.4999]), np.array([3.0, 3.0]))
    close(by_x, (above - below) / 2e-4, 1e-7)


@pytest.mark.parametrize("n", range(6))
def test_polygamma(n):
    x = torch.tensor(np.concatenate([RNG.uniform(0.05, 20, 100), RNG.uniform(-8.9, 0, 60)]))
    got, expected = std.polygamma(n, x), torch.polygamma(n, x)
    np.testing.assert_allclose(got, expected, rtol=1e-9 if n == 1 else 1e-12, atol=1e-13)
    given = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.polygamma(n, given).sum(), given)
    y, backward = std.polygamma.vjp(x, n=n)
    tolerance = 1e-9 if n < 2 else 1e-12                       # PyTorch's trigamma is good for nine digits
    np.testing.assert_allclose(backward(torch.ones_like(x)), wanted, rtol=tolerance, atol=tolerance)
    own = tilec.torch.function(std.polygamma)(n, given)
    torch.testing.assert_close(own.detach(), got, rtol=0, atol=0)
