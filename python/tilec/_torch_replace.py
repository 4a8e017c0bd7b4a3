"""Layers of a model of PyTorch that the functions of std/ compute instead.

    tilec.torch.replace(model)     ⇒   model.features[0] is the Conv2d that it was, and computes its forward by conv2d_nchw

_torch_layers.py says for each type of module what it is in Tile. A module that is replaced stays the object that it was, with its parameters, buffers,
hooks and attributes: its class becomes one that derives from it, whose forward calls the operator of that text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib

import torch
from torch import nn

from . import compile as compile_tile
from ._libraries import of_torch
from ._torch_layers import LAYERS, Layer, Uncovered, one_plane
from ._torch_op import Op, op

# ---- a module as a text of Tile

class _Reader:
    """A module, and which of its attributes were asked for."""

    def __init__(self, module: nn.Module):
        self.module, self.names = module, set()

    def __getattr__(self, name: str):
        self.names.add(name)
        return getattr(self.module, name)


class _Values(dict):
    """What stands in braces."""

    def __init__(self, values: dict, reader: _Reader):
        super().__init__(values)
        self.reader = reader

    def __getitem__(self, name: str) -> str:
        return _spelled(super().__getitem__(name) if name in self else getattr(self.reader, name))


def _spelled(value) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_spelled, value))
    return repr(int(value)) if isinstance(value, int) else repr(float(value))


def _text(layer: Layer, name: str, call: str, tensors: "list[str]") -> str:
    inputs = "X" if layer.X is None else "X" + layer.X if layer.X.startswith("[") else layer.X
    statements = [
        statement for tensor, statement in layer.absent.items() if tensor in layer.tensors and tensor not in tensors
    ]
    statements.append(call if call.endswith(";") else "Y = %s;" % call)
    return '%sfunction %s(%s) -> (%s) {\n  %s\n}\n' % (
        "".join('import "std/%s.tile";\n' % file for file in layer.file.split()),
        name,
        ", ".join([inputs] + [tensor + layer.tensors[tensor] for tensor in tensors]),
        layer.outputs,
        "\n  ".join(statements),
    )


@functools.lru_cache(maxsize=None)
def _operator(name: str, text: str, checked: bool, threads: int, target: str) -> Op:
    """One for each text and target. Its name says the text, so that processes agree on it; beside `<std/…>` lies no
    file that an import could mean."""
    known = hashlib.sha256(repr((text, checked, threads)).encode()).hexdigest()[:12]
    return op(
        compile_tile(text, function=name, name="<std/%s>" % name, checked=checked, threads=threads, target=target),
        "tilec::%s_%s%s" % (name, known, "" if target == "cpu" else "_" + target),
    )


_UNCHECKED = "its indices are looked at, which a program on a GPU does not do"


class _Tile:
    """How a module is computed: an operator of `ops`, by the device of what it is called with, with the tensors of these
    names. `doubles`: those for f64, where they are others."""

    def __init__(self, kind: type, module: nn.Module, threads: int):
        reader = _Reader(module)
        layer, values = LAYERS[kind](reader)
        self.tensors = [name for name in layer.tensors if getattr(reader, name, None) is not None]
        self.shaped, self.narrow, self.threads = layer.shaped, layer.narrow, threads
        name = kind.__name__.lower() + "_layer"
        has_gpu = torch.cuda.is_available() and not layer.checked
        if layer.checked and any(getattr(reader, tensor).is_cuda for tensor in self.tensors):
            raise Uncovered(_UNCHECKED)

        def operators(call: str) -> "dict[str, Op]":
            text = _text(layer, name, call, self.tensors)
            return {
                target: _operator(name, text, layer.checked, threads, target)
                for target in (("cpu", "cuda") if has_gpu else ("cpu",))
            }

        self.call = layer.call.format_map(_Values(values, reader))
        self.ops = self.doubles = operators(self.call)
        if layer.double is not None:
            self.doubles = operators(layer.call.format_map(_Values({**values, **layer.double}, reader)))
        self.reads = reader.names

    def op(self, like: torch.Tensor) -> Op:
        found = (self.doubles if like.dtype is torch.float64 else self.ops).get(like.device.type)
        if found is None:
            raise ValueError(
                "the input lies on %s, where %s is not computed%s"
                % (like.device, self.call, ": " + _UNCHECKED if like.is_cuda else "")
            )
        return found


class _Replaced:
    """Of the classes of modules that are replaced; the other base is the module's own class."""

    def _retile(self, threads: int) -> None:
        self.__dict__["_tile"] = _Tile(_row_of(type(self)), self, threads)

    def __setattr__(self, name: str, value) -> None:
        super().__setattr__(name, value)
        tile = self.__dict__.get("_tile")
        if tile is not None and name in tile.reads:           # as train(), which makes another function of a batch norm
            try:
                self._retile(tile.threads)
            except Uncovered as reason:
                raise ValueError(
                    "%s was replaced by a function of std/, and %s=%r cannot be: %s"
                    % (type(self).__bases__[1].__name__, name, value, reason)
                ) from None

    def __getstate__(self) -> dict:
        state = dict(self.__dict__)
        state["_tile"] = state["_tile"].threads
        return state

    def __setstate__(self, state: dict) -> None:
        threads = state.pop("_tile")
        super().__setstate__(state)
        self._retile(threads)

    def __reduce_ex__(self, protocol):
        return _empty, (type(self).__bases__[1],), self.__getstate__()

    def _compute(self, *inputs):
        tile = self._tile
        values = [*inputs, *[getattr(self, name) for name in tile.tensors]]
        kind = inputs[0].device.type
        if tile.narrow and torch.is_autocast_enabled(kind):
            values = [value.to(torch.get_autocast_dtype(kind)) for value in values]
        return tile.op(inputs[0])(*values)

    def forward(self, input, *others):
        return self._tile.shaped(self._compute, input, *others)


class _ReplacedConv(_Replaced):
    def forward(self, input):
        if self.padding_mode != "zeros":
            input = nn.functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return self._tile.shaped(self._compute, input)


class _ReplacedConvTranspose(_Replaced):
    def forward(self, input, output_size=None):
        if output_size is not None:                           # which is another function for each size: PyTorch's own
            return super(_Replaced, self).forward(input, output_size)
        return self._tile.shaped(self._compute, input)


class _ReplacedCell(_Replaced):
    def forward(self, input, hx=None):
        pair = isinstance(self, nn.LSTMCell)
        if hx is None:
            hx = (input.new_zeros(*input.shape[:-1], self.hidden_size),) * (2 if pair else 1)
        states = hx if pair else hx if isinstance(hx, tuple) else (hx,)
        if input.dim() == 1:
            results = self._compute(input[None], *[state[None] for state in states])
            return tuple(each[0] for each in results) if pair else results[0]
        return self._compute(input, *states)


class _ReplacedBatchNorm(_Replaced):
    def forward(self, input):
        self._check_input_dim(input)
        if not self.training and self.running_mean is not None:
            return one_plane(self._compute, input)
        count = input.shape[0] * input.shape[2:].numel()
        if self.training and count == 1:
            raise ValueError(
                "Expected more than 1 value per channel when training, got input size %s" % (tuple(input.shape),)
            )
        plane = input if input.dim() == 4 else input.reshape(*input.shape[:2], input.shape[2:].numel(), 1)
        y, mean, variance = self._compute(plane)
        if self.training and self.running_mean is not None:
            self.num_batches_tracked.add_(1)
            if count:
                self._track(mean.detach(), variance.detach() * (count / (count - 1)))
        return y.reshape(input.shape)

    def _track(self, mean, variance) -> None:
        share = (
            self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        )
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


_BASES = {
    nn.modules.conv._ConvTransposeNd: _ReplacedConvTranspose,
    nn.modules.conv._ConvNd: _ReplacedConv,
    nn.modules.batchnorm._BatchNorm: _ReplacedBatchNorm,
    nn.modules.rnn.RNNCellBase: _ReplacedCell,
}


def _row_of(kind: type) -> "type | None":
    return next((each for each in kind.__mro__ if each in LAYERS), None)


@functools.lru_cache(maxsize=None)
def _replaced_class(kind: type) -> type:
    base = next((ours for theirs, ours in _BASES.items() if issubclass(kind, theirs)), _Replaced)
    return type("Tile" + kind.__name__, (base, kind), {"__module__": __name__})


def _empty(kind: type):
    """A module to which its state is given, in copy and pickle."""
    made = kind.__new__(kind)
    made.__class__ = _replaced_class(kind)
    return made


# ---- a model

_NOT_IN_PLACE = "  (inplace=True: the result is a new tensor, the input stays as it is)"
_NO_ARITHMETIC = (nn.Identity, nn.Flatten, nn.Unflatten)


def _refuse(module: nn.Module) -> "type":
    """The row of a module. Uncovered: there is none, or what the module does is not what its type says."""
    kind, row = type(module), _row_of(type(module))
    if row is None:
        raise Uncovered("it computes nothing" if isinstance(module, _NO_ARITHMETIC) else "no layer of std/ is its like")
    if "forward" in vars(module) or any(
        getattr(kind, name, None) is not getattr(row, name, None) for name in ("forward", "_conv_forward")
    ):
        raise Uncovered("it has a forward of its own")
    if isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear):
        raise Uncovered("who holds it reads its parameters and does not call it")
    if isinstance(module, nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        raise Uncovered("its parameters have no sizes yet: call it once before")
    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
        if tensor.device.type not in ("cpu", "cuda"):
            raise Uncovered("%s lies on %s" % (name, tensor.device))
        if tensor.dtype not in of_torch().taken:
            raise Uncovered("%s is of %s, which is none of Tile's types" % (name, tensor.dtype))
    return row


@dataclasses.dataclass
class Replacement:
    """What replace() did: modules by their path in the model, those that were replaced with what they are in Tile, the
    rest with the reason."""
    replaced: "dict[str, str]" = dataclasses.field(default_factory=dict)
    left: "dict[str, str]" = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        width = max(map(len, [*self.replaced, *self.left]), default=0)
        lines = ["%-*s  %s" % (width, path, call) for path, call in self.replaced.items()]
        return "\n".join(lines + ["%-*s  left: %s" % (width, path, reason) for path, reason in self.left.items()])


def replace(model: nn.Module, *types: type, threads: int = 0) -> Replacement:
    """Swaps the layers of a model, in place, for functions of std/ where it has their like, and says which.

        report = tilec.torch.replace(model, torch.nn.Conv2d, torch.nn.Linear)
        print(report)

    types: the modules that are meant, with those that derive from them; none: all that std/ covers. The modules stay
    the objects they are, with their parameters, hooks and attributes, and are instances of their types still:
    state_dict(), deepcopy, pickle, .to() and torch.compile(fullgraph=True) go on working, and an attribute that is
    changed later (train(), eval() too) changes the function. A layer with inplace=True gives a tensor of its own and
    leaves its input, which the list says. A model may lie on the CPU or on a GPU, and be moved: a layer runs where its
    input lies; one that looks at indices (embeddings) is left on a GPU.
    Listed as left are modules of the types given, or without types all modules without children, that are not replaced.
    threads: as in tilec.compile.
    TypeError: model is no module, or a type no type of modules.
    """
    if not isinstance(model, nn.Module):
        raise TypeError("replace() takes a torch.nn.Module, not a %s" % type(model).__name__)
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise TypeError("replace() takes types of modules, such as torch.nn.Conv2d, not %r" % (kind,))
    report = Replacement()
    for path, module in list(model.named_modules()):
        wanted = isinstance(module, types) if types else _row_of(type(module)) is not None or not any(module.children())
        if not wanted or isinstance(module, _Replaced):
            continue
        path = path or "(the model)"
        try:
            tile = _Tile(_refuse(module), module, threads)
        except Uncovered as reason:
            report.left[path] = str(reason)
            continue
        module.__class__ = _replaced_class(type(module))
        module.__dict__["_tile"] = tile
        report.replaced[path] = tile.call + (_NOT_IN_PLACE if getattr(module, "inplace", False) else "")
    return report
