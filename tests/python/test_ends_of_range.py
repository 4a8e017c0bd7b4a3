"""Derivatives at the ends of each float type's range, and of products in the two narrow ones: what is representable is
right, in every type and on every target. NumPy has no bf16, so a program of bf16 takes and gives f32s that are
bf16s."""
import numpy as np
import pytest

import tilec

TARGETS = ["cpu", "cpu:x86-64-v3", "opencl", "reference"]
# NumPy's type of what goes in and out, epsilon, least normal, greatest
TYPES = {
    "f16": ("f2", 2.0**-10, 2.0**-14, 65504.0),
    "bf16": ("f4", 2.0**-7, 2.0**-126, 3.3895313892515355e38),
    "f32": ("f4", 2.0**-23, 2.0**-126, 3.4028234663852886e38),
    "f64": ("f8", 2.0**-52, 2.0**-1022, 1.7976931348623157e308),
}
# 64 bits of mantissa and 15 of exponent, where it is wider than f64
EXACT = np.longdouble
pytestmark = pytest.mark.skipif(np.finfo(EXACT).maxexp < 16384, reason="no numbers wider than f64 here")


def rounded(x, kind):
    x = np.asarray(x, np.float64).astype(TYPES[kind][0])
    return (x.view("u4") & np.uint32(0xFFFF0000)).view("f4") if kind == "bf16" else x


def program(kind, names, body):
    """`body` over lower-case names of `kind`, which the inputs become."""
    own = "".join("V%s = %s(%s); " % (n, kind, n) for n in names) if kind == "bf16" else ""
    taken = "f32" if kind == "bf16" else kind
    for n in names:
        body = body.replace("{%s}" % n, "V" + n if kind == "bf16" else n)
    end = "Y = f32(R);" if kind == "bf16" else "Y = R;"
    return "function f(%s) -> (Y) { %s%s %s }" % (", ".join("%s %s[N]" % (taken, n) for n in names), own, body, end)


def agree(got, wanted, kind, roundings, where):
    dtype, eps, least, most = TYPES[kind]
    for value, want, at in zip(np.ravel(got), np.ravel(wanted), where):
        if abs(want) > most * (1 + eps / 4):
            assert abs(float(value)) >= most and (value > 0) == (want > 0), (at, value, want)
            continue
        allowed = roundings * eps * abs(want) + EXACT(least)  # below it bits are lost on the way
        assert abs(EXACT(value) - want) <= allowed or (abs(want) > most * (1 - 4 * eps) and np.isinf(value)), (
            at,
            value,
            want,
        )


def magnitudes(kind, count=24):
    dtype, eps, least, most = TYPES[kind]
    logs = np.linspace(np.log10(least), np.log10(most) - 1e-3, count)
    return rounded(10.0**logs, kind)


def both_signs(x):
    return np.concatenate([x, -x])


# of one argument: body, where, derivative
ONE = {
    "asinh": ("R = asinh({X});", both_signs, lambda x: 1 / np.sqrt(1 + x * x)),
    "acosh": ("R = acosh({X});", lambda x: x[x > 1.5], lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1))),
    "atan": ("R = atan({X});", both_signs, lambda x: 1 / (1 + x * x)),
    "recip": ("R = 1.0 / {X};", both_signs, lambda x: -1 / x / x),
    "sqrt": ("R = sqrt({X});", lambda x: x, lambda x: 0.5 / np.sqrt(x)),
    "log": ("R = log({X});", lambda x: x, lambda x: 1 / x),
    "tanh": ("R = tanh({X});", lambda x: both_signs(x[x < 1]), lambda x: 1 / np.cosh(x) ** 2),
    "square": ("R = {X} * {X};", both_signs, lambda x: 2 * x),
    "cube": ("R = pow({X}, 3.0);", lambda x: x, lambda x: 3 * x * x),
    "root": ("R = pow({X}, 0.5);", lambda x: x, lambda x: 0.5 / np.sqrt(x)),
    "inverse_square": ("R = pow({X}, -2.0);", lambda x: x, lambda x: -2 / x / x / x),
}
# of two: body, derivatives by X and Z
TWO = {
    "quotient": ("R = {X} / {Z};", lambda x, z: 1 / z, lambda x, z: -(x / z) / z),
    "atan2": ("R = atan2({X}, {Z});", lambda x, z: z / (x * x + z * z), lambda x, z: -x / (x * x + z * z)),
    "product": ("R = {X} * {Z};", lambda x, z: z, lambda x, z: x),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ONE)
def test_of_one_argument(name, kind, target):
    body, where, derivative = ONE[name]
    x = where(magnitudes(kind))
    got = tilec.compile(program(kind, ["X"], body), target=target).grad()(x, np.ones_like(x))
    with np.errstate(all="ignore"):
        agree(got, derivative(x.astype(EXACT)), kind, 8, x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", TWO)
def test_of_two_arguments(name, kind, target):
    body, by_x, by_z = TWO[name]
    x, z = (a.ravel() for a in np.meshgrid(both_signs(magnitudes(kind, 14)), magnitudes(kind, 14)))
    dx, dz = tilec.compile(program(kind, ["X", "Z"], body), target=target).grad()(x, z, np.ones_like(x))
    with np.errstate(all="ignore"):
        agree(dx, by_x(x.astype(EXACT), z.astype(EXACT)), kind, 8, list(zip(x, z)))
        agree(dz, by_z(x.astype(EXACT), z.astype(EXACT)), kind, 8, list(zip(x, z)))


def factors(rng, rows, count, kind):
    """Anywhere in the range, with moderate products."""
    dtype, eps, least, most = TYPES[kind]
    decades = np.log10(most) * 0.8
    logs = rng.uniform(-decades, decades, (rows, count))
    for row in logs:
        for _ in range(200):
            if abs(row.sum()) < 1:
                break
            row[:] = np.clip(row - row.sum() / count, -decades, decades)
    return rounded(10.0**logs * rng.choice([-1, 1], logs.shape), kind)


def prefixes(x, without=None):
    """Products over all k <= i, but for one."""
    x = x.astype(EXACT)
    if without is not None:
        x = x.copy()
        x[:, without] = 1
    return np.cumprod(x, 1)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("rows, count", [(3, 2), (2, 5), (17, 33), (1, 100)])
def test_products_and_their_gradients(rows, count, kind, target):
    x = factors(np.random.default_rng(rows * count), rows, count, kind)
    taken, inner, own = ("f32", "V", "V[i, k: N, M] = =(bf16(X[i, k])); ") if kind == "bf16" else (kind, "X", "")
    f = tilec.compile(
        "function f(%s X[N, M]) -> (Y) { %sR[i: N] = *(%s[i, k]); Y = %s; }"
        % (taken, own, inner, "f32(R)" if own else "R"),
        target=target,
    )
    with np.errstate(all="ignore"):
        agree(f(x), np.prod(x.astype(EXACT), 1), kind, 4, x)
        wanted = np.stack([np.prod(np.delete(x, k, 1).astype(EXACT), 1) for k in range(count)], 1)
        agree(f.grad()(x, np.ones(rows, x.dtype)), wanted, kind, 8, np.ravel(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("count", [3, 20, 50])
def test_running_products_and_their_gradients(count, kind, target):
    rng = np.random.default_rng(count)
    x = rounded(rng.choice([0.5, 1, 2, -1], (2, count)) * rng.uniform(0.9, 1.1, (2, count)), kind)
    x[:, 1] = rounded(2.0**12, kind)
    x[:, 2] = rounded(2.0**-12, kind)
    taken, inner, own = ("f32", "V", "V[i, k: N, M] = =(bf16(X[i, k])); ") if kind == "bf16" else (kind, "X", "")
    f = tilec.compile(
        "function f(%s X[N, M]) -> (Y) { %sR[i, t: N, M] = *(%s[i, k]), k <= t; Y = %s; }"
        % (taken, own, inner, "f32(R)" if own else "R"),
        target=target,
    )
    with np.errstate(all="ignore"):
        agree(f(x), prefixes(x), kind, 4, np.ravel(x))
        seed = np.zeros_like(x)
        seed[:, -1] = 1                                       # one term alone: sums of terms of both signs cancel
        wanted = np.stack([prefixes(x, k)[:, -1] for k in range(count)], 1)
        agree(f.grad()(x, seed), wanted, kind, 8, np.ravel(x))
