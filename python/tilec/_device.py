"""Calls of programs for CUDA on arrays in the GPU's memory: nothing is copied to the host, and nothing is waited for.

    f = tilec.compile(text, target="cuda")
    C = f(A, B)                          # tensors of PyTorch on the GPU, arrays of CuPy: C is one, on their GPU, made on the stream that the library is at
    f(A, B, out=C, stream=s)             # anything with __cuda_array_interface__; s: a number (CUstream, cudaStream_t) or a stream of a library

A Place is a library whose arrays lie there: it says where an array is, makes others beside it, and runs a kernel on them. Tensors of PyTorch come
here where a stream is said, and where something must be said of them: all else is _libraries.Torch, and runtime/python.cpp for a call that was met.
"""

from __future__ import annotations

import sys
import typing

import numpy as np

from . import _library as _c
from ._arguments import as_argument, check_type, counted
from ._call import Prepared, Seen, as_compiled, dense_strides, number_as, spelled
from ._libraries import of_torch
from ._torch_gpu import GPU_ALIGNMENT
from .errors import ArgumentTypeError, ShapeError, check


def on_gpu(value) -> bool:
    """Is it an array there? Numbers, lists and arrays of the host are not."""
    kind = type(value)
    if kind is np.ndarray or kind is float or kind is int:
        return False
    return bool(getattr(value, "is_cuda", False)) or hasattr(value, "__cuda_array_interface__")


def is_place(library) -> bool:
    """Are the arrays of a library on a GPU?"""
    return isinstance(library, Place)


def seen(name: str, value, gpu: int) -> Seen:
    """Such an array, as C is told of it. Where its library does not say where it lies, it is that GPU."""
    return _located(_place_of(value).see(name, value), gpu)


def _located(array: Seen, gpu: int) -> Seen:
    return array if array.gpu is not None else array._replace(gpu=gpu)


def _is_scalar(value) -> bool:
    """A number with a type, in the memory of the CPU."""
    return isinstance(value, np.ndarray) and not value.ndim


class Place:
    """Arrays of any library, by __cuda_array_interface__. It makes none."""
    name = "this library"

    def gpu(self, value) -> "int | None":
        """The number of the GPU it lies on. None: the library does not say."""
        says = getattr(value, "__dlpack_device__", None)
        kind, number = says() if says is not None else (0, 0)
        return int(number) if kind == 2 else None             # kDLCUDA

    def dtype(self, value) -> np.dtype:
        return np.dtype(value.__cuda_array_interface__["typestr"])

    def layout(self, value) -> "tuple[tuple[int, ...], tuple[int, ...] | None]":
        """Sizes, and strides in bytes. None: it is row-major."""
        about = value.__cuda_array_interface__
        return tuple(about["shape"]), about.get("strides")

    def see(self, name: str, value) -> Seen:
        dtype = self.dtype(value)
        check_type(name, dtype)
        shape, steps = self.layout(value)
        if steps is not None and any(step % dtype.itemsize for step in steps):
            raise ValueError("%s has strides that are no multiples of its element size: copy it" % name)
        address = self.address(value)
        is_dense = steps is None or address % GPU_ALIGNMENT    # of another address a kernel takes a copy
        strides = dense_strides(shape) if is_dense else tuple(step // dtype.itemsize for step in steps)
        return Seen(dtype, shape, strides, address, self.gpu(value))

    def address(self, value) -> int:
        return value.__cuda_array_interface__["data"][0] or 0

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

    def workspace(self, prepared: Prepared, stream: int) -> "int | None":
        if not prepared.workspace_bytes:
            return None
        key = self.name, stream
        if key not in prepared.workspaces:
            what = "a workspace of %d bytes" % prepared.workspace_bytes
            prepared.workspaces.setdefault(
                key, self.empty(what, (prepared.workspace_bytes,), np.dtype(np.uint8), stream)
            )
        return self.address(prepared.workspaces[key])

    def packed(self, name: str, value, stream: int) -> typing.Any:
        """A row-major copy."""
        raise ValueError(
            "%s has strides, or an address that is no multiple of %d: pass a contiguous copy" % (name, GPU_ALIGNMENT)
        )

    def as_compiled(self, name: str, value, dtype: np.dtype, shape: "tuple[int, ...]") -> typing.Any:
        """An array or a number as code takes it that is compiled for one type and shape, row-major."""
        if not on_gpu(value):
            if shape:
                raise ValueError("%s lies in the memory of the CPU, and other arrays in the GPU's: move it there" % name)
            return as_compiled(name, as_argument(name, value), dtype, shape)
        there = self.see(name, value)
        if there.dtype != dtype:
            raise ArgumentTypeError("%s is %s but is given %s" % (name, spelled(dtype), spelled(there.dtype)))
        if there.shape != shape:
            raise ShapeError(
                "%s is %s but is given %s" % (name, list(shape) or "a scalar", list(there.shape) or "a scalar")
            )
        return value if there.is_row_major else self.packed(name, value, self.stream())

    def run(
        self,
        prepared: Prepared,
        arguments: typing.Sequence,
        out: "list | None" = None,
        stream: "int | None" = None,
    ) -> typing.Any:
        """A kernel on arrays and numbers, in the order of the program's inputs. Gives the arrays it wrote."""
        stream = self.stream() if stream is None else stream
        taken = [
            self._to_read(prepared, source, None if source[0] is None else arguments[source[0]], stream)
            for source in prepared.sources
        ]
        if out is None:
            made = written = [
                self.empty("the output %s" % name, shape, dtype, stream) for name, dtype, shape in prepared.outputs
            ]
        else:
            made, written = out, [self._to_write(prepared, k, value, stream) for k, value in enumerate(out)]
        check(
            _c.lib.tilec_kernel_run_on(
                prepared.handle,
                prepared.input_block(*map(self.address, taken)),
                prepared.output_block(*map(self.address, written)),
                self.workspace(prepared, stream),
                stream,
            )
        )
        for value, to in zip(written, made):
            if value is not to:
                self.copy(to, value, stream)
        return made[0] if len(made) == 1 else tuple(made)

    def _to_read(self, prepared: Prepared, source: tuple, value, stream: int) -> typing.Any:
        """What a kernel reads: an array of the caller's, or one made of a number."""
        position, dtype, shape = source
        if value is None:
            return self.empty("an input that is not read", shape, dtype, stream)
        name = prepared.names[position]
        if not on_gpu(value):
            number = value if _is_scalar(value) else number_as(name, value, dtype)
            return self.filled("the value of " + name, number, stream)
        return self.packed(name, value, stream) if self.address(value) % GPU_ALIGNMENT else value

    def _to_write(self, prepared: Prepared, output: int, value, stream: int) -> typing.Any:
        """What a kernel writes in the place of an array of the caller's, which it may not take as it lies."""
        name = "out= for " + prepared.outputs[output][0]
        if self.address(value) % GPU_ALIGNMENT or (
            output in prepared.added and not self.see(name, value).is_row_major
        ):
            return self.packed(name, value, stream)
        return value

    def copy(self, to, value, stream: int) -> None:
        raise NotImplementedError                             # nothing is made here that would have to be


class TorchPlace(Place):
    name = "PyTorch"

    def __init__(self, like):
        self.torch, self.library, self.device = sys.modules["torch"], of_torch(), like.device

    def see(self, name: str, value) -> Seen:
        self.library.check_no_graph(name, value)
        if value.dtype not in self.library.taken or value.layout is not self.torch.strided or value.is_neg():
            self.library.view(name, value)                    # says what is wrong
        dtype, shape = self.library.numpy_type(value.dtype), tuple(value.shape)
        strides = dense_strides(shape) if self.library.on_gpu.is_misaligned(value) else tuple(value.stride())
        return Seen(dtype, shape, strides, value.data_ptr(), value.device.index)

    def gpu(self, value) -> "int | None":
        return value.device.index

    def is_writable(self, value) -> bool:
        return True

    def stream(self) -> int:
        return self.library.on_gpu.stream(self.device.index)

    def packed(self, name: str, value, stream: int) -> typing.Any:
        return value.contiguous()

    def run(
        self,
        prepared: Prepared,
        arguments: typing.Sequence,
        out: "list | None" = None,
        stream: "int | None" = None,
    ) -> typing.Any:
        made = self.library.on_gpu.run(prepared, arguments, out, stream)
        if out is not None:
            self.library.written(out)
        return made


class CupyPlace(Place):
    name = "CuPy"

    def __init__(self, cupy, like):
        self.cupy, self.device = cupy, like.device

    def gpu(self, value) -> "int | None":
        return value.device.id

    # the interface has no name for bf16, and is a dict that is made anew each time
    def dtype(self, value) -> np.dtype:
        return value.dtype

    def layout(self, value) -> "tuple[tuple[int, ...], tuple[int, ...] | None]":
        return value.shape, None if value.flags.c_contiguous else value.strides

    def address(self, value) -> int:
        return value.data.ptr

    def stream(self) -> int:
        with self.device:                                     # each GPU has a current one
            return self.cupy.cuda.get_current_stream().ptr

    def empty(self, what: str, shape: "tuple[int, ...]", dtype: np.dtype, stream: int) -> typing.Any:
        with self.device, self.cupy.cuda.ExternalStream(stream):  # whose turn decides when the memory is free again
            return self.cupy.empty(shape, dtype)

    def filled(self, what: str, value: np.ndarray, stream: int) -> typing.Any:
        with self.device, self.cupy.cuda.ExternalStream(stream):
            return self.cupy.full((), value.item(), value.dtype)

    def packed(self, name: str, value, stream: int) -> typing.Any:
        with self.device, self.cupy.cuda.ExternalStream(stream):
            return self.cupy.array(value, order="C")

    def copy(self, to, value, stream: int) -> None:
        with self.device, self.cupy.cuda.ExternalStream(stream):
            to[...] = value


def _place_of(value) -> Place:
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if isinstance(value, getattr(torch, "Tensor", ())):
        return TorchPlace(value)
    return CupyPlace(cupy, value) if isinstance(value, getattr(cupy, "ndarray", ())) else Place()


def number_of(stream) -> int:
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


class Call:
    """The arguments of one call on the GPU, looked at."""

    def __init__(self, program, outputs: "tuple[str, ...]", arguments: typing.Sequence, out, stream: "int | None"):
        arrays = [value for value in arguments if on_gpu(value)]
        if not arrays:
            raise ValueError(
                "stream= is for arrays in the GPU's memory, and %s is given none: arrays of the host are copied there and back, and waited for"
                % (program.name or "the function")
            )
        self.place, self.gpu, self.own = _place_of(arrays[0]), _place_of(arrays[0]).gpu(arrays[0]), program._gpu
        self.stream: int = self.place.stream() if stream is None else stream
        self.values = [self._seen(name, value) for name, value in zip(program.inputs, arguments)]
        self.arguments = [a if isinstance(value, Seen) else value for a, value in zip(arguments, self.values)]
        self.out: "list | None" = None
        if out is not None:
            self.out = list(out) if isinstance(out, (list, tuple)) else [out]
            if len(self.out) != len(outputs):
                raise ValueError(
                    "out= has %s, the program has %s (%s)"
                    % (counted(len(self.out), "array"), counted(len(outputs), "output"), ", ".join(outputs))
                )
        self.written = [self._written(name, value) for name, value in zip(outputs, self.out or ())]

    def _seen(self, name: str, value) -> typing.Any:
        if on_gpu(value):
            place = _place_of(value)
            if type(place) is not type(self.place):
                raise TypeError(
                    "%s is of %s and another array of %s: give all arrays in one library"
                    % (name, place.name, self.place.name)
                )
            self._check_gpu(name, place.gpu(value))
            return _located(place.see(name, value), self.own)
        if value is None or isinstance(value, (bool, int, float, np.generic)) or _is_scalar(value):
            return as_argument(name, value)
        raise ValueError("%s lies in the memory of the CPU, and other arrays in the GPU's: move it there" % name)

    def _check_gpu(self, name: str, gpu: "int | None") -> None:
        if gpu != self.gpu:
            raise ValueError(
                "%s lies on GPU %s, and another array on GPU %s: move one to the other's" % (name, gpu, self.gpu)
            )

    def _written(self, name: str, array) -> Seen:
        if not on_gpu(array) or type(_place_of(array)) is not type(self.place):
            raise ValueError(
                "out= for %s is no array of %s in the GPU's memory, as the inputs are" % (name, self.place.name)
            )
        self._check_gpu("out= for " + name, self.place.gpu(array))
        if not self.place.is_writable(array):
            raise ValueError("out= for %s is read-only" % name)
        return _located(self.place.see("out= for " + name, array), self.own)

    def key(self, sizes: "set[int]") -> tuple:
        """What it is compiled for; `sizes`: positions of arguments whose values are compiled in."""
        return (
            "gpu",
            self.gpu,
            *(
                (
                    (value.dtype, value.shape, value.strides)
                    if isinstance(value, Seen)
                    else (
                        (value.dtype, value.item() if k in sizes else None)
                        if _is_scalar(value)
                        else value if k in sizes else type(value)
                    )
                )
                for k, value in enumerate(self.values)
            ),
            *(each.strides for each in strided(self.written) or ()),
        )

    def run(self, prepared: Prepared) -> typing.Any:
        check_outputs(prepared, self.written)
        return self.place.run(prepared, self.arguments, self.out, self.stream)


def strided(written: "typing.Sequence[Seen]") -> "list[Seen] | None":
    """Outputs that a kernel is compiled for; of row-major ones it knows the shape without them."""
    return None if all(each.is_row_major for each in written) else list(written)


def check_outputs(prepared: Prepared, written: "typing.Sequence[Seen]") -> None:
    for each, (name, dtype, shape) in zip(written, prepared.outputs):
        if (each.dtype, each.shape) != (dtype, shape):
            raise ValueError(
                "out= for %s is %s %s, but the program gives %s %s"
                % (name, each.dtype, list(each.shape), dtype, list(shape))
            )
