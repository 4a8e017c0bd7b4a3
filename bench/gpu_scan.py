"""Random contractions of two tensors and both their gradients on the simulated GPU: is there a layout that moves far more than it must?

    bench/run.py --gpu-scan --seed 2 --count 40

The contractions are those of contractions.py, as large as 20 to 200 us on an H100 by its roof: the larger of its operations at 67 TF/s and the bytes of its three
tensors at 3.35 TB/s. Some blocks of each launch are executed as for gpu_static.py, at the contraction's own sizes. Figures of a row, each a factor
over what would be without the loss:

    l2        what goes between blocks and the second cache, at its 7.5 TB/s, against the roof; below 1 it hides behind it
    sectors   bytes of the sectors that warps touch against the bytes that they ask for
    banks     turns that shared memory takes against those without conflicts
    fill      132 multiprocessors against the blocks of the largest launch, where those are fewer

`loss` is l2, at least 1, times fill. Rows are sorted by that; sectors and banks say why. A row takes seconds: each is
shown on the error stream as it is done.
"""

import json
import pathlib
import random
import sys
import tempfile

import contractions
import gpu_static
import scan

FLOPS, DRAM, L2, MULTIPROCESSORS = 67e12, 3.35e12, 7.5e12, 132
SHORTEST, LONGEST = 20e-6, 200e-6


def row_of(case, which):
    """As executed.py reads it."""
    shapes = [case.shape_a(), case.shape(case.b)]
    return {
        "name": case.text,
        "text": case.text,
        "shapes": shapes,
        "small": shapes,
        "peer": None,
        "wrt": [] if which == "C" else [which[1]],
    }


def judged(case, which):
    row = {"text": case.text, "which": which, "window": case.window is not None}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "row.json"
        file.write_text(json.dumps(row_of(case, which)), encoding="utf-8")
        try:
            must, kernels = gpu_static.executed(file, pathlib.Path(folder))
        except RuntimeError as fault:
            return row | {"error": str(fault)}
    factors, _ = gpu_static.losses([{"executed": figures} for figures in kernels.values()], must, "memory")
    roof = max(case.flop() / FLOPS, case.bytes() / DRAM)
    largest = max(kernels.values(), key=lambda figures: figures["moved"])
    l2 = sum(figures["moved"] for figures in kernels.values()) / L2 / roof
    fill = max(1.0, MULTIPROCESSORS / (largest["blocks"] / largest["launches"]))
    return (
        row
        | factors
        | {
            "l2": l2,
            "fill": fill,
            "loss": max(l2, 1.0) * fill,
            "roof": roof,
            "launches": sum(figures["launches"] for figures in kernels.values()),
        }
    )


def distribution(title, rows):
    losses = sorted(row["loss"] for row in rows)
    if not losses:
        return f"{title:20s}    0"
    at = lambda share: losses[min(len(losses) - 1, int(share * len(losses)))]
    return f"{title:20s} {len(losses):4d}  geomean {scan.geomean(losses):.2f}  50 % {at(0.5):.2f}  75 % {at(0.75):.2f}  95 % {at(0.95):.2f}  worst {at(1):.2f}"


def show(row):
    if "error" in row:
        return f"  {row['which']:2s} {row['error']}\n     {row['text']}"
    return (
        f"  {row['loss']:6.2f}  l2 x{row['l2']:.2f}  sectors x{row['sectors']:.2f}  banks x{row['banks']:.2f}  moved x{row['moved']:.2f}  fill x{row['fill']:.2f}  "
        f"{row['launches']:.0f} launches  roof {row['roof'] * 1e6:.0f} us  {row['which']:2s} of {row['text']}"
    )


def main(seed, count):
    """The exit status, and the rows."""
    if not gpu_static.SIMULATED.exists():
        print(f"not executed: {gpu_static.SIMULATED.relative_to(gpu_static.ROOT)} is not built")
        return 3, []
    rng = random.Random(seed)
    cases = [contractions.draw(rng, FLOPS, DRAM, SHORTEST, LONGEST) for _ in range(count)]
    rows = []
    for case in cases:
        for which in ("C", "dA", "dB"):
            rows.append(judged(case, which))
            print(show(rows[-1]), file=sys.stderr, flush=True)
    done = [row for row in rows if "loss" in row]
    print(f"{count} contractions of seed {seed}, and their gradients")
    print(distribution("loss", done))
    for which, title in (("C", "  results"), ("dA", "  gradients by A"), ("dB", "  gradients by B")):
        print(distribution(title, [row for row in done if row["which"] == which]))
    print(distribution("  with a window", [row for row in done if row["window"]]))
    print("\nworst ten:", *(show(row) for row in sorted(done, key=lambda row: -row["loss"])[:10]), sep="\n")
    failed = [row for row in rows if "error" in row]
    print(
        f"\n{len(failed)} failed",
        *map(show, failed),
        sep="\n",
    )
    return int(bool(failed)), rows
