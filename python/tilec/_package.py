"""Programs that were saved: machine code for fixed shapes and types, run without the compiler."""
from __future__ import annotations

import ctypes as c
import typing

import numpy as np

from . import _library as _c
from ._again import Calls
from ._arguments import as_argument, as_outputs, as_written, fit, names_to_add
from ._call import Prepared, as_compiled, spelled
from ._grouped import by_position
from ._libraries import library_of_call, note_written
from ._pair import Backward, Pair
from ._stats import Profile, Stats, profile_of, stats_of
from .errors import check

MAGIC = b"tilec package "


class Package:
    """What Program.save() wrote and tilec.load() read. Call it with arrays of the shapes and types it was saved for, by
    position or by name; a plain number fits a scalar. Inputs that are not row-major are copied. `out=` takes the
    row-major array or arrays to write instead of new ones. One that was saved with `accumulate=` adds to them, and is
    called with the same `accumulate=`.
    May be used from several threads at once.
    """

    def __init__(self, data: bytes, threads: int = 0):
        handle = c.c_void_p()
        check(_c.lib.tilec_load(data, len(data), threads, c.byref(handle)))
        self._prepared = Prepared(_c.made(handle))
        self._source = (data, threads)
        self._pair: "Pair | None" = None
        self._calls = Calls()
        self.inputs: "tuple[str, ...]" = tuple(self._prepared.port_names)
        self.outputs: "tuple[str, ...]" = tuple(name for name, _, _ in self._prepared.outputs)
        self._adds = tuple(
            name for k, name in enumerate(self.outputs) if _c.lib.tilec_kernel_adds(self._prepared.handle, k)
        )

    def __repr__(self) -> str:
        def ports(each):
            return ", ".join("%s %s%s" % (dtype, name, list(shape)) for name, dtype, shape in each)
        inputs = [(name, dtype, shape) for name, (_, dtype, shape) in zip(self.inputs, self._prepared.sources)]
        return "<tilec.Package (%s) -> (%s)>" % (ports(inputs), ports(self._prepared.outputs))

    def _by_position(self, arguments, named):
        about = "; sizes, and what was left out, are fixed in a package"
        return by_position("the package", self.inputs, arguments, named, about=lambda _: about[2:], fixed=about)

    def _taken(self, values):
        """Arguments as the kernel takes them, and the library of the results."""
        library = library_of_call(self.inputs, values)
        taken = [
            as_compiled(name, as_argument(name, value), dtype, shape)
            for name, value, (_, dtype, shape) in zip(self.inputs, values, self._prepared.sources)
        ]
        return taken, library

    def stats(self) -> Stats:
        """What a call takes: launches, bytes of code, workspace, inputs and outputs. Operations are not known: a
        package has no text."""
        return stats_of(self._prepared)

    def profile(self, /, *arguments: typing.Any, runs: int = 10, **named: typing.Any) -> Profile:
        """Calls the package `runs` times, and once before that, and gives the median time of each launch. Results are
        thrown away."""
        return profile_of(
            self._prepared,
            self._taken(self._by_position(arguments, named))[0],
            fit("runs=", runs, 1, 2**31),
        )

    def _check_adds(self, accumulate, out) -> None:
        """Adding is compiled in, and a call has to say the same."""
        asked = tuple(name for name in self.outputs if name in names_to_add(accumulate, self.outputs))
        if asked != self._adds:
            here = (
                ("adds to %s" % ", ".join(self._adds), "accumulate=%r" % list(self._adds))
                if self._adds
                else ("writes its results", "no accumulate=")
            )
            raise TypeError(
                "the package %s, and the call says otherwise: write %s, or save another, program.save(path, …, accumulate=%r)"
                % (*here, list(asked) or False)
            )
        if asked and out is None:
            raise TypeError("the package adds to arrays: give them as out=")

    def vjp(self, /, *arguments: typing.Any, **named: typing.Any) -> "tuple[typing.Any, Backward]":
        """Outputs and `backward`, as Program.vjp gives them, of a package that was saved with `vjp=True` or built with --vjp."""
        if self._pair is None:
            forward, backward = c.c_void_p(), c.c_void_p()
            data, threads = self._source
            check(_c.lib.tilec_load_vjp(data, len(data), threads, c.byref(forward), c.byref(backward)))
            self._pair = Pair(_c.made(forward), _c.made(backward), self.inputs, self.outputs)
        values = self._by_position(arguments, named)
        return self._pair(*self._taken(values), values)

    def __call__(
        self,
        /,
        *arguments: typing.Any,
        out: typing.Any = None,
        accumulate: "bool | str | typing.Sequence[str]" = False,
        stream: object = None,
        **named: typing.Any,
    ) -> typing.Any:
        if accumulate is not False or self._adds:
            self._check_adds(accumulate, out)
        if stream is not None:
            raise TypeError(
                "stream=: a package takes arrays of the host. Call the program of the text with target=\"cuda\", f(…, stream=s)"
            )
        if not named and not self._adds:
            made = self._calls.run(arguments, out)
            if made is not None:
                return made
        values = self._by_position(arguments, named)
        taken, library = self._taken(values)
        if out is None:
            if library is not None:
                return library.run(self._prepared, taken)
            self._prepared.refuse_stand_ins()
            made = self._prepared(taken, None)
            self._remember(values, taken, None)
            return made
        wanted = as_outputs(self.outputs, out)
        given = as_written(self.outputs, wanted)
        for array, (name, dtype, shape) in zip(given, self._prepared.outputs):
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(
                    "out= for %s is %s %s, but the package gives %s %s"
                    % (name, spelled(array.dtype), list(array.shape), spelled(dtype), list(shape))
                )
            if not (array.flags.writeable and array.flags.c_contiguous and array.flags.aligned):
                raise ValueError(
                    "out= for %s is %s: a package writes row-major arrays"
                    % (name, "strided" if array.flags.writeable else "read-only")
                )
        self._prepared(taken, given)
        note_written(wanted)
        if all(a is b for a, b in zip(wanted, given)):
            self._remember(values, taken, given)
        return wanted[0] if len(wanted) == 1 else tuple(wanted)

    def _remember(self, values, taken, out) -> None:
        """A call on arrays of NumPy that were taken as they lie."""
        if all(a is b for a, b in zip(values, taken)) and not self._calls.is_full:
            self._calls.add(self._prepared, values, out)

    def __copy__(self) -> "Package":
        return self

    def __deepcopy__(self, memo: dict) -> "Package":
        return self

    def __reduce__(self) -> tuple:
        return Package, self._source


def row_major(values: typing.Sequence) -> list:
    """Example arguments as the package shall take them."""
    return [np.ascontiguousarray(v) if isinstance(v, np.ndarray) and v.ndim else v for v in values]
