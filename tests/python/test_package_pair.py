"""Packages of pairs: forward and backward saved together."""
import subprocess

import numpy as np
import pytest

import tilec
from test_cli import TILEC
from test_pair import CASES, as_tuple


def ones_like(outputs):
    return [np.ones_like(y) for y in as_tuple(outputs)]


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("case", CASES)
def test_a_saved_pair_gives_what_vjp_gives(tmp_path, case, target):
    text, arrays = CASES[case]
    f = tilec.compile(text, target=target)
    f.save(tmp_path / "f.tilec", *arrays, vjp=True)
    loaded = tilec.load(tmp_path / "f.tilec")
    expected, backward = f.vjp(*arrays)
    outputs, loaded_backward = loaded.vjp(*arrays)
    assert loaded_backward.kept == backward.kept
    for one, other, alone in zip(as_tuple(outputs), as_tuple(expected), as_tuple(loaded(*arrays))):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(alone, other)
    cotangents = ones_like(expected)
    for one, other in zip(as_tuple(loaded_backward(*cotangents)), as_tuple(backward(*cotangents))):
        np.testing.assert_array_equal(one, other)


def test_only_what_is_asked_for(tmp_path):
    text, arrays = CASES["mlp"]
    f = tilec.compile(text)
    f.save(tmp_path / "f.tilec", *arrays, vjp=True, wrt="W")
    y, backward = tilec.load(tmp_path / "f.tilec").vjp(*arrays)
    np.testing.assert_array_equal(backward(np.ones_like(y)), f.vjp(*arrays, wrt="W")[1](np.ones_like(y)))


def test_a_package_without_backward_says_so(tmp_path):
    text, arrays = CASES["loss"]
    f = tilec.compile(text)
    f.save(tmp_path / "f.tilec", *arrays)
    with pytest.raises(tilec.Error, match="without its backward") as fault:
        tilec.load(tmp_path / "f.tilec").vjp(*arrays)
    assert fault.value.code == "E0539"
    with pytest.raises(TypeError, match="vjp=True"):
        f.save(tmp_path / "f.tilec", *arrays, wrt="X")


def test_the_command_builds_and_runs_pairs(tmp_path):
    (tmp_path / "f.tile").write_text("function f(A[N, K], B[K]) -> (Y) { S[n: N] = +(A[n, k] * B[k]); Y = tanh(S); }")

    def tilec_command(*words):
        return subprocess.run([TILEC, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    done = tilec_command("build", "f.tile", "--vjp", "--wrt", "B", "--size", "N=2,K=3", "-o", "f.tilec", "--stats")
    assert done.returncode == 0, done.stderr
    assert "kept: " in done.stderr and "backward: " in done.stderr and "launch" in done.stderr
    forward = tilec_command("run", "f.tilec", "A=arange:2x3", "B=ones:3")
    assert (
        forward.returncode == 0 and forward.stdout.startswith("Y: 2 f32") and "dB" not in forward.stdout
    ), forward.stderr
    both = tilec_command("run", "f.tilec", "A=arange:2x3", "B=ones:3", "dY=ones:2", "dB=db.npy")
    assert both.returncode == 0 and "Y: 2 f32" in both.stdout, both.stderr
    program = tilec.load(tmp_path / "f.tile")
    A, B = np.arange(6, dtype="f4").reshape(2, 3), np.ones(3, "f4")
    np.testing.assert_allclose(
        np.load(tmp_path / "db.npy"), program.grad(wrt="B")(A, B, dY=np.ones(2, "f4")), rtol=1e-6
    )
    missing = tilec_command("run", "f.tilec", "A=arange:2x3", "B=ones:3", "dB=db.npy")
    assert missing.returncode == 2 and "`dY`" in missing.stderr
    twice = tilec_command("build", "f.tile", "--vjp", "--grad", "--size", "N=2,K=3", "-o", "g.tilec")
    assert twice.returncode == 2 and "--vjp" in twice.stderr
    np.testing.assert_array_equal(tilec.load(tmp_path / "f.tilec").vjp(A, B)[0], program(A, B))


def test_the_same_text_gives_the_same_bytes(tmp_path):
    text, arrays = CASES["norm"]
    f = tilec.compile(text)
    for name in ("a", "b"):
        f.save(tmp_path / name, *arrays, vjp=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
