"""Functions of std/special.tile, and what NumPy has of windows, angles, lines and orders, against NumPy and math."""

import math

import numpy as np
import pytest

import tilec

RNG = np.random.default_rng(7)
std = tilec.std


def near(found, expected, dtype, units):
    np.testing.assert_allclose(found, np.asarray(expected), rtol=units * np.finfo(dtype).eps, atol=0)


def each(function, x):
    """Of the numbers as they are, in f64."""
    return np.array([function(float(v)) for v in x.ravel()]).reshape(x.shape)


def share_below(x):
    """Of the normal distribution. math.erfc of a rounded number would lose what its tail is steep."""
    root = math.sqrt(0.5)
    lost = math.fma(-x, root, x * root) if hasattr(math, "fma") else 0.0
    argument = -x * root
    return 0.5 * math.erfc(argument) * (1 + 2 * abs(argument) * lost)


@pytest.mark.parametrize("dtype, low", [("f4", 9.0), ("f8", 26.0)])
def test_what_the_error_function_leaves(dtype, low):
    """To eight units everywhere, in the tail too, where 1 - erf has nothing left."""
    x = np.concatenate([np.linspace(-low, low, 801), [0.0, 1e-30]]).astype(dtype)
    near(std.erfc(x), each(math.erfc, x), dtype, 8)
    wide = each(lambda v: math.erfc(v) * math.exp(v * v), x[np.abs(x) < 5])
    np.testing.assert_allclose(std.erfcx(x[np.abs(x) < 5]), wide, rtol=1e-6 if dtype == "f4" else 1e-13)
    y, backward = std.erfc.vjp(x)
    slope = each(lambda v: -2 / math.sqrt(math.pi) * math.exp(-v * v), x)
    np.testing.assert_allclose(backward(np.ones_like(x)), slope, rtol=1e-4 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("dtype, low", [("f4", 12.0), ("f8", 36.0)])
def test_gelu_keeps_its_digits_below_0(dtype, low):
    x = np.linspace(-low, 6, 901).astype(dtype)
    tolerance = {"f4": 1e-6, "f8": 2e-13}[dtype]  # that of share_below(), which is math's
    np.testing.assert_allclose(std.ndtr(x), each(share_below, x), rtol=tolerance)
    np.testing.assert_allclose(std.gelu(x), each(lambda v: v * share_below(v), x), rtol=tolerance)
    below = x[x > -8]
    logarithm = each(lambda v: math.log(share_below(v)) if v < 0 else math.log1p(-share_below(-v)), below)
    np.testing.assert_allclose(std.log_ndtr(below), logarithm, rtol=1e-6 if dtype == "f4" else 1e-12)


def test_sinc_and_logit_keep_their_digits_at_zeros():
    x = np.arange(1, 40) + 2.0**-20 * RNG.standard_normal(39)
    rest = x - np.round(x)
    expected = np.where(np.round(x) % 2 == 0, 1, -1) * np.sin(np.pi * rest) / (np.pi * x)
    np.testing.assert_allclose(std.sinc(x), expected, rtol=1e-15)
    np.testing.assert_allclose(std.sinc(-x), expected, rtol=1e-15)
    p = 0.5 + RNG.uniform(-0.3, 0.3, 99) * 2.0 ** -RNG.integers(0, 40, 99)
    np.testing.assert_allclose(std.logit(p), 2 * np.arctanh(2 * p - 1), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bessel(dtype):
    x = np.linspace(-40, 40, 403).astype(dtype)
    tolerance = 1e-6 if dtype == "f4" else 1e-14
    np.testing.assert_allclose(std.i0(x), np.i0(x.astype("f8")), rtol=tolerance)
    np.testing.assert_allclose(std.i0e(x), np.i0(x.astype("f8")) * np.exp(-np.abs(x.astype("f8"))), rtol=tolerance)
    y, backward = std.i0.vjp(x)
    np.testing.assert_allclose(backward(np.ones_like(x)), std.i1(x), rtol=tolerance)
    wide = x.astype("f8")
    slope = (np.i0(wide + 1e-5) - np.i0(wide - 1e-5)) / 2e-5
    np.testing.assert_allclose(std.i1(x), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(std.kaiser(9, 5.5), np.kaiser(9, 5.5), rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"discont": 4.0}, {"period": 5.0}])
def test_unwrap(options):
    x = RNG.uniform(-20, 20, (7, 9))
    np.testing.assert_allclose(std.unwrap(x, **options), np.unwrap(x, **options), rtol=1e-12)
    y, backward = std.unwrap.vjp(x, **options)
    np.testing.assert_array_equal(backward(np.full_like(x, 3)), np.full_like(x, 3))


def test_interp():
    xp, fp = np.sort(RNG.uniform(0, 5, 7)), RNG.standard_normal(7)
    x = np.concatenate([RNG.uniform(-1, 6, 30), xp, [np.nan, np.inf, -np.inf]])
    np.testing.assert_allclose(std.interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-12)
    xp[3] = xp[2]
    np.testing.assert_allclose(std.interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-12)
    np.testing.assert_allclose(std.interp(x[:36].reshape(6, 6), xp[:1], fp[:1]), np.full((6, 6), fp[0]))


def test_lexsort():
    keys = [RNG.integers(0, 3, (5, 6)) for _ in range(3)]
    for given in (keys, keys[:1], np.array(keys)):
        np.testing.assert_array_equal(std.lexsort(given), np.lexsort(given))
        np.testing.assert_array_equal(std.lexsort(given, axis=0), np.lexsort(given, axis=0))
    with pytest.raises(TypeError, match="lexsort takes one list of tensors of one shape"):
        std.lexsort([np.ones(3), np.ones(4)])
    with pytest.raises(TypeError, match="lexsort takes one list"):
        std.lexsort(np.ones(3), np.ones(3))


def test_names_of_numpy():
    x, y = RNG.standard_normal((4, 5)), RNG.standard_normal((3, 4))
    np.testing.assert_allclose(std.polyval([2.0, -1.0, 3.0], x), np.polyval([2.0, -1.0, 3.0], x))
    np.testing.assert_allclose(std.nancumprod(np.array([2.0, np.nan, 3.0])), [2, 2, 6])
    np.testing.assert_allclose(std.nancumprod(x), np.nancumprod(x))
    np.testing.assert_allclose(std.cumulative_trapezoid(x, dx=0.5), np.cumsum(x[:, 1:] + x[:, :-1], 1) / 4)
    np.testing.assert_allclose(std.matrix_norm(x), np.linalg.norm(x))
    for found, expected in zip(std.modf(np.array([1.5, -2.25, np.inf])), np.modf([1.5, -2.25, np.inf])):
        np.testing.assert_array_equal(found, expected)
    assert std.allclose(x, x + 1e-9) and not std.allclose(x, x + 1) and not std.allclose(x, np.full_like(x, np.nan))
    np.testing.assert_array_equal(std.row_stack([x[0], x[1]]), x[:2])
    assert [each.shape for each in std.unstack(y, axis=1)] == [(3,)] * 4
    for found, expected in zip(std.var_mean(x, 1), (x.var(1, ddof=1), x.mean(1))):
        np.testing.assert_allclose(found, expected)


def test_a_part_alone_is_a_tuple_with_its_derivative():
    for call in (lambda: std.chunk.vjp(np.ones((2, 3)), 1), lambda: std.unbind.vjp(np.ones((1, 2, 3)))):
        parts, backward = call()
        assert isinstance(parts, tuple) and len(parts) == 1
        np.testing.assert_array_equal(np.squeeze(backward(np.full((2, 3), 2.0))), np.full((2, 3), 2.0))


def test_a_scalar_has_dimensions_0_and_1_from_the_end_to_squeeze():
    for dim in (0, -1, None, (0,), ()):
        assert np.shape(std.squeeze(np.float64(3), dim)) == () and std.squeeze(np.float64(3), dim) == 3
    with pytest.raises(TypeError, match="dim of squeeze is 1"):
        std.squeeze(np.float64(3), 1)


def test_ndtri_is_the_other_way():
    p = np.concatenate([10.0 ** -RNG.uniform(0.4, 300, 200), RNG.uniform(0.01, 0.5, 200)])
    np.testing.assert_allclose(std.ndtr(std.ndtri(p)), p, rtol=1e-12)
    np.testing.assert_allclose(std.ndtri(1 - p[200:]), -std.ndtri(1 - (1 - p[200:])), rtol=1e-12)
    np.testing.assert_array_equal(std.ndtri(np.array([0.0, 0.5, 1.0, -0.1, 1.1])), [-np.inf, 0, np.inf, np.nan, np.nan])


def poisson(counts, x):
    return math.fsum(math.exp(k * math.log(x) - x - math.lgamma(k + 1)) for k in counts)


def test_shares_of_the_gamma_distribution():
    n = RNG.integers(1, 60, 300).astype("f8")
    x = n * RNG.uniform(0.2, 3, 300)
    beyond = [poisson(range(int(a)), b) for a, b in zip(n, x)]
    np.testing.assert_allclose(std.gammaincc(n, x), beyond, rtol=1e-12)
    below = [poisson(range(int(a), int(a) + 500), b) for a, b in zip(n, x)]
    np.testing.assert_allclose(std.gammainc(n, x), below, rtol=1e-12)
    half = np.linspace(0, 30, 200)
    np.testing.assert_allclose(std.gammainc(0.5, half), each(lambda v: math.erf(math.sqrt(v)), half), rtol=1e-14)
    for a in (1e-3, 0.7, 30.0, 1e3, 1e6):                    # gammainc(a, x) is the next one and a term
        x = a * np.array([0.5, 0.9, 1 - a**-0.5 / 2, 1, 1 + a**-0.5 / 2, 1.1, 2])[a < 1 :]
        x = x[x > 0]
        term = np.exp(a * (np.log1p((x - a) / a) - (x - a) / a) + a * math.log(a) - a - math.lgamma(a + 1))
        np.testing.assert_allclose(std.gammainc(a, x), std.gammainc(a + 1, x) + term, rtol=1e-9)


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8"])
def test_common_divisors(kind):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x, z = (RNG.integers(low, high, 500, dtype=kind, endpoint=True) for _ in range(2))
    np.testing.assert_array_equal(std.gcd(x, z), np.gcd(x, z))
    steps = [0, 1]                                           # each twice the last and the one before: the most steps
    while 2 * steps[-1] + steps[-2] <= high:
        steps.append(2 * steps[-1] + steps[-2])
    slow = np.array(steps, dtype=kind)
    np.testing.assert_array_equal(std.gcd(slow[1:], slow[:-1]), np.ones(len(slow) - 1))
    np.testing.assert_array_equal(std.gcd(slow[1:], slow[:-1]), np.gcd(slow[1:], slow[:-1]))
    small = RNG.integers(0 if low == 0 else -11, 11, (2, 99)).astype(kind)
    np.testing.assert_array_equal(std.lcm(*small), np.lcm(*small))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_and_places_of_all_but_nan(method):
    x = RNG.normal(size=(3, 7, 5))
    x[RNG.uniform(size=x.shape) < 0.3] = np.nan
    x[:, :2] = RNG.normal(size=(3, 2, 5))
    for q in (0, 0.25, 0.4, 1):
        np.testing.assert_allclose(
            std.nanquantile(x, q, 1, interpolation=method), np.nanquantile(x, q, 1, method=method), rtol=1e-12
        )
    np.testing.assert_array_equal(std.nanargmax(x, 1), np.nanargmax(x, 1))
    np.testing.assert_array_equal(std.nanargmin(x), np.nanargmin(x))
