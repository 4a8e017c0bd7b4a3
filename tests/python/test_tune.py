"""`tilec tune` and Program.tune: what is found is faster, right, kept and followed. The plans that it starts from are
made slow on purpose."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

import tilec
from test_cli import TILEC

# One element at a time, without vectors: any search finds better.
SLOW = """[[plan("group C", "contract C  over i j  k k  block 1x1  lanes 1")]]
function mm(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }
"""
SIZES = "M=96,K=96,N=96"


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder with the program, and a cache of its own."""
    monkeypatch.setenv("TILEC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mm.tile").write_text(SLOW)
    return tmp_path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The cache of a folder where the program was tuned: for tests of what becomes of its plan."""
    room = tmp_path_factory.mktemp("tuned")
    (room / "mm.tile").write_text(SLOW)
    tune(room, env={**os.environ, "TILEC_CACHE": str(room / "cache")})
    return room / "cache"


def run(room, *words, **options):
    return subprocess.run([TILEC, *map(str, words)], cwd=room, capture_output=True, text=True, timeout=120, **options)


def tune(room, *words, budget=4, **options):
    done = run(room, "tune", "mm.tile", "--size", SIZES, "--threads", "1", "--budget", budget, *words, **options)
    assert done.returncode == 0, done.stderr
    return done


def plan_that_runs(room, *words, threads=1):
    """What `tilec run` compiles for these inputs, as text."""
    done = run(
        room,
        "run",
        "mm.tile",
        "A=random:96x96",
        "B=random:96x96",
        "--threads",
        threads,
        "--dump-to",
        "stages",
        "--check",
        *words,
    )
    assert done.returncode == 0, done.stderr
    return next((room / "stages").glob("*_plan.*")).read_text(), done


def test_it_finds_a_faster_plan_which_others_follow(room):
    before, _ = plan_that_runs(room)
    assert "lanes 1" in before
    done = tune(room, "-o", "mm.plan")
    said = re.fullmatch(
        r"mm: \S+ us a call, (\S+) times as fast as before, 95 % between \S+ and \S+; \d+ plans in \d+ s\n", done.stdout
    )
    assert said and float(said[1]) > 2 and done.stderr == "", done.stdout
    found = (room / "mm.plan").read_text()
    after, checked = plan_that_runs(room)
    assert after != before and after.strip() in found and "agrees with the interpreter" in checked.stdout
    assert "1 plan that was tuned" in run(room, "cache").stdout
    # A file of its own, a plan to be followed elsewhere.
    assert run(room, "cache", "clear").returncode == 0 and plan_that_runs(room)[0] == before
    assert plan_that_runs(room, "--plan", "mm.plan")[0] == after
    built = run(room, "build", "mm.tile", "--size", SIZES, "--plan", "mm.plan", "-o", "mm.tilec")
    assert built.returncode == 0, built.stderr


def test_what_was_compiled_before_is_compiled_anew(room, monkeypatch):
    """The kernel that lies in the cache follows no plan; a search in another process changes that."""
    inputs = ("A=random:96x96", "B=random:96x96", "--threads", "1")
    assert run(room, "run", "mm.tile", *inputs, "-q").returncode == 0
    assert "1 program," in run(room, "cache").stdout
    tune(room)
    (kernel,) = (room / "cache").glob("*.compiled")
    old = kernel.read_bytes()
    assert run(room, "run", "mm.tile", *inputs, "-q").returncode == 0
    new = kernel.read_bytes()
    assert new != old
    assert run(room, "run", "mm.tile", *inputs, "-q").returncode == 0 and kernel.read_bytes() == new
    monkeypatch.setenv("TILEC_THREADS", "2")
    assert "lanes 1\n" in plan_that_runs(room, threads=2)[0] and "lanes 1\n" not in plan_that_runs(room)[0]


def test_a_plan_of_another_program_is_not_followed_and_said_once(room, tuned):
    shutil.copytree(tuned, room / "cache")
    (mine,) = (room / "cache").glob("*.plan")
    (room / "other.tile").write_text(SLOW.replace("C", "D"))
    done = run(room, "tune", "other.tile", "--size", SIZES, "--threads", "1", "--budget", 2)
    assert done.returncode == 0, done.stderr
    (other,) = set((room / "cache").glob("*.plan")) - {mine}
    other.write_bytes(mine.read_bytes())
    asked = ("run", "other.tile", "A=random:96x96", "B=random:96x96", "--threads", "1")
    first, second = run(room, *asked), run(room, *asked)
    assert first.returncode == 0 and "W0566" in first.stderr, first.stderr
    assert second.returncode == 0 and second.stderr == ""


@pytest.mark.parametrize(
    "harm", [lambda data: data[:-3], lambda data: data.replace(b"lanes", b"LANES"), lambda data: b""]
)
def test_a_damaged_plan_is_none(room, tuned, harm):
    shutil.copytree(tuned, room / "cache")
    (plan,) = (room / "cache").glob("*.plan")
    plan.write_bytes(harm(plan.read_bytes()))
    text, done = plan_that_runs(room)
    assert "lanes 1" in text and "W0565" in done.stderr


def test_ctrl_c_keeps_the_best(room):
    process = subprocess.Popen(
        [TILEC, "tune", "mm.tile", "--size", SIZES, "--threads", "1", "--budget", "600"],
        cwd=room,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    start = time.time()
    out, errors = process.communicate(timeout=100)
    assert process.returncode == 0 and "times as fast as before" in out and errors == "", (out, errors)
    assert list((room / "cache").glob("*.plan")), "nothing was kept"


def test_a_terminal_shows_how_far_it_is(room):
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [TILEC, "tune", "mm.tile", "--size", SIZES, "--threads", "1", "--budget", "3"],
        cwd=room,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "NO_COLOR"},
    )
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            shown += os.read(leader, 4096)
        except OSError:                                   # the other side is closed
            break
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert re.search(
        rb"\r  \[[#.]{20}\] \d/3 s  \d+ plans  best [^ ]+ [um]s  [0-9.]+x  \d+ % of roof  eta \d s", shown
    ), shown
    assert shown.endswith(b"\r\x1b[K")


def test_without_a_cache_it_says_so(room, monkeypatch):
    monkeypatch.setenv("TILEC_CACHE", "off")
    assert "the plan is not kept: TILEC_CACHE is `off`" in tune(room, budget=1).stdout
    assert tune(room, "-o", "-", budget=1).stdout.startswith("no inline\n")


@pytest.mark.parametrize("words, status, said", [
    (("--target", "reference"), 2, "E0564"),
    (("--budget", "0"), 2, "--budget"),
    (("--size", "Q=3"), 2, "`Q`"),
    (("--grad", "--wrt", "nothing"), 1, "`nothing`"),
])
def test_what_cannot_be_tuned_is_an_error(room, words, status, said):
    size = () if "--size" in words else ("--size", SIZES)
    done = run(room, "tune", "mm.tile", *size, *words)
    assert done.returncode == status and said in done.stderr, (done.returncode, done.stderr)


def test_a_gradient_has_a_plan_of_its_own(room):
    done = run(room, "tune", "mm.tile", "--grad", "--wrt", "A", "--size", SIZES, "--threads", "1", "--budget", "2")
    assert done.returncode == 0 and done.stdout.startswith("mm: "), done.stderr


# ---- from Python

def arrays(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random((96, 96), dtype="f4") for _ in range(2)]


def test_a_program_is_tuned_from_python(room):
    mm = tilec.compile(SLOW, cache=str(room / "cache"), threads=1)
    A, B = arrays()
    steps = []
    faster = mm.tune(A, B, budget=3, progress=steps.append)
    assert "lanes 1" in mm.emit("plan", A, B) and faster.emit("plan", A, B) != mm.emit("plan", A, B)
    np.testing.assert_allclose(faster(A, B), A @ B, rtol=1e-4)
    assert (
        steps
        and steps[-1]["best"] <= steps[-1]["first"]
        and 0 <= steps[-1]["elapsed"] <= 4
        and steps[-1]["budget"] == 3
    )
    assert list((room / "cache").glob("*.plan"))
    again = tilec.compile(SLOW, cache=str(room / "cache"), threads=1)   # which finds it
    np.testing.assert_array_equal(again(A, B), faster(A, B))


def test_progress_ends_a_search(room):
    mm = tilec.compile(SLOW, cache=False, threads=1)
    start = time.time()
    mm.tune(*arrays(), budget=600, progress=lambda now: now["measured"] < 3)
    assert time.time() - start < 60

    def fails(now):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        mm.tune(*arrays(), budget=600, progress=fails)


@pytest.mark.parametrize("budget", [0, -1, "long", float("nan")])
def test_a_budget_is_a_time(room, budget):
    with pytest.raises(ValueError, match="budget="):
        tilec.compile(SLOW).tune(*arrays(), budget=budget)


def test_arguments_are_those_of_a_call(room):
    mm = tilec.compile(SLOW)
    with pytest.raises(TypeError, match="missing: B"):
        mm.tune(arrays()[0])
    with pytest.raises((ValueError, tilec.ProgramError)):
        mm.tune(np.ones((2, 3), "f4"), np.ones((4, 5), "f4"))
