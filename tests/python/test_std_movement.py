"""std/movement.tile against NumPy: values, and gradients, which a difference of a linear function gives exactly."""
import numpy as np
import pytest

from std_cases import Case, compare


def C(function, inputs, numpy, **define):
    return Case(function, inputs, numpy, define=define, linear=True)


def resize(x, f, axis, corners):
    """Linear interpolation of one axis as PyTorch defines it, point by point."""
    n = x.shape[axis]
    places = np.arange(f * (n - 1) + 1) / f if corners else np.clip((np.arange(f * n) + 0.5) / f - 0.5, 0, n - 1)
    low = np.minimum(np.floor(places).astype(int), n - 1)
    high = np.minimum(low + 1, n - 1)
    part = (places - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part


def shuffle(x, r):
    n, c, h, w = x.shape
    return x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


def unshuffle(x, r):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h // r, w // r)


def to_space(x, r):
    n, h, w, c = x.shape
    return x.reshape(n, h, w, r, r, c // (r * r)).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * r, w * r, c // (r * r))


def to_depth(x, r):
    n, h, w, c = x.shape
    return x.reshape(n, h // r, r, w // r, r, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // r, w // r, c * r * r)


def windows(h, w, kh, kw, s, p, d):
    for y in range((h + 2 * p - d * (kh - 1) - 1) // s + 1):
        for x in range((w + 2 * p - d * (kw - 1) - 1) // s + 1):
            yield slice(s * y, s * y + d * (kh - 1) + 1, d), slice(s * x, s * x + d * (kw - 1) + 1, d)


def unfold(x, kh, kw, s, p, d):
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
    return np.stack([padded[:, :, a, b].reshape(n, -1) for a, b in windows(h, w, kh, kw, s, p, d)], axis=2)


def fold(y, h, w, kh, kw, s, p, d):
    n, c = y.shape[0], y.shape[1] // (kh * kw)
    padded = np.zeros((n, c, h + 2 * p, w + 2 * p))
    for k, (a, b) in enumerate(windows(h, w, kh, kw, s, p, d)):
        padded[:, :, a, b] += y[:, :, k].reshape(n, c, kh, kw)
    return padded[:, :, p:p + h, p:p + w]


def image(f, h, w):
    return lambda x: f(f(x, 1), 2)


def concat(axis):
    return lambda x, z: np.concatenate((x, z), axis)


def joined(join, axis):
    return lambda *tensors: join(tensors, axis)


def some(*values):
    return np.array(values, np.int32)


AXES = [
    C("transpose", ((7, 5),), np.transpose),
    C("transpose", ((1, 13),), np.transpose),
    C("reverse_axes", ((2, 3, 5),), np.transpose),
    C("swap_first", ((2, 3, 5),), lambda x: x.swapaxes(0, 1)),
    C("swap_middle", ((2, 3, 5, 2),), lambda x: x.swapaxes(1, 2)),
    C("swap_last", ((2, 3, 5),), lambda x: x.swapaxes(1, 2)),
    C("swap_last_4d", ((2, 3, 5, 2),), lambda x: x.swapaxes(2, 3)),
    C("nhwc_to_nchw", ((2, 3, 4, 5),), lambda x: x.transpose(0, 3, 1, 2)),
    C("nchw_to_nhwc", ((2, 3, 4, 5),), lambda x: x.transpose(0, 2, 3, 1)),
]
PARTS = [
    C("slice", ((n,),), (lambda a, b, s: lambda x: x[a:b:s])(a, b, s), start=a, stop=b, step=s)
    for n, a, b, s in [
        (11, 2, 9, 1),
        (11, -4, 7, 2),
        (13, 0, -1, 5),
        (13, 1, 100, 3),
        (7, -100, 4, 2),
        (5, 3, 2, 1),
        (5, 4, 5, 2),
    ]
] + [
    C("slice_rows", ((7, 3),), lambda x: x[1:-1:2], start=1, stop=-1, step=2),
    C("slice_rows", ((7, 3),), lambda x: x[-1:1:-2], start=-1, stop=1, step=-2),
    C("slice_columns", ((3, 7),), lambda x: x[:, 5:-9:-3], start=5, stop=-9, step=-3),
    C("slice_columns", ((3, 7),), lambda x: x[:, -6:6:3], start=-6, stop=6, step=3),
    C("crop_2d", ((2, 7, 6, 3),), lambda x: x[:, 1:5, 2:4], top=1, left=2, bottom=2),
    C("take_first", ((5,),), lambda x: x[:2], count=2),
    C("take_last", ((5,),), lambda x: x[3:], count=2),
    C("drop_first", ((5,),), lambda x: x[2:], count=2),
    C("drop_last", ((5,),), lambda x: x[:3], count=2),
    C("select_at", ((2, 5, 3),), lambda x: x[:, -2], dim=1, index=-2),
    C("select_at", ((4,),), lambda x: x[3], index=3),
    C("select_row", ((5, 3),), lambda x: x[2], AT=2),
    C("select_row", ((5, 3),), lambda x: x[-2], AT=-2),
    C("select_column", ((5, 3),), lambda x: x[:, -1], AT=-1),
    C("take", ((5,), some(3, 0, 3, 1)), lambda x, i: x[i]),
    C("take_rows", ((5, 3), some(3, 0, 3)), lambda x, i: x[i]),
    C("take_columns", ((5, 3), some(2, 0, 2, 1)), lambda x, i: x[:, i]),
    C("flip", ((13,),), np.flip),
    C("flip_rows", ((5, 3),), np.flipud),
    C("slice_axis", ((2, 7, 3),), lambda x: x[:, -1:0:-2], start=-1, stop=0, step=-2),
    C("flip_axis", ((2, 5, 3),), lambda x: x[:, ::-1]),
    C("flip_columns", ((5, 3),), np.fliplr),
    C("flip_2d", ((2, 3, 5, 2),), lambda x: x[:, :, ::-1]),
]
JOINS = (
    [
        C("concat", ((5,), (4,)), concat(0)),
        C("concat", ((1,), (13,)), concat(0)),
        C("concat_rows", ((5, 3), (4, 3)), concat(0)),
        C("concat_columns", ((3, 5), (3, 4)), concat(1)),
        C("concat_first_3d", ((5, 3, 2), (4, 3, 2)), concat(0)),
        C("concat_last_3d", ((3, 2, 5), (3, 2, 4)), concat(2)),
        C("concat_first_4d", ((2, 3, 2, 2), (1, 3, 2, 2)), concat(0)),
        C("concat_last_4d", ((2, 3, 2, 2), (2, 3, 2, 1)), concat(3)),
        C("concat_axis", ((2, 3, 2), (2, 1, 2)), concat(1)),
        C("concat_axis", ((1, 0, 2), (1, 4, 2)), concat(1)),
        C("concat_channels", ((2, 2, 3, 2), (2, 1, 3, 2)), concat(1)),
        C("stack", ((5,), (5,)), lambda x, z: np.stack((x, z))),
        C("stack_last", ((5,), (5,)), lambda x, z: np.stack((x, z), -1)),
        C("stack_matrices", ((5, 3), (5, 3)), lambda x, z: np.stack((x, z))),
        C("concat", ((2, 3, 4), (2, 1, 4)), concat(1), dim=1),
        C("concat", ((2, 3), (2, 5)), concat(-1), dim=-1),
        C("concat3", ((2,), (0,), (4,)), joined(np.concatenate, 0)),
        C("stack", ((2, 3), (2, 3)), lambda x, z: np.stack((x, z), 1), dim=1),
        C("stack", ((), ()), lambda x, z: np.stack((x, z))),
    ]
    + [
        C("concat%d" % n, tuple((2, k % 3 + 1) for k in range(n)), joined(np.concatenate, 1), dim=1)
        for n in range(3, 9)
    ]
    + [
        C("stack%d" % n, ((2, 3),) * n, joined(np.stack, axis), dim=axis)
        for n, axis in zip(range(3, 9), (0, 1, 2, -1, -2, -3))
    ]
    + [
        C("split", ((7,),), lambda x: (x[:2], x[2:]), AT=2),
        C("split", ((7,),), lambda x: (x[:-3], x[-3:]), AT=-3),
        C("split_rows", ((5, 3),), lambda x: (x[:3], x[3:]), AT=3),
        C("split_columns", ((3, 5),), lambda x: (x[:, :1], x[:, 1:]), AT=1),
    ]
)
COPIES = (
    [
        C("repeat", ((5,),), lambda x: np.repeat(x, 3), R=3),
        C("repeat_rows", ((5, 3),), lambda x: np.repeat(x, 2, 0), R=2),
        C("repeat_columns", ((5, 3),), lambda x: np.repeat(x, 2, 1), R=2),
        C("tile", ((5,),), lambda x: np.tile(x, 3), R=3),
        C("tile_2d", ((5, 3),), lambda x: np.tile(x, (2, 3)), R=2, S=3),
        C("roll_2d", ((5, 7),), lambda x: np.roll(x, (-1, 9), (0, 1)), down=-1, right=9),
    ]
    + [
        C("roll", ((n,),), (lambda s: lambda x: np.roll(x, s))(s), shifts=s)
        for n, s in [(5, 2), (5, -2), (5, 0), (5, 12), (5, -13), (1, 3), (7, 7), (0, 2)]
    ]
    + [
        C("roll_axis", ((2, 5, 3),), lambda x: np.roll(x, -7, 1), shifts=-7),
        C("roll_rows", ((5, 3),), lambda x: np.roll(x, 2, 0), shifts=2),
        C("roll_columns", ((5, 3),), lambda x: np.roll(x, -2, 1), shifts=-2),
    ]
)
PADS = [
    C(
        "pad_%s%s" % (name, axis),
        (shape,),
        (lambda mode, widths: lambda x: np.pad(x, widths, mode))(mode, widths),
        **define,
    )
    for name, mode in [("reflect", "reflect"), ("edge", "edge"), ("circular", "wrap")]
    for axis, shape, widths, define in [
        ("", (5,), (2, 4), {"before": 2, "after": 4}),
        ("", (2,), (1, 0), {"before": 1, "after": 0}),
        ("", (7,), 3, {"before": 3}),
        ("_2d", (3, 4), 2, {"P": 2}),
        ("_axis", (2, 3, 2), ((0, 0), (1, 2), (0, 0)), {"before": 1, "after": 2}),
    ]
] + [
    C("pad", ((3,),), lambda x: np.pad(x, (1, 4), constant_values=-2.5), before=1, after=4, value=-2.5),
    C("pad", ((3,),), lambda x: np.pad(x, 2), before=2),
    C("pad_2d", ((3, 2),), lambda x: np.pad(x, 2, constant_values=7), P=2, value=7),
    C(
        "pad_axis",
        ((2, 3, 2),),
        lambda x: np.pad(x, ((0, 0), (1, 2), (0, 0)), constant_values=0.5),
        before=1,
        after=2,
        value=0.5,
    ),
]
IMAGES = (
    [
        C("upsample_nearest", ((5,),), lambda x: np.repeat(x, 3), F=3),
        C("upsample_nearest_2d", ((2, 3, 2, 2),), lambda x: x.repeat(3, 1).repeat(3, 2), F=3),
    ]
    + [
        C("upsample_bilinear", ((n,),), (lambda f: lambda x: resize(x, f, 0, False))(f), F=f)
        for n, f in [(5, 2), (5, 3), (1, 4), (2, 1)]
    ]
    + [
        C("upsample_corners", ((n,),), (lambda f: lambda x: resize(x, f, 0, True))(f), F=f)
        for n, f in [(5, 2), (5, 3), (1, 4), (2, 1)]
    ]
    + [
        C("upsample_bilinear_2d", ((2, 3, 2, 2),), lambda x: resize(resize(x, 3, 1, False), 3, 2, False), F=3),
        C("upsample_corners_2d", ((2, 3, 2, 2),), lambda x: resize(resize(x, 2, 1, True), 2, 2, True), F=2),
        C("pixel_shuffle", ((2, 12, 2, 3),), lambda x: shuffle(x, 2), R=2),
        C("pixel_unshuffle", ((2, 2, 3, 6),), lambda x: unshuffle(x, 3), R=3),
        C(
            "channel_shuffle",
            ((2, 6, 2, 3),),
            lambda x: x.reshape(2, 3, 2, 2, 3).swapaxes(1, 2).reshape(x.shape),
            groups=3,
        ),
        C("pixel_shuffle", ((12, 2, 3),), lambda x: shuffle(x[None], 2)[0], R=2),
        C("pixel_unshuffle", ((2, 2, 2, 3, 6),), lambda x: np.stack([unshuffle(v, 3) for v in x]), R=3),
        C(
            "depth_to_space_nchw",
            ((2, 12, 2, 3),),
            lambda x: to_space(x.transpose(0, 2, 3, 1), 2).transpose(0, 3, 1, 2),
            block_size=2,
        ),
        C("depth_to_space_nchw", ((2, 12, 2, 3),), lambda x: shuffle(x, 2), block_size=2, mode="crd"),
        C(
            "space_to_depth_nchw",
            ((2, 2, 3, 6),),
            lambda x: to_depth(x.transpose(0, 2, 3, 1), 3).transpose(0, 3, 1, 2),
            block_size=3,
        ),
        C("unfold", ((2, 4, 3),), lambda x: unfold(x[None], 2, 2, 1, 0, 1)[0], kernel_size_h=2),
        C("fold", ((8, 6),), lambda y: fold(y[None], 4, 3, 2, 2, 1, 0, 1)[0], output_h=4, output_w=3, kernel_size_h=2),
        C("depth_to_space", ((2, 2, 3, 12),), lambda x: to_space(x, 2), R=2),
        C("space_to_depth", ((2, 3, 6, 2),), lambda x: to_depth(x, 3), R=3),
    ]
    + [
        C("unfold", ((2, 2, 5, 6),), (lambda a: lambda x: unfold(x, *a))(a), **dict(zip("KH KW S P D".split(), a)))
        for a in [(2, 3, 1, 0, 1), (3, 2, 2, 1, 1), (2, 2, 3, 1, 2), (1, 1, 1, 0, 1)]
    ]
    + [
        C(
            "fold",
            ((2, 2 * a[2] * a[3], sum(1 for _ in windows(*a))),),
            (lambda a: lambda y: fold(y, *a))(a),
            **dict(zip("H W KH KW S P D".split(), a)),
        )
        for a in [(5, 6, 2, 3, 1, 0, 1), (5, 6, 3, 2, 2, 1, 1), (5, 6, 2, 2, 3, 1, 2)]
    ]
)
DIAGONALS = [
    C("tri", (), lambda: np.tri(4, 6, 1), N=4, M=6, K=1),
    C("tri", (), lambda: np.tri(5), N=5),
    C("lower", ((4, 6),), lambda x: np.where(np.tri(4, 6, -1) > 0, x, 3), K=-1, value=3),
    C("upper", ((4, 6),), lambda x: np.where(np.tri(4, 6, 0) > 0, -5, x), K=1, value=-5),
    C("one_hot", (some(2, 0, 3, 9, -1),), lambda i: 1 * (i[:, None] == np.arange(4)), num_classes=4),
]

ALL = AXES + PARTS + JOINS + COPIES + PADS + IMAGES + DIAGONALS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", ALL, ids=str)
def test_movement(case, dtype):
    compare("movement", case, dtype)
