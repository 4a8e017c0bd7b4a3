"""Outputs wherever the caller wants them, one tensor several times, an input among them."""
import numpy as np
import pytest
import tilec

TEXT = "function (X[N, M]) -> (X, Y, Y) { Y = X + 1; }"


def places(shape):
    """The same shape in row-major, column-major, spaced and reversed memory."""
    return [np.zeros(shape, "f4"), np.zeros(shape[::-1], "f4").T, np.zeros((2 * shape[0], shape[1]), "f4")[::2], np.zeros(shape, "f4")[::-1, ::-1]]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("turn", range(4))
def test_every_output_has_strides_of_its_own(target, turn):
    f = tilec.compile(TEXT, target=target)
    x = np.random.default_rng(turn).random((8, 6), dtype="f4")
    for source in (x, x[::-1], np.asfortranarray(x)):
        out = tuple(places((8, 6))[(turn + k) % 4] for k in range(3))
        f(source, out=out)
        for got, wanted in zip(out, (source, source + 1, source + 1)):
            np.testing.assert_array_equal(got, wanted)
