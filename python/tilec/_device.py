"""Calls of programs for CUDA on arrays in the GPU's memory: nothing is copied, and nothing is waited for.

    f = tilec.compile(text, target="cuda")
    C = f(A, B)                          # tensors of PyTorch on the GPU, arrays of CuPy: C is one, on their GPU, made on the stream that the library is at
    f(A, B, out=C, stream=s)             # anything with __cuda_array_interface__; s: a number (CUstream, cudaStream_t) or a stream of a library

A Place is a library whose arrays lie there: it says where an array is, and makes others beside it.
"""

from __future__ import annotations

import ctypes
import sys
import typing

import numpy as np

from . import _library as _c
from ._arguments import as_argument, check_type, counted
from ._call import Prepared, address, dl_type, number_as, plain_number, settle_sizes
from ._libraries import of_torch
from .errors import check


class Seen(typing.NamedTuple):
    """An array on the GPU, as C is told of it."""
    dtype: np.dtype
    shape: "tuple[int, ...]"
    address: int


def on_gpu(value) -> bool:
    """Is it an array there? Numbers, lists and arrays of the host are not."""
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is int:
        return False
    return bool(getattr(value, "is_cuda", False)) or hasattr(value, "__cuda_array_interface__")


def _is_scalar(value) -> bool:
    """A number with a type, in the memory of the CPU."""
    return isinstance(value, np.ndarray) and not value.ndim


def _row_major(name: str, shape: "tuple[int, ...]", strides: "tuple[int, ...] | None", item: int) -> None:
    step = item
    for size, stride in zip(reversed(shape), reversed(strides if strides is not None else ())):
        if size > 1 and stride != step and 0 not in shape:
            raise ValueError(
                "%s has strides, and a kernel takes row-major arrays in the GPU's memory: pass a contiguous one" % name
            )
        step *= size


class Place:
    """Arrays of any library, by __cuda_array_interface__. It makes none."""
    name = "this library"

    def gpu(self, value) -> "int | None":
        """The number of the GPU it lies on. None: the library does not say."""
        says = getattr(value, "__dlpack_device__", None)
        kind, number = says() if says is not None else (0, 0)
        return int(number) if kind == 2 else None             # kDLCUDA

    def see(self, name: str, value) -> Seen:
        about = value.__cuda_array_interface__
        dtype, shape = np.dtype(about["typestr"]), tuple(about["shape"])
        check_type(name, dtype)
        _row_major(name, shape, about.get("strides"), dtype.itemsize)
        return Seen(dtype, shape, about["data"][0] or 0)

    def is_writable(self, value) -> bool:
        return not value.__cuda_array_interface__["data"][1]

    def stream(self) -> int:
        """The one that its work goes to now."""
        return 0

    def empty(self, what: str, shape: "tuple[int, ...]", dtype: np.dtype, stream: int) -> typing.Any:
        raise TypeError("%s has to be made on the GPU, and tilec does not know how this library makes arrays: %s"
                        % (what, "give out=" if what.startswith("the output") else "pass arrays of PyTorch or CuPy"))

    def filled(self, what: str, value: np.ndarray, stream: int) -> typing.Any:
        """A number there."""
        return self.empty(what, value.shape, value.dtype, stream)


class TorchPlace(Place):
    def __init__(self, like):
        self.torch, self.library, self.device, self.name = sys.modules["torch"], of_torch(), like.device, "PyTorch"

    def see(self, name: str, value) -> Seen:
        self.library.check_no_graph(name, value)
        if value.dtype not in self.library.taken or value.layout is not self.torch.strided or value.is_neg():
            self.library.view(name, value)                    # says what is wrong
        dtype, shape = self.library.numpy_type(value.dtype), tuple(value.shape)
        _row_major(name, shape, tuple(stride * dtype.itemsize for stride in value.stride()), dtype.itemsize)
        return Seen(dtype, shape, value.data_ptr())

    def gpu(self, value) -> "int | None":
        return value.device.index

    def is_writable(self, value) -> bool:
        return True

    def stream(self) -> int:
        return self.torch.cuda.current_stream(self.device).cuda_stream

    def _for_stream(self, tensor, stream: int):
        # its memory is not to be given to others before that stream is done
        if stream != self.stream():
            tensor.record_stream(self.torch.cuda.ExternalStream(stream, self.device))
        return tensor

    def empty(self, what: str, shape: "tuple[int, ...]", dtype: np.dtype, stream: int) -> typing.Any:
        return self._for_stream(self.torch.empty(shape, dtype=self.library.type_of(dtype), device=self.device), stream)

    def filled(self, what: str, value: np.ndarray, stream: int) -> typing.Any:
        with self.torch.cuda.stream(self.torch.cuda.ExternalStream(stream, self.device)):
            return self._for_stream(
                self.torch.full((), value.item(), dtype=self.library.type_of(value.dtype), device=self.device), stream
            )


class CupyPlace(Place):
    def __init__(self, cupy, like):
        self.cupy, self.device, self.name = cupy, like.device, "CuPy"

    def gpu(self, value) -> "int | None":
        return value.device.id

    def stream(self) -> int:
        with self.device:                                     # each GPU has a current one
            return self.cupy.cuda.get_current_stream().ptr

    def empty(self, what: str, shape: "tuple[int, ...]", dtype: np.dtype, stream: int) -> typing.Any:
        with self.device, self.cupy.cuda.ExternalStream(stream):  # whose turn decides when the memory is free again
            return self.cupy.empty(shape, dtype)

    def filled(self, what: str, value: np.ndarray, stream: int) -> typing.Any:
        with self.device, self.cupy.cuda.ExternalStream(stream):
            return self.cupy.full((), value.item(), value.dtype)


def _place_of(value) -> Place:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if isinstance(value, getattr(torch, "Tensor", ())):
        return TorchPlace(value)
    return CupyPlace(cupy, value) if isinstance(value, getattr(cupy, "ndarray", ())) else Place()


def _number_of(stream) -> int:
    """A stream's handle: a number, or what libraries call it."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream < 0:
            raise ValueError("stream= is %d, which is no stream" % stream)
        return stream
    for attribute in ("cuda_stream", "ptr", "handle"):        # PyTorch, CuPy, Numba
        value = getattr(stream, attribute, None)
        value = getattr(value, "value", value)
        if isinstance(value, int):
            return value
    if hasattr(stream, "__cuda_stream__"):                    # cuda.core: (version, handle)
        return stream.__cuda_stream__()[1]
    raise TypeError(
        "stream= is a %s, not a number and not a stream of PyTorch, CuPy, Numba or cuda.core" % type(stream).__name__
    )


def refuse_stream(title: str, target: str) -> typing.NoReturn:
    raise ValueError(
        "stream= is for programs of target cuda, and %s is compiled for %s, where a call waits for its results"
        % (title, target)
    )


class Placed:
    """A kernel for arrays on the GPU, and memory of its own there for each stream, on which runs follow each other,
    whatever thread starts them."""

    def __init__(self, prepared: Prepared):
        self.prepared, self.used, self.sizes = prepared, 0, prepared.sizes
        self.workspace_bytes: int = _c.lib.tilec_kernel_device_workspace(prepared.handle)
        self.workspaces: "dict[tuple[str, int], typing.Any]" = {}  # of one GPU, as the kernel is

    def workspace(self, place: Place, stream: int) -> int:
        if not self.workspace_bytes:
            return 0
        found = self.workspaces.get((place.name, stream))
        if found is None:
            made = place.empty(
                "a workspace of %d bytes" % self.workspace_bytes, (self.workspace_bytes,), np.dtype(np.uint8), stream
            )
            found = self.workspaces.setdefault((place.name, stream), made)
        return place.see("workspace", found).address


def describe(names: typing.Sequence[str], values: typing.Sequence, gpu: "int | None") -> "tuple[typing.Any, list]":
    """Arguments in C's form: arrays that are Seen, on that GPU, without memory, and numbers. And what they point to."""
    lies = _c.DLDevice(1, 0) if gpu is None else _c.DLDevice(2, gpu)
    given = [(name, value) for name, value in zip(names, values) if value is not None]
    structs, keep = (_c.Argument * max(1, len(given)))(), []
    for struct, (name, value) in zip(structs, given):
        struct.name = name.encode()
        if isinstance(value, Seen):
            shape = (ctypes.c_int64 * max(1, len(value.shape)))(*value.shape)
            tensor = _c.DLTensor(None, lies, len(value.shape), dl_type(value.dtype), shape, None, 0)
            keep += [shape, tensor]
            struct.kind, struct.tensor = _c.TENSOR, ctypes.pointer(tensor)
        elif _is_scalar(value):
            tensor = _c.DLTensor(address(value), _c.DLDevice(1, 0), 0, dl_type(value.dtype), None, None, 0)
            keep += [value, tensor]
            struct.kind, struct.tensor = _c.TENSOR, ctypes.pointer(tensor)
        elif isinstance(value, int):
            struct.kind, struct.integer = plain_number(name, value)
        else:
            struct.kind, struct.real = _c.REAL, value
    return structs, [len(given), keep]


class Call:
    """The arguments of one call on the GPU, looked at."""

    def __init__(
        self, title: str, inputs: "tuple[str, ...]", outputs: "tuple[str, ...]", arguments: typing.Sequence, out, stream
    ):
        arrays = [value for value in arguments if on_gpu(value)]
        if not arrays:
            raise ValueError(
                "stream= is for arrays in the GPU's memory, and %s is given none: arrays of the host are copied there and back, and waited for"
                % title
            )
        self.place, self.inputs, self.outputs = _place_of(arrays[0]), inputs, outputs
        self.gpu = self.place.gpu(arrays[0])
        self.stream: int = self.place.stream() if stream is None else _number_of(stream)
        self.values = [self._seen(name, value) for name, value in zip(inputs, arguments)]
        self.out: "list | None" = None
        if out is not None:
            self.out = list(out) if isinstance(out, (list, tuple)) else [out]
            if len(self.out) != len(outputs):
                raise ValueError(
                    "out= has %s, the program has %s (%s)"
                    % (counted(len(self.out), "array"), counted(len(outputs), "output"), ", ".join(outputs))
                )

    def _seen(self, name: str, value) -> typing.Any:
        if on_gpu(value):
            place = _place_of(value)
            if type(place) is not type(self.place):
                raise TypeError(
                    "%s is of %s and another array of %s: give all arrays in one library"
                    % (name, place.name, self.place.name)
                )
            self._check_gpu(name, place.gpu(value))
            return place.see(name, value)
        if value is None or isinstance(value, (bool, int, float, np.generic)) or _is_scalar(value):
            return as_argument(name, value)
        raise ValueError("%s lies in the memory of the CPU, and other arrays in the GPU's: move it there" % name)

    def _check_gpu(self, name: str, gpu: "int | None") -> None:
        if gpu != self.gpu:
            raise ValueError(
                "%s lies on GPU %s, and another array on GPU %s: move one to the other's" % (name, gpu, self.gpu)
            )

    def key(self, sizes: "set[int]") -> tuple:
        """What it is compiled for; `sizes`: positions of arguments whose values are compiled in."""
        return (
            "gpu",
            self.gpu,
            *(
                (
                    (value.dtype, value.shape)
                    if isinstance(value, Seen)
                    else (
                        (value.dtype, value.item() if k in sizes else None)
                        if _is_scalar(value)
                        else value if k in sizes else type(value)
                    )
                )
                for k, value in enumerate(self.values)
            ),
        )

    def prepare(self, program: int, heard) -> Placed:
        structs, (count, keep) = describe(self.inputs, self.values, self.gpu)
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_specialize(program, structs, count, None, 0, ctypes.byref(handle)), heard)
        del keep
        prepared = Prepared(_c.made(handle), self.inputs)
        settle_sizes(self.inputs, self.values, prepared.sizes)
        return Placed(prepared)

    def run(self, placed: Placed) -> typing.Any:
        prepared, place, stream = placed.prepared, self.place, self.stream
        numbers, pointers = [], []
        for position, dtype, shape in prepared.sources:
            value = None if position is None else self.values[position]
            if not isinstance(value, Seen):
                name = (
                    "the value of %s" % prepared.names[position]
                    if position is not None
                    else "an input that is not read"
                )
                numbers.append(
                    place.empty(name, shape, dtype, stream)
                    if value is None
                    else place.filled(
                        name,
                        value if _is_scalar(value) else number_as(prepared.names[position], value, dtype),
                        stream,
                    )
                )
                value = place.see(name, numbers[-1])
            pointers.append(value.address)
        made = (
            self.out
            if self.out is not None
            else [place.empty("the output %s" % name, shape, dtype, stream) for name, dtype, shape in prepared.outputs]
        )
        results = []
        for array, (name, dtype, shape) in zip(made, prepared.outputs):
            seen = self._written(name, array)
            if (seen.dtype, seen.shape) != (dtype, shape):
                raise ValueError(
                    "out= for %s is %s %s, but the program gives %s %s"
                    % (name, seen.dtype, list(seen.shape), dtype, list(shape))
                )
            results.append(seen.address)
        check(
            _c.lib.tilec_kernel_run_on(
                prepared.handle,
                prepared.input_block(*pointers),
                prepared.output_block(*results),
                placed.workspace(place, stream),
                stream,
            )
        )
        return made[0] if len(made) == 1 else tuple(made)

    def _written(self, name: str, array) -> Seen:
        if not on_gpu(array) or type(_place_of(array)) is not type(self.place):
            raise ValueError(
                "out= for %s is no array of %s in the GPU's memory, as the inputs are" % (name, self.place.name)
            )
        self._check_gpu("out= for " + name, self.place.gpu(array))
        if not self.place.is_writable(array):
            raise ValueError("out= for %s is read-only" % name)
        return self.place.see("out= for " + name, array)
