"""tilec: tensor programs written in Tile, compiled to fast kernels, with gradients.

import tilec
matmul = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
C = matmul(A, B)                                 # arrays of any strides, of NumPy, PyTorch or JAX; C is of the same library
dA, dB = matmul.grad(wrt=["A", "B"])(A, B, dC)   # the gradient is a program like any other
Cs = matmul.vmap("A")(As, B)                     # for a batch, A[b], C[b] of each: one kernel
print(matmul.emit("gradient"))                   # any stage of the compiler, as text
Y = tilec.std.layer_norm(X, GAMMA, BETA)         # functions of std/
f = tilec.torch.function(matmul)                 # differentiable in PyTorch; op() and module() beside it
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from . import _library as _c
from ._options import options
from ._package import Package
from ._pair import Backward
from ._program import Program
from ._source import Module, compile, load
from ._stages import Stage, stages
from ._stats import Launch, Profile, Stats
from .errors import (
    ArgumentTypeError,
    DeviceError,
    Diagnostic,
    Error,
    InternalError,
    DimensionWarning,
    OptionError,
    ProgramError,
    ProgramWarning,
    ShapeError,
)

__all__ = [
    "compile",
    "load",
    "options",
    "Program",
    "Module",
    "Package",
    "Backward",
    "Error",
    "ProgramError",
    "ShapeError",
    "ArgumentTypeError",
    "DeviceError",
    "InternalError",
    "OptionError",
    "ProgramWarning",
    "DimensionWarning",
    "Diagnostic",
    "Stage",
    "stages",
    "Stats",
    "Profile",
    "Launch",
    "version",
]

if _typing.TYPE_CHECKING:
    from . import std as std


def version() -> str:
    """The version of the library, such as "1.0.0"."""
    number = _c.lib.tilec_version()
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


def load_ipython_extension(ipython: _typing.Any) -> None:
    """`%load_ext tilec` in a notebook: gives it the cell magic `%%tile VARIABLE OPTION=VALUE …`; `%%tile?` says how it
    is written."""
    from ._notebook import cell_magic                         # few are in one
    ipython.register_magic_function(cell_magic(ipython, compile), "cell", "tile")


def __getattr__(name: str) -> _typing.Any:
    """tilec.torch and tilec.jax need PyTorch and JAX: they are imported when they are asked for."""
    if name in ("torch", "jax", "std"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError("module 'tilec' has no attribute %r" % name)


__version__ = version()
