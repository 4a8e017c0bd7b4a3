"""Calls of a kind that was met before, which C finds and runs: they say and do what the first one did."""
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import tilec

ADD = "function (A[N], B[N]) -> (C) { C = A + B; }"
TWO = "function (A[N], S) -> (P, Q) { P = A * S; Q = A - S; }"


def met(f):
    """How many calls of a program C has found."""
    return sum(tilec._library.python.tilec_python_calls_used(f._calls.handle, number) for number in f._calls._known)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, np.int8, np.uint64, np.bool_])
@pytest.mark.parametrize(
    "shape, cut", [((5,), np.s_[:]), ((9,), np.s_[::-2]), ((0,), np.s_[:]), ((4, 6), np.s_[1:, ::2])]
)
def test_a_known_call_gives_what_the_first_one_gave(kind, shape, cut):
    f = tilec.compile(
        "function (A, B) -> (C) { C = A + B; }" if kind is not np.bool_ else "function (A, B) -> (C) { C = A == B; }"
    )
    for seed in range(4):
        draw = np.random.default_rng(seed)
        a, b = (draw.integers(0, 2, shape).astype(kind)[cut] for _ in range(2))
        np.testing.assert_array_equal(f(a, b), a + b if kind is not np.bool_ else a == b)
    assert met(f) == 3


def test_what_a_kind_depends_on():
    f = tilec.compile(ADD)
    a = np.arange(24, dtype=np.float32)
    kinds = [
        a[:6],
        a[6:12],
        a[:12:2],
        a[5::-1],
        a[:7],
        a[:6].astype(np.float64),
        a[:6].astype(np.int32),
        np.broadcast_to(a[3], 6),
    ]
    for _ in range(3):
        for x in kinds:
            for y in (x, x[::-1]):
                np.testing.assert_array_equal(f(x, y), x + y)


def test_an_element_type_that_goes_leaves_its_address_to_none():
    f = tilec.compile(ADD)
    # each array has an element type of its own, which lies where an earlier one lay
    for k in range(200):
        order = "<" if k % 2 else ">"
        a = np.frombuffer(np.arange(4, dtype=order + "f4").tobytes(), np.dtype(order + "f4", metadata={"k": k}))
        if order == "<":
            assert f(a, a).tolist() == [0, 2, 4, 6]
        else:
            with pytest.raises(TypeError, match="big-endian"):
                f(a, a)
        del a


def test_more_kinds_than_are_kept():
    f = tilec.compile(ADD)
    for _ in range(3):
        for n in range(1, 40):
            np.testing.assert_array_equal(f(np.ones(n), np.arange(n)), 1.0 + np.arange(n))


def test_floats_and_several_results():
    f = tilec.compile(TWO)
    a = np.arange(5, dtype=np.float32)
    for s in (2.0, -0.5, 1e30, 1e-50, 3.0):
        p, q = f(a, s)
        np.testing.assert_array_equal(p, a * np.float32(s))
        np.testing.assert_array_equal(q, a - np.float32(s))
    assert met(f) == 4
    with pytest.raises(ValueError, match="S: 1e[+]300 does not fit in float32"):
        f(a, 1e300)
    for s in (2, True, np.float32(2), np.array(2.0, np.float32)):
        np.testing.assert_array_equal(f(a, s)[0], a * np.float32(s))


def test_results_are_the_callers_alone():
    f, g = tilec.compile(ADD), tilec.compile(TWO)
    a = np.arange(5, dtype=np.float32)
    for make in (lambda: f(a, a), lambda: g(a, 2.0)):
        make()
        counts = [sys.getrefcount(part) for part in (make() if make()[0].shape else (make(),))]
        assert all(count <= 3 for count in counts), counts
        before = sys.getrefcount(a)
        for _ in range(100):
            make()
        assert sys.getrefcount(a) == before


def test_out_is_given_back_and_written():
    f, g = tilec.compile(ADD), tilec.compile(TWO)
    a, c, p, q = np.arange(5.0), np.empty(5), np.empty(5), np.empty(5)
    for k in range(4):
        c[:] = -1
        assert f(a, a, out=c if k % 2 else (c,)) is c
        np.testing.assert_array_equal(c, 2 * a)
        made = g(a, 2.0, out=(p, q))
        assert made[0] is p and made[1] is q
        np.testing.assert_array_equal(q, a - 2)
        f(a, a, out=a[:])                                     # shares memory with the inputs
        np.testing.assert_array_equal(a, 2.0 ** (k + 1) * np.arange(5))


def test_what_was_refused_stays_refused():
    f = tilec.compile(ADD)
    a, out = np.ones(5), np.empty(5)
    for _ in range(3):
        f(a, a), f(a, a, out=out)
        fixed = np.empty(5)
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match="out= for C is read-only"):
            f(a, a, out=fixed)
        np.testing.assert_array_equal(f(fixed * 0 + 1, a), 2 * a)
        for bad in ((), (out, out), [out, out]):
            with pytest.raises(ValueError, match="the program has 1 output"):
                f(a, a, out=bad)
        with pytest.raises(TypeError):
            f(a, "text")
        with pytest.raises(TypeError, match="missing: B"):
            f(a)
        with pytest.raises(ValueError, match="`N` is 5"):
            f(a, np.ones(6))


def test_an_address_that_no_element_has_is_copied():
    f = tilec.compile(ADD)
    a = np.arange(4, dtype=np.float32)
    odd = np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned
    for _ in range(3):
        np.testing.assert_array_equal(f(a, a), 2 * a)
        np.testing.assert_array_equal(f(odd, a), 2 * a)


def test_other_objects_are_looked_at_the_long_way():
    class Mine(np.ndarray):
        pass
    f = tilec.compile(ADD)
    a = np.arange(4, dtype=np.float32)
    foreign = a.astype(">f4")
    for _ in range(3):
        for x in (a, a.view(Mine), memoryview(a), list(a.tolist()), np.matrix(a).A1):
            np.testing.assert_array_equal(f(x, a), 2 * a)
        with pytest.raises(TypeError, match="big-endian"):
            f(foreign, a)
        with pytest.raises(TypeError, match="masks"):
            f(np.ma.masked_array(a, a > 1), a)


def test_numbers_that_are_compiled_in():
    f = tilec.compile("function (A[N], K) -> (O) { O[i: N/K] = +(A[K*i + j]), j < K; }")
    a = np.arange(12.0)
    for _ in range(3):
        for k in (2, 3, 4, np.array(6)):
            np.testing.assert_array_equal(f(a, k), a.reshape(-1, int(k)).sum(1))


def test_gather_out_of_range_is_said_each_time():
    f = tilec.compile("function (X[N], I[M]) -> (O) { O = gather(X, I); }", checked=True)
    x, good, bad = np.arange(5.0), np.array([1, 4]), np.array([1, 5])
    for _ in range(3):
        np.testing.assert_array_equal(f(x, good), x[good])
        with pytest.raises(tilec.ShapeError, match="5"):
            f(x, bad)


def test_a_package(tmp_path):
    a = np.arange(5.0)
    tilec.compile(TWO).save(tmp_path / "two.tilec", a, 2.0)
    two = tilec.load(tmp_path / "two.tilec")
    out = np.empty(5), np.empty(5)
    for k in range(4):
        np.testing.assert_array_equal(two(a + k, float(k))[0], (a + k) * k)
        np.testing.assert_array_equal(two(a, 2)[0], a * 2)
        np.testing.assert_array_equal(two(np.arange(10.0)[::2], 2.0)[0], np.arange(0, 10.0, 2) * 2)
        assert two(a, float(k), out=out)[1] is out[1] and out[1].tolist() == (a - k).tolist()
        with pytest.raises(ValueError):
            two(np.ones(6), 2.0)
        with pytest.raises(TypeError):
            two(a.astype(np.float32), 2.0)
        with pytest.raises(ValueError, match="strided"):
            two(a, 2.0, out=(np.empty(10)[::2], np.empty(5)))
    assert met(two) > 3


def test_threads():
    f = tilec.compile(ADD, threads=1)
    wrong = []

    def work(seed):
        draw = np.random.default_rng(seed)
        for _ in range(400):
            # more kinds than are kept, so that tables change while others look
            n = int(draw.integers(1, 24))
            a, b = draw.random(n), draw.random(n)
            if not np.array_equal(f(a, b), a + b) or not np.array_equal(f(a, b, out=np.empty(n)), a + b):
                wrong.append(n)
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_other_threads_run_meanwhile():
    """The kernel runs without the GIL: a thread that counts goes on."""
    f = tilec.compile("function (A[N, N], B[N, N]) -> (C) { C[i, j: N, N] = +(A[i, k] * B[k, j]); }", threads=1)
    a = np.ones((900, 900))
    f(a, a)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
    worker = threading.Thread(target=count)
    worker.start()
    before = counted[0]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1)                                  # a thread that holds the GIL keeps it
    try:
        f(a, a)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        worker.join()
    assert counted[0] > before


def test_memory_goes():
    f = tilec.compile(ADD)
    a = np.ones(1 << 20)
    for _ in range(300):                                      # 2.4 GB
        f(a, a)
    gc.collect()
    import resource
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3 << 20


def test_a_program_that_goes_takes_its_calls_along():
    script = "import numpy as np, tilec\na = np.ones(3)\nfor k in range(50):\n    f = tilec.compile('function (A[N]) -> (C) { C = A + %d.0; }' % k, target='reference')\n    f(a), f(a)\n    del f\nprint('done')"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300).stdout == "done\n"
    )


def test_another_python(monkeypatch):
    """Where objects do not lie as they do in CPython, nothing is found, and all goes the long way."""
    monkeypatch.setattr(tilec._again, "_call", tilec._again._unknown)
    f, a = tilec.compile(ADD), np.ones(3)
    assert [f(a, a).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    assert met(f) == 0


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
    def test_a_known_call_gives_what_the_first_one_gave(self, dtype):
        torch = self.torch
        f = tilec.compile("function (A, B) -> (C) { C = %s; }" % ("A + B" if dtype != "bool" else "A == B"))
        for seed in range(4):
            a, b = (
                torch.randint(0, 2, (4, 6), generator=torch.Generator().manual_seed(seed + k))
                .to(getattr(torch, dtype))[:, ::2]
                .T
                for k in range(2)
            )
            assert torch.equal(f(a, b), a + b if dtype != "bool" else a == b)
        # the first tensor of a process makes tilec's acquaintance only
        assert met(f) >= 2

    def test_what_autograd_follows_stays_refused(self):
        torch = self.torch
        f = tilec.compile(ADD)
        a, w = torch.ones(3), torch.nn.Parameter(torch.ones(3))
        for _ in range(3):
            with torch.no_grad():
                assert torch.equal(f(a, w), torch.full((3,), 2.0))
            with pytest.raises(ValueError, match="B requires grad"):
                f(a, w)
            with pytest.raises(ValueError, match="out= for C requires grad"):
                f(a, a, out=w)
            with torch.inference_mode():
                assert torch.equal(f(a, a), torch.full((3,), 2.0))

    def test_out_is_noted_by_autograd(self):
        torch = self.torch
        f = tilec.compile(ADD)
        a, out = torch.ones(3), torch.empty(3)
        for _ in range(3):
            before = out._version
            assert f(a, a, out=out) is out
            assert out._version > before

    def test_views_that_are_negated(self):
        torch = self.torch
        f = tilec.compile(ADD)
        a, z = torch.ones(3), torch.complex(torch.ones(3), torch.ones(3))
        for _ in range(3):
            assert torch.equal(f(a, z.conj().imag), torch.zeros(3))
            assert torch.equal(f(a, z.imag), torch.full((3,), 2.0))

    def test_tensors_without_memory(self):
        torch = self.torch
        from torch._subclasses import FakeTensorMode
        f = tilec.compile(ADD)
        a, empty = torch.ones(3), torch.ones(0)
        for _ in range(3):
            f(a, a)
            assert f(empty, empty).shape == (0,)
            with pytest.raises((TypeError, ValueError)):
                f(a.to("meta"), a)
            with pytest.raises(TypeError, match="op"):
                torch.func.vmap(lambda x: f(x, a))(torch.ones(2, 3))
            with FakeTensorMode() as mode, pytest.raises(TypeError):
                f(mode.from_tensor(a), a)

    def test_beside_arrays_of_numpy(self):
        torch = self.torch
        f = tilec.compile(ADD)
        t, n = torch.ones(3), np.full(3, 2.0, np.float32)
        for _ in range(3):
            for x, y in ((t, n), (n, t), (t, t)):
                made = f(x, y)
                assert isinstance(made, torch.Tensor) and torch.equal(made, torch.as_tensor(x) + torch.as_tensor(y))
            assert isinstance(f(n, n), np.ndarray)
            out = np.empty(3, np.float32)
            assert f(t, n, out=out) is out and out.tolist() == [3.0] * 3

    def test_what_pytorch_traces_is_refused(self):
        torch = self.torch
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils.flop_counter import FlopCounterMode
        program = tilec.compile("function square(X[N]) -> (Y) { Y = X * X; }")
        x, function = torch.arange(1.0, 4.0), tilec.torch.function(program)
        traces = [
            lambda f: make_fx(f)(x),
            lambda f: make_fx(f, pre_dispatch=True)(x),
            lambda f: make_fx(f, tracing_mode="fake")(x),
            lambda f: torch.func.linearize(f, x),
            lambda f: torch.jit.trace(lambda x: f(x), (x,)),
        ]
        for _ in range(3):
            for f in (program, function):
                assert torch.equal(f(x), x * x)
                for trace in traces:
                    with pytest.raises(TypeError, match=r"tilec\.torch\.op\(program\)"):
                        trace(f)
                with FlopCounterMode(display=False):          # a mode that looks on only
                    assert torch.equal(f(x), x * x)
            with pytest.raises(TypeError, match=r"tilec\.torch\.op\(program\)"):
                make_fx(lambda x: program(x, out=torch.empty(3)))(x)
        w = x.clone().requires_grad_()
        with pytest.raises(TypeError, match=r"tilec\.torch\.op\(program\)"):
            make_fx(lambda w: torch.autograd.grad(function(w).sum(), w))(w)
        assert met(program) > 0

    def test_what_forward_mode_follows_is_refused(self):
        torch = self.torch
        from torch.autograd import forward_ad
        f = tilec.compile(ADD)
        a, b = torch.ones(3), torch.ones(3)
        for _ in range(3):
            assert torch.equal(f(a, b), a + b)
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(a, b)
                assert torch.equal(f(a, b), a + b)
                with pytest.raises(ValueError, match="B has a tangent"):
                    f(a, dual)
                with pytest.raises(ValueError, match="out= for C has a tangent"):
                    f(a, b, out=forward_ad.make_dual(a.clone(), b))
                with torch.no_grad(), pytest.raises(ValueError, match="B has a tangent"):
                    f(a, dual)
                with torch.inference_mode():
                    assert torch.equal(f(a, dual), a + b)
                assert torch.equal(f(a, forward_ad.unpack_dual(dual).primal), a + b)

    @pytest.mark.parametrize("known", [False, True])
    @pytest.mark.parametrize("cut, left", [(np.s_[:3], 0), (np.s_[2:5], 0), (np.s_[4:5], 0), (np.s_[2:5], 4)])
    def test_tensors_whose_memory_was_freed(self, cut, left, known):
        torch = self.torch
        f = tilec.compile(ADD)
        x = torch.arange(5.0)
        gone, like = x[cut], torch.arange(5.0)[cut]
        for _ in range(3 if known and not left else 0):       # C sees that there is no memory, not how much there is
            f(like, like)
        x.untyped_storage().resize_(left)
        for _ in range(2):
            with pytest.raises(TypeError, match="B: its memory was freed"):
                f(like, gone)
            with pytest.raises(TypeError, match="out= for C: its memory was freed"):
                f(like, like, out=gone)
