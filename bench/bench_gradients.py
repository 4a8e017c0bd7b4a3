"""Gradients: of convolutions over their own forward time and against PyTorch, of matrix products, of softmax and layer
norm."""
import numpy as np
import torch

import tilec
from convolutions import NHWC, filters, flop, image, program, title, to_nhwc
from harness import Race, Value, group, rand

rows = group("gradients")
SHAPES = [
    (56, 64, 64, 3, 1, 1),
    (56, 128, 128, 3, 2, 1),
    (57, 64, 64, 3, 3, 1),
    (28, 128, 128, 3, 1, 1),
    (56, 64, 256, 1, 1, 0),
    (224, 3, 64, 7, 2, 3),
]


def case(shape):
    x, ci, co, k, s, p = shape
    out = (x + 2 * p - k) // s + 1
    return program(NHWC, s, p), rand(1, x, x, ci), rand(k, k, ci, co), rand(1, out, out, co)


def over_forward(shape, wrt, what, goal=None):
    @rows.add(f"{what}, own forward as peer: {title(*shape)}", goal=goal)
    def _():
        conv, I, K, dO = case(shape)
        gradient = conv.grad(wrt=[wrt])
        return Race(lambda: gradient(I, K, dO), forward=lambda: conv(I, K), tolerance=None, flop=flop(*shape))


def against_torch(shape, wrt, what):
    @rows.add(f"{what}: {title(*shape)}")
    def _():
        _, _, _, _, s, p = shape
        conv, I, K, dO = case(shape)
        gradient = conv.grad(wrt=[wrt])
        tI, tK, tO = image(I), filters(K), image(dO)
        mask = [wrt == "I", wrt == "K", False]
        back = lambda: torch.ops.aten.convolution_backward(
            tO, tI, tK, None, [s, s], [p, p], [1, 1], False, [0, 0], 1, mask
        )[0 if wrt == "I" else 1]
        return Race(
            lambda: gradient(I, K, dO),
            torch=back,
            shape=to_nhwc if wrt == "I" else lambda d: d.transpose(2, 3, 1, 0),
            flop=flop(*shape),
        )


over_forward(SHAPES[0], "I", "input gradient", goal=1 / 1.3)
over_forward(SHAPES[0], "K", "weight gradient")
over_forward(SHAPES[1], "I", "input gradient")
over_forward(SHAPES[2], "I", "input gradient")
for one in SHAPES:
    if one[1] > 3:
        against_torch(one, "I", "input gradient")
    against_torch(one, "K", "weight gradient")


@rows.add("both gradients of matmul 512x512x512")
def _():
    A, B, dC = rand(512, 512), rand(512, 512), rand(512, 512)
    gradient = tilec.compile("function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }").grad(
        wrt=["A", "B"]
    )
    return Race(lambda: gradient(A, B, dC), NumPy=lambda: (dC @ B.T, A.T @ dC), flop=4 * 512 ** 3)


@rows.add("gradient of softmax 4000x1000")
def _():
    X, dY = rand(4000, 1000), rand(4000, 1000)
    gradient = tilec.compile(
        """function (X[M, N]) -> (Y) {
      Mx[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - Mx[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"""
    ).grad(wrt=["X"])
    tX, tY = torch.from_numpy(X), torch.from_numpy(dY)

    def peer():                                         # from X as ours: the forward is recomputed on both sides
        return torch.ops.aten._softmax_backward_data(tY, torch.softmax(tX, 1), 1, torch.float32)
    return Race(lambda: gradient(X, dY), torch=peer, tolerance=1e-3)


@rows.add("gradient of max pool 3x3 stride 2 NHWC 64 at 112x112")
def _():
    I, dO = rand(1, 112, 112, 64), rand(1, 56, 56, 64)
    gradient = tilec.compile(
        "function (I[N, H, W, C]) -> (O) { O[n, y, x, c: N, (H + 1) / 2, (W + 1) / 2, C] = >(I[n, 2*y + j - 1, 2*x + i - 1, c]), j < 3, i < 3; }"
    ).grad(wrt=["I"])
    tI, tO = image(I), image(dO)

    def peer():
        _, where = torch.ops.aten.max_pool2d_with_indices(tI, [3, 3], [2, 2], [1, 1])
        return torch.ops.aten.max_pool2d_with_indices_backward(tO, tI, [3, 3], [2, 2], [1, 1], [1, 1], False, where)
    # equal maxima share the cotangent here, one gets it there
    return Race(lambda: gradient(I, dO), torch=peer, shape=to_nhwc, tolerance=1.0)


def twice(shape):
    """The convolution, the gradient of its gradient by everything, and arguments of both."""
    conv, I, K, dO = case(shape)
    second = conv.grad(wrt=["I", "K"]).grad(wrt=["I", "K", "dO"])
    return conv, second, (I, K), (I, K, dO, rand(*I.shape), rand(*K.shape))


for one in (SHAPES[0], SHAPES[1]):
    @rows.add(f"double backward, own forward as peer: {title(*one)}")
    def _(shape=one):
        conv, second, forward_arguments, arguments = twice(shape)
        return Race(
            lambda: second(*arguments), forward=lambda: conv(*forward_arguments), tolerance=None, flop=flop(*shape)
        )


@rows.add(f"double backward, bytes of scratch over bytes of its arguments: {title(*SHAPES[0])}")
def _():
    _, second, _, arguments = twice(SHAPES[0])
    scratch = second.emit("report-text", *arguments).split("scratch")[1].split(": ")[1].split(" bytes")[0]
    return Value(int(scratch.replace(",", "")) / sum(a.nbytes for a in arguments), "x")


# A state over a prefix, and what reads it: against the same sums written by hand, one scan and one contraction each.
T, D, E = 2048, 64, 64
STATE = "function (K[T, D], V[T, E]) -> (S) { S[t, d, e: T, D, E] = +(K[s, d] * V[s, e]), s <= t; }"
STATE_BY_HAND = """function (K[T, D], V[T, E], dS[T, D, E]) -> (dK, dV) {
  A[s, d, e: T, D, E] = +(dS[t, d, e]), t >= s;
  dK[s, d: T, D] = +(A[s, d, e] * V[s, e]); dV[s, e: T, E] = +(A[s, d, e] * K[s, d]); }"""
ATTENTION = "function (Q[T, D], K[T, D], V[T, E]) -> (O) { O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t; }"
ATTENTION_BY_HAND = """function (Q[T, D], K[T, D], V[T, E]) -> (O) {
  S[t, d, e: T, D, E] = +(K[s, d] * V[s, e]), s <= t; O[t, e: T, E] = +(Q[t, d] * S[t, d, e]); }"""


@rows.add("both gradients of a prefix state 2048x64x64, by hand as peer")
def _():
    K, V, dS = rand(T, D), rand(T, E), rand(T, D, E)
    gradient, hand = tilec.compile(STATE).grad(), tilec.compile(STATE_BY_HAND)
    return Race(lambda: gradient(K, V, dS), hand=lambda: hand(K, V, dS), flop=5 * T * D * E)


@rows.add("linear attention 2048x64x64, states by hand as peer")
def _():
    Q, K, V = rand(T, D), rand(T, D), rand(T, E)
    attention, hand = tilec.compile(ATTENTION), tilec.compile(ATTENTION_BY_HAND)
    return Race(lambda: attention(Q, K, V), hand=lambda: hand(Q, K, V), tolerance=None, flop=4 * T * D * E)
