"""Ahead of time: `tilec build … -o f.o`, `f.a` and `f.so`, called as C calls them, give the bits that the package
gives."""
import ctypes
import os
import pathlib
import re
import resource
import shutil
import subprocess

import numpy as np
import pytest

import tilec
from test_cli import ROOT, TILEC

CONV = "function conv(I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H/3, W/3, CO] = +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]); }"
CONV_SIZES = "N=2,H=24,W=24,CI=8,KH=3,KW=3,CO=16"
GATHER = "function pick(D[V, E], i32 I[N]) -> (O) { R = gather(D, I); O = R * R; }"
TYPES = """function types(bool B[N], u8 U[N], i16 S[N], i64 L[N], f16 H[N], f64 D[N]) -> (P, Q, R, T, W) {
  P = B & (U > 3);  Q = S * 3 - i16(U);  R = L / 7 + i64(S);  T = H * H + f16(U);  W = sin(D) + f64(T); }"""
STEPS = """function step(H[N], S, X[T, N], W[N, N], i64 L[N]) -> (H1, NEXT) {
  P[n: N] = +(W[n, k] * H[k]);
  H1[n: N] = =(S < L[n] ? tanh(P[n] + X[S, n]) : H[n]);
  NEXT = S + 1;
}
function steps(H[N], X[T, N], W[N, N], i64 L[N]) -> (HN) { (HN, E) = iterate<step, 6>(H, 0, X, W, L); }"""
CASES = {  # a file or a text, sizes, and what else is asked for
    "softmax": ("std/softmax.tile", "B0=37,N=300", "--function", "softmax"),
    "softmax_gradient": ("std/softmax.tile", "B0=37,N=300", "--function", "softmax", "--grad"),
    "layer_norm_gradient": ("std/norm.tile", "B0=40,C=96", "--function", "layer_norm", "--grad"),
    "batch_norm": ("std/norm.tile", "B0=3,B1=7,B2=9,C=12", "--function", "batch_norm"),
    "attention": ("std/attention.tile", "B=2,H=2,T=17,S=33,D=16,E=16", "--function", "attention"),
    "attention_gradient": (
        "std/attention.tile",
        "B=2,H=2,T=17,S=33,D=16,E=16",
        "--function",
        "attention_causal",
        "--grad",
    ),
    "attention_long": ("std/attention.tile", "B=1,H=2,T=512,S=512,D=64,E=64", "--function", "attention", "--grad"),
    "conv": (CONV, CONV_SIZES),
    "conv_gradient": (CONV, CONV_SIZES, "--grad"),
    "conv_large_gradient": (CONV, "N=2,H=96,W=96,CI=64,KH=3,KW=3,CO=64", "--grad"),
    "max_pool_gradient": ("samples/max_pool.tile", "N=2,H=17,W=19,C=8", "--grad"),
    "matmul": ("samples/matmul.tile", "M=300,K=700,N=500"),
    "gather": (GATHER, "V=50,E=9,N=200"),
    "scatter": (GATHER, "V=50,E=9,N=200", "--grad"),
    "cumsum": ("std/scan.tile", "N=100000", "--function", "cumsum", "--rank", "A=0"),
    "scan_gradient": ("std/scan.tile", "M=6,N=3000", "--function", "cumlogsumexp_rows", "--grad"),
    "steps": (STEPS, "T=6,N=33", "--function", "steps"),
    "steps_gradient": (STEPS, "T=6,N=33", "--function", "steps", "--grad"),
    "sort": ("function sorted(X[M, N]) -> (Y, I) { Y = sort(X); I = argsort(X); }", "M=7,N=3000"),
    "top": ("function top(X[M, N]) -> (V, I) { (V, I) = top_k<3>(X); }", "M=7,N=100"),
    "types": (TYPES, "N=1000"),
    "bf16": ("function half(X[M, N]) -> (Y) { B = bf16(X); S[i: M] = +(B[i, j]); Y = f32(S); }", "M=30,N=70"),
    "scalar": ("function scale(X[N], S[]) -> (Y) { Y = X * S + 1; }", "N=5"),
    "nothing": ("function none(X[N]) -> (Y) { Y = X * 2; }", "N=0"),
}
NUMPY = {
    "bool": np.bool_,
    "u8": "u1",
    "u16": "u2",
    "u32": "u4",
    "u64": "u8",
    "i8": "i1",
    "i16": "i2",
    "i32": "i4",
    "i64": "i8",
    "f16": "f2",
    "bf16": "u2",
    "f32": "f4",
    "f64": "f8",
}
PORT = re.compile(r"^(?:/\*| )\s*(in|out)_(\w+) +(\w+) (\w+)(?:\[([\d, ]*)\]|, one element)", re.M)


def build(folder, output, text, sizes, *words, status=0):
    """The file that was written; what was said, where it must fail."""
    source = ROOT / text
    if len(text) > 200 or not source.exists():
        source = folder / "f.tile"
        source.write_text(text)
    done = subprocess.run(
        [TILEC, "build", source, "--size", sizes, "-o", folder / output, *words], capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return folder / output if status == 0 else done.stderr


class Header:
    """What f.h says: of each function, the ports with their types and shapes."""

    def __init__(self, path):
        self.text = path.read_text()
        self.functions = {}
        for part in re.findall(
            r"/\*(?:(?!\*/).)*?\*/\n#define \w+ \d+\nsize_t \w+\(void\);\nint \w+\([^)]*\);", self.text, re.S
        ):
            name = re.search(r"^int (\w+)\(", part, re.M)[1]
            ports = [
                (role, port, kind, tuple(int(n) for n in shape.split(",")) if shape else ())
                for role, port, kind, _, shape in PORT.findall(part)
            ]
            self.functions[name] = (ports, int(re.search(r"#define %s_WORKSPACE (\d+)" % name.upper(), part)[1]))


def arguments(ports, seed=1):
    draw = np.random.default_rng(seed)
    made = {}
    for role, name, kind, shape in ports:
        kind = np.dtype(NUMPY[kind])
        if role == "out":
            made[name] = np.empty(shape, kind)
        elif kind.kind == "f":
            made[name] = draw.standard_normal(shape).astype(kind)
        else:
            made[name] = draw.integers(0, 2 if kind.kind == "b" else 40, shape).astype(kind)
    return made


def aligned(size):
    whole = np.full(size + 64, 0xA5, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start:start + size]


def call(library, name, ports, tensors, workspace):
    function = getattr(library, name)
    function.restype = ctypes.c_int
    block = aligned(workspace + 64)
    where = [ctypes.c_void_p(tensors[port].ctypes.data if tensors[port].size else None) for _, port, _, _ in ports]
    size = getattr(library, name + "_workspace")
    size.restype = ctypes.c_size_t
    assert size() == workspace
    status = function(*where, ctypes.c_void_p(block.ctypes.data if workspace else None))
    assert (block[workspace:] == 0xA5).all()
    return status


def outputs(ports, tensors):
    return [tensors[name] for role, name, _, _ in ports if role == "out"]


def packaged(folder, ports, tensors, *case):
    package = tilec.load(build(folder, "f.tilec", *case))
    given = package(**{name: tensors[name] for role, name, _, _ in ports if role == "in"})
    return given if isinstance(given, tuple) else (given,)


def same_bits(got, wanted):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted):
        assert a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64-v3"])
def test_a_library_gives_the_bits_of_the_package(tmp_path, case, target):
    words = (*CASES[case], "--target", target)
    path = build(tmp_path, "f.so", *words)
    ((name, (ports, workspace)),) = Header(tmp_path / "f.h").functions.items()
    tensors = arguments(ports)
    assert call(ctypes.CDLL(str(path)), name, ports, tensors, workspace) == 0
    same_bits(outputs(ports, tensors), packaged(tmp_path, ports, tensors, *words))


@pytest.mark.parametrize("case", ["softmax", "attention_gradient", "conv_large_gradient", "scatter"])
def test_an_object_for_several_cpus_gives_the_bits_of_one_of_them(tmp_path, case):
    path = build(tmp_path, "f.so", *CASES[case], "--multi-target")
    ((name, (ports, workspace)),) = Header(tmp_path / "f.h").functions.items()
    tensors = arguments(ports)
    assert call(ctypes.CDLL(str(path)), name, ports, tensors, workspace) == 0
    wide = "avx512vl" in pathlib.Path("/proc/cpuinfo").read_text()
    same_bits(
        outputs(ports, tensors),
        packaged(tmp_path, ports, tensors, *CASES[case], "--target", "cpu:x86-64-v4" if wide else "cpu:x86-64-v3"),
    )


def symbols(path, *words):
    """Name: kind, a capital where it is seen from outside; U and w are needed."""
    lines = subprocess.run(["nm", *words, path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[-1]: line.split()[-2] for line in lines if line.split()[1:]}


@pytest.mark.parametrize("case", CASES)
def test_an_object_needs_c_alone_and_shows_its_functions_alone(tmp_path, case):
    for words in ((), ("--threads", "1"), ("--multi-target",)):
        path = (
            build(tmp_path, "f.o", *CASES[case], "--target", "cpu:x86-64-v3", *words)
            if "--multi-target" not in words
            else build(tmp_path, "f.o", *CASES[case], *words)
        )
        (name,) = Header(tmp_path / "f.h").functions
        libm = ctypes.CDLL("libm.so.6")
        known = symbols(path)
        assert all(hasattr(libm, needed) for needed, kind in known.items() if kind in "Uw"), known
        shown = {symbol: kind for symbol, kind in known.items() if kind != "U" and (kind.isupper() or kind in "uvw")}
        assert shown.pop("tilec_parallel_for", "W") == "W"
        assert shown == {name: "T", name + "_workspace": "T"}
        if "--threads" in words:
            assert "tilec_parallel_for" not in known and "tilec_parallel_for" not in (tmp_path / "f.h").read_text()


def test_bytes_depend_on_nothing_else(tmp_path):
    for suffix in ("o", "a", "so"):
        made = []
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
            made.append(
                (
                    build(
                        tmp_path / folder, "f." + suffix, CONV, CONV_SIZES, "--grad", "--target", "cpu:x86-64-v3"
                    ).read_bytes(),
                    (tmp_path / folder / "f.h").read_bytes(),
                )
            )
        assert made[0] == made[1]


@pytest.mark.parametrize("more", [(), ("--target", "cpu:x86-64-v3"), ("--multi-target",)])
@pytest.mark.parametrize(
    "text, sizes",
    [
        (CONV, CONV_SIZES),
        (
            "function mlp(X[N, K], A[K, M], B[M, L]) -> (Y) { P[i, j: N, M] = +(X[i, k] * A[k, j]); H = tanh(P); Q[i, j: N, L] = +(H[i, k] * B[k, j]); Y = exp(Q); }",
            "N=20,K=30,M=40,L=10",
        ),
        (GATHER, "V=50,E=9,N=200"),
    ],
)
def test_a_pair_is_two_functions(tmp_path, text, sizes, more):
    library = ctypes.CDLL(str(build(tmp_path, "f.so", text, sizes, "--vjp", *more)))
    functions = Header(tmp_path / "f.h").functions
    (forward, (ports, workspace)), (backward, (ports_back, workspace_back)) = functions.items()
    assert forward.endswith("_forward") and backward.endswith("_backward")
    tensors = arguments(ports)
    assert call(library, forward, ports, tensors, workspace) == 0
    tensors |= {name: value for name, value in arguments(ports_back, 2).items() if name not in tensors}
    assert call(library, backward, ports_back, tensors, workspace_back) == 0
    wide = "avx512vl" in pathlib.Path("/proc/cpuinfo").read_text()
    target = ("--target", "cpu:x86-64-v4" if wide else "cpu:x86-64-v3") if "--multi-target" in more else more
    package = tilec.load(build(tmp_path, "f.tilec", text, sizes, "--vjp", *target))
    inputs = [tensors[name] for role, name, _, _ in ports if role == "in"]
    given, pull = package.vjp(*inputs)
    same_bits([tensors[name] for name in package.outputs], given if isinstance(given, tuple) else (given,))
    cotangents = [tensors[name] for role, name, _, _ in ports_back if role == "in" and name.startswith("d")]
    gradients = pull(*cotangents)
    same_bits(outputs(ports_back, tensors), gradients if isinstance(gradients, tuple) else (gradients,))


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "f.h"

static int calls = 0, limited = 0;
#ifdef OWN
typedef struct { int64_t from, to, worker; void (*turn)(void*, int64_t, int64_t); void* arguments; } Share;
static void* work(void* share) {
  Share* s = share;
  for (int64_t i = s->from; i < s->to; ++i) s->turn(s->arguments, i, s->worker);
  return 0;
}
void tilec_parallel_for(int64_t count, int64_t workers, void (*turn)(void* arguments, int64_t i, int64_t worker), void* arguments) {
  Share shares[4];
  pthread_t threads[4];
  int n = workers < 4 ? (int)workers : 4;
  ++calls;
  if (workers < count) limited = (int)workers;
  for (int t = 0; t < n; ++t) {
    shares[t] = (Share){count * t / n, count * (t + 1) / n, t, turn, arguments};
    pthread_create(&threads[t], 0, work, &shares[t]);
  }
  for (int t = 0; t < n; ++t) pthread_join(threads[t], 0);
}
#endif

static void* read_file(const char* path, size_t bytes) {
  void* p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  FILE* f = fopen(path, "rb");
  if (!f || fread(p, 1, bytes, f) != bytes) exit(9);
  fclose(f);
  return p;
}
int main(void) {
%s
  printf("%%d %%d\\n", calls, limited);
  return 0;
}
"""


def c_program(folder, header, tensors):
    ((name, (ports, workspace)),) = header.functions.items()
    lines, names = [], []
    for role, port, _, _ in ports:
        tensors[port].tofile(folder / port)
        names.append("t_" + port)
        lines.append('  void* t_%s = read_file("%s", %d);' % (port, port, tensors[port].nbytes))
    lines.append(
        "  unsigned char* workspace = aligned_alloc(64, (%s_WORKSPACE + 127) / 64 * 64);\n  memset(workspace, 0xA5, %s_WORKSPACE + 64);"
        % (name.upper(), name.upper())
    )
    lines.append("  int status = %s(%s, workspace);\n  if (status) return status;" % (name, ", ".join(names)))
    lines.append("  for (int k = 0; k < 64; ++k) if (workspace[%s_WORKSPACE + k] != 0xA5) return 7;" % name.upper())
    for role, port, _, _ in ports:
        if role == "out":
            lines.append(
                '  { FILE* f = fopen("%s.out", "wb"); fwrite(t_%s, 1, %d, f); fclose(f); }'
                % (port, port, tensors[port].nbytes)
            )
    return MAIN % "\n".join(lines)


@pytest.mark.parametrize(
    "case", ["attention", "attention_long", "conv_large_gradient", "matmul", "layer_norm_gradient", "cumsum"]
)
@pytest.mark.parametrize("file", ["f.o", "f.a", "f.so"])
def test_a_program_in_c_links_it_and_may_bring_threads(tmp_path, case, file):
    path = build(tmp_path, file, *CASES[case], "--threads", "3")
    header = Header(tmp_path / "f.h")
    ((_, (ports, _)),) = header.functions.items()
    tensors = arguments(ports)
    for role, port, _, _ in ports:
        if role == "out":
            tensors[port][...] = 0
    (tmp_path / "main.c").write_text(c_program(tmp_path, header, tensors))
    wanted = packaged(tmp_path, ports, tensors, *CASES[case])
    for own in ((), ("-DOWN",)):
        subprocess.run(
            [
                "cc",
                "-std=c11",
                "-D_POSIX_C_SOURCE=200809L",
                "-Wall",
                "-Wextra",
                "-Werror",
                *own,
                "-o",
                "main",
                "main.c",
                "./" + path.name,
                "-lm",
                "-pthread",
            ],
            cwd=tmp_path,
            check=True,
        )
        done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done
        calls, limited = map(int, done.stdout.split())
        assert calls == 0 if not own else calls > 0 or case in ("layer_norm_gradient", "cumsum")
        assert limited == (3 if own and case == "attention_long" else 0)
        got = [
            np.fromfile(tmp_path / (port + ".out"), tensors[port].dtype).reshape(tensors[port].shape)
            for role, port, _, _ in ports
            if role == "out"
        ]
        same_bits(got, wanted)


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="no qemu-x86_64")
def test_each_cpu_runs_what_it_can(tmp_path):
    shutil.copytree(ROOT / "samples/aot_c", tmp_path, dirs_exist_ok=True)
    build(tmp_path, "conv.o", "samples/aot_c/conv.tile", "N=1,H=56,W=56,CI=16,KH=3,KW=3,CO=32", "--multi-target")
    subprocess.run(["cc", "main.c", "conv.o", "-lm"], cwd=tmp_path, check=True)
    for cpu, said in (("Haswell", "agrees"), ("Nehalem", "returned 3")):
        assert (
            said
            in subprocess.run(
                ["qemu-x86_64", "-cpu", cpu, "./a.out"], cwd=tmp_path, capture_output=True, text=True
            ).stdout
        )


def test_the_header_is_c11_and_cpp(tmp_path):
    build(tmp_path, "f.o", CONV, CONV_SIZES, "--vjp")
    (tmp_path / "c.c").write_text(
        '#include <complex.h>\n#include "f.h"\n#include "f.h"\nchar workspace[CONV_FORWARD_WORKSPACE + 1];\n'
    )
    (tmp_path / "c.cpp").write_text(
        '#include "f.h"\nint (*f)(const float*, const float*, float*, void*) = conv_forward;\n'
    )
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "c.c"], cwd=tmp_path, check=True
    )
    subprocess.run(
        ["c++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "c.cpp"], cwd=tmp_path, check=True
    )


def test_a_call_says_what_is_wrong(tmp_path):
    library = ctypes.CDLL(
        str(build(tmp_path, "f.so", "std/softmax.tile", "B0=37,N=300", "--function", "softmax", "--grad"))
    )
    f = library.softmax_grad
    ((_, (ports, workspace)),) = Header(tmp_path / "f.h").functions.items()
    tensors, block = arguments(ports), aligned(workspace + 64)
    where = [tensors[port].ctypes.data for _, port, _, _ in ports]
    run = lambda pointers, workspace: f(*[ctypes.c_void_p(p) for p in pointers], ctypes.c_void_p(workspace))
    assert run(where, block.ctypes.data) == 0
    if workspace:
        assert run(where, None) == 1 and run(where, block.ctypes.data + 32) == 1
    for k in range(len(where)):
        assert run(where[:k] + [None] + where[k + 1:], block.ctypes.data) == 2
        assert run(where[:k] + [where[k] + 2] + where[k + 1:], block.ctypes.data) == 2


@pytest.mark.parametrize("vjp", [False, True])
def test_an_index_out_of_range_is_a_status(tmp_path, vjp):
    library = ctypes.CDLL(str(build(tmp_path, "f.so", GATHER, "V=5,E=2,N=3", "--checked", *(["--vjp"] if vjp else []))))
    functions = Header(tmp_path / "f.h").functions
    name, (ports, workspace) = next(iter(functions.items()))
    tensors = arguments(ports)
    assert "an index in `I` is not in 0 ... 4" in (tmp_path / "f.h").read_text()
    for indices, status in (([0, 4, 2], 0), ([0, 5, 2], 16), ([-1, 0, 0], 16)):
        tensors["I"][...] = indices
        assert call(library, name, ports, tensors, workspace) == status
        np.testing.assert_array_equal(tensors["O"], tensors["D"][np.clip(indices, 0, 4)] ** 2)


def test_bf16_is_passed_as_its_bits(tmp_path):
    library = ctypes.CDLL(str(build(tmp_path, "f.so", "function twice(bf16 X[N]) -> (Y) { Y = X + X; }", "N=9")))
    x = (np.arange(9, dtype="f4").view("u4") >> 16).astype("u2")
    y = np.empty(9, "u2")
    assert library.twice(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), None) == 0
    np.testing.assert_array_equal((y.astype("u4") << 16).view("f4"), 2 * np.arange(9))


def test_names(tmp_path):
    plain = "function (X[N]) -> (Y) { Y = X * 2; }"
    (tmp_path / "my-net.2.tile").write_text(plain)
    run = lambda *words: subprocess.run(
        [TILEC, "build", *words, "--size", "N=3"], cwd=tmp_path, capture_output=True, text=True
    )
    assert run("my-net.2.tile", "-o", "n.o").returncode == 0
    assert set(Header(tmp_path / "n.h").functions) == {"my_net_2"}
    assert run("my-net.2.tile", "-o", "n.o", "--grad").returncode == 0
    assert set(Header(tmp_path / "n.h").functions) == {"my_net_2_grad"}
    assert run("my-net.2.tile", "-o", "n.o", "--vjp", "--name", "g").returncode == 0
    assert set(Header(tmp_path / "n.h").functions) == {"g_forward", "g_backward"}
    (tmp_path / "sin.tile").write_text(plain)
    for words, why in (
        (["sin.tile"], "`sin` is a function of C's library"),
        (["sin.tile", "--name", "while"], "`while` is a word of C"),
        (["sin.tile", "--name", "a-b"], "no identifier"),
        (["sin.tile", "--name", "tilec_parallel_for"], "tilec's own"),
        (["sin.tile", "--name", "é"], "no identifier"),
    ):
        done = run(*words, "-o", "m.o")
        assert done.returncode == 2 and why in done.stderr, done.stderr
    assert not (tmp_path / "m.o").exists() and not (tmp_path / "m.h").exists()


def test_wrong_use_says_what_is_meant(tmp_path):
    (tmp_path / "f.tile").write_text("function f(X[N]) -> (Y) { Y = X * 2; }\n")
    (tmp_path / "two.tile").write_text("function a(X[N]) -> (Y) { Y = X; }\nfunction b(X[N]) -> (Y) { Y = X; }\n")
    (tmp_path / "folder.h").mkdir()
    before = set(os.listdir(tmp_path))
    for words, status, said in (
        (["f.tile", "-o", "f.obj"], 2, "`.obj` is no suffix"),
        (["f.tile", "-o", "f.so.1"], 2, "`.1` is no suffix"),
        (["f.tile", "-o", ".o"], 2, "no name in front"),
        (["f.tile", "-o", "missing/f.o"], 3, "E0502"),
        (["f.tile", "-o", "folder.o"], 3, "it is a folder"),
        (["f.tile", "-o", "f.tilec", "--name", "g"], 2, "--name names"),
        (["f.tile", "-o", "f.o", "--target", "opencl"], 2, "E0535"),
        (["f.tile", "-o", "f.o", "--target", "reference"], 2, "E0535"),
        (["two.tile", "-o", "f.o"], 1, "E0226"),
        (["f.tile", "-o", "f.o", "--threads", "0"], 2, "--threads"),
        (["f.tile", "-o", "f.o", "--multi-target", "--target", "cpu"], 2, "--multi-target"),
        (["f.tile", "-o", "f.tilec", "--multi-target"], 2, "--multi-target"),
        (["f.tile", "-o", "f.tilec", "--checked"], 2, "--checked is for object files"),
        (["f.tile", "-o", "f.o", "--room", "5"], 2, "--room"),
    ):
        done = subprocess.run([TILEC, "build", *words, "--size", "N=3"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status and said in done.stderr, (words, done)
        assert set(os.listdir(tmp_path)) == before, words
    done = subprocess.run([TILEC, "build", "f.tile", "-o", "f.o"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "`N`" in done.stderr and set(os.listdir(tmp_path)) == before
    shutil.copy(tmp_path / "f.tile", tmp_path / "g.h")
    done = subprocess.run(
        [TILEC, "build", "g.h", "-o", "g.o", "--size", "N=3"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and "E0532" in done.stderr and not (tmp_path / "g.o").exists()


def test_both_files_are_written_or_none(tmp_path):
    (tmp_path / "f.o").write_text("old object"), (tmp_path / "f.h").write_text("old header")
    (tmp_path / "f.tile").write_text("function f(X[N]) -> (Y) { Y = X * 2; }\n")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # each of the files is longer
    done = subprocess.run(
        [TILEC, "build", "f.tile", "-o", "f.o", "--size", "N=3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    assert done.returncode == 3 and "E0502" in done.stderr
    assert (
        (tmp_path / "f.o").read_text() == "old object"
        and (tmp_path / "f.h").read_text() == "old header"
        and len(os.listdir(tmp_path)) == 3
    )


def test_without_cc_there_is_no_shared_library(tmp_path):
    (tmp_path / "f.tile").write_text("function f(X[N]) -> (Y) { Y = X * 2; }\n")
    (tmp_path / "bin").mkdir()
    run = lambda path, *words: subprocess.run(
        [TILEC, "build", "f.tile", "--size", "N=3", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=dict(os.environ, PATH=str(path)),
    )
    done = run(tmp_path / "bin", "-o", "f.so")
    assert done.returncode == 3 and "E0545" in done.stderr and "not found on PATH" in done.stderr
    for name in ("f.o", "f.a"):
        assert run(tmp_path / "bin", "-o", name).returncode == 0
    os.remove(tmp_path / "f.h")
    (tmp_path / "bin/cc").write_text("#!/bin/sh\necho no such option; exit 1\n")
    (tmp_path / "bin/cc").chmod(0o755)
    done = run("%s:/bin" % (tmp_path / "bin"), "-o", "f.so")
    assert done.returncode == 3 and "E0545" in done.stderr and "no such option" in done.stderr
    assert not (tmp_path / "f.so").exists() and not (tmp_path / "f.h").exists()


def test_code_for_another_architecture_is_an_object_of_it(tmp_path):
    path = build(tmp_path, "f.o", CONV, CONV_SIZES, "--target", "cpu:aarch64")
    assert path.read_bytes()[18:20] == b"\xb7\x00" and "aarch64 with" in (tmp_path / "f.h").read_text()
    assert "E0545" in build(tmp_path, "f.so", CONV, CONV_SIZES, "--target", "cpu:aarch64", status=3)
