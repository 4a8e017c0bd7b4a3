"""Predicted against measured time: the rows of bench and random contractions, worst prediction first.

What the compiler predicts of a call (`--emit=model`, codegen/model) is of one core, of a call that follows another of its kind. So each
program runs on one thread again and again, and the median counts; what a call costs that computes nothing, from Python, is taken off; a program that takes less than that is left out.
An error is predicted / measured, or the other way round where that is more: 1 is right, 2 is off by a factor of two.
"""

from __future__ import annotations

import random
import sys

import numpy as np

import harness
import tilec

# Of one statement each: what the rows of bench have little of.
MORE = {
    "copy, 8 thousand": ("function (A[N]) -> (C) { C[i: N] = =(2*A[i]); }", [(8000,)]),
    "copy, 100 thousand": ("function (A[N]) -> (C) { C[i: N] = =(2*A[i]); }", [(100_000,)]),
    "copy, 2 million": ("function (A[N]) -> (C) { C[i: N] = =(2*A[i]); }", [(2_000_000,)]),
    "sum of 4 thousand": ("function (A[N]) -> (C) { C[] = +(A[i]); }", [(4000,)]),
    "sum of rows, 64x100": ("function (A[M, N]) -> (C) { C[i: M] = +(A[i, j]); }", [(64, 100)]),
    "sum of columns, 3000x70": ("function (A[M, N]) -> (C) { C[j: N] = +(A[i, j]); }", [(3000, 70)]),
    "exp, 20 thousand": ("function (A[N]) -> (C) { C = exp(A); }", [(20_000,)]),
    "log, 20 thousand": ("function (A[N]) -> (C) { C = log(A*A + 1); }", [(20_000,)]),
    "tanh, 20 thousand": ("function (A[N]) -> (C) { C = tanh(A); }", [(20_000,)]),
    "sigmoid, 20 thousand": ("function (A[N]) -> (C) { C = sigmoid(A); }", [(20_000,)]),
    "sin, 20 thousand": ("function (A[N]) -> (C) { C = sin(A); }", [(20_000,)]),
    "tan, 20 thousand": ("function (A[N]) -> (C) { C = tan(A); }", [(20_000,)]),
    "quotient, 20 thousand": ("function (A[N]) -> (C) { C = A / (A*A + 1); }", [(20_000,)]),
    "root, 20 thousand": ("function (A[N]) -> (C) { C = sqrt(A*A); }", [(20_000,)]),
    "every fourth, 50 thousand": ("function (A[N]) -> (C) { C[i: N/4] = =(A[4*i]); }", [(200_000,)]),
    "every tenth, 20 thousand": ("function (A[N]) -> (C) { C[i: N/10] = =(A[10*i]); }", [(200_000,)]),
    "triangle, 300 squared by 40": (
        "function (A[T, D], B[S, D]) -> (C) { C[t, s: T, S] = +(A[t, d] * B[s, d]), s <= t; }",
        [(300, 40), (300, 40)],
    ),
    "matrix product, 32": (
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        [(32, 32), (32, 32)],
    ),
    "matrix product, 100": (
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        [(100, 100), (100, 100)],
    ),
    "matrix product, 400": (
        "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
        [(400, 400), (400, 400)],
    ),
    "outer product, 500x700": ("function (A[M], B[N]) -> (C) { C[i, j: M, N] = =(A[i] * B[j]); }", [(500,), (700,)]),
    "gather of rows": ("function (A[N, D], i32 I[M]) -> (C) { C = gather(A, I); }", None),
    "sorted positions": ("function (A[M, N]) -> (C) { C = argsort(A, 0); }", [(100, 300)]),
}


class Case:
    def __init__(self, title, run, calls):
        self.title, self.run, self.calls = title, run, calls


def predicted(calls) -> dict:
    """Milliseconds and bytes of all calls of a run, as the compiler says them."""
    sums = {"ms": 0.0, "core": 0.0, "must": 0.0, "memory": 0.0, "last": 0.0, "second": 0.0, "launches": 0}
    for program, arguments in calls:
        lines = program.emit("model", *arguments).splitlines()
        for name, value in zip(("ms", "core", "must", "memory", "last", "second"), lines[-1].split()[1:], strict=True):
            sums[name] += float(value)
        sums["launches"] += sum(line.startswith("group") for line in lines)
    return sums


def of_bench(words):
    """The rows of bench whose `ours` calls programs: each as it calls them."""
    for name in ("gemm", "convolution", "gradients", "elementwise"):
        __import__(f"bench_{name}")
        for title, make, _ in harness.groups[name].cases:
            if words and name not in words and not any(word in title for word in words):
                continue
            made = make()
            if isinstance(made, harness.Value):
                continue
            calls, call = [], tilec.Program.__call__
            def noted(program, *arguments, calls=calls, call=call, **named):
                calls.append((program, arguments))
                return call(program, *arguments, **named)
            tilec.Program.__call__ = noted
            try:
                made.ours()
            finally:
                tilec.Program.__call__ = call
            if calls:
                yield Case(f"{name}: {title}", made.ours, calls)


def of_more(words):
    generator = np.random.default_rng(1)
    for title, (text, shapes) in MORE.items():
        if words and "more" not in words and not any(word in title for word in words):
            continue
        program = tilec.compile(text)
        arguments = (
            [(generator.random(shape, dtype=np.float32) + 0.1).astype("f") for shape in shapes]
            if shapes
            else [generator.random((3000, 60), dtype=np.float32), generator.integers(0, 3000, 5000, dtype=np.int32)]
        )
        out = program(*arguments)
        yield Case(
            f"more: {title}",
            lambda program=program, arguments=arguments, out=out: program(*arguments, out=out),
            [(program, arguments)],
        )


def of_random(seed, count, words):
    if words and "random" not in words:
        return
    import contractions
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    for _ in range(count):
        case = contractions.draw(rng)
        A, B, dC = [
            (generator.random(s, dtype=np.float32) * 2 - 1).astype("f")
            for s in (case.shape_a(), case.shape(case.b), case.shape(case.c))
        ]
        forward = tilec.compile(case.text)
        for which in ("C", "dA", "dB"):
            program = forward if which == "C" else forward.grad(wrt=[which[1]])
            arguments = (A, B) if which == "C" else (A, B, dC)
            out = program(*arguments)
            yield Case(
                f"random: {which} of {case.text}",
                lambda p=program, a=arguments, o=out: p(*a, out=o),
                [(program, arguments)],
            )


def call_overhead() -> float:
    program = tilec.compile("function (A[N]) -> (C) { C = 2*A; }")
    one = np.ones(1, "f")
    out = program(one)
    return harness.interleaved({"ours": lambda: program(one, out=out)}, 0.1)["ours"] * 1e3


def error_of(row) -> float:
    return max(row["predicted"] / row["measured"], row["measured"] / row["predicted"])


def show(row) -> str:
    ratio = row["predicted"] / row["measured"]
    return (
        f"{row['error']:6.2f} {'over' if ratio > 1 else 'under':5s} {row['predicted']:10.4f} {row['measured']:10.4f} {row['core']:10.4f} "
        f"{row['must'] / 1e6:9.2f} {row['memory'] / 1e6:9.2f} {row['last'] / 1e6:9.2f} {row['second'] / 1e6:9.2f} {row['launches']:4d}  {row['title']}"
    )


def closing(rows) -> str:
    errors = sorted(row["error"] for row in rows)
    at = lambda share: errors[min(len(errors) - 1, int(share * len(errors)))]
    return (
        f"{len(errors)} programs: the error is a factor of {at(0.5):.2f} in the median, {at(0.9):.2f} at the 90th percentile, {errors[-1]:.2f} at worst; "
        f"{sum(e <= 1.5 for e in errors) / len(errors):.0%} within 1.5, {sum(e <= 3 for e in errors) / len(errors):.0%} within 3"
    )


def main(words, seed: int, count: int, quick: bool) -> tuple[int, list[dict]]:
    """Exit status and rows. A wrong prediction is no failure; a program that cannot run is."""
    rows, failed, short = [], 0, 0
    overhead = call_overhead()
    for source in (of_bench(words), of_more(words), of_random(seed, count, words)):
        for case in source:
            try:
                measured = harness.interleaved({"ours": case.run}, 0.02 if quick else 0.2)["ours"] * 1e3
                said = predicted(case.calls)
            except Exception as fault:  # noqa: BLE001: a program that cannot run is a result too
                failed += 1
                print(f"FAILED {case.title}: {type(fault).__name__}: {fault}", flush=True)
                continue
            own = measured - overhead * len(case.calls)
            if own < overhead:                          # Python is measured, not the program
                short += 1
                continue
            row = {
                "title": case.title,
                "predicted": said["ms"],
                "measured": own,
                **{key: said[key] for key in ("core", "must", "memory", "last", "second", "launches")},
            }
            rows.append(row | {"error": error_of(row)})
            if sys.stderr.isatty():
                print(f"\r{len(rows)}", end="", file=sys.stderr, flush=True)
    print(
        f"\n{'error':>6s} {'':5s} {'predicted':>10s} {'measured':>10s} {'core':>10s} {'MB needed':>9s} {'memory':>9s} {'last':>9s} {'second':>9s} launches; milliseconds and megabytes"
    )
    for row in sorted(rows, key=lambda row: -row["error"]):
        print(show(row))
    if rows:
        print(closing(rows) + f"; {short} that take less time than a call are left out", flush=True)
    return (1 if failed else 0), rows
