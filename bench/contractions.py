"""Random contractions of two tensors, each in a layout that nobody thought of, and what NumPy makes of them.

A contraction has indices of four kinds: batch (in both operands and the result), rows (first operand and result),
columns (second operand and result), reduced (both operands). They stand in random order in all three tensors. A third
of the contractions has a window: a row index x and a reduced index t share a dimension `S*x + D*t - P` of the first
operand. Extents are drawn until the roof is within bounds, so a seed names the same contractions everywhere.
"""
from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import numpy as np

NOMINAL_FLOPS, NOMINAL_BANDWIDTH = 100e9, 25e9
SHORTEST, LONGEST = 0.3e-3, 3e-3


@dataclass
class Window:
    x: str
    t: str
    stride: int
    dilation: int
    pad: int
    size: int = 0                                       # of the dimension they share

    def text(self) -> str:
        term = lambda factor, index: index if factor == 1 else f"{factor}*{index}"
        return f"{term(self.stride, self.x)} + {term(self.dilation, self.t)}" + (f" - {self.pad}" if self.pad else "")


@dataclass
class Contraction:
    extent: dict[str, int]
    a: list[str]                                        # of a window: its row index stands for the shared dimension
    b: list[str]
    c: list[str]
    window: Window | None = None
    text: str = field(init=False)

    def __post_init__(self):
        element = lambda index: self.window.text() if self.window and index == self.window.x else index
        self.text = (
            f"function (A[{', '.join(map(str, self.shape_a()))}], B[{', '.join(map(str, self.shape(self.b)))}]) -> (C) "
            f"{{ C[{', '.join(self.c)}: {', '.join(map(str, self.shape(self.c)))}] = +(A[{', '.join(map(element, self.a))}] * B[{', '.join(self.b)}]); }}"
        )

    def shape(self, indices):
        return [self.extent[i] for i in indices]

    def shape_a(self):
        return [self.window.size if self.window and i == self.window.x else self.extent[i] for i in self.a]

    def flop(self) -> float:
        """Of the points whose reads all exist."""
        points = math.prod(self.extent.values())
        if self.window:
            w = self.window
            inside = sum(
                0 <= w.stride * x + w.dilation * t - w.pad < w.size
                for x in range(self.extent[w.x])
                for t in range(self.extent[w.t])
            )
            points = points // (self.extent[w.x] * self.extent[w.t]) * inside
        return 2.0 * points

    def bytes(self) -> float:
        return 4.0 * (math.prod(self.shape_a()) + math.prod(self.shape(self.b)) + math.prod(self.shape(self.c)))

    # -- what NumPy makes of it

    def around(self) -> tuple[int, list[tuple[int, int]]]:
        """The dimension of A that the window reads, and how many zeros stand before and behind each dimension."""
        w, d = self.window, self.a.index(self.window.x)
        last = w.stride * (self.extent[w.x] - 1) + w.dilation * (self.extent[w.t] - 1) - w.pad
        zeros = [(0, 0)] * len(self.a)
        zeros[d] = (w.pad, max(0, last + 1 - w.size))
        return d, zeros

    def view(self, d: int, shape, strides):
        """Shape and strides with dimensions x and t for dimension d, given those of the padded A."""
        w, shape, strides = self.window, list(shape), list(strides)
        shape[d:d + 1] = [self.extent[w.x], self.extent[w.t]]
        strides[d:d + 1] = [w.stride * strides[d], w.dilation * strides[d]]
        return shape, strides

    def padded(self, A):
        """A with zeros where the window reads past it, and a view of it with dimensions x and t for the shared one."""
        d, zeros = self.around()
        held = np.pad(A, zeros)
        return held, np.lib.stride_tricks.as_strided(held, *self.view(d, held.shape, held.strides))

    def indices_a(self):
        return [j for i in self.a for j in ([i, self.window.t] if self.window and i == self.window.x else [i])]

    def equation(self, result, *operands) -> str:
        """Of einsum: each argument is a list of indices."""
        letter = {name: chr(97 + n) for n, name in enumerate(self.extent)}
        word = lambda indices: "".join(letter[i] for i in indices)
        return ",".join(map(word, operands)) + "->" + word(result)

    def einsum(self, result, *operands):
        """Operands are indices and an array."""
        equation = self.equation(result, *(indices for indices, _ in operands))
        return np.einsum(equation, *(array for _, array in operands), optimize=True)

    def expected(self, which, A, B, dC):
        if which == "C":
            return self.einsum(self.c, (self.indices_a(), self.padded(A)[1] if self.window else A), (self.b, B))
        if which == "dB":
            return self.einsum(self.b, (self.indices_a(), self.padded(A)[1] if self.window else A), (self.c, dC))
        if not self.window:
            return self.einsum(self.a, (self.b, B), (self.c, dC))
        held, view = self.padded(np.zeros_like(A))
        at = self.indices_a().index(self.window.t)
        for t in range(self.extent[self.window.t]):     # elements of one tap are all different
            here = [slice(None)] * view.ndim
            here[at] = t
            tap = [slice(None)] * B.ndim
            tap[self.b.index(self.window.t)] = t
            rest = lambda indices: [i for i in indices if i != self.window.t]
            view[tuple(here)] += self.einsum(rest(self.indices_a()), (rest(self.b), B[tuple(tap)]), (self.c, dC))
        d = self.a.index(self.window.x)
        inside = [slice(None)] * A.ndim
        inside[d] = slice(self.window.pad, self.window.pad + A.shape[d])
        return held[tuple(inside)]


def draw(
    rng: random.Random,
    flops: float = NOMINAL_FLOPS,
    bandwidth: float = NOMINAL_BANDWIDTH,
    shortest: float = SHORTEST,
    longest: float = LONGEST,
) -> Contraction:
    while True:
        batch, rows, columns, reduced = (
            rng.choices(n, w)[0]
            for n, w in [((0, 1, 2), (5, 4, 1)), ((1, 2), (2, 1)), ((1, 2), (2, 1)), ((1, 2), (2, 1))]
        )
        kinds = (
            {f"b{i}": "abc" for i in range(batch)}
            | {f"m{i}": "ac" for i in range(rows)}
            | {f"n{i}": "bc" for i in range(columns)}
            | {f"k{i}": "ab" for i in range(reduced)}
        )
        extent = {name: max(2, round(math.exp(rng.uniform(math.log(3), math.log(2000))))) for name in kinds}
        tensors = {which: [name for name, kind in kinds.items() if which in kind] for which in "abc"}
        for names in tensors.values():
            rng.shuffle(names)
        window = None
        if rng.random() < 1 / 3:
            extent["k0"] = rng.randint(2, 11)
            window = Window("m0", "k0", rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2, 3]), 0)
            reach = window.dilation * (extent["k0"] - 1)
            window.pad = rng.choice([0, reach // 2])
            window.size = max(1, window.stride * (extent["m0"] - 1) + reach + 1 - 2 * window.pad)
            tensors["a"].remove("k0")
        made = Contraction(extent, tensors["a"], tensors["b"], tensors["c"], window)
        roof = max(made.flop() / flops, made.bytes() / bandwidth)
        if shortest <= roof <= longest:
            return made
