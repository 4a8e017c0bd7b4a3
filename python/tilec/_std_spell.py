"""How the texts of calls to std/ are spelled: `X[D0, D1]`, `Y[d1, d0: D1, D0]`, `<dim=1, keepdim=true>`, one function."""

from __future__ import annotations

import typing

import numpy as np


class Text(typing.NamedTuple):
    """`text` is called with these inputs; other names of the call stay as they are."""

    text: str
    arguments: tuple
    named: dict


def rank_of(value: typing.Any) -> int:
    return value.ndim if hasattr(value, "ndim") else np.ndim(value)


def without(named: dict, taken: typing.Container[str]) -> dict:
    return {name: value for name, value in named.items() if name not in taken}


def sizes_of(rank: int, letter: str = "D") -> "list[str]":
    return ["%s%d" % (letter, k) for k in range(rank)]


def read(tensor: str, indices: typing.Sequence[str]) -> str:
    return "%s[%s]" % (tensor, ", ".join(indices))


def declared(target: str, indices: typing.Sequence[str], sizes: typing.Sequence[str]) -> str:
    return "%s[%s]" % (target, "%s: %s" % (", ".join(indices), ", ".join(sizes)) if indices else "")


def values_of(parameters: dict, usual: "dict[str, str | None]" = {}) -> str:
    """`<dim=1, keepdim=true>`; `usual` has the parameters' defaults, and `{false, true}` takes names, not numbers."""
    for name, value in parameters.items():
        if isinstance(value, str) and not value.isidentifier():
            raise TypeError("%s is %r, not a number and no name" % (name, value))
    def spelled(name: str, value: typing.Any) -> typing.Any:
        if not isinstance(value, (bool, np.bool_)):
            return value
        return str(value).lower() if (usual.get(name) or "{").startswith("{") else int(value)

    said = ["%s=%s" % (name, spelled(name, value)) for name, value in parameters.items() if value is not None]
    return "<%s>" % ", ".join(said) if said else ""


def function(heading: typing.Any, inputs: "typing.Sequence[str]", results: "typing.Sequence[str]", lines: list) -> str:
    """One of the function's own name, which calls it as `std.NAME`."""
    return 'import "std/%s.tile" as std;\n[[allow(W0210)]]\nfunction %s(%s) -> (%s) {\n%s}\n' % (
        heading.family,
        heading.name,
        ", ".join(inputs),
        ", ".join(results),
        "".join("  %s;\n" % line for line in lines),
    )
