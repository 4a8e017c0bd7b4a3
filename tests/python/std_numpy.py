"""Functions of std/ next to NumPy: values, and each element of the gradient next to differences of the NumPy function in f64. Needs no PyTorch."""
import functools
import pathlib

import numpy as np

import tilec

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORST: dict = {}                                           # (function, type): the largest error relative to the largest magnitude
ALLOWED = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3}
STEP = 1e-4


@functools.lru_cache(maxsize=None)
def program(family: str, function: str, define: tuple = (), target: str = "cpu"):
    """A function of this checkout's std/FAMILY.tile, with imports from this checkout too."""
    text = (ROOT / "std" / (family + ".tile")).read_text(encoding="utf-8")
    return tilec.compile(text, name=str(ROOT / (family + ".tile")), function=function, define=dict(define), target=target)


def as_tuple(results) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def agree(what: str, got, expected, dtype, allowed: float):
    assert got.shape == expected.shape, "%s is %s, expected %s" % (what, got.shape, expected.shape)
    error = np.abs(got.astype(np.float64) - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-30)
    key = (what.split(".")[0], str(np.dtype(dtype)))
    WORST[key] = max(WORST.get(key, 0.0), error)
    assert error <= allowed, "%s is off by %.2e of its largest magnitude" % (what, error)


def differences(reference, inputs, k: int, cotangent):
    """d<cotangent, reference>/d inputs[k], element by element: fourth-order central differences, exact for polynomials up to degree 4."""
    x, out = inputs[k], np.zeros(inputs[k].shape)
    def along(place, h):
        moved = x.copy()
        moved[place] += h
        return np.sum(cotangent * reference(*inputs[:k], moved, *inputs[k + 1:]))
    for place in np.ndindex(x.shape):
        near, far = along(place, STEP) - along(place, -STEP), along(place, 2*STEP) - along(place, -2*STEP)
        out[place] = (8*near - far) / (12*STEP)
    return out


def check(family: str, function: str, define: dict, inputs, reference, dtype=np.float64, target: str = "cpu"):
    """inputs: arrays; those of a float type are differentiated by."""
    f = program(family, function, tuple(define.items()), target)
    given = [x.astype(dtype) for x in inputs]
    exact = [x.astype(np.float64) for x in given]
    result, expected = f(*given), np.asarray(reference(*exact))
    assert result.dtype == dtype
    agree(function, np.asarray(result), expected, dtype, ALLOWED[np.dtype(dtype).name])
    cotangent = np.random.default_rng(5).standard_normal(expected.shape).astype(dtype)
    gradients = as_tuple(f.grad()(*given, cotangent))
    for k, gradient in enumerate(gradients):
        wanted = differences(reference, exact, k, cotangent.astype(np.float64))
        agree("%s.d%s" % (function, f.inputs[k]), np.asarray(gradient), wanted, dtype, max(4*ALLOWED[np.dtype(dtype).name], 1e-9))
