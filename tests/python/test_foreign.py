"""CPUs by name, one that this machine is not among them: code is emitted for all, the same on every machine, and runs
where it can."""
import pathlib
import platform
import struct

import numpy as np
import pytest

import tilec

TEXT = "function f(X[M, N]) -> (Y) { E[i, j: M, N] = =(exp(X[i, j])); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"
ARM = platform.machine() == "aarch64"
FOREIGN = "cpu:x86-64-v3" if ARM else "cpu:aarch64"
AARCH64, X86_64 = 183, 62                                # ELF's e_machine


@pytest.fixture
def X():
    return np.random.default_rng(1).random((5, 33), dtype=np.float32)


@pytest.mark.parametrize(
    "name, machine",
    [
        ("aarch64", AARCH64),
        ("neoverse-n1", AARCH64),
        ("cortex-a72", AARCH64),
        ("x86-64", X86_64),
        ("x86-64-v2", X86_64),
        ("x86-64-v3", X86_64),
        ("x86-64-v4", X86_64),
        ("znver4", X86_64),
        ("znver5", X86_64),
    ],
)
def test_code_for_a_cpu_by_name(X, name, machine):
    program = tilec.compile(TEXT, target="cpu:" + name)
    assert struct.unpack("<H", program.emit("object", X)[18:20])[0] == machine
    assert '"target-cpu"="%s"' % ("generic" if name == "aarch64" else name) in program.emit("llvm", X)
    assert ("zmm" in program.emit("asm", X)) == (name in ("x86-64-v4", "znver4", "znver5"))


def test_a_foreign_cpu_does_not_run_here(X):
    program = tilec.compile(TEXT, target=FOREIGN)
    with pytest.raises(tilec.DeviceError, match="E0520.*this machine is .* its code is") as fault:
        program(X)
    assert "--emit=object" in str(fault.value)
    assert tilec.compile(TEXT)(X).shape == X.shape       # nothing was left behind


def test_a_name_of_no_cpu(X):
    for name in ("z80", "i386", "pentium4", "x86-64-v9", "aarch64x"):
        with pytest.raises(tilec.Error, match="E0514"):
            tilec.compile(TEXT, target="cpu:" + name)


@pytest.mark.skipif(ARM, reason="levels of x86-64")
@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lesser_levels_run(X, name, dtype):
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if name.endswith("v3") and "avx2" not in flags:
        pytest.skip("no AVX2")
    x = X.astype(dtype)
    np.testing.assert_allclose(
        tilec.compile(TEXT, target="cpu:" + name)(x),
        tilec.compile(TEXT, target="reference")(x),
        rtol=2e-3 if dtype == np.float16 else 1e-6,
    )
