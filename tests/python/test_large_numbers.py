"""Plain numbers near the ends of 64 bits: kept where the program's type holds them, refused where they would change."""
import numpy as np
import pytest

import tilec

LARGE = 2**63 + 2**40


@pytest.mark.parametrize("target", ["cpu", "reference", "opencl"])
def test_a_large_number_is_kept_by_a_float_and_by_u64(target):
    assert tilec.compile("function f(f64 S) -> (O) { O = S; }", target=target)(LARGE) == float(LARGE)
    assert tilec.compile("function f(u64 S) -> (O) { O = S; }", target=target)(2**64 - 1) == np.uint64(2**64 - 1)
    scaled = tilec.compile("function f(X[N], S) -> (O) { O = X * S; }", target=target)
    assert np.array_equal(scaled(np.ones(3, np.float32), LARGE), np.full(3, LARGE, np.float32))
    assert np.array_equal(scaled(np.ones(3, np.float32), -(2**63)), np.full(3, -(2**63), np.float32))


def test_a_large_number_does_not_become_negative():
    f = tilec.compile("function f(i64 S) -> (O) { O = S; }")
    assert f(2**63 - 1) == 2**63 - 1
    with pytest.raises((tilec.ProgramError, ValueError), match="does not fit in"):
        f(2**63)
    with pytest.raises(ValueError, match="does not fit in"):
        f(2**64)
    with pytest.raises(ValueError, match="does not fit in"):
        f(-(2**63) - 1)


@pytest.mark.parametrize("given", [2**63, np.uint64(2**63), np.array(2**64 - 1, np.uint64)])
def test_a_large_number_is_no_size(given):
    f = tilec.compile("function f(A[N], S) -> (O) { O[i: N] = +(A[i + S*j]), 0 <= j < 3; }")
    with pytest.raises(tilec.ProgramError, match="E0246"):
        f(np.ones(4, np.float32), given)
    with pytest.raises(ValueError, match="M is 9223372036854775808"):
        tilec.compile("function f(A[N]) -> (O) { O[i: M] = +(A[i]); }", size={"M": 2**63})


def test_indices_that_leave_64_bits_are_refused():
    f = tilec.compile("function f(A[N], S) -> (O) { O[i: N] = +(A[S*i - (S - 1)*j]), 0 <= j < 500; }")
    a = np.arange(600, dtype=np.float32)
    expected = np.where(np.arange(600) < 500, a, 0)
    assert np.array_equal(f(a, 10**12), expected)
    with pytest.raises(tilec.ProgramError, match="E0243"):
        f(a, 10**17)
    with pytest.raises(tilec.ProgramError, match="E0243"):
        f.grad()(a, 10**17, dO=a)
