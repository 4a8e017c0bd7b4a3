"""The stages of the compiler, by name."""
from __future__ import annotations

import ctypes
import functools
import typing

from . import _library as _c


class Stage(typing.NamedTuple):
    """What Program.emit shows under a name; `target` is the one that has it, None: every target."""
    name: str
    description: str
    target: "str | None"
    is_text: bool


@functools.cache
def stages() -> "dict[str, Stage]":
    """All stages of the compiler by name, in the order of work."""
    count = ctypes.c_size_t()
    rows = _c.lib.tilec_stages(ctypes.byref(count))
    made = [
        Stage(s.name.decode(), s.description.decode(), s.target.decode() if s.target else None, bool(s.is_text))
        for s in rows[: count.value]
    ]
    return {stage.name: stage for stage in made}
