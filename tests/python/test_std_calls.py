"""Functions of std/ called as PyTorch and NumPy have them: parameters by position and by their names, lists, dimensions
that lie apart; each beside what it is called after."""
import numpy as np
import pytest

import tilec

std = tilec.std
X = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
M = X[0]
I = np.array([[1, 0, 2]])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    "call, expected",
    {
        "softmax(X, 1)": lambda: softmax(X, 1),
        "sum(X, 1)": lambda: X.sum(1),
        "sum(X, 1, True)": lambda: X.sum(1, keepdims=True),
        "sum(X, dim=(0, 1))": lambda: X.sum((0, 1)),
        "sum(X, axis=(0, -1))": lambda: X.sum((0, 2)),
        "mean(X, (0, 2), keepdim=True)": lambda: X.mean((0, 2), keepdims=True),
        "max(X, axes=[0, 2], keepdims=True)": lambda: X.max((0, 2), keepdims=True),
        "max(X)": lambda: X.max(),
        "var(X, 1, ddof=1)": lambda: X.var(1, ddof=1),
        "var(X, unbiased=False)": lambda: X.var(),
        "std(X, dim=(0, 2), correction=1, keepdim=True)": lambda: X.std((0, 2), ddof=1, keepdims=True),
        "argmax(X, 1, keepdim=True)": lambda: X.argmax(1)[:, None],
        "median(X, lower_of_two=0)": lambda: np.median(X),
        "quantile(X, 0.25, 1)": lambda: np.quantile(X, 0.25, axis=1),
        "nanmax(np.where(X > 1, np.nan, X), 2)": lambda: np.nanmax(np.where(X > 1, np.nan, X), 2),
        "nanvar(np.where(X > 1, np.nan, X))": lambda: np.nanvar(np.where(X > 1, np.nan, X)),
        "nancumsum(np.where(X > 1, np.nan, X), dim=1)": lambda: np.nancumsum(np.where(X > 1, np.nan, X), 1),
        "cumsum(X, 1, reverse=True)": lambda: X[:, ::-1].cumsum(1)[:, ::-1],
        "flip(X, 1)": lambda: np.flip(X, 1),
        "roll(X, 1, 2)": lambda: np.roll(X, 1, 2),
        "rot90(X, 3)": lambda: np.rot90(X, 3),
        "tril(M, -1)": lambda: np.tril(M, -1),
        "tril(M, k=1)": lambda: np.tril(M, 1),
        "diag(M)": lambda: np.diag(M),
        "diag(M[0], 1)": lambda: np.diag(M[0], 1),
        "swapaxes(X, 2, 0)": lambda: np.swapaxes(X, 2, 0),
        "swapaxes(X, axis1=0, axis2=-1)": lambda: np.swapaxes(X, 0, -1),
        "transpose(X, 0, 2)": lambda: np.swapaxes(X, 0, 2),
        "transpose(M)": lambda: M.T,
        "gelu(X, approximate='tanh')": lambda: 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
        "nancumsum(X, 1)": lambda: X.cumsum(1),
        "flatten(X, 1)": lambda: X.reshape(2, 12),
        "squeeze(X[None, :, :1])": lambda: X[:, 0],
        "squeeze(X[None, :, :1], (0, 2))": lambda: X[:, 0],
        "squeeze(X)": lambda: X,
        "expand_dims(X, 1)": lambda: X[:, None],
        "take(X, I)": lambda: np.take(X, I),
        "take(X, -I, axis=1)": lambda: np.take(X, -I, axis=1),
        "gather(M, I, dim=0)": lambda: np.take_along_axis(M[:, :3], I, 0),
        "take_along_axis(M, [[0, 1, 0, 1]], 0)": lambda: np.take_along_axis(M, np.array([[0, 1, 0, 1]]), 0),
        "softmax(X, np.int64(1))": lambda: softmax(X, 1),
        "gather(M, 1, I)": lambda: np.take_along_axis(M[:1], I, 1),
        "index_fill(X, 1, np.array([0, -1]), 7)": lambda: np.where(np.array([1, 0, 1])[:, None] == 1, 7, X),
        "concat([X, X, X], 1)": lambda: np.concatenate([X, X, X], 1),
        "cat([X] * 20, dim=2)": lambda: np.concatenate([X] * 20, 2),
        "concatenate((X, X), axis=-1)": lambda: np.concatenate((X, X), -1),
        "concat([X])": lambda: X,
        "stack([X] * 11, -1)": lambda: np.stack([X] * 11, -1),
        "stack([X])": lambda: X[None],
        "clip(X, a_min=0, a_max=1)": lambda: np.clip(X, 0, 1),
        "inner(X, M)": lambda: np.inner(X, M),
        "ReduceMean(X, axes=[0, 2])": lambda: X.mean((0, 2), keepdims=True),
        "ReduceL2(X, axes=[1], keepdims=0)": lambda: np.sqrt((X * X).sum(1)),
        "ReduceLogSumExp(X)": lambda: np.log(np.exp(X).sum(keepdims=True)),
        "ArgMax(X, axis=2)": lambda: X.argmax(2)[..., None],
    }.items(),
)
def test_as_numpy(call, expected):
    got, wanted = eval(call, {"X": X, "M": M, "I": I, "np": np}, _Names()), expected()
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)


class _Names(dict):
    def __missing__(self, name):
        if name in ("X", "M", "I", "np"):
            raise KeyError(name)
        return getattr(std, name)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: std.sum(X, dim=1.0), "dim of total is 1.0: give a whole number"),
        (lambda: std.softmax(X, dim="1"), "dim of softmax is '1': give a whole number"),
        (lambda: std.sum(X, dim=(1, 1)), "named twice"),
        (lambda: std.sum(X, 1, dim=1), "given twice, by position and by name"),
        (lambda: std.split(X, 1), "no parameter without a name; compile-time parameters by name: at=…, dim=…"),
        (lambda: std.softmax(X, 1, 2), "softmax takes 1 argument .* and dim without a name"),
        (lambda: std.median(X), r"lower_of_two=….*help\(tilec.std.median\)"),
        (lambda: std.gelu(X, approximate="erf"), "approximate of gelu is 'erf': give approximate='none' or"),
        (lambda: std.sum(X, dtype="f8"), "total has the type that its inputs give it"),
        (lambda: std.cat([]), "one array or more"),
        (lambda: std.einsum, "a text says it"),
        (lambda: std.svd, "no decompositions"),
    ],
)
def test_said_otherwise(call, words):
    with pytest.raises((TypeError, AttributeError), match=words):
        call()


@pytest.mark.parametrize("call", [lambda: std.var.vjp(X, 1, ddof=1), lambda: std.sum.vjp(X, 1, keepdims=True)])
def test_pair_of_a_call_with_parameters(call):
    y, backward = call()
    assert backward(np.ones_like(y)).shape == X.shape


@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "u8"])
def test_integers_stay_what_they_are(kind):
    x = np.array([[3, 0, 5], [100, 2, 100]]).astype(kind)
    clipped = (std.clip(x, min=2), std.clip(x, max=2))
    for got in (*clipped, std.round(x), std.nan_to_num(x), std.relu6(x), std.cross(x, x)):
        assert got.dtype == x.dtype
    wide = np.uint64 if kind == "u8" else np.int64
    for got, wanted in (
        (std.sum(x), x.sum()),
        (std.prod(x, 0), x.astype(wide).prod(0)),
        (std.nansum(x), x.sum()),
        (std.cumsum(x, 1), x.cumsum(1)),
        (std.cumprod(x, 1), x.astype(wide).cumprod(1)),
        (std.trace(x), np.trace(x.astype(wide))),
    ):
        assert got.dtype == wide
        np.testing.assert_array_equal(got, wanted)


def test_large_integers_keep_all_digits():
    x = np.array([2**53 + 1, -(2**53) - 1])
    np.testing.assert_array_equal(std.clip(x, min=0), [2**53 + 1, 0])
    np.testing.assert_array_equal(std.round(x), x)
    np.testing.assert_array_equal(std.nan_to_num(x), x)
    assert std.sum(np.array([2**63 + 1, 2], np.uint64)) == 2**63 + 3


@pytest.mark.parametrize("kind, most", [("f2", 15), ("f4", 127), ("f8", 1023)])
def test_logarithms_of_whole_powers_are_whole(kind, most):
    k = np.arange(1 - most, most + 1)
    np.testing.assert_array_equal(std.log2(np.exp2(k.astype(np.float64)).astype(kind)), k)
    k = np.arange({"f2": 5, "f4": 11, "f8": 23}[kind])
    np.testing.assert_array_equal(std.log10((10.0**k).astype(kind)), k)
