"""clang-tidy over the sources, one per core. A file is read again only when it, what it includes or .clang-tidy changed.

tests/tidy.py [FILE...]      default: every source of the project. Ends with `N passed, N failed`; findings are printed as they come.
"""

import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
build = root / "build"
tool = "clang-tidy-19"
# build/ is g++'s: clang knows not all of its warnings and optimisations, and reads the headers that g++ has
# precompiled as text.
options = [
    "--quiet",
    "--warnings-as-errors=*",
    "--extra-arg=-Wno-unknown-warning-option",
    "--extra-arg=-Wno-ignored-optimization-argument",
    "--extra-arg=-Wno-deprecated-declarations",
    *(f"--extra-arg=-I{root}/{room}/pch" for room in ("lang", "poly", "codegen")),
]
# Those that clang refuses.
foreign = r" (-fpch-deps|-findirect-inlining|-fpartial-inlining|-fstore-merging|--param=\S+)"
rooms = ["lang", "poly", "autodiff", "codegen", "runtime", "cli"]


def sources():
    listed = subprocess.run(
        ["git", "ls-files", *(f"{room}/*.cpp" for room in rooms)], cwd=root, check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


def includes():
    """What the compiler read for each source, the source first."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    read = {}
    for block in text.split("\n\n"):
        files = [build / line.strip() for line in block.splitlines() if line.startswith("    ")]
        if files:
            read[os.path.normpath(files[0])] = files
    return read


@functools.cache
def content(file):
    return hashlib.sha256(file.read_bytes()).digest()


def fingerprint(files):
    return hashlib.sha256(b"".join(content(file) for file in files)).hexdigest()


def main(files):
    version = subprocess.run([tool, "--version"], check=True, capture_output=True).stdout
    always = version + " ".join(options).encode() + (root / ".clang-tidy").read_bytes()
    known = build / "tidy"
    known.mkdir(exist_ok=True)
    commands = (build / "compile_commands.json").read_text()
    (known / "compile_commands.json").write_text(re.sub(foreign, "", commands))
    read = includes()

    def check(file):
        path = root / file
        mark = (
            known
            / hashlib.sha256(always + file.encode() + fingerprint(read.get(str(path), [path])).encode()).hexdigest()
        )
        if mark.exists():
            return True
        run = subprocess.run([tool, "-p", known, *options, path], cwd=root, capture_output=True, text=True)
        if run.returncode:
            print(run.stdout + run.stderr, flush=True)
            return False
        mark.touch()
        return True

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, files or sources()))
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
