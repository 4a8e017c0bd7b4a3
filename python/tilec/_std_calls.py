"""How PyTorch and NumPy call what std/ has: parameters by position, other names of them, tensors in a list, dimensions
that do not lie side by side."""
from __future__ import annotations

import numbers
import operator
import typing

# Of each function, what may follow its inputs without a name, in PyTorch's order; `dim` stands for start_dim and
# end_dim too. Where PyTorch and NumPy disagree, or std/ means something else, a name is asked for.
_POSITIONS = {
    "dim keepdim": "all any argmax_of argmin_of count_nonzero largest smallest range_of mean nanmean nansum nanmax nanmin"
    " product_of total logsumexp",
    "dim": "var std",                                     # and of all others whose first parameter it is
    "dim eps": "cosine_similarity",
    "dim start length": "narrow",
    "dim descending": "sorted order_of",
    "dim0 dim1": "swapaxes",
    "start_dim end_dim": "flatten",
    "source destination": "movedim",
    "k dim": "kthvalue",
    "k dim largest": "topk",
    "q dim keepdim": "quantile",
    "ord dim keepdim": "vector_norm",
    "p dim eps": "normalize",
    "p eps keepdim": "pairwise_distance",
    "p": "cdist dist",
    "n dim": "diff",
    "n": "matrix_power",
    "k": "rot90",
    "N": "identity tri hamming_window bartlett blackman",
    "shifts dim": "roll",
    "repeats dim": "repeat",
    "reps": "tile",
    "diagonal": "tril triu",
    "offset": "diag diagonal diag_embed",
    "num_classes": "one_hot",
    "groups": "channel_shuffle",
    "upscale_factor": "pixel_shuffle",
    "downscale_factor": "pixel_unshuffle",
    "kernel_size stride padding dilation": "max_pool1d max_pool2d max_pool3d",
    "kernel_size stride padding": "avg_pool1d avg_pool2d avg_pool3d",
    "norm_type kernel_size stride": "lp_pool1d lp_pool2d lp_pool3d",
    "output_size": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d"
    " adaptive_max_pool3d",
    "stride padding dilation groups": "conv1d conv2d conv3d",
    "size alpha beta k": "local_response_norm",
    "alpha": "elu celu",
    "beta": "softplus",
    "negative_slope": "leaky_relu",
    "min_val max_val": "hard_tanh",
    "lambd": "hard_shrink soft_shrink",
    "threshold value": "threshold",
    "eps": "logit",
    "nan_value posinf neginf": "nan_to_num",
    "rtol atol equal_nan": "isclose",
    "decimals": "round_half_even",
}
_BY_POSITION = {name: order.split() for order, names in _POSITIONS.items() for name in names.split()}
# PyTorch has their dimension in the second place.
_DIM_SECOND = {"index_select", "index_add", "index_copy", "index_fill", "gather_elements", "scatter_elements", "scatter_add"}

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
}


# What std/ has no function for, and what says or makes it instead.
_ELSEWHERE = {
    "permute movedim moveaxis": "the array's own copies nothing, and tilec takes arrays of any strides; in a text it is"
    " `Y[c, a, b: C, A, B] = =(X[a, b, c]);`, and swapaxes exchanges two",
    "reshape view expand broadcast_to astype type_as": "it is the array's own; a text says reshape(X, M, N), f16(X)",
    "einsum tensordot chain_matmul multi_dot": "a text says it: tilec.compile(\"function f(A[M, K], B[K, N]) -> (C) {"
    " C[m, n: M, N] = +(A[m, k] * B[k, n]); }\")",
    "zeros ones full empty zeros_like ones_like full_like linspace logspace arange meshgrid indices": "NumPy and PyTorch"
    " make it as it stands",
    "nonzero argwhere flatnonzero masked_select compress unique unique_consecutive": "its size depends on the data",
    "dropout bernoulli rand randn randint randperm normal multinomial": "prng_step of the language draws random numbers:"
    " docs/language/built_ins.md",
    "cholesky qr svd eig eigh lu solve inverse inv pinv lstsq det slogdet logdet": "there are no decompositions",
}
_INSTEAD = {name: why for names, why in _ELSEWHERE.items() for name in names.split()}


# One function there that is several here, by an option: its name, and which function each value means.
_VARIANTS = {"gelu": ("approximate", {"none": "gelu", "tanh": "gelu_tanh"})}


def meant(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[str, dict]":
    """The function that a call means, and its options: torch.transpose(X, 0, 1) is swapaxes."""
    option, variants = _VARIANTS.get(heading.name, ("", {}))
    if option in named:
        value = named[option]
        if value not in variants:
            known = " or ".join("%s=%r" % (option, each) for each in variants)
            raise TypeError("%s of %s is %r: give %s" % (option, heading.name, value, known))
        return variants[value], {name: each for name, each in named.items() if name != option}
    is_exchange = len(arguments) == 3 or "dim0" in named or "dim1" in named
    return ("swapaxes" if heading.name == "transpose" and is_exchange else heading.name), named


def instead_of(name: str) -> "str | None":
    return _INSTEAD.get(name)


def by_name(heading: typing.Any, arguments: tuple, named: dict) -> "tuple[tuple, dict]":
    """The inputs of a call, and its parameters by name: softmax(x, 1) is softmax(x, dim=1), gather(x, 1, index) is
    gather(x, index, dim=1)."""
    more = len(arguments) - len(heading.inputs)
    if more <= 0:
        return arguments, named
    is_second = heading.name in _DIM_SECOND and isinstance(arguments[1], numbers.Integral)
    places = [1] if is_second else list(range(len(arguments) - more, len(arguments)))
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
        own = _MEANT.get(name, name)
        reduces = own == "dim" and "start_dim" in known
        if name == "unbiased" and "correction" in known and name not in known:
            own, value = "correction", int(value)
        elif name in known or not (own in known or reduces):
            own = name
        if own in made:
            raise TypeError("%s of %s is given twice, as %s too" % (own, heading.name, name))
        made[own] = value
    return made


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


def are_neighbours(dims: "list[int]") -> bool:
    return bool(dims) and dims == list(range(dims[0], dims[0] + len(dims))) and not dims[0] < 0 <= dims[-1]


# Whose call depends on the arrays even where only they are given.
BY_ARRAYS = {"concat", "stack", "squeeze", "gather_elements"}


def by_arrays(heading: typing.Any, function: typing.Callable, arguments: tuple, named: dict) -> typing.Any:
    """What a call gives where more than its parameters says which function is meant; None where it does not."""
    if not arguments or not hasattr(arguments[0], "ndim"):
        return None
    array, rank = arguments[0], arguments[0].ndim
    name = "dim" if "dim" in named else "axis"
    dims = named.get(name)
    if heading.name == "squeeze" and (dims is None or isinstance(dims, (tuple, list))):
        given = range(rank) if dims is None else dimensions(name, heading.name, dims, rank)
        ones = [d for d in given if array.shape[d] == 1]
        for d in reversed(ones):
            array = function(array, dim=d)
        return array
    if heading.name == "gather_elements" and len(arguments) == 2 and getattr(arguments[1], "ndim", None) == rank:
        along = whole(name, heading.name, dims or 0) % max(rank, 1)
        part = tuple(slice(None) if d == along else slice(n) for d, n in enumerate(arguments[1].shape))
        return None if array[part].shape == array.shape else function(array[part], arguments[1], dim=along)
    if heading.name == "swapaxes":
        first, second = (
            whole(key, heading.name, named.get(key, usual)) for key, usual in (("dim0", 0), ("dim1", 1))
        )
        turned = all(-rank <= d < rank for d in (first, second)) and first % rank > second % rank
        return function(array, dim0=second, dim1=first) if turned else None
    kept = next((key for key in ("keepdim", "keepdims") if key in heading.parameters), None)
    if kept and "start_dim" in heading.parameters and isinstance(dims, (tuple, list)):
        each = dimensions(name, heading.name, dims, rank)
        if each and each[0] >= 0 and each[-1] < rank and not are_neighbours(each):
            keeps = named.get(kept, heading.parameters[kept].startswith("{true"))
            others = {key: value for key, value in named.items() if key not in (name, kept)}
            return over(function, array, each, bool(keeps), {**others, kept: False})
    return None


def over(function: typing.Any, array: typing.Any, dims: "list[int]", keepdim: bool, named: dict) -> typing.Any:
    """A reduction over dimensions that do not lie side by side: over the last ones of the array with its axes
    permuted."""
    kept = [d for d in range(array.ndim) if d not in dims]
    turned = array.permute(*kept, *dims) if hasattr(array, "permute") else array.transpose(*kept, *dims)
    made = function(turned, start_dim=len(kept), end_dim=-1, **named)
    shape = [1 if d in dims else n for d, n in enumerate(array.shape)]
    back = [each.reshape(shape) if keepdim else each for each in (made if isinstance(made, tuple) else (made,))]
    return tuple(back) if isinstance(made, tuple) else back[0]


_MOST_JOINED = 8                                          # concat8, stack8


def joined(name: str, arrays: typing.Sequence, function: typing.Callable, named: dict) -> typing.Any:
    """concat or stack of a list: function(name) is concat3 and so on."""
    if not arrays:
        raise TypeError("%s takes one array or more: the list is empty" % name)
    if len(arrays) <= _MOST_JOINED:
        if len(arrays) == 1:
            return arrays[0] if name == "concat" else function("unsqueeze")(*arrays, **named)
        return function(name + ("" if len(arrays) == 2 else str(len(arrays))))(*arrays, **named)
    size = -(-len(arrays) // _MOST_JOINED)
    parts = [joined(name, arrays[k : k + size], function, named) for k in range(0, len(arrays), size)]
    return joined("concat", parts, function, named)
