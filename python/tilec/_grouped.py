"""Arguments of a call in the order of a program's inputs: by position, by name, and in groups.

    f(x, G=g)   f({"X": x, "G": g})   f(params, X=x)   f((x, g))             # params: a named tuple with a field G

A dict or a named tuple gives an input by each of its names. A tuple that holds an array gives the inputs next in order; one of numbers and lists is an
array, as a list always is. Arguments by position stand in front of groups by name, as in any call of Python. Nothing is guessed: a name that is no input,
that is given twice or that is missing is a TypeError, which lists all of them.
"""

from __future__ import annotations

import collections.abc
import difflib
import typing

import numpy as np

from ._arguments import counted


def nearest(word: str, names: typing.Iterable[str]) -> "str | None":
    """The name that differs in case only, or by few letters."""
    folded = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(word.casefold(), folded, 1, 0.6)
    return folded[found[0]] if found else None


def _fields(value) -> "typing.Mapping | None":
    """Inputs by name, if the value is a group of them."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return dict(zip(names, value)) if isinstance(names, tuple) else None
    return (
        value
        if isinstance(value, collections.abc.Mapping)
        and not hasattr(value, "__array__")
        and not hasattr(value, "__dlpack__")
        else None
    )


def _in_order(value) -> bool:
    """Is it a group of inputs by position?"""
    return type(value) is tuple and any(isinstance(each, np.ndarray) or hasattr(each, "__dlpack__") for each in value)


_NO_GROUPS = frozenset((np.ndarray, float, int, type(None)))  # most arguments


def _is_group(value) -> bool:
    return (
        type(value) not in _NO_GROUPS
        and isinstance(value, (tuple, collections.abc.Mapping))
        and (_fields(value) is not None or _in_order(value))
    )


def has_groups(arguments: typing.Iterable) -> bool:
    return any(map(_is_group, arguments))


def by_position(
    title: str,
    names: "typing.Sequence[str]",
    arguments: typing.Sequence,
    named: "dict[str, typing.Any]",
    optional: "typing.Container[str]" = (),
    usual: "typing.Mapping[str, typing.Any]" = {},
    options: "tuple[str, ...]" = (),
    taken: "typing.Callable[[int, dict], typing.Sequence[str]] | None" = None,
    about: "typing.Callable[[str], str | None] | None" = None,
    fixed: str = "",
) -> list:
    """A value for each name. None: not given, which is a fault unless the name is `optional`; `usual` has the values of
    some that are not. `options` are names that a call gives another meaning. `taken`: of which names so many arguments
    by position are, beside those by name; None: the first. `about`: what else to say of an unknown name; `fixed`: of too many.
    """
    twice: "list[str]" = []
    tuples, by_call = any(map(_in_order, arguments)), named
    if has_groups(arguments):
        arguments, named, twice = _apart(title, arguments, named)
    if len(arguments) > len(names):
        hint = "; a tuple of arrays gives several, and np.stack makes one of them" if tuples else fixed
        raise TypeError(
            "%s takes %s (%s) but %d were given%s"
            % (title, counted(len(names), "argument"), ", ".join(names), len(arguments), hint)
        )
    unexpected = [n for n in named if n not in names]
    placed = dict(zip(names if taken is None else taken(len(arguments), named), arguments))
    twice += [n for n in placed if n in named]
    values = [placed[n] if n in placed else named.get(n, usual.get(n)) for n in names]
    missing = [n for n, v in zip(names, values) if v is None and n not in named and n not in optional]
    if unexpected or twice or missing:
        known = {n: said for n in unexpected if about is not None and (said := about(n))}
        parts = [(missing, "missing: %s"), (unexpected, "unexpected: %s"), (twice, "given twice: %s")]
        meant = [
            "did you mean %s?" % near for near in (nearest(n, names) for n in unexpected if n not in known) if near
        ]
        meant += known.values()
        meant += [
            "%s by name is an option of the call: give the input by its position, or in a dict" % n
            for n in missing
            if n in options
        ]
        meant += [
            (
                "%s= is taken by a plain call of the program only" % n
                if n in by_call
                else "%s is an option of the call: give it as %s=" % (n, n)
            )
            for n in unexpected
            if n in options
        ]
        meant += [
            "%s is a group in a group: give its fields to the call" % n for n in unexpected if _is_group(named[n])
        ]
        raise TypeError(
            "%s(%s): %s"
            % (title, ", ".join(names), "; ".join([text % ", ".join(found) for found, text in parts if found] + meant))
        )
    for name, value in zip(names, values):
        if _is_group(value):
            raise TypeError(
                "%s: %s"
                % (
                    name,
                    (
                        "a tuple of arrays is a group of arguments; np.stack makes one array of them"
                        if _in_order(value)
                        else "a %s is no array and no number" % type(value).__name__
                    ),
                )
            )
    return values


def _apart(title: str, arguments: typing.Sequence, named: dict) -> "tuple[list, dict, list[str]]":
    """Arguments by position, those by name, and the names that were given by two groups or by a group and the call."""
    positional: list = []
    by_name: dict = {}
    twice, groups = [], 0
    for value in arguments:
        fields = _fields(value)
        if fields is None and groups:
            raise TypeError(
                "%s: an argument by position stands behind a dict or a named tuple: give it first, or by name" % title
            )
        if fields is None:
            positional += value if _in_order(value) else [value]
            continue
        groups += 1
        wrong = [name for name in fields if not isinstance(name, str)]
        if wrong:
            raise TypeError("%s: a dict of arguments has names of inputs as its keys, not %r" % (title, wrong[0]))
        twice += [name for name in fields if name in by_name]
        by_name.update(fields)
    twice += [name for name in named if name in by_name]
    return positional, {**by_name, **named}, twice
