"""checked=True: an index out of range is an error that names tensor, position, value and bound; otherwise it is
clamped."""
import numpy as np
import pytest

import tilec

TEXT = "function (D[V, C], I) -> (O) { O = gather(D, I); }"
TARGETS = ["cpu", "reference", "opencl"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
def test_gather(target, dtype):
    d = np.random.default_rng(0).random((5, 3), dtype="f4")
    good, bad = np.array([[0, 4], [2, 3]], dtype), np.array([[0, 4], [5, 9]], dtype)
    f = tilec.compile(TEXT, target=target, checked=True)
    np.testing.assert_array_equal(f(d, good), d[good.astype("i8")])
    with pytest.raises(ValueError, match=r"`I\[1, 0\]` is 5, but `gather` takes indices from 0 to below 5") as caught:
        f(d, bad)
    assert caught.value.code == "E0540" and caught.value.diagnostics[0].line == 1
    np.testing.assert_array_equal(f(d, good), d[good.astype("i8")])           # a call after the fault is as good as any
    np.testing.assert_array_equal(tilec.compile(TEXT, target=target)(d, bad), d[np.minimum(bad.astype("i8"), 4)])


@pytest.mark.parametrize("target", TARGETS)
def test_negative_and_computed_indices(target):
    f = tilec.compile("function (D[V], I[N]) -> (O) { J = I - 2; O = gather(D, J); }", target=target, checked=True)
    with pytest.raises(ValueError, match=r"`J\[1\]` is -1"):
        f(np.ones(4, "f4"), np.array([2, 1, 0], "i4"))


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_are_checked_too(target):
    g = tilec.compile(TEXT, target=target, checked=True).grad(wrt="D")
    with pytest.raises(ValueError, match="E0540"):
        g(np.ones((4, 2), "f4"), np.array([0, 4], "i4"), np.ones((2, 2), "f4"))


def test_no_indices_are_in_range():
    f = tilec.compile(TEXT, checked=True)
    assert f(np.ones((4, 2), "f4"), np.zeros((0,), "i4")).shape == (0, 2)


def test_accumulating_and_checking():
    f = tilec.compile(TEXT, checked=True)
    out = np.ones((2, 2), "f4")
    f(np.ones((4, 2), "f4"), np.array([0, 3], "i4"), out=out, accumulate=True)
    assert (out == 2).all()


@pytest.mark.parametrize("target", TARGETS)
def test_both_halves_of_a_pair_are_checked(target):
    f = tilec.compile("function (D[V, C], I[N]) -> (O) { R = gather(D, I); O = R * R; }", target=target, checked=True)
    d, good = np.random.default_rng(0).random((5, 3), dtype="f4"), np.array([0, 4, 4], "i4")
    with pytest.raises(ValueError, match=r"`I\[1\]` is 5"):
        f.vjp(d, np.array([0, 5, 1], "i4"))
    o, backward = f.vjp(d, good)
    np.testing.assert_array_equal(o, d[good] ** 2)
    wanted = np.zeros_like(d)
    np.add.at(wanted, good, 2 * d[good])
    np.testing.assert_allclose(backward(np.ones_like(o)), wanted, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_a_half_looks_at_the_indices_that_it_reads(target):
    d = np.random.default_rng(0).random((4, 2), dtype="f4")
    f = tilec.compile(
        "function (D[V, C], I, J) -> (O, P) { O = gather(D, I); P = gather(J, I); }", target=target, checked=True
    )
    good, bad, counts = np.array([0, 3], "i4"), np.array([0, 4], "i4"), np.arange(4, dtype="i4")
    (O, P), backward = f.vjp(d, good, counts)
    np.testing.assert_array_equal(O, d[good])
    np.testing.assert_array_equal(backward(np.ones((2, 2), "f4")), [[1, 1], [0, 0], [0, 0], [1, 1]])
    with pytest.raises(ValueError, match=r"`I\[1\]` is 4"):
        f.vjp(d, bad, counts)
