"""A program as a differentiable function of PyTorch's tensors, by torch.autograd.Function on the pair of kernels that vjp() makes.

    Y = f(X, W)            forward kernel; X, W, Y and what it kept are saved
    Y.backward(dY)         backward kernel of the pair
    with create_graph=True the gradient is the function of program.grad(…), which is differentiated in turn
"""
from __future__ import annotations

import torch
from torch.autograd import forward_ad

from . import Program
from ._arguments import as_argument
from ._libraries import of_torch, one_library


def refuse_other(program) -> None:
    if not isinstance(program, Program):
        raise TypeError("a tilec.Program is wanted, which tilec.compile() or tilec.load() gives, not a %s" % type(program).__name__)


def as_tuple(results) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


def is_transformed() -> bool:
    """Do torch.func's transforms, or autograd's batched gradients, run?"""
    return torch._C._functorch.peek_interpreter_stack() is not None


def batch_in_front(dims, values) -> list:
    """The values of torch.func.vmap as Program.vmap takes them. `dims` are where they have the batch, None: nowhere."""
    return [v if d is None else v.movedim(d, 0) for v, d in zip(values, dims)]


def names_of_batch(names, dims) -> "tuple[str, ...]":
    return tuple(name for name, d in zip(names, dims) if d is not None)


class Function:
    """What function() gives. `program` is the program; it is called as the program is."""

    def __init__(self, program: Program):
        self.program = program
        self._derived: dict = {}
        self._pairs: dict = {}

    def __repr__(self) -> str:
        return "<tilec.torch.Function %s(%s) -> (%s)>" % (self.program.name or "without a name", ", ".join(self.program.inputs), ", ".join(self.program.outputs))

    def __copy__(self) -> "Function":
        return self

    def __deepcopy__(self, memo: dict) -> "Function":
        return self

    def __call__(self, /, *arguments, **named):
        program = self.program
        if named or len(arguments) != len(program.inputs):
            arguments = program._by_position(arguments, named)
        transformed = is_transformed()
        if transformed or forward_ad._current_level >= 0:
            wrt = tuple(name for name, v in zip(program.inputs, arguments) if is_tensor(v) and v.is_floating_point())
        elif torch.is_grad_enabled():
            wrt = tuple(name for name, v in zip(program.inputs, arguments) if is_tensor(v) and v.requires_grad)
        else:
            wrt = ()
        if not wrt and not (transformed and any(map(is_tensor, arguments))):
            return program(*arguments)
        kind = _Apply if transformed or forward_ad._current_level >= 0 else _Eager
        results = kind.apply(_Call(self, wrt), *arguments)[: len(program.outputs)]
        return results[0] if len(results) == 1 else tuple(results)

    __call__._torchdynamo_disable = True                      # torch.compile breaks its graph here: in one graph, it is op()
    __call__._torchdynamo_disable_msg = "in one graph, call tilec.torch.op(program)"

    def derivative(self, mode: str, of: "tuple[str, ...]", wrt: "tuple[str, ...]") -> "Function":
        """The function of program.grad() or program.jvp()."""
        key = mode, of, wrt
        if key not in self._derived:
            self._derived[key] = Function(getattr(self.program, mode)(wrt=wrt, of=of))
        return self._derived[key]

    def batched(self, names: "tuple[str, ...]") -> "Function":
        """The function for a batch of these inputs."""
        if ("vmap", names) not in self._derived:
            self._derived["vmap", names] = Function(self.program.vmap(list(names)))
        return self._derived["vmap", names]

    def pair(self, values, wrt: "tuple[str, ...]"):
        """Forward and backward of a call with these, and values that kernels take. None: no output is a float."""
        library = of_torch()
        key = library.key(values, None)
        kept = None
        if key is not None:
            kept = self._pairs.get((wrt, self.program._with_sizes(key, values)))
        if kept is None:
            one_library(self.program.inputs, values)
            plain = self.program._as_arguments(values)
            if key is None or any(library.differs(a, b) for a, b in zip(values, plain)):
                values, key = plain, None
            kept = _MadePair(self.program, plain, wrt)
            if key is not None:
                self._pairs[(wrt, self.program._with_sizes(key, values))] = kept
                for old in list(self._pairs)[: -self.program._kernels]:
                    self._pairs.pop(old, None)
        return kept, library, values


class _MadePair:
    """Kernels of a call: forward and backward where it is differentiated, else forward alone."""

    def __init__(self, program: Program, values: list, wrt: "tuple[str, ...]"):
        floats = tuple(name for name, dtype, _ in program._ports(values).outputs if dtype.kind not in "biu") if wrt else ()
        self.pair = program._pair(values, floats, wrt) if floats else None
        self.forward = self.pair.forward if self.pair is not None else program._prepare(values, None)
        program._sizes = program._sizes | self.forward.sizes  # the key of the call has their values


class _Call:
    """One call of a function: what its forward made goes with it to its backward."""

    def __init__(self, function: Function, wrt: "tuple[str, ...]"):
        self.function, self.wrt = function, wrt
        self.made = self.library = None

    def forward(self, values):
        self.made, self.library, values = self.function.pair(values, self.wrt)
        return as_tuple(self.library.run(self.made.forward, values))


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(call: _Call, *values):
        return call.forward(values)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, *values = inputs
        ctx.set_materialize_grads(False)
        ctx.values = [None if is_tensor(v) else v for v in values]
        ctx.places = [k for k, v in enumerate(values) if is_tensor(v)]
        names = ctx.call.function.program.outputs
        ctx.floats = tuple(name for name, v in zip(names, output) if v.is_floating_point())
        ctx.count = len(output)
        ctx.mark_non_differentiable(*[v for k, v in enumerate(output) if k >= len(names) or not v.is_floating_point()])
        tensors = [values[k] for k in ctx.places]
        ctx.save_for_backward(*tensors, *output)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def saved(ctx) -> "tuple[list, tuple]":
        """The values of the call, and its results with what is kept."""
        saved, values = ctx.saved_tensors, list(ctx.values)
        for place, tensor in zip(ctx.places, saved):
            values[place] = tensor
        return values, saved[len(ctx.places):]

    @staticmethod
    def backward(ctx, *cotangents):
        call, program = ctx.call, ctx.call.function.program
        values, results = _Apply.saved(ctx)
        given = dict(zip(program.outputs, cotangents))
        if not call.wrt or all(given[name] is None for name in ctx.floats):
            return (None,) * (1 + len(values))
        made = dict(zip(program.outputs, results))
        seeds = [torch.zeros_like(made[name]) if given[name] is None else given[name] for name in ctx.floats]
        if call.made is None or torch.is_grad_enabled() or is_transformed():
            gradients = as_tuple(call.function.derivative("grad", ctx.floats, call.wrt)(*values, *seeds))
        else:
            gradients = _run_backward(call, values, results, seeds)
        found = dict(zip(call.wrt, gradients))
        return None, *[found.get(name) for name in program.inputs]

    @staticmethod
    def jvp(ctx, _, *tangents):
        call, program = ctx.call, ctx.call.function.program
        values, _ = _Apply.saved(ctx)
        wrt = tuple(name for name, tangent in zip(program.inputs, tangents) if tangent is not None)
        if not ctx.floats or not wrt:
            return (None,) * ctx.count
        tangent = call.function.derivative("jvp", ctx.floats, wrt)
        found = dict(zip(ctx.floats, as_tuple(tangent(*values, *[t for t in tangents if t is not None]))))
        return tuple(found.get(name) for name in program.outputs) + (None,) * (ctx.count - len(program.outputs))

    @staticmethod
    def vmap(info, dims, call: _Call, *values):
        names = names_of_batch(call.function.program.inputs, dims[1:])
        results = as_tuple(call.function.batched(names)(*batch_in_front(dims[1:], values)))
        return results, (0,) * len(results)


class _Eager(torch.autograd.Function):
    """The same where no transform looks on: PyTorch calls a Function that sets up its context itself in less time."""

    @staticmethod
    def forward(ctx, call: _Call, *values):
        output = call.forward(values)
        _Apply.setup_context(ctx, (call, *values), output)
        return output

    backward = staticmethod(_Apply.backward)


def _run_backward(call: _Call, values: list, results: tuple, seeds: list) -> tuple:
    """The backward kernel of the pair, on what autograd kept for it."""
    pair = call.made.pair
    known = dict(zip(call.function.program.inputs, values))
    known.update(zip(pair.names, results))
    known.update(zip(pair.cotangents, [seed.contiguous().resolve_neg() for seed in seeds]))
    library = call.library
    wanted = [known[name] for name in pair.wanted]
    if library.key(wanted, None) is None:
        wanted = [as_argument(name, value) for name, value in zip(pair.wanted, wanted)]
    return as_tuple(library.run(pair.backward, wanted))


def function(program: Program) -> Function:
    """A program as a function of tensors that autograd differentiates, in eager mode.

    Gradients are asked for inputs that require grad only; backward runs the pair of vjp(), on what forward kept. Backward of backward (create_graph=True) goes
    through program.grad(), to any order, for which all tensors of the call stay alive until backward. torch.func's grad, vjp, jvp, vmap and hessian
    apply, as does forward mode; vmap is the program for a batch. Inputs of integers and booleans, and numbers, have no gradient.
    Where nothing requires grad, or under torch.no_grad(), it is the program itself. Element types are taken as they are, under autocast too: op() casts.
    """
    refuse_other(program)
    return Function(program)
