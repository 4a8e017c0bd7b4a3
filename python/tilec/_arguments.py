"""What a call may be given, as an array that C can take or a plain number; and what is said of everything else, with
its name."""
from __future__ import annotations

import collections.abc
import operator
import os
import re

import numpy as np

from ._call import address, bfloat16, shortened
from ._libraries import check_host, library_of

_ADVICE = {
    "c": "pass its .real and .imag as two arrays",
    "O": "its elements are Python objects: convert it, for instance with .astype(np.float32)",
    "V": "a structured array: pass one of its fields, such as A['x']",
    "M": "pass its numbers: .view(np.int64)",
    "m": "pass its numbers: .view(np.int64)",
    "f": "convert it with .astype(np.float64)",
    "S": "text is no tensor",
    "U": "text is no tensor",
}

# Element types that NumPy has not, by their names in ml_dtypes, and what can be passed instead.
_NARROW = (
    ("float[468]_.*", "convert it with .astype(np.float32)"),
    ("int[1-7]|uint[1-7]", "convert it with .astype(np.int8), or np.uint8"),
)


def is_tile_type(dtype: np.dtype) -> bool:
    if dtype.kind == "V":
        return dtype == bfloat16()
    return dtype.isnative and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8)))


def check_type(name: str, dtype: np.dtype) -> None:
    """TypeError unless Tile has the element type."""
    if is_tile_type(dtype):
        return
    if not dtype.isnative and is_tile_type(dtype.newbyteorder("=")):
        raise TypeError("%s: element type %s has its bytes in the other order (big-endian); convert it with .astype(%r)"
                        % (name, dtype, dtype.newbyteorder("=").str.replace("<", "=")))
    if dtype.fields and dtype.kind != "V":
        advice = _ADVICE["V"]
    else:
        narrow = next((advice for pattern, advice in _NARROW if re.fullmatch(pattern, dtype.name)), None)
        advice = narrow or _ADVICE.get(dtype.kind, "convert it with .astype")
    raise TypeError(
        "%s: element type %s is none of Tile's (bool, u8 … u64, i8 … i64, f16, bf16, f32, f64); %s"
        % (name, dtype, advice)
    )


def check_mask(name: str, array: np.ndarray) -> None:
    """A mask would be lost: Tile has none."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "%s: a masked array, and Tile has no masks; pass .filled(value), or .data to ignore the mask" % name
        )


def as_argument(name: str, value):
    """An array, a plain number, anything with __dlpack__ or __array__, nested lists: as an array that C can take, or a
    number. A scalar of NumPy is an array, though np.float64 is a float too: it has a type. But np.bool_ is a bool,
    which takes any type, and one that JAX holds weakly typed is a number."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _as_array(name, value)
    if value is None or isinstance(value, (bool, int, float)):
        return (
            value
            if type(value) in (bool, int, float, type(None))
            else float(value) if isinstance(value, float) else int(value)
        )
    array = _as_array(name, _foreign(name, value))
    return array.item() if not array.ndim and getattr(value, "weak_type", False) else array


def _foreign(name: str, value) -> np.ndarray:
    library = library_of(value)
    if hasattr(library, "view"):
        return library.view(name, value)
    check_host(name, value)
    dtype = getattr(value, "dtype", None)
    # NumPy's DLPack knows none of ml_dtypes
    exchanged = hasattr(value, "__dlpack__") and not (isinstance(dtype, np.dtype) and dtype.kind == "V")
    try:
        array = np.from_dlpack(value) if exchanged else np.asarray(value)
    except Exception as fault:                                # whatever a foreign object raises
        kind = ValueError if isinstance(fault, ValueError) else TypeError
        raise kind("%s: a %s cannot be taken as an array: %s" % (name, type(value).__name__, fault)) from fault
    if array.dtype == object:
        raise TypeError("%s: a %s is no array and no number" % (name, type(value).__name__))
    return array


def _as_array(name: str, value) -> np.ndarray:
    check_mask(name, value)
    array = np.asarray(value)                                 # the elements of a subclass, no copy
    check_type(name, array.dtype)
    size = array.itemsize
    if array.size and (address(array) % size or any(s % size for s in array.strides)):
        return array.copy()                                   # elements that no pointer to one can reach
    return array


def counted(count: int, what: str) -> str:
    return "%d %s%s" % (count, what, "" if count == 1 else "s")


def names_to_add(accumulate, outputs: "tuple[str, ...]") -> "tuple[str, ...]":
    """accumulate= as the names of outputs: True are all."""
    if is_flag(accumulate):
        return outputs if accumulate else ()
    try:
        names = (accumulate,) if isinstance(accumulate, str) else tuple(accumulate)
    except TypeError:
        raise TypeError(
            "accumulate= is a bool, the name of an output or a sequence of them, not %r" % (accumulate,)
        ) from None
    unknown = [name for name in names if name not in outputs]
    if unknown:
        raise ValueError(
            "accumulate=: %s is no output; there are %s" % (", ".join(map(str, unknown)), ", ".join(outputs))
        )
    return names


def as_outputs(names: "tuple[str, ...]", out) -> list:
    """out= as a list of arrays of any library, one for each output."""
    if type(out) is np.ndarray and len(names) == 1:
        return [out]
    try:
        arrays = [out] if isinstance(out, np.ndarray) or library_of(out) is not None else list(out)
    except TypeError:
        raise TypeError("out= is a %s, not an array or a sequence of arrays" % type(out).__name__) from None
    if len(arrays) != len(names):
        raise ValueError(
            "out= has %s, the program has %s (%s)"
            % (counted(len(arrays), "array"), counted(len(names), "output"), ", ".join(names))
        )
    for name, array in zip(names, arrays):
        if type(array) is np.ndarray:
            continue
        if not isinstance(array, np.ndarray):
            if library_of(array) is None and not hasattr(array, "__dlpack__"):
                raise TypeError("out= for %s is a %s, not an array" % (name, type(array).__name__))
            continue
        check_mask("out= for " + name, array)
    return arrays


def as_written(names: "tuple[str, ...]", arrays: list) -> "list[np.ndarray]":
    """Arrays that as_outputs() gave, of any library, as NumPy arrays over their memory."""
    views = []
    for name, array in zip(names, arrays):
        library = library_of(array)
        if library is not None:
            library.check_no_graph("out= for " + name, array)
        view = array if isinstance(array, np.ndarray) else _foreign("out= for " + name, array)
        if getattr(array, "is_neg", None) is not None and array.is_neg():
            raise ValueError(
                "out= for %s is a view that PyTorch negates when it is read: give a tensor that is none, and copy it there"
                % name
            )
        views.append(view)
    return views


def fit(what: str, value, low: int, high: int) -> int:
    """An integer option within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("%s is %r, not an integer" % (what, value)) from None
    if not low <= number <= high:
        raise ValueError("%s is %s, not from %d to %d" % (what, shortened(number), low, high))
    return number


def is_flag(value) -> bool:
    return isinstance(value, (bool, int, np.bool_)) and value in (0, 1)


def flag(what: str, value) -> bool:
    """An option that is true or false."""
    if not is_flag(value):
        raise TypeError("%s is %r, not a bool" % (what, value))
    return bool(value)


def as_path(what: str, value) -> "str | bytes":
    try:
        return os.fspath(value)
    except TypeError:
        raise TypeError("%s is %r, not a path" % (what, value)) from None


def items_of(what: str, values) -> list:
    """Names and values of an option; None: none."""
    if not isinstance(values, (collections.abc.Mapping, type(None))):
        raise TypeError("%s is %r, not a dict" % (what, values))
    return list((values or {}).items())


def encoded(what: str, text) -> bytes:
    """Text as C takes it."""
    if not isinstance(text, str):
        raise TypeError("%s is a %s, not a str" % (what, type(text).__name__))
    if "\0" in text:
        raise ValueError("%s holds a zero character" % what)
    return text.encode()


def define_value(name: str, value) -> "str | float":
    """A number as C takes it, or the name of a function or an aggregation."""
    if isinstance(value, str):
        if value == "-inf":                                   # as the command line has it; `inf` is a name of both
            return float(value)
        if is_number(value):
            raise TypeError("define=: %s is %r, a number as text: give it as a number" % (name, value))
        return value
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("define=: %s is %s, which does not fit in f64" % (name, shortened(value))) from None
    except (TypeError, ValueError):
        raise TypeError("define=: %s is %r, not a number and not the name of a function" % (name, value)) from None
    if isinstance(value, (int, np.integer)) and int(number) != int(value):
        raise ValueError(
            "define=: %s is %s, which is passed as a 64-bit float and does not fit one exactly; give the float that is meant"
            % (name, shortened(int(value)))
        )
    return number


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.isalpha()                                 # `inf` and `nan` may be names
