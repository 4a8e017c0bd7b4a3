"""A program as an operator that PyTorch registers, so that torch.compile, torch.export and autocast know it.

    op(conv)         ⇒   tilec::conv(Tensor I, Tensor K) -> Tensor
    differentiated   ⇒   O, kept = tilec::forward("tilec::conv", "I K", …, [I, K], [])
                         dI, dK = tilec::backward("tilec::conv", "I K", …, [I, K, kept, dO], [])
    its derivative   ⇒   tilec::derivative("tilec::conv; grad I K of O", [I, K, dO], []) -> Tensor[]

An operator has one schema, and an input of any rank may be a tensor or a number: it becomes two parameters, `Tensor? S, Scalar? S_number`, of which
one is given. Its fake kernel gives the results' types and sizes, symbolic ones as the program's text writes them.

Where autograd records, forward and backward are the pair of kernels of vjp(), as in function(): forward gives what it keeps as results of its own. What is
kept is known for sizes that are numbers; where sizes are symbols, and under transforms of torch.func, backward is the gradient program, which computes
it again, and so is backward of backward. All pairs, and all derivatives, are one operator each that is told which: a graph that PyTorch reads from its
cache on disk, in a process that has made tilec::conv only, finds them. Eager calls do not go through PyTorch's dispatcher at all: they are those of function().
"""

from __future__ import annotations

import functools
import itertools
import keyword
import re

import numpy as np
import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad

from . import Program
from ._libraries import of_torch
from ._sizes import SizeFormulas
from ._torch_function import Function, as_tuple, batch_in_front, is_tensor, is_transformed, names_of_batch, refuse_other
from .errors import ShapeError

# by qualified name; PyTorch keeps operators as long as the process lives
_REGISTERED: "dict[str, Op]" = {}
_SPACES: "dict[str, torch.library.Library]" = {}


class Op:
    """What op() gives. It is called as the program is, in eager mode and where PyTorch traces; `overload` is the
    registered operator."""

    def __init__(self, program: Program, name: str, autocast: "torch.dtype | None", tensors: "frozenset[str]"):
        self.program, self.name, self.autocast = program, name, autocast
        self.inputs, self.outputs = program.inputs, program.outputs
        self._function = Function(program)
        self._tensors = tensors                               # inputs that are no numbers, whatever the call
        self._traced = _Traced(program)
        self._register()

    def __repr__(self) -> str:
        return "<tilec.torch.Op %s(%s) -> (%s)>" % (self.name, ", ".join(self.inputs), ", ".join(self.outputs))

    def __copy__(self) -> "Op":
        return self

    def __deepcopy__(self, memo: dict) -> "Op":
        return self

    def __reduce__(self):
        raise TypeError("an operator is not pickled: make it in the other process, by tilec.torch.op(program, name)")

    def __call__(self, /, *arguments, **named):
        values = self._in_order(arguments, named)
        if torch.compiler.is_compiling() or _is_traced(values):
            return self.overload(*self._spread(values))
        if torch.is_autocast_enabled("cpu"):
            values = self._cast(values)
        return self._function(*values)

    def _in_order(self, arguments: tuple, named: dict) -> list:
        if len(arguments) + len(named) == len(self.inputs) and all(
            name in named for name in self.inputs[len(arguments) :]
        ):
            return list(arguments) + [named[name] for name in self.inputs[len(arguments):]]
        absent = [name for name in self.inputs[len(arguments):] if name not in named]
        if absent and torch.compiler.is_compiling():
            raise TypeError(
                "%s: where PyTorch traces, %s is given too, whether or not it has a default"
                % (self.name, " and ".join(absent))
            )
        return self.program._by_position(arguments, named)    # says what is wrong

    # ---- between the values of a call and the parameters of the schema
    # ------------------------------------------------------

    def _parameters(self) -> "list[tuple[str, str]]":
        """(type, name) of each."""
        names = [re.sub(r"\W", "_", name) for name in self.inputs]
        usable = len(set(names)) == len(names) and not any(
            keyword.iskeyword(n) or n[0] in "_0123456789" or n.endswith("_number") or n in ("self", "out")
            for n in names
        )
        names = names if usable else ["input_%d" % k for k in range(len(names))]
        return list(
            itertools.chain.from_iterable(
                [("Tensor", n)] if name in self._tensors else [("Tensor?", n), ("Scalar?", n + "_number")]
                for name, n in zip(self.inputs, names)
            )
        )

    def _spread(self, values) -> list:
        flat = []
        for name, value in zip(self.inputs, values):
            if isinstance(value, (np.generic, np.ndarray)):
                value = torch.as_tensor(value)
            if name in self._tensors:
                if not isinstance(value, torch.Tensor):
                    raise TypeError(
                        "%s: where PyTorch traces, %s is a tensor of it, not a %s"
                        % (self.name, name, type(value).__name__)
                    )
                flat.append(value)
            elif isinstance(value, torch.Tensor):
                flat += [value, None]
            else:
                flat += [None, value]
        return flat

    def _gather(self, flat) -> list:
        rest, values = iter(flat), []
        for name in self.inputs:
            value = next(rest)
            if name not in self._tensors:
                number = next(rest)
                value = number if value is None else value
            values.append(value)
        return values

    # ---- what is registered
    # -------------------------------------------------------------------------------------------------

    def _register(self) -> None:
        results = ["Tensor"] * len(self.outputs)
        schema = "(%s) -> %s" % (
            ", ".join("%s %s" % each for each in self._parameters()),
            results[0] if len(results) == 1 else "(%s)" % ", ".join(results),
        )
        torch.library.define(self.name, schema, tags=(torch.Tag.pt2_compliant_tag,))
        space, short = self.name.split("::")
        library = _SPACES.get(space)
        if library is None:
            library = _SPACES[space] = torch.library.Library(space, "FRAGMENT")
        self.overload = getattr(getattr(torch.ops, space), short).default
        library.impl(short, self._run, "CPU")
        library.impl(short, self._under_autograd, "Autograd", with_keyset=True)
        torch.library.register_fake(self.name, self._fake)
        torch.library.register_vmap(self.name, self._vmap)
        for key in ("AutocastCPU", "AutocastCUDA"):
            library.impl(short, self._under_autocast(getattr(torch._C.DispatchKey, key)), key)

    def _run(self, *flat):
        return _run(self.program, self._gather(flat))

    def _under_autograd(self, keyset, *flat):
        if (torch.is_grad_enabled() and any(is_tensor(v) and v.requires_grad for v in flat)) or any(
            map(_is_dual, flat)
        ):
            with enable_single_level_autograd_function():
                results = _Recorded.apply(self, keyset, *flat)
            return results[0] if len(results) == 1 else results
        with torch._C._AutoDispatchBelowAutograd():
            return self._below_autograd(keyset, flat)

    def _below_autograd(self, keyset, flat):
        return self.overload.redispatch(keyset & torch._C._after_autograd_keyset, *flat)

    def _under_autocast(self, key):
        def cast(*flat):
            with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
                return self.overload(*self._spread(self._cast(self._gather(flat))))
        return cast

    def _cast(self, values: list) -> list:
        floats = [v for v in values if is_tensor(v) and v.is_floating_point()]
        if not floats:
            return values
        wanted = self.autocast
        if wanted is None:
            wanted = floats[0].dtype
            for value in floats:
                wanted = torch.promote_types(wanted, value.dtype)
        return [v.to(wanted) if is_tensor(v) and v.is_floating_point() else v for v in values]

    def _places(self) -> "list[int]":
        """Where in the schema each input's tensor is."""
        widths = [1 if name in self._tensors else 2 for name in self.inputs]
        return [sum(widths[:k]) for k in range(len(widths))]

    def _vmap(self, info, dims, *flat):
        results = _batched(self.name, self.inputs, self._gather(dims), self._gather(flat))
        return (results[0], 0) if len(results) == 1 else (tuple(results), (0,) * len(results))

    def _fake(self, *flat):
        results = self._traced.results(self._gather(flat))
        return results[0] if len(results) == 1 else tuple(results)


class _Recorded(torch.autograd.function._SingleLevelFunction):
    """A call of an operator that autograd records, or that forward mode follows: at one level of torch.func, whose
    interpreters are above."""

    @staticmethod
    def forward(ctx, op: Op, keyset, *flat):
        values, places = op._gather(flat), op._places()
        ctx.op, ctx.places = op, places
        ctx.wrt = [
            name
            for name, place in zip(op.inputs, places)
            if is_tensor(flat[place]) and flat[place].requires_grad and flat[place].is_floating_point()
        ]
        ctx.layout = _layout(values) if ctx.wrt else None
        if ctx.layout is not None and not any(dtype.is_floating_point for dtype in op._traced.inferred(values)[1]):
            ctx.layout = None                                 # nothing goes back
        with torch._C._AutoDispatchBelowAutograd():
            if ctx.layout is None:
                results = as_tuple(op._below_autograd(keyset, flat))
            else:
                tensors, numbers = _separated(values)
                wrt = " ".join(ctx.wrt)
                results = torch.ops.tilec.forward(
                    op.name, wrt, ctx.layout, _kept(op.name, _pair(op.name, wrt, ctx.layout, numbers)), tensors, numbers
                )
        ctx.values, ctx.tensors = [None if is_tensor(v) else v for v in values], [
            k for k, v in enumerate(values) if is_tensor(v)
        ]
        outputs = tuple(results[: len(op.outputs)])
        ctx.floats = [name for name, v in zip(op.outputs, outputs) if v.is_floating_point()]
        ctx.mark_non_differentiable(*[v for v in outputs if not v.is_floating_point()])
        ctx.save_for_backward(*[values[k] for k in ctx.tensors], *(results if ctx.layout is not None else ()))
        ctx.save_for_forward(*[values[k] for k in ctx.tensors])
        return outputs

    @staticmethod
    def jvp(ctx, _op, _keyset, *flat):
        op, values = ctx.op, list(ctx.values)
        for place, tensor in zip(ctx.tensors, ctx.saved_tensors):
            values[place] = tensor
        wrt = {name: flat[place] for name, place in zip(op.inputs, ctx.places) if flat[place] is not None}
        if not wrt or not ctx.floats:
            return (None,) * len(op.outputs)
        found = dict(
            zip(
                ctx.floats,
                _derivative_of(
                    "%s; jvp %s of %s" % (op.name, " ".join(wrt), " ".join(ctx.floats)), values + list(wrt.values())
                ),
            )
        )
        return tuple(found.get(name) for name in op.outputs)

    @staticmethod
    def backward(ctx, *cotangents):
        op, values, saved = ctx.op, list(ctx.values), ctx.saved_tensors
        for place, tensor in zip(ctx.tensors, saved):
            values[place] = tensor
        found = [None] * len(ctx.needs_input_grad)
        if not ctx.wrt or not ctx.floats:
            return tuple(found)
        seeds = [seed for name, seed in zip(op.outputs, cotangents) if name in ctx.floats]
        if ctx.layout is None or torch.is_grad_enabled() or any(map(_is_dual, (*values, *cotangents))):
            gradients = _gradients(op.name, ctx.wrt, ctx.floats, values + seeds)
        else:
            wrt, numbers = " ".join(ctx.wrt), _separated(values)[1]
            pair = _pair(op.name, wrt, ctx.layout, numbers)
            known = dict(zip(op.inputs, values))
            known.update(zip(pair.names, saved[len(ctx.tensors):]))
            known.update(zip(pair.cotangents, seeds))
            gradients = torch.ops.tilec.backward(
                op.name,
                wrt,
                ctx.layout,
                [known[name] if is_tensor(known[name]) else None for name in pair.wanted],
                numbers,
            )
        for name, value in zip(ctx.wrt, gradients):
            found[2 + ctx.places[op.inputs.index(name)]] = value
        return tuple(found)


class _Traced:
    """Types and sizes of a program's results without a run, where PyTorch traces."""

    def __init__(self, program: Program):
        self.program, self.formulas = program, SizeFormulas(program)

    def results(self, values: list) -> list:
        some = next(v for v in values if is_tensor(v))
        return [some.new_empty(shape, dtype=dtype) for shape, dtype in zip(*self.inferred(values))]

    def inferred(self, values: list) -> "tuple[list, list]":
        names = self.program.inputs
        numbers = [_concrete(v) for v in values]
        shapes = {name: tuple(v.shape) for name, v in zip(names, values) if is_tensor(v)}

        def infer(sizes) -> "list[tuple]":
            return _infer(
                self.program,
                [_stand_in(v, sizes[name]) if is_tensor(v) else v for name, v in zip(names, numbers)],
                [is_tensor(v) for v in values],
            )

        hints = {name: [_hint(size) for size in shape] for name, shape in shapes.items()}
        if any(isinstance(size, torch.SymInt) for shape in shapes.values() for size in shape) and all(
            None not in hint for hint in hints.values()
        ):
            found = infer(hints)
            made = self.formulas.apply(
                shapes,
                hints,
                [shape for _, shape in found],
                lambda sizes: [shape for _, shape in infer(sizes)],
                torch.sym_max,
                torch.sym_min,
            )
            if made is not None:
                return made, [of_torch().type_of(dtype) for dtype, _ in found]
        found = infer({name: [int(size) for size in shape] for name, shape in shapes.items()})
        return [shape for _, shape in found], [of_torch().type_of(dtype) for dtype, _ in found]


# ---- derivatives
# ------------------------------------------------------------------------------------------------------------

_DERIVED: "dict[str, _Traced]" = {}


def _derived(path: str) -> _Traced:
    """The program of a path such as "tilec::conv; grad I K of O; vmap dO"."""
    found = _DERIVED.get(path)
    if found is None:
        rest, _, step = path.rpartition("; ")
        if not rest:
            if path not in _REGISTERED:
                raise RuntimeError(
                    "the graph has a derivative of %s: make this operator first, by tilec.torch.op(program, %r)"
                    % (path, path)
                )
            return _REGISTERED[path]._traced
        how, _, names = step.partition(" ")
        program, (names, _, of) = _derived(rest).program, names.partition(" of ")
        found = _DERIVED[path] = _Traced(
            program.vmap(names.split()) if how == "vmap" else getattr(program, how)(wrt=names.split(), of=of.split())
        )
    return found


def _separated(values) -> "tuple[list, list]":
    """Tensors, None where a number is; and the numbers."""
    return [v if is_tensor(v) else None for v in values], [_concrete(v) for v in values if not is_tensor(v)]


def _batched(path: str, inputs, dims, values: list) -> "list[torch.Tensor]":
    """The program of a path, for a batch: torch.func.vmap. `dims` are where the values have it."""
    values = batch_in_front(dims, values)
    return _derivative_of("%s; vmap %s" % (path, " ".join(names_of_batch(inputs, dims))), values)


def _gradients(path: str, wrt, of, values: list) -> "list[torch.Tensor]":
    """By the inputs `wrt`, of the program of a path: `values` are its inputs and the cotangents of `of`."""
    return _derivative_of("%s; grad %s of %s" % (path, " ".join(wrt), " ".join(of)), values)


def _derivative_of(path: str, values: list) -> "list[torch.Tensor]":
    """The results of the program of a path, with tangents where values have them: PyTorch's custom_op would drop
    these."""
    if not any(map(_is_dual, values)):
        return torch.ops.tilec.derivative(path, *_separated(values))
    if torch.is_grad_enabled() and any(is_tensor(v) and v.requires_grad for v in values):
        raise NotImplementedError(
            "forward mode of a derivative of an operator inside a traced graph, where autograd records too: call tilec.torch.function(program) in eager mode (%s)"
            % path
        )
    pairs = [forward_ad.unpack_dual(v, level=0) if _is_dual(v) else (v, None) for v in values]
    primals, program = [primal for primal, _ in pairs], _derived(path).program
    results = _derivative_of(path, primals)
    floats = [k for k, result in enumerate(results) if result.is_floating_point()]
    wrt = [name for name, (_, tangent) in zip(program.inputs, pairs) if tangent is not None]
    if floats:
        step = "jvp %s of %s" % (" ".join(wrt), " ".join(program.outputs[k] for k in floats))
        tangents = _derivative_of(
            "%s; %s" % (path, step), primals + [tangent for _, tangent in pairs if tangent is not None]
        )
        for k, tangent in zip(floats, tangents):
            results[k] = forward_ad.make_dual(results[k], tangent, level=0)
    return results


def _is_dual(value) -> bool:
    """Does forward mode follow it? PyTorch has one level, which graphs of torch.compile enter without a word to
    torch.autograd.forward_ad."""
    return (
        is_tensor(value)
        and value.is_floating_point()
        and torch._C._is_fwd_grad_enabled()
        and forward_ad.unpack_dual(value, level=0).tangent is not None
    )


def _run(program: Program, values: list):
    """A call of an operator's kernel, of which all that PyTorch records is recorded above it."""
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):
        return program(*[v.detach() if is_tensor(v) else v for v in values])


def _with_numbers(tensors, numbers) -> list:
    rest = iter(numbers)
    return [next(rest) if v is None else v for v in tensors]


@torch.library.custom_op(
    "tilec::derivative",
    mutates_args=(),
    device_types="cpu",
    schema="(str path, Tensor?[] tensors, Scalar[] numbers) -> Tensor[]",
)
def _derivative(path, tensors, numbers):
    return list(as_tuple(_run(_derived(path).program, _with_numbers(tensors, numbers))))


@_derivative.register_fake
def _(path, tensors, numbers):
    return _derived(path).results(_with_numbers(tensors, numbers))


def _save_derivative(ctx, inputs, output) -> None:
    ctx.path, tensors, ctx.numbers = inputs
    ctx.given = [v is not None for v in tensors]
    ctx.save_for_backward(*[v for v in tensors if v is not None])


def _derivative_backward(ctx, cotangents):
    program = _derived(ctx.path).program
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
        result.update(zip(wrt, _gradients(ctx.path, wrt, of, _with_numbers(tensors, ctx.numbers) + seeds)))
    # PyTorch takes an empty list for one of tensors
    return None, [result[name] for name in program.inputs], None if ctx.numbers else []


_derivative.register_autograd(_derivative_backward, setup_context=_save_derivative)


@_derivative.register_vmap
def _(info, dims, path, tensors, numbers):
    held = dims[1] if isinstance(dims[1], (list, tuple)) else [dims[1]] * len(tensors)
    results = _batched(path, _derived(path).program.inputs, held, _with_numbers(tensors, numbers))
    return results, [0] * len(results)


# ---- forward and backward with what is kept in between
# ----------------------------------------------------------------------

def _layout(values) -> "str | None":
    """What a pair of kernels is compiled for: type, sizes and strides of each tensor, "-" for a number. None: they are
    not known, or a transform wants the operator itself. A tensor with gaps or repeats is row-major there, a copy.
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
        dtype, sizes, strides = part.split(":")
        sizes, strides = (tuple(map(int, each.split(","))) if each else () for each in (sizes, strides))
        kind = of_torch().numpy_type(getattr(torch, dtype))
        memory = np.empty(
            1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 1, kind
        )
        found.append(
            (sizes, strides, np.ndarray(sizes, kind, memory, strides=[stride * kind.itemsize for stride in strides]))
        )
    return found


def _pair(path: str, wrt: str, layout: str, numbers):
    """The pair of kernels of vjp() for values laid out so."""
    rest = iter(numbers)
    return _derived(path).program._pair(
        [next(rest) if each is None else each[2] for each in _described(layout)], (), wrt.split()
    )


def _kept(path: str, pair) -> str:
    """Names of what forward gives besides the outputs."""
    return " ".join(pair.names[len(_derived(path).program.outputs):])


def _laid_out(tensor, sizes, strides):
    """A tensor with these strides; those of a dimension of one element do not matter."""
    tensor = tensor.detach().resolve_neg()
    if tensor.stride() == strides or all(size == 1 or a == b for size, a, b in zip(sizes, tensor.stride(), strides)):
        return tensor
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype).copy_(tensor)


@torch.library.custom_op(
    "tilec::forward",
    mutates_args=(),
    device_types="cpu",
    schema="(str path, str wrt, str layout, str kept, Tensor?[] tensors, Scalar[] numbers) -> Tensor[]",
)
def _forward(path, wrt, layout, kept, tensors, numbers):
    pair = _pair(path, wrt, layout, numbers)
    if _kept(path, pair) != kept:
        raise RuntimeError(
            "the graph was made where forward of %s keeps (%s) for backward, and this tilec keeps (%s): empty PyTorch's cache of compiled graphs"
            % (path, kept, _kept(path, pair))
        )
    values = [
        v if v is None else _laid_out(v, sizes, strides)
        for v, (sizes, strides, _) in zip(tensors, (each or (None,) * 3 for each in _described(layout)))
    ]
    return list(as_tuple(of_torch().run(pair.forward, _with_numbers(values, numbers))))


@_forward.register_fake
def _(path, wrt, layout, kept, tensors, numbers):
    return _new(tensors, _pair(path, wrt, layout, numbers).forward)


@torch.library.custom_op(
    "tilec::backward",
    mutates_args=(),
    device_types="cpu",
    schema="(str path, str wrt, str layout, Tensor?[] wanted, Scalar[] numbers) -> Tensor[]",
)
def _backward(path, wrt, layout, wanted, numbers):
    pair, described = _pair(path, wrt, layout, numbers), dict(zip(_derived(path).program.inputs, _described(layout)))
    rest = iter(numbers)
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
    return _new(wanted, _pair(path, wrt, layout, numbers).backward)


def _new(tensors, prepared) -> list:
    """Results of a kernel without a run."""
    some = next(v for v in tensors if v is not None)
    return [some.new_empty(shape, dtype=of_torch().type_of(dtype)) for _, dtype, shape in prepared.outputs]


# ---- values that are traced
# -------------------------------------------------------------------------------------------------

def _is_traced(values) -> bool:
    """Are some values not there: does make_fx, torch.export or a FakeTensorMode look on?"""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or of_torch().is_traced()
        or any(is_tensor(v) and type(v) is not torch.Tensor and type(v) is not torch.nn.Parameter for v in values)
    )


def _hint(size) -> "int | None":
    """The size that a symbol stands for in the call that is traced."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return size.node.hint if size.node.has_hint() else None


def _concrete(value):
    """A number that is traced has one value for what is compiled."""
    for symbol, kind in ((torch.SymInt, int), (torch.SymFloat, float), (torch.SymBool, bool)):
        if isinstance(value, symbol):
            return kind(value)
    return value


def _stand_in(tensor, sizes) -> np.ndarray:
    """An array of the tensor's type and sizes, without its elements."""
    known = of_torch()
    if tensor.dtype not in known.taken:
        raise TypeError("%s is none of Tile's element types" % tensor.dtype)
    return np.broadcast_to(np.ones((), known.numpy_type(tensor.dtype)), tuple(sizes))


def _infer(program: Program, values: list, from_tensor: "list[bool]") -> "list[tuple[np.dtype, tuple[int, ...]]]":
    """Types and shapes of the outputs."""
    unknown = [
        n for n, v, traced in zip(program.inputs, values, from_tensor) if traced and not v.ndim and v.dtype.kind in "iu"
    ]
    try:
        ports = program._ports(values)
    except ShapeError as fault:
        if not unknown:
            raise
        raise ShapeError(
            "%s: where PyTorch traces, the value of a tensor is not known; if it is a size, give it as a number\n%s"
            % (unknown[0], fault),
            fault.diagnostics,
        ) from None
    read = [name for name in unknown if program.inputs.index(name) in ports.sizes]
    if read:
        raise TypeError(
            "%s is a size, and where PyTorch traces, the value of a tensor is not known: give it as a number" % read[0]
        )
    return [(dtype, shape) for _, dtype, shape in ports.outputs]


def _tensor_inputs(program: Program) -> "frozenset[str]":
    """Inputs that are declared with sizes, so that no call gives a number for them."""
    blocks = re.split(r"^function\b", program.emit("ast"), flags=re.M)[1:]
    own = next((block for block in blocks if block.partition("\n")[0].strip() == program.name), "")
    return frozenset(re.findall(r"^  input (\S+)\n    size$", own, flags=re.M)) & frozenset(program.inputs)


def op(program: Program, name: "str | None" = None, *, autocast: "torch.dtype | None" = None) -> Op:
    """Registers a program with PyTorch and gives what calls it: torch.compile(fullgraph=True), torch.export, torch.func
    and autograd take it as an operator.

    name: "space::name", or a name in the space `tilec`; None: the program's own, with a number where it is taken. An
    exported graph names its operator: say the name, and make the operator in the process that loads the graph. The same
    program under the same name is the same operator.
    autocast: what torch.autocast does with the floating tensors of a call. None: all become the widest type among them,
    so that nothing is rounded and bf16 beside f32 is f32 (in std/ sums of bf16 are f32 anyway); a type: all become
    that. Outside autocast types are taken as they are.
    Under torch.compile with dynamic=True sizes stay symbolic where the program's text says how results follow from
    them; else each shape is compiled anew.
    An input declared with sizes is a tensor; another may be a number. A number that is a size has to be one where
    PyTorch traces, not a tensor.
    """
    refuse_other(program)
    if autocast is not None and not (isinstance(autocast, torch.dtype) and autocast.is_floating_point):
        raise TypeError("autocast= is a floating type of PyTorch, or None, not %r" % (autocast,))
    if name is None:
        known = next(
            (made for made in _REGISTERED.values() if made.program is program and made.autocast is autocast), None
        )
        if known is not None:
            return known
        stem = "tilec::" + (program.name or "program")
        names = itertools.chain([stem], ("%s_%d" % (stem, k) for k in itertools.count(1)))
        name = next(n for n in names if n not in _REGISTERED)
    else:
        if not isinstance(name, str):
            raise TypeError("name= is a %s, not a str" % type(name).__name__)
        name = name if "::" in name else "tilec::" + name
        if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", name):
            raise ValueError("name=%r: an operator is called `name` or `space::name`, of letters, digits and _" % name)
        known = _REGISTERED.get(name)
        if known is not None:
            if known.program is program and known.autocast is autocast:
                return known
            raise ValueError(
                "name=%r: another program is registered under it, and PyTorch keeps operators as long as the process lives"
                % name
            )
    made = _REGISTERED[name] = Op(program, name, autocast, _tensor_inputs(program))
    return made
