"""tilec: tensor programs written in Tile, compiled to fast kernels, with gradients.

    import tilec
    matmul = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    C = matmul(A, B)                                 # arrays of any strides, of NumPy, PyTorch or JAX; C is of the same library
    dA, dB = matmul.grad(wrt=["A", "B"])(A, B, dC)   # the gradient is a program like any other
    Cs = matmul.vmap("A")(As, B)                     # for a batch, A[b], C[b] of each: one kernel
    print(matmul.emit("gradient"))                   # any stage of the compiler, as text
    Y = tilec.std.layer_norm(X, GAMMA, BETA)         # functions of std/
    f = tilec.torch.function(matmul)                 # differentiable in PyTorch; op() and module() beside it
"""
from __future__ import annotations

import ctypes as _ctypes
import functools as _functools
import importlib as _importlib
import itertools as _itertools
import os as _os
import pathlib as _pathlib
import sys as _sys
import typing as _typing
import warnings as _warnings
import zlib as _zlib

import numpy as _np

from . import _library as _c
from ._again import Calls as _Calls
from ._arguments import names_to_add as _names_to_add, as_argument as _as_argument, as_path as _as_path, as_outputs as _as_outputs, as_written as _as_written, check_type as _check_type, encoded as _encoded, fit as _fit
from ._call import Block as _Block, Prepared as _Prepared, in_64_bits as _in_64_bits, settle_sizes as _settle_sizes
from ._device import Call as _GpuCall, Placed as _Placed, on_gpu as _on_gpu, refuse_stream as _refuse_stream
from ._grouped import by_position as _in_order, has_groups as _has_groups, nearest as _nearest
from ._libraries import Torch as _Torch, note_written as _note_written, library_of_call as _library_of_call, torch_if_met as _torch_if_met
from ._options import chosen as _chosen, options
from ._pair import Backward, Pair as _Pair
from ._package import MAGIC as _MAGIC, Package, row_major as _row_major
from ._recipe import Recipe as _Recipe
from ._stats import Launch, Profile, Stats, profile_of as _profile_of, stats_of as _stats_of
from .errors import (ArgumentTypeError, DeviceError, Diagnostic, Error, InternalError, OptionError, ProgramError, ProgramWarning, ShapeError, check as _check,
                     said as _said)

__all__ = ["compile", "load", "options", "Program", "Module", "Package", "Backward", "Error", "ProgramError", "ShapeError", "ArgumentTypeError", "DeviceError", "InternalError",
           "OptionError", "ProgramWarning", "Diagnostic", "Stage", "stages", "Stats", "Profile", "Launch", "version"]

_LARGE = 2**63
_BY_POSITION = ("out", "accumulate", "of", "wrt", "vjp", "runs", "stream")      # of calls, so inputs of these names are given by position
if _typing.TYPE_CHECKING:
    from . import std as std

_ONE = float("1")                                          # of no caller: the cotangent that was left out
_Names = _typing.Union[str, _typing.Sequence[str], None]


def _name_list(names: _Names) -> list[str]:
    if names is None or isinstance(names, str):
        return [] if names is None else [names]
    try:
        return list(names)
    except TypeError:
        raise TypeError("names of tensors are a str or a sequence of them, not %r" % (names,)) from None


def _derivative_names(of: _Names, wrt: _Names) -> tuple:
    """The C parameters of, of_count, wrt, wrt_count."""
    parameters = []
    for what, names in (("of=", _name_list(of)), ("wrt=", _name_list(wrt))):
        parameters += [(_ctypes.c_char_p * max(1, len(names)))(*[_encoded(what, n) for n in names]), len(names)]
    return tuple(parameters)


class Program:
    """A compiled text. Call it with arrays and numbers, by position or by name.

    An array is taken as it lies (no copy, whatever its strides), one of a subclass of NumPy's for the elements it holds; a Python number is
    weakly typed, as a literal in Tile is. Tensors of PyTorch, arrays of JAX and whatever has DLPack on the CPU give results of their library, again without a copy; NumPy
    arrays, lists and numbers go with them, two libraries together are a TypeError. Nothing is recorded for autograd: a tensor that requires grad is a ValueError, unless under
    torch.no_grad(); tilec.torch.function(program) is differentiable. One output comes back as its array, several as a tuple in order. `out=` takes the array or
    arrays to write instead, which it gives back; with `accumulate=True`, or the names of some outputs, the call adds to what they hold: O = O + result,
    rounded once to O's type. An input may share memory with `out=`: it is copied first. Outputs may share none.
    A dict or a named tuple gives inputs by name, f({"X": x}, G=g), a tuple of arrays those next in order, f((x, g)).
    Of target cuda, contiguous arrays in a GPU's memory are read and written there, and the call returns before they are: tensors of PyTorch, arrays of CuPy,
    with `out=` of any library with __cuda_array_interface__. It starts behind the work of `stream=`, a number (CUstream) or a library's stream; None: the one
    that the library is at. Of other targets, `stream=` is a ValueError.
    Specialised on first use for the shapes, element types and strides it is called with; later calls of the kind cost microseconds.
    May be used from several threads at once, copied (it is never changed) and pickled: its texts travel, imports too, and are compiled where they arrive.
    `diagnostics` is what the compiler has said so far; its warnings were raised as ProgramWarning.
    """

    def __init__(self, handle: int, recipe: _Recipe, origin: "Program | None" = None, heard: "tuple[Diagnostic, ...]" = ()):
        lib = _c.lib
        self._recipe = recipe
        self._of_cuda: bool = recipe.options["target"].startswith("cuda")
        self._kernels: int = recipe.options["kernels"] or _usual_kernels()
        self._uses = _itertools.count()
        self._sizes: "set[int]" = set()                       # positions of arguments whose values are compiled in
        self.diagnostics: "tuple[Diagnostic, ...]" = origin.diagnostics if origin is not None else heard
        self.name: str = lib.tilec_program_name(handle).decode()
        self.inputs: tuple[str, ...] = tuple(lib.tilec_input_name(handle, k).decode() for k in range(lib.tilec_input_count(handle)))
        # Of a derivative, what it does not read need not be given; of a function, what has a default in the text.
        self._optional = frozenset(name for k, name in enumerate(self.inputs) if origin is not None or lib.tilec_input_is_optional(handle, k))
        self.outputs: tuple[str, ...] = tuple(lib.tilec_output_name(handle, k).decode() for k in range(lib.tilec_output_count(handle)))
        self._same = [self.outputs[lib.tilec_output_first(handle, k)] for k in range(len(self.outputs))]
        self._calls = _Calls()
        self._cache: "dict[tuple, _typing.Any]" = {}          # kernels by the kind of call: Prepared, and Placed on a GPU
        self._pairs: "dict[tuple, _Pair]" = {}
        self._ones: "frozenset[str]" = frozenset()            # cotangents that are 1 where they are not given, if they are scalars
        self._handle = handle                                 # last: what has one is whole
        self._hear(_said())

    def __del__(self):
        if _c is not None and getattr(self, "_handle", None):
            self._pairs.clear()
            self._calls = None
            self._cache.clear()                               # kernels first, so that the program is the last to hold them
            _c.lib.tilec_program_destroy(self._handle)

    def _hear(self, said: "list[tuple[Diagnostic, str]]") -> None:
        """Raises the warnings that are new: one at a place, whatever the shapes."""
        self.diagnostics = _hear(self.diagnostics, said)

    def _heard(self) -> "set[tuple]":
        return {diagnostic.place() for diagnostic in self.diagnostics}

    def __copy__(self) -> "Program":
        return self

    def __deepcopy__(self, memo: dict) -> "Program":
        return self

    def __reduce__(self) -> tuple:
        """The texts that it is made of, imports too, and how: another process compiles them again, for its own machine, or finds them in its cache."""
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_program_texts(self._handle, _ctypes.byref(handle)))
        return _program_again, (_taken(handle), self._recipe, self.diagnostics)

    def __repr__(self) -> str:
        return "<tilec.Program %s(%s) -> (%s)>" % (self.name or "without a name", ", ".join(self.inputs), ", ".join(self.outputs))

    def _repr_html_(self) -> str:
        """For notebooks: signature, target, and the text in colours, of a derivative that of the derivative."""
        return _for_notebooks().program_html(self)

    def __call__(self, /, *arguments: _typing.Any, out: _typing.Any = None, accumulate: "bool | str | _typing.Sequence[str]" = False,
                 stream: _typing.Any = None, **named: _typing.Any) -> _typing.Any:
        if stream is not None:
            return self._run_on_gpu(self._by_position(arguments, named), out, accumulate, stream)
        if named or len(arguments) != len(self.inputs):
            arguments = tuple(self._by_position(arguments, named))
        if accumulate is False:
            made = self._calls.run(arguments, out)
            if made is not None:
                return made
        return self._run(arguments, out, accumulate, None)

    __call__._torchdynamo_disable = True                      # type: ignore[attr-defined]  # torch.compile breaks its graph here, and does not look at what calls C
    __call__._torchdynamo_disable_msg = "in one graph, call tilec.torch.op(program)"  # type: ignore[attr-defined]

    def _run(self, arguments: _typing.Sequence, out, accumulate, library):
        """A call whose results are made by `library` (None: NumPy)."""
        key = []
        for value in arguments:
            kind = type(value)
            if kind is _np.ndarray:
                key.append((value.dtype, value.shape, value.strides))
            elif kind is int or kind is bool:
                key.append(int if value < _LARGE or value >= 2 * _LARGE else _np.uint64)  # what no i64 holds is another program
            elif kind is float or value is None:
                key.append(kind)
            else:
                return self._run_foreign(arguments, out, accumulate)
        if out is not None:
            out = _as_outputs(self.outputs, out)
            for array in out:
                if type(array) is not _np.ndarray and not isinstance(array, _np.ndarray):
                    return self._run_foreign(arguments, out, accumulate)
                if not array.flags.writeable:
                    raise ValueError("out= for %s is read-only" % self.outputs[[array is o for o in out].index(True)])
                key.append((array.shape, array.strides, array.dtype))
        if accumulate is not False:
            accumulate = self._outputs_to_add(accumulate, out)
            key.append(accumulate)
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
        except ShapeError as fault:                           # an input that C cannot address is copied; an output stays refused
            plain = self._as_arguments(arguments) if fault.code == "E0556" else arguments
            if all(a is b for a, b in zip(plain, arguments)):
                raise
        return self._run(plain, out, accumulate, library)

    def _run_foreign(self, arguments: _typing.Sequence, out, accumulate):
        """A call with arrays that are not NumPy's, or with what must become an array first."""
        if self._of_cuda and any(map(_on_gpu, arguments)):
            return self._run_on_gpu(arguments, out, accumulate, None)
        given = None if out is None else _as_outputs(self.outputs, out)
        torch = _torch_if_met()
        if torch is not None:
            try:
                found = self._prepared_for(torch, arguments, given, accumulate)
                if found is not None:
                    made = torch.run(found, arguments, given)
                    if given is not None:
                        torch.written(given)
                    if accumulate is False:
                        self._remember(found, arguments, given, torch)
                    return made
            except RuntimeError as fault:                     # a tensor without memory of its own: what it is will be said
                if isinstance(fault, Error):
                    raise
            except ShapeError as fault:                       # one that C cannot address is copied
                if fault.code != "E0556":
                    raise
        if _has_groups(arguments):
            return self._run(self._by_position(arguments, {}), out, accumulate, None)
        library = _library_of_call(self.inputs, arguments)
        plain = self._as_arguments(arguments)
        if given is None:
            return self._run(plain, None, accumulate, library)
        self._run(plain, _as_written(self.outputs, given), accumulate, library)
        _note_written(given)
        return given[0] if len(given) == 1 else tuple(given)

    def _prepared_for(self, torch: _Torch, arguments: _typing.Sequence, out: "list | None", accumulate) -> "_Prepared | None":
        """What runs on these tensors as they lie. None: some are not to be taken by their address."""
        key = torch.key(arguments, out)
        if key is None:
            return None
        if accumulate is not False:
            accumulate = self._outputs_to_add(accumulate, out)
            key.append(accumulate)
        found = self._cache.get(self._with_sizes(key, arguments))
        if found is None:
            plain = self._as_arguments(arguments)
            if any(torch.differs(value, array) for value, array in zip(arguments, plain)):
                return None
            try:
                found = self._prepare(plain, None if out is None else _as_written(self.outputs, out), accumulate or ())
            except ShapeError as fault:
                raise self._about_cotangents(arguments, fault) from None
            self._keep(key, arguments, found)
        found.used = next(self._uses)
        return found

    def _run_on_gpu(self, arguments: _typing.Sequence, out, accumulate, stream):
        """A call on arrays in the GPU's memory, which is not waited for."""
        title = self.name or "the function"
        if not self._of_cuda:
            _refuse_stream(title, self._recipe.options["target"])
        call = _GpuCall(title, self.inputs, self.outputs, arguments, out, stream)
        if accumulate is not False and self._outputs_to_add(accumulate, out):
            raise ValueError("accumulate= is not there in the GPU's memory: add the result to %s" % ", ".join(self.outputs))
        placed = self._cache.get(call.key(self._sizes))
        if placed is None:
            placed = call.prepare(self._handle, self._heard())
            self._hear(_said())
            self._sizes = self._sizes | placed.sizes
            self._insert(call.key(self._sizes), placed)
        placed.used = next(self._uses)
        return call.run(placed)

    def _about_cotangents(self, arguments: _typing.Sequence, fault: ShapeError) -> ShapeError:
        left_out = [n for n, v in zip(self.inputs, arguments) if v is _ONE and "`%s`" % n in str(fault)]
        if fault.code != "E0517" or not left_out:
            return fault
        said = "%s was left out, which means 1 where the output is a scalar: pass %s=, in the shape of its output" % (left_out[0], left_out[0])
        return ShapeError("%s\n%s" % (said, fault), fault.diagnostics)

    def _as_arguments(self, arguments: _typing.Sequence) -> list:
        return [_as_argument(name, value) for name, value in zip(self.inputs, arguments)]

    def _with_sizes(self, key: list, arguments: _typing.Sequence) -> tuple:
        """The key of a call: a number that is data is no part of it, one that is compiled in is."""
        for position in self._sizes:
            value = arguments[position]
            if type(value) is int or type(value) is bool:
                key[position] = int(value)
            elif type(value) is _np.ndarray and not value.ndim and value.dtype.kind in "iub":
                key[position] = (value.dtype, value.item())
            elif key[position].__class__ is tuple and not value.ndim:
                key[position] = (value.dtype, value.item())   # a tensor of PyTorch
        return tuple(key)

    def _keep(self, key: list, arguments: _typing.Sequence, prepared: _Prepared) -> None:
        """Under the key by which the next such call looks. Single operations on a dict, so threads need no lock that fork() could leave closed."""
        if not prepared.sizes <= self._sizes:
            self._sizes = self._sizes | prepared.sizes
        self._insert(self._with_sizes(key, arguments), prepared)

    def _insert(self, key: tuple, prepared: "_Prepared | _Placed") -> None:
        prepared.used = next(self._uses)
        self._cache[key] = prepared
        if len(self._cache) > self._kernels:
            for each in self._calls.in_order_of_use():
                each.used = next(self._uses)
            prepared.used = next(self._uses)
        for old in sorted(list(self._cache.items()), key=lambda entry: entry[1].used)[:-self._kernels]:
            self._cache.pop(old[0], None)
            self._calls = _Calls()

    def _remember(self, prepared: _Prepared, arguments: _typing.Sequence, out: "list | None", torch: "_Torch | None" = None) -> None:
        """A call that has run on these as they lie: the next one of its kind finds it in C."""
        if self._calls.is_full:
            self._calls = _Calls()
        self._calls.add(prepared, arguments, out, torch)

    def grad(self, wrt: _Names = None, of: _Names = None) -> "Program":
        """The program that computes the cotangents of the inputs `wrt` (default: all float ones) from the inputs and the cotangents
        of the outputs `of` (default: all float ones). It is called with the inputs, then `dO` per output; it returns `dX` per input.
        A number for an undeclared scalar is a float here, 2 as 2.0.
        `f.grad(wrt="X").grad(wrt="X", of="dX")` is the second derivative, and so on to any order: names are those of the program
        that is differentiated, and the cotangent of its output `dX` is `ddX`.
        """
        return self._derivative("grad", _c.lib.tilec_gradient, of, wrt)

    def value_and_grad(self, wrt: _Names = None, of: _Names = None) -> "Program":
        """The program that computes the outputs and the gradient in one call: it is called as grad()'s, and returns this program's outputs,
        then `dX` per input of `wrt`. What both need is computed once. The cotangent of a scalar output may be left out: it is 1, as for a loss.
        It is not differentiated further: differentiate this program.
        """
        both = self._derivative("value_and_grad", _c.lib.tilec_value_and_gradient, of, wrt)
        both._ones = frozenset(both.inputs[len(self.inputs):])
        return both

    def vjp(self, /, *arguments: _typing.Any, wrt: _Names = None, of: _Names = None, **named: _typing.Any) -> "tuple[_typing.Any, Backward]":
        """Calls the program and gives what backward needs along: `O, backward = f.vjp(I, K); dI, dK = backward(dO)`.

        The first result is what the call f(I, K) gives. `backward` takes the cotangents of the outputs `of` (default: all float ones), by
        position or as `dO=`, and returns the gradients by the inputs `wrt` (default: all float ones): one as its array, several as a tuple.
        The forward pass runs once. It keeps the values in between that cost more to compute again than to store; `backward.kept` names them
        with their bytes. `backward` may be called more than once; arrays that were arguments or results must not change before. For a
        gradient as a program, see grad().
        """
        self._check_differentiable()
        given = self._by_position(arguments, named)
        library = _library_of_call(self.inputs, given)
        values = self._as_arguments(given)
        pair = self._pair(values, of, wrt)
        if library is None:
            pair.forward.refuse_stand_ins()
        return pair(values, library, given)

    def _pair(self, values: list, of: _Names, wrt: _Names) -> _Pair:
        """That of a call with these, compiled or kept."""
        key = (tuple(_name_list(of)), tuple(_name_list(wrt))) + tuple(map(_kind_of, values))
        sizes = self._given_sizes(values)
        pair = self._pairs.pop(key + sizes, None)             # and in again, so that the first is the one not used for longest
        if pair is None:
            pair = self._prepare_pair(values, _name_list(of), _name_list(wrt))
            self._sizes = self._sizes | pair.sizes
            sizes = self._given_sizes(values)
        self._pairs[key + sizes] = pair
        for old in list(self._pairs)[:-self._kernels]:
            self._pairs.pop(old, None)
        return pair

    def _given_sizes(self, values: list) -> tuple:
        return tuple(int(v) for p, v in enumerate(values) if p in self._sizes and v is not None)

    def _prepare_pair(self, values: list, of: "list[str]", wrt: "list[str]") -> _Pair:
        block = _Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        forward, backward = _ctypes.c_void_p(), _ctypes.c_void_p()
        _check(_c.lib.tilec_vjp(self._handle, *_derivative_names(of, wrt), block.structs, block.count, None, 0, _ctypes.byref(forward), _ctypes.byref(backward)), self._heard())
        said = _said()
        pair = _Pair(_c.made(forward), _c.made(backward), self.inputs, self.outputs)
        _settle_sizes(self.inputs, values, pair.sizes)
        self._hear(said)
        return pair

    def jvp(self, wrt: _Names = None, of: _Names = None) -> "Program":
        """The program that computes the tangents of the outputs `of` (default: all float ones) from the inputs and the tangents of the
        inputs `wrt` (default: all float ones): a Jacobian times a vector. It is called with the inputs, then `tX` per input; it
        returns `tO` per output. `f.grad(wrt="X").jvp(wrt="X")` is a Hessian-vector product.
        """
        return self._derivative("jvp", _c.lib.tilec_jvp, of, wrt)

    def _check_differentiable(self) -> None:
        if self._ones:
            raise ProgramError("value_and_grad() of %s is not differentiated further: differentiate the function that it was made of, or what grad() of it gives" % (self.name or "a function"))

    def _derivative(self, method: str, function, of: _Names, wrt: _Names) -> "Program":
        self._check_differentiable()
        handle = _ctypes.c_void_p()
        _check(function(self._handle, *_derivative_names(of, wrt), _ctypes.byref(handle)), self._heard())
        return Program(_c.made(handle), self._recipe.then(method, _name_list(wrt), _name_list(of)), self)

    def vmap(self, inputs: _Names = None) -> "Program":
        """The program for a batch: the inputs named (default: all) have one dimension more, in front, and so has every output. Element b of
        an output is what this program makes of element b of these inputs, and of the others as they are. It is one program with one more
        index, not a loop over calls.
        `f.grad().vmap()` gives a gradient for each element, `f.vmap("X").grad()` one for all: the sum, for an input that is not of the batch.
        By default an argument without dimensions, a number or a scalar, is the same for the whole batch.
        """
        names = _name_list(inputs)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_vmap(self._handle, (_ctypes.c_char_p * max(1, len(names)))(*[_encoded("inputs=", n) for n in names]), len(names), _ctypes.byref(handle)), self._heard())
        batched = Program(_c.made(handle), self._recipe.then("vmap", names), self)
        batched._optional, batched._ones = self._optional, self._ones
        return batched

    def with_plan(self, plan: "str | _os.PathLike[str]") -> "Program":
        """This program, compiled as a plan says: the text, or a path to the file, of what emit("plan", …) gave for it, whole, edited or in part.
        What it does not say is chosen. Behind lines `forward` and `backward` stands how vjp() compiles: emit("pair-plan", …) gives both. It is of this program, not of its derivatives, and of the shapes and target it was printed for: a call
        where a line does not apply raises ProgramError with the line's place.
        """
        text = _plan_text(plan)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_with_plan(self._handle, text, len(text), _ctypes.byref(handle)), self._heard())
        planned = Program(_c.made(handle), self._recipe.then("with_plan", text.decode()), self)
        planned._optional, planned._ones = self._optional, self._ones
        return planned

    def tune(self, /, *arguments: _typing.Any, budget: float = 60, progress: "_typing.Callable[[dict], object] | None" = None, **named: _typing.Any) -> "Program":
        """This program with the fastest plan that a search finds, which runs it with these arguments for at most `budget` seconds. It is the plan for
        their shapes, types and strides; where none is faster it is the one that was chosen (`f.tune(…).emit("plan", …)` shows it). Ctrl-C ends the search and keeps
        what is best by then. The plan is kept in the disk cache too: later compilations of the same program for the same shapes, types, target and number
        of threads follow it, in every process.

        progress: called between candidates with a dict of `elapsed` and `budget` (seconds), `measured` (plans), `first` and `best` (seconds of a call);
        False from it ends the search.
        """
        if not isinstance(budget, (int, float)) or not budget > 0:
            raise ValueError("budget= is a number of seconds above 0, not %r" % (budget,))
        values = self._as_arguments(self._by_position(arguments, named))
        self._refuse_beyond(values, self._prepare)
        block = _Block([(n, v) for n, v in zip(self.inputs, values) if v is not None])
        raised: "list[BaseException]" = []

        def goes_on(now, _user):
            try:                                          # Python hears signals here, too
                told = now.contents
                return 1 if progress is None else progress({"elapsed": told.elapsed, "budget": told.seconds, "measured": told.measured, "first": told.first, "best": told.best}) is not False
            except KeyboardInterrupt:
                return 0
            except BaseException as fault:                # which no frame of C passes on
                raised.append(fault)
                return 0

        options = _c.TuneOptions(_ctypes.sizeof(_c.TuneOptions), budget, _c.GoesOn(goes_on), None)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_tune(self._handle, block.structs, block.count, _ctypes.byref(options), _ctypes.byref(handle)), self._heard())
        tuned = Program(_c.made(handle), self._recipe, self)
        if raised:
            raise raised[0]
        return self.with_plan(tuned.emit("plan", *arguments, **named))

    def emit(self, /, stage: str, *arguments: _typing.Any, **named: _typing.Any) -> "str | bytes":
        """A stage of the compiler by its name (tilec.stages()), as text, or as bytes where it is not text.
        Stages after `gradient` need numbers: pass the arguments of a call, or give `size=` when compiling.
        """
        values = self._as_arguments(self._by_position(arguments, named)) if arguments or named else []
        self._refuse_beyond(values, self._prepare)
        block = _Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_emit(self._handle, _encoded("stage", stage), block.structs, block.count, _ctypes.byref(handle)), self._heard())
        said, data = _said(), _taken(handle)
        self._hear(said)
        return data.decode() if stages()[stage].is_text else data

    def save(self, /, path: "str | _os.PathLike[str]", *arguments: _typing.Any, vjp: bool = False, wrt: _Names = None,
             of: _Names = None, accumulate: "bool | str | _typing.Sequence[str]" = False, **named: _typing.Any) -> None:
        """Writes a package: what a call with arguments of these shapes and types runs, compiled for the program's target. tilec.load(path)
        gives it back in a process that need not compile anything, as does `tilec run`. Arrays are taken as row-major.
        With `vjp=True` the package has the backward pass too: `tilec.load(path).vjp(…)`; `wrt` and `of` as in vjp(). With `accumulate=True`, or the names of
        some outputs, the package adds to what its `out=` holds, as a call does: `tilec.load(path)(…, out=O, accumulate=True)`.
        """
        if not vjp and (wrt is not None or of is not None):
            raise TypeError("wrt= and of= belong to vjp=True; a gradient as a program is saved by f.grad(…).save(…)")
        if vjp and accumulate is not False:
            raise TypeError("accumulate= is not there with vjp=True: save f.grad(…) with accumulate=")
        given = _row_major([_as_argument(n, v) for n, v in zip(self.inputs, self._by_position(arguments, named))])
        self._refuse_beyond(given, (lambda values, out: self._prepare_pair(values, _name_list(of), _name_list(wrt)).forward) if vjp else self._prepare)
        block = _Block([(n, v) for n, v in zip(self.inputs, given) if v is not None], stand_in=True)
        if vjp:
            of_names, of_count, wrt_names, wrt_count = _derivative_names(of, wrt)
            _check(_c.lib.tilec_save_vjp(self._handle, of_names, of_count, wrt_names, wrt_count, _os.fsencode(path), block.structs, block.count), self._heard())
        else:
            add = self._named_outputs(accumulate)
            results = [(name, _np.empty(shape, dtype)) for name, dtype, shape in (self._ports(given).outputs if add else ())]
            to = _Block([(name, array) for name, (_, array) in zip(self.outputs, results)], add)
            _check(_c.lib.tilec_save_call(self._handle, _os.fsencode(path), block.structs, block.count, to.structs, to.count), self._heard())
        self._hear(_said())

    def explain(self, /, *arguments: _typing.Any, **named: _typing.Any) -> str:
        """A compilation in words, as `tilec explain` gives them: of each statement its indices, residue classes and work; the plan, what it was weighed against,
        and what it should take. It needs numbers, as stages after `gradient` do: pass the arguments of a call, or give `size=` when compiling.
        """
        text = self.emit("explain", *arguments, **named)
        assert isinstance(text, str)
        return text

    def plan(self, /, *arguments: _typing.Any, **named: _typing.Any) -> str:
        """What is chosen for a call with these arguments: launches, blocks, lanes. The same as emit("plan", …); with_plan() takes it, edited or as it is."""
        text = self.emit("plan", *arguments, **named)
        assert isinstance(text, str)
        return text

    def stats(self, /, *arguments: _typing.Any, **named: _typing.Any) -> Stats:
        """What a call with these arguments takes: launches, bytes of code, workspace and memory, operations, and the time that the compiler expects. It is
        compiled for them, or found compiled, and not run. print() shows it in words.
        """
        values = self._as_arguments(self._by_position(arguments, named))
        self._refuse_beyond(values, self._prepare)
        block = _Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        cost = _c.Cost(size=_ctypes.sizeof(_c.Cost))
        _check(_c.lib.tilec_estimate(self._handle, block.structs, block.count, _ctypes.byref(cost)), self._heard())
        return _stats_of(self._prepare(values, None), cost)

    def profile(self, /, *arguments: _typing.Any, runs: int = 10, **named: _typing.Any) -> Profile:
        """Calls the program `runs` times, and once before that, and gives the median time of each launch. Results are thrown away. print() shows a table."""
        values = self._as_arguments(self._by_position(arguments, named))
        prepared = self._prepare(values, None)
        return _profile_of(prepared, values, _fit("runs=", runs, 1, 2**31))

    def _refuse_beyond(self, values: list, prepare: "_typing.Callable[[list, None], _Prepared]") -> None:
        """Integers that 64 bits do not hold, as a call with them does: what it compiles says whether they are floats."""
        if any(type(value) is int and not _in_64_bits(value) for value in values):
            prepare(values, None).check_numbers(values)

    def _by_position(self, arguments: _typing.Sequence, named: dict) -> list:
        """Arguments in order. None: not given, which is fine for an input that what is asked does not need."""
        return _in_order(self.name or "the function", self.inputs, arguments, named, self._optional, {name: _ONE for name in self._ones}, _BY_POSITION)

    def _outputs_to_add(self, accumulate, out) -> "tuple[str, ...]":
        names = self._named_outputs(accumulate)
        if names and out is None:
            raise TypeError("accumulate= adds to arrays: give them as out=")
        return names

    def _named_outputs(self, accumulate) -> "tuple[str, ...]":
        names = _names_to_add(accumulate, self.outputs)
        return tuple(n for n, same in zip(self.outputs, self._same) if n in names or same in names)  # `C` of `-> (C, C)` is both

    def _ports(self, values: list) -> _Prepared:
        """Types and shapes of what a call with these takes and gives; it cannot be run."""
        block = _Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_infer(self._handle, block.structs, block.count, _ctypes.byref(handle)), self._heard())
        return _Prepared(_c.made(handle), self.inputs)

    def _prepare(self, arguments: _typing.Sequence, out, add: _typing.Sequence[str] = ()) -> _Prepared:
        block = _Block([(n, v) for n, v in zip(self.inputs, arguments) if v is not None], stand_in=True)
        for name, array in zip(self.outputs, out or ()):
            _check_type("out= for " + name, array.dtype)
            if any(s % array.itemsize for s in array.strides):
                raise ValueError("out= for %s has strides that are no multiples of its element size" % name)
        results = _Block(list(zip(self.outputs, out or ())), add)
        handle = _ctypes.c_void_p()
        try:
            _check(_c.lib.tilec_specialize(self._handle, block.structs, block.count, results.structs, results.count, _ctypes.byref(handle)), self._heard())
        except ArgumentTypeError as fault:
            if fault.code != "E0557":
                raise
            given = ", ".join("%s is %s" % (name, array.dtype) for name, array in zip(self.outputs, out))
            raise ArgumentTypeError("out= for %s: %s" % (given, fault), fault.diagnostics) from None
        said = _said()
        prepared = _Prepared(_c.made(handle), self.inputs)
        _settle_sizes(self.inputs, arguments, prepared.sizes)
        self._hear(said)
        return prepared


def _plan_text(plan: "str | _os.PathLike[str]") -> bytes:
    if not isinstance(plan, (str, _os.PathLike)):
        raise TypeError("a plan is a str or a path, not a %s" % type(plan).__name__)
    return plan.encode() if isinstance(plan, str) else _pathlib.Path(plan).read_bytes()


def _kind_of(value) -> object:
    """What a specialisation depends on; what no i64 holds is another program."""
    if isinstance(value, _np.ndarray):
        return value.dtype, value.shape, value.strides
    return _np.uint64 if isinstance(value, int) and _LARGE <= value < 2 * _LARGE else type(value)


def _hear(heard: "tuple[Diagnostic, ...]", said: "list[tuple[Diagnostic, str]]") -> "tuple[Diagnostic, ...]":
    """What was heard and what is new, whose warnings are raised."""
    places = {diagnostic.place() for diagnostic in heard}
    for diagnostic, text in said:
        if diagnostic.place() not in places:
            places.add(diagnostic.place())
            if diagnostic.severity == "warning":
                _warnings.warn(text, ProgramWarning, stacklevel=_caller())
            heard += (diagnostic,)
    return heard


def _caller() -> int:
    """The stack level of who called this package, for warnings."""
    level, frame = 1, _sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __name__:
        level, frame = level + 1, frame.f_back
    return level


def _taken(buffer: _ctypes.c_void_p) -> bytes:
    """What C made, as bytes of ours."""
    try:
        return _ctypes.string_at(_c.lib.tilec_buffer_data(buffer), _c.lib.tilec_buffer_size(buffer))
    finally:
        _c.lib.tilec_buffer_destroy(buffer)


class _File:
    """A text with its imports, parsed and checked once for all its functions."""

    def __init__(self, handle: int, name: str):
        self._handle, self.name = handle, name
        self.said = _said()
        self.names = tuple(_c.lib.tilec_file_function_name(handle, k).decode() for k in range(_c.lib.tilec_file_function_count(handle)))

    @staticmethod
    def parsed(text: str, name: str, include: "_typing.Sequence[bytes]") -> "_File":
        data = text.encode(errors="surrogateescape")          # bytes of a file that are no UTF-8: the compiler says where
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_parse(data, len(data), _encoded("name=", name), (_ctypes.c_char_p * max(1, len(include)))(*include), len(include), _ctypes.byref(handle)))
        return _File(_c.made(handle), name)

    @staticmethod
    def again(texts: bytes, name: str) -> "_File":
        """Of what texts() gave, in this process or another."""
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_parse_saved(texts, len(texts), _ctypes.byref(handle)))
        return _File(_c.made(handle), name)

    def __del__(self):
        if _c is not None and getattr(self, "_handle", None):
            _c.lib.tilec_file_destroy(self._handle)

    def texts(self) -> bytes:
        handle = _ctypes.c_void_p()
        _check(_c.lib.tilec_file_texts(self._handle, _ctypes.byref(handle)))
        return _taken(handle)

    def compile(self, recipe: _Recipe, heard: "tuple[Diagnostic, ...]", kind: "type[Program]" = Program) -> Program:
        handle, options = _ctypes.c_void_p(), recipe.as_c()
        _check(_c.lib.tilec_file_compile(self._handle, _ctypes.byref(options), _ctypes.byref(handle)))
        return kind(_c.made(handle), recipe, heard=heard)


class Module:
    """A text with several functions: each is an attribute, compiled when first used. The text and what it imports are read once, so all are of
    one version of the files. May be used from several threads at once, copied and pickled.
    """

    def __init__(self, file: _File, recipe: _Recipe, heard: "tuple[Diagnostic, ...]"):
        self._file, self._recipe, self._heard, self._names = file, recipe, heard, frozenset(file.names)

    def __repr__(self) -> str:
        return "<tilec.Module of %s: %s>" % (self._file.name, ", ".join(self._file.names))

    def _repr_html_(self) -> str:
        return _for_notebooks().module_html(self)

    def __dir__(self) -> "list[str]":
        return sorted(self._names)

    def __getattr__(self, name: str) -> Program:
        if name.startswith("_") or name not in self._names:
            near = None if name.startswith("_") else _nearest(name, self._names)
            there = "" if name.startswith("_") else "; %sthere are %s" % ("did you mean `%s`? " % near if near else "", ", ".join(self._file.names))
            raise AttributeError("no function `%s`%s" % (name, there))
        return self.__dict__.setdefault(name, self._file.compile(self._recipe.of(name), self._heard))  # another thread may have been faster

    def __call__(self, /, *arguments: _typing.Any, **named: _typing.Any) -> _typing.NoReturn:
        raise TypeError("the text has several functions: %s; call one of them by name" % ", ".join(self._file.names))

    def __copy__(self) -> "Module":
        return self

    def __deepcopy__(self, memo: dict) -> "Module":
        return self

    def __reduce__(self) -> tuple:
        return _module_again, (self._file.texts(), self._file.name, self._recipe, self._heard)


def _module_again(texts: bytes, name: str, recipe: _Recipe, heard: "tuple[Diagnostic, ...]") -> Module:
    return Module(_File.again(texts, name), recipe, heard)


def _program_again(texts: bytes, recipe: _Recipe, heard: "tuple[Diagnostic, ...]") -> Program:
    """What pickle made of a program, as one. Its warnings were raised where it was pickled."""
    return recipe.followed(_File.again(texts, "").compile(recipe.first(), heard))


def compile(text: str, *, function: "str | None" = None, target: "str | None" = None, define: "_typing.Mapping[str, float | str] | None" = None,
            size: "_typing.Mapping[str, int] | None" = None, rank: "_typing.Mapping[str, int] | None" = None, threads: "int | None" = None, include: "_typing.Sequence[str | _os.PathLike[str]] | None" = None,
            checked: "bool | None" = None, kernels: "int | None" = None, plan: "str | _os.PathLike[str] | None" = None, room: "int | None" = None,
            cache: "bool | str | _os.PathLike[str] | None" = None, name: str = "<text>", **unknown: _typing.Any) -> _typing.Any:
    """Compiles a text of Tile to a Program; a text with several named functions, and none asked for, to a Module of them.

    Options that are None are those of the innermost tilec.options(), else as said here. target: cpu (usual), cpu:x86-64-v3, opencl, opencl:1, cuda,
    cuda:1, cuda:sm_90a, cuda:math=tf32 (f32 may be rounded for tensor cores) or reference (the interpreter). define: compile-time parameters, numbers and
    names of functions or aggregations ({"S": 2, "F": "relu"}). size: sizes that no input's shape shows. rank: how many dimensions a pack `B...` stands for,
    where no argument of a call tells. threads: of the cpu target, 1 or 0 (usual): the pool of the process. include: folders in which imports are looked for,
    after that of the file and before std/. checked: a call whose gather or scatter meets an index out of range
    raises ShapeError, naming tensor, position, value and bound, instead of clamping it. kernels: how many specialisations a program keeps (0, usual: the
    environment's TILEC_KERNELS, else 128); of more, the one that was not used for longest goes. plan: how the function is compiled, as
    Program.with_plan() takes it. room: bytes that vjp() may keep between forward and backward, which makes the rest again (None: what costs more
    to make again than to keep is kept). cache: the folder in which compiled programs are kept for later processes (True, usual: the environment's
    TILEC_CACHE, else ~/.cache/tilec, see include/tilec/tilec.h; False: none). Raises ProgramError when the text is at fault,
    OptionError, a ValueError, for an unknown target; what the compiler warns of is raised as ProgramWarning: one code is left out by
    warnings.filterwarnings("ignore", message=r".*W0210", category=tilec.ProgramWarning).
    """
    if unknown:
        raise TypeError(_unknown_options(unknown))
    _check_text(text)
    chosen = _chosen(target=target, include=include, threads=threads, checked=checked, kernels=kernels, room=room, cache=cache)
    folders = _folders(chosen.pop("include"))
    recipe = _Recipe.given(function, define, size, rank, chosen)    # what is wrong with a number is said before what is wrong with the text
    return _made(_File.parsed(text, name, folders), recipe, plan)


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError("the text of a program is a str, not a %s" % type(text).__name__)
    if _is_path(text):
        raise ValueError("%r is the name of a file, not a program: write tilec.load(%r)" % (text, text))


def _folders(include: "str | _os.PathLike[str] | _typing.Sequence[str | _os.PathLike[str]]") -> "list[bytes]":
    if not isinstance(include, (str, _os.PathLike)) and not hasattr(include, "__iter__"):
        raise TypeError("include= is %r, not a path or a sequence of paths" % (include,))
    return [_os.fsencode(_as_path("include=", folder)) for folder in ([include] if isinstance(include, (str, _os.PathLike)) else include)]


def _made(file: _File, recipe: _Recipe, plan: "str | _os.PathLike[str] | None") -> "Program | Module":
    heard = _hear((), file.said)
    if recipe.function is None and len(file.names) > 1 and "" not in file.names:
        if plan is not None:
            raise TypeError("plan= is that of one function: write function= too; there are %s" % ", ".join(file.names))
        return Module(file, recipe, heard)
    program = file.compile(recipe, heard)
    return program if plan is None else program.with_plan(plan)


_OPTIONS = ("function", "target", "define", "size", "rank", "threads", "include", "checked", "kernels", "plan", "room", "cache", "name")


def _unknown_options(unknown: dict) -> str:
    """What is said of options that there are none of: most often they are compile-time parameters or sizes."""
    name, value = next(iter(unknown.items()))
    near = _nearest(name, _OPTIONS)
    if near and name.islower():
        return "no option %s=; did you mean %s=?" % (name, near)
    return "no option %s=: a compile-time parameter is given by define={%r: %r}, a size that no input shows by size={%r: %r}" % (name, name, value, name, value)


def _is_path(text: str) -> bool:
    """Is it what load() wants? No program is one word."""
    return len(text) < 4096 and not any(mark in text for mark in "\n{;") and text.strip().endswith(".tile")


def _usual_kernels() -> int:
    """As the library does: TILEC_KERNELS where it is a number, else 128."""
    text = _os.environ.get("TILEC_KERNELS", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**64 else 128


def load(path: "str | _os.PathLike[str]", *, function: "str | None" = None, target: "str | None" = None, define: "_typing.Mapping[str, float | str] | None" = None,
         size: "_typing.Mapping[str, int] | None" = None, rank: "_typing.Mapping[str, int] | None" = None, threads: "int | None" = None, include: "_typing.Sequence[str | _os.PathLike[str]] | None" = None,
         checked: "bool | None" = None, kernels: "int | None" = None, plan: "str | _os.PathLike[str] | None" = None, room: "int | None" = None,
         cache: "bool | str | _os.PathLike[str] | None" = None, **unknown: _typing.Any) -> _typing.Any:
    """Compiles a file of Tile; see compile() for the options. Functions of a file that has several are its attributes. Of a file that
    Program.save() or `tilec build` wrote: the Package, for which threads= is the only option.

    A file that was loaded before is compiled again only when something changed: the same path, options, text and texts of its imports give the same object,
    with the kernels that it has. The files are read and parsed each time, and bytes are compared, not times. 128 are kept: of more, the one that was not
    asked for longest goes. From several threads at once, each gets a whole one.
    """
    path = _pathlib.Path(_os.fsdecode(_as_path("path", path)))
    given = {"function": function, "target": target, "define": define, "size": size, "rank": rank, "include": include, "checked": checked, "kernels": kernels, "plan": plan,
             "room": room, "cache": cache, **unknown}
    chosen = _chosen(target=target, include=include, threads=threads, checked=checked, kernels=kernels, room=room, cache=cache)
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC))
        if start == _MAGIC or (not start and path.suffix == ".tilec"):
            wrong = sorted(option for option, value in given.items() if value is not None)
            if wrong:
                raise TypeError("%s is compiled already: %s= belong to Program.save()" % (path, "=, ".join(wrong)))
            try:
                return Package(start + file.read(), _fit("threads=", chosen["threads"], 0, 4096))
            except DeviceError as fault:
                raise DeviceError(str(fault).replace("`the package`", "`%s`" % path), fault.diagnostics) from None
    if unknown:
        raise TypeError(_unknown_options(unknown))
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    folders = _folders(chosen.pop("include"))
    recipe = _Recipe.given(function, define, size, rank, chosen)
    read = _File.parsed(text, str(path), folders)
    plan = None if plan is None else _plan_text(plan).decode()
    place = (_os.path.abspath(path), str(path), plan, recipe.key())
    texts = _zlib.compress(read.texts(), 1)                   # equal where the texts are
    known = _loaded.pop(place, None)                          # and in again, so that the first is the one not asked for longest
    if known is None or known[0] != texts:
        known = (texts, _made(read, recipe, plan))
    _loaded[place] = known
    for old in list(_loaded)[:-_MOST_LOADED]:
        _loaded.pop(old, None)
    return known[1]


_MOST_LOADED = 128
_loaded: "dict[tuple, tuple[bytes, Program | Module]]" = {}   # what load() gave, and of which texts. Single operations on a dict: no lock that fork() could leave closed


class Stage(_typing.NamedTuple):
    """What Program.emit shows under a name; `target` is the one that has it, None: every target."""
    name: str
    description: str
    target: "str | None"
    is_text: bool


@_functools.cache
def stages() -> "dict[str, Stage]":
    """All stages of the compiler by name, in the order of work."""
    count = _ctypes.c_size_t()
    rows = _c.lib.tilec_stages(_ctypes.byref(count))
    made = [Stage(s.name.decode(), s.description.decode(), s.target.decode() if s.target else None, bool(s.is_text)) for s in rows[:count.value]]
    return {stage.name: stage for stage in made}


def version() -> str:
    """The version of the library, such as "1.0.0"."""
    number = _c.lib.tilec_version()
    return "%d.%d.%d" % (number // 10000, number // 100 % 100, number % 100)


def _for_notebooks() -> _typing.Any:
    return _importlib.import_module("._notebook", __name__)   # few are in one


def load_ipython_extension(ipython: _typing.Any) -> None:
    """`%load_ext tilec` in a notebook: gives it the cell magic `%%tile VARIABLE OPTION=VALUE …`; `%%tile?` says how it is written."""
    ipython.register_magic_function(_for_notebooks().cell_magic(ipython, compile), "cell", "tile")


def __getattr__(name: str) -> _typing.Any:
    """tilec.torch and tilec.jax need PyTorch and JAX: they are imported when they are asked for."""
    if name in ("torch", "jax", "std"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError("module 'tilec' has no attribute %r" % name)


__version__ = version()
