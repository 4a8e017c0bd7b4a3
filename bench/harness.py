"""One way to measure everything: ours against a peer in turns, medians, results compared first.

A group file adds rows:

    from harness import group, Race, rand
    rows = group("gemm")

    @rows.add("matmul 512x512x512", goal=0.8)
    def _():
        A, B = rand(512, 512), rand(512, 512)
        return Race(lambda: ours(A, B), NumPy=lambda: A @ B, flop=2 * 512**3)

Fair means here: ours and each peer run alternately in one process, each sample is long enough for the clock, the median
counts; memory that was freed is reused on both sides (glibc is told to keep it); data are random; the same number of
threads; OPENBLAS_* variables that slow NumPy down are cleared; and a row whose results differ from the peer's is no row
but a failure.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import sys
import time

# The build that is measured: the one whose library `import tilec` takes.
BUILD = (
    pathlib.Path(
        os.environ.get("TILEC_LIBRARY") or pathlib.Path(__file__).resolve().parent.parent / "build/runtime/libtilec.so"
    )
    .resolve()
    .parent.parent
)


def environment(threads: int) -> None:
    """Before NumPy and PyTorch are loaded: starts this process again when the variables were others, for OpenBLAS reads
    them when loaded."""
    wanted = {
        name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TILEC_THREADS")
    }
    inherited = [name for name in os.environ if name.startswith("OPENBLAS_") and name not in wanted]
    if inherited or any(os.environ.get(name) != value for name, value in wanted.items()):
        kept = {name: value for name, value in os.environ.items() if name not in inherited}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**kept, **wanted})
    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(M_TRIM_THRESHOLD, 2 ** 31 - 1)


# `--busy`: time.process_time, which stands still while others have the core
clock = time.perf_counter


class Race:
    """What a row runs. `ours` and each peer take nothing and return an array, or several, or a tensor of PyTorch.

    flop: operations of one call. tolerance: of the largest value of the result; None when results are not comparable.
    shape: how the peer's result becomes ours (a transposition).
    """

    def __init__(self, ours, *, flop=0, tolerance=1e-4, shape=lambda x: x, **peers):
        self.ours, self.peers, self.flop, self.tolerance, self.shape = ours, peers, flop, tolerance, shape


class Value:
    """A row that is a figure of its own, in `unit`; smaller is better. bound: what it should not exceed."""

    def __init__(self, value, unit, note=""):
        self.value, self.unit, self.note = value, unit, note


class Rows:
    def __init__(self, name):
        self.name, self.cases = name, []

    def add(self, title, *, goal=None):
        """goal: the ratio to reach (of a Value: the figure not to exceed)."""
        def keep(make):
            self.cases.append((title, make, goal))
            return make
        return keep


groups: dict[str, Rows] = {}


def group(name: str) -> Rows:
    return groups.setdefault(name, Rows(name))


def rand(*shape):
    """Uniform in -1 … 1, f32, the same numbers every run."""
    import numpy as np
    rand.generator = getattr(rand, "generator", None) or np.random.default_rng(1)
    return (rand.generator.random(shape, dtype=np.float32) * 2 - 1).astype(np.float32)


def as_arrays(result):
    import numpy as np
    items = result if isinstance(result, (tuple, list)) else [result]
    return [item.detach().numpy() if hasattr(item, "detach") else np.asarray(item) for item in items]


def difference(ours, peer, shape) -> float:
    """The largest error over all results, relative to the largest value of each."""
    import numpy as np
    worst = 0.0
    for a, b in zip(as_arrays(ours), as_arrays(peer), strict=True):
        b = shape(b)
        if a.shape != b.shape:
            return float("inf")
        a, b = a.astype(np.float64), b.astype(np.float64)
        if a.size:
            error = np.abs(a - b).max() / max(1e-30, np.abs(b).max())
            worst = max(worst, error if error == error else float("inf"))
    return worst


def interleaved(functions: dict, budget: float, least: int = 3) -> dict:
    """Median seconds of each, in turns. `budget`: seconds for the row; at least `least` turns, at most 51."""
    repeat = {}
    for name, f in functions.items():                   # also warms up
        f()
        start = clock()
        f()
        repeat[name] = max(1, int(200e-6 / max(1e-9, clock() - start)))
    samples: dict = {name: [] for name in functions}
    end = time.perf_counter() + budget
    while len(next(iter(samples.values()))) < 51 and (
        time.perf_counter() < end or len(next(iter(samples.values()))) < least
    ):
        for name, f in functions.items():
            n = repeat[name]
            start = clock()
            for _ in range(n):
                f()
            samples[name].append((clock() - start) / n)
    return {name: sorted(times)[len(times) // 2] for name, times in samples.items()}


def measure(make, budget: float) -> dict:
    """One row as data. A failure is a row with `error`."""
    made = make()
    if isinstance(made, Value):
        return {"value": made.value, "unit": made.unit, "note": made.note}
    result = made.ours()
    for name, peer in made.peers.items():
        if made.tolerance is not None and (error := difference(result, peer(), made.shape)) > made.tolerance:
            return {"error": f"differs from {name} by {error:.1e} of the largest value"}
    seconds = interleaved({"ours": made.ours, **made.peers}, budget)
    ours = seconds.pop("ours")
    best = min(seconds, key=seconds.get)
    return {
        "ours_ms": ours * 1e3,
        "peers_ms": {name: s * 1e3 for name, s in seconds.items()},
        "peer": best,
        "ratio": seconds[best] / ours,
        "gflops": made.flop / ours / 1e9 if made.flop else None,
    }


def met(row: dict) -> bool | None:
    """None: the row has no goal."""
    if row.get("goal") is None:
        return None
    if "error" in row:
        return False
    return row["value"] <= row["goal"] if "value" in row else row["ratio"] >= row["goal"]


def show(row: dict) -> str:
    title = f"{row['group']:12s} {row['title']:44s}"
    goal = "" if row["goal"] is None else f"  goal {row['goal']:g}{'' if met(row) else '  MISSED'}"
    if "error" in row:
        return f"{title} FAILED: {row['error']}"
    if "value" in row:
        return f"{title} {row['value']:10.3f} {row['unit']}{goal}{'  ' + row['note'] if row['note'] else ''}"
    rate = f"{row['gflops']:6.1f} GF/s" if row["gflops"] else " " * 11
    return f"{title} {row['ours_ms']:10.3f} ms  {row['peer']:>6s} {row['peers_ms'][row['peer']]:10.3f} ms  ratio {row['ratio']:5.2f}  {rate}{goal}"
