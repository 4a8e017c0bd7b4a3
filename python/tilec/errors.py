"""Faults as Python exceptions. Mistakes in a call are TypeError or ValueError, as for any function."""
from __future__ import annotations

import ctypes
import dataclasses
import re
import sys
import typing
import warnings

from . import _library as _c


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One message of the compiler. Lines and columns count from 1; 0 when there is no place in the text."""
    severity: str
    code: str
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    hint: str

    def place(self) -> tuple:
        """What makes two of them one: a warning's words depend on the sizes of a call, its place does not."""
        return (self.code, self.file, self.line, self.column) if self.line else (self.code, self.message)


class Error(Exception):
    """Any fault of tilec. `str()` is the rendered text, with source lines and carets."""

    def __init__(self, text: str, diagnostics: typing.Sequence[Diagnostic] = ()):
        super().__init__(text)
        self.diagnostics = tuple(diagnostics)

    @property
    def code(self) -> str:
        """The code of the first error, such as "E0201"; "" if there is none."""
        return next((d.code for d in self.diagnostics if d.severity == "error"), "")


class ProgramError(Error):
    """The program's text is at fault."""


class ProgramWarning(UserWarning):
    """What the compiler warns of, with its source line and caret. Raised through `warnings` once for each program."""


class DimensionWarning(UserWarning):
    """A function of tilec.std under a name of PyTorch's reads the dimensions of a torch.Tensor in another order."""


class ShapeError(ProgramError, ValueError):
    """Arguments whose shapes or values the program does not accept."""


class OptionError(Error, ValueError):
    """An option that names what there is none of: a target, a stage. The text says which there are."""


class ArgumentTypeError(ProgramError, TypeError):
    """Arguments that are missing, unknown, or of another element type than the program takes."""


class DeviceError(Error, RuntimeError):
    """The machine is at fault: no such device, no memory, no file, no compiler for the target."""


class InternalError(Error, RuntimeError):
    """A bug of tilec."""


_OPTIONS = ("E0514", "E0530")                                # an unknown target, an unknown stage
_KINDS = {
    _c.PROGRAM_ERROR: ProgramError,
    _c.ARGUMENT_ERROR: ShapeError,
    _c.DEVICE_ERROR: DeviceError,
    _c.TYPE_ERROR: ArgumentTypeError,
}


def _diagnostics() -> list[Diagnostic]:
    """What this thread's last call had to say."""
    found, raw = [], _c.Diagnostic()
    for k in range(_c.lib.tilec_last_diagnostic_count()):
        _c.lib.tilec_last_diagnostic(k, ctypes.byref(raw))
        text = [_in_python(s.decode("utf-8", "replace")) for s in (raw.code, raw.message, raw.file)]
        found.append(
            Diagnostic(
                ("error", "warning", "remark")[raw.severity],
                *text,
                raw.line,
                raw.column,
                raw.end_line,
                raw.end_column,
                _in_python(raw.hint.decode("utf-8", "replace")),
            )
        )
    return found


# What the command line's options are called here: `--rank B=2` is rank={"B": 2}, and `--wrt` of a batch the names that
# vmap() is given.
_COMMAND_OPTION = re.compile(r"`--(rank|size|define|function|wrt)(?: ([^`]+))?`")


def _as_argument(found: "re.Match[str]") -> str:
    name, words = found.groups()
    if words is None:
        return "`%s=`" % ("inputs" if name == "wrt" else name)
    if name == "function":
        return '`function="%s"`' % words
    return "`%s={%s}`" % (name, ", ".join('"%s": %s' % tuple(word.strip().split("=", 1)) for word in words.split(",")))


def _in_python(text: str) -> str:
    return _COMMAND_OPTION.sub(_as_argument, text)


def said() -> "list[tuple[Diagnostic, str]]":
    """What a call that succeeded had to say, each with its text."""
    return [
        (d, _in_python(_c.lib.tilec_last_diagnostic_text(k).decode("utf-8", "replace").rstrip()))
        for k, d in enumerate(_diagnostics())
    ]


def check(status: int, heard: "typing.Container[tuple]" = ()) -> None:
    """Raises the exception of a status that is not OK. Warnings whose place() is in `heard` were raised before and are
    no part of its text."""
    if status == _c.OK:
        return
    all_said = said()
    kept = [text for diagnostic, text in all_said if diagnostic.severity == "error" or diagnostic.place() not in heard]
    text = "\n".join(kept) if all_said else _c.lib.tilec_last_error().decode("utf-8", "replace").rstrip()
    diagnostics = [diagnostic for diagnostic, _ in all_said]
    kind = _KINDS.get(status, InternalError)
    if any(d.code in _OPTIONS for d in diagnostics):
        kind = OptionError
    raise kind(text, diagnostics)


def hear(heard: "tuple[Diagnostic, ...]", said: "list[tuple[Diagnostic, str]]") -> "tuple[Diagnostic, ...]":
    """What was heard and what is new, whose warnings are raised."""
    places = {diagnostic.place() for diagnostic in heard}
    for diagnostic, text in said:
        if diagnostic.place() not in places:
            places.add(diagnostic.place())
            if diagnostic.severity == "warning":
                warnings.warn(text, ProgramWarning, stacklevel=caller())
            heard += (diagnostic,)
    return heard


def caller() -> int:
    """The stack level of who called this package, for warnings."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    return level
