"""Scans long enough for blocks, row groups and vectors over another dimension, against NumPy. Whole numbers: sums are
exact in any order."""
import numpy as np
import pytest
import tilec

RNG = np.random.default_rng(11)
FOLDS = {"+": np.add, ">": np.maximum, "<": np.minimum}
TARGETS = ["cpu", "opencl"]


def whole(*shape, dtype="f4"):
    return RNG.integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("n", [1, 2, 127, 4099, 300007])
def test_one_row(fold, n, target):
    x = whole(n)
    f = tilec.compile(
        f"function (X[N]) -> (P, S, E) {{ P[j: N] = {fold}(X[k]), k <= j; S[j: N] = {fold}(X[k]), k >= j; E[j: N] = {fold}(X[k]), k < j default 7; }}",
        target=target,
    )
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
    f = tilec.compile(
        f"function (X[A, B, C]) -> (Y) {{ Y[{', '.join(at)}: A, B, C] = +(X[{', '.join(from_)}]), k <= {at[axis]}; }}",
        target=target,
    )
    np.testing.assert_array_equal(f(x), np.cumsum(x, axis))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i1", "i4", "u8"])
def test_types(dtype):
    x = RNG.integers(0, 2, 100003).astype(dtype) * (RNG.integers(0, 99, 100003) == 0).astype(dtype)
    f = tilec.compile("function (X[N]) -> (Y) { Y[j: N] = +(X[k]), k <= j; }")
    y = f(x)
    np.testing.assert_array_equal(y, np.cumsum(x.astype("f8")).astype(y.dtype))


WINDOWS = {
    "0 <= t - s < 300": (0, 299),
    "-150 <= t - s < 250": (-150, 249),
    "0 <= s - t < 400": (-399, 0),
    "200 <= t - s < 600": (200, 599),
    "-900 <= t - s <= -500": (-900, -500),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("n", [7, 300, 1000, 2503])
def test_windows(fold, window, n, target):
    nearest, farthest = WINDOWS[window]
    x, y = whole(n), whole(n, 3)
    f = tilec.compile(
        f"function (X[N], Y[N, D]) -> (O, P) {{ O[t: N] = {fold}(X[s]), {window} default 7; P[d, t: D, N] = {fold}(2*Y[s, d] + d), {window} default 7; }}",
        target=target,
    )
    o, p = f(x, y)
    for t in range(0, n, 1 if n < 1000 else 37):
        lo, hi = max(0, t - farthest), min(n - 1, t - nearest)
        assert o[t] == (FOLDS[fold].reduce(x[lo:hi + 1]) if lo <= hi else 7)
        for d in range(3):
            assert p[d, t] == (FOLDS[fold].reduce(2*y[lo:hi + 1, d] + d) if lo <= hi else 7)


def test_windows_keep_small_sums_beside_large_ones():
    """No difference of running sums: what is in one window is not lost for what was before it."""
    x = np.ones(3000, "f4")
    x[:1000] = 1e30
    y = tilec.compile("function (X[N]) -> (O) { O[t: N] = +(X[s]), 0 <= t - s < 500; }")(x)
    np.testing.assert_array_equal(y[1499:], np.full(1501, 500, "f4"))


def test_windows_whose_terms_are_sums_and_backward():
    x, w, do = whole(1500, 3), whole(1500, 3), whole(1500)
    text = "function (X[N, D], W[N, D]) -> (O) { O[t: N] = +(X[s, d] * W[s, d]), 0 <= t - s < 320; }"
    inside = np.array([[0 <= t - s < 320 for s in range(1500)] for t in range(1500)], "f4")
    np.testing.assert_array_equal(tilec.compile(text)(x, w), inside @ (x * w).sum(1))
    dx, _ = tilec.compile(text).grad()(x, w, do)
    np.testing.assert_array_equal(dx, (inside.T @ do)[:, None] * w)


def test_gradient_of_a_running_sum_is_one_from_the_end():
    g = tilec.compile("function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }").grad(wrt="X")
    x, dy = whole(3, 5001), whole(3, 5001)
    np.testing.assert_array_equal(g(x, dy), np.cumsum(dy[:, ::-1], 1)[:, ::-1])


STATE = "function (K[T, D], V[T, E]) -> (S) { S[t, d, e: T, D, E] = +(K[s, d] * V[s, e]), s <= t; }"
ATTENTION = "function (Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t; }"


def suffix(x):
    return np.cumsum(x[::-1], 0)[::-1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("t", [1, 5, 700])
def test_gradient_of_a_state(t, target):
    k, v, ds = whole(t, 8), whole(t, 12), whole(t, 8, 12)
    dk, dv = tilec.compile(STATE, target=target).grad()(k, v, ds)
    sums = suffix(ds)
    np.testing.assert_array_equal(dk, np.einsum("tde,te->td", sums, v))
    np.testing.assert_array_equal(dv, np.einsum("tde,td->te", sums, k))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("t", [1, 5, 700])
def test_linear_attention_and_its_gradients(t, target):
    q, k, v, do = whole(t, 4), whole(t, 4), whole(t, 6), whole(t, 6)
    state = np.cumsum(np.einsum("td,te->tde", k, v), 0)
    f = tilec.compile(ATTENTION, target=target)
    np.testing.assert_array_equal(f(q, k, v), np.einsum("td,tde->te", q, state))
    back = suffix(np.einsum("td,te->tde", q, do))
    wanted = np.einsum("te,tde->td", do, state), np.einsum("tde,te->td", back, v), np.einsum("tde,td->te", back, k)
    for got, want in zip(f.grad()(q, k, v, do), wanted):
        np.testing.assert_array_equal(got, want)


def test_second_order_of_linear_attention():
    q, k, v, do, w = whole(300, 4), whole(300, 4), whole(300, 6), whole(300, 6), whole(300, 4)
    second = tilec.compile(ATTENTION).grad(wrt="Q").grad(wrt="K", of="dQ")
    # dQ[t] = sum of K[s] (V[s] . dO[t]) over s <= t
    np.testing.assert_array_equal(
        second(q, k, v, do, w), np.einsum("se,sde->sd", v, suffix(np.einsum("td,te->tde", w, do)))
    )


def test_no_range_is_lost_by_another_order():
    """(Q K) V is 1 in f32, where K V is not a number of f32."""
    big = np.full((400, 3), 1e30, "f4")
    for scale, other in ((1e-30, 1e-30), (1e-30, 1.0)):
        q, v = np.full((400, 3), scale, "f4"), np.full((400, 3), 1e30 * other, "f4")
        np.testing.assert_allclose(
            tilec.compile(ATTENTION)(q, big, v), tilec.compile(ATTENTION, target="reference")(q, big, v), rtol=1e-5
        )


def test_fills_stay_where_no_point_is():
    k, v, f = whole(300, 4), whole(300, 4), whole(300)
    y = tilec.compile(
        "function (K[T, D], V[T, D], F[T]) -> (Y) { Y[t: T] = +(K[s, d] * V[t, d]), s < t - 2 default F; }"
    )(k, v, f)
    np.testing.assert_array_equal(y[:3], f[:3])
    np.testing.assert_array_equal(y[3:], np.einsum("td,td->t", np.cumsum(k, 0)[:-3], v[3:]))
