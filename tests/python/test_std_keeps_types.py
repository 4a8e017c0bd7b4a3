"""Every function of std/ gives floats of the type it was given: f16, bf16 and f64. Inputs are those of the function's own cases."""
import functools
import pathlib
import re

import pytest

import tilec

STD = pathlib.Path(__file__).resolve().parents[2] / "std"
FLOATS = ("f16", "bf16", "f64")                      # f32 is what numbers become without more ado
INTEGERS = re.compile(r"[iu](?:8|16|32|64)|bool")
# What has a type of its own: f32 at least, and what is of numbers that are no tensors.
OTHERS = {"wide": {"f16": "f32", "bf16": "f32"}}
HEAD = re.compile(r"function \w+\(.*\) -> \((.*)\) \{")


def value_of(text):
    """(rank, type or None) of a case's value; of a plain number itself."""
    shape = re.match(r"(?:(?:ones|zeros|arange|random):)?((?:\d+x?)+)?((?:f|i|u|bf)\d+|bool)?", text)
    if re.fullmatch(r"-?[\d.]+(?:e-?\d+)?", text):
        return text
    sizes = [s for s in (shape.group(1) or "").split("x") if s]
    return len(sizes), shape.group(2)


@functools.lru_cache(maxsize=None)
def functions(family):
    """name: (values of the first case's inputs by name, its define, the names in order), for functions whose cases give all inputs."""
    found, comment = {}, []
    text = (STD / (family + ".tile")).read_text()
    for line in text.split("\n"):
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        start = re.match(r"function (\w+)", line)
        if start:
            head = text[text.index(line):]
            parameters = re.match(r"function \w+(?:<([^>]*)>)?\((.*?)\)\s*->", head, re.S)
            names = [re.search(r"(\w+)\s*(?:\[.*)?$", part.strip(), re.S).group(1) for part in re.split(r",(?![^\[]*\])", parameters.group(2)) if part.strip()]
            case = " ".join(comment)
            given = re.search(r"input \{(.*?)\}", case)
            define = re.search(r"define: (.*?)(?= (?:random )?input \{)", case)
            values = dict(re.findall(r"(\w+)=(\S+?(?:\[[^\]]*\])*)(?=\s|$)", given.group(1))) if given else {}
            if names and all(name in values for name in names):
                found[start.group(1)] = ({name: value_of(values[name]) for name in names}, define.group(1) if define else "", parameters.group(2))
        comment = []
    return found


def call(family, name, dtype):
    """A program that calls the function with tensors of `dtype`."""
    values, define, declared = functions(family)[name]
    inputs, arguments = [], []
    for k, (argument, value) in enumerate(values.items()):
        written = re.search(r"(\w+)\s+%s\b" % argument, declared)
        if isinstance(value, str):
            arguments.append(value)
            continue
        rank, kind = value
        kind = written.group(1) if written else kind if kind and INTEGERS.fullmatch(kind) else dtype
        inputs.append("%s V%d[%s]" % (kind, k, ", ".join("#n%d_%d" % (k, d) for d in range(rank))))
        arguments.append("V%d" % k)
    given = "<%s>" % ", ".join(re.findall(r"\w+=[\w.+-]+", define)) if define else ""
    results = len(re.search(r"function %s\b.*?->\s*\((.*?)\)" % name, (STD / (family + ".tile")).read_text(), re.S).group(1).split(","))
    names = ["R%d" % k for k in range(results)]
    left = names[0] if results == 1 else "(%s)" % ", ".join(names)
    return 'import "%s";\nfunction call(%s) -> (%s) { %s = %s%s(%s); }' % (STD / (family + ".tile"), ", ".join(inputs), ", ".join(names), left, name, given, ", ".join(arguments))


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
