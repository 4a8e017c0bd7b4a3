"""What is measured on a GPU: Tile text, what it is called with, and the same in PyTorch.

A row has its sizes for a device and small ones for a machine without: there `run.py --simulated` computes each row with NumPy arrays through
whatever stands in for the CUDA driver, and holds it against PyTorch on the CPU.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable

FLOPS, BANDWIDTH = {"float32": 67e12, "bfloat16": 989e12}, 3.35e12  # of an H100

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
MATMUL_BF16 = "function (bf16 A[M, K], bf16 B[K, N]) -> (f32 C) { C[i, j: M, N] = +(f32(A[i, k]) * f32(B[k, j])); }"
SOFTMAX = """function (X[M, N]) -> (Y) {
  Mx[i: M] = >(X[i, j]);
  E[i, j: M, N] = =(exp(X[i, j] - Mx[i]));
  S[i: M] = +(E[i, j]);
  Y[i, j: M, N] = =(E[i, j] / S[i]);
}"""
LAYER_NORM = """function (X[M, N], Gamma[N], Beta[N]) -> (Y) {
  Mean[i: M] = +(X[i, j] / N);
  Squares[i: M] = +((X[i, j] - Mean[i]) * (X[i, j] - Mean[i]) / N);
  Scale[i: M] = =(1.0 / sqrt(Squares[i] + 0.00001));
  Y[i, j: M, N] = =((X[i, j] - Mean[i]) * Scale[i] * Gamma[j] + Beta[j]);
}"""
ATTENTION = """function (Q[H, T, D], K[H, S, D], V[H, S, E]) -> (O) {
  Score[h, t, s: H, T, S] = +(Q[h, t, d] * K[h, s, d]);
  Scaled = Score / sqrt(f32(D));
  Mx[h, t: H, T] = >(Scaled[h, t, s]);
  P[h, t, s: H, T, S] = =(exp(Scaled[h, t, s] - Mx[h, t]));
  Z[h, t: H, T] = +(P[h, t, s]);
  U[h, t, e: H, T, E] = +(P[h, t, s] * V[h, s, e]);
  O[h, t, e: H, T, E] = =(U[h, t, e] / Z[h, t]);
}"""
ATTENTION_BF16 = """function (bf16 Q[H, T, D], bf16 K[H, S, D], bf16 V[H, S, E]) -> (O) {
  Score[h, t, s: H, T, S] = +(f32(Q[h, t, d]) * f32(K[h, s, d]));
  Scaled = Score / sqrt(f32(D));
  Mx[h, t: H, T] = >(Scaled[h, t, s]);
  P[h, t, s: H, T, S] = =(exp(Scaled[h, t, s] - Mx[h, t]));
  Z[h, t: H, T] = +(P[h, t, s]);
  U[h, t, e: H, T, E] = +(P[h, t, s] * f32(V[h, s, e]));
  O[h, t, e: H, T, E] = =(bf16(U[h, t, e] / Z[h, t]));
}"""
CAUSAL = """function (Q[H, T, D], K[H, S, D], V[H, S, E]) -> (O) {
  Score[h, t, s: H, T, S] = +(Q[h, t, d] * K[h, s, d]), s <= t;
  Scaled[h, t, s: H, T, S] = =(Score[h, t, s] / sqrt(f32(D))), s <= t;
  Mx[h, t: H, T] = >(Scaled[h, t, s]), s <= t;
  P[h, t, s: H, T, S] = =(exp(Scaled[h, t, s] - Mx[h, t])), s <= t;
  Z[h, t: H, T] = +(P[h, t, s]), s <= t;
  U[h, t, e: H, T, E] = +(P[h, t, s] * V[h, s, e]), s <= t;
  O[h, t, e: H, T, E] = =(U[h, t, e] / Z[h, t]);
}"""
CONVOLUTION = """function (I[N, CI, H, W], K[CO, CI, KH, KW]) -> (O) {
  O[n, co, y, x: N, CO, H, W] = +(I[n, ci, y + j - 1, x + i - 1] * K[co, ci, j, i]);
}"""
CONVOLUTION_NHWC = """function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {
  O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);
}"""
CONVOLUTION_BF16 = """function (bf16 I[N, H, W, CI], bf16 K[KH, KW, CI, CO]) -> (O) {
  S[n, y, x, co: N, H, W, CO] = +(f32(I[n, y + j - 1, x + i - 1, ci]) * f32(K[j, i, ci, co]));
  O = bf16(S);
}"""
DEPTHWISE_NHWC = """function (I[N, H, W, C], K[KH, KW, C]) -> (O) {
  O[n, y, x, c: N, H, W, C] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c]);
}"""
DEPTHWISE = """function (I[N, C, H, W], K[C, KH, KW]) -> (O) {
  O[n, c, y, x: N, C, H, W] = +(I[n, c, y + j - 1, x + i - 1] * K[c, j, i]);
}"""
LINEAR_ATTENTION = """function (Q[H, T, D], K[H, T, D], V[H, T, E]) -> (O) {
  O[h, t, e: H, T, E] = +(Q[h, t, d] * K[h, s, d] * V[h, s, e]), s <= t;
}"""
RETENTION = """function (Q[H, T, D], K[H, T, D], V[H, T, E], W[H]) -> (O) {
  Rate[h: H] = =(0.1 * W[h] * W[h]);
  O[h, t, e: H, T, E] = +(Q[h, t, d] * K[h, s, d] * V[h, s, e] * exp((s - t) * Rate[h])), s <= t;
}"""
MAMBA2 = """function (X[B, T, H, P], Step[B, T, H], A[H], K[B, T, N], Q[B, T, N]) -> (Y) {
  DT[b, t, h: B, T, H] = =(0.1 * Step[b, t, h] * Step[b, t, h] + 0.01);
  L[b, t, h: B, T, H] = +(-DT[b, s, h] * A[h] * A[h]), s <= t;
  G[b, t, s: B, T, T] = +(Q[b, t, n] * K[b, s, n]), s <= t;
  Y[b, t, h, p: B, T, H, P] = +(G[b, t, s] * exp(L[b, t, h] - L[b, s, h]) * DT[b, s, h] * X[b, s, h, p]), s <= t;
}"""
GATED_LINEAR_ATTENTION = """function (Q[B, H, T, D], K[B, H, T, D], V[B, H, T, E], G[B, H, T, D]) -> (O) {
  F[b, h, t, d: B, H, T, D] = =(-0.1 * G[b, h, t, d] * G[b, h, t, d]);
  L[b, h, t, d: B, H, T, D] = +(F[b, h, s, d]), s <= t;
  O[b, h, t, e: B, H, T, E] = +(Q[b, h, t, d] * exp(L[b, h, t, d] - L[b, h, s, d]) * K[b, h, s, d]
      * V[b, h, s, e]), s <= t;
}"""
HGRN = """function (X[B, T, D], F[B, T, D]) -> (H) {
  G = sigmoid(F);
  P[b, t, s, d: B, T, T, D] = *(G[b, u, d]), s + 1 <= u <= t default 1;
  H[b, t, d: B, T, D] = +(P[b, t, s, d] * (1 - G[b, s, d]) * X[b, s, d]), s <= t;
}"""


@dataclasses.dataclass
class Row:
    name: str
    text: str
    shapes: list[tuple[int, ...]]                      # of the inputs
    small: list[tuple[int, ...]]                       # without a GPU
    # (torch, *inputs) -> result, as an expression that autograd differentiates
    peer: Callable
    wrt: list[str] = dataclasses.field(default_factory=list)  # none: forward
    dtype: str = "float32"
    flop: Callable = lambda shapes: 0.0                # multiply-adds count two
    bound: str = "memory"                              # or arithmetic: what the peak is that it is held against
    goal: float = 0.9                                  # peer's time over ours
    math: str = ""                                     # of the target: tf32, bf16; PyTorch's products may use tf32 too

    def inputs_of_text(self) -> list[str]:
        heading = self.text[self.text.index("(") + 1:self.text.index(")")]
        return [part.strip().split("[")[0].split()[-1] for part in heading.split("],")]


def matmul_flop(shapes):
    (m, k), (_, n) = shapes
    return 2.0 * m * n * k


def convolution_flop(shapes):
    (n, ci, h, w), (co, _, kh, kw) = shapes
    return 2.0 * n * ci * h * w * co * kh * kw


def einsum(text):
    return lambda torch, *inputs: torch.einsum(text, *inputs)


def conv(torch, image, filters):
    return torch.nn.functional.conv2d(image, filters, padding=1)


def conv_nhwc(torch, image, filters):
    return torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1), padding=1).permute(
        0, 2, 3, 1
    )


def depthwise(torch, image, filters):
    return torch.nn.functional.conv2d(image, filters[:, None], padding=1, groups=filters.shape[0])


def layer_norm(torch, x, gamma, beta):
    return torch.nn.functional.layer_norm(x, x.shape[1:], gamma, beta, 1e-5)


def attention(torch, q, k, v, causal=False):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]


def depthwise_nhwc(torch, image, filters):
    return depthwise(torch, image.permute(0, 3, 1, 2), filters.permute(2, 0, 1)).permute(0, 2, 3, 1)


def recurrence(name, prepare=lambda *inputs: inputs):
    """A function of bench/recurrences.py, which imports PyTorch."""

    def peer(_, *inputs):
        import recurrences

        return getattr(recurrences, name)(*prepare(*inputs))

    return peer


image, small_image = (32, 64, 56, 56), (2, 5, 9, 11)
nhwc, small_nhwc = (32, 56, 56, 64), (2, 9, 11, 5)
ROWS = [
    Row(
        "add 2^26",
        "function (A[N], B[N]) -> (C) { C[i: N] = =(A[i] + B[i]); }",
        [(1 << 26,), (1 << 26,)],
        [(1003,), (1003,)],
        lambda torch, a, b: a + b,
    ),
    Row(
        "transpose 8192x8192",
        "function (A[M, N]) -> (B) { B[j, i: N, M] = =(A[i, j]); }",
        [(8192, 8192)],
        [(37, 70)],
        lambda torch, a: a.t().contiguous(),
    ),
    Row(
        "NHWC to NCHW",
        "function (A[N, H, W, C]) -> (B) { B[n, c, y, x: N, C, H, W] = =(A[n, y, x, c]); }",
        [(32, 112, 112, 64)],
        [(2, 9, 7, 5)],
        lambda torch, a: a.permute(0, 3, 1, 2).contiguous(),
    ),
    Row(
        "column sums 100000x1024",
        "function (A[M, N]) -> (S) { S[j: N] = +(A[i, j]); }",
        [(100000, 1024)],
        [(3000, 33)],
        lambda torch, a: a.sum(0),
    ),
    Row(
        "row sums 100000x1024",
        "function (A[M, N]) -> (S) { S[i: M] = +(A[i, j]); }",
        [(100000, 1024)],
        [(70, 300)],
        lambda torch, a: a.sum(1),
    ),
    Row("softmax 4096x4096", SOFTMAX, [(4096, 4096)], [(20, 300)], lambda torch, x: x.softmax(1)),
    Row("softmax 512x50000", SOFTMAX, [(512, 50000)], [(3, 9000)], lambda torch, x: x.softmax(1)),
    Row("softmax gradient 4096x4096", SOFTMAX, [(4096, 4096)], [(20, 300)], lambda torch, x: x.softmax(1), ["X"]),
    Row("layer norm 8192x1024", LAYER_NORM, [(8192, 1024), (1024,), (1024,)], [(40, 300), (300,), (300,)], layer_norm),
    Row(
        "layer norm gradient 8192x1024",
        LAYER_NORM,
        [(8192, 1024), (1024,), (1024,)],
        [(1200, 70), (70,), (70,)],
        layer_norm,
        ["X", "Gamma", "Beta"],
    ),
    *[
        Row(
            f"matmul {m}x{n}x{k}",
            MATMUL,
            [(m, k), (k, n)],
            [(m % 61 + 30, k % 53 + 30), (k % 53 + 30, n % 67 + 30)],
            lambda torch, a, b: a @ b,
            flop=matmul_flop,
            bound="arithmetic",
            goal=0.95,
        )
        for m, n, k in ((4096, 4096, 4096), (1000, 900, 1100), (512, 512, 512), (64, 64, 65536))
    ],
    Row(
        "matmul 16384x4x4096",
        MATMUL,
        [(16384, 4096), (4096, 4)],
        [(200, 1500), (1500, 4)],
        lambda torch, a, b: a @ b,
        flop=matmul_flop,
    ),
    Row(
        "matmul bf16 4096x4096x4096",
        MATMUL_BF16,
        [(4096, 4096), (4096, 4096)],
        [(80, 90), (90, 70)],
        lambda torch, a, b: (a @ b).float(),
        dtype="bfloat16",
        flop=matmul_flop,
        bound="arithmetic",
        goal=0.95,
    ),
    Row(
        "matmul tf32 4096x4096x4096",
        MATMUL,
        [(4096, 4096), (4096, 4096)],
        [(80, 90), (90, 70)],
        lambda torch, a, b: a @ b,
        flop=matmul_flop,
        bound="arithmetic",
        goal=0.95,
        math="tf32",
    ),
    *[
        Row(
            f"convolution {title}, NCHW",
            CONVOLUTION,
            [image, (64, 64, 3, 3)],
            [small_image, (7, 5, 3, 3)],
            conv,
            wrt,
            flop=convolution_flop,
            bound="arithmetic",
            goal=1.0,
        )
        for title, wrt in (("forward", []), ("image gradient", ["I"]), ("filter gradient", ["K"]))
    ],
    *[
        Row(
            f"convolution {title}, NHWC",
            CONVOLUTION_NHWC,
            [nhwc, (3, 3, 64, 64)],
            [small_nhwc, (3, 3, 5, 7)],
            conv_nhwc,
            wrt,
            bound="arithmetic",
            goal=1.0,
            flop=lambda shapes: convolution_flop([(32, 64, 56, 56), (64, 64, 3, 3)]),
        )
        for title, wrt in (("forward", []), ("image gradient", ["I"]), ("filter gradient", ["K"]))
    ],
    *[
        Row(
            f"convolution bf16 {n}x{h}x{h}x{c} {title}, NHWC",
            CONVOLUTION_BF16,
            [(n, h, h, c), (3, 3, c, c)],
            [(2, 9, 11, 16), (3, 3, 16, 16)],
            conv_nhwc,
            wrt,
            dtype="bfloat16",
            bound="arithmetic",
            goal=1.0,
            flop=lambda shapes, n=n, h=h, c=c: convolution_flop([(n, c, h, h), (c, c, 3, 3)]),
        )
        for n, h, c in ((32, 56, 64), (32, 28, 256))
        for title, wrt in (("forward", []), ("image gradient", ["I"]), ("filter gradient", ["K"]))
    ],
    *[
        Row(
            f"depthwise convolution {title}, NHWC",
            DEPTHWISE_NHWC,
            [(32, 56, 56, 128), (3, 3, 128)],
            [(2, 9, 11, 6), (3, 3, 6)],
            depthwise_nhwc,
            wrt,
            goal=1.0,
        )
        for title, wrt in (("forward", []), ("image gradient", ["I"]), ("filter gradient", ["K"]))
    ],
    *[
        Row(
            f"depthwise convolution {title}",
            DEPTHWISE,
            [(32, 128, 56, 56), (128, 3, 3)],
            [(2, 6, 9, 11), (6, 3, 3)],
            depthwise,
            wrt,
            goal=1.0,
        )
        for title, wrt in (("forward", []), ("image gradient", ["I"]), ("filter gradient", ["K"]))
    ],
    *[
        Row(
            f"attention 16x1024x64 {title}",
            ATTENTION,
            [(16, 1024, 64)] * 3,
            [(2, 40, 8)] * 3,
            attention,
            wrt,
            bound="arithmetic",
            flop=lambda shapes: 4.0 * 16 * 1024 * 1024 * 64,
        )
        for title, wrt in (("forward", []), ("gradient", ["Q", "K", "V"]))
    ],
    *[
        Row(
            f"attention causal 16x4096x64 {title}",
            CAUSAL,
            [(16, 4096, 64)] * 3,
            [(2, 40, 8)] * 3,
            lambda *inputs: attention(*inputs, causal=True),
            wrt,
            bound="arithmetic",
            flop=lambda shapes: 2.0 * 16 * 4096 * 4096 * 64,
        )
        for title, wrt in (("forward", []), ("gradient", ["Q", "K", "V"]))
    ],
    *[
        Row(
            f"attention bf16{f' math={math}' if math else ''} 8x4096x64 {title}",
            ATTENTION_BF16,
            [(8, 4096, 64)] * 3,
            [(2, 40, 16)] * 3,
            attention,
            wrt,
            dtype="bfloat16",
            bound="arithmetic",
            math=math,
            flop=lambda shapes: 4.0 * 8 * 4096 * 4096 * 64,
        )
        for math in ("", "bf16")
        for title, wrt in (("forward", []), ("gradient", ["Q", "K", "V"]))
    ],
    Row(
        "A[k, a, b] B[j, k] to C[j, b, a]",
        "function (A[K, I, J], B[M, K]) -> (C) { C[m, j, i: M, J, I] = +(A[k, i, j] * B[m, k]); }",
        [(512, 128, 200), (300, 512)],
        [(40, 12, 9), (31, 40)],
        einsum("kij,mk->mji"),
        bound="arithmetic",
        goal=1.5,
        flop=lambda shapes: 2.0 * 512 * 128 * 200 * 300,
    ),
    Row(
        "A[n, j, m, i] B[k, m, n, l] to C[l, k, j, i]",
        "function (A[N, J, M, I], B[K, M, N, L]) -> (C) { C[l, k, j, i: L, K, J, I] = +(A[n, j, m, i] * B[k, m, n, l]); }",
        [(24, 72, 32, 72), (72, 32, 24, 72)],
        [(3, 6, 5, 7), (6, 5, 3, 4)],
        einsum("njmi,kmnl->lkji"),
        bound="arithmetic",
        goal=1.5,
        flop=lambda shapes: 2.0 * 72**4 * 24 * 32,
    ),
    Row(
        "batched A[b, i, k] B[k, b, j]",
        "function (A[B, M, K], C[K, B, N]) -> (O) { O[i, b, j: M, B, N] = +(A[b, i, k] * C[k, b, j]); }",
        [(64, 300, 256), (256, 64, 200)],
        [(3, 20, 33), (33, 3, 17)],
        einsum("bik,kbj->ibj"),
        bound="arithmetic",
        goal=1.5,
        flop=lambda shapes: 2.0 * 64 * 300 * 200 * 256,
    ),
    *[
        Row(f"{title} {which}", text, shapes, small, peer, wrt)
        for title, text, shapes, small, peer, every in (
            (
                "linear attention 64x2048x64",
                LINEAR_ATTENTION,
                [(64, 2048, 64)] * 3,
                [(2, 128, 5), (2, 128, 5), (2, 128, 7)],
                recurrence("linear_attention"),
                ["Q", "K", "V"],
            ),
            (
                "retention 64x2048x64",
                RETENTION,
                [*[(64, 2048, 64)] * 3, (64,)],
                [(2, 128, 5), (2, 128, 5), (2, 128, 7), (2,)],
                recurrence("retention", lambda q, k, v, w: (q, k, v, 0.1 * w * w)),
                ["Q", "K", "V"],
            ),
            (
                "Mamba 2 4x2048x16x64 states 128",
                MAMBA2,
                [(4, 2048, 16, 64), (4, 2048, 16), (16,), *[(4, 2048, 128)] * 2],
                [(2, 128, 3, 4), (2, 128, 3), (3,), *[(2, 128, 5)] * 2],
                recurrence("state_space_duality", lambda x, step, a, k, q: (x, 0.1 * step * step + 0.01, -a * a, k, q)),
                ["X", "Step", "A", "K", "Q"],
            ),
            (
                "gated linear attention 4x8x2048x64",
                GATED_LINEAR_ATTENTION,
                [(4, 8, 2048, 64)] * 4,
                [(2, 2, 128, 5)] * 4,
                recurrence("gated_linear_attention", lambda q, k, v, g: (q, k, v, -0.1 * g * g)),
                ["Q", "K", "V", "G"],
            ),
            (
                "HGRN 8x2048x1024",
                HGRN,
                [(8, 2048, 1024)] * 2,
                [(2, 100, 5)] * 2,
                recurrence("hgrn"),
                ["X", "F"],
            ),
        )
        for which, wrt in (("forward", []), ("gradient", every))
    ],
]


def windowed(case, torch, image, filters):
    """A contraction of bench/contractions.py."""
    if case.window:
        d, zeros = case.around()
        held = torch.nn.functional.pad(image, [side for pair in reversed(zeros) for side in pair])
        image = held.as_strided(*case.view(d, held.shape, held.stride()))
    return torch.einsum(case.equation(case.c, case.indices_a(), case.b), image, filters)


def random_rows(seed: int, count: int, small: bool = False) -> list[Row]:
    """Contractions that nobody thought of, and their gradients: of 20 to 200 us by the roof, small ones a thousandth of it."""
    import contractions

    rng = random.Random(seed)
    shortest, longest = (20e-9, 200e-9) if small else (20e-6, 200e-6)
    cases = [contractions.draw(rng, FLOPS["float32"], BANDWIDTH, shortest, longest) for _ in range(count)]
    return [
        Row(
            f"{seed}.{number} {which}{' window' if case.window else ''}",
            case.text,
            shapes := [tuple(case.shape_a()), tuple(case.shape(case.b))],
            shapes,
            functools.partial(windowed, case),
            [] if which == "C" else [which[1]],
            bound="roof",
            goal=1.5,
            flop=lambda shapes, case=case: case.flop(),
        )
        for number, case in enumerate(cases)
        for which in ("C", "dA", "dB")
    ]
