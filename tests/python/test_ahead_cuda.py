"""Ahead of time for GPUs: `tilec build … --target cuda:sm_80,sm_90a -o f.c`, `f.o`, `f.a` and `f.so`. What they compute is tested where there is a GPU."""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from test_ahead import CASES, GATHER, PORT, arguments, build, packaged, symbols
from test_cli import ROOT, TILEC

FAKE = pathlib.Path(TILEC).resolve().parents[1] / "tests/fake"
SCALE = "function scale(X[N], S[]) -> (Y) { Y = X * S + 1; }"
C_LIBRARY = {
    "dlopen",
    "dlsym",
    "dlclose",
    "malloc",
    "free",
    "memcpy",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "__stack_chk_fail",
    "_GLOBAL_OFFSET_TABLE_",
}


@pytest.fixture
def fake(monkeypatch):
    if not (FAKE / "libcuda.so.1").exists():
        pytest.skip("the drivers of tests/fake are not built")
    monkeypatch.setenv("TILEC_NVRTC", str(FAKE))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(FAKE))


def functions(header):
    """Of each function the ports with their types and shapes, and the bytes of its workspace."""
    found = {}
    for part in re.findall(
        r"/\*(?:(?!\*/).)*?\*/\n#define \w+ \d+\nsize_t \w+\(void\);\nint \w+_load\(void\);\nint \w+\([^)]*\);",
        header.read_text(),
        re.S,
    ):
        name = re.search(r"^int (\w+)\(.*stream\)", part, re.M)[1]
        ports = [
            (role, port, kind, tuple(int(n) for n in shape.split(",")) if shape else ())
            for role, port, kind, _, shape in PORT.findall(part)
        ]
        found[name] = (ports, int(re.search(r"#define %s_WORKSPACE (\d+)" % name.upper(), part)[1]))
    return found


@pytest.mark.parametrize("case", ["matmul", "softmax_gradient", "attention_gradient", "scalar", "nothing", "types", "steps_gradient"])
def test_the_text_is_c11_and_shows_its_functions_alone(tmp_path, fake, case):
    text, sizes, *words = CASES[case]
    build(tmp_path, "f.c", text, sizes, *words, "--target", "cuda:sm_80,sm_90a")
    (name,) = functions(tmp_path / "f.h")
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O2", "-fPIC", "-c", "f.c"],
        cwd=tmp_path,
        check=True,
    )
    assert set(symbols(tmp_path / "f.o", "--defined-only", "-g")) == {name, name + "_load", name + "_workspace"}
    assert set(symbols(tmp_path / "f.o", "-u")) <= C_LIBRARY
    (tmp_path / "c.cpp").write_text('#include "f.h"\n#include "f.h"\nint (*load)() = %s_load;\n' % name)
    subprocess.run(
        ["c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "c.cpp"], cwd=tmp_path, check=True
    )


def test_code_for_each_gpu_and_text_for_later_ones(tmp_path):
    done = subprocess.run(
        [TILEC, ROOT / "samples/matmul.tile", "--size", "M=8,K=8,N=8", "--emit=ptx", "--target", "cuda:sm_80"],
        capture_output=True,
        text=True,
    )
    if "E0524" in done.stderr:
        pytest.skip("no NVRTC")
    build(tmp_path, "f.c", SCALE, "N=70", "--target", "cuda:sm_80,sm_90a")
    text, header = (tmp_path / "f.c").read_text(), (tmp_path / "f.h").read_text()
    assert "GPUs of sm_90a, sm_80, and PTX of sm_90 for later ones" in header
    codes = [
        b"".join(int(word, 16).to_bytes(8, "little") for word in re.findall(r"0x[0-9a-f]+|\b0\b", part))
        for part in re.findall(r"uint64_t tilec_code_\w+\[\] = {(.*?)};", text, re.S)
    ]
    assert (
        [code[:4] for code in codes[:2]] == [b"\x7fELF"] * 2
        and b".target sm_90\n" in codes[2]
        and codes[2].endswith(b"\0")
    )
    again = tmp_path / "again"
    again.mkdir()
    build(again, "f.c", SCALE, "N=70", "--target", "cuda:sm_80,sm_90a")
    assert (again / "f.c").read_text() == text


# Calls a function of f.so on a GPU that computes nothing, as the words say, and prints what it returned.
CALLER = """
import ctypes, json, sys
words = json.loads(sys.argv[1])
cuda = ctypes.CDLL("libcuda.so.1") if words["driver"] else None
f = ctypes.CDLL("./f.so")
said = []
def call(x=4096, s=8192, y=12288, workspace=None, stream=0x77):
    said.append(f.scale(*[ctypes.c_void_p(p) for p in (x, s, y, workspace, stream)]))
def counts():
    said.append([cuda.fake_cuda_calls(n.encode()) for n in ("cuModuleLoadData", "cuLaunchKernel")] + [cuda.fake_cuda_modules()])
if words["driver"]:
    cuda.fake_cuda_stream.restype = ctypes.c_void_p
if words["context"]:
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxPushCurrent_v2(context)
exec(words["do"])
print(json.dumps(said))
"""


def said(folder, do, driver=True, context=True):
    env = dict(os.environ) if driver else {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", CALLER, json.dumps({"do": do, "driver": driver, "context": context})],
        cwd=folder,
        capture_output=True,
        text=True,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_call_says_what_is_wrong(tmp_path, fake):
    build(tmp_path, "f.so", SCALE, "N=70", "--target", "cuda:sm_80,sm_90a")
    fail = lambda name, after, result, always=0: "cuda.fake_cuda_fail(b'%s', %d, %d, %d); " % (
        name,
        after,
        result,
        always,
    )
    assert said(tmp_path, "call(); call(); counts(); said.append(cuda.fake_cuda_stream())") == [0, 0, [1, 2, 1], 0x77]
    assert said(tmp_path, "said.append(f.scale_load()); counts(); call(); counts()") == [0, [1, 0, 1], 0, [1, 1, 1]]
    assert said(tmp_path, "call(x=None); call(s=8200); call(y=None); counts()") == [2, 2, 2, [0, 0, 0]]
    assert said(tmp_path, "call(); said.append(f.scale_load())", driver=False, context=False) == [4, 4]
    assert said(tmp_path, "call(); counts()", context=False) == [5, [0, 0, 0]]
    assert said(tmp_path, fail("cuCtxGetCurrent", 0, 3) + "call(); call()") == [5, 0]
    for foreign in (200, 209, 218, 222):                   # the code of another GPU: the next is tried, PTX last
        assert said(tmp_path, fail("cuModuleLoadData", 0, foreign) + "call(); call(); counts()") == [0, 0, [2, 2, 1]]
        assert said(tmp_path, fail("cuModuleLoadData", 0, foreign, 1) + "call(); counts()") == [3, [3, 0, 0]]
    # no memory: another time there may be
    assert said(tmp_path, fail("cuModuleLoadData", 0, 2) + "call(); call(); counts()") == [1002, 0, [2, 1, 1]]
    assert said(tmp_path, fail("cuModuleGetFunction", 0, 500) + "call(); counts()") == [1500, [1, 0, 0]]
    assert said(tmp_path, fail("cuLaunchKernel", 0, 719) + "call(); call()") == [1719, 0]
    # another context at the same address
    assert said(tmp_path, "call(); cuda.fake_cuda_renew_context(); call(); call(); counts()") == [0, 0, 0, [2, 3, 2]]


def test_a_workspace_is_looked_at(tmp_path, fake):
    build(
        tmp_path,
        "f.so",
        "function scale(X[N], S[N]) -> (Y) { A[] = +(X[i] * S[i]); B[i: N] = +(X[i] * A[]); Y = sort(B); }",
        "N=70000",
        "--target",
        "cuda",
    )
    ((ports, workspace),) = functions(tmp_path / "f.h").values()
    assert workspace > 0
    assert said(tmp_path, "call(); call(workspace=65536 + 32); counts(); call(workspace=65536)") == [1, 1, [0, 0, 0], 0]


@pytest.mark.parametrize("kind", ["f.o", "f.a"])
def test_objects_and_archives(tmp_path, fake, kind):
    build(tmp_path, kind, SCALE, "N=70", "--target", "cuda:sm_80", "--vjp")
    assert {"scale_forward", "scale_backward"} <= set(symbols(tmp_path / kind, "--defined-only", "-g"))
    assert set(functions(tmp_path / "f.h")) == {"scale_forward", "scale_backward"}
    (tmp_path / "main.c").write_text('#include "f.h"\nint main(void) { return scale_forward_load(); }\n')
    subprocess.run(["cc", "main.c", kind, "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run(["./main"], cwd=tmp_path).returncode == 5   # a driver, and no context


def test_the_sample_calls_it(tmp_path, fake):
    build(
        tmp_path,
        "conv.o",
        "samples/aot_c/conv.tile",
        "N=1,H=56,W=56,CI=16,KH=3,KW=3,CO=32",
        "--target",
        "cuda:sm_80,sm_90a",
    )
    words = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-I.",
        ROOT / "samples/aot_cuda/main.c",
        "conv.o",
        "-L%s" % FAKE,
        "-l:libcuda.so.1",
        "-lm",
    ]
    subprocess.run(["cc", *words], cwd=tmp_path, check=True)
    # all calls succeed, and nothing is computed
    assert "conv differs" in subprocess.run(["./a.out"], cwd=tmp_path, capture_output=True, text=True).stdout


def test_wrong_use_says_what_is_meant(tmp_path, fake):
    for words, status, why in (
        (["f.o", "--target", "cuda:sm_80,sm_80"], 2, "sm_80 twice"),
        (["f.o", "--target", "cuda:sm_80,"], 2, "`cuda:` is no target"),
        (["f.o", "--target", "cuda:sm_80,gfx9"], 2, "`cuda:gfx9` is no target"),
        (["f.o", "--target", "cuda:sm_80", "--threads", "2"], 2, "--threads is for CPUs"),
        (["f.o", "--target", "cuda:sm_80,sm_90", "--dump-to", "d"], 2, "--dump-to shows one"),
        (["f.tilec", "--target", "cuda:sm_80,sm_90"], 2, "is no target"),
        (["f.c", "--target", "cpu"], 2, "E0535"),
    ):
        assert why in build(tmp_path, words[0], SCALE, "N=7", *words[1:], status=status), words
        assert os.listdir(tmp_path) == ["f.tile"], words
    assert "E0535" in build(tmp_path, "f.o", GATHER, "V=5,E=2,N=3", "--checked", "--target", "cuda", status=2)


def test_without_cc_there_is_the_text(tmp_path, fake, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    said = build(tmp_path, "f.o", SCALE, "N=7", "--target", "cuda", status=3)
    assert "E0545" in said and "makes no object file" in said and "`-o f.c`" in said
    build(tmp_path, "f.c", SCALE, "N=7", "--target", "cuda")


def gpu():
    """The driver, with the first GPU's context current; None where there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    context, device = ctypes.c_void_p(), ctypes.c_int()
    if (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        or cuda.cuCtxPushCurrent_v2(context)
    ):
        return None
    return cuda


@pytest.mark.skipif("fake" in os.environ.get("LD_LIBRARY_PATH", "") or gpu() is None, reason="no GPU")
@pytest.mark.parametrize(
    "case",
    [
        "matmul",
        "softmax",
        "softmax_gradient",
        "layer_norm_gradient",
        "attention_gradient",
        "conv_gradient",
        "max_pool_gradient",
        "scalar",
        "nothing",
        "sort",
        "cumsum",
    ],
)
def test_a_gpu_computes_what_the_cpu_does(tmp_path, case):
    text, sizes, *words = CASES[case]
    library = ctypes.CDLL(str(build(tmp_path, "f.so", text, sizes, *words, "--target", "cuda:sm_80,sm_90a")))
    ((name, (ports, workspace)),) = functions(tmp_path / "f.h").items()
    tensors, cuda = arguments(ports), gpu()

    def memory(array, bytes):
        address = ctypes.c_uint64()
        if bytes:
            assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(bytes)) == 0
        if array is not None and bytes:
            assert cuda.cuMemcpyHtoD_v2(address, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(bytes)) == 0
        return address

    places = {port: memory(tensors[port] if role == "in" else None, tensors[port].nbytes) for role, port, _, _ in ports}
    assert (
        getattr(library, name)(*[places[port] for _, port, _, _ in ports], memory(None, workspace), ctypes.c_void_p())
        == 0
    )
    wanted = packaged(tmp_path, ports, tensors, *CASES[case])
    for (role, port, kind, _), want in zip([p for p in ports if p[0] == "out"], wanted):
        got = np.empty_like(tensors[port])
        assert (
            got.nbytes == 0
            or cuda.cuMemcpyDtoH_v2(got.ctypes.data_as(ctypes.c_void_p), places[port], ctypes.c_size_t(got.nbytes)) == 0
        )
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * (np.abs(want).max() if want.size else 1))
