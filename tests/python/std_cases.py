"""Functions of std/ next to NumPy: values, and gradients by PyTorch where a case has it and torch is installed, else by
differences.

A case is `Case(function, inputs, numpy, torch, define)`. `inputs` are shapes (normal random numbers), arrays, or
numbers; `numpy` takes the inputs in f64 and returns an array or a tuple. Without `torch` the whole gradient is compared
with central differences of `numpy`, with a step of 1 for `linear` cases, where a difference is exact. Nothing here
needs torch.
"""
from dataclasses import dataclass, field
from typing import Callable, Optional

import numpy as np

from std_errors import agree, as_tuple, program, shown

try:
    import torch
except ImportError:
    torch = None

ALLOWED = {"float64": 1e-11, "float32": 1e-5, "float16": 4e-3}


@dataclass
class Case:
    function: str
    inputs: tuple
    numpy: Callable
    torch: Optional[Callable] = None
    define: dict = field(default_factory=dict)
    linear: bool = False
    wrt: "tuple | None" = None                         # names of inputs to differentiate by; () for none
    low: "float | None" = None                         # uniform in [low, high) instead of normal
    high: float = 1.0
    scale: float = 1.0                                 # allowed error, times the usual

    def __str__(self):
        return shown(self.function, self.inputs, self.define)


def is_float(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def arrays(case: Case, dtype, seed: int) -> list:
    rng = np.random.default_rng(seed)
    def one(value):
        if isinstance(value, tuple):
            return np.asarray(
                rng.standard_normal(value) if case.low is None else rng.uniform(case.low, case.high, value)
            ).astype(dtype)
        return value.astype(dtype) if is_float(value) else value
    return [one(value) for value in case.inputs]


def by_differences(case: Case, values: list, wrt: list, seeds: list) -> list:
    """The gradient of Σ seeds·outputs by the inputs in `wrt` (positions), one element after the other."""
    step = 1.0 if case.linear else 1e-5
    def total(changed):
        return sum(
            np.sum(np.asarray(y, np.float64) * s)
            for y, s in zip(as_tuple(case.numpy(*changed)), seeds)
            if s is not None
        )
    result = []
    for position in wrt:
        gradient = np.zeros(values[position].shape)
        for place in np.ndindex(values[position].shape):
            ends = []
            for sign in (1, -1):
                changed = [v.copy() if is_float(v) else v for v in values]
                changed[position][place] += sign * step
                ends.append(total(changed))
            gradient[place] = (ends[0] - ends[1]) / (2 * step)
        result.append(gradient)
    return result


def by_torch(case: Case, values: list, wrt: list, seeds: list) -> list:
    tensors = [
        torch.tensor(v, requires_grad=k in wrt) if isinstance(v, np.ndarray) else v for k, v in enumerate(values)
    ]
    results = [
        (r, torch.tensor(np.asarray(s, np.float64)))
        for r, s in zip(as_tuple(case.torch(*tensors)), seeds)
        if s is not None
    ]
    gradients = torch.autograd.grad(
        [r for r, _ in results], [tensors[k] for k in wrt], [s for _, s in results], allow_unused=True
    )
    return [np.zeros(values[k].shape) if g is None else g.numpy() for k, g in zip(wrt, gradients)]


def compare(family: str, case: Case, dtype=np.float32, target: str = "cpu", seed: int = 1):
    values = arrays(case, dtype, seed)
    wide = [v.astype(np.float64) if is_float(v) else v for v in values]
    f = program(family, case.function, tuple(case.define.items()), target)
    expected = as_tuple(case.numpy(*wide))
    outputs = as_tuple(f(*values))
    assert len(outputs) == len(expected)
    allowed = ALLOWED[str(np.dtype(dtype))] * case.scale
    for name, output, reference in zip(f.outputs, outputs, expected):
        if is_float(output) and any(is_float(v) for v in values):
            assert output.dtype == dtype, "%s is %s" % (name, output.dtype)
        agree("%s.%s" % (case.function, name), output, reference, dtype, allowed)
    wrt = [k for k, v in enumerate(values) if is_float(v) and (case.wrt is None or f.inputs[k] in case.wrt)]
    if not wrt:
        return
    rng = np.random.default_rng(seed + 1)
    seeds = [np.asarray(rng.standard_normal(o.shape)).astype(dtype) if is_float(o) else None for o in outputs]
    names = [f.inputs[k] for k in wrt]
    gradients = as_tuple(f.grad(wrt=names)(*values, *[s for s in seeds if s is not None]))
    exact = case.linear or (case.torch and torch)
    reference = (by_torch if case.torch and torch else by_differences)(case, wide, wrt, seeds)
    for name, got, wanted in zip(names, gradients, reference):
        agree("%s.d%s" % (case.function, name), got, wanted, dtype, 8 * allowed if exact else max(8 * allowed, 1e-6))
