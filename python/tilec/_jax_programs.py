"""Programs, asked about shapes and compiled for them: what the primitive of JAX computes with. Nothing here knows JAX."""

from __future__ import annotations

import ctypes
import functools
import typing

import numpy as np

from . import Program
from . import _library as _c
from ._call import Block, numpy_type, settle_sizes
from .errors import ArgumentTypeError, ProgramError, check, said

Specs = "tuple[tuple[tuple[int, ...], np.dtype], ...]"    # shape and element type of each array
_NO_SIZE = (
    "a size is part of what is compiled, and arrays have no values yet when JAX traces: give it as a Python int, "
    "which under jax.jit is one that a closure holds or static_argnums names"
)


def _stand_in(shape: "tuple[int, ...]", dtype: np.dtype) -> np.ndarray:
    """A row-major array of any size whose elements nobody reads, but for the value of an integer scalar: that is 1."""
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return np.lib.stride_tricks.as_strided(np.ones(1, dtype), shape, strides, writeable=False)


class Ports:
    """Names, element types and shapes of a kernel's inputs and outputs. It holds the kernel, as executables do."""

    def __init__(self, handle: int):
        self._handle, port = handle, _c.Port()

        def ports(count, at):
            found = []
            for k in range(count(handle)):
                check(at(handle, k, ctypes.byref(port)))
                found.append((port.name.decode(), tuple(port.shape[: port.ndim]), numpy_type(port.dtype)))
            return found

        self.inputs = ports(_c.lib.tilec_kernel_input_count, _c.lib.tilec_kernel_input)
        self.outputs = ports(_c.lib.tilec_kernel_output_count, _c.lib.tilec_kernel_output)

    def __del__(self):
        if _c is not None:
            _c.lib.tilec_kernel_destroy(self._handle)

    @functools.cached_property
    def text(self) -> bytes:
        """By which XLA calls the kernel."""
        buffer = ctypes.c_void_p()
        check(_c.lib.tilec_xla_text(self._handle, ctypes.byref(buffer)))
        try:
            return ctypes.string_at(_c.lib.tilec_buffer_data(buffer), _c.lib.tilec_buffer_size(buffer))
        finally:
            _c.lib.tilec_buffer_destroy(buffer)


class Function:
    """A program and the numbers that it is called with; the rest of its inputs, `names`, are arrays."""

    def __init__(self, program: Program, numbers: "dict[str, object]", names: "tuple[str, ...]"):
        self.program, self.numbers, self.names = program, numbers, names
        self._made: dict = {}

    def once(self, key: tuple, make: typing.Callable):
        """What is equal is one object, so that JAX finds what it has traced and compiled."""
        found = self._made.get(key)
        return found if found is not None else self._made.setdefault(key, make())

    def derived(self, how: str, of: "tuple[str, ...]", wrt: "tuple[str, ...]") -> "Function":
        def make():
            program = getattr(self.program, how)(of=list(of), wrt=list(wrt))
            return Function(program, self.numbers, self.names + program.inputs[len(self.program.inputs):])
        return self.once((how, of, wrt), make)

    def batched(self, names: "tuple[str, ...]") -> "Function":
        return self.once(("vmap", names), lambda: Function(self.program.vmap(list(names)), self.numbers, self.names))

    def block(self, specs: Specs) -> Block:
        arrays = dict(zip(self.names, specs))
        items = [(n, _stand_in(*arrays[n]) if n in arrays else self.numbers.get(n)) for n in self.program.inputs]
        return Block([(n, v) for n, v in items if v is not None], stand_in=True)

    def ask(self, function, *parameters) -> None:
        check(function(self.program._handle, *parameters), self.program._heard())
        self.program._hear(said())

    def outputs(self, specs: Specs) -> "list[tuple[str, tuple[int, ...], np.dtype]]":
        """Name, shape and element type of each output."""
        def make():
            block, handle = self.block(specs), ctypes.c_void_p()
            scalars = [n for n, (shape, dtype) in zip(self.names, specs) if not shape and dtype.kind in "iub"]
            try:
                self.ask(_c.lib.tilec_infer, block.structs, block.count, ctypes.byref(handle))
            except (ProgramError, ValueError, TypeError) as fault:
                if scalars:
                    fault.args = ("%s\nWhile tracing, %s: %s" % (fault, " and ".join(scalars), _NO_SIZE),)
                raise
            ports = Ports(handle.value)
            known = {name for name, _, _ in ports.inputs}
            sizes = [n for n in scalars if n not in known]
            if sizes:
                raise ArgumentTypeError("%s of %s: %s" % (sizes[0], self.program.name or "the function", _NO_SIZE))
            return ports.outputs
        return self.once(("outputs", specs), make)

    def types_of_inputs(self, specs: Specs) -> "dict[str, np.dtype]":
        """Element types of what is data; a number that is a size is not there."""
        block, handle = self.block(specs), ctypes.c_void_p()
        self.ask(_c.lib.tilec_infer, block.structs, block.count, ctypes.byref(handle))
        return {name: dtype for name, _, dtype in Ports(handle.value).inputs}

    def kernel(self, specs: Specs) -> Ports:
        def make():
            block, handle = self.block(specs), ctypes.c_void_p()
            self.ask(_c.lib.tilec_specialize, block.structs, block.count, None, 0, ctypes.byref(handle))
            return self._checked(Ports(handle.value))
        return self.once(("kernel", specs), make)

    def pair(self, specs: Specs, of: "tuple[str, ...]", wrt: "tuple[str, ...]") -> "tuple[Ports, Ports]":
        from ._program import derivative_names
        def make():
            self.program._check_differentiable()
            block, forward, backward = self.block(specs), ctypes.c_void_p(), ctypes.c_void_p()
            self.ask(
                _c.lib.tilec_vjp,
                *derivative_names(list(of), list(wrt)),
                block.structs,
                block.count,
                None,
                0,
                ctypes.byref(forward),
                ctypes.byref(backward),
            )
            return self._checked(Ports(forward.value)), Ports(backward.value)
        return self.once(("pair", specs, of, wrt), make)

    def _checked(self, ports: Ports) -> Ports:
        """Numbers that 64 bits do not hold stand as 1 where they are asked about: those that were compiled in are
        refused."""
        known = {name for name, _, _ in ports.inputs}
        settle_sizes(
            list(self.numbers), list(self.numbers.values()), {k for k, n in enumerate(self.numbers) if n not in known}
        )
        return ports
