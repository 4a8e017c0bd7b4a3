"""std/distance.tile against NumPy: values, and gradients by differences or PyTorch, zero where two vectors are equal or
zero."""
import numpy as np
import pytest

from std_cases import Case, compare, program


def pairs(f):
    return lambda a, b, *more: f(a[:, None], b[None], *more)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


METRICS = {
    "l1": (lambda a, b: abs(a - b).sum(-1),) * 2,
    "l2_squared": (lambda a, b: ((a - b) ** 2).sum(-1),) * 2,
    "l2": (lambda a, b: np.sqrt(((a - b) ** 2).sum(-1)), lambda a, b: ((a - b) ** 2).sum(-1).sqrt()),
    "chebyshev": (lambda a, b: abs(a - b).max(-1), lambda a, b: abs(a - b).amax(-1)),
    "cosine": (
        lambda a, b: (unit(a) * unit(b)).sum(-1),
        lambda a, b: (a * b).sum(-1) / ((a * a).sum(-1) * (b * b).sum(-1)).sqrt(),
    ),
    "cosine_distance": (
        lambda a, b: 1 - (unit(a) * unit(b)).sum(-1),
        lambda a, b: 1 - (a * b).sum(-1) / ((a * a).sum(-1) * (b * b).sum(-1)).sqrt(),
    ),
    "rbf": (lambda a, b, g: np.exp(-g * ((a - b) ** 2).sum(-1)), lambda a, b, g: (-g * ((a - b) ** 2).sum(-1)).exp()),
    "laplacian": (lambda a, b, g: np.exp(-g * abs(a - b).sum(-1)), lambda a, b, g: (-g * abs(a - b).sum(-1)).exp()),
}
CASES = [
    Case("pairwise_dot", ((5, 3), (4, 3)), lambda a, b: a @ b.T, lambda a, b: a @ b.T),
    Case("l2_of", ((7,), (7,)), lambda a, b: np.sqrt(((a - b) ** 2).sum()), lambda a, b: ((a - b) ** 2).sum().sqrt()),
    Case(
        "cosine_of",
        ((7,), (7,)),
        lambda a, b: (unit(a) * unit(b)).sum(),
        lambda a, b: (a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt(),
    ),
]
for name, (numpy, torch) in METRICS.items():
    more = (np.array(0.3),) if name in ("rbf", "laplacian") else ()
    CASES += [
        Case("pairwise_" + name, shapes + more, pairs(numpy), pairs(torch))
        for shapes in [((5, 3), (4, 3)), ((1, 17), (2, 17))]
    ]
    CASES += [Case(name, ((5, 3), (5, 3)) + more, numpy, torch)]
INTEGERS = np.random.default_rng(0).integers(0, 3, (7, 5)).astype(np.int32)
CASES += [
    Case("hamming", (INTEGERS, INTEGERS[::-1].copy()), lambda a, b: (a != b).sum(1)),
    Case("pairwise_hamming", (INTEGERS, INTEGERS[:4].copy()), pairs(lambda a, b: (a != b).sum(-1))),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_distances(case, dtype):
    compare("distance", case, dtype)


@pytest.mark.parametrize(
    "name", ["pairwise_l1", "pairwise_l2", "pairwise_chebyshev", "pairwise_cosine", "l2", "cosine"]
)
def test_nothing_is_infinite_where_vectors_are_equal_or_zero(name):
    f = program("distance", name, (), "cpu")
    a = np.zeros((2, 3))
    for gradient in f.grad()(a, a, np.ones(f(a, a).shape)):
        np.testing.assert_array_equal(gradient, 0)
    for tangent in f.grad().jvp(wrt="A", of="dA")(a, a, np.ones(f(a, a).shape), np.ones((2, 3))).ravel():
        assert np.isfinite(tangent)
