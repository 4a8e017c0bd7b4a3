"""std/norm.tile against PyTorch: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare, program

torch = pytest.importorskip("torch")
F = torch.nn.functional


def last(f):
    """An NCHW function of PyTorch, for NHWC."""
    return lambda x, *rest: f(x.permute(0, 3, 1, 2), *rest).permute(0, 2, 3, 1)


def training(x, g, b):
    axes = [a for a in range(x.dim()) if a != 1]
    return F.batch_norm(x, None, None, g, b, training=True), x.mean(axes), x.var(axes, unbiased=False)


def training_last(x, g, b):
    y, m, v = training(x.permute(0, 3, 1, 2), g, b)
    return y.permute(0, 2, 3, 1), m, v


def standard(axes):
    return lambda k: (k - k.mean(axes, keepdim=True)) / torch.sqrt(k.var(axes, unbiased=False, keepdim=True) + 1e-5)


def inference(x, m, v, g, b):
    m, v, g, b = (t.reshape(1, -1, *[1] * (x.dim() - 2)) for t in (m, v, g, b))
    return (x - m) / torch.sqrt(v + 1e-5) * g + b                         # PyTorch's own has no gradient for m and v


C5 = ((5,), (5,))
V = np.linspace(0.5, 2, 5)
CASES = [
    Case("batch_norm", ((3, 4, 2, 5),) + C5, training_last),
    Case("batch_norm_nchw", ((3, 5, 2, 4),) + C5, training),
    Case("batch_norm_rows", ((7, 5),) + C5, training),
    Case("batch_norm_nchw", ((2, 5, 3, 3),) + C5, training),
    Case("batch_norm_inference", ((3, 4, 2, 5), (5,), V) + C5, last(inference)),
    Case("batch_norm_inference", ((7, 5), (5,), V) + C5, inference),
    Case("batch_norm_inference_nchw", ((3, 5, 2, 4), (5,), V) + C5, inference),
    Case("running", ((5,), (5,)), lambda a, b: 0.9 * a + 0.1 * b),
    Case("layer_norm", ((7, 5),) + C5, lambda x, g, b: F.layer_norm(x, [5], g, b)),
    Case("layer_norm", ((1, 5),) + C5, lambda x, g, b: F.layer_norm(x, [5], g, b)),
    Case("layer_norm3", ((2, 3, 5),) + C5, lambda x, g, b: F.layer_norm(x, [5], g, b, eps=1e-3), {"eps": 1e-3}),
    Case("rms_norm", ((7, 5), (5,)), lambda x, g: F.rms_norm(x, [5], g)),
    Case("rms_norm", ((7, 5), (5,)), lambda x, g: F.rms_norm(x, [5], g, 1e-3), {"eps": 1e-3}),
    Case("rms_norm3", ((2, 3, 5), (5,)), lambda x, g: F.rms_norm(x, [5], g, 1e-6)),
    Case("layer_norm", ((2, 3, 4, 5),) + ((4, 5),) * 2, lambda x, g, b: F.layer_norm(x, [4, 5], g, b), {"axis": -2}),
    Case("layer_norm", ((3, 4),), lambda x: F.layer_norm(x, [3, 4]), {"axis": 0}),
    Case("rms_norm", ((2, 3, 4, 5), (3, 4, 5)), lambda x, g: F.rms_norm(x, [3, 4, 5], g), {"axis": 1}),
    Case(
        "group_norm",
        ((2, 3, 2, 6), (6,), (6,)),
        lambda x, g, b: last(lambda x: F.group_norm(x, 3, g, b))(x),
        {"num_groups": 3},
    ),
    Case("group_norm_nchw", ((2, 6, 3, 2), (6,), (6,)), lambda x, g, b: F.group_norm(x, 2, g, b), {"num_groups": 2}),
    Case(
        "instance_norm", ((2, 3, 4, 5),) + C5, lambda x, g, b: last(lambda x: F.instance_norm(x, weight=g, bias=b))(x)
    ),
    Case("instance_norm_nchw", ((2, 5, 3, 4),) + C5, lambda x, g, b: F.instance_norm(x, weight=g, bias=b)),
    Case(
        "local_response_norm",
        ((2, 3, 2, 7),),
        last(lambda x: F.local_response_norm(x, 4, 0.5, 0.6, 2.0)),
        {"size": 4, "alpha": 0.5, "beta": 0.6, "k": 2},
    ),
    Case("local_response_norm_nchw", ((2, 7, 3, 2),), lambda x: F.local_response_norm(x, 5)),
    Case("weight_standardise", ((3, 2, 4, 5),), standard([0, 1, 2])),
    Case("weight_standardise_nchw", ((5, 4, 3, 2),), standard([1, 2, 3])),
    Case("l2_normalise", ((7, 5),), lambda x: F.normalize(x)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_normalisations(case):
    compare("norm", case, [np.float32, np.float64][CASES.index(case) % 2])


@pytest.mark.parametrize("target", ["reference", "opencl"])
def test_other_targets(target):
    compare("norm", next(c for c in CASES if c.function == "layer_norm"), np.float32, target)


def test_a_row_of_zeros():
    f = program("norm", "l2_normalise")
    x = np.zeros((2, 3), np.float32)
    assert (f(x) == 0).all() and (f.grad()(x, np.ones_like(x)) == 0).all()
