"""Functions of std/ with small inputs for the tests of tilec.torch: name, compile-time parameters, shapes of the f64
inputs, inputs of other kinds."""
import torch

import tilec

LABELS = torch.tensor([0, 2, 1])
CASES = {
    "matmul": ({}, [(3, 4), (4, 2)]),
    "linear": ({}, [(3, 4), (5, 4), (5,)]),
    "conv2d": ({"stride": 2}, [(1, 5, 5, 2), (3, 3, 2, 2), (2,)]),
    "conv2d_nchw": ({"padding": 1}, [(1, 2, 4, 4), (2, 2, 3, 3), (2,)]),
    "conv1d": ({}, [(1, 6, 2), (3, 2, 2), (2,)]),
    "avg_pool2d": ({}, [(1, 4, 4, 2)]),
    "max_pool2d": ({}, [(1, 4, 4, 2)]),
    "layer_norm": ({}, [(3, 4), (4,), (4,)]),
    "rms_norm": ({}, [(3, 4), (4,)]),
    "softmax": ({}, [(3, 4)]),
    "log_softmax": ({}, [(3, 4)]),
    "gelu": ({}, [(3, 4)]),
    "silu": ({}, [(2, 3)]),
    "softplus": ({}, [(5,)]),
    "elu": ({}, [(3, 2)]),
    "huber": ({}, [(3, 4), (3, 4)]),
    "attention": ({}, [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2)]),
    "transpose": ({}, [(3, 4)]),
    "cumsum": ({}, [(5,)]),
    "pad": ({"BEFORE": 2}, [(4,)]),
    "pairwise_l2": ({}, [(3, 2), (4, 2)]),
    "c_mul": ({}, [(3,), (3,), (3,), (3,)]),
    "embedding": ({}, [LABELS, (4, 2)]),
    "mean_cross_entropy": ({}, [(3, 4), LABELS]),
}


def inputs(name: str, seed: int = 0) -> list:
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(each, dtype=torch.float64, generator=generator, requires_grad=True)
            if isinstance(each, tuple)
            else each.clone()
        )
        for each in CASES[name][1]
    ]


def program(name: str):
    return tilec.std.load(name, define=CASES[name][0])
