"""Sizes of a program's outputs as formulas in the sizes of its inputs, for callers whose sizes are symbols.

    function f(f32 X[N, M]) -> (f32 Y) { Y[i, j: N/2 + 1, max(0, M - 2)] = … }       N, M ⇒ N // 2 + 1, max(0, M - 2)

Where every input has sizes by name, the compiler prints the formulas (stage `contraction`). Where inputs are of any rank it prints none: an output's
size is then the one of the inputs' that it follows when all are changed to primes. What is found must give the sizes of the call itself.
"""

from __future__ import annotations

import ast
import re

from .errors import Error

_PRIMES = (
    (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069),
    (2003, 2011, 2017, 2027, 2029, 2039, 2053, 2063, 2069, 2081, 2083, 2087),
)


class SizeFormulas:
    def __init__(self, program):
        self._program, self._read = program, None

    def apply(
        self,
        shapes: "dict[str, tuple]",
        hints: "dict[str, list[int]]",
        expected: "list[tuple[int, ...]]",
        infer,
        larger,
        smaller,
    ) -> "list[tuple] | None":
        """Output shapes in symbols. `hints` are the sizes that the symbols stand for and `expected` what they lead to;
        None: no formula is known that does."""
        if self._read is None:
            self._read = self._formulas()
        inputs, _, _ = self._read
        if inputs is not None and self._evaluated(hints, expected) == expected:
            return self._evaluated(shapes, expected, larger, smaller)
        return _followed(shapes, hints, expected, infer)

    def _formulas(self):
        try:
            text = self._program.emit("contraction")
        except Error:
            return None, None, None
        header = re.search(r"^function .*?\((.*)\) -> \((.*)\) \{$", text, re.M)
        if header is None:
            return None, None, None
        inputs = {name: _split(sizes) for name, sizes in re.findall(r"(\S+)\[([^\]]*)\]", header[1])}
        outputs = []
        for name in self._program.outputs:
            written = re.search(r"^  (?:\[\[.*?\]\] )?%s\[[^:\]]*: ([^\]]*)\] = " % re.escape(name), text, re.M)
            scalar = re.search(r"^  (?:\[\[.*?\]\] )?%s\[\] = " % re.escape(name), text, re.M)
            if written is None and scalar is None:
                return None, None, None
            outputs.append(_split(written[1]) if written else [])
        return inputs, outputs, re.findall(r"^  // assumes (.+) == (.+)$", text, re.M)

    def _evaluated(self, shapes, expected, larger=max, smaller=min) -> "list[tuple] | None":
        inputs, outputs, assumed = self._read
        values = {}

        def of(text):
            return _value(ast.parse(text, mode="eval").body, values, larger, smaller)
        try:
            for name, sizes in inputs.items():
                for symbol, size in zip(sizes, shapes.get(name, ())):
                    # PyTorch notes that they are equal: a symbol beside a number is one
                    if symbol.isidentifier() and values.setdefault(symbol, size) != size:
                        return None
            if any(of(left) != of(right) for left, right in assumed):
                return None
            return [tuple(of(size) for size in sizes) for sizes in outputs]
        except (KeyError, SyntaxError, ZeroDivisionError):
            return None


def _split(text: str) -> "list[str]":
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts] if text.strip() else []


def _value(node, values, larger, smaller):
    """A size as Tile prints it: names, integers, + - *, division that rounds down, max and min. KeyError: something
    else."""
    def of(inner):
        return _value(inner, values, larger, smaller)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -of(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = of(node.left), of(node.right)
        kinds = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
            ast.Div: lambda: left // right,
        }
        return kinds[type(node.op)]()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        left, right = map(of, node.args)
        return {
            "max": lambda: larger(left, right),
            "min": lambda: smaller(left, right),
            "div": lambda: left // right,
            "floordiv": lambda: left // right,
        }[node.func.id]()
    raise KeyError(type(node).__name__)


def _followed(shapes, hints, expected, infer) -> "list[tuple] | None":
    """Sizes of outputs that are sizes of inputs: told by changing the symbols in these to primes, twice."""
    made_of = [size for shape in shapes.values() for size in shape if not isinstance(size, int)]
    symbols = sorted({symbol for size in made_of for symbol in size.node.expr.free_symbols}, key=str)
    if len(symbols) > len(_PRIMES[0]):
        return None
    trials = []
    for primes in _PRIMES:
        chosen = dict(zip(symbols, primes))

        def value(size):
            return size if isinstance(size, int) else int(size.node.expr.xreplace(chosen))
        try:
            trials.append(
                (
                    [value(size) for size in made_of],
                    infer({name: [value(size) for size in shape] for name, shape in shapes.items()}),
                )
            )
        except Error:                                         # sizes that cannot be apart
            return None
    result = []
    for k, shape in enumerate(expected):
        made = []
        for d, size in enumerate(shape):
            if all(len(found[k]) > d and found[k][d] == size for _, found in trials):
                made.append(size)
                continue
            same = [
                each
                for j, each in enumerate(made_of)
                if all(len(found[k]) > d and found[k][d] == values[j] for values, found in trials)
            ]
            if not same:
                return None
            made.append(same[0])
        result.append(tuple(made))
    return result
