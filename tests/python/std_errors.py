"""What the tests of std/ share: its functions as this checkout has them, and how far results may be off.

An error is relative to the largest magnitude of what is expected; half the distance of the smallest numbers of a type,
which no rounding can be without, is none. TILEC_STD_ERRORS=1 prints the worst of each function
when Python ends.
"""
import atexit
import functools
import os
import pathlib

import numpy as np

import tilec

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDED = {"float16": 2.0**-25, "float32": 2.0**-150}      # half the distance of the smallest numbers
WORST: dict = {}                                           # (what, type): the largest error


@functools.lru_cache(maxsize=None)
def program(family: str, function: str, define: tuple = (), target: str = "cpu"):
    """A function of this checkout's std/FAMILY.tile, with imports from this checkout too."""
    return tilec.load(
        ROOT / "std" / (family + ".tile"), function=function, define=dict(define), target=target, include=[ROOT]
    )


def shown(function: str, inputs: tuple, define: dict) -> str:
    """A case of std_compare or std_cases in the titles of tests."""
    shapes = [i if isinstance(i, tuple) else i.shape if isinstance(i, np.ndarray) else None for i in inputs]
    given = [str(i) if shape is None else "x".join(map(str, shape)) for i, shape in zip(inputs, shapes)]
    return " ".join([function, *given, *("%s=%s" % item for item in define.items())])


def as_tuple(results) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def agree(what: str, got, expected, dtype, allowed: float):
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape, "%s has shape %s, expected %s" % (what, got.shape, expected.shape)
    usual = np.isfinite(expected)
    assert np.array_equal(got[~usual], expected[~usual], equal_nan=True), what
    error = np.abs(got[usual] - expected[usual]).max(initial=0.0)
    error = 0.0 if error <= ROUNDED.get(str(np.dtype(dtype)), 0.0) else error
    error /= max(np.abs(expected[usual]).max(initial=0.0), 1e-30)
    key = (what, str(np.dtype(dtype)))
    WORST[key] = max(WORST.get(key, 0.0), error)
    assert error <= allowed, "%s is off by %.2e of its largest magnitude" % (what, error)


def report():
    functions: dict = {}
    for (what, dtype), error in sorted(WORST.items()):
        row = functions.setdefault(what.split(".")[0], {})
        row[dtype] = max(row.get(dtype, 0.0), error)
    for name, row in functions.items():
        print("%-28s %s" % (name, "  ".join("%s %.1e" % item for item in sorted(row.items()))))


if os.environ.get("TILEC_STD_ERRORS"):
    atexit.register(report)
