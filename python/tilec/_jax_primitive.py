"""What JAX sees of a program.

One primitive, `tilec`, whose parameter says what is computed. It has the rules that JAX asks a primitive for, each of
which answers with the primitive again: the tangent of a program is a program, and so is the transpose of that, which is
its gradient. So jit, grad, jvp, vmap and shard_map compose in any order and to any depth. Why not custom_vjp or
custom_jvp: docs/decisions/jax_primitive.md.

    Call         inputs -> outputs
    Forward      inputs -> outputs, kept                        what linearizing a Call for a vjp runs
    Tangent      inputs, saved, tangents -> tangents            linear in the tangents
    Backward     inputs, saved, cotangents -> cotangents        the transpose of a Tangent

`saved` are those outputs and kept values that the backward half of tilec_vjp reads. They are functions of the inputs,
and no derivative goes through them: a Tangent is what program.jvp() says of its inputs and tangents, a Backward what
program.grad() says, and these are differentiated.
"""

from __future__ import annotations

import functools
import inspect
import typing

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
# for what no public module has, where it is as we know it; JAX 0.10 to 0.12
from jax._src import core as _core
from jax._src.interpreters import ad as _ad
from jax.interpreters import ad, batching, mlir, xla

from . import _library as _c
from ._call import number_as
from ._jax_programs import Function, Ports, Specs

_TARGET = "tilec_call"                                     # of XLA's custom calls

tilec_p = jax.extend.core.Primitive("tilec")
tilec_p.multiple_results = True


# When this module is imported: what an executable from disk, or an exported function, calls must be there before it
# comes.
for _platform, _execute in (("cpu", _c.lib.tilec_xla_call), ("CUDA", _c.lib.tilec_xla_call_on)):
    jax.ffi.register_ffi_target(
        _TARGET,
        {"instantiate": jax.ffi.pycapsule(_c.lib.tilec_xla_instantiate), "execute": jax.ffi.pycapsule(_execute)},
        platform=_platform,
    )


# ---- What it computes


class _Op:
    """A parameter of the primitive; equal ones are the same object."""
    function: Function                                     # that it is equal to, of the arguments at `taken`
    taken: "tuple[int, ...] | None" = None                 # None: of all

    def plain(self, arguments: typing.Sequence) -> list:
        return list(arguments) if self.taken is None else [arguments[k] for k in self.taken]

    def specs(self, arguments) -> Specs:
        return tuple((tuple(a.shape), np.dtype(a.dtype)) for a in self.plain(arguments))

    def results(self, avals) -> "list[tuple[tuple[int, ...], np.dtype]]":
        return [(shape, dtype) for _, shape, dtype in self.function.outputs(self.specs(avals))]

    def kernel(self, avals) -> "tuple[Ports, dict[str, int]]":
        """The kernel, and where among the arguments its inputs are, by their names."""
        taken = range(len(avals)) if self.taken is None else self.taken
        return self.function.kernel(self.specs(avals)), dict(zip(self.function.names, taken))

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__[1:].lower(), self.function.program.name or "?")


class _Call(_Op):
    def __init__(self, function: Function):
        self.function = function


def call_of(function: Function) -> _Call:
    return function.once(("call",), lambda: _Call(function))


class _Forward(_Op):
    def __init__(self, function: Function, of, wrt):
        self.function, self.of, self.wrt = function, of, wrt

    def results(self, avals):
        return [
            (shape, dtype) for _, shape, dtype in self.function.pair(self.specs(avals), self.of, self.wrt)[0].outputs
        ]

    def kernel(self, avals):
        return self.function.pair(self.specs(avals), self.of, self.wrt)[0], {
            n: k for k, n in enumerate(self.function.names)
        }


class _Linear(_Op):
    """What is computed from inputs, saved values and one array more for each name of `of` or of `wrt`."""

    def __init__(self, base: Function, of, wrt, saved: "tuple[str, ...] | None"):
        self.base, self.of, self.wrt, self.saved = base, of, wrt, saved
        self.function = base.derived(self.how, of, wrt)
        self.inputs = len(base.names)
        self.start = self.inputs + len(saved or ())        # of what it is linear in
        count = len(self.function.names) - self.inputs
        self.taken = tuple(range(self.inputs)) + tuple(range(self.start, self.start + count))


class _Tangent(_Linear):
    how = "jvp"


class _Backward(_Linear):
    how = "grad"

    def kernel(self, avals):
        if self.saved is None:
            return super().kernel(avals)
        specs = tuple((tuple(a.shape), np.dtype(a.dtype)) for a in avals[:self.inputs])
        places = dict(zip(self.function.names, self.taken))
        places.update({n: self.inputs + k for k, n in enumerate(self.saved)})
        return self.base.pair(specs, self.of, self.wrt)[1], places


def _linear(kind, base: Function, of, wrt, saved=None) -> _Linear:
    return base.once((kind, of, wrt, saved), lambda: kind(base, of, wrt, saved))


# ---- The rules


def bind(op: _Op, arguments: typing.Sequence) -> list:
    return tilec_p.bind(*_as_varying(arguments), op=op)


def _as_varying(arguments: typing.Sequence) -> list:
    """In shard_map, operands of a primitive vary over the same axes of the mesh; what goes there varies less in
    itself."""
    return list(_insert(*arguments)) if _insert is not None else list(arguments)


def _as_typed(array, aval):
    """Where axes of a mesh are explicit, a cotangent lies as its primal does; the results of a kernel lie whole on each
    device."""
    there = jax.typeof(array).sharding
    return array if there == aval.sharding or there.mesh.empty else jax.sharding.reshard(array, aval.sharding)


def _is_float(aval) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.floating)


def _none(aval):
    return ad.Zero(aval.to_tangent_aval())


def _is_zero(tangent) -> bool:
    return type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0


def _abstract(*avals, op: _Op):
    made = []
    for shape, dtype in op.results(avals):
        if not avals:
            made.append(jax.core.ShapedArray(shape, dtype))
            continue
        first = avals[0]                                   # all are on one mesh, and vary over the same of its axes
        made.append(
            first.update(
                shape=shape,
                dtype=dtype,
                weak_type=False,
                sharding=jax.sharding.NamedSharding(
                    first.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(shape))
                ),
            )
        )
    return made


def _lower(platform: str, ctx, *operands, op: _Op):
    program = op.function.program
    target = _c.lib.tilec_program_target(program._handle).decode()
    if platform == "cuda" and not target.startswith("cuda"):
        raise ValueError(
            "%s is compiled for the target %s, and JAX asks for it on a GPU: tilec.compile(…, target=\"cuda\") is for that, and jax.default_device or jax.device_put for the CPU"
            % (program.name or "the function", target)
        )
    kernel, places = op.kernel(ctx.avals_in)
    results = [(tuple(a.shape), np.dtype(a.dtype)) for a in ctx.avals_out]
    if [(shape, dtype) for _, shape, dtype in kernel.outputs] != results:
        raise AssertionError("%r gives %s, which was traced as %s" % (op, kernel.outputs, results))
    values, avals = [], []
    for name, shape, dtype in kernel.inputs:
        place = places.get(name)
        if place is not None:
            values.append(operands[place])
            avals.append(ctx.avals_in[place])
            continue
        number = op.function.numbers.get(name)             # none: an input that what is asked does not read
        constant = np.zeros(shape, dtype) if number is None else number_as(name, number, dtype)
        values.append(mlir.ir_constant(constant))
        avals.append(jax.core.ShapedArray(shape, dtype))
    if kernel.text.startswith(b"process "):
        ctx.module_context.add_keepalive(kernel)           # until it is compiled
    return jax.ffi.ffi_lowering(_TARGET, backend_config={"kernel": mlir.ir.StringAttr.get(kernel.text)})(
        ctx.replace(avals_in=avals), *values
    )


def _push(op: _Op, arguments, tangents, avals) -> list:
    """Tangents of what the op gives, whose types are `avals`."""
    arguments, moved = op.plain(arguments), op.plain(tangents)
    function = op.function
    results = avals[:len(function.program.outputs)]
    wrt = [k for k, t in enumerate(moved) if not _is_zero(t)]
    of = [k for k, aval in enumerate(results) if _is_float(aval)]
    made = [_none(aval) for aval in avals]
    if of and wrt:
        tangent = _linear(
            _Tangent, function, tuple(function.program.outputs[k] for k in of), tuple(function.names[k] for k in wrt)
        )
        for k, t in zip(of, bind(tangent, [*arguments, *[moved[k] for k in wrt]])):
            made[k] = t
    return made


def _jvp(primals, tangents, *, op: _Op):
    outs = bind(op, primals)
    avals = [jax.typeof(out) for out in outs]
    if isinstance(op, _Tangent) and all(map(_is_zero, tangents[:op.inputs])):
        moved = tangents[op.start:]                        # it is linear in these, and has to stay so
        if all(map(_is_zero, moved)):
            return outs, [_none(aval) for aval in avals]
        return outs, bind(op, [*primals[:op.start], *map(ad.instantiate_zeros, moved)])
    return outs, _push(op, primals, tangents, avals)


def _linearize(is_vjp: bool, moves, *primals, op: _Op):
    """Of a Call under vjp, forward keeps what backward reads. All else is what the jvp says, linear in its tangents."""
    moves = [m and _is_float(jax.typeof(p)) for m, p in zip(moves, primals)]
    if is_vjp and type(op) is _Call and any(moves):
        function = op.function
        specs = op.specs(primals)
        outputs = function.outputs(specs)
        of = tuple(name for name, _, dtype in outputs if jnp.issubdtype(dtype, jnp.floating))
        wrt = tuple(n for n, m in zip(function.names, moves) if m)
        if of:
            forward, backward = function.pair(specs, of, wrt)
            made = bind(function.once(("forward", of, wrt), lambda: _Forward(function, of, wrt)), primals)
            names, wanted = [name for name, _, _ in forward.outputs], {name for name, _, _ in backward.inputs}
            saved = [k for k, name in enumerate(names) if name in wanted]
            tangent = _linear(_Tangent, function, of, wrt, tuple(names[k] for k in saved))
            outs = made[:len(outputs)]
            are_float = [_is_float(out) for out in outs]
            avals = [jax.typeof(out) for out in outs]

            def linear(residuals, *tangents):
                found = iter(bind(tangent, [*residuals, *[t for t, m in zip(tangents, moves) if m]]))
                return [next(found) if is_float else _none(aval) for is_float, aval in zip(are_float, avals)]
            return outs, are_float, [*primals, *[made[k] for k in saved]], linear
    outs = bind(op, primals)
    avals = [jax.typeof(out) for out in outs]
    results = [
        k < len(op.function.program.outputs) and _is_float(out) and any(op.plain(moves)) for k, out in enumerate(outs)
    ]

    def push(residuals, *tangents):
        zeroed = [t if m else _none(jax.typeof(p)) for t, m, p in zip(tangents, moves, residuals)]
        if isinstance(op, _Tangent) and not any(moves[:op.inputs]):
            return bind(op, [*residuals[:op.start], *map(ad.instantiate_zeros, zeroed[op.start:])])
        return _push(op, residuals, zeroed, avals)
    return outs, results, list(primals), push


def _linearize_structured(is_vjp: bool, moves, *primals, op: _Op):
    """The same for JAX 0.11, where residuals may have a structure of their own beside: none do here."""
    outs, moved, residuals, linear = _linearize(is_vjp, moves, *primals, op=op)
    return outs, moved, residuals, None, lambda residuals, _structure, *tangents: linear(residuals, *tangents)


def _transpose(cotangents, *arguments, op: _Op):
    if not isinstance(op, _Tangent) or any(map(ad.is_undefined_primal, arguments[:op.start])):
        raise NotImplementedError(
            "%r: a program is not looked at for being linear; transpose what jax.linearize gives: jax.linear_transpose(jax.linearize(f, x)[1], x)"
            % op
        )
    tangents = arguments[op.start:]
    asked = [k for k, t in enumerate(tangents) if ad.is_undefined_primal(t)]
    made: list = [None] * op.start + [
        ad.Zero(t.aval.to_ct_aval()) if ad.is_undefined_primal(t) else None for t in tangents
    ]
    given = [k for k, ct in enumerate(cotangents) if type(ct) is not ad.Zero]
    if not given:
        return made
    saved = op.saved if len(asked) == len(tangents) else None   # the pair is of all of them
    if saved is not None:
        given = list(range(len(cotangents)))
    backward = _linear(_Backward, op.base, tuple(op.of[k] for k in given), tuple(op.wrt[k] for k in asked), saved)
    held = arguments[:op.start] if saved is not None else arguments[:op.inputs]
    for k, ct in zip(asked, bind(backward, [*held, *[ad.instantiate_zeros(cotangents[k]) for k in given]])):
        made[op.start + k] = _as_typed(ct, tangents[k].aval.to_ct_aval())
    return made


def _batch(arguments, dims, *, op: _Op):
    """One call of the program for a batch. It computes from inputs alone: of what forward kept for it, a program for a
    batch would keep something else, and nobody else reads that."""
    dims = op.plain(dims)
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(op.plain(arguments), dims)]
    batched = op.function.batched(tuple(n for n, d in zip(op.function.names, dims) if d is not None))
    outs = bind(call_of(batched), moved)
    one = [jax.ShapeDtypeStruct(a.shape if d is None else a.shape[1:], a.dtype) for a, d in zip(moved, dims)]
    kept = op.results(one)[len(outs):] if type(op) is _Forward else []
    return outs + [jnp.zeros(shape, jax.dtypes.canonicalize_dtype(dtype)) for shape, dtype in kept], [0] * len(outs) + [
        None
    ] * len(kept)


tilec_p.def_impl(functools.partial(xla.apply_primitive, tilec_p))
tilec_p.def_abstract_eval(_abstract)
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(tilec_p, functools.partial(_lower, _platform), platform=_platform)
ad.primitive_jvps[tilec_p] = _jvp
ad.primitive_transposes[tilec_p] = _transpose
batching.primitive_batchers[tilec_p] = _batch
_insert = getattr(_core, "auto_insert_reshard", None)
_rule = inspect.signature(getattr(_ad, "fallback_linearize_rule", lambda: None)).parameters
_has_structured = "structured_residuals" in getattr(_ad.LinearizeTrace, "__annotations__", ())
# Without it JAX linearizes by the jvp: backward then computes again what forward could have kept.
if list(_rule)[1:2] in (["_is_vjp"], ["is_vjp"]):
    _ad.primitive_linearizations[tilec_p] = _linearize_structured if _has_structured else _linearize
