"""The roof of one core: multiply-adds a second and bytes a second, measured here and now by bench/roof.cpp.

Multiply-adds run in registers, in twelve independent chains of full vectors. Bytes are read from an array of 256 MiB,
once, in order. The best of several goes counts, for a roof is what can be reached.
"""
import ctypes
import os
import pathlib
import subprocess
import tempfile

import numpy as np

import harness


class Roof:
    def __init__(self):
        source = pathlib.Path(__file__).with_name("roof.cpp")
        with tempfile.TemporaryDirectory() as folder:
            library = pathlib.Path(folder) / "roof.so"
            subprocess.run(
                [
                    os.environ.get("CXX", "c++"),
                    "-O3",
                    "-march=native",
                    "-ffp-contract=fast",
                    "-shared",
                    "-fPIC",
                    str(source),
                    "-o",
                    str(library),
                ],
                check=True,
            )
            self.library = ctypes.CDLL(str(library))
        self.library.multiply_adds.restype = ctypes.c_double
        self.library.multiply_adds.argtypes = [ctypes.c_int64, ctypes.c_float, ctypes.c_void_p]
        self.library.read_all.restype = ctypes.c_float
        self.library.read_all.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.data = np.ones(64 << 20, "f")
        self.flops = self.bandwidth = 0.0               # a second

    def measure(self, goes: int) -> None:
        """Raises the roof to what is reached now."""
        result = ctypes.c_float()
        for _ in range(goes):
            start = harness.clock()
            operations = self.library.multiply_adds(400_000, 1e-3, ctypes.byref(result))
            self.flops = max(self.flops, operations / (harness.clock() - start))
            start = harness.clock()
            self.library.read_all(self.data.ctypes.data, self.data.size)
            self.bandwidth = max(self.bandwidth, self.data.nbytes / (harness.clock() - start))

    def seconds(self, flop: float, byte: float) -> float:
        return max(flop / self.flops, byte / self.bandwidth)
