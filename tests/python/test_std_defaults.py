"""Functions of std/ by the names that PyTorch and NumPy have for them, without options: what they give there, or a
line that says what to write."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F

from tilec import std

RNG = np.random.default_rng(14)


def some(*shape):
    return torch.tensor(RNG.standard_normal(shape))


def same(got, expected):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_of_each_row_is_dimension_1(shape):
    x, y = some(*shape), some(*shape)
    same(std.normalize(x), F.normalize(x))
    same(std.normalize(x, 3), F.normalize(x, 3))
    same(std.cosine_similarity(x, y), F.cosine_similarity(x, y))


def test_a_vector_has_no_dimension_1():
    for call in (lambda: std.normalize(some(3)), lambda: std.cosine_similarity(some(3), some(3))):
        with pytest.raises(Exception, match="dim|rank"):
            call()


def test_losses_are_means():
    x, t, label = some(4, 3), torch.rand(4, 3, dtype=torch.float64), torch.tensor([0, 2, 1, 2])
    same(std.cross_entropy(x, label), F.cross_entropy(x, label))
    same(std.cross_entropy(x, label, reduction="none"), F.cross_entropy(x, label, reduction="none"))
    same(std.cross_entropy(x, t), F.cross_entropy(x, t))
    same(std.cross_entropy(target=t, input=x, label_smoothing=0.1), F.cross_entropy(x, target=t, label_smoothing=0.1))
    same(std.binary_cross_entropy(t, 1 - t), F.binary_cross_entropy(t, 1 - t))


def test_bags_are_means():
    table, words = some(7, 3), torch.tensor([[1, 2, 2], [0, 6, 3]])
    same(std.embedding_bag(words, table), F.embedding_bag(words, table))
    same(std.embedding_bag(words, table, mode="sum"), F.embedding_bag(words, table, mode="sum"))


def test_one_hot_is_of_whole_numbers():
    label = torch.tensor([[0, 2], [1, 1]])
    same(std.one_hot(label, num_classes=3), F.one_hot(label, 3))


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 2), (2, 3, 4, 3)])
def test_diagonals_are_of_the_first_two_dimensions(shape):
    x = some(*shape)
    same(std.diagonal(x), torch.diagonal(x))
    same(std.diagonal(x, 1), torch.diagonal(x, 1))
    same(std.diagonal(x, -1, -1, 0), torch.diagonal(x, -1, -1, 0))
    same(std.diagonal(x.numpy(), axis1=1, axis2=0, offset=1), np.diagonal(x.numpy(), 1, 1, 0))
    same(std.trace(x.numpy()), np.trace(x.numpy()))
    same(std.trace(x.numpy(), -1, -1, 0), np.trace(x.numpy(), -1, -1, 0))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum"])
def test_running_sums_without_a_dimension_are_of_all_elements(name):
    x = some(2, 3, 2).numpy()
    same(getattr(std, name)(x), getattr(np, name)(x))
    same(getattr(std, name)(x, axis=1), getattr(np, name)(x, axis=1))
    same(getattr(std, name)(x[0, 0]), getattr(np, name)(x[0, 0]))
    y, backward = std.cumsum.vjp(x)
    same(backward(np.ones_like(y)), np.arange(12.0, 0, -1).reshape(2, 3, 2))


def test_select():
    x = some(2, 3, 4)
    same(std.select(x, 1, -1), torch.select(x, 1, -1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_the_eps_of_rms_norm_is_that_of_the_type_it_computes_in(dtype):
    x = (some(2, 3) * 1e-2).to(dtype)
    got, expected = std.rms_norm(x, (3,)), F.rms_norm(x, (3,))
    assert got.dtype == dtype
    np.testing.assert_allclose(got.double(), expected.double(), rtol=8 * torch.finfo(dtype).eps)


def test_weights_of_prelu_that_go_with_one_dimension_or_the_other():
    x, weight = some(2, 3, 4, 3), some(3)
    with pytest.raises(TypeError, match=r"weight.reshape\(-1, 1, 1\)"):
        std.prelu(x, weight)
    with pytest.raises(TypeError, match=r"weight.reshape\(1, 1, 1, -1\)"):
        std.prelu(input=x, weight=weight)
    same(std.prelu(x, weight.reshape(-1, 1, 1)), F.prelu(x, weight))
    same(std.prelu(x[:, :, 0, 0], weight), F.prelu(x[:, :, 0, 0], weight))
    same(std.prelu(x, some(1) * 0 + 0.25), F.prelu(x, torch.tensor([0.25], dtype=torch.float64)))


@pytest.mark.parametrize("name", ["array_split", "block", "airy_ai", "frexp", "unique", "qr"])
def test_what_is_not_there_says_what_to_write_or_why(name):
    with pytest.raises(AttributeError, match="has no function `%s`: ." % name):
        getattr(std, name)


IMAGE, SIGNAL, SQUARE, CHANNELS = some(3, 8, 6), some(2, 6, 4), some(3, 3), some(6)
PLACES = torch.tensor([[0, 1, 2], [2, 0, 1]])
FIRST = {"layout": "channels_first"}


@pytest.mark.parametrize(
    "got, expected",
    [
        (lambda: std.var(SQUARE, True), lambda: SQUARE.var()),
        (lambda: std.std_mean(SQUARE, False), lambda: torch.std_mean(SQUARE, False)),
        (lambda: std.max(SQUARE, SQUARE.T), lambda: torch.max(SQUARE, SQUARE.T)),
        (lambda: std.min(SQUARE, other=SQUARE.T), lambda: torch.min(SQUARE, SQUARE.T)),
        (lambda: std.sort(SQUARE, stable=True), lambda: torch.sort(SQUARE, stable=True)),
        (lambda: std.topk(SQUARE, 2, sorted=True), lambda: torch.topk(SQUARE, 2)),
        (lambda: std.unfold(IMAGE[None], (3, 2), 2, 1, 2), lambda: F.unfold(IMAGE[None], (3, 2), 2, 1, 2)),
        (
            lambda: std.fold(some(1, 18, 4) * 0 + 1, (4, 3), (3, 2), 1, 0, 1),
            lambda: F.fold(some(1, 18, 4) * 0 + 1, (4, 3), (3, 2), 1, 0, 1),
        ),
        (
            lambda: std.cdist(SQUARE, SQUARE.T, compute_mode="donot_use_mm_for_euclid_dist"),
            lambda: torch.cdist(SQUARE, SQUARE.T, compute_mode="donot_use_mm_for_euclid_dist"),
        ),
        (
            lambda: std.scatter(SQUARE, 0, PLACES, SQUARE[:2], reduce="multiply"),
            lambda: torch.scatter(SQUARE, 0, PLACES, SQUARE[:2], reduce="multiply"),
        ),
        (lambda: std.group_norm(SIGNAL, 3, **FIRST), lambda: F.group_norm(SIGNAL, 3)),
        (
            lambda: std.group_norm(SIGNAL, 2, weight=CHANNELS, bias=CHANNELS, **FIRST),
            lambda: F.group_norm(SIGNAL, 2, CHANNELS, CHANNELS),
        ),
        (
            lambda: std.group_norm(SIGNAL, 2, CHANNELS, CHANNELS, 0.1, **FIRST),
            lambda: F.group_norm(SIGNAL, 2, CHANNELS, CHANNELS, 0.1),
        ),
        (lambda: std.local_response_norm(SIGNAL, 2, 0.5, **FIRST), lambda: F.local_response_norm(SIGNAL, 2, 0.5)),
        (lambda: std.unfold(IMAGE[None], kernel_size=2, dilation=(1, 2)), lambda: F.unfold(IMAGE[None], 2, (1, 2))),
        (lambda: std.quantile(SQUARE, 0.3, 1), lambda: torch.quantile(SQUARE, 0.3, 1)),
        (lambda: std.nanquantile(SQUARE, 0.3, 1), lambda: torch.nanquantile(SQUARE, 0.3, 1)),
        (lambda: std.vander(CHANNELS, 4, True), lambda: torch.vander(CHANNELS, 4, True)),
        (lambda: std.adaptive_avg_pool2d(IMAGE, (5, None), **FIRST), lambda: F.adaptive_avg_pool2d(IMAGE, (5, None))),
        (
            lambda: std.adaptive_max_pool2d(IMAGE[None], output_size=(None, 5), **FIRST),
            lambda: F.adaptive_max_pool2d(IMAGE[None], (None, 5)),
        ),
        (
            lambda: std.adaptive_avg_pool2d(IMAGE[None].permute(0, 2, 3, 1), (None, 5), layout="channels_last"),
            lambda: F.adaptive_avg_pool2d(IMAGE[None], (None, 5)).permute(0, 2, 3, 1),
        ),
        (
            lambda: std.max_pool2d(IMAGE[None], 3, 2, return_indices=True, **FIRST),
            lambda: F.max_pool2d(IMAGE[None], 3, 2, return_indices=True),
        ),
        (
            lambda: std.adaptive_max_pool1d(SIGNAL, 3, True, **FIRST),
            lambda: F.adaptive_max_pool1d(SIGNAL, 3, True),
        ),
        (
            lambda: std.max_pool1d(SIGNAL, 3, return_indices=False, **FIRST),
            lambda: F.max_pool1d(SIGNAL, 3, return_indices=False),
        ),
        (
            lambda: std.binary_cross_entropy_with_logits(SIGNAL, SIGNAL, pos_weight=SIGNAL[0]),
            lambda: F.binary_cross_entropy_with_logits(SIGNAL, SIGNAL, pos_weight=SIGNAL[0]),
        ),
        (
            lambda: std.max_pool2d(IMAGE, kernel_size=(3, 2), ceil_mode=True, **FIRST),
            lambda: F.max_pool2d(IMAGE, (3, 2), ceil_mode=True),
        ),
    ],
)
def test_arguments_as_pytorch_takes_them(got, expected):
    results = [v if isinstance(v, tuple) else (v,) for v in (got(), expected())]
    for mine, theirs in zip(*results, strict=True):
        same(mine, theirs)


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr"])
def test_what_is_added_0_times_is_not_read(name):
    taken = {"addmm": (SQUARE, SQUARE), "addmv": (SQUARE, SQUARE[0]), "addr": (SQUARE[0], SQUARE[1])}[name]
    lost = torch.full((3,), torch.nan, dtype=torch.float64)
    same(getattr(std, name)(lost, *taken, beta=0, alpha=2), getattr(torch, name)(lost, *taken, beta=0, alpha=2))


def test_a_dimension_that_is_true_or_a_variance_of_rows_is_refused():
    same(std.max(SQUARE, np.int64(1)), SQUARE.amax(1))
    with pytest.raises(TypeError, match="dim of gather_elements is given twice"):
        std.gather(SQUARE, 1, PLACES, dim=0)
    with pytest.raises(TypeError, match="dim of total is True"):
        std.sum(SQUARE, True)
    with pytest.raises(TypeError, match="one for each row in PyTorch"):
        std.gaussian_nll_loss(SQUARE, SQUARE, SQUARE[0].exp())
    with pytest.raises(TypeError, match='return_indices of max_pool1d is for layout="channels_first"'):
        std.max_pool1d(SIGNAL, 2, return_indices=True, layout="channels_last")
    rows = SQUARE[:, :1].exp()
    same(std.gaussian_nll_loss(SQUARE, SQUARE.T, rows), F.gaussian_nll_loss(SQUARE, SQUARE.T, rows))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (3, 4, 2)])
def test_axis_none_sorts_all_elements_in_one_row(shape):
    x = RNG.standard_normal(shape)
    same(std.sort(x, axis=None)[0], np.sort(x, axis=None))
    np.testing.assert_array_equal(std.argsort(x, axis=None), np.argsort(x, axis=None, kind="stable"))


@pytest.mark.parametrize("shapes", [[(2, 3), (3,)], [(2, 3)], [(), (2,)], [(0, 2), (1, 2, 2), ()], [(2, 2)] * 12])
def test_axis_none_joins_all_elements_in_one_row(shapes):
    given = [RNG.standard_normal(shape) for shape in shapes]
    y, backward = std.concatenate.vjp(given, axis=None)
    same(y, np.concatenate(given, axis=None))
    parts = backward(y)
    for x, part in zip(given, parts if isinstance(parts, tuple) else (parts,), strict=True):
        same(part, x)


def test_no_tensor_is_named():
    for call in (std.softmax, std.softmax.vjp):
        with pytest.raises(TypeError, match="missing: X"):
            call(None)
