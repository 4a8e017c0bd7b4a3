"""Programs that were saved: machine code for fixed shapes and types, run without the compiler."""
from __future__ import annotations

import ctypes as c
import os
import pathlib
import tempfile
import typing

import numpy as np

from . import _library as _c
from ._arguments import as_argument, as_outputs
from ._call import Prepared
from .errors import ArgumentTypeError, ShapeError, check

MAGIC = b"tilec package "


class Package:
    """What Program.save() wrote and tilec.load() read. Call it with arrays of the shapes and types it was saved for, by position or by
    name; a plain number fits a scalar. Arrays that are not row-major are copied. `out=` takes the array or arrays to write instead of new ones.
    May be used from several threads at once.
    """

    def __init__(self, data: bytes, threads: int = 0):
        handle = c.c_void_p()
        check(_c.lib.tilec_load(data, len(data), threads, c.byref(handle)))
        self._prepared = Prepared(handle.value)
        self.inputs: "tuple[str, ...]" = tuple(self._prepared.port_names)
        self.outputs: "tuple[str, ...]" = tuple(name for name, _, _ in self._prepared.outputs)

    def __repr__(self) -> str:
        def ports(each):
            return ", ".join("%s %s%s" % (dtype, name, list(shape)) for name, dtype, shape in each)
        inputs = [(name, dtype, shape) for name, (_, dtype, shape) in zip(self.inputs, self._prepared.sources)]
        return "<tilec.Package (%s) -> (%s)>" % (ports(inputs), ports(self._prepared.outputs))

    def __call__(self, *arguments, out=None, **named):
        values = list(arguments) + [named.pop(name) for name in self.inputs[len(arguments):] if name in named]
        if named or len(values) != len(self.inputs):
            raise TypeError("the package takes (%s); %d arguments were given%s"
                            % (", ".join(self.inputs), len(values), ", and unknown or repeated ones: " + ", ".join(named) if named else ""))
        taken = [self._input(name, value, dtype, shape) for name, value, (_, dtype, shape) in zip(self.inputs, values, self._prepared.sources)]
        if out is None:
            return self._prepared(taken, None)
        given = as_outputs(self.outputs, out)
        for array, (name, dtype, shape) in zip(given, self._prepared.outputs):
            if array.dtype != dtype or array.shape != shape or not array.flags.writeable:
                raise ValueError("out= for %s is %s %s%s, but the package gives %s %s"
                                 % (name, "" if array.flags.writeable else "read-only ", array.dtype, list(array.shape), dtype, list(shape)))
        written = [array if array.flags.c_contiguous and array.flags.aligned else np.empty(array.shape, array.dtype) for array in given]
        result = self._prepared(taken, written)
        for array, made in zip(given, written):
            if array is not made:
                array[...] = made
        return result if all(a is b for a, b in zip(given, written)) else given[0] if len(given) == 1 else tuple(given)

    @staticmethod
    def _input(name: str, value, dtype: np.dtype, shape: "tuple[int, ...]"):
        value = as_argument(name, value)
        if not isinstance(value, np.ndarray):
            if shape or value is None:
                raise ShapeError("%s is %s but is given %s" % (name, list(shape) or "a scalar", "nothing" if value is None else "a number"), [])
            return value
        if value.dtype != dtype:
            raise ArgumentTypeError("%s is %s but is given %s" % (name, dtype, value.dtype), [])
        if value.shape != shape:
            raise ShapeError("%s is %s but is given %s" % (name, list(shape) or "a scalar", list(value.shape)), [])
        return np.require(value, requirements=["C", "A"])


def write_whole(path: "str | os.PathLike[str]", data: bytes) -> None:
    """The file appears whole or not at all."""
    path = pathlib.Path(path)
    handle, beside = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def row_major(values: typing.Sequence) -> list:
    """Example arguments as the package shall take them."""
    return [np.ascontiguousarray(v) if isinstance(v, np.ndarray) and v.ndim else v for v in values]
