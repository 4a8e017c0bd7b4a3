"""Forward and backward of one call, with what goes from one to the other."""
from __future__ import annotations

import typing

from ._again import Calls
from ._arguments import as_argument
from ._call import Prepared, as_compiled
from ._device import TorchPlace, is_place
from ._grouped import by_position
from ._libraries import library_of_call, version_of


class Pair:
    """Two kernels; calling it with arguments runs the first and gives its outputs and a Backward."""

    def __init__(self, forward: int, backward: int, inputs: "tuple[str, ...]", outputs: "tuple[str, ...]"):
        self.inputs, self.count = inputs, len(outputs)
        self.forward, self.backward = Prepared(forward, inputs), Prepared(backward)
        self.names = [name for name, _, _ in self.forward.outputs]  # outputs, then what is kept
        given = set(inputs) | set(self.names)
        self.wanted = self.backward.port_names                # in the kernel's order
        self.cotangents = [name for name in self.wanted if name not in given]
        self.sizes = self.forward.sizes
        self._again = Calls()                                 # of backward

    def __call__(self, values: list, library=None, given: typing.Sequence = ()):
        """Values as as_argument() gives them, of the arguments `given`, and arrays on a GPU as they are; results in
        `library`, None: NumPy."""
        made = self.forward(values, None) if library is None else library.run(self.forward, values)
        made = list(made) if isinstance(made, tuple) else [made]
        outputs = made[: self.count]
        known = dict(zip(self.inputs, values))
        known.update(
            (name, value if is_place(library) else as_argument(name, value)) for name, value in zip(self.names, made)
        )
        tensors = [
            (name, value)
            for name, value in [*zip(self.inputs, given), *zip(self.names, outputs)]
            if name in self.wanted
        ]
        backward = Backward(
            self,
            {name: known[name] for name in self.wanted if name in known},
            library,
            [(name, value, version_of(value)) for name, value in tensors],
        )
        return outputs[0] if self.count == 1 else tuple(outputs), backward

    def known_gradients(self, values: tuple):
        """Backward on values like those of a call before; None: there was none."""
        return self._again.run(values, None)

    def gradients(self, torch, values: list):
        """Backward on values that lie as its kernel takes them, tensors of PyTorch among them."""
        made = torch.run(self.backward, values)
        if not torch.is_recorded(values):
            if self._again.is_full:
                self._again = Calls()
            self._again.add(self.backward, values, None, torch)
        return made


class Backward:
    """The backward pass of one call: the second of what vjp() gives. Called with the cotangents of outputs, in order or
    by name, it gives the gradients: one as its array, several as a tuple, in the library of the call. It may be called
    more than once; arrays of the call must not have changed:
    RuntimeError where tensors of PyTorch have, which count changes. Not pickled.
    """

    def __init__(self, pair: Pair, held: dict, library=None, versions: "typing.Sequence[tuple]" = ()):
        self._pair, self._held, self._library = pair, held, library
        self._versions = [each for each in versions if each[2] is not None]  # (name, tensor, its version)

    def __reduce__(self) -> typing.NoReturn:
        raise TypeError("backward is not pickled: it holds the values of a call in this process")

    @property
    def kept(self) -> "dict[str, int]":
        """Values in between that forward stored for backward, with their bytes; arguments and results are not among
        them."""
        return {name: self._held[name].nbytes for name in self._pair.names[self._pair.count:] if name in self._held}

    def __repr__(self) -> str:
        return "<tilec.Backward (%s) -> (%s), keeps %d bytes>" % (
            ", ".join(self._pair.cotangents),
            ", ".join(name for name, _, _ in self._pair.backward.outputs),
            sum(self.kept.values()),
        )

    def __call__(self, /, *cotangents: typing.Any, **named: typing.Any) -> typing.Any:
        pair = self._pair
        for name, tensor, version in self._versions:
            if tensor._version != version:
                raise RuntimeError(
                    "%s, which is needed for gradient computation, has been modified by an inplace operation: it is at version %d; expected version %d instead"
                    % (name, tensor._version, version)
                )
        given = dict(zip(pair.cotangents, by_position("backward", pair.cotangents, cotangents, named)))
        if is_place(self._library):
            on_torch = isinstance(self._library, TorchPlace)
            if on_torch:
                made = pair.known_gradients(
                    tuple(given[name] if name in given else self._held[name] for name in pair.wanted)
                )
                if made is not None:
                    return made
            values = [
                self._library.as_compiled(name, given[name], dtype, shape) if name in given else self._held[name]
                for name, (_, dtype, shape) in zip(pair.wanted, pair.backward.sources)
            ]
            return (
                pair.gradients(self._library.library, values) if on_torch else self._library.run(pair.backward, values)
            )
        library = library_of_call(given, given.values())
        library = self._library or library
        values = [as_compiled(name, as_argument(name, given[name]), dtype, shape) if name in given else self._held[name]
                  for name, (_, dtype, shape) in zip(pair.wanted, pair.backward.sources)]
        if library is None:
            pair.backward.refuse_stand_ins()
            return pair.backward(values, None)
        return library.run(pair.backward, values)
