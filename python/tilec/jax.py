"""Programs as functions of JAX: `f = tilec.jax.op(program)`.

To JAX a program is a primitive (_jax_primitive.py), and so are its derivatives: jit, grad, jvp, vmap and shard_map
compose in any order and to any depth.
"""

from __future__ import annotations

import numpy as np

try:
    import jax
except ImportError as fault:
    raise ImportError("tilec.jax needs JAX: pip install jax") from fault
import jax.numpy as jnp

from . import Program
from ._arguments import check_type
from ._call import number_as
from ._jax_primitive import bind, call_of, tilec_p
from ._jax_programs import Function

__all__ = ["op"]


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
        self._functions: "dict[tuple, Function]" = program.__dict__.setdefault("_jax", {})
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
        made = bind(call, given) if traced else run(*given)
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
        function = self._functions.get(which) or self._functions.setdefault(which, Function(program, numbers, names))
        for name, _, dtype in function.outputs(tuple(specs[n] for n in names)):
            if not _has(dtype):
                raise TypeError(
                    "%s of %s is %s, which JAX has only with jax.config.update('jax_enable_x64', True)"
                    % (name, program.name or "the function", dtype)
                )
        call = call_of(function)
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
    types = Function(program, asked, strong).types_of_inputs(tuple(specs[n] for n in strong))
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
