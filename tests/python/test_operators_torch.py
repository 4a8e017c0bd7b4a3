"""std/ against PyTorch's database of operators: values and gradients of its samples, each of which operators_torch.py
says with std/."""
import warnings
import zlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

import operators
import operators_page
from operators_torch import REFERENCE, TABLE, VALUES_ONLY

DATABASE = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in op_db}
COUNTS = {torch.float32: 3, torch.float64: 2}              # and one of f16 or of bf16


def samples(name: str, dtype: torch.dtype) -> list:
    """In the place of f32, those in i64 of an operator of integers."""
    op = DATABASE[name]
    if torch.float32 not in op.supported_dtypes("cpu"):
        dtype = {torch.float32: torch.int64}.get(dtype, dtype)
    if dtype not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(zlib.crc32(name.encode()))
    return list(op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype.is_floating_point))


def reached(name: str, sample) -> tuple:
    return operators.reached(TABLE[name], (sample.input, *sample.args), sample.kwargs)


def is_number(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def with_leaves(sample):
    """The sample in f64 and as it is, both made of the same leaves; the leaves; and the types that they have in it."""
    made: dict = {}
    types: dict = {}
    def wide(value):
        if is_number(value):
            made[id(value)] = value.detach().double().requires_grad_(value.requires_grad)
            types[id(value)] = value.dtype
        return made.get(id(value), value)
    @torch.enable_grad()                                   # transform() is without gradients
    def as_given(value):
        return made[id(value)].to(value.dtype) if id(value) in made else value
    reference = sample.transform(wide)
    leaves = {key: leaf for key, leaf in made.items() if leaf.requires_grad}
    return reference, sample.transform(as_given), [*leaves.values()], [types[key] for key in leaves]


def as_tuple(results) -> tuple:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def compare(name: str, sample):
    dtype = next((v.dtype for v in (sample.input, *sample.args) if is_number(v)), torch.float32)
    reference, own, leaves, types = with_leaves(sample)
    expected = as_tuple(REFERENCE.get(name, DATABASE[name])(reference.input, *reference.args, **reference.kwargs))
    got = as_tuple(TABLE[name](own.input, *own.args, **own.kwargs))
    assert len(got) == len(expected)
    pairs = [(g, e) for g, e in zip(got, expected) if g is not None]
    for k, (g, e) in enumerate(pairs):
        operators.agree("%s.%d" % (name, k), g, e, dtype)
    pairs = [(g, e) for g, e in pairs if e.requires_grad]
    if not pairs or not leaves or name in VALUES_ONLY:
        return
    torch.manual_seed(1)
    seeds = [torch.randn_like(e) for _, e in pairs]
    theirs = torch.autograd.grad([e for _, e in pairs], leaves, seeds, allow_unused=True)
    ours = torch.autograd.grad(
        [g for g, _ in pairs], leaves, [s.to(g.dtype) for (g, _), s in zip(pairs, seeds)], allow_unused=True
    )
    for k, (g, e, leaf, own_type) in enumerate(zip(ours, theirs, leaves, types)):
        operators.agree_gradient(
            "%s.d%d" % (name, k), *(torch.zeros_like(leaf) if v is None else v for v in (g, e)), dtype, own_type
        )


@pytest.mark.parametrize("name", sorted(TABLE))
def test_operator(name):
    if name not in DATABASE:
        pytest.skip("this PyTorch's database does not have it")
    faults = []
    narrow = (torch.float16, torch.bfloat16)
    for dtype, count in (
        COUNTS | dict.fromkeys(narrow if operators.WANTED else narrow[zlib.crc32(name.encode()) % 2 :][:1], 1)
    ).items():
        mapped = [s for s in samples(name, dtype) if reached(name, s)[1] is None]
        for sample in operators.selected(mapped, count):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compare(name, sample)
            except Exception as fault:
                faults.append("%s: %s\n    %s" % (dtype, sample.summary(), str(fault).strip().replace("\n", "\n    ")))
    assert not faults, "%d samples\n%s" % (len(faults), "\n".join(faults[:6]))


def page_section() -> str:
    counted = {name: operators_page.Counted() for name in TABLE if name in DATABASE}
    for name, count in counted.items():
        for sample in samples(name, torch.float32):
            count += reached(name, sample)
    others = (
        "The database has %d entries. Of the others most are functions of one element, which the language has itself, or take a whole tensor apart: sorting, decompositions, indexing."
        % len(DATABASE)
    )
    return operators_page.section("PyTorch", torch.__version__.partition("+")[0], "samples", counted, others)


def test_page():
    version, section = operators_page.in_page("PyTorch")
    if version != torch.__version__.partition("+")[0]:
        pytest.skip("docs/std/coverage.md is of PyTorch %s" % version)
    assert section.strip() == page_section().strip(), "tests/python/operators_page.py --update"
