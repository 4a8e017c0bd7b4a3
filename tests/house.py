"""The rules of the house that a script can check: house.py [arrow | vendors | codes | types | costs].

arrow    a file includes headers of its own folder and of folders to its left only
vendors  Spirit X3, isl, GMP, LLVM, CUDA, NVRTC, OpenCL, CLI11, nlohmann_json, zlib and XLA's FFI stay in the files that may know them
codes    every code declared in the sources has a golden test that shows it and a page in docs/errors
costs    what something costs, or must save, is a number in codegen/model: no other choice of codegen has a fraction or a constant of its own
types    a namespace has one type of a name: of two, the linker mixes the members that the compiler makes
links    a link of a page of Markdown leads to a file, and to a heading that it has
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
    (r"boost/", r"lang/grammar\.cpp"),
    (r"isl/", r"poly/(solve|lattice)\.cpp"),
    (r"gmp(xx)?\.h", r"poly/(lattice|recession)\.cpp"),
    (r"llvm(-c)?/", r"codegen/llvm/.*"),
    (r"cuda(\.h|_runtime)", r"runtime/cuda\.cpp"),
    (r"nvrtc\.h", r"runtime/nvrtc\.cpp"),
    (r"CL/", r"runtime/opencl\.cpp"),
    (r"CLI/", r"cli/options\.cpp"),
    (r"nlohmann/", r"cli/(lsp|bench_rows)\.cpp"),
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
                shown |= set(re.findall(r"\[([EWR]0[1-5][0-9][0-9])\]", line)) | set(re.findall(r'"code": ?"([EWR]0[1-5][0-9][0-9])"', line))
    # What needs a machine we do not have (a GPU that fails, memory that ends) is shown by a test that names its code.
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".cpp", ".c", ".py") and path.name != "house.py":
            shown |= set(re.findall(r"[EWR]0[1-5][0-9][0-9]", path.read_text()))
    pages = {p.stem for p in (ROOT / "docs/errors").glob("*.md")}
    faults = ["%s has no golden test that shows it" % code for code in sorted(declared - shown - NOT_SHOWN)]
    faults += ["%s has no page docs/errors/%s.md" % (code, code) for code in sorted(declared - pages)]
    faults += ["docs/errors/%s.md describes a code that nothing reports" % code for code in sorted(pages - declared) if CODE.match('"%s"' % code)]
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
            elif (named := re.match(r"(?:struct|class|union|enum class|enum) (?:\[\[\w+\]\] )?([\w:]+\w)(?: final)?(?: : [^;()]*)? \{", line)) and not hidden:
                where.setdefault((space, named[1]), []).append(str(path.relative_to(ROOT)))
    return ["%s::%s is defined in %s" % (space, name, " and ".join(files)) for (space, name), files in sorted(where.items()) if len(files) > 1]


# Of numbers with a point, these only change a type or count bytes. What prints (explain, figures) may round as it likes.
NO_COST = {"0.0", "1.0", "2.0", "4.0"}
PRINTS = {"explain.cpp", "figures.cpp"}
FRACTION = re.compile(r"(?<![\w.])(\d+\.\d+(?:e-?\d+)?)(?![\w.]*\")")
CONSTANT = re.compile(r"constexpr (?:double|float) [^;]*\d|constexpr [^;]*\d;\s*// [^.]*\bcycles\b")


def is_cost(line) -> bool:
    code = re.sub(r'"[^"]*"', '""', line.split("//")[0])
    return bool(CONSTANT.search(line)) or any(number not in NO_COST for number in FRACTION.findall(code))


def costs():
    rooms = [ROOT / "codegen", ROOT / "codegen/choose", ROOT / "codegen/rewrite"]
    files = [path for room in rooms for path in sorted(room.iterdir()) if path.suffix in (".cpp", ".h") and path.name not in PRINTS]
    return ["%s:%d has a cost of its own: %s" % (path.relative_to(ROOT), n, line.strip()[:80])
            for path in files for n, line in enumerate(path.read_text().splitlines(), 1) if is_cost(line)]


def targets():
    """What the table of targets has stands where users read of them. CPUs are many: one stands for them."""
    table = re.search(r"constexpr std::string_view names\[\] = \{(.*?)\};", (ROOT / "runtime/target_hint.cpp").read_text(), re.S)[1]
    names = [name for name in re.findall(r'"([^"]+)"', table) if not name.startswith("cpu:")]
    places = ["include/tilec/tilec.h", "python/tilec/_source.py", "docs/errors/E0514.md"]
    return ["%s does not say that there is the target %s" % (place, name) for place in places for name in names if not re.search(r"(?<![\w:])%s(?![\w:=])" % re.escape(name), (ROOT / place).read_text())]


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links():
    faults = []
    rooms = [ROOT / name for name in (*FOLDERS, "bench", "docs", "include", "packaging", "python", "samples", "std", "tests")]
    for page in [*ROOT.glob("*.md"), *(page for room in rooms for page in sorted(room.rglob("*.md")))]:
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


def library():
    there = sum(len(re.findall(r"^function ", path.read_text(), re.M)) for path in (ROOT / "std").glob("*.tile"))
    said = re.findall(r"`std/`, (\d+) functions", (ROOT / "README.md").read_text())
    return [] if said == [str(there)] else ["README.md says that `std/` has %s functions; it has %d" % (" and ".join(said) or "no number of", there)]


def main() -> int:
    rules = {"arrow": arrow, "vendors": vendors, "codes": codes, "types": types, "costs": costs, "reference": reference.stale, "targets": targets, "links": links, "library": library}
    wanted = sys.argv[1:] or list(rules)
    faults = [(rule, fault) for rule in wanted for fault in rules[rule]()]
    for rule, fault in faults:
        print("%s: %s" % (rule, fault))
    print("%d passed, %d failed" % (len(wanted) - len({rule for rule, _ in faults}), len({rule for rule, _ in faults})))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
