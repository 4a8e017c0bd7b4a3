"""What mutations start from: every program, plan and array file in the repository.

    corpus.py FOLDER      writes FOLDER/program, FOLDER/plans, FOLDER/files
"""
import io
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = ("function", "import", "dim", "gradient", "tangent", "[[")


def programs() -> list[str]:
    """Golden files and samples without what is expected of them, and the grammar's examples as bodies of functions."""
    found = []
    for path in [
        *sorted((ROOT / "tests/golden").rglob("*.tile")),
        *sorted((ROOT / "samples").glob("*.tile")),
        *sorted((ROOT / "std").rglob("*.tile")),
    ]:
        lines = path.read_bytes().decode("utf-8", "surrogateescape").splitlines(keepends=True)
        found.append("".join(line for line in lines if not line.startswith("//|")))
    for line in re.findall(r'R"~\((.*?)\)~"', (ROOT / "tests/lang/examples.h").read_text(), re.S):
        found.append(
            line if line.startswith(WORDS) else "function f(A[N], B[N], C[N, M], X[N], i8 W[M]) -> (O) { %s }" % line
        )
    found += (ROOT / "tests/fuzz/seeds.txt").read_text().split("\n----\n")
    return found


def arrays() -> list[bytes]:
    found = []
    for dtype in ("?", "u1", "<u2", ">i4", "<i8", "<f2", ">f4", "<f8", "c8", "<U3"):
        for shape in ((), (3,), (2, 3), (0, 4), (1, 1, 2)):
            for order in "CF":
                out = io.BytesIO()
                numpy.save(out, numpy.zeros(shape, dtype, order))
                found.append(out.getvalue())
    for pack in (numpy.savez, numpy.savez_compressed):
        out = io.BytesIO()
        pack(out, A=numpy.arange(6.0), B=numpy.zeros((2, 3), "f4", "F"))
        found.append(out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("note.txt", "text")
    return [*found, out.getvalue(), b"", b"PK", b"\x93NUMPY"]


def write(folder: pathlib.Path, entries: list[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(entries):
        (folder / ("seed%04d" % number)).write_bytes(entry)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    write(folder / "program", [text.encode("utf-8", "surrogateescape") for text in programs()])
    write(folder / "files", arrays())
    plan = subprocess.run(
        [ROOT / "build-fuzz/tests/fuzz/fuzz_plans", "--print-plan"], capture_output=True, check=True
    ).stdout
    write(
        folder / "plans",
        [plan, *(b"".join(part) for part in zip(plan.splitlines(keepends=True), plan.splitlines(keepends=True)[1:]))],
    )


if __name__ == "__main__":
    main()
