"""Functions of std/ with the arguments that PyTorch's have: values, derivatives, and what is refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from std_torch import same, same_with_derivatives, some
from tilec import std

X, M, V, IMAGE, C = some(2, 3, 4), some(3, 5), some(5), some(2, 3, 4, 4), some(3)
TIMES, WEIGHTS = torch.tensor([2, 1, 3, 1, 2]), some(5).abs()


@pytest.mark.parametrize("k", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("dims", [(1, 2), [2, 0], (0, -1)])
def test_quarter_turns_of_any_two_dimensions(k, dims):
    same_with_derivatives(lambda x: std.rot90.vjp(x, k, dims), lambda x: torch.rot90(x, k, dims), X)


@pytest.mark.parametrize("offset, dim1, dim2", [(0, -2, -1), (1, 0, 2), (-2, 3, 1), (0, 1, -4)])
def test_diagonals_in_any_two_dimensions(offset, dim1, dim2):
    options = {"offset": offset, "dim1": dim1, "dim2": dim2}
    same_with_derivatives(lambda x: std.diag_embed.vjp(x, **options), lambda x: torch.diag_embed(x, **options), X)


@pytest.mark.parametrize("first, second", [(1, -2), (0, 0), (2, 0)])
def test_transpose(first, second):
    same(std.transpose(X, first, second), torch.transpose(X, first, second))


def test_a_scalar_has_nothing_to_exchange():
    x = some()
    same(std.swapaxes(x, 0, -1), x)
    with pytest.raises(TypeError, match="dim1 of swapaxes is 1"):
        std.swapaxes(x, 0, 1)


@pytest.mark.parametrize("tensors", [(V,), (M, M), (V, M, some(), M[:1]), (some(), some())])
def test_block_diagonal_of_any_number(tensors):
    same_with_derivatives(std.block_diag.vjp, torch.block_diag, *tensors)


@pytest.mark.parametrize("name", ["vstack", "hstack", "column_stack", "dstack"])
@pytest.mark.parametrize("tensors", [[V, V], [M, M], [X, X, X], [some(), some()]])
def test_side_by_side(name, tensors):
    same(getattr(std, name)(tensors), getattr(torch, name)(tensors))


def test_vectors_beside_matrices():
    same(std.column_stack([V, M.T]), torch.column_stack([V, M.T]))
    same(std.vstack([V, M]), torch.vstack([V, M]))


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("rows", [M, M[:1], V])
@pytest.mark.parametrize("names", [(), ("fweights",), ("aweights",), ("fweights", "aweights")])
def test_covariance(correction, rows, names):
    given = {name: {"fweights": TIMES, "aweights": WEIGHTS}[name] for name in names}
    same(std.cov(rows, correction=correction, **given), torch.cov(rows, correction=correction, **given))


def test_correlation_of_one_row():
    for rows in (M, V, M[:1]):
        same(std.corrcoef(rows), torch.corrcoef(rows))


def test_differences_with_what_stands_beside():
    ones, more = torch.ones(3, 1).double(), torch.ones(3, 2).double()
    same(std.diff(M, 1, 1, ones, more), torch.diff(M, 1, 1, ones, more))
    same(std.diff(M, 2, append=more), torch.diff(M, 2, append=more))
    same(std.diff(M, 2, 0, None, None), torch.diff(M, 2, 0))
    same(std.diff(M, 0, prepend=ones), torch.diff(M, 0, prepend=ones))


@pytest.mark.parametrize("sizes", [1, 3, 4, [1, 3], [0, 4]])
def test_split_by_sizes(sizes):
    same(std.split(X, split_size_or_sections=sizes, dim=2), torch.split(X, sizes, 2))


@pytest.mark.parametrize("sections", [1, 2, [1, 3], []])
def test_split_by_places(sections):
    same(std.split(X, indices_or_sections=sections, axis=2), tuple(np.split(X.numpy(), sections, 2)))


def test_split_refuses():
    for wanted in ({"split_size_or_sections": [1, 2]}, {"indices_or_sections": 3}, {"split_size": 0}):
        with pytest.raises(TypeError, match="dimension 2 has 4 elements"):
            std.split(X, **wanted, dim=2)
    with pytest.raises(TypeError, match="at"):
        std.split(X, 2)                                    # parts so long, or so many


def test_images_at_another_size():
    same(std.upsample_nearest(IMAGE, (3, 7)), F.upsample_nearest(IMAGE, (3, 7)))
    same(std.upsample_bilinear(IMAGE, scale_factor=2), F.upsample_bilinear(IMAGE, scale_factor=2))
    same(std.upsample_bilinear(IMAGE, size=(3, 5)), F.upsample_bilinear(IMAGE, size=(3, 5)))


def test_batch_norm_with_running_averages():
    variance, first = some(3).abs() + 0.5, {"layout": "channels_first"}
    same(std.batch_norm(IMAGE, C, variance, C, -C, **first), F.batch_norm(IMAGE, C, variance, C, -C))
    named = {"running_mean": C, "running_var": variance, "training": False, "eps": 0.1}
    same(std.batch_norm(IMAGE, **named, **first), F.batch_norm(IMAGE, **named))
    last = std.batch_norm(IMAGE.permute(0, 2, 3, 1).contiguous(), **named, layout="channels_last")
    same(last, F.batch_norm(IMAGE, **named).permute(0, 2, 3, 1))
    same(std.batch_norm(IMAGE, weight=C, **first)[0], F.batch_norm(IMAGE, None, None, C, training=True))
    with pytest.raises(TypeError, match="running averages are the caller's"):
        std.batch_norm(IMAGE, C, variance, C, C, True, **first)


def test_options_that_change_nothing():
    edges = V.sort().values
    same(std.searchsorted(edges, M, out_int32=False, side="right"), torch.searchsorted(edges, M, side="right"))
    same(std.bucketize(M, edges, out_int32=False, right=True), torch.bucketize(M, edges, right=True))
    same(std.argsort(M, 0, stable=True), torch.argsort(M, 0))
    same(std.topk(M, 2, 1, False, True), tuple(torch.topk(M, 2, 1, False, True)))
    same(std.cdist(M, M, 1, "use_mm_for_euclid_dist"), torch.cdist(M, M, 1))
    with pytest.raises(TypeError, match="out_int32"):
        std.bucketize(M, edges, out_int32=True)


def test_other_options():
    same(std.pad(X, (1, 2, 0, 1), "constant", 3.0), F.pad(X, (1, 2, 0, 1), "constant", 3.0))
    same(std.kthvalue(X, 2, 1, True), tuple(torch.kthvalue(X, 2, 1, True)))
    same(std.mode(X, 1, True), tuple(torch.mode(X, 1, True)))
    same(std.slice(X, dim=1, start=0, end=2), X[:, 0:2])
    np.testing.assert_allclose(std.hann(6, sym=False), torch.signal.windows.hann(6, sym=False), atol=1e-6)
    same(std.eye(3, 5), np.eye(3, 5, dtype="f4"))
    same(std.softplus(M, 2, 0.5), F.softplus(M, 2, 0.5))
    same(std.prelu(M, weight=torch.tensor(0.2).double()), F.prelu(M, torch.tensor([0.2]).double()))
    same(std.dist(M, V, 3), torch.dist(M, V, 3))
    options = (3, 1, 1, True, False, 2)
    same(std.avg_pool2d(IMAGE, *options, layout="channels_first"), F.avg_pool2d(IMAGE, *options))
    weight, bias = some(2, 5, 5), some(2)
    same_with_derivatives(std.bilinear.vjp, F.bilinear, M, M, weight, bias)


@pytest.mark.parametrize("a", [(3, 1, 5), (1, 2, 5), (5,)])
@pytest.mark.parametrize("b", [(2, 5), (3, 2, 5), (1, 2, 5)])
def test_pairs_of_all_rows(a, b):
    own, other = lambda x, y: std.cosine_similarity.vjp(x, y, -1), lambda x, y: F.cosine_similarity(x, y, -1)
    same_with_derivatives(own, other, some(*a), some(*b))
    x, y = some(*a[:-1], 3), some(*b[:-1], 3)
    same_with_derivatives(std.cross.vjp, lambda x, y: torch.linalg.cross(*torch.broadcast_tensors(x, y)), x, y)


def test_frobenius_norm_by_its_name():
    same(std.matrix_norm(X, "fro", (-2, -1), True), torch.linalg.matrix_norm(X, "fro", (-2, -1), True))
    with pytest.raises(TypeError, match="ord"):
        std.matrix_norm(X, ord=2)


def test_areas_between_places():
    same_with_derivatives(std.trapezoid.vjp, torch.trapezoid, M, V)
    same_with_derivatives(std.cumulative_trapezoid.vjp, torch.cumulative_trapezoid, M, V)
    same(std.trapezoid(M, dx=2, dim=0), torch.trapezoid(M, dx=2, dim=0))


@pytest.mark.parametrize("name", ["div", "zeta", "gammainc", "atan2", "logaddexp", "float_power", "hypot"])
def test_two_whole_scalars(name):
    """A type that is named by what the two make: no width, which an integer beside it is."""
    other = {"zeta": torch.special.zeta, "gammainc": torch.special.gammainc}.get(name) or getattr(torch, name)
    a, b = torch.tensor(5), torch.tensor(2)
    if name in ("gammainc", "logaddexp", "hypot"):
        got, expected = getattr(std, name)(a, b), other(a.double(), b.double())
    else:
        got, expected = getattr(std, name)(a, b), other(a, b)
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-6)
