"""Built-ins that make tensors, against NumPy, on every backend of this machine."""
import numpy as np
import pytest
import tilec


def opencl():
    try:
        tilec.compile("function (X[N]) -> (Y) { Y = X; }", target="opencl")(np.zeros(1, "f4"))
        return ["opencl"]
    except Exception:
        return []


TARGETS = ["reference", "cpu", *opencl()]
RNG = np.random.default_rng(4)
FLOATS = ["f2", "f4", "f8"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
EVERYWHERE = [("cpu", dtype) for dtype in FLOATS + INTEGERS] + [
    (target, dtype) for target in TARGETS if target != "cpu" for dtype in ("f4", "u1")
]


def sample(dtype, shape):
    """Small numbers with equal ones among them."""
    values = RNG.integers(0, 7, shape)
    return (values - (3 if np.dtype(dtype).kind != "u" else 0)).astype(dtype)


def run(text, target, *arguments):
    return tilec.compile(text, target=target)(*arguments)


@pytest.mark.parametrize("target, dtype", EVERYWHERE)
def test_running_sums_and_products_in_every_type(target, dtype):
    x = sample(dtype, (5, 9))
    sums, products, flat = run(
        "function (X[M, N], V[K]) -> (S, P, F) { S = cumsum(X, 1); P = cumprod(X, 0); F = cumsum(V); }", target, x, x[0]
    )
    assert sums.dtype == products.dtype == x.dtype
    np.testing.assert_array_equal(sums, np.cumsum(x, 1, dtype=dtype))
    np.testing.assert_array_equal(products, np.cumprod(x, 0, dtype=dtype))
    np.testing.assert_array_equal(flat, np.cumsum(x[0], dtype=dtype))


@pytest.mark.parametrize("target, dtype", [*EVERYWHERE, ("cpu", "?")])
def test_positions_of_extremes_in_every_type(target, dtype):
    x = sample(dtype, (3, 4, 5))
    high, low, first, last = run(
        "function (X[A, B, C]) -> (H, L, F, G) { H = argmax(X, 1); L = argmin(X, 2); F = argmax(X); G = argmin(X); }",
        target,
        x,
    )
    np.testing.assert_array_equal(high, np.argmax(x, 1))
    np.testing.assert_array_equal(low, np.argmin(x, 2))
    assert np.asarray(high).dtype == np.int32
    assert (int(first), int(last)) == (np.argmax(x), np.argmin(x))


def test_positions_in_a_vector():
    x = sample("f4", 9)
    assert [
        int(each)
        for each in run("function (X[N]) -> (H, L, F) { H = argmax(X, 0); L = argmin(X); F = argmax(X); }", "cpu", x)
    ] == [np.argmax(x), np.argmin(x), np.argmax(x)]


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_nan_is_the_extreme(target):
    x = np.float32([[1, np.nan, 3, np.nan], [np.inf, 2, 5, 1], [-np.inf, -np.inf, -np.inf, -np.inf]])
    high, low = run("function (X[M, N]) -> (H, L) { H = argmax(X, 1); L = argmin(X, 1); }", target, x)
    np.testing.assert_array_equal(high, np.argmax(x, 1))
    np.testing.assert_array_equal(low, np.argmin(x, 1))


@pytest.mark.parametrize("target", TARGETS)
def test_softmax_and_its_logarithm(target):
    x = RNG.normal(size=(4, 33)) * 10
    soft, log = run(
        "function (X[M, N]) -> (Y, Z) { Y = builtin_softmax(X, M, N); Z = builtin_logsoftmax(X, M, N); }", target, x
    )
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(soft, wanted, rtol=1e-13)
    np.testing.assert_allclose(log, np.log(wanted), rtol=1e-12, atol=1e-14)
    half = run("function (X[M, N]) -> (Y) { Y = builtin_softmax(X, M, N); }", target, x.astype("f2"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.astype("f8").sum(1), 1, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_down_to_sizes(target):
    x = RNG.normal(size=(3, 4, 5))
    a, b, c, d = run(
        "function (X[A, B, C]) -> (P, Q, R, S) { P = simple_reduce(X, B, C); Q = simple_reduce(X, A, 1, C); R = simple_reduce(X); S = simple_reduce(X, 1, C); }",
        target,
        x,
    )
    np.testing.assert_allclose(a, x.sum(0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(b, x.sum(1, keepdims=True), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(c, x.sum(), rtol=1e-12)
    np.testing.assert_allclose(d, x.sum((0, 1))[None], rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_functions_put_together(target):
    x = np.float32([-2, -0.5, 0, 0.25, 3, np.inf, -np.inf, np.nan])
    clamped, root, infinite = run(
        "function (X[N]) -> (C, R, I) { C = clamp(X, -1, 0.5); R = rsqrt(X); I = isinf(X); }", target, x
    )
    np.testing.assert_array_equal(clamped, np.clip(x, -1, 0.5))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(root, 1 / np.sqrt(x), rtol=3e-7)
    np.testing.assert_array_equal(infinite, np.isinf(x))
    np.testing.assert_array_equal(
        run("function (X[N]) -> (C) { C = clamp(X, 1, 4); }", target, np.arange(9, dtype="u1")),
        np.clip(np.arange(9), 1, 4),
    )


def kind(dtype):
    return "bool" if dtype == "?" else dtype[0] + str(8 * int(dtype[1]))


def all_pairs(dtype):
    """Each of some small and extreme integers with each."""
    limits = np.iinfo(dtype)
    each = np.array(
        [*range(max(-9, limits.min), 10), limits.min, limits.max, limits.max // 2 + 1, limits.bits - 1, limits.bits],
        dtype,
    )
    return [a.ravel() for a in np.meshgrid(each, each)]


def wrapped(value, dtype):
    bits = np.iinfo(dtype).bits
    value %= 2**bits
    return value - 2**bits if dtype[0] == "i" and value >= 2 ** (bits - 1) else value


def power(base, exponent, dtype):
    if exponent < 0:
        return {1: 1, -1: 1 - 2 * (exponent % 2)}.get(base, 0)
    return wrapped(pow(base, exponent, 2**64), dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_in_every_type(target, dtype):
    a, b = all_pairs(dtype)
    signed = dtype[0] == "i"
    exponents, bases = (0, 1, 2, 3, 7, 100, *([-1, -2] if signed else [])), (
        0,
        1,
        2,
        3,
        100,
        *([-1, -2] if signed else []),
    )
    constant = "".join(f" E{k} = pow(A, {e});" for k, e in enumerate(exponents)) + "".join(
        f" B{k} = pow({x}, B);" for k, x in enumerate(bases)
    )
    results = ", ".join([f"E{k}" for k in range(len(exponents))] + [f"B{k}" for k in range(len(bases))])
    got = run(f"function (A[N], B[N]) -> (P, {results}) {{ P = pow(A, B);{constant} }}", target, a, b)
    pairs = [(a, b), *((a, [e] * len(a)) for e in exponents), *(([x] * len(a), b) for x in bases)]
    for result, (x, y) in zip(got, pairs):
        assert result.dtype == a.dtype
        np.testing.assert_array_equal(result, np.array([power(int(m), int(n), dtype) for m, n in zip(x, y)], dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_booleans(target):
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    p, square = run("function (A[N], B[N]) -> (P, Q) { P = pow(A, B); Q = pow(A, 2); }", target, a, b)
    np.testing.assert_array_equal(p, [1, 0, 1, 1])
    np.testing.assert_array_equal(square, a)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_by_what_an_index_gives_in_every_type(target, dtype):
    x = sample(dtype, 40) * 5
    i, t = np.arange(40), kind(dtype)
    divisors = {
        "i": i,
        "i - 3": i - 3,
        "i + 1": i + 1,
        "max(i, 2)": np.maximum(i, 2),
        "i > 1 ? 3 : 4": np.where(i > 1, 3, 4),
    }
    names = [f"{letter}{k}" for k in range(len(divisors)) for letter in "QR"]
    body = "".join(
        f" Q{k}[i: N] = =(X[i] / {t}({d})); R{k}[i: N] = =(mod(X[i], {t}({d})));" for k, d in enumerate(divisors)
    )
    got = run(
        f"function (X[N]) -> ({', '.join(names)}, S, E) {{{body} S[] = +(X[i] / {t}(i + 1)); E = X / {t}(index(X, 0) + 1); }}",
        target,
        x,
    )

    def quotients(by):
        return [
            0 if d == 0 else abs(int(n)) // abs(int(d)) * (1 if (n < 0) == (d < 0) else -1)
            for n, d in zip(x, by.astype(dtype))
        ]

    for k, by in enumerate(divisors.values()):
        wanted = quotients(by)
        np.testing.assert_array_equal(got[2 * k], np.array(wanted, dtype))
        np.testing.assert_array_equal(
            got[2 * k + 1],
            np.array([0 if d == 0 else int(n) - q * int(d) for n, d, q in zip(x, by.astype(dtype), wanted)], dtype),
        )
    assert int(got[-2]) == wrapped(sum(quotients(i + 1)), dtype)
    np.testing.assert_array_equal(got[-1], np.array(quotients(i + 1), dtype))


ZEROS = {
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "tan": np.tan,
    "asin": np.arcsin,
    "atan": np.arctan,
    "sinh": np.sinh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "erf": lambda x: x,
    "recip": np.reciprocal,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_keep_their_sign(target, dtype):
    """In functions of one number, seen in vectors and in what is left over."""
    x = np.array([-0.0, 0.0] * 17 + [-0.0], dtype)
    results = ", ".join(f"Y{k}" for k in range(len(ZEROS)))
    got = run(
        f"function (X[N]) -> ({results}) {{ {' '.join(f'Y{k} = {name}(X);' for k, name in enumerate(ZEROS))} }}",
        target,
        x,
    )
    for (name, f), y in zip(ZEROS.items(), got):
        with np.errstate(divide="ignore"):
            wanted = f(x)
        np.testing.assert_array_equal(y, wanted, name)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(wanted), name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_two_zeros(target, dtype):
    a, b = (np.array(each * 9, dtype) for each in ([-0.0, -0.0, 0.0, 0.0], [-0.0, 0.0, -0.0, 0.0]))
    calls = {
        "A + B": a + b,
        "A - B": a - b,
        "A * B": a * b,
        "fma(A, B, A)": a * b + a,
        "mod(A, B + 1)": np.fmod(a, b + 1),
        "pow(A, 3)": a,
        "pow(A, 2)": abs(a),
        "pow(A, B + 3)": a,
        "atan2(A, B)": np.arctan2(a, b),
        "atan2(A, B + 1)": a,
        "atan2(A, B - 1)": np.arctan2(a, b - 1),
        "max(A, B)": np.where(np.signbit(a), b, a),
        "min(A, B)": np.where(np.signbit(a), a, b),
        "A > B ? B : A": a,
        "A / (B + 1)": a,
        "1.0 / A": np.copysign(np.inf, a),
        "pow(A, -1)": np.copysign(np.inf, a),
        "ceil(A - 0.25)": -abs(a),
        "relu(A)": a,
        "log(A + 1)": abs(a),
        "acos(A + 1)": abs(a),
    }
    results = ", ".join(f"Y{k}" for k in range(len(calls)))
    got = run(
        f"function (A[N], B[N]) -> ({results}) {{ {' '.join(f'Y{k} = {call};' for k, call in enumerate(calls))} }}",
        target,
        a,
        b,
    )
    for (call, wanted), y in zip(calls.items(), got):
        np.testing.assert_allclose(y, wanted, rtol=1e-3, err_msg=call)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(wanted), call)


@pytest.mark.parametrize(
    "name, operator", [("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")]
)
def test_comparisons_by_name(name, operator):
    a, b = sample("i4", 50), sample("i4", 50)
    for call in (name, "cmp_" + name):
        np.testing.assert_array_equal(
            run(f"function (A[N], B[N]) -> (C) {{ C = {call}(A, B); }}", "cpu", a, b), eval(f"a {operator} b")
        )


@pytest.mark.parametrize("target, dtype", [each for each in EVERYWHERE if each[1] in INTEGERS])
def test_bit_operations_by_name(target, dtype):
    a, b = sample(dtype, 40), sample(dtype, 40)
    f = f"function ({kind(dtype)} A[N], {kind(dtype)} B[N]) -> (P, Q, R, S, T, U) {{ P = bit_and(A, B); Q = bit_or(A, B); R = bit_xor(A, B); S = bit_not(A); T = bit_left(A, 2); U = bit_right(A, 1); }}"
    for got, wanted in zip(run(f, target, a, b), (a & b, a | b, a ^ b, ~a, a << 2, a >> 1)):
        np.testing.assert_array_equal(got, wanted.astype(dtype))


def test_sizes_meet():
    x, y = np.ones((1, 4), "f4"), np.ones((3, 4), "f4")
    text = "function (X[A, B], Y[C, D]) -> (O) { N = broadcast(A, C); M = match(B, D); O[i, j: N, M] = =(i + j); }"
    assert run(text, "cpu", x, y).shape == (3, 4)
    assert run(text, "cpu", y, x).shape == (3, 4)
    with pytest.raises(tilec.ProgramError, match="neither is 1"):
        run(text, "cpu", np.ones((2, 4), "f4"), y)
    with pytest.raises(tilec.ProgramError, match="`match` of 4 and 5"):
        run(text, "cpu", x, np.ones((3, 5), "f4"))


def test_functions_of_tuples():
    a, b = sample("f4", 5), sample("f4", (2, 3))
    p, q = run("function (A[N], B[K, M]) -> (P, Q) { T = tuple(A, B); (P, Q) = abs(T) + T; }", "cpu", a, b)
    np.testing.assert_array_equal(p, abs(a) + a)
    np.testing.assert_array_equal(q, abs(b) + b)


DRAW = "function (u32 S[W, L], M, N) -> (R, Next) { P = prng_step(S, M, N); R = prng_value(P); Next = prng_state(P); }"


def seed(lanes, number=7):
    return np.random.default_rng(number).integers(0, 2**32, (3, lanes), dtype="u4")


@pytest.mark.parametrize("lanes", [1, 3, 2048])
def test_random_numbers_are_the_same_on_every_backend_and_uniform(lanes):
    state = seed(lanes)
    draw = tilec.compile(DRAW, target="cpu")
    values, following = draw(state, 300, 400)
    assert values.dtype == np.float32 and values.shape == (300, 400) and values.min() >= 0 and values.max() < 1
    count = values.size
    assert abs(values.mean(dtype="f8") - 0.5) < 5 * np.sqrt(1 / 12 / count)
    assert abs(values.var(dtype="f8") - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    cells = np.histogram(values, 256, (0, 1))[0]
    assert ((cells - count / 256) ** 2 / (count / 256)).sum() < 255 + 5 * np.sqrt(2 * 255)
    for target in TARGETS:
        again, state_again = tilec.compile(DRAW, target=target)(state, 30, 41)
        flat = draw(state, 30, 41)
        np.testing.assert_array_equal(again, flat[0])
        np.testing.assert_array_equal(state_again, flat[1])


def test_draws_that_follow_each_other_continue_the_lanes():
    lanes = 5
    state = seed(lanes)
    draw = tilec.compile(DRAW, target="cpu")
    whole = draw(state, 1, 4 * lanes)[0].ravel()
    first, after = draw(state, 1, 2 * lanes)
    second, _ = draw(after, 1, 2 * lanes)
    np.testing.assert_array_equal(np.concatenate([first.ravel(), second.ravel()]), whole)
    ragged, after = draw(state, 1, lanes + 2)
    np.testing.assert_array_equal(after[2] - state[2], [2, 2, 1, 1, 1])
    np.testing.assert_array_equal(after[:2], state[:2])
    assert not set(ragged.ravel()) & set(draw(after, 1, 3 * lanes)[0].ravel())


def test_a_counter_wraps():
    state = seed(4)
    state[2] = 2**32 - 1
    values, after = tilec.compile(DRAW, target="cpu")(state, 1, 12)
    np.testing.assert_array_equal(after[2], np.uint32([2] * 4))
    assert len(set(values.ravel())) == 12


def test_lanes_and_seeds_are_independent_even_of_a_constant_seed():
    draw = tilec.compile(DRAW, target="cpu")
    lanes = 64
    values = draw(np.zeros((3, lanes), "u4"), 4096, lanes)[0].astype("f8")
    correlation = np.corrcoef(values.T) - np.eye(lanes)
    assert abs(correlation).max() < 6 / np.sqrt(4096)
    lagged = np.corrcoef(values[:-1].ravel(), values[1:].ravel())[0, 1]
    assert abs(lagged) < 5 / np.sqrt(values.size)
    other = np.zeros((3, lanes), "u4")
    other[1] = 1
    assert abs(np.corrcoef(values.ravel(), draw(other, 4096, lanes)[0].ravel())[0, 1]) < 5 / np.sqrt(values.size)


def test_a_value_or_a_state_alone():
    state = seed(3)
    whole = tilec.compile(DRAW, target="cpu")(state, 2, 5)
    value = tilec.compile("function (u32 S[W, L], M, N) -> (R) { P = prng_step(S, M, N); R = prng_value(P); }")(
        state, 2, 5
    )
    following = tilec.compile("function (u32 S[W, L], M, N) -> (R) { P = prng_step(S, M, N); R = prng_state(P); }")(
        state, 2, 5
    )
    np.testing.assert_array_equal(value, whole[0])
    np.testing.assert_array_equal(following, whole[1])
    assert np.ndim(tilec.compile("function (u32 S[W, L]) -> (R) { P = prng_step(S); R = prng_value(P); }")(state)) == 0


def finite_differences(f, x, step=1e-6):
    gradient = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[k] += step
        down[k] -= step
        gradient[k] = (f(up) - f(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize(
    "call",
    [
        "cumsum(X, 1)",
        "cumsum(X, 0)",
        "builtin_softmax(X, M, N)",
        "builtin_logsoftmax(X, M, N)",
        "simple_reduce(X, M, 1)",
        "simple_reduce(X, N)",
        "builtin_binary_crossentropy(sigmoid(X), 0.25, N)",
        "clamp(X, -0.5, 0.5)",
        "rsqrt(X + 9)",
    ],
)
def test_gradients_agree_with_finite_differences(call):
    x = RNG.normal(size=(3, 4))
    f = tilec.compile(f"function (X[M, N]) -> (Y) {{ Y = {call}; }}")
    weights = RNG.normal(size=np.shape(f(x)))
    np.testing.assert_allclose(
        f.grad(wrt=["X"])(x, weights), finite_differences(lambda at: (f(at) * weights).sum(), x), rtol=2e-6, atol=2e-8
    )


def argsorted(x, axis, descending=False):
    """Stable, NaN greatest, also when descending."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    ranks = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
    return np.argsort(-ranks, axis, kind="stable")


@pytest.mark.parametrize("target, dtype", [*EVERYWHERE, ("cpu", "?")])
def test_sorting_in_every_type(target, dtype):
    x = sample(dtype, (3, 6, 5))
    text = "function (X[A, B, C]) -> (S, P, T, Q, D, V, I) { S = sort(X); P = argsort(X); T = sort(X, 1); Q = argsort(X, 0); D = argsort_descending(X, 1); (V, I) = top_k<3>(X); }"
    s, p, t, q, d, v, i = run(text, target, x)
    assert s.dtype == t.dtype == v.dtype == x.dtype and p.dtype == q.dtype == d.dtype == i.dtype == np.int32
    np.testing.assert_array_equal(s, np.sort(x, -1))
    np.testing.assert_array_equal(p, argsorted(x, -1))
    np.testing.assert_array_equal(t, np.sort(x, 1))
    np.testing.assert_array_equal(q, argsorted(x, 0))
    np.testing.assert_array_equal(d, argsorted(x, 1, True))
    np.testing.assert_array_equal(i, argsorted(x, -1, True)[..., :3])
    np.testing.assert_array_equal(v, np.take_along_axis(x, i.astype("i8"), -1))


@pytest.mark.parametrize("target", TARGETS)
def test_nan_sorts_last(target):
    x = np.float32([[2, np.nan, -np.inf, 0, np.inf, -0.0, np.nan, 1]])
    s, p, d = run(
        "function (X[M, N]) -> (S, P, D) { S = sort(X); P = argsort(X); D = argsort_descending(X); }", target, x
    )
    np.testing.assert_array_equal(s, np.sort(x))
    np.testing.assert_array_equal(p, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(d, argsorted(x, -1, True))


def scattered(e, i, extent, batch=0):
    out = np.zeros((*e.shape[:batch], extent, *e.shape[i.ndim:]), e.dtype)
    for at in np.ndindex(i.shape):
        out[(*at[:batch], min(max(int(i[at]), 0), extent - 1))] += e[at]
    return out


@pytest.mark.parametrize("target, dtype", EVERYWHERE)
def test_gather_and_scatter_in_every_type(target, dtype):
    d, i = sample(dtype, (5, 3)), np.int32([[4, 0, 0], [-7, 2, 99]])
    e = sample(dtype, (2, 3, 3))
    rows, sums, like = run(
        "function (D[V, R], i32 I[J, K], E[J, K, R]) -> (G, S, L) { G = gather(D, I); S = scatter(E, I, V + 1); L = scatter(E, I, D); }",
        target,
        d,
        i,
        e,
    )
    assert rows.dtype == sums.dtype == d.dtype
    np.testing.assert_array_equal(rows, d[np.clip(i, 0, 4)])
    np.testing.assert_array_equal(sums, scattered(e, i, 6))
    np.testing.assert_array_equal(like, scattered(e, i, 5))


@pytest.mark.parametrize("target", TARGETS)
def test_gather_and_scatter_within_a_batch(target):
    d, i, e = RNG.normal(size=(4, 5, 3)), RNG.integers(0, 5, (4, 6)), RNG.normal(size=(4, 6, 3))
    rows, sums = run(
        "function (D[B, V, R], i64 I[B, J], E[B, J, R]) -> (G, S) { G = gather<1>(D, I); S = scatter<1>(E, I, D); }",
        target,
        d,
        i,
        e,
    )
    np.testing.assert_array_equal(rows, np.take_along_axis(d, i[..., None], 1))
    np.testing.assert_allclose(sums, scattered(e, i, 5, 1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_positions_of_every_integer_type(dtype):
    d, i = sample("f4", (5, 3)), RNG.integers(0, 5, 7).astype(dtype)
    rows, sums = run(
        f"function (D[V, R], {kind(dtype)} I[J], E[J]) -> (G, S) {{ G = gather(D, I); S = scatter(E, I, 5); }}",
        "cpu",
        d,
        i,
        sample("f4", 7),
    )
    np.testing.assert_array_equal(rows, d[i.astype("i8")])


def test_a_bare_third_argument_of_scatter_is_a_tensor_or_a_size():
    e, i = sample("f4", (3, 2)), np.int32([1, 1, 0])
    f = tilec.compile("function (E[J, R], i32 I[J], V) -> (O) { O = scatter(E, I, V); }")
    np.testing.assert_array_equal(f(e, i, 4), scattered(e, i, 4))
    np.testing.assert_array_equal(f(e, i, np.zeros((4, 9), "f4")), scattered(e, i, 4))
    np.testing.assert_array_equal(f(e, i, np.int32(5)), scattered(e, i, 5))
    with pytest.raises(tilec.ProgramError, match="takes a size"):
        f(e, i, np.float32(5))


def test_booleans_are_counted_by_scatter():
    counts = run(
        "function (bool E[J], i32 I[J]) -> (O) { O = scatter(E, I, 3); }",
        "cpu",
        np.array([True, True, False, True]),
        np.int32([2, 2, 2, 0]),
    )
    np.testing.assert_array_equal(counts, [1, 0, 2])


@pytest.mark.parametrize(
    "call",
    [
        "sort(X)",
        "sort(X, 0)",
        "element(top_k<2>(X), 0)",
        "gather(X, i32(index(X, 1) / 2))",
        "gather<1>(X, index(X, 1))",
        "scatter(X, index(X, 0), 5)",
    ],
)
def test_gradients_through_positions_agree_with_finite_differences(call):
    x = RNG.normal(size=(3, 4))
    f = tilec.compile(f"function (X[M, N]) -> (Y) {{ Y = {call}; }}")
    weights = RNG.normal(size=np.shape(f(x)))
    np.testing.assert_allclose(
        f.grad(wrt=["X"])(x, weights), finite_differences(lambda at: (f(at) * weights).sum(), x), rtol=2e-6, atol=2e-8
    )


def test_a_reversed_gradient():
    x, weights = RNG.normal(size=(2, 5))
    for factor in ("0.5", "C", "2"):
        f = tilec.compile(f"function (X[N], C[]) -> (Y) {{ Y = X * X + reverse_grad(sin(X), {factor}); }}")
        c = np.float64(1.25)
        np.testing.assert_allclose(f(x, c), x * x + np.sin(x), rtol=1e-14)
        scale = {"0.5": 0.5, "2": 2, "C": c}[factor]
        np.testing.assert_allclose(f.grad(wrt=["X"])(x, c, weights), weights * (2 * x - scale * np.cos(x)), rtol=1e-13)


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
@pytest.mark.parametrize(
    "given, expected", [("f2", "f2"), ("f4", "f4"), ("f8", "f8"), ("i4", "f4"), ("?", "f4"), ("u8", "f4")]
)
def test_as_float_takes_the_type_of_a_tensor(target, given, expected):
    f = tilec.compile(
        "function mean(X[N]) -> (Y, Z) { S[] = +(f32(1.0) * X[i]); Y = as_float(S / N, X); Z[i: N] = =(as_float(S[] * X[i], X)); }",
        target=target,
    )
    x = np.ones(70000, given)
    y, z = f(x)
    assert y.dtype == np.dtype(expected) and y == 1            # the sum does not fit in an f16
    assert z.dtype == np.dtype(expected) and z.shape == x.shape
    # of any rank
    anyone = tilec.compile("function twice(X) -> (Y) { Y = as_float(f32(2.0) * X, X); }", target=target)(x)
    assert anyone.dtype == np.dtype(expected) and anyone.shape == x.shape


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_a_cast_sees_a_half_expression_rounded(target):
    f = tilec.compile(
        "function f(f16 A[N], f16 B[N]) -> (Y, W, Z) { Y = f32(A + B); W = i32(A*B + A); T = A + B; Z = f16(A + B) - A + T; }",
        target=target,
    )
    a, b = np.array([2048, 1000], "f2"), np.array([1, 1.001], "f2")
    y, w, z = f(a, b)
    np.testing.assert_array_equal(y, (a + b).astype("f4"))
    np.testing.assert_array_equal(w, [4096, 2001])             # computed in f32, rounded once
    np.testing.assert_array_equal(z, [2048, 1002])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
def test_an_integer_is_rounded_to_bf16_once(target, dtype):
    bits = np.iinfo(dtype).bits - (dtype[0] == "i")
    # about the middle of two bf16
    x = [
        sign * ((1 << top) + (1 << top - 8) + more)
        for top in range(8, bits)
        for more in (-1, 0, 1)
        for sign in ((1, -1) if dtype[0] == "i" else (1,))
    ]
    x += [0, 1, 255, 256, 257, np.iinfo(dtype).max, np.iinfo(dtype).min]

    def rounded(n):
        shift = max(abs(n).bit_length() - 8, 0)
        kept, rest, half = abs(n) >> shift, abs(n) & (1 << shift) - 1, 1 << shift >> 1
        up = shift > 0 and (rest > half or (rest == half and kept % 2 == 1))
        return float((kept + up) << shift) * (-1 if n < 0 else 1)

    y = run("function (X[N]) -> (Y) { Y = f32(bf16(X)); }", target, np.array(x, dtype))
    np.testing.assert_array_equal(y, [rounded(int(n)) for n in x])
