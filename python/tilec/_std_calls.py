"""How PyTorch and NumPy call what std/ has: parameters by position, other names of them, tensors in a list, dimensions
that do not lie side by side."""
from __future__ import annotations

import numbers
import operator
import typing

from ._grouped import nearest as _nearest

# Of each function, what may follow its inputs without a name, in PyTorch's order; `dim` stands for start_dim and
# end_dim too. Where PyTorch and NumPy disagree, or std/ means something else, a name is asked for.
_POSITIONS = {
    "dim keepdim": "mode all any argmax_of argmin_of count_nonzero largest smallest range_of mean nanmean nansum nanmax nanmin"
    " product_of total logsumexp",
    "dim": "var std var_mean std_mean glu lexsort",                                  # and of all others whose first parameter it is
    "dim eps": "cosine_similarity",
    "dim start length": "narrow",
    "dim index": "select_at",
    "dim descending": "sorted order_of",
    "dim0 dim1": "swapaxes",
    "start_dim end_dim": "flatten",
    "dims": "permute",
    "source destination": "movedim moveaxis",
    "k dim keepdim": "kthvalue",
    "k dim largest sorted": "topk",
    "q dim keepdim": "quantile nanquantile",
    "ord dim keepdim": "vector_norm matrix_norm",
    "p dim eps": "normalize",
    "p eps keepdim": "pairwise_distance",
    "n dim": "diff",
    "n": "matrix_power",
    "k dims": "rot90",
    "N": "tri hann hamming_window bartlett blackman",
    "N M": "identity",
    "shifts dim": "roll",
    "repeats dim": "repeat",
    "reps": "tile",
    "diagonal": "tril triu",
    "offset": "diag diag_embed",
    "discont dim": "unwrap",
    "N beta": "kaiser",
    "p": "dist mvlgamma",
    "p compute_mode": "cdist",
    "correction": "covariance",
    "stride padding output_padding groups dilation": "conv1d_transpose conv2d_transpose conv3d_transpose"
    " conv1d_transpose_ncw conv2d_transpose_nchw conv3d_transpose_ncdhw",
    "offset dim1 dim2": "diagonal trace",
    "num_classes": "one_hot",
    "groups": "channel_shuffle",
    "upscale_factor": "pixel_shuffle",
    "downscale_factor": "pixel_unshuffle",
    "kernel_size stride padding dilation ceil_mode": "max_pool1d max_pool2d max_pool3d max_pool1d_ncw max_pool2d_nchw"
    " max_pool3d_ncdhw max_pool1d_ncw_with_indices max_pool2d_nchw_with_indices max_pool3d_ncdhw_with_indices",
    "kernel_size stride padding ceil_mode count_include_pad divisor_override": "avg_pool1d avg_pool2d avg_pool3d"
    " avg_pool1d_ncw avg_pool2d_nchw avg_pool3d_ncdhw",
    "norm_type kernel_size stride ceil_mode": "lp_pool1d lp_pool2d lp_pool3d lp_pool1d_ncw lp_pool2d_nchw lp_pool3d_ncdhw",
    "kernel_size dilation padding stride": "unfold",
    "output_size kernel_size dilation padding stride": "fold",
    "output_size": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool1d_ncw"
    " adaptive_avg_pool2d_nchw adaptive_avg_pool3d_ncdhw adaptive_max_pool1d_ncw_with_indices"
    " adaptive_max_pool2d_nchw_with_indices adaptive_max_pool3d_ncdhw_with_indices",
    "output_size return_indices": "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_ncw"
    " adaptive_max_pool2d_nchw adaptive_max_pool3d_ncdhw",
    "stride padding dilation groups": "conv1d conv2d conv3d conv1d_ncw conv2d_nchw conv3d_ncdhw",
    "is_causal scale": "scaled_dot_product_attention",
    "size alpha beta k": "local_response_norm local_response_norm_nchw",
    "N increasing": "vander",
    "alpha": "elu celu",
    "beta threshold": "softplus",
    "negative_slope": "leaky_relu",
    "min_val max_val": "hard_tanh",
    "lambd": "hard_shrink soft_shrink",
    "threshold value": "threshold",
    "eps": "logit group_norm group_norm_nchw",
    "nan_value posinf neginf": "nan_to_num",
    "rtol atol equal_nan": "isclose allclose",
    "decimals": "round_half_even",
    "bins min max": "histc",
    "chunks dim": "chunk",
    "dim sizes": "unflatten",
    "minlength": "bincount",
    "size scale_factor": "upsample_nearest upsample_bilinear",
    "size scale_factor mode align_corners recompute_scale_factor antialias": "interpolate",
}
_BY_POSITION = {name: order.split() for order, names in _POSITIONS.items() for name in names.split()}
# torch.nn.functional has another dimension of more than two where none is said: 0 of three, 1 of others.
DIM_OF_RANK = ("softmax", "softmin", "log_softmax")
# PyTorch has their dimension in the second place.
_DIM_SECOND = {"index_select", "index_add", "index_copy", "index_fill", "gather_elements", "scatter_elements", "scatter_add"}

# Which parameter an integer in the second place is, where that of a text is an input.
_SECOND = {**dict.fromkeys(_DIM_SECOND, "dim"), "group_norm": "num_groups", "group_norm_nchw": "num_groups"}
# What PyTorch's functions take that changes no number here.
_WITHOUT_EFFECT = {
    **{name: ("stable",) for name in ("sorted", "order_of")},
    "topk": ("sorted",),
    "cdist": ("compute_mode",),
}
# … and what changes none where it is as here.
_USUAL = {
    **{name: {"out_int32": (False,), "sorter": (None,)} for name in ("searchsorted", "bucketize")},
    "matrix_norm": {"ord": ("fro", None), "dim": ((-2, -1),)},
    "embedding": {"max_norm": (None,), "scale_grad_by_freq": (False,), "sparse": (False,), "padding_idx": (None,)},
}

# What others call a parameter or an input, where the function has none of that name.
_MEANT = {
    "keepdims": "keepdim",
    "dims": "dim",
    "axes": "dim",
    "ddof": "correction",
    "a_min": "min",
    "a_max": "max",
    "axis1": "dim0",
    "axis2": "dim1",
    "shift": "shifts",
    "nan": "nan_value",
    "k": "diagonal",
    "end": "stop",
}
# What PyTorch and NumPy take that no function of std/ does.
_REFUSED = {
    "dtype": "%s has the type that its inputs give it: convert them, instead of dtype=",
    "where": "%s is of all elements: choose them before, with where(condition, X, …), instead of where=",
    "initial": "%s begins with nothing: add the number to the result, instead of initial=",
}
# What PyTorch calls inputs: those of std/ of which a function has one. `input` is the first of all.
_INPUTS = {
    "weight": ("WEIGHT", "W", "K", "GAMMA", "A"),
    "weights": ("WEIGHTS",),
    "bias": ("Bias", "BIAS", "BETA"),
    "running_mean": ("MEAN",),
    "running_var": ("VARIANCE",),
    "target": ("LABEL", "T", "TARGET"),
    "query": ("Q",),
    "key": ("K",),
    "value": ("V",),
    "index": ("I",),
    "src": ("U",),
    "source": ("U",),
    "other": ("Z", "Y", "B"),
}


# What std/ has no function for, and what says or makes it instead, or why there is none.
_ELSEWHERE = {
    "permute movedim moveaxis": "its text depends on the rank: tilec.std has it as a call, and in a text it is"
    " `Y[c, a, b: C, A, B] = =(X[a, b, c]);`",
    "norm frobenius_norm": "vector_norm is that of elements, with ord=2 usual, of all or along dim=, and matrix_norm that"
    " of each matrix",
    "reshape view expand expand_as broadcast_to broadcast_tensors broadcast_arrays astype type_as clone copy detach"
    " atleast_1d atleast_2d atleast_3d": "it is the array's own; a text says reshape(X, M, N), f16(X)",
    "einsum tensordot chain_matmul multi_dot": "a text says it: tilec.compile(\"function f(A[M, K], B[K, N]) -> (C) {"
    " C[m, n: M, N] = +(A[m, k] * B[k, n]); }\")",
    "zeros ones full empty zeros_like ones_like full_like empty_like linspace logspace geomspace arange meshgrid indices"
    " tril_indices triu_indices cartesian_prod combinations vander": "NumPy and PyTorch make it as it stands",
    "nonzero argwhere flatnonzero masked_select compress extract unique unique_consecutive union1d intersect1d setdiff1d"
    " setxor1d trim_zeros insert delete": "its size depends on the data",
    "dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d rrelu gumbel_softmax bernoulli binomial rand"
    " randn randint randperm normal multinomial fractional_max_pool2d fractional_max_pool3d": "prng_step of the language"
    " draws random numbers: docs/language/built_ins.md",
    "array_split tensor_split split_with_sizes hsplit vsplit dsplit": "chunk has parts of one length; narrow gives one,"
    " split two, and slices are the array's own",
    "block": "concat and stack take a list: concat([X, Y], dim=2)",
    "airy_ai":
    "nothing says it yet",
    "frexp nextafter spacing packbits unpackbits": "Tile reads no bits of floats",
    "real imag angle conj polar view_as_real view_as_complex": "Tile has no complex numbers: std/complex.tile has pairs, c_abs, c_arg",
    "stft istft": "dft_rows of windows that a text cuts out: X[hop*t + n] * W[n]",
    "ctc_loss": "out of scope",
    "cholesky qr svd eig eigh eigvals eigvalsh svdvals lu solve solve_triangular inverse inv pinv lstsq det slogdet logdet"
    " matrix_rank matrix_exp cond nuclear_norm": "there are no decompositions",
    "scatter_reduce index_reduce": "scatter_elements, index_add and index_copy have it: reduction=add, mul, max, min",
    "index_put put put_along_axis": "scatter_nd and scatter_elements put elements where positions say",
    "pdist": "cdist is that of all pairs, whose upper half it is",
    "max_unpool1d max_unpool2d max_unpool3d": "max_unpool1d_ncw, max_unpool2d_nchw and max_unpool3d_ncdhw are given the"
    " size of the result",
    "hann_window blackman_window bartlett_window kaiser_window": "hann, blackman, bartlett and kaiser with periodic=True"
    " are PyTorch's",
}
_INSTEAD = {name: why for names, why in _ELSEWHERE.items() for name in names.split()}


# One function there that is several here, by an option: its name, and which function each value means.
_VARIANTS = {"gelu": ("approximate", {"none": "gelu", "tanh": "gelu_tanh"})}
# torch.nn.functional's images at another size, which the functions of std/ make of one row.
_UPSAMPLED = {"upsample_nearest": {}, "upsample_bilinear": {"mode": "bilinear", "align_corners": True}}
# torch.nn.functional.batch_norm(X, running_mean, …): where it does not train, it is another function here.
_OF_BATCHES = ("batch_norm", "batch_norm_nchw")
_RUNNING = ("running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_OF_TWO = {"largest": "maximum", "smallest": "minimum"}       # torch.max(X, Z)


def meant(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[str, tuple, dict]":
    """The function that a call means, and what it is given: torch.transpose(X, 0, 1) is swapaxes."""
    arguments, named = _as_pytorch(heading, arguments, named)
    if "return_indices" in named and "max_pool" in heading.name:
        return _with_indices(heading.name, named["return_indices"]), arguments, _without(named, "return_indices")
    option, variants = _VARIANTS.get(heading.name, ("", {}))
    if option in named:
        value = named[option]
        if value not in variants:
            known = " or ".join("%s=%r" % (option, each) for each in variants)
            raise TypeError("%s of %s is %r: give %s" % (option, heading.name, value, known))
        return variants[value], arguments, {name: each for name, each in named.items() if name != option}
    if heading.name in _OF_TWO and ("other" in named or any(not _is_plain(each) for each in arguments[1:])):
        return _OF_TWO[heading.name], arguments, named
    if heading.name in _UPSAMPLED and getattr(_first_two(arguments, named, "")[0], "ndim", 1) > 1:
        arguments, named = by_name(heading, arguments, named)
        return _interpolation(heading, arguments, {**_UPSAMPLED[heading.name], **named})
    has_averages = any(name in named for name in ("running_mean", "running_var", "training", "momentum"))
    if heading.name in _OF_BATCHES and (has_averages or len(arguments) > 3):
        return (heading.name.replace("norm", "norm_inference"), *_with_running(heading, arguments, named))
    if heading.name == "interpolate":
        return _interpolation(heading, arguments, named)
    if heading.name == "transpose" and (len(arguments) == 3 or "dim0" in named or "dim1" in named):
        return "swapaxes", arguments, named
    if heading.name == "cross_entropy_loss" and _are_probabilities(arguments, named):
        return "soft_cross_entropy_loss", arguments, named
    is_order = len(arguments) == 2 and (arguments[1] is None or isinstance(arguments[1], (tuple, list)))
    if heading.name == "transpose" and is_order:
        return heading.name, arguments[:1], {**named, "axes": arguments[1]}
    if heading.name == "permute" and len(arguments) > 2 and all(isinstance(v, numbers.Integral) for v in arguments[1:]):
        return heading.name, arguments[:1], {**named, "dims": arguments[1:]}   # as the method of a tensor
    return heading.name, arguments, named


def _with_indices(name: str, wanted: bool) -> str:
    if wanted and "_nc" not in name:
        raise TypeError("return_indices of %s is for layout=\"channels_first\" alone" % name)
    return name + "_with_indices" if wanted and not name.endswith("_with_indices") else name


def _as_pytorch(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """What PyTorch's functions take that those of std/ say by other inputs and parameters."""
    if heading.name == "scaled_dot_product_attention":
        return _attention(arguments, named)
    if heading.name in ("layer_norm", "rms_norm"):
        return _normalised(heading, arguments, named)
    if _is_weight_of_channels(heading.name, _first_two(arguments, named, "weight")):
        rank = _first_two(arguments, named, "weight")[0].ndim
        raise TypeError(
            "weights of prelu go with dimension 1 in PyTorch and with the last in ONNX: give them as many dimensions as"
            " the tensor has, weight.reshape(-1%s) or weight.reshape(%s-1)"
            % (", 1" * (rank - 2), "1, " * (rank - 1))
        )
    if heading.name == "polygamma" and len(arguments) == 2 and isinstance(arguments[0], numbers.Integral):
        return arguments[1:], {"n": arguments[0], **named}     # torch.polygamma(n, X)
    if heading.name == "gaussian_nll_loss":
        _refuse_variance_of_rows(_first_two(arguments, named, "target")[0], _third(arguments, named, "var", "VARIANCE"))
    if heading.name.startswith("adaptive_"):
        return _with_own_size(heading, arguments, named)
    words = {"same": "same_upper", "valid": "valid"}
    if "auto_pad" in heading.parameters and named.get("padding") in (*words,):
        return arguments, {**_without(named, "padding"), "auto_pad": words[named["padding"]]}
    return arguments, named


def _with_running(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    named = {**dict(zip(_RUNNING, arguments[1:])), **named}
    if named.get("training"):
        raise TypeError(
            "%s with training=True is %s(X, GAMMA=weight, BETA=bias), whose results are Y, the mean and the variance of"
            " the batch: running averages are the caller's" % (heading.name, heading.name)
        )
    given = _without(named, "training", "momentum")
    return arguments[:1], {name: each for name, each in given.items() if each is not None}


def _third(arguments: tuple, named: dict, *names: str) -> typing.Any:
    return arguments[2] if len(arguments) > 2 else next((named[name] for name in names if name in named), None)


def _refuse_variance_of_rows(given: typing.Any, variance: typing.Any) -> None:
    """One variance for each row is PyTorch's where the shape is that of the rows; here shapes meet at their ends."""
    rows, own = (tuple(getattr(value, "shape", ())) for value in (given, variance))
    if len(own) == len(rows) - 1 and own == rows[:-1] and own[-1:] == rows[-1:] and own:
        raise TypeError(
            "VARIANCE of gaussian_nll_loss has the shape %r, which is one for each row in PyTorch and for each column"
            " where shapes are broadcast: give it %d dimensions" % (own, len(rows))
        )


def _with_own_size(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """None in output_size is as many as the image has."""
    arguments, named = by_name(heading, arguments, named)
    size = named.get("output_size")
    if isinstance(size, (tuple, list)) and None in size:
        shape = tuple(_first_two(arguments, named, "")[0].shape)
        image = shape[-len(size) :] if "_nc" in heading.name else shape[-len(size) - 1 : -1]
        named = {**named, "output_size": tuple(own if each is None else each for each, own in zip(size, image))}
    return arguments, named


def is_of_pytorch(name: str, arguments: tuple) -> bool:
    """Are the arguments, without a name among them, what _as_pytorch() has to say otherwise?"""
    if name == "scaled_dot_product_attention":
        return len(arguments) > 3
    if name == "prelu":
        return _is_weight_of_channels(name, arguments)
    if name == "gaussian_nll_loss" or name in _OF_TWO:
        return len(arguments) > 1
    if name in _SECOND:
        return len(arguments) > 1 and isinstance(arguments[1], numbers.Integral)
    if name == "cross_entropy_loss":
        return _are_probabilities(arguments, {})
    return name in ("layer_norm", "rms_norm") and len(arguments) > 1 and _is_plain(arguments[1])


def _are_probabilities(arguments: tuple, named: dict) -> bool:
    """Is the target of PyTorch's cross_entropy of the input's shape and of floats, not labels?"""
    given, target = _first_two(arguments, named, "target")
    is_of_floats = "float" in str(getattr(target, "dtype", ""))
    return is_of_floats and tuple(getattr(given, "shape", ())) == tuple(target.shape)


def _first_two(arguments: tuple, named: dict, second: str) -> tuple:
    """The first two inputs, which PyTorch calls `input` and `second`; None where one is not given so."""
    return (*arguments[:2], *(named.get(name) for name in ("input", second)[len(arguments) :]))


def _is_weight_of_channels(name: str, arguments: tuple) -> bool:
    """A weight for each channel of a prelu, of which PyTorch and ONNX take another dimension."""
    if name != "prelu" or len(arguments) != 2:
        return False
    tensor, weight = (getattr(value, "shape", ()) for value in arguments)
    return len(tensor) > 2 and len(weight) == 1 and weight[0] > 1


def _without(named: dict, *names: str) -> dict:
    return {name: value for name, value in named.items() if name not in names}


def _attention(arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """attn_mask is MASK where it is of bool, else BIAS, which is added; heads that share keys are told by the sizes."""
    first, rest = arguments[:3], arguments[3:]
    if len(rest) > 1 and _is_plain(rest[1]):                  # dropout_p, is_causal, scale, enable_gqa, as in PyTorch
        names = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        arguments, named = first, {**dict(zip(names, rest)), **named}
    elif len(rest) == 1:
        arguments, named = first, {"attn_mask": rest[0], **named}
    if named.get("dropout_p"):
        raise TypeError("scaled_dot_product_attention drops nothing: dropout_p is %r, and is 0" % named["dropout_p"])
    mask = named.get("attn_mask")
    named = _without(named, "dropout_p", "enable_gqa", "attn_mask")
    if mask is not None:
        named["MASK" if "bool" in str(getattr(mask, "dtype", "bool")) else "BIAS"] = mask
    return arguments, named


def _normalised(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """normalized_shape, the sizes of the last dimensions, is how many these are: axis=-1, -2, …"""
    shape = named.get("normalized_shape")
    if shape is None and len(arguments) > 1 and isinstance(arguments[1], (tuple, list, numbers.Integral)):
        shape, arguments = arguments[1], (arguments[0], *arguments[2:])
    if shape is None or not arguments:
        return arguments, named
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    given = tuple(getattr(arguments[0], "shape", ()))
    if not sizes or given[-len(sizes) :] != sizes:
        raise TypeError("normalized_shape of %s is %r, and the input's shape %r" % (heading.name, shape, given))
    return arguments, {**_without(named, "normalized_shape"), "axis": -len(sizes)}


# Of each mode of PyTorch's interpolate the ranks of its images, and what it is called here.
_IMAGES = {3: "1d_ncw", 4: "2d_nchw", 5: "3d_ncdhw"}
_MODES = {
    "nearest": (tuple(_IMAGES), "nearest"),
    "nearest-exact": (tuple(_IMAGES), "nearest_exact"),
    "nearest_exact": (tuple(_IMAGES), "nearest_exact"),
    "linear": ((3,), "linear"),
    "bilinear": ((4,), "linear"),
    "trilinear": ((5,), "linear"),
    "bicubic": ((4,), "cubic"),
    "area": (tuple(_IMAGES), ""),
}
# What PyTorch's interpolate takes.
INTERPOLATE = {
    "size": "none",
    "scale_factor": "none",
    "mode": "{%s}" % ", ".join(dict.fromkeys(name.replace("-", "_") for name in _MODES)),
    "align_corners": "{false, true}",
    "recompute_scale_factor": "{false, true}",
    "antialias": "{false, true}",
}


def _interpolation(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[str, tuple, dict]":
    """Which function of std/resize.tile or std/pool_nchw.tile it is."""
    arguments, named = by_name(heading, arguments, named)
    named = renamed(heading, named)
    arguments = arguments or (named.pop("X", None),)
    shape = tuple(getattr(arguments[0], "shape", ()))
    mode = named.pop("mode", "nearest")
    ranks, own = _MODES.get(mode, ((), ""))
    if len(shape) not in ranks:
        fit = ", ".join(name for name, (fits, _) in _MODES.items() if len(shape) in fits)
        raise TypeError(
            "interpolate has no mode %r for %d dimensions%s" % (mode, len(shape), fit and ": give one of %s" % fit)
            if len(shape) in _IMAGES
            else "interpolate takes images of 3 to 5 dimensions, channels first: the shape is %r" % (shape,)
        )
    named = {name: value for name, value in named.items() if value is not None}
    options = {name: named.pop(name, False) for name in ("align_corners", "antialias", "recompute_scale_factor")}
    recomputed = options.pop("recompute_scale_factor") or options["align_corners"] or mode == "area"
    size = _new_size(shape[2:], named.pop("size", None), named.pop("scale_factor", None), recomputed)
    if own not in ("linear", "cubic") and any(options.values()):
        raise TypeError("%s of interpolate is for linear and cubic modes, not %r" % (" and ".join(options), mode))
    if mode == "area":
        return "adaptive_avg_pool%s" % _IMAGES[len(shape)], arguments, {**named, "output_size": size}
    return "interpolate%s" % _IMAGES[len(shape)], arguments, {**named, "size": size, "mode": own, **options}


def _new_size(shape: tuple, size: typing.Any, factor: typing.Any, recomputed: bool) -> tuple:
    """Of an image, by size or by scale_factor."""
    if (size is None) == (factor is None):
        raise TypeError("interpolate takes one of size= and scale_factor=")
    given = factor if size is None else size
    each = tuple(given) if isinstance(given, (tuple, list)) else (given,) * len(shape)
    if len(each) != len(shape):
        raise TypeError("size or scale_factor of interpolate is %r: give a number or %d of them" % (given, len(shape)))
    if size is not None:
        return tuple(whole("size", "interpolate", value) for value in each)
    made = tuple(int(length * value) for length, value in zip(shape, each))
    if not recomputed and any(abs(n * value - m) > 1e-9 * max(1, m) for n, value, m in zip(shape, each, made)):
        raise TypeError(
            "scale_factor of interpolate is %r: %s elements times it are no whole numbers, and PyTorch reads at places of"
            " the factor: give size=%r or recompute_scale_factor=True" % (factor, " and ".join(map(str, shape)), made)
        )
    return made


def refuse_unknown(heading: typing.Any, names: "list[str]") -> None:
    """Says of all names at once why a call may not give them."""
    told = [each % heading.name for name, each in _REFUSED.items() if name in names]
    if {"keepdim", "keepdims"} & set(names):
        told.append("%s keeps no dimension of 1 for those that it is over (keepdim): reshape the result" % heading.name)
    others = [name for name in names if name not in (*_REFUSED, "keepdim", "keepdims")]
    if others:
        known = (*heading.inputs, *heading.parameters)
        near = {
            name: "axis" if name == "dim" and "axis" in heading.parameters else _nearest(name, known) for name in others
        }
        meant = ["%s instead of %s" % (own, name) if len(others) > 1 else own for name, own in near.items() if own]
        told.append(
            "%s has no input and no compile-time parameter %s; %sinputs are %s, parameters %s"
            % (
                heading.name,
                " or ".join(others),
                "did you mean %s? " % ", ".join(meant) if meant else "",
                ", ".join(heading.inputs),
                ", ".join(
                    parameter if default is None else "%s=%s" % (parameter, default)
                    for parameter, default in heading.parameters.items()
                )
                or "it has none",
            )
        )
    if told:
        raise TypeError("; ".join(told))


def instead_of(name: str) -> "str | None":
    return _INSTEAD.get(name)


def by_name(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """The inputs of a call, and its parameters by name: softmax(x, 1) is softmax(x, dim=1), gather(x, 1, index) is
    gather(x, index, dim=1)."""
    second = _SECOND.get(heading.name, "")
    if len(arguments) > 1 and isinstance(arguments[1], numbers.Integral) and second:
        if second in named:
            raise TypeError("%s of %s is given twice, by position and by name" % (second, heading.name))
        arguments, named = (arguments[0], *arguments[2:]), {**named, second: arguments[1]}
    more = len(arguments) - len(heading.inputs)
    if more <= 0:
        return arguments, named
    places = list(range(len(arguments) - more, len(arguments)))
    if len(places) != more or not all(_is_plain(arguments[k]) for k in places):
        return arguments, named
    is_along = next(iter(heading.parameters), "") in ("dim", "start_dim")
    order = _BY_POSITION.get(heading.name, ["dim"] if is_along else [])
    if more > len(order):
        known = ", ".join("%s=…" % name for name in heading.parameters) or "it has none"
        raise TypeError(
            "%s takes %d argument%s (%s) and %s without a name; compile-time parameters by name: %s"
            % (
                heading.name,
                len(heading.inputs),
                "" if len(heading.inputs) == 1 else "s",
                ", ".join(heading.inputs),
                " and ".join(order) or "no parameter",
                known,
            )
        )
    given = dict(zip(order, (arguments[k] for k in places)))
    if order[0] == "dim" and isinstance(given["dim"], bool):
        if "correction" not in heading.parameters or more > 1:
            raise TypeError("dim of %s is %r: give a whole number" % (heading.name, given["dim"]))
        given = {"correction": int(given["dim"])}              # torch.var(X, unbiased)
    twice = next((name for name in given if name in named), None)
    if twice:
        raise TypeError("%s of %s is given twice, by position and by name" % (twice, heading.name))
    return tuple(each for k, each in enumerate(arguments) if k not in places), {**given, **named}


def _is_plain(value: typing.Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (numbers.Number, str))


def renamed(heading: typing.Any, named: dict) -> dict:
    """With the names that std/ has for what others call otherwise."""
    known = {*heading.parameters, *heading.inputs, *heading.former}
    made: "dict[str, typing.Any]" = {}
    for name, value in named.items():
        is_usual = _is_plain(value) and value in _USUAL.get(heading.name, {}).get(name, ())
        if name in _WITHOUT_EFFECT.get(heading.name, ()) or is_usual:
            continue
        own = name.replace("axis", "dim") if name in ("axis1", "axis2") and "dim2" in known else _MEANT.get(name, name)
        if name not in known and own not in known:
            own = input_meant(heading, name) or own
        reduces = own == "dim" and "start_dim" in known
        if name == "unbiased" and "correction" in known and name not in known:
            own, value = "correction", int(value)
        elif name == "sym" and "periodic" in known:            # of torch.signal.windows
            own, value = "periodic", not value
        elif name == "side" and "right" in known and value in ("left", "right", None):
            own, value = "right", value == "right"
        elif name == "reduce" and "reduction" in known:        # torch.scatter(X, dim, I, U, reduce="multiply")
            own, value = "reduction", {"multiply": "mul"}.get(value, value)
        elif name in known or not (own in known or reduces):
            own = name
        if own in made:
            raise TypeError("%s of %s is given twice, as %s too" % (own, heading.name, name))
        made[own] = value
    return made


def input_meant(heading: typing.Any, name: str) -> "str | None":
    inputs = list(heading.inputs)
    if name == "input" and inputs:
        return inputs[0]
    if name.upper() in inputs:                                # pos_weight
        return name.upper()
    return next((own for own in _INPUTS.get(name, ()) if own in inputs), None)


def whole(name: str, function: str, value: typing.Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            "%s of %s is %r: give a whole number, those below 0 counted from the end" % (name, function, value)
        ) from None


def dimensions(name: str, function: str, dims: typing.Any, rank: "int | None") -> "list[int]":
    """Of `dim=(1, -1)` each in ascending order, from the front where the rank is known."""
    each = [whole(name, function, d) for d in (dims if isinstance(dims, (tuple, list)) else [dims])]
    if rank and len(each) > 1 and all(-rank <= d < rank for d in each):
        each = [d % rank for d in each]
    if len(set(each)) < len(each):
        raise TypeError("%s of %s is %r: a dimension is named twice" % (name, function, dims))
    return sorted(each)


def places(name: str, function: str, dims: typing.Any, rank: int) -> "list[int]":
    """Of `dims=(2, -3)` each, from the front, in the order given."""
    each = [whole(name, function, d) for d in (dims if isinstance(dims, (tuple, list)) else [dims])]
    beyond = next((d for d in each if not -rank <= d < rank), None)
    if beyond is not None:
        there = "are %d dimensions, %d to %d" % (rank, -rank, rank - 1) if rank else "is no dimension"
        raise TypeError("%s of %s is %r: there %s" % (name, function, dims, there))
    each = [d % rank for d in each]
    if len(set(each)) < len(each):
        raise TypeError("%s of %s is %r: a dimension is named twice" % (name, function, dims))
    return each


def are_neighbours(dims: "list[int]") -> bool:
    return bool(dims) and dims == list(range(dims[0], dims[0] + len(dims))) and not dims[0] < 0 <= dims[-1]


OF_TWO_DIMENSIONS = ("swapaxes", "diagonal", "trace")        # whose texts want the first in front


def in_order(heading: typing.Any, rank: int, named: dict) -> dict:
    """The two dimensions of one of these, the first in front."""
    keys = ("dim1", "dim2") if "dim2" in heading.parameters else ("dim0", "dim1")
    first, second = (whole(key, heading.name, named.get(key, usual)) for usual, key in enumerate(keys))
    inside = all(-rank <= d < rank for d in (first, second))
    if not inside or first % rank <= second % rank:
        return named
    turned = {"offset": -whole("offset", heading.name, named["offset"])} if named.get("offset") is not None else {}
    return {**named, **turned, keys[0]: second, keys[1]: first}
