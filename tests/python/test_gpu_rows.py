"""The rows that bench/gpu measures on a device, small, on OpenCL and on a simulated CUDA device: each computes what its
peer in PyTorch does."""
import pathlib
import sys

import pytest

GPU = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"
if not GPU.exists():
    pytest.skip("bench/ is not here", allow_module_level=True)
torch = pytest.importorskip("torch")
sys.path.insert(0, str(GPU))

import run  # noqa: E402
from rows import ROWS  # noqa: E402

import tilec  # noqa: E402
from drivers import run_beside  # noqa: E402


@pytest.mark.parametrize("row", [row for row in ROWS if row.dtype == "float32"], ids=lambda row: row.name)
def test_row_computes_what_its_peer_does(row):
    made = run.Made(row, torch, tilec, "cpu", "opencl")
    assert run.difference(torch, made.ours(), made.peer()()) < 1e-4
    assert run.bytes_of(torch, row) > 0


def test_rows_on_a_simulated_device(tmp_path):
    command = [sys.executable, GPU / "run.py", "--simulated", "--target", "cuda"]
    assert run_beside("simulated", command, cwd=tmp_path).count("ok  ") >= 25
