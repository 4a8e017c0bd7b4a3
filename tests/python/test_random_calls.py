"""Random programs of calls (random_calls.py) through every stage, derivatives and a run: each gives an answer or a
ProgramError, never an internal error."""
import os

import numpy as np
import pytest
import random_calls

import tilec

CASES = int(os.environ.get("TILEC_CASES", "40"))
STAGES = ("bound", "reduced", "plan", "loops", "llvm")


def arguments(made):
    rng = np.random.default_rng(0)
    return [
        rng.uniform(0.5, 1.5, (random_calls.EXTENT,) * v.rank).astype(
            {"f64": "f8", "f16": "f2", "i32": "i4", "i64": "i8"}.get(v.dtype, "f4")
        )
        for v in made.inputs
    ]


@pytest.mark.parametrize("seed", range(CASES))
def test_calls(seed):
    made = random_calls.program(seed)
    try:
        f = tilec.compile(made.text, function=made.function, define=made.define)
        text = f.emit("contraction")
        given = arguments(made)
        results = f(*given)
    except tilec.ProgramError:
        return
    for stage in STAGES:
        f.emit(stage, *given)
    # What was printed is the same program: names that met would be refused, or mean something else.
    try:
        again = tilec.compile(text)(*given)
    except tilec.ProgramError as fault:
        raise AssertionError("%s\n%s\n%s" % (fault, made.text, text)) from None
    for one, other in zip(*[r if isinstance(r, tuple) else (r,) for r in (results, again)]):
        np.testing.assert_array_equal(one, other, err_msg=made.text + text)
    for derivatives in (["grad"], ["grad", "grad"], ["jvp"]):
        g = f
        try:
            for name in derivatives:
                g = getattr(g, name)()
                tilec.compile(g.emit("gradient"))
        except tilec.ProgramError:
            pass
