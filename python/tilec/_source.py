"""From a text or a file to programs: compile(), load(), and the functions of a text that has several."""
from __future__ import annotations

import ctypes
import os
import pathlib
import typing
import zlib

from . import _library as _c
from ._arguments import as_path, encoded, fit
from ._grouped import nearest
from ._options import chosen as chosen_options
from ._package import MAGIC, Package
from ._program import Program, plan_text
from ._recipe import Recipe
from .errors import DeviceError, Diagnostic, check, hear, said as last_said


class File:
    """A text with its imports, parsed and checked once for all its functions."""

    def __init__(self, handle: int, name: str):
        self._handle, self.name = handle, name
        self.said = last_said()
        self.names = tuple(
            _c.lib.tilec_file_function_name(handle, k).decode() for k in range(_c.lib.tilec_file_function_count(handle))
        )

    @staticmethod
    def parsed(text: str, name: str, include: "typing.Sequence[bytes]") -> "File":
        # bytes of a file that are no UTF-8: the compiler says where
        data = text.encode(errors="surrogateescape")
        handle = ctypes.c_void_p()
        check(
            _c.lib.tilec_parse(
                data,
                len(data),
                encoded("name=", name),
                (ctypes.c_char_p * max(1, len(include)))(*include),
                len(include),
                ctypes.byref(handle),
            )
        )
        return File(_c.made(handle), name)

    @staticmethod
    def again(texts: bytes, name: str) -> "File":
        """Of what texts() gave, in this process or another."""
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_parse_saved(texts, len(texts), ctypes.byref(handle)))
        return File(_c.made(handle), name)

    def __del__(self):
        if _c is not None and getattr(self, "_handle", None):
            _c.lib.tilec_file_destroy(self._handle)

    def texts(self) -> bytes:
        handle = ctypes.c_void_p()
        check(_c.lib.tilec_file_texts(self._handle, ctypes.byref(handle)))
        return _c.taken(handle)

    def compile(self, recipe: Recipe, heard: "tuple[Diagnostic, ...]", kind: "type[Program]" = Program) -> Program:
        handle, options = ctypes.c_void_p(), recipe.as_c()
        check(_c.lib.tilec_file_compile(self._handle, ctypes.byref(options), ctypes.byref(handle)))
        return kind(_c.made(handle), recipe, heard=heard)


class Module:
    """A text with several functions: each is an attribute, compiled when first used. The text and what it imports are
    read once, so all are of one version of the files. May be used from several threads at once, copied and pickled.
    """

    def __init__(self, file: File, recipe: Recipe, heard: "tuple[Diagnostic, ...]"):
        self._file, self._recipe, self._heard, self._names = file, recipe, heard, frozenset(file.names)

    def __repr__(self) -> str:
        return "<tilec.Module of %s: %s>" % (self._file.name, ", ".join(self._file.names))

    def _repr_html_(self) -> str:
        from ._notebook import module_html                    # few are in one
        return module_html(self)

    def __dir__(self) -> "list[str]":
        return sorted(self._names)

    def __getattr__(self, name: str) -> Program:
        if name.startswith("_") or name not in self._names:
            near = None if name.startswith("_") else nearest(name, self._names)
            there = (
                ""
                if name.startswith("_")
                else "; %sthere are %s" % ("did you mean `%s`? " % near if near else "", ", ".join(self._file.names))
            )
            raise AttributeError("no function `%s`%s" % (name, there))
        # another thread may have been faster
        return self.__dict__.setdefault(name, self._file.compile(self._recipe.of(name), self._heard))

    def __call__(self, /, *arguments: typing.Any, **named: typing.Any) -> typing.NoReturn:
        raise TypeError("the text has several functions: %s; call one of them by name" % ", ".join(self._file.names))

    def __copy__(self) -> "Module":
        return self

    def __deepcopy__(self, memo: dict) -> "Module":
        return self

    def __reduce__(self) -> tuple:
        return _module_again, (self._file.texts(), self._file.name, self._recipe, self._heard)


def _module_again(texts: bytes, name: str, recipe: Recipe, heard: "tuple[Diagnostic, ...]") -> Module:
    return Module(File.again(texts, name), recipe, heard)


def program_again(texts: bytes, recipe: Recipe, heard: "tuple[Diagnostic, ...]") -> Program:
    """What pickle made of a program, as one. Its warnings were raised where it was pickled."""
    return recipe.followed(File.again(texts, "").compile(recipe.first(), heard))


def compile(
    text: str,
    *,
    function: "str | None" = None,
    target: "str | None" = None,
    define: "typing.Mapping[str, float | str] | None" = None,
    size: "typing.Mapping[str, int] | None" = None,
    rank: "typing.Mapping[str, int] | None" = None,
    threads: "int | None" = None,
    include: "typing.Sequence[str | os.PathLike[str]] | None" = None,
    checked: "bool | None" = None,
    kernels: "int | None" = None,
    plan: "str | os.PathLike[str] | None" = None,
    room: "int | None" = None,
    cache: "bool | str | os.PathLike[str] | None" = None,
    name: str = "<text>",
    **unknown: typing.Any,
) -> typing.Any:
    """Compiles a text of Tile to a Program; a text with several named functions, and none asked for, to a Module of
    them.

    Options that are None are those of the innermost tilec.options(), else as said here. target: cpu (usual),
    cpu:x86-64-v3, opencl, opencl:1, cuda, cuda:1, cuda:sm_90a, cuda:math=tf32 or cuda:math=bf16 (f32 may be rounded
    for tensor cores) or reference (the interpreter). define: compile-time parameters, numbers and names of functions or aggregations ({"S":
    2, "F": "relu"}). size: sizes that no input's shape shows. rank: how many dimensions a pack `B...` stands for, where
    no argument of a call tells. threads: of the cpu target, 1 or 0 (usual): the pool of the process. include: folders
    in which imports are looked for, after that of the file and before std/. checked: a call whose gather or scatter
    meets an index out of range raises ShapeError, naming tensor, position, value and bound, instead of clamping it.
    kernels: how many specialisations a program keeps (0, usual: the environment's TILEC_KERNELS, else 128); of more,
    the one that was not used for longest goes. plan: how the function is compiled, as Program.with_plan() takes it.
    room: bytes that vjp() may keep between forward and backward, which makes the rest again (None: what costs more to
    make again than to keep is kept). cache: the folder in which compiled programs are kept for later processes (True,
    usual: the environment's TILEC_CACHE, else ~/.cache/tilec, see include/tilec/tilec.h; False: none). Raises
    ProgramError when the text is at fault, OptionError, a ValueError, for an unknown target; what the compiler warns of
    is raised as ProgramWarning: one code is left out by warnings.filterwarnings("ignore", message=r".*W0210",
    category=tilec.ProgramWarning).
    """
    if unknown:
        raise TypeError(_unknown_options(unknown))
    _check_text(text)
    chosen = chosen_options(
        target=target, include=include, threads=threads, checked=checked, kernels=kernels, room=room, cache=cache
    )
    folders = _folders(chosen.pop("include"))
    # what is wrong with a number is said before what is wrong with the text
    recipe = Recipe.given(function, define, size, rank, chosen)
    return _made(File.parsed(text, name, folders), recipe, plan)


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError("the text of a program is a str, not a %s" % type(text).__name__)
    if _is_path(text):
        raise ValueError("%r is the name of a file, not a program: write tilec.load(%r)" % (text, text))


def _folders(include: "str | os.PathLike[str] | typing.Sequence[str | os.PathLike[str]]") -> "list[bytes]":
    if not isinstance(include, (str, os.PathLike)) and not hasattr(include, "__iter__"):
        raise TypeError("include= is %r, not a path or a sequence of paths" % (include,))
    return [
        os.fsencode(as_path("include=", folder))
        for folder in ([include] if isinstance(include, (str, os.PathLike)) else include)
    ]


def _made(file: File, recipe: Recipe, plan: "str | os.PathLike[str] | None") -> "Program | Module":
    heard = hear((), file.said)
    if recipe.function is None and len(file.names) > 1 and "" not in file.names:
        if plan is not None:
            raise TypeError("plan= is that of one function: write function= too; there are %s" % ", ".join(file.names))
        return Module(file, recipe, heard)
    program = file.compile(recipe, heard)
    return program if plan is None else program.with_plan(plan)


_OPTIONS = (
    "function",
    "target",
    "define",
    "size",
    "rank",
    "threads",
    "include",
    "checked",
    "kernels",
    "plan",
    "room",
    "cache",
    "name",
)


def _unknown_options(unknown: dict) -> str:
    """What is said of options that there are none of: most often they are compile-time parameters or sizes."""
    name, value = next(iter(unknown.items()))
    near = nearest(name, _OPTIONS)
    if near and name.islower():
        return "no option %s=; did you mean %s=?" % (name, near)
    return (
        "no option %s=: a compile-time parameter is given by define={%r: %r}, a size that no input shows by size={%r: %r}"
        % (name, name, value, name, value)
    )


def _is_path(text: str) -> bool:
    """Is it what load() wants? No program is one word."""
    return len(text) < 4096 and not any(mark in text for mark in "\n{;") and text.strip().endswith(".tile")


def load(
    path: "str | os.PathLike[str]",
    *,
    function: "str | None" = None,
    target: "str | None" = None,
    define: "typing.Mapping[str, float | str] | None" = None,
    size: "typing.Mapping[str, int] | None" = None,
    rank: "typing.Mapping[str, int] | None" = None,
    threads: "int | None" = None,
    include: "typing.Sequence[str | os.PathLike[str]] | None" = None,
    checked: "bool | None" = None,
    kernels: "int | None" = None,
    plan: "str | os.PathLike[str] | None" = None,
    room: "int | None" = None,
    cache: "bool | str | os.PathLike[str] | None" = None,
    **unknown: typing.Any,
) -> typing.Any:
    """Compiles a file of Tile; see compile() for the options. Functions of a file that has several are its attributes.
    Of a file that Program.save() or `tilec build` wrote: the Package, for which threads= is the only option.

    A file that was loaded before is compiled again only when something changed: the same path, options, text and texts
    of its imports give the same object, with the kernels that it has. The files are read and parsed each time, and
    bytes are compared, not times. 128 are kept: of more, the one that was not asked for longest goes. From several
    threads at once, each gets a whole one.
    """
    path = pathlib.Path(os.fsdecode(as_path("path", path)))
    given = {
        "function": function,
        "target": target,
        "define": define,
        "size": size,
        "rank": rank,
        "include": include,
        "checked": checked,
        "kernels": kernels,
        "plan": plan,
        "room": room,
        "cache": cache,
        **unknown,
    }
    chosen = chosen_options(
        target=target, include=include, threads=threads, checked=checked, kernels=kernels, room=room, cache=cache
    )
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
        if start == MAGIC or (not start and path.suffix == ".tilec"):
            wrong = sorted(option for option, value in given.items() if value is not None)
            if wrong:
                raise TypeError("%s is compiled already: %s= belong to Program.save()" % (path, "=, ".join(wrong)))
            try:
                return Package(start + file.read(), fit("threads=", chosen["threads"], 0, 4096))
            except DeviceError as fault:
                raise DeviceError(str(fault).replace("`the package`", "`%s`" % path), fault.diagnostics) from None
    if unknown:
        raise TypeError(_unknown_options(unknown))
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    folders = _folders(chosen.pop("include"))
    recipe = Recipe.given(function, define, size, rank, chosen)
    read = File.parsed(text, str(path), folders)
    plan = None if plan is None else plan_text(plan).decode()
    place = (os.path.abspath(path), str(path), plan, recipe.key())
    texts = zlib.compress(read.texts(), 1)                   # equal where the texts are
    # and in again, so that the first is the one not asked for longest
    known = _loaded.pop(place, None)
    if known is None or known[0] != texts:
        known = (texts, _made(read, recipe, plan))
    _loaded[place] = known
    for old in list(_loaded)[:-_MOST_LOADED]:
        _loaded.pop(old, None)
    return known[1]


_MOST_LOADED = 128
# what load() gave, and of which texts. Single operations on a dict: no lock that fork() could leave closed
_loaded: "dict[tuple, tuple[bytes, Program | Module]]" = {}
