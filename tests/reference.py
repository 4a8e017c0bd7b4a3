"""Writes the reference pages, from what they are the reference of.

docs/reference/c.md        the header: sections, comments, declarations, in its order
docs/reference/python.md   signatures and docstrings of what the package shows: read, not imported, so PyTorch and JAX need not be there

tests/house.py looks whether they are what would be written now.
"""

import ast
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python/tilec"
SECTION = re.compile(r"/\* -{4} (.*?) -{4,} \*/")
NOTE = re.compile(r"/\*(?:(?!\*/).)*\*/\n?", re.S)


def comment_text(comment):
    """What a comment says, without its marks."""
    body = comment.strip()[2:-2]
    return textwrap.dedent("\n".join(re.sub(r"^ \* ?", "", line) for line in (" " + body.strip()).splitlines())).strip()


def as_prose(text):
    """A comment as Markdown: indented lines are code, ` - ` begins an item; names in code style stay as they are."""
    lines, code = [], False
    for line in text.splitlines():
        indented = line.startswith("    ")
        if indented != code and line.strip():
            blank = bool(lines) and not lines[-1]
            lines[len(lines) - blank:] = ["```", ""] if code else ["", "```c"]
            code = indented
        lines.append(line[4:] if code and line.strip() else re.sub(r"^ +- ", "- ", line))
    return "\n".join(lines + ["```"] * code)


def header_parts(text):
    """(comment, declaration) pairs of a section; either may be empty."""
    at, note = 0, ""
    while at < len(text):
        found = NOTE.match(text, at)
        if found:
            if note:
                yield note, ""
            note, at = comment_text(found[0]), found.end()
        elif text[at] == "\n":
            if note:
                yield note, ""
            note, at = "", at + 1
        else:
            end = declaration_end(text, at)
            yield note, text[at:end].rstrip()
            note, at = "", end


def declaration_end(text, at):
    """Behind the last of the declarations that stand together, from `at`: the first empty line or comment outside of
    braces."""
    depth = 0
    for line in text[at:].splitlines(True):
        if depth == 0 and (not line.strip() or line.startswith("/*")):
            break
        depth += line.count("{") - line.count("}")
        at += len(line)
    return at


def c_page():
    text = (ROOT / "include/tilec/tilec.h").read_text()
    start = text.index("/*")
    manual = comment_text(NOTE.match(text, start)[0])
    lines = [
        "# C",
        "",
        "Written by `tests/reference.py` from [`include/tilec/tilec.h`](../../include/tilec/tilec.h).",
        "",
        as_prose(manual),
    ]
    body = text[text.index("#define TILEC_VERSION_MAJOR"): text.rindex("#ifdef __cplusplus")]
    parts = SECTION.split(body)
    for title, section in zip(["Version", *parts[1::2]], parts[0::2]):
        lines += ["", "## %s" % title]
        for note, declaration in header_parts(section):
            if note:
                lines += ["", as_prose(note)]
            if declaration:
                lines += ["", "```c", re.sub(r"^TILEC_API ", "", declaration, flags=re.M), "```"]
    return "\n".join(lines) + "\n"


def is_public(name):
    return not name.startswith("_") or name in ("__call__",)


def signature(node, name):
    """Of a function or method, as it is called: without `self`, with defaults."""
    arguments = node.args
    if arguments.posonlyargs and arguments.posonlyargs[0].arg == "self":
        arguments.posonlyargs = arguments.posonlyargs[1:]
    elif arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    returns = " -> %s" % ast.unparse(node.returns).strip("'\"") if node.returns else ""
    return "%s(%s)%s" % (
        name,
        re.sub(r"^/, ", "", ast.unparse(arguments)).replace("_typing.", "").replace("typing.", ""),
        returns.replace("typing.", "").replace("_Any", "Any"),
    )


def python_entries(path, names=None):
    """(heading, signature or "", docstring) of what a file shows: what `__all__` or `names` lists, else what has no
    underscore."""
    for node in ast.parse(path.read_text()).body:
        if (
            not isinstance(node, (ast.FunctionDef, ast.ClassDef))
            or not is_public(node.name)
            or (names is not None and node.name not in names)
        ):
            continue
        said = ast.get_docstring(node)
        if isinstance(node, ast.FunctionDef):
            if said:
                yield 3, node.name, signature(node, node.name), said
            continue
        yield 3, node.name, "class %s" % node.name, said or ""
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and is_public(inner.name) and ast.get_docstring(inner):
                is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in inner.decorator_list)
                called = node.name if inner.name == "__call__" else "%s.%s" % (node.name, inner.name)
                yield 4, called, called if is_property else signature(inner, called), ast.get_docstring(inner)


def shown_by_package():
    assigned = next(
        node
        for node in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return [*ast.literal_eval(assigned.value), "load_ipython_extension"]


MODULES = (  # heading, files, names: None is all
    (
        "tilec",
        ("__init__.py", "_source.py", "_program.py", "_run.py", "_stages.py", "_package.py", "_pair.py"),
        shown_by_package(),
    ),
    ("Errors", ("errors.py",), shown_by_package()),
    ("tilec.std", ("std.py",), None),
    (
        "tilec.torch",
        ("torch.py", "_torch_function.py", "_torch_op.py"),
        ("function", "Function", "op", "Op", "module", "Module", "replace", "Report"),
    ),
    ("tilec.jax", ("jax.py",), ("op", "Op")),
)


def python_page():
    lines = [
        "# Python",
        "",
        "Written by `tests/reference.py` from the docstrings of [`python/tilec`](../../python/README.md).",
    ]
    for title, files, names in MODULES:
        first = ast.get_docstring(ast.parse((PACKAGE / files[0]).read_text()), clean=False) or ""
        lines += ["", "## %s" % title, "", as_prose(first).replace("```c", "```py")]
        entries = [entry for file in files for entry in python_entries(PACKAGE / file, names)]
        if names is not None:                              # in their order, methods behind their class
            entries.sort(key=lambda entry: names.index(entry[1].partition(".")[0]))
        for level, name, called, said in entries:
            lines += [
                "",
                "%s %s" % ("#" * level, name),
                "",
                "```py",
                called,
                "```",
                "",
                as_prose(said).replace("```c", "```py"),
            ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def pages():
    folder = ROOT / "docs/reference"
    return {folder / "c.md": c_page(), folder / "python.md": python_page()}


def stale():
    return [
        "%s is not what tests/reference.py writes now: run it" % path.relative_to(ROOT)
        for path, text in pages().items()
        if not path.exists() or path.read_text() != text
    ]


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)
