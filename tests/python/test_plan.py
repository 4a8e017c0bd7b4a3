"""Plans from Python: what emit() prints is followed, whole or in part, and what does not apply is an error with its
place."""
import subprocess

import numpy as np
import pytest

import tilec
from drivers import run_beside
from test_cli import TILEC

SOFTMAX = "function (X[M, N]) -> (Y) { A[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - A[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"
PRODUCT = "function product(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "opencl"])
@pytest.mark.parametrize("stage", ["plan", "loops"])
@pytest.mark.parametrize("text,arguments", [(SOFTMAX, (random(40, 30),)), (PRODUCT, (random(50, 20), random(20, 70)))])
def test_a_printed_plan_is_followed(text, arguments, target, stage):
    program = tilec.compile(text, target=target)
    assert program.with_plan(program.emit("plan", *arguments)).emit(stage, *arguments) == program.emit(
        stage, *arguments
    )


def test_a_plan_may_be_edited(tmp_path):
    A, B = random(50, 20), random(20, 70)
    program = tilec.compile(PRODUCT, target="cpu")
    file = tmp_path / "product.plan"
    file.write_text("group C\n  contract C  block 2x1  lanes 8\n")
    planned = tilec.compile(PRODUCT, target="cpu", plan=file)
    assert "block 2x1  lanes 8" in planned.emit("plan", A, B)
    np.testing.assert_allclose(planned(A, B), program(A, B), rtol=1e-5, atol=1e-5)
    assert program.emit("plan", A, B) != planned.emit("plan", A, B)


def test_a_derivative_has_a_plan_of_its_own():
    A, B, dC = random(50, 20), random(20, 70), random(50, 70)
    gradient = tilec.compile(PRODUCT, plan="group C\n  contract C  block 2x1  lanes 8\n").grad(wrt="A")
    chosen = tilec.compile(PRODUCT).grad(wrt="A")
    assert gradient.emit("plan", A, B, dC) == chosen.emit("plan", A, B, dC)
    planned = gradient.with_plan("no copy\n")
    assert "copy" not in planned.emit("plan", A, B, dC)
    np.testing.assert_allclose(planned(A, B, dC), chosen(A, B, dC), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "plan,code,line",
    [
        ("split C\n", "E0560", 1),
        ("no copy\ninline A\n", "E0561", 2),
        ("split C  over k  by 4\ninline A\n", "E0562", 2),
        ("group C\n  contract C  block 99x1  lanes 8\n", "E0563", 2),
    ],
)
def test_what_does_not_apply_has_a_place(plan, code, line):
    program = tilec.compile(PRODUCT, plan=plan)
    with pytest.raises(tilec.ProgramError) as caught:
        program(random(50, 20), random(20, 70))
    assert caught.value.diagnostics[0].code == code
    assert caught.value.diagnostics[0].line == line and "<plan>" in str(caught.value)


def test_the_interpreter_follows_no_plan():
    with pytest.raises(tilec.ProgramError, match="E0564"):
        tilec.compile(PRODUCT, target="reference", plan="no copy\n")(random(5, 2), random(2, 7))


def test_a_plan_is_of_one_function():
    with pytest.raises(TypeError, match="function="):
        tilec.compile("function a(X[N]) -> (Y) { Y = X; } function b(X[N]) -> (Y) { Y = -X; }", plan="no copy\n")
    with pytest.raises(TypeError, match="a plan is"):
        tilec.compile(PRODUCT, plan=7)


@pytest.mark.parametrize(
    "line",
    [
        "%s",
        "copy %s  in C  order 1 0",
        "group C\n  contract %s  m i  n j  k k  block 4x4  lanes 16",
        "group C\n  contract C  m %s  n j  k k  block 4x4  lanes 16",
        "group %s\n  fill C",
    ],
)
def test_a_word_without_end_is_not_said_whole(tmp_path, line):
    (tmp_path / "f.tile").write_text("function f(A[N, N], B[N, N]) -> (C) { C[i, j: N, N] = +(A[i, k] * B[k, j]); }")
    (tmp_path / "p.plan").write_text(line % ("é" * 1_000_000))
    done = subprocess.run(
        [TILEC, "f.tile", "--size=N=64", "--plan=p.plan", "--emit=plan"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 1 and b"error[E056" in done.stderr and len(done.stderr.decode()) < 20_000


@pytest.mark.filterwarnings("ignore::tilec.ProgramWarning")
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_rows_of_a_fold_have_ranges_of_their_own(target):
    numbers = np.random.default_rng(7)
    compared = 0
    for _ in range(60):
        x, m, first = (
            numbers.choice([1, 1, 2, -1, 3]),
            numbers.choice([1, 2, -1, -2, 5, 17, 40]),
            numbers.integers(-20, 21),
        )
        rows, vectors, lanes = numbers.integers(2, 8), numbers.integers(1, 5), numbers.choice([4, 8, 16])
        also, fold = numbers.choice(["", ", 0 <= x - y < 40", ", x <= 3*m + 5"]), numbers.choice(["+", ">"])
        text = f"function (I[W], D[Y, X], Q[M]) -> (O) {{ O[m: M] = {fold}(I[{x}*x + {m}*m + {first}] * D[y, x] + Q[m]){also}; }}"
        arguments = (
            random(numbers.integers(1, 120)),
            random(numbers.integers(1, 5), numbers.integers(2, 90)),
            random(numbers.integers(2, 24)),
        )
        try:
            expected = tilec.compile(text, target="reference")(*arguments)
        except tilec.ProgramError as refused:
            assert any(found.code.startswith("E02") for found in refused.diagnostics)
            continue
        try:
            given = tilec.compile(
                text, target=target, plan=f"group O\n  reduce O  m m  n x  k y  block {rows}x{vectors}  lanes {lanes}\n"
            )(*arguments)
        except tilec.ProgramError as refused:
            assert {found.code for found in refused.diagnostics} & {"E0561", "E0562", "E0563"}
            continue
        np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("math, parts", [("", 3), (":math=tf32", 2), (":math=bf16", 1)])
def test_probabilities_are_as_many_bf16_as_the_target_asks(math, parts):
    sizes = dict(B=1, H=8, T=2048, S=2048, D=64, E=64)
    program = tilec.compile(
        "import \"std/attention.tile\";\n"
        "function f(bf16 Q[B, H, T, D], bf16 K[B, H, S, D], bf16 V[B, H, S, E]) -> (O) { O = attention(Q, K, V); }",
        target="cuda:sm_90a" + math,
        size=sizes,
    )
    text = program.emit("cuda")
    # Rounded by the maximum so far in one pass: no launch has the maximum alone.
    assert f"tc_pack_{parts}_bf16" in text and f"tc_pack_{parts + 1}_bf16" not in text
    assert text.count("__global__") == 1 and "Mx" not in text


def test_gradients_of_rounded_attention_are_off_by_what_bf16_rounds(tmp_path):
    text = (
        "function f(bf16 Q[H, T, D], bf16 K[H, S, D], bf16 V[H, S, E]) -> (O) {"
        " X[h, t, s: H, T, S] = +(f32(Q[h, t, d]) * f32(K[h, s, d]));"
        " M[h, t: H, T] = >(X[h, t, s]); P[h, t, s: H, T, S] = =(exp(X[h, t, s] - M[h, t]));"
        " Z[h, t: H, T] = +(P[h, t, s]); U[h, t, e: H, T, E] = +(P[h, t, s] * f32(V[h, s, e]));"
        " O[h, t, e: H, T, E] = =(bf16(U[h, t, e] / Z[h, t])); }"
    )
    (tmp_path / "f.tile").write_text(text)
    target, sizes = "cuda:math=bf16", "H=2,T=2048,S=2048,D=24,E=40"
    emit = [TILEC, "f.tile", "--grad", "--emit=plan", "--target", target, "--size", sizes, "-o", "f.plan"]
    subprocess.run(emit, cwd=tmp_path, check=True, capture_output=True)
    assert "mma m16n8k16.bf16" in (tmp_path / "f.plan").read_text()
    inputs = [
        "%s=random:%sxbf16" % each
        for each in (("Q", "2x20x24"), ("K", "2x150x24"), ("V", "2x150x40"), ("dO", "2x20x40"))
    ]
    run = [TILEC, "run", "f.tile", "--grad", *inputs]
    results = ["d%s=%s.npy" % (x, x) for x in "QKV"]
    run_beside("simulated", [*run, *results, "--target", target, "--plan", "f.plan"], cwd=tmp_path)
    right = [*run, *("d%s=right_%s.npy" % (x, x) for x in "QKV"), "--target", "reference"]
    subprocess.run(right, cwd=tmp_path, check=True, capture_output=True)
    for x in "QKV":
        ours, expected = np.load(tmp_path / f"{x}.npy"), np.load(tmp_path / f"right_{x}.npy")
        error = np.sqrt(np.mean((ours - expected) ** 2) / np.mean(expected**2))
        assert 0 < error < 2**-7, (x, error)


def test_probabilities_that_are_rounded_are_off_by_no_more(tmp_path):
    text = (
        "function f(bf16 Q[H, T, D], bf16 K[H, S, D], bf16 V[H, S, E]) -> (f32 O) {"
        " X[h, t, s: H, T, S] = +(f32(Q[h, t, d]) * f32(K[h, s, d]));"
        " M[h, t: H, T] = >(X[h, t, s]); P[h, t, s: H, T, S] = =(exp(X[h, t, s] - M[h, t]));"
        " Z[h, t: H, T] = +(P[h, t, s]); U[h, t, e: H, T, E] = +(P[h, t, s] * f32(V[h, s, e]));"
        " O[h, t, e: H, T, E] = =(U[h, t, e] / Z[h, t]); }"
    )
    (tmp_path / "f.tile").write_text(text)
    target = "cuda:math=bf16"
    plan = tilec.compile(text, target=target, size=dict(H=2, T=2048, S=2048, D=24, E=40)).emit("plan")
    assert "mma m16n8k16.bf16" in plan
    (tmp_path / "f.plan").write_text(plan)
    run = [TILEC, "run", "f.tile", "Q=random:2x20x24xbf16", "K=random:2x150x24xbf16", "V=random:2x150x40xbf16"]
    run_beside("simulated", [*run, "O=ours.npy", "--target", target, "--plan", "f.plan"], cwd=tmp_path)
    subprocess.run([*run, "O=right.npy", "--target", "reference"], cwd=tmp_path, check=True, capture_output=True)
    ours, right = np.load(tmp_path / "ours.npy"), np.load(tmp_path / "right.npy")
    # |V| is at most 1, so the weighted mean is off by 2^-9 at most, and by more than f32 would be.
    assert 2**-20 < np.abs(ours - right).max() < 2**-9
