"""Every function of std/ gives floats of the type it was given: f16, bf16 and f64. Inputs are those of the function's
own cases."""
import functools
import pathlib
import re

import pytest

import std_batches
import tilec

STD = pathlib.Path(__file__).resolve().parents[2] / "std"
FLOATS = ("f16", "bf16", "f64")                      # f32 is what numbers become without more ado
INTEGERS = re.compile(r"[iu](?:8|16|32|64)|bool")
# What has a type of its own: f32 at least, and what is of numbers that are no tensors.
OTHERS = {"wide": {"f16": "f32", "bf16": "f32"}}
HEAD = re.compile(r"function \w+\(.*\) -> \((.*)\) \{")


def value_of(text):
    """(sizes, type or None) of a case's value; of a plain number itself."""
    shape = re.match(r"(?:(?:ones|zeros|arange|random):)?((?:\d+x?)+)?((?:f|i|u|bf)\d+|bool)?", text)
    if re.fullmatch(r"-?[\d.]+(?:e-?\d+)?", text):
        return text
    sizes = [s for s in (shape.group(1) or "").split("x") if s]
    return sizes, shape.group(2)


@functools.lru_cache(maxsize=None)
def functions(family):
    """name: (values of the inputs that the function's first case gives, by name; its define; the inputs as declared;
    how many results)."""
    found, text = {}, (STD / (family + ".tile")).read_text()
    for name, define, given in std_batches.calls(text):
        if name in found:
            continue
        head = re.search(
            r"^function %s\b(?:<(?:[^{}<>]|\{[^{}]*\})*>)?\s*\((.*?)\)\s*->\s*\((.*?)\)" % name, text, re.M | re.S
        )
        values = {word: value_of(value.strip()) for word, value in std_batches.WORD.findall(given)}
        names = {word: value for word, value in values.items() if re.search(r"\b%s\b" % word, head[1])}
        if names:
            found[name] = (names, define, head[1], head[2].count(",") + 1)
    return found


def call(family, name, dtype):
    """A program that calls the function with tensors of `dtype`."""
    values, define, declared, count = functions(family)[name]
    inputs, arguments = [], []
    for k, (argument, value) in enumerate(values.items()):
        written = re.search(r"(\w+)\s+%s\b" % argument, declared)
        if isinstance(value, str):
            arguments.append("%s=%s" % (argument, value))
            continue
        sizes, kind = value
        kind = written.group(1) if written else kind if kind and INTEGERS.fullmatch(kind) else dtype
        inputs.append("%s V%d[%s]" % (kind, k, ", ".join(sizes)))
        arguments.append("%s=V%d" % (argument, k))
    given = "<%s>" % ", ".join("%s=%s" % item for item in define.items()) if define else ""
    names = ["R%d" % k for k in range(count)]
    left = names[0] if count == 1 else "(%s)" % ", ".join(names)
    return 'import "%s";\nfunction call(%s) -> (%s) { %s = %s%s(%s); }' % (
        STD / (family + ".tile"),
        ", ".join(inputs),
        ", ".join(names),
        left,
        name,
        given,
        ", ".join(arguments),
    )


FAMILIES = sorted(p.stem for p in STD.glob("*.tile") if p.stem != "nn")


@pytest.mark.parametrize("family", FAMILIES)
def test_floats_keep_their_type(family):
    wrong = []
    for name in functions(family):
        for dtype in FLOATS:
            text = call(family, name, dtype)
            if not re.search(r"\b%s V" % dtype, text):
                continue
            head = HEAD.search(tilec.compile(text, function="call").emit("contraction"))
            for result in head.group(1).split(", "):
                kind = result.split()[0]
                if kind in FLOATS and kind != OTHERS.get(name, {}).get(dtype, dtype):
                    wrong.append("%s of %s is %s" % (name, dtype, kind))
    assert not wrong, "\n".join(wrong)


def test_most_functions_are_looked_at():
    assert sum(len(functions(family)) for family in FAMILIES) > 350
