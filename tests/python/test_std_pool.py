"""std/pool.tile and std/pool_nchw.tile: values next to windows in NumPy, gradients next to differences, and both next
to PyTorch."""
import itertools

import numpy as np
import pytest

import tilec
from std_axes import AXES, NAMES_FIRST, for_all_or_each
from std_numpy import agree, check, check_adjoint, check_with_torch, program


def windows(image, size, stride, padding, dilation):
    """Channels last. The places, and for each the coordinates of the pixels of its window that lie inside, per
    dimension."""
    extents = image.shape[1:-1]
    counts = [max(0, x + 2*p - d*(k - 1) - 1 + s)//s for x, k, s, p, d in zip(extents, size, stride, padding, dilation)]
    for place in np.ndindex(*counts):
        yield counts, place, [[y for y in (s*i + d*t - p for t in range(k)) if 0 <= y < x]
                              for i, x, k, s, p, d in zip(place, extents, size, stride, padding, dilation)]


def pool(image, reduce, size, stride, padding, dilation):
    """reduce: from the pixels of a window [N, pixels, C] and the size of the full one to [N, C]."""
    out = None
    for counts, place, inside in windows(image, size, stride, padding, dilation):
        out = np.zeros([len(image), *counts, image.shape[-1]]) if out is None else out
        pixels = [image[(slice(None), *at)] for at in itertools.product(*inside)]
        out[(slice(None), *place)] = reduce(np.stack(pixels, 1), np.prod(size))
    return np.zeros([len(image)] + [0]*(image.ndim - 2) + [image.shape[-1]]) if out is None else out


REDUCE = {
    "max": lambda define: lambda pixels, full: pixels.max(1),
    "avg": lambda define: lambda pixels, full: pixels.sum(1)/full,
    "inside": lambda define: lambda pixels, full: pixels.mean(1),
    "lp": lambda define: lambda pixels, full: np.sum(np.abs(pixels)**define.get("L", 2), 1)**(1/define.get("L", 2)),
}


def parts(function, define):
    """Which reduction; whether channels come first; window, stride, padding and dilation of each dimension."""
    rank = next(r for r in (1, 2, 3) if "%dd" % r in function)
    def each(letter, default):
        return [define.get(letter + a, define.get(letter, d)) for a, d in zip(("T", "H", "W")[3 - rank:], default)]
    size = each("K", [2]*rank)
    which = "inside" if "inside" in function else next(w for w in ("max", "avg", "lp") if w in function)
    return which, "_nc" in function, size, each("S", size), each("P", [0]*rank), each("D", [1]*rank)


def reference(function, define):
    which, channels_first, size, stride, padding, dilation = parts(function, define)
    def forward(image):
        image = np.moveaxis(image, 1, -1) if channels_first else image
        extents = image.shape[1:-1]
        if "global" in function:
            return (
                image.reshape(len(image), -1, image.shape[-1]).max(1)
                if which == "max"
                else image.mean(tuple(range(1, image.ndim - 1)))
            )
        window, step = (
            (size, stride)
            if "adaptive" not in function
            else ([x // define[o] for x, o in zip(extents, ("OH", "OW"))],) * 2
        )
        out = pool(image, REDUCE[which](define), window, step, padding, dilation)
        return np.moveaxis(out, -1, 1) if channels_first else out
    return forward


# function of channels last, its name where channels come first, parameters, shape of channels last.
CASES = [
    ("max_pool1d", "max_pool1d_ncw", {}, (2, 7, 3)),
    ("max_pool1d", "max_pool1d_ncw", {"K": 3, "S": 2, "P": 1, "D": 2}, (1, 11, 2)),
    ("max_pool1d", "", {"K": 2, "S": 5}, (1, 13, 1)),
    ("max_pool1d", "", {"K": 4}, (1, 4, 2)),
    ("max_pool1d", "", {"K": 1}, (1, 1, 1)),
    ("max_pool2d", "max_pool2d_nchw", {}, (1, 5, 6, 2)),
    ("max_pool2d", "max_pool2d_nchw", {"K": 3, "S": 2, "P": 1}, (1, 6, 5, 2)),
    ("max_pool2d", "", {"K": 3, "S": 1, "D": 2, "P": 1}, (1, 5, 7, 1)),
    ("max_pool2d_hw", "max_pool2d_nchw_hw", {"KH": 2, "KW": 3, "SH": 2, "SW": 1, "PH": 0, "PW": 1}, (1, 6, 5, 2)),
    ("max_pool2d_hw", "max_pool2d_nchw_hw", {"KH": 1, "KW": 3}, (1, 2, 7, 1)),
    ("max_pool3d", "max_pool3d_ncdhw", {"K": 3, "S": 2, "P": 1}, (1, 3, 4, 5, 2)),
    ("max_pool3d", "", {}, (1, 2, 5, 2, 1)),
    ("avg_pool1d", "avg_pool1d_ncw", {}, (2, 7, 3)),
    ("avg_pool1d", "avg_pool1d_ncw", {"K": 3, "S": 2, "P": 1}, (1, 8, 2)),
    ("avg_pool1d", "", {"K": 2, "S": 5}, (1, 13, 1)),
    ("avg_pool1d", "", {"K": 4}, (1, 4, 2)),
    ("avg_pool2d", "avg_pool2d_nchw", {}, (1, 5, 6, 2)),
    ("avg_pool2d", "avg_pool2d_nchw", {"K": 3, "S": 2, "P": 1}, (1, 6, 5, 2)),
    ("avg_pool2d_hw", "avg_pool2d_nchw_hw", {"KH": 2, "KW": 3, "SH": 2, "SW": 1, "PH": 0, "PW": 1}, (1, 6, 5, 2)),
    ("avg_pool3d", "avg_pool3d_ncdhw", {"K": 3, "S": 2, "P": 1}, (1, 3, 4, 5, 1)),
    ("avg_pool1d_inside", "", {"K": 3, "S": 2, "P": 1}, (1, 8, 2)),
    ("avg_pool2d_inside", "avg_pool2d_nchw_inside", {"K": 3, "S": 2, "P": 1}, (1, 6, 5, 2)),
    ("avg_pool3d_inside", "", {"K": 3, "S": 2, "P": 1}, (1, 3, 4, 3, 1)),
    ("lp_pool1d", "", {}, (2, 7, 2)),
    ("lp_pool1d", "", {"L": 3, "K": 3, "S": 2}, (1, 9, 2)),
    ("lp_pool2d", "lp_pool2d_nchw", {"L": 4, "K": 3, "S": 2}, (1, 5, 7, 2)),
    ("adaptive_avg_pool2d", "adaptive_avg_pool2d_nchw", {"OH": 2, "OW": 3}, (1, 4, 6, 2)),
    ("adaptive_max_pool2d", "adaptive_max_pool2d_nchw", {"OH": 2, "OW": 1}, (1, 4, 5, 2)),
    ("global_avg_pool1d", "global_avg_pool1d_ncw", {}, (2, 5, 3)),
    ("global_avg_pool2d", "global_avg_pool2d_nchw", {}, (2, 3, 5, 2)),
    ("global_avg_pool3d", "global_avg_pool3d_ncdhw", {}, (1, 2, 3, 4, 2)),
    ("global_max_pool1d", "global_max_pool1d_ncw", {}, (2, 5, 3)),
    ("global_max_pool2d", "global_max_pool2d_nchw", {}, (2, 3, 5, 2)),
    ("global_max_pool3d", "global_max_pool3d_ncdhw", {}, (1, 2, 3, 4, 2)),
]
ALL = (
    [("pool", f, define, shape) for f, _, define, shape in CASES]
    + [("pool_nchw", f, define, (shape[0], shape[-1], *shape[1:-1])) for _, f, define, shape in CASES if f]
    + [
        (
            "pool_nchw",
            "%s_pool3d_ncdhw_thw" % which,
            {"KT": 1, "KH": 2, "KW": 3, "ST": 2, "SH": 2, "SW": 1, "PT": 0, "PH": 1, "PW": 1},
            (1, 2, 3, 5, 4),
        )
        for which in ("max", "avg")
    ]
)
names = lambda c: "%s %s" % (c[1], " ".join("%s%g" % item for item in c[2].items())) if isinstance(c, tuple) else str(c)


def image_of(shape):
    """Numbers that all differ by more than a step of the differences, so that no maximum is tied."""
    rng = np.random.default_rng(8)
    return rng.permutation(np.linspace(-1, 1.1, int(np.prod(shape)))).reshape(shape)


@pytest.mark.parametrize("case", ALL, ids=names)
def test_next_to_numpy(case):
    family, function, define, shape = case
    check(family, function, define, [image_of(shape)], reference(function, define))


@pytest.mark.parametrize("target", ["reference", "opencl"])
@pytest.mark.parametrize(
    "case",
    [c for c in ALL if c[1] in ("max_pool1d", "max_pool2d_nchw_hw", "avg_pool2d_inside", "lp_pool1d")],
    ids=names,
)
def test_other_targets(case, target):
    family, function, define, shape = case
    check(family, function, define, [image_of(shape)], reference(function, define), np.float32, target)


@pytest.mark.parametrize(
    "case", [c for c in ALL if c[1] in ("max_pool1d", "lp_pool2d", "avg_pool3d_inside")], ids=names
)
def test_forward_mode_is_the_transpose_of_the_gradient(case):
    family, function, define, shape = case
    check_adjoint(family, function, define, [shape])


def in_torch(function, define, torch):
    which, channels_first, size, stride, padding, dilation = parts(function, define)
    f, rank = torch.nn.functional, len(size)
    def call(image):
        image = image if channels_first else image.movedim(-1, 1)
        if "global" in function:
            flat = image.flatten(2)
            return flat.mean(2) if which == "avg" else flat.max(2).values
        if "adaptive" in function:
            out = getattr(f, "adaptive_%s_pool2d" % which)(image, (define["OH"], define["OW"]))
        elif which == "max":
            out = getattr(f, "max_pool%dd" % rank)(image, size, stride, padding, dilation)
        elif which == "lp":
            out = getattr(f, "lp_pool%dd" % rank)(
                image.abs(), define.get("L", 2), size if rank > 1 else size[0], stride if rank > 1 else stride[0]
            )
        else:
            out = getattr(f, "avg_pool%dd" % rank)(image, size, stride, padding, count_include_pad=which == "avg")
        return out if channels_first else out.movedim(1, -1)
    return call


@pytest.mark.parametrize("case", ALL, ids=names)
def test_next_to_pytorch(case):
    torch = pytest.importorskip("torch")
    family, function, define, shape = case
    if reference(function, define)(image_of(shape)).size == 0:
        pytest.skip("PyTorch refuses the window")
    check_with_torch(family, function, define, [image_of(shape)], in_torch(function, define, torch))


@pytest.mark.parametrize(
    "function, define",
    [("max_pool2d", {"K": 3, "S": 2, "P": 1}), ("max_pool2d_nchw", {"K": 3, "S": 1}), ("global_max_pool2d", {})],
)
def test_of_equal_pixels_the_first_gets_the_derivative_as_in_pytorch(function, define):
    torch = pytest.importorskip("torch")
    image = np.random.default_rng(2).integers(0, 3, (2, 6, 5, 6)).astype(np.float64)
    check_with_torch(
        "pool_nchw" if "_nc" in function else "pool",
        function,
        define,
        [image],
        in_torch(function, define, torch),
        np.float64,
    )


def test_lp_pooling_has_derivative_zero_at_zero():
    image = np.zeros((1, 4, 1))
    f = program("pool", "lp_pool1d")
    assert np.array_equal(f.grad()(image, np.ones((1, 2, 1))), image) and np.array_equal(
        f.jvp()(image, image + 1), np.zeros((1, 2, 1))
    )


def test_half_precision_adds_in_single_and_integers_stay_exact():
    image = np.full((1, 300, 300, 1), 30, np.float16)
    assert program("pool", "global_avg_pool2d")(image).item() == pytest.approx(30, rel=1e-3)
    whole = np.random.default_rng(1).integers(-9, 9, (1, 5, 6, 2)).astype(np.int32)
    got = program("pool", "max_pool2d")(whole)
    assert got.dtype == np.int32 and np.array_equal(got, reference("max_pool2d", {})(whole))
    agree("avg_pool2d", program("pool", "avg_pool2d")(whole), reference("avg_pool2d", {})(whole), np.float32, 1e-6)


@pytest.mark.parametrize("which, reduce", [("avg", np.mean), ("max", np.max)])
@pytest.mark.parametrize(
    "extents, sizes", [((7,), (3,)), ((3,), (5,)), ((7, 5), (3, 4)), ((6, 8), (4, 3)), ((3, 7, 4), (2, 3, 4))]
)
def test_adaptive_windows_of_different_sizes(which, reduce, extents, sizes):
    def forward(image):
        out = np.zeros((*image.shape[:2], *sizes))
        for place in np.ndindex(*sizes):
            window = tuple(slice(x*i // o, -(-x*(i + 1) // o)) for x, i, o in zip(extents, place, sizes))
            out[(..., *place)] = reduce(image[(..., *window)].reshape(*image.shape[:2], -1), -1)
        return out
    rank, define = len(sizes), dict(zip(("OT", "OH", "OW")[3 - len(sizes):], sizes))
    image = image_of((2, 3, *extents))
    check(
        "pool_nchw",
        "adaptive_%s_pool%dd_%s" % (which, rank, ("ncw", "nchw", "ncdhw")[rank - 1]),
        define,
        [image],
        forward,
    )
    if rank == 2:
        check(
            "pool",
            "adaptive_%s_pool2d" % which,
            define,
            [np.moveaxis(image, 1, -1)],
            lambda x: np.moveaxis(forward(np.moveaxis(x, -1, 1)), 1, -1),
        )


def drawn(rng, rank, names):
    define, each = {}, {}
    for name in names:
        values = {
            "kernel_size": rng.integers(2, 4, rank),
            "stride": rng.integers(1, 4, rank),
            "padding": rng.integers(0, 2, rank),
            "dilation": rng.integers(1, 3, rank),
        }[name].tolist()
        each[name] = for_all_or_each(rng, name, values, define)
    if rng.random() < 0.4:                             # the stride is that of the window
        define = {name: v for name, v in define.items() if not name.startswith("stride")}
        each["stride"] = each["kernel_size"]
    define["ceil_mode"] = int(rng.integers(0, 2))
    return define, each


@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("which", ["max", "avg"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_any_mix_of_options_as_in_pytorch(rank, which, first, seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng([rank, which == "max", first, seed])
    define, each = drawn(rng, rank, ("kernel_size", "stride", "padding") + (("dilation",) if which == "max" else ()))
    f, more = getattr(torch.nn.functional, "%s_pool%dd" % (which, rank)), {}
    if which == "max":
        more = {"dilation": each["dilation"]}
    else:
        more["count_include_pad"] = bool(rng.integers(0, 2))
        define["count_include_pad"] = int(more["count_include_pad"])
        if rank > 1 and rng.random() < 0.3:
            more["divisor_override"] = define["divisor_override"] = 7
    image = image_of((2, 3, *[9 - rank]*rank))

    def reference(x):
        x = x if first else x.movedim(-1, 1)
        y = f(x, each["kernel_size"], each["stride"], each["padding"], ceil_mode=bool(define["ceil_mode"]), **more)
        return y if first else y.movedim(1, -1)
    name = "%s_pool%dd" % (which, rank) + ("_" + NAMES_FIRST[rank] if first else "")
    check_with_torch(
        "pool_nchw" if first else "pool",
        name,
        define,
        [image if first else np.moveaxis(image, 1, -1)],
        reference,
        np.float64,
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_indices_of_the_largest_and_back(rank, seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng([rank, seed, 2])
    define, each = drawn(rng, rank, ("kernel_size", "stride", "padding", "dilation"))
    image = np.round(image_of((2, 3, *[9 - rank]*rank)), 1 if seed else 3)  # ties, of which the first counts
    if seed == 3:
        image[0, 1].reshape(-1)[5] = np.nan
    expected, where = getattr(torch.nn.functional, "max_pool%dd" % rank)(
        torch.tensor(image),
        each["kernel_size"],
        each["stride"],
        each["padding"],
        each["dilation"],
        bool(define["ceil_mode"]),
        return_indices=True,
    )
    got, indices = program("pool_nchw", "max_pool%dd_%s_with_indices" % (rank, NAMES_FIRST[rank]), tuple(define.items()))(
        image
    )
    np.testing.assert_array_equal(got, expected.numpy())
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, where.numpy())
    sizes = dict(zip(["output_size"] if rank == 1 else ["output_" + a[0] for a in AXES[rank]], image.shape[2:]))
    back = program("pool_nchw", "max_unpool%dd_%s" % (rank, NAMES_FIRST[rank]), tuple(sizes.items()))(got, indices)
    flat = np.zeros((2, 3, image[0, 0].size))
    np.put_along_axis(flat, indices.reshape(2, 3, -1), got.reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(back, flat.reshape(image.shape))


def test_average_counts_what_same_padding_adds_where_asked():
    image = np.ones((1, 4, 1))
    for include, expected in ((1, [1, 1, 1, 0.5]), (0, [1, 1, 1, 1])):
        got = program(
            "pool",
            "avg_pool1d",
            (("kernel_size", 2), ("stride", 1), ("auto_pad", "same_upper"), ("count_include_pad", include)),
        )(image)
        np.testing.assert_array_equal(got[0, :, 0], expected)


@pytest.mark.parametrize(
    "function",
    [
        "max_pool1d",
        "avg_pool2d",
        "lp_pool3d",
        "max_pool2d_nchw",
        "avg_pool3d_ncdhw",
        "lp_pool1d_ncw",
        "max_pool2d_nchw_with_indices",
    ],
)
@pytest.mark.parametrize(
    "define, words",
    [
        ({"padding": 2}, "assert_padding_is_less_than_the_kernel"),
        ({"kernel_size": 3, "dilation": 0}, "assert_"),
        ({"padding": -1}, "assert_padding_is_not_negative"),
        ({"kernel_size": 0}, "assert_kernel_has_an_element"),
        ({"stride": -1}, "assert_stride_is_1_or_more"),
        ({"kernel_size": 5}, "assert_kernel_fits_in_image_with_its_padding"),
    ],
)
def test_options_that_mean_nothing_are_errors(function, define, words):
    with pytest.raises(tilec.Error, match=words):
        program("pool_nchw" if "_nc" in function else "pool", function, tuple(define.items()))(
            np.ones((4,) * (2 + int(function.split("pool")[1][0])), "f4")
        )


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("norm, kernel, stride, size", [(1, 2, 2, 5), (2, 4, 3, 6), (3, 3, 2, 6), (2, 2, 2, 4)])
def test_lp_pools_whose_last_window_is_cut(rank, norm, kernel, stride, size):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(rank).uniform(0.5, 2, (2, 3) + (size,) * rank).astype("f4")
    expected = getattr(torch.nn.functional, "lp_pool%dd" % rank)(
        torch.tensor(x), norm, kernel, stride, ceil_mode=True
    ).numpy()
    define = (("norm_type", norm), ("kernel_size", kernel), ("stride", stride), ("ceil_mode", 1))
    last = program("pool", "lp_pool%dd" % rank, define)(np.moveaxis(x, 1, -1))
    first = program("pool_nchw", "lp_pool" + {1: "1d_ncw", 2: "2d_nchw", 3: "3d_ncdhw"}[rank], define)(x)
    np.testing.assert_allclose(first, expected, rtol=1e-5)
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), expected, rtol=1e-5)
