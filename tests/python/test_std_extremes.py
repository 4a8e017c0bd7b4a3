"""std/ over the whole range of floats: near 0 and singularities, at the smallest and largest numbers, infinities and
NaN, forward and backward. What is expected is a closed form in NumPy's longest float, and PyTorch's word on what is no
number, written out."""
import numpy as np
import pytest
import tilec

from std_errors import as_tuple, program

LONG = np.longdouble
INF, NAN = np.inf, np.nan
TYPES = [np.float32, np.float64]


def values(dtype, low=-INF, high=INF):
    """Numbers of every size, of both signs, as far apart as their exponents; those of [low, high]."""
    info = np.finfo(dtype)
    magnitudes = [
        info.smallest_subnormal,
        info.tiny,
        1e-30,
        1e-20,
        1e-10,
        1e-7,
        3e-6,
        1e-4,
        1e-3,
        0.01,
        0.1,
        0.25,
        0.49,
        0.5,
        0.51,
        0.9,
        0.999,
        1 - info.epsneg,
        1,
        1.001,
        1.5,
        2,
        3,
        5,
        9,
        17,
        60,
        88,
        100,
        700,
        1e4,
        1e6,
        1e10,
        1e20,
        1e30,
        info.max / 4,
        info.max,
    ]
    x = np.array(
        [-m for m in magnitudes[::-1]] + [-0.0, 0.0] + magnitudes, np.float64 if dtype is np.float32 else LONG
    ).astype(dtype)
    return np.append(x[(x >= low) & (x <= high)], np.array([v for v in (-INF, INF) if low <= v <= high], dtype))


def check(what, got, expected, dtype, ulps, absolute=0.0):
    """Within `ulps` of each number on its own, a few of the smallest ones near 0; infinities and NaN where they are
    expected."""
    with np.errstate(all="ignore"):
        info, expected = np.finfo(dtype), np.asarray(expected, LONG)
        rounded = expected.astype(dtype)
        # beside the largest number either will do
        near = np.isinf(rounded) & (np.abs(expected) < LONG(info.max) * (1 + ulps * LONG(info.eps)))
        same = (
            (got == rounded)
            | (np.isnan(got) & np.isnan(rounded))
            | (near & (np.abs(got) >= info.max * (1 - ulps * info.eps)))
        )
        off = np.abs(got.astype(LONG) - expected)
        same |= off <= ulps * LONG(info.eps) * np.abs(expected) + 4 * LONG(info.smallest_subnormal) + absolute
    assert same.all(), "%s: %s where %s is expected, at %s of %d" % (
        what,
        got[~same][:5],
        rounded[~same][:5],
        np.argwhere(~same)[:5].tolist(),
        got.size,
    )


def sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def log_cosh(x):
    a = np.abs(x)
    return np.where(
        a < 1, np.log1p(2 * np.sinh(np.minimum(a, 1) / 2) ** 2), a + np.log1p(np.exp(-2 * a)) - np.log(LONG(2))
    )


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


SCALE, ALPHA = LONG("1.0507009873554804934193349852946"), LONG("1.6732632423543772848170429916717")
# family, function, function of long floats, its derivative, from, to, ulps forward, ulps backward
ONE = [
    ("safe", "log1p", np.log1p, lambda x: 1 / (1 + x), -1, INF, 3, 8),
    ("safe", "expm1", np.expm1, np.exp, -INF, INF, 4, 8),
    ("safe", "softplus", softplus, sigmoid, -INF, INF, 4, 10),
    ("safe", "log_sigmoid", lambda x: -softplus(-x), lambda x: sigmoid(-x), -INF, INF, 4, 10),
    ("activation", "elu", elu, lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0))), -INF, INF, 4, 8),
    ("activation", "celu", elu, lambda x: np.where(x > 0, 1, np.exp(np.minimum(x, 0))), -INF, INF, 4, 8),
    (
        "activation",
        "selu",
        lambda x: SCALE * np.where(x > 0, x, ALPHA * elu(x)),
        lambda x: SCALE * np.where(x > 0, 1, ALPHA * np.exp(np.minimum(x, 0))),
        -INF,
        INF,
        6,
        8,
    ),
    ("activation", "silu", lambda x: x * sigmoid(x), None, -60, INF, 6, None),
    ("activation", "mish", lambda x: x * np.tanh(softplus(x)), None, -60, INF, 8, None),
    ("activation", "softsign", lambda x: x / (1 + np.abs(x)), lambda x: 1 / (1 + np.abs(x)) ** 2, -1e30, 1e30, 3, 10),
    ("activation", "hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1), None, -INF, INF, 3, None),
    (
        "activation",
        "sign_through",
        lambda x: np.where(x < 0, -1, 1),
        lambda x: np.where(np.abs(x) <= 1, 1, 0),
        -INF,
        INF,
        0,
        0,
    ),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "family, function, reference, derivative, low, high, ulps, ulps_back", ONE, ids=[row[1] for row in ONE]
)
def test_functions_of_one_number(family, function, reference, derivative, low, high, ulps, ulps_back, dtype):
    x = values(dtype, low, high)
    f = program(family, function)
    with np.errstate(all="ignore"):
        check(function, f(x), reference(x.astype(LONG)), dtype, ulps)
        if derivative is not None:
            check(
                "d" + function,
                f.grad()(x, np.ones_like(x)),
                derivative(x.astype(LONG)) * np.ones_like(x),
                dtype,
                ulps_back,
            )
    assert np.isnan(f(np.array([NAN], dtype))).all() or function == "sign_through"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("family, function", [("activation", "softsign"), ("loss", "huber"), ("loss", "smooth_l1")])
def test_gradients_at_nan_are_nan_where_pytorchs_are(family, function, dtype):
    x = np.array([NAN, 0.25, NAN], dtype)
    given = (x,) if family == "activation" else (x, np.zeros_like(x))
    back = program(family, function).grad(wrt="X" if family == "activation" else "P")(*given, np.ones_like(x))
    assert np.isnan(back[[0, 2]]).all() and np.isfinite(back[1])


@pytest.mark.parametrize("dtype", TYPES)
def test_gelu_tanh_has_a_derivative_everywhere(dtype):
    x = values(dtype, -1e38, 1e38)
    d = program("activation", "gelu_tanh").grad()(x, np.ones_like(x))
    np.testing.assert_array_equal(d[x > 20], 1)
    np.testing.assert_array_equal(d[x < -20], 0)


def pairs(dtype):
    x = np.append(values(dtype), np.array(NAN, dtype))
    a, b = np.meshgrid(x, x)
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("family, function", [("safe", "hypot"), ("complex", "c_abs")])
def test_hypot_and_the_magnitude_of_complex_numbers(family, function, dtype):
    a, b = pairs(dtype)
    f = program(family, function)
    with np.errstate(all="ignore"):
        check(function, f(a, b), np.hypot(a.astype(LONG), b.astype(LONG)), dtype, 4)
        normal = lambda x: np.isfinite(x) & ((np.abs(x) >= np.finfo(dtype).tiny) | (x == 0))
        usual = normal(a) & normal(b) & ((a != 0) | (b != 0))
        da, db = f.grad()(a[usual], b[usual], np.ones_like(a[usual]))
        r = np.hypot(a[usual].astype(LONG), b[usual].astype(LONG))
        check("d" + function, da, a[usual] / r, dtype, 16, np.finfo(dtype).tiny)
        check("d" + function, db, b[usual] / r, dtype, 16, np.finfo(dtype).tiny)
    zero = np.zeros(1, dtype)
    assert all(d == 0 for d in f.grad()(zero, zero, zero + 1))


@pytest.mark.parametrize("dtype", TYPES)
def test_division_and_logarithms_of_large_and_small_complex_numbers(dtype):
    a = np.array([3e30, 3e-30, 1, 1e20, 1, -1], dtype)
    b = np.array([4e30, 4e-30, 1e20, 1, 1e-4, 0], dtype)
    z = a.astype(LONG) + 1j * b.astype(LONG)
    for function, expected in (("c_recip", 1 / z), ("c_log", np.log(z))):
        real, imaginary = program("complex", function)(a, b)
        check(function, real, expected.real, dtype, 8, 1e-6 * np.finfo(dtype).eps)
        check(function, imaginary, expected.imag, dtype, 8)
    one = np.ones_like(a)
    da, db = program("complex", "c_log").grad(of="CR")(a, b, one)
    check("dc_log", da, (a / np.abs(z) ** 2), dtype, 16)
    check("dc_log", db, (b / np.abs(z) ** 2), dtype, 16)
    real, imaginary = program("complex", "c_div")(one, one, a, b)
    check("c_div", real, ((1 + 1j) / z).real, dtype, 16)
    check("c_div", imaginary, ((1 + 1j) / z).imag, dtype, 16)
    assert (
        program("complex", "c_arg")(np.array([1e-30, 0], dtype), np.array([1e-30, 0], dtype))
        == np.array([np.pi / 4, 0], dtype)
    ).all()


def test_xlogy_at_0():
    x, y = np.zeros(6), np.array([0, INF, NAN, -1, 2, 0.5])
    f = program("safe", "xlogy")
    np.testing.assert_array_equal(f(x, y), [0, 0, NAN, 0, 0, 0])        # torch.special.xlogy
    np.testing.assert_allclose(f.grad("X")(x, y, np.ones(6))[4:], np.log(y[4:]))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1e-30, 1, 1e30])
def test_norms_of_any_size(size, dtype):
    x = np.array([[3, 4, 0], [1, -2, 2], [0, 0, 0], [-5, 12, 0]], dtype) * dtype(size)
    length = np.array([5, 3, 0, 13], LONG) * LONG(dtype(size))
    check("row_norms_l2", program("linear", "row_norms_l2")(x), length, dtype, 8)
    check("norm_frobenius", program("linear", "norm_frobenius")(x), np.sqrt(np.sum(length ** 2)), dtype, 8)
    check("norm_l2", program("linear", "norm_l2")(x[1]), length[1], dtype, 8)
    check("norm_lp", program("linear", "norm_lp", (("P", 3),))(x[1]), np.cbrt(LONG(17)) * LONG(dtype(size)), dtype, 16)
    check("l2", program("distance", "l2")(x, 0 * x), length, dtype, 8)
    check("distances", program("loss", "distances")(x, 0 * x), length, dtype, 8)
    check("l2_of", program("distance", "l2_of")(x[3], 0 * x[3]), length[3], dtype, 8)
    check("cosine", program("distance", "cosine")(x, x), [1, 1, 0, 1], dtype, 8)
    gradient = program("linear", "row_norms_l2").grad()(x, np.ones(4, dtype))
    check("drow_norms_l2", gradient, x / np.where(length == 0, 1, length)[:, None], dtype, 16)


@pytest.mark.parametrize("dtype", TYPES)
def test_losses_far_out_and_near_0(dtype):
    x = values(dtype, -1e30, 1e30)
    zero, one = np.zeros_like(x), np.ones_like(x)
    long = x.astype(LONG)
    with np.errstate(all="ignore"):
        check("log_cosh", program("loss", "log_cosh")(x, zero), log_cosh(long), dtype, 6)
        check("dlog_cosh", program("loss", "log_cosh").grad("P")(x, zero, one), np.tanh(long), dtype, 12)
        check("soft_margin", program("loss", "soft_margin")(x, one), softplus(-long), dtype, 6)
        logits = program("loss", "binary_cross_entropy_logits")
        check("binary_cross_entropy_logits", logits(x, zero), softplus(long), dtype, 6)
        check("binary_cross_entropy_logits", logits(x, one), softplus(-long), dtype, 6)
        check("dbinary_cross_entropy_logits", logits.grad("X")(x, one, one), -sigmoid(-long), dtype, 12)
        p = values(dtype, 0, 1)
        check(
            "binary_cross_entropy_each",
            program("loss", "binary_cross_entropy_each")(p, 0 * p),
            np.minimum(-np.log1p(-p.astype(LONG)), 100),
            dtype,
            6,
        )
        focal = program("loss", "focal", (("GAMMA", 1), ("ALPHA", 1)))(x[x < 60], one[x < 60])
        check("focal", focal, sigmoid(-long[x < 60]) * softplus(-long[x < 60]), dtype, 12)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_labels_of_any_integer_type(dtype):
    x, label = np.arange(12, dtype=np.float32).reshape(3, 4) / 8, np.array([1, 3, 0])
    given = label.astype(dtype)
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    row = -log_p[np.arange(3), label]
    for function, expected in (
        ("mean_cross_entropy", row.mean()),
        ("nll", -x[np.arange(3), label]),
        ("mean_nll", -x[np.arange(3), label].mean()),
    ):
        np.testing.assert_allclose(program("loss", function)(x, given), expected, rtol=1e-6)
    for function in ("cross_entropy_smooth", "multi_margin"):
        np.testing.assert_array_equal(program("loss", function)(x, given), program("loss", function)(x, label))
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(program("embedding", "embedding")(given, table), table[label])
    np.testing.assert_array_equal(program("embedding", "one_hot_lookup")(given, table), table[label])
    bag = program("embedding", "embedding_bag", (("mode", "sum"),))(given[None], table)
    np.testing.assert_array_equal(bag, table[label].sum(0)[None])
    np.testing.assert_array_equal(program("embedding", "one_hot")(given, 4), np.eye(4)[label])
    assert program("loss", "mean_cross_entropy").grad("X")(x, given, np.float32(1)).shape == x.shape


def test_ignored_rows_count_for_nothing():
    log_p, label = np.array([[-1, -2], [-3, -4], [-5, -6]], np.float32), np.array([1, 0, 1])
    for function in ("mean_nll", "mean_cross_entropy"):
        f = program("loss", function, (("IGNORE", 0),))
        kept = program("loss", function)(log_p[[0, 2]], label[[0, 2]])
        np.testing.assert_allclose(f(log_p, label), kept, rtol=1e-6)
        assert (f.grad("LOGP" if function == "mean_nll" else "X")(log_p, label, np.float32(1))[1] == 0).all()
    np.testing.assert_array_equal(program("loss", "nll", (("IGNORE", 0),))(log_p, label), [2, 0, 6])


def test_rows_that_are_masked_whole():
    """torch.nn.functional.scaled_dot_product_attention gives 0 there, and derivatives of 0."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 2, 3, 4)) for _ in range(3))
    bias = np.array([[0, -INF, 1], [-INF] * 3, [-INF, 2, -INF]])
    f = program("attention", "attention_bias")
    out = f(q, k, v, bias)
    assert (out[:, :, 1] == 0).all() and np.isfinite(out).all()
    np.testing.assert_allclose(out[:, :, 2], v[:, :, 1])
    gradients = f.grad()(q, k, v, bias, np.ones_like(out))
    assert all(np.isfinite(g).all() for g in gradients) and (gradients[0][:, :, 1] == 0).all()
    x = np.array([[-INF, -INF], [1, -INF]])
    softmax = program("softmax", "masked_softmax")
    np.testing.assert_array_equal(softmax(x, np.ones((2, 2), bool)), [[0, 0], [1, 0]])
    assert (softmax.grad("X")(x, np.ones((2, 2), bool), np.ones((2, 2))) == 0).all()


@pytest.mark.parametrize(
    "family, function, inputs",
    [
        ("softmax", "logsumexp", ["rows"]),
        ("softmax", "cumulative_logsumexp", ["rows"]),
        ("scan", "cumlogsumexp_rows", ["rows"]),
        ("scan", "cumlogsumexp", ["row"]),
        ("tropical", "log_matmul", ["rows", "square"]),
        ("tropical", "log_matvec", ["rows", "row"]),
        ("tropical", "forward_step", ["row", "square", "row"]),
    ],
)
def test_sums_of_nothing_in_logarithms(family, function, inputs):
    shapes = {"rows": (2, 3), "row": (3,), "square": (3, 3)}
    given = [np.full(shapes[name], -INF) if k == 0 else np.zeros(shapes[name]) for k, name in enumerate(inputs)]
    f = program(family, function)
    out = f(*given)
    assert (out == -INF).all()
    assert all(np.isfinite(g).all() for g in as_tuple(f.grad()(*given, np.ones_like(out))))


@pytest.mark.parametrize("before, after", [(-1, 1), (1, -1), (-1, -1), (2, -2), (-1, 2), (0, 0), (-4, 1)])
def test_negative_padding_crops(before, after):
    x = np.array([1.0, 2, 3, 4])
    cropped = x[max(-before, 0):len(x) - max(-after, 0)]
    define = (("BEFORE", before), ("AFTER", after))
    np.testing.assert_array_equal(
        program("movement", "pad", define)(x), np.pad(cropped, (max(before, 0), max(after, 0)))
    )
    edge = x[np.clip(np.arange(-before, len(x) + after), 0, len(x) - 1)]
    np.testing.assert_array_equal(program("movement", "pad_edge", define)(x), edge)
    mirrored = np.pad(x, (max(before, 0), max(after, 0)), mode="reflect")
    np.testing.assert_array_equal(
        program("movement", "pad_reflect", define)(x), mirrored[max(-before, 0) : len(mirrored) - max(-after, 0)]
    )
    if len(cropped):
        f = program("movement", "pad_circular", define)
        np.testing.assert_array_equal(f(x), np.pad(cropped, (max(before, 0), max(after, 0)), mode="wrap"))
        assert f.grad()(x, np.ones(len(x) + before + after)).sum() == len(x) + before + after


@pytest.mark.parametrize("family, layout", [("pool", lambda x: x[:, :, None]), ("pool_nchw", lambda x: x[:, None, :])])
def test_windows_wholly_in_the_padding_are_refused(family, layout):
    x = layout(np.array([[1.0, -2]]))
    suffix = "" if family == "pool" else "_ncw"
    for name in ("max_pool1d", "avg_pool1d"):
        with pytest.raises(tilec.ShapeError, match="assert_padding_is_less_than_the_kernel"):
            program(family, name + suffix, (("kernel_size", 2), ("stride", 2), ("padding", 2)))(x)
        pool = program(family, name + suffix, (("kernel_size", 2), ("stride", 2), ("padding", 1)))
        expected = [1, -2] if name == "max_pool1d" else [0.5, -1]
        np.testing.assert_array_equal(np.ravel(pool(x)), expected)


SCALARS = [
    "squared_error",
    "absolute_error",
    "huber",
    "smooth_l1",
    "log_cosh",
    "binary_cross_entropy_logits",
    "focal",
    "poisson",
    "hinge",
    "soft_margin",
    "hinge_embedding",
]


@pytest.mark.parametrize("function", SCALARS)
def test_losses_of_numbers_and_of_nothing(function):
    """A scalar is a tensor of rank 0, given as an array, as a float or as an integer; an empty tensor has an empty
    loss."""
    f = program("loss", function)
    whole = f(np.array([16.0, 2.0]), np.array([1.0, 1.0]))
    assert f(np.array(16.0), np.array(1.0)) == whole[0]
    assert f(np.float32(16), np.float32(1)) == pytest.approx(whole[0], rel=1e-5)
    assert f(16, 1) == pytest.approx(whole[0], rel=1e-5)
    assert f(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0, 3)
    assert f.grad("P" if "P" in f.inputs else "X")(np.array(2.0), np.array(1.0), np.array(1.0)).shape == ()
