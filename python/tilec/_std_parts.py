"""Texts of calls to std/ whose tensors are many: in a list, or the parts of one; and edges of several dimensions.

    concat([X, Y, Z], 1)   ⇒   function concat(T0, T1, T2) -> (Y) { Y = std.concat3<dim=1>(T0, T1, T2); }
    chunk(X, 2)            ⇒   a result for each part
"""

from __future__ import annotations

import typing

import numpy as np

from . import _std_calls as _calls, _std_spell as _spell
from ._std_spell import Text, rank_of

_MOST_JOINED = 8  # concat8, stack8

# numpy.vstack and others of arrays in a list: along which dimension they are joined, and what those of few dimensions
# become first.
LISTS = {
    "vstack": (0, {0: "1, 1", 1: "1, %s"}),
    "hstack": (1, {0: "1"}),
    "column_stack": (1, {0: "1, 1", 1: "%s, 1"}),
    "dstack": (2, {0: "1, 1, 1", 1: "1, %s, 1", 2: "%s, %s, 1"}),
}


# ---- edges of several dimensions

_EDGES = {
    "constant": "pad",
    "reflect": "pad_reflect",
    "replicate": "pad_edge",
    "edge": "pad_edge",
    "circular": "pad_circular",
    "wrap": "pad_circular",
}


def padded(heading: typing.Any, arguments: tuple, named: dict) -> "Text | None":
    """torch.nn.functional.pad(X, (left, right, top, bottom)), of the last dimensions, and numpy.pad(X, ((1, 1), (0,
    2))), of all. A pair alone means the last dimension there and each here, so it has to say pad= or pad_width=."""
    given = [named[key] for key in ("pad", "pad_width") if key in named] + list(arguments[1:2])
    if not given:
        return None
    rank, of_numpy = rank_of(arguments[0]), "pad_width" in named
    if len(given) > 1 or len(arguments) > (2 if "mode" in named else 3 if "value" in named else 4):
        raise TypeError("pad takes a tensor and one of pad= and pad_width=, mode=, value=")
    width = given[0]
    pairs = isinstance(width, (tuple, list)) and any(isinstance(each, (tuple, list)) for each in width)
    flat = [width] * 2 if not isinstance(width, (tuple, list)) else [] if pairs else list(width)
    if pairs or of_numpy or isinstance(width, int):
        of_numpy = True
        sides = [tuple(each) for each in width] if pairs else [tuple(flat * (2 // max(1, len(flat))))]
        sides = sides * rank if len(sides) == 1 else sides
    elif len(flat) == 2 and rank > 1 and "pad" not in named:
        raise TypeError(
            "pad of %r is the last dimension in PyTorch and each in NumPy: write pad=%r or pad_width=%r"
            % (width, width, width)
        )
    else:
        sides = list(zip(flat[::2], flat[1::2]))
        sides = [(0, 0)] * (rank - len(sides)) + sides[::-1]
    if len(sides) != rank or len(flat) % 2 * (not of_numpy) or any(len(side) != 2 for side in sides):
        raise TypeError("pad of %r: give two numbers for a dimension, of which there are %d" % (width, rank))
    mode = named.get("mode", arguments[2] if len(arguments) > 2 else "constant")
    if mode not in _EDGES:
        raise TypeError("mode of pad is %r: give one of %s" % (mode, ", ".join(_EDGES)))
    value = arguments[3] if len(arguments) > 3 else named.get("value", named.get("constant_values"))
    lines, last = [], "X"
    for dim, (before, after) in enumerate(sides):
        if before or after:
            options = {"before": before, "after": after, "dim": dim, "value": value if _EDGES[mode] == "pad" else None}
            lines.append("X_%d = std.%s%s(%s)" % (dim, _EDGES[mode], _spell.values_of(options), last))
            last = "X_%d" % dim
    text = _spell.function(heading, [_spell.read("X", _spell.sizes_of(rank))], ["Y"], [*lines, "Y = %s" % last])
    return Text(text, arguments[:1], _spell.without(named, ("pad", "pad_width", "mode", "value", "constant_values")))


def _block_diagonal(heading: typing.Any, arguments: tuple, named: dict) -> "Text | None":
    """torch.block_diag of any number; a vector is one row."""
    if named or not arguments or (len(arguments) == 2 and all(rank_of(each) == 2 for each in arguments)):
        return None
    inputs, lines = [], []
    for k, each in enumerate(arguments):
        sizes = _spell.sizes_of(rank_of(each), "D%d_" % k)
        inputs.append(_spell.read("T%d" % k, sizes))
        lines.append("M%d = reshape(T%d, %s)" % (k, k, ", ".join([*["1"] * (2 - len(sizes)), *sizes])))
        if k:
            lines.append("B%d = std.block_diag(%s%d, M%d)" % (k, "B" if k > 1 else "M", k - 1, k))
    last = len(arguments) - 1
    lines.append("Y = %s%d" % ("B" if last else "M", last))
    return Text(_spell.function(heading, inputs, ["Y"], lines), arguments, {})


def _changes(heading: typing.Any, arguments: tuple, named: dict) -> "Text | None":
    """torch.diff with what stands in front of X and behind it."""
    placed = dict(zip(("n", "dim", "prepend", "append"), arguments[1:]))
    if not placed.keys().isdisjoint(named):
        return None                                            # which by_name() refuses
    arguments, named = arguments[:1], {**placed, **named}
    names = ("prepend", "append") if named.get("n") != 0 else ()
    beside = {name: named[name] for name in names if named.get(name) is not None}
    if "prepend" not in named and "append" not in named or not arguments:
        return None
    known = _spell.without(_calls.renamed(heading, named), ("prepend", "append"))
    dim = known.pop("axis", known.get("dim", -1))
    given = {"P": beside.get("prepend"), "X": arguments[0], "Q": beside.get("append")}
    given = {name: each for name, each in given.items() if each is not None}
    inputs = [_spell.read(name, _spell.sizes_of(rank_of(each), name)) for name, each in given.items()]
    along = _spell.values_of({"dim": _calls.whole("dim", "diff", dim)})
    joined = "moved.concat%s%s(%s)" % ("3" * (len(given) > 2), along, ", ".join(given))
    lines = ["Beside = %s" % (joined if beside else "X")]
    lines.append("Y = std.diff%s(Beside)" % _spell.values_of({"n": known.get("n"), "dim": dim}))
    text = 'import "std/movement.tile" as moved;\n' + _spell.function(heading, inputs, ["Y"], lines)
    return Text(text, tuple(given.values()), _spell.without(known, ("n", "dim")))


# Calls whose positions mean something else than the parameters of the heading in order.
BEFORE_NAMES = {"pad": padded, "block_diag": _block_diagonal, "diff": _changes}


# ---- parts of a tensor, and a dimension in parts


def _parts(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """chunk and unbind: a result for each part."""
    name, array = heading.name, arguments[0]
    (along,) = _calls.places("dim", name, named.get("dim", 0), rank_of(array))
    length = np.shape(array)[along]
    indices, sizes = _spell.sizes_of(rank_of(array), "d"), _spell.sizes_of(rank_of(array))
    sizes[along] = str(length)
    starts, each = range(length), 1
    if name == "chunk":
        count = _calls.whole("chunks", name, named.get("chunks"))
        if count < 1:
            raise TypeError("chunks of chunk is %d: give 1 or more" % count)
        each = -(-length // count)
        starts = range(0, length, each) if length else range(count)
    if not starts:
        raise TypeError("unbind along dimension %d of no elements gives no tensor" % along)
    lines = []
    for k, start in enumerate(starts):
        read = [
            *indices[:along],
            "%s%d" % ("" if name == "unbind" else indices[along] + " + ", start),
            *indices[along + 1 :],
        ]
        kept = list(range(len(sizes)))
        part = [*sizes]
        if name == "unbind":
            kept.remove(along)
        else:
            part[along] = str(min(each, length - start) if length else 0)
        target = _spell.declared("Y%d" % k, [indices[d] for d in kept], [part[d] for d in kept])
        lines.append("%s = =(%s)" % (target, _spell.read("X", read)))
    results = ["Y%d" % k for k in range(len(lines))]
    text = "function %s(%s) -> (%s) {\n%s}\n" % (
        name,
        _spell.read("X", sizes),
        ", ".join(results),
        "".join("  %s;\n" % line for line in lines),
    )
    return Text(text, arguments, _spell.without(named, heading.parameters))


def _split(heading: typing.Any, arguments: tuple, named: dict) -> "Text | None":
    """torch.split(X, split_size_or_sections=), of parts so long, and numpy.split(X, indices_or_sections=), of so many
    or between these places. Without such a name it is split<at>."""
    names = [name for name in ("split_size_or_sections", "split_size", "indices_or_sections") if name in named]
    if not names:
        return None
    array, wanted = arguments[0], named[names[0]]
    (along,) = _calls.places("dim", "split", named.get("dim", named.get("axis", 0)), rank_of(array))
    length = np.shape(array)[along]
    if isinstance(wanted, (tuple, list)):
        each = [_calls.whole(names[0], "split", one) for one in wanted]
        edges = [0, *each, length] if names[0] == "indices_or_sections" else [0, *np.cumsum(each).tolist()]
    else:
        count = _calls.whole(names[0], "split", wanted)
        step = count if names[0] != "indices_or_sections" else length // max(1, count)
        if count < 1 or (names[0] == "indices_or_sections" and length % count):
            raise TypeError("%s of split is %r: dimension %d has %d elements" % (names[0], wanted, along, length))
        edges = [*range(0, length, max(1, step)), length] if length else [0, 0]
    if edges[-1] != length or any(a > b for a, b in zip(edges, edges[1:])):
        raise TypeError("%s of split is %r: dimension %d has %d elements" % (names[0], wanted, along, length))
    lines = []
    for k, (start, end) in enumerate(zip(edges, edges[1:])):
        indices, sizes = _spell.sizes_of(rank_of(array), "d"), _spell.sizes_of(rank_of(array))
        sizes[along] = str(end - start)
        target = _spell.declared("Y%d" % k, indices, sizes)
        indices[along] += " + %d" % start
        lines.append("%s = =(%s)" % (target, _spell.read("X", indices)))
    sizes = _spell.sizes_of(rank_of(array))
    sizes[along] = str(length)
    results = ["Y%d" % k for k in range(len(lines))]
    text = _spell.function(heading, [_spell.read("X", sizes)], results, lines)
    return Text(text, arguments, _spell.without(named, (*names, "dim", "axis")))


def _unflattened(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    array, rank = arguments[0], rank_of(arguments[0])
    missing = [each for each in heading.parameters if each not in named]
    if missing:
        raise TypeError("unflatten needs %s=: tilec.std.unflatten(X, dim=…, sizes=…)" % missing[0])
    (along,) = _calls.places("dim", "unflatten", named["dim"], rank)
    sizes, length = named["sizes"], np.shape(array)[along]
    new = [
        _calls.whole("sizes", "unflatten", size) for size in (sizes if isinstance(sizes, (tuple, list)) else [sizes])
    ]
    rest = int(np.prod([size for size in new if size != -1]))
    if new.count(-1) == 1 and rest > 0:
        new[new.index(-1)] = length // rest
    if min(new, default=0) < 0 or np.prod(new) != length or not new:
        raise TypeError("sizes of unflatten is %r: dimension %d has %d elements" % (sizes, along, length))
    given = _spell.sizes_of(rank)
    shape = [*given[:along], *map(str, new), *given[along + 1 :]]
    given[along] = str(length)
    text = "function unflatten(%s) -> (Y) { Y = reshape(%s); }" % (_spell.read("X", given), ", ".join(["X", *shape]))
    return Text(text, arguments, _spell.without(named, heading.parameters))


def _counted(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """numpy.bincount: as many numbers as the largest element says."""
    arguments = tuple(each for each in arguments if each is not None)
    array = arguments[0] if hasattr(arguments[0], "max") else np.asarray(arguments[0])
    if rank_of(array) != 1:
        raise TypeError("bincount is of a tensor of one dimension, not of %d" % rank_of(array))
    size = _calls.whole("minlength", "bincount", named.get("minlength") or 0)
    if np.shape(array)[0]:
        if int(array.min()) < 0:
            raise ValueError("bincount counts numbers from 0 on: the smallest of X is %d" % int(array.min()))
        size = max(size, int(array.max()) + 1)
    given = arguments[1] if len(arguments) > 1 else named.get("WEIGHTS")
    weights = given is not None
    is_whole = weights and "float" not in str(getattr(given, "dtype", "float"))  # f64, as there
    text = "function bincount(X[N]%s) -> (H) { H[b: %d] = +((X[i] | 0) == b ? %s); }" % (
        ", WEIGHTS[N]" if weights else "",
        size,
        ("f64(WEIGHTS[i]) : 0.0" if is_whole else "WEIGHTS[i] : 0.0") if weights else "i64(1) : i64(0)",
    )
    return Text(text, arguments, _spell.without(named, ("minlength",) if weights else ("minlength", "WEIGHTS")))


# ---- tensors in a list


def joins_list(name: str, arguments: tuple) -> bool:
    """Is it concat or stack of tensors in a list?"""
    return name in ("concat", "stack") and bool(arguments) and isinstance(arguments[0], (list, tuple))


def joined(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """concat or stack of any number: those of eight, and of what these make."""
    name, (arrays, *rest) = heading.name, arguments
    if not arrays:
        raise TypeError("%s takes one array or more: the list is empty" % name)
    _, named = _calls.by_name(heading, ((),) * len(heading.inputs) + tuple(rest), named)
    named = _calls.renamed(heading, named)
    if "axis" in named:
        named = {"dim" if key == "axis" else key: value for key, value in named.items()}
    dim = named.get("dim", 0)
    along = _spell.values_of({"dim": _calls.whole("dim", name, 0 if dim is None else dim)})
    inputs = joined = ["T%d" % k for k in range(len(arrays))]
    lines: "list[str]" = []
    if dim is None and name == "concat":                       # numpy.concatenate(…, axis=None): all elements in one row
        sizes = {each: _spell.sizes_of(rank_of(x), each + "_") for each, x in zip(joined, arrays)}
        inputs = [_spell.read(each, sizes[each]) for each in joined]
        lines = ["Row%s = reshape(%s, %s)" % (each, each, "*".join(sizes[each]) or "1") for each in joined]
        joined = ["Row%s" % each for each in joined]
    lines += _chain(name, along, joined)
    return Text(_spell.function(heading, inputs, ["Y"], lines), tuple(arrays), _spell.without(named, ("dim",)))


def _chain(step: str, along: str, joined: "list[str]") -> "list[str]":
    lines: "list[str]" = []
    while len(joined) > 1:
        made = []
        for part in (joined[k : k + _MOST_JOINED] for k in range(0, len(joined), _MOST_JOINED)):
            made.append("P%d" % len(lines))
            lines.append("P%d = %s" % (len(lines), _side_by_side(step, along, part)))
        joined, step = made, "concat"
    return [*lines, "Y = %s" % (joined[0] if lines else _side_by_side(step, along, joined))]


def _stacked(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """vstack and its like: along a dimension; what has too few dimensions gets those of one element first."""
    if len(arguments) != 1 or not isinstance(arguments[0], (list, tuple)) or not arguments[0]:
        raise TypeError("%s takes one list of tensors" % heading.name)
    along, deepened = LISTS[heading.name]
    ranks = [rank_of(each) for each in arguments[0]]
    if heading.name == "hstack" and max(ranks[0], 1) == 1:
        along = 0
    inputs, joined, lines = [], [], []
    for k, rank in enumerate(ranks):
        sizes = _spell.sizes_of(rank, "D%d_" % k)
        inputs.append(_spell.read("T%d" % k, sizes))
        joined.append("Deep%d" % k if rank in deepened else "T%d" % k)
        if rank in deepened:
            lines.append("Deep%d = reshape(T%d, %s)" % (k, k, deepened[rank] % tuple(sizes)))
    lines += _chain("concat", "<dim=%d>" % along, joined)
    return Text(_spell.function(heading._replace(family="movement"), inputs, ["Y"], lines), tuple(arguments[0]), named)


def _side_by_side(name: str, along: str, tensors: "list[str]") -> str:
    if len(tensors) == 1:
        return tensors[0] if name == "concat" else "std.unsqueeze%s(%s)" % (along, tensors[0])
    return "std.%s%s%s(%s)" % (name, "" if len(tensors) == 2 else len(tensors), along, ", ".join(tensors))


def _lexsorted(heading: typing.Any, arguments: tuple, named: dict) -> Text:
    """The last key counts first: each puts the order of those before it in order, and leaves it among equal ones."""
    keys = arguments[0] if len(arguments) == 1 else ()
    keys = tuple(keys[k] for k in range(len(keys))) if hasattr(keys, "ndim") else keys
    if not isinstance(keys, (list, tuple)) or not keys or len({tuple(np.shape(key)) for key in keys}) > 1:
        raise TypeError("lexsort takes one list of tensors of one shape, the keys, of which the last counts first")
    (along,) = _calls.places("dim", "lexsort", named.get("dim", -1), rank_of(keys[0]))
    along, inputs = _spell.values_of({"dim": along}), ["K%d" % k for k in range(len(keys))]
    lines = ["I0 = std.order_of%s(K0)" % along]
    for k in range(1, len(keys)):
        lines.append("P%d = picked.take_along_dim%s(K%d, I%d)" % (k, along, k, k - 1))
        lines.append("J%d = std.order_of%s(P%d)" % (k, along, k))
        lines.append("I%d = picked.take_along_dim%s(I%d, J%d)" % (k, along, k - 1, k))
    text = _spell.function(heading._replace(family="ordering"), inputs, ["I%d" % (len(keys) - 1)], lines)
    return Text('import "std/indexing.tile" as picked;\n' + text, tuple(keys), _spell.without(named, ("dim",)))


OWN = {
    **dict.fromkeys(("chunk", "unbind"), _parts),
    "unflatten": _unflattened,
    "bincount": _counted,
    **dict.fromkeys(LISTS, _stacked),
    "lexsort": _lexsorted,
    "split": _split,
}
