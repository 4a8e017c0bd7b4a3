"""Outputs wherever the caller wants them, one tensor several times, an input among them."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tilec

TILEC = os.environ.get("TILEC", str(pathlib.Path(__file__).resolve().parents[2] / "build/cli/tilec"))

TEXT = "function (X[N, M]) -> (X, Y, Y) { Y = X + 1; }"


def places(shape):
    """The same shape in row-major, column-major, spaced and reversed memory."""
    return [
        np.zeros(shape, "f4"),
        np.zeros(shape[::-1], "f4").T,
        np.zeros((2 * shape[0], shape[1]), "f4")[::2],
        np.zeros(shape, "f4")[::-1, ::-1],
    ]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("turn", range(4))
def test_every_output_has_strides_of_its_own(target, turn):
    f = tilec.compile(TEXT, target=target)
    x = np.random.default_rng(turn).random((8, 6), dtype="f4")
    for source in (x, x[::-1], np.asfortranarray(x)):
        out = tuple(places((8, 6))[(turn + k) % 4] for k in range(3))
        f(source, out=out)
        for got, wanted in zip(out, (source, source + 1, source + 1)):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_links_of_a_chain_that_overlap_leave_no_element_unwritten(target):
    text = "function f(X[N]) -> (P) { A[i: N] = =(X[i]), i < 3 default 7.0; B[2*i + 1: N] = =(-X[i]) default A; P[i + 1: N] = =(2.0*X[i]), i < 2 default B; }"
    f = tilec.compile(text, target=target)
    for size in range(1, 12):
        x = np.arange(1, size + 1, dtype="f4")
        wanted = np.full(size, 7, "f4")
        wanted[:3] = x[:3]
        wanted[1::2] = -x[:size // 2]
        wanted[1:3] = 2 * x[:2][:len(wanted[1:3])]
        np.testing.assert_array_equal(f(x), wanted)


@pytest.mark.parametrize("place", [np.float32(1), 1.0, [1.0], "a", None])
def test_what_is_no_array_cannot_be_written_to(place):
    f = tilec.compile("function f(X[N]) -> (Y, Z) { Y[] = +(X[i]); Z = X; }")
    with pytest.raises(TypeError, match="out= for Y"):
        f(np.ones(3, "f4"), out=[place, np.zeros(3, "f4")])


# ---- a result listed twice: two outputs, each with a name and a cotangent of its own

TARGETS = ["cpu", "opencl", "reference"]
TWICE = "function f(A[N]) -> (C, C) { C = A * A; }"


@pytest.mark.parametrize("target", TARGETS)
def test_each_of_two_outputs_has_a_cotangent(target):
    f = tilec.compile(TWICE, target=target)
    a, one, ten = np.array([1.0, 2, 3]), np.array([1.0, 0, 2]), np.array([0.0, 10, 100])
    assert f.outputs == ("C", "C_1")
    assert f.grad().inputs == ("A", "dC", "dC_1")
    np.testing.assert_array_equal(f.grad()(a, one, ten), 2 * a * (one + ten))
    np.testing.assert_array_equal(f.grad()(a, dC_1=ten, dC=one), 2 * a * (one + ten))
    np.testing.assert_array_equal(f.grad(of="C_1")(a, ten), 2 * a * ten)
    np.testing.assert_array_equal(f.grad(of="C")(a, one), 2 * a * one)
    np.testing.assert_array_equal(f.jvp()(a, one), (2 * a * one, 2 * a * one))
    np.testing.assert_array_equal(f.jvp(of="C_1")(a, one), 2 * a * one)
    values, backward = f.vjp(a)
    np.testing.assert_array_equal(values, (a * a, a * a))
    np.testing.assert_array_equal(backward(one, ten), 2 * a * (one + ten))
    both = f.value_and_grad(of=["C", "C_1"])
    assert both.outputs == ("C", "C_1", "dA")
    np.testing.assert_array_equal(both(a, one, ten), (a * a, a * a, 2 * a * (one + ten)))
    np.testing.assert_array_equal(f.grad().grad(of="dA", wrt="A")(a, one, ten, a), 2 * (one + ten) * a)


@pytest.mark.parametrize(
    "text, names",
    [
        ("function f(A[N]) -> (A) { B = A; }", ("A_1",)),
        ("function f(A[N]) -> (A, A) { }", ("A_1", "A_2")),
        ("function f(A[N]) -> (A, B, A, B, A) { B = A; }", ("A_1", "B", "A_2", "B_1", "A_3")),
        ("function f(A[N], A_1[N]) -> (A, A_1) { }", ("A_2", "A_1_1")),
        ("function f(A[N], #a[N]) -> (#a, A) { }", ("a_1", "A_1")),
        ("function f(A[N]) -> (C', C') { C' = A; }", ("C'", "C_1'")),
        ("function f(A[N]) -> (C, C, C_1) { C = A; C_1 = 2.0 * A; }", ("C", "C_2", "C_1")),
        ("function f(A[N], C_1[N]) -> (C, C) { C = A; }", ("C", "C_2")),
        ("function f(A[C_1]) -> (C, C) { C = A; }", ("C", "C_2")),
        ("function f(A[N]) -> (#c, #c) { #c = A; }", ("c", "c_1")),
        ("function f(A[N]) -> (C, C) { C_1 = A; C = C_1 + C_1; }", ("C", "C_2")),
    ],
)
def test_names_agree_everywhere(tmp_path, text, names):
    f = tilec.compile(text)
    assert f.outputs == names
    arrays = [np.arange(3.0) for _ in f.inputs]
    results = f(*arrays) if len(names) > 1 else (f(*arrays),)
    f.save(tmp_path / "f.tilec", *arrays)
    package = tilec.load(tmp_path / "f.tilec")
    assert tuple(package.outputs) == names
    for got, wanted in zip(package(*arrays) if len(names) > 1 else (package(*arrays),), results):
        np.testing.assert_array_equal(got, wanted)
    (tmp_path / "f.tile").write_text(text)
    done = subprocess.run(
        [
            TILEC,
            "run",
            "f.tile",
            *("%s=arange:3" % name for name in f.inputs),
            *("%s=%s.npy" % (n, n) for n in names),
            "--grad-check",
            "--of=" + names[-1],
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "agrees" in done.stdout and "disagree" not in done.stdout, done
    for name, wanted in zip(names, results):
        np.testing.assert_array_equal(np.load(tmp_path / (name + ".npy")), wanted)
    cotangents = [np.full(3, 10.0**k) for k in range(len(names))]
    back = f.grad(wrt="A")
    assert back.inputs[len(f.inputs):] == tuple("d" + name for name in names)
    for k, name in enumerate(names):
        alone = f.grad(of=name, wrt="A")(*arrays, cotangents[k])
        zeros = [c if j == k else 0 * c for j, c in enumerate(cotangents)]
        np.testing.assert_array_equal(back(*arrays, *zeros), alone)


@pytest.mark.parametrize(
    "text",
    [
        "function f(A[N]) -> (A) { }",
        "function f(A[N]) -> (A, A) { }",
        "function f(A[N]) -> (C, A) { C = A * A; }",
        "function f(A, S) -> (S, A, B) { B = S * A; }",
        "function f(A[N]) -> (B) { B = 2.0*A; } gradient f(A, B, dB) -> (dA) { dA = dB + dB; }",
        "function f(A[N]) -> (A) { } gradient f(A, B, dB) -> (dB) { }",
    ],
)
def test_results_that_are_inputs_have_gradients_that_are_checked(tmp_path, text):
    (tmp_path / "f.tile").write_text(text)
    numbers = ["S=2.5"] if ", S)" in text else []
    for words in (["--grad-check"], ["--forward", "tA=ones:3", "--grad-check"], ["--check"]):
        if "gradient f" in text and words[0] == "--forward":
            continue
        done = subprocess.run(
            [TILEC, "run", "f.tile", "A=arange:3", *numbers, *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0 and "agrees" in done.stdout and "disagree" not in done.stdout, (words, done)


def test_a_scalar_that_is_a_size_and_a_result():
    f = tilec.compile("function f(A[N], S) -> (S, C) { C[i: S] = =(A[i]); }")
    assert f.outputs == ("S_1", "C")
    size, values = f(np.arange(4.0), 3)
    assert size == 3 and values.tolist() == [0, 1, 2]


def test_a_size_listed_twice():
    f = tilec.compile("function f(A[N]) -> (N, N) { }")
    assert f.outputs == ("N", "N_1") and f(np.ones(3)) == (3, 3)
    out = [np.zeros((), "i8"), np.zeros((), "i8")]
    f(np.ones(3), out=out)
    assert out == [3, 3]


def test_adding_to_a_result_listed_twice():
    f = tilec.compile(TWICE)
    for names, first, second in (("C", 11, 11), ("C_1", 1, 11), (True, 11, 11), ([], 1, 1)):
        out = np.full(1, 10.0), np.full(1, 10.0)
        f(np.ones(1), out=out, accumulate=names)
        assert (out[0][0], out[1][0]) == (first, second), names


def test_a_rule_of_an_entry_with_a_result_listed_twice():
    f = tilec.compile(
        "function f(A[N]) -> (C, C) { C = A * 2.0; } gradient f(A, C, D, dC, dD) -> (dA) { dA = 3.0*dC + 5.0*dD; }"
    )
    np.testing.assert_array_equal(f.grad()(np.ones(2), np.ones(2), np.full(2, 10.0)), [53, 53])


def test_the_command_knows_both(tmp_path):
    (tmp_path / "f.tile").write_text(TWICE)

    def run(*words):
        return subprocess.run(
            [TILEC, "run", "f.tile", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    assert "C_1: 2 f32" in run("A=2xf32=[2 3]").stdout
    for words in (
        ["--grad-check"],
        ["--grad", "--grad-check", "dC=2xf64=[1 2]"],
        ["--grad-check", "--of=C_1"],
        ["--forward", "--grad-check", "tA=ones:2"],
        ["--grad", "--grad-check", "dC=ones:2", "dC_1=ones:2"],
        ["--grad", "--of=C_1", "dC_1=ones:2", "--check"],
    ):
        done = run("A=2xf64=[2 3]", *words)
        assert done.returncode == 0 and "disagree" not in done.stdout, (words, done)
    assert "[44 66]" in run("A=2xf64=[2 3]", "--grad", "dC=ones:2", "dC_1=2xf64=[10 10]").stdout
    assert run("A=2xf64=[2 3]", "C_1=c.npy", "--quiet").returncode == 0 and np.load(tmp_path / "c.npy").tolist() == [
        4,
        9,
    ]
