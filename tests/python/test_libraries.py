"""Arrays of any library in, results in the same library out: PyTorch, JAX, anything with DLPack; without copies, and
with what is refused."""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tilec

torch = pytest.importorskip("torch")
MATMUL = "function matmul(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
REVERSE = "function (A[N]) -> (C) { C[i: N] = =(A[N - 1 - i]); }"
BOTH = "function both(A[N]) -> (B, C) { B = A + 1; C = A * 2; }"


@pytest.fixture(scope="module")
def matmul():
    return tilec.compile(MATMUL)


@pytest.fixture(scope="module")
def reverse():
    return tilec.compile(REVERSE)


@pytest.fixture
def jnp():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    return pytest.importorskip("jax.numpy")


def addresses(monkeypatch, call):
    """What the kernels of a call are given: addresses of inputs and of outputs."""
    seen = []
    from tilec import _call
    monkeypatch.setattr(_call._c, "lib", _Spy(_call._c.lib, seen))
    call()
    return seen


class _Spy:
    def __init__(self, lib, seen):
        self._lib, self._seen = lib, seen

    def __getattr__(self, name):
        if name != "tilec_kernel_run":
            return getattr(self._lib, name)
        def run(handle, ins, outs):
            self._seen.append((list(ins), list(outs)))
            return self._lib.tilec_kernel_run(handle, ins, outs)
        return run


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ],
)
def test_each_element_type_of_torch(reverse, dtype):
    x = torch.arange(6).to(getattr(torch, dtype))
    for _ in range(3):
        y = reverse(x)
        assert type(y) is torch.Tensor and y.dtype is x.dtype and y.tolist() == x.tolist()[::-1]


@pytest.mark.parametrize("dtype", ["bool_", "int8", "uint32", "float16", "bfloat16", "float32"])
def test_each_element_type_of_jax(reverse, jnp, dtype):
    x = jnp.arange(6).astype(getattr(jnp, dtype))
    for _ in range(3):
        y = reverse(x)
        assert type(y) is type(x) and y.dtype == x.dtype and y.tolist() == x.tolist()[::-1]


def test_nothing_is_copied(monkeypatch):
    f = tilec.compile(MATMUL)                                 # its kernels are made while the spy looks
    a, b, out = torch.ones(3, 8)[:, ::2], torch.ones(4, 5), torch.empty(3, 5)
    results = []
    for ins, outs in addresses(monkeypatch, lambda: [results.append(f(a, b)) for _ in range(3)]):
        assert ins == [a.data_ptr(), b.data_ptr()] and outs == [results.pop(0).data_ptr()]
    for ins, outs in addresses(monkeypatch, lambda: [f(a, b, out=out) for _ in range(3)]):
        assert ins == [a.data_ptr(), b.data_ptr()] and outs == [out.data_ptr()]
    results.clear()
    g = tilec.compile(MATMUL)
    for ins, outs in addresses(monkeypatch, lambda: [results.append(g.vjp(a, b)[0]) for _ in range(2)]):
        assert ins == [a.data_ptr(), b.data_ptr()] and outs[0] == results.pop(0).data_ptr()


def test_nothing_of_jax_is_copied(monkeypatch, jnp):
    f = tilec.compile(MATMUL)
    a, b, results = jnp.ones((3, 4)), jnp.ones((4, 5)), []
    for ins, outs in addresses(monkeypatch, lambda: [results.append(f(a, b)) for _ in range(3)]):
        assert ins == [a.unsafe_buffer_pointer(), b.unsafe_buffer_pointer()] and outs == [
            results.pop(0).unsafe_buffer_pointer()
        ]


def test_any_strides_of_torch(matmul):
    a, b = torch.randn(9, 10), torch.randn(12, 10)
    for x, y in [
        (a, b.T[:, ::2]),
        (a[::2, 1::2], b.T[:5]),
        (a[:1].expand(7, 10), b.T),
        (a.T.contiguous().T, torch.randn(1).expand(10, 4)),
        (a[:0], b.T),
        (a[:, :0], b.T[:0]),
    ]:
        for _ in range(2):
            torch.testing.assert_close(matmul(x, y), x @ y)


def test_what_is_given_beside_tensors():
    f = tilec.compile("function (X[N], Y[N], S) -> (Z) { Z = X * Y + S; }")
    t, n = torch.ones(3), np.full(3, 2, np.float32)
    for values in (
        (t, n, 0.5),
        (n, t, 0.5),
        (t, [2.0, 2.0, 2.0], np.float32(0.5)),
        (t, n, torch.tensor(0.5)),
        (torch.nn.Parameter(t), n, 0.5),
    ):
        with torch.no_grad():
            for _ in range(2):
                z = f(*values)
                assert type(z) is torch.Tensor and z.tolist() == [2.5] * 3
    assert type(f(n, n, 0.5)) is np.ndarray


def test_two_libraries_do_not_go_together(jnp):
    f = tilec.compile("function (X[N], Y[N]) -> (Z) { Z = X * Y; }")
    with pytest.raises(TypeError, match="X is of torch and Y of jax"):
        f(torch.ones(3), jnp.ones(3))
    with pytest.raises(TypeError, match="X is of jax and Y of torch"):
        f.vjp(jnp.ones(3), torch.ones(3))


def test_a_tensor_that_is_a_size():
    f = tilec.compile("function (X[N], S) -> (Y) { Y[i: N / S] = =(X[S * i]); }")
    x = torch.arange(12.0)
    for s in (3, torch.tensor(4), torch.tensor(3), torch.tensor(2, dtype=torch.int32), 4):
        assert f(x, s).tolist() == x[::int(s)].tolist()


def test_out_and_accumulate(matmul):
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    out = torch.zeros(5, 3).T
    for count in range(1, 4):
        assert matmul(a, b, out=out, accumulate=True) is out
        torch.testing.assert_close(out, count * (a @ b))
    held = np.zeros((3, 5), np.float32)
    assert matmul(a, b, out=held) is held and np.allclose(held, a @ b, atol=1e-5)
    assert matmul(a.numpy(), b.numpy(), out=out) is out
    torch.testing.assert_close(out, a @ b)
    both = tilec.compile(BOTH)
    x, first, second = torch.arange(3.0), torch.zeros(3), torch.zeros(3)
    for _ in range(2):
        results = both(x, out=[first, second])
        assert results[0] is first and results[1] is second and second.tolist() == [0, 2, 4]
    assert both(x, out=(first, np.zeros(3, np.float32)))[0] is first
    reverse = tilec.compile(REVERSE)
    assert reverse(x, out=x).tolist() == [2, 1, 0]


def test_what_out_may_not_be(matmul, reverse, jnp):
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    for _ in range(2):
        with pytest.raises(ValueError, match="out= for C requires grad"):
            matmul(a, b, out=torch.zeros(3, 5, requires_grad=True))
        with pytest.raises(ValueError, match="out= for C is read-only"):
            reverse(a[0], out=jnp.zeros(4))
        with pytest.raises(TypeError, match="float64"):
            matmul(a, b, out=torch.zeros(3, 5, dtype=torch.float64))
        with pytest.raises(ValueError, match="`C`"):
            matmul(a, b, out=torch.zeros(3, 6))
        with pytest.raises(ValueError, match="output `C` lie at one place"):
            matmul(a, b, out=torch.zeros(1).expand(3, 5))
        with pytest.raises(ValueError, match="out= for C lies on meta"):
            matmul(a, b, out=torch.zeros(3, 5, device="meta"))
        with pytest.raises(ValueError, match="out= for C is a view that PyTorch negates"):
            reverse(a[0], out=torch.imag(torch.ones(4, dtype=torch.complex64).conj()))
    with torch.no_grad():
        leaf = torch.zeros(3, 5, requires_grad=True)
        assert matmul(a, b, out=leaf) is leaf


def test_autograd_sees_that_out_was_written(reverse):
    x, out = torch.ones(4, requires_grad=True), torch.ones(4)
    for _ in range(2):
        y = x * out
        reverse(torch.ones(4), out=out)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_tensors_that_require_grad(reverse):
    x = torch.arange(3.0, requires_grad=True)
    for _ in range(2):
        for call in (reverse, reverse.vjp):
            with pytest.raises(ValueError, match=r"A requires grad.*tilec\.torch\.function.*torch\.no_grad.*A\.detach"):
                call(x)
        with torch.no_grad():
            y = reverse(x)
            assert y.tolist() == [2, 1, 0] and not y.requires_grad
        assert reverse(x.detach()).tolist() == [2, 1, 0]
    assert reverse.emit("plan", x) == reverse.emit("plan", x.detach())


def test_views_that_are_negated_when_read(reverse):
    z = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert z.is_neg()
    for _ in range(2):
        assert reverse(z).tolist() == [-4, -2]
        assert reverse(-z).tolist() == [4, 2]


@pytest.mark.parametrize(
    "value, words",
    [
        (lambda: torch.ones(3, device="meta"), "A lies on meta"),
        (lambda: torch.ones(3).to_sparse(), "layout torch.sparse_coo.*to_dense"),
        (lambda: torch.ones(3).to_mkldnn(), "layout torch._mkldnn"),
        (lambda: torch.ones(3, dtype=torch.complex64), "complex64.*real"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), "A: "),
    ],
    ids=["meta", "sparse", "mkldnn", "complex", "nested"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_not_taken(reverse, value, words):
    reverse(torch.ones(3))
    for _ in range(2):
        for call in (reverse, reverse.vjp):
            with pytest.raises((TypeError, ValueError), match="(?s)" + words):
                call(value())


def test_tensors_of_transforms_are_refused(reverse):
    from torch._subclasses import FakeTensorMode
    reverse(torch.ones(3))
    reverse(torch.ones(3))
    with FakeTensorMode():
        with pytest.raises(TypeError, match="FakeTensor.*tilec.torch.op"):
            reverse(torch.ones(3))
    real = torch.ones(3)
    with FakeTensorMode(), pytest.raises(TypeError, match="tilec.torch.op"):
        reverse(real)                                         # the result would be one without memory
    with pytest.raises(TypeError, match="tilec.torch.op"):
        torch.func.vmap(reverse)(torch.ones(2, 3))
    with torch.device("meta"):
        assert reverse(real).tolist() == [1, 1, 1]


def test_a_tensor_that_is_not_aligned(reverse):
    x = torch.from_numpy(np.frombuffer(bytearray(17), np.float32, 4, offset=1))
    for _ in range(2):
        assert reverse(torch.arange(4.0)).tolist() == [3, 2, 1, 0]
        assert reverse(x).tolist() == [0, 0, 0, 0]


class OnDevice:
    """What an array of CuPy looks like."""
    dtype, shape = np.dtype("f4"), (3,)

    def __dlpack__(self, **_):
        raise BufferError("no")

    def __dlpack_device__(self):
        return 2, 0


def test_an_array_on_a_device(reverse):
    with pytest.raises(ValueError, match="A lies on a device"):
        reverse(OnDevice())


class Space:
    """A library with the array API, over NumPy."""
    __name__ = "space"

    class Array:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __array_namespace__(self, **_):
            return space

    def from_dlpack(self, value):
        return Space.Array(np.from_dlpack(value))


space = Space()


def test_any_library_with_the_array_api(matmul):
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for c in (matmul(Space.Array(a), Space.Array(b)), matmul(Space.Array(a), b), matmul.vjp(Space.Array(a), b)[0]):
        assert type(c) is Space.Array and (c.array == 3).all()
    out = Space.Array(np.zeros((2, 4), np.float32))
    assert matmul(a, b, out=out) is out and (out.array == 3).all()
    with pytest.raises(TypeError, match="A is of space and B of torch"):
        matmul(Space.Array(a), torch.ones(3, 4))


def test_values_and_gradients_of_torch():
    f = tilec.compile("function (X[N], W[N]) -> (L) { E = exp(X * W); L[] = +(E[i]); }")
    x, w = torch.randn(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    value, backward = f.vjp(x, w)
    dx, dw = backward(torch.tensor(2.0, dtype=torch.float64))
    e = torch.exp(x * w)
    torch.testing.assert_close(value, e.sum())
    torch.testing.assert_close(dx, 2 * e * w)
    torch.testing.assert_close(dw, 2 * e * x)
    torch.testing.assert_close(f.value_and_grad()(x, w)[1], e * w)
    torch.testing.assert_close(f.grad(wrt="W")(x, w, torch.tensor(1.0, dtype=torch.float64)), e * x)
    assert type(f.vjp(x.numpy(), w.numpy())[1](torch.tensor(1.0, dtype=torch.float64))[0]) is torch.Tensor


def test_a_package_takes_any_library(matmul, jnp, tmp_path):
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    matmul.save(tmp_path / "matmul.tilec", a, b, vjp=True)
    package = tilec.load(tmp_path / "matmul.tilec")
    assert type(package(a, b)) is torch.Tensor and (package(a, b) == 3).all()
    out = torch.zeros(2, 4)
    assert package(a, b, out=out) is out and (out == 3).all()
    value, backward = package.vjp(a, b)
    assert type(value) is torch.Tensor and (backward(torch.ones(2, 4))[0] == 4).all()
    assert type(package(a.numpy(), b.numpy())) is np.ndarray
    assert (package(jnp.ones((2, 3)), jnp.ones((3, 4))) == jnp.full((2, 4), 3.0)).all()
    with pytest.raises(ValueError, match="A requires grad"):
        package(a.requires_grad_(), b)


WITHOUT_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import torch, tilec, numpy as np
f = tilec.compile("function (X[N], S) -> (Y) { Y = X * S; }")
x = torch.tensor([1.0, 3.0, float("inf")], dtype=torch.bfloat16)
for s in (1.01, 1 / 3, 2.0 ** 127 * 1.9, 0.0, float("-inf")):
    torch.testing.assert_close(f(x, s), x * torch.tensor(s).to(torch.bfloat16), equal_nan=True)
try:
    f(x, 3.4e38 * 2)
except ValueError as fault:
    assert "does not fit in bfloat16" in str(fault)
value, backward = f.vjp(x, 2.0)
assert value.dtype is torch.bfloat16 and backward(torch.ones_like(x))[0].dtype is torch.bfloat16
g = tilec.compile("function (X[N]) -> (Y) { Y = bf16(X); }")
assert g(torch.ones(3)).dtype is torch.bfloat16
try:
    g(np.ones(4, np.float32))
except TypeError as fault:
    assert "ml_dtypes" in str(fault)
else:
    raise AssertionError
"""


def test_bfloat16_of_torch_needs_no_package():
    subprocess.run(
        [sys.executable, "-c", WITHOUT_ML_DTYPES],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_importing_tilec_imports_no_library():
    code = "import sys, tilec; assert not {'torch', 'jax', 'ml_dtypes', 'cupy'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_threads_with_tensors(matmul):
    faults = []
    def work(seed):
        a, b = torch.full((4, 5), float(seed)), torch.ones(5, 6)
        for _ in range(200):
            if not (matmul(a, b) == 5 * seed).all():
                faults.append(seed)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not faults
