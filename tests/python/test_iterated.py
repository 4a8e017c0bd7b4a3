"""Steps of functions that are applied again and again call kernels that they share, from rows and with numbers of their
own: on every device, and saved, these compute what the interpreter does."""

import pathlib
import sys

import pytest

from drivers import run_beside
from random_iterated import check

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.parametrize("target, seed", [("cpu", s) for s in range(30)] + [("opencl", s) for s in range(6)])
def test_random_steps(target, seed):
    check(target, seed)


def test_random_steps_on_a_simulated_device():
    run_beside("simulated", [sys.executable, HERE / "random_iterated.py", "cuda:sm_80", "0", "3"])
