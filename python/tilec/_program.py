"""Programs: what is made of one (gradients, batches, plans), what it shows (stages, figures), and its package."""
from __future__ import annotations

import ctypes
import os
import pathlib
import typing

import numpy as np

from . import _library as _c
from ._arguments import as_argument, encoded, fit
from ._call import Block, settle_sizes
from ._device import Call as GpuCall, on_gpu
from ._libraries import library_of_call
from ._package import row_major
from ._pair import Backward, Pair
from ._run import Runnable, kind_of
from ._stages import stages
from ._stats import Profile, Stats, profile_of, stats_of
from .errors import ProgramError, check, said as last_said

Names = typing.Union[str, typing.Sequence[str], None]


def _name_list(names: Names) -> list[str]:
    if names is None or isinstance(names, str):
        return [] if names is None else [names]
    try:
        return list(names)
    except TypeError:
        raise TypeError("names of tensors are a str or a sequence of them, not %r" % (names,)) from None


def derivative_names(of: Names, wrt: Names) -> tuple:
    """The C parameters of, of_count, wrt, wrt_count."""
    parameters = []
    for what, names in (("of=", _name_list(of)), ("wrt=", _name_list(wrt))):
        parameters += [(ctypes.c_char_p * max(1, len(names)))(*[encoded(what, n) for n in names]), len(names)]
    return tuple(parameters)


class Program(Runnable):
    """A compiled text. Call it with arrays and numbers, by position or by name.

    An array is taken as it lies (no copy, whatever its strides), one of a subclass of NumPy's for the elements it
    holds; a Python number is weakly typed, as a literal in Tile is. Tensors of PyTorch, arrays of JAX and whatever has
    DLPack on the CPU give results of their library, again without a copy; NumPy arrays, lists and numbers go with them,
    two libraries together are a TypeError. Nothing is recorded for autograd: a tensor that requires grad is a
    ValueError, unless under torch.no_grad(); tilec.torch.function(program) is differentiable. One output comes back as
    its array, several as a tuple in order. `out=` takes the array or arrays to write instead, which it gives back; with
    `accumulate=True`, or the names of some outputs, the call adds to what they hold: O = O + result, rounded once to
    O's type. An input may share memory with `out=`: it is copied first. Outputs may share none.
    A dict or a named tuple gives inputs by name, f({"X": x}, G=g), a tuple of arrays those next in order, f((x, g)).
    Of target cuda, arrays in a GPU's memory are read and written there, and the call returns before they are: tensors of PyTorch, arrays of CuPy, with `out=` of any library with __cuda_array_interface__. It starts behind
    the work of `stream=`, a number (CUstream) or a library's stream; None: the one that the library is at. Of other
    targets, `stream=` is a ValueError.
    Specialised on first use for the shapes, element types and strides it is called with; later calls of the kind cost
    microseconds.
    May be used from several threads at once, copied (it is never changed) and pickled: its texts travel, imports too,
    and are compiled where they arrive.
    `diagnostics` is what the compiler has said so far; its warnings were raised as ProgramWarning.
    """

    def __copy__(self) -> "Program":
        return self

    def __deepcopy__(self, memo: dict) -> "Program":
        return self

    def __reduce__(self) -> tuple:
        """The texts that it is made of, imports too, and how: another process compiles them again, for its own machine,
        or finds them in its cache."""
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_program_texts(self._handle, ctypes.byref(handle)))
        from ._source import program_again
        return program_again, (_c.taken(handle), self._recipe, self.diagnostics)

    def __repr__(self) -> str:
        return "<tilec.Program %s(%s) -> (%s)>" % (
            self.name or "without a name",
            ", ".join(self.inputs),
            ", ".join(self.outputs),
        )

    def _repr_html_(self) -> str:
        """For notebooks: signature, target, and the text in colours, of a derivative that of the derivative."""
        from ._notebook import program_html                   # few are in one
        return program_html(self)

    def grad(self, wrt: Names = None, of: Names = None) -> "Program":
        """The program that computes the cotangents of the inputs `wrt` (default: all float ones) from the inputs and
        the cotangents of the outputs `of` (default: all float ones). It is called with the inputs, then `dO` per
        output; it returns `dX` per input.
        A number for an undeclared scalar is a float here, 2 as 2.0.
        `f.grad(wrt="X").grad(wrt="X", of="dX")` is the second derivative, and so on to any order: names are those of
        the program that is differentiated, and the cotangent of its output `dX` is `ddX`.
        """
        return self._derivative("grad", _c.lib.tilec_gradient, of, wrt)

    def value_and_grad(self, wrt: Names = None, of: Names = None) -> "Program":
        """The program that computes the outputs and the gradient in one call: it is called as grad()'s, and returns
        this program's outputs, then `dX` per input of `wrt`. What both need is computed once. The cotangent of a scalar
        output may be left out: it is 1, as for a loss.
        It is not differentiated further: differentiate this program.
        """
        both = self._derivative("value_and_grad", _c.lib.tilec_value_and_gradient, of, wrt)
        both._ones = frozenset(both.inputs[len(self.inputs):])
        return both

    def vjp(
        self, /, *arguments: typing.Any, wrt: Names = None, of: Names = None, **named: typing.Any
    ) -> "tuple[typing.Any, Backward]":
        """Calls the program and gives what backward needs along: `O, backward = f.vjp(I, K); dI, dK = backward(dO)`.

        The first result is what the call f(I, K) gives. `backward` takes the cotangents of the outputs `of` (default:
        all float ones), by position or as `dO=`, and returns the gradients by the inputs `wrt` (default: all float
        ones): one as its array, several as a tuple.
        The forward pass runs once. It keeps the values in between that cost more to compute again than to store;
        `backward.kept` names them with their bytes. `backward` may be called more than once; arrays that were arguments
        or results must not change before. For a gradient as a program, see grad().
        """
        self._check_differentiable()
        given = self._by_position(arguments, named)
        if self._of_cuda and any(map(on_gpu, given)):
            call = GpuCall(self, self.outputs, given, None, None)
            return self._pair(call.values, of, wrt)(call.arguments, call.place, given)
        library = library_of_call(self.inputs, given)
        values = self._as_arguments(given)
        pair = self._pair(values, of, wrt)
        if library is None:
            pair.forward.refuse_stand_ins()
        return pair(values, library, given)

    def _pair(self, values: list, of: Names, wrt: Names) -> Pair:
        """That of a call with these, compiled or kept."""
        key = (tuple(_name_list(of)), tuple(_name_list(wrt))) + tuple(map(kind_of, values))
        sizes = self._given_sizes(values)
        # and in again, so that the first is the one not used for longest
        pair = self._pairs.pop(key + sizes, None)
        if pair is None:
            pair = self._prepare_pair(values, _name_list(of), _name_list(wrt))
            self._sizes = self._sizes | pair.sizes
            sizes = self._given_sizes(values)
        self._pairs[key + sizes] = pair
        for old in list(self._pairs)[:-self._kernels]:
            self._pairs.pop(old, None)
        return pair

    def _given_sizes(self, values: list) -> tuple:
        # a tensor is none, where another call gave a number
        given = [v for p, v in enumerate(values) if p in self._sizes and v is not None]
        return tuple(int(v) for v in given if not getattr(v, "ndim", 0))

    def _prepare_pair(self, values: list, of: "list[str]", wrt: "list[str]") -> Pair:
        block = Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        forward, backward = ctypes.c_void_p(), ctypes.c_void_p()
        check(
            _c.lib.tilec_vjp(
                self._handle,
                *derivative_names(of, wrt),
                block.structs,
                block.count,
                None,
                0,
                ctypes.byref(forward),
                ctypes.byref(backward),
            ),
            self._heard(),
        )
        said = last_said()
        pair = Pair(_c.made(forward), _c.made(backward), self.inputs, self.outputs)
        pair.forward.placed(values), pair.backward.placed(values)
        settle_sizes(self.inputs, values, pair.sizes)
        self._hear(said)
        return pair

    def jvp(self, wrt: Names = None, of: Names = None) -> "Program":
        """The program that computes the tangents of the outputs `of` (default: all float ones) from the inputs and the
        tangents of the inputs `wrt` (default: all float ones): a Jacobian times a vector. It is called with the inputs,
        then `tX` per input; it returns `tO` per output. `f.grad(wrt="X").jvp(wrt="X")` is a Hessian-vector product.
        """
        return self._derivative("jvp", _c.lib.tilec_jvp, of, wrt)

    def _check_differentiable(self) -> None:
        if self._ones:
            raise ProgramError(
                "value_and_grad() of %s is not differentiated further: differentiate the function that it was made of, or what grad() of it gives"
                % (self.name or "a function")
            )

    def _derivative(self, method: str, function, of: Names, wrt: Names) -> "Program":
        self._check_differentiable()
        handle = ctypes.c_void_p()
        check(function(self._handle, *derivative_names(of, wrt), ctypes.byref(handle)), self._heard())
        return Program(_c.made(handle), self._recipe.then(method, _name_list(wrt), _name_list(of)), self)

    def vmap(self, inputs: Names = None) -> "Program":
        """The program for a batch: the inputs named (default: all) have one dimension more, in front, and so has every
        output. Element b of an output is what this program makes of element b of these inputs, and of the others as
        they are. It is one program with one more index, not a loop over calls.
        `f.grad().vmap()` gives a gradient for each element, `f.vmap("X").grad()` one for all: the sum, for an input
        that is not of the batch.
        By default an argument without dimensions, a number or a scalar, is the same for the whole batch.
        """
        names = _name_list(inputs)
        handle = ctypes.c_void_p()
        check(
            _c.lib.tilec_vmap(
                self._handle,
                (ctypes.c_char_p * max(1, len(names)))(*[encoded("inputs=", n) for n in names]),
                len(names),
                ctypes.byref(handle),
            ),
            self._heard(),
        )
        batched = Program(_c.made(handle), self._recipe.then("vmap", names), self)
        batched._optional, batched._ones = self._optional, self._ones
        return batched

    def with_plan(self, plan: "str | os.PathLike[str]") -> "Program":
        """This program, compiled as a plan says: the text, or a path to the file, of what emit("plan", …) gave for it,
        whole, edited or in part.
        What it does not say is chosen. Behind lines `forward` and `backward` stands how vjp() compiles:
        emit("pair-plan", …) gives both. It is of this program, not of its derivatives, and of the shapes and target it
        was printed for: a call where a line does not apply raises ProgramError with the line's place.
        """
        text = plan_text(plan)
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_with_plan(self._handle, text, len(text), ctypes.byref(handle)), self._heard())
        planned = Program(_c.made(handle), self._recipe.then("with_plan", text.decode()), self)
        planned._optional, planned._ones = self._optional, self._ones
        return planned

    def tune(
        self,
        /,
        *arguments: typing.Any,
        budget: float = 60,
        progress: "typing.Callable[[dict], object] | None" = None,
        **named: typing.Any,
    ) -> "Program":
        """This program with the fastest plan that a search finds, which runs it with these arguments for at most
        `budget` seconds. It is the plan for their shapes, types and strides; where none is faster it is the one that
        was chosen (`f.tune(…).emit("plan", …)` shows it). Ctrl-C ends the search and keeps what is best by then. The
        plan is kept in the disk cache too: later compilations of the same program for the same shapes, types, target
        and number of threads follow it, in every process.

        progress: called between candidates with a dict of `elapsed` and `budget` (seconds), `measured` (plans), `first`
        and `best` (seconds of a call);
        False from it ends the search.
        """
        if not isinstance(budget, (int, float)) or not budget > 0:
            raise ValueError("budget= is a number of seconds above 0, not %r" % (budget,))
        values = self._on_host("tune", self._by_position(arguments, named))
        self._refuse_beyond(values, self._prepare)
        block = Block([(n, v) for n, v in zip(self.inputs, values) if v is not None])
        raised: "list[BaseException]" = []

        def goes_on(now, _user):
            try:                                          # Python hears signals here, too
                told = now.contents
                return (
                    1
                    if progress is None
                    else progress(
                        {
                            "elapsed": told.elapsed,
                            "budget": told.seconds,
                            "measured": told.measured,
                            "first": told.first,
                            "best": told.best,
                        }
                    )
                    is not False
                )
            except KeyboardInterrupt:
                return 0
            except BaseException as fault:                # which no frame of C passes on
                raised.append(fault)
                return 0

        options = _c.TuneOptions(ctypes.sizeof(_c.TuneOptions), budget, _c.GoesOn(goes_on), None)
        handle = ctypes.c_void_p()
        check(
            _c.lib.tilec_tune(self._handle, block.structs, block.count, ctypes.byref(options), ctypes.byref(handle)),
            self._heard(),
        )
        tuned = Program(_c.made(handle), self._recipe, self)
        if raised:
            raise raised[0]
        return self.with_plan(tuned.emit("plan", *arguments, **named))

    def emit(self, /, stage: str, *arguments: typing.Any, **named: typing.Any) -> "str | bytes":
        """A stage of the compiler by its name (tilec.stages()), as text, or as bytes where it is not text.
        Stages after `gradient` need numbers: pass the arguments of a call, or give `size=` when compiling.
        """
        values = self._as_arguments(self._by_position(arguments, named)) if arguments or named else []
        self._refuse_beyond(values, self._prepare)
        block = Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        handle = ctypes.c_void_p()
        check(
            _c.lib.tilec_emit(self._handle, encoded("stage", stage), block.structs, block.count, ctypes.byref(handle)),
            self._heard(),
        )
        said, data = last_said(), _c.taken(handle)
        self._hear(said)
        return data.decode() if stages()[stage].is_text else data

    def save(self, /, path: "str | os.PathLike[str]", *arguments: typing.Any, vjp: bool = False, wrt: Names = None,
             of: Names = None, accumulate: "bool | str | typing.Sequence[str]" = False, **named: typing.Any) -> None:
        """Writes a package: what a call with arguments of these shapes and types runs, compiled for the program's
        target. tilec.load(path) gives it back in a process that need not compile anything, as does `tilec run`. Arrays
        are taken as row-major.
        With `vjp=True` the package has the backward pass too: `tilec.load(path).vjp(…)`; `wrt` and `of` as in vjp().
        With `accumulate=True`, or the names of some outputs, the package adds to what its `out=` holds, as a call does:
        `tilec.load(path)(…, out=O, accumulate=True)`.
        """
        if not vjp and (wrt is not None or of is not None):
            raise TypeError("wrt= and of= belong to vjp=True; a gradient as a program is saved by f.grad(…).save(…)")
        if vjp and accumulate is not False:
            raise TypeError("accumulate= is not there with vjp=True: save f.grad(…) with accumulate=")
        suffix = os.path.splitext(os.fsdecode(path))[1]
        if suffix in (".a", ".c", ".h", ".o", ".so"):
            raise ValueError("save() writes a package, and %s is a file of C: `tilec build` writes those" % suffix)
        given = row_major(self._on_host("save", self._by_position(arguments, named)))
        self._refuse_beyond(
            given,
            (
                (lambda values, out: self._prepare_pair(values, _name_list(of), _name_list(wrt)).forward)
                if vjp
                else self._prepare
            ),
        )
        block = Block([(n, v) for n, v in zip(self.inputs, given) if v is not None], stand_in=True)
        if vjp:
            of_names, of_count, wrt_names, wrt_count = derivative_names(of, wrt)
            check(
                _c.lib.tilec_save_vjp(
                    self._handle,
                    of_names,
                    of_count,
                    wrt_names,
                    wrt_count,
                    os.fsencode(path),
                    block.structs,
                    block.count,
                ),
                self._heard(),
            )
        else:
            add = self._named_outputs(accumulate)
            results = [
                (name, np.empty(shape, dtype)) for name, dtype, shape in (self._ports(given).outputs if add else ())
            ]
            to = Block([(name, array) for name, (_, array) in zip(self.outputs, results)], add)
            check(
                _c.lib.tilec_save_call(
                    self._handle, os.fsencode(path), block.structs, block.count, to.structs, to.count
                ),
                self._heard(),
            )
        self._hear(last_said())

    def explain(self, /, *arguments: typing.Any, **named: typing.Any) -> str:
        """A compilation in words, as `tilec explain` gives them: of each statement its indices, residue classes and
        work; the plan, what it was weighed against, and what it should take. It needs numbers, as stages after
        `gradient` do: pass the arguments of a call, or give `size=` when compiling.
        """
        text = self.emit("explain", *arguments, **named)
        assert isinstance(text, str)
        return text

    def plan(self, /, *arguments: typing.Any, **named: typing.Any) -> str:
        """What is chosen for a call with these arguments: launches, blocks, lanes. The same as emit("plan", …);
        with_plan() takes it, edited or as it is."""
        text = self.emit("plan", *arguments, **named)
        assert isinstance(text, str)
        return text

    def stats(self, /, *arguments: typing.Any, **named: typing.Any) -> Stats:
        """What a call with these arguments takes: launches, bytes of code, workspace and memory, operations, and the
        time that the compiler expects. It is compiled for them, or found compiled, and not run. print() shows it in
        words.
        """
        values = self._as_arguments(self._by_position(arguments, named))
        self._refuse_beyond(values, self._prepare)
        block = Block([(n, v) for n, v in zip(self.inputs, values) if v is not None], stand_in=True)
        cost = _c.Cost(size=ctypes.sizeof(_c.Cost))
        check(_c.lib.tilec_estimate(self._handle, block.structs, block.count, ctypes.byref(cost)), self._heard())
        return stats_of(self._prepare(values, None), cost)

    def _on_host(self, method: str, arguments: list) -> list:
        """As arguments of what takes none in a GPU's memory."""
        there = next((name for name, value in zip(self.inputs, arguments) if on_gpu(value)), None)
        if there is not None and self._of_cuda:
            raise ValueError("%s() takes arrays of the host, and %s lies on a GPU: copy it" % (method, there))
        return [as_argument(name, value) for name, value in zip(self.inputs, arguments)]

    def profile(self, /, *arguments: typing.Any, runs: int = 10, **named: typing.Any) -> Profile:
        """Calls the program `runs` times, and once before that, and gives the median time of each launch. Results are
        thrown away. print() shows a table."""
        values = self._on_host("profile", self._by_position(arguments, named))
        prepared = self._prepare(values, None)
        return profile_of(prepared, values, fit("runs=", runs, 1, 2**31))


def plan_text(plan: "str | os.PathLike[str]") -> bytes:
    if not isinstance(plan, (str, os.PathLike)):
        raise TypeError("a plan is a str or a path, not a %s" % type(plan).__name__)
    return plan.encode() if isinstance(plan, str) else pathlib.Path(plan).read_bytes()
