"""A plain number for an undeclared scalar takes the type of what it meets: it is refused where that type does not have
it, whichever way it is given and however often; and a derivative does not depend on whether it is written 2 or 2.0. A
scalar that has a type keeps it."""
import subprocess

import numpy as np
import pytest
import tilec
from test_cli import TILEC

HAS = {
    "u8": (255, [256, 300, -1]),
    "i8": (-128, [128, 300, -129]),
    "u16": (65535, [65536, -1]),
    "i16": (-32768, [32768, 70000]),
    "u32": (2**32 - 1, [2**32, -1]),
    "i32": (-(2**31), [2**31]),
    "u64": (5, [-1]),
    "f16": (65504, [70000, 10**6, 1e6, -1e9]),
    "f32": (1e38, [1e39, -1e300]),
}
NUMPY = {
    "u8": "u1",
    "i8": "i1",
    "u16": "u2",
    "i16": "i2",
    "u32": "u4",
    "i32": "i4",
    "u64": "u8",
    "f16": "f2",
    "f32": "f4",
    "bf16": None,
}
PRODUCT = "function f(X[N], S) -> (Y) { Y = X * S; }"
FORMS = {
    "product": PRODUCT,
    "contraction": "function f(X[N], S) -> (Y) { Y[i: N] = =(X[i] * S); }",
    "select": "function f(X[N], S) -> (Y) { Y = X > 0 ? X : S; }",
    "call": "function g(A[N], B) -> (C) { C = max(A, B); }\nfunction f(X[N], S) -> (Y) { Y = g(X, S); }",
}


def refused():
    return pytest.raises((tilec.ProgramError, ValueError), match="does not fit in|is given 300")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", HAS)
def test_python_refuses_what_the_type_does_not_have(kind, form):
    x = np.ones(2, NUMPY[kind])
    good, bad = HAS[kind]
    f = tilec.compile(FORMS[form], function="f")
    assert f(x, good).dtype == x.dtype
    for number in bad:
        with refused() as said:
            f(x, number)                                      # the kernel is compiled
        assert "S" in str(said.value)
        with refused() as said:
            tilec.compile(FORMS[form], function="f")(x, number)
        assert "`S`" in str(said.value) or "S:" in str(said.value)


@pytest.mark.parametrize("kind", [*HAS, "bf16"])
def test_the_command_refuses_what_the_type_does_not_have(kind, tmp_path):
    (tmp_path / "f.tile").write_text(PRODUCT)
    good, bad = HAS.get(kind, (1e38, [1e39]))
    run = lambda number: subprocess.run(
        [TILEC, "run", "f.tile", "X=ones:2x%s" % kind, "S=%s" % number], cwd=tmp_path, capture_output=True, text=True
    )
    assert run(good).returncode == 0
    for number in bad:
        done = run(number)
        assert (
            done.returncode == 1 and "E0215" in done.stderr and "`S`" in done.stderr and "`%s`" % kind in done.stderr
        ), done


@pytest.mark.parametrize("dtype", "f2 f4 f8 i1 u1 i4 i8 ?".split())
def test_a_scalar_with_a_type_is_an_array_without_dimensions(dtype, tmp_path):
    f = tilec.compile(PRODUCT)
    scalar = np.dtype(dtype).type(1)
    for x in (np.ones(2, "f4"), np.ones(2, "i4"), np.ones(2, "f8")):
        made = f(x, np.asarray(scalar))
        assert f(x, scalar).dtype == made.dtype and f(x, scalar).tolist() == made.tolist()
        if made.dtype.kind == "f":
            assert made.dtype == f(x, np.full(2, scalar)).dtype
            assert f.grad(wrt="X")(x.astype("f8"), scalar, x.astype("f8")).dtype == np.float64
    f.save(tmp_path / "f.tilec", np.ones(2, "f4"), scalar)
    assert tilec.load(tmp_path / "f.tilec")(np.ones(2, "f4"), scalar).dtype == f(np.ones(2, "f4"), scalar).dtype


def test_a_declared_scalar_refuses_another_type():
    f = tilec.compile("function f(X[N], f32 S) -> (Y) { Y = X * S; }")
    assert f(np.ones(2, "f4"), 0.5).dtype == np.float32
    with pytest.raises(tilec.ArgumentTypeError, match="`S` is declared `f32` but is given `f64`"):
        f(np.ones(2, "f4"), np.float64(0.5))


def test_a_package_refuses_it_too(tmp_path):
    f = tilec.compile(PRODUCT)
    x = np.array([1, 2], np.uint8)
    f.save(tmp_path / "f.tilec", x, 3)
    loaded = tilec.load(tmp_path / "f.tilec")
    assert loaded(x, 4).tolist() == [4, 8]
    with refused():
        loaded(x, 300)


def test_a_number_is_what_it_was_where_its_type_is_not_decided():
    x, z = np.array([1, 2], np.uint8), np.ones(2, np.float32)
    # by name it wraps
    assert tilec.compile("function f(X[N], S) -> (Y) { Y = X * u8(S); }")(x, 300).tolist() == [44, 88]
    # compared in i64
    assert tilec.compile("function f(X[N], S) -> (Y) { Y = X < S ? 1 : 0; }")(x, 300).tolist() == [1, 1]
    assert tilec.compile("function f(X[N], S) -> (Y) { Y = i32(X) * S; }")(x, 300).tolist() == [300, 600]
    # a real makes reals
    assert tilec.compile("function f(X[N], S) -> (Y) { Y = X * S; }")(x, 2.5).tolist() == [2.5, 5.0]
    y, w = tilec.compile("function f(X[N], Z[N], S) -> (Y, W) { Y = X * S; W = Z * S; }")(x, z, 100)
    assert y.tolist() == [100, 200] and w.dtype == np.float32 and w.tolist() == [100, 100]
    d = np.array([1.0])
    y, w = tilec.compile("function f(X[N], Z[N], S) -> (Y, W) { Y = X * S; W = Z * S; }")(d, np.ones(1, "f4"), 0.1)
    assert y[0] == 0.1 and w[0] == np.float32(0.1)            # not rounded for both
    with refused():
        tilec.compile("function f(X[N], Z[N], S) -> (Y, W) { Y = X * S; W = Z * S; }")(x, z, 300)


# The program, and whether 3 and 3.0 are the same to it.
DERIVED = {
    "Y = X * S;": True,
    "Y = X * (S + 1);": True,
    "Y = X - S * S;": True,
    "Y = exp(X / S);": True,
    "Y = X > S ? X * S : X;": True,
    "Y = X * sqrt(S);": True,
    "Y[i: N] = +(X[j] * S), j <= i;": True,
    "Y = X * (S / 2);": False,
}


@pytest.mark.parametrize("body", [b for b, same in DERIVED.items() if same])
def test_derivatives_by_2_are_those_by_2_0(body, tmp_path):
    f = tilec.compile("function f(X[N], S) -> (Y) { %s }" % body)
    x = np.array([0.5, 1.5, 2.5], np.float32)
    for made in (f.grad(), f.value_and_grad(), f.grad(wrt="S"), f.grad(wrt=["S", "X"])):
        whole, real = made(x, 2, x), made(x, 2.0, x)
        assert isinstance(whole, tuple) == isinstance(real, tuple)
        whole, real = (whole, real) if isinstance(real, tuple) else ((whole,), (real,))
        assert len(whole) == len(real) == len(made.outputs)
        for a, b in zip(whole, real):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    whole, real = f.vjp(x, 2)[1](x), f.vjp(x, 2.0)[1](x)
    assert len(whole) == len(real) == 2
    np.testing.assert_array_equal(whole[1], real[1])
    np.testing.assert_array_equal(f.jvp()(x, 2, tX=x, tS=1.0), f.jvp()(x, 2.0, tX=x, tS=1.0))
    np.testing.assert_array_equal(f(x, 2), f.value_and_grad()(x, 2, x)[0])
    (tmp_path / "f.tile").write_text("function f(X[N], S) -> (Y) { %s }" % body)
    said = [
        subprocess.run(
            [TILEC, "run", "f.tile", "--grad", "X=arange:3", "S=" + s, "dY=ones:3"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        for s in ("2", "2.0")
    ]
    assert said[0].stdout == said[1].stdout and "dS" in said[0].stdout, said


def test_an_integer_that_is_computed_with_as_one_is_refused_or_left_out_by_name():
    f = tilec.compile("function f(X[N], S) -> (Y) { Y = X * (S / 2); }")
    x = np.ones(2, np.float32)
    assert f(x, 3).tolist() == [1, 1] and f(x, 3.0).tolist() == [1.5, 1.5]
    for made in (f.grad(), f.value_and_grad()):
        with pytest.raises(tilec.ProgramError, match="`S` is an integer here"):
            made(x, 3, x)
    assert f.grad(wrt="X")(x, 3, x).tolist() == [1, 1]
    size = tilec.compile("function f(X[N], S) -> (Y) { Y[i: N] = +(X[i + j]), 0 <= j < S; }")
    assert size.grad()(x, 2, x).shape == (2,)                  # a size is never real
