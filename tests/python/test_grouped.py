"""Arguments in groups: dicts and named tuples by name, tuples of arrays in order; what is ambiguous or wrong is said in
one TypeError."""
import collections
import types

import numpy as np
import pytest

import tilec

TEXT = "function f(X[N], G[N], B[N]) -> (Y) { Y = X*G + B; }"
X, G, B = np.arange(3.0), np.array([2.0, 3, 4]), np.array([0.5, 0, -1])
Norm = collections.namedtuple("Norm", "G B")


@pytest.fixture(scope="module")
def f():
    return tilec.compile(TEXT)


GROUPS = {
    "a dict": lambda f: f({"X": X, "G": G, "B": B}),
    "any mapping": lambda f: f(types.MappingProxyType({"B": B, "G": G, "X": X})),
    "a named tuple by its fields": lambda f: f(Norm(B=B, G=G), X=X),
    "by position, then a group": lambda f: f(X, Norm(G, B)),
    "two groups": lambda f: f({"X": X}, Norm(G, B)),
    "as many groups as inputs": lambda f: f({"X": X}, {"G": G}, {"B": B}),
    "a group and names": lambda f: f({"G": G}, B=B, X=X),
    "an empty group": lambda f: f(X, G, B, {}),
    "a tuple of arrays": lambda f: f((X, G, B)),
    "a tuple of arrays, and more": lambda f: f((X, G), B),
    "a tuple, then a dict": lambda f: f((X, G), {"B": B}),
    "a tuple in which one is an array": lambda f: f((X, list(G), list(B))),
}


@pytest.mark.parametrize("call", GROUPS.values(), ids=GROUPS)
def test_groups_are_their_fields(f, call):
    np.testing.assert_array_equal(call(f), X * G + B)


MISTAKES = {
    "missing": (lambda f: f({"X": X}), r"f\(X, G, B\): missing: G, B$"),
    "unexpected": (lambda f: f({"X": X, "Q": G, "R": G, "B": B}), "missing: G; unexpected: Q, R"),
    "nearly": (lambda f: f({"X": X, "g": G, "B": B}), "did you mean G"),
    "by position and in a group": (lambda f: f(X, {"X": X, "G": G, "B": B}), "given twice: X"),
    "by name and in a group": (lambda f: f(Norm(G, B), X=X, G=G), "given twice: G"),
    "in two groups": (lambda f: f(Norm(G, B), {"X": X, "B": B}), "given twice: B"),
    "by position behind a group": (lambda f: f({"X": X}, G, B), "stands behind a dict or a named tuple"),
    "no names": (lambda f: f({0: X, 1: G, 2: B}), "not 0"),
    "a group in a group": (lambda f: f({"norm": Norm(G, B), "X": X}), "norm is a group in a group"),
    "an option in a group": (lambda f: f({"X": X, "G": G, "B": B, "out": X.copy()}), "out is an option of the call"),
    "too many": (lambda f: f((X, G, B, B)), "takes 3 arguments .* but 4 were given"),
    "a group by name": (lambda f: f(X=X, G=G, B={"B": B}), "B: a dict is no array"),
    "a tuple by name": (lambda f: f(X=X, G=G, B=(B, B)), "B: a tuple of arrays is a group.*np.stack"),
    "a group in a tuple": (lambda f: f((X, Norm(G, B), B)), "G: a Norm is no array"),
}


@pytest.mark.parametrize("call, words", MISTAKES.values(), ids=MISTAKES)
def test_nothing_is_guessed(f, call, words):
    with pytest.raises(TypeError, match=words):
        call(f)


def test_lists_and_tuples_of_numbers_are_arrays():
    double = tilec.compile("function (X[N]) -> (Y) { Y = X * 2.0; }")
    for numbers in ([1.0, 2.0], (1.0, 2.0), (np.float64(1), np.float64(2))):
        np.testing.assert_array_equal(double(numbers), [2, 4])
    flat = tilec.compile("function (X[N, M]) -> (Y) { Y = X * 2.0; }")
    np.testing.assert_array_equal(flat([X, G]), [2 * X, 2 * G])       # a list of arrays is an array of rows
    np.testing.assert_array_equal(flat(((1, 2), (3, 4))), [[2, 4], [6, 8]])
    with pytest.raises(
        TypeError, match="takes 1 argument .* but 2 were given; a tuple of arrays gives several, and np.stack"
    ):
        flat((X, G))
    np.testing.assert_array_equal(flat((np.stack([X, G]),)), [2 * X, 2 * G])


def test_inputs_that_are_called_as_an_option():
    f = tilec.compile("function f(out[N], wrt[N]) -> (Y) { Y = out - wrt; }")
    np.testing.assert_array_equal(f({"out": X, "wrt": G}), X - G)
    _, backward = f.vjp({"out": X, "wrt": G}, wrt="wrt")
    np.testing.assert_array_equal(backward({"dY": X}), -X)
    with pytest.raises(TypeError, match="out by name is an option of the call"):
        f(wrt=G, out=X)


def test_everything_that_takes_arguments_takes_groups(f, tmp_path):
    values = {"X": X, "G": G, "B": B}
    np.testing.assert_array_equal(f.grad(wrt="G")(values, dY=B), B * X)
    np.testing.assert_array_equal(f.grad(wrt="G")({**values, "dY": B}), B * X)
    np.testing.assert_array_equal(f.value_and_grad(wrt="X")(values, {"dY": B})[1], B * G)
    y, backward = f.vjp(values)
    np.testing.assert_array_equal(backward({"dY": B})[0], B * G)
    assert f.emit("plan", values) == f.emit("plan", X, G, B)
    out = B.copy()
    assert f(values, out=out, accumulate=True) is out
    np.testing.assert_array_equal(out, B + X * G + B)
    f.save(tmp_path / "f.tilec", values, vjp=True)
    package = tilec.load(tmp_path / "f.tilec")
    np.testing.assert_array_equal(package(Norm(G, B), X=X), y)
    np.testing.assert_array_equal(package.vjp(values)[1]({"dY": B})[0], B * G)
    for wrong, words in (({"X": X}, "missing: G, B"), ({**values, "Q": X}, "unexpected: Q")):
        with pytest.raises(TypeError, match=words):
            package(wrong)


def test_tensors_in_groups():
    torch = pytest.importorskip("torch")
    f = tilec.compile(TEXT)
    tensors = [torch.from_numpy(each) for each in (X, G, B)]
    for made in (
        f(dict(zip("XGB", tensors))),
        f(tuple(tensors)),
        f(tensors[0], Norm(*tensors[1:])),
        f({"X": tensors[0]}, {"G": tensors[1]}, {"B": tensors[2]}),
    ):
        assert isinstance(made, torch.Tensor)
        np.testing.assert_array_equal(made.numpy(), X * G + B)
