"""std/complex.tile against NumPy's complex numbers; gradients by differences."""
import numpy as np
import pytest

from std_cases import Case, compare


def parts(f):
    """A function of complex numbers as one of their parts."""
    def apply(*values):
        result = f(*[r + 1j * i for r, i in zip(values[::2], values[1::2])])
        return (result.real, result.imag) if np.iscomplexobj(result) else result
    return apply


ONE, TWO = ((7, 3),) * 2, ((7, 3),) * 4
CASES = [
    Case("c_" + name, shapes, parts(f))
    for name, shapes, f in [
        ("add", TWO, np.add),
        ("sub", TWO, np.subtract),
        ("mul", TWO, np.multiply),
        ("div", TWO, np.divide),
        ("conj", ONE, np.conj),
        ("abs", ONE, np.abs),
        ("abs_squared", ONE, lambda a: (a * a.conj()).real),
        ("arg", ONE, np.angle),
        ("recip", ONE, lambda a: 1 / a),
        ("exp", ONE, np.exp),
        ("log", ONE, np.log),
        ("matmul", ((5, 3), (5, 3), (3, 4), (3, 4)), np.matmul),
        ("adjoint", ((5, 3), (5, 3)), lambda a: a.conj().T),
        ("dot", ((7,),) * 4, np.vdot),
    ]
] + [
    Case("c_scale", (np.array(0.7), (7,), (7,)), lambda s, r, i: (s * r, s * i)),
    Case("c_polar", ((7,), (7,)), lambda r, t: (r * np.cos(t), r * np.sin(t))),
]
for case in CASES:
    case.scale = 10 if case.function in ("c_div", "c_recip", "c_log", "c_arg") else 1     # by numbers that lie near 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_complex(case, dtype):
    compare("complex", case, dtype)
