"""Functions of PyTorch as tilec.std.NAME with PyTorch's own arguments, in samples of its database: a call gives what it
gives there, or is refused with a line that says why. DIFFERENT has what else it may give, and why."""

import collections
import warnings
import zlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

import operators
import tilec

FRACTIONS = "integers scaled, averaged or bounded by fractions are numbers with a point here, and truncated there"
PLACES = "of equal elements any place is right there"
PAIRS = "the values alone, as NumPy's: argmax_of has the places"
DIFFERENT = {
    ("addmv baddbmm addbmm addmm addr sspaddmm avg_pool1d avg_pool2d avg_pool3d hardtanh", torch.int64): FRACTIONS,
    ("kthvalue topk mode sort argsort msort", torch.int64): PLACES,
    ("cummax cummin max min", None): PAIRS,
}
# Those of the database are methods of tensors, or other functions of the name.
OTHERS = {
    *(("repeat", "repeat"), ("unfold", "unfold")),
    *(("hamming", "signal.windows.hamming"), ("cosine", "signal.windows.cosine")),
}
# What the database calls in another order than the functions of PyTorch.
SECOND_FIRST = {"where", "polygamma", "embedding", "embedding_bag"}
FACTORIES = {"bartlett", "blackman", "hann", "kaiser", "eye"}
OF_TENSORS = ("dtype", "device", "requires_grad")


def calls() -> list:
    known, found = set(dir(tilec.std)), {}
    for op in op_db:
        for name in (each.name.split(".")[-1] for each in (op, *op.aliases)):
            is_other = op.name.startswith(("fft", "masked.", "sparse", "torch.ops", "__")) or (name, op.name) in OTHERS
            if name in known and not is_other:
                found["%s-%s" % (op.full_name, name)] = op, name
    return [pytest.param(*each, id=name) for name, each in found.items()]


def samples(op, dtype: torch.dtype) -> list:
    """One of each form of a call, then others."""
    if dtype not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(zlib.crc32(op.name.encode()))
    forms = collections.defaultdict(list)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        form = [type(each).__name__ for each in sample.args], sorted(sample.kwargs), getattr(sample.input, "ndim", -1)
        forms[str(form)].append(sample)
    ordered = sorted(((k, n) for n, form in enumerate(forms.values()) for k in range(len(form))))
    return [[*forms.values()][n][k] for k, n in ordered]


def flat(result) -> list:
    return [each for part in result for each in flat(part)] if isinstance(result, (tuple, list)) else [result]


def compare(op, name: str, sample) -> "str | None":
    """How the call differs; a refusal does not."""
    arguments, named = (sample.input, *sample.args), dict(sample.kwargs)
    if name in SECOND_FIRST:
        arguments = (arguments[1], arguments[0], *arguments[2:])
    if name in FACTORIES:
        named = {key: value for key, value in named.items() if key not in OF_TENSORS}
    if "nn.functional" in op.name and "channels_first" in (getattr(tilec.std, name).__doc__ or "").partition("\n\n")[2]:
        named["layout"] = "channels_first"
    expected = flat(op(sample.input, *sample.args, **sample.kwargs))
    try:
        got = flat(getattr(tilec.std, name)(*arguments, **named))
    except (TypeError, ValueError, tilec.Error) as refusal:
        return None if str(refusal).strip() else "an empty refusal"
    if len(got) != len(expected):
        return "%d results, not %d" % (len(got), len(expected))
    for g, e in zip(map(torch.as_tensor, got), map(torch.as_tensor, expected)):
        if g.shape != e.shape:
            return "shape %s, not %s" % (tuple(g.shape), tuple(e.shape))
        if not torch.allclose(g.double(), e.double(), rtol=1e-4, atol=1e-5, equal_nan=True):
            return "%s, not %s" % (g.flatten()[:5].tolist(), e.flatten()[:5].tolist())
    return None


@pytest.mark.parametrize("op, name", calls())
def test_call(op, name):
    faults = []
    for dtype in (torch.float32, torch.int64) if operators.WANTED else (torch.float32,):
        if any(name in names.split() and only in (None, dtype) for names, only in DIFFERENT):
            continue
        found = samples(op, dtype)
        count = len(found) if operators.WANTED == "all" else int(operators.WANTED or 1)
        start = 0 if operators.WANTED else zlib.crc32(name.encode())
        for k in range(min(count, len(found))):
            sample = found[(start + k) % len(found)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                difference = compare(op, name, sample)
            if difference:
                faults.append("%s: %s\n    %s" % (dtype, difference, sample.summary()))
    assert not faults, "\n".join(faults)
