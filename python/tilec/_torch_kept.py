"""Forward and backward of an operator with what is kept in between, as two operators that are told whose they are.

    O, kept = tilec::forward("tilec::conv", "I K", …, [I, K], [])
    dI, dK = tilec::backward("tilec::conv", "I K", …, [I, K, kept, dO], [])
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from ._call import Seen
from ._libraries import of_torch
from ._torch_derivative import derived, numbers_of, with_numbers
from ._torch_function import as_tuple, is_tensor, is_transformed


def layout_of(values) -> "str | None":
    """What a pair of kernels is compiled for: type, sizes and strides of each tensor, and its GPU if it is on one; "-"
    for a number and for nothing. None: they are not known, or a transform wants the operator itself. A tensor with gaps or repeats is
    row-major there, a copy.
    """
    if is_transformed():
        return None
    parts = []
    for value in values:
        if not is_tensor(value):
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return None
            parts.append("-")
            continue
        if (
            any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
            or value.dtype not in of_torch().taken
        ):
            return None
        if not value.dim() and not value.is_floating_point():
            return None                                       # it may be a size, whose value is not known
        parts.append(
            ":".join(
                [
                    str(value.dtype)[len("torch.") :],
                    *(",".join(map(str, each)) for each in (value.shape, _dense_strides(value))),
                    *([str(value.device.index or 0)] if value.device.type == "cuda" else []),
                ]
            )
        )
    return " ".join(parts)


def _dense_strides(tensor) -> "list[int]":
    """Those of the tensor, if it has neither gaps nor repeats; else row-major ones."""
    sizes, order = tensor.shape, range(tensor.dim() - 1, -1, -1)
    for dims in (sorted(order, key=lambda d: (tensor.stride(d), sizes[d])), order):
        strides, step = [0] * tensor.dim(), 1
        for d in dims:
            strides[d], step = step, step * max(1, sizes[d])
        if all(size == 1 or a == b for size, a, b in zip(sizes, strides, tensor.stride())):
            break
    return strides


@functools.lru_cache(maxsize=1024)
def _described(layout: str) -> list:
    """(sizes, strides, array without contents) for each tensor of a layout, None for a number."""
    found = []
    for part in layout.split(" "):
        if part == "-":
            found.append(None)
            continue
        dtype, sizes, strides, *gpu = part.split(":")
        sizes, strides = (tuple(map(int, each.split(","))) if each else () for each in (sizes, strides))
        kind = of_torch().numpy_type(getattr(torch, dtype))
        if gpu:
            found.append((sizes, strides, Seen(kind, sizes, strides, 0, int(gpu[0]))))
            continue
        memory = np.empty(
            1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 1, kind
        )
        found.append(
            (sizes, strides, np.ndarray(sizes, kind, memory, strides=[stride * kind.itemsize for stride in strides]))
        )
    return found


def pair_for(path: str, wrt: str, layout: str, numbers):
    """The pair of kernels of vjp() for values laid out so."""
    rest = numbers_of(numbers)
    return derived(path).program._pair(
        [next(rest) if each is None else each[2] for each in _described(layout)], (), wrt.split()
    )


def kept_by(path: str, pair) -> str:
    """Names of what forward gives besides the outputs."""
    return " ".join(pair.names[len(derived(path).program.outputs):])


def _laid_out(tensor, sizes, strides):
    """A tensor with these strides; those of a dimension of one element do not matter."""
    tensor = tensor.detach().resolve_neg()
    if tensor.is_cuda and of_torch().on_gpu.is_misaligned(tensor):
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    if tensor.stride() == strides or all(size == 1 or a == b for size, a, b in zip(sizes, tensor.stride(), strides)):
        return tensor
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


@torch.library.custom_op(
    "tilec::forward",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    schema="(str path, str wrt, str layout, str kept, Tensor?[] tensors, Scalar[] numbers) -> Tensor[]",
)
def _forward(path, wrt, layout, kept, tensors, numbers):
    pair = pair_for(path, wrt, layout, numbers)
    if kept_by(path, pair) != kept:
        raise RuntimeError(
            "the graph was made where forward of %s keeps (%s) for backward, and this tilec keeps (%s): empty PyTorch's cache of compiled graphs"
            % (path, kept, kept_by(path, pair))
        )
    values = [
        v if v is None else _laid_out(v, sizes, strides)
        for v, (sizes, strides, _) in zip(tensors, (each or (None,) * 3 for each in _described(layout)))
    ]
    return list(as_tuple(of_torch().run(pair.forward, with_numbers(values, numbers))))


@_forward.register_fake
def _(path, wrt, layout, kept, tensors, numbers):
    return _new(tensors, pair_for(path, wrt, layout, numbers).forward)


@torch.library.custom_op(
    "tilec::backward",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    schema="(str path, str wrt, str layout, Tensor?[] wanted, Scalar[] numbers) -> Tensor[]",
)
def _backward(path, wrt, layout, wanted, numbers):
    pair, described = pair_for(path, wrt, layout, numbers), dict(zip(derived(path).program.inputs, _described(layout)))
    rest = numbers_of(numbers)
    known = {name: next(rest) for name, each in described.items() if each is None}
    for name, value in zip(pair.wanted, wanted):
        if value is not None:
            known[name] = (
                _laid_out(value, *described[name][:2])
                if name in described
                else value.detach().contiguous().resolve_neg()
            )
    return list(as_tuple(of_torch().run(pair.backward, [known[name] for name in pair.wanted])))


@_backward.register_fake
def _(path, wrt, layout, wanted, numbers):
    return _new(wanted, pair_for(path, wrt, layout, numbers).backward)


def _new(tensors, prepared) -> list:
    """Results of a kernel without a run."""
    some = next(v for v in tensors if v is not None)
    return [some.new_empty(shape, dtype=of_torch().type_of(dtype)) for _, dtype, shape in prepared.outputs]
