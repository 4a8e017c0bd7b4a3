"""std/scan.tile against NumPy, and PyTorch where it is installed."""
import numpy as np
import pytest

from std_cases import Case, compare


def C(function, inputs, numpy, torch=None, linear=False, **define):
    return Case(function, inputs, numpy, torch, define, linear=linear)


def recurrence(x, a):
    y = np.zeros_like(x)
    for t in range(x.shape[-1]):
        y[..., t] = x[..., t] + (a * y[..., t - 1] if t else 0)
    return y


def average(x, a):
    y = x.copy()
    for t in range(1, len(x)):
        y[t] = (1 - a) * y[t - 1] + a * x[t]
    return y


def windows(reduce, k):
    return lambda x: reduce(np.lib.stride_tricks.sliding_window_view(x, k, -1), -1)


def before(x):
    return np.cumsum(x, -1) - x


def trailing(k):
    return lambda x: np.array([x[max(0, i - k + 1):i + 1].sum() for i in range(len(x))])


LINEAR = [
    C(name, (shape,), f, linear=True)
    for name, f, shapes in [
        ("cumsum", np.cumsum, [(1,), (37,)]),
        ("cumsum_rows", lambda x: np.cumsum(x, 1), [(3, 17)]),
        ("cumsum_columns", lambda x: np.cumsum(x, 0), [(17, 3)]),
        ("cumsum_exclusive", before, [(1,), (37,)]),
        ("cumsum_exclusive_rows", before, [(3, 17)]),
        ("cumsum_reverse", lambda x: x[::-1].cumsum()[::-1], [(37,)]),
        ("cumsum_reverse_rows", lambda x: x[:, ::-1].cumsum(1)[:, ::-1], [(3, 17)]),
        ("cummean", lambda x: x.cumsum() / np.arange(1, len(x) + 1), [(13,)]),
    ]
    for shape in shapes
] + [
    C("moving_sum", ((13,),), windows(np.sum, 4), K=4, linear=True),
    C("moving_sum_rows", ((3, 11),), windows(np.sum, 3), K=3, linear=True),
    C("moving_average", ((13,),), windows(np.mean, 13), K=13, linear=True),
    C("moving_average_rows", ((3, 11),), windows(np.mean, 3), K=3, linear=True),
    C("trailing_sum", ((13,),), trailing(4), K=4, linear=True),
    C("trailing_average", ((13,),), lambda x: trailing(4)(x) / np.minimum(np.arange(1, 14), 4), K=4, linear=True),
]
OTHERS = [
    C("cumprod", ((13,),), np.cumprod, lambda x: x.cumprod(0)),
    C("cumprod", (np.array([1.5, 0.0, 2, 0, 3]),), np.cumprod, lambda x: x.cumprod(0)),
    C("cumprod_rows", ((3, 7),), lambda x: np.cumprod(x, 1), lambda x: x.cumprod(1)),
    C("cummax", ((37,),), np.maximum.accumulate, lambda x: x.cummax(0).values),
    C("cummax_rows", ((3, 17),), lambda x: np.maximum.accumulate(x, 1), lambda x: x.cummax(1).values),
    C("cummin", ((37,),), np.minimum.accumulate, lambda x: x.cummin(0).values),
    C("cummin_rows", ((3, 17),), lambda x: np.minimum.accumulate(x, 1), lambda x: x.cummin(1).values),
    C("cumlogsumexp", ((23,),), np.logaddexp.accumulate, lambda x: x.logcumsumexp(0)),
    C("cumlogsumexp", (np.array([1000.0, -1000, 1000, 990]),), np.logaddexp.accumulate, lambda x: x.logcumsumexp(0)),
    C("cumlogsumexp_rows", ((3, 11),), lambda x: np.logaddexp.accumulate(x, 1), lambda x: x.logcumsumexp(1)),
    C("moving_max", ((13,),), windows(np.max, 4), K=4),
    C("moving_min", ((13,),), windows(np.min, 4), K=4),
    C("moving_max_rows", ((3, 11),), windows(np.max, 3), K=3),
    C("moving_min_rows", ((3, 11),), windows(np.min, 3), K=3),
    C("linear_recurrence", ((11,), np.array(0.7)), recurrence),
    C("linear_recurrence", ((11,), np.array(-0.7)), recurrence),
    C("linear_recurrence", ((5,), np.array(0.0)), recurrence),
    C(
        "linear_recurrence_rows",
        ((3, 7), np.array([0.5, -0.9, 1.1])),
        lambda x, a: np.stack([recurrence(r, b) for r, b in zip(x, a)]),
    ),
    C("discounted_return", ((11,), np.array(0.9)), lambda x, g: recurrence(x[::-1], g)[::-1]),
    C("exponential_average", ((11,), np.array(0.3)), average),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LINEAR + OTHERS, ids=str)
def test_scans(case, dtype):
    compare("scan", case, dtype)


@pytest.mark.parametrize("target", ["reference", "opencl"])
@pytest.mark.parametrize("case", [LINEAR[1], OTHERS[0]], ids=str)
def test_scans_elsewhere(case, target):
    compare("scan", case, np.float32, target)
