"""What a call costs: counted and predicted by the compiler (Stats), and measured launch by launch (Profile)."""
from __future__ import annotations

import ctypes
import dataclasses
import time
import typing

import numpy as np

from . import _library as _c
from ._call import Prepared, address, number_as
from .errors import check


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return "%.3g %s" % (count, unit) if count < 1000 else "%.4g %s" % (count, unit)
        count /= 1000
    raise AssertionError


@dataclasses.dataclass(frozen=True)
class Stats:
    """What one call takes. None: not known, as of a package, which has no text to count in, or of the interpreter,
    which has no plan."""
    launches: "tuple[str, ...]"
    "In order, by the names of their kernels in the code: `k0_C` makes the tensor C."
    code: int
    "Bytes of machine code, or of a device's text."
    workspace: int
    "Bytes of memory beside inputs and outputs, with what each thread of the pool has; on a device, of its memory."
    bytes: int
    "Of inputs and outputs, each once: the least that moves."
    operations: "int | None" = None
    "Scalar operations that the statements ask for: a fold is one a point, a function one, fma two."
    exact: bool = True
    "False: points were too many to count, and there are at most so many operations."
    statement_bytes: "int | None" = None
    "Of the tensors that each statement reads and writes, whole, as if nothing were fused."
    memory_bytes: "int | None" = None
    "From and to memory, as the compiler's model of caches has it."
    predicted: "float | None" = None
    "Milliseconds on one core, by the same model."

    def __str__(self) -> str:
        lines = [
            (
                "launches     %d: %s" % (len(self.launches), ", ".join(self.launches))
                if self.launches
                else "launches     none: the interpreter runs"
            )
        ]
        lines += [
            "code         %s" % _bytes(self.code),
            "workspace    %s" % _bytes(self.workspace),
            "bytes        %s of inputs and outputs" % _bytes(self.bytes),
        ]
        if self.statement_bytes is not None:
            lines.append("             %s of the statements one by one" % _bytes(self.statement_bytes))
        if self.memory_bytes is not None:
            lines.append("             %s from and to memory, predicted" % _bytes(self.memory_bytes))
        if self.operations is not None:
            lines.append("operations   %s%s" % ("" if self.exact else "at most ", format(self.operations, ",")))
        if self.predicted is not None:
            lines.append("time         %.3g ms on one core, predicted" % self.predicted)
        return "\n".join(lines)


class Launch(typing.NamedTuple):
    """One launch of a run: its kernel's name in the code, and how long it took."""
    name: str
    milliseconds: float


@dataclasses.dataclass(frozen=True)
class Profile:
    """Measured times, in milliseconds: medians over `runs` runs, of each launch and of the call from C. The interpreter
    has no launches; a device copies inputs and outputs besides, and waits after each launch.
    """
    launches: "tuple[Launch, ...]"
    milliseconds: float
    runs: int

    def __str__(self) -> str:
        width = max([len(launch.name) for launch in self.launches] + [len("call")])
        lines = [
            "%-*s %10.4f ms %4.0f %%"
            % (width, launch.name, launch.milliseconds, 100 * launch.milliseconds / self.milliseconds)
            for launch in self.launches
        ]
        return "\n".join(lines + ["%-*s %10.4f ms, medians of %d runs" % (width, "call", self.milliseconds, self.runs)])


def stats_of(prepared: Prepared, cost: "_c.Cost | None" = None) -> Stats:
    lib, handle = _c.lib, prepared.handle
    launches = tuple(
        lib.tilec_kernel_launch_name(handle, k).decode() for k in range(lib.tilec_kernel_launch_count(handle))
    )
    ports = [(dtype, shape) for _, dtype, shape in prepared.sources + prepared.outputs]
    known = Stats(
        launches,
        lib.tilec_kernel_code_size(handle),
        lib.tilec_kernel_workspace(handle) or lib.tilec_kernel_device_workspace(handle),
        sum(dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in ports),
    )
    if cost is None:
        return known
    return dataclasses.replace(
        known,
        operations=cost.operations,
        exact=bool(cost.exact),
        statement_bytes=cost.bytes_read + cost.bytes_written,
        memory_bytes=round(cost.memory_bytes) if launches else None,
        predicted=cost.milliseconds or None,
    )


def profile_of(prepared: Prepared, values: typing.Sequence, runs: int) -> Profile:
    """Values as as_argument() gives them."""
    held = [
        (
            value
            if isinstance(value, np.ndarray)
            else np.zeros(shape, dtype) if value is None else number_as(prepared.names[position], value, dtype)
        )
        for position, dtype, shape in prepared.sources
        for value in [None if position is None else values[position]]
    ]
    made = [np.empty(shape, dtype) for _, dtype, shape in prepared.outputs]
    ins, outs = prepared.input_block(*map(address, held)), prepared.output_block(*map(address, made))
    names = stats_of(prepared).launches
    times = (ctypes.c_double * max(1, len(names)))()
    samples: "list[list[float]]" = []
    for _ in range(runs + 1):
        begin = time.perf_counter()
        check(_c.lib.tilec_kernel_run_timed(prepared.handle, ins, outs, times))
        samples.append([1000 * (time.perf_counter() - begin), *times[:len(names)]])
    whole, *each = map(float, np.median(samples[1:], axis=0))  # the first warmed up
    return Profile(tuple(map(Launch, names, each)), whole, runs)
