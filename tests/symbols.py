"""Which symbols libtilec.so gives and which library the solver's come from, its own and those of tilec: symbols.py
FILE...

What include/tilec/tilec.h declares leaves the library, and nothing else: a process may hold another LLVM, isl or
libstdc++. Debian's libLLVM exports a private copy of isl (Polly's). A symbol that was linked against it carries LLVM's
version; one that carries none is bound to the first library that has it, in the order in which they are needed.
"""
import pathlib
import re
import subprocess
import sys

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include/tilec/tilec.h"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def faults(path):
    asked = re.findall(r"\bU (isl_\S+)", output("nm", "-D", path))
    needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", path))
    position = {
        stem: next((k for k, name in enumerate(needed) if name.startswith(stem)), None)
        for stem in ("libisl.so", "libLLVM")
    }
    if not asked:
        yield "it asks for no symbol of isl: this test looks at the wrong file"
    for symbol in asked:
        if "@LLVM" in symbol:
            yield f"{symbol} is linked to LLVM"
    if position["libisl.so"] is None:
        yield f"libisl is not among what it needs: {', '.join(needed)}"
    elif position["libLLVM"] is not None and position["libLLVM"] < position["libisl.so"]:
        yield "LLVM is searched before libisl"
    if pathlib.Path(path).name.startswith("libtilec.so"):
        given = {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", path).splitlines()}
        declared = set(re.findall(r"^TILEC_API [^(]*?(\w+)\(", HEADER.read_text(), re.M))
        for symbol in sorted(given - declared):
            yield f"{symbol} leaves the library and is not in tilec.h"
        for symbol in sorted(declared - given):
            yield f"{symbol} is declared in tilec.h and is not in the library"


def main():
    failed = 0
    for path in sys.argv[1:]:
        found = list(faults(path))
        failed += bool(found)
        print(f"{'FAILED' if found else 'ok    '} {path}" + "".join(f"\n         {fault}" for fault in found))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
