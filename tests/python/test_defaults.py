"""Inputs with a default, and compile-time parameters that are one of several names."""
import numpy as np
import pytest

import tilec

AFFINE = "function affine(X[B, N], G[N] = 1, Beta[N] = 0, S[] = 2) -> (Y) { Y[b, n: B, N] = =(X[b, n] * G[n] * S[] + Beta[n]); }"
X = np.arange(6, dtype="f4").reshape(2, 3) - 2
G = np.array([3, 0, -1], "f4")
BETA = np.array([1, 2, 4], "f4")


@pytest.fixture(scope="module")
def affine():
    return tilec.compile(AFFINE)


@pytest.mark.parametrize(
    "given", [{}, {"G": G}, {"Beta": BETA}, {"S": 5}, {"G": G, "Beta": BETA}, {"G": G, "Beta": BETA, "S": -1.5}]
)
def test_what_is_not_given_is_its_default(affine, given):
    expected = X * given.get("G", 1) * given.get("S", 2) + given.get("Beta", 0)
    np.testing.assert_array_equal(affine(X, **given), expected)
    # None: not given
    np.testing.assert_array_equal(affine(X, *(given.get(name) for name in ("G", "Beta", "S"))), expected)


def test_the_type_is_that_of_what_is_given(affine):
    assert affine(X.astype("f2")).dtype == np.float16
    assert affine(X.astype("f8"), G.astype("f8")).dtype == np.float64


def test_a_bias_that_is_not_given_keeps_the_sign_of_zero():
    line = tilec.compile("function line(X[N], Beta[N] = 0) -> (Y) { Y[n: N] = =(X[n] + Beta[n]); }")
    zeros = np.array([-0.0, 0.0], "f4")
    assert np.signbit(line(zeros)).tolist() == [True, False]
    assert not np.signbit(line(zeros, np.zeros(2, "f4"))).any()


def test_gradients_are_those_by_what_is_given(affine):
    cotangent = np.arange(6, dtype="f4").reshape(2, 3)
    np.testing.assert_array_equal(affine.grad(wrt="X")(X, dY=cotangent), 2 * cotangent)
    dx, dg = affine.grad(wrt=["X", "G"])(X, G, dY=cotangent)
    np.testing.assert_array_equal(dx, 2 * G * cotangent)
    np.testing.assert_array_equal(dg, (2 * X * cotangent).sum(0))
    _, backward = affine.vjp(X, G)
    for mine, other in zip(backward(cotangent), (dx, dg)):
        np.testing.assert_array_equal(mine, other)
    with pytest.raises(tilec.ProgramError, match="E0308"):
        affine.grad(wrt="G")(X, dY=cotangent)


def test_derivatives_of_second_order():
    square = tilec.compile("function square(X[N], G[N] = 3) -> (Y) { Y[n: N] = =(G[n] * X[n] * X[n]); }")
    x, ones = np.arange(4, dtype="f4"), np.ones(4, "f4")
    np.testing.assert_array_equal(square.grad(wrt="X").grad(wrt="X")(x, dY=ones, ddX=ones), np.full(4, 6))
    np.testing.assert_array_equal(square.grad(wrt="X").grad(wrt="X")(x, G=2 * ones, dY=ones, ddX=ones), np.full(4, 4))


def test_nothing_of_it_is_compiled(affine):
    assert "Beta" not in affine.emit("reduced", X) and "+" not in affine.emit("reduced", X).split("\n")[1]
    assert "Beta[n]" in affine.emit("reduced", X, Beta=BETA)


def test_inputs_without_a_default_are_missed(affine):
    with pytest.raises(TypeError, match="missing: X"):
        affine(G=G)


def test_a_choice_is_given_by_name():
    text = "function pad<mode={zeros, ends}>(X[N]) -> (Y) { Y = mode == ends ? X : 2.0 * X; }"
    np.testing.assert_array_equal(tilec.compile(text)(G), 2 * G)
    np.testing.assert_array_equal(tilec.compile(text, define={"mode": "ends"})(G), G)
    with pytest.raises(tilec.ProgramError, match="did you mean `ends`"):
        tilec.compile(text, define={"mode": "end"})


def test_a_size_by_name_gives_a_number_that_has_a_default_and_no_parameter():
    pool = "function pool(X[N], K = 2) -> (Y) { Y[n: N/K] = +(X[K*n + k]), k < K; }"
    x = np.arange(8, dtype="f4")
    np.testing.assert_array_equal(tilec.compile(pool)(x), x.reshape(4, 2).sum(1))
    np.testing.assert_array_equal(tilec.compile(pool, size={"K": 4})(x), x.reshape(2, 4).sum(1))
    with pytest.raises(ValueError, match="`K` is no size"):
        tilec.compile(pool.replace("pool(X[N], K = 2)", "pool<K=2>(X[N])"), size={"K": 4})(x)


def test_a_batch_of_what_is_not_given(affine):
    np.testing.assert_array_equal(affine.vmap("G")(X, np.stack([G, 2 * G])), np.stack([2 * X * G, 4 * X * G]))
    with pytest.raises(tilec.ProgramError, match="E0148"):
        affine.vmap("G")(X)


COTANGENT = np.arange(6, dtype="f4").reshape(2, 3) + 1
GIVEN = [(), (G,), (G, BETA), (G, BETA, np.float32(3))]


@pytest.mark.parametrize("given", GIVEN)
def test_the_cotangent_is_the_last_argument_whatever_is_left_out(affine, given):
    named = dict(zip(("G", "Beta", "S"), given))
    gradient = affine.grad()
    expected = gradient(X, dY=COTANGENT, **named)
    for results in (
        gradient(X, *given, COTANGENT),
        gradient(X, COTANGENT, **named),
        gradient(X, *given, dY=COTANGENT),
        affine.grad().vmap()(X[None], *(np.stack([each]) for each in given), COTANGENT[None]),
    ):
        assert len(results) == len(given) + 1 if given else isinstance(results, np.ndarray)
        for mine, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (results, expected))):
            np.testing.assert_array_equal(mine.reshape(other.shape), other)


@pytest.mark.parametrize("given", GIVEN)
def test_tangents_are_the_last_arguments_whatever_is_left_out(affine, given):
    forward, tangents = affine.jvp(), [COTANGENT, *(each + 1 for each in given)]
    expected = forward(
        X=X, tX=COTANGENT, **dict(zip(("G", "Beta", "S"), given)), **dict(zip(("tG", "tBeta", "tS"), tangents[1:]))
    )
    np.testing.assert_array_equal(forward(X, *given, *tangents), expected)


def test_arguments_of_second_derivatives_whatever_is_left_out(affine):
    product = affine.grad(wrt="X").jvp(wrt="G")
    np.testing.assert_array_equal(product(X, G, COTANGENT, BETA), 2 * BETA * COTANGENT)
    again = affine.grad().grad(wrt="dY")
    np.testing.assert_array_equal(again(X, COTANGENT, X), 2 * X)


def test_results_of_what_is_left_out_have_no_place_in_out(affine):
    dx, dg = np.empty((2, 3), "f4"), np.empty(3, "f4")
    assert affine.grad()(X, COTANGENT, out=dx) is dx
    np.testing.assert_array_equal(dx, 2 * COTANGENT)
    affine.grad()(X, G, COTANGENT, out=(dx, dg), accumulate="dX")
    np.testing.assert_array_equal(dx, 2 * COTANGENT + 2 * G * COTANGENT)
    np.testing.assert_array_equal(dg, (2 * X * COTANGENT).sum(0))
    with pytest.raises(ValueError, match=r"out= has 1 array, the program has 2 outputs \(dX, dG\)"):
        affine.grad()(X, G, COTANGENT, out=[dx])


def test_values_with_gradients_by_position(affine):
    """The cotangent of an array cannot be left out, so it is the last argument; that of a scalar can, so arguments are
    inputs first."""
    for results, expected in zip(affine.value_and_grad()(X, COTANGENT), (2 * X, 2 * COTANGENT)):
        np.testing.assert_array_equal(results, expected)
    loss = tilec.compile("function loss(X[N], W[N] = 1) -> (L) { L[] = +(X[n] * X[n] * W[n]); }").value_and_grad()
    for results, expected in zip(loss(G, BETA), (13, 2 * G * BETA, G * G)):
        np.testing.assert_array_equal(results, expected)
    np.testing.assert_array_equal(loss(G, dL=3.0)[1], 6 * G)


def test_too_few_and_too_many_arguments_of_a_gradient(affine):
    with pytest.raises(tilec.Error, match="`dY` has no value"):
        affine.grad()(X)
    with pytest.raises(TypeError, match=r"takes 5 arguments \(X, G, Beta, S, dY\) but 6 were given"):
        affine.grad()(X, G, BETA, 2.0, COTANGENT, COTANGENT)
    with pytest.raises(TypeError, match="given twice: X"):
        affine.grad()(X, COTANGENT, X=X)
    with pytest.raises(tilec.Error, match="`dC` has no value"):
        tilec.compile("function mm(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }").grad()(X, X.T)


def test_other_libraries_take_the_cotangent_last(affine):
    torch = pytest.importorskip("torch")
    x, cotangent = torch.tensor(X, requires_grad=True), torch.tensor(COTANGENT)
    gradient = affine.grad(wrt="X")
    for call in (gradient, tilec.torch.function(gradient), tilec.torch.op(gradient, "test_defaults::gradient")):
        np.testing.assert_array_equal(call(torch.tensor(X), cotangent), 2 * COTANGENT)
    tilec.torch.function(gradient)(x, torch.tensor(G), cotangent).sum().backward()
    assert x.grad is None or not x.grad.any()


def test_jax_takes_the_cotangent_last(affine):
    jax = pytest.importorskip("jax")
    np.testing.assert_array_equal(jax.jit(tilec.jax.op(affine.grad(wrt="X")))(X, G, COTANGENT), 2 * G * COTANGENT)
