"""Inputs for the functions of std/, from the cases in their comments (docs/testing.md), and batches of them.

// random input { X=4x10xf64:-3..3 LABEL=4xi64:0..10 N=3 } check gradcheck     ⇒     {"X": a 4 by 10 array, "LABEL": …, "N": 3}
"""

import dataclasses
import math
import pathlib
import re
import zlib

import numpy as np

STD = pathlib.Path(__file__).resolve().parents[2] / "std"
TYPES = {
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    "bool": "?",
    **{"%s%d" % (k, b): "%s%d" % (k, b // 8) for k in "iu" for b in (8, 16, 32, 64)},
}
BLOCK = re.compile(
    r"^function (?P<of>\w+)|^// ==\n(?P<text>(?://.*\n)*)(?:(?:\[\[.*\]\]\n)*function (?P<next>\w+))?", re.MULTILINE
)
PART = re.compile(
    r"^ *define: *(?P<define>.*)$|^ *function: *(?P<function>\w+) *$|input \{(?P<input>[^}]*)\}|(?P<error>error:)|^ *(?P<begins>==)$",
    re.MULTILINE,
)
WORD = re.compile(r"(\w+)=((?:[^\s\[]+)?(?:\[[^\]]*\]\s*)*)")
SHAPE = re.compile(r"(\d+(?:x\d+)*)(?:x([fiu]\d+|bool))?(?::(-?[\d.e-]+)\.\.(-?[\d.e-]+))?(?:=(.*))?$", re.DOTALL)


@dataclasses.dataclass
class Case:
    family: str
    function: str
    define: dict
    inputs: dict

    def __str__(self):
        return "%s.%s%s" % (self.family, self.function, "".join(" %s=%s" % item for item in self.define.items()))


def number(text):
    value = float(text)
    return int(value) if re.fullmatch(r"-?\d+", text) else value


def array_of(name, text, seed):
    """None for what is no tensor that a random one of its kind could stand beside."""
    text = text.strip()
    if re.fullmatch(r"(?i)-?(\d[\d.e+-]*|inf|nan)", text):
        return number(text)
    rng = np.random.default_rng(zlib.crc32(name.encode()) + seed)
    filled = re.fullmatch(r"(arange|ones|zeros|random):(\d+(?:x\d+)*)(?:x([fiu]\d+|bool))?", text)
    if filled:
        shape, dtype = [int(n) for n in filled[2].split("x")], TYPES[filled[3] or "f32"]
        made = {
            "arange": lambda: np.arange(math.prod(shape)).reshape(shape),
            "ones": lambda: np.ones(shape),
            "zeros": lambda: np.zeros(shape),
            "random": lambda: rng.uniform(-1, 1, shape),
        }
        return made[filled[1]]().astype(dtype)
    found = SHAPE.match(text)
    if not found or not text.replace(" ", ""):
        return None
    shape, dtype = [int(n) for n in found[1].split("x")], TYPES[found[2] or "f32"]
    if found[5] is not None:
        values = [float({"true": 1, "false": 0}.get(v, v)) for v in re.findall(r"[^\s\[\]]+", found[5])]
        return np.array(values).reshape(shape).astype(dtype) if len(values) == math.prod(shape) else None
    kind = np.dtype(dtype).kind
    low, high = (
        (number(found[3]), number(found[4]))
        if found[3]
        else {"f": (-1, 1), "i": (-8, 8), "u": (0, 16), "b": (0, 2)}[kind]
    )
    return (
        rng.uniform(low, high, shape).astype(dtype)
        if kind == "f"
        else rng.integers(int(low), int(high), shape).astype(dtype)
    )


def defined(text):
    pairs = [pair.split("=") for pair in text.split(",")]
    return {
        k.strip(): number(v.strip()) if re.fullmatch(r"-?(\d[\d.e+-]*|inf)", v.strip()) else v.strip() for k, v in pairs
    }


def calls(text):
    """(function, define, what its input says) of each case: a block is of the function behind it, else of the one
    before it."""
    last = None
    for block in BLOCK.finditer(text):
        function, define, found = block["next"] or last, {}, []
        for part in PART.finditer(re.sub(r"^//", "", block["text"] or "", flags=re.MULTILINE)):
            if part["begins"]:
                function, define = block["next"] or last, {}
            elif part["error"] and found:
                found.pop()                                # it must not compile
            elif part["input"] is not None:
                found.append((function, define, part["input"]))
            function, define = part["function"] or function, defined(part["define"]) if part["define"] else define
        yield from found
        last = block["next"] or block["of"] or last


def cases() -> "list[Case]":
    """One for each function and set of parameters."""
    found: dict = {}
    for path in sorted(STD.glob("*.tile")):
        for function, define, text in calls(path.read_text()):
            inputs = {name: array_of(name, value, 0) for name, value in WORD.findall(text)}
            if inputs and all(value is not None for value in inputs.values()):
                found.setdefault(
                    (path.stem, function, tuple(define.items())), Case(path.stem, function, define, inputs)
                )
    return list(found.values())


def beside(value, rng):
    """An array of the same kind: its elements in another order, so that what holds for each of them still holds."""
    return rng.permutation(value.reshape(-1)).reshape(value.shape)


def batch_of(value, count, seed):
    rng = np.random.default_rng(seed)
    return np.stack([value] + [beside(value, rng) for _ in range(count - 1)])
