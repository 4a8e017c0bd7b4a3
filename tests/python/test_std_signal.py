"""std/signal.tile against NumPy; gradients by differences, exact for what is linear."""
import numpy as np
import pytest

from std_cases import Case, compare, program


def pairs(f):
    def apply(r, i):
        y = f(r + 1j * i)
        return y.real, y.imag
    return apply


def half(x):
    y = np.fft.rfft(x, axis=1)
    return y.real, y.imag


def cosines(n):
    k = np.arange(n)[:, None]
    return np.cos(np.pi * (2 * np.arange(n) + 1) * k / (2 * n)) * np.where(k == 0, 1, np.sqrt(2)) / np.sqrt(n)


def same(x, f):
    k = len(f)
    return np.correlate(np.pad(x, (k // 2, k - 1 - k // 2)), f, "valid")


def both(x, f):
    down = np.stack([same(c, f) for c in x.T], 1)
    return np.stack([same(r, f) for r in down])


def inside(x, r):
    return np.array([x[max(0, i - r):i + r + 1].mean() for i in range(len(x))])


def inside_2d(x, r):
    return np.array(
        [
            [x[max(0, i - r) : i + r + 1, max(0, j - r) : j + r + 1].mean() for j in range(x.shape[1])]
            for i in range(x.shape[0])
        ]
    )


def stencil(*weights):
    """Each a 3 by 3 stencil, with zeros outside."""
    def apply(x):
        p, (h, w) = np.pad(x, 1), x.shape
        out = tuple(sum(np.array(s)[i, j] * p[i:i + h, j:j + w] for i in range(3) for j in range(3)) for s in weights)
        return out if len(out) > 1 else out[0]
    return apply


def bell(sigma, r=3):
    e = np.exp(-0.5 * (np.arange(-r, r + 1) / sigma) ** 2)
    return e / e.sum()


def mirrored(x, f):
    p = np.pad(x, 1, "reflect")
    down = np.stack([np.correlate(c, f, "valid") for c in p.T], 1)
    return np.stack([np.correlate(r, f, "valid") for r in down])


SOBEL = [[-1, -2, -1], [0, 0, 0], [1, 2, 1]]
LINEAR = [
    Case(name, shapes, f, define=define, linear=True)
    for name, shapes, f, define in [
        ("fir", ((13,), (4,)), lambda x, f: np.convolve(x, f)[:13], {}),
        ("convolve_full", ((13,), (4,)), np.convolve, {}),
        ("convolve_full", ((1,), (5,)), np.convolve, {}),
        ("correlate_valid", ((13,), (4,)), lambda x, f: np.correlate(x, f, "valid"), {}),
        ("blur", ((13,), (5,)), same, {}),
        ("blur", ((3,), (4,)), same, {}),
        ("box", ((13,),), lambda x: inside(x, 2), {"R": 2}),
        ("box", ((1,),), lambda x: inside(x, 1), {"R": 1}),
        ("box_2d", ((5, 4),), lambda x: inside_2d(x, 1), {"R": 1}),
        ("diff", ((13,),), np.diff, {}),
        ("diff_rows", ((3, 7),), np.diff, {}),
        ("diff_columns", ((7, 3),), lambda x: np.diff(x, axis=0), {}),
        ("central_difference", ((13,),), np.gradient, {}),
        ("central_difference", ((2,),), np.gradient, {}),
        ("laplacian_1d", ((13,),), lambda x: np.convolve(x, [1, -2, 1], "same"), {}),
        ("laplacian_2d", ((5, 4),), stencil([[0, 1, 0], [1, -4, 1], [0, 1, 0]]), {}),
        ("sobel_2d", ((5, 4),), stencil(SOBEL, np.transpose(SOBEL)), {}),
        ("dct_rows", ((3, 7),), lambda x: x @ cosines(7).T, {}),
        ("idct_rows", ((3, 7),), lambda x: x @ cosines(7), {}),
        ("dct", ((1,),), lambda x: x, {}),
        ("dct", ((16,),), lambda x: x @ cosines(16).T, {}),
        ("idct", ((13,),), lambda x: x @ cosines(13), {}),
        ("dft_rows", ((3, 7), (3, 7)), pairs(np.fft.fft), {}),
        ("idft_rows", ((3, 8), (3, 8)), pairs(np.fft.ifft), {}),
        ("dft", ((13,), (13,)), pairs(np.fft.fft), {}),
        ("idft", ((12,), (12,)), pairs(np.fft.ifft), {}),
        ("rdft_rows", ((3, 7),), half, {}),
        ("rdft_rows", ((3, 8),), half, {}),
        ("hann", (), lambda: np.hanning(9), {"N": 9}),
    ]
]
OTHERS = [
    Case("gaussian_kernel", (np.array(1.3),), bell, define={"R": 3}),
    Case("blur_2d", ((5, 4), (3,)), both),
    Case("blur_2d_reflect", ((5, 4), (3,)), mirrored, define={"R": 1}),
    Case("total_variation_2d", ((5, 4),), lambda x: abs(np.diff(x, axis=0)).sum() + abs(np.diff(x)).sum()),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LINEAR + OTHERS, ids=str)
def test_signals(case, dtype):
    if case.function != "hann" or dtype == np.float32:  # no input gives it a type: it is f32
        compare("signal", case, dtype)


def test_long_transforms_keep_their_digits():
    x = np.random.default_rng(0).standard_normal((1, 2000)).astype(np.float32)
    for name, wanted in [
        ("dct_rows", x.astype(np.float64) @ cosines(2000).T),
        ("rdft_rows", np.fft.rfft(x.astype(np.float64)).real),
    ]:
        got = program("signal", name, (), "cpu")(x)
        got = got[0] if isinstance(got, tuple) else got
        assert abs(got - wanted).max() < 2e-6 * abs(wanted).max()


@pytest.mark.parametrize("function, inputs", [("dct_rows", 1), ("idct_rows", 1), ("dft_rows", 2), ("rdft_rows", 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_transforms_of_integers_are_those_of_their_values(function, inputs, dtype):
    values = [np.array([[1, 2, 3, 4, 5]], dtype)] * inputs
    f = program("signal", function)
    for got, wanted in zip(np.atleast_3d(f(*values)), np.atleast_3d(f(*[v.astype(np.float32) for v in values]))):
        np.testing.assert_allclose(got, wanted, atol=1e-5)
