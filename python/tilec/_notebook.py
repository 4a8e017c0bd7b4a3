"""Programs in notebooks: how they show, and the cell magic `%%tile`.

    %load_ext tilec

    %%tile matmul target=cpu threads=1                        # the next cell
    function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }

defines the variable `matmul`. Nothing here imports IPython: it hands itself to load_ipython_extension().
"""
from __future__ import annotations

import html
import keyword
import re
import shlex
import typing

from .errors import Error

if typing.TYPE_CHECKING:
    from . import Module, Program

_MOST_LINES = 80
# What is coloured, by what the language calls it; the colours can be read on light and dark ground.
_COLOURS = {
    "comment": "#7d8799",
    "text": "#3f9142",
    "word": "#a254c9",
    "type": "#1f8a8a",
    "number": "#b8651b",
    "called": "#2f78d0",
}
_TOKENS = re.compile(r"""(?P<comment>//[^\n]*)|(?P<text>"[^"\n]*")
    |(?P<word>\b(?:function|gradient|tangent|import|dim|default|no_defract|no_reduce)\b|(?<="[ ])as\b|\[\[[^]\n]*\]\])
    |(?P<type>\b(?:bool|[ui](?:8|16|32|64)|f(?:16|32|64)|bf16)\b)
    |(?P<number>(?<![\w'])(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)\b)
    |(?P<called>(?:[a-z]\w*\.)?[A-Za-z_]\w*(?=\())""", re.X)


def coloured(text: str) -> str:
    """Tile as HTML, in a box of its own."""
    parts, at = [], 0
    for token in _TOKENS.finditer(text):
        parts.append(html.escape(text[at:token.start()]))
        parts.append('<span style="color:%s">%s</span>' % (_COLOURS[token.lastgroup or ""], html.escape(token[0])))
        at = token.end()
    lines = ("".join(parts) + html.escape(text[at:])).split("\n")
    more = len(lines) - _MOST_LINES
    shown = "\n".join(lines[:_MOST_LINES]) + ("\n… %d lines more" % more if more > 0 else "")
    return (
        '<pre style="margin:0.3em 0;padding:0.4em 0.7em;border-left:3px solid #8a93a6;overflow-x:auto">%s</pre>' % shown
    )


def _own_text(program: "Program") -> str:
    """The program as Tile: a derivative as the compiler has it, where that needs no shapes; else the function of the
    text."""
    if program._recipe.steps:
        try:
            return str(program.emit("gradient"))
        except Error:                                         # without shapes there is none
            pass
    whole = str(program.emit("source"))
    own = (
        re.search(r"(?ms)^(?://[^\n]*\n)*function %s\b.*?^\}" % re.escape(program.name), whole)
        if program.name
        else None
    )
    return own[0] if own else whole


def _steps(program: "Program") -> str:
    made = [
        "%s(%s)" % (method, "…" if method == "with_plan" else ", ".join("%r" % each for each in arguments if each))
        for method, *arguments in program._recipe.steps
    ]
    return "." + ".".join(made) if made else ""


def program_html(program: "Program") -> str:
    options = program._recipe.options
    said = ["target %s" % options["target"]] + [
        "%s %s" % (name, options[name])
        for name in ("define", "size", "rank", "threads", "checked", "room")
        if options[name]
    ]
    title = "%s%s (%s) → (%s)" % (
        program.name or "function",
        _steps(program),
        ", ".join(program.inputs),
        ", ".join(program.outputs),
    )
    return "<div><b>%s</b> <small>%s</small>%s</div>" % (
        html.escape(title),
        html.escape(", ".join(said)),
        coloured(_own_text(program).rstrip("\n")),
    )


def module_html(module: "Module") -> str:
    return "<div><b>%s</b> <small>functions: %s</small></div>" % (
        html.escape(module._file.name),
        html.escape(", ".join(module._file.names)),
    )


_NUMBERS = ("threads", "kernels", "room")
_SWITCHES = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def _value(text: str) -> "float | str":
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return text if text.isalpha() else float(text)        # `inf` may be a name
    except ValueError:
        return text


def options_of(line: str) -> "tuple[str | None, dict[str, typing.Any]]":
    """The variable and the options of compile() in a line of %%tile: those of the command, `define=S=2,F=relu
    checked=on include=lib`."""
    variable: "str | None" = None
    options: "dict[str, typing.Any]" = {}
    for k, word in enumerate(shlex.split(line)):
        name, equals, text = word.partition("=")
        if not equals:
            if k or not word.isidentifier() or keyword.iskeyword(word):
                raise ValueError(
                    "%%%%tile: %r is no option NAME=VALUE%s; write `%%%%tile VARIABLE target=cpu …`"
                    % (word, "" if k else " and no name of a variable")
                )
            variable = word
        elif name in options:
            raise ValueError("%%%%tile: %s= is given twice" % name)
        elif name in ("define", "size", "rank"):
            pairs = [pair.partition("=") for pair in text.split(",") if pair]
            if not all(parts[1] for parts in pairs):
                raise ValueError("%%%%tile: %s=%s is no list NAME=VALUE,…" % (name, text))
            options[name] = {key: _value(value) for key, _, value in pairs}
        elif name in _NUMBERS:
            try:
                options[name] = int(text)
            except ValueError:
                raise ValueError("%%%%tile: %s=%s is no integer" % (name, text)) from None
        elif name == "checked" or (name == "cache" and text.lower() in _SWITCHES):
            if text.lower() not in _SWITCHES:
                raise ValueError("%%%%tile: %s=%s is neither on nor off" % (name, text))
            options[name] = _SWITCHES[text.lower()]
        else:
            options[name] = text.split(",") if name == "include" else text  # compile() knows which there are
    return variable, options


def cell_magic(shell: typing.Any, compile: typing.Callable[..., typing.Any]) -> "typing.Callable[[str, str], None]":
    def tile(line: str, cell: str) -> None:
        """Compiles the cell, a text of Tile, and defines a variable: `%%tile VARIABLE OPTION=VALUE …`.

        Without a variable, it is called as the text's function. Options are those of tilec.compile(), in the command's
        spelling:
            %%tile conv target=opencl define=S=2,F=relu size=N=8 checked=on threads=1 include=lib cache=off
        A text with several functions gives a Module of them.
        """
        variable, options = options_of(line)
        made = compile(cell, name="<%%%%tile %s>" % variable if variable else "<%%tile>", **options)
        name = variable or getattr(made, "name", "")
        if not isinstance(name, str) or not name:
            raise ValueError("%%tile: the text has no name, or several functions: write `%%tile VARIABLE`")
        shell.push({name: made})
    tile._ipython_magic_no_var_expand = True                  # type: ignore[attr-defined]  # braces are Tile's
    return tile
