"""tilec.torch.replace against PyTorch's own database of modules: each sample of each type that is covered, forward and
backward."""
import copy
import os
import pickle
import re

import pytest

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch.testing._internal needs it")
from torch import nn
from torch.testing._internal.common_modules import module_db

import tilec
from tilec._torch_layers import LAYERS

DATABASE = {info.module_cls: info for info in module_db}
# Samples of the database that are not replaced, by the reason that the report gives.
LEFT = {
    nn.AdaptiveAvgPool1d: "None is",
    nn.AdaptiveAvgPool2d: "None is",
    nn.AdaptiveAvgPool3d: "None is",
    nn.AdaptiveMaxPool1d: "None is|return_indices",
    nn.AdaptiveMaxPool2d: "None is|return_indices",
    nn.AdaptiveMaxPool3d: "None is|return_indices",
    nn.MaxPool1d: "return_indices",
    nn.MaxPool2d: "return_indices",
    nn.MaxPool3d: "return_indices",
    nn.RNNCell: "nonlinearity='relu'",
    nn.BCELoss: "weight is given",
    nn.BCEWithLogitsLoss: "weight is given",
    nn.KLDivLoss: "log_target=True",
    nn.PoissonNLLLoss: "the function of std/ has",
    nn.InstanceNorm1d: "track_running_stats",
    nn.InstanceNorm2d: "track_running_stats",
    nn.InstanceNorm3d: "track_running_stats",
}


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.config.error_on_recompile = False


def samples(kind, training=True, dtype=torch.float64):
    return DATABASE[kind].module_inputs_func(
        DATABASE[kind], device="cpu", dtype=dtype, requires_grad=True, training=training
    )


def fresh(value):
    """A tensor of its own that autograd follows where it is a float."""
    return (
        value.detach().clone().requires_grad_(value.is_floating_point()) if isinstance(value, torch.Tensor) else value
    )


def run(module, inputs):
    """Outputs, and gradients by inputs and parameters."""
    args, kwargs = [fresh(v) for v in inputs.args], {k: fresh(v) for k, v in inputs.kwargs.items()}
    if isinstance(module, (nn.SoftMarginLoss, nn.HingeEmbeddingLoss)):     # PyTorch differentiates these by no target
        args[1] = args[1].detach()
    # a layer may write to what it is given
    y = module(*[v * 1 if isinstance(v, torch.Tensor) else v for v in args], **kwargs)
    wrt = [
        v for v in [*args, *kwargs.values(), *module.parameters()] if isinstance(v, torch.Tensor) and v.requires_grad
    ]
    results = y if isinstance(y, tuple) else (y,)
    loss = sum(
        (each * torch.linspace(0.5, 1.5, each.numel(), dtype=torch.float64).reshape(each.shape).to(each.dtype)).sum()
        for each in results
    )
    return [*results, *torch.autograd.grad(loss, wrt, allow_unused=True), *module.buffers()]


def made(kind, sample):
    torch.manual_seed(0)
    return kind(*sample.constructor_input.args, **sample.constructor_input.kwargs).double()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind in DATABASE], ids=lambda kind: kind.__name__)
def test_samples_of_the_database(kind, training):
    covered = 0
    for sample in samples(kind, training):
        module = made(kind, sample).train(training)
        twin = copy.deepcopy(module)
        report = tilec.torch.replace(module)
        if report.left:
            assert re.search(LEFT[kind], report.left["(the model)"])
            continue
        covered += 1
        torch.testing.assert_close(
            run(module, sample.forward_input), run(twin, sample.forward_input), rtol=1e-6, atol=1e-8, equal_nan=True
        )
    assert covered


DYNAMIC = [
    nn.Conv2d(3, 8, 3, padding=1),
    nn.ConvTranspose2d(3, 2, 3),
    nn.BatchNorm2d(3),
    nn.BatchNorm2d(3).eval(),
    nn.MaxPool2d(3, 2, ceil_mode=True),
    nn.AvgPool2d(2),
    nn.AdaptiveAvgPool2d(1),
    nn.Linear(10, 10),
    nn.LayerNorm(10),
    nn.GroupNorm(1, 3),
    nn.Softmax(1),
    nn.ReLU(),
]


@pytest.mark.parametrize("k", range(len(DYNAMIC)))
def test_sizes_stay_symbols(k):
    """Batches of several sizes, and images, go through one graph; sizes that parameters have are numbers."""
    module = copy.deepcopy(DYNAMIC[k])
    twin = copy.deepcopy(module)
    tilec.torch.replace(module)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (4, 6, 9):
        torch._dynamo.config.error_on_recompile = n != 4
        x = torch.randn(n, 3, 8 + 2 * n, 10, generator=torch.Generator().manual_seed(n))
        torch.testing.assert_close(both(compiled, [x]), both(twin, [x]), rtol=1e-4, atol=1e-4)


def test_how_much_of_the_database_is_covered():
    """Types of the database without a row; a type that gets one leaves this list."""
    rest = {kind.__name__ for kind in DATABASE if kind not in LAYERS}
    assert {name for name in rest if "Loss" not in name and "Lazy" not in name and "Pad" not in name} == {
        "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "RNN", "GRU", "LSTM",
        "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoderLayer"}


# Options that the database does not have: a module, and the shape of what it is called with.
OPTIONS = [
    (lambda: nn.Conv1d(4, 6, 4, padding="same", dilation=2, groups=2), (2, 4, 9)),
    (lambda: nn.Conv1d(4, 6, 3, padding=2, padding_mode="circular"), (2, 4, 9)),
    (lambda: nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 3), groups=4), (2, 4, 7, 8)),
    (lambda: nn.Conv2d(3, 5, (4, 3), padding="same", bias=False), (2, 3, 6, 5)),
    (lambda: nn.Conv2d(3, 5, 3, padding=1, padding_mode="reflect"), (3, 6, 5)),
    (lambda: nn.Conv2d(2, 2, 3, padding="valid", stride=3), (1, 2, 8, 7)),
    (
        lambda: nn.Conv3d(4, 4, (2, 3, 1), stride=(1, 2, 3), padding=(1, 0, 2), dilation=(2, 1, 1), groups=2),
        (1, 4, 5, 6, 4),
    ),
    (lambda: nn.Conv3d(2, 3, 2, padding="same"), (2, 4, 3, 5)),
    (lambda: nn.ConvTranspose1d(4, 6, 3, stride=3, padding=1, output_padding=2, groups=2, dilation=2), (2, 4, 5)),
    (
        lambda: nn.ConvTranspose2d(
            4, 2, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2), dilation=(1, 2), bias=False
        ),
        (2, 4, 4, 3),
    ),
    (lambda: nn.ConvTranspose3d(2, 4, (1, 2, 3), stride=(1, 2, 2), padding=(0, 1, 1), groups=2), (1, 2, 3, 3, 4)),
    (lambda: nn.MaxPool1d(3, 2, 1, dilation=2, ceil_mode=True), (2, 3, 11)),
    (lambda: nn.MaxPool2d((2, 3), (2, 2), (1, 1), (1, 2), ceil_mode=True), (2, 3, 7, 8)),
    (lambda: nn.MaxPool2d(3, stride=2, padding=1), (3, 9, 9)),
    (lambda: nn.MaxPool3d((1, 2, 3), (2, 2, 1), ceil_mode=True), (1, 2, 5, 5, 4)),
    (lambda: nn.AvgPool1d(3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 3, 8)),
    (lambda: nn.AvgPool1d(4, 3, ceil_mode=True), (2, 3, 9)),
    (lambda: nn.AvgPool2d((3, 2), (2, 2), (1, 1), ceil_mode=True), (2, 3, 6, 8)),
    (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 7, 7)),
    (lambda: nn.AvgPool2d(2, divisor_override=3), (2, 3, 5, 6)),
    (lambda: nn.AvgPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True, count_include_pad=False), (1, 2, 3, 6, 5)),
    (lambda: nn.Linear(5, 3), (5,)),
    (lambda: nn.Linear(5, 3, bias=False), (2, 4, 3, 5)),
    (lambda: nn.LayerNorm((3, 4)), (2, 5, 3, 4)),
    (lambda: nn.LayerNorm(4, bias=False, eps=1e-3), (4,)),
    (lambda: nn.LayerNorm(4, elementwise_affine=False), (2, 3, 4)),
    (lambda: nn.RMSNorm((3, 4), eps=1e-3), (2, 3, 4)),
    (lambda: nn.RMSNorm(4), (5, 4)),
    (lambda: nn.GroupNorm(3, 6, affine=False), (2, 6, 5)),
    (lambda: nn.BatchNorm1d(3, momentum=None), (4, 3)),
    (lambda: nn.BatchNorm2d(3, affine=False, track_running_stats=False), (2, 3, 4, 5)),
    (lambda: nn.BatchNorm3d(3, eps=1e-2, momentum=0.3), (2, 3, 2, 3, 2)),
    (lambda: nn.InstanceNorm1d(3, affine=True), (3, 6)),
    (lambda: nn.LocalResponseNorm(3, 1e-2), (2, 5, 4)),
    (lambda: nn.PReLU(3), (2, 3, 4, 5)),
    (lambda: nn.PReLU(3), (2, 3)),
    (lambda: nn.PReLU(), (2, 3, 4)),
    (lambda: nn.Softmax(1), (2, 3, 4, 5)),
    (lambda: nn.LogSoftmax(0), (4, 3)),
    (lambda: nn.GLU(1), (2, 4, 3)),
    (lambda: nn.GELU("tanh"), (3, 4)),
    (lambda: nn.Softplus(2, 1), (3, 4)),
    (lambda: nn.Hardtanh(-2.5, 0.5), (3, 4)),
    (lambda: nn.Threshold(0.1, -20), (3, 4)),
    (lambda: nn.ReLU(inplace=True), (3, 4)),
    (lambda: nn.LeakyReLU(-0.2), (3, 4)),
    (lambda: nn.AdaptiveAvgPool2d((1, 1)), (2, 3, 4, 5)),
    (lambda: nn.AdaptiveAvgPool2d((3, 4)), (2, 3, 7, 6)),
    (lambda: nn.AdaptiveMaxPool1d(3), (2, 3, 7)),
    (lambda: nn.AdaptiveMaxPool3d((2, 1, 3)), (1, 2, 3, 4, 5)),
    (lambda: nn.Embedding(7, 3, padding_idx=2), (2, 4)),
    (lambda: nn.Bilinear(3, 4, 2), None),
]


def called_with(module, shape, dtype):
    generator = torch.Generator().manual_seed(3)
    if isinstance(module, nn.Embedding):
        return [torch.randint(0, module.num_embeddings, shape, generator=generator)]
    shapes = [(2, 5, module.in1_features), (2, 5, module.in2_features)] if isinstance(module, nn.Bilinear) else [shape]
    return [(torch.randn(s, generator=generator, dtype=torch.float64) * 2).to(dtype) for s in shapes]


def both(module, inputs):
    """The same, as run() gives it, of fresh inputs."""
    return run(module, type("Inputs", (), {"args": inputs, "kwargs": {}}))


@pytest.mark.parametrize("k", range(len(OPTIONS)))
@pytest.mark.parametrize(
    "dtype, rtol, atol", [(torch.float64, 1e-7, 1e-9), (torch.float32, 1e-4, 1e-5), (torch.bfloat16, 0.05, 0.1)]
)
def test_options(k, dtype, rtol, atol):
    make, shape = OPTIONS[k]
    torch.manual_seed(1)
    module = make()
    twin = copy.deepcopy(module).to(dtype)
    parameters, keys = list(module.parameters()), list(module.state_dict())
    assert not tilec.torch.replace(module).left
    assert (
        all(a is b for a, b in zip(parameters, module.parameters()))
        and list(module.state_dict()) == keys
        and isinstance(module, type(twin))
    )
    module.to(dtype)
    inputs = called_with(module, shape, dtype)
    try:
        both(copy.deepcopy(twin), inputs)
    except NotImplementedError as fault:
        pytest.skip("PyTorch: %s" % fault)
    torch.testing.assert_close(both(module, inputs), both(twin, inputs), rtol=rtol, atol=atol)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.load_state_dict(twin.state_dict())
        torch.testing.assert_close(both(other, inputs), both(twin, inputs), rtol=rtol, atol=atol)


@pytest.mark.parametrize("k", range(len(OPTIONS)))
def test_options_compiled(k):
    make, shape = OPTIONS[k]
    torch.manual_seed(1)
    module = make().double()
    twin = copy.deepcopy(module)
    tilec.torch.replace(module)
    inputs = called_with(module, shape, torch.float64)
    torch.testing.assert_close(
        both(torch.compile(module, fullgraph=True, backend="aot_eager"), inputs),
        both(twin, inputs),
        rtol=1e-7,
        atol=1e-9,
    )


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Sequential(nn.Linear(4 * 36, 5), nn.Identity()),
    )


@pytest.mark.parametrize("make", [nn.ReLU, nn.Hardswish, lambda inplace: nn.LeakyReLU(0.2, inplace)])
def test_the_report_says_what_is_not_done_in_place(make):
    model = nn.Sequential(make(inplace=True), make(inplace=False))
    report = tilec.torch.replace(model)
    assert ["the input stays as it is" in line for line in str(report).splitlines()] == [True, False]
    x = torch.linspace(-4, 4, 9)
    before = x.clone()
    assert not torch.equal(model(x), before) and torch.equal(x, before)


def test_types_that_are_asked_for_and_the_report():
    model = network()
    report = tilec.torch.replace(model, nn.Conv2d, nn.Dropout)
    assert (
        list(report.replaced) == ["0"] and list(report.left) == ["3"] and "conv2d_nchw<stride_h=1, stride_w=1" in report.replaced["0"]
    )
    assert type(model[1]) is nn.BatchNorm2d and type(model[5][0]) is nn.Linear and isinstance(model[0], nn.Conv2d)
    rest = tilec.torch.replace(model)
    assert list(rest.replaced) == ["1", "2", "5.0"] and list(rest.left) == ["3", "4", "5.1"]
    assert str(rest).splitlines()[-1] == "5.1  left: it computes nothing"
    for bad in ((3,), (model, 3), (model, int)):
        with pytest.raises(TypeError, match="replace\\(\\) takes"):
            tilec.torch.replace(*bad)


def test_why_modules_are_left():
    class Own(nn.Linear):
        def forward(self, x):
            return x

    class Alike(nn.Linear):
        pass

    for module, reason in (
        (Own(2, 2), "forward of its own"),
        (nn.LazyLinear(3), "call it once"),
        (nn.Conv2d(1, 1, 1, dtype=torch.complex64), "none of Tile's types"),
        (nn.Linear(2, 2, device="meta"), "weight lies on meta"),
        (nn.MaxPool2d(2, return_indices=True), "return_indices"),
        (nn.Softmax(), "dim=None"),
        (nn.Embedding(3, 2, max_norm=1.0), "max_norm=1.0"),
        (nn.AdaptiveAvgPool2d((2, None)), "None is the image's own size"),
        (nn.LSTM(2, 2), "no layer of std/"),
    ):
        kind = type(module)
        report = tilec.torch.replace(module)
        assert type(module) is kind and not report.replaced and reason in report.left["(the model)"]
    alike = Alike(2, 2)
    assert (
        tilec.torch.replace(alike).replaced
        and isinstance(alike, Alike)
        and pickle.loads(pickle.dumps(alike.weight)).shape == (2, 2)
    )
    assert list(tilec.torch.replace(nn.MultiheadAttention(4, 2)).left) == ["out_proj"]


def test_attributes_that_change_change_the_function():
    module, x = nn.Conv2d(2, 3, 3), torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    twin = copy.deepcopy(module)
    tilec.torch.replace(module)
    for each in (module, twin):
        each.stride = (2, 2)
        each.bias = None
    torch.testing.assert_close(module(x), twin(x), rtol=1e-4, atol=1e-5)
    pool = nn.AdaptiveAvgPool2d(1)
    tilec.torch.replace(pool)
    with pytest.raises(ValueError, match="output_size=None cannot be"):
        pool.output_size = None


def test_a_model_is_trained_as_it_was():
    model = network()
    twin = copy.deepcopy(model)
    x, label = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 5
    tilec.torch.replace(model)
    losses = []
    for each in (model, twin):
        torch.manual_seed(2)
        optimiser = torch.optim.SGD(each.parameters(), 0.1)
        for _ in range(4):
            optimiser.zero_grad()
            nn.functional.cross_entropy(each(x), label).backward()
            optimiser.step()
        each.eval()
        losses.append(nn.functional.cross_entropy(each(x), label))
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(torch.compile(model, fullgraph=True)(x), twin(x), rtol=1e-4, atol=1e-5)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), twin(x), rtol=1e-4, atol=1e-5)


def test_autocast():
    model = network().eval()
    twin = copy.deepcopy(model)
    tilec.torch.replace(model)
    x = torch.randn(3, 1, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y, wanted = model(x), twin(x)
    assert y.dtype is wanted.dtype is torch.bfloat16
    torch.testing.assert_close(y, wanted, rtol=0.05, atol=0.05)


def test_output_sizes_of_transposed_convolutions():
    module, x = nn.ConvTranspose2d(2, 3, 3, stride=2), torch.randn(1, 2, 4, 4)
    twin = copy.deepcopy(module)
    tilec.torch.replace(module)
    torch.testing.assert_close(module(x, output_size=[10, 9]), twin(x, output_size=[10, 9]))


def test_shapes_that_a_layer_does_not_take():
    norm, conv, linear = nn.LayerNorm((3, 4)), nn.Conv2d(2, 3, 3), nn.Linear(4, 2)
    for module, shape, words in (
        (norm, (2, 4, 3), "normalized_shape is \\[3, 4\\]"),
        (conv, (1, 3, 8, 8), "assumes|GC|CI|channels"),
        (linear, (2, 5), "`CI` is 5 in `X` but 4 in `weight`"),
    ):
        tilec.torch.replace(module)
        with pytest.raises(ValueError, match=words):
            module(torch.ones(shape))


def test_labels_out_of_range():
    table = nn.Embedding(4, 2)
    tilec.torch.replace(table)
    assert table(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 2)
    with pytest.raises(tilec.ShapeError, match="4"):
        table(torch.tensor([1, 4]))
