"""Functions of std/ next to NumPy: values, and each element of the gradient next to differences of the NumPy function
in f64.
`check` needs no PyTorch; `check_with_torch` compares with its autograd."""
import numpy as np

from std_errors import agree, as_tuple, program

ALLOWED = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3}
STEP = 1e-4


def differences(reference, inputs, k: int, cotangent):
    """d<cotangent, reference>/d inputs[k], element by element: fourth-order central differences, exact for polynomials
    up to degree 4."""
    x, out = inputs[k], np.zeros(inputs[k].shape)
    def along(place, h):
        moved = x.copy()
        moved[place] += h
        return np.sum(cotangent * reference(*inputs[:k], moved, *inputs[k + 1:]))
    for place in np.ndindex(x.shape):
        near, far = along(place, STEP) - along(place, -STEP), along(place, 2*STEP) - along(place, -2*STEP)
        out[place] = (8*near - far) / (12*STEP)
    return out


def check(family: str, function: str, define: dict, inputs, reference, dtype=np.float64, target: str = "cpu"):
    """inputs: arrays; those of a float type are differentiated by."""
    f = program(family, function, tuple(define.items()), target)
    given = [x.astype(dtype) for x in inputs]
    exact = [x.astype(np.float64) for x in given]
    result, expected = f(*given), np.asarray(reference(*exact))
    assert result.dtype == dtype
    agree(function, np.asarray(result), expected, dtype, ALLOWED[np.dtype(dtype).name])
    cotangent = np.random.default_rng(5).standard_normal(expected.shape).astype(dtype)
    gradients = as_tuple(f.grad()(*given, cotangent))
    for k, gradient in enumerate(gradients):
        wanted = differences(reference, exact, k, cotangent.astype(np.float64))
        agree(
            "%s.d%s" % (function, f.inputs[k]),
            np.asarray(gradient),
            wanted,
            dtype,
            max(4 * ALLOWED[np.dtype(dtype).name], 1e-9),
        )


def check_adjoint(family: str, function: str, define: dict, shapes):
    """Forward mode is the transpose of the gradient: <u, J v> = <Jᵀ u, v>."""
    f, rng = program(family, function, tuple(define.items())), np.random.default_rng(6)
    inputs, v = ([rng.standard_normal(shape) for shape in shapes] for _ in range(2))
    tangent = f.jvp()(*inputs, *v)
    u = rng.standard_normal(tangent.shape)
    backward = sum(np.sum(d * t) for d, t in zip(as_tuple(f.grad()(*inputs, u)), v))
    np.testing.assert_allclose(np.sum(u * tangent), backward, rtol=1e-12, atol=1e-12)


def check_with_torch(family: str, function: str, define: dict, inputs, reference, dtype=np.float32):
    """The same with a function of PyTorch and its own gradient."""
    import torch
    f = program(family, function, tuple(define.items()))
    given = [x.astype(dtype) for x in inputs]
    tensors = [torch.tensor(x.astype(np.float64), requires_grad=True) for x in given]
    expected, result = reference(*tensors), f(*given)
    agree(function, result, expected.detach().numpy(), dtype, ALLOWED[np.dtype(dtype).name])
    cotangent = np.random.default_rng(4).standard_normal(expected.shape).astype(dtype)
    wanted = torch.autograd.grad(expected, tensors, torch.tensor(cotangent.astype(np.float64)))
    for name, gradient, tensor in zip(f.inputs, as_tuple(f.grad()(*given, cotangent)), wanted):
        agree("%s.d%s" % (function, name), gradient, tensor.numpy(), dtype, 4*ALLOWED[np.dtype(dtype).name])
