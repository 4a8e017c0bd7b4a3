"""Programs as functions, operators and modules of PyTorch.

    f = tilec.torch.function(program)                # eager: differentiable to any order, torch.func and forward mode
    op = tilec.torch.op(program)                     # the same, and registered: torch.compile(fullgraph=True), torch.export, autocast
    layer = tilec.torch.module(program, K=torch.nn.Parameter(…))
    print(tilec.torch.replace(model))                # layers of a model that std/ covers become functions of it

`import tilec` does not import PyTorch: this module does, when it is first used.
"""

from __future__ import annotations

import typing

import numpy as np
import torch

from . import Program

from ._torch_function import Function, function
from ._torch_op import Op, op
from ._torch_replace import Replacement, replace

__all__ = ["function", "op", "module", "replace", "Function", "Op", "Module", "Replacement"]


class Module(torch.nn.Module):
    """A program some of whose inputs are parameters or buffers of the module; it is called with the others, in order or
    by name."""

    def __init__(self, program: Program, values: "typing.Mapping[str, object]"):
        super().__init__()
        self.op = op(program)
        unknown = [name for name in values if name not in program.inputs]
        if unknown:
            raise TypeError(
                "%s: no input %s; there are %s"
                % (program.name or "the program", ", ".join(unknown), ", ".join(program.inputs))
            )
        self.bound = tuple(name for name in program.inputs if name in values)
        self.inputs = tuple(name for name in program.inputs if name not in values)
        for name in self.bound:
            value = torch.as_tensor(values[name]) if isinstance(values[name], np.generic) else values[name]
            if isinstance(value, (torch.Tensor, type(None))) and (name in self.__dict__ or hasattr(type(self), name)):
                raise ValueError("%s is an attribute that modules of PyTorch have: rename the input" % name)
            if isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(name, value)
            elif isinstance(value, (bool, int, float)):
                setattr(self, name, value)
            else:
                raise TypeError(
                    "%s is a %s: a module holds parameters, tensors and numbers" % (name, type(value).__name__)
                )

    def forward(self, *arguments, **named):
        if len(arguments) > len(self.inputs):
            raise TypeError(
                "%s takes (%s); %d arguments were given" % (self.op.name, ", ".join(self.inputs), len(arguments))
            )
        taken = [name for name in self.bound if name in named] + [
            name for name in self.inputs[: len(arguments)] if name in named
        ]
        if taken:
            raise TypeError("%s: %s is given already" % (self.op.name, ", ".join(taken)))
        values = {name: getattr(self, name) for name in self.bound}
        return self.op(**values, **dict(zip(self.inputs, arguments)), **named)

    def extra_repr(self) -> str:
        return "%s(%s) -> (%s)" % (self.op.name, ", ".join(self.op.inputs), ", ".join(self.op.outputs))


def module(program: Program, /, **values) -> Module:
    """An nn.Module of a program. What is given by name is bound: a Parameter becomes a parameter of the module of that
    name, another tensor a buffer, a number stays one. The other inputs are the arguments of a call.

        layer = tilec.torch.module(tilec.std.layer_norm, GAMMA=torch.nn.Parameter(torch.ones(8)),
        BETA=torch.nn.Parameter(torch.zeros(8))) Y = layer(X)
    """
    return Module(program, values)
