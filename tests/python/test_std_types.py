"""std/ of special values: sums that no f16 holds, quotients that no integer is (results have the type of the input, f32
for integers), NaN."""
import numpy as np
import pytest

from std_errors import program

HALF, RNG = np.float16, np.random.default_rng(5)


def mean(x, axis=None):
    return x.mean(axis, keepdims=axis is not None)


def normal(x, axis):
    return (x - mean(x, axis)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v


def cosine(a, b):
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


def cross_entropy(x, label):
    return np.mean(np.log(np.exp(x).sum(1)) - np.take_along_axis(x, label[:, None], 1)[:, 0])


def bilinear(x):
    n = len(x)
    at = np.clip((np.arange(2 * n) + 0.5) / 2 - 0.5, 0, n - 1)
    return np.interp(at, np.arange(n), x)


ALTERNATING = np.array([[-300, 300] * 4] * 2)          # whose squares add up to more than 65504
SWING = np.array([-30, 30] * 100)
ONES, ZEROS = np.ones, np.zeros
IMAGE = RNG.integers(-2, 3, (3, 160, 160, 2)) + np.array([1, 2])  # more than 65504 pixels for each channel
LOGITS, LABELS = np.log(np.tile(np.arange(1, 101), (20000, 1))), RNG.integers(0, 100, 20000).astype("i4")
Q = np.full((1, 1, 4, 64), 40)

# function, define, inputs, of which those that are no i32 or bool are given in f16, what they give in f64
SUMS = [
    ("norm", "batch_norm_rows", {}, (ONES((70000, 2)), ONES(2), ZEROS(2)), lambda x, g, b: (x * 0, ONES(2), ZEROS(2))),
    # 90000 is no f16
    (
        "norm",
        "batch_norm_rows",
        {},
        (np.array([[300], [-300]]), ONES(1), ZEROS(1)),
        lambda x, g, b: (normal(x, 0), ZEROS(1), np.full(1, np.inf)),
    ),
    (
        "norm",
        "batch_norm",
        {},
        (IMAGE, ONES(2), ZEROS(2)),
        lambda x, g, b: (normal(x, (0, 1, 2)), x.mean((0, 1, 2)), x.var((0, 1, 2))),
    ),
    (
        "norm",
        "batch_norm_nchw",
        {},
        (IMAGE.transpose(0, 3, 1, 2), ONES(2), ZEROS(2)),
        lambda x, g, b: (normal(x, (0, 2, 3)), x.mean((0, 2, 3)), x.var((0, 2, 3))),
    ),
    ("norm", "layer_norm", {}, (ALTERNATING, ONES(8), ZEROS(8)), lambda x, g, b: normal(x, 1)),
    ("norm", "rms_norm", {}, (ALTERNATING, ONES(8)), lambda x, g: x / 300),
    (
        "norm",
        "group_norm",
        {"num_groups": 1},
        (300 * (-1) ** np.arange(32).reshape(1, 4, 4, 2), ONES(2), ZEROS(2)),
        lambda x, g, b: x / 300,
    ),
    ("norm", "instance_norm", {}, (np.full((1, 260, 260, 1), 5), ONES(1), ZEROS(1)), lambda x, g, b: x * 0),
    ("norm", "l2_normalise", {}, (ALTERNATING,), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    ("linear", "norm_l2", {}, (ALTERNATING[0],), np.linalg.norm),
    ("linear", "norm_frobenius", {}, (ALTERNATING,), np.linalg.norm),
    ("linear", "row_norms_l2", {}, (ALTERNATING,), lambda x: np.linalg.norm(x, axis=1)),
    ("linear", "covariance", {}, (SWING[None],), lambda x: np.cov(x).reshape(1, 1)),
    ("linear", "correlation", {}, (np.stack([SWING, -SWING]),), np.corrcoef),
    ("statistics", "mean", {}, (ONES(100000),), mean),
    ("statistics", "mean_rows", {}, (ONES((2, 70000)),), lambda x: x.mean(1)),
    ("statistics", "variance", {}, (SWING,), np.var),
    ("statistics", "variance", {"correction": 1}, (SWING,), lambda x: np.var(x, ddof=1)),
    ("statistics", "deviation", {}, (10 * SWING,), np.std),
    ("statistics", "standardise", {}, (10 * SWING,), lambda x: x / 300),
    ("statistics", "rms", {}, (10 * SWING,), lambda x: np.sqrt(mean(x * x))),
    (
        "distance",
        "pairwise_l2",
        {},
        (ALTERNATING, -ALTERNATING),
        lambda a, b: np.full((2, 2), np.linalg.norm(2 * a[0])),
    ),
    ("distance", "l2", {}, (ALTERNATING, 0 * ALTERNATING), lambda a, b: np.linalg.norm(a, axis=1)),
    ("distance", "cosine", {}, (ALTERNATING, ALTERNATING), cosine),
    ("optimiser", "clip_by_norm", {}, (ALTERNATING, 1.0), lambda g, limit: (g / np.linalg.norm(g), np.linalg.norm(g))),
    (
        "optimiser",
        "adam",
        {},
        (ONES(3), ZEROS(3), ZEROS(3), np.array([300, -300, 0]), 0.5, 1),
        lambda w, m, v, g, lr, t: (w - 0.5 * np.sign(g), 0.1 * g, 0.001 * g * g),
    ),
    ("loss", "mean", {}, (ONES((300, 300)), ZEROS((300, 300))), lambda p, t: mean((p - t) ** 2)),
    ("loss", "mean", {}, (np.full((2, 2), 30), ZEROS((2, 2))), lambda p, t: mean((p - t) ** 2)),
    ("loss", "mean_cross_entropy", {}, (LOGITS, LABELS), cross_entropy),
    ("loss", "cosine_embedding", {}, (ALTERNATING, ALTERNATING, ONES(2)), lambda a, b, t: 1 - cosine(a, b)),
    ("softmax", "softmax", {}, (ONES((1, 70000)),), softmax),
    ("softmax", "log_softmax", {}, (ONES((1, 70000)),), lambda x: np.log(softmax(x))),
    ("softmax", "logsumexp", {}, (ONES((1, 70000)),), lambda x: 1 + np.log(np.float64([70000]))),
    ("attention", "attention", {}, (Q, Q, ONES((1, 1, 4, 2))), attention),
    (
        "attention",
        "attention_mask",
        {},
        (Q, Q, ONES((1, 1, 4, 2)), np.ones((4, 4), bool)),
        lambda q, k, v, m: attention(q, k, v),
    ),
    ("pool", "global_avg_pool2d", {}, (IMAGE,), lambda x: x.mean((1, 2))),
    ("pool", "lp_pool1d", {"K": 8}, (ALTERNATING[:, :, None],), lambda x: np.linalg.norm(x, axis=1)[:, None]),
    ("scan", "cummean", {}, (np.full(300, 400),), lambda x: x),
    ("embedding", "embedding_bag_mean", {}, (ZEROS((1, 300)).astype("i4"), np.full((1, 2), 400)), lambda i, w: w),
]

X, U8 = np.int32([1, 2, 3, 6]), np.uint8([1, 3])

# function, define, integers, what NumPy makes of them
INTEGERS = [
    ("statistics", "mean", {}, (X,), np.mean),
    ("statistics", "mean_rows", {}, (X[None],), lambda x: x.mean(1)),
    ("statistics", "mean_columns", {}, (X[:, None],), lambda x: x.mean(0)),
    ("statistics", "weighted_mean", {}, (X, np.int32([1, 1, 1, 2])), lambda x, w: np.average(x, weights=w)),
    ("statistics", "rms", {}, (X,), lambda x: np.sqrt(mean(x * x))),
    ("statistics", "variance", {}, (X,), np.var),
    ("statistics", "deviation", {}, (X,), np.std),
    ("statistics", "standardise", {}, (X,), lambda x: (x - x.mean()) / x.std()),
    ("statistics", "rescale", {}, (X,), lambda x: (x - 1) / 5),
    ("linear", "norm_l2", {}, (np.uint8([100, 100]),), np.linalg.norm),
    ("linear", "norm_l1", {}, (np.int8([-128, 100]),), lambda x: abs(x).sum()),
    ("linear", "norm_max", {}, (np.int8([-128, 100]),), lambda x: abs(x).max()),
    (
        "linear",
        "bilinear_pooling",
        {},
        (np.uint8([[[16], [16]]]), np.uint8([[[16], [17]]])),
        lambda x, y: np.einsum("npi,npj->nij", x, y) / 2,
    ),
    ("loss", "mean", {}, (np.int32([[1, 2]]), np.int32([[5, 5]])), lambda p, t: mean((p - t) ** 2)),
    ("loss", "absolute_error", {}, (U8, U8[::-1].copy()), lambda p, t: abs(p - t)),
    ("loss", "squared_error", {}, (U8, U8[::-1].copy()), lambda p, t: (p - t) ** 2),
    ("distance", "pairwise_l1", {}, (U8[:, None], U8[:, None]), lambda a, b: abs(a - b.T)),
    ("distance", "pairwise_chebyshev", {}, (U8[:, None], U8[:, None]), lambda a, b: abs(a - b.T)),
    ("norm", "layer_norm", {}, (X[None], ONES(4, "f4"), ZEROS(4, "f4")), lambda x, g, b: normal(x, 1)),
    ("scan", "moving_average", {"window": 2}, (X,), lambda x: (x[1:] + x[:-1]) / 2),
    ("scan", "cummean", {}, (X,), lambda x: np.cumsum(x) / np.arange(1, 5)),
    ("scan", "trailing_average", {"window": 2}, (X,), lambda x: np.array([1, 1.5, 2.5, 4.5])),
    ("signal", "central_difference", {}, (X,), np.gradient),
    ("signal", "box", {}, (X,), lambda x: np.array([1.5, 2, 11 / 3, 4.5])),
    ("signal", "box_2d", {}, (X.reshape(2, 2),), lambda x: np.full((2, 2), 3)),
    (
        "pool",
        "avg_pool2d",
        {},
        (np.uint8([255, 254, 253, 252]).reshape(1, 2, 2, 1),),
        lambda x: np.float64([[[[253.5]]]]),
    ),
    (
        "pool",
        "avg_pool2d_inside",
        {},
        (np.uint8([255, 254, 253, 252]).reshape(1, 2, 2, 1),),
        lambda x: np.float64([[[[253.5]]]]),
    ),
    ("movement", "upsample_bilinear", {}, (np.uint8([255, 255, 255]),), bilinear),
    ("movement", "upsample_bilinear", {}, (np.uint8([0, 100, 200]),), bilinear),
    ("movement", "upsample_corners", {}, (np.uint8([0, 100, 255]),), lambda x: np.array([0, 50, 100, 177.5, 255])),
    ("embedding", "embedding_bag_mean", {}, (np.int32([[0, 1]]), np.int32([[1], [2]])), lambda i, w: np.array([[1.5]])),
]


def is_real(value):
    return isinstance(value, np.ndarray) and value.dtype not in (np.int32, np.bool_)


def check(family, function, define, values, expected, dtype, tolerance):
    f = program(family, function, tuple(define.items()))
    outputs = f(*values)
    wanted = expected(*[v.astype("f8") if is_real(v) else v for v in values])
    for output, want in zip(
        outputs if isinstance(outputs, tuple) else (outputs,), wanted if isinstance(wanted, tuple) else (wanted,)
    ):
        assert output.dtype == dtype
        np.testing.assert_allclose(np.asarray(output, "f8"), want, rtol=tolerance, atol=tolerance)


def name(case):
    return case[1] if isinstance(case, tuple) else str(case)


@pytest.mark.parametrize("case", SUMS, ids=name)
def test_sums_that_no_f16_holds(case):
    family, function, define, values, expected = case
    halves = [v.astype(HALF) if is_real(v) else v for v in values]
    check(family, function, define, halves, expected, HALF, 2e-3)


@pytest.mark.parametrize("case", INTEGERS, ids=name)
def test_averages_and_differences_of_integers(case):
    check(*case, np.float32, 1e-5)


@pytest.mark.parametrize(
    "family, function, inputs",
    [
        ("norm", "layer_norm", (ALTERNATING, ONES(8), ZEROS(8))),
        ("norm", "rms_norm", (ALTERNATING, ONES(8))),
        ("softmax", "log_softmax", (ONES((1, 70000)),)),
        ("linear", "norm_l2", (ALTERNATING[0],)),
        ("statistics", "mean", (ONES(70000),)),
        ("loss", "mean", (ALTERNATING / 10, ZEROS((2, 8)))),
    ],
)
def test_gradients_in_f16(family, function, inputs):
    f = program(family, function).grad(wrt=[program(family, function).inputs[0]])
    halves = [v.astype(HALF) for v in inputs]
    cotangent = np.asarray(RNG.integers(-2, 3, np.shape(program(family, function)(*halves)))).astype(HALF)
    got, wanted = f(*halves, cotangent), f(*[v.astype("f8") for v in halves], cotangent.astype("f8"))
    assert got.dtype == HALF
    np.testing.assert_allclose(got.astype("f8"), wanted, rtol=5e-3, atol=1e-4)


N, A = np.float64([np.nan, 1, 2]), np.float64([[np.nan, 1, 2], [1, 1, 2]])

# function, define, inputs, where the result is NaN
NANS = [
    *[("linear", f, {}, (N,), True) for f in ("norm_l1", "norm_l2", "norm_lp", "norm_max")],
    ("linear", "norm_frobenius", {}, (A,), True),
    ("linear", "row_norms_l2", {}, (A,), [True, False]),
    ("pool", "lp_pool1d", {}, (A[:, :2, None],), [[[True]], [[False]]]),
    ("pool", "lp_pool2d", {"K": 1}, (A[:, None, :, None],), np.isnan(A)[:, None, :, None]),
    ("pool_nchw", "lp_pool2d_nchw", {"K": 1}, (A[:, None, None],), np.isnan(A)[:, None, None]),
    ("loss", "distances", {}, (A, 0 * np.nan_to_num(A)), [True, False]),
    ("loss", "triplet", {}, (A, A, ONES((2, 3))), [True, False]),
    ("loss", "binary_cross_entropy_each", {}, (N / 2, ONES(3)), [True, False, False]),
    ("loss", "kl_divergence", {}, (ONES(3), N), [True, False, False]),
    ("loss", "hinge_embedding", {}, (N, -ONES(3)), [True, False, False]),
    ("loss", "margin_ranking", {}, (N, ONES(3), ONES(3)), [True, False, False]),
    ("distance", "cosine", {}, (A, ONES((2, 3))), [True, False]),
    ("distance", "pairwise_cosine", {}, (A, ONES((1, 3))), [[True], [False]]),
    ("norm", "l2_normalise", {}, (A,), [[True] * 3, [False] * 3]),
    *[("statistics", f, {}, (N,), [True] * 3) for f in ("standardise", "rescale")],
    *[("statistics", f, {}, (A,), [[True] * 3, [False] * 3]) for f in ("standardise_rows", "rescale_rows")],
    (
        "attention",
        "attention_mask",
        {},
        (A[None, None], ONES((1, 1, 2, 3)), ONES((1, 1, 2, 1)), np.ones((2, 2), bool)),
        [[[[True], [False]]]],
    ),
    *[
        ("activation", f, {}, (N,), [True, False, False])
        for f in ("soft_shrink", "hard_shrink", "threshold", "elu", "hard_tanh")
    ],
]


@pytest.mark.parametrize("case", NANS, ids=name)
def test_nan_stays_nan(case):
    family, function, define, values, where = case
    np.testing.assert_array_equal(np.isnan(program(family, function, tuple(define.items()))(*values)), where)
