"""Tensors of PyTorch in a GPU's memory: values on a simulated GPU, and what the driver is asked for by one that computes nothing. PyTorch is the one of
the CPU here, whose tensors say otherwise (torch_on_gpu.py)."""
import pathlib
import sys
import textwrap

import pytest

pytest.importorskip("torch")

from drivers import run_beside

BEFORE = """
import sys
sys.path.insert(0, %r)
import torch_on_gpu
import ctypes
import numpy as np, pytest, torch, tilec
close = torch.testing.assert_close
MATMUL = "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
ROWS = "function rows(X[M, N]) -> (Y) { S[j: N] = +(X[i, j]); T[i: M] = +(X[i, j] * S[j]); Y[i, j: M, N] = =(X[i, j] * T[i] + S[j]); }"
f = tilec.compile(MATMUL, target="cuda")
A, B = torch.rand(30, 20), torch.rand(20, 17)
""" % str(pathlib.Path(__file__).parent)
SIMULATED = """
torch_on_gpu.run_at_once()
rows, X = tilec.compile(ROWS, target="cuda"), torch.rand(30, 20)
of_rows = X * (X * X.sum(0)).sum(1, keepdim=True) + X.sum(0)
big = torch.rand(70, 50)
def moved(tensor):
    '''The same, four bytes behind an address that a kernel takes.'''
    memory = torch.empty(tensor.numel() + 1)[1:].view(tensor.shape)
    return memory.copy_(tensor)
"""


def run(driver, script, **environment):
    before = BEFORE + (SIMULATED if driver == "simulated" else "")
    run_beside(driver, [sys.executable, "-c", before + textwrap.dedent(script)], **environment)


GPUS = pytest.mark.parametrize("gpu", ["sm_80", "sm_90a"])


@GPUS
def test_tensors_of_any_strides_and_addresses(gpu):
    run("simulated", """
        for _ in range(3):                                                          # the second is found in C
            for a, b in [(A, B), (A.t().contiguous().t(), B), (A, B.t().contiguous().t()), (big[1:61:2, 8:28], B), (A[:1].expand(30, 20), B),
                         (moved(A), B), (big[1:31, 3:23], moved(B)), (big[:30, 1:2].expand(30, 20), B)]:
                close(f(a, b), a @ b)
            for out in [torch.empty(30, 17), torch.empty(17, 30).t(), big[7:37, 4:21], big[7:37, 3:20], moved(torch.zeros(30, 17)), moved(torch.zeros(17, 30)).t()]:
                around = big.sum() - out.sum()
                assert f(A, B, out=out) is out
                close(out, A @ B)
                if out._base is big:
                    close(big.sum() - out.sum(), around, rtol=1e-4, atol=1e-4)      # nothing else was written
            close(rows(X), of_rows)
        assert len(f._calls._known) <= 16
        narrow = tilec.compile("function n(bf16 X[M, N], bf16 B[N]) -> (bf16 Y) { Y[i, j: M, N] = =(bf16(f32(X[i, j]) + f32(B[j]))); }", target="cuda")
        narrow = narrow.with_plan("group Y  threads 128\\n  map Y  over i  m j  block 8x1  lanes 128\\n")
        halves = torch.rand(1024, dtype=torch.bfloat16)
        for x, b, y in [(0, 0, 0), (1, 0, 0), (8, 4, 0), (0, 8, 2)]:                # neighbours that are one access where all begin at multiples
            x, b, y = halves[x:][:480].view(10, 48), halves[b:][:48], torch.zeros(512, dtype=torch.bfloat16)[y:][:480].view(10, 48)
            close(narrow(x, b, out=y), x + b)
        for m, k, n in [(0, 4, 5), (3, 0, 5), (3, 4, 0)]:                           # without elements
            for a in (torch.rand(m, k), torch.rand(k, m).t()):
                for _ in range(2):
                    close(f(a, torch.rand(k, n)), torch.zeros(m, n))
                out = torch.ones(n, m).t()
                close(f(a, torch.rand(k, n), out=out), torch.zeros(m, n))
    """, SIMULATED_GPUS=gpu)


@GPUS
def test_autograd(gpu):
    run("simulated", """
        function, op = tilec.torch.function(f), tilec.torch.op(f, "gpu::mm")
        for call in (function, op, op.overload):
            for a, b in [(A, B), (A.t().contiguous().t(), B), (moved(A), moved(B)), (A, moved(torch.rand(17, 20)).t())]:
                a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
                for seed in (torch.rand(30, 17), torch.rand(17, 30).t(), moved(torch.rand(30, 17))):
                    close(torch.autograd.grad(call(a, b), (a, b), seed), torch.autograd.grad(a @ b, (a, b), seed))
            close(torch.func.vmap(call, (0, None))(torch.stack([A, 2 * A]), B), torch.stack([A, 2 * A]) @ B)
            close(torch.func.jvp(lambda a: call(a, B), (A,), (A,))[1], A @ B)
        x, y = torch.rand(4, 3, requires_grad=True), torch.rand(3, 5, requires_grad=True)
        def second(product):
            first, = torch.autograd.grad(product(x, y).pow(3).sum(), x, create_graph=True)
            return torch.autograd.grad(first.sum(), y)[0]
        close(second(function), second(torch.mm))
        scale = tilec.torch.function(tilec.compile("function s(X, S) -> (Y, Z) { Y = X * S; Z = X + S; }", target="cuda"))
        a = A.clone().requires_grad_()
        y, _ = scale(a, 3.0)                                                        # a number, and an output without a cotangent
        close(torch.autograd.grad(y.sum(), a)[0], torch.full_like(A, 3))
    """, SIMULATED_GPUS=gpu)


def test_what_vjp_gives():
    run("simulated", """
        for a in (A, A.t().contiguous().t(), moved(A)):
            C, back = f.vjp(a, B)
            close(C, A @ B)
            for seed in (torch.rand(30, 17), torch.rand(17, 30).t(), moved(torch.rand(30, 17))):
                close(back(seed), (seed @ B.t(), A.t() @ seed))
        with pytest.raises(tilec.ShapeError, match=r"dC is \\[30, 17\\] but is given \\[17, 30\\]"):
            back(torch.rand(17, 30))
        with pytest.raises(tilec.ArgumentTypeError, match="dC is float32 but is given float64"):
            back(torch.rand(30, 17, dtype=torch.float64))
        Y, back = rows.vjp(X)
        x = X.clone().requires_grad_()
        close(Y, of_rows)
        close(back(torch.ones_like(Y)), torch.autograd.grad((x * (x * x.sum(0)).sum(1, keepdim=True) + x.sum(0)).sum(), x)[0], rtol=1e-4, atol=1e-3)
        X.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            back(torch.ones_like(Y))
    """)


def test_results_are_added():
    run("simulated", """
        for _ in range(2):
            for out in [torch.rand(30, 17), torch.rand(17, 30).t(), big[7:37, 3:20], moved(torch.rand(30, 17))]:
                want = out + A @ B
                assert f(A, B, out=out, accumulate=True) is out
                close(out, want)
            out = torch.rand(30, 20)
            want = out + of_rows
            close(rows(X, out=out, accumulate="Y"), want)                           # beside a workspace
        with pytest.raises(TypeError, match="give them as out="):
            f(A, B, accumulate=True)
    """)


def test_a_call_that_was_met_is_one_launch_on_pytorchs_stream():
    run("fake", """
        driver = ctypes.CDLL("libcuda.so.1")
        def launched():
            stream, first = ctypes.c_void_p(), ctypes.c_void_p()
            return driver.fake_cuda_launches(ctypes.byref(stream), ctypes.byref(first)), stream.value or 0
        f(A, B)
        found = []
        f._run = lambda *arguments: found.append(arguments)
        for stream in (0, 7, 8):
            torch_on_gpu.STREAM.append(stream)
            before, loaded = launched()[0], driver.fake_cuda_calls(b"cuMemcpyHtoD_v2")
            C = f(A, B)
            assert C.shape == (30, 17) and launched() == (before + 1, stream) and driver.fake_cuda_calls(b"cuMemcpyHtoD_v2") == loaded and not found
        f(A, torch.rand(20, 18))
        f(A.t().contiguous().t(), B)
        assert len(found) == 2                                                      # other shapes, other strides

        rows = tilec.compile(ROWS, target="cuda")                                   # needs memory of its own, for each stream
        X = torch.rand(30, 20)
        torch_on_gpu.STREAM.append(1)
        assert rows(X).shape == X.shape and len(rows._cache) == 1
        kernel, = rows._cache.values()
        assert kernel.workspace_bytes > 0 and [stream for _, stream in kernel.workspaces] == [1]
        torch_on_gpu.STREAM.append(2)
        rows(X), rows(X)
        assert [stream for _, stream in kernel.workspaces] == [1, 2] and len(rows._calls._known) == 2 and launched()[1] == 2
        torch_on_gpu.STREAM.append(3)
        torch_on_gpu.CAPTURES.append(True)
        rows(X)
        assert [stream for _, stream in kernel.workspaces] == [1, 2] and launched()[1] == 3
    """)


def test_numbers_have_the_type_they_are_given():
    run("simulated", """
        scale = tilec.compile("function s(X, S) -> (Y) { Y = X * S; }", target="cuda")
        for call in (scale, tilec.torch.function(scale)):
            for number, kind in ((2.0, torch.float32), (np.float64(2), torch.float64), (np.array(2.0), torch.float64), (torch.tensor(2.0), torch.float32)):
                for a in (A, A.clone().requires_grad_()):
                    if a.requires_grad and call is scale:
                        continue
                    Y = call(a, number)
                    assert Y.dtype is kind
                    close(Y, (A * 2).to(kind))
        for number in (0.0, -0.0, 0.0, 3, True, *range(66), 0.0):                  # those that were met are kept there
            Y = scale(A, number)
            close(Y, A * number)
            assert bool(torch.signbit(Y).any()) == (str(number) == "-0.0")
        assert len(tilec._libraries.of_torch().on_gpu._numbers) == 64
        cut = tilec.compile("function h(X[N], S) -> (Y) { Y[i: S] = =(X[i]); }", target="cuda")
        for size in (3, 4, np.int64(5)):
            close(cut(A[0], size), A[0, :size])
    """)


def test_mistakes_are_named():
    run("fake", """
        for method in (f.tune, f.profile):
            with pytest.raises(ValueError, match="takes arrays of the host, and A lies on a GPU"):
                method(A, B)
        with pytest.raises(ValueError, match="takes arrays of the host, and A lies on a GPU"):
            f.save("nowhere", A, B)
        assert f.stats(A, B).launches and f.plan(A.t().contiguous().t(), B)
        cpu = tilec.compile(MATMUL)
        recorded = A.clone().requires_grad_()
        for call in (cpu, tilec.torch.function(cpu)):
            with pytest.raises(ValueError, match=r'A lies on cuda:0.*tilec.compile\\(…, target="cuda"\\)'):
                call(A if call is cpu else recorded, B)
        for call in (f, tilec.torch.function(f)):
            with pytest.raises(ValueError, match="B lies in the memory of the CPU"):
                call(A if call is f else recorded, np.ones((20, 17), "f4"))
        with pytest.raises(ValueError, match="A requires grad"):
            f(recorded, B)
        with pytest.raises(ValueError, match=r"out= for C is float32 \\[3, 3\\], but the program gives float32 \\[30, 17\\]"):
            f(A, B, out=torch.empty(3, 3))
        with pytest.raises(ValueError, match="out= has 2 arrays, the program has 1 output"):
            f(A, B, out=[A, A])
        with pytest.raises(ValueError, match="shares memory"):
            f(torch.rand(17, 17), B[:17], out=B[:17])
        checked = tilec.compile("function (X[N], i32 I[M]) -> (Y) { Y = gather(X, I); }", target="cuda", checked=True)
        with pytest.raises(ValueError, match="more than run on its device"):
            checked(torch.rand(5), torch.zeros(3, dtype=torch.int32))
    """)


def test_a_kernel_of_strided_tensors_there_takes_none_of_the_host():
    run("fake", """
        from tilec import _library as c
        f(A.t().contiguous().t(), B)
        kernel, = f._cache.values()
        ins, outs = (ctypes.c_void_p * 2)(A.data_ptr(), B.data_ptr()), (ctypes.c_void_p * 1)(A.data_ptr())
        assert c.lib.tilec_kernel_run(kernel.handle, ins, outs) != 0 and "strided tensors on its device" in c.lib.tilec_last_error().decode()
        buffer = ctypes.c_void_p()
        assert c.lib.tilec_xla_text(kernel.handle, ctypes.byref(buffer)) == 0
        assert c.taken(buffer).startswith(b"process ")                              # not a package, which would not say where they lie
        host = np.ones((20, 30), "f4").T
        f(host, B.numpy())                                                          # of the host, packed on the way
        assert len(f._cache) == 2
    """)


def test_divisors_leave_no_range():
    """A sum multiplies by reciprocals of what it divides by: terms stay in the range of f32, and are infinite or NaN, where the text's are."""
    run("simulated", """
        twice = tilec.compile("function s(X[M, N], Z[M]) -> (S) { S[i: M] = +(X[i, j] * X[i, j] / Z[i] / Z[i]); }", target="cuda")
        once = tilec.compile("function s(X[M, N], Z[M]) -> (S) { S[i: M] = +(X[i, j] / Z[i]); }", target="cuda")
        mean = tilec.compile("function s(X[M, N], Z[M]) -> (S) { S[i: M] = +(X[i, j] * X[i, j] / N); }", target="cuda")
        N, inf = 515, float("inf")
        kinds = [(1, 1), (1e18, 3e38), (1e-18, 1e-30), (1e-41, 1e-42), (1e-38, 3e-39), (1e38, 1e38), (1e19, 1), (1, 0), (0, 0), (1, inf), (inf, 1), (inf, inf), (1, float("nan"))]
        X = torch.stack([(torch.rand(N) + 0.5) * x if 0 < x < inf else torch.full((N,), float(x)) for x, _ in kinds])
        Z = torch.tensor([z for _, z in kinds])
        for program, terms in (once, lambda x, z: x / z), (twice, lambda x, z: x * x / z / z), (mean, lambda x, z: x * x / N):
            each, exact = terms(X, Z[:, None]), terms(X.double(), Z.double()[:, None])
            rounded = (each.double() - exact).abs().nan_to_num(0, 0, 0).sum(1)          # where the text itself leaves the range
            found, right = program(X, Z).double(), exact.sum(1)
            of_text = each.double().sum(1).float().double()
            assert torch.equal(found.isnan(), of_text.isnan()) and torch.equal(found.isinf(), of_text.isinf()), (found, of_text)
            fits = of_text.isfinite()
            assert ((found - right).abs() <= 8 * 2.0 ** -23 * exact.abs().sum(1) + 2 * rounded + N * 2.0 ** -149)[fits].all(), (found, right)
    """, SIMULATED_GPUS="sm_90a")
