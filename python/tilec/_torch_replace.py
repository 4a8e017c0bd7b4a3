"""Layers of a model of PyTorch that the functions of std/ compute instead.

    torch.nn.Conv2d(4, 6, 3, stride=2, groups=2)   ⇒   Y = conv2d_nchw_hw<2, 2, 1, 1, 0, 0, 2, 0, 0>(X, weight) + reshape(bias, CO, 1, 1);

LAYERS says for each type of module what it is in Tile, with the module's own attributes as parameters. A module that is replaced stays the object that
it was, with its parameters, buffers, hooks and attributes: its class becomes one that derives from it, whose forward calls the operator of that text.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import re
import typing

import torch
from torch import nn

from . import compile as compile_tile
from ._libraries import of_torch
from ._torch_op import Op, op

_AXES = {1: "W", 2: "HW", 3: "THW"}                           # sizes of images, and of their names in std/
_HW = {1: "1d_ncw", 2: "2d_nchw_hw", 3: "3d_ncdhw_thw"}
_NCHW = {1: "1d_ncw", 2: "2d_nchw", 3: "3d_ncdhw"}


class Uncovered(Exception):
    """Why a module is not replaced."""


# ---- shapes: from the tensors that a layer is called with to those that its function takes, and back
# ----------------------------

def _as_is(run, *inputs):
    return run(*inputs)


def _rows(run, *inputs):
    """Functions of X[M, C]: all dimensions but the last are one."""
    if all(x.dim() == 2 for x in inputs):
        return run(*inputs)
    y = run(*[x.reshape(-1, x.shape[-1]) for x in inputs])
    return y.reshape(*inputs[0].shape[:-1], y.shape[-1])


def _along(dim: int, run, x):
    """Functions of the last dimension, along another."""
    if x.dim() == 0:
        return _rows(run, x[None])[0]
    return _rows(run, x) if dim in (-1, x.dim() - 1) else _rows(run, x.movedim(dim, -1)).movedim(-1, dim)


def _images(rank: int, run, x):
    """Functions of X[N, C, …]; one image goes without N."""
    if x.dim() == rank + 1:
        return run(x[None])[0]
    return run(x)


def _one_plane(run, x):
    """Functions of X[N, C, H, W] that treat all pixels alike."""
    return run(x) if x.dim() == 4 else run(x.reshape(*x.shape[:2], x.shape[2:].numel(), 1)).reshape(x.shape)


def _channels(run, x):
    """Functions of X[N, C, L]."""
    return run(x) if x.dim() == 3 else run(x.reshape(*x.shape[:2], x.shape[2:].numel())).reshape(x.shape)


def _last_dimensions(sizes: "tuple[int, ...]", run, x):
    """Functions of X[M, C], where C is all the last dimensions, of these sizes."""
    if x.shape[-len(sizes):] != sizes:
        raise ValueError(
            "the last dimensions of the input are %s; the layer's normalized_shape is %s"
            % (list(x.shape[-len(sizes) :]), list(sizes))
        )
    return run(x) if len(sizes) == 1 and x.dim() == 2 else run(x.reshape(-1, math.prod(sizes))).reshape(x.shape)


def _elements(run, x, target):
    """Functions of X[N] and T[N]."""
    x, target = torch.broadcast_tensors(x, target)
    return run(x.reshape(-1), target.reshape(-1)).reshape(x.shape)


def _all_elements(per_example: bool, run, x, target):
    """The same, with one number for all."""
    x, target = torch.broadcast_tensors(x, target)
    y = run(x.reshape(-1), target.reshape(-1))
    return y / x.shape[0] if per_example and x.dim() else y


def _looked_up(run, indices):
    if indices.dim() == 1:
        return run(indices)
    rows = run(indices.reshape(-1))
    return rows.reshape(*indices.shape, rows.shape[-1])


# ---- the table
# ------------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Layer:
    """`call` is an expression of Tile, or statements the last of which gives Y. In braces stand attributes of the
    module, spelled for each direction where the module has directions. `X` are the sizes of what the layer is called
    with, `tensors` those of its parameters and buffers.
    """
    call: str
    file: str                                                 # of std/, "a b": two
    X: "str | None" = None                                    # None: any rank
    tensors: "dict[str, str]" = dataclasses.field(default_factory=dict)
    # statements that stand for tensors that are None
    absent: "dict[str, str]" = dataclasses.field(default_factory=dict)
    shaped: typing.Callable = _as_is
    outputs: str = "Y"
    # under autocast its tensors become what autocast says; else the widest type among them
    narrow: bool = False
    checked: bool = False
    # values in braces that are others where it is called with f64
    double: "dict | None" = None


def _per_direction(module: nn.Module, rank: int) -> "dict[str, tuple]":
    """Attributes that are one number for all directions, or one for each."""
    values = {
        name: getattr(module, name)
        for name in ("kernel_size", "stride", "padding", "dilation", "output_padding")
        if hasattr(module, name)
    }
    return {
        name: tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
        for name, value in values.items()
        if not isinstance(value, str)
    }


def _sizes(*first: str, rank: int, kernel: bool = False) -> str:
    return "[%s]" % ", ".join([*first, *[("K" if kernel else "") + axis for axis in _AXES[rank]]])


def _on_channels(name: str, size: str, rank: int) -> str:
    return "reshape(%s, %s)" % (name, ", ".join([size] + ["1"] * rank))


def _conv(rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    values = _per_direction(module, rank)
    # another padding is put around the image before, by PyTorch, as its own layer does
    if module.padding_mode != "zeros" or module.padding == "valid":
        values["before"] = values["after"] = (0,) * rank
    elif module.padding == "same":
        total = [d * (k - 1) for d, k in zip(values["dilation"], values["kernel_size"])]
        values["before"], values["after"] = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    else:
        values["before"] = values["after"] = values["padding"]
    call = "conv%s<{stride}, {dilation}, {before}, {groups}, {after}>(X, weight)" % _HW[rank]
    return (
        _with_bias(
            module,
            rank,
            Layer(
                call,
                "conv_nchw",
                _sizes("N", "GC", rank=rank),
                {"weight": _sizes("CO", "CI", rank=rank, kernel=True)},
                shaped=functools.partial(_images, rank),
                narrow=True,
            ),
            "CO",
        ),
        values,
    )


def _conv_transpose(rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    call = "conv%s<{stride}, {dilation}, {padding}, {output_padding}, {groups}>(X, weight)" % _HW[rank].replace(
        "d_", "d_transpose_"
    )
    return _with_bias(
        module,
        rank,
        Layer(
            call,
            "conv_nchw",
            _sizes("N", "CI", rank=rank),
            {"weight": _sizes("CI", "GC", rank=rank, kernel=True)},
            shaped=functools.partial(_images, rank),
            narrow=True,
        ),
        "CO",
    ), _per_direction(module, rank)


def _with_bias(module: nn.Module, rank: int, layer: Layer, size: str) -> Layer:
    if module.bias is not None:
        layer.call += " + " + _on_channels("bias", size, rank)
        layer.tensors = {**layer.tensors, "bias": "[%s]" % size}
    return layer


def _pool(which: str, rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    values = _per_direction(module, rank)
    if getattr(module, "return_indices", False):
        raise Uncovered("return_indices=True: the functions of std/ give no indices")
    if which == "max":
        call = "max_pool%s<{kernel_size}, {stride}, {padding}, {dilation}, {ceil_mode}>(X)" % _HW[rank]
    elif (
        not module.ceil_mode
        and (module.count_include_pad or not any(values["padding"]))
        and getattr(module, "divisor_override", None) is None
    ):
        call = "avg_pool%s<{kernel_size}, {stride}, {padding}>(X)" % _HW[rank]
    else:
        values["inside"] = not module.count_include_pad
        values["divisor"] = getattr(module, "divisor_override", None) or 0
        call = "avg_pool%s_counted<{kernel_size}, {stride}, {padding}, {ceil_mode}, {inside}%s>(X)" % (
            _NCHW[rank],
            ", {divisor}" if rank > 1 else "",
        )
    return Layer(call, "pool_nchw", _sizes("N", "C", rank=rank), shaped=functools.partial(_images, rank)), values


def _adaptive(which: str, rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    sizes = module.output_size if isinstance(module.output_size, (tuple, list)) else (module.output_size,) * rank
    if getattr(module, "return_indices", False):
        raise Uncovered("return_indices=True: the functions of std/ give no indices")
    if None in sizes:
        raise Uncovered(
            "output_size=%r: None is the image's own size, which only the call shows" % (module.output_size,)
        )
    if all(size == 1 for size in sizes):
        call = "reshape(global_%s_pool%s(X), %s)" % (which, _NCHW[rank], ", ".join(["N", "C"] + ["1"] * rank))
    else:
        call = "adaptive_%s_pool%s<{sizes}>(X)" % (which, _NCHW[rank])
    return Layer(call, "pool_nchw", _sizes("N", "C", rank=rank), shaped=functools.partial(_images, rank)), {
        "sizes": sizes
    }


def _rms_norm(module: nn.Module) -> "tuple[Layer, dict]":
    layer, values = _over_last("rms_norm<{eps}>(X, weight)", module)
    # PyTorch takes the rounding of the type that it computes in
    if module.eps is None:
        values["eps"], layer.double = torch.finfo(torch.float32).eps, {"eps": torch.finfo(torch.float64).eps}
    return layer, values


_PLANE = "[N, C, H, W]"
_SCALE = {"weight": "weight[c: C] = =(1.0);", "bias": "bias[c: C] = =(0.0);"}
_OF_CHANNELS = {"weight": "[C]", "bias": "[C]"}


def _batch_norm(module: nn.Module) -> "tuple[Layer, dict]":
    if module.training or module.running_mean is None:
        return (
            Layer(
                "(Y, MEAN, VARIANCE) = batch_norm_nchw<{eps}>(X, weight, bias);",
                "norm",
                _PLANE,
                _OF_CHANNELS,
                _SCALE,
                outputs="Y, MEAN, VARIANCE",
            ),
            {},
        )
    return Layer("batch_norm_inference_nchw<{eps}>(X, running_mean, running_var, weight, bias)", "norm", _PLANE,
                 {"running_mean": "[C]", "running_var": "[C]", **_OF_CHANNELS}, _SCALE), {}


def _instance_norm(rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    if module.track_running_stats:
        raise Uncovered("track_running_stats=True: the function of std/ has no running statistics")
    return Layer("instance_norm_nchw<{eps}>(X, weight, bias)", "norm", _PLANE, _OF_CHANNELS, _SCALE,
                 shaped=lambda run, x: _images(rank, functools.partial(_one_plane, run), x)), {}


def _over_last(call: str, module: nn.Module) -> "tuple[Layer, dict]":
    """Norms over the last dimensions."""
    letters = ["C%d" % k for k in range(len(module.normalized_shape))]
    tensors = {name: "[%s]" % ", ".join(letters) for name in ("weight", "bias") if name in call}
    flat = {name: "reshape(%s, C)" % name if getattr(module, name, None) is not None else name for name in tensors}
    for name, text in flat.items():
        call = re.sub(r"\b%s\b" % name, text, call)
    return (
        Layer(
            call,
            "norm",
            "[M, C]",
            tensors,
            _SCALE,
            shaped=functools.partial(_last_dimensions, tuple(module.normalized_shape)),
        ),
        {},
    )


def _prelu(module: nn.Module) -> "tuple[Layer, dict]":
    if module.num_parameters == 1:
        return (
            Layer(
                "prelu(X, reshape(weight))",
                "activation",
                "[N]",
                {"weight": "[C]"},
                shaped=lambda run, x: run(x.reshape(-1)).reshape(x.shape),
            ),
            {},
        )
    return Layer("prelu(X, reshape(weight, C, 1))", "activation", "[N, C, L]", {"weight": "[C]"}, shaped=_channels), {}


def _softmax(call: str, module: nn.Module) -> "tuple[Layer, dict]":
    if module.dim is None:
        raise Uncovered("dim=None: PyTorch chooses the dimension at the call")
    return (
        Layer(
            call,
            "softmax" if "glu" not in call else "activation",
            "[M, C]",
            shaped=functools.partial(_along, module.dim),
        ),
        {},
    )


def _linear(module: nn.Module) -> "tuple[Layer, dict]":
    tensors = {"weight": "[CO, CI]"}
    if module.bias is None:
        return Layer("matmul_nt(X, weight)", "linear", "[N, CI]", tensors, shaped=_rows, narrow=True), {}
    return (
        Layer("linear(X, weight, bias)", "linear", "[N, CI]", {**tensors, "bias": "[CO]"}, shaped=_rows, narrow=True),
        {},
    )


def _embedding(module: nn.Module) -> "tuple[Layer, dict]":
    for name, usual in (("max_norm", None), ("scale_grad_by_freq", False), ("sparse", False)):
        if getattr(module, name) != usual:
            raise Uncovered("%s=%r: the function of std/ has no such thing" % (name, getattr(module, name)))
    call = "embedding(X, weight)"
    if module.padding_idx is not None:
        call = (
            "Rows = %s; Held = stop_gradient(Rows); Label = labels(X); Y[t, d: T, D] = =(Label[t] == {padding_idx} ? Held[t, d] : Rows[t, d]);"
            % call
        )
    return Layer(call, "embedding safe", "[T]", {"weight": "[V, D]"}, shaped=_looked_up, checked=True), {}


def _cell(call: str, states: str, outputs: str, module: nn.Module) -> "tuple[Layer, dict]":
    if getattr(module, "nonlinearity", "tanh") != "tanh":
        raise Uncovered("nonlinearity=%r: the cell of std/ has tanh" % module.nonlinearity)
    tensors = {"weight_ih": "[R, I]", "weight_hh": "[R, M]", "bias_ih": "[R]", "bias_hh": "[R]"}
    absent = {name: "%s[r: dim(weight_ih, 0)] = =(0.0);" % name for name in ("bias_ih", "bias_hh")}
    inputs = ", ".join("%s[N, M]" % state for state in states.split(", "))
    return (
        Layer(
            "(%s) = %s(X, %s, weight_ih, weight_hh, bias_ih, bias_hh);" % (outputs, call, states),
            "recurrent",
            "X[N, I], " + inputs,
            tensors,
            absent,
            outputs=outputs,
            narrow=True,
        ),
        {},
    )


def _loss(call: str, module: nn.Module) -> "tuple[Layer, dict]":
    """Losses of an element and its target, and their mean or sum."""
    for name, usual in (
        ("weight", None),
        ("pos_weight", None),
        ("log_input", True),
        ("full", False),
        ("log_target", False),
    ):
        if getattr(module, name, usual) is not usual:
            raise Uncovered(
                "%s is given, which the function of std/ has not" % name
                if usual is None
                else "%s=%r: the function of std/ has %r" % (name, not usual, usual)
            )
    if module.reduction == "none":
        return Layer(call, "loss safe", "X[N], T[N]", shaped=_elements), {}
    sum_up = "E = wide(%s); S[] = +(E[i]); Y = as_float(S%s, X);" % (call, " / N" if module.reduction == "mean" else "")
    return (
        Layer(
            sum_up, "loss safe", "X[N], T[N]", shaped=functools.partial(_all_elements, module.reduction == "batchmean")
        ),
        {},
    )


def _activation(call: str, file: str = "activation") -> "typing.Callable[[nn.Module], tuple[Layer, dict]]":
    return lambda module: (Layer(call, file), {})


_Row = typing.Callable[[nn.Module], "tuple[Layer, dict]"]

# What a module of a type is in Tile, and the values in braces that are no attributes of it.
LAYERS: "dict[type, _Row]" = {
    **{getattr(nn, "Conv%dd" % rank): functools.partial(_conv, rank) for rank in _AXES},
    **{getattr(nn, "ConvTranspose%dd" % rank): functools.partial(_conv_transpose, rank) for rank in _AXES},
    **{getattr(nn, "MaxPool%dd" % rank): functools.partial(_pool, "max", rank) for rank in _AXES},
    **{getattr(nn, "AvgPool%dd" % rank): functools.partial(_pool, "avg", rank) for rank in _AXES},
    **{getattr(nn, "AdaptiveMaxPool%dd" % rank): functools.partial(_adaptive, "max", rank) for rank in _AXES},
    **{getattr(nn, "AdaptiveAvgPool%dd" % rank): functools.partial(_adaptive, "avg", rank) for rank in _AXES},
    **{getattr(nn, "BatchNorm%dd" % rank): _batch_norm for rank in _AXES},
    **{getattr(nn, "InstanceNorm%dd" % rank): functools.partial(_instance_norm, rank) for rank in _AXES},
    nn.GroupNorm: lambda module: (
        Layer(
            "group_norm_nchw<{num_groups}, {eps}>(X, weight, bias)",
            "norm",
            _PLANE,
            _OF_CHANNELS,
            _SCALE,
            shaped=_one_plane,
        ),
        {},
    ),
    nn.LocalResponseNorm: lambda module: (
        Layer("local_response_norm_nchw<{size}, {alpha}, {beta}, {k}>(X)", "norm", _PLANE, shaped=_one_plane),
        {},
    ),
    nn.LayerNorm: lambda module: _over_last("layer_norm<{eps}>(X, weight, bias)", module),
    nn.RMSNorm: _rms_norm,
    nn.Linear: _linear,
    nn.Bilinear: lambda module: (
        Layer(
            "bilinear(X1, X2, weight)" + (" + bias" if module.bias is not None else ""),
            "linear",
            "X1[N, P], X2[N, Q]",
            {"weight": "[O, P, Q]", **({"bias": "[O]"} if module.bias is not None else {})},
            shaped=_rows,
            narrow=True,
        ),
        {},
    ),
    nn.Embedding: _embedding,
    nn.PReLU: _prelu,
    nn.Softmax: functools.partial(_softmax, "softmax(X)"),
    nn.Softmin: functools.partial(_softmax, "softmax(-X)"),
    nn.LogSoftmax: functools.partial(_softmax, "log_softmax(X)"),
    nn.GLU: functools.partial(_softmax, "glu(X)"),
    nn.Softmax2d: lambda module: (
        Layer("softmax_channels(X)", "softmax", _PLANE, shaped=functools.partial(_images, 2)),
        {},
    ),
    nn.GELU: lambda module: (Layer("gelu(X)" if module.approximate == "none" else "gelu_tanh(X)", "activation"), {}),
    nn.Softplus: _activation("{beta} * X > {threshold} ? X : softplus<{beta}>(X)", "safe"),
    nn.LogSigmoid: _activation("log_sigmoid(X)", "safe"),
    nn.RNNCell: functools.partial(_cell, "rnn_cell", "H", "Y"),
    nn.GRUCell: functools.partial(_cell, "gru_cell", "H", "Y"),
    nn.LSTMCell: functools.partial(_cell, "lstm_cell", "H, C", "Y, C1"),
    **{
        getattr(nn, name + "Loss"): functools.partial(_loss, call)
        for name, call in {
            "MSE": "squared_error(X, T)",
            "L1": "absolute_error(X, T)",
            "SmoothL1": "smooth_l1<{beta}>(X, T)",
            "Huber": "huber<{delta}>(X, T)",
            "BCE": "binary_cross_entropy(X, T)",
            "BCEWithLogits": "binary_cross_entropy_logits(X, T)",
            "SoftMargin": "soft_margin(X, T)",
            "HingeEmbedding": "hinge_embedding<{margin}>(X, T)",
            "PoissonNLL": "poisson(X, T)",
            "KLDiv": "kl_divergence(X, T)",
        }.items()
    },
    **{
        getattr(nn, name): _activation(call)
        for name, call in {
            "ReLU": "relu(X)",
            "ReLU6": "relu6(X)",
            "Sigmoid": "sigmoid(X)",
            "Tanh": "tanh(X)",
            "SELU": "selu(X)",
            "SiLU": "silu(X)",
            "Mish": "mish(X)",
            "Softsign": "softsign(X)",
            "Hardsigmoid": "hard_sigmoid(X)",
            "Hardswish": "hard_swish(X)",
            "Tanhshrink": "tanh_shrink(X)",
            "LeakyReLU": "leaky_relu<{negative_slope}>(X)",
            "ELU": "elu<{alpha}>(X)",
            "CELU": "celu<{alpha}>(X)",
            "Hardtanh": "hard_tanh<{min_val}, {max_val}>(X)",
            "Softshrink": "soft_shrink<{lambd}>(X)",
            "Hardshrink": "hard_shrink<{lambd}>(X)",
            "Threshold": "threshold<{threshold}, {value}>(X)",
        }.items()
    },
}


# ---- a module as a text of Tile
# -------------------------------------------------------------------------------------------------

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
def _operator(name: str, text: str, checked: bool, threads: int) -> Op:
    """One for each text. Its name says the text, so that processes agree on it; beside `<std/…>` lies no file that an
    import could mean."""
    known = hashlib.sha256(repr((text, checked, threads)).encode()).hexdigest()[:12]
    return op(
        compile_tile(text, function=name, name="<std/%s>" % name, checked=checked, threads=threads),
        "tilec::%s_%s" % (name, known),
    )


class _Tile:
    """How a module is computed: `op` with the tensors of these names."""

    def __init__(self, kind: type, module: nn.Module, threads: int):
        reader = _Reader(module)
        layer, values = LAYERS[kind](reader)
        self.tensors = [name for name in layer.tensors if getattr(reader, name, None) is not None]
        self.shaped, self.narrow, self.threads = layer.shaped, layer.narrow, threads
        name = kind.__name__.lower() + "_layer"
        self.call = layer.call.format_map(_Values(values, reader))
        self.op = _operator(name, _text(layer, name, self.call, self.tensors), layer.checked, threads)
        self.double = None
        if layer.double is not None:
            call = layer.call.format_map(_Values({**values, **layer.double}, reader))
            self.double = _operator(name, _text(layer, name, call, self.tensors), layer.checked, threads)
        self.reads = reader.names


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
        if tile.narrow and torch.is_autocast_enabled("cpu"):
            values = [value.to(torch.get_autocast_dtype("cpu")) for value in values]
        return (tile.op if tile.double is None or inputs[0].dtype is not torch.float64 else tile.double)(*values)

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
            return _one_plane(self._compute, input)
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
# --------------------------------------------------------------------------------------------------------------------

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
        if tensor.device.type != "cpu":
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
    leaves its input, which the list says.
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
