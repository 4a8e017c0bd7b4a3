"""Gradients of slices, however their places are written."""
import numpy as np
import pytest

import tilec


@pytest.mark.parametrize("place, column", [("1", 1), ("2/2", 1), ("(3 + 3)/3", 2), ("0/5", 0), ("4 - 2", 2)])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parts_of_one_column_are_summed_there(place, column, target):
    text = """function f(X[N, M], K[N]) -> (Y, Z) {
      Y[i: N] = =(X[i, P] * K[i] + sin(X[i, P]));
      Z[i: N] = +(X[i, P] * X[j, P] * K[j]);
    }""".replace("P", place)
    f = tilec.compile(text, target=target)
    draw = np.random.default_rng(1)
    x, k, dy, dz = (draw.standard_normal(shape).astype(np.float64) for shape in ((5, 3), 5, 5, 5))
    wanted = np.zeros_like(x)
    c = x[:, column]
    wanted[:, column] = dy * (k + np.cos(c)) + dz * (c * k).sum() + k * (dz * c).sum()
    np.testing.assert_allclose(f.grad(wrt="X")(x, k, dy, dz), wanted, rtol=1e-12)
