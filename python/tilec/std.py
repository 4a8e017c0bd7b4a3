"""The functions of std/ as attributes, compiled when first used: `Y = tilec.std.layer_norm(X, GAMMA, BETA)`.

dir(tilec.std) lists them, and std/README.md says what they are. Each is a Program, one for the whole process: tilec.options() does not change it. Where a function has compile-time parameters they are the usual ones;
`tilec.std.load("conv2d", define={"S": 2}, target="opencl")` gives it with others, and takes all options of tilec.compile(), and what tilec.options() says.
"""
from __future__ import annotations

import contextvars
import functools
import itertools
import re
import typing

from . import Module, Program, ProgramError, _library as _c, _nearest, compile as _compile

__all__ = ["load"]


@functools.cache
def _texts() -> "dict[str, str]":
    """The files, by name."""
    names = itertools.takewhile(lambda name: name is not None, map(_c.lib.tilec_standard_file_name, itertools.count()))
    return {name.decode(): _c.lib.tilec_standard_file_text(k).decode() for k, name in enumerate(names)}


@functools.cache
def _families() -> "dict[str, list[str]]":
    """The files that have a function: two for `mean`, one for most."""
    found: "dict[str, list[str]]" = {}
    for family, text in _texts().items():
        for function in re.findall(r"^function (\w+)", text, re.M):
            found.setdefault(function, []).append(family)
    return found


@functools.cache
def _module(family: str) -> "Module | Program":
    return contextvars.Context().run(_compiled, family, {})   # it is one for all, so tilec.options() is none of it


def _compiled(family: str, options: dict):
    # Beside `<std/…>` lies nothing, so the imports are of the library, whatever the working folder holds.
    text = re.sub(r'^import "(?!std/)', 'import "std/', _texts()[family], flags=re.M)
    return _compile(text, name="<std/%s.tile>" % family, **options)


def _place(name: str) -> "tuple[str, str]":
    """The file of a function and its name there; `statistics.mean` says both."""
    family, _, function = name.rpartition(".")
    families = _families().get(function, [])
    if family in families or (not family and len(families) == 1):
        return family or families[0], function
    if families:
        raise AttributeError("std/ has `%s` in several files: write %s" % (function, " or ".join("tilec.std.load(\"%s.%s\")" % (each, function) for each in families)))
    near = _nearest(function, tuple(_families()))
    parts = [other for other in sorted(_families()) if function.lower() in other and other != near][:5] if len(function) > 2 else []
    meant = " or ".join("`%s`" % other for other in ([near] if near else []) + parts)
    raise AttributeError("std/ has no function `%s`; %sdir(tilec.std) lists them" % (name, "did you mean %s? " % meant if meant else ""))


def load(name: str, **options: typing.Any) -> Program:
    """A function of std/ with options of tilec.compile(): define=, target=, size=, threads=, checked= … "statistics.mean" is that of one file,
    where several have the name.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a function is a str, not a %s" % type(name).__name__)
    if "function" in options or "name" in options:
        raise TypeError("function= and name= are said by the first argument")
    family, function = _place(name)
    return _compiled(family, {**options, "function": function})


def __getattr__(name: str) -> Program:
    if name.startswith("_"):
        raise AttributeError("module 'tilec.std' has no attribute %r" % name)
    module = _module(_place(name)[0])
    try:
        found = getattr(module, name) if isinstance(module, Module) else module
    except ProgramError as fault:
        if fault.code != "E0126":
            raise
        raise AttributeError("`%s` has compile-time parameters that need a value: tilec.std.load(\"%s\", define={…})\n%s" % (name, name, fault)) from None
    return globals().setdefault(name, found)


def __dir__() -> "list[str]":
    return sorted(name for name, families in _families().items() if len(families) == 1)
