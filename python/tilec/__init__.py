"""tilec: tensor programs written in Tile, compiled to fast kernels, with gradients.

    import tilec
    matmul = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    C = matmul(A, B)                                 # NumPy arrays of any strides
    dA, dB = matmul.grad(wrt=["A", "B"])(A, B, dC)   # the gradient is a program like any other
    print(matmul.emit("gradient"))                   # any stage of the compiler, as text
"""
from __future__ import annotations

import ctypes as _ctypes
import os as _os
import pathlib as _pathlib
import typing as _typing

import numpy as _np

from . import _library as _c
from ._call import Block as _Block, Prepared as _Prepared
from .errors import ArgumentTypeError, DeviceError, Diagnostic, Error, InternalError, ProgramError, ShapeError, check as _check

__all__ = ["compile", "load", "Program", "Module", "Error", "ProgramError", "ShapeError", "ArgumentTypeError", "DeviceError", "InternalError",
           "Diagnostic", "version"]

_Names = _typing.Union[str, _typing.Sequence[str], None]


def _name_list(names: _Names) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


class Program:
    """A compiled text. Call it with arrays and numbers, by position or by name.

    A NumPy array is taken as it lies (no copy, whatever its strides); a Python number is weakly typed, as a literal in Tile is.
    One output comes back as its array, several as a tuple in order. `out=` takes the array or arrays to write instead; with
    `accumulate=True`, or the names of some outputs, the call adds to what they hold: O = O + result, rounded once to O's type.
    Specialised on first use for the shapes, element types and strides it is called with; later calls of the kind cost microseconds.
    May be used from several threads at once.
    """

    def __init__(self, handle: int, parent: "Program | None" = None):
        lib = _c.lib
        self._handle, self._parent = handle, parent
        self.name: str = lib.tilec_program_name(handle).decode()
        self.inputs: tuple[str, ...] = tuple(lib.tilec_input_name(handle, k).decode() for k in range(lib.tilec_input_count(handle)))
        self.outputs: tuple[str, ...] = tuple(lib.tilec_output_name(handle, k).decode() for k in range(lib.tilec_output_count(handle)))
        self._cache: dict = {}

    def __del__(self):
        if _c is not None and getattr(self, "_handle", None):
            _c.lib.tilec_program_destroy(self._handle)

    def __repr__(self) -> str:
        return "<tilec.Program %s(%s) -> (%s)>" % (self.name, ", ".join(self.inputs), ", ".join(self.outputs))

    def __call__(self, *arguments, out=None, accumulate: "bool | str | _typing.Sequence[str]" = False, **named):
        if named or len(arguments) != len(self.inputs):
            arguments = self._by_position(arguments, named)
        key = []
        for value in arguments:
            kind = type(value)
            if kind is _np.ndarray:
                key.append((value.dtype, value.shape, value.strides) if value.ndim else (value.dtype, value.item() if value.dtype.kind in "iub" else ()))
            elif kind is int or kind is bool:
                key.append(value)
            elif kind is float or value is None:
                key.append(kind)
            else:
                return self(*[_as_argument(name, v) for name, v in zip(self.inputs, arguments)], out=out, accumulate=accumulate)
        if out is not None:
            out = [out] if isinstance(out, _np.ndarray) else list(out)
            for name, array in zip(self.outputs, out):
                if not isinstance(array, _np.ndarray):
                    raise TypeError("out= for %s is a %s, not an array" % (name, type(array).__name__))
            key.append(tuple((o.shape, o.strides, o.dtype) for o in out))
        if accumulate:
            accumulate = self._outputs_to_add(accumulate, out)
            key.append(accumulate)
        key = tuple(key)
        prepared = self._cache.get(key)
        if prepared is None:
            prepared = self._cache[key] = self._prepare(arguments, out, accumulate or ())
        return prepared(arguments, out)

    def grad(self, wrt: _Names = None, of: _Names = None) -> "Program":
        """The program that computes the cotangents of the inputs `wrt` (default: all float ones) from the inputs and the cotangents
        of the outputs `of` (default: all float ones). It is called with the inputs, then `dO` per output; it returns `dX` per input.
        `f.grad(wrt="X").grad(wrt="X", of="dX")` is the second derivative, and so on to any order: names are those of the program
        that is differentiated, and the cotangent of its output `dX` is `ddX`.
        """
        return self._derivative(_c.lib.tilec_gradient, of, wrt)

    vjp = grad

    def jvp(self, wrt: _Names = None, of: _Names = None) -> "Program":
        """The program that computes the tangents of the outputs `of` (default: all float ones) from the inputs and the tangents of the
        inputs `wrt` (default: all float ones): a Jacobian times a vector. It is called with the inputs, then `tX` per input; it
        returns `tO` per output. `f.grad(wrt="X").jvp(wrt="X")` is a Hessian-vector product.
        """
        return self._derivative(_c.lib.tilec_jvp, of, wrt)

    def _derivative(self, function, of: _Names, wrt: _Names) -> "Program":
        of_names, wrt_names = _name_list(of), _name_list(wrt)
        arrays = [(_ctypes.c_char_p * max(1, len(names)))(*[n.encode() for n in names]) for names in (of_names, wrt_names)]
        handle = _ctypes.c_void_p()
        _check(function(self._handle, arrays[0], len(of_names), arrays[1], len(wrt_names), _ctypes.byref(handle)))
        return Program(handle.value, self)

    def emit(self, stage: str, *arguments, **named) -> "str | bytes":
        """A stage of the compiler: ast source contraction gradient bound bounded reduced plan loops report-text llvm asm object opencl
        cuda ptx cubin. Stages after `gradient` need numbers: pass the arguments of a call, or give `size=` when compiling.
        """
        given = list(zip(self.inputs, self._by_position(arguments, named))) if arguments or named else []
        block = _Block([(n, _as_argument(n, v)) for n, v in given if v is not None])
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_emit(self._handle, stage.encode(), block.structs, block.count, _ctypes.byref(handle)))
        try:
            data = _ctypes.string_at(_c.lib.tilec_buffer_data(handle), _c.lib.tilec_buffer_size(handle))
        finally:
            _c.lib.tilec_buffer_destroy(handle)
        return data if stage in ("object", "cubin") else data.decode()

    def _by_position(self, arguments: _typing.Sequence, named: dict) -> list:
        """Arguments in order. None: not given, which is fine for an input that what is asked does not need."""
        names = self.inputs
        title = self.name or "the function"
        if len(arguments) > len(names):
            raise TypeError("%s takes %d arguments (%s) but %d were given" % (title, len(names), ", ".join(names), len(arguments)))
        unexpected = [n for n in named if n not in names]
        twice = [n for n in names[: len(arguments)] if n in named]
        values = list(arguments) + [named.get(n) for n in names[len(arguments):]]
        missing = [n for n, v in zip(names, values) if v is None and n not in named]
        if unexpected or twice or (missing and self._parent is None):
            parts = [(missing, "missing: %s"), (unexpected, "unexpected: %s"), (twice, "given twice: %s")]
            raise TypeError("%s(%s): %s" % (title, ", ".join(names), "; ".join(text % ", ".join(found) for found, text in parts if found)))
        return values

    def _outputs_to_add(self, accumulate, out) -> "tuple[str, ...]":
        if out is None:
            raise TypeError("accumulate= adds to arrays: give them as out=")
        names = self.outputs if accumulate is True else tuple(_name_list(accumulate))
        unknown = [n for n in names if n not in self.outputs]
        if unknown:
            raise ValueError("accumulate=: %s is no output; there are %s" % (", ".join(unknown), ", ".join(self.outputs)))
        return names

    def _prepare(self, arguments: _typing.Sequence, out, add: _typing.Sequence[str] = ()) -> _Prepared:
        block = _Block([(n, v) for n, v in zip(self.inputs, arguments) if v is not None])
        results = _Block(list(zip(self.outputs, out)) if out is not None else [], add)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_specialize(self._handle, block.structs, block.count, results.structs, results.count, _ctypes.byref(handle)))
        prepared = _Prepared(handle.value, list(self.inputs))
        if out is not None:
            if len(out) != len(prepared.outputs):
                raise ValueError("out= has %d arrays, the program has %d outputs (%s)" % (len(out), len(prepared.outputs), ", ".join(self.outputs)))
            for array, (name, dtype, shape) in zip(out, prepared.outputs):
                if array.dtype != dtype:
                    raise TypeError("out= for %s is %s, the program gives %s" % (name, array.dtype, dtype))
                if array.shape != shape:
                    raise ValueError("out= for %s has shape %s, the program gives %s" % (name, array.shape, shape))
                if not array.flags.writeable:
                    raise ValueError("out= for %s cannot be written" % name)
        return prepared


def _as_argument(name: str, value):
    """What a call may be given: an array, a plain number, anything with __dlpack__ or __array__, nested lists."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if type(value) in (bool, int, float, type(None)) else float(value) if isinstance(value, float) else int(value)
    if isinstance(value, _np.ndarray):
        return value.view(_np.ndarray)
    if isinstance(value, _np.generic):
        return _np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return _np.from_dlpack(value)
    array = _np.asarray(value)
    if array.dtype == object:
        raise TypeError("%s: %s is no array and no number" % (name, type(value).__name__))
    return array


class Module:
    """A text with several functions: each is an attribute, compiled when first used."""

    def __init__(self, text: str, names: _typing.Sequence[str], options: dict):
        self._text, self._names, self._options = text, tuple(names), options

    def __dir__(self):
        return sorted(self._names)

    def __getattr__(self, name: str) -> Program:
        if name.startswith("_") or name not in self._names:
            raise AttributeError("no function `%s`; there are %s" % (name, ", ".join(self._names)))
        program = compile(self._text, function=name, **self._options)
        setattr(self, name, program)
        return program

    def __call__(self, *arguments, **named):
        raise TypeError("the text has several functions: %s; call one of them by name" % ", ".join(self._names))


def compile(text: str, *, function: "str | None" = None, target: str = "cpu", define: "_typing.Mapping[str, float | str] | None" = None,
            size: "_typing.Mapping[str, int] | None" = None, threads: int = 0, include: "_typing.Sequence[str | _os.PathLike[str]]" = (), checked: bool = False,
            name: str = "<text>"):
    """Compiles a text of Tile to a Program; a text with several named functions, and none asked for, to a Module of them.

    target: cpu, cpu:x86-64-v3, opencl, cuda, cuda:sm_90a or reference (the interpreter). define: compile-time parameters,
    numbers and names of functions or aggregations ({"S": 2, "F": "relu"}). size: sizes that no input's shape shows. include: folders in
    which imports are looked for, after that of the file and before std/. checked: a call whose gather or scatter meets an index out of range
    raises ShapeError, naming tensor, position, value and bound, instead of clamping it. Raises ProgramError when the text is at fault, ValueError for an unknown target.
    """
    options = _c.Options(size=_ctypes.sizeof(_c.Options), target=target.encode(), file_name=name.encode(), threads=threads, checked=checked)
    options.function = function.encode() if function else None
    defines = [_c.Define(k.encode(), 0.0, v.encode()) if isinstance(v, str) else _c.Define(k.encode(), float(v), None) for k, v in (define or {}).items()]
    folders = [_os.fsencode(folder) for folder in include]
    sizes = [_c.Size(k.encode(), _as_size(k, v)) for k, v in (size or {}).items()]
    options.defines, options.define_count = (_c.Define * max(1, len(defines)))(*defines), len(defines)
    options.sizes, options.size_count = (_c.Size * max(1, len(sizes)))(*sizes), len(sizes)
    options.include, options.include_count = (_ctypes.c_char_p * max(1, len(folders)))(*folders), len(folders)
    data = text.encode()
    names = _function_names(data) if function is None else []
    if len(names) > 1:
        return Module(text, names, {"target": target, "define": define, "size": size, "threads": threads, "include": include, "checked": checked, "name": name})
    handle = _ctypes.c_void_p()
    _check(_c.lib.tilec_compile(data, len(data), _ctypes.byref(options), _ctypes.byref(handle)))
    return Program(handle.value)


def _as_size(name: str, value) -> int:
    if not -(2**63) <= int(value) < 2**63:
        raise ValueError("size %s: %d does not fit in 64 bits" % (name, int(value)))
    return int(value)


def _function_names(data: bytes) -> list[str]:
    """Names of the functions of a text without an unnamed one; none when it has one, or does not parse."""
    names: list[str] = []
    count = _c.lib.tilec_function_count(data, len(data))
    for k in range(count):
        found = _c.lib.tilec_function_name(data, len(data), k)
        names.append(found.decode() if found else "")
    return [] if "" in names else names


def load(path: "str | _os.PathLike[str]", **options):
    """Compiles a file of Tile; see compile() for the options. Functions of a file that has several are its attributes."""
    path = _pathlib.Path(path)
    return compile(path.read_text(encoding="utf-8"), name=str(path), **options)


def version() -> str:
    """The version of the library, such as "0.1.0"."""
    number = _c.lib.tilec_version()
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)
