"""The largest error of std/'s functions of one number, in units of the last place of each type, against mpmath:

    bench/std_accuracy.py [NAME ...]

Numbers are drawn evenly in the logarithm of their size, of both signs where the function has them. Results that are not
normal numbers of the type are left out.
"""

import sys

import mpmath as mp
import numpy as np
import torch

import tilec

COUNT = 1500
mp.mp.dps = 40
BITS = {torch.float16: (11, -14), torch.bfloat16: (8, -126), torch.float32: (24, -126), torch.float64: (53, -1022)}

# (name, exact, smallest and largest size, signs)
BOTH, ABOVE, WHOLE = (-1, 1), (1,), (1e-6, 1e3)
SMALL, UNIT = (1e-6, 10), (1e-6, 1)
FUNCTIONS = {
    "exp": (mp.exp, SMALL, BOTH), "exp2": (lambda x: mp.mpf(2) ** x, SMALL, BOTH), "expm1": (mp.expm1, SMALL, BOTH),
    "log": (mp.log, WHOLE, ABOVE), "log2": (lambda x: mp.log(x, 2), WHOLE, ABOVE), "log10": (mp.log10, WHOLE, ABOVE),
    "log1p": (mp.log1p, WHOLE, ABOVE), "sqrt": (mp.sqrt, WHOLE, ABOVE), "rsqrt": (lambda x: 1 / mp.sqrt(x), WHOLE, ABOVE),
    "cbrt": (lambda x: mp.sign(x) * mp.cbrt(abs(x)), WHOLE, BOTH), "reciprocal": (lambda x: 1 / x, WHOLE, BOTH),
    "sin": (mp.sin, SMALL, BOTH), "cos": (mp.cos, SMALL, BOTH), "tan": (mp.tan, SMALL, BOTH),
    "asin": (mp.asin, UNIT, BOTH), "acos": (mp.acos, UNIT, BOTH), "atan": (mp.atan, WHOLE, BOTH),
    "sinh": (mp.sinh, SMALL, BOTH), "cosh": (mp.cosh, SMALL, BOTH), "tanh": (mp.tanh, SMALL, BOTH),
    "asinh": (mp.asinh, WHOLE, BOTH), "acosh": (lambda x: mp.acosh(1 + x), WHOLE, ABOVE), "atanh": (mp.atanh, UNIT, BOTH),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), SMALL, BOTH), "erf": (mp.erf, SMALL, BOTH),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), SMALL, BOTH), "log_sigmoid": (lambda x: -mp.log1p(mp.exp(-x)), SMALL, BOTH),
    "sinc": (lambda x: mp.sincpi(x), SMALL, BOTH), "log1mexp": (lambda x: mp.log(-mp.expm1(-x)), SMALL, ABOVE),
    "logit": (lambda x: mp.log(x / (1 - x)), UNIT, ABOVE), "gelu": (lambda x: x * mp.ncdf(x), SMALL, BOTH),
    "silu": (lambda x: x / (1 + mp.exp(-x)), SMALL, BOTH), "mish": (lambda x: x * mp.tanh(mp.log1p(mp.exp(x))), SMALL, BOTH),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), SMALL, BOTH), "deg2rad": (mp.radians, WHOLE, BOTH),
    "erfinv": (mp.erfinv, UNIT, BOTH), "lgamma": (lambda x: mp.log(abs(mp.gamma(x))), WHOLE, ABOVE),
    "erfc": (mp.erfc, SMALL, BOTH), "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), SMALL, BOTH), "ndtr": (mp.ncdf, SMALL, BOTH),
    "ndtri": (lambda x: mp.sqrt(2) * mp.erfinv(2 * x - 1), UNIT, ABOVE),
    "log_ndtr": (lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), SMALL, BOTH),
    "i0": (lambda x: mp.besseli(0, x), (1e-6, 50), BOTH), "i1": (lambda x: mp.besseli(1, x), (1e-6, 50), BOTH),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), WHOLE, BOTH),
    "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), WHOLE, BOTH),
    "digamma": (mp.digamma, WHOLE, ABOVE), "trigamma": (lambda x: mp.polygamma(1, x), WHOLE, ABOVE),
}  # fmt: skip


def worst(name: str, dtype: torch.dtype) -> "tuple[float, float]":
    """The error, and where it is."""
    exact, (low, high), signs = FUNCTIONS[name]
    bits, least = BITS[dtype]
    random = np.random.default_rng(0)
    low = max(low, 2.0 ** (least + 1))
    size = np.exp(random.uniform(np.log(low), np.log(high), COUNT)) * random.choice(signs, COUNT)
    x = torch.tensor(size).to(dtype)
    if high == 1:
        x = x[x.abs() < 1]
    x = x + 1 if name == "acosh" else x
    found = getattr(tilec.std, name)(x).double()
    largest = (0.0, 0.0)
    for at, value in zip(x.double().tolist(), found.tolist()):
        wanted = exact(mp.mpf(at) - 1 if name == "acosh" else mp.mpf(at))
        if wanted and np.isfinite(value) and (exponent := mp.frexp(wanted)[1]) > least:
            largest = max(largest, (float(abs(value - wanted) / mp.ldexp(1, exponent - bits)), at))
    return largest


if __name__ == "__main__":
    print("| function | %s |" % " | ".join(str(dtype).removeprefix("torch.") for dtype in BITS))
    print("|---|%s" % ("---|" * len(BITS)))
    for name in sys.argv[1:] or FUNCTIONS:
        print("| %s | %s |" % (name, " | ".join("%.2g at %.6g" % worst(name, dtype) for dtype in BITS)), flush=True)
