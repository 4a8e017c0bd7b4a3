"""std/elementwise.tile against NumPy: every function that NumPy has, on numbers and on the ends of their range."""
import math

import numpy as np
import pytest

import tilec
from std_cases import Case, compare

ROWS = ((3, 5), (5,))                                      # the second is broadcast
PLAIN = {                                                  # of numbers from 0.2 to 0.9, with a second operand
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "rsub": lambda x, z: z - x,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "arctan2": np.arctan2,
    "copysign": np.copysign,
    "xlog1py": lambda x, z: x * np.log1p(z),
}
OF_ONE = {
    **{
        name: getattr(np, name)
        for name in (
            "abs sign floor ceil trunc exp log sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh "
            "square negative reciprocal log2 log10 exp2 deg2rad rad2deg sinc nan_to_num rint fabs absolute"
        ).split()
    },
    "arccosh": lambda x: np.arccosh(1 + x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf),
    "relu": lambda x: np.maximum(x, 0),
    "logit": lambda x: np.log(x / (1 - x)),
    "log1mexp": lambda x: np.log1p(-np.exp(-x)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
}
CASES = [Case(tilec.std._heading(name).name, ROWS, f, low=0.2, high=0.9) for name, f in PLAIN.items()]
CASES += [
    Case(tilec.std._heading(name).name, ((3, 5),), f, low=0.2, high=0.9)
    for name, f in OF_ONE.items()
    if tilec.std._heading(name).family == "elementwise" and name != "arccosh"
]
CASES += [
    Case("acosh_each", ((3, 5),), np.arccosh, low=1.5, high=3),
    Case("lerp", ((3, 5), (3, 5), (5,)), lambda x, z, w: x + w * (z - x)),
    Case("addcmul", ((3, 5), (5,), (3, 1)), lambda x, a, b: x + 3 * a * b, define={"value": 3}),
    Case("addcdiv", ((3, 5), (5,), (3, 1)), lambda x, a, b: x + 3 * a / b, define={"value": 3}, low=0.5, high=2),
    Case("clip", ((3, 5), (5,), ()), np.clip, low=0.0, high=1.0),
    Case("where", (np.arange(5) % 2 == 0, (3, 5), (3, 1)), np.where),
    Case("masked_fill", ((3, 5), np.arange(5) % 2 == 0, ()), lambda x, m, v: np.where(m, v, x)),
    Case("ldexp", ((3, 5), np.arange(-2, 3)), np.ldexp),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_numpy(case):
    compare("elementwise", case, np.float64)


ENDS = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, np.inf, -np.inf, np.nan])
INTEGERS = np.array([-7, -2, -1, 0, 1, 2, 7], np.int32)
OPERATORS = (
    "equals not_equal less less_equal greater greater_equal logical_and logical_or logical_xor maximum minimum fmax fmin"
).split()


def numpy_of(name):
    return np.equal if name == "equals" else getattr(np, name)


@pytest.mark.parametrize("name", [*OPERATORS, "remainder", "fmod", "floor_divide", "heaviside", "copysign", "isclose"])
@pytest.mark.parametrize("values", [ENDS, ENDS.astype("f4"), INTEGERS], ids=["f64", "f32", "i32"])
def test_of_two_at_the_ends(name, values):
    if values.dtype.kind == "i" and name in ("heaviside", "copysign", "fmax", "fmin", "isclose"):
        pytest.skip("of numbers with a point")
    x, z = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = numpy_of(name)(x, z)
    found = getattr(tilec.std, name)(x, z)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"])
def test_of_one_at_the_ends(name):
    np.testing.assert_array_equal(getattr(tilec.std, name)(ENDS), getattr(np, name)(ENDS))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits(name):
    x, z = (a.ravel() for a in np.meshgrid(INTEGERS, INTEGERS[3:]))
    np.testing.assert_array_equal(getattr(tilec.std, name)(x, z), getattr(np, name)(x, z))
    np.testing.assert_array_equal(tilec.std.bitwise_not(x), ~x)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_largest_numbers_of_a_type(dtype):
    np.testing.assert_array_equal(tilec.std.nan_to_num(ENDS.astype(dtype)), np.nan_to_num(ENDS.astype(dtype)))


def test_division():
    x, z = INTEGERS[:, None], np.array([-3, 2], np.int32)
    np.testing.assert_allclose(tilec.std.divide(x, z), x / z, rtol=1e-6)
    np.testing.assert_array_equal(tilec.std.divide(x, z, rounding_mode="floor"), x // z)
    np.testing.assert_array_equal(tilec.std.divide(x, z, rounding_mode="trunc"), np.trunc(x / z))
    assert tilec.std.divide(x, z, rounding_mode="trunc").dtype == np.int32


def test_ends_that_are_left_out():
    x = np.linspace(-2, 2, 9)
    np.testing.assert_array_equal(tilec.std.clip(x, min=0.5), np.maximum(x, 0.5))
    np.testing.assert_array_equal(tilec.std.clamp(x, max=0.5), np.minimum(x, 0.5))
    np.testing.assert_array_equal(tilec.std.clip(INTEGERS, -2, 2), np.clip(INTEGERS, -2, 2))


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4"])
@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "mish", "squareplus", "log1mexp"])
def test_of_integers_as_of_the_numbers_that_they_are(name, dtype):
    ends = {"u1": [1, 100, 255], "i1": [1, -128, 127], "i4": [1, -7, 90]}[dtype]
    x = np.array([v for v in ends if name != "log1mexp" or v > 0], dtype)
    of_each = getattr(tilec.std, name)
    np.testing.assert_array_equal(of_each(x), of_each(x.astype("f4")))


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4"])
def test_differences_of_integers_do_not_wrap(dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, z = np.array([0, least, 5], dtype), np.array([1, most, 3], dtype)
    wide = [a.astype("f8") for a in (x, z)]
    np.testing.assert_array_equal(tilec.std.isclose(x, z, atol=1.0), np.isclose(*wide, atol=1.0))
    np.testing.assert_array_equal(tilec.std.isclose(z, x, atol=1.0), np.isclose(*wide[::-1], atol=1.0))
    np.testing.assert_allclose(tilec.std.lerp(x, z, 0.25), wide[0] + 0.25 * (wide[1] - wide[0]), rtol=1e-6)
    np.testing.assert_allclose(tilec.std.dist(x, z), np.linalg.norm(wide[0] - wide[1]), rtol=1e-6)


def test_dimensions_are_said_once():
    x = np.ones((2, 3))
    np.testing.assert_array_equal(tilec.std.sum(x, dim=1, keepdim=False), [3, 3])
    np.testing.assert_array_equal(tilec.std.sum(x, dim=1, keepdim=True), [[3], [3]])
    with pytest.raises(TypeError, match="keeps no dimension"):
        tilec.std.cumsum(x, dim=1, keepdim=True)
    with pytest.raises(TypeError, match="dim= of .* says the same as start_dim="):
        tilec.std.sum(x, dim=0, start_dim=1)
