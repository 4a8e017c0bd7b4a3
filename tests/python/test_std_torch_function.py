"""tilec.torch.function of functions of std/: compile-time parameters in the call, by PyTorch's names too."""
import pytest

torch = pytest.importorskip("torch")
import tilec
from tilec import std

F = torch.nn.functional
X, LABELS = torch.linspace(-2, 3, 24, dtype=torch.float64).reshape(2, 3, 4), torch.tensor([[0, 2, 1, 1], [2, 0, 0, 1]])


def same_with_gradient(mine, theirs, *tensors):
    """Values and gradients of a second order, where there is one."""
    given = [t.clone().requires_grad_() for t in tensors]
    got, expected = mine(*given), theirs(*given)
    torch.testing.assert_close(got, expected)
    weights = torch.linspace(0.5, 1.5, expected.numel(), dtype=expected.dtype).reshape(expected.shape)
    each = [torch.autograd.grad((y * y * weights).sum(), given, create_graph=True) for y in (got, expected)]
    torch.testing.assert_close(*each)
    torch.testing.assert_close(*[torch.autograd.grad(sum((g * g).sum() for g in gs), given) for gs in each])


@pytest.mark.parametrize(
    "mine, theirs",
    [
        (lambda x: tilec.torch.function(std.softmax)(x, dim=1), lambda x: F.softmax(x, dim=1)),
        (lambda x: tilec.torch.function(std.softmax)(x, -1), lambda x: F.softmax(x, -1)),
        (
            lambda x: tilec.torch.function(std.cross_entropy)(x, LABELS, label_smoothing=0.1, reduction="sum"),
            lambda x: F.cross_entropy(x, LABELS, label_smoothing=0.1, reduction="sum"),
        ),
        (
            lambda x: tilec.torch.function(std.layer_norm)(x, normalized_shape=(3, 4), eps=1e-3),
            lambda x: F.layer_norm(x, (3, 4), eps=1e-3),
        ),
        (lambda x: tilec.torch.function(std.var)(x, dim=(0, 2), correction=1), lambda x: torch.var(x, dim=(0, 2))),
        (lambda x: tilec.torch.function(std.concat)([x, x * x], dim=1), lambda x: torch.cat([x, x * x], dim=1)),
        (lambda x: tilec.torch.function(std.pad)(x, pad=(1, 2)), lambda x: F.pad(x, (1, 2))),
    ],
)
def test_a_call_gives_parameters_by_the_names_of_pytorch(mine, theirs):
    same_with_gradient(mine, theirs, X)


def test_weights_go_by_the_names_of_pytorch():
    weight = torch.linspace(0, 1, 2 * 3 * 2, dtype=torch.float64).reshape(2, 3, 2)
    same_with_gradient(
        lambda x, w: tilec.torch.function(std.conv1d_ncw)(x, weight=w, stride=2, padding=1),
        lambda x, w: F.conv1d(x, weight=w, stride=2, padding=1),
        X,
        weight,
    )


def test_the_parts_of_a_tensor_are_a_tuple():
    (part,) = tilec.torch.function(std.chunk)(X, 1)
    torch.testing.assert_close(part, X)


def test_transforms_of_torch_func_apply():
    f = tilec.torch.function(std.softmax)
    torch.testing.assert_close(torch.func.vmap(lambda x: f(x, dim=0))(X), F.softmax(X, dim=1))
    torch.testing.assert_close(
        torch.func.grad(lambda x: f(x, dim=0)[0, 0, 0])(X), torch.func.grad(lambda x: F.softmax(x, dim=0)[0, 0, 0])(X)
    )


def test_names_that_are_none_are_said_all_at_once():
    with pytest.raises(TypeError, match="no compile-time parameter colour or size; .*parameters dim=-1"):
        tilec.torch.function(std.softmax)(X, colour=1, size=2)
    with pytest.raises(TypeError, match="convert them, instead of dtype=; .*reshape the result"):
        std.softmax(X, dim=1, dtype="float64", keepdim=True)
    with pytest.raises(TypeError, match="instead of where=; .*instead of initial="):
        std.sum(X, where=X > 0, initial=1)


def test_a_program_that_was_loaded_says_what_an_input_is_called():
    with pytest.raises(TypeError, match="weight is GAMMA here"):
        tilec.torch.function(std.load("layer_norm"))(X, weight=X[0, 0])
