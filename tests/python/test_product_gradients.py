"""Derivatives of products whose factors lie anywhere in the range of their type, while the derivative is in it: against
exact fractions."""
import functools
import itertools
import operator
import re
from fractions import Fraction

import numpy as np
import pytest

import tilec

TARGETS = ["cpu", "cpu:x86-64-v3", "opencl", "reference"]
TYPES = {"f32": ("f4", 30), "f64": ("f8", 250)}
SHAPES = [(1, 1), (3, 2), (2, 5), (40, 9), (17, 33), (1, 100), (5, 64)]


@functools.lru_cache(maxsize=None)
def compiled(text, target):
    return tilec.compile(text, target=target)


def factors(rng, rows, count, dtype, decades, order):
    """Rows of factors within 10^±decades, whose products are moderate: in any order, or the large ones first or
    last."""
    logs = rng.uniform(-decades, decades, (rows, count))
    for row in logs:
        while count > 1 and abs(row.sum()) > 3:
            row[:] = np.clip(row - row.sum() / count, -decades, decades)
    if count == 1:
        logs /= 10
    if order != "any":
        logs = np.sort(logs, 1)[:, :: 1 if order == "small first" else -1]
    return (10.0**logs * rng.uniform(1, 2, logs.shape) * rng.choice([-1, 1], logs.shape)).astype(dtype)


def exact(array):
    return [Fraction(float(x)) for x in np.ravel(array)]


def product(numbers):
    return functools.reduce(lambda a, b: a * b, numbers, Fraction(1))


def without(numbers, *left_out):
    return product(x for k, x in enumerate(numbers) if k not in left_out)


def without_each(numbers):
    """without(numbers, k) for each k, by the products of those before it and of those behind it."""
    ahead = list(itertools.accumulate(numbers, operator.mul, initial=Fraction(1)))
    behind = list(itertools.accumulate(reversed(numbers), operator.mul, initial=Fraction(1)))[::-1]
    return [a * b for a, b in zip(ahead, behind[1:])]


def agree(got, wanted, dtype, count, absolute=0):
    """Within some roundings for each factor; beyond the range of the type, infinities and what rounds to 0."""
    info = np.finfo(dtype)
    for value, want in zip(np.ravel(got), wanted):
        if abs(want) >= Fraction(float(info.max)):
            assert value == np.inf * (1 if want > 0 else -1), (value, float(want))
            continue
        allowed = (
            4 * (count + 2) * Fraction(float(info.eps)) * abs(want)
            + 4 * Fraction(float(info.smallest_subnormal))
            + absolute
        )
        assert np.isfinite(value) and abs(Fraction(float(value)) - want) <= allowed, (value, float(want))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type", TYPES)
def test_the_issue(target, type):
    dtype = TYPES[type][0]
    f = compiled(f"function f({type} X[I]) -> (P) {{ P[] = *(X[i]); }}", target)
    x = np.array([1e30, 1e30, 2, 1e-30, 1e-30], dtype) if type == "f32" else np.array([1e250, 1e250, 2, 1e-250, 1e-250])
    np.testing.assert_allclose(
        f.grad()(x, dP=np.ones((), dtype)), 2 / x.astype("f8") if type == "f32" else 2 / x, rtol=1e-6
    )
    np.testing.assert_allclose(f.jvp()(x, tX=x), 10, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("order", ["any", "small first", "large first"])
def test_rows(target, type, order):
    dtype, decades = TYPES[type]
    rng = np.random.default_rng(1)
    f = compiled(f"function f({type} X[R, N]) -> (P) {{ P[r: R] = *(X[r, i]); }}", target)
    for rows, count in SHAPES:
        x = factors(rng, rows, count, dtype, decades, order)
        x[rng.random(x.shape) < 0.5 / count] = 0
        if rows > 1:
            x[1, rng.integers(count, size=2)] = 0
        dp = (10.0 ** rng.uniform(-decades, decades, rows)).astype(dtype)
        wanted = [c * other for row, c in zip(x, exact(dp)) for other in without_each(exact(row))]
        agree(f.grad()(x, dP=dp), wanted, dtype, count)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "text",
    [
        "P[j, i: N, M] = *(X[i, k, j]);",
        "P[i: M] = *(X[i, k, j]);",
        "P[] = *(X[i, k, j]);",
        "P[k, i: K, M] = *(X[i, k, j]);",
    ],
)
def test_axes(target, text):
    rng = np.random.default_rng(2)
    f = compiled(f"function f(f32 X[M, K, N]) -> (P) {{ {text} }}", target)
    names = {"i": 0, "k": 1, "j": 2}
    kept = [names[c] for c in text[2 : text.index(":" if ":" in text else "]")] if c in names]
    folded = [d for d in range(3) if d not in kept]
    x = np.zeros((6, 5, 7), "f4")
    rows = np.moveaxis(x, kept + folded, range(3)).reshape([x.shape[d] for d in kept] + [-1])
    count = rows.shape[-1]
    values = factors(rng, rows[..., 0].size, count, "f4", 30, "any")
    x = np.moveaxis(values.reshape([x.shape[d] for d in kept + folded]), range(3), kept + folded).copy()
    dp = rng.standard_normal([x.shape[d] for d in kept]).astype("f4")
    got = np.moveaxis(f.grad()(x, dP=dp), kept + folded, range(3)).reshape(-1, count)
    agree(got, [c * other for row, c in zip(values, exact(dp)) for other in without_each(exact(row))], "f4", count)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "reach",
    [
        "j <= i",
        "j >= i",
        "j < i",
        "0 <= i - j < 4",
        "0 <= j - 2*i < 3",
        "j <= i + 2",
        "i - 30 <= j <= i",
        "i - 3 <= j <= i + 1",
        "j <= i, i <= 5",
        "0 <= 3*j - i < 4",
        "j >= i - 2, i >= 4",
        "j <= 2*i, j >= 2*i - 2",
    ],
)
def test_running_products_and_windows(target, reach):
    rng = np.random.default_rng(3)
    outputs = "N/2" if "2*i" in reach else "N"
    f = compiled(f"function f(f32 X[R, N]) -> (P) {{ P[r, i: R, {outputs}] = *(X[r, j]), {reach}; }}", target)
    n, m = 14, 7 if "2*i" in reach else 14
    for order in ["any", "small first", "large first"]:
        x = factors(rng, 3, n, "f4", 30, order)
        x[2, 4] = 0
        dp = rng.standard_normal((3, m)).astype("f4")
        wanted, absolute = [], []
        for row, cotangent in zip(x, dp):
            row, cotangent = exact(row), exact(cotangent)
            sets = [[j for j in range(n) if eval(reach.replace(",", " and"), {"i": i, "j": j})] for i in range(m)]
            for k in range(n):
                terms = [cotangent[i] * product(row[j] for j in sets[i] if j != k) for i in range(m) if k in sets[i]]
                wanted.append(sum(terms, Fraction(0)))
                absolute.append(sum(map(abs, terms), Fraction(0)))
        got = f.grad()(x, dP=dp).ravel()
        for value, want, size in zip(got, wanted, absolute):
            if size < Fraction(float(np.finfo("f4").max)):   # else a term of the sum is infinite by right
                agree([value], [want], "f4", n, absolute=4 * n * Fraction(float(np.finfo("f4").eps)) * size)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type", TYPES)
def test_bodies(target, type):
    dtype, decades = TYPES[type]
    rng = np.random.default_rng(4)
    f = compiled(
        f"function f({type} X[I], {type} W[J, I]) -> (P, Q) {{ P[j: J] = *(X[i] * W[j, i]); Q[j: J] = *(1 + W[j, i]); }}",
        target,
    )
    eps = Fraction(float(np.finfo(dtype).eps))
    for rows, count in [(1, 3), (4, 6), (3, 17), (20, 5)]:
        both = factors(rng, rows, count, dtype, decades // 2, "any")
        x = (10.0 ** rng.uniform(-decades // 4, decades // 4, count)).astype(dtype)
        w = both / x
        dp = rng.standard_normal(rows).astype(dtype)
        dx, dw = f.grad(of="P")(x, w, dP=dp)
        values = [[a * b for a, b in zip(exact(x), exact(row))] for row in w]
        others, rows_of_w, x_exact = [without_each(v) for v in values], [exact(row) for row in w], exact(x)
        terms = [[c * row[k] * o[k] for row, o, c in zip(rows_of_w, others, exact(dp))] for k in range(count)]
        for got, parts in zip(dx, terms):
            agree([got], [sum(parts)], dtype, 2 * count, 16 * count * eps * sum(map(abs, parts)))
        agree(
            dw,
            [c * x_exact[k] * o[k] for o, c in zip(others, exact(dp)) for k in range(count)],
            dtype,
            2 * count,
        )
        (dw,) = [f.grad(of="Q", wrt="W")(x, both, dQ=dp)]
        ones = [
            [Fraction(float(dtype_one + b)) for b in row] for row in both for dtype_one in [np.dtype(dtype).type(1)]
        ]
        agree(dw, [c * other for v, c in zip(ones, exact(dp)) for other in without_each(v)], dtype, 2 * count)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type", TYPES)
def test_tangents(target, type):
    dtype, decades = TYPES[type]
    rng = np.random.default_rng(5)
    f = compiled(f"function f({type} X[R, N]) -> (P) {{ P[r: R] = *(X[r, i]); }}", target)
    for rows, count in SHAPES:
        x = factors(rng, rows, count, dtype, decades, "any")
        t = (x * rng.standard_normal(x.shape)).astype(dtype)  # so that no term is far from the others
        got = f.jvp()(x, tX=t)
        for value, row, direction in zip(got, x, t):
            terms = [a * other for a, other in zip(exact(direction), without_each(exact(row)))]
            agree(
                [value],
                [sum(terms)],
                dtype,
                0,
                8 * (count + 2) * Fraction(float(np.finfo(dtype).eps)) * sum(map(abs, terms)),
            )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", ["grad", "jvp"])
def test_second_derivatives(target, mode):
    rng = np.random.default_rng(6)
    f = compiled("function f(f32 X[N]) -> (P) { P[] = *(X[i]); }", target).grad()
    for count, order in [(2, "any"), (5, "small first"), (9, "large first"), (12, "any")]:
        x = factors(rng, 1, count, "f4", 25, order)[0]
        if count == 5:
            x[2] = 0
        v = x * rng.standard_normal(count).astype("f4")
        if count == 5:
            v[2] = 1
        got = (
            f.grad(wrt="X")(x, dP=np.float32(1), ddX=v) if mode == "grad" else f.jvp(wrt="X")(x, dP=np.float32(1), tX=v)
        )
        for k in range(count):
            terms = [exact(v)[j] * without(exact(x), j, k) for j in range(count) if j != k]
            if sum(map(abs, terms)) < Fraction(float(np.finfo("f4").max)):
                agree(
                    [got[k]],
                    [sum(terms)],
                    "f4",
                    0,
                    8 * (count + 2) * Fraction(float(np.finfo("f4").eps)) * sum(map(abs, terms)),
                )


@pytest.mark.parametrize("target", TARGETS)
def test_infinities_and_nan_reach_only_what_they_multiply(target):
    f = compiled("function f(f32 X[R, N]) -> (P) { P[r: R] = *(X[r, i]); }", target)
    inf, nan = np.inf, np.nan
    x = np.array(
        [[2, inf, 3], [inf, -inf, 3], [nan, 2, 3], [0, inf, 3], [0, nan, inf], [0, 0, inf], [-inf, 5, 7]], "f4"
    )
    want = [
        [inf, 6, inf],
        [-inf, inf, -inf],
        [6, nan, nan],
        [inf, 0, nan],
        [nan, nan, nan],
        [nan, nan, 0],
        [35, -inf, -inf],
    ]
    np.testing.assert_array_equal(f.grad()(x, dP=np.ones(7, "f4")), np.array(want, "f4"))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type, dtype, decades", [("f16", "f2", 4)])
def test_halves(target, type, dtype, decades):
    rng = np.random.default_rng(7)
    f = compiled(f"function f({type} X[R, N]) -> (P) {{ P[r: R] = *(X[r, i]); }}", target)
    for order in ["any", "small first", "large first"]:
        x = factors(rng, 6, 9, dtype, decades, order)
        dp = rng.standard_normal(6).astype(dtype)
        agree(
            f.grad()(x, dP=dp),
            [c * other for row, c in zip(x, exact(dp)) for other in without_each(exact(row))],
            dtype,
            9,
        )


@pytest.mark.parametrize("target", TARGETS)
def test_a_condition_keeps_out_what_it_excludes(target):
    f = compiled("function f(f32 X[N]) -> (P) { P[] = *(X[i] > 0 ? X[i] : 1.0); }", target)
    got = f.grad()(np.array([2, -1, np.inf, 3], "f4"), dP=np.float32(1))
    np.testing.assert_array_equal(got, [np.inf, 0, 6, np.inf])


def test_the_work_is_linear():
    text = (
        compiled("function f(f32 X[R, N]) -> (P) { P[r: R] = *(X[r, i]); }", "cpu")
        .grad()
        .emit("plan", np.zeros((64, 100), "f4"), dP=np.zeros(64, "f4"))
    )
    assert "scan dX" in text and "contract" not in text, text


def room(text, **sizes):
    """Elements of the tensors that the gradient makes on its way."""
    made = re.findall(r"^  (?:Fac|Own|Others)\w*\[.*?: (.*?)\] =", compiled(text, "cpu").emit("gradient"), re.M)
    return sum(int(np.prod(eval(f"({shape},)", {**sizes, "min": min, "max": max}))) for shape in made)


@pytest.mark.parametrize("outputs, body, factors", [
    ("i: N", "X[p]), 0 <= i - p < 5", 5),
    ("i: N", "X[p]), i - 300 <= p <= i", 300),
    ("i: N", "X[p]), p <= i + 1, p >= i - 3", 5),
    ("i: N", "X[p]), p <= i, i <= 5", 1),
    ("i: N", "X[p]), p <= i, p >= i - 2, i >= 7", 3),
    ("i: N", "X[p]), 0 <= 3*p - i < 6", 6),
    ("i: N", "X[p] * K[i - p])", 9),
    ("i: N", "X[p] * X[q]), 0 <= i - p < 3, p <= q <= p + 1", 6),
    ("i, j: N, 4", "X[p] + j), 0 <= i - p < 5", 20),
    ("i: N", "X[i - p]), p < 5", 5),
    ("i, i: N, N", "X[i] + K[k])", 9),
    ("100*i: 100*N", "X[i] + K[k])", 9),
    ("i, 2*i + 3, i: N, 3*N, N + 7", "X[i] + K[k])", 9),
    ("i + j, j, i: N, 3, N", "X[i] + K[k]), 0 <= j < 3", 27),
    ("j, j: N, 5", "X[i] * K[j] + X[j])", 5),
], ids=str)
def test_the_room_is_that_of_the_factors(outputs, body, factors):
    text = f"function f(f32 X[N], f32 K[W]) -> (P) {{ P[{outputs}] = *({body}; }}"
    assert room(text, N=100_000, W=9) <= 8 * factors * 100_000
    assert room(text, N=10, W=9) <= 8 * 10 * max(10, min(factors, 40))


def test_agreement_of_sparse_targets():
    rng = np.random.default_rng(8)
    x, k = rng.uniform(0.5, 1.5, 6).astype("f4"), rng.uniform(0.5, 1.5, 3).astype("f4")
    for outputs in [
        "i, i: N, N",
        "100*i: 100*N",
        "100*i: 350",
        "i, 2*i + 3, i: N, N, N + 7",
        "i + j, j, i: N, 3, N",
        "2*i - 1, j: N, 2",
        "j, i: 2, 4",
        "i/2: N",
        "(i + 1)/2, i: N, N",
    ]:
        text = f"function f(f32 X[N], f32 K[W]) -> (P) {{ P[{outputs}] = *(X[i] + K[k]*j); }}".replace(
            "*j", "*j" if "j" in outputs else ""
        )
        text = text.replace("*j);", "*j), 0 <= j < 3;")
        wanted = compiled(text, "reference")
        dp = rng.standard_normal(wanted(x, k).shape).astype("f4")
        for target in ["cpu", "cpu:x86-64-v3"]:
            for got, want in zip(compiled(text, target).grad()(x, k, dP=dp), wanted.grad()(x, k, dP=dp)):
                np.testing.assert_allclose(got, want, rtol=1e-5)
        step = 1e-3 * rng.standard_normal(x.shape).astype("f4")
        moved = wanted((x + step).astype("f4"), k).astype("f8") - wanted((x - step).astype("f4"), k)
        assert np.vdot(moved, dp) == pytest.approx(2 * np.vdot(wanted.grad()(x, k, dP=dp)[0], step), rel=2e-2, abs=1e-4)
