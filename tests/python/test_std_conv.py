"""std/conv.tile and std/conv_nchw.tile: values next to a convolution in NumPy, gradients next to differences of it, and
both next to PyTorch."""
import numpy as np
import pytest

import tilec
from std_axes import AXES, NAMES_FIRST, for_all_or_each
from std_numpy import agree, check, check_adjoint, check_with_torch, program


def conv(image, kernel, stride, dilation, padding, groups=1):
    """The convolution by definition, channels last, any rank: for each tap the part of the image it sees, times the
    tap."""
    rank = kernel.ndim - 2
    image = np.pad(image, [(0, 0), *padding, (0, 0)])
    taps, inner, outer = kernel.shape[:rank], kernel.shape[-2], kernel.shape[-1]
    places = [max(0, x - d*(k - 1) - 1 + s) // s for x, k, s, d in zip(image.shape[1:], taps, stride, dilation)]
    out = np.zeros([image.shape[0], *places, outer])
    for tap in np.ndindex(*taps):
        seen = image[
            (
                slice(None),
                *(
                    slice(d * t, d * t + s * (p - 1) + 1 if p else 0, s)
                    for t, d, s, p in zip(tap, dilation, stride, places)
                ),
            )
        ]
        for g in range(groups):
            mine = slice(g*outer//groups, (g + 1)*outer//groups)
            out[..., mine] += seen[..., g*inner:(g + 1)*inner] @ kernel[tap][:, mine]
    return out


def same(x, k, s, d):
    total = max(0, ((x + s - 1)//s - 1)*s + d*(k - 1) + 1 - x)
    return total//2, total - total//2


def transposed(image, kernel, stride, dilation, padding, extra, groups=1):
    """Each pixel of the image spreads the kernel; a kernel is [taps…, CI, CO of one group]."""
    rank = kernel.ndim - 2
    taps, inner, outer = kernel.shape[:rank], kernel.shape[-2], kernel.shape[-1]
    full = [s*(x - 1) + d*(k - 1) + 1 + e for x, k, s, d, e in zip(image.shape[1:], taps, stride, dilation, extra)]
    out = np.zeros([image.shape[0], *full, outer*groups])
    for tap in np.ndindex(*taps):
        where = (
            slice(None),
            *(slice(d * t, d * t + s * (x - 1) + 1, s) for t, d, s, x in zip(tap, dilation, stride, image.shape[1:])),
        )
        for g in range(groups):
            mine = slice(g*inner//groups, (g + 1)*inner//groups)
            out[(*where, slice(g*outer, (g + 1)*outer))] += image[..., mine] @ kernel[tap][mine]
    return out[(slice(None), *(slice(p, n - p) for p, n in zip(padding, full)))]


def kind(function: str):
    return 3 if "3d" in function else 2 if "2d" in function else 1


def parameters(define, rank):
    """Stride, dilation, padding and output padding of each dimension."""
    def each(letter, default):
        return [define.get(letter + d, define.get(letter, default)) for d in ("T", "H", "W")][3 - rank:]
    return each("S", 1), each("D", 1), each("P", 0), each("E", 0)


def last(x):
    return np.moveaxis(x, 1, -1)


def first(x):
    return np.moveaxis(x, -1, 1)


def reference(function: str, define: dict):
    """The NumPy function that std's is described by."""
    rank = kind(function)
    stride, dilation, padding, extra = parameters(define, rank)
    groups = define.get("G", 1)
    pads = [(p, p) for p in padding]
    if function == "conv2d_padded":
        pads = [(define["A"], define["B"]), (define["L"], define["R"])]
    hwio = lambda k: np.moveaxis(k, [0, 1], [-1, -2])
    def depthwise(image, kernel, around=pads):
        c, m = kernel.shape[-2:]
        return conv(image, kernel.reshape(*kernel.shape[:-2], 1, c*m), stride, dilation, around, c)
    def sames(shape, taps):
        return [same(*each) for each in zip(shape, taps, stride, dilation)]
    if "_nc" in function:
        if "transpose" in function:
            return lambda i, k: first(
                transposed(last(i), np.moveaxis(k, [0, 1], [-2, -1]), stride, dilation, padding, extra, groups)
            )
        if "depthwise" in function:
            return lambda i, k: first(conv(last(i), hwio(k), stride, dilation, pads, i.shape[1]))
        if "same" in function:
            return lambda i, k: first(conv(last(i), hwio(k), stride, dilation, sames(i.shape[2:], k.shape[2:]), groups))
        return lambda i, k: first(conv(last(i), hwio(k), stride, dilation, pads, groups))
    if "transpose" in function:
        return lambda i, k: transposed(i, k, stride, dilation, padding, extra)
    if function == "depthwise_conv2d_same":
        return lambda i, k: depthwise(i, k, sames(i.shape[1:-1], k.shape[:2]))
    if "depthwise" in function:
        return depthwise
    if "separable" in function:
        return lambda i, k, mix: depthwise(i, k) @ mix[0, 0]
    if "same" in function:
        return lambda i, k: conv(i, k, stride, dilation, sames(i.shape[1:-1], k.shape[:rank]))
    return lambda i, k: conv(i, k, stride, dilation, pads, groups)


# function, parameters, shapes: plain, strides that leave a rest, kernels that do not fit, stride beyond the kernel, one
# channel a group.
LAST = [
    ("conv1d", {}, (2, 7, 3), (3, 3, 2)),
    ("conv1d", {"S": 3, "D": 2, "P": 2}, (1, 8, 2), (3, 2, 3)),
    ("conv1d", {"S": 4}, (1, 10, 1), (2, 1, 1)),
    ("conv1d", {"P": 1}, (2, 5, 1), (7, 1, 2)),
    ("conv1d", {"P": 4, "D": 3}, (1, 1, 1), (3, 1, 1)),
    ("conv2d", {}, (2, 4, 5, 2), (3, 2, 2, 3)),
    ("conv2d", {"S": 2, "P": 1}, (1, 5, 6, 2), (3, 3, 2, 2)),
    ("conv2d", {"S": 3, "D": 2, "P": 3}, (1, 4, 3, 1), (2, 3, 1, 2)),
    ("conv2d", {"S": 5}, (1, 6, 7, 1), (2, 2, 1, 1)),
    ("conv2d", {}, (1, 1, 1, 1), (1, 1, 1, 1)),
    ("conv2d", {}, (1, 3, 5, 1), (3, 2, 1, 1)),
    ("conv2d_hw", {"SH": 2, "SW": 1, "DH": 1, "DW": 2, "PH": 0, "PW": 2}, (1, 5, 4, 2), (2, 3, 2, 2)),
    ("conv2d_padded", {"A": 0, "B": 3, "L": 2, "R": 1}, (1, 3, 2, 2), (3, 2, 2, 1)),
    ("conv2d_padded", {"A": 1, "B": 2, "L": 0, "R": 1, "S": 2, "D": 2}, (1, 3, 5, 1), (2, 2, 1, 2)),
    ("conv3d", {"S": 2, "P": 1}, (1, 3, 2, 3, 2), (2, 3, 2, 2, 2)),
    ("conv3d", {"D": 2}, (1, 3, 4, 3, 1), (2, 2, 1, 1, 2)),
    ("conv1d_valid", {"S": 2}, (1, 7, 2), (3, 2, 1)),
    ("conv2d_valid", {"S": 2, "D": 2}, (1, 7, 6, 1), (3, 2, 1, 2)),
    ("conv3d_valid", {}, (1, 3, 3, 2, 1), (2, 2, 2, 1, 1)),
    ("conv1d_same", {"S": 1}, (1, 6, 2), (4, 2, 1)),
    ("conv1d_same", {"S": 3, "D": 2}, (1, 10, 2), (3, 2, 2)),
    ("conv1d_same", {"S": 5}, (1, 9, 1), (2, 1, 1)),
    ("conv2d_same", {"S": 2}, (1, 5, 6, 2), (3, 4, 2, 1)),
    ("conv2d_same", {"D": 3}, (1, 2, 3, 1), (2, 3, 1, 1)),
    ("conv3d_same", {"S": 2}, (1, 3, 4, 2, 1), (2, 3, 1, 1, 2)),
    ("conv1d_groups", {"G": 3, "S": 2, "P": 1}, (2, 6, 6), (3, 2, 3)),
    ("conv1d_groups", {"G": 4}, (1, 3, 4), (2, 1, 4)),
    ("conv2d_groups", {"G": 2, "P": 1, "D": 2}, (1, 4, 3, 4), (2, 2, 2, 6)),
    ("conv2d_groups", {"G": 3}, (1, 3, 3, 3), (2, 2, 1, 3)),
    ("depthwise_conv1d", {"S": 2, "P": 1}, (2, 6, 3), (3, 3, 2)),
    ("depthwise_conv2d", {"S": 2, "P": 1}, (1, 4, 5, 3), (3, 2, 3, 2)),
    ("depthwise_conv2d", {}, (1, 3, 3, 2), (2, 3, 2, 1)),
    ("depthwise_conv2d_same", {"S": 2}, (1, 5, 4, 2), (3, 2, 2, 2)),
    ("separable_conv2d", {"S": 2, "P": 1}, (1, 4, 5, 2), (3, 2, 2, 2), (1, 1, 4, 3)),
    ("conv1d_transpose", {}, (2, 4, 2), (3, 2, 3)),
    ("conv1d_transpose", {"S": 3, "D": 2, "P": 1, "E": 2}, (1, 4, 2), (3, 2, 2)),
    ("conv1d_transpose", {"S": 4, "E": 1}, (1, 3, 1), (2, 1, 2)),
    ("conv2d_transpose", {"S": 2, "P": 1, "E": 1}, (1, 3, 2, 2), (3, 3, 2, 2)),
    ("conv2d_transpose", {"D": 2, "P": 2}, (1, 3, 4, 1), (2, 3, 1, 2)),
    (
        "conv2d_transpose_hw",
        {"SH": 2, "SW": 3, "DH": 1, "DW": 2, "PH": 1, "PW": 0, "EH": 1, "EW": 0},
        (1, 3, 2, 2),
        (3, 2, 2, 1),
    ),
    ("conv3d_transpose", {"S": 2, "P": 1, "E": 1}, (1, 2, 3, 2, 2), (3, 2, 2, 2, 1)),
]
FIRST = [
    ("conv1d_ncw", {}, (2, 3, 7), (2, 3, 3)),
    ("conv1d_ncw", {"S": 2, "D": 2, "P": 2, "G": 2}, (1, 4, 8), (6, 2, 3)),
    ("conv1d_ncw", {"G": 3}, (1, 3, 4), (3, 1, 2)),
    ("conv2d_nchw", {}, (1, 2, 4, 5), (3, 2, 3, 2)),
    ("conv2d_nchw", {"S": 2, "D": 2, "P": 1, "G": 2}, (1, 4, 5, 6), (2, 2, 2, 3)),
    ("conv2d_nchw", {"S": 4, "P": 1}, (1, 1, 5, 5), (2, 1, 2, 2)),
    ("conv2d_nchw_hw", {"SH": 2, "SW": 1, "DH": 1, "DW": 2, "PH": 0, "PW": 2}, (1, 2, 5, 4), (2, 2, 2, 3)),
    ("conv2d_nchw_valid", {"S": 2, "G": 2}, (1, 4, 5, 4), (2, 2, 2, 3)),
    ("conv2d_nchw_same", {"S": 2}, (1, 2, 5, 6), (1, 2, 3, 4)),
    ("conv3d_ncdhw", {"S": 2, "P": 1, "G": 2}, (1, 2, 3, 2, 3), (2, 1, 2, 3, 2)),
    ("depthwise_conv2d_nchw", {"P": 1}, (1, 3, 4, 3), (6, 1, 3, 2)),
    ("conv1d_transpose_ncw", {"S": 3, "D": 2, "P": 1, "E": 2, "G": 2}, (1, 4, 4), (4, 2, 3)),
    ("conv2d_transpose_nchw", {"S": 2, "P": 1, "E": 1}, (1, 2, 3, 2), (2, 2, 3, 3)),
    ("conv2d_transpose_nchw", {"G": 2}, (1, 2, 2, 3), (2, 2, 2, 1)),
    ("conv3d_transpose_ncdhw", {"S": 2, "P": 1, "E": 1}, (1, 2, 2, 3, 2), (2, 1, 3, 2, 2)),
    (
        "conv3d_ncdhw_thw",
        {"ST": 1, "SH": 2, "SW": 3, "DT": 2, "DH": 1, "DW": 1, "PT": 1, "PH": 0, "PW": 2, "G": 2},
        (1, 4, 3, 5, 4),
        (2, 2, 2, 3, 2),
    ),
    (
        "conv2d_transpose_nchw_hw",
        {"SH": 2, "SW": 3, "DH": 1, "DW": 2, "PH": 1, "PW": 0, "EH": 1, "EW": 0},
        (1, 2, 3, 2),
        (2, 1, 3, 2),
    ),
    (
        "conv3d_transpose_ncdhw_thw",
        {"ST": 1, "SH": 2, "SW": 3, "PT": 0, "PH": 1, "PW": 0, "ET": 0, "EH": 1, "EW": 2},
        (1, 2, 2, 3, 2),
        (2, 1, 2, 3, 2),
    ),
]
ALL = [("conv", *c) for c in LAST] + [("conv_nchw", *c) for c in FIRST]
names = lambda c: "%s %s" % (c[1], " ".join("%s%g" % item for item in c[2].items())) if isinstance(c, tuple) else str(c)


def random_arrays(shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("case", ALL, ids=names)
def test_next_to_numpy(case):
    family, function, define, *shapes = case
    check(family, function, define, random_arrays(shapes), reference(function, define), np.float64)


@pytest.mark.parametrize("target", ["reference", "opencl"])
@pytest.mark.parametrize(
    "case", [c for c in ALL if c[1] in ("conv1d_same", "conv2d_groups", "conv3d_transpose_ncdhw")], ids=names
)
def test_other_targets(case, target):
    family, function, define, *shapes = case
    check(family, function, define, random_arrays(shapes), reference(function, define), np.float32, target)


@pytest.mark.parametrize(
    "case", [c for c in ALL if c[1] in ("conv1d_transpose", "separable_conv2d", "conv3d_ncdhw")], ids=names
)
def test_forward_mode_is_the_transpose_of_the_gradient(case):
    family, function, define, *shapes = case
    check_adjoint(family, function, define, shapes)


def in_torch(function, define, torch):
    """PyTorch's own function of the same meaning, or None where it has none."""
    f, rank = torch.nn.functional, kind(function)
    stride, dilation, padding, extra = map(tuple, parameters(define, rank))
    groups, channels_first = define.get("G", 1), "_nc" in function
    if any(word in function for word in ("same", "padded", "separable", "depthwise")):
        return None
    def call(image, kernel):
        image = image if channels_first else image.movedim(-1, 1)
        if "transpose" in function:
            kernel = kernel if channels_first else kernel.movedim((-2, -1), (0, 1)).contiguous()
            out = getattr(f, "conv_transpose%dd" % rank)(image, kernel, None, stride, padding, extra, groups, dilation)
        else:
            kernel = kernel if channels_first else kernel.movedim((-1, -2), (0, 1)).contiguous()
            out = getattr(f, "conv%dd" % rank)(image, kernel, None, stride, padding, dilation, groups)
        return out if channels_first else out.movedim(1, -1)
    return call


@pytest.mark.parametrize("case", ALL, ids=names)
def test_next_to_pytorch(case):
    torch = pytest.importorskip("torch")
    family, function, define, *shapes = case
    call = in_torch(function, define, torch)
    if call is None or reference(function, define)(*random_arrays(shapes)).size == 0:
        pytest.skip("PyTorch has no such function, or refuses the kernel")
    check_with_torch(family, function, define, random_arrays(shapes), call)


@pytest.mark.parametrize(
    "function, shapes, reference",
    [
        ("correlate", [(17,), (4,)], lambda x, f: np.correlate(x, f, "valid")),
        ("correlate", [(3,), (3,)], lambda x, f: np.correlate(x, f, "valid")),
        ("convolve", [(6,), (4,)], np.convolve),
        ("convolve", [(2,), (5,)], np.convolve),
        ("convolve_same", [(9,), (4,)], lambda x, f: np.convolve(x, f, "same")),
        ("convolve_same", [(5,), (5,)], lambda x, f: np.convolve(x, f, "same")),
        ("convolve_valid", [(9,), (4,)], lambda x, f: np.convolve(x, f, "valid")),
        (
            "correlate2d",
            [(5, 4), (2, 3)],
            lambda x, f: conv(x[None, :, :, None], f[:, :, None, None], (1, 1), (1, 1), [(0, 0)] * 2)[0, :, :, 0],
        ),
        (
            "convolve2d",
            [(3, 4), (2, 3)],
            lambda x, f: conv(x[None, :, :, None], f[::-1, ::-1, None, None], (1, 1), (1, 1), [(1, 1), (2, 2)])[
                0, :, :, 0
            ],
        ),
    ],
)
def test_signals(function, shapes, reference):
    for dtype in (np.float64, np.float32):
        check("conv", function, {}, random_arrays(shapes), reference, dtype)


def local(stride):
    def forward(image, kernel):
        rank = (kernel.ndim - 2)//2
        out = np.zeros([image.shape[0], *kernel.shape[:rank], kernel.shape[-1]])
        for place in np.ndindex(*kernel.shape[:rank]):
            seen = image[
                (
                    slice(None),
                    *(slice(stride * p, stride * p + k) for p, k in zip(place, kernel.shape[rank : 2 * rank])),
                )
            ]
            out[(slice(None), *place)] = seen.reshape(len(image), -1) @ kernel[place].reshape(-1, kernel.shape[-1])
        return out
    return forward


@pytest.mark.parametrize(
    "function, stride, shapes",
    [
        ("local_conv1d", 1, [(2, 6, 2), (4, 3, 2, 2)]),
        ("local_conv1d", 3, [(1, 9, 2), (3, 2, 2, 2)]),
        ("local_conv2d", 2, [(1, 4, 5, 1), (2, 2, 2, 3, 1, 2)]),
    ],
)
def test_local(function, stride, shapes):
    check("conv", function, {"S": stride}, random_arrays(shapes), local(stride))


def test_half_precision_and_integers():
    image, kernel = random_arrays([(1, 6, 5, 3), (3, 3, 3, 2)])
    check("conv", "conv2d", {"P": 1}, [image, kernel], reference("conv2d", {"P": 1}), np.float32)
    got = program("conv", "conv2d", (("P", 1),))(image.astype(np.float16), kernel.astype(np.float16))
    assert got.dtype == np.float16
    agree("conv2d", got, reference("conv2d", {"P": 1})(image, kernel), np.float16, 2e-3)
    a, k = np.arange(30, dtype=np.int32).reshape(1, 5, 6, 1), np.arange(6, dtype=np.int32).reshape(2, 3, 1, 1)
    assert np.array_equal(program("conv", "conv2d")(a, k), reference("conv2d", {})(a, k))


@pytest.mark.parametrize(
    "family, function, define, shapes, message",
    [
        ("conv", "conv2d", {}, [(1, 4, 4, 3), (2, 2, 2, 5)], "`CI`"),
        ("conv", "conv2d_groups", {"G": 2}, [(1, 3, 3, 5), (2, 2, 2, 4)], "G \\* CI"),
        ("conv", "conv2d_groups", {"G": 2}, [(1, 3, 3, 4), (2, 2, 2, 3)], "assert_groups_divide_channels"),
        ("conv_nchw", "depthwise_conv2d_nchw", {}, [(1, 2, 3, 3), (3, 1, 2, 2)], "assert_channels_divide_kernels"),
        ("conv", "local_conv1d", {}, [(1, 6, 1), (5, 3, 1, 1)], "assert_kernel_for_each_place"),
        ("conv", "conv2d", {}, [(1, 4, 2, 1), (3, 3, 1, 1)], "assert_kernel_fits_in_image_with_its_padding"),
        ("conv", "conv1d", {"dilation": 4}, [(1, 4, 1), (2, 1, 1)], "assert_kernel_fits_in_image_with_its_padding"),
        ("conv_nchw", "conv2d_nchw", {"padding_h": 1}, [(1, 1, 1, 2), (1, 1, 3, 3)], "assert_kernel_fits_in_image"),
        ("conv", "correlate", {}, [(3,), (4,)], "assert_kernel_fits_in_image_with_its_padding"),
        ("conv", "conv1d", {}, [(1, 4, 1), (0, 1, 1)], "assert_kernel_has_an_element"),
        ("movement", "unfold", {"kernel_size_h": 0}, [(1, 4, 4)], "assert_kernel_has_an_element"),
        ("conv", "conv1d_transpose", {"padding": 3}, [(1, 3, 1), (3, 1, 1)], "assert_padding_leaves_a_pixel"),
    ],
)
def test_shapes_that_do_not_fit_are_errors(family, function, define, shapes, message):
    with pytest.raises(tilec.Error, match=message):
        program(family, function, tuple(define.items()))(*random_arrays(shapes))


def drawn_options(rng, rank, names, low):
    """Options by name as a user may mix them, and what they mean for each axis: of all axes, of one axis, of one
    side."""
    define, each = {}, {}
    for name in names:
        values = [int(rng.integers(low[name], low[name] + 3)) for _ in range(rank)]
        each[name] = for_all_or_each(rng, name, values, define)
    each["sides"] = [[p, p] for p in each["padding"]]
    for a, sides in zip(AXES[rank], each["sides"]):
        for k in (0, 1):
            if rng.random() < 0.3:
                sides[k] = define["padding_" + a[1 + k]] = int(rng.integers(0, 3))
    return define, each


@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_options_as_in_pytorch(rank, first, seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng([rank, first, seed])
    define, each = drawn_options(
        rng, rank, ("stride", "dilation", "padding"), {"stride": 1, "dilation": 1, "padding": 0}
    )
    groups = define["groups"] = int(rng.integers(1, 4))
    image, kernel = rng.standard_normal((2, 2*groups, *[7 + rank]*rank)), rng.standard_normal((3*groups, 2, *[2]*rank))

    def reference(i, k):
        i, k = (i, k) if first else (i.movedim(-1, 1), k.movedim((-1, -2), (0, 1)))
        i = torch.nn.functional.pad(i, [p for sides in reversed(each["sides"]) for p in sides])
        out = getattr(torch.nn.functional, "conv%dd" % rank)(i, k, None, each["stride"], 0, each["dilation"], groups)
        return out if first else out.movedim(1, -1)
    if not first:
        image, kernel = np.moveaxis(image, 1, -1), np.moveaxis(kernel, [0, 1], [-1, -2])
    family, name = ("conv_nchw", "conv%dd_%s" % (rank, NAMES_FIRST[rank])) if first else ("conv", "conv%dd" % rank)
    check_with_torch(family, name, define, [image, kernel], reference, np.float64)


@pytest.mark.parametrize("first", [True, False], ids=["channels first", "channels last"])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_options_of_the_transpose(rank, first, seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng([rank, first, seed, 1])
    define, each = drawn_options(
        rng, rank, ("stride", "dilation", "padding"), {"stride": 1, "dilation": 1, "padding": 0}
    )
    extra = [int(rng.integers(0, s)) for s in each["stride"]]
    define.update(
        {"output_padding": extra[0]} if rank == 1 else {"output_padding_" + a[0]: e for a, e in zip(AXES[rank], extra)}
    )
    groups = define["groups"] = int(rng.integers(1, 4))
    image, kernel = rng.standard_normal((2, 2*groups, *[4]*rank)), rng.standard_normal((2*groups, 3, *[3]*rank))

    def reference(i, k):
        i, k = (i, k) if first else (i.movedim(-1, 1), k.movedim((-2, -1), (0, 1)))
        out = getattr(torch.nn.functional, "conv_transpose%dd" % rank)(
            i, k, None, each["stride"], 0, 0, groups, each["dilation"]
        )
        out = torch.nn.functional.pad(out, [p for e in reversed(extra) for p in (0, e)])
        out = out[(..., *(slice(a, x - b) for (a, b), x in zip(each["sides"], out.shape[2:])))]
        return out if first else out.movedim(1, -1)
    if not first:
        image, kernel = np.moveaxis(image, 1, -1), np.moveaxis(kernel, [0, 1], [-2, -1])
    family, name = (
        ("conv_nchw", "conv%dd_transpose_%s" % (rank, NAMES_FIRST[rank]))
        if first
        else ("conv", "conv%dd_transpose" % rank)
    )
    check_with_torch(family, name, define, [image, kernel], reference, np.float64)


@pytest.mark.parametrize("mode, odd", [("same_upper", 1), ("same_lower", 0)])
@pytest.mark.parametrize("stride, dilation, taps", [(1, 1, 4), (2, 1, 3), (3, 2, 2), (2, 1, 1)])
def test_same_padding_has_its_odd_zero_behind_or_in_front(mode, odd, stride, dilation, taps):
    image, kernel = random_arrays([(1, 7, 2), (taps, 2, 3)])
    total = max(0, ((7 + stride - 1)//stride - 1)*stride + dilation*(taps - 1) + 1 - 7)
    behind = (total + odd)//2
    check("conv", "conv1d", {"stride": stride, "dilation": dilation, "auto_pad": mode}, [image, kernel],
          lambda i, k: conv(i, k, (stride,), (dilation,), [(total - behind, behind)]))


def test_former_names_of_parameters_mean_the_same_and_are_told():
    image, kernel = random_arrays([(1, 7, 7, 2), (3, 3, 2, 4)])
    new = tilec.std.load("conv2d", define={"stride": 2, "padding": 1})(image, kernel)
    with pytest.warns(
        tilec.ProgramWarning,
        match="`S` of `conv2d` is called `stride` now.*W0220|W0220.*`S` of `conv2d` is called `stride` now",
    ):
        old = tilec.std.load("conv2d", define={"S": 2, "padding": 1})
    np.testing.assert_array_equal(old(image, kernel), new)
    with pytest.raises(tilec.ProgramError, match="E0144"):
        tilec.std.load("conv2d", define={"S": 2, "stride": 2})


BIASED = [
    ("conv1d", (2, 6, 4), (3, 2, 6), {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", (1, 5, 4, 3), (2, 3, 3, 2), {"auto_pad": "same_upper"}),
    ("conv3d", (1, 3, 4, 3, 2), (2, 2, 2, 2, 3), {}),
    ("depthwise_conv1d", (2, 6, 3), (3, 3, 2), {}),
    ("depthwise_conv2d", (1, 5, 4, 3), (2, 2, 3, 2), {"stride": 2}),
    ("conv1d_transpose", (1, 4, 4), (3, 4, 2), {"stride": 2, "groups": 2}),
    ("conv2d_transpose", (1, 3, 2, 2), (3, 3, 2, 2), {"stride": 2}),
    ("conv3d_transpose", (1, 2, 3, 2, 2), (2, 2, 2, 2, 3), {}),
    ("conv1d_ncw", (2, 4, 6), (6, 2, 3), {"padding": 1, "groups": 2}),
    ("conv2d_nchw", (1, 3, 5, 5), (2, 3, 2, 3), {"dilation": 2}),
    ("conv3d_ncdhw", (1, 2, 3, 4, 3), (3, 2, 2, 2, 2), {}),
    ("depthwise_conv2d_nchw", (1, 3, 5, 4), (6, 1, 2, 2), {}),
    ("conv1d_transpose_ncw", (1, 4, 4), (4, 2, 3), {"stride": 2, "groups": 2}),
    ("conv2d_transpose_nchw", (1, 2, 3, 2), (2, 3, 3, 3), {"stride": 2}),
    ("conv3d_transpose_ncdhw", (1, 2, 2, 3, 2), (2, 3, 2, 2, 2), {}),
    ("separable_conv2d", (1, 5, 4, 3), (2, 2, 3, 2), {"stride": 2}),
]


@pytest.mark.parametrize("function, image, kernel, define", BIASED, ids=[each[0] for each in BIASED])
def test_bias(function, image, kernel, define):
    """One number for each channel of the result. Without it the program is that of the text which has none, and calls
    by position are what they were."""
    family = "conv_nchw" if "_nc" in function else "conv"
    f = program(family, function, tuple(define.items()))
    given = random_arrays([image, kernel] + [(1, 1, 6, 4)] * (function == "separable_conv2d"))
    plain = f(*given)
    axis = 1 if "_nc" in function else plain.ndim - 1
    bias, cotangent = random_arrays([(plain.shape[axis],), plain.shape])
    along = [-1 if d == axis else 1 for d in range(plain.ndim)]
    np.testing.assert_allclose(f(*given, bias), plain + bias.reshape(along), rtol=1e-5, atol=1e-5)
    *others, by_bias = f.grad()(*given, bias, cotangent)
    np.testing.assert_allclose(
        by_bias, cotangent.sum(tuple(d for d in range(plain.ndim) if d != axis)), rtol=1e-4, atol=1e-4
    )
    for mine, with_bias, named, behind_values in zip(
        f.grad()(*given, cotangent), others, f.grad()(*given, dO=cotangent), f.value_and_grad()(*given, cotangent)[1:]
    ):
        np.testing.assert_array_equal(mine, with_bias)
        np.testing.assert_array_equal(mine, named)
        np.testing.assert_allclose(mine, behind_values, rtol=1e-5, atol=1e-5)
    text = f.emit("reduced", *given)
    assert "Bias" not in text and "-0.0" not in text and text.count("Product") <= 2 * (function == "separable_conv2d")


@pytest.mark.parametrize(
    "function, define, words",
    [
        ("conv2d", {"dilation": 0}, "assert_dilation_is_1_or_more"),
        ("conv1d", {"padding": -1}, "assert_padding_is_not_negative"),
        ("conv3d", {"padding_back": -2}, "assert_padding_is_not_negative"),
        ("conv2d_transpose", {"padding": -1}, "assert_padding_is_not_negative"),
        ("conv1d_transpose", {"dilation": 0}, "assert_dilation_is_1_or_more"),
        ("conv2d_transpose", {"output_padding": -1}, "assert_padding_is_not_negative"),
        ("depthwise_conv2d", {"dilation_w": -1}, "assert_dilation_is_1_or_more"),
        ("conv2d", {"stride": -1}, "assert_stride_is_1_or_more"),
    ],
)
def test_options_that_mean_nothing_are_errors(function, define, words):
    rank = int(function.split("conv")[1][0])
    with pytest.raises(tilec.Error, match=words):
        program("conv", function, tuple(define.items()))(
            np.ones((1,) + (4,) * rank + (1,), "f4"), np.ones((2,) * rank + (1, 1), "f4")
        )
