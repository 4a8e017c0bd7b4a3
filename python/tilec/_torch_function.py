"""A program as a differentiable function of PyTorch's tensors, by torch.autograd.Function on the pair of kernels that vjp() makes.

Y = f(X, W)            forward kernel; X, W, and what backward reads of its results and of what it kept, are saved
Y.backward(dY)         backward kernel of the pair
with create_graph=True the gradient is the function of program.grad(…), which is differentiated in turn
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch.autograd import forward_ad

from . import Program, std as _std
from ._arguments import as_argument
from ._device import Call as GpuCall
from ._libraries import of_torch, one_library


Tensor, grad_enabled = torch.Tensor, torch.is_grad_enabled


def refuse_other(program) -> None:
    if not isinstance(program, Program):
        raise TypeError(
            "a tilec.Program is wanted, which tilec.compile() or tilec.load() gives, not a %s" % type(program).__name__
        )


def as_tuple(results) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


def plain(value):
    """A tensor as its address, shape and strides say it is."""
    if not is_tensor(value) or (type(value) in of_torch().kinds and not value.is_neg()):
        return value
    value = value.detach().resolve_neg()
    return value if type(value) is Tensor else value.as_subclass(Tensor)


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
        return "<tilec.torch.Function %s(%s) -> (%s)>" % (
            self.program.name or "without a name",
            ", ".join(self.program.inputs),
            ", ".join(self.program.outputs),
        )

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
            if not any(is_tensor(v) and (transformed or v.is_floating_point()) for v in arguments):
                return program(*arguments)
            results = _Transformed.apply(self, *arguments)
            return results[0] if len(results) == 1 else results
        wrt = ()
        if grad_enabled():
            for k, v in enumerate(arguments):
                if isinstance(v, Tensor) and v.requires_grad:
                    wrt += (k,)
        return _Recorded.apply(self, wrt, *arguments) if wrt else program(*arguments)

    # torch.compile breaks its graph here: in one graph, it is op()
    __call__._torchdynamo_disable = True
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

    def pair(self, values, wrt: "tuple[int, ...]"):
        """Kernels of a call with these, differentiated by inputs at these positions; and values that they take."""
        library = of_torch()
        key = library.key(values, None)
        if key is None and any(is_tensor(v) and v.is_cuda for v in values):
            values = self._on_one_gpu(values)
            key = library.key(values, None)
        kept = None
        if key is not None:
            kept = self._pairs.get((wrt, self.program._with_sizes(key, values)))
        if kept is None:
            one_library(self.program.inputs, values)
            plain = self.program._as_arguments(values)
            direct = key is not None and not any(library.differs(a, b) for a, b in zip(values, plain))
            kept = _Kernels(self.program, values, plain, wrt, direct)
            if not direct:
                return kept, plain
            self._pairs[(wrt, self.program._with_sizes(key, values))] = kept
            for old in list(self._pairs)[: -self.program._kernels]:
                self._pairs.pop(old, None)
        return kept, values

    def _on_one_gpu(self, values) -> list:
        """The values of a call there, as they are taken by address. ValueError: one lies elsewhere, or the program is
        none for it."""
        program = self.program
        program._as_arguments([v if is_tensor(v) else None for v in values])
        call = GpuCall(program, program.outputs, list(map(plain, values)), None, None)
        device, library = next(v.device for v in values if is_tensor(v)), of_torch()
        return [
            library.on_gpu.number(name, v, v.dtype, device) if isinstance(v, np.ndarray) else v
            for name, v in zip(program.inputs, call.arguments)
        ]


class FunctionOfStd(Function):
    """That of a function of std/, which each call may give compile-time parameters: `function(tilec.std.softmax)(x,
    dim=0)`. Each set of values has a program of its own, as a call of the function has."""

    def __call__(self, /, *arguments, **named):
        program, arguments, named = self.program._meant(arguments, named)
        if program is self.program:
            return super().__call__(*arguments, **named)
        return self.program._heading.as_given(_of_call(program)(*arguments, **named))

    def __repr__(self) -> str:
        return "<tilec.torch.Function std:%s>" % self.program._heading.text

    __call__._torchdynamo_disable = True
    __call__._torchdynamo_disable_msg = Function.__call__._torchdynamo_disable_msg


@functools.lru_cache(128)
def _of_call(program: Program) -> Function:
    return Function(program)


class _Kernels:
    """Those of a kind of call, and which values go where. `direct`: the tensors of the call are taken as they lie."""

    def __init__(self, program: Program, values, plain: list, wrt: "tuple[int, ...]", direct: bool):
        self.direct, self.library = direct, of_torch()
        self.wrt = tuple(program.inputs[k] for k in wrt)
        self.tensors = [k for k, v in enumerate(values) if is_tensor(v)]
        dtypes = [dtype for _, dtype, _ in program._ports(plain).outputs]
        self.floats = tuple(k for k, dtype in enumerate(dtypes) if dtype.kind not in "biu")
        self.others = [k for k in range(len(dtypes)) if k not in self.floats]
        pair = program._pair(plain, [program.outputs[k] for k in self.floats], self.wrt) if self.floats else None
        self.forward = pair.forward if pair is not None else program._prepare(plain, None)
        program._sizes = program._sizes | self.forward.sizes  # the key of the call has their values
        if pair is None:
            return
        self.both, self.names = pair, pair.wanted
        # of what forward gives
        self.saved = [k for k, name in enumerate(pair.names) if name in pair.wanted and name not in program.inputs]
        known = [*program.inputs, *[pair.names[k] for k in self.saved], *pair.cotangents]
        self.wanted = [known.index(name) for name in pair.wanted]
        self.gradients = [2 + k for k in wrt]                 # where backward puts them


class _Recorded(torch.autograd.Function):
    """A call that autograd records: forward and backward are the pair of kernels."""

    @staticmethod
    def forward(ctx, function: Function, wrt: "tuple[int, ...]", *values):
        made, taken = function.pair(values, wrt)
        if made.forward.on_gpu:                               # where a number with a type has become a tensor
            values = tuple(v if is_tensor(v) else t for v, t in zip(values, taken))
        results = made.library.run(made.forward, taken)
        if not made.floats:
            ctx.mark_non_differentiable(*as_tuple(results))
            return results
        results = as_tuple(results)
        ctx.function, ctx.made = function, made
        if len(made.tensors) == len(values):
            ctx.values = None
            ctx.save_for_backward(*values, *[results[k] for k in made.saved])
        else:
            ctx.values = [None if is_tensor(v) else v for v in values]
            ctx.save_for_backward(*[values[k] for k in made.tensors], *[results[k] for k in made.saved])
        count = len(function.program.outputs)
        if count == 1:
            return results[0]
        ctx.set_materialize_grads(False)
        if made.others:
            ctx.mark_non_differentiable(*[results[k] for k in made.others])
        return results[:count]

    @staticmethod
    def backward(ctx, *cotangents):
        made, saved = ctx.made, ctx.saved_tensors
        found = [None] * (2 + len(ctx.function.program.inputs))
        if ctx.values is None:
            known = list(saved)
        else:
            known = list(ctx.values)
            for place, tensor in zip(made.tensors, saved):
                known[place] = tensor
            known += saved[len(made.tensors):]
        seeds = [cotangents[k] for k in made.floats]
        if any(seed is None for seed in seeds):
            if all(seed is None for seed in seeds):
                return tuple(found)
            ports = [made.forward.outputs[k] for k in made.floats]
            seeds = [
                (
                    torch.zeros(
                        shape, dtype=made.library.type_of(dtype), device=made.library.device_of(made.forward)
                    )
                    if seed is None
                    else seed
                )
                for seed, (_, dtype, shape) in zip(seeds, ports)
            ]
        if grad_enabled() or is_transformed() or forward_ad._current_level >= 0:
            program = ctx.function.program
            gradients = ctx.function.derivative("grad", tuple(program.outputs[k] for k in made.floats), made.wrt)(
                *known[: len(program.inputs)], *seeds
            )
        else:
            known += [seed.contiguous().resolve_neg() for seed in seeds]
            wanted = [known[k] for k in made.wanted]
            if made.forward.on_gpu:
                wanted = list(map(plain, wanted))
            elif not made.direct or any(type(seed) is not Tensor for seed in seeds):
                wanted = [as_argument(name, value) for name, value in zip(made.names, wanted)]
            gradients = made.both.known_gradients(tuple(wanted))
            if gradients is None:
                gradients = made.both.gradients(made.library, wanted)
        for place, gradient in zip(made.gradients, as_tuple(gradients)):
            found[place] = gradient
        return tuple(found)


class _Transformed(torch.autograd.Function):
    """A call that transforms of torch.func or forward mode look on: every rule is a program."""

    @staticmethod
    def forward(function: Function, *values):
        return as_tuple(function.program(*values))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function, *values = inputs
        ctx.set_materialize_grads(False)
        ctx.values = [None if is_tensor(v) else v for v in values]
        ctx.places = [k for k, v in enumerate(values) if is_tensor(v)]
        names = ctx.function.program.outputs
        ctx.floats = tuple(name for name, v in zip(names, output) if v.is_floating_point())
        ctx.mark_non_differentiable(*[v for v in output if not v.is_floating_point()])
        tensors = [values[k] for k in ctx.places]
        ctx.save_for_backward(*tensors, *output)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def saved(ctx) -> "tuple[list, tuple]":
        """The values of the call, and its results."""
        saved, values = ctx.saved_tensors, list(ctx.values)
        for place, tensor in zip(ctx.places, saved):
            values[place] = tensor
        return values, saved[len(ctx.places):]

    @staticmethod
    def backward(ctx, *cotangents):
        program = ctx.function.program
        values, results = _Transformed.saved(ctx)
        wrt = tuple(
            name
            for name, needed, v in zip(program.inputs, ctx.needs_input_grad[1:], values)
            if needed and v.is_floating_point()
        )
        given, made = dict(zip(program.outputs, cotangents)), dict(zip(program.outputs, results))
        if not wrt or all(given[name] is None for name in ctx.floats):
            return (None,) * (1 + len(values))
        seeds = [torch.zeros_like(made[name]) if given[name] is None else given[name] for name in ctx.floats]
        found = dict(zip(wrt, as_tuple(ctx.function.derivative("grad", ctx.floats, wrt)(*values, *seeds))))
        return None, *[found.get(name) for name in program.inputs]

    @staticmethod
    def jvp(ctx, _, *tangents):
        program = ctx.function.program
        values, _ = _Transformed.saved(ctx)
        wrt = tuple(name for name, tangent in zip(program.inputs, tangents) if tangent is not None)
        if not ctx.floats or not wrt:
            return (None,) * len(program.outputs)
        tangent = ctx.function.derivative("jvp", ctx.floats, wrt)
        found = dict(zip(ctx.floats, as_tuple(tangent(*values, *[t for t in tangents if t is not None]))))
        return tuple(found.get(name) for name in program.outputs)

    @staticmethod
    def vmap(info, dims, function: Function, *values):
        names = names_of_batch(function.program.inputs, dims[1:])
        results = as_tuple(function.batched(names)(*batch_in_front(dims[1:], values)))
        return results, (0,) * len(results)


def function(program: Program) -> Function:
    """A program as a function of tensors that autograd differentiates, in eager mode.

    Gradients are asked for inputs that require grad only; backward runs the pair of vjp(), on what forward kept.
    Backward of backward (create_graph=True) goes through program.grad(), to any order, for which all tensors of the
    call stay alive until backward. torch.func's grad, vjp, jvp, vmap and hessian apply, as does forward mode; vmap is
    the program for a batch. Inputs of integers and booleans, and numbers, have no gradient.
    Where nothing requires grad, or under torch.no_grad(), it is the program itself. Element types are taken as they
    are, under autocast too: op() casts.
    A call of a function of std/ may give compile-time parameters, by PyTorch's names too:
    function(tilec.std.softmax)(x, dim=0), function(tilec.std.cross_entropy)(x, target, label_smoothing=0.1).
    """
    if isinstance(program, (_std.Function, _std.Incomplete)):
        return FunctionOfStd(program)
    refuse_other(program)
    return Function(program)
