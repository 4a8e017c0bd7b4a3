"""What functions of std/ give, beside PyTorch's, with derivatives."""

import numpy as np
import torch

RNG = np.random.default_rng(15)


def some(*shape):
    return torch.tensor(RNG.standard_normal(shape))


def same(got, expected):
    assert type(got) is tuple or not isinstance(expected, tuple)
    for mine, theirs in zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]:
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def same_with_derivatives(own, other, *tensors):
    """`own` is called with vjp, `other` by PyTorch."""
    tensors = [x.clone().requires_grad_() for x in tensors]
    expected = other(*tensors)
    results = expected if isinstance(expected, tuple) else (expected,)
    cotangents = [some(*y.shape) for y in results]
    got, backward = own(*(x.detach() for x in tensors))
    same(got, tuple(y.detach() for y in results) if len(results) > 1 else results[0].detach())
    wanted = torch.autograd.grad(results, tensors, cotangents)
    found = backward(*cotangents) if len(results) == 1 else backward(tuple(cotangents))
    found = found if isinstance(found, (tuple, list)) else (found,)
    same(tuple(found), tuple(wanted))
