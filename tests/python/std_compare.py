"""Functions of std/ next to PyTorch: values and gradients of the same inputs, the reference always computed in f64.

A case is `Case(function, inputs, reference)`: `inputs` are shapes (normal random numbers), arrays, or plain numbers, in
the function's order; `reference` takes tensors of torch and returns a tensor or a tuple. Every float array is
differentiated by.
"""
import functools
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
import pytest

import std_errors
import tilec
from std_errors import ROOT, program, shown

ALLOWED = {"float64": 1e-11, "float32": 2e-5, "float16": 4e-3}


@dataclass(eq=False)
class Case:
    function: str
    inputs: tuple
    reference: Callable
    define: dict = field(default_factory=dict)
    # how the function is called, where it is to be used by another: "f<2>"
    call: str = ""
    wrt: "tuple | None" = None                         # names of inputs to differentiate by; () for none
    low: "float | None" = None                         # uniform in [low, high) instead of normal
    high: float = 1.0
    scale: float = 1.0                                 # allowed error, times the usual

    def __str__(self):
        return shown(self.call or self.function, self.inputs, self.define)


@functools.lru_cache(maxsize=None)
def program_of(text: str):
    """A text's function `caller`; its imports are of this checkout."""
    return tilec.compile(text, name=str(ROOT / "caller.tile"), function="caller")


def used(family: str, case: Case):
    """The case's function, called by another: there, derivatives of its own apply."""
    inner = program(family, case.function, tuple(case.define.items()))
    inputs, outputs = ", ".join(inner.inputs), ", ".join(inner.outputs)
    left = outputs if len(inner.outputs) == 1 else "(%s)" % outputs
    kinds = {"b": "bool ", "i": "i32 "}
    sizes = [
        "%s%s[%s]"
        % (
            kinds.get(getattr(getattr(v, "dtype", None), "kind", ""), ""),
            n,
            ", ".join("S%d_%d" % (k, a) for a in range(np.ndim(v) if not isinstance(v, tuple) else len(v))),
        )
        for k, (n, v) in enumerate(zip(inner.inputs, case.inputs))
    ]
    text = 'import "std/%s.tile";\nfunction caller(%s) -> (%s) { %s = %s(%s); }' % (
        family,
        ", ".join(sizes),
        outputs,
        left,
        case.call,
        inputs,
    )
    return program_of(text)


def arrays(case: Case, dtype, seed: int) -> list:
    rng = np.random.default_rng(seed)
    def one(value):
        if isinstance(value, tuple):
            made = rng.standard_normal(value) if case.low is None else rng.uniform(case.low, case.high, value)
            return np.asarray(made).astype(dtype)
        return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value
    return [one(value) for value in case.inputs]


def agree(what: str, got, expected, dtype, scale: float = 1.0):
    std_errors.agree(what, got, expected, dtype, ALLOWED[str(np.dtype(dtype))] * scale)


def compare(family: str, case: Case, dtype=np.float32, target: str = "cpu", seed: int = 1):
    torch = pytest.importorskip("torch")
    values = arrays(case, dtype, seed)
    f = used(family, case) if case.call else program(family, case.function, tuple(case.define.items()), target)
    is_float = lambda v: isinstance(v, np.ndarray) and v.dtype.kind not in "iub"
    tensors = [
        (
            torch.tensor(np.asarray(v, np.float64) if is_float(v) else v, requires_grad=is_float(v))
            if isinstance(v, np.ndarray)
            else v
        )
        for v in values
    ]
    results = case.reference(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    outputs = f(*values)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    assert len(outputs) == len(results)
    for name, output, result in zip(f.outputs, outputs, results):
        if is_float(output):
            assert output.dtype == dtype, "%s is %s" % (name, output.dtype)
        agree("%s.%s" % (case.function, name), output, result.detach().numpy(), dtype, case.scale)
    wrt = [n for n, v in zip(f.inputs, values) if is_float(v)] if case.wrt is None else list(case.wrt)
    if not wrt:
        return
    rng = np.random.default_rng(seed + 1)
    seeds = [np.asarray(rng.standard_normal(o.shape)).astype(dtype) for o in outputs]
    backwards = f.grad(wrt=wrt)
    # by name: inputs that have a default may be left out
    gradient = backwards(*values, **dict(zip(backwards.inputs[-len(seeds):], seeds)))
    gradient = gradient if isinstance(gradient, tuple) else (gradient,)
    by = [t for n, t in zip(f.inputs, tensors) if n in wrt]
    expected = torch.autograd.grad(
        results, by, [torch.tensor(np.asarray(s, np.float64)) for s in seeds], allow_unused=True
    )
    for name, got, reference, tensor in zip(wrt, gradient, expected, by):
        agree(
            "%s.d%s" % (case.function, name),
            got,
            (torch.zeros_like(tensor) if reference is None else reference).detach().numpy(),
            dtype,
            8 * case.scale,
        )
