"""Every program of regressions/, called as its first line says, and every program of samples/ on every backend, forward and gradient, at shapes that do not divide, those of samples/papers by their own cases: `tilec test` compares
with the interpreter, all programs of a target in one process (an OpenCL compiler takes half a second to start). For `cuda:sm_90a` the text is compiled by NVRTC and needs no GPU, `cuda` runs it on one; machine code for the CPUs that this machine is not is emitted only.

    samples.py [--tilec PATH] [--targets cpu,cpu:x86-64-v3,cpu:aarch64,opencl,cuda,cuda:sm_90a] [WORD ...]

Shapes come from the parameter list: each size name gets a number, the same wherever it stands. A target that this machine lacks
(exit status 3) is left out.
"""

import argparse
import functools
import itertools
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "samples"
# Two sets of sizes: small ones, and ones around vectors and blocks. Kernel sizes stay small.
SIZES = [
    {"default": 5, "K": 3, "KH": 3, "KW": 3, "N": 3, "H": 7, "W": 6, "C": 4, "CI": 3, "CO": 5, "S": 4, "B": 2},
    {
        "default": 17,
        "K": 33,
        "KH": 3,
        "KW": 2,
        "N": 2,
        "H": 19,
        "W": 16,
        "C": 17,
        "CI": 4,
        "CO": 16,
        "S": 9,
        "B": 3,
        "M": 33,
    },
]
# Scalars: sizes (a stride, a dilation, a padding) and numbers.
SCALARS = {"S": "1", "D": "1", "P": "1", "Eps": "0.001"}


def parameters(text: str) -> tuple[str, list[tuple[str, list[str] | None]]]:
    text = re.sub(r"//.*", "", text)
    name, inside = re.search(r"function\s+(\w*)\s*\((.*?)\)\s*->", text, re.S).groups()
    found = []
    for piece in re.findall(r"(?:\w+\s+)?(\w+)\s*(\[[^\]]*\])?\s*(?:,|$)", inside.strip()):
        found.append((piece[0], [s.strip() for s in piece[1][1:-1].split(",") if s.strip()] if piece[1] else None))
    return name, found


def values(declared, sizes) -> list[str]:
    words = []
    for name, dims in declared:
        if not dims:
            words.append(f"{name}={SCALARS.get(name, '1')}")
        else:
            shape = "x".join(str(sizes.get(d, sizes["default"])) for d in dims)
            words.append(f"{name}=random:{shape}xf32")
    return words


@functools.cache
def cotangents(tilec: str, path: str, words: tuple[str, ...]) -> list[str]:
    """`dO=random:…` for every output, whose shape a run of the interpreter prints."""
    _, text = run(tilec, "run", path, "--target", "reference", *words)
    return [
        f"d{name}=random:{shape}x{dtype}"
        for name, shape, dtype in re.findall(r"^(\w+): ([\dx]+|scalar) (\w+)$", text, re.M)
    ]


def run(tilec, *words):
    done = subprocess.run([tilec, *words], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--tilec", default=str(HERE.parent.parent / "build/cli/tilec"))
    options.add_argument("--targets", default="cpu,cpu:x86-64-v3,cpu:aarch64,opencl,cuda,cuda:sm_90a")
    options.add_argument("words", nargs="*")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        return check_all(options, scratch)


def emitted_only(target: str) -> bool:
    arm = platform.machine() == "aarch64"
    return target.startswith("cuda:") or (target.startswith("cpu:") and (target == "cpu:aarch64") != arm)


def check_regressions(options, report) -> None:
    for path, target in itertools.product(sorted((HERE / "regressions").glob("*.tile")), options.targets.split(",")):
        if options.words and not any(w in path.name for w in options.words) or emitted_only(target):
            continue
        words = path.read_text().splitlines()[0].split("  ")[1].split()
        report(
            f"{path.name} on {target}: {' '.join(words)}",
            target,
            *run(options.tilec, "run", str(path), "--check", "--quiet", "--target", target, *words),
        )


def asked(folder: pathlib.Path, words: list[str]) -> list[pathlib.Path]:
    return [path for path in sorted(folder.glob("*.tile")) if not words or any(w in path.name for w in words)]


def samples(words: list[str]):
    """Each sample that is asked for, with its parameters, forward and as a gradient."""
    for path in asked(SAMPLES, words):
        _, declared = parameters(path.read_text())
        yield from ((path, declared, gradient) for gradient in (False, True))


def called(tilec: str, folder: pathlib.Path, words: list[str]) -> list[pathlib.Path]:
    """Each sample and each gradient in a file of its own, which ends with a case for each set of sizes; and the papers, which have cases."""
    files = []
    for path, declared, gradient in samples(words):
        text = run(tilec, "grad", str(path))[1] if gradient else path.read_text()
        copy = folder / f"{path.stem}{'_gradient' if gradient else ''}.tile"
        for sizes in SIZES:
            inputs = values(declared, sizes)
            if gradient:
                inputs += cotangents(tilec, str(path), tuple(inputs))
            text += "// ==\n// input { %s }\n// check\n" % " ".join(inputs)
        copy.write_text(text)
        files.append(copy)
    return files + asked(SAMPLES / "papers", words)


def check_emitted(options, target, scratch, report) -> None:
    form = "--emit=cubin" if target.startswith("cuda") else "--emit=object"
    for (path, declared, gradient), sizes in itertools.product(samples(options.words), SIZES):
        flat = {d: sizes.get(d, sizes["default"]) for _, dims in declared for d in dims or []}
        flat |= {name: SCALARS[name] for name, dims in declared if not dims and name in "SDP"}
        copy = pathlib.Path(scratch) / path.name           # a bare scalar has no rank until it is called
        copy.write_text(path.read_text())
        of_sizes = ",".join(f"{k}={v}" for k, v in flat.items())
        grad = ["--grad"] if gradient else []
        words = [str(copy), form, "--target", target, "-o", "/dev/null", *grad, "--size", of_sizes]
        report(f"{path.name} {' '.join(grad)} on {target}: {of_sizes}", target, *run(options.tilec, *words))


def check_all(options, scratch: str) -> int:
    passed, failed, lacking = 0, 0, set()

    def report(title, target, code, text):
        nonlocal passed, failed
        if code == 3:
            lacking.add((target, text.strip().splitlines()[0] if text.strip() else ""))
        elif code == 0:
            passed += 1
        else:
            failed += 1
            print(f"FAILED {title}\n{text}")

    check_regressions(options, report)
    folder = pathlib.Path(scratch) / "cases"
    folder.mkdir()
    files = called(options.tilec, folder, options.words)
    cases = sum(path.read_text().count("input {") for path in files)
    for target in options.targets.split(","):
        if emitted_only(target):
            check_emitted(options, target, scratch, report)
            continue
        code, text = run(options.tilec, "test", *map(str, files), "--target", target)
        lacks = re.search(r"^error\[E05(15|20)\].*", text, re.M)
        if lacks and "\n0 passed, " in text:
            lacking.add((target, lacks[0]))
            continue
        counts = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
        good, bad = map(int, counts[-1]) if counts else (0, 1)
        if good + bad != cases:
            bad += 1
        passed, failed = passed + good, failed + bad
        if bad:
            print(f"FAILED on {target}\n{text}")
    for target, why in sorted(lacking):
        print(f"left out {target}: {why}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
