"""Each function of std/ for a batch: bit for bit the stack of its results, its gradients likewise, on the interpreter;
and on the CPU nearly.

All inputs batched, and each alone. TILEC_VMAP_ALL=1 runs all of them on the CPU too, otherwise there a part, drawn by
name.
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
    return tilec.load(
        STD / (case.family + ".tile"), function=case.function, define=case.define, target=target, include=[STD.parent]
    )


def element(given, batched, b):
    return {n: v[b] if n in batched else v for n, v in given.items()}


def batches(given, batched, seed=0):
    return {
        n: batch_of(np.asarray(v), COUNT, seed + k) if n in batched else v for k, (n, v) in enumerate(given.items())
    }


def compare(f, given, batched, exact, what):
    """The batch of `f` by the inputs `batched` against f element by element; `given`: arguments of f, without those
    that have a default and are left out."""
    values = batches(given, batched)
    whole = as_tuple(f.vmap(batched)(**values))
    for b in range(COUNT):
        for name, got, wanted in zip(f.outputs, whole, as_tuple(f(**element(values, batched, b)))):
            assert got.shape == (COUNT,) + wanted.shape and got.dtype == wanted.dtype, (what, name)
            if exact or wanted.dtype.kind != "f":
                assert np.array_equal(got[b], wanted, equal_nan=wanted.dtype.kind == "f"), (what, name, b)
            else:
                error = {2: 4e-3, 4: 2e-5, 8: 1e-11}[wanted.itemsize]
                np.testing.assert_allclose(
                    got[b],
                    wanted,
                    rtol=error,
                    atol=error * max(1, np.abs(wanted[np.isfinite(wanted)]).max(initial=0)),
                    err_msg="%s.%s" % (what, name),
                )


def is_tensor(value):
    return isinstance(value, np.ndarray)


def batched_inputs(given):
    """All tensors, then each alone; a scalar that is no size as well."""
    tensors = [n for n, v in given.items() if is_tensor(v)]
    scalars = [n for n, v in given.items() if isinstance(v, float)]
    return (
        ([tensors] if tensors else []) + ([[n] for n in tensors] if len(tensors) > 1 else []) + [[n] for n in scalars]
    )


def check(case, target):
    f = program(case, target)
    # a call refuses it where one without a default is left out
    given = {n: case.inputs[n] for n in f.inputs if n in case.inputs}
    exact = target == "reference"
    lists = batched_inputs(given)
    for batched in lists:
        compare(
            f,
            {n: np.float32(v) if n in batched and not is_tensor(v) else v for n, v in given.items()},
            batched,
            exact,
            str(case),
        )
    floats = [n for n, v in given.items() if is_tensor(v) and v.dtype.kind == "f"]
    outputs = as_tuple(f(**given))
    if not floats or all(o.dtype.kind != "f" for o in outputs):
        return
    try:
        gradient = f.grad(wrt=floats)
        cotangents = {
            "d" + n: np.random.default_rng(k).standard_normal(o.shape).astype(o.dtype)
            for k, (n, o) in enumerate(zip(f.outputs, outputs))
            if o.dtype.kind == "f"
        }
        gradient(**given, **cotangents)
    except tilec.ProgramError:
        return                                             # it has none
    for batched in [lists[0] + list(cotangents)] + [[n] for n in floats[:1]]:
        compare(gradient, {**given, **cotangents}, batched, exact, "gradient of " + str(case))
    many, many_cotangents = batches(given, lists[0]), batches(cotangents, cotangents, 100)
    of_batch = as_tuple(f.vmap(lists[0]).grad(wrt=floats)(**many, **many_cotangents))
    for b in range(COUNT):
        one = as_tuple(gradient(**element(many, lists[0], b), **element(many_cotangents, cotangents, b)))
        for name, got, wanted in zip(gradient.outputs, of_batch, one):
            assert got.shape == (COUNT,) + wanted.shape
            np.testing.assert_allclose(
                got[b],
                wanted,
                rtol=1e-4 if wanted.itemsize > 2 else 1e-2,
                atol=(1e-5 if wanted.itemsize > 2 else 1e-2)
                * max(1, np.abs(wanted[np.isfinite(wanted)]).max(initial=0)),
                err_msg=name,
            )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_batch_is_its_elements(case):
    check(case, "reference")


@pytest.mark.parametrize(
    "case", [c for c in CASES if os.environ.get("TILEC_VMAP_ALL") or zlib.crc32(str(c).encode()) % 8 == 0], ids=str
)
def test_on_the_cpu(case):
    check(case, "cpu")


def test_most_functions_of_std_have_a_case():
    assert len({(c.family, c.function) for c in CASES}) > 350
