"""The command as a process: what it does with streams, signals, links and limits, and what no golden file can show."""
import os
import pathlib
import pty
import re
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TILEC = os.environ.get("TILEC", str(ROOT / "build/cli/tilec"))
PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"
TWICE = "function (X[N]) -> (Y) { Y = X * 2; }\n"


def tilec(*words, cwd, **options):
    return subprocess.run([TILEC, *map(str, words)], cwd=cwd, capture_output=True, timeout=120, **options)


@pytest.fixture
def twice(tmp_path):
    (tmp_path / "twice.tile").write_text(TWICE)
    np.save(tmp_path / "x.npy", np.arange(3, dtype="f4"))
    return tmp_path


def test_a_result_is_not_written_to_stdout(twice, tmp_path):
    done = tilec("run", "twice.tile", "X=ones:3", "Y=-", cwd=tmp_path)
    assert done.returncode == 2 and b"not written to stdout" in done.stderr and not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    "output", ["x.npy", "./x.npy", "../{}/x.npy", "soft.npy", "hard.npy", "twice.tile", "{0}/twice.tile"]
)
def test_no_output_overwrites_what_is_read(twice, output):
    (twice / "soft.npy").symlink_to("x.npy")
    os.link(twice / "x.npy", twice / "hard.npy")
    before = {name: (twice / name).read_bytes() for name in ("x.npy", "twice.tile")}
    output = output.format(twice if output.startswith("{0}") else twice.name)
    done = tilec("run", "twice.tile", "X=x.npy", f"Y={output}", cwd=twice)
    assert done.returncode == 2 and b"E0532" in done.stderr
    assert before == {name: (twice / name).read_bytes() for name in before}


def test_an_import_is_not_overwritten(tmp_path):
    (tmp_path / "one.tile").write_text("function one(X[N]) -> (Y) { Y = X; }\n")
    (tmp_path / "two.tile").write_text('import "one.tile";\nfunction (X[N]) -> (Y) { Y = one(X); }\n')
    for words in (
        ["two.tile", "--emit=contraction", "-o", "one.tile"],
        ["run", "two.tile", "X=ones:3", "Y=one.tile"],
        ["explain", "two.tile", "--size", "N=3", "-o", "./one.tile"],
    ):
        done = tilec(*words, cwd=tmp_path)
        assert done.returncode == 2 and b"E0532" in done.stderr, words
    assert (tmp_path / "one.tile").read_text().startswith("function one")


def test_a_dump_overwrites_neither_the_source_nor_the_output(tmp_path):
    stages = tmp_path / "stages"
    stages.mkdir()
    (stages / "02_source.tile").write_text(TWICE)
    done = tilec("stages/02_source.tile", "--dump-to=stages", "--size", "N=3", cwd=tmp_path)
    assert done.returncode == 2 and b"E0532" in done.stderr
    assert (stages / "02_source.tile").read_text() == TWICE and len(list(stages.iterdir())) == 1
    (tmp_path / "f.tile").write_text(TWICE)
    done = tilec(
        "f.tile", "--dump-to=new", "--emit=bound", "-o", "new/03_contraction.tile", "--size", "N=3", cwd=tmp_path
    )
    assert done.returncode == 2 and b"E0533" in done.stderr


def test_results_follow_links_and_reach_all_names(twice):
    (twice / "far").mkdir()
    (twice / "soft.npy").symlink_to("far/y.npy")
    (twice / "one.npy").write_bytes(b"old")
    os.link(twice / "one.npy", twice / "other.npy")
    for name in ("soft.npy", "one.npy"):
        assert tilec("run", "twice.tile", "X=x.npy", f"Y={name}", cwd=twice).returncode == 0
    assert (twice / "soft.npy").is_symlink()
    for name in ("far/y.npy", "other.npy"):
        assert np.array_equal(np.load(twice / name), [0, 2, 4])


def test_a_folder_called_npz_is_no_archive(twice):
    (twice / "runs.npz.d").mkdir()
    assert tilec("run", "twice.tile", "X=x.npy", "Y=runs.npz.d/y.npy", cwd=twice).returncode == 0
    assert np.array_equal(np.load(twice / "runs.npz.d/y.npy"), [0, 2, 4])
    assert tilec("run", "twice.tile", "X=runs.npz.d/y.npy", cwd=twice).returncode == 0


def test_standard_output_as_a_file_a_pipe_and_a_full_disk(twice):
    # what /dev/stdout is; a compiler that replaces links must not have that one
    (twice / "stdout").symlink_to("/proc/self/fd/1")
    for name in ("stdout", "/dev/fd/1"):
        with open(twice / "out.npy", "wb") as out:
            done = subprocess.run(
                [TILEC, "run", "twice.tile", "X=x.npy", f"Y={name}", "-q"], cwd=twice, stdout=out, timeout=60
            )
        assert done.returncode == 0 and np.array_equal(np.load(twice / "out.npy"), [0, 2, 4])
    assert (twice / "stdout").is_symlink()
    for name in ("stdout", "/dev/fd/1", "/dev/stdout"):
        done = tilec("run", "twice.tile", "X=x.npy", f"Y={name}", "-q", cwd=twice)
        assert done.returncode == 0 and done.stdout.startswith(b"\x93NUMPY")
    for words in (
        ["run", "twice.tile", "X=x.npy"],
        ["explain", "E0201"],
        ["fmt", "twice.tile"],
        ["--help"],
        ["run", "twice.tile", "X=x.npy", "Y=/dev/full"],
    ):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TILEC, *words], cwd=twice, stdout=full, stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 3 and b"E0502" in done.stderr, words
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {TILEC} run twice.tile X=x.npy Y=y.npy >&-"],
        cwd=twice,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 3 and b"E0502" in done.stderr
    assert np.array_equal(np.load(twice / "y.npy"), [0, 2, 4])


def test_a_read_error_is_no_end_of_file(twice):
    for words in (
        ["check", "/proc/self/mem"],
        ["check", "."],
        ["run", "twice.tile", "X=/proc/self/mem"],
        ["fmt", "/proc/self/mem"],
    ):
        done = tilec(*words, cwd=twice)
        assert done.returncode == 3 and b"E0501" in done.stderr, words
    folder = os.open(twice, os.O_RDONLY)
    done = subprocess.run([TILEC, "check", "-"], stdin=folder, capture_output=True, timeout=60)
    os.close(folder)
    assert done.returncode == 3 and b"E0501" in done.stderr


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "huge"])
def test_only_files_of_a_sane_size_are_read_and_at_once(twice, kind):
    path = twice / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 1 << 42)
    (twice / "importer.tile").write_text('import "odd";\nfunction (X[N]) -> (Y) { Y = X; }\n')
    start = time.monotonic()
    for words, status in (
        (["check", "odd"], 3),
        (["run", "twice.tile", "X=odd"], 3),
        (["check", "importer.tile"], 1),
        (["fmt", "-i", "odd"], 3),
    ):
        done = tilec(*words, cwd=twice, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30)))
        assert done.returncode == status and re.search(rb"E050[13]|E012\d|E01\d\d", done.stderr), words
    assert time.monotonic() - start < 30


def test_a_program_may_come_through_a_pipe(twice):
    for name in ("-", "/dev/stdin"):
        assert tilec("fmt", name, cwd=twice, input=TWICE.encode()).stdout.startswith(b"function (X[N])")
    done = subprocess.run(
        ["/bin/bash", "-c", f"{TILEC} fmt <(cat twice.tile)"], cwd=twice, capture_output=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith(b"function (X[N])")


def test_no_temporary_outlives_a_limit_or_a_signal(twice):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    (twice / "y.npy").write_bytes(b"old")
    done = tilec("run", "twice.tile", "X=ones:1000000", "Y=y.npy", cwd=twice, preexec_fn=limit)
    assert done.returncode == 3 and b"E0502" in done.stderr
    assert (twice / "y.npy").read_bytes() == b"old"
    names = {path.name for path in twice.iterdir()}
    for delay in (0.1, 0.2, 0.3, 0.5):
        process = subprocess.Popen([TILEC, "run", "twice.tile", "X=zeros:8000000", "Y=y.npy", "-q"], cwd=twice)
        time.sleep(delay)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
        assert {path.name for path in twice.iterdir()} == names


def deciding(line):
    error, allowed = re.search(r"largest (?:error|difference) (\S+) \(allowed (\S+?)\)", line).groups()
    return float(error), float(allowed)


def test_the_pair_that_decided_is_printed(tmp_path):
    # Along all elements at once the derivative is off by more, but within what is allowed there; by one element alone
    # it is wrong.
    wrong = 0
    for element in range(1, 6):
        (tmp_path / "f.tile").write_text(f"""
function f(X[N]) -> (Y) {{ Y[] = +(X[i] * (i == 0 ? 1000.0 : 1.0)); }}
gradient f(X[N], Y, DY) -> (DX) {{ DX[i: N] = =(DY[] * (i == 0 ? 1000.01 : (i == {element} ? 1.001 : 1.0))); }}
""")
        done = tilec("run", "f.tile", "X=6xf32=[1 1 1 1 1 1]", "--grad-check", "-q", cwd=tmp_path)
        line = next(line for line in done.stdout.decode().splitlines() if line.startswith("dX"))
        error, allowed = deciding(line)
        assert ("disagrees" in line) == (error > allowed), line
        wrong += "disagrees" in line
    assert wrong > 0


@pytest.mark.parametrize(
    "body",
    [
        "T[l: L] = >(A[l, p] * B[p])",
        "T[l: L] = <(A[l, p] * B[p])",
        "T[l: L] = >(A[l, p] * B[p] * A[q, p])",
        "T[p: K] = <(A[l, p] / B[q])",
    ],
)
def test_the_ties_of_largest_products_are_checked(tmp_path, body):
    (tmp_path / "largest.tile").write_text(f"function f(A[L, K], B[K]) -> (T) {{ {body}; }}\n")
    for seed in range(3):
        words = [
            "run",
            "largest.tile",
            "A=random:48x7",
            "B=random:7",
            f"dT=ones:{7 if 'p: K' in body else 48}",
            "--grad",
            "--check",
            "--quiet",
            "--seed",
            str(seed),
        ]
        done = tilec(*words, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout.count(b"agrees") == 2 and b"inf" not in done.stdout, done.stdout


def test_a_check_that_takes_long_looks_at_a_sample(tmp_path):
    (tmp_path / "product.tile").write_text(PRODUCT)
    words = ["run", "product.tile", "A=random:1024x1024", "B=random:1024x1024", "-q"]
    start = time.monotonic()
    done = tilec(*words, "--check", cwd=tmp_path)
    assert done.returncode == 0 and time.monotonic() - start < 30
    assert b"agrees" in done.stdout and b"checked 4096 of 1048576 elements, chosen at random by seed 0" in done.stdout
    assert (
        b"checked 100 of 1048576 elements, chosen at random by seed 7"
        in tilec(*words, "--check=100", "--seed", "7", cwd=tmp_path).stdout
    )
    done = tilec("run", "product.tile", "A=random:64x64", "B=random:64x64", "-q", "--check=all", cwd=tmp_path)
    assert b"agrees" in done.stdout and b"checked" not in done.stdout
    done = tilec(*words, "--check=some", cwd=tmp_path)
    assert done.returncode == 2 and b"--check=all" in done.stderr


def test_a_sample_finds_what_is_wrong(tmp_path):
    # A chain: the sample needs rows of what lies between.
    (tmp_path / "chain.tile").write_text("""
function (A[M, K], B[K, N]) -> (S) {
  C[i, j: M, N] = +(A[i, k] * B[k, j]);
  T[i: M] = +(C[i, j]);
  S[i, j: M, N] = =(C[i, j] / T[i]);
}
""")
    done = tilec("run", "chain.tile", "A=ones:300x300xf64", "B=ones:300x300xf64", "--check=10", "-q", cwd=tmp_path)
    assert done.returncode == 0 and b"agrees" in done.stdout and b"checked 10 of 90000" in done.stdout


def test_progress_is_for_terminals_only(tmp_path):
    (tmp_path / "product.tile").write_text(PRODUCT)
    command = [TILEC, "run", "product.tile", "A=random:512x512", "B=random:512x512", "-q", "--check=all"]

    def on_terminal(**environment):
        ours, theirs = pty.openpty()
        done = subprocess.run(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=dict(os.environ, **environment),
            timeout=120,
        )
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:
            pass
        os.close(ours)
        assert done.returncode == 0
        return seen

    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    os.environ.clear()
    os.environ.update(environment)
    assert b"checking" in on_terminal()
    assert on_terminal(NO_COLOR="1") == b""
    assert tilec(*command[1:], cwd=tmp_path).stderr == b""


def test_what_overflows_in_between_is_not_blamed_on_the_target(tmp_path):
    (tmp_path / "f.tile").write_text("function (A[N], B[N], C[N]) -> (Y) { Y = A * B / C; }\n")
    words = ["A=2xf32=[1e30 -1e25]", "B=2xf32=[1e20 1e20]", "C=2xf32=[1e30 1e20]"]
    done = tilec("run", "f.tile", *words, "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert b"[inf -inf]" in done.stdout and b"agrees" in done.stdout


def test_a_member_of_an_archive_leaves_the_others(twice):
    np.savez(twice / "all.npz", P=np.ones(3, "f4"), Q=np.arange(3.0), Z=np.array(["text", "stays"]))
    assert tilec("run", "twice.tile", "X=x.npy", "Y=all.npz:P", cwd=twice).returncode == 0
    assert tilec("run", "twice.tile", "X=x.npy", "Y=all.npz:R", cwd=twice).returncode == 0
    held = np.load(twice / "all.npz")
    assert sorted(held) == ["P", "Q", "R", "Z"]
    assert (held["P"] == [0, 2, 4]).all() and (held["Q"] == [0, 1, 2]).all() and list(held["Z"]) == ["text", "stays"]
    (twice / "junk.npz").write_text("precious")
    assert b"E0506" in tilec("run", "twice.tile", "X=x.npy", "Y=junk.npz:P", cwd=twice).stderr
    assert (twice / "junk.npz").read_text() == "precious"


# ---- shapes of inputs, where nothing is run

RELU = "function relu6(X) -> (Y) { Y = min(max(X, 0.0), 6.0); }\n"


def test_build_is_told_the_shape_of_an_input(tmp_path):
    (tmp_path / "relu6.tile").write_text(RELU)
    assert b"E0206" in tilec("build", "relu6.tile", "-o", "relu6.tilec", cwd=tmp_path).stderr
    for words in (
        ["build", "relu6.tile", "X=2x3xf64", "-o", "relu6.tilec"],
        ["build", "relu6.tile", "X=2x3xf64", "-o", "relu6.o"],
        ["build", "relu6.tile", "X=2x3", "--vjp", "-o", "pair.tilec"],
    ):
        done = tilec(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = tilec("run", "relu6.tilec", "X=2x3xf64=[-1 2 7][5 6 8]", cwd=tmp_path)
    assert done.returncode == 0 and b"[0 2 6]" in done.stdout and b"f64" in done.stdout
    assert b"double" in (tmp_path / "relu6.h").read_bytes()


def test_shapes_give_sizes_to_every_stage(tmp_path):
    (tmp_path / "mm.tile").write_text(PRODUCT)
    shown = tilec("mm.tile", "A=4x5", "B=5x6xf64", "--emit=bound", cwd=tmp_path)
    assert b"(f32 A[4, 5], f64 B[5, 6])" in shown.stdout, shown.stderr
    assert b"0 <= k < 5" in shown.stdout
    assert tilec("explain", "mm.tile", "A=4x5", "B=5x6", cwd=tmp_path).returncode == 0
    assert b"dA[" in tilec("grad", "mm.tile", "A=4x5", "B=5x6", "--wrt", "A", "--emit=bound", cwd=tmp_path).stdout


@pytest.mark.parametrize("words, status, said", [
    (["A=4x5", "B=6x7"], 1, b"E0202"),
    (["A=4x5", "--size", "K=6,N=7"], 1, b"E0550"),
    (["A=4"], 2, b"`4` is no shape or type"),
    (["A=random:4x5"], 2, b"nothing is run here"),
    (["Z=4x5"], 2, b"`Z` is no input of the function"),
    (["A=4x5", "A=4x5"], 2, b"given twice"),
    (["more.tile"], 2, b"one word too many"),
])
def test_a_shape_that_does_not_fit_is_an_error(tmp_path, words, status, said):
    (tmp_path / "mm.tile").write_text(PRODUCT)
    done = tilec("build", "mm.tile", *words, "-o", "mm.tilec", cwd=tmp_path)
    assert done.returncode == status and said in done.stderr, done.stderr


# ---- progress

def test_progress_is_a_matter_of_terminals(tmp_path):
    (tmp_path / "slow.tile").write_text(PRODUCT)
    words = ["bench", "slow.tile", "A=random:64x64", "B=random:64x64", "--seconds", "2"]
    piped = tilec(*words, cwd=tmp_path)
    assert piped.returncode == 0 and piped.stderr == b""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [TILEC, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=follower,
        env={key: value for key, value in os.environ.items() if key != "NO_COLOR"},
    )
    os.close(follower)
    shown = b""
    try:
        while chunk := os.read(leader, 4096):
            shown += chunk
    except OSError:                                       # the other side is closed
        pass
    process.communicate(timeout=60)
    assert process.returncode == 0 and (
        shown == b"" or (b"measuring [" in shown and shown.endswith(b"\r\x1b[K"))
    ), shown
