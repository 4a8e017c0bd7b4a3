"""Every f32 function within 2 ulp of the exact value, on every backend, over the whole range of floats.

Every 40,009th float by default; TILEC_STRIDE=1 takes all of them (an hour). `python test_accuracy.py` prints the table.
"""
import math
import os
import platform

import numpy as np
import pytest

import tilec

STRIDE = int(os.environ.get("TILEC_STRIDE", 40009))
CHUNK = 1 << 22
TARGETS = ["cpu", "cpu:aarch64" if platform.machine() == "aarch64" else "cpu:x86-64-v3", "opencl", "reference"]
ONE = {
    name: getattr(np, name)
    for name in (
        "exp",
        "log",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "ceil",
        "floor",
        "trunc",
        "sign",
        "abs",
    )
}
ONE |= {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "recip": lambda x: 1 / x,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    "relu": lambda x: np.where(x < 0, 0, x),
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}
TWO = {"pow": np.power, "atan2": np.arctan2, "mod": np.fmod, "max": np.maximum, "min": np.minimum}


def floats(first: int) -> np.ndarray:
    """The next chunk of every STRIDE-th float, by bit pattern."""
    return (
        np.arange(first, min(2**32, first + CHUNK * STRIDE), STRIDE, dtype=np.uint64).astype(np.uint32).view(np.float32)
    )


def worst(value: np.ndarray, exact: np.ndarray) -> float:
    """In units in the last place of the exact value; infinite where one is NaN or infinite and the other is not."""
    nearest = exact.astype(np.float32)
    same = (nearest == value) | (np.isnan(nearest) & np.isnan(value))
    finite = np.isfinite(nearest)
    error = np.abs(value.astype(np.float64) - exact) / np.spacing(np.abs(np.where(finite, nearest, 1))).astype(
        np.float64
    )
    largest = float(np.finfo(np.float32).max)
    error = np.where((np.abs(exact) > largest) & (np.abs(value) >= largest), 1, error)   # overflow one way or the other
    error = np.where(same & ~finite, 0, error)
    return float(np.max(np.where(np.isnan(error), np.inf, error), initial=0))


def program(name: str, target: str):
    arguments = "X" if name in ONE else "X, Y"
    return tilec.compile(
        "function (f32 X[N]%s) -> (Z) { Z = %s(%s); }" % ("" if name in ONE else ", f32 Y[N]", name, arguments),
        target=target,
    )


def measure(name: str, target: str) -> float:
    f, most = program(name, target), 0.0
    rng = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for first in range(0, 2**32, CHUNK * STRIDE):
            x = floats(first)
            if name in ONE:
                most = max(most, worst(f(x), ONE[name](x.astype(np.float64))))
                continue
            for y in (
                rng.permutation(x),
                rng.uniform(-8, 8, x.size).astype(np.float32),
                np.abs(x) * rng.uniform(0.5, 2, x.size).astype(np.float32),
            ):
                most = max(most, worst(f(x, y), TWO[name](x.astype(np.float64), y.astype(np.float64))))
    return most


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_within_two_ulp(name, target):
    assert measure(name, target) <= 2


@pytest.mark.parametrize("shape", [(300_000,), (1_000_000,), (10_000_000,), (100, 30_000)])
@pytest.mark.parametrize("body", ["X[i]", "X[i] * X[i]"])
def test_long_sums_of_equal_numbers(shape, body):
    """Whose roundings all go one way, unlike those of random numbers."""
    x = np.full(shape, 0.1, np.float32)
    rows = "m, " if len(shape) == 2 else ""
    text = "function (X[%sN]) -> (Y) { Y[%s] = +(%s); }" % (rows.upper(), "m: M" if rows else "", body)
    y = tilec.compile(text.replace("[i]", "[%si]" % rows))(x)
    term = float(x.flat[0]) ** (1 + ("*" in body))
    assert np.abs(y / (term * shape[-1]) - 1).max() < 2e-6


if __name__ == "__main__":
    for each in [*ONE, *TWO]:
        print("%-8s" % each, *("%8.2f" % measure(each, target) for target in TARGETS), flush=True)
