"""Plain numbers near the ends of 64 bits: kept where the program's type holds them, refused where they would change."""
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import tilec

TILEC = os.environ.get("TILEC", str(pathlib.Path(__file__).resolve().parents[2] / "build/cli/tilec"))
LARGE = 2**63 + 2**40


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_a_large_number_is_kept_by_a_float_and_by_u64(target):
    assert tilec.compile("function f(f64 S) -> (O) { O = S; }", target=target)(LARGE) == float(LARGE)
    assert tilec.compile("function f(u64 S) -> (O) { O = S; }", target=target)(2**64 - 1) == np.uint64(2**64 - 1)
    scaled = tilec.compile("function f(X[N], S) -> (O) { O = X * S; }", target=target)
    assert np.array_equal(scaled(np.ones(3, np.float32), LARGE), np.full(3, LARGE, np.float32))
    assert np.array_equal(scaled(np.ones(3, np.float32), -(2**63)), np.full(3, -(2**63), np.float32))


def test_a_large_number_does_not_become_negative():
    f = tilec.compile("function f(i64 S) -> (O) { O = S; }")
    assert f(2**63 - 1) == 2**63 - 1
    with pytest.raises((tilec.ProgramError, ValueError), match="does not fit in"):
        f(2**63)
    with pytest.raises(ValueError, match="does not fit in"):
        f(2**64)
    with pytest.raises(ValueError, match="does not fit in"):
        f(-(2**63) - 1)


@pytest.mark.parametrize("given", [2**63, np.uint64(2**63), np.array(2**64 - 1, np.uint64)])
def test_a_large_number_is_no_size(given):
    f = tilec.compile("function f(A[N], S) -> (O) { O[i: N] = +(A[i + S*j]), 0 <= j < 3; }")
    with pytest.raises(tilec.ProgramError, match="E0246"):
        f(np.ones(4, np.float32), given)
    with pytest.raises(ValueError, match="M is 9223372036854775808"):
        tilec.compile("function f(A[N]) -> (O) { O[i: M] = +(A[i]); }", size={"M": 2**63})


def test_indices_that_leave_64_bits_are_refused():
    f = tilec.compile("function f(A[N], S) -> (O) { O[i: N] = +(A[S*i - (S - 1)*j]), 0 <= j < 500; }")
    a = np.arange(600, dtype=np.float32)
    expected = np.where(np.arange(600) < 500, a, 0)
    assert np.array_equal(f(a, 10**12), expected)
    with pytest.raises(tilec.ProgramError, match="E0243"):
        f(a, 10**17)
    with pytest.raises(tilec.ProgramError, match="E0243"):
        f.grad()(a, 10**17, dO=a)


# ---- numbers given for scalars and elements: kept, rounded by a float, or refused by name

RANGES = {
    "bool": (0, 1),
    **{"i%d" % b: (-(1 << b - 1), (1 << b - 1) - 1) for b in (8, 16, 32, 64)},
    **{"u%d" % b: (0, (1 << b) - 1) for b in (8, 16, 32, 64)},
}
LARGEST = {"f16": 65504.0, "bf16": 3.3895e38, "f32": 3.4028235e38, "f64": 1.7976931348623157e308}
GIVEN = [
    0,
    1,
    2,
    -1,
    127,
    128,
    -128,
    -129,
    255,
    256,
    300,
    -32769,
    65535,
    65536,
    70000,
    2**31,
    2**32,
    -(2**31) - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    2**64,
    -(2**63) - 1,
    10**30,
    1.5,
    1e3,
    -0.0,
    1e39,
    1e300,
    float("inf"),
]


def is_kept(kind, given):
    """None: rounded by a float."""
    if kind in LARGEST:
        return abs(given) <= LARGEST[kind] or given == float("inf")
    low, high = RANGES[kind]
    return low <= given <= high and given == int(given)


def text_of(given):
    return str(given) if isinstance(given, int) else repr(given)


def run(folder, program, *words):
    (folder / "p.tile").write_text(program)
    return subprocess.run([TILEC, "run", "p.tile", *words], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("kind", [*RANGES, *LARGEST])
def test_the_command_keeps_a_number_or_refuses_it_by_name(tmp_path, kind):
    for given in GIVEN:
        for program, word in (
            ("function f(%s S) -> (Y) { Y = S; }" % kind, "S=" + text_of(given)),
            ("function f(%s S[N]) -> (Y) { Y = S; }" % kind, "S=1=[%s]" % text_of(given)),
        ):
            done = run(tmp_path, program, word, "Y=y.npy")
            if not is_kept(kind, given):
                assert done.returncode != 0 and "E0215" in done.stderr and "`S`" in done.stderr, (word, done)
                continue
            assert done.returncode == 0, (word, done)
            if kind == "bf16":
                continue
            value = np.load(tmp_path / "y.npy").reshape(())
            assert value == (given if kind in RANGES else np.array(float(given)).astype(value.dtype)), (word, value)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("kind", [k for k in [*RANGES, *LARGEST] if k != "bf16"])
def test_python_keeps_a_number_or_refuses_it_by_name(target, kind):
    f = tilec.compile("function f(%s S) -> (Y) { Y = S; }" % kind, target=target)
    f(1)
    for given in GIVEN:
        if is_kept(kind, given):
            assert f(given) == (given if kind in RANGES else np.array(float(given)).astype(f(1).dtype)), given
            continue
        with pytest.raises((tilec.ProgramError, ValueError), match="does not fit in"):
            f(given)
        with pytest.raises((tilec.ProgramError, ValueError), match="does not fit in"):
            tilec.compile("function f(%s S) -> (Y) { Y = S; }" % kind, target=target)(given)


def test_a_number_for_a_narrow_size_is_not_wrapped():
    f = tilec.compile("function f(X[N], u8 S) -> (Y) { Y[i: S] = +(X[i]); }")
    assert f(np.ones(3, np.float32), 200).shape == (200,)
    with pytest.raises(tilec.ProgramError, match="300, given for `S`, does not fit in `u8`"):
        f(np.ones(3, np.float32), 300)


@pytest.mark.parametrize(
    "stored, kind, message",
    [
        ("i8", "u8", "-1, element 1 of `A`"),
        ("i64", "u8", "300, element 1"),
        ("f8", "i4", "1.5, element 1"),
        ("f8", "f4", "1e+300, element 1"),
        ("u8", "i8", "18446744073709551615"),
    ],
)
def test_a_file_is_converted_without_loss_or_refused(tmp_path, stored, kind, message):
    bad = {"-1": -1, "300": 300, "1.5": 1.5, "1e+300": 1e300, "18446744073709551615": 2**64 - 1}[message.split(",")[0]]
    types = {"u8": "u8", "i4": "i32", "f4": "f32", "i8": "i64"}
    stored = {"i8": "i1", "i64": "i8"}.get(stored, stored)
    program = "function f(%s A[N]) -> (B) { B = A; }" % types[kind]
    np.save(tmp_path / "a.npy", np.array([1, 2], stored))
    assert run(tmp_path, program, "A=a.npy").returncode == 0
    np.save(tmp_path / "a.npy", np.array([1, bad], stored))
    done = run(tmp_path, program, "A=a.npy")
    assert done.returncode != 0 and "E0215" in done.stderr and message in done.stderr


@pytest.mark.parametrize("value", ["arange:300xu8", "arange:200xi8", "arange:3xbool"])
def test_a_range_is_not_wrapped(tmp_path, value):
    done = run(tmp_path, "function f(A[N]) -> (B) { B = A; }", "A=" + value)
    assert done.returncode != 0 and "E0215" in done.stderr


@pytest.mark.parametrize("given", [2**64, -(2**63) - 1, 10**30])
def test_an_integer_beyond_64_bits_is_no_number_of_an_undeclared_scalar(tmp_path, given):
    program = "function f(X[N], S) -> (Y) { Y = X * S; }"
    done = run(tmp_path, program, "X=ones:2", "S=%d" % given)
    assert done.returncode != 0 and "E0215" in done.stderr and "`S`" in done.stderr
    assert run(tmp_path, program, "X=ones:2", "S=%d.0" % given).returncode == 0


@pytest.mark.parametrize("kind", LARGEST)
@pytest.mark.parametrize("given", [2**64, -(2**63) - 1, 3 * 10**30, 10**38, 2**1023])
def test_an_integer_beyond_64_bits_is_the_float_it_fits(kind, given):
    if kind == "bf16":
        pytest.importorskip("ml_dtypes")
    f = tilec.compile("function f(f64 X[N], %s S) -> (Y) { Y = f64(S) * X; }" % kind)
    x = np.array([1.0, -0.5])
    for call in (f, lambda *a: f.vjp(*a)[0], lambda *a: f.value_and_grad(of="Y", wrt="X")(*a, np.ones(2))[0]):
        if is_kept(kind, given):
            same = call(x, float(given))
            np.testing.assert_array_equal(call(x, given), same)
            np.testing.assert_array_equal(call(x, 3), 3 * x)
        else:
            with pytest.raises(
                ValueError,
                match="S: .* does not fit in %s" % {"f16": "float16", "f32": "float32", "bf16": "bfloat16"}[kind],
            ):
                call(x, given)


def test_an_integer_beyond_64_bits_is_no_undeclared_scalar():
    for body in ("S * X", "S", "X + 0.5 * S"):
        f = tilec.compile("function f(f64 X[N], S) -> (Y) { Y = %s; }" % body)
        for call in (f, lambda *a: f.emit("plan", *a), lambda *a: f.save("unwritten.tilec", *a)):
            with pytest.raises(
                ValueError,
                match="S: 18446744073709551616 does not fit in 64 bits; give a float, or declare it one: `f32 S`",
            ):
                call(np.ones(3), 2**64)


@pytest.mark.parametrize(
    "kind, given, kept",
    [
        ("f64", 2**64, True),
        ("f32", -(2**63) - 1, True),
        ("f32", 10**39, False),
        ("f16", 2**64, False),
        ("i64", 2**64, False),
        ("u8", 2**64, False),
    ],
)
def test_a_package_and_a_stage_take_the_numbers_that_a_call_takes(tmp_path, kind, given, kept):
    f = tilec.compile("function f(f64 X[N], %s S) -> (Y) { Y = f64(S) * X; }" % kind)
    x, path = np.array([1.0, -0.5]), tmp_path / "f.tilec"
    for write in (
        lambda: f.save(path, x, given),
        lambda: f.save(path, x, given, vjp=True),
        lambda: f.emit("plan", x, given),
    ):
        if kept:
            write()
        else:
            with pytest.raises(ValueError, match="S: .* does not fit in"):
                write()
    if kept:
        f.save(path, x, given)
        np.testing.assert_array_equal(tilec.load(path)(x, given), f(x, given))


@pytest.mark.parametrize(
    "given",
    ["18446744073709551615", "9223372036854775808", "18446744073709551616", "-18446744073709551616", "1e400", "9" * 60],
)
def test_a_size_that_64_bits_do_not_hold_is_named_as_one(tmp_path, given):
    for program in (
        "function f(A[N], S) -> (B) { B[i: S] = =(A[i]); }",
        "function f(A[N], S) -> (B) { B[i: N] = =(A[i + S]); }",
        "function f(A[N], S) -> (B) { B[i: N] = =(A[i]), i < S; }",
    ):
        done = run(tmp_path, program, "A=ones:2", "S=" + given)
        assert done.returncode in (1, 2) and "E0246" in done.stderr and "f64" not in done.stderr, done
    done = run(tmp_path, program, "A=ones:2", "S=1", "--size", "N=" + given)
    assert done.returncode == 2 and "does not fit in 64 bits" in done.stderr or given == "1e400", done


def test_a_large_size_of_a_gradient_is_one_error():
    f = tilec.compile("function f(A[N], S) -> (B) { B[i: S] = =(A[i]); }")
    with pytest.raises(tilec.ProgramError, match="E0246") as said:
        f.grad(wrt="A")(np.ones(3, np.float32), 2**64 - 1, np.ones(3, np.float32))
    assert len(said.value.diagnostics) == 1


@pytest.mark.parametrize(
    "given, exact",
    [
        (2**53 + 1, False),
        (2**63 - 1, False),
        (2**63, True),
        (2**64 - 1, False),
        (2**64, True),
        (2**64 + 1, False),
        (-(2**63), True),
        (-(2**63) - 1, False),
        (3 * 2**1000, True),
        (10**400, False),
    ],
)
def test_an_integer_parameter_is_the_float_that_it_is(tmp_path, given, exact):
    text = "function f<X>(f64 A[N]) -> (B) { B = A * X; }"
    done = run(tmp_path, text, "A=ones:2", "B=b.npy", "--define", "X=%d" % given)
    if exact:
        assert done.returncode == 0 and np.load(tmp_path / "b.npy").tolist() == [float(given)] * 2, done
        np.testing.assert_array_equal(tilec.compile(text, define={"X": given})(np.ones(2)), [float(given)] * 2)
        return
    assert done.returncode == 2 and "--define" in done.stderr and len(done.stderr) < 300, done
    with pytest.raises(ValueError, match="define=: X is") as said:
        tilec.compile(text, define={"X": given})
    assert len(str(said.value)) < 200
    if hint := re.search("such as `(X=.*)`", done.stderr):
        assert run(tmp_path, text, "A=ones:2", "--define", hint[1]).returncode == 0


@pytest.mark.parametrize("text", ["1e400", "18446744073709551616", "2.5", "-1"])
def test_a_parameter_that_is_a_number_as_text_is_no_function(text):
    with pytest.raises(TypeError, match="define=: X is '%s', a number as text" % text):
        tilec.compile("function f<X>(A[N]) -> (B) { B = A * X; }", define={"X": text})


@pytest.mark.parametrize("given", [True, False, np.True_, np.False_])
@pytest.mark.parametrize("kind", ["", "f32 ", "i32 ", "bool "])
def test_booleans_of_python_and_numpy_are_the_same_numbers(tmp_path, kind, given):
    for body in ("S", "S + 1", "A * S", "S ? A : -A", "(A > 1) == S"):
        f, a = tilec.compile("function f(A[N], %sS) -> (B) { B = %s; }" % (kind, body)), np.arange(3, dtype=np.float32)
        same, got = f(a, bool(given)), f(a, given)
        assert got.dtype == same.dtype
        np.testing.assert_array_equal(got, same)
    text = "function f<X>(A[N]) -> (B) { B = A * X; }"
    np.testing.assert_array_equal(tilec.compile(text, define={"X": given})(a), a * given)
    assert run(tmp_path, text, "A=arange:3", "--define", "X=" + str(bool(given)).lower()).returncode == 0


@pytest.mark.parametrize("option", ["--seed", "--threads", "--room"])
@pytest.mark.parametrize("given", ["1e5", "-1", "1.5", "x", "9" * 30])
def test_options_that_are_integers_say_so(tmp_path, option, given):
    (tmp_path / "p.tile").write_text("function f(A[N]) -> (B) { B = A; }")
    words = (
        ["build", "p.tile", "--size", "N=3", "-o", "p.tilec", "--vjp"]
        if option == "--room"
        else ["run", "p.tile", "A=random:3"]
    )
    done = subprocess.run([TILEC, *words, option, given], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "%s: `%s` is no integer from" % (option, given) in done.stderr, done


def test_a_size_that_is_written_as_a_float_is_told_how(tmp_path):
    program = "function f(A[N], Z[M]) -> (B) { B[i: M] = +(A[i]); }"
    done = run(tmp_path, program, "A=ones:2", "Z=ones:10", "--size", "M=1e1")
    assert done.returncode == 2 and "is not an integer" in done.stderr
    assert (
        run(
            tmp_path, program, "A=ones:2", "Z=ones:10", *re.search("write `(--size .*)`", done.stderr)[1].split()
        ).returncode
        == 0
    )


@pytest.mark.parametrize(
    "body, options",
    [
        ("X * 1e39", []),
        ("f16(X) * 100000.0", []),
        ("f16(X) * 1e100", []),
        ("X * F", ["--define", "F=1e39"]),
        ("X * 18446744073709551616", []),
        ("X + %s" % ("9" * 60), []),
    ],
)
def test_a_number_that_is_too_large_is_written_so_that_it_fits(tmp_path, body, options):
    program = (
        "function f<F=1>(f64 X[N]) -> (Y) { Y = %s; }" % body
        if "9" * 60 in body
        else "function f<F=1>(X[N]) -> (Y) { Y = %s; }" % body
    )
    done = run(tmp_path, program, "X=ones:2", *options)
    assert done.returncode == 1
    written = re.search("hint: (?:compute in a wider type:|write) `(.*)`", done.stderr)[1]
    mended = program.replace("F;", written + ";") if options else re.sub(r" [0-9.e]+;", " " + written + ";", program)
    assert run(tmp_path, mended, "X=ones:2").returncode == 0, (mended, done.stderr)


@pytest.mark.parametrize("kind", ["f64", "i64", "u8", "bool", ""])
def test_an_integer_that_nothing_holds_is_named_without_its_digits(kind):
    f = tilec.compile("function f(%s S, i64 A[N]) -> (Y) { Y = S; }" % kind)
    with pytest.raises(ValueError, match="S: an integer of 3000. bits does not fit in") as said:
        f(10**9031, np.ones(3, np.int64))
    assert len(str(said.value)) < 100
    with pytest.raises(ValueError, match="S: an integer of 3000. bits does not fit in 64 bits"):
        tilec.compile("function f(A[N], S) -> (Y) { Y[i: S] = +(A[i]); }")(np.ones(3), 10**9031)


@pytest.mark.parametrize(
    "word, kind",
    [("S=1e400", "f64"), ("S=-1e400", "f64"), ("S=" + "9" * 400, "u64"), ("S=0.0001e99999999999999999999", "f64")],
)
def test_the_command_takes_no_number_for_a_file(tmp_path, word, kind):
    done = run(tmp_path, "function f(S) -> (Y) { Y = S; }", word)
    assert (
        done.returncode != 0
        and "E0215" in done.stderr
        and "does not fit in `%s`" % kind in done.stderr
        and len(done.stderr) < 200
    ), done
    for declared in ("f16", "bf16", "f32", "f64", "u8"):
        done = run(tmp_path, "function f(%s S[N]) -> (Y) { Y = S; }" % declared, "S=1=[%s]" % word[2:])
        assert (
            "E0215" in done.stderr and "does not fit in `%s`" % declared in done.stderr and len(done.stderr) < 200
        ), done


def test_numbers_next_to_zero_are_zero(tmp_path):
    for word in ("S=1e-400", "S=0.000e99999", "S=-1e-99999999999999999999"):
        done = run(tmp_path, "function f(f64 S) -> (Y, Z) { Y = S == 0.0; Z = 1e-400 + 0e400 == 0.0; }", word)
        assert done.returncode == 0 and done.stdout.count("[true]") == 2, done


def test_a_definition_is_as_large_as_a_literal(tmp_path):
    (tmp_path / "p.tile").write_text("function f<X>(A[N]) -> (B) { B = A * X; }")
    for value in ("1e400", "-1e400"):
        done = subprocess.run(
            [TILEC, "run", "p.tile", "--define", "X=" + value, "A=ones:1"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2 and "does not fit in `f64`" in done.stderr, done
