"""Variances of numbers that lie near a large one: values and gradients in f32 beside f64's."""
import numpy as np
import pytest

import tilec
from tilec import std

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(18)


def standard(x):
    return (x - x.mean(1, keepdim=True)) / x.std(1, correction=0, keepdim=True)


CASES = {
    "variance": ((5, 300), lambda x: x.var(1, correction=0), {"start_dim": 1}),
    "deviation": ((5, 300), lambda x: x.std(1, correction=1), {"start_dim": 1, "correction": 1}),
    "var": ((5, 300), lambda x: x.var(0, correction=1), {"dim": 0, "correction": 1}),
    "standardise": ((5, 300), standard, {"start_dim": 1}),
    "nanvar": ((5, 300), lambda x: x.var(1, correction=1), {"start_dim": 1, "correction": 1}),
    "nanstd": ((5, 300), lambda x: x.std(1, correction=0), {"start_dim": 1}),
    "covariance": ((5, 60), torch.cov, {}),
    "correlation": ((5, 60), torch.corrcoef, {}),
}


@pytest.mark.parametrize("center", [1e6, -3e7])
@pytest.mark.parametrize("name", CASES)
def test_a_large_mean_costs_no_digits(name, center):
    shape, reference, options = CASES[name]
    spread = 1 if abs(center) < 1e7 else 50                   # f32 has steps of 2 at 3e7
    x = (center + spread * RNG.normal(size=shape)).astype(np.float32)
    given = torch.tensor(x, dtype=torch.float64).requires_grad_()
    expected = reference(given)
    weights = RNG.normal(size=tuple(expected.shape)).astype(np.float32)
    (wanted,) = torch.autograd.grad(expected, given, torch.tensor(weights, dtype=torch.float64))
    got, backward = getattr(std, name).vjp(x, wrt="X", **options)
    for own, theirs in ((got, expected.detach()), (backward(weights), wanted)):
        error = np.abs(np.asarray(own) - theirs.numpy()).max() / theirs.abs().max()
        assert error < 2e-6, error


def test_equal_numbers_have_no_variance_and_finite_gradients():
    x = np.full((2, 7), 1234567.1, np.float32)
    for name in ("variance", "deviation", "standardise"):
        y, backward = getattr(std, name).vjp(x, start_dim=1)
        assert (y == 0).all() and (backward(np.ones_like(y)) == 0).all(), name


def test_second_derivatives_of_a_variance():
    x = torch.tensor(RNG.normal(size=6))
    f = tilec.torch.function(std.var)
    torch.testing.assert_close(torch.func.hessian(lambda x: f(x, correction=1))(x), torch.func.hessian(torch.var)(x))
