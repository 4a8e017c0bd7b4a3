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


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_links_of_a_chain_that_overlap_leave_no_element_unwritten(target):
    text = "function f(X[N]) -> (P) { A[i: N] = =(X[i]), i < 3 default 7.0; B[2*i + 1: N] = =(-X[i]) default A; P[i + 1: N] = =(2.0*X[i]), i < 2 default B; }"
    f = tilec.compile(text, target=target)
    for size in range(1, 12):
        x = np.arange(1, size + 1, dtype="f4")
        wanted = np.full(size, 7, "f4")
        wanted[:3] = x[:3]
        wanted[1::2] = -x[:size // 2]
        wanted[1:3] = 2 * x[:2][:len(wanted[1:3])]
        np.testing.assert_array_equal(f(x), wanted)


@pytest.mark.parametrize("place", [np.float32(1), 1.0, [1.0], "a", None])
def test_what_is_no_array_cannot_be_written_to(place):
    f = tilec.compile("function f(X[N]) -> (Y, Z) { Y[] = +(X[i]); Z = X; }")
    with pytest.raises(TypeError, match="out= for Y"):
        f(np.ones(3, "f4"), out=[place, np.zeros(3, "f4")])
