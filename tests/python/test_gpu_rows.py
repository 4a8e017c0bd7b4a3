"""The bundle that measures on a device, without one: its rows, small, on OpenCL and on a simulated CUDA device compute what their peers in
PyTorch do, and it runs from an empty folder."""

import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

GPU = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"
if not GPU.exists():
    pytest.skip("bench/ is not here", allow_module_level=True)
sys.path.insert(0, str(GPU))

import pack  # noqa: E402
import run  # noqa: E402
from rows import ROWS  # noqa: E402

import tilec  # noqa: E402
from drivers import beside, run_beside  # noqa: E402
from test_cli import TILEC  # noqa: E402

with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


@pytest.fixture
def bundle(tmp_path):
    return pack.pack(pathlib.Path(TILEC).parent.parent, tmp_path)


def failed(bundle, *options, **environment):
    """What ./run says where it cannot run."""
    done = subprocess.run(
        [bundle / "run", *options], capture_output=True, text=True, cwd=bundle, env=beside("simulated", **environment)
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@with_torch
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_computes_what_its_peer_does(row):
    import torch

    place = run.Place(torch, "opencl", simulated=True)
    entry = run.measured(run.Made(row, tilec, place), place, False, 1e9)
    assert entry["of copy"] > 0


@with_torch
def test_peer_of_a_random_contraction_is_einsum():
    import numpy as np
    import torch

    import contractions
    from rows import windowed

    generator, drawn = random.Random(5), np.random.default_rng(5)
    cases = [contractions.draw(generator, 1e9, 1e9, 1e-5, 1e-4) for _ in range(12)]
    assert any(case.window for case in cases)
    for case in cases:
        A, B = (drawn.random(shape, dtype=np.float32) for shape in (case.shape_a(), case.shape(case.b)))
        found = windowed(case, torch, torch.as_tensor(A), torch.as_tensor(B)).numpy()
        np.testing.assert_allclose(found, case.expected("C", A, B, None), rtol=1e-4)


@with_torch
def test_rows_on_a_simulated_device(bundle):
    run_beside("simulated", [bundle / "run", "--simulated"], cwd=bundle, PYTHON=sys.executable)
    results = json.loads((bundle / "results/rows.json").read_text())
    assert [row["name"] for row in results["rows"]] == [row.name for row in ROWS]
    assert not [row for row in results["rows"] if "fault" in row]
    assert "simulated GPU" in (bundle / "results/log").read_text()


@with_torch
def test_random_contractions_on_a_simulated_device(bundle):
    """Small: of the size of a device's, one would take its memory and hours."""
    run_beside("simulated", [bundle / "run", "--scan=3", "--count=1", "--only= C$", "--simulated"], cwd=bundle, PYTHON=sys.executable)
    rows = json.loads((bundle / "results/rows.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["3.0 C"]
    assert all(row["error"] < 1e-5 for row in rows)


def test_checks_on_a_simulated_device(bundle):
    # compute-sanitizer: what it is asked for, and the command it runs
    sanitizer = bundle / "bin/compute-sanitizer"
    sanitizer.parent.mkdir()
    sanitizer.write_text('#!/bin/sh\necho "$2" >>asked\nshift 4\nexec "$@"\n')
    sanitizer.chmod(0o755)
    path = f"{sanitizer.parent}:{os.environ['PATH']}"
    run_beside(
        "simulated",
        [bundle / "run", "--checks", "softmax", "tropical", "--only", "safe_softmax4|max_plus_vector"],
        cwd=bundle,
        PATH=path,
        PYTHON=sys.executable,
    )
    found = json.loads((bundle / "results/checks.json").read_text())
    assert {name: one["status"] for name, one in found.items()} == {
        "std/softmax": 0,
        "std/tropical": 0,
        "memcheck softmax": 0,
        "racecheck softmax": 0,
    }
    assert all(one["last"].endswith(" passed, 0 failed") and one["last"][0] != "0" for one in found.values())
    assert (bundle / "asked").read_text().split() == ["memcheck", "racecheck"]


def test_what_is_lacking_is_said(bundle):
    assert "has no softmaxx; it has activation" in failed(bundle, "--checks", "softmaxx", PYTHON=sys.executable)
    assert "the NVIDIA driver is not installed" in failed(bundle, "--checks", PYTHON=sys.executable, LD_LIBRARY_PATH="")
    assert "no python4 here" in failed(bundle, PYTHON="python4")
    assert f"no {bundle} here" in failed(bundle, PYTHON=str(bundle)), "a folder is no Python"
    assert "'(' is no regular expression" in failed(bundle, "--only", "(", PYTHON=sys.executable)
    assert "no case's title matches nothing" in failed(
        bundle, "--checks", "softmax", "--only", "nothing", PYTHON=sys.executable
    )
    assert "no row's name matches nothing" in failed(bundle, "--only", "nothing", PYTHON=sys.executable)


@with_torch
def test_pytorch_without_a_device_is_said(bundle):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert "reaches no CUDA device" in failed(bundle, "--only", "add", PYTHON=sys.executable)


def test_nvrtc_is_that_of_the_cuda_of_pytorch(tmp_path, monkeypatch):
    for file in (
        "cuda-12.4/lib64/libnvrtc.so.12",
        "cuda-13.0/lib64/libnvrtc.so.13.0.88",
        "cuda-13.0/lib64/libnvrtc-builtins.so.13.0",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.setattr(run, "TOOLKITS", f"{tmp_path}/cuda*")
    monkeypatch.setattr(run.importlib.util, "find_spec", lambda name: None)
    for cuda, folder in (("12.8", "cuda-12.4"), ("13.0", "cuda-13.0"), (None, "cuda-13.0")):
        monkeypatch.setenv("TILEC_NVRTC", "")
        run.find_nvrtc(cuda)
        assert os.environ["TILEC_NVRTC"] == f"{tmp_path}/{folder}/lib64"
    run.find_nvrtc("12.8")
    assert os.environ["TILEC_NVRTC"] == f"{tmp_path}/cuda-13.0/lib64", "what is asked for is kept"
