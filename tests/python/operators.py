"""What the drivers of operators share: std/ called with PyTorch's tensors, what is left out and why, which samples a
run takes.

A table maps an operator to a function of Python that says it with std/:

    def softmax(x, dim=-1):
        return std("softmax", x, dim=dim)

It raises LeftOut with a reason where the function of std/ has no such option. What is not left out must be right, in
values and gradients.
"""
import functools
import os
import random

import numpy as np
import torch

import std_errors
import tilec
import tilec.torch

WANTED = os.environ.get(
    "TILEC_OPERATOR_SAMPLES"
)  # of each operator and type: a number, or `all`; else a few, the same each time
ALLOWED = {torch.float64: 1e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


class LeftOut(Exception):
    """An option that std/ does not have. Reasons are counted, so they name the option and not the sample."""


class Reached(Exception):
    """Of a dry run: the operator arrives at a function of std/."""


def covers_in(table):
    """The decorator by which a function stands in a table under all the names that it covers."""
    def covers(*names: str):
        def put(operator):
            table.update(dict.fromkeys(names, operator))
            return operator
        return put
    return covers


_dry = False


@functools.lru_cache(maxsize=64)
def _function(name: str, define: tuple):
    return tilec.torch.function(tilec.std.load(name, define=dict(define)))


def std(name: str, *inputs, **parameters):
    """A function of std/ by its name. An input that is None is not given; True and False are the names of choices."""
    if _dry:
        raise Reached(name)
    define = {key: str(value).lower() if isinstance(value, bool) else value for key, value in parameters.items()}
    found = _function(name, tuple(sorted(define.items())))
    assert len(inputs) <= len(found.program.inputs), "%s has the inputs %s" % (name, ", ".join(found.program.inputs))
    made = found(**{key: value for key, value in zip(found.program.inputs, inputs) if value is not None})
    return torch.from_numpy(made) if isinstance(made, np.ndarray) else made   # without inputs it is NumPy's


def reached(operator, arguments, named) -> "tuple[str | None, str | None]":
    """The function of std/ at which the operator arrives, or why it arrives at none. Nothing is computed."""
    global _dry
    _dry = True
    try:
        operator(*arguments, **named)
    except LeftOut as reason:
        return None, str(reason)
    except Reached as function:
        return str(function), None
    finally:
        _dry = False
    raise AssertionError("%s calls no function of std/" % operator)


def selected(samples: list, usual: int) -> list:
    count = len(samples) if WANTED == "all" else min(len(samples), int(WANTED or usual))
    return [samples[k] for k in sorted(random.Random(1).sample(range(len(samples)), count))]


def infinite_beyond(dtype: torch.dtype, expected):
    """What is beyond the type is infinite in it."""
    return torch.where(expected.abs() <= torch.finfo(dtype).max, expected, expected.to(dtype).double())


def agree(what: str, got, expected, dtype: torch.dtype):
    """`expected` is in f64 where it is a number with a point; integers must be equal."""
    assert isinstance(got, torch.Tensor), "%s is a %s" % (what, type(got).__name__)
    if not expected.is_floating_point():
        assert not got.is_floating_point(), "%s is %s, expected %s" % (what, got.dtype, expected.dtype)
        assert got.shape == expected.shape and torch.equal(
            got.to(expected.dtype), expected
        ), "%s is %s, expected %s" % (what, got, expected)
        return
    assert got.dtype == dtype, "%s is %s, expected %s" % (what, got.dtype, dtype)
    std_errors.agree(
        what,
        got.detach().double().numpy(),
        infinite_beyond(dtype, expected.detach()).numpy(),
        str(dtype).removeprefix("torch."),
        ALLOWED[dtype],
    )


def agree_gradient(what: str, got, expected, dtype: torch.dtype, own: torch.dtype):
    """Both in f64, of an input of type `own` where the operator computes in `dtype`. Where the terms of a derivative
    cancel, to 0 at worst, their rounding is left: it is measured against 1, as large as samples and cotangents are."""
    one = torch.ones(1, dtype=torch.float64)
    expected = infinite_beyond(own, expected)
    dtype = max(dtype, own, key=ALLOWED.__getitem__)
    std_errors.agree(
        what,
        *(torch.cat([v.detach().reshape(-1), one]).numpy() for v in (got, expected)),
        str(dtype).removeprefix("torch."),
        8 * ALLOWED[dtype],
    )
