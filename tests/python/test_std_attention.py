"""std/attention.tile against PyTorch: values and gradients."""
import numpy as np
import pytest

from std_compare import Case, compare, program

torch = pytest.importorskip("torch")
sdpa = torch.nn.functional.scaled_dot_product_attention

MASK = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], bool)
QKV = ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3))


def masked(q, k, v, mask):
    p = (q @ k.transpose(-1, -2) / 2).masked_fill(~mask, -1e30).softmax(-1) * mask
    return p @ v


def multi_head(causal):
    def run(x, wq, wk, wv, wo):
        q, k, v = (torch.einsum("btc,chd->bhtd", x, w) for w in (wq, wk, wv))
        return torch.einsum("bhte,hec->btc", sdpa(q, k, v, is_causal=causal), wo)
    return run


def rotary(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def rotary_pairs(x, c, s):
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous()) * torch.complex(c, s)
    return torch.view_as_real(z).flatten(-2)


def alibi(x):
    h, t, s = x.shape[1:]
    slope = 2.0 ** (-8.0 * torch.arange(1, h + 1, dtype=torch.float64) / h)
    return x - slope[:, None, None] * (torch.arange(t)[:, None] - torch.arange(s)[None]).abs()


def relative(t, s):
    return torch.arange(s)[None] - torch.arange(t)[:, None] + t - 1


def tables(p, d):
    angle = p[:, None] * 10000.0 ** (-2.0 * torch.arange(d // 2, dtype=torch.float64) / d)
    return torch.cos(angle), torch.sin(angle)


WEIGHTS = ((2, 3, 4), (4, 2, 3), (4, 2, 3), (4, 2, 2), (2, 2, 5))
CASES = [
    Case("attention", QKV, sdpa),
    Case("attention", QKV, sdpa, call="attention"),
    Case("attention_bias", QKV + ((3, 5),), lambda q, k, v, b: sdpa(q, k, v, b)),
    Case("attention_bias", QKV + ((2, 3, 5),), lambda q, k, v, b: sdpa(q, k, v, b)),
    Case("attention_mask", QKV + (MASK,), masked),
    Case("attention_mask", QKV + (MASK,), masked, call="attention_mask"),
    Case("attention_causal", ((2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3)), lambda q, k, v: sdpa(q, k, v, is_causal=True)),
    Case("attention_causal", ((1, 1, 7, 2), (1, 1, 7, 2), (1, 1, 7, 1)), lambda q, k, v: sdpa(q, k, v, is_causal=True)),
    Case(
        "multi_query",
        ((2, 2, 3, 4), (2, 5, 4), (2, 5, 3)),
        lambda q, k, v: sdpa(q, k[:, None].expand(2, 2, 5, 4), v[:, None].expand(2, 2, 5, 3)),
    ),
    Case(
        "grouped_query",
        ((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)),
        lambda q, k, v: sdpa(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)),
    ),
    Case("multi_head", WEIGHTS, multi_head(False)),
    Case("multi_head", WEIGHTS, multi_head(True), {"attend": "attention_causal"}),
    Case("rotary", ((2, 2, 3, 6), (3, 3), (3, 3)), rotary),
    Case("rotary_pairs", ((2, 2, 3, 6), (3, 3), (3, 3)), rotary_pairs),
    Case("rotary_tables", (np.arange(5.0), 6), tables),
    Case("rotary_tables", (np.arange(5.0), 6), tables),
    Case("alibi", ((2, 3, 4, 5),), alibi),
    Case("relative_bias", ((2, 3, 4, 5), (3, 8)), lambda x, b: x + b[:, relative(4, 5)]),
    Case(
        "relative_scores",
        ((2, 2, 3, 4), (2, 2, 5, 4), (7, 4)),
        lambda q, k, r: (q @ k.transpose(-1, -2) + torch.einsum("bhtd,tsd->bhts", q, r[relative(3, 5)])) / 2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case):
    compare("attention", case, [np.float32, np.float64][CASES.index(case) % 2])


@pytest.mark.parametrize("target", ["reference", "opencl"])
def test_other_targets(target):
    compare("attention", CASES[0], np.float32, target)


def test_half_precision():
    compare("attention", CASES[0], np.float16)


def test_a_query_that_sees_nothing():
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in QKV]
    f = program("attention", "attention_mask")
    none = np.zeros((3, 5), bool)
    output = f(*values, none)
    assert (output == 0).all() and all(
        (g == 0).all() for g in f.grad(wrt=["Q", "K", "V"])(*values, none, np.ones_like(output))
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_any_combination(causal, scale):
    rng = np.random.default_rng(5)
    q, k, v, bias = (rng.standard_normal(shape) for shape in ((2, 4, 5, 3), (2, 2, 5, 3), (2, 2, 5, 2), (4, 5, 5)))
    seen = rng.random((2, 1, 5, 5)) < 0.7
    seen[..., 0] = True
    tensors = [torch.tensor(each, requires_grad=True) for each in (q, k, v)]
    order = torch.ones(5, 5).tril().bool() if causal else torch.ones(5, 5).bool()
    mask = torch.where(torch.tensor(seen) & order, torch.tensor(bias), -torch.inf)
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask, scale=scale, enable_gqa=True)
    f = program("attention", "scaled_dot_product_attention", (("is_causal", int(causal)), ("scale", scale or 0)))
    assert np.allclose(f(q, k, v, seen, bias), expected.detach().numpy(), atol=1e-12)
    ones = np.ones(expected.shape)
    got = f.grad(wrt=["Q", "K", "V"])(q, k, v, seen, bias, ones)
    for ours, theirs in zip(got, torch.autograd.grad(expected, tensors, torch.tensor(ones))):
        assert np.allclose(ours, theirs.numpy(), atol=1e-11)
