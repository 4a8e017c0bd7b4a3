"""What a call takes, counted and predicted, and what each launch took."""
import subprocess

import numpy as np
import pytest

import tilec
from test_cli import TILEC

TEXT = "function f(X[M, N], W[N, K]) -> (Z) { S[i: M] = +(X[i, j]); Y[i, j: M, N] = =(X[i, j] / S[i]); Z[i, k: M, K] = +(Y[i, j] * W[j, k]); }"
X, W = np.ones((16, 32), "f4"), np.ones((32, 8), "f4")


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_figures_are_those_of_the_program(target):
    f = tilec.compile(TEXT, target=target)
    stats = f.stats(X, W)
    assert stats.operations == 2 * 16 * 32 + 2 * 16 * 32 * 8 and stats.exact
    assert stats.bytes == X.nbytes + W.nbytes + 4 * 16 * 8
    assert stats.statement_bytes == 4 * (16 * 32 + 16) + 4 * (2 * 16 * 32 + 16) + 4 * (16 * 32 + 32 * 8 + 16 * 8)
    if target == "reference":
        assert (stats.launches, stats.code, stats.memory_bytes, stats.predicted) == (
            (),
            0,
            None,
            None,
        ) and "interpreter" in str(stats)
    else:
        assert stats.launches[-1].endswith("_Z") and stats.code > 100 and stats.memory_bytes >= stats.bytes
        assert (stats.predicted is None) == (target == "opencl")
        assert str(stats).count("\n") >= 5 and "%s" % format(stats.operations, ",") in str(stats)


def test_what_is_hidden_is_memory_too(tmp_path):
    text = "function f(X[N, M], i32 I[K]) -> (Y) { A[i: N] = +(exp(X[i, j])); B[i, j: N, M] = =(exp(X[i, j]) / A[i]); Y = gather(B, I); }"
    x, indices = np.ones((256, 512), "f4"), np.arange(7, dtype="i4")
    plain, checked = tilec.compile(text).stats(x, indices), tilec.compile(text, checked=True).stats(x, indices)
    assert plain.workspace > 0 and checked.workspace > 0
    f = tilec.compile(TEXT)
    f.save(tmp_path / "adds.tilec", X, W, accumulate=True)
    assert tilec.load(tmp_path / "adds.tilec").stats().workspace >= 4 * 16 * 8


def test_they_grow_with_the_work():
    f = tilec.compile(TEXT)
    small, large = f.stats(X, W), f.stats(np.tile(X, (8, 1)), W)
    assert large.operations == 8 * small.operations and large.predicted > small.predicted
    gradient = f.grad().stats(X, W, np.ones((16, 8), "f4"))
    assert gradient.operations > small.operations


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_each_launch_is_timed(target):
    f = tilec.compile(TEXT, target=target)
    profile = f.profile(X, W, runs=3)
    assert profile.runs == 3 and tuple(launch.name for launch in profile.launches) == f.stats(X, W).launches
    assert all(launch.milliseconds >= 0 for launch in profile.launches) and 0 < profile.milliseconds < 10_000
    # medians of several runs
    assert sum(launch.milliseconds for launch in profile.launches) <= 3 * profile.milliseconds
    assert str(profile).endswith("medians of 3 runs") and len(str(profile).splitlines()) == len(profile.launches) + 1
    for wrong in (0, -1, 2**40):
        with pytest.raises(ValueError, match="runs="):
            f.profile(X, W, runs=wrong)
    with pytest.raises(TypeError, match="missing: W"):
        f.profile(X)


def test_numbers_checks_and_absent_inputs_are_run_too():
    f = tilec.compile("function f(X[N, 2], i32 I[M], S) -> (Y) { Y = gather(X, I) * S; }", checked=True)
    x = np.ones((3, 2), "f4")
    assert f.profile(x, np.array([1, 2], "i4"), 2.0, runs=1).milliseconds > 0
    with pytest.raises(tilec.ShapeError, match="E0540"):
        f.profile(x, np.array([1, 9], "i4"), 2.0)
    gradient = tilec.compile("function f(X[N], Z[N]) -> (Y) { Y = X + Z; }").grad(wrt="X")
    assert gradient.profile(dY=X[0], runs=1).runs == 1


def test_of_packages(tmp_path):
    f = tilec.compile(TEXT)
    f.save(tmp_path / "f.tilec", X, W)
    package, here = tilec.load(tmp_path / "f.tilec"), f.stats(X, W)
    stats = package.stats()
    assert (stats.launches, stats.bytes, stats.operations, stats.memory_bytes) == (
        here.launches,
        here.bytes,
        None,
        None,
    )
    assert [launch.name for launch in package.profile({"X": X, "W": W}, runs=2).launches] == list(stats.launches)


def test_words_for_people():
    f = tilec.compile(TEXT)
    assert f.plan(X, W) == f.emit("plan", X, W) and "group" in f.plan(X, W)
    text = f.explain(X, W)
    assert "launch" in text and "why:" in text and text == f.emit("explain", X, W)
    assert tilec.compile(TEXT, size={"M": 4, "N": 4, "K": 4}).explain().startswith("S[i: 4]")
    with pytest.raises(tilec.ShapeError):
        f.explain()


def test_the_command_times_each_launch(tmp_path):
    (tmp_path / "f.tile").write_text(TEXT)
    done = subprocess.run(
        [TILEC, "run", tmp_path / "f.tile", "X=ones:16x32", "W=ones:32x8", "--time", "-q"],
        capture_output=True,
        text=True,
        check=True,
    )
    after = done.stderr.split("second run")[1].splitlines()[1:]
    assert [line.split()[0] for line in after] == list(tilec.compile(TEXT).stats(X, W).launches) and all(
        line.endswith(" ms") for line in after
    )
