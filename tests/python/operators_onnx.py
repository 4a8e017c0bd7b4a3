"""ONNX's operators by functions of std/: an operator's attributes and inputs as its node tests have them, arrays of
NumPy.

A function gets the attributes as a dictionary and the inputs, None for one that is not given, and returns the outputs
that it has: fewer than the node's where the rest is not the library's.
"""
import math
import re

import numpy as np
import torch

import operators
from operators import LeftOut

TABLE = {}                                                  # operator: function(attributes, *inputs)
LAYOUT = {1: "ncw", 2: "nchw", 3: "ncdhw"}
AXES = {
    1: (("", "left", "right"),),
    2: (("_h", "top", "bottom"), ("_w", "left", "right")),
    3: (("_t", "front", "back"), ("_h", "top", "bottom"), ("_w", "left", "right")),
}


def std(name, *inputs, **parameters):
    given = [
        torch.from_numpy(np.ascontiguousarray(v).reshape(v.shape)) if isinstance(v, (np.ndarray, np.generic)) else v
        for v in inputs
    ]
    made = operators.std(name, *given, **parameters)
    return tuple(y.numpy() for y in made) if isinstance(made, tuple) else made.numpy()


covers = operators.covers_in(TABLE)


def elementwise(name, function, **renamed):
    """A function of one tensor; ONNX's attribute=parameter."""
    def operator(a, x):
        return std(function, x, **{renamed[key]: value for key, value in a.items()})
    operator.__name__ = function
    TABLE[name] = operator


elementwise("LeakyRelu", "leaky_relu", alpha="negative_slope")
elementwise("Elu", "elu", alpha="alpha")
elementwise("Celu", "celu", alpha="alpha")
elementwise("Selu", "selu", alpha="alpha", gamma="gamma")
elementwise("Swish", "silu", alpha="alpha")
elementwise("HardSwish", "hard_swish")
elementwise("Mish", "mish")
elementwise("Softplus", "softplus")
elementwise("Softsign", "softsign")
elementwise("Round", "round_half_even")
TABLE["PRelu"] = lambda a, x, slope: std("prelu", x, slope)
TABLE["HardSigmoid"] = lambda a, x: std("hard_sigmoid", x, alpha=a.get("alpha", 0.2), beta=a.get("beta", 0.5))
TABLE["SwiGLU"] = lambda a, gate, x: std("swiglu", x, gate, alpha=a.get("alpha", 1.0))
TABLE["Gelu"] = lambda a, x: std("gelu_tanh" if a.get("approximate") == "tanh" else "gelu", x)
TABLE["ThresholdedRelu"] = lambda a, x: std("threshold", x, threshold=a.get("alpha", 1.0))


@covers("Shrink")
def shrink(a, x):
    bias, lambd = a.get("bias", 0.0), a.get("lambd", 0.5)
    if bias not in (0.0, lambd):
        raise LeftOut("a bias that is neither 0 nor lambd")
    return std("soft_shrink" if bias else "hard_shrink", x, lambd=lambd)


# Products

@covers("MatMul")
def matmul(a, x, y):
    if x.ndim == 1 or y.ndim == 1:
        name = "dot" if x.ndim == y.ndim else "matvec" if y.ndim == 1 else "vecmat"
        batch = (x if y.ndim == 1 else y).shape[:-2]
        return std(
            name,
            np.broadcast_to(x, (*batch, x.shape[-1])) if x.ndim == 1 else x,
            np.broadcast_to(y, (*batch, y.shape[-1])) if y.ndim == 1 else y,
        )
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return std("matmul", np.broadcast_to(x, (*batch, *x.shape[-2:])), np.broadcast_to(y, (*batch, *y.shape[-2:])))


@covers("Gemm")
def gemm(a, x, y, c=None):
    return std(
        "gemm",
        x,
        y,
        c,
        alpha=a.get("alpha", 1.0),
        beta=a.get("beta", 1.0),
        transA=bool(a.get("transA")),
        transB=bool(a.get("transB")),
    )


@covers("Trilu")
def trilu(a, x, k=None):
    return std("triu" if a.get("upper", 1) else "tril", x, diagonal=0 if k is None else int(k))


# Softmax and normalisation

@covers("Softmax", "LogSoftmax")
def softmax(a, x):
    return std("softmax", x, dim=a.get("axis", -1))


TABLE["LogSoftmax"] = lambda a, x: std("log_softmax", x, dim=a.get("axis", -1))


def rows(x, axis):
    """The dimensions from `axis` on as one."""
    axis %= x.ndim
    return x.reshape(*x.shape[:axis], math.prod(x.shape[axis:]))


def flat(w, x, axis):
    """A weight of the dimensions from `axis` on."""
    return None if w is None else np.broadcast_to(w, x.shape[axis % x.ndim:]).reshape(-1)


@covers("LayerNormalization")
def layer_normalization(a, x, scale, bias=None):
    axis = a.get("axis", -1)
    return std(
        "layer_norm", rows(x, axis), flat(scale, x, axis), flat(bias, x, axis), eps=a.get("epsilon", 1e-5)
    ).reshape(x.shape)


@covers("RMSNormalization")
def rms_normalization(a, x, scale):
    axis = a.get("axis", -1)
    return std("rms_norm", rows(x, axis), flat(scale, x, axis), eps=a.get("epsilon", 1e-5)).reshape(x.shape)


@covers("BatchNormalization")
def batch_normalization(a, x, scale, bias, mean, variance):
    if a.get("training_mode"):
        y, m, v = std("batch_norm_nchw", x, scale, bias, eps=a.get("epsilon", 1e-5))
        momentum = 1 - a.get("momentum", 0.9)
        return y, std("running", mean, m, momentum=momentum), std("running", variance, v, momentum=momentum)
    return std("batch_norm_inference_nchw", x, mean, variance, scale, bias, eps=a.get("epsilon", 1e-5))


@covers("InstanceNormalization")
def instance_normalization(a, x, scale, bias):
    return std("instance_norm_nchw", x, scale, bias, eps=a.get("epsilon", 1e-5))


@covers("GroupNormalization")
def group_normalization(a, x, scale, bias):
    return std("group_norm_nchw", x, scale, bias, num_groups=a["num_groups"], eps=a.get("epsilon", 1e-5))


@covers("LRN")
def lrn(a, x):
    return std(
        "local_response_norm_nchw",
        x,
        size=a["size"],
        alpha=a.get("alpha", 1e-4),
        beta=a.get("beta", 0.75),
        k=a.get("bias", 1.0),
    )


@covers("LpNormalization")
def lp_normalization(a, x):
    return std("normalize", x, p=a.get("p", 2), dim=a.get("axis", -1))


# Reductions

def reduction(function):
    def operator(a, x, axes=None):
        axes = a.get("axes", axes)
        dims = sorted(int(d) % max(x.ndim, 1) for d in (np.atleast_1d(axes) if axes is not None else ()))
        if not dims and a.get("noop_with_empty_axes"):
            raise LeftOut("nothing to reduce")
        if function in ("onnx_reduce_max", "onnx_reduce_min") and x.size == 0:
            raise LeftOut("the largest of nothing, an error in std/")
        dims = dims or list(range(x.ndim))
        kept = [d for d in range(x.ndim) if d not in dims]
        y = std(function, np.transpose(x, [*kept, *dims]), start_dim=len(kept) if dims else 0, keepdims=False)
        return np.expand_dims(y, tuple(dims)) if a.get("keepdims", 1) else y
    return operator


for _name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"):
    TABLE["Reduce" + _name] = reduction("onnx_reduce_" + re.sub("(?<=[a-z])(?=[A-Z])", "_", _name).lower())


def place(function):
    def operator(a, x):
        return std(
            function,
            x,
            axis=a.get("axis", 0),
            keepdims=bool(a.get("keepdims", 1)),
            select_last_index=bool(a.get("select_last_index", 0)),
        )
    return operator


TABLE["ArgMax"], TABLE["ArgMin"] = place("onnx_arg_max"), place("onnx_arg_min")


@covers("Hardmax")
def hardmax(a, x):
    return std("hardmax", x, axis=a.get("axis", -1))


@covers("Flatten")
def flatten(a, x):
    return std("onnx_flatten", x, axis=a.get("axis", 1) % (x.ndim + 1) if a.get("axis", 1) >= 0 else a["axis"] + x.ndim)


@covers("MeanVarianceNormalization")
def mean_variance_normalization(a, x):
    axes = a.get("axes", [0, 2, 3])
    kept = [d for d in range(x.ndim) if d not in axes]
    moved = np.transpose(x, [*kept, *axes])
    y = std("standardise", moved.reshape(*(x.shape[d] for d in kept), -1), start_dim=-1).reshape(moved.shape)
    return np.transpose(y, np.argsort([*kept, *axes]))


@covers("CumSum")
def cumulative_sum(a, x, axis):
    return std("onnx_cum_sum", x, axis=int(axis), exclusive=bool(a.get("exclusive")), reverse=bool(a.get("reverse")))


@covers("CumProd")
def cumulative_product(a, x, axis):
    return std("onnx_cum_prod", x, axis=int(axis), exclusive=bool(a.get("exclusive")), reverse=bool(a.get("reverse")))


# Losses

@covers("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(a, x, target, weight=None):
    return std(
        "nll_loss", x, target, weight, reduction=a.get("reduction", "mean"), ignore_index=a.get("ignore_index", -100)
    )


@covers("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(a, x, target, weight=None):
    y = std(
        "cross_entropy_loss",
        x,
        target,
        weight,
        reduction=a.get("reduction", "mean"),
        ignore_index=a.get("ignore_index", -100),
    )
    return y, std("log_softmax", x, dim=1)


# Convolutions, pooling, images

def window(a, rank, **names):
    """ONNX's attribute=parameter, per axis; pads and auto_pad."""
    made = {}
    for key, parameter in names.items():
        if key in a:
            made.update({parameter + axis[0]: v for axis, v in zip(AXES[rank], a[key])})
    mode = a.get("auto_pad", "NOTSET")
    made["auto_pad"] = {"NOTSET": "explicit", "VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}[
        mode
    ]
    if "pads" in a and mode == "NOTSET":
        for k, axis in enumerate(AXES[rank]):
            made["padding_" + axis[1]], made["padding_" + axis[2]] = a["pads"][k], a["pads"][k + rank]
    return made


def with_bias(y, bias):
    return y if bias is None else y + bias.reshape(-1, *[1] * (y.ndim - 2))


@covers("Conv")
def conv(a, x, weight, bias=None):
    rank = x.ndim - 2
    return with_bias(
        std(
            "conv%dd_%s" % (rank, LAYOUT[rank]),
            x,
            weight,
            groups=a.get("group", 1),
            **window(a, rank, strides="stride", dilations="dilation"),
        ),
        bias,
    )


@covers("ConvTranspose")
def conv_transpose(a, x, weight, bias=None):
    rank = x.ndim - 2
    options = window(a, rank, strides="stride", dilations="dilation", output_padding="output_padding")
    if "output_shape" in a:
        ones = [1] * rank
        options["auto_pad"] = "explicit"
        for k, axis in enumerate(AXES[rank]):
            stride, dilation, more = (
                a.get(key, usual)[k]
                for key, usual in (("strides", ones), ("dilations", ones), ("output_padding", [0] * rank))
            )
            total = (
                stride * (x.shape[2 + k] - 1)
                + more
                + (weight.shape[2 + k] - 1) * dilation
                + 1
                - a["output_shape"][k - rank]
            )
            if total < 0:
                raise LeftOut("an output_shape beyond what the windows reach")
            before = total // 2 if a.get("auto_pad") == "SAME_UPPER" else total - total // 2
            options["padding_" + axis[1]], options["padding_" + axis[2]] = before, total - before
    return with_bias(
        std("conv%dd_transpose_%s" % (rank, LAYOUT[rank]), x, weight, groups=a.get("group", 1), **options), bias
    )


def pool(kind):
    def operator(a, x):
        rank = x.ndim - 2
        options = {
            **window(a, rank, kernel_shape="kernel_size", dilations="dilation"),
            "ceil_mode": a.get("ceil_mode", 0),
        }
        options.update({"stride" + axis[0]: v for axis, v in zip(AXES[rank], a.get("strides", [1] * rank))})
        name = "%s_pool%dd_%s" % (kind, rank, LAYOUT[rank])
        if kind == "avg":
            options["count_include_pad"] = a.get("count_include_pad", 0)
        if kind == "lp":
            options["norm_type"] = a.get("p", 2)
        if kind != "max":
            return std(name, x, **options)
        y, at = std(name + "_with_indices", x, **options)
        if a.get("storage_order"):
            at = np.ravel_multi_index(np.unravel_index(at, x.shape[2:])[::-1], x.shape[2:][::-1])
        planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * rank)
        return y, at + planes * math.prod(x.shape[2:])
    return operator


TABLE["MaxPool"], TABLE["AveragePool"], TABLE["LpPool"] = pool("max"), pool("avg"), pool("lp")


@covers("MaxUnpool")
def max_unpool(a, x, indices, shape=None):
    rank = x.ndim - 2
    own = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], a.get("strides", [1] * rank), a["kernel_shape"])]
    wanted = own if shape is None else [int(n) for n in shape[-rank:]]
    at = indices % math.prod(own)
    if own != wanted:
        at = np.ravel_multi_index(np.unravel_index(at, own), wanted)
    return std(
        "max_unpool%dd_%s" % (rank, LAYOUT[rank]),
        x,
        at,
        **dict(zip(["output_size"] if rank == 1 else ["output" + axis[0] for axis in AXES[rank]], wanted)),
    )


def global_pool(function):
    return lambda a, x: std(function, x).reshape(*x.shape[:2], *[1] * (x.ndim - 2))


TABLE["GlobalAveragePool"], TABLE["GlobalMaxPool"] = global_pool("global_avg_pool_nchw"), global_pool(
    "global_max_pool_nchw"
)


@covers("Resize")
def resize(a, x, roi=None, scales=None, sizes=None):
    axes = [int(d) % x.ndim for d in a.get("axes", range(x.ndim))]
    given = sizes is not None and sizes.size > 0
    if given:
        factors = [int(n) / x.shape[d] for n, d in zip(sizes, axes)]
        policy = a.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(axes)
            sizes = [int(math.floor(f * x.shape[d] + 0.5)) for f, d in zip(factors, axes)]
    else:
        factors, sizes = [float(f) for f in scales], [math.floor(f * x.shape[d]) for f, d in zip(scales, axes)]
    where, mode = a.get("coordinate_transformation_mode", "half_pixel"), a.get("mode", "nearest")
    if where in ("tf_crop_and_resize", "half_pixel_symmetric"):
        raise LeftOut("coordinate_transformation_mode=" + where)
    if any(f * x.shape[d] != n for f, n, d in zip(factors, sizes, axes)) and where != "half_pixel_symmetric":
        raise LeftOut("a scale that is no ratio of sizes")
    options = {"mode": mode, "coordinate_transformation_mode": where}
    if mode == "nearest":
        options["nearest_mode"] = a.get("nearest_mode", "round_prefer_floor")
    else:
        options.update(
            antialias=bool(a.get("antialias", 0)),
            exclude_outside=bool(a.get("exclude_outside", 0)),
            cubic_coeff_a=a.get("cubic_coeff_a", -0.75),
        )
    for size, d in zip(sizes, axes):
        if size != x.shape[d]:
            x = std(
                "resize_axis", x.reshape(math.prod(x.shape[:d]), x.shape[d], -1), size=int(size), **options
            ).reshape(*x.shape[:d], size, *x.shape[d + 1 :])
    return x


TABLE["Upsample"] = lambda a, x, scales: resize(
    {"mode": a.get("mode", "nearest"), "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    x,
    None,
    scales,
)


@covers("GridSample")
def grid_sample(a, x, grid):
    mode = {"linear": "bilinear"}.get(a.get("mode", "linear"), a.get("mode"))
    if x.ndim != 4:
        raise LeftOut("three dimensions")
    if mode not in ("bilinear", "nearest"):
        raise LeftOut("mode=" + mode)
    return std(
        "grid_sample",
        x,
        grid,
        mode=mode,
        padding_mode=a.get("padding_mode", "zeros"),
        align_corners=a.get("align_corners", 0),
    )


@covers("AffineGrid")
def affine_grid(a, theta, size):
    if size.size != 4:
        raise LeftOut("three dimensions")
    return std("affine_grid", theta, size_h=int(size[2]), size_w=int(size[3]), align_corners=a.get("align_corners", 0))


@covers("Col2Im")
def col2im(a, x, image, block):
    if len(image) != 2:
        raise LeftOut("other than two dimensions")
    options = window(a, 2, strides="stride", dilations="dilation")
    options.pop("auto_pad")
    return std(
        "fold",
        x,
        output_h=int(image[0]),
        output_w=int(image[1]),
        kernel_size_h=int(block[0]),
        kernel_size_w=int(block[1]),
        **options,
    )


@covers("DepthToSpace")
def depth_to_space(a, x):
    if a.get("mode", "DCR") == "CRD":
        return std("pixel_shuffle", x, upscale_factor=a["blocksize"])
    return np.moveaxis(std("depth_to_space", np.moveaxis(x, 1, -1), block_size=a["blocksize"]), -1, 1)


@covers("SpaceToDepth")
def space_to_depth(a, x):
    if a.get("mode", "DCR") == "CRD":
        return std("pixel_unshuffle", x, downscale_factor=a["blocksize"])
    return np.moveaxis(std("space_to_depth", np.moveaxis(x, 1, -1), block_size=a["blocksize"]), -1, 1)


# Movement

@covers("Pad")
def pad(a, x, pads, value=None, axes=None):
    mode = a.get("mode", "constant")
    function = {
        "constant": "pad_axis",
        "reflect": "pad_reflect_axis",
        "edge": "pad_edge_axis",
        "wrap": "pad_circular_axis",
    }[mode]
    dims = range(x.ndim) if axes is None else [int(d) % x.ndim for d in axes]
    for k, dim in enumerate(dims):
        before, after = int(pads[k]), int(pads[k + len(dims)])
        if before or after:
            shape = x.shape
            options = {"value": float(value)} if mode == "constant" and value is not None else {}
            x = std(
                function,
                x.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])),
                before=before,
                after=after,
                **options,
            )
            x = x.reshape(*shape[:dim], x.shape[1], *shape[dim + 1:])
    return x


@covers("Slice")
def slice_(a, x, starts, ends, axes=None, steps=None):
    dims = range(len(starts)) if axes is None else axes
    for k, dim in enumerate(dims):
        dim, shape = int(dim) % x.ndim, x.shape
        limit = lambda v: int(max(-2 ** 31, min(2 ** 31, v)))
        x = std(
            "slice_axis",
            x.reshape(math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])),
            start=limit(starts[k]),
            stop=limit(ends[k]),
            step=1 if steps is None else int(steps[k]),
        )
        x = x.reshape(*shape[:dim], x.shape[1], *shape[dim + 1:])
    return x


@covers("OneHot")
def one_hot(a, indices, depth, values):
    axis, classes = a.get("axis", -1), int(np.asarray(depth).reshape(-1)[0])
    ones = std(
        "embedding.one_hot", np.where(indices < 0, indices + classes, indices).astype(np.int64), np.asarray(classes)
    )
    y = values[0] + ones * (values[1] - values[0])
    return np.moveaxis(y, -1, axis).astype(values.dtype)


# Signals

@covers("HannWindow")
def hann_window(a, size):
    return std("hann", N=int(size) + 1)[:-1] if a.get("periodic", 1) else std("hann", N=int(size))


@covers("DFT")
def dft(a, x, length=None, axis=None):
    if length is not None:
        raise LeftOut("dft_length")
    if a.get("onesided") and a.get("inverse"):
        raise LeftOut("the inverse of one side")
    axis = a.get("axis", -2 if axis is None else int(axis))
    lines = np.moveaxis(x, axis, -2)
    parts = [lines[..., k].reshape(-1, lines.shape[-2]) for k in range(x.shape[-1])]
    if a.get("onesided"):
        made = std("rdft_rows", parts[0])
    else:
        made = std(
            "idft_rows" if a.get("inverse") else "dft_rows", parts[0], parts[1] if len(parts) > 1 else 0 * parts[0]
        )
    return np.moveaxis(np.stack(made, -1).reshape(*lines.shape[:-2], -1, 2), -2, axis)


# Optimisers

def each(operator):
    """One call for each of the tensors that a node updates: (X, G, state…) stand beside each other by kind."""
    def of_node(a, rate, step, *tensors, kinds):
        count = len(tensors) // kinds
        made = [operator(a, rate, step, *(tensors[k * count + n] for k in range(kinds))) for n in range(count)]
        return tuple(y[k] for k in range(len(made[0])) for y in made)
    return of_node


@each
def adagrad(a, rate, step, x, g, h):
    return std(
        "adagrad",
        x,
        h,
        g,
        (rate / (1 + step * a.get("decay_factor", 0.0))).astype(x.dtype),
        weight_decay=a.get("norm_coefficient", 0.0),
        eps=a.get("epsilon", 1e-6),
    )


@each
def momentum(a, rate, step, x, g, v):
    if a["beta"] != 1 and step > 0:
        raise LeftOut("beta")
    return std(
        "nesterov" if a["mode"] == "nesterov" else "momentum",
        x,
        v,
        g,
        rate,
        momentum=a["alpha"],
        weight_decay=a["norm_coefficient"],
    )


TABLE["Adagrad"] = lambda a, *inputs: adagrad(a, *inputs, kinds=3)
TABLE["Momentum"] = lambda a, *inputs: momentum(a, *inputs, kinds=3)


# Attention

@covers("Attention")
def attention(a, q, k, v, mask=None, past_key=None, past_value=None, lengths=None):
    for key in ("qk_matmul_output_mode", "softmax_precision"):
        if a.get(key):
            raise LeftOut(key)
    flat = q.ndim == 3
    if flat:
        split = lambda t, heads: np.moveaxis(t.reshape(*t.shape[:2], heads, -1), 2, 1)
        q, k, v = split(q, a["q_num_heads"]), split(k, a["kv_num_heads"]), split(v, a["kv_num_heads"])
    causal, left, right = bool(a.get("is_causal")), a.get("left_window_size", -1), a.get("right_window_size", -1)
    if lengths is not None and (causal or left >= 0 or right >= 0):
        raise LeftOut("nonpad_kv_seqlen with an order")
    past = 0
    if past_key is not None:                               # query t stands at place past + t: it sees as far behind
        past = past_key.shape[-2]
        k, v = np.concatenate([past_key, k], -2), np.concatenate([past_value, v], -2)
        if 0 <= left < past:
            raise LeftOut("a window that ends before the first query")
        left, right = left - past if left >= 0 else left, 0 if causal else right
        causal, right = False, right + past if right >= 0 else right
    seen, bias = (mask, None) if mask is not None and mask.dtype == bool else (None, mask)
    if mask is not None and mask.shape[-1] < k.shape[-2]:
        raise LeftOut("a mask of fewer keys than there are")
    if lengths is not None:
        inside = np.arange(k.shape[-2]) < lengths.reshape(-1, 1, 1, 1)
        seen = inside if seen is None else seen & inside
    y = std(
        "scaled_dot_product_attention",
        q,
        k,
        v,
        seen,
        bias,
        is_causal=causal,
        scale=a.get("scale", 0),
        softcap=a.get("softcap", 0),
        left_window_size=left,
        right_window_size=right,
    )
    y = np.moveaxis(y, 1, 2).reshape(y.shape[0], y.shape[2], -1) if flat else y
    return y if past_key is None else (y, k, v)


@covers("FlexAttention")
def flex_attention(a, q, k, v):
    for key in ("score_mod", "prob_mod"):
        if key in a:
            raise LeftOut(key + ": a function of the caller's")
    return std("scaled_dot_product_attention", q, k, v, scale=a.get("scale", 0))


@covers("CausalConvWithState")
def causal_conv_with_state(a, x, weight, bias=None, state=None):
    y, after = std("causal_conv1d", x, weight[:, 0], bias, state)
    return (y if a.get("activation", "none") == "none" else std("silu", y)), after


@covers("LinearAttention")
def linear_attention(a, *inputs):
    raise LeftOut("without normalisation, with a state")


@covers("RotaryEmbedding")
def rotary_embedding(a, x, cos, sin, ids=None):
    heads = x if x.ndim == 4 else np.moveaxis(x.reshape(*x.shape[:2], a["num_heads"], -1), 2, 1)
    turned = a.get("rotary_embedding_dim", 0) or heads.shape[-1]
    cos, sin = (t if ids is None else t[ids] for t in (cos, sin))
    name = "rotary_pairs" if a.get("interleaved") else "rotary"
    y = np.concatenate([std(name, heads[n:n + 1, ..., :turned], cos[n], sin[n]) for n in range(len(x))])
    y = np.concatenate([y, heads[..., turned:]], -1)
    return y if x.ndim == 4 else np.moveaxis(y, 1, 2).reshape(x.shape)


@covers("Concat")
def concat(a, first, *others):
    axis = a["axis"]
    for other in others:
        first = std("concat", first, other, dim=axis)
    return first


TABLE["Gather"] = lambda a, x, i: std("index_select", x, i, dim=a.get("axis", 0))
TABLE["GatherElements"] = lambda a, x, i: std("gather_elements", x, i, dim=a.get("axis", 0))


@covers("GatherND")
def gather_nd(a, x, i):
    batches = a.get("batch_dims", 0)
    if batches > 1:
        raise LeftOut("batch_dims above 1")
    return std("batch_gather_nd" if batches else "gather_nd", x, i, depth=i.shape[-1])


@covers("ScatterElements", "Scatter")
def scatter_elements(a, x, i, updates):
    return std("scatter_elements", x, i, updates, dim=a.get("axis", 0), reduction=a.get("reduction", "none"))


@covers("TensorScatter")
def tensor_scatter(a, cache, update, positions=None):
    first = np.zeros(cache.shape[:1], np.int64) if positions is None else positions
    return std("tensor_scatter", cache, update, first, axis=a.get("axis", -2), mode=a.get("mode", "linear"))


@covers("ScatterND")
def scatter_nd(a, x, i, updates):
    return std("scatter_nd", x, i, updates, depth=i.shape[-1], reduction=a.get("reduction", "none"))


def recurrent(a):
    """What the layers have in common. hidden_size is the size of R."""
    a.get("hidden_size")
    for key in ("activations", "activation_alpha", "activation_beta", "clip", "input_forget"):
        if key in a:
            raise LeftOut(key)
    return {"layout": a.get("layout", 0), "direction": a.get("direction", "forward")}


@covers("RNN")
def rnn(a, x, w, r, biases=None, lengths=None, h=None):
    return std("onnx_rnn", x, w, r, biases, lengths, h, **recurrent(a))


@covers("LSTM")
def lstm(a, x, w, r, biases=None, lengths=None, h=None, c=None, p=None):
    return std("onnx_lstm", x, w, r, biases, lengths, h, c, p, **recurrent(a))


@covers("GRU")
def gru(a, x, w, r, biases=None, lengths=None, h=None):
    reset = "true" if a.get("linear_before_reset", 0) else "false"
    return std("onnx_gru", x, w, r, biases, lengths, h, linear_before_reset=reset, **recurrent(a))


@covers("ReverseSequence")
def reverse_sequence(a, x, lengths):
    time_axis = a.get("time_axis", 0)
    assert a.get("batch_axis", 1) == 1 - time_axis
    return std("reverse_sequence", x, lengths, time_axis=time_axis)
