"""Functions with packs: one text for every rank, told by arrays or by rank=."""
import itertools
import pickle
import subprocess

import numpy as np
import pytest

import tilec
from test_cli import TILEC

SOFTMAX = """function softmax(X[B..., N]) -> (Y) {
  M[b...: B...] = >(X[b..., n]);
  E[b..., n: B..., N] = =(exp(X[b..., n] - M[b...]));
  Z[b...: B...] = +(E[b..., n]);
  Y[b..., n: B..., N] = =(E[b..., n] / Z[b...]);
}
"""
NORM = """function total(X[B...]) -> (S, Mean) {
  S[] = +(X[b...] * X[b...] * X[b...]);
  Mean = S / f64(product(B...));
}
"""
MIDDLE = """function apply(X[A..., K, B...], W[A..., K, J]) -> (Y) {
  T = tanh(X);
  Y[a..., b..., j: A..., B..., J] = +(T[a..., k, b...] * W[a..., k, j]);
}
"""
SHAPES = [(), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3)]


def draw(*shape, seed=0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def differences(f, x, direction, step=1e-5):
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_one_program_takes_every_rank(target):
    f = tilec.compile(SOFTMAX, target=target)
    for shape in (*SHAPES, *SHAPES):                           # again: each is known by now
        x = draw(*shape, 5)
        np.testing.assert_allclose(f(x), softmax(x), rtol=1e-12)


@pytest.mark.parametrize("text, rest", [(SOFTMAX, (4,)), (NORM, ())])
@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_of_first_and_second_order(text, rest, shape):
    f = tilec.compile(text).grad(of=["Y" if "(Y)" in text else "S"])
    value = tilec.compile(text)
    x, along, other = draw(*shape, *rest), draw(*shape, *rest, seed=1), draw(*shape, *rest, seed=2)
    first = lambda at: np.asarray(value(np.asarray(at))[0] if "S, Mean" in text else value(np.asarray(at)))
    weights = draw(*np.shape(first(x)), seed=3)
    gradient = lambda at: np.asarray(f(np.asarray(at), weights))
    np.testing.assert_allclose(
        np.sum(gradient(x) * along), np.sum(weights * differences(first, x, along)), rtol=1e-6, atol=1e-8
    )
    second = f.grad(wrt=["X"])
    np.testing.assert_allclose(
        np.sum(second(x, weights, other) * along), np.sum(other * differences(gradient, x, along)), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("a, b", list(itertools.product(SHAPES[:4], SHAPES[:4])))
def test_two_packs(a, b):
    f = tilec.compile(MIDDLE)
    x, w = draw(*a, 4, *b), draw(*a, 4, 2, seed=1)
    wanted = np.moveaxis(np.tanh(x), len(a), -1).reshape(*a, -1, 4) @ w
    np.testing.assert_allclose(f(x, w), wanted.reshape(*a, *b, 2), rtol=1e-12, atol=1e-14)


def test_ranks_that_do_not_fit():
    f = tilec.compile(MIDDLE)
    for x, w, words in [
        (draw(4, 3), draw(2, 4, 2), "`X` is declared with at least 2 dimensions but is given 2"),
        (draw(2), draw(2), "at least"),
        (draw(2, 4, 3), draw(3, 4, 2), "`A0` is 2 in `X` but 3 in `W`"),
    ]:
        if words.startswith("`X`"):
            assert f(x[None].repeat(2, 0), w).shape == (2, 3, 2)
            continue
        with pytest.raises(ValueError, match=words):
            f(x, w)


def test_rank_says_what_no_array_does():
    with pytest.raises(ValueError, match="how many dimensions `B...`"):
        tilec.compile(SOFTMAX).emit("contraction")
    f = tilec.compile(SOFTMAX, rank={"B": 2})
    assert "X[B0, B1, N]" in f.emit("contraction")
    assert f != tilec.compile(SOFTMAX)
    assert pickle.loads(pickle.dumps(f)).emit("gradient") == f.emit("gradient")
    with pytest.raises(ValueError, match="`B...` is 2 dimensions in `rank=` but 1 in `X`"):
        f(draw(2, 3))
    for rank, words in [({"N": 1}, "has no dimensions `N...`"), ({"b": 1}, "did you mean `B`"), ({"B": -1}, "-1")]:
        with pytest.raises(ValueError, match=words):
            tilec.compile(SOFTMAX, rank=rank)


def test_a_package_has_the_rank_it_was_saved_for(tmp_path):
    f = tilec.compile(SOFTMAX)
    x = draw(2, 3, 4).astype("f4")
    f.save(tmp_path / "soft.tilec", x)
    saved = tilec.load(tmp_path / "soft.tilec")
    np.testing.assert_array_equal(saved(x), f(x))
    with pytest.raises(ValueError, match="X"):
        saved(x[0])
    (tmp_path / "soft.tile").write_text(SOFTMAX)
    built = subprocess.run(
        [
            TILEC,
            "build",
            tmp_path / "soft.tile",
            "--rank",
            "B=2",
            "--size",
            "B0=2,B1=3,N=4",
            "-o",
            tmp_path / "built.tilec",
        ],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    np.testing.assert_array_equal(tilec.load(tmp_path / "built.tilec")(x), f(x))


def test_a_batch_in_front_of_a_pack():
    f = tilec.compile(SOFTMAX)
    x = draw(4, 2, 3)
    np.testing.assert_allclose(f.vmap()(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(f.vmap().vmap()(x), f(x), rtol=1e-12)


def test_std_has_its_derivative_at_every_rank():
    for shape in SHAPES:
        x, d = draw(*shape, 5), draw(*shape, 5, seed=1)
        y = softmax(x)
        np.testing.assert_allclose(
            tilec.compile(SOFTMAX).grad()(x, d), y * (d - np.sum(y * d, -1, keepdims=True)), rtol=1e-9, atol=1e-12
        )


def test_a_missing_input_is_named_and_hints_are_of_python():
    f = tilec.compile("function f(X[B..., N], W[N]) -> (Y) { Y[b..., n: B..., N] = =(X[b..., n] * W[n]); }")
    with pytest.raises(TypeError, match="missing: X"):
        f(W=draw(3))
    with pytest.raises(ValueError, match="B...") as raised:
        f.emit("gradient")
    assert (
        '`rank={"B": 2}`' in str(raised.value)
        and "--" not in str(raised.value)
        and raised.value.diagnostics[0].hint == 'say it: `rank={"B": 2}`, or `rank={"B": 0}` where it is none'
    )
