"""What memory bounds: elementwise chains, reductions, normalisations, transposes, scans, stencils, attention; against
NumPy and PyTorch."""
import numpy as np
import torch
from torch.nn import functional as F

import tilec
from harness import Race, group, rand

rows = group("elementwise")
SOFTMAX = "function (X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); E[i, j: M, N] = =(exp(X[i, j] - Mx[i])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"


def row(title, text, shapes, *, goal=None, tolerance=1e-4, NumPy=None, torch_=None):
    """Peers take the arrays, PyTorch's as tensors of the same memory."""
    @rows.add(title, goal=goal)
    def _():
        program, arrays = tilec.compile(text), [rand(*s) for s in shapes]
        tensors = [torch.from_numpy(a) for a in arrays]
        peers = {}
        if NumPy:
            peers["NumPy"] = lambda: NumPy(*arrays)
        if torch_:
            peers["torch"] = lambda: torch_(*tensors)
        return Race(lambda: program(*arrays), tolerance=tolerance, **peers)


MILLIONS = [(10_000_000,)]
row("softmax 4000x1000", SOFTMAX, [(4000, 1000)], goal=1.0, torch_=lambda x: torch.softmax(x, 1))
row("softmax 64x50000", SOFTMAX, [(64, 50000)], torch_=lambda x: torch.softmax(x, 1))
row(
    "log-sum-exp 4000x1000",
    "function (X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); S[i: M] = +(exp(X[i, j] - Mx[i])); Y = log(S) + Mx; }",
    [(4000, 1000)],
    torch_=lambda x: torch.logsumexp(x, 1),
)
row(
    "layer norm 4000x1000",
    """function (X[M, N], G[N], B[N]) -> (Y) {
  S[i: M] = +(X[i, j]); Mean[i: M] = =(S[i] / N); Q[i: M] = +((X[i, j] - Mean[i]) * (X[i, j] - Mean[i])); R[i: M] = =(1.0 / sqrt(Q[i] / N + 0.00001));
  Y[i, j: M, N] = =((X[i, j] - Mean[i]) * R[i] * G[j] + B[j]); }""",
    [(4000, 1000), (1000,), (1000,)],
    torch_=lambda x, g, b: F.layer_norm(x, (1000,), g, b),
)
row(
    "batch norm statistics NHWC 8x56x56x64",
    """function (X[N, H, W, C]) -> (Mean, Var) {
  S[c: C] = +(X[n, y, x, c]); Mean[c: C] = =(S[c] / (N * H * W)); Q[c: C] = +((X[n, y, x, c] - Mean[c]) * (X[n, y, x, c] - Mean[c])); Var[c: C] = =(Q[c] / (N * H * W)); }""",
    [(8, 56, 56, 64)],
    NumPy=lambda x: (x.mean((0, 1, 2)), x.var((0, 1, 2))),
    torch_=lambda x: torch.var_mean(x, (0, 1, 2), correction=0)[::-1],
    tolerance=1e-3,
)

row(
    "sum of 10 million",
    "function (X[N]) -> (S) { S[] = +(X[i]); }",
    MILLIONS,
    NumPy=lambda x: x.sum(),
    torch_=lambda x: x.sum(),
    tolerance=1e-2,
)
row(
    "sum over rows 4000x1000 -> 1000",
    "function (X[M, N]) -> (S) { S[j: N] = +(X[i, j]); }",
    [(4000, 1000)],
    NumPy=lambda x: x.sum(0),
    torch_=lambda x: x.sum(0),
)
row(
    "sum over columns 4000x1000 -> 4000",
    "function (X[M, N]) -> (S) { S[i: M] = +(X[i, j]); }",
    [(4000, 1000)],
    NumPy=lambda x: x.sum(1),
    torch_=lambda x: x.sum(1),
)
row(
    "sum over the middle 100x400x100",
    "function (X[A, B, C]) -> (S) { S[a, c: A, C] = +(X[a, b, c]); }",
    [(100, 400, 100)],
    NumPy=lambda x: x.sum(1),
    torch_=lambda x: x.sum(1),
)
row(
    "maximum over columns 4000x1000",
    "function (X[M, N]) -> (S) { S[i: M] = >(X[i, j]); }",
    [(4000, 1000)],
    NumPy=lambda x: x.max(1),
    torch_=lambda x: x.amax(1),
)
row(
    "dot product of 10 million",
    "function (X[N], Y[N]) -> (S) { S[] = +(X[i] * Y[i]); }",
    MILLIONS * 2,
    NumPy=lambda x, y: x @ y,
    torch_=lambda x, y: x @ y,
    tolerance=1e-2,
)

row(
    "a + b, 10 million",
    "function (A[N], B[N]) -> (C) { C = A + B; }",
    MILLIONS * 2,
    NumPy=lambda a, b: a + b,
    torch_=lambda a, b: a + b,
)
row(
    "a * x + y, 4 thousand",
    "function (A[N], X[N], Y[N]) -> (Z) { Z = A * X + Y; }",
    [(4000,)] * 3,
    NumPy=lambda a, x, y: a * x + y,
    torch_=lambda a, x, y: torch.addcmul(y, a, x),
)
row(
    "exp, 10 million",
    "function (X[N]) -> (Y) { Y = exp(X); }",
    MILLIONS,
    NumPy=lambda x: np.exp(x),
    torch_=lambda x: torch.exp(x),
)
row(
    "sigmoid(x) * tanh(x), 10 million",
    "function (X[N]) -> (Y) { Y = sigmoid(X) * tanh(X); }",
    MILLIONS,
    torch_=lambda x: torch.sigmoid(x) * torch.tanh(x),
)
row("exp(-x*x) / (1 + x*x), 1 million", "function (X[N]) -> (Y) { Y = exp(-X * X) / (1 + X * X); }", [(1_000_000,)],
    NumPy=lambda x: np.exp(-x * x) / (1 + x * x), torch_=lambda x: torch.exp(-x * x) / (1 + x * x))
row(
    "bias and relu 4000x1000",
    "function (X[M, N], B[N]) -> (Y) { S = X + B; Y = S < 0 ? 0 : S; }",
    [(4000, 1000), (1000,)],
    torch_=lambda x, b: torch.relu(x + b),
)

row(
    "transpose 3000x2000",
    "function (X[M, N]) -> (Y) { Y[j, i: N, M] = =(X[i, j]); }",
    [(3000, 2000)],
    NumPy=lambda x: np.ascontiguousarray(x.T),
    torch_=lambda x: x.T.contiguous(),
)
row(
    "NHWC to NCHW 8x56x56x64",
    "function (X[N, H, W, C]) -> (Y) { Y[n, c, y, x: N, C, H, W] = =(X[n, y, x, c]); }",
    [(8, 56, 56, 64)],
    NumPy=lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
    torch_=lambda x: x.permute(0, 3, 1, 2).contiguous(),
)

for n, title in (1_000_000, "1 million"), (10_000_000, "10 million"):
    row(
        f"cumulative sum of {title}",
        "function (X[N]) -> (Y) { Y[j: N] = +(X[k]), k <= j; }",
        [(n,)],
        NumPy=lambda x: x.cumsum(),
        torch_=lambda x: x.cumsum(0),
        tolerance=1e-2,
    )
row(
    "cumulative sum down columns 4000x1000",
    "function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[k, j]), k <= i; }",
    [(4000, 1000)],
    NumPy=lambda x: x.cumsum(0),
    torch_=lambda x: x.cumsum(0),
)
row(
    "cumulative sum 1000x1000",
    "function (X[M, N]) -> (Y) { Y[i, j: M, N] = +(X[i, k]), k <= j; }",
    [(1000, 1000)],
    NumPy=lambda x: x.cumsum(1),
    torch_=lambda x: x.cumsum(1),
)
row(
    "box filter 5x5 1024x1024",
    "function (I[H, W]) -> (O) { O[y, x: H, W] = +(I[y + j - 2, x + i - 2]), j < 5, i < 5; }",
    [(1024, 1024)],
    torch_=lambda x: F.avg_pool2d(x[None], 5, 1, 2, divisor_override=1)[0],
)
row(
    "L1 distance 512x512x64",
    "function (A[M, D], B[N, D]) -> (R) { R[i, j: M, N] = +(abs(A[i, d] - B[j, d])); }",
    [(512, 64), (512, 64)],
    torch_=lambda a, b: torch.cdist(a, b, p=1),
)
row(
    "max-plus product 256x256x256",
    "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = >(A[i, k] + B[k, j]); }",
    [(256, 256)] * 2,
    NumPy=lambda a, b: (a[:, :, None] + b).max(1),
    torch_=lambda a, b: (a[:, :, None] + b).amax(1),
)
row(
    "attention one head 512x64",
    """function (Q[T, D], K[S, D], V[S, E]) -> (O) {
  Score[t, s: T, S] = +(Q[t, d] * K[s, d]); Scaled = Score / sqrt(f32(D)); Mx[t: T] = >(Scaled[t, s]); P[t, s: T, S] = =(exp(Scaled[t, s] - Mx[t]));
  Z[t: T] = +(P[t, s]); U[t, e: T, E] = +(P[t, s] * V[s, e]); O[t, e: T, E] = =(U[t, e] / Z[t]); }""",
    [(512, 64)] * 3,
    torch_=lambda q, k, v: F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])[0, 0],
)
