"""Commands in a process that finds a driver of tests/fake or tests/simulated in the place of a device's."""

import os
import pathlib
import subprocess

import pytest

import tilec
from test_cli import TILEC


def beside(driver, **environment):
    """The environment of such a process. driver: `fake` or `simulated`; where that is not built, the test is skipped."""
    folder = pathlib.Path(TILEC).parent.parent / "tests" / driver
    if not folder.exists():
        pytest.skip("the driver of tests/%s is not built" % driver)
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(folder),
        "TILEC_NVRTC": str(folder),
        "TILEC_CACHE": "off",
        "PYTHONPATH": str(pathlib.Path(tilec.__file__).parent.parent),
        **environment,
    }


def run_beside(driver, command, cwd=None, **environment):
    """What the command printed."""
    environment = beside(driver, **environment)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
