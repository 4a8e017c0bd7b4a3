"""Derivatives of operators, and their batches, as one operator that is told which.

    dI, dK = tilec::derivative("tilec::conv; grad I K of O", [I, K, dO], [])
"""

from __future__ import annotations

import typing

import torch
from torch.autograd import forward_ad

from . import Program
from ._torch_function import as_tuple, batch_in_front, is_tensor, names_of_batch
from ._torch_traced import Traced, concrete

# by path, those of operators among them: PyTorch keeps these as long as the process lives
_KNOWN: "dict[str, Traced]" = {}


def add_operator(name: str, traced: Traced) -> None:
    _KNOWN[name] = traced


def derived(path: str) -> Traced:
    """The program of a path such as "tilec::conv; grad I K of O; vmap dO"."""
    found = _KNOWN.get(path)
    if found is None:
        rest, _, step = path.rpartition("; ")
        if not rest:
            raise RuntimeError(
                "the graph has a derivative of %s: make this operator first, by tilec.torch.op(program, %r)" % (path, path)
            )
        how, _, names = step.partition(" ")
        program, (names, _, of) = derived(rest).program, names.partition(" of ")
        found = _KNOWN[path] = Traced(
            program.vmap(names.split()) if how == "vmap" else getattr(program, how)(wrt=names.split(), of=of.split())
        )
    return found


# Among the numbers of an operator: an input that is not given. Tile has no complex numbers.
_ABSENT = 0j


def separated(values) -> "tuple[list, list]":
    """Tensors, None where a number is; and the numbers."""
    numbers = [v for v in values if not is_tensor(v)]
    return [v if is_tensor(v) else None for v in values], [_ABSENT if v is None else concrete(v) for v in numbers]


def numbers_of(separate) -> "typing.Iterator":
    """None where an input is not given."""
    return (None if isinstance(v, complex) else v for v in separate)


def batched(path: str, inputs, dims, values: list) -> "list[torch.Tensor]":
    """The program of a path, for a batch: torch.func.vmap. `dims` are where the values have it."""
    values = batch_in_front(dims, values)
    return derivative_of("%s; vmap %s" % (path, " ".join(names_of_batch(inputs, dims))), values)


def gradients_of(path: str, wrt, of, values: list) -> "list[torch.Tensor]":
    """By the inputs `wrt`, of the program of a path: `values` are its inputs and the cotangents of `of`."""
    return derivative_of("%s; grad %s of %s" % (path, " ".join(wrt), " ".join(of)), values)


def derivative_of(path: str, values: list) -> "list[torch.Tensor]":
    """The results of the program of a path, with tangents where values have them: PyTorch's custom_op would drop
    these."""
    if not any(map(is_dual, values)):
        return torch.ops.tilec.derivative(path, *separated(values))
    if torch.is_grad_enabled() and any(is_tensor(v) and v.requires_grad for v in values):
        raise NotImplementedError(
            "forward mode of a derivative of an operator inside a traced graph, where autograd records too: call tilec.torch.function(program) in eager mode (%s)"
            % path
        )
    pairs = [forward_ad.unpack_dual(v, level=0) if is_dual(v) else (v, None) for v in values]
    primals, program = [primal for primal, _ in pairs], derived(path).program
    results = derivative_of(path, primals)
    floats = [k for k, result in enumerate(results) if result.is_floating_point()]
    wrt = [name for name, (_, tangent) in zip(program.inputs, pairs) if tangent is not None]
    if floats:
        step = "jvp %s of %s" % (" ".join(wrt), " ".join(program.outputs[k] for k in floats))
        tangents = derivative_of(
            "%s; %s" % (path, step), primals + [tangent for _, tangent in pairs if tangent is not None]
        )
        for k, tangent in zip(floats, tangents):
            results[k] = forward_ad.make_dual(results[k], tangent, level=0)
    return results


def is_dual(value) -> bool:
    """Does forward mode follow it? PyTorch has one level, which graphs of torch.compile enter without a word to
    torch.autograd.forward_ad."""
    return (
        is_tensor(value)
        and value.is_floating_point()
        and torch._C._is_fwd_grad_enabled()
        and forward_ad.unpack_dual(value, level=0).tangent is not None
    )


def run_unrecorded(program: Program, values: list):
    """A call of an operator's kernel, of which all that PyTorch records is recorded above it."""
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):
        return program(*[v.detach() if is_tensor(v) else v for v in values])


def with_numbers(tensors, numbers) -> list:
    rest = numbers_of(numbers)
    return [next(rest) if v is None else v for v in tensors]


@torch.library.custom_op(
    "tilec::derivative",
    mutates_args=(),
    device_types=("cpu", "cuda"),
    schema="(str path, Tensor?[] tensors, Scalar[] numbers) -> Tensor[]",
)
def _derivative(path, tensors, numbers):
    return list(as_tuple(run_unrecorded(derived(path).program, with_numbers(tensors, numbers))))


@_derivative.register_fake
def _(path, tensors, numbers):
    return derived(path).results(with_numbers(tensors, numbers))


def _save_derivative(ctx, inputs, output) -> None:
    ctx.path, tensors, ctx.numbers = inputs
    ctx.given = [v is not None for v in tensors]
    ctx.save_for_backward(*[v for v in tensors if v is not None])


def _derivative_backward(ctx, cotangents):
    program = derived(ctx.path).program
    saved = iter(ctx.saved_tensors)
    tensors = [next(saved) if given else None for given in ctx.given]
    wrt = [
        name
        for name, v, needed in zip(program.inputs, tensors, ctx.needs_input_grad[1])
        if needed and v is not None and v.is_floating_point()
    ]
    of = [name for name, seed in zip(program.outputs, cotangents) if seed is not None]
    result = dict.fromkeys(program.inputs)
    if wrt and of:
        seeds = [seed for seed in cotangents if seed is not None]
        result.update(zip(wrt, gradients_of(ctx.path, wrt, of, with_numbers(tensors, ctx.numbers) + seeds)))
    # PyTorch takes an empty list for one of tensors
    return None, [result[name] for name in program.inputs], None if ctx.numbers else []


_derivative.register_autograd(_derivative_backward, setup_context=_save_derivative)


@_derivative.register_vmap
def _(info, dims, path, tensors, numbers):
    held = dims[1] if isinstance(dims[1], (list, tuple)) else [dims[1]] * len(tensors)
    results = batched(path, derived(path).program.inputs, held, with_numbers(tensors, numbers))
    return results, [0] * len(results)
