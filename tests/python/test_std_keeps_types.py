"""Every function of std/ gives floats of the type it was given: f16, bf16 and f64. Inputs are those of the function's
own cases."""
import functools
import itertools
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
# A parameter and its state, the parts of a complex number, a cotangent: each has the type of what it stands for.
OWN_TYPES = {
    *("momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lion", "c_adjoint"),
    *("rnn_step_of", "lstm_step_of", "gru_step_of", "gru_early_step_of", "rnn_step", "lstm_step", "gru_step"),
    *("equals_of", "shares_of", "mean_of_equals"),
}
REDUCTIONS = ("none", "add", "mul", "max", "min")
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
        argument = ("#" if re.search(r"#%s\b" % argument, declared) else "") + argument
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


def mixed(text, first, others):
    """The call with its first tensor of one type and the other floats of another; None where it has no two."""
    kinds = itertools.chain([first], itertools.repeat(others))
    if len(re.findall(r"\bfloat (?=V)", text)) < 2 or not re.search(r"call\(float V", text):
        return None
    return re.sub(r"\bfloat (?=V)", lambda _: next(kinds) + " ", text)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_of_two_types_have_one(family):
    """Of the first tensor or the wider, all results of a function alike, unless it says that each has its own."""
    wrong = []
    for name in functions(family):
        if name in OWN_TYPES:
            continue
        results = []
        for first, others in (("f32", "f64"), ("f64", "f32")):
            text = mixed(call(family, name, "float"), first, others)
            if text is None:
                break
            head = HEAD.search(tilec.compile(text, function="call").emit("contraction"))
            kinds = {result.split()[0] for result in head.group(1).split(", ")} & {"f32", "f64"}
            if len(kinds) > 1:
                wrong.append("%s of %s and %s gives %s" % (name, first, others, " and ".join(sorted(kinds))))
            results += kinds
        if results and results not in (["f32", "f64"], ["f64", "f64"]):
            wrong.append("%s gives %s" % (name, results))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ["bool", "i8", "u8", "i64", "f16"])
@pytest.mark.parametrize(
    "name, inputs, define",
    [
        ("index_add", "X[4, 3] i64 I[2] U[2, 3]", {}),
        ("index_copy", "X[4, 3] i64 I[2] U[2, 3]", {}),
        ("scatter_add", "X[4, 3] i64 I[2, 3] U[2, 3]", {}),
        *(("scatter_elements", "X[4, 3] i64 I[2, 3] U[2, 3]", {"reduction": r}) for r in REDUCTIONS),
        *(("scatter_nd", "X[4, 3] i64 I[2, 1] U[2, 3]", {"reduction": r}) for r in REDUCTIONS),
        ("gather_nd", "X[4, 3] i64 I[2, 1]", {}),
        ("concat", "X[4, 3] Z[2, 3]", {}),
        ("stack3", "T0[4, 3] T1[4, 3] T2[4, 3]", {}),
    ],
    ids=str,
)
def test_what_moves_elements_keeps_every_type(dtype, name, inputs, define):
    family = "movement" if name in ("concat", "stack3") else "indexing"
    declared = re.sub(r"(?<!i64 )\b(?=[A-Z]\w*\[)", dtype + " ", inputs)
    declared = ", ".join(re.findall(r"\w+ \w+\[[^\]]*\]", declared))
    given = ", ".join(re.findall(r"(\w+)\[", inputs))
    text = 'import "%s";\nfunction call(%s) -> (Y) { Y = %s%s(%s); }' % (
        STD / (family + ".tile"),
        declared,
        name,
        "<%s>" % ", ".join("%s=%s" % item for item in define.items()) if define else "",
        given,
    )
    assert re.search(r"-> \(%s Y\)" % dtype, tilec.compile(text, function="call").emit("contraction"))


def test_most_functions_are_looked_at():
    assert sum(len(functions(family)) for family in FAMILIES) > 350
