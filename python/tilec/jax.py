"""Programs as functions of JAX: `f = tilec.jax.op(program)`.

One primitive, `tilec`, whose parameter says what is computed. It has the rules that JAX asks a primitive for, each of which answers with
the primitive again: the tangent of a program is a program, and so is the transpose of that, which is its gradient. So
jit, grad, jvp, vmap and shard_map compose in any order and to any depth. Why not custom_vjp or custom_jvp: docs/decisions/jax_primitive.md.

    Call         inputs -> outputs
    Forward      inputs -> outputs, kept                        what linearizing a Call for a vjp runs
    Tangent      inputs, saved, tangents -> tangents            linear in the tangents
    Backward     inputs, saved, cotangents -> cotangents        the transpose of a Tangent

`saved` are those outputs and kept values that the backward half of tilec_vjp reads. They are functions of the inputs, and no derivative goes through
them: a Tangent is what program.jvp() says of its inputs and tangents, a Backward what program.grad() says, and these are differentiated.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import typing

import numpy as np

try:
    import jax
except ImportError as fault:
    raise ImportError("tilec.jax needs JAX: pip install jax") from fault
import jax.extend.core
import jax.numpy as jnp
# for what no public module has, where it is as we know it; JAX 0.10 to 0.12
from jax._src import core as _core
from jax._src.interpreters import ad as _ad
from jax.interpreters import ad, batching, mlir, xla

from . import Program
from . import _library as _c
from ._arguments import check_type
from ._call import Block, number_as, numpy_type, settle_sizes
from .errors import ArgumentTypeError, ProgramError, check, said

__all__ = ["op"]

_Specs = "tuple[tuple[tuple[int, ...], np.dtype], ...]"    # shape and element type of each array
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


# ---- Programs, asked about shapes and compiled for them


def _stand_in(shape: "tuple[int, ...]", dtype: np.dtype) -> np.ndarray:
    """A row-major array of any size whose elements nobody reads, but for the value of an integer scalar: that is 1."""
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return np.lib.stride_tricks.as_strided(np.ones(1, dtype), shape, strides, writeable=False)


class _Ports:
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


class _Function:
    """A program and the numbers that it is called with; the rest of its inputs, `names`, are arrays."""

    def __init__(self, program: Program, numbers: "dict[str, object]", names: "tuple[str, ...]"):
        self.program, self.numbers, self.names = program, numbers, names
        self._made: dict = {}

    def once(self, key: tuple, make: typing.Callable):
        """What is equal is one object, so that JAX finds what it has traced and compiled."""
        found = self._made.get(key)
        return found if found is not None else self._made.setdefault(key, make())

    def derived(self, how: str, of: "tuple[str, ...]", wrt: "tuple[str, ...]") -> "_Function":
        def make():
            program = getattr(self.program, how)(of=list(of), wrt=list(wrt))
            return _Function(program, self.numbers, self.names + program.inputs[len(self.program.inputs):])
        return self.once((how, of, wrt), make)

    def batched(self, names: "tuple[str, ...]") -> "_Function":
        return self.once(("vmap", names), lambda: _Function(self.program.vmap(list(names)), self.numbers, self.names))

    def block(self, specs: _Specs) -> Block:
        arrays = dict(zip(self.names, specs))
        items = [(n, _stand_in(*arrays[n]) if n in arrays else self.numbers.get(n)) for n in self.program.inputs]
        return Block([(n, v) for n, v in items if v is not None], stand_in=True)

    def ask(self, function, *parameters) -> None:
        check(function(self.program._handle, *parameters), self.program._heard())
        self.program._hear(said())

    def outputs(self, specs: _Specs) -> "list[tuple[str, tuple[int, ...], np.dtype]]":
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
            ports = _Ports(handle.value)
            known = {name for name, _, _ in ports.inputs}
            sizes = [n for n in scalars if n not in known]
            if sizes:
                raise ArgumentTypeError("%s of %s: %s" % (sizes[0], self.program.name or "the function", _NO_SIZE))
            return ports.outputs
        return self.once(("outputs", specs), make)

    def types_of_inputs(self, specs: _Specs) -> "dict[str, np.dtype]":
        """Element types of what is data; a number that is a size is not there."""
        block, handle = self.block(specs), ctypes.c_void_p()
        self.ask(_c.lib.tilec_infer, block.structs, block.count, ctypes.byref(handle))
        return {name: dtype for name, _, dtype in _Ports(handle.value).inputs}

    def kernel(self, specs: _Specs) -> _Ports:
        def make():
            block, handle = self.block(specs), ctypes.c_void_p()
            self.ask(_c.lib.tilec_specialize, block.structs, block.count, None, 0, ctypes.byref(handle))
            return self._checked(_Ports(handle.value))
        return self.once(("kernel", specs), make)

    def pair(self, specs: _Specs, of: "tuple[str, ...]", wrt: "tuple[str, ...]") -> "tuple[_Ports, _Ports]":
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
            return self._checked(_Ports(forward.value)), _Ports(backward.value)
        return self.once(("pair", specs, of, wrt), make)

    def _checked(self, ports: _Ports) -> _Ports:
        """Numbers that 64 bits do not hold stand as 1 where they are asked about: those that were compiled in are
        refused."""
        known = {name for name, _, _ in ports.inputs}
        settle_sizes(
            list(self.numbers), list(self.numbers.values()), {k for k, n in enumerate(self.numbers) if n not in known}
        )
        return ports


_NO_SIZE = (
    "a size is part of what is compiled, and arrays have no values yet when JAX traces: give it as a Python int, "
    "which under jax.jit is one that a closure holds or static_argnums names"
)


# ---- What the primitive computes


class _Op:
    """A parameter of the primitive; equal ones are the same object."""
    function: _Function                                    # that it is equal to, of the arguments at `taken`
    taken: "tuple[int, ...] | None" = None                 # None: of all

    def plain(self, arguments: typing.Sequence) -> list:
        return list(arguments) if self.taken is None else [arguments[k] for k in self.taken]

    def specs(self, arguments) -> _Specs:
        return tuple((tuple(a.shape), np.dtype(a.dtype)) for a in self.plain(arguments))

    def results(self, avals) -> "list[tuple[tuple[int, ...], np.dtype]]":
        return [(shape, dtype) for _, shape, dtype in self.function.outputs(self.specs(avals))]

    def kernel(self, avals) -> "tuple[_Ports, dict[str, int]]":
        """The kernel, and where among the arguments its inputs are, by their names."""
        taken = range(len(avals)) if self.taken is None else self.taken
        return self.function.kernel(self.specs(avals)), dict(zip(self.function.names, taken))

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__[1:].lower(), self.function.program.name or "?")


class _Call(_Op):
    def __init__(self, function: _Function):
        self.function = function


def _call(function: _Function) -> _Call:
    return function.once(("call",), lambda: _Call(function))


class _Forward(_Op):
    def __init__(self, function: _Function, of, wrt):
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

    def __init__(self, base: _Function, of, wrt, saved: "tuple[str, ...] | None"):
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


def _linear(kind, base: _Function, of, wrt, saved=None) -> _Linear:
    return base.once((kind, of, wrt, saved), lambda: kind(base, of, wrt, saved))


# ---- The rules


def _bind(op: _Op, arguments: typing.Sequence) -> list:
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
        for k, t in zip(of, _bind(tangent, [*arguments, *[moved[k] for k in wrt]])):
            made[k] = t
    return made


def _jvp(primals, tangents, *, op: _Op):
    outs = _bind(op, primals)
    avals = [jax.typeof(out) for out in outs]
    if isinstance(op, _Tangent) and all(map(_is_zero, tangents[:op.inputs])):
        moved = tangents[op.start:]                        # it is linear in these, and has to stay so
        if all(map(_is_zero, moved)):
            return outs, [_none(aval) for aval in avals]
        return outs, _bind(op, [*primals[:op.start], *map(ad.instantiate_zeros, moved)])
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
            made = _bind(function.once(("forward", of, wrt), lambda: _Forward(function, of, wrt)), primals)
            names, wanted = [name for name, _, _ in forward.outputs], {name for name, _, _ in backward.inputs}
            saved = [k for k, name in enumerate(names) if name in wanted]
            tangent = _linear(_Tangent, function, of, wrt, tuple(names[k] for k in saved))
            outs = made[:len(outputs)]
            are_float = [_is_float(out) for out in outs]
            avals = [jax.typeof(out) for out in outs]

            def linear(residuals, *tangents):
                found = iter(_bind(tangent, [*residuals, *[t for t, m in zip(tangents, moves) if m]]))
                return [next(found) if is_float else _none(aval) for is_float, aval in zip(are_float, avals)]
            return outs, are_float, [*primals, *[made[k] for k in saved]], linear
    outs = _bind(op, primals)
    avals = [jax.typeof(out) for out in outs]
    results = [
        k < len(op.function.program.outputs) and _is_float(out) and any(op.plain(moves)) for k, out in enumerate(outs)
    ]

    def push(residuals, *tangents):
        zeroed = [t if m else _none(jax.typeof(p)) for t, m, p in zip(tangents, moves, residuals)]
        if isinstance(op, _Tangent) and not any(moves[:op.inputs]):
            return _bind(op, [*residuals[:op.start], *map(ad.instantiate_zeros, zeroed[op.start:])])
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
    for k, ct in zip(asked, _bind(backward, [*held, *[ad.instantiate_zeros(cotangents[k]) for k in given]])):
        made[op.start + k] = _as_typed(ct, tangents[k].aval.to_ct_aval())
    return made


def _batch(arguments, dims, *, op: _Op):
    """One call of the program for a batch. It computes from inputs alone: of what forward kept for it, a program for a
    batch would keep something else, and nobody else reads that."""
    dims = op.plain(dims)
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(op.plain(arguments), dims)]
    batched = op.function.batched(tuple(n for n, d in zip(op.function.names, dims) if d is not None))
    outs = _bind(_call(batched), moved)
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


# ---- The function


def _as_array(name: str, value) -> jax.Array:
    try:
        return jnp.asarray(value)
    except Exception as fault:                             # whatever a foreign object raises
        kind = ValueError if isinstance(fault, ValueError) else TypeError
        raise kind("%s: a %s cannot be taken as an array: %s" % (name, type(value).__name__, fault)) from fault


def _check_array(name: str, aval) -> None:
    if not isinstance(aval.dtype, np.dtype):
        raise TypeError(
            "%s: element type %s is none of Tile's; of a key of jax.random pass jax.random.key_data(%s)"
            % (name, aval.dtype, name)
        )
    check_type(name, aval.dtype)


class Op:
    """A program as a function of JAX arrays; see op()."""

    def __init__(self, program: Program):
        self.program = program
        # of a program there is one of each, whoever asks
        self._functions: "dict[tuple, _Function]" = program.__dict__.setdefault("_jax", {})
        self._known: "dict[tuple, tuple]" = {}
        self._static: "frozenset[int]" = frozenset()      # positions of numbers that are compiled in
        self.__name__ = self.__qualname__ = program.name or "tilec"
        self.__doc__ = "%s(%s) -> (%s), a program of tilec." % (
            self.__name__,
            ", ".join(program.inputs),
            ", ".join(program.outputs),
        )

    def __repr__(self) -> str:
        return "<tilec.jax.Op %s(%s) -> (%s)>" % (
            self.program.name or "without a name",
            ", ".join(self.program.inputs),
            ", ".join(self.program.outputs),
        )

    def __call__(self, /, *arguments, **named):
        names = self.program.inputs
        if named or len(arguments) != len(names) or any(value is None for value in arguments):
            arguments = self.program._by_position(arguments, named)
        values, key, traced = list(arguments), [jax.config.jax_enable_x64], False
        for place, value in enumerate(values):
            kind = type(value)
            if kind in _NUMBERS:
                # 1, 1.0 and True are equal, and not the same
                key.append((kind, repr(value)) if place in self._static else kind)
            elif value is None:
                key.append(None)
            else:
                if not isinstance(value, jax.Array):
                    values[place] = value = _as_array(names[place], value)
                traced |= isinstance(value, jax.core.Tracer)
                key.append(jax.typeof(value))
        known = self._known.get(tuple(key))
        if known is None:
            known = self._prepare(values, key)
        call, run, operands = known
        given = []
        for place, dtype in operands:
            value = values[place]
            if dtype is not None:
                value = (
                    number_as(names[place], value, dtype)
                    if type(value) in _NUMBERS
                    else jax.lax.convert_element_type(value, dtype)
                )
            given.append(value)
        made = _bind(call, given) if traced else run(*given)
        return made[0] if len(made) == 1 else tuple(made)

    def _prepare(self, values: list, key: list) -> tuple:
        """What the primitive is told, the same compiled, and which arguments are its operands, some to be converted to
        a type."""
        program = self.program
        numbers = {n: v for n, v in zip(program.inputs, values) if type(v) in _NUMBERS}
        avals = {n: a for n, v, a in zip(program.inputs, values, key[1:]) if isinstance(v, jax.Array)}
        for name, aval in avals.items():
            _check_array(name, aval)
        specs = {n: (tuple(a.shape), np.dtype(a.dtype)) for n, a in avals.items()}
        types = _types_of_numbers(
            program,
            specs,
            numbers,
            {n: a for n, a in avals.items() if not a.shape and a.weak_type and a.dtype.kind != "b"},
        )
        specs.update({n: ((), dtype) for n, dtype in types.items()})
        names = tuple(n for n in program.inputs if n in specs)
        numbers = {n: v for n, v in numbers.items() if n not in specs}
        self._static = self._static | {program.inputs.index(n) for n in numbers}
        which = (names, tuple((n, type(v), repr(v)) for n, v in numbers.items()))
        function = self._functions.get(which) or self._functions.setdefault(which, _Function(program, numbers, names))
        for name, _, dtype in function.outputs(tuple(specs[n] for n in names)):
            if not _has(dtype):
                raise TypeError(
                    "%s of %s is %s, which JAX has only with jax.config.update('jax_enable_x64', True)"
                    % (name, program.name or "the function", dtype)
                )
        call = _call(function)
        run = function.once(("run",), lambda: jax.jit(lambda *operands: tilec_p.bind(*operands, op=call)))
        known = call, run, [(program.inputs.index(n), types.get(n)) for n in names]
        key = [
            (type(v), repr(v)) if place in self._static and type(v) in _NUMBERS else k
            for place, (k, v) in enumerate(zip(key[1:], values))
        ]
        self._known[tuple([jax.config.jax_enable_x64, *key])] = known
        return known


_NUMBERS = (bool, int, float)


def _types_of_numbers(program: Program, specs: dict, numbers: dict, weak: dict) -> "dict[str, np.dtype]":
    """A number that is data is an operand of the type that it meets, and so is a scalar that JAX holds weakly typed, as
    it does numbers. Not here: sizes, and where JAX has not the type. An i64 that meets a float may as well be an i32,
    or part of what is compiled."""
    if not numbers and not weak:
        return {}
    asked = {**numbers, **{n: 1.0 if a.dtype.kind == "f" else 1 for n, a in weak.items()}}
    strong = tuple(n for n in specs if n not in weak)
    types = _Function(program, asked, strong).types_of_inputs(tuple(specs[n] for n in strong))
    return {n: types[n] for n in asked if n in types and _has(types[n])}


def _has(dtype: np.dtype) -> bool:
    """Has JAX the type, or 32 bits of it only?"""
    return jax.dtypes.canonicalize_dtype(dtype) == dtype


def op(program: Program) -> Op:
    """The program as a function of JAX arrays, on the CPU: it may be called, and transformed by jax.jit, grad, vjp,
    jvp, linearize, vmap, checkpoint and shard_map, in any order and as often as one likes.

        f = tilec.jax.op(tilec.load("conv.tile"))
        loss = lambda I, K: (f(I, K) ** 2).sum()
        dI, dK = jax.jit(jax.grad(loss, (0, 1)))(I, K)

    It is called as the program is, by position or by name. A Python number takes the type of what it meets, as a
    literal of Tile does; a size has to be one, for it is part of what is compiled. One output comes back as its array,
    several as a tuple. Shapes and types are checked when JAX traces: a fault is a TypeError or a ValueError that names
    the argument. What the program computes is compiled for each set of shapes, and stays as long as the program or an
    executable of XLA holds it.
    """
    if not isinstance(program, Program):
        raise TypeError("tilec.jax.op takes a tilec.Program, not a %s%s" % (type(program).__name__, _advice(program)))
    return Op(program)


def _advice(value) -> str:
    from . import Module
    if isinstance(value, Module):
        return ": choose one of its functions, %s" % ", ".join(dir(value)[:5])
    return ": tilec.compile(text) makes one" if isinstance(value, str) else ""
