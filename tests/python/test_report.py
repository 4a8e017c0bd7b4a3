"""`tilec report`: the page is whole, says what the other commands say of the same program, and links what came from one
place of the text."""
import html.parser
import re
import subprocess

import pytest

from test_cli import ROOT, TILEC, tilec

VOID = {"meta", "br", "hr", "img", "link", "input"}
CONV = "function conv(I[N], K[R]) -> (O) { O[x: N/3] = +(I[3*x + 2*k] * K[k]); }\n"
SCATTER = "function (dO[X], K[R]) -> (dI) { dI[3*x + 2*k - 2: 224] = +(dO[x] * K[k]); }\n"
SOFTMAX = """function softmax(X[M, N]) -> (Y) {
  Mx[i: M] = >(X[i, j]);
  E[i, j: M, N] = =(exp(X[i, j] - Mx[i]));
  S[i: M] = +(E[i, j]);
  Y[i, j: M, N] = =(E[i, j] / S[i]);
}
"""


class Page(html.parser.HTMLParser):
    """Elements in order, each with its tag, attributes and text; faults of nesting; text by pane."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.faults = [], [], []
        self.feed(text)
        self.close()
        self.faults += ["`%s` is not closed" % e["tag"] for e in self.open]

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "text": "", "around": self.open[-1] if self.open else None, **dict(attributes)}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1]["tag"] != tag:
            self.faults.append("`</%s>` closes nothing, at %s" % (tag, self.getpos()))
        else:
            self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag, **wanted):
        return [
            e for e in self.elements if e["tag"] == tag and all(e.get(name) == value for name, value in wanted.items())
        ]

    def panes(self):
        """The text and the linked pieces of each stage, by its title; of a pair a list has both."""
        found = {}
        for pane in self.all("section", **{"class": "pane"}):
            within = [e for e in self.elements if is_in(e, pane)]
            title = next(e for e in within if e["tag"] == "h3")["text"].split("  ")[0]
            small = next(e for e in within if e["tag"] == "small")["text"]
            title = title.removesuffix(small).strip()
            pre = next(e for e in within if e["tag"] == "pre")
            found.setdefault(title, []).append((pre["text"], [e for e in within if "data-of" in e]))
        return found


def is_in(element, around):
    while element is not None and element is not around:
        element = element["around"]
    return element is not None


def page_of(folder, text, *words):
    (folder / "f.tile").write_text(text)
    done = tilec("report", "f.tile", *words, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    page = Page(done.stdout.decode())
    assert not page.faults
    assert not [
        e for e in page.elements if e["tag"] in ("link", "img", "iframe") or "src" in e or e.get("href", "#")[0] != "#"
    ]
    assert not re.search(r"@import|url\(", page.all("style")[0]["text"])
    return page


def emitted(folder, stage, *words):
    done = tilec("f.tile", "--emit=" + stage, *words, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def ids(element):
    return set(element["data-of"].split())


def piece(pieces, beginning):
    return next(e for e in pieces if e["text"].startswith(beginning))


def test_each_stage_is_there_as_emit_prints_it(tmp_path):
    words = ("--grad", "--size", "N=30,R=3")
    panes = page_of(tmp_path, CONV, *words).panes()
    assert list(panes) == ["Source", "Gradient", "Reduced program", "Plan", "Loops", "Assembly"]
    assert panes["Source"][0][0].strip() == CONV.strip()
    for title, stage in (
        ("Gradient", "gradient"),
        ("Reduced program", "reduced"),
        ("Plan", "plan"),
        ("Loops", "loops"),
        ("Assembly", "asm"),
    ):
        assert panes[title][0][0] == emitted(tmp_path, stage, *words), title


@pytest.mark.parametrize("target, title", [("opencl", "OpenCL C"), ("cuda", "CUDA C++")])
def test_of_a_gpu_the_text_of_its_kernels(tmp_path, target, title):
    words = ("--target", target, "--size", "M=8,N=40")
    page = page_of(tmp_path, SOFTMAX, *words)
    text, pieces = page.panes()[title][0]
    assert text == emitted(tmp_path, target, *words)
    assert any("k0_Y" in e["text"] and len(ids(e)) == 4 for e in pieces)
    assert "predicts no times" in page.all("body")[0]["text"]


def test_the_interpreter_has_no_plan(tmp_path):
    page = page_of(tmp_path, CONV, "--target", "reference", "--size", "N=30,R=3")
    assert list(page.panes()) == ["Source", "Reduced program"]


def test_links_lead_from_a_statement_to_all_that_came_from_it(tmp_path):
    panes = page_of(tmp_path, SOFTMAX, "--grad", "--size", "M=8,N=40").panes()
    source = panes["Source"][0][1]
    own = {name: ids(piece(source, name)) for name in ("Mx[i", "E[i", "S[i", "Y[i")}
    assert len(set.union(*own.values())) == 4
    gradient = panes["Gradient"][0][1]
    for made, by in (("dS[i", "Y[i"), ("dE[i", "S[i"), ("dX[i", "E[i")):
        assert ids(piece(gradient, made)) == own[by] or made == "dE[i", made
    everything = set.union(*own.values())
    assert set.union(*(ids(e) for e in panes["Plan"][0][1])) == everything
    for title in ("Loops", "Assembly"):
        assert any(ids(e) == everything for e in panes[title][0][1]), title


def test_what_the_derivative_of_an_extreme_adds_is_of_that_statement(tmp_path):
    panes = page_of(
        tmp_path,
        "function f(X[M, N]) -> (Y) {\n  Mx[i: M] = >(X[i, j]);\n  Y[i, j: M, N] = =(X[i, j] * Mx[i]);\n}\n",
        "--grad",
        "--size",
        "M=8,N=40",
    ).panes()
    source, gradient = panes["Source"][0][1], panes["Gradient"][0][1]
    assert ids(piece(gradient, "dMx[i")) == ids(piece(source, "Y[i"))
    assert ids(piece(gradient, "Cnt[i")) == ids(piece(source, "Mx[i"))
    # a sum: that of the input whose gradient is asked for
    assert ids(piece(gradient, "dX[i")) == ids(piece(source, "X[M"))


def test_what_is_computed_inside_another_statement_is_of_both(tmp_path):
    text = "function f(A[M, K], B[K, N], S[N]) -> (C, V) {\n  T[i, j: K, N] = =(B[i, j] * S[j]);\n  U = T + 1;\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n  V = U * 2;\n}\n"
    panes = page_of(tmp_path, text, "--size", "M=5,K=6,N=7").panes()
    source = panes["Source"][0][1]
    assert "inline" in panes["Plan"][0][0]
    launch = next(e for e in panes["Plan"][0][1] if "map V" in e["text"])
    assert ids(launch) >= ids(piece(source, "T[")) | ids(piece(source, "U =")) | ids(piece(source, "V ="))
    assert not ids(launch) & ids(piece(source, "C["))


def test_a_call_is_linked_with_what_the_function_made(tmp_path):
    (tmp_path / "lib.tile").write_text(
        "function twice(X[N]) -> (Y) { Y = X * 2; }\nfunction unused(X[N]) -> (Y) { Y = X * 3; }\n"
    )
    panes = page_of(
        tmp_path,
        'import "lib.tile";\nfunction f(X[N]) -> (Z) { A = twice(X); Z[i: N] = +(A[j]), j <= i; }\nfunction g(X[N]) -> (Z) { Z = X; }\n',
        "--function",
        "f",
        "--size",
        "N=9",
    ).panes()
    text, source = panes["Source"][0]
    assert "lib.tile, line 1" in text and "unused" not in text and "function g" not in text
    assert ids(piece(source, "A = twice")) == ids(piece(source, "Y = X * 2")) != ids(piece(source, "Z["))
    program = panes["Reduced program"][0][1]
    assert ids(piece(program, "A[")) == ids(piece(source, "A = twice"))


def pictures(page):
    """Domains, and elements: of each picture the class at each place, counted from the window's lowest values."""
    domains, elements = [], []
    for svg in page.all("svg"):
        paths = [e for e in page.all("path") if is_in(e, svg)]
        if "points of the domain" not in svg["aria-label"] and "elements by" not in svg["aria-label"]:
            continue
        (grid,) = [e["d"] for e in paths if e["class"] == "grid"]
        places = [[int(n) for n in place] for place in re.findall(r"M(\d+) (\d+)", grid)]
        left, bottom = min(x for x, _ in places), max(y for _, y in places)
        found = {}
        for path in paths:
            if path["class"] == "points":
                for x, y in re.findall(r"M(\d+) (\d+)", path["d"]):
                    assert [int(x), int(y)] in places
                    found[(int(x) - left) // 16, (bottom - int(y)) // 16] = int(path["style"].split(":")[1])
        (domains if "domain" in svg["aria-label"] else elements).append(found)
    return domains, elements


N, R = 20, 4
DRAWN = [  # a statement, the places of its domain's picture, and of its elements'
    (
        "Y[i: N] = +(X[(i + 2*j)/3] * K[j]), 0 <= j < R",
        {(i, j) for i in range(N) for j in range(R) if (i + 2 * j) % 3 == 0 and (i + 2 * j) // 3 < N},
        {(i, 0) for i in range(N)},
    ),
    (
        "Y[i + 5*j, 2*i + j: 40, 40] = +(X[i] * K[j])",
        {(i, j) for i in range(N) for j in range(R) if i + 5 * j < 40 and 2 * i + j < 40},
        {(i + 5 * j, 2 * i + j) for i in range(N) for j in range(R)},
    ),
    (
        "Y[4*i + 6*j + 1: 60] = +(X[i] * K[j])",
        {(i, j) for i in range(N) for j in range(R) if 4 * i + 6 * j + 1 < 60},
        {(4 * i + 6 * j + 1, 0) for i in range(N) for j in range(R)},
    ),
    ("Y[i: N] = +(X[j]), 2*j <= i + 3", {(i, j) for i in range(N) for j in range(N) if 2 * j <= i + 3}, None),
    (
        "Y[i: N] = +(X[j]), i - j < 3, j <= i, j >= 2",
        {(i - 2, j - 2) for i in range(2, N) for j in range(2, N) if 0 <= i - j < 3},
        {(i, 0) for i in range(2, N)},
    ),
    ("Y[i, k: N, 900] = +(X[j]), j <= i + k", None, {(i, k) for i in range(N) for k in range(16)}),
]


@pytest.mark.parametrize("statement, domain, elements", DRAWN, ids=[statement for statement, _, _ in DRAWN])
def test_pictures_have_the_points_that_there_are(tmp_path, statement, domain, elements):
    page = page_of(
        tmp_path,
        "function f(X[N], K[R]) -> (Y) { %s; }\n" % statement,
        "--target",
        "reference",
        "--size",
        "N=%d,R=%d" % (N, R),
    )
    drawn = pictures(page)
    if domain is not None:
        assert set(drawn[0][0]) == {(i, j) for i, j in domain if i < 24 and j < 16}
    if elements is None or not drawn[1]:
        assert elements is None or len(elements) in (N, 16 * N)   # all are written: there is nothing to see
    else:
        assert set(drawn[1][0]) == {(i, j) for i, j in elements if i < 24 and j < 16}
    assert "not every point" not in page.all("body")[0]["text"]


def test_points_have_the_colour_of_their_class(tmp_path):
    page = page_of(tmp_path, SCATTER, "--size", "X=75,R=3")
    (domain,), (elements,) = pictures(page)
    seen = elements
    classes = {residue: seen[residue, 0] for residue in range(3)}
    assert len(set(classes.values())) == 3
    assert seen == {(i, 0): classes[i % 3] for i in range(24)}
    assert domain == {(x, k): classes[(2 * k - 2) % 3] for x in range(24) for k in range(3) if 3 * x + 2 * k - 2 >= 0}
    table = [e["text"] for e in page.all("tr") if "dI[" in e["text"]]
    assert any("dI[3*q]" in row and "75" in row and "k = 1" in row for row in table)
    assert "the first 24 of 75 values of x" in page.all("body")[0]["text"]


def test_the_table_of_launches_has_their_operations_and_bytes(tmp_path):
    page = page_of(
        tmp_path,
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n",
        "--size",
        "M=20,K=30,N=40",
        "--measure",
    )
    heads = [e["text"] for e in page.all("th")]
    for head in ("predicted", "measured", "operations", "bytes that must move"):
        assert head in heads
    row = next(e["text"] for e in page.all("tr") if "contract C" in e["text"])
    assert "48,000" in row and "10,400" in row
    assert len(page.all("g", **{"class": "measured"})) == 1
    roof = next(e for e in page.all("svg") if "roofline" in e["aria-label"])
    assert "operations a second" in roof["text"] and "operations a byte" in roof["text"]


def test_a_pair_has_both_halves_and_what_is_saved(tmp_path):
    page = page_of(tmp_path, SOFTMAX, "--vjp", "--size", "M=8,N=40")
    panes = page.panes()
    assert len(panes["Plan"]) == len(panes["Loops"]) == len(panes["Assembly"]) == 2
    report = emitted(tmp_path, "report-text", "--grad", "--size", "M=8,N=40")
    rows = [e["text"] for e in page.all("tr")]
    for name, way, count in re.findall(r"^  (\w+) +(input|output|saved|recomputed) +([\d,]+) ", report, re.M):
        assert any(row.startswith(name + way + count) for row in rows), name
    saved = re.search(r"residuals: ([\d,]+) bytes saved", report)[1]
    assert "Forward saves %s bytes" % saved in page.all("body")[0]["text"]


def test_a_program_stays_text(tmp_path):
    page = page_of(
        tmp_path,
        "// <script>alert(1)</script> & </pre> \"\nfunction f(X[N]) -> (Y) { Y[i: N] = =(X[i] < 1 & X[i] > 0 ? 1.0 : 0.0); }\n",
        "--size",
        "N=4",
    )
    assert len(page.all("script")) == 1
    assert "// <script>alert(1)</script> & </pre> \"" in page.panes()["Source"][0][0]


@pytest.mark.parametrize("bytes_of_comment", [b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x01\x7f", b"\xf4\x90\x80\x80"])
def test_the_page_is_utf_8_whatever_the_text_is(tmp_path, bytes_of_comment):
    (tmp_path / "f.tile").write_bytes(
        b"// " + bytes_of_comment + " ü € 😀\n".encode() + b"function f(X[N]) -> (Y) { Y = X * 2; }\n"
    )
    done = tilec("report", "f.tile", "--size", "N=4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("utf-8")
    assert "ü € 😀" in text and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_long_code_is_cut_and_says_so(tmp_path):
    text = "function f(X[N]) -> (%s) {\n%s\n}\n" % (
        ", ".join("Y%d" % k for k in range(60)),
        "\n".join("  Y%d[i: N] = +(X[j] * exp(X[i + %d])), j <= i;" % (k, k) for k in range(60)),
    )
    page = page_of(tmp_path, text + "// " + "long " * 500_000 + "\n", "--target", "reference", "--size", "N=70")
    assert len(page.panes()["Source"][0][0]) <= 2_000_000
    assert "Cut: these are" in page.all("body")[0]["text"]
    assert "contractions the first 24 are drawn" in page.all("body")[0]["text"]


@pytest.mark.parametrize("path, words", [
    ("std/attention.tile", ("--function", "attention", "--vjp", "--size", "B=2,H=2,T=8,S=8,D=4,E=4")),
    ("std/norm.tile", ("--function", "layer_norm", "--grad", "--size", "B0=6,C=10")),
    ("std/conv.tile", ("--function", "conv2d", "--grad", "--size", "N=1,H=8,W=8,CI=2,KH=3,KW=3,CO=2")),
    ("samples/strided_conv.tile", ("--grad", "--grad", "--size", "N=1,H=9,W=9,CI=2,KH=2,KW=2,CO=2")),
    ("samples/max_pool.tile", ("--forward", "--size", "N=1,H=8,W=8,C=2")),
])
def test_programs_of_the_library(tmp_path, path, words):
    done = tilec("report", ROOT / path, *words, "-o", "page.html", cwd=tmp_path)
    assert done.returncode == 0 and not done.stdout, done.stderr.decode()
    page = Page((tmp_path / "page.html").read_text())
    assert not page.faults
    linked = [e for e in page.elements if "data-of" in e]
    stages = {title for title, found in page.panes().items() for _, pieces in found if pieces}
    assert {"Source", "Reduced program", "Plan", "Loops", "Assembly"} <= stages and linked


def test_gather_sort_and_empty_tensors(tmp_path):
    page = page_of(
        tmp_path,
        "function f(X[M, N], i32 I[K]) -> (Y, Z) { Y = gather(X, I); Z = argsort(X); }\n",
        "--size",
        "M=4,N=5,K=3",
    )
    assert (
        any("gather Y" in e["text"] for e in page.all("tr"))
        and "There is no contraction" in page.all("body")[0]["text"]
    )
    page_of(tmp_path, CONV, "--grad", "--size", "N=0,R=3")


@pytest.mark.parametrize("words, status, said", [
    ((), 1, "--size NAME=number"),
    (("--size", "N=30,R=3", "--target", "reference", "--vjp"), 2, "--vjp"),
    (("--size", "N=30,R=3", "--target", "reference", "--measure"), 2, "--measure"),
    (("--size", "N=30,R=3", "--room", "8"), 2, "--vjp"),
    (("--size", "N=30,R=3,Q=1"), 2, "Q"),
    (("other.tile",), 2, "one word too many"),
    (("--size", "N=30,R=3", "-o", "f.tile"), 2, "E0532"),
    (("--size", "N=30,R=3", "-o", "nowhere/f.html"), 3, "nowhere/f.html"),
])
def test_what_cannot_be_reported_is_an_error(tmp_path, words, status, said):
    (tmp_path / "f.tile").write_text(CONV)
    done = tilec("report", "f.tile", *words, cwd=tmp_path)
    assert done.returncode == status and said in done.stderr.decode() and not done.stdout, done.stderr
    assert (tmp_path / "f.tile").read_text() == CONV


def test_help_and_completion_know_it():
    listed = subprocess.run([TILEC, "report", "--help"], capture_output=True, text=True).stdout
    for option in ("--size", "--grad", "--vjp", "--measure", "--output", "--plan", "--target"):
        assert option in listed
    assert "report" in subprocess.run([TILEC, "completion", "bash"], capture_output=True, text=True).stdout
