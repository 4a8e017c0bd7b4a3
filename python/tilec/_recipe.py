"""How a program was made of its text: options, function, and what was derived from it, one step after another. It can
be pickled and compared."""
from __future__ import annotations

import ctypes
import dataclasses
import os
import typing

from . import _library as _c
from ._arguments import as_path, define_value, encoded, fit, flag, items_of

if typing.TYPE_CHECKING:
    from . import Program


@dataclasses.dataclass(frozen=True)
class Recipe:
    function: "str | None"
    # target, threads, checked, kernels, room, cache, define, size, rank
    options: "dict[str, typing.Any]"
    # ("grad", ["X"], []): a method of Program and its arguments
    steps: "tuple[tuple[typing.Any, ...], ...]" = ()

    @staticmethod
    def given(
        function: "str | None",
        define: "typing.Mapping[str, float | str] | None",
        size: "typing.Mapping[str, int] | None",
        rank: "typing.Mapping[str, int] | None",
        chosen: "dict[str, typing.Any]",
    ) -> "Recipe":
        """Of what compile() was given, or the error for it."""
        cache = chosen["cache"]
        return Recipe(
            function,
            {
                "target": chosen["target"],
                "checked": flag("checked=", chosen["checked"]),
                "threads": fit("threads=", chosen["threads"], 0, 4096),
                "kernels": fit("kernels=", chosen["kernels"], 0, 2**31),
                "room": None if chosen["room"] is None else fit("room=", chosen["room"], 0, 2**62),
                "cache": bool(cache) if isinstance(cache, bool) or not cache else as_path("cache=", cache),
                "define": {name: define_value(name, value) for name, value in items_of("define=", define)},
                "size": {
                    name: fit("size=: %s" % name, value, -(2**63), 2**63 - 1) for name, value in items_of("size=", size)
                },
                "rank": {name: fit("rank=: %s" % name, value, 0, 2**31) for name, value in items_of("rank=", rank)},
            },
        )

    def as_c(self) -> "_c.Options":
        given = self.options
        made = _c.Options(
            size=ctypes.sizeof(_c.Options),
            target=encoded("target=", given["target"]),
            threads=given["threads"],
            checked=given["checked"],
            kernels=given["kernels"],
        )
        if self.function is not None:
            made.function = encoded("function=", self.function)
        if given["room"] is not None:
            made.room = given["room"] or -1
        if given["cache"] is not True:
            made.cache = os.fsencode(given["cache"] or "")
        values = [(encoded("define=", name), value) for name, value in given["define"].items()]
        defines = [
            _c.Define(name, 0.0, encoded("define=", value)) if isinstance(value, str) else _c.Define(name, value, None)
            for name, value in values
        ]
        sizes = [_c.Size(encoded("size=", name), value) for name, value in given["size"].items()]
        made.defines, made.define_count = (_c.Define * max(1, len(defines)))(*defines), len(defines)
        ranks = [_c.Size(encoded("rank=", name), value) for name, value in given["rank"].items()]
        made.sizes, made.size_count = (_c.Size * max(1, len(sizes)))(*sizes), len(sizes)
        made.ranks, made.rank_count = (_c.Size * max(1, len(ranks)))(*ranks), len(ranks)
        return made

    def key(self) -> tuple:
        return (
            self.function,
            *(
                (name, tuple(sorted(value.items())) if isinstance(value, dict) else value)
                for name, value in self.options.items()
            ),
            self.steps,
        )

    def of(self, function: str) -> "Recipe":
        return dataclasses.replace(self, function=function)

    def then(self, method: str, *arguments: typing.Any) -> "Recipe":
        return dataclasses.replace(self, steps=self.steps + ((method, *arguments),))

    def first(self) -> "Recipe":
        """Before any step."""
        return dataclasses.replace(self, steps=())

    def followed(self, program: "Program") -> "Program":
        """The steps, done again."""
        for method, *arguments in self.steps:
            program = getattr(program, method)(*arguments)
        return program
