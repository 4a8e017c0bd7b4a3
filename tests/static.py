"""What the static build promises: one `tilec` and one libtilec.so that need libc and libm only.

static.py [BUILD]       BUILD: a folder set up with -Ddefault_library=static -Dcpu=disabled (./dev static makes build-static)
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build-static").resolve()
MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def needed(path):
    lines = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    # the loader itself
    return {name for name in re.findall(r"NEEDED.*\[(.*)\]", lines) if not name.startswith("ld-linux")}


def run(*arguments):
    # Nothing of this machine's packages: the environment names no library path.
    return subprocess.run([BUILD / "cli/tilec", *arguments], capture_output=True, env={"PATH": os.environ["PATH"]})


def check(what, holds, detail=""):
    print(f"{'ok    ' if holds else 'FAILED'} {what}{'' if holds else f': {detail}'}")
    return holds


def main():
    good = []
    system = {"libc.so.6", "libm.so.6"}
    binary, library = BUILD / "cli/tilec", BUILD / "runtime/libtilec.so"
    good.append(check("tilec needs libc and libm only", needed(binary) <= system, needed(binary) - system))
    size = binary.stat().st_size
    good.append(check(f"tilec is small ({size / 2**20:.1f} MiB)", size < 8 * 2**20))
    good.append(check("libtilec.so needs libc and libm only", needed(library) <= system, needed(library) - system))
    good.append(check("libtilec.so loads", ctypes.CDLL(str(library)).tilec_compile is not None))
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "matmul.tile"
        text.write_text(MATMUL, encoding="utf-8")
        cuda = run(text, "--target", "cuda:sm_90a", "--emit=cuda", "--size", "M=256,N=256,K=256")
        good.append(check("CUDA text", cuda.returncode == 0 and b"__global__" in cuda.stdout, cuda.stderr))
        result = pathlib.Path(folder) / "C.npy"
        ran = run("run", text, "A=arange:2x3xf32", "B=ones:3x4xf32", f"C={result}", "--target", "reference")
        good.append(check("the interpreter", ran.returncode == 0 and result.exists(), ran.stderr))
        cpu = run("run", text, "A=arange:2x3xf32", "B=ones:3x4xf32", f"C={result}")
        good.append(
            check("the cpu target is refused with a code", cpu.returncode == 3 and b"E0515" in cpu.stderr, cpu.stderr)
        )
        cubin = run(
            text,
            "--target",
            "cuda:sm_90a",
            "--emit=cubin",
            "-o",
            f"{folder}/f.cubin",
            "--stats",
            "--size",
            "M=256,N=256,K=256",
        )
        if b"E0524" in cubin.stderr:
            print("skip   machine code by NVRTC: not installed")
        else:
            good.append(
                check(
                    "machine code by NVRTC",
                    cubin.returncode == 0 and os.path.getsize(f"{folder}/f.cubin") > 1000 and b"spill" in cubin.stderr,
                    cubin.stderr,
                )
            )
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
