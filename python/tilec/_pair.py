"""Forward and backward of one call, with what goes from one to the other."""
from __future__ import annotations

import numpy as np

from ._arguments import as_argument
from ._call import Prepared
from .errors import ArgumentTypeError, ShapeError


class Pair:
    """Two kernels; calling it with arguments runs the first and gives its outputs and a Backward."""

    def __init__(self, forward: int, backward: int, inputs: "tuple[str, ...]", outputs: "tuple[str, ...]"):
        self.used, self.inputs, self.count = 0, inputs, len(outputs)
        self.forward, self.backward = Prepared(forward, inputs), Prepared(backward)
        self.names = [name for name, _, _ in self.forward.outputs]  # outputs, then what is kept
        given = set(inputs) | set(self.names)
        self.wanted = self.backward.port_names                # in the kernel's order
        self.cotangents = [name for name in self.wanted if name not in given]
        self.sizes = self.forward.sizes

    def __call__(self, values: list):
        made = self.forward(values, None)
        made = list(made) if isinstance(made, tuple) else [made]
        outputs = made[: self.count]
        known = dict(zip(self.inputs, values))
        known.update(zip(self.names, made))
        return outputs[0] if self.count == 1 else tuple(outputs), Backward(self, {name: known[name] for name in self.wanted if name in known})


class Backward:
    """The backward pass of one call."""

    def __init__(self, pair: Pair, held: dict):
        self._pair, self._held = pair, held

    @property
    def kept(self) -> "dict[str, int]":
        """Values in between that forward stored for backward, with their bytes; arguments and results are not among them."""
        return {name: self._held[name].nbytes for name in self._pair.names[self._pair.count:] if name in self._held}

    def __repr__(self) -> str:
        return "<tilec.Backward (%s) -> (%s), keeps %d bytes>" % (", ".join(self._pair.cotangents), ", ".join(name for name, _, _ in self._pair.backward.outputs), sum(self.kept.values()))

    def __call__(self, *cotangents, **named):
        pair = self._pair
        names = pair.cotangents
        values = list(cotangents) + [named.pop(name) for name in names[len(cotangents):] if name in named]
        if named or len(values) != len(names):
            raise TypeError("backward takes (%s); %d cotangents were given%s" % (", ".join(names), len(values), ", and unknown or repeated ones: " + ", ".join(named) if named else ""))
        given = dict(zip(names, values))
        return pair.backward([self._cotangent(name, given[name], dtype, shape) if name in given else self._held[name]
                              for name, (_, dtype, shape) in zip(pair.wanted, pair.backward.sources)], None)

    @staticmethod
    def _cotangent(name: str, value, dtype: np.dtype, shape: "tuple[int, ...]"):
        value = as_argument(name, value)
        if isinstance(value, np.ndarray):
            if value.dtype != dtype:
                raise ArgumentTypeError("%s is %s but is given %s" % (name, dtype, value.dtype), [])
            if value.shape == shape:
                return np.require(value, requirements=["C", "A"])
        elif not shape and value is not None:
            return value
        given = "nothing" if value is None else "a number" if not isinstance(value, np.ndarray) else list(value.shape) or "a scalar"
        raise ShapeError("%s is %s but is given %s" % (name, list(shape) or "a scalar", given), [])
