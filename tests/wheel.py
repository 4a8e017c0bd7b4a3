"""What a wheel promises: any Python 3, nothing of the machine but glibc, and `tilec` on the path. wheel.py WHEEL

It is installed beside NumPy alone, in an environment of its own and in a folder that holds Python and its libraries and
is made the root.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGEST = 60 * 10**6
GLIBC = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux[-\w]*\.so\.\d")
SCRIPT = '''
import time
start = time.perf_counter()
import numpy as np
numpy_ready = time.perf_counter()
import tilec
ready = time.perf_counter()

conv = tilec.compile("""function conv(I[H, W], K[KH, KW]) -> (O) {
  O[y, x: (H - KH) / 2 + 1, (W - KW) / 2 + 1] = +(I[2*y + j, 2*x + i] * K[j, i]);
}""")
rng = np.random.default_rng(1)
I, K = (rng.integers(-4, 5, shape).astype("f4") for shape in ((33, 41), (3, 5)))
O, backward = conv.vjp(I, K)
dO = rng.integers(-4, 5, O.shape).astype("f4")
dI, dK = backward(dO)
wanted, di, dk = np.zeros_like(O), np.zeros_like(I), np.zeros_like(K)
for j, i in np.ndindex(K.shape):
    window = np.s_[j : j + 2 * O.shape[0] : 2, i : i + 2 * O.shape[1] : 2]
    wanted += I[window] * K[j, i]
    di[window] += dO * K[j, i]
    dk[j, i] = (dO * I[window]).sum()
assert (O == wanted).all() and (dI == di).all() and (dK == dk).all()
relu = tilec.compile('import "std/activation.tile"; function f(X[N]) -> (Y) { Y = relu(X); }', function="f")
assert relu(np.array([-1, 2], "f4")).tolist() == [0, 2]
for target in ("cpu:x86-64-v3", "cpu:aarch64", "cuda:sm_90a"):
    text = tilec.compile("function (X[N]) -> (Y) { Y = exp(X); }", target=target).emit("cuda" if "cuda" in target else "asm", I[0])
    assert len(text) > 100
print("computed; import numpy %.0f ms, import tilec %.0f ms" % (1000 * (numpy_ready - start), 1000 * (ready - numpy_ready)))
'''
passed, failed = 0, 0


def check(what: str, holds, detail="") -> None:
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print("%s %s" % ("ok    " if holds else "FAILED", what) + ("" if holds else ": %s" % (detail,)), flush=True)


def output(*command, **more) -> str:
    done = subprocess.run(
        [str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    return done.stdout if done.returncode == 0 else "exit %d: %s" % (done.returncode, done.stdout)


def contents(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    size = wheel.stat().st_size
    check(
        "%s: %.1f MB" % (wheel.name, size / 1e6),
        size <= LARGEST and re.fullmatch(r"tilec-[\d.]+-py3-none-(manylinux_2_\d+|linux)_\w+\.whl", wheel.name),
        size,
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
        names = set(archive.namelist())
    stray = [name for name in names if "__pycache__" in name or name.endswith((".build", ".in"))]
    sources = {
        "tilec/" + str(p.relative_to(ROOT / "python/tilec"))
        for p in (ROOT / "python/tilec").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".so"
    }
    check(
        "it holds the package, and no more",
        sources | {"tilec/libtilec.so", "tilec/tilec"} <= names and not stray,
        sources - names or stray,
    )
    record = next((folder / name).read_text() for name in names if name.endswith("/RECORD"))
    check("its record lists every file", all(name + "," in record for name in names))
    for name in ("libtilec.so", "tilec"):
        said = output("readelf", "--wide", "--dynamic", "--sections", folder / "tilec" / name)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) - {"libtilec.so"}
        check(
            "%s needs glibc alone, and is stripped" % name,
            needed and all(map(GLIBC.fullmatch, needed)) and ".symtab" not in said,
            needed,
        )
    exported = {
        line.split()[-1]
        for line in output("nm", "--dynamic", "--defined-only", folder / "tilec/libtilec.so").splitlines()
    }
    check(
        "libtilec.so exports the C API, and the command",
        "tilec_compile" in exported and all(name.startswith("tilec_") for name in exported),
        [n for n in exported if "tilec" not in n][:5],
    )


def own_environment(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    # No path of this checkout, no library of its build.
    alone = {"PATH": "/nowhere", "HOME": str(folder)}
    said = output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    check("pip installs it", "exit" not in said, said)
    said = output(python, "-c", SCRIPT, env=alone, cwd=folder)
    check("a convolution and its gradient, by %s" % said.strip(), "computed" in said, said)
    command = folder / "bin/tilec"
    said = output(command, "--version", env=alone)
    check("the command: %s" % said.strip(), said.startswith("tilec "), said)
    said = output(
        command, "run", ROOT / "samples/strided_conv.tile", "I=arange:1x6x6x1", "K=ones:2x2x1x1", "--check", env=alone
    )
    check("  runs a sample", "agrees with the interpreter" in said, said)
    missing = subprocess.run([command, "check", "nothing.tile"], env=alone, capture_output=True)
    check("  and fails as it should", missing.returncode == 3, missing)


def libraries_of(files) -> set:
    return {
        line.split("=>")[-1].split("(")[0].strip()
        for file in files
        for line in output("ldd", file).splitlines()
        if "/" in line and "vdso" not in line
    }


def as_root(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """`folder` gets Python where it was, with its extension modules, a shell, NumPy and the wheel, and of libraries
    what Python and NumPy need."""
    python = pathlib.Path(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
    library = pathlib.Path(
        sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})
    )
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("skip   Python and glibc alone: only root can make a folder the root")
        return

    def bring(files) -> None:
        for file in files:
            target = pathlib.Path(str(folder) + file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)

    shutil.copytree(
        library,
        str(folder) + str(library),
        ignore=shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__", "config-*"),
        symlinks=True,
    )
    bring({str(python), "/bin/sh", *libraries_of([python, "/bin/sh", *library.glob("lib-dynload/*.so")])})
    (folder / "proc").mkdir()
    said = output(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        folder / "site",
        wheel,
    )
    check("a folder of Python and its libraries", "exit" not in said, said)
    shutil.copy(ROOT / "samples/strided_conv.tile", folder)
    (folder / "script.py").write_text(SCRIPT)
    run = ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$@"', folder, folder]
    alone = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": "/site"}
    said = output(
        *run, "/site/bin/tilec", "run", "/strided_conv.tile", "I=arange:1x6x6x1", "K=ones:2x2x1x1", "--check", env=alone
    )
    check("  in it the command runs a sample", "agrees with the interpreter" in said, said)
    bring(file for file in libraries_of((folder / "site/numpy").rglob("*.so")) if not file.startswith(str(folder)))
    said = output(*run, python, "/script.py", env=alone)
    check("  and what NumPy needs besides: %s" % said.strip(), "computed" in said, said)
    inside = {path.name for path in folder.rglob("lib*.so*")} & {
        "libisl.so.23",
        "libgmp.so.10",
        "libfmt.so.9",
        "libLLVM.so.19.1",
        "libzstd.so.1",
    }
    check("  where no library of tilec's build is", not inside, inside)


def main() -> int:
    wheel = pathlib.Path(sys.argv[1]).resolve()
    for part in (contents, own_environment, as_root):
        with tempfile.TemporaryDirectory(prefix="tilec-wheel-") as folder:
            part(wheel, pathlib.Path(folder))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
