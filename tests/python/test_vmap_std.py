"""Each function of std/ for a batch: bit for bit the stack of its results, its gradients likewise, on the interpreter; and on the CPU nearly.

All inputs batched, and each alone. TILEC_VMAP_ALL=1 runs all of them on the CPU too, otherwise there a part, drawn by name.
"""
import os
import zlib

import numpy as np
import pytest

import tilec
from std_batches import STD, batch_of, cases
from std_errors import as_tuple

COUNT = 3
CASES = cases()


def program(case, target):
    return tilec.load(STD / (case.family + ".tile"), function=case.function, define=case.define, target=target, include=[STD.parent])


def element(values, names, batched, b):
    return [v[b] if n in batched else v for n, v in zip(names, values)]


def compare(f, single, batched, exact, what):
    """The batch of `f` by the inputs `batched` against f element by element; `single`: arguments of f."""
    values = [batch_of(np.asarray(v), COUNT, k) if n in batched else v for k, (n, v) in enumerate(zip(f.inputs, single))]
    whole = as_tuple(f.vmap(batched)(*values))
    for b in range(COUNT):
        for name, got, wanted in zip(f.outputs, whole, as_tuple(f(*element(values, f.inputs, batched, b)))):
            assert got.shape == (COUNT,) + wanted.shape and got.dtype == wanted.dtype, (what, name)
            if exact or wanted.dtype.kind != "f":
                assert np.array_equal(got[b], wanted, equal_nan=wanted.dtype.kind == "f"), (what, name, b)
            else:
                error = {2: 4e-3, 4: 2e-5, 8: 1e-11}[wanted.itemsize]
                np.testing.assert_allclose(got[b], wanted, rtol=error, atol=error * max(1, np.abs(wanted[np.isfinite(wanted)]).max(initial=0)), err_msg="%s.%s" % (what, name))


def is_tensor(value):
    return isinstance(value, np.ndarray)


def batched_inputs(f, inputs):
    """All tensors, then each alone; a scalar that is no size as well."""
    tensors = [n for n in f.inputs if is_tensor(inputs[n])]
    scalars = [n for n in f.inputs if isinstance(inputs[n], float)]
    return ([tensors] if tensors else []) + ([[n] for n in tensors] if len(tensors) > 1 else []) + [[n] for n in scalars]


def check(case, target):
    f = program(case, target)
    inputs = {n: v for n, v in case.inputs.items() if n in f.inputs}
    assert set(f.inputs) == set(inputs), "the case gives %s" % sorted(inputs)
    single = [inputs[n] for n in f.inputs]
    exact = target == "reference"
    lists = batched_inputs(f, inputs)
    for batched in lists:
        compare(f, [np.float32(v) if n in batched and not is_tensor(v) else v for n, v in zip(f.inputs, single)], batched, exact, str(case))
    floats = [n for n in f.inputs if is_tensor(inputs[n]) and inputs[n].dtype.kind == "f"]
    outputs = [o for o in as_tuple(f(*single))]
    if not floats or all(o.dtype.kind != "f" for o in outputs):
        return
    try:
        gradient = f.grad(wrt=floats)
        cotangents = [np.random.default_rng(k).standard_normal(o.shape).astype(o.dtype) for k, o in enumerate(outputs) if o.dtype.kind == "f"]
        gradient(*single, *cotangents)
    except tilec.ProgramError:
        return                                             # it has none
    cotangent_names = list(gradient.inputs[len(f.inputs):])
    for batched in [lists[0] + cotangent_names] + [[n] for n in floats[:1]]:
        compare(gradient, single + cotangents, batched, exact, "gradient of " + str(case))
    many = [batch_of(v, COUNT, k) if n in lists[0] else v for k, (n, v) in enumerate(zip(f.inputs, single))]
    many_cotangents = [batch_of(v, COUNT, k + 100) for k, v in enumerate(cotangents)]
    of_batch = as_tuple(f.vmap(lists[0]).grad(wrt=floats)(*many, *many_cotangents))
    for b in range(COUNT):
        one = as_tuple(gradient(*element(many, f.inputs, lists[0], b), *[c[b] for c in many_cotangents]))
        for name, got, wanted in zip(gradient.outputs, of_batch, one):
            assert got.shape == (COUNT,) + wanted.shape
            np.testing.assert_allclose(got[b], wanted, rtol=1e-4 if wanted.itemsize > 2 else 1e-2, atol=(1e-5 if wanted.itemsize > 2 else 1e-2) * max(1, np.abs(wanted[np.isfinite(wanted)]).max(initial=0)), err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_is_its_elements(case):
    check(case, "reference")


@pytest.mark.parametrize("case", [c for c in CASES if os.environ.get("TILEC_VMAP_ALL") or zlib.crc32(str(c).encode()) % 8 == 0], ids=str)
def test_on_the_cpu(case):
    check(case, "cpu")


def test_most_functions_of_std_have_a_case():
    assert len({(c.family, c.function) for c in CASES}) > 350
