"""std/loss.tile against PyTorch: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare, program

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(3)
LABEL = RNG.integers(0, 7, 5).astype(np.int32)
IGNORED = np.where(np.arange(5) == 2, -100, LABEL).astype(np.int32)
BIT = (RNG.random((5, 7)) < 0.5).astype(np.float64)
SIGN = 2 * BIT - 1
LABELS = RNG.integers(0, 7, (5, 3)).astype(np.int64)
MEANT = np.array(
    [[3, 0, -1, 1, 1, 1, 1], [-1] * 7, [6, 5, 4, 3, 2, 1, 0], [2, -1, 2, 2, 2, 2, 2], [1, 2, 3, -1, 0, 0, 0]], np.int64
)
REDUCTIONS = ("mean", "sum", "none")
NONE = {"reduction": "none"}
S = (5, 7)


def softplus(x):
    return torch.nn.functional.softplus(x, threshold=200)


def focal(x, t):
    p = torch.sigmoid(x)
    return (
        (0.25 * t + 0.75 * (1 - t))
        * (1 - (p * t + (1 - p) * (1 - t))) ** 2
        * F.binary_cross_entropy_with_logits(x, t, **NONE)
    )


def triplet(a, p, q):
    return F.relu((a - p).norm(dim=1) - (a - q).norm(dim=1) + 1)


CASES = [
    Case("squared_error", (S, S), lambda p, t: F.mse_loss(p, t, **NONE)),
    Case("absolute_error", (S, S), lambda p, t: F.l1_loss(p, t, **NONE)),
    Case("huber", (S, S), lambda p, t: F.huber_loss(p, t, **NONE)),
    Case("huber", (S, S), lambda p, t: F.huber_loss(p, t, delta=0.4, **NONE), {"delta": 0.4}),
    Case("smooth_l1", (S, S), lambda p, t: F.smooth_l1_loss(p, t, beta=0.4, **NONE), {"beta": 0.4}),
    Case("log_cosh", (S, S), lambda p, t: torch.log(torch.cosh(p - t)), low=-5, high=5),
    Case(
        "binary_cross_entropy_each",
        (S, S),
        lambda p, t: F.binary_cross_entropy(p, t, **NONE) + 0 * t,
        wrt=("P",),
        low=0.05,
        high=0.95,
    ),
    Case(
        "binary_cross_entropy_logits",
        (S, S),
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, **NONE),
        low=-30,
        high=30,
    ),
    Case("focal", (S, BIT), focal, low=-5, high=5),
    Case("poisson", (S, S), lambda x, t: F.poisson_nll_loss(x, t, **NONE)),
    Case("gaussian_nll", (S, S, S), lambda p, t, v: F.gaussian_nll_loss(p, t, v, **NONE), low=0.1, high=2),
    Case("kl_divergence", (S, S), lambda p, t: F.kl_div(p, t, **NONE), low=0.1, high=1),
    Case("kl_divergence", (S, BIT), lambda p, t: F.kl_div(p, t, **NONE), wrt=("LOGP",)),
    Case("hinge", (S, SIGN), lambda x, t: F.relu(1 - t * x)),
    Case("soft_margin", (S, SIGN), lambda x, t: softplus(-t * x), low=-30, high=30),
    Case("hinge_embedding", (S, SIGN), lambda x, t: F.hinge_embedding_loss(x, t, **NONE), wrt=("X",)),
    Case(
        "margin_ranking",
        (S, S, SIGN),
        lambda x, y, t: F.margin_ranking_loss(x, y, t, margin=0.2, **NONE),
        {"margin": 0.2},
    ),
    Case("mean", (S, S), F.mse_loss),
    Case("mean", (S, S), F.huber_loss, {"loss": "huber"}),
    Case("mean1", ((11,), (11,)), F.l1_loss, {"loss": "absolute_error"}),
    Case("mean3", ((2, 3, 5), (2, 3, 5)), F.binary_cross_entropy_with_logits, {"loss": "binary_cross_entropy_logits"}),
    Case("mean_cross_entropy", (S, IGNORED), lambda x, l: F.cross_entropy(x, l.long())),
    Case("mean_cross_entropy", (S, LABEL), lambda x, l: F.cross_entropy(x, l.long()), call="mean_cross_entropy"),
    Case("cross_entropy_soft", (S, S), lambda x, t: F.cross_entropy(x, t, **NONE), low=0, high=1),
    Case("cross_entropy_smooth", (S, LABEL), lambda x, l: F.cross_entropy(x, l.long(), label_smoothing=0.1, **NONE)),
    Case("nll", (S, LABEL), lambda x, l: F.nll_loss(x, l.long(), **NONE)),
    Case("mean_nll", (S, LABEL), lambda x, l: F.nll_loss(x, l.long())),
    Case("mean_nll", (S, IGNORED), lambda x, l: F.nll_loss(x, l.long())),
    Case("cross_entropy_smooth", (S, IGNORED), lambda x, l: F.cross_entropy(x, l.long(), label_smoothing=0.1, **NONE)),
    # at the kink
    Case("hinge_embedding", (np.ones(4), -np.ones(4)), lambda x, t: F.hinge_embedding_loss(x, t, **NONE), wrt=("X",)),
    Case(
        "margin_ranking",
        (np.ones(4), np.ones(4), np.array([1.0, -1, 1, -1])),
        lambda x, y, t: F.margin_ranking_loss(x, y, t, **NONE),
        wrt=("X", "Y"),
    ),
    Case(
        "gaussian_nll",
        (np.zeros(3), np.ones(3), np.array([0, 0.25, 1])),
        lambda p, t, v: F.gaussian_nll_loss(p, t, v, eps=0.5, **NONE),
        {"eps": 0.5},
        wrt=("P", "VARIANCE"),
        call="gaussian_nll<0.5>",
    ),
    Case("multi_margin", (S, LABEL), lambda x, l: F.multi_margin_loss(x, l.long(), **NONE)),
    Case(
        "cosine_embedding",
        (S, S, SIGN[:, 0]),
        lambda a, b, t: F.cosine_embedding_loss(a, b, t, margin=0.1, **NONE),
        {"margin": 0.1},
        wrt=("A", "B"),
    ),
    *(
        Case(
            "cross_entropy_loss",
            ((5, 7, 3), LABELS, np.linspace(0.5, 2, 7)),
            lambda x, l, w, r=r, e=e: F.cross_entropy(
                x, l.long(), w.detach(), reduction=r, label_smoothing=e, ignore_index=2
            ),
            {"reduction": r, "label_smoothing": e, "ignore_index": 2},
            wrt=("X",),
        )
        for r in REDUCTIONS
        for e in (0, 0.2)
    ),
    *(
        Case(
            "nll_loss",
            ((5, 7, 3), LABELS, np.linspace(0.5, 2, 7)),
            lambda x, l, w, r=r: F.nll_loss(x, l.long(), w.detach(), reduction=r),
            {"reduction": r},
            wrt=("LOGP",),
        )
        for r in REDUCTIONS
    ),
    *(
        Case(
            "triplet_margin_loss",
            (S, S, S),
            lambda a, p, q, r=r, n=n: F.triplet_margin_loss(a, p, q, margin=0.7, p=n, swap=True, reduction=r),
            {"reduction": r, "margin": 0.7, "p": n, "swap": "true"},
        )
        for r in REDUCTIONS
        for n in (1, 2, 3)
    ),
    Case(
        "soft_cross_entropy_loss",
        ((5, 7, 3), (5, 7, 3), (7,)),
        lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2),
        {"label_smoothing": 0.2},
        wrt=("X", "T"),
        low=0.1,
    ),
    Case(
        "binary_cross_entropy_with_logits",
        (S, S, (7,), (7,)),
        lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w.detach(), pos_weight=p.detach()),
        wrt=("X", "T"),
        low=0.1,
    ),
    Case(
        "poisson_nll_loss",
        (S, S),
        lambda x, t: F.poisson_nll_loss(x, t, log_input=False, full=True),
        {"log_input": "false", "full": "true"},
        low=0.3,
        high=4,
        wrt=("X",),
    ),
    Case(
        "gaussian_nll_loss",
        (S, S, S),
        lambda p, t, v: F.gaussian_nll_loss(p, t, v, full=True),
        {"full": "true"},
        low=0.1,
    ),
    Case(
        "kl_div",
        (S, S),
        lambda p, t: F.kl_div(p, t, reduction="batchmean", log_target=True),
        {"reduction": "batchmean", "log_target": "true"},
    ),
    Case(
        "multi_margin_loss",
        (S, LABEL, np.linspace(0.5, 2, 7)),
        lambda x, l, w: F.multi_margin_loss(x, l.long(), p=2, margin=0.8, weight=w.detach()),
        {"p": 2, "margin": 0.8},
        wrt=("X",),
    ),
    Case("multilabel_margin_loss", (S, MEANT), lambda x, l: F.multilabel_margin_loss(x, l.long())),
    Case(
        "multilabel_soft_margin_loss",
        (S, BIT, (7,)),
        lambda x, t, w: F.multilabel_soft_margin_loss(x, t, w),
        wrt=("X",),
    ),
    Case("distances", (S, S), lambda a, b: (a - b).norm(dim=1)),
    Case("triplet", (S, S, S), triplet),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_losses(case):
    compare("loss", case, [np.float32, np.float64][CASES.index(case) % 2])


def test_other_targets():
    compare("loss", next(c for c in CASES if c.function == "mean_cross_entropy"), np.float32, "reference")
    compare("loss", next(c for c in CASES if c.function == "mean_cross_entropy"), np.float32, "opencl")


def test_singular_points():
    a = np.ones((3, 4), np.float32)
    assert all((g == 0).all() for g in program("loss", "distances").grad()(a, a, np.ones(3, np.float32)))
    g = program("loss", "binary_cross_entropy_each").grad(wrt="P")
    assert np.isfinite(
        g(np.array([0, 1, 0, 1], np.float32), np.array([0, 1, 1, 0], np.float32), np.ones(4, np.float32))
    ).all()
    x = np.array([[1e4, -1e4]], np.float32)
    assert np.allclose(program("loss", "mean_cross_entropy")(x, np.array([1], np.int32)), 2e4)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_binary_cross_entropy_where_probabilities_are_certain(dtype):
    p, t = (each.ravel().astype(dtype) for each in np.meshgrid([0, 1, 1e-30, 1e-13, 1e-7, 1 - 1e-7, 0.5], [0, 1, 0.25]))
    wanted = torch.tensor(p, requires_grad=True)
    losses = F.binary_cross_entropy(wanted, torch.tensor(t), **NONE)
    losses.sum().backward()
    np.testing.assert_allclose(
        program("loss", "binary_cross_entropy_each")(p, t), losses.detach().numpy(), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        program("loss", "binary_cross_entropy_each").grad(wrt="P")(p, t, dE=np.ones_like(p)),
        wanted.grad.numpy(),
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        program("loss", "binary_cross_entropy_each").jvp(wrt="P")(p, t, tP=np.ones_like(p)),
        wanted.grad.numpy(),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("function", ["cross_entropy_loss", "nll_loss", "multi_margin_loss", "mean_nll"])
def test_labels_that_are_no_class_have_no_loss(function):
    """PyTorch refuses them; their loss is NaN, and the others keep theirs."""
    x, wrong = RNG.standard_normal((4, 3)).astype("f4"), np.array([0, 3, -1, 2])
    loss = program("loss", function, (("reduction", "none"),) if function.endswith("_loss") else ())
    results = np.broadcast_to(loss(x, wrong), 4)
    assert np.isnan(results[1:3]).all() and (np.isnan(results[[0, 3]]).all() == (function == "mean_nll"))
    assert np.isfinite(loss(x, np.array([0, 1, 2, 2]))).all()


@pytest.mark.parametrize("function", ["cross_entropy_loss", "nll_loss"])
def test_ignored_labels_need_be_no_class(function):
    x = torch.tensor(RNG.standard_normal((4, 3)))
    for ignored in (-100, 7, 1):
        label = np.array([0, ignored, 2, ignored])
        expected = (F.cross_entropy if function == "cross_entropy_loss" else F.nll_loss)(
            x, torch.tensor(label), ignore_index=ignored
        )
        np.testing.assert_allclose(
            program("loss", function, (("ignore_index", ignored),))(x.numpy(), label), expected.item(), rtol=1e-6
        )
