"""How a program is called: its handle, its names, the kernels it keeps, and which of them a call runs."""
from __future__ import annotations

import ctypes
import itertools
import os
import typing

import numpy as np

from . import _library as _c
from ._again import Calls
from ._arguments import as_argument, as_outputs, as_written, check_type, names_to_add
from ._call import Block, Prepared, Seen, in_64_bits, settle_sizes
from ._device import Call as GpuCall, check_outputs, number_of, on_gpu, refuse_stream, seen, strided
from ._grouped import by_position as in_order, has_groups
from ._libraries import Torch, library_of, library_of_call, note_written, torch_if_met
from .errors import ArgumentTypeError, Diagnostic, Error, ShapeError, check, hear, said as last_said

if typing.TYPE_CHECKING:
    from ._pair import Pair
    from ._recipe import Recipe

_LARGE = 2**63
# of calls, so inputs of these names are given by position
_BY_POSITION = ("out", "accumulate", "of", "wrt", "vjp", "runs", "stream")
_ONE = float("1")                                          # of no caller: the cotangent that was left out


class Runnable:
    """What a Program is to its calls."""

    def __init__(
        self, handle: int, recipe: Recipe, origin: "Runnable | None" = None, heard: "tuple[Diagnostic, ...]" = ()
    ):
        lib = _c.lib
        self._recipe = recipe
        self._of_cuda: bool = recipe.options["target"].startswith("cuda")
        # the GPU that it runs on where arrays do not say where they lie
        self._gpu: int = next((int(word) for word in recipe.options["target"].split(":") if word.isdigit()), 0)
        self._kernels: int = recipe.options["kernels"] or _usual_kernels()
        self._uses = itertools.count()
        self._sizes: "set[int]" = set()                       # positions of arguments whose values are compiled in
        self.diagnostics: "tuple[Diagnostic, ...]" = origin.diagnostics if origin is not None else heard
        self.name: str = lib.tilec_program_name(handle).decode()
        self.inputs: tuple[str, ...] = tuple(
            lib.tilec_input_name(handle, k).decode() for k in range(lib.tilec_input_count(handle))
        )
        # Of a derivative, what it does not read need not be given; of a function, what has a default in the text.
        self._optional = frozenset(
            name for k, name in enumerate(self.inputs) if origin is not None or lib.tilec_input_is_optional(handle, k)
        )
        # Of the function itself; behind them stand cotangents and tangents of a derivative.
        self._own: int = origin._own if origin is not None else len(self.inputs)
        self._has_defaults: bool = origin._has_defaults if origin is not None else bool(self._optional)
        self._heading: typing.Any = origin._heading if origin is not None else None   # of a function of std/
        self.outputs: tuple[str, ...] = tuple(
            lib.tilec_output_name(handle, k).decode() for k in range(lib.tilec_output_count(handle))
        )
        self._same = [self.outputs[lib.tilec_output_first(handle, k)] for k in range(len(self.outputs))]
        self._calls = Calls()
        self._cache: "dict[tuple, Prepared]" = {}             # kernels by the kind of call
        self._pairs: "dict[tuple, Pair]" = {}
        # outputs of calls without the inputs at these positions
        self._made: "dict[tuple[int, ...], tuple[str, ...]]" = {}
        # cotangents that are 1 where they are not given, if they are scalars
        self._ones: "frozenset[str]" = frozenset()
        self._handle = handle                                 # last: what has one is whole
        self._hear(last_said())

    def __del__(self):
        if _c is not None and getattr(self, "_handle", None):
            self._pairs.clear()
            self._calls = None
            # kernels first, so that the program is the last to hold them
            self._cache.clear()
            _c.lib.tilec_program_destroy(self._handle)

    def _hear(self, said: "list[tuple[Diagnostic, str]]") -> None:
        """Raises the warnings that are new: one at a place, whatever the shapes."""
        self.diagnostics = hear(self.diagnostics, said)

    def _heard(self) -> "set[tuple]":
        return {diagnostic.place() for diagnostic in self.diagnostics}

    def __call__(
        self,
        /,
        *arguments: typing.Any,
        out: typing.Any = None,
        accumulate: "bool | str | typing.Sequence[str]" = False,
        stream: typing.Any = None,
        **named: typing.Any,
    ) -> typing.Any:
        if stream is not None:
            return self._run_foreign(self._by_position(arguments, named), out, accumulate, stream)
        if named or len(arguments) != len(self.inputs):
            arguments = tuple(self._by_position(arguments, named))
        if accumulate is False:
            made = self._calls.run(arguments, out)
            if made is not None:
                return made
        return self._run(arguments, out, accumulate, None)

    # torch.compile breaks its graph here, and does not look at what calls C
    __call__._torchdynamo_disable = True  # type: ignore[attr-defined]
    __call__._torchdynamo_disable_msg = "in one graph, call tilec.torch.op(program)"  # type: ignore[attr-defined]

    def _run(self, arguments: typing.Sequence, out, accumulate, library):
        """A call whose results are made by `library` (None: NumPy)."""
        key = []
        for value in arguments:
            kind = type(value)
            if kind is np.ndarray:
                key.append((value.dtype, value.shape, value.strides))
            elif kind is int or kind is bool:
                # what no i64 holds is another program
                key.append(int if value < _LARGE or value >= 2 * _LARGE else np.uint64)
            elif kind is float or value is None:
                key.append(kind)
            else:
                return self._run_foreign(arguments, out, accumulate)
        if out is not None:
            results = self._results(arguments)
            out = as_outputs(results, out)
            for array in out:
                if type(array) is not np.ndarray and not isinstance(array, np.ndarray):
                    return self._run_foreign(arguments, out, accumulate)
                if not array.flags.writeable:
                    raise ValueError("out= for %s is read-only" % results[[array is o for o in out].index(True)])
                key.append((array.shape, array.strides, array.dtype))
        accumulate = self._join_outputs(key, accumulate, out)
        prepared = self._cache.get(self._with_sizes(key, arguments))
        if prepared is None:
            plain = self._as_arguments(arguments)
            if any(a is not b for a, b in zip(plain, arguments)):
                return self._run(plain, out, accumulate, library)
            try:
                prepared = self._prepare(arguments, out, accumulate or ())
            except ShapeError as fault:
                raise self._about_cotangents(arguments, fault) from None
            if out is None and library is None:
                prepared.refuse_stand_ins()
            self._keep(key, arguments, prepared)
        prepared.used = next(self._uses)
        try:
            made = prepared(arguments, out) if library is None else library.run(prepared, arguments, out)
            if library is None and accumulate is False:
                self._remember(prepared, arguments, out)
            return made
        # an input that C cannot address is copied; an output stays refused
        except ShapeError as fault:
            plain = self._as_arguments(arguments) if fault.code == "E0556" else arguments
            if all(a is b for a, b in zip(plain, arguments)):
                raise
        return self._run(plain, out, accumulate, library)

    def _run_foreign(self, arguments: typing.Sequence, out, accumulate, stream=None):
        """A call with arrays that are not NumPy's, or with what must become an array first."""
        if stream is not None and not self._of_cuda:
            refuse_stream(self.name or "the function", self._recipe.options["target"])
        there = next((value for value in arguments if on_gpu(value)), None) if self._of_cuda else None
        results = self.outputs if out is None else self._results(arguments)
        at = None if stream is None else number_of(stream)
        if there is None and at is None:
            given = None if out is None else as_outputs(results, out)
        else:
            library_of(there)                                 # which is met now
            given = None if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
        torch = torch_if_met()
        if torch is not None and (given is None or len(given) == len(results)):
            try:
                found = self._prepared_for(torch, arguments, given, accumulate)
                if found is not None and (at is None or found.on_gpu):
                    made = torch.run(found, arguments, given, at)
                    if given is not None:
                        torch.written(given)
                    if accumulate is False and at is None:
                        self._remember(found, arguments, given, torch)
                    return made
            # a tensor without memory of its own: what it is will be said
            except RuntimeError as fault:
                if isinstance(fault, Error):
                    raise
            except ShapeError as fault:                       # one that C cannot address is copied
                if fault.code != "E0556":
                    raise
        if there is not None or at is not None:
            return self._run_on_gpu(arguments, out, accumulate, at)
        if has_groups(arguments):
            return self._run(self._by_position(arguments, {}), out, accumulate, None)
        library = library_of_call(self.inputs, arguments)
        plain = self._as_arguments(arguments)
        if given is None:
            return self._run(plain, None, accumulate, library)
        self._run(plain, as_written(results, given), accumulate, library)
        note_written(given)
        return given[0] if len(given) == 1 else tuple(given)

    def _prepared_for(
        self, torch: Torch, arguments: typing.Sequence, out: "list | None", accumulate
    ) -> "Prepared | None":
        """What runs on these tensors as they lie. None: some are not to be taken by their address."""
        key = torch.key(arguments, out)
        if key is None:
            return None
        accumulate = self._join_outputs(key, accumulate, out)
        found = self._cache.get(self._with_sizes(key, arguments))
        if found is None:
            plain = self._as_arguments(arguments)
            if any(torch.differs(value, array) for value, array in zip(arguments, plain)):
                return None
            written = None if out is None else self._as_written(self._results(plain), out)
            try:
                found = self._prepare(plain, written, accumulate or ())
            except ShapeError as fault:
                raise self._about_cotangents(arguments, fault) from None
            self._keep(key, arguments, found)
        found.used = next(self._uses)
        return found

    def _run_on_gpu(self, arguments: typing.Sequence, out, accumulate, stream):
        """A call on arrays in the GPU's memory, which is not waited for."""
        call = GpuCall(self, self.outputs if out is None else self._results(arguments), arguments, out, stream)
        added = self._outputs_to_add(accumulate, out) if accumulate is not False else ()
        found = self._cache.get((*call.key(self._sizes), added))
        if found is None:
            found = self._prepare(call.values, call.written or None, added)
            self._sizes = self._sizes | found.sizes
            self._insert((*call.key(self._sizes), added), found)
        found.used = next(self._uses)
        return call.run(found)

    def _about_cotangents(self, arguments: typing.Sequence, fault: ShapeError) -> ShapeError:
        left_out = [n for n, v in zip(self.inputs, arguments) if v is _ONE and "`%s`" % n in str(fault)]
        if fault.code != "E0517" or not left_out:
            return fault
        said = "%s was left out, which means 1 where the output is a scalar: pass %s=, in the shape of its output" % (
            left_out[0],
            left_out[0],
        )
        return ShapeError("%s\n%s" % (said, fault), fault.diagnostics)

    def _as_arguments(self, arguments: typing.Sequence) -> list:
        return [
            seen(name, value, self._gpu) if self._of_cuda and on_gpu(value) else as_argument(name, value)
            for name, value in zip(self.inputs, arguments)
        ]

    def _as_written(self, results: "tuple[str, ...]", out: list) -> list:
        if self._of_cuda and all(map(on_gpu, out)):
            return [seen("out= for " + name, value, self._gpu) for name, value in zip(results, out)]
        return as_written(results, out)

    def _join_outputs(self, key: list, accumulate, out) -> "tuple[str, ...] | bool":
        """The outputs that a call adds to, which join its key. False: to none."""
        if accumulate is False:
            return False
        names = self._outputs_to_add(accumulate, out)
        key.append(names)
        return names

    def _with_sizes(self, key: list, arguments: typing.Sequence) -> tuple:
        """The key of a call: a number that is data is no part of it, one that is compiled in is."""
        for position in self._sizes:
            value = arguments[position]
            if type(value) is int or type(value) is bool:
                key[position] = int(value)
            elif type(value) is np.ndarray and not value.ndim and value.dtype.kind in "iub":
                key[position] = (value.dtype, value.item())
            elif key[position].__class__ is tuple and not value.ndim:
                key[position] = (value.dtype, value.item())   # a tensor of PyTorch
        return tuple(key)

    def _keep(self, key: list, arguments: typing.Sequence, prepared: Prepared) -> None:
        """Under the key by which the next such call looks. Single operations on a dict, so threads need no lock that
        fork() could leave closed."""
        if not prepared.sizes <= self._sizes:
            self._sizes = self._sizes | prepared.sizes
        self._insert(self._with_sizes(key, arguments), prepared)

    def _insert(self, key: tuple, prepared: Prepared) -> None:
        prepared.used = next(self._uses)
        self._cache[key] = prepared
        if len(self._cache) > self._kernels:
            for each in self._calls.in_order_of_use():
                each.used = next(self._uses)
            prepared.used = next(self._uses)
        for old in sorted(list(self._cache.items()), key=lambda entry: entry[1].used)[:-self._kernels]:
            self._cache.pop(old[0], None)
            self._calls = Calls()

    def _remember(
        self, prepared: Prepared, arguments: typing.Sequence, out: "list | None", torch: "Torch | None" = None
    ) -> None:
        """A call that has run on these as they lie: the next one of its kind finds it in C."""
        if self._calls.is_full:
            self._calls = Calls()
        self._calls.add(prepared, arguments, out, torch)

    def _refuse_beyond(self, values: list, prepare: "typing.Callable[[list, None], Prepared]") -> None:
        """Integers that 64 bits do not hold, as a call with them does: what it compiles says whether they are
        floats."""
        if any(type(value) is int and not in_64_bits(value) for value in values):
            prepare(values, None).check_numbers(values)

    def _by_position(self, arguments: typing.Sequence, named: dict) -> list:
        """Arguments in order. None: not given, which is fine for an input that what is asked does not need."""
        return in_order(
            self.name or "the function",
            self.inputs,
            arguments,
            named,
            self._optional,
            {name: _ONE for name in self._ones},
            _BY_POSITION,
            self._taken,
            self._about_name,
        )

    def _about_name(self, name: str) -> "str | None":
        """Of a name that is no input, where it belongs."""
        return self._heading.about_parameter(name) if self._heading is not None else None

    def _taken(self, count: int, named: "typing.Container[str]") -> "tuple[str, ...]":
        """The inputs that so many arguments by position are: of a derivative the last ones are cotangents or tangents,
        where none of them has its name."""
        if (
            not self._has_defaults
            or count >= len(self.inputs)
            or any(name in named for name in self.inputs[self._own :])
        ):
            return self.inputs[:count]
        return tuple(self.inputs[_c.lib.tilec_input_at(self._handle, count, k)] for k in range(count))

    def _results(self, arguments: typing.Sequence) -> "tuple[str, ...]":
        """The outputs of a call with these."""
        absent = tuple(k for k in range(self._own) if arguments[k] is None)
        if not absent or not self._has_defaults or self._own == len(self.inputs):
            return self.outputs
        found = self._made.get(absent)
        if found is None:
            found = self._made[absent] = tuple(
                name for name, _, _ in self._ports(self._as_arguments(arguments)).outputs
            )
        return found

    def _outputs_to_add(self, accumulate, out) -> "tuple[str, ...]":
        names = self._named_outputs(accumulate)
        if names and out is None:
            raise TypeError("accumulate= adds to arrays: give them as out=")
        return names

    def _named_outputs(self, accumulate) -> "tuple[str, ...]":
        names = names_to_add(accumulate, self.outputs)
        # `C` of `-> (C, C)` is both
        return tuple(n for n, same in zip(self.outputs, self._same) if n in names or same in names)

    def _ports(self, values: list) -> Prepared:
        """Types and shapes of what a call with these takes and gives; it cannot be run."""
        block = Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_infer(self._handle, block.structs, block.count, ctypes.byref(handle)), self._heard())
        return Prepared(_c.made(handle), self.inputs)

    def _prepare(self, arguments: typing.Sequence, out, add: typing.Sequence[str] = ()) -> Prepared:
        block = Block([(n, v) for n, v in zip(self.inputs, arguments) if v is not None], stand_in=True)
        named = self.outputs if out is None else self._results(arguments)
        for name, array in zip(named, out or ()):
            check_type("out= for " + name, array.dtype)
            if isinstance(array, np.ndarray) and any(s % array.itemsize for s in array.strides):
                raise ValueError("out= for %s has strides that are no multiples of its element size" % name)
        there = [array for array in out or () if isinstance(array, Seen)]
        written = out or ()
        if there:                                             # what is added to is row-major there, perhaps a copy
            written = [array.row_major() for array in there] if add else strided(there) or ()
        results = Block(list(zip(named, written)), add)
        handle = ctypes.c_void_p()
        try:
            check(
                _c.lib.tilec_specialize(
                    self._handle, block.structs, block.count, results.structs, results.count, ctypes.byref(handle)
                ),
                self._heard(),
            )
        except ArgumentTypeError as fault:
            if fault.code != "E0557":
                raise
            given = ", ".join("%s is %s" % (name, array.dtype) for name, array in zip(named, out))
            raise ArgumentTypeError("out= for %s: %s" % (given, fault), fault.diagnostics) from None
        said = last_said()
        prepared = Prepared(_c.made(handle), self.inputs).placed(arguments)
        settle_sizes(self.inputs, arguments, prepared.sizes)
        self._hear(said)
        check_outputs(prepared, there)
        return prepared


def kind_of(value) -> object:
    """What a specialisation depends on; what no i64 holds is another program."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.strides
    if isinstance(value, Seen):
        return value.dtype, value.shape, value.strides, value.gpu
    return np.uint64 if isinstance(value, int) and _LARGE <= value < 2 * _LARGE else type(value)


def _usual_kernels() -> int:
    """As the library does: TILEC_KERNELS where it is a number, else 128."""
    text = os.environ.get("TILEC_KERNELS", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**64 else 128
