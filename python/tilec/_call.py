"""Calls: NumPy arrays in, prepared argument blocks, NumPy arrays out (_libraries.py does the same for other libraries).

The first call with some shapes, types and strides specialises the program and keeps a Prepared under that key. A later
call reads the key off the arrays, copies pointers into a ctypes array and calls C: no dictionary of arguments, no
struct, no conversion.
"""
from __future__ import annotations

import ctypes as c
import functools
import sys
import threading
import typing

import numpy as np

from . import _library as _c
from .errors import ArgumentTypeError, ShapeError, check

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_TYPES = {
    (0, 8): np.int8,
    (0, 16): np.int16,
    (0, 32): np.int32,
    (0, 64): np.int64,
    (1, 8): np.uint8,
    (1, 16): np.uint16,
    (1, 32): np.uint32,
    (1, 64): np.uint64,
    (2, 16): np.float16,
    (2, 32): np.float32,
    (2, 64): np.float64,
    (6, 8): np.bool_,
}
_BFLOAT = (4, 16)


# of bf16 where NumPy has none: its bytes, as tensors of PyTorch bring them
_STAND_IN = np.dtype([("bf16", np.uint16)])


@functools.cache
def bfloat16() -> np.dtype:
    """NumPy's bfloat16 comes from ml_dtypes; without it a type of the same bytes stands in, which no result of NumPy is
    given in."""
    try:
        import ml_dtypes
    except ImportError:
        return _STAND_IN
    return np.dtype(ml_dtypes.bfloat16)


def spelled(dtype: np.dtype) -> str:
    return "bfloat16" if dtype == _STAND_IN else str(dtype)


def dl_type(dtype: np.dtype) -> _c.DLDataType:
    """Of one of Tile's types (_arguments.check_type)."""
    return (
        _c.DLDataType(*_BFLOAT, 1)
        if dtype.kind not in _CODES
        else _c.DLDataType(_CODES[dtype.kind], dtype.itemsize * 8, 1)
    )


def numpy_type(dtype: _c.DLDataType) -> np.dtype:
    key = (dtype.code, dtype.bits)
    return bfloat16() if key == _BFLOAT else np.dtype(_TYPES[key])


# What every object of Python begins with. Behind it a NumPy array has its data, number of dimensions, shape, strides,
# base, element type and flags, in every NumPy there has been. Looked at once: where it is not so, the slow way is
# taken.
HEADER = object.__basicsize__


def arrays_lie_as_known() -> bool:
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)[1:, ::-2, 2:4]
    array.flags.writeable = False
    word, at = c.sizeof(c.c_void_p), id(array) + HEADER
    sizes = (
        [list((c.c_int64 * 3).from_address(c.c_void_p.from_address(at + k * word).value)) for k in (2, 3)]
        if c.c_int.from_address(at + word).value == 3
        else []
    )
    return (
        sizes == [list(array.shape), list(array.strides)]
        and c.c_void_p.from_address(at).value == array.ctypes.data
        and c.c_void_p.from_address(at + 5 * word).value == id(array.dtype)
        and c.c_int.from_address(at + 6 * word).value & 0x0400 == 0
        and c.c_int.from_address(id(array.base) + HEADER + 6 * word).value & 0x0400 != 0
    )


if sys.implementation.name == "cpython" and arrays_lie_as_known():
    def address(array, _word=c.c_void_p.from_address, _offset=HEADER):
        return _word(id(array) + _offset).value
else:
    def address(array):
        return array.ctypes.data


class Seen(typing.NamedTuple):
    """An array in a GPU's memory, as C is told of it: not of its elements."""
    dtype: np.dtype
    shape: "tuple[int, ...]"
    strides: "tuple[int, ...]"                                # in elements
    address: int
    gpu: "int | None"                                         # None: its library does not say, and nobody else has yet

    @property
    def is_row_major(self) -> bool:
        dense = dense_strides(self.shape)
        return 0 in self.shape or all(
            size == 1 or stride == step for size, stride, step in zip(self.shape, self.strides, dense)
        )

    def row_major(self) -> "Seen":
        """One like it that is."""
        return self._replace(strides=dense_strides(self.shape))


def dense_strides(shape: "tuple[int, ...]") -> "tuple[int, ...]":
    """Those of a row-major array, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def gpu_of(values) -> "int | None":
    """Where the arrays of a call lie that were seen on a GPU. None: there are none, or their library does not say."""
    return next((value.gpu for value in values if isinstance(value, Seen)), None)


class Block:
    """Arguments in C's form. Keeps what they point to alive."""

    # [(name or None, array that C can take, Seen, or number)]; names of results that are added to
    def __init__(self, items, add=(), stand_in=False):
        self.count = len(items)
        self.structs = (_c.Argument * max(1, self.count))()
        self.keep = []
        for struct, (name, value) in zip(self.structs, items):
            struct.name = name.encode() if name else None
            if isinstance(value, (np.ndarray, Seen)):
                made = self.tensor(value) if isinstance(value, np.ndarray) else self.seen(value)
                struct.kind, struct.tensor = _c.ADD if name in add else _c.TENSOR, c.pointer(made)
            elif isinstance(value, (bool, int)):
                struct.kind, struct.integer = plain_number(name, value, stand_in)
            else:
                struct.kind, struct.real = _c.REAL, float(value)

    def tensor(self, array):
        rank, size = array.ndim, array.itemsize
        shape, strides = (c.c_int64 * max(1, rank))(*array.shape), (c.c_int64 * max(1, rank))(
            *[s // size for s in array.strides]
        )
        self.keep += [shape, strides, array]
        return _c.DLTensor(address(array), _c.DLDevice(1, 0), rank, dl_type(array.dtype), shape, strides, 0)

    def seen(self, array):
        rank = len(array.shape)
        shape, strides = [(c.c_int64 * max(1, rank))(*each) for each in (array.shape, array.strides)]
        self.keep += [shape, strides]
        return _c.DLTensor(None, _c.DLDevice(2, array.gpu), rank, dl_type(array.dtype), shape, strides, 0)


def as_compiled(name: str, value, dtype: np.dtype, shape: "tuple[int, ...]"):
    """What as_argument() gave, as code that is compiled for one type and shape takes it: a number that the type has, or
    a row-major array."""
    if isinstance(value, np.ndarray):
        if value.dtype != dtype:
            raise ArgumentTypeError("%s is %s but is given %s" % (name, spelled(dtype), spelled(value.dtype)))
        if value.shape == shape:
            return np.require(value, requirements=["C", "A"])
        given = list(value.shape) or "a scalar"
    else:
        if value is not None and not shape:
            if dtype.kind in "iub" and (isinstance(value, float) or not fits(value, dtype)):
                raise ArgumentTypeError("%s is %s but is given %s" % (name, dtype, shortened(value)))
            return value
        given = "nothing" if value is None else "a number"
    raise ShapeError("%s is %s but is given %s" % (name, list(shape) or "a scalar", given))


def fits(number: int, dtype: np.dtype) -> bool:
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return low <= number <= high


class Prepared:
    """One specialised kernel and the ctypes blocks of a call to it."""

    # None: those of the kernel, in its order
    def __init__(self, handle: int, names: "typing.Sequence[str] | None" = None):
        self.handle = handle
        lib, port = _c.lib, _c.Port()
        # (position of the argument, dtype, shape) per kernel input; (name, dtype, shape) per output
        self.sources, self.outputs = [], []
        self.port_names = []
        for k in range(lib.tilec_kernel_input_count(handle)):
            lib.tilec_kernel_input(handle, k, c.byref(port))
            name = port.name.decode()
            self.port_names.append(name)
            position = k if names is None else names.index(name) if name in names else None
            self.sources.append((position, numpy_type(port.dtype), tuple(port.shape[: port.ndim])))
        names = self.port_names if names is None else names
        self.names, self.used = names, 0
        for k in range(lib.tilec_kernel_output_count(handle)):
            lib.tilec_kernel_output(handle, k, c.byref(port))
            self.outputs.append((port.name.decode(), numpy_type(port.dtype), tuple(port.shape[: port.ndim])))
        self.input_block = c.c_void_p * max(1, len(self.sources))
        self.output_block = c.c_void_p * max(1, len(self.outputs))
        self.new = [(shape, dtype) for _, dtype, shape in self.outputs]
        self.of_torch = None                                  # the same for tensors of PyTorch, once there were some
        # arguments whose values are compiled in
        self.sizes = set(range(len(names))) - {position for position, _, _ in self.sources}
        self.local = threading.local()
        self.run = lib.tilec_kernel_run
        self.on_gpu, self.gpu = False, None                   # where its arrays lie; None: where the program runs
        # memory of its own there, by library and by stream, on which runs follow each other, whatever thread starts
        # them
        self.workspaces: "dict[tuple[str, int], typing.Any]" = {}
        self.workspace_bytes = lib.tilec_kernel_device_workspace(handle)
        self.added = frozenset(k for k in range(len(self.outputs)) if lib.tilec_kernel_adds(handle, k))

    def placed(self, values) -> "Prepared":
        """Of a call with these."""
        self.on_gpu, self.gpu = any(isinstance(value, Seen) for value in values), gpu_of(values)
        return self

    def __del__(self):
        if _c is not None and getattr(self, "handle", None):
            _c.lib.tilec_kernel_destroy(self.handle)

    def blocks(self):
        """Two pointer arrays of this thread."""
        local = self.local
        try:
            return local.blocks
        except AttributeError:
            local.blocks = (self.input_block(), self.output_block())
            return local.blocks

    def check_numbers(self, values):
        """What a call with these would refuse."""
        for position, dtype, _ in self.sources:
            if position is not None and isinstance(values[position], (int, float)):
                number_as(self.names[position], values[position], dtype)

    def refuse_stand_ins(self):
        if any(dtype == _STAND_IN for _, dtype in self.new):
            raise TypeError("a bf16 tensor needs the package ml_dtypes, which gives NumPy that type")

    def __call__(self, values, out):
        ins, outs = self.blocks()
        temporaries = None
        for k, (position, dtype, shape) in enumerate(self.sources):
            value = values[position] if position is not None else None
            if type(value) is not np.ndarray:
                value = np.zeros(shape, dtype) if value is None else number_as(self.names[position], value, dtype)
                temporaries = (temporaries or []) + [value]
            ins[k] = address(value)
        arrays = [np.empty(shape, dtype) for shape, dtype in self.new] if out is None else out
        for k, array in enumerate(arrays):
            outs[k] = address(array)
        status = self.run(self.handle, ins, outs)
        if status:
            check(status)
        return arrays[0] if len(arrays) == 1 else tuple(arrays)


def shortened(value):
    """Digits that nobody reads are left out; Python itself refuses to print more than 4300."""
    if type(value) is not int or abs(value) < 10**40:
        return str(value)
    return "an integer of %d bits" % value.bit_length()


def in_64_bits(value) -> bool:
    return -(2**63) <= value < 2**64


def plain_number(name, value, stand_in=False):
    """A plain integer is an i64 until it meets something; one of 2**63 and more goes as its bits. Of one that 64 bits
    do not hold a specialisation may take 1 instead: `number_as` refuses it once the program has said that it is no
    float."""
    if not in_64_bits(value):
        if not stand_in:
            raise ValueError("%s: %s does not fit in 64 bits" % (name, shortened(value)))
        return _c.INTEGER, 1
    return (_c.INTEGER, value) if value < 2**63 else (_c.UNSIGNED, value - 2**64)


def settle_sizes(names, values, sizes):
    """Leaves out those that are not given; of those that a 1 stood for, refuses the ones whose values were compiled
    in."""
    sizes.difference_update([k for k in sizes if values[k] is None])
    for k in sizes:
        if type(values[k]) is int:
            plain_number(names[k], values[k])


def number_as(name, value, dtype):
    """A plain number in the type the program gives it: rounded by a float, though not to infinity; an integer has it as
    it is or not at all."""
    if dtype.kind in "biu":
        bits = dtype.itemsize * 8
        low, high = (
            (0, 1)
            if dtype.kind == "b"
            else (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)
        )
        if type(value) is int and not in_64_bits(value) and bits == 64:
            raise ValueError(
                "%s: %s does not fit in 64 bits%s"
                % (
                    name,
                    shortened(value),
                    "; give a float, or declare it one: `f32 %s`" % name if abs(value) < 2**127 else "",
                )
            )
        if not low <= value <= high or value != int(value):
            raise ValueError("%s: %s does not fit in %s" % (name, shortened(value), dtype.name))
        return np.array(int(value), dtype)
    try:
        number = value if type(value) is float or in_64_bits(value) else float(value)
    except OverflowError:
        raise ValueError("%s: %s does not fit in %s" % (name, shortened(value), dtype.name)) from None
    with np.errstate(over="ignore"):
        array = np.array(number).astype(dtype if dtype != _STAND_IN else np.float32)
    if dtype == _STAND_IN:
        array = _rounded(array)
        number = number if array["bf16"] & 0x7FFF == 0x7F80 else 0.0
        if abs(number) not in (0.0, float("inf")):
            raise ValueError("%s: %s does not fit in bfloat16" % (name, shortened(value)))
        return array
    if np.isinf(array) and not np.isinf(number):
        raise ValueError("%s: %s does not fit in %s" % (name, shortened(value), dtype.name))
    return array


def _rounded(number: np.ndarray) -> np.ndarray:
    """One f32 as bf16's bytes: to nearest, ties to even."""
    bits = int(number.view(np.uint32))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if number == number else 0x7FC0
    return np.array((rounded,), _STAND_IN)
