"""Scans long enough for blocks, row groups and vectors over another dimension, against NumPy. Whole numbers: sums are exact in any order."""
import numpy as np
import pytest
import tilec

RNG = np.random.default_rng(11)
FOLDS = {"+": np.add, ">": np.maximum, "<": np.minimum}
TARGETS = ["cpu", "opencl"]


def whole(*shape, dtype="f4"):
    return RNG.integers(-3, 4, shape).astype(dtype)


def compiled(text, target):
    try:
        return tilec.compile(text, target=target)
    except tilec.Error as error:
        if target == "opencl":
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("n", [1, 2, 127, 4099, 300007])
def test_one_row(fold, n, target):
    x = whole(n)
    f = compiled(f"function (X[N]) -> (P, S, E) {{ P[j: N] = {fold}(X[k]), k <= j; S[j: N] = {fold}(X[k]), k >= j; E[j: N] = {fold}(X[k]), k < j default 7; }}", target)
    p, s, e = f(x)
    want = FOLDS[fold].accumulate(x)
    np.testing.assert_array_equal(p, want)
    np.testing.assert_array_equal(s, FOLDS[fold].accumulate(x[::-1])[::-1])
    np.testing.assert_array_equal(e, np.concatenate([[7], want[:-1]]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 50, 70), (2, 3, 20011), (30011, 2, 3), (1, 9001, 5), (40, 300, 40)])
def test_each_axis(shape, axis, target):
    x = whole(*shape)
    at, from_ = [["a", "b", "c"] for _ in range(2)]
    from_[axis] = "k"
    f = compiled(f"function (X[A, B, C]) -> (Y) {{ Y[{', '.join(at)}: A, B, C] = +(X[{', '.join(from_)}]), k <= {at[axis]}; }}", target)
    np.testing.assert_array_equal(f(x), np.cumsum(x, axis))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i1", "i4", "u8"])
def test_types(dtype):
    x = RNG.integers(0, 2, 100003).astype(dtype) * (RNG.integers(0, 99, 100003) == 0).astype(dtype)
    f = tilec.compile("function (X[N]) -> (Y) { Y[j: N] = +(X[k]), k <= j; }")
    y = f(x)
    np.testing.assert_array_equal(y, np.cumsum(x.astype("f8")).astype(y.dtype))


def test_gradient_of_a_running_sum_is_one_from_the_end():
    g = tilec.compile("function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }").grad(wrt="X")
    x, dy = whole(3, 5001), whole(3, 5001)
    np.testing.assert_array_equal(g(x, dy), np.cumsum(dy[:, ::-1], 1)[:, ::-1])
