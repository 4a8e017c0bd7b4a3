"""std/recurrent.tile against PyTorch's cells and sequences: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare, program

torch = pytest.importorskip("torch")


def weights(gates, i=3, m=5):
    return ((gates * m, i), (gates * m, m), (gates * m,), (gates * m,))


def of(module):
    """A module of PyTorch as a function of its input, its state and its weights."""
    def run(x, *rest):
        names = [n for n, _ in module.named_parameters()]
        count = len(rest) - len(names)
        state = rest[0] if count == 1 else rest[:count]
        given = dict(zip(names, rest[count:]))
        result = torch.func.functional_call(module, given, (x, state) if isinstance(module, torch.nn.RNNCellBase) else (
            x, state[None] if count == 1 else tuple(s[None] for s in state)))
        if isinstance(module, torch.nn.RNNCellBase):
            return result
        last = result[1]
        return last[0] if count == 1 else tuple(s[0] for s in last)
    return run


STATE = (2, 5)
NN = torch.nn
CASES = [
    Case("rnn_cell", ((2, 3), STATE) + weights(1), of(NN.RNNCell(3, 5))),
    Case("rnn_cell", ((2, 3), STATE) + weights(1), of(NN.RNNCell(3, 5)), call="rnn_cell"),
    Case("lstm_cell", ((2, 3), STATE, STATE) + weights(4), of(NN.LSTMCell(3, 5))),
    Case("lstm_cell", ((1, 1), (1, 1), (1, 1)) + weights(4, 1, 1), of(NN.LSTMCell(1, 1))),
    Case("gru_cell", ((2, 3), STATE) + weights(3), of(NN.GRUCell(3, 5))),
    Case("gru_cell", ((1, 1), (1, 1)) + weights(3, 1, 1), of(NN.GRUCell(1, 1))),
    Case("rnn", ((4, 2, 3), STATE) + weights(1), of(NN.RNN(3, 5)), {"steps": 4}),
    Case("rnn", ((1, 2, 3), STATE) + weights(1), of(NN.RNN(3, 5)), {"steps": 1}),
    Case("lstm", ((3, 2, 3), STATE, STATE) + weights(4), of(NN.LSTM(3, 5)), {"steps": 3}),
    Case("gru", ((3, 2, 3), STATE) + weights(3), of(NN.GRU(3, 5)), {"steps": 3}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_recurrent(case):
    compare("recurrent", case, [np.float32, np.float64][CASES.index(case) % 2])


def layer(kind, batch_first=False, bidirectional=False, **options):
    """A layer of PyTorch as a function of X, weights, biases and initial states, in the order of std/; what is not
    given is 0."""
    def run(x, *rest, bias=True):
        m = rest[1].shape[1]
        module = kind(
            x.shape[-1], m, batch_first=batch_first, bidirectional=bidirectional, bias=bias, **options
        ).double()
        names = [
            "%s_%s_l0%s" % (part, of, way)
            for part in ("weight", "bias")[: 1 + bias]
            for way in ("", "_reverse")[: 1 + bidirectional]
            for of in ("ih", "hh")
        ]
        states = rest[len(names):]
        hx = None if not states else states if kind is NN.LSTM else states[0]
        if hx is not None and not bidirectional:
            hx = tuple(s[None] for s in hx) if kind is NN.LSTM else hx[None]
        y, last = torch.func.functional_call(module, dict(zip(names, rest)), (x, hx))
        last = last if isinstance(last, tuple) else (last,)
        return (y,) + (last if bidirectional else tuple(s[0] for s in last))
    return run


def of_layer(name, gates, kind, x, m=3, states=1, bidirectional=False, define={}, **options):
    """Cases with all inputs given, and with weights alone."""
    weight, bias = [(gates * m, x[-1]), (gates * m, m)], [(gates * m,), (gates * m,)]
    batch = x[:-2] if define.get("batch_first") else x[1:-1]
    state = ((2,) if bidirectional else ()) + batch + (m,)
    run = layer(kind, bidirectional=bidirectional, **options)
    times = 1 + bidirectional
    whole = (x,) + tuple(weight * times) + tuple(bias * times) + (state,) * states
    return [
        Case(name, whole, run, define),
        Case(name, (x,) + tuple(weight * times), lambda *given: run(*given, bias=False), define),
    ]


LAYERS = (
    of_layer("rnn_layer", 1, NN.RNN, (4, 2, 3))
    + of_layer(
        "rnn_layer",
        1,
        NN.RNN,
        (2, 4, 3),
        batch_first=True,
        nonlinearity="relu",
        define={"batch_first": 1, "nonlinearity": "relu"},
    )
    + of_layer("lstm_layer", 4, NN.LSTM, (5, 2, 3), states=2)
    + of_layer("lstm_layer", 4, NN.LSTM, (2, 3, 2), states=2, batch_first=True, define={"batch_first": 1})
    + of_layer("lstm_layer", 4, NN.LSTM, (3, 2), states=2)
    + of_layer("gru_layer", 3, NN.GRU, (4, 2, 3))
    + of_layer("gru_layer", 3, NN.GRU, (1, 1, 1), m=1)
    + of_layer("gru_layer", 3, NN.GRU, (2, 3, 2), batch_first=True, define={"batch_first": 1})
    + of_layer("gru_layer", 3, NN.GRU, (3, 2))
    + of_layer("rnn_bidirectional", 1, NN.RNN, (3, 2, 2), bidirectional=True)
    + of_layer("lstm_bidirectional", 4, NN.LSTM, (3, 2, 2), states=2, bidirectional=True)
    + of_layer(
        "lstm_bidirectional",
        4,
        NN.LSTM,
        (2, 3, 2),
        states=2,
        bidirectional=True,
        batch_first=True,
        define={"batch_first": 1},
    )
    + of_layer("gru_bidirectional", 3, NN.GRU, (3, 2, 2), bidirectional=True)
)


@pytest.mark.parametrize("k", range(len(LAYERS)), ids=[str(case) for case in LAYERS])
def test_layers(k):
    compare("recurrent", LAYERS[k], [np.float64, np.float32][k // 2 % 2])


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("name, gates, kind", [("rnn", 1, NN.RNN), ("lstm", 4, NN.LSTM), ("gru", 3, NN.GRU)])
def test_sequences_of_several_lengths(name, gates, kind):
    """As PyTorch's packed sequences: values, and gradients by the input, the weights and the states."""
    t, n, i, m = 5, 3, 2, 4
    lengths = np.array([5, 2, 3], np.int32)
    x, states = draw(t, n, i), [draw(2, n, m, seed=1 + k) for k in range(2 if kind is NN.LSTM else 1)]
    w = [draw(*s, seed=5 + k) for k, s in enumerate([(gates * m, i), (gates * m, m)] * 2)]
    module = kind(i, m, bias=False, bidirectional=True).double()
    tensors = [torch.tensor(v, requires_grad=True) for v in [x] + w + states]
    packed = NN.utils.rnn.pack_padded_sequence(tensors[0], torch.tensor(lengths), enforce_sorted=False)
    y, last = torch.func.functional_call(
        module,
        dict(zip([p for p, _ in module.named_parameters()], tensors[1:5])),
        (packed, tuple(tensors[5:]) if kind is NN.LSTM else tensors[5]),
    )
    expected = (NN.utils.rnn.pad_packed_sequence(y, total_length=t)[0],) + (
        last if isinstance(last, tuple) else (last,)
    )
    f = program("recurrent", name + "_bidirectional")
    given = dict(X=x, WI=w[0], WH=w[1], WI_REVERSE=w[2], WH_REVERSE=w[3], LENGTHS=lengths, **dict(zip("HC", states)))
    got = f(**given)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=0, atol=1e-12)
    seeds = [draw(*o.shape, seed=20 + k) for k, o in enumerate(got)]
    wrt = ["X", "WI", "WH", "WI_REVERSE", "WH_REVERSE", "H", "C"][:6 + (kind is NN.LSTM)]
    gradient = f.grad(wrt=wrt)(**given, **{"d" + o: s for o, s in zip(f.outputs, seeds)})
    for a, b in zip(gradient, torch.autograd.grad(expected, tensors, [torch.tensor(s) for s in seeds])):
        np.testing.assert_allclose(a, b.numpy(), rtol=0, atol=1e-11)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def onnx_step(name, x, h, c, w, r, b, p, before):
    """One step of ONNX's operators, as their documentation writes it."""
    m = r.shape[1]
    wb, rb = b[:len(w)], b[len(w):]
    part = lambda k: slice(k * m, (k + 1) * m)
    a = lambda k: x @ w[part(k)].T + h @ r[part(k)].T + wb[part(k)] + rb[part(k)]
    if name == "rnn":
        return np.tanh(a(0)), c
    if name == "gru":
        z, reset = sigmoid(a(0)), sigmoid(a(1))
        inner = reset * (h @ r[part(2)].T + rb[part(2)]) if before else (reset * h) @ r[part(2)].T + rb[part(2)]
        return (1 - z) * np.tanh(x @ w[part(2)].T + wb[part(2)] + inner) + z * h, c
    i, f = sigmoid(a(0) + p[part(0)] * c), sigmoid(a(2) + p[part(2)] * c)
    cell = f * c + i * np.tanh(a(3))
    return sigmoid(a(1) + p[part(1)] * cell) * np.tanh(cell), cell


def onnx(name, x, w, r, b, lengths, h, c, p, direction, before):
    """X[T, N, I], H[D, N, M] to Y[T, D, N, M], Y_h[D, N, M], Y_c."""
    t, n, d, m = x.shape[0], x.shape[1], len(w), r.shape[2]
    y, last, cell = np.zeros((t, d, n, m)), h.copy(), c.copy()
    for k in range(d):
        for e in range(n):
            backwards = direction == "reverse" or k == 1
            for s in range(lengths[e])[::-1 if backwards else 1]:
                last[k, e], cell[k, e] = onnx_step(
                    name, x[s, e], last[k, e], cell[k, e], w[k], r[k], b[k], p[k], before
                )
                y[s, k, e] = last[k, e]
    return y, last, cell


@pytest.mark.parametrize("name, gates", [("rnn", 1), ("lstm", 4), ("gru", 3)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("whole", [True, False])
def test_onnx(name, gates, direction, whole):
    """With layout=1 and every input, and with none that may be left out."""
    t, n, i, m, d = 3, 2, 2, 3, 2 if direction == "bidirectional" else 1
    x, w, r = draw(t, n, i), draw(d, gates * m, i, seed=1), draw(d, gates * m, m, seed=2)
    b, h, c, p, lengths = (
        draw(d, 2 * gates * m, seed=3),
        draw(d, n, m, seed=4),
        draw(d, n, m, seed=5),
        draw(d, 3 * m, seed=6),
        np.array([3, 2], np.int32),
    )
    define = {
        "direction": direction,
        **({"layout": 1} if whole else {}),
        **({"linear_before_reset": 1} if whole and name == "gru" else {}),
    }
    f = program("recurrent", "onnx_" + name, tuple(define.items()))
    if whole:
        first = lambda v: np.ascontiguousarray(v.swapaxes(0, 1))
        given = {
            "X": first(x),
            "W": w,
            "R": r,
            "BIASES": b,
            "LENGTHS": lengths,
            "H": first(h),
            **({"C": first(c), "P": p} if name == "lstm" else {}),
        }
        y, last, cell = onnx(name, x, w, r, b, lengths, h, c, p, direction, True)
        expected = (y.transpose(2, 0, 1, 3), first(last), first(cell))
    else:
        given = {"X": x, "W": w, "R": r}
        expected = onnx(name, x, w, r, 0 * b, [t] * n, 0 * h, 0 * c, 0 * p, direction, False)
    results = f(**given)
    assert len(results) == 2 + (name == "lstm")
    for got, wanted in zip(results, expected):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-13)


def test_directions_are_as_many_as_weights():
    with pytest.raises(ValueError, match="assert_directions"):
        program("recurrent", "onnx_rnn", (("direction", "bidirectional"),))(draw(2, 1, 1), draw(1, 1, 1), draw(1, 1, 1))


@pytest.mark.parametrize("name, gates", [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_what_lies_behind_the_length_counts_for_nothing(name, gates):
    t, n, i, m = 4, 2, 3, 2
    given = {"X": draw(t, n, i), "WI": draw(gates * m, i), "WH": draw(gates * m, m), "LENGTHS": np.array([4, 1])}
    given["X"][1:, 1] = 0
    states = {"dHN": draw(n, m), **({"dCN": draw(n, m)} if name == "lstm" else {})}
    layer = program("recurrent", name + "_layer")
    gradient = layer.grad(wrt=["X", "WI", "WH"])
    cotangents = {"dY": draw(t, n, m), **states}
    expected = layer(**given), gradient(**given, **cotangents)
    for behind in (np.nan, np.inf):
        given["X"][1:, 1] = behind
        for some, others in zip((layer(**given), gradient(**given, **cotangents)), expected):
            for got, wanted in zip(some, others):
                np.testing.assert_array_equal(got, wanted)
