"""vmap: what it means, for which inputs, in which order with derivatives, and how it compiles."""
import threading

import numpy as np
import pytest

import tilec

RNG = np.random.default_rng(5)
MATMUL = "function matmul(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
LOSS = "function loss(X[N], W[N]) -> (L) { L[] = +(X[i] * X[i] * W[i]); }"
CLIP = """
function clip(X) -> (Y) { Y = X; }
gradient clip(X, Y, DY) -> (DX) { DX = max(-1.0, min(1.0, DY)); }
tangent clip(X, TX, Y) -> (TY) { TY = max(-1.0, min(1.0, TX)); }
"""


def floats(*shape, dtype="f8"):
    return RNG.standard_normal(shape).astype(dtype)


def stack(f, names, *arguments):
    """f for each element of the arguments named, in the order of its outputs."""
    count = next(len(a) for n, a in zip(f.inputs, arguments) if n in names)
    rows = []
    for b in range(count):
        results = f(*[a[b] if n in names else a for n, a in zip(f.inputs, arguments)])
        rows.append(results if isinstance(results, tuple) else (results,))
    return [np.stack(column) for column in zip(*rows)]


def agree(f, names, *arguments, **tolerance):
    got = f.vmap(names)(*arguments)
    for one, wanted in zip(got if isinstance(got, tuple) else (got,), stack(f, names, *arguments)):
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one, wanted, **{"rtol": 1e-12, "atol": 1e-12, **tolerance})


def test_names_stay_and_the_dimension_stands_in_front():
    f = tilec.compile(MATMUL).vmap("A")
    assert f.inputs == ("A", "B") and f.outputs == ("C",) and f.name == "matmul"
    assert "C[b, i, j: Bt, M, N] = +(A[b, i, k] * B[k, j]);" in f.emit("gradient")


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("names", [["A"], ["B"], ["A", "B"]])
def test_some_inputs(names, target):
    f = tilec.compile(MATMUL, target=target)
    agree(f, names, floats(*[5] * ("A" in names), 3, 4), floats(*[5] * ("B" in names), 4, 6))


def test_without_names_all_that_have_dimensions():
    f = tilec.compile("function (X, S) -> (Y) { Y = X * S; }")
    x = floats(4, 3)
    np.testing.assert_array_equal(f.vmap()(x, 2.0), 2 * x)
    np.testing.assert_array_equal(f.vmap()(x, np.array(2.0)), 2 * x)
    np.testing.assert_array_equal(f.vmap()(x, np.arange(4.0)), x * np.arange(4.0)[:, None])
    np.testing.assert_array_equal(f.vmap("S")(x, np.arange(5.0)), x * np.arange(5.0)[:, None, None])


def test_a_scalar_that_is_declared():
    f = tilec.compile("function (X[N], f64 S[]) -> (Y, T) { Y = X * S; T = S + 1.0; }")
    agree(f, ["S"], floats(3), floats(4))
    agree(f, ["X"], floats(4, 3), np.float64(2))           # T is the same for all, and has the dimension


def test_every_output_has_the_dimension():
    f = tilec.compile("function (X[N], W[N]) -> (Y, V, V) { Y = X + W; V = W * 2.0; }")
    y, v, again = f.vmap("X")(floats(4, 3), w := floats(3))
    assert y.shape == (4, 3)
    np.testing.assert_array_equal(v, np.stack([2 * w] * 4))
    np.testing.assert_array_equal(again, v)


def test_an_input_that_is_an_output():
    f = tilec.compile("function (X[N], W[N]) -> (X, W) { }")
    agree(f, ["X"], floats(4, 3), floats(3))
    g = tilec.compile("function (X[N], W[N]) -> (Y) { Y = X + W; }").grad()
    agree(g, ["X"], floats(4, 3), floats(3), floats(3))


def test_batches_of_batches():
    f = tilec.compile(MATMUL)
    a, b = floats(2, 5, 3, 4), floats(5, 4, 6)
    np.testing.assert_allclose(f.vmap().vmap("A")(a, b), a @ b, rtol=1e-12)
    np.testing.assert_allclose(f.vmap("A").vmap("B")(a[0], b), np.stack([a[0] @ one for one in b]), rtol=1e-12)
    np.testing.assert_allclose(f.vmap("B").vmap("A")(a[0], b), np.stack([one @ b for one in a[0]]), rtol=1e-12)


def test_a_gradient_for_each_element_and_one_for_all():
    f = tilec.compile(LOSS)
    x, w, dl = floats(4, 3), floats(3), floats(4)
    dx, dw = f.grad().vmap(["X", "dL"])(x, w, dl)
    np.testing.assert_allclose(dx, 2 * x * w * dl[:, None])
    np.testing.assert_allclose(dw, x * x * dl[:, None])
    dx, dw = f.vmap("X").grad()(x, w, dl)
    np.testing.assert_allclose(dx, 2 * x * w * dl[:, None])
    np.testing.assert_allclose(dw, (x * x * dl[:, None]).sum(0))
    dx, dw = f.grad().vmap("X")(x, w, 1.0)
    np.testing.assert_allclose(dw, x * x)
    dx, dw = f.grad().vmap()(x, np.stack([w] * 4), 1.0)
    np.testing.assert_allclose(dw, x * x)


def test_values_and_gradients():
    f = tilec.compile(LOSS).value_and_grad().vmap("X")
    x, w = floats(4, 3), floats(3)
    value, dx, dw = f(x, w)
    np.testing.assert_allclose(value, (x * x * w).sum(1))
    np.testing.assert_allclose(dw, x * x)
    with pytest.raises(tilec.ProgramError, match="not differentiated further"):
        f.grad()
    value, dx, dw = tilec.compile(LOSS).vmap("X").value_and_grad()(x, w, np.ones(4))
    np.testing.assert_allclose(dw, (x * x).sum(0))


def test_hessians_jacobians_and_forward_mode():
    f = tilec.compile(LOSS)
    x, w = floats(3), floats(3)
    product = f.grad("X").jvp("X", of="dX")
    # a Hessian in one call
    np.testing.assert_allclose(product.vmap("tX")(x, w, 1.0, np.eye(3)), np.diag(2 * w), atol=1e-12)
    g = tilec.compile(MATMUL)
    a, b, ta = floats(5, 3, 4), floats(4, 6), floats(5, 3, 4)
    np.testing.assert_allclose(g.vmap("A").jvp("A")(a, b, ta), ta @ b)
    np.testing.assert_allclose(g.jvp("A").vmap(["A", "tA"])(a, b, ta), ta @ b)
    agree(f.grad().grad(), ["X", "ddX"], floats(4, 3), w, 1.5, floats(4, 3), floats(3))


def test_forward_and_backward_apart():
    f = tilec.compile("function (X[N, K], W[K, M]) -> (Y) { H[i, j: N, M] = +(X[i, k] * W[k, j]); Y = tanh(H); }")
    x, w, dy = floats(4, 5, 3), floats(3, 2), floats(4, 5, 2)
    y, backward = f.vmap("X").vjp(x, w)
    np.testing.assert_allclose(y, np.tanh(x @ w))
    dx, dw = backward(dy)
    np.testing.assert_allclose(dx, (dy * (1 - y * y)) @ w.T)
    np.testing.assert_allclose(dw, np.einsum("bik,bij->kj", x, dy * (1 - y * y)))


def test_a_derivative_of_ones_own_is_that_of_each_element():
    f = tilec.compile(CLIP + "function f(X[N], W[N]) -> (O) { O = clip(X * W) * 3.0; }", function="f")
    x, w, do = floats(4, 3), floats(3), floats(4, 3)
    clipped = np.clip(3 * do, -1, 1)
    dx, dw = f.vmap("X").grad()(x, w, do)
    np.testing.assert_allclose(dx, clipped * w)
    np.testing.assert_allclose(dw, (clipped * x).sum(0))
    agree(f.grad(), ["X", "dO"], x, w, do)
    np.testing.assert_allclose(f.vmap("X").jvp("X")(x, w, do), 3 * np.clip(do * w, -1, 1))
    # what is clipped is shared
    g = tilec.compile(CLIP + "function f(X[N], W[N]) -> (O) { O = clip(W) * X; }", function="f")
    np.testing.assert_allclose(g.vmap("X").grad("W")(x, w, do), np.clip((do * x).sum(0), -1, 1))
    np.testing.assert_allclose(g.vmap("W").grad("W")(w, x, do), np.clip(do * w, -1, 1))


def test_an_operand_that_all_elements_share_has_the_sum_of_what_its_own_rule_says():
    text = """
      function scaled(X, W) -> (Y, V) { Y = X * W; V = W + 1.0; }
      gradient scaled(X, W, Y, V, DY, DV) -> (DX, DW) { DX = DY * 2.0 * W; DW = DV * 5.0 + DY * X; }
      function f(X[N], W[N]) -> (O) { (Y, V) = scaled(X, W); O = Y + V; }"""
    f = tilec.compile(text, function="f")
    x, w, do = floats(4, 3), floats(3), floats(4, 3)
    dx, dw = f.vmap("X").grad()(x, w, do)
    np.testing.assert_allclose(dx, do * 2 * w)
    np.testing.assert_allclose(dw, (do * 5 + do * x).sum(0))
    agree(f, ["X"], x, w)
    agree(f, ["W"], w, x)
    agree(f.grad(), ["W"], w, x, do[0])


@pytest.mark.parametrize("names", [["D"], ["I"], ["D", "I"]])
@pytest.mark.parametrize("text, d, i", [
    ("function (D[V, R], i32 I[J]) -> (O) { O = gather(D, I); }", (5, 2), (7,)),
    ("function (D[B, V, R], i32 I[B, J]) -> (O) { O = gather<1>(D, I); }", (2, 5, 2), (2, 7)),
    ("function (D[J, R], i32 I[J]) -> (O) { O = scatter(D, I, 5); }", (7, 2), (7,)),
    ("function (D[B, J, R], i32 I[B, J]) -> (O) { O = scatter<1>(D, I, 5); }", (2, 7, 2), (2, 7)),
])
def test_gather_and_scatter(text, d, i, names):
    f = tilec.compile(text)
    arguments = [floats(*[3] * ("D" in names), *d), RNG.integers(-1, 7, [3] * ("I" in names) + list(i)).astype("i4")]
    agree(f, names, *arguments)
    agree(
        f.grad(),
        [n for n in names] + ["dO"],
        *arguments,
        floats(3, *f(*[a[0] if n in names else a for n, a in zip(f.inputs, arguments)]).shape),
    )


def test_orders_and_shapes():
    f = tilec.compile(
        "function (X[M, N]) -> (S, I, R, C) { S = sort(X, 1); I = argsort(X, 0); R = reshape(X, N, M); C = cumsum(X, 1); }"
    )
    agree(f, ["X"], floats(4, 3, 5))
    agree(f.grad(of=["S", "R", "C"]), ["X", "dR"], floats(4, 3, 5), floats(3, 5), floats(4, 5, 3), floats(3, 5))


def test_defaults_that_are_and_are_not_of_the_batch():
    f = tilec.compile("function (A[N], Z[N + 2]) -> (O) { O[i + 1: N + 2] = =(A[i] * 2.0) default Z; }")
    for names in (["A"], ["Z"], ["A", "Z"]):
        agree(f, names, floats(*[4] * ("A" in names), 3), floats(*[4] * ("Z" in names), 5))
        agree(
            f.grad(), names + ["dO"], floats(*[4] * ("A" in names), 3), floats(*[4] * ("Z" in names), 5), floats(4, 5)
        )


def test_memory_of_the_caller():
    f = tilec.compile(MATMUL).vmap("A")
    a, b = floats(5, 3, 4), floats(4, 6)
    out = np.ones((5, 3, 6))
    f(a, b, out=out, accumulate=True)
    np.testing.assert_allclose(out, 1 + a @ b)
    np.testing.assert_allclose(f(a.transpose(0, 2, 1).copy().transpose(0, 2, 1)[::-1], b), a[::-1] @ b)
    assert f(np.zeros((0, 3, 4)), b).shape == (0, 3, 6)


def test_packages(tmp_path):
    f = tilec.compile(MATMUL).vmap("A")
    a, b = floats(5, 3, 4), floats(4, 6)
    f.save(tmp_path / "f.tilec", a, b)
    np.testing.assert_allclose(tilec.load(tmp_path / "f.tilec")(a, b), a @ b)


def test_indices_out_of_range_are_found():
    f = tilec.compile("function (D[V], i32 I[J]) -> (O) { O = gather(D, I); }", checked=True)
    with pytest.raises(tilec.ShapeError, match=r"E0540.*`I_?1?\[1, 2\]` is 9"):
        f.vmap(["D", "I"])(floats(2, 4), np.array([[0, 1, 2], [3, 0, 9]], "i4"))


def one_launch(program, *arguments):
    return program.emit("plan", *arguments).count("group ")


def test_a_batch_is_one_kernel_as_if_it_were_written_out():
    by_hand = tilec.compile("function (A[B, M, K], W[K, N]) -> (C) { C[b, i, j: B, M, N] = +(A[b, i, k] * W[k, j]); }")
    f = tilec.compile(MATMUL).vmap("A")
    a, w = floats(16, 32, 48, dtype="f4"), floats(48, 64, dtype="f4")
    assert one_launch(f, a, w) == one_launch(by_hand, a, w) == 1
    body = lambda p: p.emit("loops", a, w).replace("W", "B").split("\n")[1:]
    assert body(f) == body(by_hand)


def test_a_plan_is_of_the_batch():
    f = tilec.compile(MATMUL).vmap("A")
    a, b = floats(5, 3, 4, dtype="f4"), floats(4, 6, dtype="f4")
    np.testing.assert_allclose(f.with_plan(f.emit("plan", a, b))(a, b), a @ b, rtol=1e-5)


def test_the_pair_of_a_batch_is_shown():
    f = tilec.compile("function (X[N]) -> (Y) { Y = tanh(X); }").vmap()
    assert "[4, 3]" in f.emit("forward", floats(4, 3)) and "dX" in f.emit("backward", floats(4, 3))


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda f: f.vmap("A")(floats(3, 4), floats(4, 6)),
            tilec.ShapeError,
            "E0340.*`A` takes 2 dimensions and one of the batch in front, but is given 3 by 4",
        ),
        (lambda f: f.vmap("A")(2.0, floats(4, 6)), tilec.ShapeError, "E0340.*`A`.*a scalar"),
        (
            lambda f: f.vmap().vmap("A")(floats(3, 3, 4), floats(3, 4, 6)),
            tilec.ShapeError,
            "E0340.*2 of the batches in front",
        ),
        (
            lambda f: f.vmap()(floats(5, 3, 4), floats(4, 4, 6)),
            tilec.ShapeError,
            "E0341.*5 elements in `A` but 4 in `B`",
        ),
        (lambda f: f.vmap("A").grad()(floats(5, 3, 4), floats(4, 6), floats(3, 3, 6)), tilec.ShapeError, "E0517.*`dC`"),
        (lambda f: f.vmap("Q"), tilec.ProgramError, "E0302.*`Q` is no input"),
        (lambda f: f.vmap(["A", "A"]), tilec.ShapeError, "E0555.*`A` is given twice"),
        (lambda f: f.vmap()(1.0, 2.0), tilec.ShapeError, "E0340|E0204|E0343"),
    ],
)
def test_what_does_not_fit_is_named(call, kind, words):
    with pytest.raises(kind, match=words):
        call(tilec.compile(MATMUL))


def test_what_is_said_of_a_batch_has_pythons_words():
    f = tilec.compile("function f(X[N], G[N] = 1) -> (Y) { Y = X * G; }")
    with pytest.raises(tilec.Error, match="or leave it out of `inputs=`"):
        f.vmap(["X", "G"])(floats(2, 3))


@pytest.mark.parametrize(
    "text",
    ["function head(X[N], P) -> (Y) { Y[i: P] = =(X[i]); }", "function head(X, P) -> (Y) { Y[i: P] = =(X[i]); }"],
)
def test_a_size_is_one_for_the_batch(text):
    f = tilec.compile(text)
    x = floats(4, 5)
    np.testing.assert_array_equal(f.vmap()(x, 3), x[:, :3])
    np.testing.assert_array_equal(f.vmap("X")(x, 3), x[:, :3])
    with pytest.raises(tilec.ProgramError, match="E0342.*`P` is a size"):
        f.vmap(["X", "P"])(x, np.array([1, 2, 3, 4]))
    with pytest.raises(tilec.ProgramError, match="E0342.*`P` is a size"):
        f.vmap()(x, np.array([1, 2, 3, 4]))


def test_a_text_with_the_names_that_a_batch_takes():
    f = tilec.compile("function (B[Bt, N], Bt_1[Bt]) -> (C) { C[b, b1: Bt, N] = =(B[b, b1] * Bt_1[b]); }")
    assert "Bt_2" in f.vmap().emit("gradient")
    agree(f, ["B", "Bt_1"], floats(4, 3, 2), floats(4, 3))
    g = tilec.compile("function (X[N], Bt) -> (C) { C[i: Bt] = =(X[i]); }")      # a size that is compiled in
    np.testing.assert_array_equal(g.vmap("X")(x := floats(4, 3), 2), x[:, :2])


def test_threads_share_a_batch():
    f = tilec.compile(MATMUL).vmap("A")
    a, b = floats(5, 3, 4), floats(4, 6)
    wrong = []

    def call():
        if not np.allclose(f(a, b), a @ b):
            wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
