"""Compiled programs on disk: another process finds them, and nothing that happens to the folder changes a result."""
import gc
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np

import tilec
from test_cli import TILEC

KILLS = int(os.environ.get("TILEC_KILLS", 20))
MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
A, B = np.arange(12, dtype="f").reshape(3, 4), np.arange(20, dtype="f").reshape(4, 5)


def entries(folder):
    return sorted(folder.glob("*.compiled"))


def command(folder, *arguments, **environment):
    return subprocess.run(
        [TILEC, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=dict(os.environ, TILEC_CACHE=str(folder), **environment),
    )


def test_a_later_process_finds_what_an_earlier_one_compiled(tmp_path):
    (tmp_path / "mm.tile").write_text(MATMUL)
    first = command(tmp_path / "kept", "run", tmp_path / "mm.tile", "A=arange:3x4xf32", "B=arange:4x5xf32")
    assert first.returncode == 0, first.stderr
    assert len(entries(tmp_path / "kept")) == 1
    changed = entries(tmp_path / "kept")[0].stat().st_mtime_ns
    second = command(tmp_path / "kept", "run", tmp_path / "mm.tile", "A=arange:3x4xf32", "B=arange:4x5xf32")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert [e.stat().st_mtime_ns for e in entries(tmp_path / "kept")] == [changed]
    assert "1 program," in command(tmp_path / "kept", "cache").stdout
    assert "removed 1 program," in command(tmp_path / "kept", "cache", "clear").stdout
    assert entries(tmp_path / "kept") == []


def test_files_of_others_in_the_folder_stay(tmp_path):
    (tmp_path / "mm.tile").write_text(MATMUL)
    others = ["conv.plan", "x.compiled", "a.part", "0" * 32 + "x.compiled", "G" * 32 + ".compiled"]
    for name in others:
        (tmp_path / name).write_text("of somebody else")
    for size in range(3, 40):                                 # so many that some have to go
        command(tmp_path, "run", tmp_path / "mm.tile", "A=ones:%dx4" % size, "B=ones:4x5", TILEC_CACHE_LIMIT="30000")
    command(tmp_path, "cache", "clear")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["mm.tile", *others])


def test_calls_gradients_and_pairs_are_kept_and_right_when_they_are_found(tmp_path):
    def results():
        f = tilec.compile(MATMUL, cache=tmp_path)
        C = f(A, B)
        value, backward = f.vjp(A, B)
        into = np.ones_like(C)
        f(A, B, out=into, accumulate=True)
        return [C, *f.grad()(A, B, C), value, *backward(C), into, f.jvp(wrt="A")(A, B, A), f(A[::-1], B)]

    first = results()
    count = len(entries(tmp_path))
    assert count == 6
    np.testing.assert_array_equal(first[0], A @ B)
    gc.collect()                                               # equal programs that live share what they compiled
    for a, b in zip(first, results()):
        np.testing.assert_array_equal(a, b)
    assert len(entries(tmp_path)) == count


def test_a_changed_text_is_compiled_anew(tmp_path):
    (tmp_path / "lib.tile").write_text("function twice(X[N]) -> (Y) { Y = 2*X; }")
    text = 'import "lib.tile";\nfunction f(X[N]) -> (Y) { Y = twice(X) + 1; }'
    (tmp_path / "f.tile").write_text(text)
    run = lambda: command(tmp_path / "kept", "run", tmp_path / "f.tile", "X=2xf32=[1 2]").stdout
    assert "3 5" in run()
    (tmp_path / "lib.tile").write_text("function twice(X[N]) -> (Y) { Y = 3*X; }")
    assert "4 7" in run()


def test_no_home_and_no_room_are_no_faults(tmp_path):
    (tmp_path / "mm.tile").write_text(MATMUL)
    arguments = ("run", tmp_path / "mm.tile", "A=arange:3x4xf32", "B=arange:4x5xf32")
    clean = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME", "TILEC_CACHE")}
    for environment in (
        clean,
        dict(clean, HOME="/nowhere/at/all"),
        dict(clean, HOME=str(tmp_path)),
        dict(clean, TILEC_CACHE="/dev/full"),
        dict(clean, TILEC_CACHE="/proc/x"),
    ):
        done = subprocess.run([TILEC, *map(str, arguments)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
    assert len(entries(tmp_path / ".cache/tilec")) == 1


def test_damage_is_warned_of_and_mended(tmp_path):
    (tmp_path / "mm.tile").write_text(MATMUL)
    arguments = ("run", tmp_path / "mm.tile", "A=arange:3x4xf32", "B=arange:4x5xf32")
    first = command(tmp_path / "kept", *arguments)
    (entry,) = entries(tmp_path / "kept")
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    again = command(tmp_path / "kept", *arguments)
    assert again.stdout == first.stdout
    assert "W0565" in again.stderr and str(entry) in again.stderr and "cut off" in again.stderr
    assert entry.read_bytes() == whole
    assert command(tmp_path / "kept", *arguments).stderr == ""
    (tmp_path / "kept").chmod(0o777)
    open_to_all = command(tmp_path / "kept", *arguments)
    assert open_to_all.stdout == first.stdout and "others may write" in open_to_all.stderr


WORKER = """
import os, sys, numpy as np, tilec
folder, seed = sys.argv[1:]
draw = np.random.default_rng(int(seed))
while True:
    m, k, n = (int(x) for x in draw.integers(1, 5, 3))
    f = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); } // %d" % draw.integers(3), cache=folder)
    A, B = draw.standard_normal((m, k)).astype("f"), draw.standard_normal((k, n)).astype("f")
    if abs(f(A, B) - A @ B).max() > 1e-4:
        os.write(1, b"wrong")
    os.write(1, b".")
"""


def test_processes_that_are_killed_leave_nothing_wrong(tmp_path):
    """Two at a time, each killed at a random moment."""
    rng, said = random.Random(1), b""
    workers = []
    start = lambda seed: subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path), str(seed)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    for kill in range(KILLS):
        while len(workers) < 2:
            workers.append(start(2 * kill + len(workers)))
        worker = workers.pop(0)
        said += worker.stdout.read(1)                         # it has begun
        time.sleep(rng.uniform(0, 0.03))
        worker.send_signal(signal.SIGKILL)
        said += worker.stdout.read()
        worker.wait()
    for worker in workers:
        worker.kill()
        worker.communicate()
    assert set(said) <= set(b"."), said[-2000:]
    for entry in entries(tmp_path):
        assert entry.read_bytes().startswith(b"tilec compiled ")
    np.testing.assert_array_equal(tilec.compile(MATMUL, cache=tmp_path)(A, B), A @ B)
