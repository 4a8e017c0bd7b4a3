"""`./dev python pytest tests/python` sets the paths; run from elsewhere, the checkout's own package and library are
used."""
import gc
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import tilec  # noqa: E402


def pytest_collection_finish():
    """Thousands of tests stay until the end: the collector need not look at them again and again."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """A test of a target that has no device here is skipped. Nothing else that a target says is: it would hide faults."""
    try:
        return (yield)
    except tilec.DeviceError as fault:
        if fault.code != "E0520":
            raise
        pytest.skip(str(fault))
