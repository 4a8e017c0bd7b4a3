"""std/softmax.tile against PyTorch, called and as entries; safe far out; NumPy where PyTorch is absent."""
import numpy as np
import pytest

from std_compare import Case, compare, program, program_of

SOFT = lambda dim: lambda x: x.softmax(dim)
LOG = lambda dim: lambda x: x.log_softmax(dim)
SUM = lambda dim: lambda x: x.logsumexp(dim)
MASK = np.random.default_rng(0).random((5, 7)) < 0.5
MASK[2] = False


def masked(x, mask):
    return x.masked_fill(~mask, -1e30).softmax(-1) * mask


CASES = [
    Case(name, (shape,), f, low=-9, high=9)
    for name, shape, f in [
        ("softmax", (5, 7), SOFT(-1)),
        ("softmax", (3, 1), SOFT(-1)),
        ("softmax1", (11,), SOFT(0)),
        ("softmax3", (2, 3, 5), SOFT(-1)),
        ("softmax4", (2, 1, 3, 5), SOFT(-1)),
        ("softmax_columns", (5, 7), SOFT(0)),
        ("softmax_channels", (2, 5, 3, 2), SOFT(1)),
        ("log_softmax", (5, 7), LOG(-1)),
        ("log_softmax1", (11,), LOG(0)),
        ("log_softmax3", (2, 3, 5), LOG(-1)),
        ("log_softmax_columns", (5, 7), LOG(0)),
        ("logsumexp", (5, 7), SUM(-1)),
        ("logsumexp1", (11,), SUM(0)),
        ("logsumexp3", (2, 3, 5), SUM(-1)),
        ("logsumexp_columns", (5, 7), SUM(0)),
        ("cumulative_logsumexp", (3, 7), lambda x: x.logcumsumexp(-1)),
    ]
] + [Case("masked_softmax", ((5, 7), MASK), masked)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_entry(case):
    pytest.importorskip("torch")
    compare("softmax", case, [np.float32, np.float64][CASES.index(case) % 2])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_called(case):
    pytest.importorskip("torch")
    case = Case(case.function, case.inputs, case.reference, call=case.function, low=case.low, high=case.high)
    compare("softmax", case, [np.float64, np.float32][[c.function for c in CASES].index(case.function) % 2])


@pytest.mark.parametrize("target", ["reference", "opencl"])
def test_other_targets(target):
    pytest.importorskip("torch")
    compare("softmax", CASES[0], np.float32, target)
    compare("softmax", CASES[0], np.float16, target)


def test_far_out():
    x = np.array([[1000, 1000], [-1000, -1000], [-np.inf, -np.inf], [-np.inf, 3]], np.float32)
    assert np.allclose(program("softmax", "logsumexp")(x), [1000.6931, -999.30685, -np.inf, 3], atol=1e-4)
    assert np.allclose(program("softmax", "softmax")(x[[0, 1, 3]]), [[0.5, 0.5], [0.5, 0.5], [0, 1]])
    none = np.zeros((4, 2), bool)
    assert (program("softmax", "masked_softmax")(x, none) == 0).all()
    assert (program("softmax", "masked_softmax").grad(wrt="X")(x, none, np.ones_like(x)) == 0).all()
    assert np.isfinite(program("softmax", "logsumexp").grad()(x[[0, 1, 3]], np.ones(3, np.float32))).all()


def test_numpy():
    x = np.random.default_rng(1).standard_normal((6, 9))
    e = np.exp(x)
    assert np.allclose(program("softmax", "softmax")(x), e / e.sum(1, keepdims=True), atol=1e-14)
    assert np.allclose(program("softmax", "logsumexp")(x), np.log(e.sum(1)), atol=1e-14)
    assert np.allclose(program("softmax", "cumulative_logsumexp")(x), np.log(e.cumsum(1)), atol=1e-14)


# the function, the rank of X and the axis it sums along
FAR_OUT = [("logsumexp", 2, -1), ("logsumexp1", 1, -1), ("logsumexp3", 3, -1), ("logsumexp_columns", 2, 0),
           ("log_softmax", 2, -1), ("log_softmax1", 1, -1), ("log_softmax3", 3, -1), ("log_softmax_columns", 2, 0),
           ("softmax", 2, -1), ("softmax1", 1, -1), ("softmax3", 3, -1), ("softmax_columns", 2, 0)]


def derivatives(function, x, axis, cotangent, direction):
    """dX for a cotangent, and tY for a direction, in f64."""
    e = np.exp(x - x.max(axis, keepdims=True))
    p = e / e.sum(axis, keepdims=True)
    total = lambda v: v.sum(axis, keepdims=True)
    if function.startswith("logsumexp"):
        return p * np.expand_dims(cotangent, axis), (p * direction).sum(axis)
    if function.startswith("log_softmax"):
        return cotangent - p * total(cotangent), direction - total(p * direction)
    return p * (cotangent - total(p * cotangent)), p * (direction - total(p * direction))


@pytest.mark.parametrize("half, unit", [("f16", 2.0**-11), ("bf16", 2.0**-8)])
@pytest.mark.parametrize("function, rank, axis", FAR_OUT)
def test_derivatives_of_halves_are_rounded_once(function, rank, axis, half, unit):
    """Where X is large its logsumexp is no half: the derivatives are those of the sum that was not rounded."""
    rng = np.random.default_rng(7)
    shape = {1: (7,), 2: (5, 7), 3: (2, 3, 7)}[rank]
    x = (1000 if half == "f16" else 128) + rng.integers(-4, 5, shape) * np.float64(1 if half == "f16" else 2)
    cotangent = rng.integers(1, 4, np.sum(x, axis).shape if function.startswith("logsumexp") else shape) / 4.0
    direction = rng.integers(1, 8, shape) / 4.0
    caller = program_of(
        'import "std/softmax.tile"; function caller(f32 X[%s]) -> (Y) { Y = f32(%s(%s(X))); }'
        % (", ".join("ABC"[:rank]), function, half)
    )
    wanted_dx, wanted_ty = derivatives(function, x, axis, cotangent, direction)
    dx = caller.grad()(*[v.astype("f4") for v in (x, cotangent)])
    ty = caller.jvp()(*[v.astype("f4") for v in (x, direction)])
    # the derivative of softmax reads its result, a half, times what cancels
    allowed = (
        dict(rtol=1.05 * unit, atol=2e-6)
        if not function.startswith("softmax")
        else dict(rtol=1.05 * unit, atol=4 * unit)
    )
    np.testing.assert_allclose(dx, wanted_dx, **allowed)
    np.testing.assert_allclose(ty, wanted_ty, **allowed)
