"""PyTorch without CUDA whose tensors say that they lie on cuda:0, where tilec asks: their memory is the host's, which the drivers of tests/fake and
tests/simulated take as well as their own. For a process that finds such a driver (drivers.py); `wait` is for the simulated one, which runs launches
when something waits for them.

Not so: dispatch. PyTorch runs its own operations on these tensors as it does on the CPU, and so it does operators of tilec.
"""

import ctypes

import torch
import torch._decomp.decompositions_for_jvp                    # these two look at what is changed here
import torch._dynamo

STREAM = [0]                                                  # that PyTorch is at
CAPTURES = [False]                                            # does it write a graph down?


class _Api(ctypes.Structure):
    """DLPackExchangeAPI"""
    _fields_ = [(name, ctypes.c_void_p) for name in ("version", "previous", "allocate", "managed", "take", "tensor", "stream")]


def _says_gpu() -> None:
    python, name, kind = ctypes.pythonapi, b"dlpack_exchange_api", torch.Tensor
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    theirs = _Api.from_address(python.PyCapsule_GetPointer(kind.__dlpack_c_exchange_api__, name))
    look = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    tell = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    looks_there = look(theirs.tensor)

    def tensor(value, made):
        result = looks_there(value, made)
        device = (ctypes.c_int32 * 2).from_address(made + ctypes.sizeof(ctypes.c_void_p))
        device[0], device[1] = 2, 0                           # kDLCUDA
        return result

    def stream(_kind, _gpu, made):
        made[0] = STREAM[-1]
        return 0

    mine = _Api.from_buffer_copy(theirs)
    keeps = kind.tilec_keeps = look(tensor), tell(stream), mine
    mine.tensor, mine.stream = (ctypes.cast(each, ctypes.c_void_p).value for each in keeps[:2])
    kind.__dlpack_c_exchange_api__ = python.PyCapsule_New(ctypes.addressof(mine), name, None)
    kind.is_cuda, kind.is_cpu = property(lambda self: True), property(lambda self: False)
    kind.get_device = lambda self: 0
    kind.device = property(lambda self: torch.device("cuda", 0))


def _without_device(make):
    def made(*arguments, device=None, **named):
        return make(*arguments, **named)
    return made


_says_gpu()
for _name in ("empty", "full", "zeros", "empty_strided"):
    setattr(torch, _name, _without_device(getattr(torch, _name)))
torch._C._cuda_getCurrentRawStream = lambda gpu: STREAM[-1]
torch.cuda.is_current_stream_capturing = lambda: CAPTURES[-1]

import tilec
from tilec import _again, _library


def _waiting(run):
    def waits(*arguments):
        made = run(*arguments)
        wait()
        return made
    return waits


def run_at_once() -> None:
    """Every call waits, so that what it writes can be read."""
    _again._call = _waiting(_again._call)
    _library.lib.tilec_kernel_run_on = _waiting(_library.lib.tilec_kernel_run_on)


def wait() -> None:
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    status = driver.cuCtxSynchronize()
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    driver.cuDevicePrimaryCtxRelease_v2(0)
    if status:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(text.value.decode())
