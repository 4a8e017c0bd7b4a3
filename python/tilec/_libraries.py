"""Arrays of other libraries than NumPy: their memory as NumPy arrays, and results in the library that the arguments came from.

    X, Y of torch    ⇒  the kernel reads X and Y where they lie, writes a tensor that torch made; the call gives this tensor
    X of JAX, 3.0    ⇒  the same; JAX takes over memory that NumPy made, aligned as JAX wants it

A Library says how a value is seen as a NumPy array over the same memory (`view`) and how a kernel is run so that its outputs are values of
the library (`run`). NumPy needs none: None stands for it. No library is imported here: who passes its values has imported it.
"""

from __future__ import annotations

import functools
import re
import sys

import numpy as np

from ._call import Seen, address, bfloat16, number_as
from . import _library as _c
from ._torch_gpu import TorchOnGpu
from .errors import check

_ON_HOST = (1, 3, 13)                                         # DLPack's kDLCPU, kDLCUDAHost, kDLCUDAManaged
_ON_GPU = 2                                                   # kDLCUDA

# Element types that Tile has not, by their names in PyTorch, and what can be passed instead.
_NARROW = (
    ("float[468]_.*", "pass .float()"),
    ("complex32", "pass .real.float() and .imag.float() as two arrays"),
    ("complex.*", "pass its .real and .imag as two arrays"),
    ("q(int|uint)[0-9x]+", "pass .dequantize(), or .int_repr() for its integers"),
    ("int[1-7]|uint[1-7]", "pass .to(torch.int8), or .to(torch.uint8)"),
    ("bits.*", "pass .view(torch.uint8)"),
)


def refuse_device(name: str, where, is_gpu: bool = False) -> None:
    raise ValueError(
        "%s lies on %s: a call takes arrays in the memory of the CPU; copy it there, with .cpu() in PyTorch%s"
        % (name, where, ", or compile the program for the GPU, by tilec.compile(…, target=\"cuda\")" if is_gpu else "")
    )


class Torch:
    """PyTorch. Tensors are taken by address, shape and strides, so a call of a known kind makes no NumPy array."""
    name = "torch"

    def __init__(self, torch):
        self.torch, self.kinds = torch, (torch.Tensor, torch.nn.Parameter)
        self.grad_enabled, self.host = torch.is_grad_enabled, torch.device("cpu")
        names = {np.bool_: "bool", np.float16: "float16"}
        types = [
            np.int8,
            np.int16,
            np.int32,
            np.int64,
            np.uint8,
            np.uint16,
            np.uint32,
            np.uint64,
            np.float16,
            np.float32,
            np.float64,
            np.bool_,
        ]
        self.types = {np.dtype(t): getattr(torch, names.get(t, np.dtype(t).name)) for t in types}
        self.numpy_types = {theirs: dtype for dtype, theirs in self.types.items()}
        self.taken = frozenset(self.types.values()) | {torch.bfloat16}
        self.written = torch.autograd.graph.increment_version
        self.on_gpu = TorchOnGpu(self)
        self.forward_ad, self.pre_dispatch, self.proxy = (
            torch.autograd.forward_ad,
            torch._C.DispatchKey.PreDispatch,
            torch._C._TorchDispatchModeKey.PROXY,
        )
        self.mode_count, self.has_key, self.jit_state = (
            torch._C._len_torch_dispatch_stack,
            torch._C._dispatch_tls_is_dispatch_key_included,
            torch._C._get_tracing_state,
        )
        for kind in self.kinds:
            exchange = getattr(kind, "__dlpack_c_exchange_api__", None)  # PyTorch 2.10 and later
            if exchange is not None:
                _c.python.tilec_python_exchange(id(kind), _c.capsule_pointer(exchange, b"dlpack_exchange_api"))

    def check_no_graph(self, name: str, value) -> None:
        self.check_not_traced()
        if not isinstance(value, self.torch.Tensor):
            return
        if value.requires_grad and self.grad_enabled():
            raise ValueError(
                "%s requires grad, and a plain call is no part of autograd's graph: call tilec.torch.function(program), or call under torch.no_grad(), "
                "or pass %s.detach()" % (name, name)
            )
        if self.is_dual(value):
            raise ValueError(
                "%s has a tangent, and a plain call has no forward mode: call tilec.torch.function(program), "
                "or pass its primal, as torch.autograd.forward_ad.unpack_dual gives it" % name
            )

    def is_dual(self, value) -> bool:
        """Does forward mode follow it?"""
        return (
            self.forward_ad._current_level >= 0
            and self.torch._C._is_fwd_grad_enabled()
            and self.forward_ad.unpack_dual(value).tangent is not None
        )

    def is_traced(self) -> bool:
        """Does PyTorch write down what is called: make_fx, with what is built on it, or torch.jit.trace?"""
        return (
            (self.mode_count() > 0 and self.torch._C._get_dispatch_mode(self.proxy) is not None)
            or self.jit_state() is not None
            or (
                self.has_key(self.pre_dispatch)
                and self.torch._ops._get_dispatch_mode_pre_dispatch(self.proxy) is not None
            )
        )

    def check_not_traced(self) -> None:
        if self.is_traced():
            raise TypeError(
                "PyTorch traces (make_fx, torch.func.linearize, torch.jit.trace), and a plain call or function() is no part of its graph: call tilec.torch.op(program)"
            )

    def is_freed(self, value) -> bool:
        """Does its storage not hold its elements any more, as storage.resize_() leaves it?"""
        if not value.numel():
            return False
        last = value.storage_offset() + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
        return value.untyped_storage().nbytes() < (last + 1) * value.element_size()

    def view(self, name: str, value) -> np.ndarray:
        torch = self.torch
        spelled = str(value.dtype)[len("torch."):]
        if value.dtype not in self.taken:
            advice = next(
                (advice for pattern, advice in _NARROW if re.fullmatch(pattern, spelled)), "convert it with .to(…)"
            )
            raise TypeError(
                "%s: element type torch.%s is none of Tile's (bool, u8 … u64, i8 … i64, f16, bf16, f32, f64); %s"
                % (name, spelled, advice)
            )
        if value.layout is not torch.strided:
            raise TypeError("%s: a tensor of layout %s has no strides; pass .to_dense()" % (name, value.layout))
        if value.device.type != "cpu":
            refuse_device(name, value.device, value.is_cuda)
        try:
            freed = self.is_freed(value)
        except Exception:                                     # no memory of its own
            freed = False
        if freed:
            raise TypeError(
                "%s: its memory was freed, or made smaller: its storage has %d bytes"
                % (name, value.untyped_storage().nbytes())
            )
        try:
            plain = value.detach().resolve_neg()
            # by DLPack: numpy() would forbid that its memory is ever resized, as FSDP does
            if plain.dtype is torch.bfloat16:
                return np.from_dlpack(plain.view(torch.int16)).view(bfloat16())
            return np.from_dlpack(plain)
        # tensors without memory of their own, and modes that take none that has: those of torch.func, torch.compile and
        # the like
        except Exception as fault:
            raise TypeError(
                "%s: a %s cannot be taken as an array; where PyTorch traces or transforms, call tilec.torch.op(program): %s"
                % (name, type(value).__name__, fault)
            ) from fault

    def key(self, values, out) -> "list | None":
        """What NumPy's dtype, shape and strides are for arrays, and the GPU where they lie on one. None: something
        among them is not to be taken by its address, none is a tensor, they do not lie together, or PyTorch traces."""
        if self.is_traced():
            return None
        key, tensor, parameter = [], *self.kinds
        places = set()                                        # numbers of GPUs; -1: the CPU
        for value in values:
            kind = type(value)
            if kind is tensor or kind is parameter:
                if not self.lies_plain(value):
                    return None
                places.add(value.get_device())
                key.append((value.dtype, value.shape, value.stride()))
            elif kind is np.ndarray:
                places.add(-1)
                key.append((value.dtype, value.shape, value.strides))
            elif kind is float or value is None:
                key.append(kind)
            elif (kind is int or kind is bool) and value < 2**63:
                key.append(int)
            else:
                return None
        for value in out or ():
            kind = type(value)
            if (kind is not tensor and kind is not parameter) or not self.lies_plain(value):
                return None
            places.add(value.get_device())
            key.append((value.shape, value.stride(), value.dtype))
        if len(places) != 1 or not any(type(value) in self.kinds for value in values):
            return None
        gpu = places.pop()
        if gpu >= 0:
            key += ["gpu", gpu, *map(self.on_gpu.is_misaligned, (*values, *(out or ())))]
        return key

    def lies_plain(self, value) -> bool:
        """Is a tensor what its address, shape and strides say, and does autograd not follow it?"""
        return (
            (value.is_cpu or value.is_cuda)
            and not value.is_neg()
            and not (value.requires_grad and self.grad_enabled())
            and not self.is_dual(value)
            and not self.is_freed(value)
        )

    def is_recorded(self, values) -> bool:
        """Is one among them that autograd may follow, that is negated when it is read or whose memory was freed? Or may
        PyTorch trace?"""
        if (
            self.mode_count()
            or self.jit_state()
            or self.has_key(self.pre_dispatch)
            or self.forward_ad._current_level >= 0
        ):
            return True                                       # the long way tells which
        tensor, parameter = self.kinds
        for value in values:
            kind = type(value)
            if (kind is tensor or kind is parameter) and (
                value.is_neg()
                or (value.requires_grad and self.grad_enabled())
                or (value.storage_offset() and self.is_freed(value))
            ):
                return True                                   # freed without an offset: its address is 0, which C sees
        return False

    def differs(self, value, array) -> bool:
        """Is what became an argument a copy?"""
        if isinstance(array, Seen):
            return array.address != value.data_ptr()
        return (
            array.size > 0 and address(array) != value.data_ptr() if type(value) in self.kinds else array is not value
        )

    def type_of(self, dtype: np.dtype):
        return self.types.get(dtype, self.torch.bfloat16)

    def numpy_type(self, dtype) -> np.dtype:
        return self.numpy_types[dtype] if dtype is not self.torch.bfloat16 else bfloat16()

    def makers(self, prepared) -> list:
        """What makes the tensors of a kernel's outputs. The device is said, as another may be PyTorch's default."""
        device = self.device_of(prepared)
        def maker(shape, dtype):
            return functools.partial(self.torch.empty, *(shape or ((),)), dtype=self.type_of(dtype), device=device)
        return [maker(shape, dtype) for _, dtype, shape in prepared.outputs]

    def device_of(self, prepared):
        return self.torch.device("cuda", prepared.gpu) if prepared.on_gpu else self.host

    def run(self, prepared, values, out=None, stream: "int | None" = None):
        if prepared.on_gpu:
            return self.on_gpu.run(prepared, values, out, stream)
        self.check_not_traced()
        ins, outs = prepared.blocks()
        tensor, parameter = self.kinds
        temporaries = None
        for k, (position, dtype, shape) in enumerate(prepared.sources):
            value = values[position] if position is not None else None
            kind = type(value)
            if kind is tensor or kind is parameter:
                ins[k] = value.data_ptr() or self.nowhere(value)
                continue
            if kind is not np.ndarray:
                value = np.zeros(shape, dtype) if value is None else number_as(prepared.names[position], value, dtype)
                temporaries = (temporaries or []) + [value]
            ins[k] = address(value)
        if out is None:
            if prepared.of_torch is None:
                prepared.of_torch = self.makers(prepared)
            out = [make() for make in prepared.of_torch]
        for k, value in enumerate(out):
            kind = type(value)
            outs[k] = (
                (value.data_ptr() or self.nowhere(value))
                if kind is tensor or kind is parameter
                else address(value) if kind is np.ndarray else self.nowhere(value)
            )
        status = prepared.run(prepared.handle, ins, outs)
        if status:
            check(status)
        return out[0] if len(out) == 1 else tuple(out)

    def nowhere(self, tensor) -> int:
        """An address for a tensor without elements, which has none of its own, as have those that PyTorch makes while
        it traces."""
        if type(tensor) not in self.kinds or not (tensor.is_cpu or tensor.is_cuda) or tensor.numel():
            raise TypeError(
                "a %s has no memory: where PyTorch traces or transforms, call tilec.torch.op(program)"
                % type(tensor).__name__
            )
        return _NOWHERE


class Jax:
    """JAX. Its arrays are never written: results are memory that NumPy made and nobody else holds, aligned so that JAX
    takes it over."""
    name = "jax"

    def __init__(self, jax):
        self.jax = jax

    def check_no_graph(self, name: str, value) -> None:
        pass

    def view(self, name: str, value) -> np.ndarray:
        if not isinstance(value, self.jax.core.Tracer):
            platform = next(iter(value.devices())).platform
            if platform != "cpu":
                refuse_device(name, "a device of JAX (%s)" % platform)
        try:
            array = np.asarray(value)
        except Exception as fault:                            # a value that JAX traces has no elements
            raise TypeError("%s: a %s cannot be taken as an array: %s" % (name, type(value).__name__, fault)) from fault
        return array

    def run(self, prepared, values, out=None):
        if out is not None:
            return prepared(values, out)
        made = [_aligned(shape, dtype) for _, dtype, shape in prepared.outputs]
        prepared(values, made)
        results = [
            self.jax.device_put(array, self.jax.local_devices(backend="cpu")[0], may_alias=True) for array in made
        ]
        return results[0] if len(results) == 1 else tuple(results)


class Exchange:
    """Any library with DLPack and the array API: results go through its from_dlpack."""

    def __init__(self, namespace):
        self.namespace, self.name = namespace, getattr(namespace, "__name__", "another library")

    def check_no_graph(self, name: str, value) -> None:
        pass

    def run(self, prepared, values, out=None):
        if out is not None:
            return prepared(values, out)
        made = [_aligned(shape, dtype) for _, dtype, shape in prepared.outputs]
        prepared(values, made)
        results = [self._taken_over(name, array) for (name, _, _), array in zip(prepared.outputs, made)]
        return results[0] if len(results) == 1 else tuple(results)

    def _taken_over(self, name, array):
        try:
            return self.namespace.from_dlpack(array)
        except Exception as fault:                            # whatever a foreign library raises
            raise TypeError(
                "%s: %s does not take an array of %s: %s" % (name, self.name, array.dtype, fault)
            ) from fault


_some_bytes = np.zeros(64, np.uint8)
_NOWHERE = address(_some_bytes)                               # of tensors without elements
_ALIGNMENT = 64                                               # what JAX needs to take memory over


def _aligned(shape, dtype: np.dtype) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    block = np.empty(count + _ALIGNMENT, np.uint8)
    start = -address(block) % _ALIGNMENT
    return block[start:start + count].view(dtype).reshape(shape)


def torch_if_met() -> "Torch | None":
    """PyTorch, if one of its tensors has been an argument."""
    return _met_torch


_met_torch: "Torch | None" = None


def of_torch() -> Torch:
    global _met_torch
    if _met_torch is None:
        _met_torch = Torch(sys.modules["torch"])
    return _met_torch


@functools.cache
def _jax() -> Jax:
    return Jax(sys.modules["jax"])


@functools.cache
def _exchange(namespace) -> Exchange:
    return Exchange(namespace)


_KNOWN: dict = {}                                             # types of torch and JAX that were met


def library_of(value) -> "Torch | Jax | Exchange | None":
    """None: NumPy, or no array."""
    kind = type(value)
    found = _KNOWN.get(kind)
    if found is not None or isinstance(value, (np.ndarray, np.generic, bool, int, float, list, tuple)):
        return found
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if isinstance(value, getattr(torch, "Tensor", ())):
        found = _KNOWN[kind] = of_torch()
    elif isinstance(value, getattr(jax, "Array", ())):
        found = _KNOWN[kind] = _jax()
    elif hasattr(kind, "__dlpack__") and hasattr(kind, "__array_namespace__"):
        namespace = value.__array_namespace__()
        return None if namespace is np else _exchange(namespace)
    return found


def one_library(names, values) -> "Torch | Jax | Exchange | None":
    """That of all values: NumPy's arrays, lists and numbers go with any other; two others do not go together."""
    found, owner = None, None
    for name, value in zip(names, values):
        library = library_of(value)
        if library is None or library is found:
            continue
        if found is not None:
            raise TypeError(
                "%s is of %s and %s of %s: give all arrays in one library (NumPy's go with any other)"
                % (owner, found.name, name, library.name)
            )
        found, owner = library, name
    return found


def library_of_call(names, values) -> "Torch | Jax | Exchange | None":
    """The same, of a call that records nothing: ValueError where PyTorch would have it record."""
    library = one_library(names, values)
    if library is not None:
        for name, value in zip(names, values):
            library.check_no_graph(name, value)
    return library


def note_written(arrays) -> None:
    """Autograd shall notice that tensors it saved have changed."""
    for array in arrays:
        library = library_of(array)
        if isinstance(library, Torch):
            library.written(array)


def version_of(value) -> "int | None":
    """How often a tensor of PyTorch has been changed. None: it is none, or one that does not count."""
    return value._version if isinstance(library_of(value), Torch) and not value.is_inference() else None


def check_host(name: str, value) -> None:
    """ValueError where what has DLPack lies on a device."""
    where = getattr(value, "__dlpack_device__", None)
    if where is not None:
        kind = int(where()[0])
        if kind not in _ON_HOST:
            refuse_device(name, "a device (DLPack's device type %d)" % kind, kind == _ON_GPU)
