"""Plans of pairs: what emit("pair-plan") prints is followed by vjp() and save(), and what does not apply is an error
with its place."""
import numpy as np
import pytest

import tilec
from test_cli import TILEC
from test_pair import CASES, as_tuple

import subprocess

PRODUCT = "function product(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", ["cpu:x86-64-v3", "opencl"])
@pytest.mark.parametrize("case", CASES)
def test_a_printed_pair_is_followed(tmp_path, case, target):
    text, arrays = CASES[case]
    f = tilec.compile(text, target=target)
    plan = f.emit("pair-plan", *arrays)
    assert plan.startswith("forward\n") and "\nbackward\n" in plan
    planned = f.with_plan(plan)
    assert planned.emit("pair-plan", *arrays) == plan
    f.save(tmp_path / "chosen.tilec", *arrays, vjp=True)
    planned.save(tmp_path / "planned.tilec", *arrays, vjp=True)
    assert (tmp_path / "chosen.tilec").read_bytes() == (tmp_path / "planned.tilec").read_bytes()
    expected, backward = f.vjp(*arrays)
    outputs, planned_backward = planned.vjp(*arrays)
    assert backward.kept == planned_backward.kept
    cotangents = [np.ones_like(y) for y in as_tuple(expected)]
    for one, other in zip(
        as_tuple(outputs) + as_tuple(planned_backward(*cotangents)),
        as_tuple(expected) + as_tuple(backward(*cotangents)),
    ):
        np.testing.assert_array_equal(one, other)


def test_each_half_takes_its_part_and_the_function_the_rest():
    A, B = random(50, 20), random(20, 70)
    f = tilec.compile(PRODUCT, target="cpu:x86-64-v3")
    planned = f.with_plan(
        "group C\n  contract C  block 2x1  lanes 8\nbackward\ngroup dA\n  contract dA  block 3x1  lanes 8\nforward\ngroup C\n  contract C  block 1x1  lanes 8\n"
    )
    pair = planned.emit("pair-plan", A, B)
    forward, backward = pair[:pair.index("backward\n")], pair[pair.index("backward\n"):]
    assert "block 1x1  lanes 8" in forward and "block 3x1  lanes 8" in backward and "block 2x1" not in pair
    assert "block 2x1  lanes 8" in planned.emit("plan", A, B)
    np.testing.assert_allclose(planned(A, B), f(A, B), rtol=1e-4, atol=1e-4)
    C, chosen = f.vjp(A, B)
    planned_C, given = planned.vjp(A, B)
    np.testing.assert_allclose(planned_C, C, rtol=1e-4, atol=1e-4)
    for one, other in zip(given(np.ones_like(C)), chosen(np.ones_like(C))):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_the_text_says_all_three():
    text = (
        '[[plan("group C", "contract C  block 2x1  lanes 8", "forward", "group C", "contract C  block 1x1  lanes 8")]]\n'
        + PRODUCT
    )
    A, B = random(50, 20), random(20, 70)
    f = tilec.compile(text, target="cpu:x86-64-v3")
    assert "block 2x1  lanes 8" in f.emit("plan", A, B)
    assert "block 1x1  lanes 8" in f.emit("pair-plan", A, B)
    assert "block 2x1  lanes 8" not in f.emit("pair-plan", A, B)
    f.vjp(A, B)


@pytest.mark.parametrize(
    "plan,code,line",
    [
        ("forward\nsplit C\n", "E0560", 2),
        ("backward\ninline A\n", "E0561", 2),
        ("forward\nno copy\nforward\n", "E0560", 3),
        ("forward\nno copy\nbackward\ngroup dA\n  contract dA  block 99x1  lanes 8\n", "E0563", 5),
    ],
)
def test_what_does_not_apply_has_a_place(tmp_path, plan, code, line):
    A, B = random(50, 20), random(20, 70)
    f = tilec.compile(PRODUCT, plan=plan)
    for call in (
        lambda: f.vjp(A, B),
        lambda: f.save(tmp_path / "f.tilec", A, B, vjp=True),
        lambda: f.emit("pair-plan", A, B),
    ):
        with pytest.raises(tilec.ProgramError) as caught:
            call()
        assert caught.value.diagnostics[0].code == code
        assert caught.value.diagnostics[0].line == line and "<plan>" in str(caught.value)


def test_a_plan_must_say_something_of_what_is_compiled():
    A, B = random(50, 20), random(20, 70)
    with pytest.raises(tilec.ProgramError, match="one program is compiled"):
        tilec.compile(PRODUCT, plan="forward\nno copy\n")(A, B)
    with pytest.raises(tilec.ProgramError, match="a pair is compiled"):
        tilec.compile(PRODUCT, plan="no copy\n").emit("pair-plan", A, B)
    tilec.compile(PRODUCT, plan="no copy\n").vjp(A, B)  # it is of the function alone


def test_on_the_command_line(tmp_path):
    (tmp_path / "f.tile").write_text(PRODUCT)
    sizes = ["--size", "M=50,K=20,N=70"]
    plan = subprocess.run(
        [TILEC, tmp_path / "f.tile", *sizes, "--emit=pair-plan"], check=True, capture_output=True, text=True
    ).stdout
    (tmp_path / "f.plan").write_text(plan)
    for name, more in (("chosen", []), ("planned", ["--plan", tmp_path / "f.plan"])):
        subprocess.run([TILEC, "build", tmp_path / "f.tile", *sizes, "--vjp", "-o", tmp_path / name, *more], check=True)
    assert (tmp_path / "chosen").read_bytes() == (tmp_path / "planned").read_bytes()
    (tmp_path / "f.plan").write_text("no copy\n")
    done = subprocess.run(
        [TILEC, "build", tmp_path / "f.tile", *sizes, "--vjp", "-o", tmp_path / "f", "--plan", tmp_path / "f.plan"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "E0560" in done.stderr and "a pair is compiled" in done.stderr


def test_the_text_of_a_pair_is_compiled_once(tmp_path):
    (tmp_path / "f.tile").write_text(PRODUCT)
    done = subprocess.run(
        [
            TILEC,
            "build",
            tmp_path / "f.tile",
            "--size",
            "M=50,K=20,N=70",
            "--vjp",
            "-o",
            tmp_path / "f.tilec",
            "--time",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    passes = [line.split()[0] for line in done.stderr.splitlines() if line.endswith(" ms")]
    assert [passes.count(name) for name in ("build", "reverse", "split", "schedule")] == [1, 1, 1, 2]
