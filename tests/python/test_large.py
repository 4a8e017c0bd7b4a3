"""Shapes large enough for every schedule: panels, transposed copies, reductions in parts and in two stages, row groups.

Inputs are small integers, so every sum is exact in any order and results are compared exactly.
"""
import numpy as np
import pytest
import tilec

RNG = np.random.default_rng(7)


def whole(*shape, dtype="f4"):
    return RNG.integers(-3, 4, shape).astype(dtype)


MATMULS = {"NN": ("A[M, K], B[K, N]", "A[i, k] * B[k, j]"), "NT": ("A[M, K], B[N, K]", "A[i, k] * B[j, k]"),
           "TN": ("A[K, M], B[K, N]", "A[k, i] * B[k, j]"), "TT": ("A[K, M], B[N, K]", "A[k, i] * B[j, k]")}


@pytest.mark.parametrize("layout", MATMULS)
@pytest.mark.parametrize(
    "m, n, k", [(100, 100, 5000), (70, 1100, 1030), (300, 1024, 1024), (1, 600, 3000), (600, 1, 3000), (517, 33, 64)]
)
def test_matmul(layout, m, n, k):
    inputs, body = MATMULS[layout]
    f = tilec.compile(f"function ({inputs}) -> (C) {{ C[i, j: M, N] = +({body}); }}")
    a, b = whole(m, k), whole(k, n)
    given = (a.T.copy() if layout[0] == "T" else a, b.T.copy() if layout[1] == "T" else b)
    np.testing.assert_array_equal(f(*given), a @ b)


@pytest.mark.parametrize("dtype", ["f8", "i4", "f2"])
def test_matmul_of_other_types(dtype):
    f = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    a, b = RNG.integers(-1, 2, (90, 3000)).astype(dtype), RNG.integers(-1, 2, (3000, 80)).astype(dtype)
    np.testing.assert_array_equal(f(a, b), (a.astype("f8") @ b.astype("f8")).astype(dtype))


@pytest.mark.parametrize("stride, size, channels", [(1, 40, (64, 48)), (2, 41, (32, 70)), (3, 50, (3, 64))])
def test_convolution_and_gradients(stride, size, channels):
    ci, co = channels
    out = (size - 1) // stride + 1
    f = tilec.compile(f"function (I[N, H, W, CI], K[R, S, CI, CO]) -> (O) {{ O[n, y, x, c: N, {out}, {out}, CO] = "
                      f"+(I[n, {stride}*y + j - 1, {stride}*x + i - 1, d] * K[j, i, d, c]); }}")
    image, kernel, cotangent = whole(2, size, size, ci), whole(3, 3, ci, co), whole(2, out, out, co)
    padded = np.pad(image, ((0, 0), (1, stride + 1), (1, stride + 1), (0, 0))).astype("f8")
    taps = {
        (j, i): padded[:, j:, i:][:, : stride * out : stride, : stride * out : stride][:, :out, :out]
        for j in range(3)
        for i in range(3)
    }
    wanted = sum(taps[j, i] @ kernel[j, i].astype("f8") for j in range(3) for i in range(3))
    np.testing.assert_array_equal(f(image, kernel), wanted)
    d_padded = np.zeros_like(padded)
    d_kernel = np.zeros(kernel.shape)
    for (j, i), view in taps.items():
        d_padded[:, j:, i:][:, : stride * out : stride, : stride * out : stride][:, :out, :out] += cotangent @ kernel[
            j, i
        ].T.astype("f8")
        d_kernel[j, i] = np.tensordot(view, cotangent, axes=([0, 1, 2], [0, 1, 2]))
    d_image, dk = f.grad(wrt=["I", "K"])(image, kernel, cotangent)
    np.testing.assert_array_equal(d_image, d_padded[:, 1 : size + 1, 1 : size + 1])
    np.testing.assert_array_equal(dk, d_kernel)


def test_sums_over_every_axis():
    x = whole(70, 400, 90)
    for axis, target in enumerate(["j, k: B, C", "i, k: A, C", "i, j: A, B"]):
        f = tilec.compile(f"function (X[A, B, C]) -> (S) {{ S[{target}] = +(X[i, j, k]); }}")
        np.testing.assert_array_equal(f(x), x.sum(axis))
    total = tilec.compile("function (X[A, B, C]) -> (S) { S[] = +(X[i, j, k]); }")
    assert total(x) == x.sum()
