"""The stages of the compiler: one table, whoever asks."""
import subprocess

import numpy as np
import pytest

import tilec
from test_cli import TILEC

TEXT = "function f(A[N, K], B[K]) -> (Y) { S[n: N] = +(A[n, k] * B[k]); Y = tanh(S); }"
SIZE = {"N": 3, "K": 5}
ARRAYS = np.ones((3, 5), "f4"), np.ones(5, "f4")


def command(*words, text=None):
    return subprocess.run([TILEC, *words], input=text, capture_output=True, text=True, check=False)


def listed():
    return [line.split()[0] for line in command("stages").stdout.splitlines()]


def test_the_command_help_and_python_list_the_same_stages():
    assert listed() == list(tilec.stages())
    help_text = command("--help").stdout
    words = help_text[help_text.index("Stages:"):help_text.index("Targets:")].split()[1:]
    assert words == listed()


def test_an_unknown_stage_names_one_that_is_near():
    done = command("-", "--emit=simplifed", text=TEXT)
    assert "--emit=simplified" in done.stderr
    with pytest.raises(tilec.Error, match="simplified"):
        tilec.compile(TEXT).emit("simplifed")


@pytest.mark.parametrize("stage", [s for s in tilec.stages().values() if s.target is None], ids=lambda s: s.name)
def test_each_stage_is_the_same_from_python_and_from_the_command(stage):
    program = tilec.compile(TEXT, size=SIZE)
    shown = program.emit(stage.name)
    assert isinstance(shown, str) == stage.is_text
    done = subprocess.run(
        [TILEC, "-", f"--emit={stage.name}", "--size", "N=3,K=5", "-o", "/dev/stdout"],
        input=TEXT.encode(),
        capture_output=True,
        check=False,
    )
    if stage.is_text:
        assert done.stdout.decode() == shown
    else:
        assert done.returncode == 0 and done.stdout


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_the_halves_of_a_pair_are_tile(name):
    half = tilec.compile(TEXT, size=SIZE).emit(name)
    inputs = tilec.compile(half).inputs
    assert ("dY" in inputs) == (name == "backward")


def test_forward_keeps_what_backward_takes(tmp_path):
    program = tilec.compile(TEXT, size=SIZE)
    forward, backward = (tilec.compile(program.emit(name)) for name in ("forward", "backward"))
    kept = dict(zip(forward.outputs, forward(*ARRAYS) if len(forward.outputs) > 1 else (forward(*ARRAYS),)))
    given = {"A": ARRAYS[0], "B": ARRAYS[1], "dY": np.ones(3, "f4"), **kept}
    got = backward(*[given[name] for name in backward.inputs])
    for one, other in zip(got, program.grad()(*ARRAYS, dY=np.ones(3, "f4"))):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_dump_has_each_stage_that_was_reached(tmp_path):
    done = command("-", "--dump-to", str(tmp_path / "s"), "--size", "N=3,K=5", "--grad", text=TEXT)
    assert done.returncode == 0, done.stderr
    names = {path.name.split("_", 1)[1].rsplit(".", 1)[0] for path in (tmp_path / "s").iterdir()}
    # of two other programs
    assert names >= {s.name for s in tilec.stages().values() if s.target is None and s.name != "pair-plan"}


@pytest.mark.parametrize(
    "stage,target",
    [("object", "opencl"), ("asm", "reference"), ("ptx", "cpu"), ("opencl", "cuda"), ("llvm", "cuda:sm_90a")],
)
def test_a_stage_of_another_target_says_whose_it_is(stage, target):
    done = command("-", f"--emit={stage}", "--target", target, "--size", "N=3,K=5", text=TEXT)
    assert done.returncode == 2 and tilec.stages()[stage].target in done.stderr and target in done.stderr, done.stderr
