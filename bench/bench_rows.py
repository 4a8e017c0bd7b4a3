"""Chains of reductions and elementwise statements over rows, columns and axes in between, and their gradients; against
PyTorch (eager and compiled: BENCH_COMPILE=1), JAX where it is installed, and NumPy. What must move is each input once
and each output once."""
import os

import numpy as np
import torch
from torch.nn import functional as F

import tilec
from harness import Race, group, rand

rows = group("rows")
try:
    import jax
    jax.config.update("jax_enable_x64", True)
    from jax import nn, numpy as jnp
except ImportError:
    jax = None


def row(
    title, text, shapes, *, goal=None, tolerance=1e-4, wrt=None, dtype=np.float32, torch_=None, jax_=None, numpy_=None
):
    """Peers take the arrays, as tensors of their own. With `wrt` the gradient by these is measured: the last shape is
    the output's, whose derivative is the last argument of all; a peer `torch_` is the whole gradient then, `jax_` the
    function that is differentiated."""
    @rows.add(title, goal=goal)
    def _():
        program = tilec.compile(text)
        if wrt:
            program = program.grad(wrt)
        arrays = [rand(*s).astype(dtype) for s in shapes]
        tensors = [torch.from_numpy(a) for a in arrays]
        peers = {}
        if torch_:
            peers["torch"] = lambda: torch_(*tensors)
            if can_compile():
                fast = torch.compile(torch_)
                peers["torch.compile"] = lambda: fast(*tensors)
        if jax and jax_:
            given = [jax.device_put(a) for a in arrays]
            function = jax_ if not wrt else lambda *a: jax.vjp(jax_, *a[:-1])[1](a[-1])
            jitted = jax.jit(function)
            peers["JAX"] = lambda: jax.block_until_ready(jitted(*given))
        if numpy_:
            peers["NumPy"] = lambda: numpy_(*arrays)
        return Race(lambda: program(*arrays), tolerance=tolerance, **peers)


def can_compile() -> bool:
    """Whether torch.compile is asked for and works: it wants a C++ compiler and headers of Python, and seconds for each
    row."""
    if not hasattr(can_compile, "known") and not os.environ.get("BENCH_COMPILE"):
        can_compile.known = False
    if not hasattr(can_compile, "known"):
        try:
            can_compile.known = torch.compile(lambda x: x + 1)(torch.ones(3)).sum().item() == 6
        except Exception:  # noqa: BLE001: whatever it lacks
            can_compile.known = False
    return can_compile.known


def softmax(rows_, axis, extents):
    """The text of softmax along one of these indices."""
    kept = ", ".join(i for i in rows_ if i != axis)
    all_, shape = ", ".join(rows_), ", ".join(i.upper() for i in rows_)
    sizes = ", ".join(i.upper() for i in rows_ if i != axis)
    return (
        f"function (X[{shape}]) -> (Y) {{ Mx[{kept}: {sizes}] = >(X[{all_}]); E[{all_}: {shape}] = =(exp(X[{all_}] - Mx[{kept}])); "
        f"S[{kept}: {sizes}] = +(E[{all_}]); Y[{all_}: {shape}] = =(E[{all_}] / S[{kept}]); }}"
    )


def torch_gradient(function):
    """All gradients of `function`, a new graph each call, as a training step has it."""
    def gradient(*tensors):
        *inputs, seed = [t.detach() for t in tensors]
        with torch.enable_grad():
            for t in inputs:
                t.requires_grad_(True)
            return torch.autograd.grad(function(*inputs), inputs, seed)
    return gradient


SOFTMAX, COLUMNS = softmax("ij", "j", 2), softmax("ij", "i", 2)
row(
    "softmax 3000x1500",
    SOFTMAX,
    [(3000, 1500)],
    goal=1.1,
    torch_=lambda x: torch.softmax(x, 1),
    jax_=jax and (lambda x: nn.softmax(x, 1)),
)
row(
    "gradient of softmax 3000x1500",
    SOFTMAX,
    [(3000, 1500)] * 2,
    goal=1.1,
    wrt=["X"],
    torch_=lambda x, d: torch._softmax_backward_data(d, torch.softmax(x, 1), 1, torch.float32),
    jax_=jax and (lambda x: nn.softmax(x, 1)),
)
row(
    "softmax down the columns 900x3500",
    COLUMNS,
    [(900, 3500)],
    goal=1.1,
    torch_=lambda x: torch.softmax(x, 0),
    jax_=jax and (lambda x: nn.softmax(x, 0)),
)
row(
    "gradient of softmax down the columns 900x3500",
    COLUMNS,
    [(900, 3500)] * 2,
    wrt=["X"],
    torch_=lambda x, d: torch._softmax_backward_data(d, torch.softmax(x, 0), 0, torch.float32),
    jax_=jax and (lambda x: nn.softmax(x, 0)),
)
row(
    "softmax along the middle 24x200x300",
    softmax("bij", "i", 3),
    [(24, 200, 300)],
    torch_=lambda x: torch.softmax(x, 1),
    jax_=jax and (lambda x: nn.softmax(x, 1)),
)
row(
    "softmax 3000x1500 f64",
    SOFTMAX,
    [(3000, 1500)],
    dtype=np.float64,
    torch_=lambda x: torch.softmax(x, 1),
    jax_=jax and (lambda x: nn.softmax(x, 1)),
)
row(
    "softmax 3000x1500 f16",
    SOFTMAX,
    [(3000, 1500)],
    dtype=np.float16,
    tolerance=1e-2,
    torch_=lambda x: torch.softmax(x, 1),
    jax_=jax and (lambda x: nn.softmax(x, 1)),
)
row(
    "log-softmax 3000x1500",
    "function (X[M, N]) -> (Y) { Mx[i: M] = >(X[i, j]); S[i: M] = +(exp(X[i, j] - Mx[i])); Y[i, j: M, N] = =(X[i, j] - Mx[i] - log(S[i])); }",
    [(3000, 1500)],
    torch_=lambda x: torch.log_softmax(x, 1),
    jax_=jax and (lambda x: nn.log_softmax(x, 1)),
)

LAYER = """function (X[M, N], G[N], B[N]) -> (Y) {
  S[i: M] = +(X[i, j]); Mean[i: M] = =(S[i] / N); Q[i: M] = +((X[i, j] - Mean[i]) * (X[i, j] - Mean[i])); R[i: M] = =(1.0 / sqrt(Q[i] / N + 0.00001));
  Y[i, j: M, N] = =((X[i, j] - Mean[i]) * R[i] * G[j] + B[j]); }"""
layer_norm = lambda x, g, b: F.layer_norm(x, (x.shape[1],), g, b)


def jax_layer(x, g, b):
    mean = x.mean(1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(1, keepdims=True) + 0.00001) * g + b


row("layer norm 3000x1000", LAYER, [(3000, 1000), (1000,), (1000,)], torch_=layer_norm, jax_=jax and jax_layer)
row(
    "gradient of layer norm 3000x1000",
    LAYER,
    [(3000, 1000), (1000,), (1000,), (3000, 1000)],
    goal=1.2,
    wrt=["X", "G", "B"],
    tolerance=1e-3,
    torch_=torch_gradient(layer_norm),
    jax_=jax and jax_layer,
)

RMS = "function (X[M, N], G[N]) -> (Y) { Q[i: M] = +(X[i, j] * X[i, j]); Y[i, j: M, N] = =(X[i, j] / sqrt(Q[i] / N + 0.00001) * G[j]); }"
rms = lambda x, g: F.rms_norm(x, (x.shape[1],), g, 0.00001)
jax_rms = lambda x, g: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 0.00001) * g
row("rms norm 3000x1500", RMS, [(3000, 1500), (1500,)], torch_=rms, jax_=jax and jax_rms)
row(
    "gradient of rms norm 3000x1500",
    RMS,
    [(3000, 1500), (1500,), (3000, 1500)],
    wrt=["X", "G"],
    tolerance=1e-3,
    torch_=torch_gradient(rms),
    jax_=jax and jax_rms,
)

BATCH = """function (X[N, C, H, W], G[C], B[C]) -> (Y) {
  S[c: C] = +(X[n, c, y, x]); Mean[c: C] = =(S[c] / (N * H * W)); Q[c: C] = +((X[n, c, y, x] - Mean[c]) * (X[n, c, y, x] - Mean[c])); R[c: C] = =(1.0 / sqrt(Q[c] / (N * H * W) + 0.00001));
  Y[n, c, y, x: N, C, H, W] = =((X[n, c, y, x] - Mean[c]) * R[c] * G[c] + B[c]); }"""
batch = lambda x, g, b: F.batch_norm(x, None, None, g, b, True)


def jax_batch(x, g, b):
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 0.00001) * g[
        :, None, None
    ] + b[:, None, None]


row("batch norm NCHW 12x64x50x50", BATCH, [(12, 64, 50, 50), (64,), (64,)], torch_=batch, jax_=jax and jax_batch)
row(
    "gradient of batch norm NCHW 12x64x50x50",
    BATCH,
    [(12, 64, 50, 50), (64,), (64,), (12, 64, 50, 50)],
    wrt=["X", "G", "B"],
    tolerance=1e-3,
    torch_=torch_gradient(batch),
    jax_=jax and jax_batch,
)
GROUPS = """function (X[N, A, C, P], G[A, C], B[A, C]) -> (Y) {
  S[n, a: N, A] = +(X[n, a, c, p]); Mean[n, a: N, A] = =(S[n, a] / (C * P)); Q[n, a: N, A] = +((X[n, a, c, p] - Mean[n, a]) * (X[n, a, c, p] - Mean[n, a]));
  R[n, a: N, A] = =(1.0 / sqrt(Q[n, a] / (C * P) + 0.00001)); Y[n, a, c, p: N, A, C, P] = =((X[n, a, c, p] - Mean[n, a]) * R[n, a] * G[a, c] + B[a, c]); }"""
group_norm = lambda x, g, b: F.group_norm(x.flatten(1, 2), x.shape[1], g.flatten(), b.flatten()).view(x.shape)
row("group norm 12x8x8x2500", GROUPS, [(12, 8, 8, 2500), (8, 8), (8, 8)], torch_=group_norm)
row(
    "gradient of group norm 12x8x8x2500",
    GROUPS,
    [(12, 8, 8, 2500), (8, 8), (8, 8), (12, 8, 8, 2500)],
    wrt=["X", "G", "B"],
    tolerance=1e-3,
    torch_=torch_gradient(group_norm),
)

row(
    "column statistics 3000x1500",
    "function (X[M, N]) -> (Mean, Var) { S[j: N] = +(X[i, j]); Mean[j: N] = =(S[j] / M); Q[j: N] = +((X[i, j] - Mean[j]) * (X[i, j] - Mean[j])); Var[j: N] = =(Q[j] / M); }",
    [(3000, 1500)],
    tolerance=1e-3,
    torch_=lambda x: torch.var_mean(x, 0, correction=0)[::-1],
    jax_=jax and (lambda x: (x.mean(0), x.var(0))),
    numpy_=lambda x: (x.mean(0), x.var(0)),
)
row(
    "row and column sums of 3000x1500",
    "function (X[M, N]) -> (R, C) { R[i: M] = +(X[i, j]); C[j: N] = +(X[i, j]); }",
    [(3000, 1500)],
    tolerance=1e-3,
    torch_=lambda x: (x.sum(1), x.sum(0)),
    jax_=jax and (lambda x: (x.sum(1), x.sum(0))),
    numpy_=lambda x: (x.sum(1), x.sum(0)),
)
row(
    "bias and relu, gradient 3000x1500",
    # zero at 0, as PyTorch's: `max` shares ties evenly, and some of so many sums are 0
    "function (X[M, N], B[N]) -> (Y) { S = X + B; Y = S > 0.0 ? S : 0.0; }",
    [(3000, 1500), (1500,), (3000, 1500)],
    wrt=["X", "B"],
    tolerance=1e-3,
    torch_=torch_gradient(lambda x, b: torch.relu(x + b)),
    jax_=jax and (lambda x, b: nn.relu(x + b)),
)
