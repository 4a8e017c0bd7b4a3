"""Constraints with a relation on both sides, `l < p <= e`, against the same comparisons of fractions in Python."""

import itertools
import operator
from fractions import Fraction

import numpy as np
import pytest

import tilec

RELATIONS = {"<": operator.lt, "<=": operator.le}
FORMS = {
    "j": lambda i, j: Fraction(j),
    "2*j + 1": lambda i, j: Fraction(2 * j + 1),
    "j/2": lambda i, j: Fraction(j, 2),
    "(i + j)/3": lambda i, j: Fraction(i + j, 3),
}
ENDS = {
    "i - 2": lambda i: i - 2,
    "0 - i": lambda i: -i,
    "1": lambda i: 1,
    "i/2": lambda i: Fraction(i, 2),
    "N - 2": lambda i: 6,
}


@pytest.mark.parametrize("first, second", itertools.product(RELATIONS, repeat=2))
@pytest.mark.parametrize("form", FORMS)
def test_which_points_are_meant(first, second, form):
    x = np.random.default_rng(3).integers(1, 9, 8).astype("f8")
    for low, high in itertools.permutations(ENDS, 2):
        text = "function f(f64 X[N]) -> (Y) { Y[i: N] = +(X[j]), %s %s %s %s %s; }" % (low, first, form, second, high)
        program = tilec.compile(text)
        meant = np.zeros((8, 8))
        for i, j in np.ndindex(8, 8):
            p = FORMS[form](i, j)
            meant[i, j] = RELATIONS[first](ENDS[low](i), p) and RELATIONS[second](p, ENDS[high](i))
        np.testing.assert_array_equal(program(x), meant @ x, text)
        np.testing.assert_array_equal(program.grad()(x, x), meant.T @ x, text)
        np.testing.assert_array_equal(tilec.compile(program.emit("contraction"))(x), meant @ x, text)


def test_three_relations_are_refused():
    with pytest.raises(tilec.ProgramError, match="E0108|without parentheses"):
        tilec.compile("function f(X[N]) -> (Y) { Y[i: N] = +(X[j]), 0 < i < j < N; }")
