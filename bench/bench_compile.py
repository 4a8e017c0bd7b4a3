"""Cold compiles in a warm process: from text to the first result, with a text, a shape and strides never seen
before."""
import os
import re
import subprocess
import tempfile

import harness
import planning
import tilec
from convolutions import NHWC, text
from harness import Value, group, rand

rows = group("compile")
fresh = iter(range(1_000_000))


def first_call(source, shapes, wrt=None, times=7):
    """Median milliseconds from text to result. Every turn has other extents, so no kernel, plan or object can be found
    again."""
    taken = []
    for turn in range(times):
        k = next(fresh)
        arrays = [rand(*[n + k if n > 16 else n for n in shape]) for shape in shapes]
        if wrt:                                         # the first call of the forward is not counted
            outputs = [tilec.compile(source)(*arrays)]
            arrays += outputs
        start = harness.clock()
        program = tilec.compile(f"// {k}\n" + source)
        program = program.grad(wrt=wrt) if wrt else program
        program(*arrays)
        taken.append((harness.clock() - start) * 1e3)
    return sorted(taken)[times // 2]


@rows.add("one contraction (matmul)", goal=40)
def _():
    return Value(
        first_call(
            "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }", [(67, 67), (67, 67)]
        ),
        "ms",
    )


@rows.add("elementwise", goal=40)
def _():
    return Value(first_call("function (A[N], B[N]) -> (C) { C = exp(A) * B; }", [(67,), (67,)]), "ms")


@rows.add("convolution 3x3, forward", goal=40)
def _():
    return Value(first_call(text(NHWC, 1, 1), [(1, 56, 56, 8), (3, 3, 8, 16)]), "ms")


def with_gradients(stride, times=5):
    """Forward and both gradients, each to its first result."""
    taken = []
    source = text(NHWC, stride, 1)
    for turn in range(times):
        k = next(fresh)
        I, K = rand(1, 56 + k, 56 + k, 8), rand(3, 3, 8, 16)
        start = harness.clock()
        conv = tilec.compile(f"// {k}\n" + source)
        O = conv(I, K)
        conv.grad(wrt=["I", "K"])(I, K, O)
        taken.append((harness.clock() - start) * 1e3)
    return sorted(taken)[times // 2]


@rows.add("convolution 3x3 with both gradients", goal=200)
def _():
    return Value(with_gradients(1), "ms")


@rows.add("convolution 3x3 stride 2 with both gradients", goal=200)
def _():
    return Value(with_gradients(2), "ms")


@rows.add("softmax", goal=200)
def _():
    source = "function (X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - Mx[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"
    return Value(first_call(source, [(67, 67)]), "ms")


def passes(arguments):
    """Milliseconds of each pass, as the command line reports them; the front of the compiler, without LLVM."""
    command = [harness.BUILD / "cli/tilec", *arguments, "--time"]
    taken = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return {
        line.split()[0]: float(line.split()[1])
        for line in taken.splitlines()
        if re.fullmatch(r"[a-z]+ +[0-9.]+ ms", line)
    }


@rows.add("passes before LLVM: convolution with both gradients")
def _():
    with tempfile.NamedTemporaryFile("w", suffix=".tile") as file:
        file.write(text(NHWC, 1, 1))
        file.flush()
        times = passes(
            [
                file.name,
                "--grad",
                "--wrt",
                "I,K",
                "--emit=loops",
                "-o",
                os.devnull,
                "--size",
                "N=1,H=56,W=56,CI=64,KH=3,KW=3,CO=64",
            ]
        )
    slow = sorted((name for name in times if name != "total"), key=times.get, reverse=True)[:3]
    return Value(times["total"], "ms", ", ".join(f"{name} {times[name]:.2f}" for name in slow))


@rows.add("planning a statement: LSTM of 16 steps, to Loops", goal=0.5)
def _():
    title, arguments = next(case for case in planning.cases() if case[0] == "LSTM of 16 steps")
    made = planning.measure(arguments, 4)
    slow = sorted(made["passes"], key=made["passes"].get, reverse=True)[:3]
    return Value(
        made["ms"] / made["statements"],
        "ms",
        f"{made['statements']} statements; " + ", ".join(f"{name} {made['passes'][name]:.2f}" for name in slow),
    )
