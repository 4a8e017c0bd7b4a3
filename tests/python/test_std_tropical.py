"""std/tropical.tile against NumPy, and PyTorch where it is installed."""
import numpy as np
import pytest

from std_cases import Case, compare


def sums(a, b):
    return a[..., :, :, None] + b[..., None, :, :]


def floyd(d):
    d = d.copy()
    np.fill_diagonal(d, 0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k:k + 1] + d[k:k + 1])
    return d


def closure(r):
    r = r.copy()
    for k in range(len(r)):
        r |= r[:, k:k + 1] & r[k:k + 1]
    return r


def slide(x, s, sign):
    """Dilation (sign 1) or erosion (-1) of an image, pixel by pixel."""
    (h, w), (kh, kw) = x.shape, s.shape
    y = np.full(x.shape, -np.inf)
    for i in range(kh):
        for j in range(kw):
            for r in range(h):
                for c in range(w):
                    a, b = r - sign * (i - kh // 2), c - sign * (j - kw // 2)
                    if 0 <= a < h and 0 <= b < w:
                        y[r, c] = max(y[r, c], sign * x[a, b] + s[i, j])
    return sign * y


def dilate(x, s):
    return slide(x, s, 1)


def erode(x, s):
    return slide(x, s, -1)


def line(f):
    return lambda x, s: f(x[None], s[None])[0]


def flat(*steps):
    def apply(x):
        for f in steps:
            x = f(x, np.zeros((3, 3)))
        return x
    return apply


def viterbi(v, t, e):
    return (v[:, None] + t).max(0) + e, (v[:, None] + t).argmax(0)


GRAPH = np.random.default_rng(3).random((9, 9)) < 0.15
ROADS = np.where(np.random.default_rng(4).random((7, 7)) < 0.6, np.random.default_rng(5).uniform(1, 2, (7, 7)), 50.0)
SHAPES = [((5, 3), (3, 4)), ((1, 17), (17, 1))]
CASES = (
    [Case("max_plus", s, lambda a, b: sums(a, b).max(-2), lambda a, b: sums(a, b).amax(-2)) for s in SHAPES]
    + [Case("min_plus", s, lambda a, b: sums(a, b).min(-2), lambda a, b: sums(a, b).amin(-2)) for s in SHAPES]
    + [
        Case("log_matmul", s, lambda a, b: np.logaddexp.reduce(sums(a, b), -2), lambda a, b: sums(a, b).logsumexp(-2))
        for s in SHAPES
    ]
    + [
        Case("max_plus_vector", ((5, 3), (3,)), lambda a, x: (a + x).max(1), lambda a, x: (a + x).amax(1)),
        Case("min_plus_vector", ((5, 3), (3,)), lambda a, x: (a + x).min(1), lambda a, x: (a + x).amin(1)),
        Case(
            "batch_max_plus", ((2, 5, 3), (2, 3, 4)), lambda a, b: sums(a, b).max(-2), lambda a, b: sums(a, b).amax(-2)
        ),
        Case(
            "batch_min_plus", ((2, 5, 3), (2, 3, 4)), lambda a, b: sums(a, b).min(-2), lambda a, b: sums(a, b).amin(-2)
        ),
        Case("min_plus_square", ((5, 5),), lambda d: sums(d, d).min(-2), lambda d: sums(d, d).amin(-2)),
        Case("shortest_paths", (ROADS,), floyd, define={"doublings": 3}),
        Case(
            "log_matvec", ((5, 3), (3,)), lambda a, x: np.logaddexp.reduce(a + x, 1), lambda a, x: (a + x).logsumexp(1)
        ),
        Case(
            "log_matmul",
            (np.array([[-np.inf, 1000], [-np.inf, -np.inf]]), (2, 2)),
            lambda a, b: np.logaddexp.reduce(sums(a, b), -2),
            wrt=(),
        ),
        Case(
            "forward_step",
            ((4,), (4, 4), (4,)),
            lambda a, t, e: np.logaddexp.reduce(a[:, None] + t, 0) + e,
            lambda a, t, e: (a[:, None] + t).logsumexp(0) + e,
        ),
        Case("viterbi_step", ((4,), (4, 4), (4,)), viterbi),
        Case("bool_matmul", (GRAPH, GRAPH.T.copy()), lambda a, b: a @ b),
        Case("reachable", (GRAPH,), closure, define={"doublings": 4}),
        Case("max_min", ((5, 3), (3, 4)), lambda a, b: np.minimum(a[:, :, None], b[None]).max(1)),
        Case("dilation", ((13,), (4,)), line(dilate)),
        Case("erosion", ((13,), (4,)), line(erode)),
        Case("dilation", ((2,), (5,)), line(dilate)),
        Case("opening", ((13,), (3,)), line(lambda x, s: dilate(erode(x, s), s))),
        Case("closing", ((13,), (3,)), line(lambda x, s: erode(dilate(x, s), s))),
        Case("dilation_2d", ((5, 4), (3, 2)), dilate),
        Case("erosion_2d", ((5, 4), (3, 2)), erode),
        Case("dilation_flat_2d", ((5, 4),), flat(dilate)),
        Case("erosion_flat_2d", ((5, 4),), flat(erode)),
        Case("opening_flat_2d", ((5, 4),), flat(erode, dilate)),
        Case("closing_flat_2d", ((5, 4),), flat(dilate, erode)),
    ]
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_tropical(case, dtype):
    compare("tropical", case, dtype)
