"""Steps of functions that are applied again and again call kernels that they share, from rows and with numbers of their
own: on every device, and saved, these compute what the interpreter does."""

import os
import pathlib
import subprocess
import sys

import pytest

import tilec
from random_iterated import check
from test_cli import TILEC

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("target, seed", [("cpu", s) for s in range(30)] + [("opencl", s) for s in range(6)])
def test_random_steps(target, seed):
    check(target, seed)


def test_random_steps_on_a_simulated_device():
    simulated = pathlib.Path(TILEC).parent.parent / "tests/simulated"
    if not simulated.exists():
        pytest.skip("the driver of tests/simulated is not built")
    done = subprocess.run(
        [sys.executable, HERE / "random_iterated.py", "cuda:sm_80", "0", "3"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(simulated),
            "TILEC_NVRTC": str(simulated),
            "TILEC_CACHE": "off",
            "PYTHONPATH": str(pathlib.Path(tilec.__file__).parent.parent),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
