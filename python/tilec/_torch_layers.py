"""What layers of PyTorch are in Tile: a table with a row for each type of module.

    torch.nn.Conv2d(4, 6, 3, stride=2, groups=2)   ⇒   Y = conv2d_nchw<stride_h=2, stride_w=2, …, groups=2>(X, weight) + reshape(bias, CO, 1, 1);

The module's own attributes are parameters of the function; a row also says how the tensors that the layer is called with become those that the function
takes, and back.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import typing

import torch
from torch import nn

_AXES = {1: "W", 2: "HW", 3: "THW"}                           # sizes of images, and of their names in std/
_NCHW = {1: "1d_ncw", 2: "2d_nchw", 3: "3d_ncdhw"}
_DIRECTIONS = {1: ("",), 2: ("_h", "_w"), 3: ("_t", "_h", "_w")}   # of options in std/, and sides of their padding
_SIDES = {1: (("left", "right"),), 2: (("top", "bottom"), ("left", "right"))}
_SIDES[3] = (("front", "back"), *_SIDES[2])


class Uncovered(Exception):
    """Why a module is not replaced."""


# ---- shapes: from the tensors that a layer is called with to those that its function takes, and back

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


def one_plane(run, x):
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


def _options(values: "dict[str, tuple]", *names: str) -> str:
    """`stride_h=2, stride_w=1`"""
    return ", ".join(
        "%s%s=%d" % (name, direction, value)
        for name in names
        for direction, value in zip(_DIRECTIONS[len(values[name])], values[name])
    )


def _sizes(*first: str, rank: int, kernel: bool = False) -> str:
    return "[%s]" % ", ".join([*first, *[("K" if kernel else "") + axis for axis in _AXES[rank]]])


def _on_channels(name: str, size: str, rank: int) -> str:
    return "reshape(%s, %s)" % (name, ", ".join([size] + ["1"] * rank))


def _conv(rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    values = _per_direction(module, rank)
    # another padding is put around the image before, by PyTorch, as its own layer does
    if module.padding_mode != "zeros" or module.padding == "valid":
        around = [(0, 0)] * rank
    elif module.padding == "same":
        total = [d * (k - 1) for d, k in zip(values["dilation"], values["kernel_size"])]
        around = [(t // 2, t - t // 2) for t in total]
    else:
        around = [(p, p) for p in values["padding"]]
    sides = ", ".join(
        "padding_%s=%d, padding_%s=%d" % (before, b, after, a) for (before, after), (b, a) in zip(_SIDES[rank], around)
    )
    call = "conv%s<%s, %s, groups={groups}>(X, weight)" % (_NCHW[rank], _options(values, "stride", "dilation"), sides)
    return _convolution(call, rank, module, "GC", ("CO", "CI")), values


def _conv_transpose(rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    values = _per_direction(module, rank)
    call = "conv%s<%s, groups={groups}>(X, weight)" % (
        _NCHW[rank].replace("d_", "d_transpose_"),
        _options(values, "stride", "dilation", "padding", "output_padding"),
    )
    return _convolution(call, rank, module, "CI", ("CI", "GC")), values


def _convolution(call: str, rank: int, module: nn.Module, channels: str, of_weight: "tuple[str, str]") -> Layer:
    layer = Layer(
        call,
        "conv_nchw",
        _sizes("N", channels, rank=rank),
        {"weight": _sizes(*of_weight, rank=rank, kernel=True)},
        shaped=functools.partial(_images, rank),
        narrow=True,
    )
    return _with_bias(module, rank, layer, "CO")


def _with_bias(module: nn.Module, rank: int, layer: Layer, size: str) -> Layer:
    if module.bias is not None:
        layer.call += " + " + _on_channels("bias", size, rank)
        layer.tensors = {**layer.tensors, "bias": "[%s]" % size}
    return layer


def _pool(which: str, rank: int, module: nn.Module) -> "tuple[Layer, dict]":
    values = _per_direction(module, rank)
    if getattr(module, "return_indices", False):
        raise Uncovered("return_indices=True: the functions of std/ give no indices")
    options = _options(values, "kernel_size", "stride", "padding") + ", ceil_mode={ceil_mode}"
    if which == "max":
        options += ", " + _options(values, "dilation")
    else:
        options += ", count_include_pad={count_include_pad}"
        if getattr(module, "divisor_override", None):
            options += ", divisor_override={divisor_override}"
    call = "%s_pool%s<%s>(X)" % (which, _NCHW[rank], options)
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
        call = "reshape(global_%s_pool_nchw(X), %s)" % (which, ", ".join(["N", "C"] + ["1"] * rank))
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
                 shaped=lambda run, x: _images(rank, functools.partial(one_plane, run), x)), {}


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
            shaped=one_plane,
        ),
        {},
    ),
    nn.LocalResponseNorm: lambda module: (
        Layer("local_response_norm_nchw<{size}, {alpha}, {beta}, {k}>(X)", "norm", _PLANE, shaped=one_plane),
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
        Layer("softmax<dim=1>(X)", "softmax", _PLANE, shaped=functools.partial(_images, 2)),
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
            "BCE": "binary_cross_entropy_each(X, T)",
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
