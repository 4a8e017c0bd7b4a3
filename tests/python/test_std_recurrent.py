"""std/recurrent.tile against PyTorch's cells and sequences: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare

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
    Case("rnn_cell", ((2, 3), STATE) + weights(1), of(NN.RNNCell(3, 5))), Case("rnn_cell", ((2, 3), STATE) + weights(1), of(NN.RNNCell(3, 5)), call="rnn_cell"),
    Case("lstm_cell", ((2, 3), STATE, STATE) + weights(4), of(NN.LSTMCell(3, 5))), Case("lstm_cell", ((1, 1), (1, 1), (1, 1)) + weights(4, 1, 1), of(NN.LSTMCell(1, 1))),
    Case("gru_cell", ((2, 3), STATE) + weights(3), of(NN.GRUCell(3, 5))), Case("gru_cell", ((1, 1), (1, 1)) + weights(3, 1, 1), of(NN.GRUCell(1, 1))),
    Case("rnn", ((4, 2, 3), STATE) + weights(1), of(NN.RNN(3, 5)), {"steps": 4}), Case("rnn", ((1, 2, 3), STATE) + weights(1), of(NN.RNN(3, 5)), {"steps": 1}),
    Case("lstm", ((3, 2, 3), STATE, STATE) + weights(4), of(NN.LSTM(3, 5)), {"steps": 3}), Case("gru", ((3, 2, 3), STATE) + weights(3), of(NN.GRU(3, 5)), {"steps": 3}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_recurrent(case):
    compare("recurrent", case, [np.float32, np.float64][CASES.index(case) % 2])
