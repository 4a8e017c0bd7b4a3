"""tilec.jax: programs under the transformations of JAX, next to jax.numpy. Skipped where JAX is not installed."""
import gc
import os
import pathlib
import subprocess
import sys
import threading

# of the process; read when JAX first computes
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import numpy as np
import pytest

import tilec
from test_cli import TILEC

jax = pytest.importorskip("jax", minversion="0.10")
import jax.numpy as jnp  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P  # noqa: E402

MATMUL = "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
CONV = "function conv(I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H/2, W/2, CO] = +(I[n, 2*y + j - 1, 2*x + i - 1, ci] * K[j, i, ci, co]); }"
SOFTMAX = "function s(X[M, N]) -> (Y) { E[i, j: M, N] = =(exp(X[i, j])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"


def op(text, **options):
    return tilec.jax.op(tilec.compile(text, **options))


def random(*shape, dtype=jnp.float32, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def close(got, expected, tolerance=2e-5):
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for g, e in zip(got, expected):
        assert g.shape == e.shape and g.dtype == e.dtype, (g.shape, g.dtype, e.shape, e.dtype)
        g, e = np.asarray(g, np.float64), np.asarray(e, np.float64)
        np.testing.assert_allclose(g, e, rtol=tolerance, atol=tolerance * max(1.0, np.abs(e).max(initial=0.0)))


A, B = random(4, 6), random(6, 3, seed=1)


def scalar(f):
    """A loss of one argument that is curved in what f gives."""
    return lambda a: jnp.sum(jnp.sin(f(a)))


TRANSFORMATIONS = {
    "value": lambda h: h,
    "jit": jax.jit,
    "grad": jax.grad,
    "jit of grad": lambda h: jax.jit(jax.grad(h)),
    "grad of jit": lambda h: jax.grad(jax.jit(h)),
    "jacfwd": jax.jacfwd,
    "jvp": lambda h: lambda x: jax.jvp(h, (x,), (jnp.cos(x),)),
    "linearize": lambda h: lambda x: jax.linearize(h, x)[1](jnp.cos(x)),
    "hessian": jax.hessian,
    "jit of hessian": lambda h: jax.jit(jax.hessian(h)),
    "reverse over reverse": lambda h: jax.jacrev(jax.grad(h)),
    "reverse over forward": lambda h: jax.jacrev(jax.jacfwd(h)),
    "forward over forward": lambda h: jax.jacfwd(jax.jacfwd(h)),
    "grad of grad": lambda h: jax.grad(lambda x: jnp.sum(jax.grad(h)(x) ** 2)),
    "third": lambda h: jax.grad(lambda x: jnp.sum(jax.jvp(jax.grad(h), (x,), (jnp.cos(x),))[1])),
    "checkpoint": lambda h: jax.grad(jax.checkpoint(h)),
    "grad of cond": lambda h: jax.grad(lambda x: jax.lax.cond(x[0, 0] > 0, h, lambda x: 2 * h(x), x)),
    "grad of scan": lambda h: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (c * 0.9 + 0.1 * h(c), h(c)), x, None, length=3)[0].sum()
    ),
    "grad of grad of scan": lambda h: jax.grad(
        lambda x: (
            jax.grad(lambda x: jax.lax.scan(lambda c, _: (c * 0.9 + 0.1 * h(c), h(c)), x, None, length=3)[0].sum())(x)
            ** 2
        ).sum()
    ),
    "vmap": lambda h: lambda x: jax.vmap(h)(jnp.stack([x, 2 * x])),
    "vmap of grad": lambda h: lambda x: jax.vmap(jax.grad(h))(jnp.stack([x, 2 * x])),
    "grad of vmap": lambda h: lambda x: jax.grad(lambda v: jax.vmap(h)(v).sum())(jnp.stack([x, 2 * x])),
    "vmap of hessian": lambda h: lambda x: jax.vmap(jax.hessian(h))(jnp.stack([x, 2 * x])),
    "hessian of vmap": lambda h: lambda x: jax.hessian(lambda v: jax.vmap(h)(v).sum())(jnp.stack([x, 2 * x])),
    "linear_transpose": lambda h: lambda x: jax.linear_transpose(lambda t: jax.jvp(h, (x,), (t,))[1], x)(
        jnp.float32(2)
    ),
}


@pytest.mark.parametrize("how", TRANSFORMATIONS)
def test_transformations(how):
    close(TRANSFORMATIONS[how](scalar(op(SOFTMAX)))(A), TRANSFORMATIONS[how](scalar(jax.nn.softmax))(A), 2e-4)


@pytest.mark.parametrize(
    "how",
    [
        "value",
        "grad",
        "jit of grad",
        "jvp",
        "linearize",
        "hessian",
        "reverse over forward",
        "grad of grad",
        "third",
        "grad of scan",
        "vmap of grad",
        "grad of vmap",
    ],
)
def test_transformations_of_what_is_linear(how):
    f = op(MATMUL)
    close(TRANSFORMATIONS[how](scalar(lambda a: f(a, B)))(A), TRANSFORMATIONS[how](scalar(lambda a: a @ B))(A), 2e-4)


def test_rows_of_any_place():
    f = op(MATMUL)
    V = jnp.stack([A, 2 * A, 3 * A])
    close(jax.vmap(f, (1, None), 2)(V.transpose(1, 0, 2), B), jnp.moveaxis(V @ B, 0, 2))
    close(jax.vmap(jax.vmap(f, (0, None)), (None, 0))(V, jnp.stack([B, -B])), jnp.stack([V @ B, -V @ B]))
    assert jax.vmap(f)(jnp.ones((0, 2, 3)), jnp.ones((0, 3, 4))).shape == (0, 2, 4)


# ---- Functions of std/

def conv(I, K, stride, pad):
    return jax.lax.conv_general_dilated(
        I, K, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def layer_norm(x, gamma, beta):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


def batch_norm(x, gamma, beta):
    mean, variance = x.mean(0), x.var(0)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gamma + beta, mean, variance


LABELS = jnp.asarray([1, 0, 3], jnp.int32)
STD = {
    "matmul": ("linear", {}, (A, B), jnp.matmul),
    "batch_matmul": ("linear", {}, (random(2, 3, 4), random(2, 4, 5)), jnp.matmul),
    "conv2d": ("conv", {"S": 2, "P": 1}, (random(2, 7, 6, 2), random(3, 3, 2, 3)), lambda I, K: conv(I, K, 2, 1)),
    "max_pool2d": ("pool", {}, (random(1, 4, 6, 2),), max_pool),
    "layer_norm": ("norm", {}, (random(3, 5), random(5, seed=1), random(5, seed=2)), layer_norm),
    "batch_norm_rows": ("norm", {}, (random(6, 3), random(3, seed=1), random(3, seed=2)), batch_norm),
    "softmax": ("softmax", {}, (random(3, 5),), jax.nn.softmax),
    "log_softmax": ("softmax", {}, (random(3, 5),), jax.nn.log_softmax),
    "masked_softmax": (
        "softmax",
        {},
        (random(3, 5), random(3, 5, seed=3) > -1),
        lambda x, m: jax.nn.softmax(jnp.where(m, x, -jnp.inf)),
    ),
    "mean_cross_entropy": (
        "loss",
        {},
        (random(3, 5), LABELS),
        lambda x, l: -jnp.take_along_axis(jax.nn.log_softmax(x), l[:, None], 1).mean(),
    ),
    "gelu": ("activation", {}, (random(3, 5),), lambda x: jax.nn.gelu(x, approximate=False)),
    "swiglu": ("activation", {}, (random(3, 5), random(3, 5, seed=1)), lambda x, gate: x * jax.nn.silu(gate)),
    "attention": (
        "attention",
        {},
        (random(1, 2, 4, 3), random(1, 2, 5, 3, seed=1), random(1, 2, 5, 2, seed=2)),
        lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(2, 3) / np.sqrt(3.0, dtype="f4")) @ v,
    ),
    "cumsum": ("scan", {}, (random(9),), jnp.cumsum),
    "pairwise_l2_squared": (
        "distance",
        {},
        (random(3, 4), random(5, 4, seed=1)),
        lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
    ),
    "embedding": ("embedding", {}, (jnp.asarray([0, 3, 3, 1], jnp.int32), random(4, 3)), lambda i, w: w[i]),
}


@pytest.mark.parametrize("name", STD)
def test_functions_of_std(name):
    from std_errors import program
    family, define, inputs, reference = STD[name]
    f = tilec.jax.op(program(family, name, tuple(define.items())))
    close(f(*inputs), reference(*inputs), 1e-4)
    by = tuple(k for k, v in enumerate(inputs) if v.dtype.kind == "f")
    loss = lambda g: lambda *v: sum(jnp.sum(jnp.sin(y) * (k + 1)) for k, y in enumerate(jax.tree.leaves(g(*v))))
    expected = jax.grad(loss(reference), by)(*inputs)
    close(jax.jit(jax.grad(loss(f), by))(*inputs), expected, 5e-4)
    moved = lambda g: jax.jvp(
        lambda *v: g(*[v[by.index(k)] if k in by else x for k, x in enumerate(inputs)]),
        [inputs[k] for k in by],
        [jnp.cos(inputs[k]) for k in by],
    )
    close(moved(f), moved(reference), 5e-4)
    rows = [jnp.stack([v, v[::-1]]) for v in inputs]
    close(jax.vmap(jax.grad(loss(f), by))(*rows), jax.vmap(jax.grad(loss(reference), by))(*rows), 5e-4)


def test_convolution_to_second_order():
    from std_errors import program
    f = tilec.jax.op(program("conv", "conv2d", (("S", 2), ("P", 1))))
    I, K = random(1, 5, 4, 2), random(3, 3, 2, 2, seed=1)
    loss = lambda g: lambda k: jnp.sum(jnp.sin(g(I, k)))
    mine, theirs = loss(f), loss(lambda I, K: conv(I, K, 2, 1))
    close(jax.jit(jax.hessian(mine))(K), jax.hessian(theirs)(K), 5e-4)
    close(jax.jit(jax.vmap(jax.grad(mine)))(jnp.stack([K, -K])), jax.vmap(jax.grad(theirs))(jnp.stack([K, -K])), 5e-4)


# ---- What goes in and comes out

@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
def test_types_of_floats(dtype):
    f = op(MATMUL)
    a, b = A.astype(dtype), B.astype(dtype)
    close(jax.jit(f)(a, b), a @ b, 2e-2)
    grads = jax.grad(lambda a, b: f(a, b).astype(jnp.float32).sum(), (0, 1))(a, b)
    assert all(g.dtype == dtype for g in grads)
    close(grads, jax.grad(lambda a, b: (a @ b).astype(jnp.float32).sum(), (0, 1))(a, b), 2e-2)


def test_64_bits():
    with jax.enable_x64(True):
        f = op(MATMUL)
        a, b = random(4, 6, dtype=jnp.float64), random(6, 3, dtype=jnp.float64)
        close(
            jax.jit(jax.hessian(lambda a: jnp.sin(f(a, b)).sum()))(a),
            jax.hessian(lambda a: jnp.sin(a @ b).sum())(a),
            1e-12,
        )
        i = op("function f(i64 A[N], u64 B[N]) -> (C, D) { C[i: N] = =(A[i] * 3); D[i: N] = =(B[i] + 1); }")
        C, D = jax.jit(i)(jnp.asarray([2**40, -1], jnp.int64), jnp.asarray([2**63, 5], jnp.uint64))
        assert C.tolist() == [3 * 2**40, -3] and D.tolist() == [2**63 + 1, 6]
    with pytest.raises(TypeError, match="B of f is float64, which JAX has only with .*jax_enable_x64"):
        op("function f(A[N]) -> (f64 B) { B[i: N] = =(f64(A[i])); }")(jnp.ones(2))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"])
def test_types_of_integers(dtype):
    f = op("function f(A[N], B[N]) -> (C, D) { C[i: N] = =(A[N-1-i]); D[i: N] = =(select(A[i] == B[i], 1.5, 0.5)); }")
    a, b = jnp.asarray([1, 0, 1], dtype), jnp.asarray([1, 1, 0], dtype)
    C, D = jax.jit(f)(a, b)
    assert C.dtype == dtype and C.tolist() == a[::-1].tolist() and D.tolist() == [1.5, 0.5, 0.5]
    jax.jvp(lambda a: f(a, b), (a,), (np.zeros(3, jax.dtypes.float0),))


def test_several_outputs_and_integer_inputs():
    f = op(
        "function f(A[N], i32 I[M]) -> (B, C) { G = gather(A, I); B[m: M] = =(G[m] * G[m]); C[m: M] = =(I[m] + 1); }"
    )
    a, i = random(5), jnp.asarray([3, 1, 3], jnp.int32)
    B, C = f(a, i)
    close(B, a[i] ** 2)
    assert C.tolist() == [4, 2, 4] and C.dtype == jnp.int32
    close(jax.grad(lambda a: f(a, i)[0].sum())(a), jax.grad(lambda a: (a[i] ** 2).sum())(a))
    assert not jax.grad(lambda a: f(a, i)[1].sum().astype(float) + a.sum() * 0)(a).any()
    twice = op("function f(A[N]) -> (C, C) { C[i: N] = =(A[i] * A[i]); }")
    close(jax.hessian(lambda a: (twice(a)[0] + 3 * twice(a)[1]).sum())(a), 8 * jnp.eye(5))


def test_some_outputs_without_cotangents():
    f = op("function f(A[N], B[N]) -> (P, Q) { P[i: N] = =(A[i] * B[i]); Q[i: N] = =(exp(A[i])); }")
    a, b = random(3), random(3, seed=1)
    close(jax.grad(lambda a, b: f(a, b)[1].sum(), (0, 1))(a, b), (jnp.exp(a), jnp.zeros(3)))
    close(jax.jit(jax.grad(lambda b: f(a, b)[0].sum()))(b), a)


def test_numbers():
    f = op("function f(A[N], s) -> (B) { B[i: N] = =(A[i] * s); }")
    a = jnp.ones(3, jnp.bfloat16)
    for s in (2, 2.5, True, np.float32(3)):
        assert f(a, s).tolist() == [float(s)] * 3
    assert f(a, 2.5).dtype == jnp.bfloat16 and f(a, jnp.float32(2.5)).dtype == jnp.float32
    # JAX holds them weakly typed, and so do we
    weak = jnp.asarray(2.5)
    assert weak.weak_type and f.program(a, weak).dtype == f(a, weak).dtype == a.dtype
    assert f.program(a, jnp.float32(2.5)).dtype == jnp.float32
    assert jax.jit(f)(a, 2.5).dtype == jnp.bfloat16 and jax.jit(f)(a, 2).tolist() == [2, 2, 2]
    assert jax.grad(lambda s: f(jnp.ones(3), s).sum())(2.0) == 3
    traced = []
    count = jax.jit(lambda a: traced.append(0) or f(a, 2.5))
    assert count(a).tolist() == [2.5] * 3 and count(a).tolist() == [2.5] * 3 and len(traced) == 1
    before = len(f.program._jax)
    for k in range(20):
        f(a, k / 7)
    assert len(f.program._jax) == before                   # a number that is data is no part of what is compiled
    with pytest.raises(tilec.ProgramError, match="does not fit in `i32`"):
        f(jnp.ones(3, jnp.int32), 2**40)
    with pytest.raises(ValueError, match="s: 1180591620717411303424 does not fit"):
        f(jnp.ones(3), 2**70)


def test_sizes():
    f = op("function f(A[N], K) -> (B) { B[i: K] = +(A[j]), 0 <= j - i < 2; }")
    a = jnp.arange(5.0)
    expected = lambda k: jnp.asarray([a[i] + a[i + 1] for i in range(k)])
    for k in (3, 2, 4, 3):
        close(f(a, k), expected(k))
    close(f(A=a, K=2), expected(2))
    close(jax.jit(f, static_argnums=1)(a, 3), expected(3))
    close(jax.jit(jax.grad(lambda a: f(a, 3).sum()))(a), jnp.asarray([1.0, 2, 2, 1, 0]))
    for call in (
        lambda: jax.jit(f)(a, 3),
        lambda: f(a, jnp.int32(3)),
        lambda: jax.vmap(f, (None, 0))(a, jnp.asarray([1, 2])),
    ):
        with pytest.raises(TypeError, match="K.* of f: a size is part of what is compiled.* static_argnums"):
            call()
    none = op("function f(N) -> (B) { B[i: N] = =(i * 2.0); }")
    assert none(4).tolist() == [0, 2, 4, 6] and jax.jit(lambda: none(2))().tolist() == [0, 2]


def test_nothing_at_all():
    f = op(MATMUL)
    assert f(jnp.ones((0, 3)), jnp.ones((3, 2))).shape == (0, 2)
    assert not f(jnp.ones((2, 0)), jnp.ones((0, 3))).any()
    assert jax.jit(jax.grad(lambda a: f(a, jnp.ones((0, 2))).sum()))(jnp.ones((2, 0))).shape == (2, 0)
    total = op("function f(A, B) -> (C) { C = A * B; }")
    assert total(jnp.float32(3), jnp.float32(4)) == 12 and jax.grad(total)(jnp.float32(3), jnp.float32(4)) == 4


def test_shapes_alone():
    f = op(MATMUL)
    out = jax.eval_shape(
        f, jax.ShapeDtypeStruct((10**6, 4), jnp.float16), jax.ShapeDtypeStruct((4, 10**6), jnp.float16)
    )
    assert out.shape == (10**6, 10**6) and out.dtype == jnp.float16
    assert f([[1.0, 2]], np.ones((2, 1))).tolist() == [[3]]


def test_donated_memory():
    f = op("function f(A[N]) -> (B) { B[i: N] = =(A[i] * A[N-1-i] + A[0]); }")
    reference = lambda x: x * x[::-1] + x[0]
    x = jnp.linspace(1, 2, 1000)
    expected = np.asarray(reference(reference(x)))
    np.testing.assert_allclose(jax.jit(lambda x: f(f(x)), donate_argnums=0)(x), expected, rtol=1e-5)


def test_targets_and_programs_of_programs():
    for target in ("cpu", "reference"):
        f = op(SOFTMAX, target=target)
        close(jax.jit(jax.grad(scalar(f)))(A), jax.grad(scalar(jax.nn.softmax))(A))
    g = tilec.jax.op(tilec.compile(MATMUL).grad(wrt="A"))
    close(jax.grad(lambda d: g(A, B, d).sum())(A @ B), jnp.broadcast_to(B.sum(0), (4, 3)))
    both = tilec.jax.op(tilec.compile(SOFTMAX).value_and_grad())
    close(jax.jit(both)(A, jnp.ones_like(A))[0], jax.nn.softmax(A))
    with pytest.raises(tilec.ProgramError, match="not differentiated further"):
        jax.grad(lambda a: both(a, A)[0].sum())(A)


def test_what_is_kept_runs_once():
    """A chain of costly functions: backward reads what forward kept."""
    f = op(
        "function f(X[N, N]) -> (Y) { E[i, j: N, N] = +(X[i, k] * X[k, j]); G[i, j: N, N] = =(exp(sin(E[i, j]))); Y[i, j: N, N] = +(G[i, k] * X[k, j]); }"
    )
    x = random(40, 40) / 40
    jaxpr = str(jax.make_jaxpr(jax.grad(lambda x: f(x).sum()))(x))
    forward, backward = [line for line in jaxpr.splitlines() if "tilec[" in line]
    assert (
        "forward" in forward
        and len(forward.split("=")[0].split()) > 1
        and "backward" in backward
        and len(backward.split("]")[-1].split()) > 2
    )
    reference = lambda x: (jnp.exp(jnp.sin(x @ x)) @ x).sum()
    close(jax.jit(jax.grad(lambda x: f(x).sum()))(x), jax.grad(reference)(x), 1e-4)
    close(jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (x,)), jax.jvp(jax.grad(reference), (x,), (x,)), 1e-4)
    close(jax.linearize(lambda x: f(x).sum(), x)[1](x), jax.jvp(reference, (x,), (x,))[1], 1e-4)


# ---- More than one device, more than one thread

two_devices = pytest.mark.skipif("len(jax.devices()) < 2", reason="JAX was started with one device")


@two_devices
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_shards(kind):
    f, mesh = op(MATMUL), jax.make_mesh((2,), ("x",), axis_types=(kind,))
    a, b = jax.device_put(A, NamedSharding(mesh, P("x"))), jax.device_put(B, NamedSharding(mesh, P()))
    loss = lambda g: lambda a, b: jnp.sum(jnp.sin(g(a, b)))
    expected = jax.grad(loss(jnp.matmul), (0, 1))(A, B)
    with jax.set_mesh(mesh):
        rows = jax.shard_map(f, in_specs=(P("x"), P()), out_specs=P("x"))
        for each in (rows, jax.jit(rows), jax.jit(f)):
            close(each(a, b), A @ B)
        for each in (rows, f):
            close(jax.jit(jax.grad(loss(each), (0, 1)))(a, b), expected)
        # JAX sums what does not vary
        inside = jax.shard_map(jax.grad(loss(f), (0, 1)), in_specs=(P("x"), P()), out_specs=(P("x"), P()))
        close(inside(a, b), expected)
        columns = jax.device_put(A, NamedSharding(mesh, P(None, "x"))), jax.device_put(B, NamedSharding(mesh, P("x")))
        parts = jax.shard_map(lambda a, b: jax.lax.psum(f(a, b), "x"), in_specs=(P(None, "x"), P("x")), out_specs=P())
        close(parts(*columns), A @ B)
        close(jax.jit(jax.grad(loss(parts), (0, 1)))(*columns), expected)
        if kind is AxisType.Auto:
            close(jax.hessian(loss(parts))(*columns), jax.hessian(loss(jnp.matmul))(A, B))


def test_many_threads():
    f, faults = op(SOFTMAX), []
    step = jax.jit(jax.grad(scalar(f)))
    inputs = [random(3 + n, 5, seed=n) for n in range(4)]
    expected = [(jax.nn.softmax(x), jax.grad(scalar(jax.nn.softmax))(x)) for x in inputs]

    def work(k):
        try:
            for n in range(40):
                x, (y, dx) = inputs[(k + n) % 4], expected[(k + n) % 4]
                close(step(x), dx)
                close(f(x), y)
        except BaseException as fault:
            faults.append(fault)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def test_what_is_compiled_outlives_the_program():
    f = jax.jit(op(MATMUL))
    close(f(A, B), A @ B)
    compiled = f.lower(A, B).compile()
    del f
    gc.collect()
    jax.clear_caches()
    gc.collect()
    close(compiled(A, B), A @ B)


# ---- Faults

FAULTS = [
    ((A, A), ValueError, r"`K` is 6 in `A` but 4 in `B`"),
    ((A, B[0]), ValueError, r"`B` is declared with 2 dimensions but is given \[3\]"),
    ((A, B.astype(jnp.complex64)), TypeError, r"B: element type complex64 is none of Tile's.*\.real"),
    ((A, B.astype(jnp.float8_e4m3fn)), TypeError, r"B: element type float8_e4m3fn is none of Tile's"),
    ((A, jax.random.key(0)), TypeError, r"B: element type key<fry> is none of Tile's; .*key_data\(B\)"),
    ((A,), TypeError, r"f\(A, B\): missing: B"),
    ((A, None), TypeError, r"missing: B"),
    ((A, B, B), TypeError, r"f takes 2 arguments \(A, B\) but 3 were given"),
    ((A, "x"), TypeError, r"B: a str cannot be taken as an array"),
    ((A, 3), ValueError, r"`B` is declared with 2 dimensions"),
]


@pytest.mark.parametrize("arguments, kind, text", FAULTS)
def test_faults_are_said_when_traced(arguments, kind, text):
    f = op(MATMUL)
    held = arguments[1:]
    for call in (
        lambda: f(*arguments),
        lambda: jax.jit(lambda a: f(a, *held))(A),
        lambda: jax.grad(lambda a: f(a, *held).sum())(A),
        lambda: jax.eval_shape(lambda a: f(a, *held), A),
    ):
        with pytest.raises(kind, match="(?s)" + text):
            call()


def test_types_that_are_declared():
    f = op("function f(f32 A[N], i32 I[N]) -> (C) { C[i: N] = =(A[i] * I[i]); }")
    with pytest.raises(TypeError, match="`I`"):
        jax.jit(f)(jnp.ones(3), jnp.ones(3))
    with pytest.raises(TypeError, match=r"f\(A, I\): missing: I; unexpected: L"):
        f(A=A, L=A)


def test_what_is_no_program():
    for thing in (MATMUL, None, tilec.compile(MATMUL + MATMUL.replace("f(", "g("))):
        with pytest.raises(TypeError, match="tilec.jax.op takes a tilec.Program, not a"):
            tilec.jax.op(thing)


def test_faults_of_values_come_from_the_call():
    f = op("function f(A[N], i32 I[M]) -> (B) { G = gather(A, I); B[m: M] = =(G[m]); }", checked=True)
    good, bad = jnp.asarray([1], jnp.int32), jnp.asarray([5], jnp.int32)
    for call in (f, jax.jit(f), jax.grad(lambda a, i: f(a, i).sum())):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=r"`I\[0\]` is 5, but `gather` takes indices from 0 to below 3"
        ):
            jax.block_until_ready(call(jnp.ones(3), bad))
        call(jnp.ones(3), good)


def kernel_of(text, *specs, **options):
    from tilec._jax_programs import Function
    program = tilec.compile(text, **options)
    return Function(program, {}, tuple(program.inputs)).kernel(tuple((shape, np.dtype("f4")) for shape in specs))


def test_calls_that_fit_no_kernel():
    """What a cache on disk brings, or a text that was made up, is an error and nothing else."""
    call = lambda *arguments, **attributes: jax.block_until_ready(
        jax.ffi.ffi_call("tilec_call", jax.ShapeDtypeStruct((4, 3), jnp.float32))(*arguments, **attributes)
    )
    whole = kernel_of(MATMUL, (4, 6), (6, 3)).text
    assert whole.startswith(b"0:tilec package")
    close(call(A, B, kernel=whole), A @ B)
    for text in ("", "x", "process 1-1", "12345", ":"):
        with pytest.raises(jax.errors.JaxRuntimeError, match="the kernel of this call is of another process"):
            call(A, B, kernel=text)
    for text, why in (
        ("0:", "no package"),
        (whole[:-1], "ends early|cut off"),
        (whole[:99] + bytes([whole[99] ^ 1]) + whole[100:], "E0534"),
        (b"-1:" + whole[2:], "-1"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=why):
            call(A, B, kernel=text)
    for attributes in ({}, {"kernel": np.int64(1)}):
        with pytest.raises(jax.errors.JaxRuntimeError, match="takes the attribute `kernel`, a string"):
            call(A, B, **attributes)
    other = kernel_of(MATMUL, (5, 6), (6, 3)).text
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=r"A is compiled for type 11 of XLA and shape \[5, 6\] but is given type 11 and shape \[4, 6\]",
    ):
        call(A, B, kernel=other)
    with pytest.raises(jax.errors.JaxRuntimeError, match="the kernel has 2 inputs but is given 1"):
        call(A, kernel=other)


def test_a_kernel_lives_as_long_as_somebody_holds_it():
    """One without a package is found by its name: XLA holds it with the executable, and lets it go with that."""
    call = jax.jit(
        lambda text, x: jax.ffi.ffi_call("tilec_call", jax.ShapeDtypeStruct((3,), jnp.float32))(x, kernel=text),
        static_argnums=0,
    )
    x = jnp.arange(3.0)
    kernel = kernel_of("function f(X[N]) -> (Y) { Y = X * 2; }", (3,), target="reference")
    name = kernel.text.decode()
    assert name.startswith("process ")
    compiled = call.lower(name, x).compile()
    del kernel
    gc.collect()
    close(compiled(x), 2 * x)
    again = call.lower(name, x).compile()                  # the executable holds it
    close(again(x), 2 * x)
    del compiled, again
    jax.clear_caches(), gc.collect()
    with pytest.raises(jax.errors.JaxRuntimeError, match="of another process"):
        call.lower(name, x).compile()
    f = jax.jit(op("function f(X[N]) -> (Y) { Y = X * 3; }", target="reference"))
    lowered = f.lower(x)
    del f
    jax.clear_caches(), gc.collect()
    close(lowered.compile()(x), 3 * x)


def in_another_process(script, *words, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TILEC_CACHE": "off", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exported_functions_run_in_another_process(tmp_path):
    pytest.importorskip("flatbuffers")                     # with which jax.export writes
    f = op(CONV)
    I, K = random(1, 8, 8, 3), random(3, 3, 3, 4, seed=1)
    loss = lambda I, K: jnp.tanh(f(I, K)).sum() + (f(2 * I, K) ** 2).sum()
    checks = [jax.export.DisabledSafetyCheck.custom_call("tilec_call")]
    exported = jax.export.export(jax.jit(loss), disabled_checks=checks)(I, K)
    close(exported.call(I, K), loss(I, K))
    (tmp_path / "loss").write_bytes(exported.serialize(vjp_order=2))
    np.savez(tmp_path / "in.npz", I=I, K=K)
    script = """
import sys, numpy as np, jax, tilec.jax
given = np.load(sys.argv[1] + "/in.npz")
f = jax.export.deserialize(bytearray(open(sys.argv[1] + "/loss", "rb").read())).call
I, K = given["I"], given["K"]
gradient = jax.grad(lambda I, K: f(I, K), (0, 1))
dI, dK = jax.jit(gradient)(I, K)
second = jax.grad(lambda I, K: (gradient(I, K)[1] ** 2).sum())(I, K)
np.savez(sys.argv[1] + "/out.npz", value=f(I, K), dI=dI, dK=dK, second=second)
"""
    in_another_process(script, tmp_path)
    made = np.load(tmp_path / "out.npz")
    close(made["value"], loss(I, K))
    for name, want in zip(("dI", "dK"), jax.grad(loss, (0, 1))(I, K)):
        close(made[name], want)
    close(made["second"], jax.grad(lambda I, K: (jax.grad(loss, 1)(I, K) ** 2).sum())(I, K), 2e-4)


def test_what_no_package_says_is_not_exported():
    f = jax.jit(op("function f(X[N]) -> (Y) { Y = X * 3; }", target="reference"))
    with pytest.raises(NotImplementedError):
        jax.export.export(f, disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("tilec_call")])(jnp.ones(3))


def test_the_compilation_cache_of_jax(tmp_path):
    """Another process finds what one has compiled, and a program that differs is another entry."""
    script = """
import sys, jax, jax.numpy as jnp, tilec, tilec.jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda name, **more: hits.append(name) if name == "/jax/compilation_cache/cache_hits" else None)
f = tilec.jax.op(tilec.compile("function f(X[N]) -> (Y) { Y = X * %s; }" % sys.argv[2], target=sys.argv[3]))
x = jax.device_put([1.0, 2.0, 3.0])
hits.clear()
y = jax.block_until_ready(jax.jit(lambda x: f(x))(x))
print(len(hits), *y.tolist())
"""
    said = [
        in_another_process(script, tmp_path, factor, target).split()
        for factor, target in ((2, "cpu"), (2, "cpu"), (3, "cpu"), (3, "cpu"), (4, "reference"), (4, "reference"))
    ]
    assert said == [
        [str(hits), *(str(factor * x) for x in (1.0, 2.0, 3.0))]
        for hits, factor in ((0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (0, 4))
    ]


def test_kernels_go_with_their_executables():
    """The memory of functions that are dropped comes back."""
    used = lambda: int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
    text = "function f(X[N]) -> (Y) { T[i: N] = +(X[j]), j <= i; Y = sin(T) * %d; }"
    def some(first, count):
        for k in range(first, first + count):
            jax.block_until_ready(jax.jit(op(text % k))(jnp.ones(4)))
            jax.clear_caches()
        gc.collect()
    some(0, 40)
    before = used()
    some(40, 120)
    # bytes for each, of what XLA and the allocators do not give back
    assert used() - before < 120 * 60000, (used() - before) / 120


def test_another_platform_is_an_error_when_it_is_lowered():
    f = jax.jit(op(MATMUL))
    export = lambda f, platform: jax.export.export(
        f, platforms=[platform], disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("tilec_call")]
    )(A, B)
    with pytest.raises(
        ValueError,
        match=r'f is compiled for the target cpu, and JAX asks for it on a GPU: tilec.compile\(…, target="cuda"\)',
    ):
        export(f, "cuda")
    with pytest.raises(NotImplementedError, match="tilec"):
        export(f, "tpu")
    if "cuda" not in subprocess.run([TILEC, "targets"], capture_output=True, text=True).stdout:
        with pytest.raises(tilec.DeviceError, match="E0520|E0524"):
            export(jax.jit(op(MATMUL, target="cuda")), "cuda")


def test_jax_is_imported_when_it_is_asked_for():
    script = "import sys, tilec\nassert 'jax' not in sys.modules\ntilec.compile\ntilec.jax\nassert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
    absent = "import sys, tilec\nsys.modules['jax'] = None\ntry: tilec.jax\nexcept ImportError as fault: assert 'pip install jax' in str(fault)\nelse: raise SystemExit(1)"
    subprocess.run([sys.executable, "-c", absent], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'jacks'"):
        tilec.jacks
