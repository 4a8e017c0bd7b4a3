"""What must not depend on how a fold is shared out: ranges of partial products, signs of zeros. On every backend that
is here."""
import numpy as np
import pytest

import tilec

TARGETS = ["cpu", "cpu:x86-64-v3", "opencl"]


def run(text, target, *inputs):
    return tilec.compile(text, target=target)(*inputs)


def factors(count, dtype):
    """0 far from large ones, large before small, small before large, an infinity and a NaN: what partial products over-
    and underflow in."""
    big, x = (1e30, np.ones((7, count), dtype)) if dtype != np.float64 else (1e300, np.ones((7, count), dtype))
    half = count // 2
    x[0], x[0, -1] = 100, 0
    x[1], x[1, 0] = 100, 0
    x[2, :half], x[2, half:2 * half] = big, 1 / big
    x[3, :half], x[3, half:2 * half] = 1 / big, big
    x[4, ::2], x[4, 1::2] = -big, big
    x[5, count // 3] = np.inf
    x[6, count // 3] = np.nan
    return x


def exact(x):
    """Products by mantissas and exponents."""
    m, e = np.frexp(x.astype(np.float64))
    sign, logarithm = np.sign(m).prod(-1), np.log2(np.abs(m), where=m != 0, out=np.zeros_like(m)).sum(-1) + e.sum(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return sign * np.exp2(logarithm)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [3, 40, 70000])
def test_partial_products_have_no_range(count, dtype, target):
    count = min(count, 5000) if target == "opencl" else count  # PoCL takes a minute for more
    x = factors(count, dtype)
    with np.errstate(all="ignore"):
        expected = exact(x).astype(dtype)
    expected[0], expected[1], expected[5], expected[6] = 0, 0, np.inf, np.nan
    rtol = 1e-5 if dtype == np.float32 else 1e-11
    if count % 2 == 1:
        expected[2:4] = 1
    rows = run("function (X[M, N]) -> (Y) { Y[i: M] = *(X[i, j]); }", target, x)
    np.testing.assert_allclose(rows, expected, rtol=rtol * count ** 0.5)
    columns = run("function (X[N, M]) -> (Y) { Y[i: M] = *(X[j, i]); }", target, np.ascontiguousarray(x.T))
    np.testing.assert_allclose(columns, expected, rtol=rtol * count ** 0.5)
    for k in (0, 2):
        np.testing.assert_allclose(
            run("function (X[N]) -> (Y) { Y[] = *(X[j]); }", target, x[k]), expected[k], rtol=rtol * count**0.5
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows, count", [(1, 60), (5, 60), (1, 30000)])
def test_running_products_have_no_range(rows, count, target):
    x = np.ones((rows, count), np.float32)
    x[:, :20], x[:, 20:40] = 1e30, 1e-30
    x[:, -10:] = 0
    before, after = run(
        "function (X[M, N]) -> (A, B) { A[i, j: M, N] = *(X[i, k]), k <= j; B[i, j: M, N] = *(X[i, k]), k >= j; }",
        target,
        x,
    )
    assert np.isinf(before[:, 1:38]).all() and (before[:, -10:] == 0).all()
    np.testing.assert_allclose(before[:, 39:-10], 1, rtol=1e-4)
    assert (after == 0).all()
    turned, _ = run(
        "function (X[M, N]) -> (A, B) { A[i, j: M, N] = *(X[i, k]), k >= j; B[i, j: M, N] = *(X[i, k]), k <= j; }",
        target,
        x[:, ::-1].copy(),
    )
    np.testing.assert_allclose(turned[:, ::-1][:, 39:-10], 1, rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS + ["reference"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_of_two_zeros_the_larger_is_plus(dtype, target):
    a, b = np.array([-0.0, 0, -0.0, 0, np.nan, -1], dtype), np.array([0, -0.0, -0.0, 0, -0.0, np.nan], dtype)
    larger, smaller = run("function (A[N], B[N]) -> (L, S) { L = max(A, B); S = min(A, B); }", target, a, b)
    np.testing.assert_array_equal(np.signbit(larger[:4]), [False, False, True, False])
    np.testing.assert_array_equal(np.signbit(smaller[:4]), [True, True, True, False])
    assert np.isnan(larger[4:]).all() and np.isnan(smaller[4:]).all()
    for text, signs in (
        ("max(A, 0.0)", [0, 0, 0, 0]),
        ("max(-0.0, A)", [1, 0, 1, 0]),
        ("min(A, 0.0)", [1, 0, 1, 0]),
        ("min(-0.0, A)", [1, 1, 1, 1]),
    ):
        np.testing.assert_array_equal(
            np.signbit(run("function (A[N]) -> (Y) { Y = %s; }" % text, target, a[:4])), signs
        )


@pytest.mark.parametrize("target", TARGETS + ["reference"])
@pytest.mark.parametrize("count", [2, 17, 5000])
def test_extremes_of_zeros_do_not_depend_on_their_order(count, target):
    x = np.full((3, count), -0.0, np.float32)
    x[0, 0] = x[1, -1] = 0
    for aggregation, signs in ((">", [False, False, True]), ("<", [True, True, True])):
        for text, given in (("Y[i: M] = %s(X[i, j])", x), ("Y[i: M] = %s(X[j, i])", np.ascontiguousarray(x.T))):
            shape = "M, N" if given is x else "N, M"
            np.testing.assert_array_equal(
                np.signbit(run("function (X[%s]) -> (Y) { %s; }" % (shape, text % aggregation), target, given)), signs
            )
    first = run("function (X[M, N]) -> (Y) { Y = argmax(X, 1); }", target, x)
    np.testing.assert_array_equal(first, [0, 0, 0])      # -0 and 0 are equal: the first of them


@pytest.mark.parametrize("target", TARGETS)
def test_equal_zeros_share_a_derivative(target):
    x = np.array([-0.0, 0, -1], np.float32)
    f = tilec.compile("function (X[N]) -> (Y) { Y[] = >(X[i]); }", target=target)
    np.testing.assert_array_equal(f.grad()(x, np.float32(1)), [0.5, 0.5, 0])


# Sums that C leaves and a condition does not: where the first nine rows of M are 0, no point needs those of C.
CONDITIONAL = [
    "O[l: N] = +(M[j, i] > 0.5 ? A[i, j] * C[j, l] : 0)",
    "O[l: N] = +(M[j, i] > 0.5 ? A[i, j] / C[j, l] : 0)",
    "O[l, k: N, N] = +(M[j, i] > 0.5 & A[i, k] > 0 ? A[i, k] * C[j, l] : 0)",
    "O[t, l: N, N] = +(M[s, k] > 0.5 ? A[s, k] * C[t, l] : 0), s <= t",
    "O[j, l: N, N] = +(-(M[j, i] > 0.5 ? A[i, k] * C[j, l] * 2 : 0))",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", CONDITIONAL)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 0])
def test_what_multiplies_no_point_of_a_conditional_sum_does_not_matter(target, body, bad):
    """A factor that is no number leaves the sum: where the conditions never hold the sum is 0, as written."""
    text = f"function f(M[N, N], A[N, N], C[N, N]) -> (O) {{ {body}; }}"
    rng = np.random.default_rng(5)
    m, a, c = rng.uniform(0.6, 1, (3, 24, 24)).astype("f4")
    m[:9], c[[0, 5]] = 0, bad
    for matters in (False, True):
        c[20] = bad if matters else 1
        program = tilec.compile(text, target=target)
        assert "_reached" in program.emit("sums", m, a, c)
        got, wanted = program(m, a, c), tilec.compile(text, target="reference")(m, a, c)
        number = np.isfinite(wanted)
        assert number.all() or matters
        np.testing.assert_array_equal(np.isfinite(got), number)
        np.testing.assert_allclose(got[number], wanted[number], rtol=1e-4)


# What a condition chooses is one factor of several: 0 times infinity is NaN.
CHOSEN_FACTORS = [
    "O[s, e: N, N] = +((M[s, j] > 0.5 ? 1.0 : 0.0) * A[i, d] * C[j, e])",
    "O[j, l: N, N] = +((M[j, l] > 0.5 ? A[j, l] : 0.0) / C[i, l])",
    "O[j, l: N, N] = +(A[i, k] * (C[j, l] * (M[j, i] > 0.5 ? 2.0 : 0.0)))",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", CHOSEN_FACTORS)
@pytest.mark.parametrize("bad", [np.inf, np.nan, 0])
def test_a_factor_that_a_condition_chooses_is_no_condition_of_the_product(target, body, bad):
    text = f"function f(M[N, N], A[N, N], C[N, N]) -> (O) {{ {body}; }}"
    m, a, c = np.random.default_rng(5).uniform(0.4, 1, (3, 24, 24)).astype("f4")
    m[:9], c[[0, 5], 3] = 0, bad
    got, wanted = tilec.compile(text, target=target)(m, a, c), tilec.compile(text, target="reference")(m, a, c)
    number = np.isfinite(wanted)
    np.testing.assert_array_equal(np.isfinite(got), number)
    np.testing.assert_allclose(got[number], wanted[number], rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_running_extreme_that_is_no_number_has_the_gradient_zero(target, bad):
    text = "function f(A[N, C], W[C]) -> (O) { O[j, c: 400, C] = <(abs(A[k, c] * W[c])), k <= j; }"
    rng = np.random.default_rng(6)
    a, do = rng.integers(-2048, 2048, (2, 400, 2)).astype("f4") / 1024
    a[300, 0] = bad
    for w in ([-0.5, 0], [1, 2], [np.inf, 1]):
        got, wanted = (
            tilec.compile(text, target=name).grad(wrt="W")(a, np.float32(w), do) for name in (target, "reference")
        )
        np.testing.assert_allclose(got, wanted, rtol=1e-3)
