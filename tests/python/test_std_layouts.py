"""`layout=` of the functions of std/ that read channels last under PyTorch's names: values and derivatives of both
orders against each other, those of channels first against PyTorch, and what is said where an input does not fit."""

import inspect
import warnings

import numpy as np
import pytest

import tilec

RNG = np.random.default_rng(16)


def _pairs():
    """Names of all functions that read channels last, and those of their other order."""
    return {
        name: heading.layouts["channels_first"]
        for name, families in tilec.std._headings().items()
        for heading in families.values()
        if next(iter(heading.layouts), "") == "channels_last"
    }


def _array(*shape):
    return RNG.standard_normal(shape)


# Sizes that are no two the same, so that another order fits nowhere; parameters; weights behind the images, by layout.
IMAGES = {1: (2, 4, 9), 2: (2, 4, 9, 7), 3: (2, 4, 5, 6, 7)}
OPTIONS = {
    "max_pool": {"kernel_size": 3, "stride": 2, "padding": 1},
    "avg_pool": {"kernel_size": 2, "stride": 2},
    "lp_pool": {"kernel_size": 3},
    "adaptive": {"output_size": 2},
    "interpolate": {"size": 6, "mode": "linear"},
    "group_norm": {"num_groups": 2},
    "depth_to_space": {"block_size": 2},
    "space_to_depth": {"block_size": 2},
    "conv": {"stride": 2, "padding": 1},
    "depthwise": {"stride": 2},
}


def _case(name):
    """What the function of `name` is given, channels first, and its parameters."""
    known = next((options for start, options in OPTIONS.items() if name.startswith(start)), {})
    rank = next((int(n) for n in "123" if n + "d" in name), 2)
    image = _array(*IMAGES[rank])
    if name == "space_to_depth":
        image = _array(2, 3, 4, 6)
    weights = []
    if name.startswith("conv"):
        weights = [_array(4, 5, *[3] * rank)] if "transpose" in name else [_array(5, 4, *[3] * rank)]
    elif name.startswith("depthwise"):
        weights = [_array(8, 1, 3, 3)]
    elif name == "batch_norm_inference":
        weights = [_array(4), _array(4) ** 2 + 1, _array(4), _array(4)]
    elif name in ("batch_norm", "group_norm", "instance_norm"):
        weights = [_array(4), _array(4)]
    return [image, *weights], known


def _behind(array):
    return np.moveaxis(array, 1, -1)


def _last(name, arrays):
    """The same, channels last: weights of convolutions are [taps, in, out]."""
    image, *weights = arrays
    if name == "weight_standardise":
        return [np.moveaxis(image, 0, -1)]
    if name.startswith("depthwise"):  # [C*M, 1, KH, KW] as [KH, KW, C, M]
        weights = [weights[0].reshape(4, 2, 3, 3).transpose(2, 3, 0, 1)]
    elif name.startswith("conv"):
        taps = range(2, weights[0].ndim)
        weights = [weights[0].transpose(*taps, *((0, 1) if "transpose" in name else (1, 0)))]
    return [_behind(image), *weights]


def test_pairs_have_one_heading():
    """The same inputs, and the parameters with the same usual values; each names the other."""
    pairs = _pairs()
    assert len(pairs) == 35
    for last, first in pairs.items():
        one, other = tilec.std._heading(last), tilec.std._heading(first)
        assert other.layouts == {"channels_first": first, "channels_last": last}, last
        assert (list(one.inputs), one.results) == (list(other.inputs), other.results)
        assert one.parameters.items() <= other.parameters.items(), last


@pytest.mark.parametrize("name", sorted(_pairs()))
def test_both_orders_give_the_same(name):
    arrays, options = _case(name)
    function = getattr(tilec.std, name)
    first = function(*arrays, layout="channels_first", **options)
    last = function(*_last(name, arrays), layout="channels_last", **options)
    plain = function(*_last(name, arrays), **options)
    of_others = getattr(tilec.std, _pairs()[name])(*arrays, **options)
    many = [each if isinstance(each, tuple) else (each,) for each in (first, last, plain, of_others)]
    for f, l, p, o in zip(*many):
        turned = np.moveaxis(f, 0, -1) if name == "weight_standardise" else _behind(f) if f.ndim > 2 else f
        np.testing.assert_allclose(turned, l, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(l, p)
        np.testing.assert_array_equal(f, o)


@pytest.mark.parametrize("name", sorted(_pairs()))
def test_derivatives_of_both_orders_are_the_same(name):
    arrays, options = _case(name)
    function = getattr(tilec.std, name)
    wrt = list(tilec.std._heading(name).inputs)[0]
    y, backward = function.vjp(*arrays, layout="channels_first", wrt=wrt, **options)
    z, backward_last = function.vjp(*_last(name, arrays), layout="channels_last", wrt=wrt, **options)
    ys, zs = (each if isinstance(each, tuple) else (each,) for each in (y, z))
    given = [RNG.standard_normal(each.shape) for each in ys]
    other = [np.moveaxis(g, 0, -1) if name == "weight_standardise" else _behind(g) if g.ndim > 2 else g for g in given]
    dx, dx_last = backward(*given), backward_last(*other)
    turned = np.moveaxis(dx, 0, -1) if name == "weight_standardise" else _behind(dx)
    np.testing.assert_allclose(turned, dx_last, rtol=1e-9, atol=1e-9)


def _of_torch(name, functional):
    """What PyTorch's function of the name is called with beside the arrays; None where it has none."""
    plain = {
        "max_pool": dict(kernel_size=3, stride=2, padding=1),
        "avg_pool": dict(kernel_size=2, stride=2),
        "adaptive_": dict(output_size=2),
        "conv": dict(stride=2, padding=1),
    }
    theirs = name.replace("_transpose", "").replace("conv", "conv_transpose") if "transpose" in name else name
    if not hasattr(functional, theirs):
        return None
    return theirs, next((each for start, each in plain.items() if name.startswith(start)), None)


NAMES = [name for name in sorted(_pairs()) if name.startswith(("max_pool", "avg_pool", "adaptive", "conv"))]


@pytest.mark.parametrize("name", NAMES)
def test_channels_first_is_what_pytorch_gives(name):
    torch = pytest.importorskip("torch")
    theirs, options = _of_torch(name, torch.nn.functional)
    arrays, own = _case(name)
    inputs = [torch.tensor(each, requires_grad=True) for each in arrays]
    expected = getattr(torch.nn.functional, theirs)(*inputs, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, backward = getattr(tilec.std, name).vjp(
            *(each.detach() for each in inputs), layout="channels_first", **own
        )
    torch.testing.assert_close(found, expected.detach())
    given = torch.tensor(RNG.standard_normal(tuple(expected.shape)))
    expected.backward(given)
    gradients = backward(given)
    for own_gradient, each in zip(gradients if isinstance(gradients, tuple) else (gradients,), inputs):
        torch.testing.assert_close(own_gradient, each.grad, rtol=1e-9, atol=1e-9)


def test_normalisations_are_pytorchs():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x, gamma, beta = torch.tensor(_array(3, 4, 5, 6)), torch.tensor(_array(4)), torch.tensor(_array(4))
    mean, variance = torch.tensor(_array(4)), torch.tensor(_array(4) ** 2 + 1)
    std, order = tilec.std, {"layout": "channels_first"}
    torch.testing.assert_close(
        std.batch_norm(x, gamma, beta, **order)[0], functional.batch_norm(x, None, None, gamma, beta, training=True)
    )
    torch.testing.assert_close(
        std.batch_norm_inference(x, mean, variance, gamma, beta, **order),
        functional.batch_norm(x, mean, variance, gamma, beta),
    )
    torch.testing.assert_close(
        std.group_norm(x, gamma, beta, num_groups=2, **order), functional.group_norm(x, 2, gamma, beta)
    )
    torch.testing.assert_close(
        std.instance_norm(x, gamma, beta, **order), functional.instance_norm(x, weight=gamma, bias=beta)
    )
    torch.testing.assert_close(std.local_response_norm(x, size=3, **order), functional.local_response_norm(x, 3))


def test_a_tensor_of_torch_asks_for_the_order():
    torch = pytest.importorskip("torch")
    x, table = torch.ones(2, 3, 8, 8), torch.ones(2, 3)
    for call in (
        lambda: tilec.std.batch_norm(x),
        lambda: tilec.std.max_pool2d(x, 2),
        lambda: tilec.std.max_pool2d(I=x, kernel_size=2),
        lambda: tilec.std.max_pool2d.vjp(x),
    ):
        with pytest.warns(tilec.DimensionWarning, match="channels_first"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tilec.std.batch_norm(table)  # one order alone
        tilec.std.batch_norm(x.numpy())  # whose library has no such function
        tilec.std.batch_norm(x, layout="channels_last")
        tilec.std.batch_norm_nchw(x)


def test_softmax_of_torch_asks_for_the_dimension():
    torch = pytest.importorskip("torch")
    x, table = torch.ones(2, 3, 4), torch.ones(2, 3)
    for function in (tilec.std.softmax, tilec.std.softmin, tilec.std.log_softmax):
        with pytest.warns(tilec.DimensionWarning, match="along the last dimension.*say dim="):
            function(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(x, 1), function(x, dim=-1), function(x, axis=0), function(table), function(x.numpy())


def test_what_does_not_fit_names_the_order():
    image, kernel = _array(1, 3, 8, 8), _array(4, 3, 3, 3)
    with pytest.raises(tilec.ShapeError, match="(?s)E0202.*`conv2d` reads channels_last.*`layout=channels_first`"):
        tilec.std.conv2d(image, kernel)
    with pytest.raises(tilec.ShapeError, match="(?s)`conv2d_nchw` reads channels_first.*`layout=channels_last`"):
        tilec.std.conv2d(_behind(image), _array(3, 3, 3, 4), layout="channels_first")
    with pytest.raises(TypeError, match="layout of conv2d is 'NCHW': give layout='channels_last' or"):
        tilec.std.conv2d(image, kernel, layout="NCHW")
    with pytest.raises(TypeError, match="softmax has no input and no compile-time parameter layout"):
        tilec.std.softmax(image, layout="channels_first")
    with pytest.raises(TypeError, match="layout of conv2d is 'NCHW'"):
        tilec.std.load("conv2d", define={"layout": "NCHW"})


def test_the_order_is_told_and_kept():
    assert "layout={channels_last, channels_first}" in str(inspect.signature(tilec.std.conv2d))
    assert "layout={channels_first, channels_last}" in str(inspect.signature(tilec.std.conv2d_nchw))
    assert 'layout="channels_first": conv2d_nchw(I[N, groups*CI, H, W], K[CO, CI, KH, KW]' in tilec.std.conv2d.__doc__
    image, kernel = _array(1, 3, 8, 8), _array(4, 3, 3, 3)
    expected = tilec.std.conv2d(image, kernel, layout="channels_first", stride=2)
    program = tilec.std.load("conv2d", define={"layout": "channels_first", "stride": 2})
    np.testing.assert_array_equal(program(image, kernel), expected)
    sample = tilec.std.conv2d(image[0], kernel, layout="channels_first", stride=2)
    np.testing.assert_allclose(sample, expected[0], rtol=1e-12)
    pooled = tilec.std.max_pool2d(image, 2, layout="channels_first")
    np.testing.assert_array_equal(pooled, image.reshape(1, 3, 4, 2, 4, 2).max((3, 5)))
