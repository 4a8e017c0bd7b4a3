"""Programs and packages as bytes: what another process makes of them gives the same results, without the files they
came from."""
import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tilec

TEXT = "function f(X[N, M], W[M, K]) -> (Y) { A[i, k: N, K] = +(X[i, j] * W[j, k]); Y = tanh(A); }"
draw = np.random.default_rng(3)
X, W, DY, XS = (
    draw.standard_normal((4, 5)),
    draw.standard_normal((5, 3)),
    draw.standard_normal((4, 3)),
    draw.standard_normal((2, 4, 5)),
)
F = tilec.compile(TEXT)


def in_another_process(made, *arguments, method="__call__", folder=None):
    """What a call of it gives there."""
    code = "import pickle, sys; f, method, arguments = pickle.load(sys.stdin.buffer); made = getattr(f, method)(*arguments); pickle.dump(made[0] if method == 'vjp' else made, sys.stdout.buffer)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=pickle.dumps((made, method, arguments)),
        capture_output=True,
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(tilec.__file__))},
    )
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


PROGRAMS = {
    "a function": (lambda: F, (X, W)),
    "its gradient": (lambda: F.grad(wrt="W"), (X, W, DY)),
    "both in one": (lambda: F.value_and_grad(of="Y", wrt=["X", "W"]), (X, W, DY)),
    "a batch": (lambda: F.vmap("X"), (XS, W)),
    "forward of a gradient, for a batch": (lambda: F.grad(wrt="X").jvp(wrt="W").vmap(["X"]), (XS, W, DY, W)),
    "planned": (lambda: F.with_plan(F.plan(X, W)), (X, W)),
    "planned, then differentiated": (lambda: F.with_plan(F.plan(X, W)).grad(wrt="X"), (X, W, DY)),
    "of the interpreter": (lambda: tilec.compile(TEXT, target="reference"), (X, W)),
    "with parameters": (
        lambda: tilec.compile("function f<S=1, G=exp>(X[N, M]) -> (Y) { Y = G(S * X); }", define={"S": 3, "G": "tanh"}),
        (X,),
    ),
    "with other options": (
        lambda: tilec.compile(TEXT, size={"M": 5}, threads=1, kernels=5, room=1000, checked=True, name="t.tile"),
        (X, W),
    ),
    "of std/": (lambda: tilec.std.softmax, (X,)),
    "one of several": (
        lambda: tilec.compile("function a(X) -> (Y) { Y = X; } function b(X) -> (Y) { Y = X * 2.0; }").b,
        (X,),
    ),
}


@pytest.mark.parametrize("make, arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_another_process_gets_the_same(make, arguments):
    f = make()
    again = pickle.loads(pickle.dumps(f))
    assert (again.name, again.inputs, again.outputs, again._recipe) == (f.name, f.inputs, f.outputs, f._recipe)
    wanted, twice = f(*arguments), pickle.loads(pickle.dumps(again))
    for made in (again(*arguments), twice(*arguments), in_another_process(f, *arguments)):
        assert len(made) == len(wanted)
        for one, other in zip(made, wanted):
            np.testing.assert_array_equal(one, other)
    assert copy.copy(f) is f and copy.deepcopy([f])[0] is f


def test_vjp_and_what_was_left_out_survive():
    np.testing.assert_array_equal(in_another_process(F, X, W, method="vjp"), F(X, W))
    loss = tilec.compile("function f(X[N]) -> (L) { L[] = +(X[i] * X[i]); }").value_and_grad()
    for made in (loss, loss.vmap()):
        again = pickle.loads(pickle.dumps(made))
        for one, other in zip(again(X if made is not loss else X[0]), made(X if made is not loss else X[0])):
            np.testing.assert_array_equal(one, other)


def test_imports_travel(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "f.tile").write_text(
        'import "ops.tile";\nimport "lib/more.tile";\nfunction f(X[N]) -> (Y) { Y = twice(thrice(X)); }'
    )
    (tmp_path / "ops.tile").write_text("function twice(X) -> (Y) { Y = X * 2.0; }")
    (tmp_path / "lib/more.tile").write_text(
        'import "../ops.tile";\nimport "deep.tile";\nfunction thrice(X) -> (Y) { Y = deep(X) + twice(X); }'
    )
    (tmp_path / "include").mkdir()
    (tmp_path / "include/deep.tile").write_text("function deep(X) -> (Y) { Y = X; }")
    f = tilec.load(tmp_path / "f.tile", include=[tmp_path / "include"])
    data = pickle.dumps(f)
    for file in ("ops.tile", "lib/more.tile", "include/deep.tile"):
        # what is there now is not what was compiled
        (tmp_path / file).write_text("function twice(X) -> (Y) { Y = X * 1000.0; }")
    (tmp_path / "f.tile").unlink()
    np.testing.assert_array_equal(pickle.loads(data)(X[0]), 6 * X[0])
    np.testing.assert_array_equal(in_another_process(f, X[0], folder="/"), 6 * X[0])


def test_a_module_is_pickled_whole():
    module = tilec.compile(
        "function a(X) -> (Y) { Y = X; } function b(X) -> (Y) { Y = a(X) * 2.0; }", target="reference"
    )
    again = pickle.loads(pickle.dumps(module))
    assert dir(again) == dir(module) == ["a", "b"] and copy.deepcopy(module) is module
    np.testing.assert_array_equal(again.b(X), 2 * X)
    assert again.b._recipe.options["target"] == "reference"


def test_warnings_are_not_raised_twice():
    with pytest.warns(tilec.ProgramWarning) as heard:
        f = tilec.compile("function f(A, B) -> (O) { O = A > 0 ? B : B > 0 ? A : B; }")
        f(X[0], X[0])
    assert heard
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(X[0], X[0]), f(X[0], X[0]))
    assert again.diagnostics == f.diagnostics
    in_another_process(f, X[0], X[0])                         # where a warning is an error


def test_packages_are_their_bytes(tmp_path):
    F.save(tmp_path / "f.tilec", X, W, vjp=True)
    package = tilec.load(tmp_path / "f.tilec", threads=1)
    (tmp_path / "f.tilec").unlink()
    np.testing.assert_array_equal(in_another_process(package, X, W), F(X, W))
    again = pickle.loads(pickle.dumps(package))
    for one, other in zip(again.vjp(X, W)[1](DY), F.vjp(X, W)[1](DY)):
        np.testing.assert_array_equal(one, other)
    assert copy.deepcopy(package) is package


def test_what_cannot_be_pickled_says_why():
    with pytest.raises(TypeError, match="backward is not pickled: it holds the values of a call"):
        pickle.dumps(F.vjp(X, W)[1])
    function, (texts, recipe, heard) = F.__reduce__()
    for wrong in (texts[:50], b"no texts", texts[:60] + b"?" + texts[61:]):
        with pytest.raises(ValueError, match="tilec_parse_saved"):
            function(wrong, recipe, heard)
