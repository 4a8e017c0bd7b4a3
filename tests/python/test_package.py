"""Programs saved in one process and run in another, by Python and by the command."""
import os
import pathlib
import subprocess
import threading

import numpy as np
import pytest

import tilec
from test_cli import TILEC

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
CONV = """function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {
  O[n, y, x, co: N, H/3, W/3, CO] = +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]);
}"""


def command(*arguments):
    return subprocess.run([TILEC, *map(str, arguments)], capture_output=True, text=True)


def arrays(seed=0):
    draw = np.random.default_rng(seed)
    return draw.standard_normal((2, 12, 12, 3)).astype(np.float32), draw.standard_normal((3, 3, 3, 4)).astype(
        np.float32
    )


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3", "opencl"])
def test_a_saved_program_and_its_gradient_give_what_they_gave(tmp_path, target):
    conv = tilec.compile(CONV, target=target)
    image, kernel = arrays()
    wanted = conv(image, kernel)
    conv.save(tmp_path / "conv.tilec", image, kernel)
    gradient = conv.grad()
    gradient.save(tmp_path / "grad.tilec", image, kernel, wanted)
    np.testing.assert_array_equal(tilec.load(tmp_path / "conv.tilec")(image, kernel), wanted)
    for a, b in zip(tilec.load(tmp_path / "grad.tilec")(image, kernel, dO=wanted), gradient(image, kernel, wanted)):
        np.testing.assert_array_equal(a, b)


def test_another_process_runs_it(tmp_path):
    image, kernel = arrays()
    conv = tilec.compile(CONV)
    conv.save(tmp_path / "conv.tilec", image, kernel)
    np.save(tmp_path / "i.npy", image), np.save(tmp_path / "k.npy", kernel)
    done = command(
        "run",
        tmp_path / "conv.tilec",
        "I=%s" % (tmp_path / "i.npy"),
        "K=%s" % (tmp_path / "k.npy"),
        "O=%s" % (tmp_path / "o.npy"),
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), conv(image, kernel))


def test_the_command_builds_what_python_loads(tmp_path):
    source = tmp_path / "conv.tile"
    source.write_text(CONV)
    image, kernel = arrays()
    sizes = "N=2,H=12,W=12,CI=3,KH=3,KW=3,CO=4"
    for _ in range(2):
        assert command("build", source, "--size", sizes, "-o", tmp_path / "conv.tilec").returncode == 0
        assert command("build", source, "--size", sizes, "-o", tmp_path / "again.tilec").returncode == 0
    assert (tmp_path / "conv.tilec").read_bytes() == (tmp_path / "again.tilec").read_bytes()
    np.testing.assert_array_equal(
        tilec.load(tmp_path / "conv.tilec")(image, kernel), tilec.compile(CONV)(image, kernel)
    )
    assert (
        command("build", source, "--size", sizes, "--grad", "--wrt", "K", "-o", tmp_path / "dk.tilec").returncode == 0
    )
    assert tilec.load(tmp_path / "dk.tilec").outputs == ("dK",)


def test_a_package_is_read_from_a_pipe(tmp_path):
    """As is a text; of a named pipe, which nobody may write to, is said that it is one."""
    tilec.compile("function (X[N]) -> (Y) { Y = X * 2.0; }").save(tmp_path / "f.tilec", np.ones(3, np.float32))
    (tmp_path / "f.tile").write_text("function (X[N]) -> (Y) { Y = X * 2.0; }")
    for name in ("f.tilec", "f.tile"):
        for line in (
            "cat %s | %s run - X=arange:3",
            "cat %s | %s run /dev/stdin X=arange:3",
            "%s run <(cat %s) X=arange:3",
            "%s run - X=arange:3 <%s",
            "%s run /dev/stdin X=arange:3 <%s",
        ):
            line = line.replace("%s run", f"{TILEC} run")
            done = subprocess.run(["bash", "-c", line % name], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0 and "[0 2 4]" in done.stdout, (line, name, done)
    cut = subprocess.run(
        ["bash", "-c", "head -c 100 f.tilec | %s run - X=arange:3" % TILEC],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert cut.returncode != 0 and "E0534" in cut.stderr and "standard input" in cut.stderr, cut
    os.mkfifo(tmp_path / "pipe")
    named = command("run", tmp_path / "pipe", "X=arange:3")
    assert named.returncode != 0 and "it is a pipe" in named.stderr, named


def test_what_a_package_is_given_must_fit(tmp_path):
    path = tmp_path / "f.tilec"
    scale = tilec.compile("function (X[N, M], S) -> (Y) { Y = X * S; }")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    scale.save(path, x.T.copy().T, 2.0)                       # a strided example is taken as row-major
    f = tilec.load(path, threads=1)
    np.testing.assert_array_equal(f(x.T.copy().T, 2.0), 2 * x)
    np.testing.assert_array_equal(f(S=3.0, X=x[::1, ::1]), 3 * x)
    out = np.empty((3, 4), np.float32)
    assert f(x, 2.0, out=out) is out
    np.testing.assert_array_equal(out, 2 * x)
    for bad in (np.empty((4, 3), np.float32).T, np.broadcast_to(np.float32(0), (3, 4))):
        with pytest.raises(ValueError, match="out= for Y is"):
            f(x, 2.0, out=bad)
    with pytest.raises(tilec.ShapeError, match=r"X is \[3, 4\] but is given \[4, 3\]"):
        f(x.T, 2.0)
    with pytest.raises(tilec.ArgumentTypeError, match="X is float32 but is given float64"):
        f(x.astype(np.float64), 2.0)
    with pytest.raises(TypeError, match=r"the package\(X, S\): missing: S; unexpected: Q"):
        f(x, Q=2.0)
    with pytest.raises(TypeError, match=r"the package takes 2 arguments \(X, S\) but 3 were given; sizes, and what was left out"):
        f(x, 2.0, 3.0)
    with pytest.raises(ValueError, match=r"save\(\) writes a package, and .o is a file of C: `tilec build` writes"):
        scale.save(tmp_path / "f.o", x, 2.0)
    assert not (tmp_path / "f.o").exists()
    with pytest.raises(ValueError, match="out= for Y"):
        f(x, 2.0, out=np.empty((3, 4), np.float64))
    with pytest.raises(TypeError, match="target="):
        tilec.load(path, target="cpu")
    assert "float32 X[3, 4]" in repr(f)
    np.save(tmp_path / "x.npy", x)
    good = "X=%s" % (tmp_path / "x.npy")
    assert "tilec build" in command("run", path, good, "S=1", "--grad").stderr
    assert "E0517" in command("run", path, "X=ones:4x3", "S=1").stderr
    assert "E0510" in command("run", path, good).stderr
    assert "did you mean `X`" in command("run", path, good, "x=1", "S=1").stderr
    assert "E0532" in command("run", path, good, "S=1", "Y=%s" % path).stderr


def test_files_that_are_no_packages_are_refused(tmp_path):
    path = tmp_path / "f.tilec"
    tilec.compile("function (X[N]) -> (Y) { Y = X; }").save(path, np.ones(3, np.float32))
    data = path.read_bytes()
    for bad in (
        data[:40],
        data[:-1],
        data + b"x",
        data[:60] + bytes([data[60] ^ 1]) + data[61:],
        data[:14] + b"9" + data[15:],
    ):
        path.write_bytes(bad)
        with pytest.raises(tilec.DeviceError) as fault:
            tilec.load(path)
        assert fault.value.code == "E0534"
        done = command("run", path, "X=ones:3")
        assert done.returncode == 3 and "E0534" in done.stderr
    assert command("build", "nothing.tile", "-o", path).returncode == 3


def test_a_package_is_no_text(tmp_path):
    path = tmp_path / "f.tilec"
    tilec.compile("function (X[N]) -> (Y) { Y = X; }").save(path, np.ones(3, np.float32))
    for words in (["check"], ["grad"], ["fmt"], ["explain"], ["--emit=plan"]):
        done = command(*(words + [path] if words[0][0] != "-" else [path] + words))
        assert done.returncode == 2 and "tilec run %s" % path in done.stderr, (words, done.stderr)


@pytest.mark.parametrize(
    "option", [["--wrt=X"], ["--of=Y"], ["--grad"], ["--size=N=4"], ["--plan=p.txt"], ["--target=cpu"]]
)
def test_what_belongs_to_the_text_is_refused_by_its_name(tmp_path, option):
    path = tmp_path / "f.tilec"
    tilec.compile("function (X[N]) -> (Y) { Y = X; }").save(path, np.ones(3, np.float32))
    done = command("run", path, "X=ones:3", *option)
    assert done.returncode == 2 and "%s belongs to a file of Tile" % option[0].split("=")[0] in done.stderr, done.stderr


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "f.tile"
    path.write_bytes(b"\xef\xbb\xbffunction (X[N]) -> (Y) { Y = X; }\n")
    assert command("check", path).returncode == 0


def test_what_cannot_be_saved_says_so(tmp_path):
    for options in ({"target": "reference"}, {"checked": True}):
        f = tilec.compile("function (X[N, 2], i32 I[M]) -> (Y) { Y = gather(X, I); }", **options)
        with pytest.raises(tilec.Error) as fault:
            f.save(tmp_path / "f.tilec", np.ones((3, 2), np.float32), np.zeros(2, np.int32))
        assert fault.value.code == "E0535"
    assert not list(tmp_path.iterdir())
    with pytest.raises(tilec.DeviceError, match="no/f.tilec") as fault:
        tilec.compile("function (X[N]) -> (Y) { Y = X; }").save(tmp_path / "no/f.tilec", np.ones(3, np.float32))
    assert fault.value.code == "E0502"


def test_saving_keeps_what_a_path_means(tmp_path):
    f, x = tilec.compile("function (X[N]) -> (Y) { Y = X; }"), np.ones(3, np.float32)
    real, link, hard = tmp_path / "real", tmp_path / "link", tmp_path / "hard"
    real.write_bytes(b"old")
    real.chmod(0o600)
    link.symlink_to(real)
    hard.hardlink_to(real)
    f.save(link, x)
    assert link.is_symlink() and hard.read_bytes() == real.read_bytes() and real.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(tilec.load(hard)(x), x)


def test_numbers_of_a_package_keep_their_value(tmp_path):
    scale = tilec.compile("function f(A[N], S) -> (Y) { Y = A * S; }")
    a, path = np.arange(4, dtype=np.float32), tmp_path / "s.tilec"
    scale.save(path, a, 2)                                    # S is an integer from here on
    f = tilec.load(path)
    np.testing.assert_array_equal(f(a, 3), 3 * a)
    for bad in (0.5, 1e300, float("nan"), float("inf"), 2**63, -2**64):
        with pytest.raises((tilec.ArgumentTypeError, ValueError), match="S"):
            f(a, bad)
    for bad in ("0.5", "nan", "99999999999999999999", "9223372036854775808"):
        done = command("run", path, "A=ones:4", "S=%s" % bad)
        assert done.returncode != 0 and "`S`" in done.stderr, (bad, done.stdout, done.stderr)
    assert command("run", path, "A=ones:4", "S=3").returncode == 0
    assert "--dump-to" in command("run", path, "A=ones:4", "S=3", "--dump-to", tmp_path / "d").stderr


def test_machine_code_that_was_changed_is_refused(tmp_path):
    import zlib
    path = tmp_path / "f.tilec"
    tilec.compile("function (X[N]) -> (Y) { Y = tan(X); }").save(path, np.ones(3, np.float32))
    data = path.read_bytes()
    at = data.index(b"\x7fELF")
    for place, value in ((40, b"\xff" * 8), (18, b"\xff\xff"), (60, b"\0\0")):
        changed = data[: at + place] + value + data[at + place + len(value):]
        path.write_bytes(changed[:24] + zlib.crc32(changed[28:]).to_bytes(4, "little") + changed[28:])
        with pytest.raises(tilec.DeviceError) as fault:
            tilec.load(path)
        assert fault.value.code == "E0534"


def test_the_command_line_refuses_strides(tmp_path):
    x = np.ones((3, 4), np.float32)
    (tmp_path / "f.tilec").write_bytes(tilec.compile("function (X[N, M]) -> (Y) { Y = X * 2; }").emit("package", x.T))
    assert "E0536" in command("run", tmp_path / "f.tilec", "X=ones:4x3").stderr


def test_threads_share_a_package(tmp_path):
    square = tilec.compile(
        "function (A[N, N]) -> (C) { B[i, j: N, N] = +(A[i, k] * A[k, j]); C[i, j: N, N] = +(B[i, k] * A[k, j]); }"
    )
    draw = np.random.default_rng(1)
    inputs = [draw.standard_normal((40, 40)).astype(np.float32) for _ in range(8)]
    square.save(tmp_path / "s.tilec", inputs[0])
    f, wanted, wrong = tilec.load(tmp_path / "s.tilec"), [square(a) for a in inputs], []

    def work(k):
        for _ in range(30):
            if not np.array_equal(f(inputs[k]), wanted[k]):
                wrong.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_loading_and_running_link_no_compiler(tmp_path):
    runner = pathlib.Path(TILEC).parent.parent / "tests/loads_package"
    if not runner.exists():
        pytest.skip("tests/loads_package is not built")
    needed = subprocess.run(["readelf", "-d", runner], capture_output=True, text=True, check=True).stdout
    assert "libz" in needed and "LLVM" not in needed and "isl" not in needed
    tilec.compile(MATMUL).save(tmp_path / "f.tilec", np.ones((8, 8), "f4"), np.ones((8, 8), "f4"))
    done = subprocess.run([runner, tmp_path / "f.tilec"], capture_output=True, text=True, check=False)
    assert done.stdout == "512\n", done.stderr


def test_the_command_takes_files_of_any_layout(tmp_path):
    (tmp_path / "f.tile").write_text("function f(X[N, M]) -> (Y) { Y = X * 2; }")
    X = np.arange(12, dtype="f4").reshape(3, 4).T
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X)
    for words in ([], ["--vjp"]):
        assert (
            command("build", tmp_path / "f.tile", "--size", "N=4,M=3", "-o", tmp_path / "f.tilec", *words).returncode
            == 0
        )
        for source in ("x.npy", "x.npz"):
            more = [f"dY={tmp_path / 'x.npy'}", f"dX={tmp_path / 'dx.npy'}"] if words else []
            done = command("run", tmp_path / "f.tilec", f"X={tmp_path / source}", f"Y={tmp_path / 'y.npy'}", *more)
            assert done.returncode == 0, done.stderr
            np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), X * 2)
            if words:
                np.testing.assert_array_equal(np.load(tmp_path / "dx.npy"), X * 2)


def test_the_command_runs_packages_without_elements(tmp_path):
    (tmp_path / "z.tile").write_text(
        "function (A[N], B[M]) -> (Y, S) { Y[i, j: N, M] = =(exp(A[i]) * B[j]); S[] = +(A[i]); }"
    )
    assert command("build", tmp_path / "z.tile", "--size", "N=0,M=3", "-o", tmp_path / "z.tilec").returncode == 0
    done = command("run", tmp_path / "z.tilec", "A=zeros:0", "B=ones:3")
    assert done.returncode == 0 and "S: " in done.stdout, done.stderr


def test_a_near_name_of_either_half_is_told(tmp_path):
    (tmp_path / "f.tile").write_text("function f(X[N]) -> (Y) { Y = X * X; }")
    assert (
        command("build", tmp_path / "f.tile", "--vjp", "--time", "--size", "N=4", "-o", tmp_path / "f.tilec").returncode
        == 0
    )
    done = command("run", tmp_path / "f.tilec", "X=ones:4", "dx=o.npy")
    assert done.returncode == 2 and "did you mean `dX`?" in done.stderr, done.stderr
    dumped = command(
        "build", tmp_path / "f.tile", "--vjp", "--dump-to", tmp_path / "d", "--size", "N=4", "-o", tmp_path / "f.tilec"
    )
    assert dumped.returncode == 2 and "--grad --dump-to" in dumped.stderr
