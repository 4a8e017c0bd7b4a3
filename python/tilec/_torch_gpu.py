"""Tensors of PyTorch in a GPU's memory: which stream PyTorch is at, and a kernel's run on them."""

from __future__ import annotations

import contextlib
import typing

import numpy as np

from . import _library as _c
from ._call import Prepared, number_as
from .errors import check

GPU_ALIGNMENT = 16                                            # what a kernel there reads at once
_MOST_NUMBERS = 64                                            # that are kept there


class TorchOnGpu:
    """What _libraries.Torch, `library`, does there."""

    def __init__(self, library):
        self.library, self.torch = library, library.torch
        # of builds for GPUs
        self.raw_stream = getattr(self.torch._C, "_cuda_getCurrentRawStream", None)
        # plain numbers that calls were given, by type and the stream that wrote them: most are the same in each call
        self._numbers: dict = {}

    def is_misaligned(self, value) -> bool:
        """Of a tensor there: a kernel takes a row-major copy, whatever its strides."""
        return isinstance(value, self.torch.Tensor) and value.data_ptr() % GPU_ALIGNMENT != 0

    def stream(self, gpu: int) -> int:
        """The one that PyTorch's work goes to now."""
        if self.raw_stream is not None:
            return self.raw_stream(gpu)
        return self.torch.cuda.current_stream(gpu).cuda_stream

    def workspace(self, prepared: Prepared, stream: int):
        """Memory for a kernel's runs on a stream. None: it needs none. While a graph is captured it is of that run, and
        the graph's."""
        if not prepared.workspace_bytes:
            return None
        key, captures = (self.library.name, stream), self.torch.cuda.is_current_stream_capturing()
        kept = None if captures else prepared.workspaces.get(key)
        if kept is not None:
            return kept
        made = self.torch.empty(
            prepared.workspace_bytes, dtype=self.torch.uint8, device=self.library.device_of(prepared)
        )
        return made if captures else prepared.workspaces.setdefault(key, made)

    def packed(self, value):
        """A row-major copy."""
        return value.detach().clone(memory_format=self.torch.contiguous_format)

    def number(self, name: str, value, dtype: np.dtype, device):
        """One with a type, or a plain one, as a kernel reads it."""
        number_as(name, value, dtype)                         # says what does not fit
        plain = value.item() if isinstance(value, np.ndarray) else value
        return self.torch.full((), plain, dtype=self.library.type_of(dtype), device=device)

    def _kept_number(self, name: str, value, dtype: np.dtype, device):
        """The same, which is not written again where a stream of PyTorch's has written it. That of a graph is the
        graph's."""
        if self.torch.cuda.is_current_stream_capturing():
            return self.number(name, value, dtype, device)
        key = repr(value), dtype, device, self.stream(device.index)  # -0.0 and 0.0 are equal, and not the same
        made = self._numbers.get(key)
        if made is None:
            made = self._numbers[key] = self.number(name, value, dtype, device)
            for old in list(self._numbers)[:-_MOST_NUMBERS]:
                self._numbers.pop(old, None)
        return made

    def _to_read(self, prepared: Prepared, source: tuple, value, device, keeps: bool):
        position, dtype, shape = source
        if value is None:                                     # which is not read
            return self.torch.empty(shape, dtype=self.library.type_of(dtype), device=device)
        if not isinstance(value, self.torch.Tensor):
            make = self._kept_number if keeps else self.number
            return make(prepared.names[position], value, dtype, device)
        return self.packed(value) if value.data_ptr() % GPU_ALIGNMENT else value

    def _to_write(self, prepared: Prepared, output: int, value):
        """What a kernel writes in the place of a tensor of the caller's, which it may not take as it lies."""
        if value.data_ptr() % GPU_ALIGNMENT or (output in prepared.added and not value.is_contiguous()):
            return self.packed(value)
        return value

    def run(self, prepared: Prepared, values: typing.Sequence, out=None, stream: "int | None" = None):
        """The kernel starts on the stream, which is PyTorch's own if none is said, and is not waited for."""
        self.library.check_not_traced()
        cuda, device = self.torch.cuda, self.library.device_of(prepared)
        now = self.stream(prepared.gpu)
        at = now if stream is None else stream
        here = cuda.current_stream(device) if at != now else None
        # what is made there is that stream's to give away again, and is used by the one that PyTorch is at
        with cuda.stream(cuda.ExternalStream(at, device)) if here is not None else contextlib.nullcontext():
            ins, outs = prepared.blocks()
            taken = [
                self._to_read(prepared, source, None if source[0] is None else values[source[0]], device, here is None)
                for source in prepared.sources
            ]
            for k, value in enumerate(taken):
                ins[k] = value.data_ptr() or self.library.nowhere(value)
            if out is None:
                if prepared.of_torch is None:
                    prepared.of_torch = self.library.makers(prepared)
                out = [make() for make in prepared.of_torch]
                for each in out if here is not None else ():
                    each.record_stream(here)
            written = [self._to_write(prepared, k, value) for k, value in enumerate(out)]
            for k, value in enumerate(written):
                outs[k] = value.data_ptr() or self.library.nowhere(value)
            room = self.workspace(prepared, at)
            place = room.data_ptr() if room is not None else None
            check(_c.lib.tilec_kernel_run_on(prepared.handle, ins, outs, place, at))
            for value, to in zip(written, out):
                if value is not to:
                    to.detach().copy_(value)
        return out[0] if len(out) == 1 else tuple(out)
