"""Types and sizes of a program's results where PyTorch traces: no value is there, and a size may be a symbol."""

from __future__ import annotations

import numpy as np
import torch

from . import Program
from ._libraries import of_torch
from ._sizes import SizeFormulas
from ._torch_function import is_tensor
from .errors import ShapeError


class Traced:
    """Types and sizes of a program's results without a run, where PyTorch traces."""

    def __init__(self, program: Program):
        self.program, self.formulas = program, SizeFormulas(program)

    def results(self, values: list) -> list:
        some = next(v for v in values if is_tensor(v))
        return [some.new_empty(shape, dtype=dtype) for shape, dtype in zip(*self.inferred(values))]

    def inferred(self, values: list) -> "tuple[list, list]":
        names = self.program.inputs
        numbers = [concrete(v) for v in values]
        shapes = {name: tuple(v.shape) for name, v in zip(names, values) if is_tensor(v)}

        def infer(sizes) -> "list[tuple]":
            return _infer(
                self.program,
                [_stand_in(v, sizes[name]) if is_tensor(v) else v for name, v in zip(names, numbers)],
                [is_tensor(v) for v in values],
            )

        hints = {name: [_hint(size) for size in shape] for name, shape in shapes.items()}
        if any(isinstance(size, torch.SymInt) for shape in shapes.values() for size in shape) and all(
            None not in hint for hint in hints.values()
        ):
            found = infer(hints)
            made = self.formulas.apply(
                shapes,
                hints,
                [shape for _, shape in found],
                lambda sizes: [shape for _, shape in infer(sizes)],
                torch.sym_max,
                torch.sym_min,
            )
            if made is not None:
                return made, [of_torch().type_of(dtype) for dtype, _ in found]
        found = infer({name: [int(size) for size in shape] for name, shape in shapes.items()})
        return [shape for _, shape in found], [of_torch().type_of(dtype) for dtype, _ in found]


def is_traced(values) -> bool:
    """Are some values not there: does make_fx, torch.export or a FakeTensorMode look on?"""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or of_torch().is_traced()
        or any(is_tensor(v) and type(v) is not torch.Tensor and type(v) is not torch.nn.Parameter for v in values)
    )


def _hint(size) -> "int | None":
    """The size that a symbol stands for in the call that is traced."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return size.node.hint if size.node.has_hint() else None


def concrete(value):
    """A number that is traced has one value for what is compiled."""
    for symbol, kind in ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool)):
        if isinstance(value, symbol):
            return kind(value)
    return value


def _stand_in(tensor, sizes) -> np.ndarray:
    """An array of the tensor's type and sizes, without its elements."""
    known = of_torch()
    if tensor.dtype not in known.taken:
        raise TypeError("%s is none of Tile's element types" % tensor.dtype)
    return np.broadcast_to(np.ones((), known.numpy_type(tensor.dtype)), tuple(sizes))


def _infer(program: Program, values: list, from_tensor: "list[bool]") -> "list[tuple[np.dtype, tuple[int, ...]]]":
    """Types and shapes of the outputs."""
    unknown = [
        n for n, v, traced in zip(program.inputs, values, from_tensor) if traced and not v.ndim and v.dtype.kind in "iu"
    ]
    try:
        ports = program._ports(values)
    except ShapeError as fault:
        if not unknown:
            raise
        raise ShapeError(
            "%s: where PyTorch traces, the value of a tensor is not known; if it is a size, give it as a number\n%s"
            % (unknown[0], fault),
            fault.diagnostics,
        ) from None
    read = [name for name in unknown if program.inputs.index(name) in ports.sizes]
    if read:
        raise TypeError(
            "%s is a size, and where PyTorch traces, the value of a tensor is not known: give it as a number" % read[0]
        )
    return [(dtype, shape) for _, dtype, shape in ports.outputs]
