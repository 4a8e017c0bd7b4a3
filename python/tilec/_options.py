"""Options that compile() and load() take where they are given none: `with tilec.options(target="opencl"): …`."""
from __future__ import annotations

import contextlib
import contextvars
import os
import typing

_USUAL: "dict[str, typing.Any]" = {
    "target": "cpu",
    "include": (),
    "threads": 0,
    "checked": False,
    "kernels": 0,
    "room": None,
    "cache": True,
}
# The options here, and what was here before them.
_current: "contextvars.ContextVar[tuple[dict[str, typing.Any], typing.Any]]" = contextvars.ContextVar(
    "tilec.options", default=(_USUAL, None)
)


class Options(contextlib.ContextDecorator):
    """What options() gives: for a `with`, or as a decorator. May be entered again, inside itself, and by several
    threads."""

    def __init__(self, given: "dict[str, typing.Any]"):
        self._given = given

    def __repr__(self) -> str:
        return "tilec.options(%s)" % ", ".join("%s=%r" % item for item in self._given.items())

    def __enter__(self) -> "Options":
        around = _current.get()
        _current.set(({**around[0], **self._given}, around))
        return self

    def __exit__(self, *_: object) -> None:
        _current.set(_current.get()[1] or (_USUAL, None))     # none: it was entered in another context


def options(
    *,
    target: "str | None" = None,
    include: "typing.Sequence[str | os.PathLike[str]] | None" = None,
    threads: "int | None" = None,
    checked: "bool | None" = None,
    kernels: "int | None" = None,
    room: "int | None" = None,
    cache: "bool | str | os.PathLike[str] | None" = None,
    **unknown: typing.Any,
) -> Options:
    """What compile() and load() take inside a `with` where they are not told; tilec.std.load() too.

        with tilec.options(target="opencl", threads=1):
            f = tilec.compile(text)                           # as tilec.compile(text, target="opencl", threads=1)
            g = tilec.load("g.tile", target="cpu")            # what is said in the call comes first

    None leaves an option as it is. Inner ones come before outer ones. They hold for this thread, or this task of asyncio, and not for threads that it starts.
    A program keeps the options that it was compiled with. TypeError: an option that compile() has not, or that belongs to one text: define, size,
    function, plan and name.
    """
    if unknown:
        name = next(iter(unknown))
        own = name in ("define", "size", "function", "plan", "name")
        raise TypeError(
            "%s= belongs to one text: give it to compile() or load()" % name
            if own
            else "no option %s=; there are %s" % (name, ", ".join(_USUAL))
        )
    given = {
        "target": target,
        "include": include,
        "threads": threads,
        "checked": checked,
        "kernels": kernels,
        "room": room,
        "cache": cache,
    }
    return Options({name: value for name, value in given.items() if value is not None})


def chosen(**given: typing.Any) -> "dict[str, typing.Any]":
    """Each option as it is given; None: as the innermost options() says, else as usual."""
    around, _ = _current.get()
    return {name: around[name] if value is None else value for name, value in given.items()}
