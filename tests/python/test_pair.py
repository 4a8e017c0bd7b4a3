"""Forward once, backward from what it kept: against the gradient as one program; values and gradients in one call."""
import numpy as np
import pytest

import tilec

MLP = """function mlp(X[N, I], W[I, H], B[H], V[H, O]) -> (Y) {
  A[n, h: N, H] = +(X[n, i] * W[i, h]);
  T = tanh(A + B);
  Y[n, o: N, O] = +(T[n, h] * V[h, o]);
}"""
NORM = """function norm(X[N, M], G[M]) -> (Y, S) {
  Mean[n: N] = +(X[n, m] / M);
  C[n, m: N, M] = =(X[n, m] - Mean[n]);
  S[n: N] = +(C[n, m] * C[n, m]);
  Y[n, m: N, M] = =(C[n, m] / sqrt(S[n] / M + 0.00001) * G[m]);
}"""
LOSS = "function loss(X[N], T[N]) -> (L) { L[] = +((X[n] - T[n]) * (X[n] - T[n])); }"
CONV = "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H/2, W/2, CO] = +(I[n, 2*y + j, 2*x + i, ci] * K[j, i, ci, co]); }"
MAX = "function (X[N, M]) -> (Y, Z) { Y[n: N] = >(X[n, m]); E = exp(X); Z[n: N] = +(E[n, m]); }"


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CASES = {
    "mlp": (MLP, [draw(5, 70), draw(70, 9, seed=1), draw(9, seed=2), draw(9, 3, seed=3)]),
    "norm": (NORM, [draw(6, 11), draw(11, seed=1)]),
    "loss": (LOSS, [draw(13), draw(13, seed=1)]),
    "conv": (CONV, [draw(2, 9, 10, 3), draw(3, 3, 3, 4, seed=1)]),
    "max": (MAX, [draw(4, 6)]),
}


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize("name", CASES)
def test_a_pair_gives_values_and_gradients(name, target):
    text, inputs = CASES[name]
    f = tilec.compile(text, target=target)
    values = as_tuple(f(*inputs))
    cotangents = [draw(*value.shape, seed=9 + k) for k, value in enumerate(values)]
    wanted = as_tuple(f.grad()(*inputs, *cotangents))
    outputs, backward = f.vjp(*inputs)
    for _ in range(2):                                        # more than once
        got = as_tuple(backward(*cotangents))
        for a, b in zip(got, wanted):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)
    for a, b in zip(as_tuple(outputs), values):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    both = f.value_and_grad()(*inputs, *cotangents)
    for a, b in zip(both, values + wanted):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_what_is_kept_is_what_the_report_lists():
    text, inputs = CASES["mlp"]
    f = tilec.compile(text)
    _, backward = f.vjp(*inputs)
    report = f.grad().emit("report-text", *inputs, draw(5, 3))
    assert backward.kept == {"T": 5 * 9 * 4}
    assert any(line.split()[:3] == ["T", "saved", "180"] for line in report.splitlines()), report
    again = tilec.compile(text.replace("  T = tanh", "  [[recompute]] T = tanh"))  # an attribute decides
    assert "T" not in again.vjp(*inputs)[1].kept


def test_some_gradients_by_name():
    text, (x, w, b, v) = CASES["mlp"]
    f = tilec.compile(text)
    y, backward = f.vjp(x, B=b, W=w, V=v, wrt=["V", "X"])
    dv, dx = backward(dY=np.ones_like(y))
    wv, wx = f.grad(wrt=["V", "X"])(x, w, b, v, np.ones_like(y))
    np.testing.assert_allclose(dv, wv, rtol=1e-5)
    np.testing.assert_allclose(dx, wx, rtol=1e-5)
    program = f.value_and_grad(wrt="V")
    assert program.outputs == ("Y", "dV")
    assert program.inputs == ("X", "W", "B", "V", "dY")
    loss = tilec.compile(LOSS).value_and_grad(wrt="X")
    a, t = CASES["loss"][1]
    value, gradient = loss(a, t)                              # dL is 1
    np.testing.assert_allclose(gradient, 2 * (a - t), rtol=1e-6)
    np.testing.assert_allclose(value, ((a - t) ** 2).sum(), rtol=1e-6)


def test_names_of_values_and_gradients_are_apart():
    f = tilec.compile("function (X[N]) -> (dX, Y) { dX = X * 3.0; dY = exp(X); Y = dY * X; }")
    x = draw(5)
    program = f.value_and_grad()
    assert len(set(program.outputs)) == 3 and program.outputs[:2] == ("dX", "Y")
    values = program(x, np.ones_like(x), np.ones_like(x))
    np.testing.assert_allclose(values[0], 3 * x)
    np.testing.assert_allclose(values[2], 3 + np.exp(x) * (1 + x), rtol=1e-5)
    (a, y), backward = f.vjp(x)
    np.testing.assert_allclose(backward(np.ones_like(x), np.ones_like(x)), 3 + np.exp(x) * (1 + x), rtol=1e-5)


def test_inner_names_step_aside_for_those_of_the_gradient():
    f = tilec.compile("function f(X[N]) -> (Y) { dY = exp(X); dX = sin(dY); Y = dX * dY; }")
    x = draw(4)
    y, backward = f.vjp(x)
    np.testing.assert_allclose(backward(dY=np.ones_like(x)), f.grad()(x, dY=np.ones_like(x)), rtol=1e-5)
    assert "(dY) -> (dX)" in repr(backward)
    assert f.value_and_grad().inputs == ("X", "dY") and f.value_and_grad().outputs == ("Y", "dX")


def test_numbers_sizes_and_strides():
    f = tilec.compile("function (X[N, M], S, K) -> (Y) { Y[i, j: N, M] = +(exp(X[i, j + k] * S)), 0 <= k < K; }")
    x = draw(6, 8).T
    for size in (2, 3):
        y, backward = f.vjp(x, 0.5, size, wrt="X")
        np.testing.assert_allclose(y, f(x, 0.5, size), rtol=1e-6)
        np.testing.assert_allclose(
            backward(np.ones((8, 6), np.float32).T.copy().T), f.grad(wrt="X")(x, 0.5, size, np.ones_like(y)), rtol=1e-5
        )


def test_mistakes_are_named():
    text, inputs = CASES["mlp"]
    f = tilec.compile(text)
    with pytest.raises(TypeError, match="missing: V"):
        f.vjp(*inputs[:3])
    with pytest.raises(tilec.ShapeError):
        f.vjp(inputs[1], *inputs[1:])
    y, backward = f.vjp(*inputs)
    with pytest.raises(tilec.ShapeError, match=r"dY is \[5, 3\] but is given \[3, 5\]"):
        backward(y.T)
    with pytest.raises(tilec.ArgumentTypeError, match="dY is float32"):
        backward(y.astype(np.float64))
    with pytest.raises(TypeError, match=r"backward\(dY\): missing: dY"):
        backward()
    with pytest.raises(TypeError, match=r"backward takes 1 argument \(dY\) but 2 were given"):
        backward(y, y)
    with pytest.raises(TypeError, match="dZ"):
        backward(dZ=y)
    with pytest.raises(tilec.Error, match="differentiate the function"):
        f.value_and_grad().grad()
    with pytest.raises(tilec.Error):
        f.vjp(*inputs, wrt="Q")
    with pytest.raises(TypeError, match="names of tensors are a str"):
        f.vjp(*inputs, wrt=5)
    assert "keeps 180 bytes" in repr(backward)


def test_derivatives_of_derivatives_come_in_pairs_too():
    f = tilec.compile("function (X[N]) -> (L) { E = exp(X * X); L[] = +(E[i]); }").grad()
    x, one = draw(7), np.ones((), np.float32)
    g, backward = f.vjp(x, one, wrt="X")
    np.testing.assert_allclose(g, f(x, one), rtol=1e-6)
    v = draw(7, seed=4)
    np.testing.assert_allclose(backward(v), f.grad(wrt="X")(x, one, v), rtol=1e-5)


def test_large_integers_are_another_pair():
    f = tilec.compile("function f(X[N], S) -> (Y) { E = exp(X*S); Y = E*E*S; }")
    v = np.zeros(4, np.float32)
    for number in (2, 2**63):
        y, backward = f.vjp(v, number, wrt="X")
        np.testing.assert_allclose(y, f(v, number))
        np.testing.assert_allclose(backward(np.ones_like(y)), f.grad(wrt="X")(v, number, np.ones_like(y)), rtol=1e-5)


def test_copies_are_the_program_itself():
    import copy
    f = tilec.compile("function f(X[N]) -> (Y) { Y = exp(X) * 2.0; }")
    for other in (copy.copy(f), copy.deepcopy([f])[0]):
        assert other is f


DEEP = """function deep(X[N, M], W[M, M]) -> (Y) {
  A[n, k: N, M] = +(X[n, m] * W[m, k]);
  B = tanh(A);
  C[n, k: N, M] = +(B[n, m] * W[m, k]);
  D = tanh(C);
  Y[n, k: N, M] = +(D[n, m] * W[m, k]);
}"""


def test_what_is_kept_fits_the_room():
    X, W = draw(40, 256), draw(256, 256, seed=1) / 16
    free = tilec.compile(DEEP)
    y, backward = free.vjp(X, W)
    expected, needed = backward(np.ones_like(y)), sum(backward.kept.values())
    assert needed > 0
    kept = []
    for room in (needed, needed // 2, 0):
        y, backward = tilec.compile(DEEP, room=room).vjp(X, W)
        kept.append(sum(backward.kept.values()))
        assert kept[-1] <= room
        for one, other in zip(backward(np.ones_like(y)), expected):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
    assert kept[0] == needed and kept[1] < needed and kept[2] == 0


def test_no_room_for_what_must_be_kept():
    text = "function f(X[N]) -> (Y) { [[save]] E = exp(X); Y = E * E; }"
    with pytest.raises(tilec.ProgramError, match="4000 bytes") as fault:
        tilec.compile(text, room=1000).vjp(draw(1000))
    assert fault.value.code == "E0331"
    with pytest.raises(ValueError, match="room="):
        tilec.compile(text, room=-1)
