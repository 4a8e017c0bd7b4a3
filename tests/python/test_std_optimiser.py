"""std/optimiser.tile against torch.optim: one and three steps from the same gradients."""
import numpy as np
import pytest

from std_compare import agree, program

torch = pytest.importorskip("torch")
O = torch.optim
# function, parameters of ours, tensors of state, whether it counts steps, PyTorch's optimiser
CASES = [
    ("sgd", {"weight_decay": 0.1}, 0, False, lambda w: O.SGD(w, lr=0.1, weight_decay=0.1)),
    ("sgd", {}, 0, False, lambda w: O.SGD(w, lr=0.1)),
    ("momentum", {"weight_decay": 0.1}, 1, False, lambda w: O.SGD(w, lr=0.1, momentum=0.9, weight_decay=0.1)),
    (
        "nesterov",
        {"momentum": 0.8, "weight_decay": 0.1},
        1,
        False,
        lambda w: O.SGD(w, lr=0.1, momentum=0.8, weight_decay=0.1, nesterov=True),
    ),
    ("adagrad", {"weight_decay": 0.1}, 1, False, lambda w: O.Adagrad(w, lr=0.1, weight_decay=0.1)),
    ("rmsprop", {"weight_decay": 0.1}, 1, False, lambda w: O.RMSprop(w, lr=0.1, weight_decay=0.1)),
    ("adam", {"weight_decay": 0.1}, 2, True, lambda w: O.Adam(w, lr=0.1, weight_decay=0.1)),
    ("adam", {"beta1": 0.5, "beta2": 0.9}, 2, True, lambda w: O.Adam(w, lr=0.1, betas=(0.5, 0.9))),
    ("adamw", {}, 2, True, lambda w: O.AdamW(w, lr=0.1)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "function, define, states, counts, optimiser", CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_three_steps(function, define, states, counts, optimiser, dtype):
    rng = np.random.default_rng(2)
    w = rng.standard_normal((3, 5)).astype(dtype)
    parameter = torch.tensor(w.astype(np.float64), requires_grad=True)
    reference = optimiser([parameter])
    f = program("optimiser", function, tuple(define.items()))
    state = [np.zeros_like(w) for _ in range(states)]
    for step in range(1, 4):
        g = rng.standard_normal(w.shape).astype(dtype)
        parameter.grad = torch.tensor(g.astype(np.float64))
        reference.step()
        results = f(w, *state, g, 0.1, *([step] if counts else []))
        w, *state = results if isinstance(results, tuple) else [results]
        assert w.dtype == dtype
        agree("%s.W" % function, w, parameter.detach().numpy(), dtype)


def test_lion_and_clipping():
    rng = np.random.default_rng(3)
    w, m, g = (rng.standard_normal((3, 5)) for _ in range(3))
    w1, m1 = program("optimiser", "lion", (("DECAY", 0.1),))(w, m, g, 0.01)
    assert np.allclose(w1, w - 0.01 * (np.sign(0.9 * m + 0.1 * g) + 0.1 * w), atol=1e-14) and np.allclose(
        m1, 0.99 * m + 0.01 * g, atol=1e-14
    )
    clipped, norm = program("optimiser", "clip_by_norm")(g, 1.0)
    tensor = torch.nn.Parameter(torch.zeros(3, 5, dtype=torch.float64))
    tensor.grad = torch.tensor(g)
    assert np.allclose(norm, torch.nn.utils.clip_grad_norm_([tensor], 1.0)) and np.allclose(
        clipped, tensor.grad.numpy()
    )
    assert (
        np.allclose(program("optimiser", "clip_by_norm")(g, 100.0)[0], g)
        and (program("optimiser", "clip_by_value")(g, 0.5) == g.clip(-0.5, 0.5)).all()
    )


STATES = {
    **{"sgd": "", "momentum": "V", "nesterov": "V", "adagrad": "V", "rmsprop": "V"},
    **{"adam": "MV", "adamw": "MV", "lion": "M"},
}


@pytest.mark.parametrize("name, states", STATES.items())
@pytest.mark.parametrize("kind, wide", [("f16", "f32"), ("f32", "f64"), ("f64", "f32")])
def test_each_result_has_the_type_of_what_it_replaces(name, states, kind, wide):
    numpy = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    ones = {k: np.ones(2, t) for k, t in numpy.items()}
    given = {"W": ones[kind], **{s: ones[wide] for s in states}, "G": ones[kind], "LR": 0.1}
    results = program("optimiser", name)(**given, **({"T": 1} if "adam" in name else {}))
    kinds = [str(r.dtype) for r in (results if isinstance(results, tuple) else (results,))]
    assert kinds == [str(np.dtype(numpy[k])) for k in (kind, *[wide] * len(states))]
