"""samples/digits and samples/ddp, shortly."""
import importlib.util
import os
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from std_errors import ROOT


def sample(path: str):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), ROOT / "samples" / (path + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def threads_as_they_were():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_digits():
    made = sample("digits/train").train(epochs=4, say=lambda line: None)
    ours, theirs = made["losses"].values()
    assert len(ours) == 4 * 45
    assert (
        max(abs(a - b) for a, b in zip(ours[:45], theirs)) < 1e-3
        and max(abs(a - b) for a, b in zip(ours, theirs)) < 0.1
    )
    assert sum(ours[-45:]) / 45 < 0.05
    assert min(made["accuracy"].values()) >= 0.97


@pytest.mark.parametrize("how", [[], ["--fsdp"]], ids=["ddp", "fsdp"])
def test_two_processes_are_one(how):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(ROOT / "samples/ddp/train.py"),
        "--steps",
        "5",
        *how,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    shares, whole = map(
        float, re.search(r"one process: (\S+) with the same shares, (\S+) with whole batches", done.stdout).groups()
    )
    assert shares == 0 and whole < 1e-5
