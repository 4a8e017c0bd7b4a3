"""A program as an operator that PyTorch registers, so that torch.compile, torch.export and autocast know it.

    op(conv)         ⇒   tilec::conv(Tensor I, Tensor K) -> Tensor
    differentiated   ⇒   O, kept = tilec::forward("tilec::conv", "I K", …, [I, K], [])
                         dI, dK = tilec::backward("tilec::conv", "I K", …, [I, K, kept, dO], [])
    its derivative   ⇒   tilec::derivative("tilec::conv; grad I K of O", [I, K, dO], []) -> Tensor[]

An operator has one schema, and an input of any rank may be a tensor or a number: it becomes two parameters, `Tensor? S, Scalar? S_number`, of which
one is given; none of an input with a default that is not. Its fake kernel gives the results' types and sizes, symbolic ones as the program's text writes them.

Where autograd records, forward and backward are the pair of kernels of vjp(), as in function(): forward gives what it keeps as results of its own. What is
kept is known for sizes that are numbers; where sizes are symbols, and under transforms of torch.func, backward is the gradient program, which computes
it again, and so is backward of backward. All pairs, and all derivatives, are one operator each that is told which: a graph that PyTorch reads from its
cache on disk, in a process that has made tilec::conv only, finds them. Eager calls do not go through PyTorch's dispatcher at all: they are those of function().
"""

from __future__ import annotations

import itertools
import keyword
import re

import numpy as np
import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function

from . import Program
from ._torch_derivative import add_operator, batched, derivative_of, gradients_of, is_dual, run_unrecorded, separated
from ._torch_function import Function, as_tuple, is_tensor, refuse_other
from ._torch_kept import kept_by, layout_of, pair_for
from ._torch_traced import Traced, is_traced

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
        self._optional = program._optional                    # those with a default; None: not given
        # which inputs so many arguments are
        self._by_position = [program._taken(count, ()) for count in range(len(self.inputs))]
        self._traced = Traced(program)
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
        if torch.compiler.is_compiling() or is_traced(values):
            return self.overload(*self._spread(values))
        if (torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")) and any(
            is_tensor(v) and torch.is_autocast_enabled(v.device.type) for v in values
        ):
            values = self._cast(values)
        return self._function(*values)

    def _in_order(self, arguments: tuple, named: dict) -> list:
        by_position = self._by_position[len(arguments)] if len(arguments) < len(self.inputs) else self.inputs
        if any(name in named for name in self.inputs[self.program._own :]):
            by_position = self.inputs[: len(arguments)]
        rest = [name for name in self.inputs if name not in by_position]
        if (
            len(arguments) <= len(self.inputs)
            and sum(name in named for name in rest) == len(named)
            and all(name in named or name in self._optional for name in rest)
        ):
            values = {**dict(zip(by_position, arguments)), **named}
            return [values.get(name) for name in self.inputs]
        return self.program._by_position(arguments, named)    # says what is wrong

    # ---- between the values of a call and the parameters of the schema

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
                (
                    [("Tensor?" if name in self._optional else "Tensor", n)]
                    if name in self._tensors
                    else [("Tensor?", n), ("Scalar?", n + "_number")]
                )
                for name, n in zip(self.inputs, names)
            )
        )

    def _spread(self, values) -> list:
        flat = []
        for name, value in zip(self.inputs, values):
            if isinstance(value, (np.generic, np.ndarray)):
                value = torch.as_tensor(value)
            if name in self._tensors:
                if not isinstance(value, torch.Tensor) and not (value is None and name in self._optional):
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
        for key in ("CPU", "CUDA"):
            library.impl(short, self._run, key)
        library.impl(short, self._under_autograd, "Autograd", with_keyset=True)
        torch.library.register_fake(self.name, self._fake)
        torch.library.register_vmap(self.name, self._vmap)
        for key in ("AutocastCPU", "AutocastCUDA"):
            library.impl(short, self._under_autocast(getattr(torch._C.DispatchKey, key)), key)

    def _run(self, *flat):
        return run_unrecorded(self.program, self._gather(flat))

    def _under_autograd(self, keyset, *flat):
        if (torch.is_grad_enabled() and any(is_tensor(v) and v.requires_grad for v in flat)) or any(
            map(is_dual, flat)
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
        results = batched(self.name, self.inputs, self._gather(dims), self._gather(flat))
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
        ctx.layout = layout_of(values) if ctx.wrt else None
        if ctx.layout is not None and not any(dtype.is_floating_point for dtype in op._traced.inferred(values)[1]):
            ctx.layout = None                                 # nothing goes back
        with torch._C._AutoDispatchBelowAutograd():
            if ctx.layout is None:
                results = as_tuple(op._below_autograd(keyset, flat))
            else:
                tensors, numbers = separated(values)
                wrt = " ".join(ctx.wrt)
                kept = kept_by(op.name, pair_for(op.name, wrt, ctx.layout, numbers))
                results = torch.ops.tilec.forward(op.name, wrt, ctx.layout, kept, tensors, numbers)
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
                derivative_of(
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
        if ctx.layout is None or torch.is_grad_enabled() or any(map(is_dual, (*values, *cotangents))):
            gradients = gradients_of(op.name, ctx.wrt, ctx.floats, values + seeds)
        else:
            wrt, numbers = " ".join(ctx.wrt), separated(values)[1]
            pair = pair_for(op.name, wrt, ctx.layout, numbers)
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
    add_operator(name, made._traced)
    return made
