"""What embedding costs and gives: calls from libraries beside their own, layers inside PyTorch, and how long a process
takes to begin."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

import harness
import tilec
from bench_overhead import microseconds
from harness import Race, Value, group

rows = group("embedding")
ADD = "function (A[N], B[N]) -> (C) { C = A + B; }"


def recorded(call):
    """With autograd, which bench/run.py turns off for all else."""
    def run():
        with torch.enable_grad():
            return call()
    return run


def added(**options):
    return tilec.compile(ADD, threads=1, **options)


def beside(call, theirs) -> Value:
    """Microseconds of a call, and of the library's own."""
    ours, peer = microseconds(call), microseconds(theirs)
    return Value(ours, "µs", "theirs %.2f" % peer)


@rows.add("call, NumPy, 16 elements", goal=2)
def _():
    f, a = added(), np.ones(16, "f")
    return beside(lambda: f(a, a), lambda: np.add(a, a))


@rows.add("call, NumPy, 16 elements, out=", goal=2)
def _():
    f, a, out = added(), np.ones(16, "f"), np.empty(16, "f")
    return beside(lambda: f(a, a, out=out), lambda: np.add(a, a, out=out))


@rows.add("call, PyTorch, 16 elements", goal=5)
def _():
    f, a = added(), torch.ones(16)
    return beside(lambda: f(a, a), lambda: torch.add(a, a))


@rows.add("call, PyTorch, 16 elements, out=", goal=5)
def _():
    f, a, out = added(), torch.ones(16), torch.empty(16)
    return beside(lambda: f(a, a, out=out), lambda: torch.add(a, a, out=out))


@rows.add("tilec.torch.function, recorded for autograd, 16 elements")
def _():
    f, a = tilec.torch.function(added()), torch.ones(16, requires_grad=True)
    with torch.enable_grad():
        return beside(lambda: f(a, a), lambda: torch.mul(a, a))


@rows.add("tilec.torch.function, forward and backward, 16 elements")
def _():
    f, a = tilec.torch.function(added()), torch.ones(16, requires_grad=True)

    def steps(call):
        def run():
            call(a, a).sum().backward()
            a.grad = None
        return run
    with torch.enable_grad():
        return beside(steps(f), steps(torch.mul))


@rows.add("torch.compile of an operator, 16 elements")
def _():
    op, a = tilec.torch.op(added(), "bench::add"), torch.ones(16)
    ours, theirs = (torch.compile(f, fullgraph=True) for f in (lambda x: op(x, x) + 1, lambda x: x + x + 1))
    return beside(lambda: ours(a), lambda: theirs(a))


@rows.add("jax.jit of an operator, 16 elements")
def _():
    import jax
    import jax.numpy as jnp
    op, a = tilec.jax.op(added()), jnp.ones(16)
    ours, theirs = jax.jit(lambda x: op(x, x)), jax.jit(lambda x: x + x)
    return beside(lambda: ours(a), lambda: theirs(a))


def layer(ours, theirs, *shapes) -> Race:
    """Forward and backward of a layer inside PyTorch, gradients for all that it takes."""
    generator = torch.Generator().manual_seed(0)
    taken = [torch.randn(*shape, generator=generator, requires_grad=True) for shape in shapes]

    def step(f):
        def run():
            y = f(*taken)
            y.backward(torch.ones_like(y))
            gradients = [x.grad for x in taken]
            for x in taken:
                x.grad = None
            return [y.detach(), *gradients]
        return recorded(run)
    return Race(step(ours), PyTorch=step(theirs))


def function(text, **options):
    return tilec.torch.function(tilec.compile(text, threads=1, **options))


@rows.add("layer norm 3000x1000, forward and backward inside PyTorch", goal=1.0)
def _():
    return layer(
        tilec.torch.function(tilec.std.load("layer_norm", threads=1)),
        lambda x, g, b: F.layer_norm(x, (1000,), g, b),
        (3000, 1000),
        (1000,),
        (1000,),
    )


@rows.add("convolution 3x3, 8x32x56x56 to 32, forward and backward inside PyTorch", goal=1.0)
def _():
    conv = function(
        "function (I[N, C, H, W], K[CO, C, 3, 3]) -> (O) { O[n, co, y, x: N, CO, H, W] = +(I[n, c, y + j - 1, x + i - 1] * K[co, c, j, i]); }"
    )
    return layer(conv, lambda i, k: F.conv2d(i, k, padding=1), (8, 32, 56, 56), (32, 32, 3, 3))


@rows.add("attention 512x64, forward and backward inside PyTorch", goal=1.0)
def _():
    text = """import "std/softmax.tile";
        function attend(Q[T, D], K[T, D], V[T, D]) -> (O) { S[i, j: T, T] = +(Q[i, d] * K[j, d]); P = softmax(S / 8.0); O[i, d: T, D] = +(P[i, j] * V[j, d]); }"""
    return layer(
        function(text, function="attend"), lambda q, k, v: torch.softmax(q @ k.T / 8, -1) @ v, *[(512, 64)] * 3
    )


def whole_process(command, **environment) -> float:
    """Median milliseconds from its start to its end."""
    taken = []
    for _ in range(25):
        start = time.perf_counter()
        subprocess.run(
            [str(word) for word in command], stdout=subprocess.DEVNULL, check=True, env={**os.environ, **environment}
        )
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


RUN = [harness.BUILD / "cli/tilec", "run", "matmul.tile", "A=random:64x64xf32", "B=random:64x64xf32"]


def run_of_matmul(cache: "str | None") -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "matmul.tile")
        with open(path, "w") as file:
            file.write("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
        return whole_process([*RUN[:2], path, *RUN[3:]], TILEC_CACHE=cache or os.path.join(folder, "cache"))


@rows.add("whole process, tilec run of a matmul, in the cache", goal=12)
def _():
    return Value(run_of_matmul(None), "ms")


@rows.add("whole process, tilec run of a matmul, no cache")
def _():
    return Value(run_of_matmul("off"), "ms")


@rows.add("import tilec, beside import numpy", goal=150)
def _():
    numpy = whole_process([sys.executable, "-c", "import numpy"])
    return Value(whole_process([sys.executable, "-c", "import tilec"]) - numpy, "ms", "numpy %.0f" % numpy)
