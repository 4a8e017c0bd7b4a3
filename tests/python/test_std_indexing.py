"""std/indexing.tile against PyTorch and NumPy: values, gradients, positions that count from the end, that are out of
range, and that meet."""
import itertools

import numpy as np
import pytest

import tilec
from std_compare import Case, compare, program
from std_errors import ROOT

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(3)
SHAPE = (3, 4, 2)


def places(n, *shape, kind=np.int64):
    return RNG.integers(0, n, shape).astype(kind)


def once(n, shape, dim):
    """Positions along `dim`, none of which occurs twice there."""
    picked = [RNG.permutation(n)[:shape[dim]] for _ in range(int(np.prod(shape)) // shape[dim])]
    rest = tuple(s for d, s in enumerate(shape) if d != dim)
    return np.moveaxis(np.array(picked).reshape(rest + (shape[dim],)), -1, dim).astype(np.int64)


def along(dim, count):
    return SHAPE[:dim] + (count,) + SHAPE[dim + 1:]


def of_tuples(n):
    """All tuples below the sizes `n`, in another order."""
    return RNG.permutation(np.array(list(itertools.product(*[range(k) for k in n]))))


DIMS = [(0, 0), (1, 1), (2, -1)]
SELECTED = [
    Case(
        "index_select",
        (SHAPE, places(SHAPE[d], 5)),
        (lambda d: lambda x, i: torch.index_select(x, d, i))(d),
        {"dim": dim},
    )
    for d, dim in DIMS
] + [
    Case(
        "index_select",
        (SHAPE, places(4, 2, 3, kind=np.int32)),
        lambda x, i: torch.index_select(x, 1, i.flatten()).reshape(3, 2, 3, 2),
        {"dim": 1},
    ),
    Case("index_select", ((5,), np.array(3)), lambda x, i: x[i]),
    Case("index_select", ((5, 2), places(5, 3, kind=np.int32)), lambda x, i: x[i.long()], call="index_select"),
    Case(
        "index_add",
        (SHAPE, places(4, 6), along(1, 6)),
        lambda x, i, u: x.index_add(1, i, u, alpha=0.5),
        {"dim": 1, "alpha": 0.5},
    ),
    Case("index_add", ((4,), places(4, 6, kind=np.int32), (6,)), lambda x, i, u: x.index_add(0, i, u)),
    Case("index_copy", (SHAPE, once(4, (3,), 0), along(1, 3)), lambda x, i, u: x.index_copy(1, i, u), {"dim": 1}),
    Case("index_copy", ((4, 3), once(4, (4,), 0), (4, 3)), lambda x, i, u: x.index_copy(0, i, u), {"dim": -2}),
]
ELEMENTS = (
    [
        Case(
            "gather_elements",
            (SHAPE, places(SHAPE[d], *along(d, n))),
            (lambda d: lambda x, i: torch.gather(x, d, i))(d),
            {"dim": dim},
        )
        for (d, dim), n in zip(DIMS, (5, 1, 2))
    ]
    + [
        Case("gather_elements", ((6,), places(6, 4, kind=np.int32)), lambda x, i: x[i.long()]),
        Case(
            "scatter_add",
            (SHAPE, places(4, *along(1, 6)), along(1, 6)),
            lambda x, i, u: x.scatter_add(1, i, u),
            {"dim": 1},
        ),
    ]
    + [
        Case(
            "scatter_elements",
            (SHAPE, once(SHAPE[d], along(d, n), d), along(d, n)),
            (lambda d: lambda x, i, u: torch.scatter(x, d, i, u))(d),
            {"dim": dim},
        )
        for (d, dim), n in zip(DIMS, (2, 4, 1))
    ]
    + [
        Case(
            "scatter_elements",
            (SHAPE, places(SHAPE[d], *along(d, 5)), along(d, 5)),
            (lambda d, r: lambda x, i, u: torch.scatter_reduce(x, d, i, u, r))(d, reduce),
            {"dim": dim, "reduction": name},
        )
        for (d, dim), (name, reduce) in zip(
            DIMS * 2,
            [("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin"), ("mul", "prod"), ("max", "amax")],
        )
    ]
)


def put(x, i, u, accumulate=False):
    return torch.index_put(x, tuple(i.unbind(-1)), u, accumulate)


TUPLES = [
    Case("gather_nd", (SHAPE, places(2, 3, depth)), lambda x, i: x[tuple(i.unbind(-1))], {"depth": depth})
    for depth in (1, 2, 3)
] + [
    Case(
        "gather_nd",
        ((2, 3, 2, 2), places(2, 2, 2, 2, kind=np.int32)),
        lambda x, i: x[tuple(i.long().unbind(-1))],
        {"depth": 2},
    ),
    Case(
        "batch_gather_nd",
        ((3, 2, 2, 2), places(2, 3, 4, 2)),
        lambda x, i: torch.stack([v[tuple(k.unbind(-1))] for v, k in zip(x, i)]),
        {"depth": 2},
    ),
    Case("batch_gather_nd", ((3, 4), places(4, 3, 2, 1)), lambda x, i: torch.gather(x, 1, i[..., 0])),
    Case("scatter_nd", (SHAPE, np.array([[2], [0]]), (2, 4, 2)), put, {"depth": 1}),
    Case("scatter_nd", (SHAPE, of_tuples((3, 4))[:7], (7, 2)), put, {"depth": 2}),
    Case("scatter_nd", (SHAPE, of_tuples(SHAPE)[:6].reshape(2, 3, 3), (2, 3)), put, {"depth": 3}),
    Case(
        "scatter_nd",
        (SHAPE, places(2, 9, 3), (9,)),
        lambda x, i, u: put(x, i, u, True),
        {"depth": 3, "reduction": "add"},
    ),
]
ALL = SELECTED + ELEMENTS + TUPLES


@pytest.mark.parametrize("k", range(len(ALL)), ids=[str(case) for case in ALL])
def test_indexing(k):
    compare("indexing", ALL[k], [np.float64, np.float32][k % 2])


@pytest.mark.parametrize("target", ["cpu", "opencl", "reference"])
def test_the_last_of_several_updates_stays(target):
    x, i = np.arange(12.0).reshape(3, 4), RNG.integers(0, 4, (3, 50)).astype(np.int32)
    u = RNG.standard_normal((3, 50))
    expected = x.copy()
    for (row, j), value in np.ndenumerate(u):
        expected[row, i[row, j]] = value
    f = program("indexing", "scatter_elements", (("dim", 1),), target)
    assert np.array_equal(f(x, i, u), expected)
    winners = np.zeros_like(u)
    for row in range(3):
        for n in set(i[row]):
            winners[row, np.flatnonzero(i[row] == n)[-1]] = n + 1.0
    dx, du = f.grad(wrt=["X", "U"])(x, i, u, np.tile(np.arange(4) + 1.0, (3, 1)))
    assert np.array_equal(du, winners) and not dx.any()


def test_positions_from_the_end_and_out_of_range():
    x = np.arange(24.0).reshape(2, 3, 4)
    given, meant = np.array([-1, -3, 7, -9]), np.array([2, 0, 2, 0])
    assert np.array_equal(program("indexing", "index_select", (("dim", 1),))(x, given), x[:, meant])
    whole = lambda i: np.broadcast_to(i[None, :, None], (2, 4, 4)).copy()
    assert np.array_equal(program("indexing", "gather_elements", (("dim", 1),))(x, whole(given)), x[:, meant])
    assert np.array_equal(
        program("indexing", "gather_nd", (("depth", 2),))(x, np.array([[-1, -1], [9, -9]])), x[[1, 1], [2, 0]]
    )
    expected = x.copy()
    expected[:, 2], expected[:, 0] = 2.0, 3.0
    update = np.broadcast_to(np.arange(4.0)[None, :, None], (2, 4, 4)).copy()
    assert np.array_equal(program("indexing", "scatter_elements", (("dim", 1),))(x, whole(given), update), expected)
    assert np.array_equal(program("indexing", "index_copy", (("dim", 1),))(x, given, update), expected)
    for name in ("index_select", "gather_elements", "scatter_elements"):
        checked = tilec.load(
            ROOT / "std" / "indexing.tile", function=name, define={"dim": 1}, include=[ROOT], checked=True
        )
        arguments = {
            "index_select": (given,),
            "gather_elements": (whole(given),),
            "scatter_elements": (whole(given), update),
        }[name]
        with pytest.raises(tilec.Error, match="takes indices from 0 to below 3"):
            checked(x, *arguments)


def test_integers_and_no_updates():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    i = np.array([[2, 0], [1, 1]])
    u = np.array([[7, 8], [9, 10]], np.int32)
    put_there = program("indexing", "scatter_elements", (("dim", 1),))(x, i, u)
    assert put_there.dtype == np.int32 and put_there.tolist() == [[8, 1, 7], [3, 10, 5]]
    for reduction in ("none", "add", "mul", "max", "min"):
        f = program("indexing", "scatter_elements", (("dim", 1), ("reduction", reduction)))
        assert np.array_equal(f(x, np.zeros((2, 0), np.int64), np.zeros((2, 0), np.int32)), x)


@pytest.mark.parametrize("name", ["gather_nd", "batch_gather_nd", "scatter_nd"])
def test_checked_sees_numbers_of_tuples_out_of_range(name):
    f = tilec.load(ROOT / "std" / "indexing.tile", function=name, define={"depth": 2}, include=[ROOT], checked=True)
    batch = name == "batch_gather_nd"
    x = np.arange(6.0).reshape((1, 2, 3) if batch else (2, 3))
    given = lambda *tuple: np.array([[tuple]] if batch else [tuple])
    update = (np.array([7.0]),) if name == "scatter_nd" else ()
    f(x, given(-2, -3), *update), f(x, given(1, 2), *update)
    for outside in ((0, 3), (2, 0), (0, -4), (-3, 1)):
        number = next(n for n, size in zip(outside, (2, 3)) if not -size <= n < size)
        with pytest.raises(tilec.Error, match="is %d, but `gather` takes indices" % number):
            f(x, given(*outside), *update)


@pytest.mark.parametrize("reduction, theirs", [("max", "amax"), ("min", "amin")])
def test_updates_that_tie_share_the_gradient_evenly(reduction, theirs):
    x = np.array([[2.0, 2.0, 1.0], [0.0, 2.0, 2.0]])
    u = np.array([[2.0, 2.0, 1.0], [2.0, 3.0, 2.0], [2.0, 2.0, 1.0]])
    i = np.array([[0, 0, 0], [0, 1, 1], [0, 0, 1]])
    d = np.arange(6.0).reshape(2, 3) + 1
    tensors = [torch.tensor(v, requires_grad=True) for v in (x, u)]
    tensors[0].scatter_reduce(0, torch.tensor(i), tensors[1], theirs).backward(torch.tensor(d))
    f = program("indexing", "scatter_elements", (("reduction", reduction),))
    for got, tensor in zip(f.grad()(x, i, u, d), tensors):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=1e-14)
    dx, du = RNG.standard_normal(x.shape), RNG.standard_normal(u.shape)
    moved = sum((dv * t.grad.numpy()).sum() for dv, t in zip((dx, du), tensors))
    np.testing.assert_allclose((d * f.jvp(wrt=["X", "U"])(x, i, u, tX=dx, tU=du)).sum(), moved, rtol=1e-13)


@pytest.mark.parametrize("alpha, kind", [(0.5, np.int32), (2, np.bool_)])
def test_alpha_has_to_be_of_the_type(alpha, kind):
    f = program("indexing", "index_add", (("alpha", alpha),))
    with pytest.raises(ValueError, match="assert_alpha_is_of_the_type_of_U"):
        f(np.ones(3, kind), np.array([0]), np.ones(1, kind))


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_tensor_scatter(axis, mode):
    cache, shape = RNG.normal(size=(3, 5, 6, 4)), [3, 5, 6, 4]
    shape[axis] = 2
    update, first = RNG.normal(size=shape), RNG.integers(0, cache.shape[axis] - (2 if mode == "linear" else 0), 3)
    expected = np.moveaxis(cache.copy(), axis, 1)
    for b in range(3):
        expected[b, (first[b] + np.arange(2)) % cache.shape[axis]] = np.moveaxis(update, axis, 1)[b]
    got = tilec.std.tensor_scatter(cache, update, first, axis=axis, mode=mode)
    np.testing.assert_array_equal(got, np.moveaxis(expected, 1, axis))
