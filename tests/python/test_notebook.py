"""How programs show in notebooks, and %%tile; with IPython too where there is one."""
import html.parser
import re
import types

import numpy as np
import pytest

import tilec

TEXT = '// sums a "row" & <more>\nfunction rows(f32 X[N, M]) -> (S) {\n  S[i: N] = +(X[i, j] < 0.5 ? exp(X[i, j]) : 2.0);\n}'
X = np.ones((2, 3), "f4")


class Shell:
    """What the magic asks of IPython."""

    def __init__(self):
        self.names, self.magics = {}, {}
        self.push = self.names.update

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function


@pytest.fixture
def shell():
    shell = Shell()
    tilec.load_ipython_extension(shell)
    assert list(shell.magics) == [("cell", "tile")]
    return shell


def seen(markup):
    """The text that a browser shows; elements must close in order."""
    parts, open_ = [], []
    parser = html.parser.HTMLParser(convert_charrefs=True)
    parser.handle_data = parts.append
    parser.handle_starttag = lambda tag, _: open_.append(tag)
    parser.handle_endtag = lambda tag: open_.pop() == tag or pytest.fail("</%s>" % tag)
    parser.feed(markup)
    parser.close()
    assert not open_
    return "".join(parts)


def test_a_program_shows_its_text_in_colours():
    markup = tilec.compile(TEXT, threads=1)._repr_html_()
    text = seen(markup)
    assert "rows (X) → (S)" in text and "target cpu, threads 1" in text
    assert '// sums a "row" & <more>' in text and "X[i, j] < 0.5" in text
    assert "<more>" not in markup and re.search(r'<span style="color:#\w+">function</span>', markup)
    assert (
        len(
            {
                re.search(r"color:(#\w+)\">%s<" % re.escape(word), markup)[1]
                for word in ("function", "f32", "0.5", "exp")
            }
        )
        == 4
    )


@pytest.mark.parametrize("name", ["x<script>alert(1)</script>", "a & b"])
def test_nothing_of_a_text_is_markup(name):
    f = tilec.compile("// </pre><img src=x onerror=alert(1)>\n" + TEXT, name=name)
    module = tilec.compile("function a(X) -> (Y) { Y = X; }\nfunction b(X) -> (Y) { Y = X; }", name=name)
    for markup in (f._repr_html_(), module._repr_html_()):
        assert "<img" not in markup and "<script" not in markup
        seen(markup)
    assert seen(module._repr_html_()) == name + " functions: a, b"


def test_what_is_derived_shows_as_that():
    f = tilec.compile(TEXT)
    gradient = seen(f.grad(wrt="X")._repr_html_())
    assert "rows.grad(['X']) (X, dS) → (dX)" in gradient and "function rows_grad" in gradient
    assert "rows.vmap()" in seen(f.vmap()._repr_html_())
    assert "rows.with_plan(…)" in seen(f.with_plan(f.plan(X))._repr_html_())
    # no text without shapes: the function's own
    ranks = tilec.compile("function f(X) -> (Y) { Y = X * X; }").grad()
    assert "function f(X) -> (Y)" in seen(ranks._repr_html_())
    several = tilec.compile("function a(X) -> (Y) { Y = X; }\n\nfunction b(X) -> (Y) { Y = a(X); }")
    assert "function a" not in seen(several.b._repr_html_())
    long = tilec.compile("function f(X) -> (Y) { %s Y = X; }" % "".join("T%d = X;" % k for k in range(200)))
    assert re.search(r"… \d+ lines more", seen(long._repr_html_()))


def test_a_cell_defines_a_variable(shell):
    tile = shell.magics["cell", "tile"]
    assert tile("total target=reference threads=1", TEXT) is None
    np.testing.assert_allclose(shell.names["total"](X), [6, 6])
    assert shell.names["total"]._recipe.options["target"] == "reference"
    tile("", TEXT)
    assert shell.names["rows"].name == "rows"
    tile(
        "f define=S=2,G=tanh,H=0.5 size=N=4 rank=B=2 checked=on cache=off kernels=3 room=100 function=f",
        "function f<S=1, G=abs, H=1>(X[B..., N]) -> (Y) { Y = G(X) * S * H; } function g(X) -> (Y) { Y = X; }",
    )
    recipe = shell.names["f"]._recipe
    assert recipe.options == {
        "target": "cpu",
        "define": {"S": 2, "G": "tanh", "H": 0.5},
        "size": {"N": 4},
        "rank": {"B": 2},
        "checked": True,
        "cache": False,
        "kernels": 3,
        "room": 100,
        "threads": 0,
    }
    tile("both", "function a(X) -> (Y) { Y = X; } function b(X) -> (Y) { Y = X; }")
    assert isinstance(shell.names["both"], tilec.Module)
    with tilec.options(target="opencl"):
        tile("g", TEXT)
    assert shell.names["g"]._recipe.options["target"] == "opencl"


@pytest.mark.parametrize(
    "line, kind, words",
    [
        ("2f", ValueError, "'2f' is no option NAME=VALUE and no name"),
        ("f g", ValueError, "'g' is no option"),
        ("for", ValueError, "no name of a variable"),
        ("f threads=two", ValueError, "threads=two is no integer"),
        ("f checked=maybe", ValueError, "neither on nor off"),
        ("f define=S", ValueError, "no list NAME=VALUE"),
        ("f target=cpu target=cpu", ValueError, "twice"),
        ("f tagret=cpu", TypeError, "did you mean target="),
        ("f target=gpu", tilec.OptionError, "gpu"),
    ],
)
def test_a_line_that_is_wrong_is_refused(shell, line, kind, words):
    with pytest.raises(kind, match=words):
        shell.magics["cell", "tile"](line, TEXT)
    assert not shell.names


def test_faults_name_the_cell(shell):
    with pytest.raises(tilec.ProgramError, match=r"<%%tile f>:1:\d+: error"):
        shell.magics["cell", "tile"]("f", "function f(A[N]) -> (B) { B[i] = +(A[i]); }")
    for text in ("function (X) -> (Y) { Y = X; }", "function a(X) -> (Y) { Y = X; } function b(X) -> (Y) { Y = X; }"):
        with pytest.raises(ValueError, match="%%tile VARIABLE"):
            shell.magics["cell", "tile"]("", text)
    assert not shell.names


def test_in_ipython():
    testing = pytest.importorskip("IPython.testing.globalipapp")
    shell = testing.start_ipython() or testing.get_ipython()
    shell.run_line_magic("load_ext", "tilec")
    shell.run_cell_magic("tile", "total threads=1", TEXT)
    assert isinstance(shell.user_ns["total"], tilec.Program)
    done = shell.run_cell("%%tile braces define=S=3\nfunction f<S=1>(X[N]) -> (Y) { Y = X * S; }")
    assert done.success and isinstance(shell.user_ns["braces"], tilec.Program)
    shell.display_formatter.active_types = shell.display_formatter.format_types   # as a notebook has them
    data, _ = shell.display_formatter.format(shell.user_ns["braces"])
    assert "function" in data["text/html"] and data["text/plain"].startswith("<tilec.Program")
    assert isinstance(types.SimpleNamespace(**shell.user_ns).total(X), np.ndarray)
