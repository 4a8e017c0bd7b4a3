"""Writes docs/std/: a page for each file of std/, from its comments and its text, with what `tilec` says of it.

    std_reference.py [TILEC] [FAMILY ...]     which pages differ from what would be written now
    std_reference.py … --update               writes them
    std_reference.py … --lacking              which comments lack a case, or the name that another library has for the function

A function's comment says what it is (required), what PyTorch, NumPy or others call it (`torch.…`, `np.…`, `ONNX Gemm`), and its cases (docs/testing.md).
One without a comment is described by that of the function before it, whose cases name it (`function: NAME`). The first case that gives values is
the page's example: the command is run here, by the interpreter, and `tilec test` compares the case on the CPU. Costs are what `tilec explain`
counts for the example's shapes.
"""

import argparse
import concurrent.futures
import functools
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/std"
HEADING = re.compile(
    r"^(function|gradient|tangent)\s+((\w+)(?:<([^>]*)>)?\s*\(([^{]*?)\)\s*->\s*\(([^{]*?)\))\s*\{", re.M
)
LIBRARY = re.compile(r"\b(?:torch\w*|np|numpy|scipy|tf|jax|optax|einops)(?:\.\w+)+(?:\((?:[^()]|\([^()]*\))*\))?")
ONNX = re.compile(r"\bONNX(?:'s)? ([A-Z]\w+)")
WORK = re.compile(r"^  work: (\S+) operations", re.M)
MOVED = re.compile(r"^  in all: .*?; (\S+ \S*B) must move", re.M)
TOLD = re.compile(r"(?:error\[\w+\]|tilec:) .*")


class Case:
    """The values of one case of a comment, and what has to be defined for it."""

    def __init__(self, defines, random, values):
        self.defines, self.random, self.values = defines, random, values


class Function:
    def __init__(self, name, heading, parameters, inputs, results, comment, owner, text, attributes):
        self.name, self.heading, self.results, self.text = name, " ".join(heading.split()), names_in(results), text
        self.inputs, self.parameters = pieces(inputs), pieces(parameters or "")
        self.also = re.findall(r"\w+", " ".join(re.findall(r'\[\[also\("(.*?)"\)\]\]', attributes)))
        said = "".join(re.findall(r'\[\[layout\("(.*?)"\)\]\]', attributes))
        self.layouts = re.findall(r"(\w+)(?:=(\w+))?", said)  # its own order of dimensions, then who reads others
        self.goes = "[[deprecated" in attributes
        prose, _, cases = comment.partition("\n==\n")
        self.prose, self.cases = prose.strip(), cases_of(cases, name, owner)

    def case(self):
        """The example: with written values where there is one, and the usual parameters where that is possible."""
        return min(self.cases, key=lambda case: (case.random, len(case.defines)), default=None)


def pieces(text):
    """What stands between commas outside of brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|[^,\[{])+", text) if part.strip()]


def names_in(text):
    """Of `f32 A[M, N], B[N] = 1`, A and B."""
    return [re.findall(r"\w+", re.split(r"[\[=]", part)[0])[-1] for part in pieces(text)]


def cases_of(text, function, owner):
    """Those that give values and end well, of the function itself. `owner`: the function right below, whose cases need
    not name it."""
    found, defines, of = [], {}, owner
    words = re.finditer(
        r"^(?:(?P<begins>==)$|function: (?P<function>\w+)|define:(?P<define>.*)|error:.*(?P<error>)|.*?(?P<random>random )?input \{(?P<values>[^}]*)\})",
        text,
        re.M,
    )
    for word in words:
        if word["begins"] is not None:
            defines, of = {}, owner
        elif word["function"] is not None:
            of = word["function"]
        elif word["define"] is not None:
            defines = dict(part.strip().split("=", 1) for part in word["define"].split(",") if "=" in part)
        elif word["error"] is not None:
            found = found[:-1]
        elif of == function:
            found.append(Case(defines, word["random"] is not None, values_in(word["values"])))
    return found


def values_in(text):
    """Of `X=2x2=[0 1] [2 3] N=2` {"X": "2x2=[0 1][2 3]", "N": "2"}."""
    found, name = {}, ""
    for part in re.findall(r"(?:\[[^\]]*\]|[^\s\[])+", text):
        begins = re.match(r"(\w+)=", part)
        name = begins[1] if begins else name
        found[name] = found.get(name, "") + " ".join(part[begins.end() if begins else 0:].split())
    return found


def body_end(text, at):
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0 and text[end] == "}":
            return end + 1
    return len(text)


def comment_above(text, at):
    """Between it and the heading attributes may stand."""
    lines = []
    above = reversed(text[:at].splitlines())
    for line in itertools.dropwhile(lambda line: line.startswith("[["), above):
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(reversed(lines)).strip()


def attributes_above(text, at):
    """What stands between it and the comment."""
    return " ".join(itertools.takewhile(lambda line: line.startswith("[["), reversed(text[:at].splitlines())))


def functions_of(text):
    """In their order. A function's text has the derivatives that it carries."""
    found, shared, owner = {}, "", ""
    for heading in HEADING.finditer(text):
        role, whole, name, parameters, inputs, results = heading.groups()
        body = text[heading.start():body_end(text, heading.end() - 1)]
        if role != "function":
            if name in found:
                found[name].text += "\n\n" + body
            continue
        comment = comment_above(text, heading.start())
        shared, owner = (comment, name) if comment else (shared, owner)
        attributes = attributes_above(text, heading.start())
        found[name] = Function(name, whole, parameters, inputs, results, shared, owner, body, attributes)
    return list(found.values())


def intro(text):
    """The comment on top of the file."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines).strip()


MADE = ("ones:", "zeros:", "arange:", "random:")
NUMBER = re.compile(r"-?[\d.]+(?:e[-+]?\d+)?")


def form_of(value, declared, whole):
    """Of a value of a case, what a command that runs nothing takes: 2x2xf32. A whole number has none where it is a
    size, or the type `whole`."""
    if NUMBER.fullmatch(value):
        return whole and (declared or whole) if value.isdigit() else declared or "f32"
    declared = declared or "f32"
    value = value[value.index(":") + 1:] if value.startswith(MADE) else value
    value = re.split(r"[=:\[]", value)[0]
    return value + "x" + declared if value.isdigit() else value


def forms(function, case, whole, valued=False):
    """Words and options for commands that run nothing. `whole`: the type of whole numbers, None where they are sizes.
    `valued`: they have a type and a value, which a requirement reads."""
    declared = {
        names_in(each)[0]: (re.match(r"(bool|[uif]\d+|bf16) ", each) or [None, None])[1] for each in function.inputs
    }
    found = {name: form_of(value, declared[name], whole) for name, value in case.values.items() if name in declared}
    numbers = [
        "%s=%s" % (name, case.values[name])
        for name, form in found.items()
        if form is None or (valued and form == whole)
    ]
    return (
        ["%s=%s" % pair for pair in found.items() if pair[1] is not None]
        + (["--size", ",".join(numbers)] if numbers else [])
        + defined(case)
    )


def defined(case):
    return ["--define", ",".join("%s=%s" % pair for pair in case.defines.items())] if case.defines else []


def values(function, case):
    """Words and options for `run`. A shape alone is filled at random: `64x33xf32:0..9` of a case is
    `random:64x33xf32:0..9` of a command."""
    known = names_in(", ".join(function.inputs))
    alone = {
        name: case.random
        and "[" not in value
        and not value.startswith(MADE)
        and not NUMBER.fullmatch(value)
        and "/" not in value
        for name, value in case.values.items()
    }
    return [
        "%s=%s%s" % (name, "random:" if alone[name] else "", value)
        for name, value in case.values.items()
        if name in known
    ] + defined(case)


def quoted(word):
    return "'%s'" % word if re.search(r"[^\w=:.,/+-]", word) else word


class Asked:
    """What tilec says, in a folder that has nothing else."""

    def __init__(self, tilec, folder):
        self.tilec, self.folder = tilec, folder
        self.env = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8", TILEC_THREADS="1", TILEC_CACHE="off")

    def __call__(self, *words):
        done = subprocess.run(
            [self.tilec, *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=600,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace")


def cost(asked, word, words, more):
    status, text = asked("explain", word, *words, "--target", "cpu:x86-64-v3", *more)
    moved = MOVED.search(text)
    if status or not moved:
        told = TOLD.search(text)
        return None, told[0] if told else text.strip()[-200:]
    return "%d operations, %s" % (sum(int(each.replace(",", "")) for each in WORK.findall(text)), moved[1]), ""


def example(function, word, asked, faults):
    case = function.case()
    if case is None:
        return ["No case of its own."]
    words = values(function, case)
    command = ["run", word, *words]
    status, text = asked(*command, "--target", "reference")
    if status:
        faults.append("%s: its example fails:\n$ tilec %s\n%s" % (function.name, " ".join(map(quoted, command)), text))
    text = re.sub(r"^  .*\n(?:  .*\n)*", "  …\n", text, flags=re.M) if case.random or text.count("\n") > 24 else text
    lines = ["```console", "$ tilec " + " ".join(map(quoted, command)), text.rstrip("\n"), "```"]
    for whole, valued in ((None, False), ("f32", False), ("i64", False), ("i64", True)):
        counted_for = forms(function, case, whole, valued)
        forward, told = cost(asked, word, counted_for, [])
        if forward:
            break
    else:
        faults.append(
            "%s: `tilec explain` does not take its example %s: %s" % (function.name, " ".join(counted_for), told)
        )
        return lines
    gradient, told = cost(asked, word, counted_for, ["--grad"])
    if not gradient and "error[E03" not in told:           # the codes of derivatives
        faults.append("%s: its gradient fails: %s" % (function.name, told))
    return [*lines, "", "Forward: %s. %s." % (forward, "Gradient: " + gradient if gradient else "It has no gradient")]


def shapes(function):
    """Of inputs by the heading, of results by the statements that make them."""
    made = []
    for name in function.results:
        target = re.search(r"^\s*(?:\w+ )?%s\[[^:\]]*:([^\]]*)\]" % re.escape(name), function.text, re.M)
        made.append("%s[%s]" % (name, target[1].strip()) if target else name)
    return "`%s` → `%s`" % (", ".join(function.inputs), ", ".join(made))


def first_sentence(prose):
    """What a table has room for."""
    text = " ".join(prose.split())
    while named := LIBRARY.match(text) or ONNX.match(text):  # which another column has
        text = text[named.end():].lstrip(":., ")
    end = re.search(r"(?<=[^.])[.:;](?= [A-Z]|$)", text)
    return (text[:end.start()] if end else text).replace("|", "\\|")


def as_paragraphs(prose):
    """Comments are prose, or columns that an indent marks."""
    out = []
    for part in re.split(r"\n\s*\n", prose):
        columns = any(line.startswith("  ") for line in part.splitlines())
        if not columns:
            out.append(part)
            continue
        lines = part.splitlines()
        block = [k for k, line in enumerate(lines) if line.startswith("  ")]
        first, last = block[0], block[-1] + 1
        out += [
            text
            for text in (
                "\n".join(lines[:first]),
                "```\n%s\n```" % "\n".join(lines[first:last]),
                "\n".join(lines[last:]),
            )
            if text
        ]
    return "\n\n".join(out)


def in_other_layouts(function):
    if not function.layouts:
        return []
    (own, _), *others = function.layouts
    said = ["`layout=%s` of a call by name is [`%s`](%s)" % (name, other, place_of(other)) for name, other in others]
    return ["Reads `%s`; %s." % (own, ", ".join(said)), ""]


@functools.cache
def place_of(name):
    """The page of a function of std/ and where it stands there."""
    files = [p for p in (ROOT / "std").glob("*.tile") if re.search(r"^function %s\b" % name, p.read_text(), re.M)]
    return "%s.md#%s" % (files[0].stem, name)


def page(family, asked, words, faults):
    text = (ROOT / "std" / (family + ".tile")).read_text()
    functions = functions_of(text)
    lines = [
        "# std/%s.tile" % family,
        "",
        "Written by `tests/std_reference.py` from [`std/%s.tile`](../../std/%s.tile). `import \"std/%s.tile\";` makes these functions callable, "
        "`import \"std/%s.tile\" as %s;` as `%s.NAME`." % (family, family, family, family, family, family),
        "",
        as_paragraphs(intro(text)),
    ]
    if not functions:
        return "\n".join(
            [*lines, "", "It has no functions of its own: it passes on those of the files that it imports.", ""]
        )
    lines += ["", "| function | | elsewhere |", "|---|---|---|"]
    for each in functions:
        known = ["std:" + name for name in each.also]
        known += dict.fromkeys(re.sub(r"\(.*", "", name, flags=re.S) for name in LIBRARY.findall(each.prose))
        known += ["ONNX " + name for name in dict.fromkeys(ONNX.findall(each.prose))]
        lines.append(
            "| [`%s`](#%s) | %s | %s |"
            % (
                each.name,
                each.name.lower(),
                ("*Goes.* " if each.goes else "") + first_sentence(each.prose),
                ", ".join("`%s`" % name for name in known),
            )
        )
    for each in functions:
        if not each.prose:
            faults.append("std/%s.tile: `%s` has no comment that says what it is" % (family, each.name))
        lines += [
            "",
            "## %s" % each.name,
            "",
            as_paragraphs(each.prose),
            "",
            *(["Goes with the next version: [W0221](../errors/W0221.md) says what to write.", ""] if each.goes else []),
            shapes(each),
            "",
            *in_other_layouts(each),
            "```tile",
            each.text,
            "```",
            "",
            *example(each, words(family, each.name), asked, faults),
        ]
    return "\n".join(lines) + "\n"


def lacking(families):
    for family in families:
        for each in functions_of((ROOT / "std" / (family + ".tile")).read_text()):
            what = [
                text
                for text, holds in [
                    ("a comment", each.prose),
                    ("a case", each.cases),
                    ("another library's name", LIBRARY.search(each.prose) or ONNX.search(each.prose)),
                ]
                if not holds
            ]
            if what:
                print("std/%s.tile: %s: no %s" % (family, each.name, ", no ".join(what)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--lacking", action="store_true")
    options = parser.parse_intermixed_args()
    named = bool(options.words) and os.sep in options.words[0]
    tilec = pathlib.Path(options.words[0] if named else ROOT / "build/cli/tilec").resolve()
    all_families = sorted(path.stem for path in (ROOT / "std").glob("*.tile"))
    families = options.words[named:] or all_families
    unknown = [each for each in families if each not in all_families]
    if unknown:
        sys.exit("std/ has no file %s.tile; there are %s" % (unknown[0], " ".join(all_families)))
    if options.lacking:
        return lacking(families)
    owners = {}
    for family in all_families:
        for each in functions_of((ROOT / "std" / (family + ".tile")).read_text()):
            owners.setdefault(each.name, []).append(family)

    def word(family, name):
        return "std:" + (name if len(owners[name]) == 1 else "%s.%s" % (family, name))

    faults, stale = [], []
    with (
        tempfile.TemporaryDirectory(prefix="tilec-std-") as scratch,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        asked = Asked(str(tilec), scratch)
        written = dict(zip(families, pool.map(lambda family: page(family, asked, word, faults), families)))
    index = index_page(all_families) if not options.words[named:] else None
    for name, text in [*written.items(), *([("README", index)] if index else [])]:
        path = PAGES / (name + ".md")
        if path.exists() and path.read_text() == text:
            continue
        if options.update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        else:
            stale.append(
                "%s is not what `python3 tests/std_reference.py %s--update` writes"
                % (path.relative_to(ROOT), name + " " if name in written else "")
            )
    if index and PAGES.exists():
        stale += [
            "%s has no file of std/" % path.relative_to(ROOT)
            for path in sorted(PAGES.glob("*.md"))
            if path.stem not in ("README", "coverage", *all_families)
        ]
    print("\n".join(faults + stale))
    print("%d passed, %d failed" % (len(written) + bool(index) - len(stale), len(faults) + len(stale)))
    sys.exit(bool(faults or stale))


def index_page(families):
    lines = [
        "# The library, function by function",
        "",
        "Written by `tests/std_reference.py`. [std/README.md](../../std/README.md) says what each family is; every function has the shapes that it takes, its text, the names "
        "that PyTorch, NumPy, ONNX and others have for it, an example, and what `tilec explain` counts for the example: operations, and bytes that must move. A gradient counts what it computes again of the function. [coverage.md](coverage.md) says which operators of ONNX and functions of PyTorch they cover.",
        "",
        "| file | functions |",
        "|---|---|",
    ]
    for family in families:
        functions = functions_of((ROOT / "std" / (family + ".tile")).read_text())
        lines.append(
            "| [%s](%s.md) | %s |"
            % (
                family,
                family,
                ", ".join("[`%s`](%s.md#%s)" % (each.name, family, each.name.lower()) for each in functions),
            )
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
