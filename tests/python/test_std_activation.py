"""std/activation.tile and std/safe.tile against PyTorch: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare

torch = pytest.importorskip("torch")
F = torch.nn.functional

SHAPES = [(1,), (7, 13), (2, 3, 4, 5)]
PLAIN = [
    ("relu6", F.relu6),
    ("leaky_relu", F.leaky_relu),
    ("elu", F.elu),
    ("selu", F.selu),
    ("celu", F.celu),
    ("gelu", F.gelu),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    ("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x)),
    ("silu", F.silu),
    ("mish", F.mish),
    ("softsign", F.softsign),
    ("square_relu", lambda x: F.relu(x) ** 2),
    ("hard_sigmoid", lambda x: F.relu6(x + 3) / 6),
    ("hard_swish", lambda x: x * F.relu6(x + 3) / 6),
    ("hard_tanh", F.hardtanh),
    ("tanh_shrink", F.tanhshrink),
    ("soft_shrink", F.softshrink),
    ("hard_shrink", F.hardshrink),
    ("threshold", lambda x: F.threshold(x, 0, 0)),
]
WITH = [
    ("leaky_relu", {"negative_slope": 0.3}, lambda x: F.leaky_relu(x, 0.3)),
    ("elu", {"alpha": 0.7}, lambda x: F.elu(x, 0.7)),
    ("celu", {"alpha": 1.5}, lambda x: F.celu(x, 1.5)),
    ("hard_tanh", {"min_val": -0.25, "max_val": 2}, lambda x: F.hardtanh(x, -0.25, 2)),
    ("soft_shrink", {"lambd": 1}, lambda x: F.softshrink(x, 1)),
    ("hard_shrink", {"lambd": 1}, lambda x: F.hardshrink(x, 1)),
    ("threshold", {"threshold": 0.5, "value": -3}, lambda x: F.threshold(x, 0.5, -3)),
]
CASES = (
    [Case(name, (SHAPES[k % 3],), f, low=-7, high=7) for k, (name, f) in enumerate(PLAIN)]
    + [Case(name, ((5, 11),), f, define, low=-3, high=3) for name, define, f in WITH]
    + [
        Case("prelu", ((5, 7), (7,)), lambda x, a: torch.where(x > 0, x, a * x)),
        Case("prelu", ((5, 7), ()), lambda x, a: F.prelu(x, a)),
        Case("swiglu", ((5, 7), (5, 7)), lambda x, g: F.silu(g) * x),
        Case("geglu", ((5, 7), (5, 7)), lambda x, g: F.gelu(g) * x),
        Case("glu", ((5, 8),), lambda x: F.glu(x)),
        Case("glu", ((1, 2),), lambda x: F.glu(x)),
        Case("glu3", ((2, 3, 6),), lambda x: F.glu(x)),
        Case("glu", ((5, 8),), lambda x: x[:, :4] * F.silu(x[:, 4:]), call="glu<silu>"),
        Case(
            "straight_through", ((5, 7),), lambda x: x + (torch.round(x) - x).detach(), call="straight_through<round>"
        ),
        Case(
            "straight_through", ((5, 7),), lambda x: x + (torch.floor(x) - x).detach(), call="straight_through<floor>"
        ),
        Case(
            "sign_through",
            ((5, 7),),
            lambda x: F.hardtanh(x) + (torch.where(x < 0, -1.0, 1.0) - F.hardtanh(x)).detach(),
            call="sign_through",
        ),
    ]
)
SAFE = [
    Case("log1p", ((40,),), torch.log1p, low=-0.9, high=1.0),
    Case("log1p", ((40,),), torch.log1p, low=-1e-6, high=1e-6),
    Case("expm1", ((40,),), torch.expm1, low=-9, high=2),
    Case("expm1", ((40,),), torch.expm1, low=-1e-6, high=1e-6),
    Case("softplus", ((5, 8),), F.softplus, low=-30, high=30),
    Case("softplus", ((5, 8),), F.softplus, low=-16, high=-12),
    Case("softplus", ((5, 8),), lambda x: F.softplus(x, 2.5), {"beta": 2.5}, low=-3, high=3),
    Case("log_sigmoid", ((5, 8),), F.logsigmoid, low=-30, high=30),
    Case("log_sigmoid", ((5, 8),), F.logsigmoid, low=12, high=16),
    Case("xlogy", ((5, 8), (5, 8)), torch.special.xlogy, low=0.1, high=3),
    Case("xlogy", (np.zeros(4), np.arange(1.0, 5.0)), lambda x, y: x * 0 * y, wrt=()),
    Case("stop_gradient", ((5, 7),), lambda x: x.detach() + 0 * x, call="stop_gradient"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_activations(case):
    compare("activation", case, [np.float32, np.float64][CASES.index(case) % 2])


@pytest.mark.parametrize("target", ["reference", "opencl"])
@pytest.mark.parametrize("name", ["gelu", "mish", "elu"])
def test_other_targets(name, target):
    compare("activation", next(case for case in CASES if case.function == name), np.float32, target)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", SAFE, ids=str)
def test_safe_functions(case, dtype):
    compare("safe", case, dtype)
