"""std/statistics.tile against NumPy, and PyTorch where it is installed."""
import numpy as np
import pytest

import tilec

from std_cases import Case, compare


def score(axis, ddof):
    return lambda x: (x - x.mean(axis, keepdims=True)) / x.std(axis, ddof=ddof, keepdims=True)


def score_torch(axis, ddof):
    return lambda x: (x - x.mean(axis, keepdim=True)) / x.std(axis, correction=ddof, keepdim=True)


def scale(axis):
    return lambda x: (x - x.min(axis, keepdims=True)) / np.ptp(x, axis, keepdims=True)


def moment(power):
    return lambda x: (score(0, 0)(x) ** power).mean()


LABELS = np.random.default_rng(0).integers(-2, 9, (5, 7)).astype(np.int32)
CASES = (
    [
        Case(
            "weighted_mean",
            ((7,), (7,)),
            lambda x, w: np.average(x, weights=w),
            lambda x, w: (x * w).sum() / w.sum(),
            low=0.5,
            high=2,
        ),
        Case(
            "weighted_mean_rows",
            ((5, 7), (7,)),
            lambda x, w: np.average(x, 1, w),
            lambda x, w: (x * w).sum(1) / w.sum(),
            low=0.5,
            high=2,
        ),
        Case("rms", ((7,),), lambda x: np.sqrt((x * x).mean()), lambda x: (x * x).mean().sqrt()),
        Case("rms_rows", ((5, 7),), lambda x: np.sqrt((x * x).mean(1)), lambda x: (x * x).mean(1).sqrt()),
        Case(
            "mean_variance_rows",
            ((5, 7),),
            lambda x: (x.mean(1), x.var(1, ddof=1)),
            lambda x: (x.mean(1), x.var(1)),
            {"correction": 1},
        ),
        Case("rescale", ((7,),), scale(0)),
        Case("rescale_rows", ((5, 7),), scale(1)),
        Case("range_of", ((7,),), np.ptp),
        Case("histogram", (LABELS[0],), lambda x: np.bincount(x[(x >= 0) & (x < 6)], minlength=6), define={"bins": 6}),
        Case(
            "histogram_rows",
            (LABELS,),
            lambda x: np.stack([np.bincount(r[(r >= 0) & (r < 6)], minlength=6) for r in x]),
            define={"bins": 6},
        ),
        Case("histogram_weighted", (abs(LABELS[0]), (7,)), lambda x, w: np.bincount(x, w, 9), define={"bins": 9}),
        Case("skewness", ((11,),), moment(3), scale=10),
        Case("kurtosis", ((11,),), lambda x: moment(4)(x) - 3, scale=10),
    ]
    + [
        Case(name + suffix, (shape,), lambda x, f=f, axis=axis: f(x, axis), lambda x, g=g, axis=axis: g(x, axis))
        for suffix, shape, axis in [("", (13,), 0), ("_rows", (5, 7), 1), ("_columns", (5, 7), 0)]
        for name, f, g in [
            ("mean", np.mean, lambda x, a: x.mean(a)),
            ("largest", np.max, lambda x, a: x.amax(a)),
            ("smallest", np.min, lambda x, a: x.amin(a)),
        ]
    ]
    + [
        Case(name + suffix, (shape,), f(axis, ddof), g(axis, ddof), {"correction": ddof}, scale=4)
        for suffix, shape, axis in [("", (13,), 0), ("_rows", (5, 7), 1), ("_columns", (5, 7), 0)]
        for ddof in (0, 1)
        for name, f, g in [
            ("variance", lambda a, d: lambda x: x.var(a, ddof=d), lambda a, d: lambda x: x.var(a, correction=d)),
            ("deviation", lambda a, d: lambda x: x.std(a, ddof=d), lambda a, d: lambda x: x.std(a, correction=d)),
            ("standardise", score, score_torch),
        ]
    ]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_statistics(case, dtype):
    compare("statistics", case, dtype)


def test_equal_numbers():
    from std_cases import program
    x = np.full(5, 3.0)
    for name in ("deviation", "standardise", "rescale"):
        f = program("statistics", name, (), "cpu")
        np.testing.assert_array_equal(f(x), 0)
        np.testing.assert_array_equal(f.grad()(x, np.ones(f(x).shape)), 0)


def test_between_minus_infinity_and_a_number():
    """Where NumPy and PyTorch say NaN for a share below a half: their difference is infinite."""
    x = np.array([np.inf, -np.inf, 1, 1])
    assert tilec.std.quantile(x, q=0.3) == -np.inf
    assert tilec.std.quantile(x[1:3], q=0.3) == -np.inf


def test_a_mean_of_nothing_is_nan():
    nothing = np.zeros((0, 3))
    np.testing.assert_array_equal(tilec.std.mean(nothing, dim=0), [np.nan] * 3)
    assert tilec.std.mean(nothing, dim=1).shape == (0,)
