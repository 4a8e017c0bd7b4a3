"""Calls that were prepared, found again and run in one call of C (runtime/python.cpp), by the types, shapes and strides
of their arguments."""
from __future__ import annotations

import ctypes as c
import sys

import numpy as np

from . import _library as _c
from ._call import HEADER, Prepared, arrays_lie_as_known
from ._libraries import Torch, note_written

_MOST = 16                                                    # calls that are kept: they are looked through in order


class Calls:
    """Those of one program."""

    def __init__(self):
        self.handle = _c.python.tilec_python_calls_create()
        self.torch: "Torch | None" = None                     # where tensors of PyTorch are among the arguments
        # what C points to, or knows by its address: element types too, as another may come to lie there
        self._known: "dict[int, tuple]" = {}

    def __del__(self):
        if _c is not None and getattr(self, "handle", None):
            _c.python.tilec_python_calls_destroy(self.handle)

    @property
    def is_full(self) -> bool:
        return len(self._known) >= _MOST

    def run(self, arguments: tuple, out):
        """The results; None of a call that is not known, and of one that something must be said of."""
        given = () if out is None else out if type(out) is tuple else (out,)
        if (self.torch is not None and self.torch.is_recorded(arguments + given)) or (out is not None and not given):
            return None
        try:
            made = _call(self.handle, arguments, given)
        # a tensor that has no memory of its own: what it is will be said
        except RuntimeError:
            return None
        if given and self.torch is not None and made is not None:
            note_written(given)
        return made

    def add(self, prepared: Prepared, arguments, out: "list | None", torch: "Torch | None" = None) -> None:
        """A call that has run on these as they lie; `torch`, where it gives tensors."""
        sources = [position for position, _, _ in prepared.sources]
        if prepared.sizes or None in sources:
            return
        if out is not None:
            makers = ()
        elif torch is None:
            makers = tuple(part for made in prepared.new for part in (np.empty, made))
        else:
            makers = tuple(part for maker in torch.makers(prepared) for part in (maker, ()))
        room = None
        if torch is not None:
            self.torch = torch
            if prepared.on_gpu and prepared.workspace_bytes:
                room = prepared.workspaces.get((torch.name, torch.on_gpu.stream(prepared.gpu)))
                if room is None:                              # a graph is captured, whose memory it was
                    return
        number = _c.python.tilec_python_calls_add(
            self.handle,
            prepared.handle,
            tuple(arguments),
            tuple(out or ()),
            makers,
            (c.c_int32 * max(1, len(sources)))(*sources),
            room.data_ptr() if room is not None else None,
        )
        if number >= 0:
            self._known[number] = (
                prepared,
                makers,
                [value.dtype for value in (*arguments, *(out or ())) if type(value) is np.ndarray],
            )

    def in_order_of_use(self) -> "list[Prepared]":
        """The last one was used last."""
        known = sorted(self._known.items(), key=lambda entry: _c.python.tilec_python_calls_used(self.handle, entry[0]))
        return [prepared for _, (prepared, *_) in known]


def _unknown(handle, arguments, out) -> None:
    """Where objects do not lie as they do in CPython, each call is prepared the long way."""


def _begin():
    """What finds and runs a call."""
    if sys.implementation.name != "cpython" or not arrays_lie_as_known():
        return _unknown
    def place(name):
        return c.cast(getattr(c.pythonapi, name), c.c_void_p)
    names = (
        "Py_IncRef",
        "Py_DecRef",
        "PyObject_CallObject",
        "PyTuple_New",
        "PyTuple_SetItem",
        "PyErr_Occurred",
        "PyEval_SaveThread",
        "PyEval_RestoreThread",
    )
    _c.python.tilec_python_begin(
        c.byref(_c.Interpreter(HEADER, id(np.ndarray), id(float), id(None), *map(place, names)))
    )
    return _c.python.tilec_python_call


_call = _begin()
