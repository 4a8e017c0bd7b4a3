"""What a call may be given: memory that overlaps, arrays of every kind, numbers of every size, and what is said of the
rest."""
import decimal
import enum
import itertools

import numpy as np
import pytest

import tilec

TARGETS = ["cpu", "opencl", "reference"]
stride = np.lib.stride_tricks.as_strided


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    return request.param


@pytest.fixture(scope="module")
def reverse():
    return tilec.compile("function (A[N]) -> (C) { C[i: N] = =(A[N - 1 - i]); }")


@pytest.fixture(scope="module")
def both():
    return tilec.compile("function (A[N]) -> (B, C) { B = A + 1; C = A * 2; }")


# ---- memory

def test_an_output_over_an_input_holds_what_memory_apart_would(target):
    """Every kind of statement, every offset, whether the call is the first of its kind or a later one."""
    text = """function (X[N]) -> (A, B, C, D) {
      A = X + 1;
      B[i: N] = =(X[N - 1 - i]);
      C[i: N] = +(X[j]), j <= i;
      D[i: N] = +(X[i + j - 1]), j < 3;
    }"""
    f = tilec.compile(text, target=target)
    for step in (1, -2):
        for name, at in itertools.product("ABCD", (0, 1, 5, 12)):
            for accumulate in ((False, True) if name == "C" else (False,)):
                block = np.arange(60, dtype=np.float32)
                x = block[30:][: 8 * abs(step) : abs(step)] if step > 0 else block[30 : 30 - 8 * -step : step]
                y = block[20 + at : 28 + at]
                apart = dict(zip("ABCD", f(x.copy())))[name] + (y if accumulate else 0)
                outs = [y if n == name else np.empty(8, np.float32) for n in "ABCD"]
                f(x, out=outs, accumulate=name if accumulate else False)
                assert (y == apart).all(), (step, name, at, accumulate)


def test_elementwise_in_place(target):
    f = tilec.compile("function (A[M, N], B[N]) -> (C) { C = A * 2 + B; }", target=target)
    for view in (lambda a: a, lambda a: a.T[::-1]):
        x = view(np.arange(60, dtype=np.float32).reshape(6, 10))
        b = np.arange(x.shape[1], dtype=np.float32)
        expected = x * 2 + b
        assert f(x, b, out=x) is x and (x == expected).all()
        row = np.arange(36, dtype=np.float32).reshape(6, 6)
        expected = row * 2 + row[2]
        f(row, row[2], out=row)                                # two inputs under the output
        assert (row == expected).all()


def test_outputs_that_share_memory_are_named_at_every_call(both, target):
    f = tilec.compile("function (A[N]) -> (B, C) { B = A + 1; C = A * 2; }", target=target)
    x, block = np.ones(8, np.float32), np.zeros(24, np.float32)
    f(x, out=(block[:8], block[8:16]))
    for first, second in (
        (block[:8], block[:8]),
        (block[:8], block[7:15]),
        (block[4:12], block[:8]),
        (block[:16:2], block[6:14]),
        (block[7::-1], block[:8]),
    ):
        for accumulate in (False, True):
            block[:] = 3
            with pytest.raises(ValueError, match="`B` and `C` share memory"):
                f(x, out=(first, second), accumulate=accumulate)
            assert (block == 3).all()                          # refused before anything is written


def test_outputs_that_interleave_share_none(both):
    x, matrix = np.arange(8, dtype=np.float32), np.zeros((8, 2), np.float32)
    both(x, out=(matrix[:, 0], matrix[:, 1]))
    assert (matrix == np.stack([x + 1, x * 2], 1)).all()
    both(x, out=(matrix[::-1, 1], matrix[:, 0]))
    assert (matrix[:, 0] == x * 2).all() and (matrix[::-1, 1] == x + 1).all()
    square = tilec.compile("function (A[M, N]) -> (B, C) { B = A + 1; C = A * 2; }")
    block, a = np.zeros((4, 4), np.float32), np.ones((2, 2), np.float32)
    for one, other in itertools.permutations([block[:2, :2], block[:2, 2:], block[2:, :2], block[2:, 2:]], 2):
        square(a, out=(one, other))
        assert (one == 2).all() and (other == 2).all()
    with pytest.raises(ValueError, match="share memory"):
        square(a, out=(block[:2, :2], block[1:3, 1:3]))


@pytest.mark.parametrize("accumulate", [False, True])
def test_an_output_that_meets_itself(accumulate):
    f = tilec.compile("function (A[M, N]) -> (C) { C = A + 1; }")
    a, block = np.ones((3, 4), np.float32), np.zeros(40, np.float32)
    for strides in ((0, 4), (16, 0), (4, 4), (8, 4), (-4, 4), (0, 0), (12, 4), (12, 8)):
        overlaps = len({i * strides[0] + j * strides[1] for i in range(3) for j in range(4)}) < 12
        out = stride(block[20:], (3, 4), strides)
        if overlaps:
            with pytest.raises(ValueError, match="output `C` lie at one place"):
                f(a, out=out, accumulate=accumulate)
        else:
            out[...] = 0
            f(a, out=out, accumulate=accumulate)
            assert (out == 2).all(), strides
    one = stride(block, (1, 1), (0, 0))
    assert f(a[:1, :1], out=one) is one and one[0, 0] == 2     # one element meets none


def test_a_read_only_output_is_refused_at_every_call(reverse, tmp_path):
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    reverse(x, out=out)
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="out= for C is read-only"):
            reverse(x, out=out)
    assert (out == [3, 2, 1, 0]).all()
    np.zeros(4, np.float32).tofile(tmp_path / "mapped")
    mapped = np.memmap(tmp_path / "mapped", np.float32, "r")   # writing it would end the process
    with pytest.raises(ValueError, match="read-only"):
        reverse(x, out=mapped)
    with pytest.raises(ValueError, match="read-only"):
        reverse(x, out=np.broadcast_to(np.float32(0), 4))
    with pytest.raises(ValueError, match="out= for C is read-only"):
        tilec.compile("function (A[N]) -> (B, C) { B = A; C = A + 1; }")(
            x, out=(np.zeros(4, np.float32), out), accumulate="B"
        )
    assert (reverse(out) == [0, 1, 2, 3]).all()                # an input may be


def test_what_out_may_be(reverse, both):
    x = np.arange(4, dtype=np.float32)
    for out, fault, words in (
        (3, TypeError, "out= is a int"),
        ("C", TypeError, "out= for C is a str"),
        ([], ValueError, "0 arrays"),
        ([x.copy(), x.copy()], ValueError, "2 arrays"),
        ([None], TypeError, "NoneType"),
        (x.astype(">f4"), TypeError, "out= for C.*other order"),
        (x.astype("f8"), TypeError, "float64.*`f32`"),
        (np.zeros(5, "f4"), ValueError, "`C`"),
        (np.ma.array(x), TypeError, "out= for C: a masked array"),
        (x.astype(object), TypeError, "out= for C"),
    ):
        with pytest.raises(fault, match=words):
            reverse(x, out=out)
    record = np.zeros(4, [("a", "i1"), ("b", "f4")])
    with pytest.raises(ValueError, match="out= for C has strides"):
        reverse(x, out=record["b"])
    with pytest.raises(ValueError, match="`C` lies at address"):
        reverse(x, out=np.frombuffer(bytearray(17), np.float32, 4, offset=1))
    with pytest.raises(TypeError, match="accumulate= adds to arrays"):
        reverse(x, accumulate=True)
    with pytest.raises(ValueError, match="Q is no output"):
        reverse(x, out=x.copy(), accumulate="Q")
    for nothing in (False, [], (), np.False_, 0):
        assert (reverse(x, accumulate=nothing) == x[::-1]).all()
    out = np.ones(4, np.float32)
    assert (reverse(x, out=out, accumulate=np.True_) == x[::-1] + 1).all()
    assert (both(x, out=iter([out, out.copy()]))[0] == x + 1).all()


def test_an_output_whose_shape_a_number_decides(target):
    f = tilec.compile(
        "function (A[N], S) -> (C, D) { C[i: N / S] = =(A[S * i]); D[i: N - S] = =(A[i + S]); }", target=target
    )
    a = np.arange(12, dtype=np.float32)
    for s in (2, 3, np.array(2), np.int32(4)):
        n = int(s)
        good = [np.zeros(12 // n, np.float32), np.zeros(12 - n, np.float32)]
        assert (f(a, s, out=good)[0] == a[::n]).all() and (good[1] == a[n:]).all()
        for bad in (
            [good[1], good[1].copy()],
            [good[0], good[0].copy()],
            [good[0][:1], good[1]],
            [good[0], np.zeros(12, np.float32)],
        ):
            for accumulate in (False, True):
                with pytest.raises(ValueError, match="`[CD]` is"):
                    f(a, s, out=bad, accumulate=accumulate)
    g = f.grad(wrt="A", of="C")
    assert g(a, 3, np.ones(4, np.float32)).shape == (12,)
    with pytest.raises(ValueError, match="`dC` is"):
        g(a, 3, np.ones(5, np.float32))


# ---- arrays of every kind

class Own(np.ndarray):
    pass


X = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize(
    "value",
    [
        X,
        X.astype("f2"),
        X.astype("f8"),
        X[::-1],
        X.reshape(2, 3).T.reshape(-1),
        X.view(Own),
        np.rec.array(X),
        X.tolist(),
        tuple(X.tolist()),
        range(6),
        X > 2,
        np.zeros(6, [("a", "i1"), ("b", "f4")])["b"],
        np.frombuffer(b"\0" * 25, np.float32, 6, offset=1),
        np.broadcast_to(np.float32(2), 6),
        np.zeros(0, np.float32),
        X.astype("i1"),
        X.astype("u8"),
        memoryview(X),
        stride(np.zeros(1), (6,), (0,)),
    ],
    ids=lambda v: str(getattr(v, "dtype", type(v).__name__)),
)
def test_arrays_that_are_taken(reverse, value):
    expected = np.asarray(value)[::-1]
    for _ in range(2):
        got = reverse(value)
        assert type(got) is np.ndarray and got.dtype == expected.dtype and (got == expected).all()


def test_a_matrix_is_taken_for_its_elements(tmp_path):
    f = tilec.compile("function (A[M, N]) -> (C) { C[j, i: N, M] = =(A[i, j]); }")
    assert (f(np.matrix("1 2; 3 4")) == [[1, 3], [2, 4]]).all()
    np.arange(6.0).tofile(tmp_path / "mapped")
    assert (f(np.memmap(tmp_path / "mapped", np.float64, "r", shape=(2, 3))) == np.arange(6).reshape(2, 3).T).all()


@pytest.mark.parametrize(
    "value, words",
    [
        (X.astype(">f4"), r"big-endian.*astype\('=f4'\)"),
        (X.astype(">i8"), "big-endian"),
        (np.ma.array(X, mask=X > 2), "masked array.*filled"),
        (np.ma.array(X), "masked"),
        (X.astype(object), "object.*astype"),
        (np.zeros(6, [("a", "f4")]), "structured.*field"),
        (np.rec.array(np.zeros(3, [("a", "f4")])), "structured"),
        (X.astype("M8[s]"), "datetime64.*int64"),
        (X.astype("m8[s]"), "timedelta64"),
        (X.astype("S1"), "S1"),
        (X.astype("U1"), "text"),
        (X.astype(np.longdouble), "float64"),
        (X.astype("c8"), "complex64.*real"),
        ("text", "text"),
        (b"bytes", "text"),
        ({1, 2}, "set"),
        (object(), "object"),
        (1j, "complex"),
        (np.void(b"ab"), "void|V2"),
        (decimal.Decimal(1), "Decimal"),
        ([[1], [2, 3]], "list cannot be taken"),
        ([None, 1], "list"),
        ((x for x in X), "generator"),
        (lambda: 0, "function"),
    ],
    ids=lambda v: v[:20] if isinstance(v, str) else type(v).__name__,
)
def test_arrays_that_are_not(reverse, value, words):
    for call in (reverse, lambda v: reverse(A=v), lambda v: reverse.emit("plan", v)):
        with pytest.raises((TypeError, ValueError), match="(?s)A: .*" + words):
            call(value)


def test_torch_tensors(reverse):
    torch = pytest.importorskip("torch")
    assert reverse(torch.arange(3.0)).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="A requires grad"):
        reverse(torch.ones(3, requires_grad=True))


TORCH_TYPES = [
    ("complex32", r"\.real\.float\(\)"),
    ("float8_e4m3fn", r"pass .float\(\)"),
    ("float8_e5m2", r"pass .float\(\)"),
    ("float8_e8m0fnu", r"pass .float\(\)"),
    ("float4_e2m1fn_x2", r"pass .float\(\)"),
    ("int4", r"torch\.int8"),
    ("uint2", r"torch\.uint8"),
    ("bits8", r"view\(torch\.uint8"),
    ("complex64", r"\.real and \.imag"),
]


@pytest.mark.parametrize("dtype, words", TORCH_TYPES)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_element_types_of_torch_that_numpy_has_not(reverse, dtype, words):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, dtype):
        pytest.skip("this PyTorch has no %s" % dtype)
    value = torch.empty(3, dtype=getattr(torch, dtype))
    for call in (reverse, lambda v: reverse(A=v), lambda v: reverse.emit("plan", v)):
        with pytest.raises(TypeError, match="^A: .*%s.*%s" % (dtype, words)):
            call(value)


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_tensor_of_torch(reverse):
    torch = pytest.importorskip("torch")
    value = torch.quantize_per_tensor(torch.arange(3.0), 0.5, 0, torch.qint8)
    with pytest.raises(TypeError, match=r"A: element type torch.qint8 .*\.dequantize\(\), or \.int_repr\(\)"):
        reverse(value)
    assert reverse(value.dequantize()).tolist() == [2, 1, 0] and reverse(value.int_repr()).tolist() == [4, 2, 0]


@pytest.mark.parametrize(
    "dtype, words",
    [
        ("float8_e4m3fn", "astype.np.float32"),
        ("float8_e5m2", "astype.np.float32"),
        ("float6_e2m3fn", "astype.np.float32"),
        ("float4_e2m1fn", "astype.np.float32"),
        ("int4", "astype.np.int8"),
        ("uint2", "np.uint8"),
    ],
)
def test_element_types_of_ml_dtypes_that_tile_has_not(reverse, dtype, words):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(TypeError, match="A: element type %s is none.*%s" % (dtype, words)):
        reverse(np.zeros(3, getattr(ml_dtypes, dtype)))


def test_a_foreign_array_of_bfloat16():
    """An object with DLPack whose elements are of ml_dtypes, as JAX has: NumPy takes it as an array only."""
    ml_dtypes = pytest.importorskip("ml_dtypes")

    class Foreign:
        dtype = np.dtype(ml_dtypes.bfloat16)

        def __dlpack__(self, **_):
            raise RuntimeError("Unsupported dtype")

        def __array__(self, *_, **__):
            return np.arange(3).astype(self.dtype)

    assert (tilec.compile("function (A[N]) -> (C) { C[i: N] = =(f32(A[N - 1 - i])); }")(Foreign()) == [2, 1, 0]).all()


def test_none_is_no_argument(reverse):
    for call in (lambda: reverse(None), lambda: reverse(A=None)):
        with pytest.raises(TypeError, match="`A`"):
            call()


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    "number",
    [
        3,
        3.0,
        True,
        np.int8(3),
        np.float64(3),
        np.float32(3),
        np.array(3),
        np.array(3.0),
        Level.HIGH,
        np.bool_(True),
        -(2**63),
        2**63 - 1,
        float("inf"),
    ],
)
def test_numbers_that_are_taken(number):
    f = tilec.compile("function (f64 X[N], S) -> (Y) { Y = X * S; }")
    assert (f(np.ones(2), number) == np.float64(number)).all()


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
def test_numbers_that_do_not_fit(number):
    data, size = tilec.compile("function (X[N], S) -> (Y) { Y = X * S; }"), tilec.compile(
        "function (X[N], S) -> (Y) { Y[i: N] = =(X[i + S]); }"
    )
    for f in (data, size):
        f(np.ones(2), 1)                                       # the first call is not the only one that looks
        for _ in range(2):
            with pytest.raises(ValueError, match="S: %d does not fit" % number):
                f(np.ones(2), number)


# ---- sizes, options and names

MATMUL = "function matmul(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def test_sizes_that_disagree():
    f = tilec.compile(MATMUL, size={"M": 7})
    a, b = np.ones((3, 4), np.float32), np.ones((4, 2), np.float32)
    for call in (
        lambda: f(a, b),
        lambda: f.emit("plan", a, b),
        lambda: f.grad()(a, b, np.ones((3, 2), "f4")),
        lambda: f(a, b, out=np.zeros((3, 2), "f4")),
    ):
        with pytest.raises(ValueError, match="`M` is 3 in `A` but 7 in `size`"):
            call()
    assert f(np.ones((7, 4), "f4"), b).shape == (7, 2)
    for name, words in (("m", "did you mean `M`"), ("Q", "its sizes are M, K, N")):
        with pytest.raises(ValueError, match=words):
            tilec.compile(MATMUL, size={name: 3})


@pytest.mark.parametrize(
    "options, fault, words",
    [
        ({"size": {"M": 3.5}}, TypeError, "M is 3.5"),
        ({"size": {"M": 2**63}}, ValueError, "M is 9223372036854775808"),
        ({"size": {"M": "3"}}, TypeError, "'3'"),
        ({"define": {"S": 2**53 + 1}}, ValueError, "S is 9007199254740993"),
        ({"define": {"S": None}}, TypeError, "S is None"),
        ({"define": {3: 1}}, TypeError, "int"),
        ({"threads": -1}, ValueError, "threads="),
        ({"threads": 2**40}, ValueError, "threads="),
        ({"threads": 1.5}, TypeError, "threads="),
        ({"kernels": -1}, ValueError, "kernels="),
        ({"target": 3}, TypeError, "target="),
        ({"function": "mat\0mul"}, ValueError, "zero"),
        ({"name": b"x"}, TypeError, "name="),
    ],
)
def test_options_that_cannot_be(options, fault, words):
    with pytest.raises(fault, match=words):
        tilec.compile(MATMUL, **options)


def test_a_text_is_a_str():
    for text in (None, b"function", 3):
        with pytest.raises(TypeError, match="str"):
            tilec.compile(text)


def test_inputs_that_differ_by_their_marks_only():
    with pytest.raises(TypeError, match="(?s)`a` is given twice.*rename"):
        tilec.compile("function f(#a[N], a[N]) -> (B) { B[i: N] = =(#a[i] * a[i]); }")


def test_inputs_called_like_options_of_a_call():
    f = tilec.compile("function f(out[N], accumulate[N], self[N]) -> (Y) { Y = out + accumulate + self; }")
    a = np.ones(2, "f4")
    np.testing.assert_array_equal(f(a, a, self=a), 3 * a)
    np.testing.assert_array_equal(f.vjp(a, a, self=a)[0], 3 * a)
    assert "self" in f.emit("contraction", a, a, self=a)
    with pytest.raises(TypeError, match="out by name is an option of the call: give the input by its position"):
        f(accumulate=a, self=a)


def test_one_is_no_plural():
    f = tilec.compile("function f(X[N]) -> (Y) { Y = X; }")
    with pytest.raises(ValueError, match=r"out= has 2 arrays, the program has 1 output \(Y\)"):
        f(np.ones(2), out=[np.ones(2), np.ones(2)])
    with pytest.raises(TypeError, match=r"f takes 1 argument \(X\) but 2 were given"):
        f(1, 2)
