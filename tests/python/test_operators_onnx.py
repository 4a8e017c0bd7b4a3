"""std/ against ONNX's node tests: the models of one node whose operator operators_onnx.py says with std/, with their
inputs and outputs."""
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnx.backend.test.case.node as nodes
    from onnx.backend.test.case.utils import import_recursive
    import_recursive(nodes)
    EVERY = nodes.collect_testcases(None)

import operators
import operators_page
from operators_onnx import TABLE

TYPES = {"float16", "float32", "float64", "int32", "int64", "bool", "int8", "uint8", "int16"}


UNREAD = {"kernel_shape"}                                   # where the weights say it too


class Attributes(dict):
    """Those of a node, and which of them were looked at: one that is not read would be an option that nobody missed."""
    def __init__(self, values):
        super().__init__(values)
        self.read = set(UNREAD)

    def get(self, key, usual=None):
        self.read.add(key)
        return super().get(key, usual)

    def __getitem__(self, key):
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self.read.add(key)
        return super().__contains__(key)

    def items(self):
        self.read.update(self)
        return super().items()


def cases() -> dict:
    """By operator: (case, attributes, inputs, outputs), None for what is left out."""
    found: dict = {}
    for case in EVERY:
        if case.model is None or len(case.model.graph.node) != 1:
            continue                                       # a function's body; more than one operator
        node = case.model.graph.node[0]
        attributes = {
            a.name: (lambda v: v.decode() if isinstance(v, bytes) else v)(onnx.helper.get_attribute_value(a))
            for a in node.attribute
        }
        for inputs, outputs in case.data_sets:
            given, wanted = iter(inputs), iter(outputs)
            arguments = [next(given) if name else None for name in node.input]
            results = [next(wanted) if name else None for name in node.output]
            found.setdefault(node.op_type, []).append((case, Attributes(attributes), arguments, results))
    return found


CASES = cases()


def is_covered_type(values) -> bool:
    return all(v is None or (isinstance(v, (np.ndarray, np.generic)) and str(v.dtype) in TYPES) for v in values)


def reached(operator: str, attributes: dict, inputs: list) -> tuple:
    return (
        operators.reached(TABLE[operator], (attributes, *inputs), {})
        if is_covered_type(inputs)
        else (None, "bfloat16 and types that NumPy lacks")
    )


def agree(got, expected, case):
    """Within what the test allows, or the rounding of sums of numbers as large as the largest."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, "%s%s, expected %s%s" % (
        got.dtype,
        got.shape,
        expected.dtype,
        expected.shape,
    )
    largest = (
        np.abs(expected[np.isfinite(expected)], dtype=np.float64).max(initial=0) if expected.dtype.kind == "f" else 0
    )
    rounding = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-13}.get(str(expected.dtype), 0)
    np.testing.assert_allclose(
        got, expected, rtol=case.rtol if expected.dtype.kind == "f" else 0, atol=largest * rounding
    )


@pytest.mark.parametrize("operator", sorted(TABLE))
def test_operator(operator):
    if operator not in CASES:
        pytest.skip("this version of ONNX has no node test of it")
    faults = []
    for case, attributes, inputs, outputs in CASES[operator]:
        if reached(operator, attributes, inputs)[1] is not None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = TABLE[operator](attributes, *inputs)
            assert attributes.read >= set(attributes), "%s: not read" % ", ".join(set(attributes) - attributes.read)
            for y, expected in zip(got if isinstance(got, tuple) else (got,), outputs):
                if expected is None:                       # which the node leaves out
                    continue
                agree(y, np.asarray(expected), case)
        except Exception as fault:
            faults.append("%s %s\n    %s" % (case.name, dict(attributes), str(fault).strip().replace("\n", "\n    ")))
    assert not faults, "%d tests\n%s" % (len(faults), "\n".join(faults))


def page_section() -> str:
    counted = {operator: operators_page.Counted() for operator in TABLE if operator in CASES}
    for operator, count in counted.items():
        for _, attributes, inputs, _ in CASES[operator]:
            count += reached(operator, attributes, inputs)
    others = "Without a function of their own, many because the language says them itself: %s." % ", ".join(
        sorted(set(CASES) - set(TABLE))
    )
    return operators_page.section("ONNX", onnx.__version__, "tests", counted, others)


def test_page():
    version, section = operators_page.in_page("ONNX")
    if version != onnx.__version__:
        pytest.skip("docs/std/coverage.md is of ONNX %s" % version)
    assert section.strip() == page_section().strip(), "tests/python/operators_page.py --update"
