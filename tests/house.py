"""The rules of the house that a script can check: house.py [RULE ...].

arrow    a file includes headers of its own folder and of folders to its left only
vendors  Spirit X3, isl, GMP, LLVM, CUDA, NVRTC, OpenCL, CLI11, nlohmann_json, zlib and XLA's FFI stay in the files that may know them
codes    every code declared in the sources has a golden test that shows it and a page in docs/errors
costs    what something costs, or must save, is a number in codegen/model: no other choice of codegen has a fraction or a constant of its own
types    a namespace has one type of a name: of two, the linker mixes the members that the compiler makes
links    a link of a page of Markdown leads to a file, and to a heading that it has
citations  a file that a comment of the sources names is in the repository
rooms    every unit of a folder stands in its README, or in that of the folder around it where it has none
directives  the head of codegen/rewrite/directive.h and docs/errors/E0562.md name every directive of a plan, in the order in which they stand
statements  a line of C++ has one statement, but for a case and what it does; a function that fits on a line may have several
columns  a line of C++, of Python and of prose in Markdown has 120 columns, but for what stands whole: texts, names, links
functions  a function has at most 60 lines, its heading included; a table of data may be longer
classes  a class has at most 250 lines
targets  what the table of targets has stands where users read of them
reference  the pages of docs/reference are what tests/reference.py writes
library  README.md says how many functions std/ has
"""

import pathlib
import re
import sys

import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["lang", "poly", "autodiff", "codegen", "runtime", "cli"]
VENDORS = [  # what is included, which files may
    (r"boost/", r"lang/grammar/.*"),
    (r"isl/", r"poly/(solve|lattice)\.cpp"),
    (r"gmp(xx)?\.h", r"poly/(lattice|recession)\.cpp"),
    (r"llvm(-c)?/", r"codegen/llvm/.*"),
    (r"cuda(\.h|_runtime)", r"runtime/cuda\.cpp"),
    (r"nvrtc\.h", r"runtime/nvrtc\.cpp"),
    (r"CL/", r"runtime/opencl\.cpp"),
    (r"CLI/", r"cli/options\.cpp"),
    (r"nlohmann/", r"cli/(lsp|bench_rows)\.cpp|cli/lsp/json\.h"),
    (r"runtime/xla_ffi\.h", r"runtime/xla\.cpp"),
    (r"zlib\.h", r"runtime/zip\.cpp"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
CODE = re.compile(r'"([EWR]0[1-5][0-9][0-9])"')


# E0515: of a build without LLVM. E0570: our own bugs. E0310: until text can say `gradient`.
NOT_SHOWN = {"E0515", "E0570"}


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cpp", ".h"):
                yield folder, path


def with_tests():
    return [path for _, path in sources()] + [
        path for path in sorted((ROOT / "tests").rglob("*")) if path.suffix in (".cpp", ".h")
    ]


def arrow():
    faults = []
    for folder, path in sources():
        left = FOLDERS[: FOLDERS.index(folder) + 1]
        for header in INCLUDE.findall(path.read_text()):
            owner = header.split("/")[0]
            if "/" in header and owner in FOLDERS and owner not in left:
                faults.append("%s includes %s, which lies to its right" % (path.relative_to(ROOT), header))
    return faults


def vendors():
    faults = []
    for _, path in sources():
        name = str(path.relative_to(ROOT))
        for header in INCLUDE.findall(path.read_text()):
            for pattern, allowed in VENDORS:
                if re.match(pattern, header) and not re.fullmatch(allowed, name):
                    faults.append("%s includes %s, which only %s may" % (name, header, allowed))
    return faults


def codes():
    declared = set()
    for _, path in sources():
        declared |= set(CODE.findall(path.read_text()))
    shown = set()
    for path in (ROOT / "tests/golden").rglob("*.tile"):
        for line in path.read_text().splitlines():
            if line.startswith("//|"):
                shown |= set(re.findall(r"\[([EWR]0[1-5][0-9][0-9])\]", line)) | set(
                    re.findall(r'"code": ?"([EWR]0[1-5][0-9][0-9])"', line)
                )
    # What needs a machine we do not have (a GPU that fails, memory that ends) is shown by a test that names its code.
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".cpp", ".c", ".py") and path.name != "house.py":
            shown |= set(re.findall(r"[EWR]0[1-5][0-9][0-9]", path.read_text()))
    pages = {p.stem for p in (ROOT / "docs/errors").glob("*.md")}
    faults = ["%s has no golden test that shows it" % code for code in sorted(declared - shown - NOT_SHOWN)]
    faults += ["%s has no page docs/errors/%s.md" % (code, code) for code in sorted(declared - pages)]
    faults += [
        "docs/errors/%s.md describes a code that nothing reports" % code
        for code in sorted(pages - declared)
        if CODE.match('"%s"' % code)
    ]
    return faults


def types():
    where = {}
    for _, path in sources():
        space, hidden = "", False
        for line in path.read_text().splitlines():
            if opened := re.match(r"(?:inline )?namespace ([\w:]*) ?\{", line):
                space, hidden = opened[1] or space, not opened[1]
            elif re.match(r"\}  // namespace$", line):
                hidden = False
            elif (
                named := re.match(
                    r"(?:struct|class|union|enum class|enum) (?:\[\[\w+\]\] )?([\w:]+\w)(?: final)?(?: : [^;()]*)? \{",
                    line,
                )
            ) and not hidden:
                where.setdefault((space, named[1]), []).append(str(path.relative_to(ROOT)))
    return [
        "%s::%s is defined in %s" % (space, name, " and ".join(files))
        for (space, name), files in sorted(where.items())
        if len(files) > 1
    ]


# Of numbers with a point, these only change a type or count bytes. What prints (explain, figures) may round as it
# likes.
NO_COST = {"0.0", "1.0", "2.0", "4.0"}
PRINTS = {"explain.cpp", "figures.cpp"}
FRACTION = re.compile(r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)(?![\w.]*\")")
CONSTANT = re.compile(r"constexpr (?:double|float) [^;]*\d|constexpr [^;]*\d;\s*// [^.]*\bcycles\b")


def is_cost(line) -> bool:
    code = re.sub(r'"[^"]*"', '""', line.split("//")[0])
    return bool(CONSTANT.search(line)) or any(number not in NO_COST for number in FRACTION.findall(code))


def costs():
    rooms = [ROOT / "codegen", ROOT / "codegen/choose", ROOT / "codegen/rewrite"]
    files = [
        path
        for room in rooms
        for path in sorted(room.iterdir())
        if path.suffix in (".cpp", ".h") and path.name not in PRINTS
    ]
    return ["%s:%d has a cost of its own: %s" % (path.relative_to(ROOT), n, line.strip()[:80])
            for path in files for n, line in enumerate(path.read_text().splitlines(), 1) if is_cost(line)]


def targets():
    """What the table of targets has stands where users read of them. CPUs are many: one stands for them."""
    table = re.search(
        r"constexpr std::string_view names\[\] = \{(.*?)\};", (ROOT / "runtime/target_hint.cpp").read_text(), re.S
    )[1]
    names = [name for name in re.findall(r'"([^"]+)"', table) if not name.startswith("cpu:")]
    places = ["include/tilec/tilec.h", "python/tilec/_source.py", "docs/errors/E0514.md"]
    return [
        "%s does not say that there is the target %s" % (place, name)
        for place in places
        for name in names
        if not re.search(r"(?<![\w:])%s(?![\w:=])" % re.escape(name), (ROOT / place).read_text())
    ]


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pages():
    rooms = (*FOLDERS, "bench", "docs", "include", "packaging", "python", "samples", "std", "tests")
    return [*ROOT.glob("*.md"), *(page for room in rooms for page in sorted((ROOT / room).rglob("*.md")))]


def links():
    faults = []
    for page in pages():
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose):
            path, _, anchor = link.partition("#")
            to = page.parent / path if path else page
            if re.match(r"\w+:", link):
                continue
            if not to.exists():
                faults.append("%s links to %s, which is not there" % (page.relative_to(ROOT), path))
            elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                faults.append("%s links to %s, which has no such heading" % (page.relative_to(ROOT), link))
    return faults


# A raw string, a string, a character, a comment, a directive of the preprocessor.
NOT_CODE = re.compile(
    r"""R"([^()\s]*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*""",
    re.S | re.M,
)
# What a comment may name although no such file is here: headers of libraries, what a build makes, and what examples
# call a file.
ELSEWHERE = {
    "CL/cl.h",
    "xla/ffi/api/c_api.h",
    "f.h",
    "conv.h",
    "f.tile",
    "ops.tile",
    "lib/ops.tile",
    "add.tile",
    "b.tile",
    "20b.tile",
    "DIR/03_gradient.tile",
    "docs/errors/CODE.md",
}
CITED = re.compile(r"(?<![\w/.$\-{*])((?:[\w\-]+/)*[\w\-]+\.(?:cpp|h|c|py|md|tile))(?![\w/(])")


def citations():
    rooms = [ROOT / name for name in (*FOLDERS, "tests", "std", "samples", "include", "docs", "python", "bench")]
    here = [path.relative_to(ROOT) for room in rooms for path in room.rglob("*") if path.is_file()]
    here += [path.relative_to(ROOT) for path in ROOT.iterdir() if path.is_file()]
    ends = {"/".join(path.parts[k:]) for path in here for k in range(len(path.parts))}
    made = re.findall(r"[\w\-]+\.(?:cpp|h|c)", "".join(path.read_text() for path in ROOT.glob("*/meson.build")))
    known = ends | ELSEWHERE | set(made)
    faults = []
    for path in with_tests():
        text = path.read_text()
        for comment in NOT_CODE.finditer(text):
            if comment[0].startswith(("//", "/*")):
                line = text.count("\n", 0, comment.start()) + 1
                faults += [
                    "%s:%d names %s, which is not in the repository" % (path.relative_to(ROOT), line, name)
                    for name in CITED.findall(comment[0].lstrip("/"))
                    if name not in known
                ]
    return faults


def units_of(room):
    return {path.stem for path in room.iterdir() if path.suffix in (".cpp", ".h", ".c", ".py", ".tile")}


def rooms():
    faults = []
    inner = [page.parent for folder in FOLDERS for page in sorted((ROOT / folder).glob("*/**/README.md"))]
    for room in (*(ROOT / folder for folder in (*FOLDERS, "python", "std")), *inner):
        page = re.sub(r"```.*?```", "", (room / "README.md").read_text(), flags=re.S)
        words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", page))))
        inside = room / "tilec" if room.name == "python" else room
        # A folder without a README stands in that of the room around it.
        silent = [path for path in inside.iterdir() if path.is_dir() and room.name in FOLDERS]
        units = set().union(*map(units_of, (inside, *(path for path in silent if not (path / "README.md").exists()))))
        name = room.relative_to(ROOT)
        faults += ["%s/README.md does not say what %s is" % (name, unit) for unit in sorted(units - words)]
    return faults


def directives():
    header = (ROOT / "codegen/rewrite/directive.h").read_text()
    words = re.findall(r'word = "(\w+)"', header)
    head = re.findall(r"^//   (\w+) ", header, re.M)
    hint = re.search(
        r"hint: directives stand in this order: (.*)", (ROOT / "tests/golden/plan/bad_directives.tile").read_text()
    )[1]
    faults = (
        []
        if head == words
        else ["codegen/rewrite/directive.h describes %s, and has %s" % (", ".join(head), ", ".join(words))]
    )
    if re.findall(r"\w+", hint) != words:
        faults.append("tests/golden/plan/bad_directives.tile has another order than codegen/rewrite/directive.h")
    if hint not in (ROOT / "docs/errors/E0562.md").read_text().replace("`", "").replace("\n", " "):
        faults.append("docs/errors/E0562.md has not the order of E0562's hint: %s" % hint)
    return faults


BLOCK = re.compile(r"\b(?:if|for|while|switch) (?:constexpr )?_ \{[^{}]*;[^{}]*;|\b(?:else|do) \{[^{}]*;[^{}]*;")


def without(innermost, line):
    found = 1
    while found:
        line, found = re.subn(innermost, "_", line)
    return line


def is_crowded(line) -> bool:
    line = without(r"\([^()]*\)", line)                       # part of one statement: a lambda, the head of a loop
    if BLOCK.search(line):
        return True
    line = without(r"\{[^{}]*\}", line)
    return bool(re.search(r";\s*[^\s;})].*;", line)) and not re.match(r"\s*(?:case\b.*:|default:)", line)


def statements():
    return [
        "%s:%d has several statements" % (path.relative_to(ROOT), n)
        for path in with_tests()
        for n, line in enumerate(NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text()).splitlines(), 1)
        if ";" in line and is_crowded(line)
    ]


TEXT = re.compile(r'''"(?:[^"\\\n]|\\.)*"''')
RAW = re.compile(r'''R"([^()\s]*)\(.*?\)\1"''', re.S)
PYTHON_TEXT = re.compile(r"""[rbf]*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
PYTHON_RAW = re.compile(r'''"""(?:[^\\]|\\.)*?"""|\'{3}(?:[^\\]|\\.)*?\'{3}''', re.S)
WHOLE = re.compile(r"`[^`]*`|\[[^\]]*\]\([^)]*\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.S | re.M)
NO_PROSE = re.compile(r"\s*(\||#|<| {4})")
FOREIGN = {"dlpack.h"}                                      # others' text, as they publish it


def too_long(path, text, whole):
    """Lines of more columns than what stands whole in them explains."""
    return [
        "%s:%d has %d columns" % (path.relative_to(ROOT), n, len(line))
        for n, line in enumerate(text.splitlines(), 1)
        if len(line) > 120 and (len(whole.sub("_", line)) > 120 or not whole.search(line))
    ]


def lines_only(m):
    return '""' + "\n" * m[0].count("\n")


def columns():
    faults = []
    for room in (*FOLDERS, "include", "samples", "tests", "bench", "python", "packaging"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".c", ".cpp", ".h", ".hpp") and path.name not in FOREIGN:
                faults += too_long(path, RAW.sub(lines_only, path.read_text()), TEXT)
            elif path.suffix == ".py":
                faults += too_long(path, PYTHON_RAW.sub(lines_only, path.read_text()), PYTHON_TEXT)
    for page in pages():
        if page.parent not in (ROOT / "docs/std", ROOT / "docs/reference"):  # written by scripts
            lines = FENCED.sub(lines_only, page.read_text()).splitlines()
            prose = "\n".join("" if NO_PROSE.match(line) else line for line in lines)
            faults += too_long(page, prose, WHOLE)
    return faults


LONGEST_FUNCTION = 60
LONGEST_CLASS = 250


def spans_of(text):
    """(kind, heading, first line, last line) of each class and function. A lambda belongs to the function around it."""
    code = NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    open_braces, since = [], 0
    for at in (m.start() for m in re.finditer(r"[{};]", code)):
        if code[at] == "{":
            heading = code[since:at]
            first = code.count("\n", 0, since + len(heading) - len(heading.lstrip())) + 1
            kind = "other"
            if re.match(r"\s*(?:inline\s+)?namespace\b|\s*extern\s*$", heading):
                kind = "namespace"
            elif re.search(r"\b(?:class|struct|union)\b[^()]*$", heading):
                kind = "class"
            elif "(" in heading and all(around in ("namespace", "class") for around, _, _ in open_braces):
                kind = "function"
            open_braces.append((kind, " ".join(heading.split()), first))
        elif code[at] == "}":
            kind, heading, first = open_braces.pop()
            if kind in ("class", "function"):
                yield kind, heading, first, code.count("\n", 0, at) + 1
        since = at + 1


def longer_than(most, kind, files):
    return ["%s:%d: `%s` has %d lines" % (path.relative_to(ROOT), first, heading[:60], last - first + 1)
            for path in files for of, heading, first, last in spans_of(path.read_text())
            if of == kind and last - first + 1 > most]


def functions():
    return longer_than(LONGEST_FUNCTION, "function", [path for _, path in sources()])


def classes():
    return longer_than(LONGEST_CLASS, "class", [path for _, path in sources()])


def library():
    there = sum(len(re.findall(r"^function ", path.read_text(), re.M)) for path in (ROOT / "std").glob("*.tile"))
    said = re.findall(r"`std/`, (\d+) functions", (ROOT / "README.md").read_text())
    return (
        []
        if said == [str(there)]
        else ["README.md says that `std/` has %s functions; it has %d" % (" and ".join(said) or "no number of", there)]
    )


def main() -> int:
    rules = {
        "arrow": arrow,
        "vendors": vendors,
        "codes": codes,
        "types": types,
        "costs": costs,
        "reference": reference.stale,
        "targets": targets,
        "links": links,
        "citations": citations,
        "rooms": rooms,
        "directives": directives,
        "statements": statements,
        "columns": columns,
        "functions": functions,
        "classes": classes,
        "library": library,
    }
    wanted = sys.argv[1:] or list(rules)
    faults = [(rule, fault) for rule in wanted for fault in rules[rule]()]
    for rule, fault in faults:
        print("%s: %s" % (rule, fault))
    print("%d passed, %d failed" % (len(wanted) - len({rule for rule, _ in faults}), len({rule for rule, _ in faults})))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
