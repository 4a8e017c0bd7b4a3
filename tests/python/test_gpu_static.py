"""bench/run.py --gpu-static: what is read out of a disassembly, what is executed, and what is said where there is no disassembler."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/gpu")]
import gpu_static  # noqa: E402: in bench/
import rows  # noqa: E402

DISASSEMBLY = """
\t.section\t.text.k0_C,"ax",@progbits
.text.k0_C:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_0:
        /*0010*/                   LDG.E.64 R8, desc[UR4][R2.64] ;
.L_x_1:
        /*0020*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0030*/              @!P0 LDG.E.U16 R9, desc[UR4][R2.64+0x10] ;
        /*0040*/                   LDS R10, [R11] ;
        /*0050*/                   FFMA R12, R4, R5, R12 ;
        /*0060*/                   FFMA R13, R4, R6, R13 ;
        /*0070*/              @P0  BRA `(.L_x_1) ;
        /*0080*/              @P1  BRA `(.L_x_0) ;
        /*0090*/                   STL [R1], R4 ;
        /*00a0*/                   EXIT ;
.text.k1_S:
        /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*0010*/                   EXIT ;
"""


def test_figures_are_those_of_the_busiest_loop():
    code = gpu_static.functions(DISASSEMBLY)
    assert list(code) == ["k0_C", "k1_S"]
    found = gpu_static.figures(code["k0_C"])
    assert found == {
        "instructions": 6,
        "multiply_adds": 2 / 6,
        "tensor": 0,
        "widths": {"LDG": {128: 1, 16: 1}, "LDS": {32: 1}},
        "spills": 1,
    }
    assert gpu_static.figures(code["k1_S"])["tensor"] == 0.5


def test_rows_say_their_sizes():
    for row in rows.ROWS:
        assert gpu_static.sizes_of(row) and gpu_static.bytes_of(row) > 0


LAUNCH = {
    "kernel": "k0_C",
    "blocks": 10,
    "sampled": 2,
    "threads": 64,
    "loads": {"requests": 4, "sectors": 16, "bytes": 512},
    "stores": {"requests": 2, "sectors": 64, "bytes": 256},
    "shared": {"wavefronts": 12, "least": 8},
    "moved": 1000,
}


def test_figures_are_those_of_all_blocks_and_launches():
    found = gpu_static.of_launches([LAUNCH, LAUNCH, {**LAUNCH, "kernel": "k1_S", "sampled": 10}])
    assert found["k0_C"]["launches"] == 2 and found["k1_S"]["launches"] == 1
    assert found["k0_C"]["moved"] == 10000 and found["k1_S"]["moved"] == 1000
    assert found["k0_C"]["loads sectors"] == 160 and found["k0_C"]["stores bytes"] == 2560
    factors, loss = gpu_static.losses([{"executed": found["k0_C"]}], 2500, "memory")
    assert factors == {"sectors": 32 * 80 / 768, "banks": 1.5, "moved": 4.0} and loss == 4.0
    assert gpu_static.losses([{"executed": found["k0_C"]}], 2500, "arithmetic")[1] == 32 * 80 / 768
    assert gpu_static.losses([{}], 2500, "memory")[1] == 1.0
    line = gpu_static.line_of_executed(found["k0_C"])
    assert (
        line == "2 launches, loads: 4.0 sectors, 100 % used, stores: 32.0 sectors, 12 % used, banks x1.50, moves 0.0 MB"
    )


@pytest.mark.skipif(not gpu_static.SIMULATED.exists(), reason="the simulated GPU is not built")
@pytest.mark.parametrize(
    "name, moved, sectors",
    [
        ("add 2^26", 1.0, 1.0),
        ("transpose 8192x8192", 1.0, 1.0),
        ("softmax 4096x4096", 1.0, 1.0),
        ("layer norm gradient 8192x1024", 1.5, 1.05),
        ("depthwise convolution image gradient", 1.2, 1.3),
    ],
)
def test_rows_bound_by_memory_move_what_they_must(tmp_path, name, moved, sectors):
    row = next(row for row in rows.ROWS if row.name == name)
    must, kernels = gpu_static.executed(row, tmp_path)
    assert must > gpu_static.bytes_of(row) * 0.5              # a gradient need not read all inputs
    factors, _ = gpu_static.losses([{"executed": figures} for figures in kernels.values()], must, row.bound)
    assert 0.99 < factors["moved"] <= moved + 0.01 and 0.99 < factors["sectors"] <= sectors and factors["banks"] <= 1.1


def test_a_disassembler_that_is_not_here_is_named(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import gpu_static; gpu_static.shutil.which = lambda name: None; gpu_static.importlib.util.find_spec = lambda name: None; gpu_static.tool('nvdisasm-of-none')",
        ],
        cwd=ROOT / "bench",
        env={**os.environ, "CUDA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 1
        and "nvdisasm-of-none is not here: it comes with a CUDA toolkit, and with Triton" in done.stderr
    )
