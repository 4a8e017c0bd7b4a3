"""std/linear.tile next to NumPy, forward and every element of every gradient, in f64 and f32."""
import numpy as np
import pytest

from std_numpy import check, program

ein = lambda text: lambda *x: np.einsum(text, *x)
SIZES = [dict(M=1, N=1, K=1, B=1, P=1, Q=1), dict(M=5, N=3, K=7, B=2, P=3, Q=4), dict(M=2, N=11, K=3, B=3, P=5, Q=2)]


def norm_lp(p):
    return lambda x: np.sum(np.abs(x) ** p) ** (1 / p)


# name, parameters, a letter for each size, the function in NumPy
CASES = [
    ("dot", {}, ["N", "N"], np.dot),
    ("matmul", {}, ["MK", "KN"], ein("mk,kn")),
    ("matmul_nt", {}, ["MK", "NK"], ein("mk,nk")),
    ("matmul_tn", {}, ["KM", "KN"], ein("km,kn")),
    ("matmul_tt", {}, ["KM", "NK"], ein("km,nk")),
    ("batch_matmul", {}, ["BMK", "BKN"], ein("bmk,bkn->bmn")),
    ("batch_matmul_nt", {}, ["BMK", "BNK"], ein("bmk,bnk->bmn")),
    ("batch_matmul_tn", {}, ["BKM", "BKN"], ein("bkm,bkn->bmn")),
    ("batch_matmul_tt", {}, ["BKM", "BNK"], ein("bkm,bnk->bmn")),
    ("matvec", {}, ["MN", "N"], np.dot),
    ("vecmat", {}, ["M", "MN"], np.dot),
    ("outer", {}, ["M", "N"], np.outer),
    ("kron", {}, ["MN", "PQ"], np.kron),
    ("linear", {}, ["MK", "NK", "N"], lambda x, w, b: x @ w.T + b),
    ("bilinear", {}, ["MP", "MQ", "NPQ"], ein("mp,mq,npq->mn")),
    ("bilinear_form", {}, ["M", "MN", "N"], lambda x, a, y: x @ a @ y),
    ("gram", {}, ["MK"], lambda x: x @ x.T),
    ("bilinear_pooling", {}, ["BPM", "BPN"], lambda x, y: np.einsum("bpm,bpn->bmn", x, y) / x.shape[1]),
    ("matrix_power", {"n": 1}, ["MM"], lambda a: a),
    ("matrix_power", {"n": 4}, ["MM"], lambda a: np.linalg.matrix_power(a, 4)),
    ("diagonal", {}, ["MN"], np.diagonal),
    ("diag", {}, ["N"], np.diag),
    ("diag", {}, ["MN"], np.diag),
    ("diag", {"offset": 1}, ["MN"], lambda a: np.diag(a, 1)),
    ("diag_embed", {"offset": 2}, ["MN"], lambda a: np.stack([np.diag(v, 2) for v in a])),
    ("diag_embed", {"K": -1}, ["N"], lambda v: np.diag(v, -1)),
    ("trace", {}, ["MN"], np.trace),
    ("tril", {}, ["MN"], np.tril),
    ("tril", {"diagonal": -1}, ["MN"], lambda a: np.tril(a, -1)),
    ("tril", {"diagonal": 2}, ["MN"], lambda a: np.tril(a, 2)),
    ("triu", {}, ["MN"], np.triu),
    ("triu", {"diagonal": -1}, ["MN"], lambda a: np.triu(a, -1)),
    ("triu", {"diagonal": 2}, ["MN"], lambda a: np.triu(a, 2)),
    ("norm_l1", {}, ["N"], lambda x: np.abs(x).sum()),
    ("norm_l2", {}, ["N"], np.linalg.norm),
    ("norm_max", {}, ["N"], lambda x: np.abs(x).max()),
    ("norm_lp", {}, ["N"], norm_lp(2)),
    ("norm_lp", {"p": 3}, ["N"], norm_lp(3)),
    ("norm_lp", {"p": 1.5}, ["N"], norm_lp(1.5)),
    ("norm_frobenius", {}, ["MN"], np.linalg.norm),
    ("row_norms_l1", {}, ["MN"], lambda x: np.abs(x).sum(1)),
    ("row_norms_l2", {}, ["MN"], lambda x: np.linalg.norm(x, axis=1)),
    ("row_norms_max", {}, ["MN"], lambda x: np.abs(x).max(1)),
    ("covariance", {}, ["MK"], lambda x: np.atleast_2d(np.cov(x))),
    ("covariance", {"correction": 0}, ["MK"], lambda x: np.atleast_2d(np.cov(x, ddof=0))),
    ("correlation", {}, ["MK"], lambda x: np.atleast_2d(np.corrcoef(x))),
]


def inputs_of(shapes, sizes):
    rng = np.random.default_rng(11)
    return [
        rng.uniform(0.1, 1, [sizes[letter] for letter in shape])
        * rng.choice([-1, 1], [sizes[letter] for letter in shape])
        for shape in shapes
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join([c[0], *map(str, c[1].values())]))
def test_values_and_gradients(case):
    function, define, shapes, reference = case
    for k, sizes in enumerate(SIZES):
        if k == 0 and function in ("covariance", "correlation"):
            continue                                       # one observation has no variance
        check("linear", function, define, inputs_of(shapes, sizes), reference, [np.float64, np.float64, np.float32][k])


@pytest.mark.parametrize("target", ["reference", "opencl"])
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c[0] in ("matmul_tt", "kron", "diagonal", "norm_l2", "correlation")],
    ids=lambda c: c[0],
)
def test_other_targets(case, target):
    function, define, shapes, reference = case
    check("linear", function, define, inputs_of(shapes, SIZES[1]), reference, np.float32, target)


@pytest.mark.parametrize(
    "function, shape",
    [("norm_l2", 4), ("norm_lp", 4), ("norm_frobenius", (2, 3)), ("row_norms_l2", (2, 3)), ("norm_l1", 4)],
)
def test_norms_have_derivative_zero_at_zero(function, shape):
    f, x = program("linear", function), np.zeros(shape)
    np.testing.assert_array_equal(f.grad()(x, np.ones_like(f(x))), x)
    np.testing.assert_array_equal(f.jvp()(x, np.ones_like(x)), f(x))


def test_integers_stay_exact_and_half_precision_adds_in_single():
    a, b = np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4) - 5
    product = program("linear", "matmul")(a, b)
    assert product.dtype == np.int64 and np.array_equal(product, a @ b)
    assert np.array_equal(program("linear", "trace")(a), np.trace(a))
    np.testing.assert_allclose(program("linear", "covariance")(a.astype(np.int32)), np.cov(a))
    half = np.full((1, 4000), 0.25, np.float16)
    assert program("linear", "matmul_nt")(half, half)[0, 0] == 250


def test_identity_and_power_zero():
    assert np.array_equal(program("linear", "identity", (("N", 3),))(), np.eye(3))
    assert np.array_equal(program("linear", "matrix_power", (("n", 0),))(np.ones((3, 3))), np.eye(3))
