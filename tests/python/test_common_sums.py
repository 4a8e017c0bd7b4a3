"""Sums that several statements make with other factors each, large enough to be made once: random products of tensors
over shared indices against NumPy in f64."""
import os
import random

import numpy as np
import pytest

import tilec

SEED = int(os.environ.get("TILEC_SEED", "1"))
CASES = int(os.environ.get("TILEC_CASES", "20"))
SIZES = {"i": 96, "j": 17, "k": 33, "l": 41}


def drawn(rng):
    """Two or three statements, each a sum of A·B times other factors, over A and B's common index among others."""
    indices = list(SIZES)
    rng.shuffle(indices)
    a, b, c, d = indices
    tensors = {"A": a + b, "B": b + c, "X": rng.choice([a + c, c, a]), "Y": rng.choice([d + a, d, c + d]), "Z": a}
    statements = []
    for n in range(rng.randint(2, 3)):
        others = rng.sample(["X", "Y", "Z"], rng.randint(1, 2))
        factors = ["A", "B"] + others if rng.random() < 0.5 else rng.sample(["A", "B"] + others, 2 + len(others))
        used = sorted(set("".join(tensors[t] for t in factors)))
        result = rng.sample(used, rng.randint(1, min(2, len(used) - 1)))
        divided = "Z" in others and rng.random() < 0.5
        statements.append((f"R{n}", "".join(result), factors, divided))
    return tensors, statements


def text_of(tensors, statements):
    def read(t):
        return f"{t}[{', '.join(tensors[t])}]"

    lines = []
    for name, result, factors, divided in statements:
        product = " * ".join(read(t) for t in factors if not (divided and t == "Z"))
        over = f" / {read('Z')}" if divided else ""
        lines.append(f"  {name}[{', '.join(result)}: {', '.join(result.upper())}] = +({product}{over});")
    heading = ", ".join(f"{t}[{', '.join(shape.upper())}]" for t, shape in tensors.items())
    results = ", ".join(name for name, *_ in statements)
    return "\n".join([f"function f({heading}) -> ({results}) {{", *lines, "}\n"])


@pytest.mark.parametrize("case", range(CASES))
def test_sums_of_other_factors_each(case):
    rng = random.Random(SEED + case)
    tensors, statements = drawn(rng)
    generator = np.random.default_rng(SEED + case)
    values = {t: generator.random([SIZES[x] for x in s], np.float32) + np.float32(0.5) for t, s in tensors.items()}
    results = tilec.compile(text_of(tensors, statements))(*values.values())
    for got, (_, result, factors, divided) in zip(results, statements):
        operands = [1 / values[t].astype(float) if divided and t == "Z" else values[t].astype(float) for t in factors]
        expected = np.einsum(",".join(tensors[t] for t in factors) + "->" + result, *operands, optimize=True)
        np.testing.assert_allclose(got, expected, rtol=2e-4, err_msg=text_of(tensors, statements))
