"""Calls of std/ whose meaning depends on how many arrays there are, or on their ranks and sizes: a text of their own,
with one function that calls those of std/. What is made of it is a program as any other, with derivatives.

    mean(X, (0, 2))   ⇒   import "std/statistics.tile" as std;
                          function mean(X[D0, D1, D2]) -> (Y) {
                            Turned[d1, d0, d2: D1, D0, D2] = =(X[d0, d1, d2]);
                            Made0 = std.mean<start_dim=1, end_dim=-1, keepdim=false>(Turned);
                            Y = reshape(Made0, D1);
                          }
    permute(X, (2, 0, 1)), movedim, concat of a list, squeeze of several dimensions, gather with a smaller index
"""

from __future__ import annotations

import re
import typing

import numpy as np

from . import _std_calls as _calls, _std_parts as _parts, _std_spell as _spell
from ._std_spell import Text, rank_of

# What exchanges dimensions in ways that no heading of Tile can say for all ranks, with its parameters.
ORDERS = {"permute": ("dims",), "movedim": ("source", "destination"), "moveaxis": ("source", "destination")}

ABOUT = {
    "permute": "torch.permute(X, dims), numpy.transpose(X, dims), ONNX Transpose: dimension dims[k] of X in place k.",
    "movedim": "torch.movedim(X, source, destination): dimensions moved to other places, the rest in their order.",
    "moveaxis": "numpy.moveaxis(X, source, destination): dimensions moved to other places, the rest in their order.",
}

ABOUT |= {
    name: "torch.%s(X), numpy.%s(X): tensors in a list side by side." % (name, name)
    for name in _parts.LISTS
}

# What else is a text of its own or one function of several: parameters, with their usual values. Inputs are X, where
# nothing else is said.
CALLS = {
    **{name: dict.fromkeys(parameters) for name, parameters in ORDERS.items()},
    **{name: {} for name in _parts.LISTS},
    "chunk": {"chunks": None, "dim": "0"},
    "unbind": {"dim": "0"},
    "lexsort": {"dim": "-1"},
    "unflatten": {"dim": None, "sizes": None},
    "bincount": {"minlength": "0"},
    "interpolate": _calls.INTERPOLATE,
}
INPUTS = {"bincount": {"X": None, "WEIGHTS": "1"}}
ALSO = {"unstack": "unbind", "row_stack": "vstack"}  # what NumPy calls them too
ABOUT |= {
    "chunk": "torch.chunk(X, chunks, dim): a tuple of at most so many parts, each as long as the others, the last one"
    " shorter where it has to be.",
    "unbind": "torch.unbind(X, dim): a tuple of what stands at each place of the dimension.",
    "lexsort": "numpy.lexsort(X, axis=dim): the order of tensors in a list, of which the last counts first.",
    "unflatten": "torch.unflatten(X, dim, sizes): a dimension as several, of which one may be -1.",
    "bincount": "torch.bincount(X, weights, minlength), numpy.bincount: how often each of 0, 1, … occurs, up to the largest"
    " there is, which the call reads; std/statistics.tile has histogram, whose size is said.",
    "interpolate": "torch.nn.functional.interpolate(X, size, scale_factor, mode, align_corners, antialias=antialias):"
    " images, channels first, at another size. It is one of interpolate1d_ncw, interpolate2d_nchw, interpolate3d_ncdhw"
    " and the adaptive averages.",
}

# Those whose results are a tuple, however many there are.
PARTS = ("chunk", "unbind", "split")

# Of one row, which may be a vector, PyTorch and NumPy give a number.
_OF_ROWS = ("covariance", "correlation")

# Whose two tensors PyTorch broadcasts.
_OF_PAIRS = ("cross", "cosine_similarity")

# Whose call depends on the arrays even where only they are given.
BY_ARRAYS = {
    "concat",
    "stack",
    "gather_elements",
    "scatter_elements",
    "scatter_add",
    "take_along_dim",
    "transpose",
    "matmul",
    "block_diag",
    *_OF_ROWS,
    *_OF_PAIRS,
}

# PyTorch's functions along a dimension that take a scalar too, as one element.
_OF_ONE = {
    *(
        "softmax",
        "softmin",
        "log_softmax",
        "logsumexp",
        "cumulative_logsumexp",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
    ),
    *("sorted", "order_of", "topk", "kthvalue", "mode"),
}

# NumPy's functions along the last dimension of which `axis=None` is that of all elements in one row.
_FLAT_OF_NONE = ("sorted", "order_of")

# Losses of classes, which take one sample too.
_OF_CLASSES = ("cross_entropy_loss", "soft_cross_entropy_loss", "nll_loss")


def text_of(heading: typing.Any, arguments: tuple, named: dict) -> "Text | None":
    """None: the function's own text says it."""
    if not arguments:
        return None
    if _parts.joins_list(heading.name, arguments):
        return _parts.joined(heading, arguments, named)
    known = {name: value for name, value in named.items() if name in heading.parameters or name in ("dim", "axis")}
    dims = known.get("dim", known.get("axis"))
    if heading.name in _parts.OWN and "axis" in named and "dim" in heading.parameters and "dim" not in named:
        named = {"dim" if name == "axis" else name: value for name, value in named.items()}
    own = _parts.OWN[heading.name](heading, arguments, named) if heading.name in _parts.OWN else None
    if own is not None:
        return own
    rank = rank_of(arguments[0])
    is_flat = dims is None and (
        ("dim" in heading.asks and heading.name != "squeeze")
        or (heading.name in _FLAT_OF_NONE and ("dim" in known or "axis" in known))
    )
    if lacks_dimension(heading, arguments) and not is_flat:
        return _with_one(heading, arguments, named)
    made: "str | None" = None
    if heading.name in ORDERS or (heading.name == "transpose" and (rank != 2 or "axes" in named)):
        order, taken = _order(heading, rank, named)
        return Text(_permuted(heading.name, order), arguments, _spell.without(named, taken))
    if heading.name in _OF_ROWS and (rank == 1 or np.shape(arguments[0])[:1] == (1,)):
        return _of_one_row(heading, arguments, named)
    if heading.name == "rot90" and named.get("dims", named.get("axes")) is not None:
        made = _quarter_turns(heading, rank, known, named.get("dims", named.get("axes")))
        return Text(made, arguments, _spell.without(named, ("k", "dims", "axes")))
    if heading.name == "diag_embed" and ("dim1" in named or "dim2" in named):
        return _put_diagonal(heading, arguments, named)
    if heading.name == "swapaxes" and _is_one_place(rank, named):
        return Text("function swapaxes(X) -> (Y) { Y = X; }", arguments, _spell.without(named, heading.parameters))
    if heading.name in _OF_PAIRS:
        made = _broadcast(heading, arguments, known)
    elif heading.name == "matmul":
        made = _multiplied(arguments)
    elif heading.name == "squeeze" and not rank:
        made = _squeezed_number(dims)
    elif heading.name == "squeeze" and (dims is None or isinstance(dims, (tuple, list))):
        made = _squeezed(arguments[0], rank, dims)
    elif heading.name == "unsqueeze" and isinstance(dims, (tuple, list)):
        made = _unsqueezed(rank, dims)
    elif heading.name in _ONE_BY_ONE and any(isinstance(v, (tuple, list)) for v in known.values()):
        made = _one_by_one(heading, rank, known, dims)
    elif is_flat and rank != 1:
        made = _flat(heading, rank, known)
    elif heading.name == "take_along_dim":
        made = _with_ones(heading, arguments, known, dims)
    elif heading.name in ("gather_elements", "scatter_elements", "scatter_add"):
        made = _of_a_part(heading, arguments, known, dims)
    elif isinstance(dims, (tuple, list)) and ("keepdim" in heading.parameters or "keepdims" in heading.parameters):
        made = _apart(heading, arguments, named, rank, known, dims)
    return None if made is None else Text(made, arguments, _spell.without(named, known))


# ---- dimensions in another order


def _order(heading: typing.Any, rank: int, named: dict) -> "tuple[list[int], tuple[str, ...]]":
    """Which dimension stands at each place, and the names that said so."""
    name = heading.name
    taken = ORDERS.get(name, ("axes",))
    missing = [each for each in taken if each not in named] if name in ORDERS else []
    if missing:
        raise TypeError(
            "%s needs %s: tilec.std.%s(X, %s)"
            % (name, " and ".join("%s=" % each for each in missing), name, ", ".join("%s=…" % each for each in taken))
        )
    if len(taken) == 2:
        source, destination = (_calls.places(each, name, named[each], rank) for each in taken)
        if len(source) != len(destination):
            raise TypeError(
                "source and destination of %s are %r and %r: as many of one as of the other"
                % (name, named["source"], named["destination"])
            )
        placed = dict(zip(destination, source))
        rest = iter([k for k in range(rank) if k not in source])
        return [placed[k] if k in placed else next(rest) for k in range(rank)], taken
    if named.get(taken[0]) is None:
        return list(reversed(range(rank))), taken
    order = _calls.places(taken[0], name, named[taken[0]], rank)
    if len(order) != rank:
        raise TypeError("%s of %s is %r: give each of the %d dimensions once" % (taken[0], name, named[taken[0]], rank))
    return order, taken


def _permuted(name: str, order: "list[int]") -> str:
    sizes, indices = _spell.sizes_of(len(order)), _spell.sizes_of(len(order), "d")
    return "function %s(%s) -> (Y) { %s = =(%s); }" % (
        name,
        _spell.read("X", sizes),
        _spell.declared("Y", [indices[k] for k in order], [sizes[k] for k in order]),
        _spell.read("X", indices),
    )


def _is_one_place(rank: int, named: dict) -> bool:
    """torch.transpose(X, 0, -1) of a vector, and of a scalar, exchange nothing."""
    given = [named.get("dim0", 0), named.get("dim1", 1)]
    each = [_calls.places("dim%d" % k, "swapaxes", dim, max(rank, 1)) for k, dim in enumerate(given)]
    return each[0] == each[1]


def _turned(name: str, of: str, order: "list[int]", sizes: "list[str]") -> str:
    """The statement that puts dimension order[k] of `of` in place k; `sizes` are those of `name`."""
    indices = _spell.sizes_of(len(order), "d")
    return "%s = =(%s)" % (_spell.declared(name, [indices[k] for k in order], sizes), _spell.read(of, indices))


def _quarter_turns(heading: typing.Any, rank: int, known: dict, dims: typing.Any) -> str:
    """torch.rot90(X, k, dims): the two dimensions in front, turned, and back."""
    pair = _calls.places("dims", "rot90", dims, rank)
    if len(pair) != 2:
        raise TypeError("dims of rot90 is %r: give two dimensions" % (dims,))
    order = [*pair, *(k for k in range(rank) if k not in pair)]
    turns = _calls.whole("k", "rot90", known.get("k", 1))
    sizes = _spell.sizes_of(rank)
    made = list(sizes)
    if turns % 2:
        made[pair[0]], made[pair[1]] = sizes[pair[1]], sizes[pair[0]]
    lines = [
        _turned("Front", "X", order, [sizes[k] for k in order]),
        "Back = std.rot90<k=%d>(Front)" % turns,
        _turned("Y", "Back", [order.index(k) for k in range(rank)], made),
    ]
    return _spell.function(heading, [_spell.read("X", sizes)], ["Y"], lines)


def _put_diagonal(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """torch.diag_embed(D, offset, dim1, dim2): the matrices in these two dimensions."""
    rank = rank_of(arguments[0])
    offset = _calls.whole("offset", "diag_embed", named.get("offset", 0))
    pair = _calls.places("dim1 and dim2", "diag_embed", (named.get("dim1", -2), named.get("dim2", -1)), rank + 1)
    rest = iter(range(rank - 1))
    order = [rank - 1 + pair.index(k) if k in pair else next(rest) for k in range(rank + 1)]
    sizes = _spell.sizes_of(rank)
    deep = [*sizes[:-1], *["%s + %d" % (sizes[-1], abs(offset))] * 2]
    lines = ["Last = std.diag_embed<offset=%d>(D)" % offset, _turned("A", "Last", order, [deep[k] for k in order])]
    text = _spell.function(heading, [_spell.read("D", sizes)], ["A"], lines)
    return Text(text, arguments, _spell.without(named, ("offset", "dim1", "dim2")))


def _of_one_row(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """torch.cov and torch.corrcoef of a vector or a matrix of one row: a number."""
    given = {name: each for name, each in zip(heading.inputs, arguments) if each is not None}
    given.update({name: named[name] for name in heading.inputs if named.get(name) is not None})
    inputs = [_spell.read(name, _spell.sizes_of(rank_of(each), name)) for name, each in given.items()]
    row = "reshape(X, 1, X%d)" % (rank_of(arguments[0]) - 1)
    options = _spell.values_of({name: named[name] for name in heading.parameters if name in named})
    (result,) = heading.results
    taken = ", ".join([row, *("%s=%s" % (name, name) for name in list(given)[1:])])
    lines = ["Made = std.%s%s(%s)" % (heading.name, options, taken), "%s = reshape(Made)" % result]
    text = _spell.function(heading, inputs, [result], lines)
    return Text(text, tuple(given.values()), _spell.without(named, (*heading.inputs, *heading.parameters)))


# ---- dimensions of one element


def _squeezed(array: typing.Any, rank: int, dims: typing.Any) -> str:
    """Without the dimensions of 1, or those of 1 among `dims`, as in PyTorch."""
    given = range(rank) if dims is None else _calls.places("dim", "squeeze", dims, rank)
    shape = np.shape(array)
    sizes = ["1" if k in given and shape[k] == 1 else size for k, size in enumerate(_spell.sizes_of(rank))]
    kept = [size for size in sizes if size != "1"]
    return "function squeeze(%s) -> (Y) { Y = reshape(%s); }" % (_spell.read("X", sizes), ", ".join(["X", *kept]))


def _squeezed_number(dims: typing.Any) -> str:
    """PyTorch and NumPy give a scalar the dimensions 0 and -1 here, which are no more afterwards."""
    each = dims if isinstance(dims, (tuple, list)) else [0 if dims is None else dims]
    for one in each:
        _calls.places("dim", "squeeze", one, 1)
    return "function squeeze(X) -> (Y) { Y = X; }"


def _unsqueezed(rank: int, dims: typing.Any) -> str:
    new = _calls.places("dim", "unsqueeze", dims, rank + len(dims))
    rest = iter(_spell.sizes_of(rank))
    sizes = ["1" if k in new else next(rest) for k in range(rank + len(new))]
    return "function unsqueeze(%s) -> (Y) { Y = reshape(%s); }" % (
        _spell.read("X", _spell.sizes_of(rank)),
        ", ".join(["X", *sizes]),
    )


def _flat(heading: typing.Any, rank: int, known: dict) -> str:
    """The function of all elements in one row."""
    options = _spell.values_of(_spell.without(known, ("dim", "axis")))
    results = heading.results
    target = results[0] if len(results) == 1 else "(%s)" % ", ".join(results)
    row = "reshape(X, %s)" % ("*".join(_spell.sizes_of(rank)) or "1")
    line = "%s = std.%s%s(%s)" % (target, heading.name, options, row)
    return _spell.function(heading, [_spell.read("X", _spell.sizes_of(rank))], results, [line])


# ---- a dimension after the other

# Functions that do to each of several dimensions what they do to one; with what may differ from one to the next.
_ONE_BY_ONE = {"flip": None, "roll": "shifts", "tile": "reps"}


def _one_by_one(heading: typing.Any, rank: int, known: dict, dims: typing.Any) -> str:
    name, varies = heading.name, _ONE_BY_ONE[heading.name]
    values = known.get(varies) if varies else None
    if dims is None and name == "tile":  # numpy.tile: of the last dimensions
        count = len(values)
        each = list(range(max(rank, count) - count, max(rank, count)))
    elif dims is None:
        raise TypeError("%s of %s is %r: give as many dimensions by dim=" % (varies, name, values))
    else:
        each = _calls.places("dim", name, dims, rank)
    if isinstance(values, (tuple, list)) and len(values) != len(each):
        raise TypeError(
            "%s of %s is %r: give a number, or one for each of the dimensions %r" % (varies, name, values, tuple(each))
        )
    by_dim = "start_dim" in heading.parameters
    lines, last = [], "X"
    if each and each[-1] >= rank:  # numpy.tile of more numbers than there are dimensions
        lines.append("Deep = reshape(%s)" % ", ".join(["X", *["1"] * (each[-1] + 1 - rank), *_spell.sizes_of(rank)]))
        last = "Deep"
    for k, dim in enumerate(each):
        options = {"start_dim": dim, "end_dim": dim} if by_dim else {"dim": dim}
        if varies and values is not None:
            options[varies] = values[k] if isinstance(values, (tuple, list)) else values
        target = "Y" if k + 1 == len(each) else "X_%d" % (k + 1)
        lines.append("%s = std.%s%s(%s)" % (target, name, _spell.values_of(options), last))
        last = target
    return _spell.function(heading, [_spell.read("X", _spell.sizes_of(rank))], ["Y"], lines or ["Y = X"])


# ---- reductions over dimensions that do not lie side by side


def _apart(
    heading: typing.Any, arguments: tuple, named: dict, rank: int, known: dict, dims: typing.Any
) -> "str | None":
    """Over the last ones of the tensor with its dimensions in another order."""
    name = "dim" if "dim" in known else "axis"
    each = sorted(_calls.places(name, heading.name, dims, rank))
    over_ends = "start_dim" in heading.parameters
    if not each or (over_ends and _calls.are_neighbours(each)) or (not over_ends and len(each) < 2):
        return None
    keep = next(key for key in ("keepdim", "keepdims") if key in heading.parameters)
    keeps = bool(known.get(keep, (heading.parameters[keep] or "").startswith("{true")))
    kept = [d for d in range(rank) if d not in each]
    sizes, indices, order = _spell.sizes_of(rank), _spell.sizes_of(rank, "d"), [*kept, *each]
    others = {key: value for key, value in known.items() if key not in (name, "dim", "axis", keep)}
    where = {"start_dim": len(kept), "end_dim": -1} if over_ends else {"dim": -1}
    first, *inputs = heading.inputs
    more = [n for k, n in enumerate(inputs, 1) if k < len(arguments) or n in named]
    results = heading.results
    turned = (
        "Turned"
        if over_ends
        else "reshape(Turned, %s)" % ", ".join([*(sizes[d] for d in kept), "*".join(sizes[d] for d in each)])
    )
    shape = [("1" if d in each else sizes[d]) for d in range(rank)] if keeps else [sizes[d] for d in kept]
    made = ["Made%d" % k for k in range(len(results))]
    target = made[0] if len(made) == 1 else "(%s)" % ", ".join(made)
    lines = [
        "%s = =(%s)"
        % (
            _spell.declared("Turned", [indices[d] for d in order], [sizes[d] for d in order]),
            _spell.read(first, indices),
        ),
        "%s = std.%s%s(%s)"
        % (target, heading.name, _spell.values_of({**others, **where, keep: False}), ", ".join([turned, *more])),
        *("%s = reshape(%s)" % (r, ", ".join([m, *shape])) for r, m in zip(results, made)),
    ]
    return _spell.function(heading, [_spell.read(first, sizes), *more], results, lines)


# ---- tensors that lack a dimension


def lacks_dimension(heading: typing.Any, arguments: tuple) -> bool:
    """Is the first input one sample of a function of batches, or a scalar of one along a dimension?"""
    if not arguments:
        return False
    if heading.name in _OF_ONE:
        return rank_of(arguments[0]) == 0
    if heading.name in _OF_CLASSES:
        return rank_of(arguments[0]) == 1
    if heading.family not in ("conv", "conv_nchw", "pool", "pool_nchw"):
        return False
    directions = re.search(r"([123])d", heading.name)
    return bool(directions and _batched(heading)) and rank_of(arguments[0]) == int(directions[1]) + 1


def _batched(heading: typing.Any) -> "list[str]":
    """The inputs whose first dimension is that of samples: `I[N, H, W, C]`."""
    return re.findall(r"(\w+)\[N\b", heading.text.partition("->")[0])


def _with_one(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """With a dimension of one element in front, and without it in the results."""
    given = {name: each for name, each in zip(heading.inputs, arguments) if each is not None}
    more = {name: named[name] for name in heading.inputs if named.get(name) is not None}
    known = {name: value for name, value in named.items() if name in heading.parameters}
    if not given and not more:
        raise TypeError(f"missing: {next(iter(heading.inputs))}")
    deep = (next(iter({**given, **more})),) if heading.name in _OF_ONE else _batched(heading)
    inputs, taken = [], []
    for name, value in {**given, **more}.items():
        sizes = _spell.sizes_of(rank_of(value), name)
        inputs.append(_spell.read(name, sizes))
        call = "reshape(%s)" % ", ".join([name, "1", *sizes]) if name in deep else name
        taken.append("%s=%s" % (name, call))
    made = ["Made%d" % k for k in range(len(heading.results))]
    target = made[0] if len(made) == 1 else "(%s)" % ", ".join(made)
    options = _spell.values_of(known, heading.parameters)
    lines = ["%s = std.%s%s(%s)" % (target, heading.name, options, ", ".join(taken))]
    is_number = heading.name in _OF_ONE or heading.name in _OF_CLASSES
    without = "%s = reshape(%s)" if is_number else "%s = moved.squeeze<dim=0>(%s)"
    lines += [without % each for each in zip(heading.results, made)]
    text = 'import "std/movement.tile" as moved;\n' + _spell.function(heading, inputs, heading.results, lines)
    return Text(text, tuple(given.values()), {**_spell.without(named, (*known, *heading.inputs)), **more})


def _multiplied(arguments: tuple) -> "str | None":
    """torch.matmul and numpy.matmul of a vector, or with batch dimensions that are repeated."""
    if len(arguments) != 2:
        return None
    shapes = [tuple(np.shape(value)) for value in arguments]
    a, b = shapes
    if not a or not b or (len(a) > 1 and len(b) > 1 and a[:-2] == b[:-2]):
        return None
    count = max(len(a), len(b), 2) - 2
    batch = ["B%d" % k for k in range(count)]
    inputs, reads = [], []
    for name, shape, last in (("A", a, ("M", "K")), ("B", b, ("K", "N"))):
        own = last if len(shape) > 1 else ("K",)
        sizes, indices = [*own], [each.lower() for each in own]
        for k in range(1, len(shape) - 1):
            other = shapes[name == "A"]
            one = shape[-2 - k] == 1 and len(other) > k + 1 and other[-2 - k] != 1
            sizes.insert(0, "1" if one else batch[-k])
            indices.insert(0, "0" if one else batch[-k].lower())
        inputs.append(_spell.read(name, sizes))
        reads.append(_spell.read(name, indices))
    results = [*batch, *["M"] * (len(a) > 1), *["N"] * (len(b) > 1)]
    target = _spell.declared("C", [each.lower() for each in results], results)
    return "function matmul(%s) -> (C) { %s = +(%s); }" % (", ".join(inputs), target, " * ".join(reads))


def _broadcast(heading: typing.Any, arguments: tuple, known: dict) -> "str | None":
    """The function of two tensors repeated along dimensions that one of them has not, or has one element of."""
    shapes = [tuple(np.shape(value)) for value in arguments]
    rank = max(map(len, shapes))
    whole = [max((shape[d - rank] for shape in shapes if len(shape) >= rank - d), default=1) for d in range(rank)]
    if len(shapes) != 2 or shapes[0] == shapes[1]:
        return None
    sizes, indices, inputs, lines = _spell.sizes_of(rank), _spell.sizes_of(rank, "d"), [], []
    for name, shape in zip(heading.inputs, shapes):
        one = [n == 1 != whole[d - len(shape)] for d, n in enumerate(shape)]
        own = sizes[rank - len(shape) :], indices[rank - len(shape) :]
        inputs.append(_spell.read(name, ["1" if o else size for o, size in zip(one, own[0])]))
        read = _spell.read(name, ["0" if o else index for o, index in zip(one, own[1])])
        lines.append("%s = =(%s)" % (_spell.declared("Wide" + name, indices, sizes), read))
    (result,), options = heading.results, _spell.values_of(known)
    lines.append("%s = std.%s%s(%s)" % (result, heading.name, options, ", ".join("Wide" + n for n in heading.inputs)))
    return _spell.function(heading, inputs, [result], lines)


# ---- an index that is smaller than the data in the other dimensions


def _of_a_part(heading: typing.Any, arguments: tuple, known: dict, dims: typing.Any) -> "str | None":
    """torch.gather and torch.scatter take the first elements of X, and of U, as many as I has."""
    ranks = [rank_of(value) for value in arguments]
    if len(arguments) != len(heading.inputs) or len(set(ranks)) > 1 or not ranks[0]:
        return None
    rank, along = ranks[0], _calls.whole("dim", heading.name, dims or 0)
    if not -rank <= along < rank:
        return None
    along %= rank
    x, i, *u = (np.shape(value) for value in arguments)
    others = [d for d in range(rank) if d != along]
    fits = all(i[d] <= x[d] for d in others) and all(a <= b for a, b in zip(i, u[0] if u else i))
    if not fits or (all(i[d] == x[d] for d in others) and (not u or i == u[0])):
        return None
    whole, part, indices = _spell.sizes_of(rank), _spell.sizes_of(rank, "J"), _spell.sizes_of(rank, "i")
    near = [whole[d] if d == along else part[d] for d in range(rank)]
    call = "std.%s%s(Part, I%s)" % (
        heading.name,
        _spell.values_of({**_spell.without(known, ("axis",)), "dim": along}),
        ", Updates" if u else "",
    )
    lines = ["%s = =(%s)" % (_spell.declared("Part", indices, near), _spell.read("X", indices))]
    inputs = [_spell.read("X", whole), _spell.read("I", part)]
    if not u:
        return _spell.function(heading, inputs, ["Y"], [*lines, "Y = %s" % call])
    lines += [
        "%s = =(%s)" % (_spell.declared("Updates", indices, part), _spell.read("U", indices)),
        "Done = %s" % call,
        "%s = =(%s) default X" % (_spell.declared("Y", indices, whole), _spell.read("Done", indices)),
    ]
    return _spell.function(heading, [*inputs, _spell.read("U", _spell.sizes_of(rank, "L"))], ["Y"], lines)


def _with_ones(heading: typing.Any, arguments: tuple, known: dict, dims: typing.Any) -> "str | None":
    """numpy.take_along_axis repeats X, and I, along other dimensions in which one of them has one element."""
    ranks = [rank_of(value) for value in arguments]
    if (
        len(ranks) != 2
        or ranks[0] != ranks[1]
        or dims is None
        or not -ranks[0] <= _calls.whole("dim", heading.name, dims) < ranks[0]
    ):
        return None
    rank, along = ranks[0], dims % ranks[0]
    x, i = (np.shape(value) for value in arguments)
    others = [d for d in range(rank) if d != along]
    if all(x[d] == i[d] for d in others) or any(x[d] != i[d] and 1 not in (x[d], i[d]) for d in others):
        return None
    sizes, lines, inputs, indices = _spell.sizes_of(rank), [], [], _spell.sizes_of(rank, "i")
    for name, shape, own in (("X", x, "N"), ("I", i, "J")):
        one = [d in others and shape[d] == 1 != max(x[d], i[d]) for d in range(rank)]
        whole = [own if d == along else sizes[d] for d in range(rank)]
        inputs.append(_spell.read(name, ["1" if o else s for o, s in zip(one, whole)]))
        read = ["0" if o else index for o, index in zip(one, indices)]
        lines.append("Wide%s = =(%s)" % (_spell.declared(name, indices, whole), _spell.read(name, read)))
    lines.append("Y = std.take_along_dim<dim=%d>(WideX, WideI)" % along)
    return _spell.function(heading, inputs, ["Y"], lines)
