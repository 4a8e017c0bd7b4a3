"""Compile-time parameters, imports and derivatives of one's own, from Python."""
import numpy as np
import pytest

import tilec

CONV = """
function conv<S=1, D=1>(I[N, X], K[KX]) -> (O) { O[n, x: N, (X - D*(KX - 1) - 1)/S + 1] = +(I[n, S*x + D*k] * K[k]); }
"""


def expected(i, k, s, d):
    taps = range(len(k))
    count = (i.shape[1] - d * (len(k) - 1) - 1) // s + 1
    return np.stack([sum(i[:, s * x + d * t] * k[t] for t in taps) for x in range(count)], axis=1)


@pytest.mark.parametrize("s, d", [(1, 1), (2, 1), (3, 2)])
def test_numbers(s, d):
    rng = np.random.default_rng(s)
    i, k = rng.standard_normal((2, 23)), rng.standard_normal(3)
    conv = tilec.compile(CONV, define={"S": s, "D": d})
    np.testing.assert_allclose(conv(i, k), expected(i, k, s, d), rtol=1e-12)
    do = rng.standard_normal(conv(i, k).shape)
    di, dk = conv.grad()(i, k, do)
    np.testing.assert_allclose(np.sum(di * i), np.sum(do * conv(i, k)), rtol=1e-12)
    np.testing.assert_allclose(dk, [np.sum(do * expected(i, np.eye(3)[t], s, d)) for t in range(3)], rtol=1e-12)


def test_functions_and_aggregations():
    text = (
        "function square(X) -> (Y) { Y = X*X; } function main<F, AGG=sum>(X[N]) -> (R) { T = F(X); R[] = AGG(T[i]); }"
    )
    x = np.arange(5.0) - 2
    assert tilec.compile(text, function="main", define={"F": "square"})(x) == 10
    assert tilec.compile(text, function="main", define={"F": "relu", "AGG": "max"})(x) == 2
    with pytest.raises(tilec.ProgramError, match="F"):
        tilec.compile(text, function="main")(x)
    with pytest.raises(tilec.ProgramError, match="nothing"):
        tilec.compile(text, function="main", define={"F": "nothing"})(x)


def test_imports(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/far.tile").write_text("function far(X) -> (Y) { Y = 3*X; }")
    (tmp_path / "near.tile").write_text('import "far.tile";\nfunction near(X) -> (Y) { Y = far(X) + 1; }')
    (tmp_path / "main.tile").write_text('import "near.tile";\nfunction (X[N]) -> (Y) { Y = near(X); }')
    f = tilec.load(tmp_path / "main.tile", include=[tmp_path / "lib"])
    np.testing.assert_array_equal(f(np.array([1.0, 2.0])), [4, 7])
    with pytest.raises(tilec.ProgramError, match=r"near.tile:1:1: error\[E0121\]: `far.tile` is not found"):
        tilec.load(tmp_path / "main.tile")


RULE = """
function twice(X) -> (Y) { Y = 2*X; }
gradient twice(X, Y, DY) -> (DX) { DX = 5*DY; }
tangent twice(X, DX, Y) -> (DY) { DY = 5*DX; }
function (X[N]) -> (O) { T = twice(X); O = T*X + 2*X; }
"""


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_a_rule_replaces_the_derivative_where_it_is_used(target):
    f = tilec.compile(RULE, target=target)
    x, d = np.array([1.0, -3.0]), np.array([1.0, 2.0])
    np.testing.assert_allclose(f(x), 2 * x * x + 2 * x)
    np.testing.assert_allclose(f.grad()(x, d), d * (5 * x + 2 * x + 2))
    np.testing.assert_allclose(f.jvp()(x, d), d * (5 * x + 2 * x + 2))
    # The rule of the rule: d(5 x + 2 x + 2) through T's own rule is 5 + 5.
    np.testing.assert_allclose(f.grad().grad(wrt="X", of="dX")(x, d, np.ones(2)), d * 10)


def test_iterate_is_a_chain():
    text = (
        "function step(X, A) -> (Y) { Y = X + A*X*(1 - X); } function (X[N], A) -> (Y) { Y = iterate<step, 4>(X, A); }"
    )
    f = tilec.compile(text)
    x, a, h = np.array([0.2, 0.5]), 0.7, 1e-6
    y = x
    for _ in range(4):
        y = y + a * y * (1 - y)
    np.testing.assert_allclose(f(x, a), y)
    np.testing.assert_allclose(f.grad(wrt="X")(x, a, np.ones(2)), (f(x + h, a) - f(x - h, a)) / (2 * h), rtol=1e-6)


def test_a_size_that_iterate_counts_is_told_by_a_call():
    text = """function step(H[N], T, X[L, N]) -> (H1, NEXT) { H1[n: N] = =(tanh(H[n]) * X[T, n]); NEXT = T + 1; }
function last(X[L, N], H[N]) -> (HN) { (HN, End) = iterate<step, L>(H, 0, X); }
"""
    f = tilec.compile(text, function="last")
    assert f.inputs == ("X", "H") and f.outputs == ("HN",)
    rng = np.random.default_rng(0)
    for length in (3, 1, 0, 4):
        x, h = rng.standard_normal((length, 2)), rng.standard_normal(2)
        wanted, slope = h, np.ones(2)
        for row in x:
            slope, wanted = slope * (1 - np.tanh(wanted) ** 2) * row, np.tanh(wanted) * row
        np.testing.assert_allclose(f(x, h), wanted, rtol=1e-13)
        np.testing.assert_allclose(f.grad(wrt="H")(x, h, dHN=np.ones(2)), slope, rtol=1e-12)
        np.testing.assert_allclose(f.vjp(x, h)[1](np.ones(2))[1], slope, rtol=1e-12)
    with pytest.raises(tilec.ShapeError, match="E0252.*`L` has no value"):
        f.emit("contraction")
