"""stream=, and arrays in a GPU's memory: what the driver is asked for, by one that computes nothing (tests/fake)."""
import sys
import textwrap

import numpy as np
import pytest

import tilec
from drivers import run_beside

BEFORE = """
import contextlib, ctypes, sys, types
import numpy as np, pytest, tilec
driver = ctypes.CDLL("libcuda.so.1")

def launched():
    stream, first = ctypes.c_void_p(), ctypes.c_void_p()
    count = driver.fake_cuda_launches(ctypes.byref(stream), ctypes.byref(first))
    return count, stream.value or 0, first.value

class Array:
    '''On the GPU, of no library that is known.'''
    def __init__(self, shape, dtype="f4", address=4096, strides=None, read_only=False):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": np.dtype(dtype).str, "data": (address, read_only), "strides": strides, "version": 3}

class CupyDevice:
    def __init__(self, number):
        self.id = number
    def __enter__(self):
        cupy.gpu.append(self.id)
    def __exit__(self, *_):
        cupy.gpu.pop()

class CupyArray(Array):
    def __init__(self, *arguments, gpu=0, **named):
        super().__init__(*arguments, **named)
        self.device, about = CupyDevice(gpu), self.__cuda_array_interface__
        self.data, self.dtype = types.SimpleNamespace(ptr=about["data"][0]), np.dtype(about["typestr"])
        self.shape, self.strides = about["shape"], about["strides"]
        self.flags = types.SimpleNamespace(c_contiguous=self.strides is None)

cupy = sys.modules["cupy"] = types.ModuleType("cupy")           # as far as tilec looks
cupy.ndarray, cupy.made, cupy.now, cupy.gpu = CupyArray, [], [77], [0]

@contextlib.contextmanager
def external(stream):
    cupy.now.append(stream)
    yield
    cupy.now.pop()

def empty(shape, dtype):
    cupy.made.append((shape, np.dtype(dtype), cupy.now[-1]))
    return CupyArray(shape, dtype, 1048576 * len(cupy.made), gpu=cupy.gpu[-1])
cupy.empty, cupy.full = empty, lambda shape, value, dtype: empty(shape, dtype)
cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=cupy.now[-1]), ExternalStream=external)

MATMUL = "function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
f = tilec.compile(MATMUL, target="cuda")
A, B, C = Array((64, 64), address=4096), Array((64, 64), address=65536), Array((64, 64), address=131072)
"""


def run(script, **environment):
    run_beside("fake", [sys.executable, "-c", BEFORE + textwrap.dedent(script)], **environment)


def test_it_starts_on_the_stream_that_is_said():
    run("""
        for given, handle in [(5, 5), (0, 0), (types.SimpleNamespace(cuda_stream=6), 6), (types.SimpleNamespace(ptr=7), 7), (types.SimpleNamespace(handle=ctypes.c_void_p(8)), 8),
                              (types.SimpleNamespace(__cuda_stream__=lambda: (0, 9)), 9)]:
            before = launched()[0]
            assert f(A, B, out=C, stream=given) is C
            assert launched()[:2] == (before + 1, handle), (given, launched())
        before = launched()[0]
        assert f(B=B, A=A, out=[C]) is C and launched()[:2] == (before + 1, 0)      # the default one
        assert f({"A": A, "B": B}, out=C, stream=5) is C and launched()[1] == 5
        assert len(f._cache) == 1                                                   # one kernel for all
    """)


def test_a_library_that_is_known_makes_what_is_missing():
    run("""
        A, B = CupyArray((64, 64), address=4096), CupyArray((64, 64), address=65536)
        C = f(A, B)
        assert isinstance(C, CupyArray) and launched()[1] == 77                     # its current stream
        assert cupy.made == [((64, 64), np.dtype("f4"), 77)]
        f(A, B, stream=5)
        assert cupy.made[-1] == ((64, 64), np.dtype("f4"), 5) and launched()[1] == 5
        rows = tilec.compile("function g(X[M, K], B[K, N], T) -> (C, S) { S[i: M] = +(X[i, k]); Y[i, k: M, K] = =(X[i, k] / S[i] * T); C[i, j: M, N] = +(Y[i, k] * B[k, j]); }", target="cuda")
        made = len(cupy.made)
        C, S = rows(A, B, 2.0, stream=5)
        several = [shape for shape, _, _ in cupy.made[made:]]
        assert several[0] == () and (64, 64) in several and (64,) in several, several   # the number, the outputs, and perhaps a workspace
        made = len(cupy.made)
        rows(A, B, 3.0, stream=5)
        assert len(cupy.made) == made + 3                                           # the workspace of a stream stays
        for number, kind in ((2.0, "f4"), (np.float64(2), "f8"), (np.float32(2), "f4"), (np.array(2.0), "f8"), (np.int64(2), "i8")):
            made = len(cupy.made)
            result = rows(A, B, number)[0].__cuda_array_interface__["typestr"]
            assert cupy.made[made][:2] == ((), np.dtype(kind)) and result == ("<f8" if kind == "f8" else "<f4"), (number, cupy.made[made:])
        cut = tilec.compile("function h(X[N], S) -> (Y) { Y[i: S] = =(X[i]); }", target="cuda")
        for size in (3, 4):
            for number in (size, np.int64(size), np.int32(size), np.array(size)):
                assert cut(CupyArray((9,)), number).__cuda_array_interface__["shape"] == (size,)
    """)


def test_arrays_of_a_gpu_are_computed_with_on_it():
    run("""
        driver.fake_cuda_have(3)
        def on(gpu, place=65536):
            return CupyArray((64, 64), address=place, gpu=gpu)
        for gpu in (1, 0, 2, 1):
            made = f(on(gpu), on(gpu, 131072))
            assert made.device.id == gpu and driver.fake_cuda_device() == gpu
        assert len(f._cache) == 3
        with pytest.raises(ValueError, match="B lies on GPU 2, and another array on GPU 1: move one to the other's"):
            f(on(1), on(2))
        with pytest.raises(ValueError, match="out= for C lies on GPU 0, and another array on GPU 2"):
            f(on(2), on(2), out=on(0))
        second = tilec.compile(MATMUL, target="cuda:1")
        second(on(1), on(1))
        second(A, B, out=C)                                     # of a library that does not say: the program's GPU
        assert driver.fake_cuda_device() == 1
        with pytest.raises(tilec.Error, match="`A` lies in GPU 2's memory"):
            second(on(2), on(2))
        with pytest.raises(tilec.DeviceError, match="target `cuda:7` has no device here: 3 NVIDIA GPUs are here"):
            f(on(7), on(7))
        class Says(Array):
            def __dlpack_device__(self):
                return 2, 2
        f(Says((64, 64)), Says((64, 64), address=65536), out=Says((64, 64), address=131072))
        assert driver.fake_cuda_device() == 2
    """)


def test_kernels_in_c_know_their_gpu():
    run("""
        from tilec import _library as c
        driver.fake_cuda_have(3)
        def tensor(gpu, address=65536):
            shape = (ctypes.c_int64 * 2)(64, 64)
            made = c.DLTensor(address, c.DLDevice(2, gpu), 2, c.DLDataType(2, 32, 1), shape, None, 0)
            made.keeps = shape
            return made
        def specialised(program, gpus):
            given = (c.Argument * 2)()
            for place, name, gpu in zip(given, (b"A", b"B"), gpus):
                place.name, place.kind, place.tensor = name, c.TENSOR, ctypes.pointer(tensor(gpu))
            kernel = ctypes.c_void_p()
            return c.lib.tilec_specialize(program._handle, given, 2, None, 0, ctypes.byref(kernel)), kernel
        call = ctypes.CDLL(c.lib._name).tilec_call
        call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        def called(kernel, gpus):
            tensors = [tensor(gpu, 65536 * (k + 1)) for k, gpu in enumerate(gpus)]
            pointers = (ctypes.POINTER(c.DLTensor) * 3)(*map(ctypes.pointer, tensors))
            return call(kernel, ctypes.addressof(pointers), 2, ctypes.addressof(pointers) + 16, 1, None, None), c.lib.tilec_last_error().decode()
        status, kernel = specialised(f, (2, 2))
        assert status == 0 and called(kernel, (2, 2, 2))[0] == 0 and driver.fake_cuda_device() == 2
        status, said = called(kernel, (1, 1, 1))
        assert status != 0 and "`C` lies in GPU 1's memory" in said and "the kernel is GPU 2's" in said, said
        assert called(kernel, (2, 1, 2))[0] != 0
        assert specialised(f, (0, 1))[0] != 0 and "`B` lies in GPU 1's memory" in c.lib.tilec_last_error().decode()
        assert specialised(tilec.compile(MATMUL), (0, 0))[0] != 0 and "E0518" in c.lib.tilec_last_error().decode()
    """)


def test_threads_that_ask_for_one_kernel_compile_it_once():
    run("""
        import threading
        f = tilec.compile(MATMUL, target="cuda")
        start, before = threading.Barrier(8), driver.fake_cuda_calls(b"cuModuleLoadData")
        def call():
            start.wait()
            f(A, B, out=C)
        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert driver.fake_cuda_calls(b"cuModuleLoadData") == before + 1 and launched()[0] == 8
    """)


def test_other_processes_find_what_was_compiled(tmp_path):
    for compiler in ({}, {"TILEC_NVRTC": "/nowhere"}):
        run("assert f(A, B, out=C) is C and launched()[0] == 1", TILEC_CACHE=str(tmp_path), **compiler)


def test_mistakes_are_named():
    run("""
        def refused(kind, words, call):
            before = launched()[0]
            with pytest.raises(kind, match=words):
                call()
            assert launched()[0] == before
        host = np.ones((64, 64), "f4")
        refused(TypeError, "the output C has to be made on the GPU.*give out=", lambda: f(A, B))
        refused(ValueError, "B lies in the memory of the CPU", lambda: f(A, host, out=C))
        refused(ValueError, "stream= is for arrays in the GPU's memory", lambda: f(host, host, stream=5))
        refused(ValueError, "out= for C is no array of .* in the GPU's memory", lambda: f(A, B, out=host, stream=5))
        refused(ValueError, "out= for C is read-only", lambda: f(A, B, out=Array((64, 64), address=131072, read_only=True)))
        refused(ValueError, r"out= for C is float64 \\[64, 64\\], but the program gives float32 \\[64, 64\\]", lambda: f(A, B, out=Array((64, 64), "f8", 131072)))
        refused(ValueError, "out= for C is float32 .4096.", lambda: f(A, B, out=Array((4096,), address=131072)))
        refused(ValueError, "out= has 2 arrays, the program has 1 output", lambda: f(A, B, out=[C, C]))
        refused(ValueError, "A has strides that are no multiples", lambda: f(Array((64, 64), strides=(4, 258)), B, out=C))
        refused(TypeError, "A: element type complex64", lambda: f(Array((64, 64), "c8"), B, out=C))
        refused(TypeError, "A is of CuPy and another|B is of this library and another array of CuPy", lambda: f(CupyArray((64, 64)), B, out=C))

        refused(tilec.ShapeError, "E0202|E0517", lambda: f(A, Array((32, 64)), out=C))
        refused(ValueError, "shares memory", lambda: f(A, B, out=A))
        refused(TypeError, "missing: B", lambda: f(A, out=C, stream=5))
        for bad, kind in [("five", TypeError), (True, TypeError), (-1, ValueError), (1.5, TypeError)]:
            refused(kind, "stream= is", lambda: f(A, B, out=C, stream=bad))
        sized = tilec.compile("function g(A[N], K) -> (C) { C[i: N] = +(A[i + k]), k < K; }", target="cuda")
        assert sized(Array((64,)), 3, out=Array((64,), address=65536), stream=5) is not None
        assert sized(Array((64,)), 4, out=Array((64,), address=65536), stream=5) is not None and len(sized._cache) == 2
    """)


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_other_targets_have_none(target):
    f = tilec.compile("function f(X[N]) -> (Y) { Y = X; }", target=target)
    with pytest.raises(ValueError, match="stream= is for programs of target cuda, and f is compiled for %s" % target):
        f(np.ones(3), stream=5)
    assert f(np.ones(3), stream=None).shape == (3,)


def test_packages_have_none(tmp_path):
    f, x = tilec.compile("function f(X[N]) -> (Y) { Y = X; }"), np.ones(3)
    f.save(tmp_path / "f.tilec", x)
    package = tilec.load(tmp_path / "f.tilec")
    with pytest.raises(TypeError, match="stream=: a package takes arrays of the host.*target=\"cuda\""):
        package(x, stream=5)
