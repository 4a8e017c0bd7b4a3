"""How long planning takes: everything between the reduced Program and Loops, per statement of the reduced Program.

The functions of std/ that have cases in their comments, with every extent several times that of the case, and their
gradients; and an LSTM of 16 steps with its gradient. A process for each; the least of several runs counts, for planning
is the same work each time.
"""
from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile

import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLANNING = ("inline", "sums", "scans", "splits", "copies", "panels", "rows", "schedule", "lower")
LARGER = 8                                              # than the extents of a case
CASE = re.compile(r"((?:^//[^\n]*\n)+)function (\w+)\(", re.M)
INPUT = re.compile(r"random input \{ ([^{}]*) \}(?: define ([^\n]*?))?(?= |$)", re.M)


def larger(word: str) -> str | None:
    """X=2x3xf64 as a random tensor of f32, several times as large; none: it is no tensor of floats."""
    shape = re.fullmatch(r"(\w+)=((?:\d+x)+)f(?:32|64)", word)
    return shape and f"{shape[1]}=random:" + "x".join(str(LARGER * int(n)) for n in shape[2][:-1].split("x")) + "xf32"


def cases():
    for path in sorted((ROOT / "std").glob("*.tile")):
        for comment, name in CASE.findall(path.read_text(encoding="utf-8")):
            given = INPUT.search(comment)
            words = [larger(word) for word in given[1].split()] if given else [None]
            if all(words):
                yield f"{path.stem}: {name}", [path, "--function", name, *words]
    m, i, n = 32, 32, 8
    zeros = lambda **shapes: [f"{name}=zeros:{'x'.join(map(str, shape))}xf32" for name, shape in shapes.items()]
    yield "LSTM of 16 steps", [
        ROOT / "std/recurrent.tile",
        "--function",
        "lstm",
        "--define",
        "steps=16",
        *zeros(X=(16, n, i), H=(n, m), C=(n, m), WI=(4 * m, i), WH=(4 * m, m), BI=(4 * m,), BH=(4 * m,)),
    ]


def measure(arguments, times: int) -> dict | None:
    """Milliseconds of each pass of planning, the least of `times`, and how many statements are planned; none: the case
    does not run so."""
    least: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tilec-planning-") as folder:
        command = [harness.BUILD / "cli/tilec", "run", *arguments, "--time"]
        for turn in range(times):
            done = subprocess.run(
                [*command, *(["--dump-to", folder] if turn == 0 else [])], capture_output=True, text=True
            )
            if done.returncode:
                return None
            for name, ms in re.findall(r"^([a-z]+) +([0-9.]+) ms$", done.stderr, re.M):
                if name in PLANNING and turn:           # the first one prints stages between passes
                    least[name] = min(least.get(name, 1e9), float(ms))
        reduced = next(pathlib.Path(folder).glob("*_reduced.tile")).read_text(encoding="utf-8")
    statements = sum(line.startswith("  ") and " = " in line for line in reduced.splitlines())
    return {"statements": max(1, statements), "passes": least, "ms": sum(least.values())}


def rows(times: int = 3):
    for title, arguments in cases():
        for gradient in ([], ["--grad"]):
            made = measure([*arguments, *gradient], times)
            if made:
                yield made | {
                    "title": title + (", gradient" if gradient else ""),
                    "each": made["ms"] / made["statements"],
                }


def show(row: dict) -> str:
    slowest = sorted(row["passes"], key=row["passes"].get, reverse=True)[:3]
    return (
        f"{row['each']:7.3f} ms a statement  {row['ms']:8.2f} ms  {row['statements']:4d} statements  {row['title']:40s} "
        + ", ".join(f"{name} {row['passes'][name]:.2f}" for name in slowest)
    )


if __name__ == "__main__":
    measured = sorted(rows(), key=lambda row: -row["each"])
    print("\n".join(show(row) for row in measured))
    total = sum(row["ms"] for row in measured) / sum(row["statements"] for row in measured)
    print(
        f"{len(measured)} programs: {total:.3f} ms a statement in the mean, {measured[0]['each']:.3f} at worst; {sum(row['each'] > 0.5 for row in measured)} above 0.5"
    )
    sys.exit(0)
