"""The handlers that XLA calls, called as XLA does on a GPU: by a GPU that computes nothing (tests/fake), and an XLA
that is a few functions here."""
import json
import os
import subprocess
import sys

import pytest

from test_ahead_cuda import FAKE

XLA = """
import ctypes as c, gc, json
cuda = c.CDLL("libcuda.so.1")
cuda.fake_cuda_stream.restype = c.c_void_p
import tilec
from tilec import _library
from tilec.errors import check

base = [("size", c.c_size_t), ("extension", c.c_void_p)]
def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": base + list(fields)})
class Span(c.Structure):
    _fields_ = [("ptr", c.c_void_p), ("len", c.c_size_t)]
Version = struct("Version", ("major", c.c_int), ("minor", c.c_int))
Handler = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
names = ("error", "message", "destroy", "handler", "stream", "type", "context", "set", "get", "allocate", "free")
Api = struct("Api", ("version", Version), ("internal", c.c_void_p), *[(n, Handler) for n in names])
Buffer = struct("Buffer", ("dtype", c.c_int), ("data", c.c_void_p), ("rank", c.c_int64), ("dims", c.POINTER(c.c_int64)))
Group = struct("Group", ("count", c.c_int64), ("types", c.POINTER(c.c_int)), ("values", c.POINTER(c.c_void_p)))
Attrs = struct("Attrs", ("count", c.c_int64), ("types", c.POINTER(c.c_int)), ("names", c.POINTER(c.c_void_p)), ("values", c.POINTER(c.c_void_p)))
Frame = struct("Frame", ("api", c.POINTER(Api)), ("ctx", c.c_void_p), ("stage", c.c_int), ("args", Group), ("rets", Group), ("attrs", Attrs), ("future", c.c_void_p))
Error = struct("Error", ("message", c.c_char_p), ("code", c.c_int))
Type = struct("Type", ("name", Span), ("id", c.POINTER(c.c_int64)), ("info", c.c_void_p))
Info = struct("Info", ("deleter", c.CFUNCTYPE(None, c.c_void_p)))
State = struct("State", ("ctx", c.c_void_p), ("stage", c.c_int), ("id", c.POINTER(c.c_int64)), ("state", c.c_void_p))
Stream = struct("Stream", ("ctx", c.c_void_p), ("stream", c.c_void_p))
Memory = struct("Memory", ("ctx", c.c_void_p), ("bytes", c.c_size_t), ("alignment", c.c_size_t), ("data", c.c_void_p))
Back = struct("Back", ("ctx", c.c_void_p), ("bytes", c.c_size_t), ("data", c.c_void_p))

said, seen, state = [], [], {}
def on(kind):
    return lambda act: Handler(lambda address: act(kind.from_address(address)))
@on(Error)
def error(args): said.append([args.code, args.message.decode()]); return 1
@on(Type)
def register(args): args.id[0] = 7; state["deleter"] = Info.from_address(args.info).deleter
@on(State)
def set_state(args): assert args.id[0] == 7 and args.stage == 0; state["kept"] = args.state
@on(State)
def get_state(args): assert args.id[0] == 7 and args.stage == 0; args.state = state["kept"]
@on(Stream)
def stream(args): args.stream = 0x55
@on(Memory)
def allocate(args): seen.append(["allocate", args.bytes]); args.data = 1 << 30
@on(Back)
def free(args): seen.append(["free", args.bytes, args.data == 1 << 30, cuda.fake_cuda_calls(b"cuLaunchKernel") > 0])
api = Api(size=c.sizeof(Api), error=error, type=register, set=set_state, get=get_state, stream=stream, allocate=allocate, free=free)

def buffer(address, *shape):
    dims = (c.c_int64 * len(shape))(*shape)
    made = Buffer(size=c.sizeof(Buffer), dtype=11, data=address, rank=len(shape), dims=dims)
    return made, dims
def group(buffers):
    return Group(count=len(buffers), types=(c.c_int * len(buffers))(*[1] * len(buffers)), values=(c.c_void_p * len(buffers))(*[c.addressof(b) for b, _ in buffers]))
def call(handler, text, inputs, outputs):
    name, value = c.create_string_buffer(b"kernel"), c.create_string_buffer(text, len(text))
    spans = Span(c.addressof(name), 6), Span(c.addressof(value), len(text))
    attrs = Attrs(count=1, types=(c.c_int * 1)(4), names=(c.c_void_p * 1)(c.addressof(spans[0])), values=(c.c_void_p * 1)(c.addressof(spans[1])))
    frame = Frame(size=c.sizeof(Frame), api=c.pointer(api), stage=3, args=group(inputs), rets=group(outputs), attrs=attrs)
    handler.restype, handler.argtypes = c.c_void_p, [c.c_void_p]
    return handler(c.addressof(frame))
def text_of(program, *arguments):
    import numpy as np
    from tilec._call import Block
    block, handle, text = Block(list(zip(program.inputs, arguments))), c.c_void_p(), c.c_void_p()
    check(_library.lib.tilec_specialize(program._handle, block.structs, block.count, None, 0, c.byref(handle)))
    check(_library.lib.tilec_xla_text(handle, c.byref(text)))
    _library.lib.tilec_kernel_destroy(handle)
    return c.string_at(_library.lib.tilec_buffer_data(text), _library.lib.tilec_buffer_size(text))
"""

RUN = XLA + """
import numpy as np
x = np.ones(70000, "f4")
program = tilec.compile("function f(X[N]) -> (Y) { A[] = +(X[i]); B[i: N] = +(X[i] * A[]); Y = sort(B); }", target="cuda:sm_90a")
text = text_of(program, x)
def run(inputs, outputs): return call(_library.lib.tilec_xla_call_on, text, inputs, outputs)
early = run([buffer(4096, 70000)], [buffer(1 << 20, 70000)])
made = call(_library.lib.tilec_xla_instantiate, text, [], [])
del program
gc.collect()
ran = run([buffer(4096, 70000)], [buffer(1 << 20, 70000)])
stream_of_launch, launches = cuda.fake_cuda_stream(), cuda.fake_cuda_calls(b"cuLaunchKernel")
wrong = run([buffer(4096, 7)], [buffer(1 << 20, 70000)])
state["deleter"](state["kept"])
call(_library.lib.tilec_xla_instantiate, text, [], [])          # its first call is launches, the next ones would be a graph
cuda.fake_cuda_fail(b"cuLaunchKernel", 0, 719, 0)
failed = run([buffer(4096, 70000)], [buffer(1 << 20, 70000)])
modules = cuda.fake_cuda_modules()
state["deleter"](state["kept"])
print(json.dumps([early, made, ran, stream_of_launch, launches, wrong, failed, modules, cuda.fake_cuda_modules(), seen, said]))
"""


def test_a_kernel_runs_on_the_stream_and_in_the_memory_of_xla():
    if not (FAKE / "libcuda.so.1").exists():
        pytest.skip("the drivers of tests/fake are not built")
    env = {**os.environ, "LD_LIBRARY_PATH": str(FAKE), "TILEC_NVRTC": str(FAKE), "TILEC_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    early, made, ran, stream, launches, wrong, failed, modules, left, seen, said = json.loads(done.stdout)
    assert (early, made, ran, wrong, failed) == (1, None, None, 1, 1)
    assert stream == 0x55 and launches > 0 and modules > 0 and left == 0   # they went with what XLA held
    bytes = seen[0][1]
    assert bytes > 0 and seen == [["allocate", bytes], ["free", bytes, True, True]] * 2   # also where a launch fails
    assert [code for code, _ in said] == [9, 3, 9]
    assert (
        "was not instantiated" in said[0][1]
        and "X is compiled for type 11 of XLA and shape [70000] but is given type 11 and shape [7]" in said[1][1]
        and "E0522" in said[2][1]
    )
