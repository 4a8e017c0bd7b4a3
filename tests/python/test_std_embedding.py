"""std/embedding.tile: values by NumPy, values and gradients by PyTorch."""
import numpy as np
import pytest

from std_compare import Case, compare, program

RNG = np.random.default_rng(5)
I1, I2 = RNG.integers(0, 7, 5).astype(np.int32), RNG.integers(0, 7, (3, 4)).astype(np.int32)


def torch_cases():
    import torch
    F = torch.nn.functional
    def angles(p, d):
        return p[:, None] * 10000.0 ** (-2.0 * torch.arange(d // 2, dtype=torch.float64) / d)
    return [
        Case("embedding", (I1, (7, 3)), lambda i, w: F.embedding(i.long(), w)),
        Case("embedding2", (I2, (7, 3)), lambda i, w: F.embedding(i.long(), w)),
        Case("embedding", (I1, (7, 3)), lambda i, w: F.embedding(i.long(), w), call="embedding"),
        Case("one_hot_lookup", (I1, (7, 3)), lambda i, w: F.embedding(i.long(), w)),
        Case("embedding_bag", (I2, (7, 3)), lambda i, w: F.embedding_bag(i.long(), w)),
        Case("embedding_bag_mean", (I2, (7, 3)), lambda i, w: F.embedding_bag(i.long(), w, mode="mean")),
        Case("sinusoidal", (np.arange(5.0), 6), lambda p, d: torch.cat([angles(p, d).sin(), angles(p, d).cos()], 1)),
        Case(
            "sinusoidal_pairs",
            (np.arange(5.0), 6),
            lambda p, d: torch.stack([angles(p, d).sin(), angles(p, d).cos()], 2).flatten(1),
        ),
    ]


@pytest.mark.parametrize("k", range(8))
def test_embeddings(k):
    pytest.importorskip("torch")
    case = torch_cases()[k]
    compare("embedding", case, [np.float32, np.float64][k % 2])


def test_numpy():
    w = RNG.standard_normal((7, 3)).astype(np.float32)
    assert (program("embedding", "embedding")(I1, w) == w[I1]).all() and (
        program("embedding", "embedding2")(I2, w) == w[I2]
    ).all()
    assert (program("embedding", "one_hot")(I1, 7) == np.eye(7)[I1]).all() and (
        program("embedding", "one_hot_lookup")(I1, w) == w[I1]
    ).all()
    dw = program("embedding", "embedding").grad(wrt="W")(I1, w, np.ones((5, 3), np.float32))
    assert (dw == np.bincount(I1, minlength=7)[:, None] * np.ones(3)).all()
