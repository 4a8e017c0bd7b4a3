"""accumulate=: what outputs hold is added to, in every element type, through any strides, on every target."""
import numpy as np
import pytest

import tilec

TARGETS = ["cpu", "reference", "opencl"]
MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
def test_every_element_type(target, dtype):
    f = tilec.compile("function (X) -> (Y) { Y = X; }", target=target)
    rng = np.random.default_rng(1)
    x, start = [rng.integers(0, 2 if dtype == "?" else 100, (3, 5)).astype(dtype) for _ in range(2)]
    out = start.copy()
    for turn in range(2):
        assert f(x, out=out, accumulate=True) is out
    with np.errstate(over="ignore"):
        wanted = start | x if dtype == "?" else start + x + x                     # integers wrap, as NumPy's do
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", range(5))
def test_any_strides(target, place):
    f = tilec.compile(MATMUL, target=target)
    rng = np.random.default_rng(place)
    a, b = rng.integers(-3, 4, (33, 70)).astype("f4"), rng.integers(-3, 4, (70, 45)).astype("f4")
    whole = rng.integers(-3, 4, (90, 90)).astype("f4")
    before = whole.copy()
    pick = [lambda w: w[:33, :45], lambda w: w.T[:33, :45], lambda w: w[::2][:33, ::2], lambda w: w[::-1, ::-1][:33, :45], lambda w: w[40:73, 45:]][place]
    out = pick(whole)
    f(a, b, out=out, accumulate=True)
    np.testing.assert_array_equal(out, pick(before) + a @ b)
    rest = pick(before)
    rest += a @ b
    np.testing.assert_array_equal(whole, before)                              # nothing beside the view is touched


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_large_contractions_in_every_schedule(target):
    f = tilec.compile(MATMUL, target=target)
    rng = np.random.default_rng(0)
    for m, k, n in [(100, 5000, 100), (1, 3000, 600), (600, 3000, 1), (7, 9, 5)] if target == "cpu" else [(3, 40, 5)]:
        a, b, c = (rng.integers(-3, 4, s).astype("f4") for s in ((m, k), (k, n), (m, n)))
        wanted = c + a @ b
        f(a, b, out=c, accumulate=True)
        np.testing.assert_array_equal(c, wanted)


def test_some_outputs_and_the_same_tensor_twice():
    f = tilec.compile("function (X) -> (X, Y, Y) { Y = X * 2; }")
    x = np.arange(4, dtype="f4")
    out = tuple(np.full(4, 10, "f4") for _ in range(3))
    f(x, out=out, accumulate="Y")
    np.testing.assert_array_equal(out, (x, 10 + 2 * x, 10 + 2 * x))
    f(x, out=out, accumulate=["X_1"])
    np.testing.assert_array_equal(out, (2 * x, 2 * x, 2 * x))


def test_gradients_over_a_batch_add_up():
    f = tilec.compile(MATMUL)
    rng = np.random.default_rng(5)
    a, b, dc = rng.standard_normal((6, 4, 5)), rng.standard_normal((5, 3)), rng.standard_normal((6, 4, 3))
    gradient = f.grad(wrt="B")
    total = np.zeros((5, 3))
    for image, cotangent in zip(a, dc):
        gradient(image, b, cotangent, out=total, accumulate=True)
    np.testing.assert_allclose(total, np.einsum("bmk,bmn->kn", a, dc))


def test_a_half_precision_sum_is_rounded_once():
    f = tilec.compile("function (X) -> (Y) { Y = X; }")
    x, y = np.array([0.0004883], "f2"), np.array([1.0], "f2")
    wanted = np.array([np.float16(np.float32(y[0]) + np.float32(x[0]))])
    f(x, out=y, accumulate=True)
    np.testing.assert_array_equal(y, wanted)


def test_mistakes():
    f = tilec.compile(MATMUL)
    a = np.ones((2, 2), "f4")
    with pytest.raises(TypeError, match="out="):
        f(a, a, accumulate=True)
    with pytest.raises(ValueError, match="Q is no output; there are C"):
        f(a, a, out=a.copy(), accumulate="Q")
