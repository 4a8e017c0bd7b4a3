"""Sums under a decay, products over intervals and the gradients of running products and extremes: against the
interpreter, bound by bound."""
import functools
import itertools
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import tilec as tile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TILEC = os.environ.get("TILEC", str(ROOT / "build/cli/tilec"))
TARGETS = ["cpu", "cpu:x86-64-v3", "opencl"]
TYPES = {"f4": "f32", "f8": "f64", "f2": "f16"}
DECAYS = {
    "decay": ("O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t;", {"L": "T", "V": "T"}),
    "backwards": ("O[t: T] = +(-exp(L[s] - L[t]) * V[s] / (V[t]*V[t] + 1)), s >= t + 1;", {"L": "T", "V": "T"}),
    "ahead": ("O[r, t: R, T] = +(exp(0.5*(L[r, t] - L[r, s])) * V[r, s]), s <= t + 2;", {"L": "RT", "V": "RT"}),
    "anchored": ("O[t: T] = +(s <= t ? exp(V[s] - L[t]) * V[s] : 0.0);", {"L": "T", "V": "T"}),
    "powers": ("O[r, t: R, T] = +((t == s ? 1.0 : pow(A[r], s - t)) * V[r, s]), s >= t;", {"A": "R", "V": "RT"}),
    "powers of many": ("O[t, d: T, D] = +(pow(A[d], t - s) * V[s, d]), s < t;", {"A": "D", "V": "TD"}),
    "squares": ("O[t: T] = +(pow(A[], 2*(t - s) + 1) * V[s]), s <= t;", {"A": "", "V": "T"}),
    "inverses": ("O[t: T] = +(pow(A[], s - t) * V[s]), s <= t;", {"A": "", "V": "T"}),
    "rates": ("O[t, d: T, D] = +(exp((t - s) * P[d]) * V[s, d]), s <= t;", {"P": "D", "V": "TD"}),
    "rates and levels": (
        "O[r, t: R, T] = +(exp(V[r, s] - 0.5 * (s - t) * P[]) * V[r, s]), t <= s;",
        {"P": "", "V": "RT"},
    ),
    "lengths": ("O[t: T] = +((t - s) * V[s]), s <= t;", {"V": "T"}),
    "polynomials": (
        "O[t: T] = +((t - s + 1.0) * ((t - s) / 3.0) * exp(L[t] - L[s]) * V[s]), s <= t;",
        {"L": "T", "V": "T"},
    ),
    "of both signs": ("O[t: T] = +((t - s - 3.0) * exp((t - s) * P[]) * V[s]), s <= t;", {"P": "", "V": "T"}),
    "a parabola": ("O[t: T] = +((t - s - 3.0) * (t - s - 7.5) * V[s]), s <= t;", {"V": "T"}),
    "ahead of lengths": ("O[r, t: R, T] = +((t - s) * pow(A[r], t - s) * V[r, s]), s <= t + 2;", {"A": "R", "V": "RT"}),
    "rates ahead": (
        "O[t, d: T, D] = +((s - t + 0.5) * exp((s - t) * P[d]) * V[s, d]), t <= s + 4;",
        {"P": "D", "V": "TD"},
    ),
    "retention": (
        "O[t, e: T, E] = +(pow(A[], t - s) * Q[t, d] * K[s, d] * V[s, e]), s <= t;",
        {"A": "", "Q": "TD", "K": "TD", "V": "TE"},
    ),
    "gated": (
        "H[t, d: T, D] = +(exp(L[t, d] - L[s, d]) * V[s, d]), s <= t; O = sigmoid(L) * H;",
        {"L": "TD", "V": "TD"},
    ),
    "swish": ("O[t, d: T, D] = +(V[s, d] * sigmoid(V[s, d])), s <= t;", {"V": "TD"}),
    "state": (
        "O[t, d, e: T, D, E] = +(exp(L[t, d] - L[s, d]) * K[s, d] * V[s, e]), s <= t;",
        {"L": "TD", "K": "TD", "V": "TE"},
    ),
    "risen": ("O[t: T] = +((L[t] - L[s]) * V[s]), s <= t;", {"L": "T", "V": "T"}),
    "risen before": ("O[r, t: R, T] = +(V[r, s] * -(L[t] - L[s]) / 3.0), s < t - 1;", {"L": "T", "V": "RT"}),
    "risen backwards": (
        "O[t, d: T, D] = +(exp(L[t, d] - L[s, d]) * (L[s, d] - L[t, d]) * V[s, d]), s >= t;",
        {"L": "TD", "V": "TD"},
    ),
    "risen ahead": ("O[t: T] = +((L[t] - L[s]) * V[s]), s <= t + 2;", {"L": "T", "V": "T"}),
    "levels that rise": (
        "L[t: T] = +(V[s] * V[s]), s <= t; O[t, d: T, D] = +((L[t] - L[s]) * pow(A[d], t - s) * V[s]), s <= t;",
        {"A": "D", "V": "T"},
    ),
    "selective": (
        "O[t, d: T, D] = +(exp((L[t] - L[s]) * A[d]) * K[s, d] * V[s]), s <= t;",
        {"L": "T", "A": "D", "K": "TD", "V": "T"},
    ),
    "attention": (
        "O[t, e: T, E] = +(exp(L[t, d] - L[s, d]) * Q[t, d] * K[s, d] * V[s, e]), s <= t;",
        {"L": "TD", "Q": "TD", "K": "TD", "V": "TE"},
    ),
}
EXTREMES = {
    "largest": ("O[t: T] = >(L[s]), s <= t;", {"L": "T"}),
    "smallest": ("O[t: T] = <(L[s]), s >= t;", {"L": "T"}),
    "before": ("O[t: T] = >(-2*L[s]), s < t - 1;", {"L": "T"}),
    "ahead": ("O[t, r: T, R] = <(L[s, r]*V[s]), s <= t + 1;", {"L": "TR", "V": "T"}),
    "far ahead": ("O[r, t: R, T] = >(L[r, s]), s >= t - 7;", {"L": "RT"}),
    "first ahead": ("[[ties(first)]] O[t, r: T, R] = <(L[s, r]), s <= t + 3;", {"L": "TR"}),
    "some of them": ("O[t: T] = >(L[s + 2]), s <= t + 3;", {"L": "T"}),
    "rows": ("O[r, t: R, T] = >(L[r, s]), s <= t;", {"L": "RT"}),
    "columns": ("O[t, r: T, R] = <(L[s, r]), s >= t + 1;", {"L": "TR"}),
    "first": ("[[ties(first)]] O[t: T] = >(L[s]), s <= t;", {"L": "T"}),
    "first from the end": ("[[ties(first)]] O[r, t: R, T] = <(L[r, s]), s >= t + 1;", {"L": "RT"}),
    "planes": ("O[t: T] = >(L[s, r]), s <= t;", {"L": "TR"}),
}
INTERVAL = "G[s, t: T, T] = *(A[u]), s < u, u <= t"
PRODUCTS = {
    "running": ("O[t: T] = *(X[s]), s <= t;", {"X": "T"}),
    "from the end": ("O[t: T] = *(X[s] + 1), s >= t;", {"X": "T"}),
    "rows": ("O[r, t: R, T] = *(X[r, s]), s <= t;", {"X": "RT"}),
    "before": ("O[t, r: T, R] = *(X[s, r]), s < t default 1;", {"X": "TR"}),
    "factors from the first": (
        "G[r, s, t: R, T, T] = *(A[r, u]), s <= u, u < t default 1; O[r, t: R, T] = +(G[r, s, t] * B[r, s]), s <= t;",
        {"A": "RT", "B": "RT"},
    ),
    "factors to come": (
        "G[s, t: T, T] = *(1 - A[u]), t <= u, u <= s default 1; O[t: T] = +(B[s] * G[s, t] * (1 - A[s])), t < s;",
        {"A": "T", "B": "T"},
    ),
    "a gap": (
        "G[s, t: T, T] = *(A[u]), s + 2 <= u, u < t default 1; O[t: T] = +(G[s, t] * B[s] * A[t]), s + 1 <= t;",
        {"A": "T", "B": "T"},
    ),
    "read out": (
        "G[s, t, d: T, T, D] = *(A[u, d]), s < u, u <= t default 1;"
        " O[t, e: T, E] = +(Q[t, d] * G[s, t, d] * K[s, d] * V[s, e]), s <= t;",
        {"A": "TD", "Q": "TD", "K": "TD", "V": "TE"},
    ),
    "recurrence": (INTERVAL + "; O[t: T] = +(G[s, t] * B[s]), s <= t;", {"A": "T", "B": "T"}),
    "recurrence with its own": (INTERVAL + " default 1; O[t: T] = +(G[s, t] * B[s]), s <= t;", {"A": "T", "B": "T"}),
    "recurrences": (
        "G[s, t, d: T, T, D] = *(A[u, d]), s < u, u <= t default 1; O[t, d: T, D] = +(G[s, t, d] * B[s, d]), s <= t;",
        {"A": "TD", "B": "TD"},
    ),
    "states": (
        INTERVAL + " default 1; O[t, d, e: T, D, E] = +(G[s, t] * K[s, d] * V[s, e]), s <= t;",
        {"A": "T", "K": "TD", "V": "TE"},
    ),
}
FAMILIES = {"decays": DECAYS, "extremes": EXTREMES, "products": PRODUCTS}


def sizes(rng, t):
    return {"T": t, "D": int(rng.integers(1, 6)), "E": int(rng.integers(1, 20)), "R": int(rng.integers(1, 40))}


def special(rng, x, largest):
    """Zeros, infinities, NaN and both ends of the range, here and there."""
    for value in (0, np.inf, -np.inf, np.nan, 1e-30, largest, -largest):
        with np.errstate(over="ignore"):
            x[rng.random(x.shape) < 0.01] = np.asarray(value).astype(x.dtype)
    return x


def numbers(rng, name, shape, kind, dtype, largest=1e38):
    x = rng.standard_normal(shape)
    if kind == "falling" and name == "L":
        x = np.cumsum(-np.abs(x) * rng.choice([0.01, 1, 5]), 0)
    if kind == "wild":
        x = x * 10.0 ** rng.uniform(-2, 2)
    if kind == "zeros":
        x[rng.random(x.shape) < 0.1] = 0
    if kind == "ties":
        x = np.round(x)
    x = x.astype(dtype)
    return special(rng, x, largest) if kind == "special" else x


def saved(folder, arrays, before=""):
    for name, x in arrays.items():
        np.save(folder / f"{before}{name}.npy", x)
    return [f"{name}={before}{name}.npy" for name in arrays]


def add_case(folder, file, arrays):
    """Behind the program, in its file: on these inputs the target agrees with the interpreter."""
    words = saved(folder, arrays, file + ".")
    with (folder / file).open("a") as text:
        text.write("// ==\n// input { %s }\n// check\n" % " ".join(words))


def tilec(folder, *words):
    return subprocess.run([TILEC, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def check(folder, files, target="cpu"):
    """All files in one process: an OpenCL compiler takes half a second to start."""
    done = tilec(folder, "test", *files, "--target", target)
    said = done.stdout + done.stderr
    if "E0515" in said or "no OpenCL" in said:
        pytest.skip(said)
    passed, failed = map(int, re.fullmatch(r"(\d+) passed, (\d+) failed", done.stdout.splitlines()[-1]).groups())
    faults = re.findall(r"^  .*", done.stdout, re.M)
    assert passed + failed == len(files) and len(faults) >= failed, said
    assert "error[" not in said and all("cannot be compared" in fault for fault in faults), said


@pytest.mark.parametrize("target, dtype", [*((t, "f4") for t in TARGETS), ("cpu", "f8"), ("cpu", "f2")])
@pytest.mark.parametrize("family, name", [(f, name) for f in FAMILIES for name in FAMILIES[f]])
def test_against_the_interpreter(tmp_path, family, name, dtype, target):
    statement, inputs = FAMILIES[family][name]
    rng = np.random.default_rng(len(name))
    # where factors leave sums, part of a product may be beyond f32 in the text alone
    largest = 1e8 if name in ("state", "attention") or family == "products" else 1e38
    if dtype == "f2":
        largest = 6e4
    if dtype == "f8" and family == "decays" and largest == 1e38:
        largest = 1e300
    kinds = (
        ["plain", "falling", "wild", "special"]
        if family == "decays"
        else ["plain", "zeros" if family == "products" else "ties", "special"]
    )
    smallest = kinds[-1]
    if target == "cpu" and dtype != "f4":                # of the other two types one has these, one has those
        kinds = kinds[(list(FAMILIES[family]).index(name) + (dtype == "f8")) % 2 :: 2]
    header = ", ".join(f"{TYPES[dtype]} {n}[{', '.join(shape)}]" for n, shape in inputs.items())
    (tmp_path / "f.tile").write_text(f"function f({header}) -> (O) {{ {statement} }}\n")
    gradient = tilec(tmp_path, "grad", "f.tile").stdout
    of_type, cotangent_shape = re.search(r"(\w+) dO\[([^\]]*)\]", gradient.split("->")[0]).groups()
    files = []
    for t, kind in [
        (3, smallest),
        *((24 if family == "products" else 50, kind) for kind in (kinds if target == "cpu" else kinds[:1])),
    ]:
        f, g = f"f{len(files)}.tile", f"g{len(files)}.tile"
        files += [f, g]
        of = sizes(rng, t)
        (tmp_path / f).write_text((tmp_path / "f.tile").read_text())
        (tmp_path / g).write_text(gradient)
        arrays = {n: numbers(rng, n, [of[c] for c in shape], kind, dtype, largest) for n, shape in inputs.items()}
        add_case(tmp_path, f, arrays)
        cotangent = rng.standard_normal([of[c.strip()] for c in cotangent_shape.split(",")]).astype(
            {v: k for k, v in TYPES.items()}[of_type]
        )
        add_case(tmp_path, g, arrays | {"dO": cotangent})
    check(tmp_path, files, target)


def test_a_negative_base_and_terms_beyond_the_largest_at_an_anchor(tmp_path):
    (tmp_path / "f.tile").write_text("function f(f64 A[R], f64 V[R, T]) -> (O) { %s }\n" % DECAYS["powers"][0])
    v = np.random.default_rng(1).standard_normal((4, 50))
    v[:, [6, 21, 42]] = [1e300, 1e300, -1e300]
    add_case(tmp_path, "f.tile", {"A": np.array([-0.0227, -0.3, 0.0227, -0.9]), "V": v})
    check(tmp_path, ["f.tile"])


@pytest.mark.parametrize(
    "name",
    ["powers", "powers of many", "squares", "rates", "rates and levels", "lengths", "polynomials", "gated", "swish"],
)
def test_second_order_against_the_interpreter(tmp_path, name):
    statement, inputs = DECAYS[name]
    rng = np.random.default_rng(1)
    of = {"T": 40, "D": 3, "R": 5}
    header = ", ".join(f"{n}[{', '.join(shape)}]" for n, shape in inputs.items())
    (tmp_path / "f.tile").write_text(f"function f({header}) -> (O) {{ {statement} }}\n")
    second = tilec(tmp_path, "f.tile", "--grad", "--grad", "--emit=gradient").stdout
    (tmp_path / "g.tile").write_text(second)
    arrays = {}
    for n, dims in re.findall(r"f32 (\w+)\[([^\]]*)\]", second.split("->")[0]):
        arrays[n] = numbers(rng, n, [of[c.strip()] for c in dims.split(",") if c.strip()], "falling", "f4")
    add_case(tmp_path, "g.tile", arrays)
    check(tmp_path, ["g.tile"])


@pytest.mark.parametrize("base", [0.0, 1.0, -1.0, -0.9, 1e-30, 0.9999])
def test_a_base_at_the_ends(tmp_path, base):
    """0^0 is 1 and its derivative by the base is 0; negative bases change sign with each step."""
    t = 300
    (tmp_path / "f.tile").write_text("function f(A[], V[T]) -> (O) { O[t: T] = +(pow(A[], t - s) * V[s]), s <= t; }\n")
    rng = np.random.default_rng(2)
    arrays = {"A": np.asarray(base, "f4"), "V": rng.standard_normal(t).astype("f4")}
    (tmp_path / "g.tile").write_text(tilec(tmp_path, "grad", "f.tile").stdout)
    add_case(tmp_path, "f.tile", arrays)
    add_case(tmp_path, "g.tile", arrays | {"dO": rng.standard_normal(t).astype("f4")})
    check(tmp_path, ["f.tile", "g.tile"])


def grad_checked(folder, text, **arrays):
    (folder / "f.tile").write_text(text + "\n")
    done = tilec(folder, "run", "f.tile", *saved(folder, arrays), "--grad-check", "-q")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("family, name", [(f, name) for f in ("decays", "products") for name in FAMILIES[f]])
def test_finite_differences(tmp_path, family, name):
    statement, inputs = FAMILIES[family][name]
    rng = np.random.default_rng(3)
    of = {"T": 20, "D": 3, "E": 5, "R": 4}
    header = ", ".join(f"{n}[{', '.join(shape)}]" for n, shape in inputs.items())
    grad_checked(
        tmp_path,
        f"function f({header}) -> (O) {{ {statement} }}",
        **{n: numbers(rng, n, [of[c] for c in shape], "plain", "f4") for n, shape in inputs.items()},
    )


@pytest.mark.parametrize("target", TARGETS)
def test_long_slow_decays_keep_their_digits(tmp_path, target):
    """20,000 steps whose factors round alike: in f32 they would be off by thousands of units."""
    t = 20000
    (tmp_path / "f.tile").write_text(
        "function f(L[T], V[T]) -> (O) { O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t; }\n"
    )
    words = saved(tmp_path, {"L": (-1e-4 * np.arange(t)).astype("f4"), "V": np.ones(t, "f4")})
    done = tilec(tmp_path, "run", "f.tile", *words, "O=o.npy", "--target", target)
    if "E0515" in done.stderr:
        pytest.skip(done.stderr)
    level = np.load(tmp_path / "L.npy").astype("f8")
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), np.exp(level) * np.cumsum(np.exp(-level)), rtol=1e-6)


@functools.lru_cache(maxsize=1)                            # the same for each target, which are tested in a row
def long_decays(kind):
    """Levels, values, and by the definition both sums under a decay, in long doubles."""
    t, rng = 4000, np.random.default_rng(8)
    level = {
        "slow": -1e-4 * np.arange(t),
        "fast": -3.7 * np.arange(t),
        "rising": 0.011 * np.arange(t),
        "wandering": np.cumsum(rng.standard_normal(t)) * 0.3,
        "large levels": 1e9 - 0.013 * np.arange(t),
    }[kind]
    v = np.abs(rng.standard_normal(t)) + 0.1
    wanted = []
    for rate, first in ((1, 0), (np.longdouble(0.7), -1)):
        sums, part = [], 100                             # rows at a time: what lies behind the diagonal is not computed
        for begin in range(0, t, part):
            distance = np.longdouble(level)[begin : begin + part, None] - np.longdouble(level)[None, : begin + part]
            kept = np.tri(part, begin + part, begin + first, dtype=bool)
            decays = np.where(kept, np.exp(rate * np.where(kept, distance, 0)), 0)
            sums.append(decays @ np.longdouble(v[: begin + part]))
        wanted.append(np.concatenate(sums).astype("f8"))
    return level, v, wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["slow", "fast", "rising", "wandering", "large levels"])
def test_long_decays_in_f64_keep_their_digits(tmp_path, target, kind):
    """A step for each element would lose a digit for each; exact to what the definition may lose itself."""
    level, v, wanted = long_decays(kind)
    (tmp_path / "f.tile").write_text(
        "function f(f64 L[T], f64 V[T]) -> (O, P) { O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t; P[t: T] = +(exp(0.7*(L[t] - L[s])) * V[s]), s < t; }\n"
    )
    words = saved(tmp_path, {"L": level, "V": v})
    done = tilec(tmp_path, "run", "f.tile", *words, "O=o.npy", "P=p.npy", "--target", target)
    if "E0515" in done.stderr:
        pytest.skip(done.stderr)
    for name, want in zip("op", wanted):
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), want, rtol=2e-14)


def test_an_infinite_step_spoils_no_later_element(tmp_path):
    level = np.linspace(0, -3, 50).astype("f4")
    level[20] = np.inf
    (tmp_path / "f.tile").write_text(
        "function f(L[T], V[T]) -> (O) { O[t: T] = +(exp(L[t] - L[s]) * V[s]), s <= t; }\n"
    )
    words = saved(tmp_path, {"L": level, "V": np.ones(50, "f4")})
    assert tilec(tmp_path, "run", "f.tile", *words, "O=o.npy").returncode == 0
    got = np.load(tmp_path / "o.npy")
    assert np.isnan(got[20]) and np.isfinite(np.delete(got, 20)).all()


def test_a_long_recurrence_takes_little_memory_and_time(tmp_path):
    """As written 10^10 products for h, 10^15 for its gradient."""
    t = 100000
    rng = np.random.default_rng(5)
    (tmp_path / "f.tile").write_text(
        f"function f(A[T], B[T]) -> (O) {{ {INTERVAL} default 1; O[t: T] = +(G[s, t] * B[s]), s <= t; }}\n"
    )
    a, b = rng.uniform(-1, 1, t).astype("f4"), rng.standard_normal(t).astype("f4")
    words = saved(tmp_path, {"A": a, "B": b})
    assert tilec(tmp_path, "run", "f.tile", *words, "O=o.npy").returncode == 0
    h, want = 0.0, []
    for x, y in zip(a.astype("f8"), b.astype("f8")):
        h = x * h + y
        want.append(h)
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), want, rtol=1e-5, atol=1e-5)


def of_halves(values, **places):
    x = np.full(64, values, "f2")
    for place, value in places.items():
        x[int(place[1:])] = value
    return x


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "text, e, v",
    [
        ("Y[i: N] = +(exp(E[i] - E[k]) * V[k]), k <= i;", of_halves(0, _1=11.5), np.ones(64, "f4")),
        ("Y[i: N] = +(exp(E[i] - E[k]) * V[k]), k <= i;", of_halves(0, _1=11.5), np.eye(64, dtype="f4")[2]),
        ("Y[i: N] = +(V[k] * exp(E[i] - E[k])), k >= i;", of_halves(0, _7=12), np.ones(64, "f4")),
        (
            "Y[i: N] = +(f16(exp(E[i] - E[k])) * V[k]), k <= i;",
            np.linspace(0, 1, 64).astype("f2"),
            np.eye(64, dtype="f4")[0],
        ),
        (
            "P[s, t: N, N] = *(E[u]), s < u, u <= t; Y[t: N] = +(P[s, t] * V[s]), s <= t;",
            of_halves(1, _1=100, _2=100, _3=100),
            of_halves(0, _0=2**-10),
        ),
        (
            "P[s, t: N, N] = *(E[u]), s < u, u <= t; Y[t: N] = +(P[s, t] * V[s]), s <= t;",
            of_halves(1, _1=2**-10, _2=2**-10, _3=2**-10),
            of_halves(0, _0=60000),
        ),
    ],
)
def test_halves_round_and_leave_their_range_as_written(target, text, e, v):
    text = f"function f(E[N], V[N]) -> (Y) {{ {text} }}"
    got = tile.compile(text, target=target)(e, v)
    wanted = tile.compile(text, target="reference")(e, v)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
    np.testing.assert_allclose(got, wanted, rtol=1e-4 if got.dtype == np.float32 else 2e-3, atol=6e-8)


@pytest.mark.parametrize(
    "text, given, wanted",
    [
        ("Y = X * X * Z;", (1e-30, np.inf), np.nan),
        ("Y = X * X / X;", (1e-30, 0), 0),
        ("Y = X * X / X;", (1e30, 0), np.inf),
        ("Y = Z / (X * X);", (1e-40, 1), np.inf),
        ("Y = Z / (X * X);", (-1e-40, -1), -np.inf),
    ],
)
@pytest.mark.parametrize("target", [*TARGETS, "reference"])
def test_what_is_computed_in_f32_underflows_in_it(target, text, given, wanted):
    program = tile.compile(f"function f(X[N], Z[N]) -> (Y) {{ {text} }}", target=target)
    got = program(*(np.full(3, x, "f4") for x in given))
    np.testing.assert_array_equal(got, np.full(3, wanted, "f4"))
