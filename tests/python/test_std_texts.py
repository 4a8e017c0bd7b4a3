"""tilec.std called as NumPy and PyTorch are: dimensions in any order and apart, tensors in lists, indices that are
smaller than the data; and vjp() of every call that there is."""

import numpy as np
import pytest

import std_batches
import tilec
from std_errors import as_tuple

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("f4")
ONE = X[:1, :, :1]
INDEX = np.array([[[0, 1], [2, 0]]])
S = tilec.std


def picked(x, dim, index):
    """torch.gather"""
    at = list(np.indices(index.shape))
    at[dim] = index
    return x[tuple(at)]


def put(x, dim, index, u):
    """torch.scatter"""
    y, at = x.copy(), list(np.indices(index.shape))
    at[dim] = index
    y[tuple(at)] = u[tuple(map(slice, index.shape))]
    return y


def added(x, dim, index, u):
    y, at = x.copy(), list(np.indices(index.shape))
    at[dim] = index
    np.add.at(y, tuple(at), u[tuple(map(slice, index.shape))])
    return y


# (function, what it is given, parameters, as NumPy says it)
CALLS = [
    ("permute", (X, (2, 0, 1)), {}, X.transpose(2, 0, 1)),
    ("permute", (X, -1, 0, 1), {}, X.transpose(2, 0, 1)),
    ("permute", (X,), {"dims": (0, -1, 1)}, X.transpose(0, 2, 1)),
    ("movedim", (X, 0, -1), {}, np.moveaxis(X, 0, -1)),
    ("movedim", (X, (0, 1), (2, 0)), {}, np.moveaxis(X, (0, 1), (2, 0))),
    ("moveaxis", (X,), {"source": 2, "destination": 0}, np.moveaxis(X, 2, 0)),
    ("transpose", (X,), {}, X.T),
    ("transpose", (X[0],), {}, X[0].T),
    ("transpose", (X[0, 0],), {}, X[0, 0]),
    ("transpose", (X, (1, 0, 2)), {}, X.transpose(1, 0, 2)),
    ("transpose", (X, -1, 0), {}, X.swapaxes(0, 2)),
    ("swapaxes", (X, 2, 0), {}, X.swapaxes(0, 2)),
    ("squeeze", (ONE,), {}, ONE.squeeze()),
    ("squeeze", (ONE, (0, -1, 1)), {}, ONE.squeeze()),
    ("squeeze", (ONE, 0), {}, ONE[0]),
    ("squeeze", (X,), {}, X),
    ("expand_dims", (X, (0, -2)), {}, np.expand_dims(X, (0, -2))),
    ("flip", (X, (0, 2)), {}, np.flip(X, (0, 2))),
    ("roll", (X, 1, (0, 1)), {}, np.roll(X, 1, (0, 1))),
    ("roll", (X, (1, -2)), {"dims": (0, 2)}, np.roll(X, (1, -2), (0, 2))),
    ("roll", (X, 5), {}, np.roll(X, 5)),
    ("tile", (X, (2, 1, 3)), {}, np.tile(X, (2, 1, 3))),
    ("tile", (X, (2, 3)), {}, np.tile(X, (2, 3))),
    ("mean", (X, (0, 2)), {}, X.mean((0, 2))),
    ("mean", (X,), {"axis": (0, -1), "keepdims": True}, X.mean((0, 2), keepdims=True)),
    ("std", (X, (2, 0)), {"correction": 1}, X.std((0, 2), ddof=1)),
    ("logsumexp", (X, (0, 2)), {}, np.log(np.exp(X).sum((0, 2)))),
    ("logsumexp", (X, (0, 1), True), {}, np.log(np.exp(X).sum((0, 1), keepdims=True))),
    ("cat", ([X, 2 * X, X], 1), {}, np.concatenate([X, 2 * X, X], 1)),
    ("cat", ([X] * 9,), {"dim": -1}, np.concatenate([X] * 9, -1)),
    ("cat", ([X[:, :1]] * 65,), {"axis": 1}, np.concatenate([X[:, :1]] * 65, 1)),
    ("cat", ([X],), {}, X),
    ("stack", ([X, 2 * X], 1), {}, np.stack([X, 2 * X], 1)),
    ("stack", ([X] * 17, -1), {}, np.stack([X] * 17, -1)),
    ("stack", ([X],), {}, X[None]),
    ("gather", (X, 2, INDEX), {}, picked(X, 2, INDEX)),
    ("gather", (X, 1, INDEX), {}, picked(X, 1, INDEX)),
    ("gather", (X, INDEX % 2), {}, picked(X, 0, INDEX % 2)),
    ("scatter", (X, 2, INDEX, 3 * X), {}, put(X, 2, INDEX, 3 * X)),
    ("scatter_add", (X, 1, INDEX, X), {}, added(X, 1, INDEX, X)),
    ("scatter_add", (X, 1, INDEX, X[:1, :2, :2]), {}, added(X, 1, INDEX, X)),
    ("take_along_axis", (X, INDEX[:, :1], 2), {}, np.take_along_axis(X, INDEX[:, :1], 2)),
    (
        "take_along_axis",
        (X[:, :1], INDEX[:, [0, 1, 1]] % 2),
        {"axis": -1},
        np.take_along_axis(X[:, :1], INDEX[:, [0, 1, 1]] % 2, -1),
    ),
]


@pytest.mark.parametrize("name, given, named, expected", CALLS, ids=["%s-%d" % (c[0], k) for k, c in enumerate(CALLS)])
def test_calls_of_numpy_and_pytorch(name, given, named, expected):
    function = getattr(S, name)
    y = function(*given, **named)
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)
    for dtype in ("i8", "u1", "?", "f2"):
        if name in ("mean", "std", "logsumexp") or (dtype == "?" and name == "scatter_add"):
            break
        narrow = [
            (
                [v.astype(dtype) for v in value]
                if isinstance(value, list)
                else value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype == "f4" else value
            )
            for value in given
        ]
        made = function(*narrow, **named)
        assert made.dtype == dtype and made.shape == expected.shape
    # the derivative of what is linear is found by numbers
    y, backward = function.vjp(*given, **named)
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=1e-6)
    seed = np.random.default_rng(1).standard_normal(y.shape).astype("f4")
    gradients = as_tuple(backward(seed))
    inputs = [
        v
        for value in given
        for v in (value if isinstance(value, list) else [value])
        if isinstance(v, np.ndarray) and v.dtype == "f4"
    ]
    assert [g.shape for g in gradients] == [v.shape for v in inputs]
    step = np.float32(1 if name not in ("std", "logsumexp") else 1e-2)
    for k, value in enumerate(inputs):
        direction = np.random.default_rng(2).standard_normal(value.shape).astype("f4") * step

        def moved(sign):
            rest = iter([v + sign * direction if j == k else v for j, v in enumerate(inputs)])
            return function(
                *[
                    (
                        [next(rest) for _ in value]
                        if isinstance(value, list)
                        else next(rest) if isinstance(value, np.ndarray) and value.dtype == "f4" else value
                    )
                    for value in given
                ],
                **named,
            )

        numeric = ((moved(1).astype("f8") - moved(-1)) * seed).sum() / 2
        np.testing.assert_allclose((gradients[k].astype("f8") * direction).sum(), numeric, rtol=1e-3, atol=1e-3 * step)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: S.permute(X, (2, 0)), "give each of the 3 dimensions once"),
        (lambda: S.permute(X, (2, 0, 5)), "there are 3 dimensions, -3 to 2"),
        (lambda: S.permute(X, (2, 0, -1)), "a dimension is named twice"),
        (lambda: S.permute(X), r"permute needs dims=: tilec.std.permute\(X, dims=…\)"),
        (lambda: S.movedim(X, (0, 1), (2,)), "as many of one as of the other"),
        (lambda: S.movedim(X, 0), "movedim needs destination="),
        (lambda: S.squeeze(X, (0, 7)), "dim of squeeze is .*: there are 3 dimensions"),
        (lambda: S.roll(X, (1, 2, 3), (0, 1)), "give a number, or one for each of the dimensions"),
        (lambda: S.roll(X, (1, 2)), "give as many dimensions by dim="),
        (lambda: S.tile(X, (1, 2, 3, 4), dim=(0, 1)), "give a number, or one for each of the dimensions"),
        (lambda: S.chunk(X, 0), "chunks of chunk is 0: give 1 or more"),
        (lambda: S.chunk(X), "chunks of chunk is None"),
        (lambda: S.unbind(X, 3), "there are 3 dimensions"),
        (lambda: S.unbind(X[:0]), "of no elements gives no tensor"),
        (lambda: S.unflatten(X, 1), "unflatten needs sizes="),
        (lambda: S.dstack([]), "one list of tensors"),
        (lambda: S.bincount(X[0]), "one dimension, not of 2"),
        (lambda: S.mean(X, (0, 9)), "there are 3 dimensions"),
        (lambda: S.mean(X, (0, 2), some=1), r"mean\(X\): unexpected: some"),
        (lambda: S.cat([]), "the list is empty"),
        (lambda: S.cat([X, X], some=1), "unexpected: some"),
        (lambda: S.take_along_axis(X, INDEX), "needs its compile-time parameters by name"),
        (lambda: tilec.std.load("permute"), "its text depends on the rank"),
    ],
)
def test_what_is_no_such_call_is_named(call, said):
    with pytest.raises((TypeError, AttributeError), match=said):
        call()


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: S.cat([X, X[0]]), "E0204"),
        (lambda: S.gather(X, 1, np.zeros((5, 3, 4), "i8")), "`A0` is 2 in `X` but 5 in `I`"),
        (lambda: S.take_along_axis(X, np.zeros((2, 2, 4), "i8"), 2), "`A1` is 3 in `X` but 2 in `I`"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, said):
    with pytest.raises(tilec.ProgramError, match=said):
        call()


IMAGE = np.random.default_rng(3).standard_normal((1, 2, 5, 4)).astype("f4")
KERNEL = np.random.default_rng(4).standard_normal((2, 2, 3, 3)).astype("f4")
NCHW = ((0, 0), (0, 0), (3, 4), (1, 2))


@pytest.mark.parametrize(
    "call, expected",
    [
        (lambda: S.pad(IMAGE, (1, 2, 3, 4)), np.pad(IMAGE, NCHW)),
        (lambda: S.pad(IMAGE, (1, 2, 3, 4), value=2.5), np.pad(IMAGE, NCHW, constant_values=2.5)),
        (lambda: S.pad(IMAGE, (1, 2, 3, 4), "reflect"), np.pad(IMAGE, NCHW, "reflect")),
        (lambda: S.pad(IMAGE, (1, 2, 3, 4), mode="replicate"), np.pad(IMAGE, NCHW, "edge")),
        (lambda: S.pad(X, pad=(1, 2)), np.pad(X, ((0, 0), (0, 0), (1, 2)))),
        (lambda: S.pad(X, pad_width=(1, 2), mode="wrap"), np.pad(X, (1, 2), "wrap")),
        (lambda: S.pad(X, ((1, 1), (0, 0), (2, 0))), np.pad(X, ((1, 1), (0, 0), (2, 0)))),
        (lambda: S.pad(X, 1), np.pad(X, 1)),
        (lambda: S.pad(X[0, 0], (1, 2)), np.pad(X[0, 0], (1, 2))),
        (lambda: S.pad(X, before=1), np.pad(X, ((1, 1), (0, 0), (0, 0)))),
        (lambda: S.vstack([X[0, 0], X[0, 1]]), np.vstack([X[0, 0], X[0, 1]])),
        (lambda: S.vstack([X] * 9), np.vstack([X] * 9)),
        (lambda: S.hstack([X, X]), np.hstack([X, X])),
        (lambda: S.column_stack([X[0, 0], X[0, 1]]), np.column_stack([X[0, 0], X[0, 1]])),
        (lambda: S.layer_norm(X, (3, 4)), S.layer_norm(X, axis=-2)),
        (lambda: S.layer_norm(X, 4, X[0, 0], bias=None), S.layer_norm(X, X[0, 0])),
        (lambda: S.rms_norm(X, (4,), weight=X[0, 0]), S.rms_norm(X, X[0, 0], eps=2**-23)),
        (lambda: S.conv2d_nchw(IMAGE, KERNEL, None, 2, 1), S.conv2d_nchw(IMAGE, KERNEL, stride=2, padding=1)),
        (lambda: S.conv2d_nchw(IMAGE, weight=KERNEL, padding="same"), S.conv2d_nchw(IMAGE, KERNEL, padding=1)),
        (lambda: S.conv2d_nchw(input=IMAGE, weight=KERNEL, padding="valid"), S.conv2d_nchw(IMAGE, KERNEL)),
        (lambda: S.max_pool2d_nchw(IMAGE, 2, 1), S.max_pool2d_nchw(IMAGE, kernel_size=2, stride=1)),
        (lambda: S.scatter(X, dim=2, index=INDEX, src=3 * X), put(X, 2, INDEX, 3 * X)),
    ],
)
def test_arguments_as_others_have_them(call, expected):
    np.testing.assert_allclose(call(), expected, rtol=1e-6, atol=1e-6)


def test_attention_as_in_pytorch():
    attend, q, mask = S.scaled_dot_product_attention, IMAGE, np.tri(5, dtype=bool)
    masked = attend(q, q, q, MASK=mask)
    for call in (
        lambda: attend(q, q, q, mask),
        lambda: attend(query=q, key=q, value=q, attn_mask=mask, enable_gqa=True),
        lambda: attend(q, q, q, np.where(mask, 0, -np.inf).astype("f4")),
        lambda: attend(q, q, q, None, 0.0, True),
        lambda: attend(q, q, q, is_causal=True, dropout_p=0),
        lambda: attend.vjp(q, q, q, mask)[0],
    ):
        np.testing.assert_allclose(call(), masked, rtol=1e-6, atol=1e-6)
    with pytest.raises(TypeError, match="drops nothing"):
        attend(q, q, q, dropout_p=0.5)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: S.pad(X, (1, 2)), r"write pad=\(1, 2\) or pad_width=\(1, 2\)"),
        (lambda: S.pad(X, (1, 2, 3)), "give two numbers for a dimension"),
        (lambda: S.pad(X, ((1, 1), (2, 2))), "give two numbers for a dimension"),
        (lambda: S.pad(X, (1, 2, 3, 4), mode="some"), "mode of pad is 'some'"),
        (lambda: S.vstack(X), "takes one list of tensors"),
        (lambda: S.layer_norm(X, (2, 4)), "normalized_shape of layer_norm is"),
    ],
)
def test_arguments_that_say_nothing_are_named(call, said):
    with pytest.raises((TypeError, tilec.ProgramError), match=said):
        call()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_number_beside_a_tensor_leaves_its_type(dtype):
    x = np.ones(3, dtype)
    for name in ("div", "lerp", "logaddexp", "mul", "pow", "atan2", "maximum"):
        function = getattr(S, name)
        assert function(*[x] + [2] * (len(function.inputs) - 1)).dtype == dtype, name
    assert S.div(np.ones(3, "i8"), 2).dtype == "f4"


def test_a_number_and_then_a_tensor():
    """The number's value is compiled in where it is a whole one; a tensor in its place is another kernel."""
    for name in ("div", "lerp"):
        function, x = getattr(S, name), np.full(3, 2, "f4")
        rest = len(function.inputs) - 1
        y, backward = function.vjp(*[x] + [4] * rest)
        z, other = function.vjp(*[x] + [2 * x] * rest)
        np.testing.assert_array_equal(y, z)
        np.testing.assert_array_equal(as_tuple(backward(x))[0], as_tuple(other(x))[0])


def test_labels_that_are_floats_are_refused():
    with pytest.raises(tilec.ProgramError, match="labels and positions are integers"):
        S.cross_entropy_loss(X[0], np.zeros(3, "f4"))


def first_cases() -> list:
    """Of each function the first case, and the first with parameters."""
    found: dict = {}
    for case in std_batches.cases():
        found.setdefault((case.family, case.function, bool(case.define)), case)
    return list(found.values())


ALL = first_cases()


@pytest.mark.filterwarnings("ignore:.*W0221:tilec.ProgramWarning")
@pytest.mark.parametrize("family", sorted({case.family for case in ALL}))
def test_vjp_of_every_function_with_its_parameters(family):
    """`tilec.std.NAME.vjp(…, parameters)` is vjp of the program with these, for arrays of NumPy and PyTorch;
    what has no derivative says so."""
    try:
        import torch
    except ImportError:
        torch = None
    differentiable = 0
    for case in ALL:
        if case.family != family or tilec.std._heading(case.function).family != family:
            continue  # of two with a name the plain one
        own = tilec.std.load("%s.%s" % (family, case.function), define=case.define)
        given = {name: value for name, value in case.inputs.items() if name in own.inputs}
        try:
            y, backward = own.vjp(**given)
        except (tilec.ProgramError, ValueError, TypeError) as fault:
            with pytest.raises(type(fault)):
                getattr(S, case.function).vjp(**given, **case.define)
            continue
        differentiable += 1
        seeds = [np.ones_like(v) for v in as_tuple(y) if v.dtype.kind == "f"]
        expected = as_tuple(backward(*seeds))
        z, other = getattr(S, case.function).vjp(**given, **case.define)
        for got, wanted in zip((*as_tuple(z), *as_tuple(other(*seeds))), (*as_tuple(y), *expected), strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=str(case))
        if torch and any(isinstance(v, np.ndarray) for v in given.values()):
            tensors = {n: torch.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for n, v in given.items()}
            z, other = getattr(S, case.function).vjp(**tensors, **case.define)
            made = as_tuple(other(*map(torch.from_numpy, seeds)))
            assert all(isinstance(v, torch.Tensor) for v in made)
            for got, wanted in zip(made, expected, strict=True):
                np.testing.assert_array_equal(got.numpy(), wanted, err_msg=str(case))
    assert differentiable
