"""What is bounded, and what a process may do beside a compilation: kernels kept, memory, fork(), archives; and what is
warned of."""
import gc
import os
import pathlib
import re
import struct
import subprocess
import sys
import threading
import warnings
import zipfile

import numpy as np
import pytest

import tilec
from test_cli import TILEC

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADD = "function (A[N], B[N]) -> (C) { C = A + B; }"


def resident() -> float:
    """Megabytes."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


# ---- kernels that are kept

def test_a_program_keeps_no_more_kernels_than_it_may():
    f = tilec.compile(ADD, kernels=4)
    for n in list(range(1, 9)) * 2 + [8, 8, 3]:
        assert (f(np.ones(n), np.ones(n)) == 2).all()
        assert len(f._cache) <= 4
    kept = [key[0][1][0] for key in f._cache]
    assert sorted(kept) == [3, 6, 7, 8]                        # those used last


def test_what_is_used_stays():
    f = tilec.compile(ADD, kernels=2)
    often = np.ones(3)
    f(often, often)
    first = list(f._cache.values())[0]
    for n in range(10, 20):
        f(np.ones(n), np.ones(n))
        f(often, often)
    assert first in f._cache.values()


def test_memory_of_many_shapes_is_bounded_and_freed():
    """Beside a program that keeps all: 1,000 shapes took 100 MB, which stayed."""
    f = tilec.compile("function (A[N], B[N]) -> (C) { C = A + B * 2.0; }", kernels=8, threads=1)
    for n in range(20):
        f(np.ones(n + 1), np.ones(n + 1))
    gc.collect()
    before = resident()
    for n in range(20, 220):
        f(np.ones(n + 1), np.ones(n + 1))
    assert resident() - before < 8
    many = tilec.compile("function (A[N], B[N]) -> (C) { C = A + B * 3.0; }", kernels=1000, threads=1)
    for n in range(120):
        many(np.ones(n + 1), np.ones(n + 1))
    held = resident()
    del many
    gc.collect()
    assert resident() < held - 1


def test_the_environment_says_how_many():
    script = (
        "import tilec, numpy as np\nf = tilec.compile(%r)\nfor n in range(1, 9): f(np.ones(n), np.ones(n))\nprint(len(f._cache))"
        % ADD
    )
    for text, expected in (("3", 3), ("0", 8), ("many", 8), ("-1", 8)):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "TILEC_KERNELS": text, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) == expected


def test_numbers_that_are_data_are_no_part_of_a_key():
    f = tilec.compile("function (A[N], S, T) -> (C) { C = A * S + T; }")
    a = np.ones(4, np.float32)
    for n in range(50):
        assert (f(a, n, n / 2) == n + n / 2).all()
    assert len(f._cache) == 1
    for n in range(50):
        assert (f(a, np.array(n), np.array(n / 2)) == n + n / 2).all() and (f(a, True, n) == 1 + n).all()
    assert len(f._cache) <= 3                                  # weak integers, weak reals, typed ones


def test_numbers_that_are_sizes_are():
    f = tilec.compile("function (A[N], S, T) -> (C) { C[i: N / S] = =(A[S * i] + T); }")
    a = np.arange(60, dtype=np.float32)
    for _ in range(2):
        for s in (1, 2, 3, True, np.int32(4), np.array(5)):
            for t in (1, 7):
                assert (f(a, s, t) == a[:: int(s)][: 60 // int(s)] + t).all()


def test_a_derived_program_does_not_hold_what_it_came_from():
    import weakref
    f = tilec.compile(ADD)
    g, origin = f.grad(wrt="A"), weakref.ref(f)
    del f
    gc.collect()
    assert origin() is None
    assert (g(np.ones(3), np.ones(3), np.ones(3)) == 1).all()


# ---- fork

FORK = '''
import os, signal, sys, threading, time
import numpy as np, tilec
a = np.ones((48, 48), np.float32)
text = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j] + %d.0); }"
f = tilec.compile(text % 0)
assert (f(a, a) == 48).all()
stop = False
def compiles(n):
    while not stop:
        n += 1
        tilec.compile(text % n)(np.ones((3 + n % 50, 4)), np.ones((4, 5)))
def runs():
    while not stop:
        f(a, a)
threads = [threading.Thread(target=compiles, args=(1000 * k,)) for k in (1, 2)] + [threading.Thread(target=runs)]
for t in threads: t.start()
failed = []
for k in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        signal.alarm(60)                                      # a child that waits for a lock of nobody
        good = (f(a, a) == 48).all() and (tilec.compile("function (A[N]) -> (C) { C = A * %d.0; }" % (k + 2))(np.ones(5)) == k + 2).all()
        os._exit(0 if good else 1)
    failed += [k] if os.waitpid(child, 0)[1] else []
stop = True
for t in threads: t.join()
print("failed", failed)
'''


def test_a_child_of_fork_runs_and_compiles():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, "60"],
        env={**os.environ, "TILEC_THREADS": "3", "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "failed []\n", done.stderr


def test_fork_within_a_thread_that_compiles_does_not_wait_for_itself():
    """Many children at once, each forks again."""
    script = FORK.replace("good = ", "grandchild = os.fork(); good = ").replace(
        "os._exit(0 if good else 1)",
        "os._exit(0 if good and (grandchild == 0 or os.waitpid(grandchild, 0)[1] == 0) else 1)",
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, "5"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "failed []\n", done.stderr


def in_a_process(script: str) -> str:
    """What it prints. `refused(call)`: whether the call says that the device is the parent's."""
    head = """
import os, signal, threading, numpy as np, tilec
a = np.ones((300, 300), np.float32)
text = "function (A[M, K]) -> (C) { C[i, j: M, M] = +(A[i, k] * A[j, k] + %d.0); }"
def refused(call):
    try: call()
    except tilec.DeviceError as fault: return "fork" in str(fault)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", head + script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_fork_beside_a_kernel_of_a_device():
    """The child runs and compiles for the CPU, and is told by every way to the device that it is not there."""
    out = in_a_process("""
f, g = tilec.compile(text % 0, target="opencl"), tilec.compile(text % 0)
try: f(a)
except tilec.DeviceError: print("failed []"); raise SystemExit
stop = False
def runs():
    while not stop: f(a)
threads = [threading.Thread(target=runs) for _ in range(2)]
for t in threads: t.start()
failed = []
for k in range(6):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        good = (g(a) == 300).all() and (tilec.compile(text % k)(a) == 300 * (k + 1)).all()
        good = good and refused(lambda: f(a)) and refused(lambda: f(a[:5])) and refused(lambda: tilec.compile(text % 9, target="opencl")(a)) and refused(lambda: tilec.compile(text % 9, target="opencl:0")(a))
        os._exit(0 if good else 1)
    failed += [k] if os.waitpid(child, 0)[1] else []
stop = True
for t in threads: t.join()
print("failed", failed)
""")
    assert out == "failed []\n"


def test_a_device_that_was_planned_for_only_stays_with_the_parent():
    out = in_a_process("""
f = tilec.compile(text % 0, target="opencl")
f.emit("plan", a)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try: f(a)
    except tilec.DeviceError as fault: os._exit(0 if "fork" in str(fault) or "not installed" in str(fault) or "no OpenCL" in str(fault) else 1)
    os._exit(1)
print(os.waitpid(child, 0)[1])
""")
    assert out == "0\n"


def test_a_device_stays_with_the_parent():
    script = """
import os, numpy as np, tilec
f = tilec.compile("function (A[N]) -> (C) { C = A + 1; }", target="opencl")
a = np.ones(4, np.float32)
try: f(a)
except tilec.DeviceError: print("refused refused"); raise SystemExit
child = os.fork()
if child == 0:
    said = []
    for call in (lambda: f(a), lambda: f(np.ones(5, np.float32))):
        try: call(); said.append("ran")
        except tilec.DeviceError as fault: said.append("refused" if "fork" in str(fault) else str(fault))
    print(*said, flush=True)
    del f
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0 and (f(a) == 2).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "refused refused\n", done.stderr


# ---- archives

def tilec_run(*words, cwd, limit=None):
    import resource
    limits = (lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None
    return subprocess.run(
        [TILEC, "run", *words], cwd=cwd, capture_output=True, text=True, preexec_fn=limits, timeout=120
    )


def test_many_names_for_one_member(tmp_path):
    """A directory of 400 entries that all point to one member of 20 MB."""
    np.savez_compressed(tmp_path / "one.npz", A=np.zeros(5_000_000, np.float32))
    raw = (tmp_path / "one.npz").read_bytes()
    at = raw.rindex(b"PK\x01\x02")
    end = raw.rindex(b"PK\x05\x06")
    entry = raw[at:end]
    entries = b""
    for k in range(400):
        name = b"m%03d.npy" % k
        head = bytearray(entry[:46])
        struct.pack_into("<H", head, 28, len(name))
        entries += bytes(head) + name + entry[46 + 5:]
    tail = bytearray(raw[end:])
    struct.pack_into("<HHII", tail, 8, 400, 400, len(entries), at)
    (tmp_path / "many.npz").write_bytes(raw[:at] + entries + bytes(tail))
    assert len(zipfile.ZipFile(tmp_path / "many.npz").namelist()) == 400
    (tmp_path / "f.tile").write_text("function (A[N]) -> (S) { S[] = +(A[i]); }")
    done = tilec_run("f.tile", "A=many.npz:m007", cwd=tmp_path, limit=1 << 30)
    assert done.returncode == 3 and "E0506" in done.stderr and "share their bytes" in done.stderr
    assert "S: scalar" in tilec_run("f.tile", "A=one.npz", cwd=tmp_path).stdout


def test_members_that_are_not_asked_for_are_not_unpacked(tmp_path):
    np.savez_compressed(
        tmp_path / "f.npz",
        A=np.ones(3, np.float32),
        **{"big%d" % k: np.zeros(30_000_000, np.float32) for k in range(6)},
    )
    (tmp_path / "f.tile").write_text("function (A[N]) -> (S) { S[] = +(A[i]); }")
    done = tilec_run("f.tile", "A=f.npz", cwd=tmp_path, limit=1 << 29)
    assert done.returncode == 0 and "3" in done.stdout, done.stderr


# ---- warnings

DOUBTFUL = "function (A, B, C) -> (O) {\n  O = A > 0 ? B : C > 0 ? A : B;\n}\n"   # W0101, known from the text
SIZED = "function (X[N]) -> (Y) { Y[i: N] = =(X[i + 1]); }"


def test_warnings_reach_python_with_line_and_caret():
    with pytest.warns(tilec.ProgramWarning, match=r"W0101") as caught:
        f = tilec.compile(DOUBTFUL, name="doubtful.tile")
    assert len(caught) == 1 and caught[0].filename == __file__
    text = str(caught[0].message)
    assert text.startswith("doubtful.tile:2:") and "O = A > 0 ? B : C" in text and "^" in text
    (diagnostic,) = f.diagnostics
    assert (diagnostic.severity, diagnostic.code, diagnostic.line, diagnostic.file) == (
        "warning",
        "W0101",
        2,
        "doubtful.tile",
    )


def test_a_warning_is_raised_once_for_a_program_and_what_is_made_of_it():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = tilec.compile(DOUBTFUL)
        x = np.ones(3)
        for n in (3, 4, 5):
            f(*[np.ones(n)] * 3)
        f.grad(wrt="A")(x, x, x, x)
        f.emit("plan", x, x, x)
    assert [w.category for w in caught] == [tilec.ProgramWarning]
    with pytest.warns(tilec.ProgramWarning):
        tilec.compile(DOUBTFUL)                                # another program, though it shares what is compiled


def test_warnings_as_errors_leave_nothing_half_made():
    with warnings.catch_warnings():
        warnings.simplefilter("error", tilec.ProgramWarning)
        for _ in range(3):
            with pytest.raises(tilec.ProgramWarning):
                tilec.compile(DOUBTFUL)


def test_remarks_are_kept_and_not_raised():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = tilec.compile(SIZED)
        f(np.ones(4))
        f(np.ones(5))
    assert all(d.severity == "remark" for d in f.diagnostics) and len(f.diagnostics) == len(set(f.diagnostics))


def test_warnings_of_a_module_come_with_the_function():
    text = DOUBTFUL.replace("function ", "function doubtful") + "function sure(A) -> (B) { B = A; }"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = tilec.compile(text)
        module.sure
        before = len(caught)
        module.doubtful
    assert len(caught) == before + 1 or before == 1            # said of the text, or of the function
    assert all(re.search("W0101", str(w.message)) and w.filename == __file__ for w in caught)


def test_more_indices_than_a_contraction_may_have(monkeypatch):
    names = ["i%d" % k for k in range(150)]
    bands = ", ".join("0 <= %s - %s < 2" % (b, a) for a, b in zip(names, names[1:]))
    text = "function (A[N]) -> (O) { O[i0: N] = +(A[i0]), %s; }" % bands
    with pytest.raises(tilec.ProgramError, match="128 indices in one statement[^$]*TILEC_LIMIT_INDICES"):
        tilec.compile(text)
    monkeypatch.setenv("TILEC_LIMIT_INDICES", "150")
    tilec.compile(text)
