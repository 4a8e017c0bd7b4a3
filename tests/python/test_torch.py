"""tilec.torch: functions, operators and modules against PyTorch's own checkers (opcheck, gradcheck, gradgradcheck), its
transforms and its compiler."""
import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"         # nothing is read of what another run compiled
torch = pytest.importorskip("torch")
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import tilec
import torch_cases

MLP = """function mlp(X[N, I], W[I, H], B[H], V[H, O]) -> (Y) {
  A[n, h: N, H] = +(X[n, i] * W[i, h]);
  T = tanh(A + B);
  Y[n, o: N, O] = +(T[n, h] * V[h, o]);
}"""
SCALE = "function scale(X, S) -> (Y) { Y = X * S; }"
EVERY = "function every(X[N], S) -> (Y) { Y[i: N / S] = =(X[S * i]); }"
SHAPES = [(3, 4), (4, 5), (5,), (5, 2)]


def reference(x, w, b, v):
    return torch.tanh(x @ w + b) @ v


def draw(*shapes, seed=0, grad=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, dtype=dtype, generator=generator, requires_grad=grad) for shape in shapes]


@pytest.fixture(scope="module")
def mlp():
    return tilec.compile(MLP)


@pytest.fixture(scope="module")
def function(mlp):
    return tilec.torch.function(mlp)


@pytest.fixture(scope="module")
def op(mlp):
    return tilec.torch.op(mlp)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.config.error_on_recompile = False


# ---- functions of std/

@pytest.mark.parametrize("name", torch_cases.CASES)
def test_functions_of_std(name):
    program, values = torch_cases.program(name), torch_cases.inputs(name)
    op = tilec.torch.op(program)
    assert set(torch.library.opcheck(op.overload, tuple(op._spread(values))).values()) == {"SUCCESS"}
    for call in (tilec.torch.function(program), op, lambda *v: op.overload(*op._spread(v))):
        assert torch.autograd.gradcheck(call, values)
        assert torch.autograd.gradgradcheck(call, values)


@pytest.mark.parametrize(
    "name", ["layer_norm", "conv2d", "max_pool2d", "attention", "gelu", "c_mul", "mean_cross_entropy", "embedding"]
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_functions_of_std_compiled(name, dynamic):
    program, values = torch_cases.program(name), torch_cases.inputs(name)
    op, plain = tilec.torch.op(program), tilec.torch.function(program)
    def loss(call):
        results = call(*values)
        return sum((r * r).sum() for r in (results if isinstance(results, tuple) else (results,)))
    wrt = [v for v in values if v.requires_grad]
    expected = loss(plain)
    compiled = torch.compile(lambda: loss(op), fullgraph=True, dynamic=dynamic, backend="aot_eager")()
    torch.testing.assert_close(compiled, expected)
    torch.testing.assert_close(torch.autograd.grad(compiled, wrt), torch.autograd.grad(expected, wrt))


# ---- function

def test_values_and_gradients(function):
    values = draw(*SHAPES)
    y, wanted = function(*values), reference(*values)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(y.sin().sum(), values), torch.autograd.grad(wanted.sin().sum(), values)
    )
    torch.testing.assert_close(function(values[0], V=values[3], B=values[2], W=values[1]), wanted)
    assert torch.autograd.gradcheck(function, values, check_forward_ad=True)


def test_gradients_are_asked_for_where_they_are_needed(function, monkeypatch):
    asked = []
    pair = tilec.Program._pair
    monkeypatch.setattr(
        tilec.Program, "_pair", lambda self, values, of, wrt: asked.append(tuple(wrt)) or pair(self, values, of, wrt)
    )
    x, w, b, v = draw((2, 3), (3, 7), (7,), (7, 1), seed=3)
    for needed in ((w,), (x, v)):
        values = [t if any(t is n for n in needed) else t.detach() for t in (x, w, b, v)]
        torch.testing.assert_close(
            torch.autograd.grad(function(*values).sum(), needed), torch.autograd.grad(reference(*values).sum(), needed)
        )
    assert asked == [("W",), ("X", "V")]
    with torch.no_grad():
        assert function(x, w, b, v).grad_fn is None
    assert function(x.detach(), w.detach(), b.detach(), v.detach()).grad_fn is None and len(asked) == 2


def test_what_is_saved_may_not_change(function):
    values = draw(*SHAPES)
    held = values[3] * 1
    y = function(*values[:3], held)
    with torch.no_grad():
        held.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("packaged", [False, True])
def test_what_vjp_holds_may_not_change(packaged, tmp_path):
    program = tilec.compile("function f(X[N], W[N], B[N]) -> (Y) { Y = tanh(X * W + B); }")
    x, w, b = draw((4,), (4,), (4,), grad=False)
    if packaged:
        program.save(tmp_path / "f.tilec", x, w, b, vjp=True)
        program = tilec.load(tmp_path / "f.tilec")
    y, backward = program.vjp(x, w, b)
    held = {"X": x, "W": w, "Y": y}
    torch.testing.assert_close(backward(torch.ones_like(y))[2], 1 - y * y)
    b.add_(1)                                                 # backward does not read it
    backward(torch.ones_like(y))
    read = [name for name in held if name in backward._held]
    assert {"X", "W"} <= set(read)
    for name in read:
        y, backward = program.vjp(x, w, b)
        {**held, "Y": y}[name].detach()[0] = 7
        with pytest.raises(
            RuntimeError,
            match=name + ", which is needed for gradient computation, has been modified by an inplace operation",
        ):
            backward(torch.ones_like(y))
    with torch.inference_mode():                              # its tensors do not count changes
        y, backward = program.vjp(x.clone(), w, b)
        backward(torch.ones_like(y))


def test_several_outputs_some_of_which_are_no_floats():
    f = tilec.torch.function(tilec.compile("function (X[N], I[N]) -> (Y, Z, J) { Y = exp(X); Z = X * X; J = I + 1; }"))
    x, i = torch.randn(4, dtype=torch.float64, requires_grad=True), torch.arange(4)
    y, z, j = f(x, i)
    assert y.requires_grad and z.requires_grad and not j.requires_grad and j.tolist() == [1, 2, 3, 4]
    torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], 2 * x.detach())        # no cotangent of Y
    torch.testing.assert_close(torch.autograd.grad(f(x, i)[0].sum(), x)[0], torch.exp(x.detach()))
    whole = tilec.torch.function(tilec.compile("function (X[N]) -> (J) { J = i32(X); }"))
    assert not whole(x).requires_grad


def test_results_that_are_no_floats_in_a_graph():
    mixed, whole = tilec.torch.op(
        tilec.compile("function mixed(X[N], I[N]) -> (Y, Z, J) { Y = exp(X); Z = X * X; J = I + 1; }")
    ), tilec.torch.op(tilec.compile("function whole(X[N]) -> (J) { J = i32(X); }"))
    x, i = torch.randn(4, dtype=torch.float64, requires_grad=True), torch.arange(4)
    y, z, j = torch.compile(lambda x, i: mixed(x, i), fullgraph=True, backend="aot_eager")(x, i)
    assert y.requires_grad and not j.requires_grad and j.tolist() == [1, 2, 3, 4]
    torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], 2 * x.detach())
    for call in (torch.compile(lambda x: whole(x), fullgraph=True, backend="aot_eager"), whole.overload):
        made = call(x)
        assert made.dtype is torch.int32 and not made.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_element_types_of_gradients(function, dtype):
    values = draw(*SHAPES, dtype=dtype)
    y = function(*values)
    assert y.dtype is dtype
    for value, gradient in zip(values, torch.autograd.grad(y.sum(), values)):
        assert gradient.dtype is dtype and gradient.shape == value.shape


def test_strides_and_cotangents_of_any_kind(function):
    values = draw(*SHAPES)
    for change in (
        lambda t: t.mT.contiguous().mT if t.ndim > 1 else t,
        lambda t: torch.cat([t, t])[: len(t)],
        lambda t: torch.stack([t, t], -1)[..., 1],
    ):
        inner = [change(t) for t in values]
        for loss in (
            lambda y: y.sum(),
            lambda y: (y.T[::1] * torch.arange(3.0, dtype=torch.float64)).sum(),
            lambda y: y[1].sum(),
        ):
            torch.testing.assert_close(
                torch.autograd.grad(loss(function(*inner)), values, retain_graph=True),
                torch.autograd.grad(loss(reference(*inner)), values, retain_graph=True),
            )


def test_numbers_and_sizes():
    scale, every = tilec.torch.function(tilec.compile(SCALE)), tilec.torch.function(tilec.compile(EVERY))
    x, = draw((6,))
    for number in (2, 0.5, 3):
        torch.testing.assert_close(torch.autograd.grad(scale(x, number).sum(), x)[0], torch.full_like(x, number))
    s = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(scale(x, s).sum(), s)[0], x.detach().sum())
    for size in (2, 3, torch.tensor(2)):
        expected = torch.zeros_like(x)
        expected[:: int(size)] = 1
        torch.testing.assert_close(torch.autograd.grad(every(x, size).sum(), x)[0], expected)


TRANSFORMS = {
    "grad": lambda f, p: torch.func.grad(lambda *v: f(*v).sin().sum(), argnums=(0, 1))(*p),
    "grad of grad": lambda f, p: torch.func.grad(
        lambda x: torch.func.grad(lambda x: f(x, *p[1:]).sin().sum())(x).sum()
    )(p[0]),
    "vjp": lambda f, p: torch.func.vjp(f, *p)[1](torch.ones(3, 2, dtype=torch.float64)),
    "jvp": lambda f, p: torch.func.jvp(f, tuple(p), tuple(p)),
    "hessian": lambda f, p: torch.func.hessian(lambda x: f(x, *p[1:]).sin().sum())(p[0]),
    "jacrev": lambda f, p: torch.func.jacrev(f, argnums=1)(*p),
    "jacfwd": lambda f, p: torch.func.jacfwd(f, argnums=1)(*p),
    "vmap": lambda f, p: torch.func.vmap(f, in_dims=(0, None, None, None))(torch.stack([p[0], 2 * p[0]]), *p[1:]),
    "vmap along another axis": lambda f, p: torch.func.vmap(f, in_dims=(1, None, None, None))(
        torch.stack([p[0], 2 * p[0]], 1), *p[1:]
    ),
    "vmap of grad": lambda f, p: torch.func.vmap(
        torch.func.grad(lambda w, x: f(x, w, *p[2:]).sum()), in_dims=(None, 0)
    )(p[1], torch.stack([p[0], 2 * p[0]])),
    "grad of vmap": lambda f, p: torch.func.grad(
        lambda w: torch.func.vmap(lambda x: f(x, w, *p[2:]))(torch.stack([p[0], 2 * p[0]])).sum()
    )(p[1]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_torch_func(function, op, transform):
    values = draw(*SHAPES, grad=False)
    expected = TRANSFORMS[transform](reference, values)
    for call in (function, op):
        torch.testing.assert_close(TRANSFORMS[transform](call, values), expected)


def graph_of_jvp(f, x, v, apply=lambda g: torch.compile(g, backend="aot_eager", fullgraph=True)):
    return apply(lambda x, v: torch.func.jvp(f, (x,), (v,)))(x, v)


def duals(f, x, v):
    with forward_ad.dual_level():
        return torch.utils._pytree.tree_map(lambda r: forward_ad.unpack_dual(r).tangent, f(forward_ad.make_dual(x, v)))


def duals_of_a_seed(f, x, v):
    x = x.clone().requires_grad_()
    y = f(x)[0]
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(torch.autograd.grad(y, x, forward_ad.make_dual(v, x.detach()))[0]).tangent


FORWARD = {
    "linearize": lambda f, x, v: torch.func.linearize(f, x)[1](v),
    "torch.compile": graph_of_jvp,
    "torch.compile, vmap": lambda f, x, v: graph_of_jvp(torch.func.vmap(f), torch.stack([x, v]), torch.stack([v, x])),
    "torch.compile, jacfwd": lambda f, x, v: torch.compile(torch.func.jacfwd(f), backend="aot_eager", fullgraph=True)(
        x
    ),
    "make_fx": lambda f, x, v: graph_of_jvp(f, x, v, lambda g: make_fx(g)(x + 1, v)),
    "overload, jvp": lambda f, x, v: torch.func.jvp(f, (x,), (v,)),
    "overload, duals": duals,
    "overload, seed": duals_of_a_seed,
}


@pytest.mark.parametrize("how", FORWARD)
def test_forward_mode_where_pytorch_traces(how):
    program = tilec.compile(
        "function f(X[N], W[N]) -> (Y, I, S) { Y = X * X * W; I = X > 0; S[:] = +(W[i] * sin(X[i])); }"
    )
    op = tilec.torch.op(program)
    x, v, w = draw((4,), (4,), (4,), grad=False)
    call = op.overload if how.startswith("overload") else op
    expected = FORWARD[how](lambda x: (x * x * w, (w * x.sin()).sum()), x, v)
    torch.testing.assert_close(FORWARD[how](lambda x: call(x, w)[::2], x, v), expected)


def test_forward_mode_is_refused_where_autograd_records_its_derivative():
    op = tilec.torch.op(tilec.compile(SCALE), "forward_mode::scale")
    x, v = draw((4,), (4,), grad=False)
    with (
        forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="forward mode of a derivative of an operator"),
    ):
        dual = forward_ad.make_dual(x.requires_grad_(), v)
        torch.autograd.grad(op.overload(dual, None, dual, None).sum(), x, create_graph=True)


def test_declared_tensors_are_tensors_of_the_schema_with_and_without_a_name():
    for head in ("function", "function f"):
        op = tilec.torch.op(
            tilec.compile(head + "(A[N], B) -> (C) { C = A * B; }"), "schemas::" + head.replace(" ", "_")
        )
        assert str(op.overload._schema).partition("(")[2] == "Tensor A, Tensor? B, Scalar? B_number) -> Tensor"


def test_vmap_of_the_operator(op):
    values = draw(*SHAPES, grad=False)
    batch = torch.stack([values[0], 2 * values[0]], 1)
    torch.testing.assert_close(
        torch.func.vmap(op.overload, in_dims=(1, None, None, None))(batch, *values[1:]),
        torch.stack([reference(values[0], *values[1:]), reference(2 * values[0], *values[1:])]),
    )
    none = torch.func.vmap(op.overload, in_dims=(1, None, None, None))(batch[:, :0], *values[1:])
    assert none.shape == (0, *reference(*values).shape)


# ---- op

@pytest.mark.parametrize("dynamic, backend", [(None, "inductor"), (True, "aot_eager")])
def test_compiled_as_one_graph(op, dynamic, backend):
    compiled = torch.compile(lambda *v: op(*v).sin() * 2, fullgraph=True, dynamic=dynamic, backend=backend)
    for rows in (3, 7, 5):
        torch._dynamo.config.error_on_recompile = dynamic is True and rows != 3     # sizes stay symbols
        values = draw((rows, 4), *SHAPES[1:])
        y, wanted = compiled(*values), reference(*values).sin() * 2
        torch.testing.assert_close(y, wanted)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), values), torch.autograd.grad(wanted.sum(), values))


def graphs_of(call, values, dynamic=False):
    """The operators of the forward and the backward graph that torch.compile makes of a call, its value and its
    gradients."""
    from torch._dynamo.backends.common import aot_autograd
    found = []

    def record(graph, inputs):
        found.append(
            [
                str(node.target)
                for node in graph.graph.nodes
                if node.op == "call_function" and "tilec" in str(node.target)
            ]
        )
        return graph.forward

    torch._dynamo.reset()
    y = torch.compile(call, fullgraph=True, dynamic=dynamic, backend=aot_autograd(fw_compiler=record))(*values)
    gradients = torch.autograd.grad(y.sin().sum(), [v for v in values if v.requires_grad])
    return found, y, gradients


@pytest.mark.parametrize("name", ["softmax", "attention", "layer_norm", "conv2d", "mean_cross_entropy"])
def test_what_forward_keeps_goes_to_backward_in_a_graph(name):
    program, values = torch_cases.program(name), torch_cases.inputs(name)
    op, plain = tilec.torch.op(program), tilec.torch.function(program)
    expected = plain(*values)
    wanted = torch.autograd.grad(expected.sin().sum(), [v for v in values if v.requires_grad])
    for dynamic, operators in (
        (False, [["tilec.forward.default"], ["tilec.backward.default"]]),
        (True, [[str(op.overload)], ["tilec.derivative.default"]]),
    ):
        found, y, gradients = graphs_of(op, values, dynamic)
        assert found == operators
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(gradients, wanted)


LAYOUTS = {
    "transposed": lambda t: t.mT.contiguous().mT if t.ndim > 1 else t,
    "with gaps": lambda t: torch.stack([t, t], -1)[..., 1],
    "repeated": lambda t: t[:1].expand(t.shape),
    "one row": lambda t: t[:1],
    "empty": lambda t: t[:0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_in_a_graph(layout):
    op, reference = (
        tilec.torch.op(tilec.compile("function twice(X, Y) -> (Z) { T = exp(X); Z = T * T * Y; }")),
        lambda x, y: torch.exp(x) ** 2 * y,
    )
    for change in (LAYOUTS[layout], lambda t: LAYOUTS[layout](t).detach().clone(memory_format=torch.contiguous_format)):
        values = [change(v).detach().requires_grad_() for v in draw((4, 3), (4, 3))]
        found, y, gradients = graphs_of(op, values)
        assert found == [["tilec.forward.default"], ["tilec.backward.default"]]
        torch.testing.assert_close(y, reference(*values))
        torch.testing.assert_close(gradients, torch.autograd.grad(reference(*values).sin().sum(), values))


def test_a_graph_is_called_with_other_strides_than_it_was_traced_with(op):
    values = draw(*SHAPES, grad=False)
    kept = [v.mT.contiguous().mT if v.ndim > 1 else v for v in values]
    layout = tilec._torch_kept.layout_of(values)
    assert layout.split()[0] == "float64:3,4:4,1" and tilec._torch_kept.layout_of(kept).split()[0] == "float64:3,4:1,3"
    pair = tilec._torch_kept.pair_for(op.name, "X W", layout, [])
    results = [
        torch.ops.tilec.forward(op.name, "X W", layout, " ".join(pair.names[1:]), each, []) for each in (values, kept)
    ]
    torch.testing.assert_close(*results)
    with pytest.raises(RuntimeError, match=r"keeps \(Q\) for backward.*empty PyTorch's cache"):
        torch.ops.tilec.forward(op.name, "X W", layout, "Q", values, [])
    gradients = []
    for each, made in zip((values, kept), results):
        known = {
            **dict(zip(op.inputs, each)),
            **dict(zip(pair.names, made)),
            **{name: torch.ones(2, 3, dtype=torch.float64).mT for name in pair.cotangents},
        }
        gradients.append(torch.ops.tilec.backward(op.name, "X W", layout, [known[name] for name in pair.wanted], []))
    torch.testing.assert_close(*gradients)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make", [lambda program: program, lambda program: tilec.torch.function(program)], ids=["program", "function"]
)
def test_what_is_no_operator_breaks_the_graph(mlp, make):
    call, values = make(mlp), draw(*SHAPES, grad=False)
    torch.testing.assert_close(
        torch.compile(lambda *v: call(*v) + 1, backend="aot_eager")(*values), reference(*values) + 1
    )
    with pytest.raises(Exception, match=r"call tilec\.torch\.op\(program\)"):
        torch.compile(lambda *v: call(*v) + 1, backend="aot_eager", fullgraph=True)(*values)


def test_the_same_shapes_with_other_sizes_under_vmap():
    every = tilec.torch.function(tilec.compile(EVERY))
    batch = torch.arange(24).reshape(2, 12)                   # integers: nothing is differentiated
    for size in (2, 3, 2):
        assert torch.func.vmap(lambda x: every(x, size))(batch).tolist() == batch[:, ::size].tolist()


SYMBOLIC = {
    "half": (
        "function half(X[N, M]) -> (Y) { Y[i, j: N/2 + 1, max(0, M - 2)] = +(X[i, j + k]), k < 3; }",
        [(6, 7), (9, 12), (8, 5)],
    ),
    "any_rank": ("function any_rank(X, Z) -> (Y) { Y = exp(X) * Z; }", [(6, 7), (9, 12), (8, 5)]),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_sizes_stay_symbols(name):
    text, shapes = SYMBOLIC[name]
    program = tilec.compile(text)
    op = tilec.torch.op(program)
    call = (lambda x: op(x)) if len(program.inputs) == 1 else (lambda x: op(x, x))
    plain = (lambda x: program(x)) if len(program.inputs) == 1 else (lambda x: program(x, x))
    compiled = torch.compile(lambda x: call(x) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for k, shape in enumerate(shapes):
        torch._dynamo.config.error_on_recompile = k > 0
        x, = draw(shape, grad=False, seed=k)
        torch.testing.assert_close(compiled(x), plain(x) + 1)


def test_numbers_where_pytorch_traces():
    op, every = tilec.torch.op(tilec.compile(SCALE)), tilec.torch.op(tilec.compile(EVERY))
    assert str(op.overload._schema).endswith("(Tensor? X, Scalar? X_number, Tensor? S, Scalar? S_number) -> Tensor")
    assert "(Tensor X, Tensor? S, Scalar? S_number)" in str(every.overload._schema)
    scaled = torch.compile(lambda x, s: op(x, s), fullgraph=True, backend="aot_eager")
    taken = torch.compile(lambda x, s: every(x, s), fullgraph=True, backend="aot_eager")
    x, = draw((12,))
    for number in (2, 0.5, 3, 4.0, torch.tensor(2.0, dtype=torch.float64, requires_grad=True)):
        torch.testing.assert_close(scaled(x, number), x * number)
    for scalar in (np.float64(2), np.float32(2), np.int64(2), np.array(2.0)):   # as tensors without dimensions
        expected = op(x, torch.as_tensor(scalar)).dtype
        assert all(f(x, scalar).dtype == expected for f in (op, scaled, tilec.torch.function(op.program)))
        assert tilec.torch.module(op.program, S=np.asarray(scalar)[()])(x).dtype == expected
    for size in (2, 3, 4):
        torch.testing.assert_close(taken(x, size), x[::size])
        torch.testing.assert_close(every(x, size), x[::size])
    with pytest.raises(Exception, match="S is a size, and where PyTorch traces, the value of a tensor is not known"):
        taken(x, torch.tensor(2))
    assert set(torch.library.opcheck(op.overload, (x, None, None, 2.5)).values()) == {"SUCCESS"}
    assert set(torch.library.opcheck(every.overload, (x, None, 3)).values()) == {"SUCCESS"}


CACHED = """
import torch, tilec
op = tilec.torch.op(tilec.compile("function cached(X[N], S) -> (Y) { Y = exp(X) * S; }"))
x = torch.ones(3, dtype=torch.float64, requires_grad=True)
y = torch.compile(lambda x: op(x, 2), fullgraph=True)(x)
torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], torch.exp(x) * 2)
print(torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_a_graph_that_another_process_compiled(tmp_path):
    """PyTorch reads it from its cache, with its backward, and traces nothing: the operators in it have to be there."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    environment.pop("TORCHINDUCTOR_FORCE_DISABLE_CACHES", None)
    hits = [
        subprocess.run(
            [sys.executable, "-c", CACHED], check=True, env=environment, capture_output=True, text=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert hits == ["0", "1"]


def test_a_derivative_of_what_is_not_there():
    with pytest.raises(RuntimeError, match="tilec::nowhere: make this operator first"):
        torch.ops.tilec.derivative("tilec::nowhere; grad X of Y", [torch.ones(3), torch.ones(3)], [])


def test_export(op):
    class Model(torch.nn.Module):
        def forward(self, x, w, b, v):
            return op(x, w, b, v) + 1

    values = draw(*SHAPES, grad=False)
    fixed = torch.export.export(Model(), tuple(values))
    assert any("tilec.mlp" in str(node.target) for node in fixed.graph.nodes)
    torch.testing.assert_close(fixed.module()(*values), reference(*values) + 1)
    free = torch.export.export(Model(), tuple(values), dynamic_shapes=({0: torch.export.Dim("rows")}, None, None, None))
    more, = draw((11, 4), grad=False)
    torch.testing.assert_close(free.module()(more, *values[1:]), reference(more, *values[1:]) + 1)


def test_autocast(mlp, op):
    narrow = tilec.torch.op(mlp, "tilec_tests::narrow", autocast=torch.bfloat16)
    x, w, b, v = draw(*SHAPES, dtype=torch.float32)
    values, wanted = (x.to(torch.bfloat16), w, b, v), reference(x, w, b, v)
    with torch.autocast("cpu", torch.bfloat16):
        for call, dtype in (
            (op, torch.float32),
            (op.overload, torch.float32),
            (narrow, torch.bfloat16),
            (narrow.overload, torch.bfloat16),
            (torch.compile(lambda *t: op(*t), fullgraph=True, backend="aot_eager"), torch.float32),
            (torch.compile(lambda *t: narrow(*t), fullgraph=True, backend="aot_eager"), torch.bfloat16),
        ):
            y = call(*values)
            assert y.dtype is dtype
            torch.testing.assert_close(y.float(), wanted, atol=0.1, rtol=0.05)
            assert torch.autograd.grad(y.float().sum(), w)[0].dtype is torch.float32


def test_names_of_operators(mlp):
    other = tilec.compile(MLP)
    first = tilec.torch.op(other, "tilec_tests::named")
    assert tilec.torch.op(other, "tilec_tests::named") is first and first.name == "tilec_tests::named"
    assert torch.ops.tilec_tests.named.default is first.overload
    with pytest.raises(ValueError, match="another program is registered"):
        tilec.torch.op(mlp, "tilec_tests::named")
    third = tilec.compile(MLP)
    assert tilec.torch.op(third) is tilec.torch.op(third) and tilec.torch.op(third).name != tilec.torch.op(mlp).name
    assert tilec.torch.op(tilec.compile("function (X[N]) -> (Y) { Y = X; }")).name.startswith("tilec::program")
    for name, fault in (("a b", ValueError), ("a::b::c", ValueError), (3, TypeError)):
        with pytest.raises(fault, match="name="):
            tilec.torch.op(mlp, name)
    with pytest.raises(TypeError, match="autocast="):
        tilec.torch.op(mlp, autocast=torch.int8)
    for make in (tilec.torch.op, tilec.torch.function, tilec.torch.module):
        with pytest.raises(TypeError, match="a tilec.Program is wanted"):
            make(len)


def test_names_of_inputs_that_schemas_have_not():
    for text in (
        "function (self[N], out[N], `lambda`[N]) -> (Y) { Y = self + out; }",
        "function (from[N], X_number[N], X) -> (Y) { Y = from * X_number + X; }",
    ):
        try:
            program = tilec.compile(text)
        except tilec.ProgramError:
            continue
        values = draw(*[(3,)] * len(program.inputs))
        op = tilec.torch.op(program)
        with torch.no_grad():
            torch.testing.assert_close(op.overload(*op._spread(values)), program(*values))


def test_mistakes_are_named(function, op):
    values = draw(*SHAPES)
    for call in (function, op):
        with pytest.raises(TypeError, match="missing: V"):
            call(*values[:3])
        with pytest.raises(TypeError, match="unexpected: Q"):
            call(*values, Q=3)
        with pytest.raises(tilec.ShapeError, match="`I` is 4 in `X` but 5 in `W`"):
            call(values[0], *draw((5, 5)), *values[2:])
        with pytest.raises(TypeError, match="out= is taken by a plain call of the program only"):
            call(*values, out=values[0])
        with pytest.raises(ValueError, match="X lies on meta"):
            function(values[0].to("meta"), *values[1:])
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(op)


# ---- module

def test_a_module_is_trained():
    weight, bias = torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.zeros(4))
    layer = tilec.torch.module(tilec.std.layer_norm, GAMMA=weight, BETA=bias)
    twin = torch.nn.LayerNorm(4)
    assert (
        dict(layer.named_parameters()).keys() == {"GAMMA", "BETA"} and layer.GAMMA is weight and layer.inputs == ("X",)
    )
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    for each in (layer, twin):
        optimiser = torch.optim.SGD(each.parameters(), 0.1)
        for _ in range(5):
            optimiser.zero_grad()
            ((each(x) - 1) ** 2).mean().backward()
            optimiser.step()
    torch.testing.assert_close(layer.GAMMA, twin.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        torch.compile(layer, fullgraph=True, backend="aot_eager")(x), twin(x), rtol=1e-4, atol=1e-5
    )
    again = copy.deepcopy(layer)
    again.load_state_dict(layer.state_dict())
    assert again.GAMMA is not layer.GAMMA and (again(X=x) == layer(x)).all()
    assert "(X, GAMMA, BETA) -> (Y)" in repr(layer)
    assert (torch.nn.Sequential(layer, torch.nn.Identity())(x) == layer(x)).all()


def test_what_a_module_binds():
    scale = tilec.compile(SCALE)
    x = torch.arange(3.0)
    assert tilec.torch.module(scale, S=2.0)(x).tolist() == [0, 2, 4]
    held = tilec.torch.module(scale, S=torch.tensor(3.0))
    assert held(x).tolist() == [0, 3, 6] and [n for n, _ in held.named_buffers()] == ["S"]
    for bound, fault, words in (
        ({"Q": 1}, TypeError, "no input Q; there are X, S"),
        ({"S": "2"}, TypeError, "S is a str"),
    ):
        with pytest.raises(fault, match=words):
            tilec.torch.module(scale, **bound)
    for call in (lambda: held(x, x), lambda: held(x, S=2.0), lambda: held(x, X=x)):
        with pytest.raises(TypeError, match="given"):
            call()
    with pytest.raises(TypeError, match="missing: X"):
        held()
    with pytest.raises(ValueError, match="training is an attribute"):
        tilec.torch.module(
            tilec.compile("function (X[N], training[N]) -> (Y) { Y = X * training; }"), training=torch.ones(3)
        )


def test_the_package_is_typed_and_lazy():
    code = "import tilec, sys; assert 'torch' not in sys.modules; tilec.torch.function; assert 'torch' in sys.modules; import tilec.torch"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_memory_of_tensors_stays_what_pytorch_may_resize(mlp):
    """Which FSDP does, to free the parameters that it has gathered."""
    values = draw(*SHAPES, grad=False)
    mlp(*values)
    tilec.torch.function(mlp)(*[v.requires_grad_() for v in values]).sum().backward()
    for value in values:
        value.untyped_storage().resize_(0)


def test_a_numpy_array_beside_tensors(function):
    values = draw(*SHAPES)
    y = function(*values[:3], values[3].detach().numpy())
    torch.testing.assert_close(
        torch.autograd.grad(y.sum(), values[:3]), torch.autograd.grad(reference(*values).sum(), values[:3])
    )
    assert type(function(*[v.detach().numpy() for v in values])) is np.ndarray


@pytest.mark.parametrize("values", [(), (None,), (None, 3.0), ("b", 3.0), ("b",)], ids=str)
def test_inputs_with_a_default_where_pytorch_traces(values):
    """What is not given, or None, has its default: where autograd records, in graphs, under transforms."""
    program = tilec.compile("function scaled(X[N], B[N]=4, S=2) -> (Y) { Y = X * X * S + B; }")
    op = tilec.torch.op(program)
    x, b = torch.randn(3, requires_grad=True), torch.randn(3)
    values = [b if v == "b" else v for v in values]
    given, scale = (values[0] if values and values[0] is not None else 4), (values[1] if len(values) > 1 else 2)
    expected = x * x * scale + given
    torch.testing.assert_close(op(x, *values), expected)
    compiled = torch.compile(lambda x: op(x, *values), fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, expected)
    compiled.sum().backward()
    torch.testing.assert_close(x.grad, 2 * scale * x.detach())
    torch.testing.assert_close(
        torch.func.hessian(lambda x: op(x, *values).sum())(x.detach()), 2.0 * scale * torch.eye(3)
    )
    torch.testing.assert_close(torch.func.vmap(lambda x: op(x, *values))(x.detach()[None]), expected.detach()[None])


def test_an_operator_names_what_is_missing_where_pytorch_traces():
    op = tilec.torch.op(tilec.std.layer_norm, "tests::normed")
    with pytest.raises(Exception, match="missing: X"):
        torch.compile(lambda g: op(GAMMA=g), fullgraph=True, backend="aot_eager")(torch.ones(3))
