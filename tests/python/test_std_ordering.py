"""std/ordering.tile, and what std/statistics.tile says of elements in order, against NumPy."""
import numpy as np
import pytest

import tilec
from std_cases import Case, compare

X = np.random.default_rng(0).integers(0, 9, (3, 5, 4)).astype("f8")     # several are equal
WITH_NAN = np.where(X == 4, np.nan, X)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("x", [X, WITH_NAN, X.astype("i4")], ids=["numbers", "NaN", "i32"])
def test_sorted(dim, x):
    values, places = tilec.std.sort(x, dim=dim)
    np.testing.assert_array_equal(values, np.sort(x, dim))
    np.testing.assert_array_equal(places, np.argsort(x, dim, kind="stable"))
    assert values.dtype == x.dtype and places.dtype == np.int64
    np.testing.assert_array_equal(tilec.std.argsort(x, axis=dim), places)
    values, places = tilec.std.sort(x, dim=dim, descending=True)
    np.testing.assert_array_equal(values, np.flip(np.sort(x, dim), dim))
    np.testing.assert_array_equal(np.take_along_axis(x, places, dim), values)
    for largest in (True, False):
        ends, where = tilec.std.topk(x, k=2, dim=dim, largest=largest)
        expected = np.flip(np.sort(x, dim), dim) if largest else np.sort(x, dim)
        np.testing.assert_array_equal(ends, expected.take([0, 1], dim))
        np.testing.assert_array_equal(np.take_along_axis(x, where, dim), ends)
    value, place = tilec.std.kthvalue(x, k=3, dim=dim)
    np.testing.assert_array_equal(value, np.sort(x, dim).take(2, dim))


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_among_sorted(side):
    edges, x = np.sort(X.ravel())[::3], np.append(X, [-1, 20, np.nan]).reshape(-1, 9)
    np.testing.assert_array_equal(
        tilec.std.searchsorted(edges, x, right=side == "right"), np.searchsorted(edges, x, side)
    )
    np.testing.assert_array_equal(tilec.std.bucketize(x, edges), np.searchsorted(edges, x))
    np.testing.assert_array_equal(tilec.std.isin(X, np.array([3.0, 8])), np.isin(X, [3, 8]))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("q", [0, 0.3, 0.5, 0.75, 1])
def test_quantile(method, q):
    x = np.random.default_rng(1).standard_normal((3, 5, 4))
    for dims in (None, 0, 1, (1, 2)):
        np.testing.assert_allclose(
            tilec.std.quantile(x, q=q, interpolation=method, dim=dims),
            np.quantile(x, q, dims, method=method),
            rtol=1e-14,
        )
    x[1, 2, 3] = np.nan
    np.testing.assert_array_equal(np.isnan(tilec.std.quantile(x, q=q, dim=2)), np.isnan(x).any(2))


REDUCED = {
    "sum": np.sum,
    "prod": np.prod,
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "any": np.any,
    "all": np.all,
    "count_nonzero": np.count_nonzero,
    "argmax": np.argmax,
    "argmin": np.argmin,
    "amax": np.max,
    "amin": np.min,
    "ptp": np.ptp,
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("x", [X, WITH_NAN, X.astype("i4"), X > 3], ids=["numbers", "NaN", "i32", "bool"])
def test_reductions(name, x):
    if x.dtype == bool and name in ("ptp", "nanmean"):
        pytest.skip("of numbers")
    for dims in (None, 0, 1, 2, (0, 1), (1, 2)):
        if name.startswith("arg") and isinstance(dims, tuple):
            continue
        with np.errstate(all="ignore"):
            expected = REDUCED[name](x, dims)
        np.testing.assert_allclose(getattr(tilec.std, name)(x, dim=dims), expected, rtol=1e-6)
        np.testing.assert_allclose(getattr(tilec.std, name)(x, axis=dims), expected, rtol=1e-6)


def test_sums_of_integers_are_wide():
    x = np.full(3, 2**31 - 1, np.int32)
    assert tilec.std.sum(x) == 3 * (2**31 - 1) and tilec.std.sum(x).dtype == np.int64
    assert tilec.std.prod(x[:2]) == (2**31 - 1) ** 2


CASES = [
    Case("sorted", ((3, 5),), lambda x: (np.sort(x), np.argsort(x))),
    Case("topk", ((3, 5),), lambda x: (-np.sort(-x)[:, :2], np.argsort(-x)[:, :2]), define={"k": 2}),
    Case("quantile", ((3, 5),), lambda x: np.quantile(x, 0.3, 1), define={"q": 0.3, "start_dim": 1}),
    Case("nanmean", ((3, 5),), lambda x: x.mean(0), define={"end_dim": 0}, linear=True),
    Case("product_of", ((3, 5),), lambda x: x.prod(0), define={"end_dim": 0}),
    Case("trapezoid", ((3, 5),), lambda x: np.trapezoid(x, dx=0.5), define={"dx": 0.5}, linear=True),
    Case("var", ((3, 5),), lambda x: x.var(1, ddof=1), define={"correction": 1, "start_dim": 1}),
    Case("std", ((3, 5),), lambda x: x.std(1), define={"correction": 0, "start_dim": 1}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case):
    compare(tilec.std._heading(case.function).family, case, np.float64)
