"""What a call costs when there is nothing to compute: four elements, from Python."""
import numpy as np
import torch

import harness
import tilec
from harness import Race, Value, group, rand

rows = group("overhead")
one = tilec.compile("function (A[N]) -> (B) { B = A + 1; }")


def microseconds(call, turns=5, calls=5000):
    call()
    best = []
    for _ in range(turns):
        start = harness.clock()
        for _ in range(calls):
            call()
        best.append((harness.clock() - start) / calls * 1e6)
    return sorted(best)[turns // 2]


@rows.add("call of 4 elements from Python", goal=2)
def _():
    a = rand(4)
    return Value(microseconds(lambda: one(a)), "µs")


@rows.add("call of 4 elements from Python, out=", goal=2)
def _():
    a, out = rand(4), np.empty(4, "f")
    return Value(microseconds(lambda: one(a, out=out)), "µs")


@rows.add("a + 1 of 4 elements")
def _():
    a = rand(4)
    t = torch.from_numpy(a)
    return Race(lambda: one(a), NumPy=lambda: a + 1, torch=lambda: t + 1)


@rows.add("matmul 8x8x8")
def _():
    product = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
    A, B = rand(8, 8), rand(8, 8)
    return Race(lambda: product(A, B), NumPy=lambda: A @ B, flop=2 * 8 ** 3)
