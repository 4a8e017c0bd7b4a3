"""Derivatives of derivatives, against formulas in NumPy and against differences of NumPy's own functions."""
import itertools
import pathlib

import numpy as np
import pytest

import tilec

RNG = np.random.default_rng(3)
RECURRENT = pathlib.Path(__file__).resolve().parents[2] / "std" / "recurrent.tile"
CUBE = "function (f64 X[N], f64 W[N]) -> (L) { L[] = +(X[i] * X[i] * X[i] * W[i]); }"
QUADRATIC = "function (f64 X[N], f64 A[N, N]) -> (L) { L[] = +(X[i] * A[i, j] * X[j]); }"
NORMALISED = "function (f64 X[N]) -> (Y) { S[] = +(X[i] * X[i]); Y = X / S; }"


def test_second_and_third_derivatives_of_a_cube():
    f = tilec.compile(CUBE)
    x, w, u, v = RNG.standard_normal((4, 5))
    first = f.grad(wrt="X")
    second = first.grad(wrt="X")
    third = second.grad(wrt="X")
    assert first.inputs == ("X", "W", "dL") and first.outputs == ("dX",)
    assert second.inputs == ("X", "W", "dL", "ddX") and second.outputs == ("dX",)
    assert third.inputs == ("X", "W", "dL", "ddX", "ddX_1") and third.outputs == ("dX",)
    np.testing.assert_allclose(second(x, w, 1.0, ddX=u), 6 * x * w * u, rtol=1e-12)
    np.testing.assert_allclose(third(x, w, 1.0, ddX=u, ddX_1=v), 6 * w * u * v, rtol=1e-12)


def test_every_derivative_of_a_gradient():
    g = tilec.compile(CUBE).grad(wrt="X").grad()
    assert g.outputs == ("dX", "dW", "ddL")
    x, w, u = RNG.standard_normal((3, 5))
    dx, dw, ddl = g(x, w, 2.0, u)
    np.testing.assert_allclose(dx, 12 * x * w * u)
    np.testing.assert_allclose(dw, 6 * x * x * u)
    np.testing.assert_allclose(ddl, np.sum(3 * x * x * w * u))


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_a_hessian_is_symmetric_and_what_numpy_says(target):
    f = tilec.compile(QUADRATIC, target=target)
    x, a = RNG.standard_normal(4), RNG.standard_normal((4, 4))
    product = f.grad(wrt="X").grad(wrt="X", of="dX")
    hessian = np.stack([product(x, a, 1.0, ddX=e) for e in np.eye(4)])
    np.testing.assert_allclose(hessian, a + a.T, atol=1e-12)


def test_a_gradient_of_several_outputs_is_differentiated_by_all_that_it_takes():
    f = tilec.compile(NORMALISED)
    x, dy, u = RNG.standard_normal((3, 6))
    s = x @ x
    np.testing.assert_allclose(f.grad()(x, dy), dy / s - 2 * x * (dy @ x) / s**2)
    dx, ddy = f.grad().grad()(x, dy, u)

    def gradient_dot_u(at):
        return u @ (dy / (at @ at) - 2 * at * (dy @ at) / (at @ at) ** 2)

    h = 1e-6
    wanted = [(gradient_dot_u(x + h * e) - gradient_dot_u(x - h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(dx, wanted, atol=1e-6)
    np.testing.assert_allclose(ddy, u / s - 2 * x * (u @ x) / s**2)


def test_names_are_those_of_the_program_that_is_differentiated():
    f = tilec.compile("function (A, dA) -> (O) { O = A * dA; }")
    assert f.grad().inputs == ("A", "dA", "dO") and f.grad().outputs == ("dA_1", "ddA")
    with pytest.raises(TypeError, match="unexpected: dO_1"):
        f.grad()(1.0, 2.0, dO_1=3.0)
    with pytest.raises(tilec.ProgramError, match="E0301"):
        tilec.compile(CUBE).grad(wrt="X").grad(of="L")
    with pytest.raises(tilec.ProgramError, match="E0302"):
        tilec.compile(CUBE).grad(wrt="X").grad(wrt="dX")


def test_a_tensor_of_the_text_steps_aside_for_a_cotangent():
    f = tilec.compile("function (f64 X[N]) -> (Y) { dX = X * X; dY = exp(dX); Y = dY * 2; }")
    g = f.grad()
    assert g.inputs == ("X", "dY") and g.outputs == ("dX",)
    x, c = RNG.standard_normal((2, 4))
    np.testing.assert_allclose(g(x, dY=c), 4 * c * x * np.exp(x * x))


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_forward_derivatives(target):
    f = tilec.compile(
        "function (f64 A[M, K], f64 B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }", target=target
    )
    a, b, ta, tb = (RNG.standard_normal(s) for s in ((3, 4), (4, 5), (3, 4), (4, 5)))
    j = f.jvp()
    assert j.inputs == ("A", "B", "tA", "tB") and j.outputs == ("tC",)
    np.testing.assert_allclose(j(a, b, tA=ta, tB=tb), ta @ b + a @ tb, atol=1e-12)
    np.testing.assert_allclose(f.jvp(wrt="B")(a, b, tb), a @ tb, atol=1e-12)


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_hessian_vector_products_forward_over_reverse(target):
    f = tilec.compile(QUADRATIC, target=target)
    x, a, v = RNG.standard_normal(4), RNG.standard_normal((4, 4)), RNG.standard_normal(4)
    product = f.grad(wrt="X").jvp(wrt="X")
    assert product.inputs == ("X", "A", "dL", "tX") and product.outputs == ("tdX",)
    np.testing.assert_allclose(product(x, a, 1.0, tX=v), (a + a.T) @ v, atol=1e-12)
    g = tilec.compile(CUBE, target=target).grad(wrt="X").jvp(wrt="X")
    w = RNG.standard_normal(4)
    np.testing.assert_allclose(g(x, w, 1.0, v), 6 * x * w * v, atol=1e-12)


def test_all_orders_of_the_two_modes_agree():
    f = tilec.compile(NORMALISED)
    x, c, v = RNG.standard_normal((3, 6))
    over_reverse = f.grad().jvp(wrt="X")(x, c, v)                              # d/dx (c · f) along v
    np.testing.assert_allclose(f.grad().grad(wrt="X")(x, c, v), over_reverse, atol=1e-12)
    reverse_over_forward = f.jvp().grad(wrt="X")(x, v, c)
    np.testing.assert_allclose(reverse_over_forward, over_reverse, atol=1e-12)
    twice = f.jvp().jvp(wrt="X")
    assert twice.inputs == ("X", "tX", "tX_1") and twice.outputs == ("ttY",)
    h = 1e-6
    wanted = (f.jvp()(x + h * c, v) - f.jvp()(x - h * c, v)) / (2 * h)
    np.testing.assert_allclose(twice(x, v, c), wanted, atol=1e-6)


@pytest.mark.parametrize("body, points", [
    ("X[N - 1 - j])", [(8 - j,) for j in range(9)]),
    ("X[2*i + j]), i < 2, j < 4", [(2 * i + j,) for i in range(2) for j in range(4)]),
    ("W[j] * X[5 - j + i]), j < 3, i < 3", [(5 - j + i,) for j in range(3) for i in range(3)]),
    ("X[4 - 2*j + i]), i < 2, j < 3", [(4 - 2 * j + i,) for j in range(3) for i in range(2)]),
])
def test_first_of_equal_extremes_is_first_in_the_order_of_the_indices(body, points):
    f = tilec.compile(f"function f(X[N], W[M]) -> (Y) {{ [[ties(first)]] Y[] = >({body}; }}")
    x = np.ones(9, "f4")
    wanted = np.zeros(9, "f4")
    wanted[points[0]] = 1
    np.testing.assert_array_equal(f.grad(wrt="X")(x, W=np.ones(3, "f4"), dY=np.float32(1)), wanted)
    rng = np.random.default_rng(3)
    for _ in range(5):
        x = rng.integers(0, 2, 9).astype("f4")
        values = [x[p] for p in points]
        wanted = np.zeros(9, "f4")
        wanted[points[values.index(max(values))]] = 1
        np.testing.assert_array_equal(f.grad(wrt="X")(x, W=np.ones(3, "f4"), dY=np.float32(1)), wanted)


def test_slices_that_lie_apart_share_a_cotangent():
    gradient = tilec.compile(
        "function (X[T, N]) -> (Y) { A[n: N] = =(X[0, n] * X[1, n]); Y[n: N] = =(A[n] * X[2, n]); }"
    ).grad()
    x, dy = np.arange(12, dtype="f4").reshape(4, 3), np.ones(3, "f4")
    assert gradient.emit("gradient").count("default") == 2
    np.testing.assert_array_equal(gradient(x, dy), [x[1] * x[2], x[0] * x[2], x[0] * x[1], 0 * dy])


@pytest.mark.parametrize("kind,gates,most", [("rnn", 1, 8), ("gru", 3, 17), ("lstm", 4, 12)])
def test_the_gradient_of_a_sequence_grows_by_a_step(kind, gates, most):
    """As many launches for each further step, forward included: no tensor of zeros for a slice that is read, and no sum
    of them."""
    n, i, m = 2, 5, 6
    launches = {}
    for steps in (3, 7, 11):
        program = tilec.load(RECURRENT, function=kind, define={"steps": steps}).grad()
        states = [np.ones((n, m), "f4")] * (2 if kind == "lstm" else 1)
        weights = [np.ones(shape, "f4") for shape in ((gates * m, i), (gates * m, m), (gates * m,), (gates * m,))]
        launches[steps] = (
            program.emit("plan", np.ones((steps, n, i), "f4"), *states, *weights, *states).count("\ngroup ") + 1
        )
    assert launches[11] - launches[7] == launches[7] - launches[3] <= 4 * most  # a step of gru takes 16 and 17 in turns


def in_bf16(x):
    """The nearest bf16, ties to even, kept in f32."""
    bits = np.asarray(x, "f4").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view("f4")


HALVES = {"f16": (lambda x: np.asarray(x, "f4").astype("f2").astype("f4"), 2.0**-10), "bf16": (in_bf16, 2.0**-7)}
# text, f32 value, derivatives by A and by B
COMPUTED = {
    "{a} * {b}": (lambda a, b: a * b, lambda a, b: (b, a)),
    "{a} + {b} / 3": (lambda a, b: a + b / np.float32(3), lambda a, b: (1, 1 / 3)),
    "-({a} - 2) * ({a} - 2) * {b}": (
        lambda a, b: -(a - 2) * (a - 2) * b,
        lambda a, b: (-2 * (a - 2) * b, -((a - 2) ** 2)),
    ),
}
# text, elements of C, which point each takes at which place
TAKEN = {
    "C[] = {how}({at[i]})": (1, 24, lambda c, i: i),
    "C[x: N/4] = {how}({at[4*x + i]}), i < 4": (6, 4, lambda c, i: 4 * c + i),
    "C[x: N - 2] = {how}({at[x + i]}), i < 3": (22, 3, lambda c, i: c + i),
    "C[t: N] = {how}({at[i]}), i <= t": (24, 24, lambda c, i: i if i <= c else None),
}


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "opencl", "reference"])
@pytest.mark.parametrize("kind", HALVES)
def test_an_extreme_of_computed_halves_is_compared_as_it_was_stored(kind, target):
    """Halves are computed in f32 and rounded where they are stored: the gradient goes to the points that round to the
    extreme."""
    rounded, epsilon = HALVES[kind]
    rng = np.random.default_rng(4)
    for n, ((body, (value, slopes)), (place, (count, points, taken))) in enumerate(
        itertools.product(COMPUTED.items(), TAKEN.items())
    ):
        how, ties = "><"[n % 2 ^ n // len(TAKEN) % 2], ("split", "first", "all")[n % 3]
        point = place[place.index("{at") + 3:place.index("})")]
        read = place.replace("{at" + point + "}", body.format(a=f"H{point}", b=f"G{point}")).replace("{how}", how)
        text = f"function f(f32 A[N], f32 B[N]) -> (D) {{ H = {kind}(A); G = {kind}(B); [[ties({ties})]] {read}; D = f32(C); }}"
        a, b, dc = (rounded(rng.uniform(0.5, 1.5, size)) for size in (24, 24, count))
        stored = rounded(value(a, b))
        slope = np.stack([np.broadcast_to(s, 24) for s in slopes(a.astype("f8"), b.astype("f8"))])
        wanted = np.zeros((2, 24))
        for c in range(count):
            members = [p for p in (taken(c, i) for i in range(points)) if p is not None]
            extreme = (max if how == ">" else min)(stored[members])
            winners = [p for p in members if stored[p] == extreme]
            for p in winners[:1] if ties == "first" else winners:
                wanted[:, p] += dc[c] * slope[:, p] / (len(winners) if ties == "split" else 1)
        got = tilec.compile(text, target=target).grad()(a, b, dc if count > 1 else dc[0])
        np.testing.assert_allclose(got, wanted, rtol=16 * epsilon, atol=0, err_msg=text)
