"""What a call may be given, as an array that C can take or a plain number; and what is said of everything else, with its name."""
from __future__ import annotations

import operator
import re

import numpy as np

from ._call import address, shortened

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

# Element types that NumPy has not, by their names in PyTorch and in ml_dtypes, and what PyTorch and NumPy call what can be passed instead.
_NARROW = (
    ("bfloat16", "pass .float(), and cast where the program wants its rounding: bf16({name})", None),
    ("float[468]_.*", "pass .float()", "convert it with .astype(np.float32)"),
    ("complex32", "pass .real.float() and .imag.float() as two arrays", None),
    ("q(int|uint)[0-9x]+", "pass .dequantize(), or .int_repr() for its integers", None),
    ("int[1-7]|uint[1-7]", "pass .to(torch.int8), or .to(torch.uint8)", "convert it with .astype(np.int8), or np.uint8"),
    ("bits.*", "pass .view(torch.uint8)", None),
)


def _narrow_advice(spelled: str, of_torch: bool, name: str) -> "str | None":
    """What to type for an element type of fewer bits than NumPy's; None where it is none of these."""
    for pattern, torch, numpy in _NARROW:
        if re.fullmatch(pattern, spelled):
            advice = torch if of_torch else numpy
            return advice and advice.format(name=name)
    return None


def is_tile_type(dtype: np.dtype) -> bool:
    return dtype.isnative and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (2, 4, 8)) or dtype.name == "bfloat16")


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
        advice = _narrow_advice(dtype.name, False, name) or _ADVICE.get(dtype.kind, "convert it with .astype")
    _refuse_type(name, dtype, advice)


def _refuse_type(name: str, dtype, advice: str) -> None:
    raise TypeError("%s: element type %s is none of Tile's (bool, u8 … u64, i8 … i64, f16, bf16, f32, f64); %s" % (name, dtype, advice))


def check_mask(name: str, array: np.ndarray) -> None:
    """A mask would be lost: Tile has none."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("%s: a masked array, and Tile has no masks; pass .filled(value), or .data to ignore the mask" % name)


def as_argument(name: str, value):
    """An array, a plain number, anything with __dlpack__ or __array__, nested lists: as an array that C can take, or a number."""
    if isinstance(value, np.bool_):
        return bool(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value if type(value) in (bool, int, float, type(None)) else float(value) if isinstance(value, float) else int(value)
    return _as_array(name, value if isinstance(value, (np.ndarray, np.generic)) else _foreign(name, value))


def _check_torch_type(name: str, value) -> None:
    """An element type of PyTorch that NumPy has not: DLPack would refuse it without advice, or hand over bytes that hold other numbers."""
    spelled = str(getattr(value, "dtype", None))
    if not spelled.startswith("torch."):
        return
    advice = _narrow_advice(spelled[len("torch."):], True, name)
    if advice and spelled == "torch.bfloat16":
        raise TypeError("%s: NumPy, through which tensors come, has no %s; %s" % (name, spelled, advice))
    if advice:
        _refuse_type(name, spelled, advice)


def _foreign(name: str, value) -> np.ndarray:
    _check_torch_type(name, value)
    dtype = getattr(value, "dtype", None)
    exchanged = hasattr(value, "__dlpack__") and not (isinstance(dtype, np.dtype) and dtype.kind == "V")   # NumPy's DLPack knows none of ml_dtypes
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


def as_outputs(names: "tuple[str, ...]", out) -> "list[np.ndarray]":
    """out= as a list of arrays, one for each output."""
    if type(out) is np.ndarray and len(names) == 1:
        return [out]
    try:
        arrays = [out] if isinstance(out, np.ndarray) else list(out)
    except TypeError:
        raise TypeError("out= is a %s, not an array or a sequence of arrays" % type(out).__name__) from None
    if len(arrays) != len(names):
        raise ValueError("out= has %s, the program has %s (%s)" % (counted(len(arrays), "array"), counted(len(names), "output"), ", ".join(names)))
    for name, array in zip(names, arrays):
        if type(array) is np.ndarray:
            continue
        if not isinstance(array, np.ndarray):
            raise TypeError("out= for %s is a %s, not an array" % (name, type(array).__name__))
        check_mask("out= for " + name, array)
    return arrays


def fit(what: str, name: str, value, low: int, high: int) -> int:
    """An integer option within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError("%s %s is %r, not an integer" % (what, name, value)) from None
    if not low <= number <= high:
        raise ValueError("%s %s is %s, not from %d to %d" % (what, name, shortened(number), low, high))
    return number


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
        raise ValueError("define=: %s is %s, which is passed as a 64-bit float and does not fit one exactly; give the float that is meant" % (name, shortened(int(value))))
    return number


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.isalpha()                                 # `inf` and `nan` may be names
