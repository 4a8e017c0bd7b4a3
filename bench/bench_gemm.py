"""Matrix products in every orientation and size, and contractions that are no matrix product, against NumPy (OpenBLAS)
and PyTorch."""
import numpy as np
import torch

import tilec
from harness import Race, group, rand

rows = group("gemm")
product = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }")
TEXT = "function (A[%s], B[%s]) -> (C) { C[i, j: M, N] = +(A[%s] * B[%s]); }"
orientations = {
    "NT": tilec.compile(TEXT % ("M, K", "N, K", "i, k", "j, k")),
    "TN": tilec.compile(TEXT % ("K, M", "K, N", "k, i", "k, j")),
    "TT": tilec.compile(TEXT % ("K, M", "N, K", "k, i", "j, k")),
}


def matmul(m, n, k, goal=None):
    @rows.add(f"matmul {m}x{n}x{k}", goal=goal)
    def _():
        A, B, C, D = rand(m, k), rand(k, n), np.empty((m, n), "f"), np.empty((m, n), "f")
        return Race(lambda: product(A, B, out=C), NumPy=lambda: np.matmul(A, B, out=D), flop=2 * m * n * k)


matmul(512, 512, 512, goal=0.8)
matmul(1021, 509, 251, goal=0.8)
for shape in [
    (1024, 1024, 1024),
    (32, 32, 32),
    (64, 64, 64),
    (128, 128, 128),
    (256, 256, 256),
    (37, 41, 43),
    (64, 3000, 64),
    (3000, 64, 64),
    (64, 64, 3000),
    (128, 768, 3072),
    (128, 3072, 768),
]:
    matmul(*shape)


def oriented(name, n):
    @rows.add(f"matmul {name} {n}x{n}x{n}")
    def _():
        A, B, C, D = rand(n, n), rand(n, n), np.empty((n, n), "f"), np.empty((n, n), "f")
        a, b = A.T if name[0] == "T" else A, B.T if name[1] == "T" else B
        return Race(lambda: orientations[name](A, B, out=C), NumPy=lambda: np.matmul(a, b, out=D), flop=2 * n ** 3)


for which in orientations:
    for size in (128, 512):
        oriented(which, size)


def against(title, text, einsum, *shapes, goal=None):
    """A contraction against torch.einsum and numpy.einsum (optimize=True, which uses BLAS where it can)."""
    @rows.add(title, goal=goal)
    def _():
        program, arrays = tilec.compile(text), [rand(*s) for s in shapes]
        tensors = [torch.from_numpy(a) for a in arrays]
        return Race(
            lambda: program(*arrays),
            NumPy=lambda: np.einsum(einsum, *arrays, optimize=True),
            torch=lambda: torch.einsum(einsum, *tensors),
        )


against(
    "matrix times vector 4000x4000",
    "function (A[M, K], X[K]) -> (Y) { Y[i: M] = +(A[i, k] * X[k]); }",
    "ik,k->i",
    (4000, 4000),
    (4000,),
)
against(
    "transposed matrix times vector 4000x4000",
    "function (A[K, M], X[K]) -> (Y) { Y[i: M] = +(A[k, i] * X[k]); }",
    "ki,k->i",
    (4000, 4000),
    (4000,),
)
against(
    "outer product 2000x2000",
    "function (A[M], B[N]) -> (C) { C[i, j: M, N] = =(A[i] * B[j]); }",
    "i,j->ij",
    (2000,),
    (2000,),
)
against(
    "batched matmul 64 of 64x64x64",
    "function (A[T, M, K], B[T, K, N]) -> (C) { C[t, i, j: T, M, N] = +(A[t, i, k] * B[t, k, j]); }",
    "tik,tkj->tij",
    (64, 64, 64),
    (64, 64, 64),
)
against(
    "tensor times matrix abc,bd->adc 64x96x64x96",
    "function (X[A, B, C], W[B, D]) -> (Y) { Y[a, d, c: A, D, C] = +(X[a, b, c] * W[b, d]); }",
    "abc,bd->adc",
    (64, 96, 64),
    (96, 96),
)
against(
    "contraction aebf,dfce->abcd (TCCG)",
    "function (X[A, E, B, F], Y[D, F, C, E]) -> (Z) { Z[a, b, c, d: A, B, C, D] = +(X[a, e, b, f] * Y[d, f, c, e]); }",
    "aebf,dfce->abcd",
    (24, 24, 24, 24),
    (24, 24, 24, 24),
)
against(
    "MTTKRP ijk,jr,kr->ir 96x96x96x32",
    "function (X[I, J, K], B[J, R], C[K, R]) -> (Y) { Y[i, r: I, R] = +(X[i, j, k] * B[j, r] * C[k, r]); }",
    "ijk,jr,kr->ir",
    (96, 96, 96),
    (96, 32),
    (96, 32),
)
