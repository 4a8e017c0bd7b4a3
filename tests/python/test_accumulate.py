"""accumulate=: what outputs hold is added to, in every element type, through any strides, on every target."""
import subprocess

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
    pick = [
        lambda w: w[:33, :45],
        lambda w: w.T[:33, :45],
        lambda w: w[::2][:33, ::2],
        lambda w: w[::-1, ::-1][:33, :45],
        lambda w: w[40:73, 45:],
    ][place]
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


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4"])
def test_a_package_adds(tmp_path, target, dtype):
    f = tilec.compile(
        "function f(X[N, M], W[M, K]) -> (Y, Z) { Y[i, k: N, K] = +(X[i, j] * W[j, k]); Z = X; }", target=target
    )
    rng = np.random.default_rng(2)
    x, w, start, other = (rng.integers(0, 3, shape).astype(dtype) for shape in ((4, 5), (5, 3), (4, 3), (4, 5)))
    for asked in (True, "Y", ["Z"], [], False):
        path = tmp_path / "f.tilec"
        f.save(path, x, w, accumulate=asked)
        package = tilec.load(path)
        mine, wanted = (start.copy(), other.copy()), (start.copy(), other.copy())
        for _ in range(2):
            f(x, w, out=wanted, accumulate=asked)
            assert all(made is given for made, given in zip(package(x, w, out=mine, accumulate=asked), mine))
            for one, two in zip(mine, wanted):
                np.testing.assert_array_equal(one, two)
        out = start.copy(), x.copy()
        package(out[1], w, out=out, accumulate=asked)                         # an input that is an output
        given = start.copy(), x.copy()
        f(x, w, out=given, accumulate=asked)
        np.testing.assert_array_equal(out[0], given[0])
        np.testing.assert_array_equal(out[1], given[1])


def test_what_a_package_adds_to_is_said_by_both(tmp_path):
    f, x = tilec.compile("function f(X[N]) -> (Y, Z) { Y = X; Z = X * 2.0; }"), np.ones(3)
    f.save(tmp_path / "plain.tilec", x)
    f.save(tmp_path / "adds.tilec", x, accumulate="Z")
    plain, adds = tilec.load(tmp_path / "plain.tilec"), tilec.load(tmp_path / "adds.tilec")
    assert adds.outputs == plain.outputs == ("Y", "Z") and adds.inputs == ("X",)
    out = x.copy(), x.copy()
    with pytest.raises(
        TypeError,
        match=r"the package writes its results.*write no accumulate=, or save another, .*accumulate=\['Y', 'Z'\]",
    ):
        plain(x, out=out, accumulate=True)
    for asked in (False, True, "Y"):
        with pytest.raises(TypeError, match=r"the package adds to Z, .*write accumulate=\['Z'\]"):
            adds(x, out=out, accumulate=asked)
    with pytest.raises(TypeError, match="give them as out="):
        adds(x, accumulate="Z")
    for package in (plain, adds):
        with pytest.raises(ValueError, match="accumulate=: Q is no output; there are Y, Z"):
            package(x, out=out, accumulate="Q")
    for wrong in (1.5, 3, -1):
        with pytest.raises(TypeError, match="accumulate= is a bool"):
            f(x, out=out, accumulate=wrong)
    with pytest.raises(ValueError, match="Q is no output"):
        f.save(tmp_path / "f.tilec", x, accumulate="Q")
    with pytest.raises(TypeError, match="vjp=True"):
        f.save(tmp_path / "f.tilec", x, vjp=True, accumulate=True)
    assert all((array == 1).all() for array in out)
    from test_cli import TILEC
    done = subprocess.run(
        [TILEC, "run", tmp_path / "adds.tilec", "X=ones:3xf64"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "adds to what `Z` holds" in done.stderr, done.stderr
