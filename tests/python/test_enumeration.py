"""Random contractions against an enumeration written from the language's definition, in plain Python, that shares no
code with tilec.

A contraction is generated as data: index ranges a person can enumerate, affine accesses, constraints, an aggregation.
The enumeration walks a box that surely holds every valid point and asks of each point what L1 asks: is every index
expression of every access an integer in range, and does every constraint hold? The seed of each case is its number.
"""
import fractions
import itertools
import os
import random

import numpy as np
import pytest

import tilec

CASES = int(os.environ.get("TILEC_CASES", "400"))


class Case:
    """`O[form, ...: sizes] = agg(A[form, ...] op B[form, ...]), form < n;` over indices i0 … with A and B of small
    shapes."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.count = rng.randint(1, 3)
        self.names = ["i", "j", "k"][: self.count]
        self.shapes = {}
        # A reads every index alone, so that nothing is unbounded; the rest is free.
        self.reads = {"A": [self.alone(n) for n in range(self.count)]}
        self.shapes["A"] = [rng.choice([0, 1, 2, 3, 4, 5, 7]) if rng.random() < 0.97 else 1 for _ in range(self.count)]
        if rng.random() < 0.7:
            rank = rng.randint(1, 2)
            self.reads["B"] = [self.form(divide=True) for _ in range(rank)]
            self.shapes["B"] = [rng.randint(1, 7) for _ in range(rank)]
        self.aggregation = rng.choice("+++><*")
        rank = rng.randint(0, 2)
        self.target = [self.form(divide=rng.random() < 0.3) for _ in range(rank)]
        self.sizes = [rng.randint(1, 9) for _ in range(rank)]
        self.constraints = [(self.form(), rng.randint(-1, 6)) for _ in range(rng.choice([0, 0, 1]))]
        self.operation = rng.choice("+*") if "B" in self.reads else ""

    def alone(self, n):
        return [fractions.Fraction(int(k == n)) for k in range(self.count)], fractions.Fraction(0)

    def form(self, divide=False):
        rng = self.rng
        divisor = rng.choice([2, 3]) if divide and rng.random() < 0.25 else 1
        coefficients = [
            fractions.Fraction(rng.choice([0, 0, 1, 1, 1, 2, 3, -1, -2]), divisor) for _ in range(self.count)
        ]
        return coefficients, fractions.Fraction(rng.randint(-2, 3), divisor)

    def text_of(self, form):
        coefficients, constant = form
        divisor = max(f.denominator for f in [*coefficients, constant])
        parts = ["%d*%s" % (f * divisor, n) for f, n in zip(coefficients, self.names) if f] or []
        if constant or not parts:
            parts.append("%d" % (constant * divisor))
        text = " + ".join(parts).replace("+ -", "- ")
        return "(%s) / %d" % (text, divisor) if divisor > 1 else text

    def text(self):
        access = {name: "%s[%s]" % (name, ", ".join(map(self.text_of, forms))) for name, forms in self.reads.items()}
        body = (" %s " % self.operation).join(access.values())
        inputs = ", ".join(
            "i64 %s[%s]" % (name, ", ".join("%s%d" % (name, d) for d in range(len(s))))
            for name, s in self.shapes.items()
        )
        target = "O[%s]" % (
            ", ".join(map(self.text_of, self.target)) + ": " + ", ".join(map(str, self.sizes)) if self.target else ""
        )
        constraints = "".join(", %s < %d" % (self.text_of(f), n) for f, n in self.constraints)
        return "function (%s) -> (O) {\n  %s = %s(%s)%s;\n}\n" % (inputs, target, self.aggregation, body, constraints)

    def arrays(self):
        numbers = np.random.default_rng(self.rng.randint(0, 2**31))
        return {name: numbers.integers(-4, 5, shape) for name, shape in self.shapes.items()}

    def enumerate(self, arrays):
        out = np.zeros(self.sizes, np.int64)
        reached = np.zeros(self.sizes, bool)
        for point in itertools.product(*[range(extent) for extent in self.shapes["A"]]):
            def at(form):
                return sum((f * p for f, p in zip(form[0], point)), form[1])
            places = {name: [at(f) for f in forms] for name, forms in self.reads.items()}
            o = [at(f) for f in self.target]
            spaces = [*((places[n], self.shapes[n]) for n in places), (o, self.sizes)]
            if any(
                v.denominator != 1 or not 0 <= v < extent
                for values, shape in spaces
                for v, extent in zip(values, shape)
            ):
                continue
            if any(not 0 <= at(f) < n for f, n in self.constraints):
                continue
            values = [int(arrays[n][tuple(int(v) for v in places[n])]) for n in places]
            value = (
                values[0]
                if len(values) == 1
                else values[0] + values[1] if self.operation == "+" else values[0] * values[1]
            )
            element = tuple(int(v) for v in o)
            with np.errstate(over="ignore"):
                value = np.int64(value)
                if not reached[element]:
                    out[element] = value
                elif self.aggregation == "+":
                    out[element] += value
                elif self.aggregation == "*":
                    out[element] *= value
                else:
                    out[element] = (max if self.aggregation == ">" else min)(out[element], value)
            reached[element] = True
        return out


@pytest.mark.parametrize("chunk", range(8))
def test_contractions_mean_what_the_definition_says(chunk):
    for seed in range(chunk, CASES, 8):
        case = Case(seed)
        arrays = case.arrays()
        wanted = case.enumerate(arrays)
        for target in ("reference", "cpu"):
            try:
                got = tilec.compile(case.text(), target=target)(**arrays)
            except Exception as fault:
                raise AssertionError(
                    "seed %d on %s:\n%s%s\n%s"
                    % (seed, target, case.text(), {k: v.shape for k, v in arrays.items()}, fault)
                ) from fault
            assert got.shape == wanted.shape and (got == wanted).all(), "seed %d on %s:\n%s%s\ngot %s\nwanted %s" % (
                seed,
                target,
                case.text(),
                arrays,
                got,
                wanted,
            )
