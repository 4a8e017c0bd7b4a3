"""The functions of std/ as attributes, compiled when first used: `Y = tilec.std.layer_norm(X, GAMMA, BETA)`.

dir(tilec.std) lists them, help(tilec.std.conv2d) says what one is. Compile-time parameters are given by name beside the
arrays, `tilec.std.conv2d(I, K, stride=2, padding=1)`, or behind them where PyTorch and NumPy agree on their order,
`softmax(X, 1)`; those that are not, or are None, have their usual value, and a tuple has one for each direction,
`padding=(1, 2)`. `concat([X, Y, Z], 1)` and `stack` take a list, `mean(X, (0, 2))` any dimensions, and permute, chunk,
unbind, interpolate and others are there too: such a call has a text for its ranks. Each function is a Program, one for the whole process:
tilec.options() does not change it. One whose parameters have no usual value, such as `pad`, can only be called.
`tilec.std.load("conv2d", define={"stride": 2}, target="opencl")` is a Program with these parameters, and takes all
options of tilec.compile(), and what tilec.options() says. Where two files have a function of one name, the plain one is
what NumPy or PyTorch call so: tilec.std.mean is that of std/statistics.tile, and tilec.std.load("loss.mean") the other.
help() of the one names the other.
"""
from __future__ import annotations

import contextvars
import functools
import inspect
import itertools
import re
import typing
import warnings

from . import Program, _library as _c, compile as _compile
from . import _std_calls as _calls, _std_parts as _parts_of_calls, _std_texts as _texts_of_calls
from ._arguments import define_value as _define_value
from ._grouped import nearest as _nearest
from ._options import chosen as _chosen
from ._recipe import Recipe as _Recipe
from ._source import File as _File
from .errors import DimensionWarning, caller as _caller

__all__ = ["load"]

# The file of a function that several have: the one that users of NumPy and PyTorch mean.
_PLAIN = {"mean": "statistics", "one_hot": "movement"}


@functools.cache
def _texts() -> "dict[str, str]":
    """The files, by name."""
    names = itertools.takewhile(lambda name: name is not None, map(_c.lib.tilec_standard_file_name, itertools.count()))
    return {name.decode(): _c.lib.tilec_standard_file_text(k).decode() for k, name in enumerate(names)}


class _Written(str):
    """A default as the text has it, which a signature shows so."""
    __repr__ = str.__str__


def _parts(text: str) -> "list[str]":
    """Of `A[M, N], B = 1`, the two: what stands between commas outside of brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|[^,\[{])+", text) if part.strip()]


class _Heading(typing.NamedTuple):
    """What is written of a function in front of its `{`."""
    family: str
    name: str
    text: str                                                 # "softmax(X[B..., N]) -> (Y)"
    comment: str
    inputs: "dict[str, str | None]"                           # with the default as text
    parameters: "dict[str, str | None]"
    results: "list[str]"
    former: "dict[str, str]"                                  # names that parameters had: {"S": "stride"}
    also: "list[str]"                                         # what others call it
    layouts: "dict[str, str]"                                 # its own order of dimensions, then who reads others
    asks: "list[str]"                                         # what a call by name says, as others mean it otherwise
    goes: bool                                                # with the next version

    def describe(self, function: typing.Any) -> typing.Any:
        """What help() and inspect.signature() say of it."""
        others = [family for family in _headings().get(self.name, {}) if family != self.family]
        where = "function of std/%s.tile" % self.family if self.family else "text of Tile for each rank"
        function.__doc__ = "%s\n\n%s%s\n\nA %s%s.%s" % (
            self.text,
            self._said_of_layouts(),
            self.comment,
            where,
            ", which goes with the next version: a call says what to write" if self.goes else "",
            "".join(" Another one is tilec.std.load(\"%s.%s\")." % (family, self.name) for family in others),
        )
        function.__signature__ = self._signature()
        return function

    def _said_of_layouts(self) -> str:
        """`layout="channels_first": conv2d_nchw(I[N, CI, H, W], …)` of each."""
        headings = [(layout, self if name == self.name else _heading(name)) for layout, name in self.layouts.items()]
        lines = ["layout=\"%s\": %s\n" % (layout, re.sub("<[^>]*>", "", each.text, count=1)) for layout, each in headings]
        return "".join(lines) + "\n" * bool(lines)

    def _signature(self) -> inspect.Signature:
        def parameter(name: str, kind: typing.Any, default: "str | None") -> inspect.Parameter:
            return inspect.Parameter(
                name, kind, default=inspect.Parameter.empty if default is None else _Written(default)
            )

        given = [
            parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default) for name, default in self.inputs.items()
        ]
        given += [parameter(name, inspect.Parameter.KEYWORD_ONLY, default) for name, default in self.parameters.items()]
        if self.layouts:
            given.append(parameter("layout", inspect.Parameter.KEYWORD_ONLY, "{%s}" % ", ".join(self.layouts)))
        return inspect.Signature(given + list(_OF_CALLS.values()), __validate_parameters__=False)

    def with_parameters(self, arguments: tuple, named: dict) -> "tuple[Program, tuple, dict]":
        """The program for a call with these names, and its inputs by position and by name."""
        arguments, named = _calls.by_name(self, arguments, named)
        rank = getattr(arguments[0], "ndim", None) if arguments else None
        named = self._of_each_direction(self._of_axes(_calls.renamed(self, named), rank))
        values = {name: value for name, value in named.items() if name in self.parameters or name in self.former}
        inputs = {name: value for name, value in named.items() if name not in values}
        _calls.refuse_unknown(self, [name for name in inputs if name not in self.inputs and name not in _OF_CALLS])
        for name, value in values.items():
            self._check_one(name, value)
        given = {self.former.get(name, name) for name in values}
        missing = [name for name, default in self.parameters.items() if default is None and name not in given]
        if missing:
            raise TypeError(
                "%s needs its compile-time parameters by name: tilec.std.%s(%s); help(tilec.std.%s) says what they are"
                % (self.name, self.name, ", ".join([*self.inputs, *("%s=…" % name for name in missing)]), self.name)
            )
        return (
            _with_parameters(
                self.family, self.name, tuple((name, _define_value(name, value)) for name, value in values.items())
            ),
            arguments,
            inputs,
        )

    def meant(self, arguments: tuple, named: dict) -> "tuple[Program, tuple, dict]":
        """The program that a call means, and its inputs by position and by name."""
        if self.layouts:
            other, named = self.in_layout(arguments, named)
            if other != self.name:
                return _heading(other).meant(arguments, named)
        name, arguments, named = _calls.meant(self, arguments, named)
        if name != self.name:
            return _heading(name).meant(arguments, named)
        if name in _parts_of_calls.BEFORE_NAMES:
            text = _parts_of_calls.BEFORE_NAMES[name](self, arguments, named)
            if text is not None:
                return _of_text(text.text, name), text.arguments, text.named
        if not _parts_of_calls.joins_list(name, arguments):
            arguments, named = _calls.by_name(self, arguments, named)
            named = _calls.renamed(self, named)
            for each in itertools.takewhile(named.__contains__, list(self.inputs)[len(arguments) :]):
                arguments = (*arguments, named.pop(each))
            if name in _calls.DIM_OF_RANK and not {"dim", "axis"} & set(named) and self.reads_as_torch_does_not(arguments):
                _warn("%s goes along the last dimension, and torch.nn.functional.%s along another: say dim=" % (name, name))
        if _texts_of_calls.lacks_dimension(self, arguments):
            named = self._of_each_direction(self._of_axes(named, 0))
        text = _texts_of_calls.text_of(self, arguments, named)
        if text is not None:
            return _of_text(text.text, self.name), text.arguments, text.named
        if name in _calls.OF_TWO_DIMENSIONS and arguments:
            named = _calls.in_order(self, _texts_of_calls.rank_of(arguments[0]), named)
        return self.with_parameters(arguments, named)

    def in_layout(self, arguments: tuple, named: dict) -> "tuple[str, dict]":
        """The function that reads the order of dimensions of a call, and what else the call says."""
        if "layout" not in named:
            first = arguments or tuple(named[each] for each in ("input", *self.inputs) if each in named)
            if self.reads_as_torch_does_not(first):
                _warn(
                    "%s reads a torch.Tensor as channels last, and PyTorch's functions as channels first: say layout="
                    "\"channels_first\" or layout=\"channels_last\"" % self.name
                )
            return self.name, named
        layout = named["layout"]
        if layout not in self.layouts:
            known = " or ".join("layout=%r" % each for each in self.layouts)
            raise TypeError("layout of %s is %r: give %s" % (self.name, layout, known))
        return self.layouts[layout], {name: value for name, value in named.items() if name != "layout"}

    def reads_as_torch_does_not(self, arguments: tuple) -> bool:
        """Has it a name of PyTorch's, which means another dimension there, and is it given such a tensor?"""
        return (
            (next(iter(self.layouts), "") == "channels_last" or self.name in _calls.DIM_OF_RANK)
            and bool(arguments)
            and type(arguments[0]).__module__.partition(".")[0] == "torch"
            and _texts_of_calls.rank_of(arguments[0]) > 2
        )

    def depends_on(self, arguments: tuple) -> bool:
        """Does a call mean something else than the function's own text, by what its arguments are?"""
        return (
            self.name in _texts_of_calls.BY_ARRAYS
            or "dim" in self.asks
            or self.reads_as_torch_does_not(arguments)
            or _calls.is_of_pytorch(self.name, arguments)
            or _texts_of_calls.lacks_dimension(self, arguments)
        )

    def called(self, arguments: tuple, named: dict) -> typing.Any:
        """What a call gives."""
        program, arguments, inputs = self.meant(arguments, named)
        return self.as_given(program(*arguments, **inputs))

    def as_given(self, made: typing.Any) -> typing.Any:
        """The results of a call: those of chunk and unbind are a tuple, also where there is one."""
        return (made,) if self.name in _texts_of_calls.PARTS and not isinstance(made, tuple) else made

    def pulled(self, arguments: tuple, named: dict, wrt: typing.Any, of: typing.Any) -> typing.Any:
        """What vjp() of a call gives."""
        program, arguments, inputs = self.meant(arguments, named)
        made, backward = program.vjp(*arguments, wrt=wrt, of=of, **inputs)
        return self.as_given(made), backward

    def _directions(self, name: str) -> "list[str]":
        """Of `stride` stride_h and stride_w; of `size` and `output_size`, where no parameter has this name, size_h and
        so on."""
        stem = name if name in self.parameters or name != "output_size" else "output"
        return [
            parameter
            for parameter, usual in self.parameters.items()
            if parameter[:-2] == stem
            and parameter[-2:] in ("_t", "_h", "_w")
            and (name not in self.parameters or usual == name)
        ]

    def _of_each_direction(self, named: dict) -> dict:
        """With what PyTorch takes as one: a tuple of a value for each direction, and None for the usual value."""
        given: "dict[str, typing.Any]" = {}
        for name, value in named.items():
            known = name in self.parameters or name in self.former
            each = [] if name in self.inputs or name in _OF_CALLS else self._directions(name)
            if known and value is None and self.parameters.get(self.former.get(name, name)) is not None:
                continue
            if isinstance(value, (tuple, list)) and (known or each):
                if len(value) != max(1, len(each)):
                    raise TypeError(
                        "%s of %s is %r: give a number%s"
                        % (name, self.name, value, " or %d of them" % len(each) if each else "")
                    )
                given.update(zip(each or [name], value))
            elif each and not known:
                given.update({direction: value for direction in each})
            else:
                given[name] = value
        return given

    def _of_axes(self, named: dict, rank: "int | None") -> dict:
        """With what NumPy and PyTorch call a dimension, `axis=1` and `dim=1`, and several that lie side by side."""
        given = dict(named)
        for name in ("keepdim", "keepdims"):
            if given.get(name) is False and name not in (*self.parameters, *self.inputs):
                del given[name]
        for name in ("dim", "axis"):
            if name not in given or name in (*self.parameters, *self.inputs, *self.former):
                continue
            dims = given.pop(name)
            others = [other for other in ("dim", "start_dim", "end_dim") if other in given]
            if others and ("start_dim" in self.parameters or "dim" in self.parameters):
                raise TypeError("%s= of %s says the same as %s=: give one of them" % (name, self.name, others[0]))
            if "start_dim" in self.parameters:
                given.update(zip(("start_dim", "end_dim"), self._ends(name, dims, rank)))
            elif "dim" in self.parameters:
                given["dim"] = dims
            else:                                          # what `axis` of layer_norm says is no dimension alone
                given[name] = dims
        for name in ("dim", "start_dim", "end_dim", "dim0", "dim1"):
            if name in self.parameters and isinstance(given.get(name), (float, str)):
                _calls.whole(name, self.name, given[name])
        return given

    def _ends(self, name: str, dims: typing.Any, rank: "int | None") -> "tuple[typing.Any, ...]":
        """The first and the last of the dimensions; nothing where all are meant."""
        if dims is None:
            return ()
        each = _calls.dimensions(name, self.name, dims, rank)
        if not _calls.are_neighbours(each):
            raise TypeError(
                "%s of %s is %r: give one dimension, or several that lie side by side, start_dim=…, end_dim=…"
                % (name, self.name, dims)
            )
        return each[0], each[-1]

    def _check_one(self, name: str, value: typing.Any) -> None:
        """Of what PyTorch takes for a parameter and Tile says by others."""
        if isinstance(value, str) and not (self.parameters.get(name) or "").startswith("{"):
            choices = {
                parameter: re.findall(r"\w+", usual)
                for parameter, usual in self.parameters.items()
                if usual is not None and usual.startswith("{") and "{false" not in usual and "{true" not in usual
            }
            meant = [
                "%s=%r" % (parameter, choice)
                for parameter, words in choices.items()
                for choice in words
                if choice.split("_")[0] == value
            ]
            if meant:
                raise TypeError("%s of %s is %r, not a number: give %s" % (name, self.name, value, " or ".join(meant)))

    def about_parameter(self, name: str) -> "str | None":
        """What to write where a call that takes inputs alone is given a compile-time parameter, or PyTorch's name."""
        meant = _calls.input_meant(self, name)
        if meant is not None and name not in self.parameters:
            return "%s is %s here" % (name, meant)
        if name not in self.parameters and name not in self.former:
            return None
        return "%s is a compile-time parameter, which tilec.std.load(\"%s.%s\", define={\"%s\": …}) is given" % (
            name,
            self.family,
            self.name,
            name,
        )


def _warn(text: str) -> None:
    warnings.warn(text, DimensionWarning, stacklevel=_caller())


_OF_CALLS = {
    name: each.replace(annotation=inspect.Parameter.empty)
    for name, each in inspect.signature(Program.__call__).parameters.items()
    if each.kind is inspect.Parameter.KEYWORD_ONLY
}
_HEADING = re.compile(
    r"^((?://.*\n)*)((?:\[\[.*\]\]\s*)*)function\s+((\w+)(?:<([^>]*)>)?\s*\(([^{]*?)\)\s*->[^{]*?)\s*\{", re.M
)


def _defaults(text: "str | None") -> "dict[str, str | None]":
    """Of `S = 1, f32 A[M], B[N] = 0` {"S": "1", "A": None, "B": "0"}."""
    divided = [re.split(r"\s*=\s*", part, maxsplit=1) for part in _parts(" ".join((text or "").split()))]
    return {re.findall(r"\w+", left.partition("[")[0])[-1]: (right[0] if right else None) for left, *right in divided}


def _former(attributes: str) -> "dict[str, str]":
    """Of `[[formerly("S=stride, P=padding")]]` {"S": "stride", "P": "padding"}."""
    return dict(re.findall(r"(\w+)\s*=\s*(\w+)", " ".join(re.findall(r'\[\[formerly\((.*?)\)\]\]', attributes))))


def _also(attributes: str) -> "list[str]":
    """Of `[[also("mm, bmm")]]` the two."""
    return re.findall(r"\w+", " ".join(re.findall(r'\[\[also\("(.*?)"\)\]\]', attributes)))


def _layouts(attributes: str, name: str) -> "dict[str, str]":
    """Of `[[layout("channels_last, channels_first=conv2d_nchw")]]` {"channels_last": "conv2d", "channels_first":
    "conv2d_nchw"}."""
    words = re.findall(r"(\w+)(?:=(\w+))?", "".join(re.findall(r'\[\[layout\("(.*?)"\)\]\]', attributes)))
    return {layout: function or name for layout, function in words}


@functools.cache
def _headings() -> "dict[str, dict[str, _Heading]]":
    """Of each function, by file: two for `mean`, one for most."""
    found: "dict[str, dict[str, _Heading]]" = {}
    for family, text in _texts().items():
        # a function without a comment is described by that of the one before it
        said = ""
        for comment, attributes, heading, name, parameters, inputs in _HEADING.findall(text):
            lines = [line[2:].removeprefix(" ") for line in comment.splitlines()]
            said = "\n".join(itertools.takewhile(lambda line: line != "==", lines)).strip() or said
            found.setdefault(name, {})[family] = _Heading(
                family,
                name,
                " ".join(heading.split()),
                said,
                _defaults(inputs),
                _defaults(parameters),
                re.findall(r"\w+", heading.rpartition("->")[2]),
                _former(attributes),
                _also(attributes),
                _layouts(attributes, name),
                re.findall(r'\[\[ask\("(\w+)"\)\]\]', attributes),
                "[[deprecated" in attributes,
            )
    return found


@functools.cache
def _orders() -> "dict[str, _Heading]":
    """What no heading of Tile says for all ranks and numbers of tensors."""
    found = {
        name: _Heading(
            "",
            name,
            "%s%s(%s) -> (Y)"
            % (name, "<%s>" % ", ".join(parameters) if parameters else "", ", ".join(_inputs_of_call(name))),
            _texts_of_calls.ABOUT[name],
            _inputs_of_call(name),
            parameters,
            ["Y"],
            {},
            [],
            {},
            [],
            False,
        )
        for name, parameters in _texts_of_calls.CALLS.items()
    }
    return {**found, **{other: found[own] for other, own in _texts_of_calls.ALSO.items()}}


def _inputs_of_call(name: str) -> "dict[str, str | None]":
    return _texts_of_calls.INPUTS.get(name, {"X": None})


@functools.cache
def _others() -> "dict[str, _Heading]":
    """Each function by what others call it: `mm` is matmul."""
    return {
        other: heading for families in _headings().values() for heading in families.values() for other in heading.also
    }


class Function(Program):
    """A function of std/, whose compile-time parameters a call may give: `tilec.std.conv2d(I, K, stride=2)`. Each set
    of values is compiled once, and 128 are kept.
    vjp() takes them too. Other derivatives and what pickle makes of it have the usual values: `tilec.std.load("conv2d",
    define={"stride": 2}).grad()` has others.
    """
    _heading: _Heading

    def __call__(self, /, *arguments: typing.Any, **named: typing.Any) -> typing.Any:
        if self._is_meant(arguments, named, _OF_CALLS):
            return super().__call__(*arguments, **named)
        return self._heading.called(arguments, named)

    def _is_meant(self, arguments: tuple, named: dict, known: typing.Collection = ()) -> bool:
        """Is the function's own text with the usual values what a call means?"""
        return (
            len(arguments) <= len(self.inputs)
            and all(name in self.inputs or name in known for name in named)
            and not self._heading.depends_on(arguments or tuple(named[n] for n in self.inputs if n in named))
        )

    def _meant(self, arguments: tuple, named: dict) -> "tuple[Program, tuple, dict]":
        """The program for a call of tilec.torch.function, and its inputs."""
        return (self, arguments, named) if self._is_meant(arguments, named) else self._heading.meant(arguments, named)

    def vjp(
        self, /, *arguments: typing.Any, wrt: typing.Any = None, of: typing.Any = None, **named: typing.Any
    ) -> typing.Any:
        if self._is_meant(arguments, named):
            return super().vjp(*arguments, wrt=wrt, of=of, **named)
        return self._heading.pulled(arguments, named, wrt, of)

    __call__._torchdynamo_disable = True                      # type: ignore[attr-defined]  # as Program's
    __call__._torchdynamo_disable_msg = Program.__call__._torchdynamo_disable_msg  # type: ignore[attr-defined]


class Incomplete:
    """A function of std/ whose compile-time parameters have no usual value: a call gives them by name,
    `tilec.std.pad(X, before=1, after=2)`."""

    def __init__(self, heading: _Heading):
        self._heading, self.name = heading, heading.name

    def __repr__(self) -> str:
        return "<tilec.std function %s>" % self._heading.text

    def __call__(self, /, *arguments: typing.Any, **named: typing.Any) -> typing.Any:
        return self._heading.called(arguments, named)

    def _meant(self, arguments: tuple, named: dict) -> "tuple[Program, tuple, dict]":
        return self._heading.meant(arguments, named)

    def vjp(
        self, /, *arguments: typing.Any, wrt: typing.Any = None, of: typing.Any = None, **named: typing.Any
    ) -> typing.Any:
        return self._heading.pulled(arguments, named, wrt, of)

    def __getattr__(self, name: str) -> typing.NoReturn:
        if hasattr(Program, name) and not name.startswith("_"):
            raise AttributeError(
                "`%s` has compile-time parameters that need a value: tilec.std.load(\"%s\", define={…}).%s"
                % (self.name, self.name, name)
            )
        raise AttributeError("a function of std/ has no attribute %r" % name)


def _source(family: str) -> "tuple[str, str]":
    """The text and its name. Beside `<std/…>` lies nothing, so the imports are of the library, whatever the working
    folder holds."""
    return re.sub(r'^import "(?!std/)', 'import "std/', _texts()[family], flags=re.M), "<std/%s.tile>" % family


@functools.cache
def _file(family: str) -> _File:
    return _File.parsed(*_source(family), ())


def _compiled(file: _File, function: str, define: "dict[str, typing.Any]", kind: "type[Program]") -> Program:
    """One for all, so tilec.options() is none of it."""
    options = contextvars.Context().run(
        _chosen, target=None, threads=None, checked=None, kernels=None, room=None, cache=None
    )
    return file.compile(_Recipe.given(function, define, None, None, options), (), kind)


def _usual(family: str, function: str, define: "dict[str, typing.Any]", kind: "type[Program]") -> Program:
    return _compiled(_file(family), function, define, kind)


@functools.lru_cache(128)
def _of_text(text: str, function: str) -> Program:
    return _compiled(_File.parsed(text, "<std:%s>" % function, ()), function, {}, Program)


@functools.lru_cache(128)
def _with_parameters(family: str, function: str, values: "tuple[tuple[str, typing.Any], ...]") -> Program:
    return _usual(family, function, dict(values), Program)


def _described_as(name: str) -> "list[str]":
    """Functions whose comment says `torch.NAME`, `np.NAME` or `ONNX NAME`."""
    said = re.compile(r"(?:\.|\bONNX )%s\b" % re.escape(name))
    return [
        own
        for own, families in _headings().items()
        if any(said.search(heading.comment) for heading in families.values())
    ][:5]


def _heading(name: str) -> _Heading:
    """That of a function; `statistics.mean` says its file too."""
    family, _, function = name.rpartition(".")
    families = _headings().get(function, {})
    if not families and function in _others():
        families = {_others()[function].family: _others()[function]}
    if not family and families:
        family = next(iter(families)) if len(families) == 1 else _PLAIN.get(function, "")
    if family in families:
        return families[family]
    if families:
        raise AttributeError(
            "std/%s.tile has no `%s`: write %s"
            % (family, function, " or ".join("tilec.std.load(\"%s.%s\")" % (each, function) for each in families))
        )
    why = _calls.instead_of(function)
    if why:
        raise AttributeError("std/ has no function `%s`: %s" % (name, why))
    known = (*_headings(), *_others())
    near = _nearest(function, tuple(_headings()))
    parts = (
        [other for other in sorted(known) if function.lower() in other and other != near][:5]
        if len(function) > 2
        else []
    )
    near = near or (None if parts else _nearest(function, tuple(_others())))
    described = _described_as(function) if function else []
    meant = " or ".join("`%s`" % other for other in described or ([near] if near else []) + parts)
    hint = "see %s, whose comment names it; " if described else "did you mean %s? " if meant else ""
    raise AttributeError(
        "std/ has no function `%s`; %sdir(tilec.std) lists them" % (name, hint % meant if hint else "")
    )


def load(name: str, **options: typing.Any) -> Program:
    """A function of std/ with options of tilec.compile(): define=, target=, size=, threads=, checked= …
    "statistics.mean" is that of one file, where several have the name.
    """
    if not isinstance(name, str):
        raise TypeError("the name of a function is a str, not a %s" % type(name).__name__)
    if "function" in options or "name" in options:
        raise TypeError("function= and name= are said by the first argument")
    heading = _heading(name)
    if heading.layouts and "layout" in (options.get("define") or {}):
        other, options["define"] = heading.in_layout((), options["define"])
        heading = _heading(other)
    text, title = _source(heading.family)
    program = _compile(text, name=title, **{**options, "function": heading.name})
    program._heading = heading
    return heading.describe(program)


@functools.cache
def _made(name: str) -> "Program | Incomplete":
    """Not among the names of this module, where `all` and `round` mean Python's."""
    heading = _orders().get(name) or _heading(name)
    if not heading.family or None in heading.parameters.values():
        return heading.describe(Incomplete(heading))
    found = _usual(heading.family, heading.name, {}, Function)
    found._heading = heading
    return heading.describe(found)


def __getattr__(name: str) -> "Program | Incomplete":
    if name.startswith("_"):
        raise AttributeError("module 'tilec.std' has no attribute %r" % name)
    return _made(name)


def __dir__() -> "list[str]":
    own = [name for name, families in _headings().items() if len(families) == 1 or name in _PLAIN]
    return sorted([*own, *_others(), *_orders()])
