"""Tensors whose dimensions stand in any order: copies, and contractions with both gradients, against NumPy.

    TILEC_SEED=3 TILEC_CASES=500 pytest test_layouts.py
"""
import math
import os
import random

import numpy as np
import pytest

import tilec

CASES = int(os.environ.get("TILEC_CASES", "40"))
SEED = int(os.environ.get("TILEC_SEED", "1"))
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i8": np.int8, "i64": np.int64, "f16": np.float16}


def array(rng, shape, dtype):
    """Integers small enough that sums of products are exact, in memory of any order."""
    order = list(range(len(shape)))
    rng.shuffle(order)
    generator = np.random.default_rng(rng.randrange(1 << 30))
    held = generator.integers(-3, 4, [shape[d] for d in order]).astype(dtype)
    return held.transpose([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("case", range(CASES))
def test_a_copy_in_any_order(case):
    rng = random.Random(SEED * 1_000_003 + case)
    name, dtype = rng.choice(list(TYPES.items()))
    rank = rng.randint(2, 5)
    shape = [rng.choice([1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 40]) for _ in range(rank)]
    while math.prod(shape) > 200_000:
        shape[rng.randrange(rank)] = 2
    order = list(range(rank))
    rng.shuffle(order)
    indices = "abcde"[:rank]
    target = [indices[d] for d in order]
    text = f"function ({name} A[{', '.join(map(str, shape))}]) -> (T) {{ T[{', '.join(target)}: {', '.join(str(shape[d]) for d in order)}] = =(A[{', '.join(indices)}]); }}"
    A = array(rng, shape, dtype)
    assert np.array_equal(tilec.compile(text)(A), A.transpose(order)), text


@pytest.mark.parametrize("case", range(CASES))
def test_a_contraction_in_any_order(case):
    rng = random.Random(SEED * 1_000_003 + case)
    kinds = {"b": "abc", "m": "ac", "n": "bc", "o": "bc", "k": "ab", "l": "ab"}
    for optional in ("b", "o", "l"):
        if rng.random() < 0.5:
            del kinds[optional]
    extent = {name: rng.choice([2, 3, 5, 9, 16, 20, 33, 70]) for name in kinds}
    while math.prod(extent.values()) > 2_000_000:
        extent[rng.choice(list(kinds))] = 3
    a, b, c = ([name for name, kind in kinds.items() if which in kind] for which in "abc")
    for names in (a, b, c):
        rng.shuffle(names)
    shape = lambda names: [extent[name] for name in names]
    text = (f"function (A[{', '.join(map(str, shape(a)))}], B[{', '.join(map(str, shape(b)))}]) -> (C) "
            f"{{ C[{', '.join(c)}: {', '.join(map(str, shape(c)))}] = +(A[{', '.join(a)}] * B[{', '.join(b)}]); }}")
    A, B, dC = (array(rng, shape(names), np.float32) for names in (a, b, c))
    word = "".join
    f = tilec.compile(text)
    assert np.array_equal(f(A, B), np.einsum(f"{word(a)},{word(b)}->{word(c)}", A, B)), text
    dA, dB = f.grad(wrt=["A", "B"])(A, B, dC)
    assert np.array_equal(dA, np.einsum(f"{word(b)},{word(c)}->{word(a)}", B, dC)), text
    assert np.array_equal(dB, np.einsum(f"{word(a)},{word(c)}->{word(b)}", A, dC)), text


@pytest.mark.parametrize("case", range(CASES))
def test_a_window_in_any_order(case):
    """A row index and a reduced one share a dimension of the first operand: its gradient has a border."""
    rng = random.Random(SEED * 1_000_003 + case)
    x, t, k, n = rng.choice([5, 17, 40, 70]), rng.randint(2, 6), rng.choice([2, 9, 40]), rng.choice([3, 16, 33])
    stride, dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 2])
    pad = rng.choice([0, dilation * (t - 1) // 2])
    size = max(1, stride * (x - 1) + dilation * (t - 1) + 1 - 2 * pad)
    window = f"{stride}*x + {dilation}*t - {pad}"
    a, b, c = (
        [("k", k, "k"), ("y", size, window)],
        [("t", t, "t"), ("k", k, "k"), ("n", n, "n")],
        [("x", x, "x"), ("n", n, "n")],
    )
    for names in (a, b, c):
        rng.shuffle(names)
    sizes = lambda names: ", ".join(str(size) for _, size, _ in names)
    read = lambda names: ", ".join(text for _, _, text in names)
    text = f"function (A[{sizes(a)}], B[{sizes(b)}]) -> (C) {{ C[{read(c)}: {sizes(c)}] = +(A[{read(a)}] * B[{read(b)}]); }}"
    A, B, dC = (array(rng, [size for _, size, _ in names], np.float32) for names in (a, b, c))
    letters = lambda names: "".join(name for name, _, _ in names)
    taps = np.zeros((size, x, t), np.float32)           # which element each output and tap read
    for i in range(x):
        for j in range(t):
            if 0 <= stride * i + dilation * j - pad < size:
                taps[stride * i + dilation * j - pad, i, j] = 1
    expected = lambda result, *operands: np.einsum(
        ",".join(word for word, _ in operands) + ",yxt->" + result,
        *(value for _, value in operands),
        taps,
        optimize=True,
    )
    f = tilec.compile(text)
    close = lambda got, want: np.allclose(got, want, rtol=1e-5, atol=1e-3)
    assert close(f(A, B), expected(letters(c), (letters(a), A), (letters(b), B))), text
    dA, dB = f.grad(wrt=["A", "B"])(A, B, dC)
    assert close(dA, expected(letters(a), (letters(b), B), (letters(c), dC))), text
    assert close(dB, expected(letters(b), (letters(a), A), (letters(c), dC))), text
