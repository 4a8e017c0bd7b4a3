"""Sums over triangles in chunks (codegen/rewrite/chunks.h): against the interpreter, with chunks of any size."""
import numpy as np
import pytest
from test_decays import saved, special, tilec

FORMS = {
    "attention": ("O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t;", "s"),
    "before": ("O[t, e: T, E] = +(-Q[t, d] * K[s, d] * V[s, e]), s < t;", "s"),
    "long before": ("O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e]), s <= t - 3;", "s"),
    "backwards": ("O[s, d: T, D] = +(K[t, d] * Q[t, e] * V[s, e]), t >= s;", "t"),
    "from the end": ("O[t, e: T, E] = +(Q[T - 1 - t, d] * K[s, d] * V[T - 1 - s, e]), s <= t;", "s"),
    "quotients": ("O[t, e: T, E] = +(Q[t, d] / (2 + Q[t, d] * Q[t, d]) * K[s, d] * V[s, e]), s <= t;", "s"),
    "batches": ("O[e, t, b: E, T, B] = +(Q[t, d] * X[b, s, d] * V[s, e]), s <= t;", "s"),
    "two that read": ("O[t, e: T, E] = +(Q[t, d] * V[t, e] * K[s, d] * V[s, e]), s <= t;", "s"),
    "fading": ("O[t, e: T, E] = +(Q[t, d] * exp(L[t, d] - L[s, d]) * K[s, d] * V[s, e]), s <= t;", "s"),
    "fading backwards": ("O[s, d: T, D] = +(Q[t, d] * exp(L[s, d] - L[t, d]) * V[t, e] * V[s, e]), t >= s + 1;", "t"),
    "fading heads": (
        "O[t, h, e: T, B, E] = +(Q[t, d] * exp(H[t, h] - H[s, h]) * G[s, h] * K[s, d] * Y[s, h, e]), s <= t;",
        "s",
    ),
    "fading by rates": (
        "O[t, e: T, E] = +(Q[t, d] * exp(0.5 * (A[d] * L[t, d] - A[d] * L[s, d])) * K[s, d] * V[s, e]), s <= t;",
        "s",
    ),
    "powers": ("O[t, e: T, E] = +(Q[t, d] * pow(A[d], t - s) * K[s, d] * V[s, e]), s <= t;", "s"),
    "powers of one": ("O[t, e: T, E] = +(Q[t, d] * K[s, d] * V[s, e] * pow(R[], 2*(t - s) + 1)), s < t;", "s"),
    "powers backwards": (
        "O[s, d: T, D] = +(Q[t, d] * (t == s ? 1.0 : pow(R[], t - s)) * V[t, e] * V[s, e]), t >= s;",
        "t",
    ),
    "rates": ("O[t, e: T, E] = +(Q[t, d] * exp((s - t) * A[d] / 8) * K[s, d] * V[s, e]), s <= t;", "s"),
    "rates and levels": (
        "O[t, e: T, E] = +(Q[t, d] * exp((t - s) * R[] / 4 + L[t, d] - L[s, d]) * K[s, d] * V[s, e]), s <= t;",
        "s",
    ),
    "of two levels": ("O[t, e: T, E] = +(Q[t, d] * exp(L[t, d] - K[s, d]) * K[s, d] * V[s, e]), s <= t;", "s"),
}
SHAPES = {"Q": "TD", "K": "TD", "L": "TD", "V": "TE", "X": "BTD", "H": "TB", "G": "TB", "Y": "TBE", "A": "D", "R": ""}
CHUNKS = [(5, 2), (16, 4), (37, 8), (40, 36)]          # values, and how many a chunk has


def fades(text):
    return "exp" in text or "pow" in text


def values(rng, name, shape, kind):
    x = rng.standard_normal(shape)
    if name in "LH":
        x = np.cumsum({"falling": -abs(x), "rising": abs(x)}.get(kind, x), 0)
    if name in "AR":
        x = np.where(rng.random(shape) < 0.2, 0, np.clip(x, -1.05, 1.05))
    x = x.astype("i4" if kind == "whole" else "f4")
    return special(rng, x, 1e8) if kind == "special" else x


def inputs_of(text):
    return {n: shape for n, shape in SHAPES.items() if f"{n}[" in text}


def agrees(folder, text, over, values_, chunk, kind, *more, before=""):
    rng = np.random.default_rng(len(text) + values_)
    of = {"T": values_, "D": int(rng.integers(1, 6)), "E": int(rng.integers(2, 20)), "B": int(rng.integers(1, 4))}
    inputs = inputs_of(text)
    dtype = "i32" if kind == "whole" else "f32"
    header = ", ".join(f"{dtype} {n}[{', '.join(shape)}]" for n, shape in inputs.items())
    (folder / "f.tile").write_text(f"function f({header}) -> (O) {{ {text} }}\n")
    (folder / "f.plan").write_text(f"{before}chunks O  over {over}  by {chunk}\n")
    words = saved(folder, {n: values(rng, n, [of[c] for c in shape], kind) for n, shape in inputs.items()})
    done = tilec(folder, "run", "f.tile", *words, "--plan", "f.plan", "--check", *more)
    if "E0515" in done.stderr or "no OpenCL" in done.stderr:
        pytest.skip(done.stderr)
    said = done.stdout + done.stderr
    assert "agrees" in said or ("cannot be compared" in said and kind == "special"), (done.returncode, said)


@pytest.mark.parametrize("kind", ["plain", "special", "falling", "rising"])
@pytest.mark.parametrize("form", FORMS)
def test_any_chunk(tmp_path, form, kind):
    text, over = FORMS[form]
    if kind in ("falling", "rising") and not fades(text):
        pytest.skip("no decay")
    for values_, chunk in CHUNKS if kind == "plain" else CHUNKS[2:3]:
        if "t - 3" not in text or chunk > 3:
            agrees(tmp_path, text, over, values_, chunk, kind)


@pytest.mark.parametrize("form", [f for f in FORMS if not fades(FORMS[f][0]) and f != "quotients"])
def test_whole_numbers(tmp_path, form):
    agrees(tmp_path, *FORMS[form], 37, 8, "whole")


@pytest.mark.parametrize("form", ["attention", "long before", "backwards", "fading", "fading heads", "powers"])
def test_opencl(tmp_path, form):
    agrees(tmp_path, *FORMS[form], 37, 8, "plain", "--target", "opencl")


def chosen(folder, text, sizes, *more):
    header = ", ".join(f"{n}[{', '.join(shape)}]" for n, shape in inputs_of(text).items())
    (folder / "f.tile").write_text(f"function f({header}) -> (O) {{ {text} }}\n")
    done = tilec(folder, "f.tile", "--size", sizes, "--emit=plan", *more)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("chunks")]


def test_chosen_where_it_saves_most_of_the_points(tmp_path):
    """Also for what derivatives make of it; short sums and those that are scans stay."""
    for form in ("attention", "fading", "fading heads", "powers"):
        text, _ = FORMS[form]
        others = "D=64,E=64" + ",B=3" * ("B" in text)
        assert len(chosen(tmp_path, text, f"T=2000,{others}")) == 1, form
        assert not chosen(tmp_path, text, f"T=40,{others}")
    text, _ = FORMS["fading"]
    assert len(chosen(tmp_path, text, "T=2000,D=64,E=64", "--grad")) == 5
    assert not chosen(tmp_path, "O[t, e: T, E] = +(V[s, e]), s <= t;", "T=2000,E=64")


def test_scores_that_a_text_makes_are_states(tmp_path):
    """Also where a dimension has one element."""
    for b in (1, 2):
        text = "S[b, t, s: B, T, T] = +(Q[t, d] * X[b, s, d]); O[b, t, e: B, T, E] = +(S[b, t, s] * V[s, e]), s <= t;"
        assert len(chosen(tmp_path, text, f"T=2000,D=16,E=16,B={b}")) == 1


STEPS = {
    "to 40": lambda rng, n: np.full(n, 0.02),
    "to 88": lambda rng, n: np.full(n, 0.0441),
    "to 100": lambda rng, n: np.full(n, 0.05),
    "up and down": lambda rng, n: 20 * rng.standard_normal(n),
    "far down": lambda rng, n: -100 * abs(rng.standard_normal(n)),
    "a reset": lambda rng, n: np.where(np.arange(n) == 700, -np.inf, -0.01),
    "one infinity": lambda rng, n: np.where(np.arange(n) == 704, np.inf, 0.0),
}


MASKED = """S[t, s: T, T] = +(Q[t, d] * K[s, d]);
  W[t, s: T, T] = =(S[t, s] * pow(R[], t - s)), s <= t;
  O[t, e: T, E] = +(W[t, s] * V[s, e]);"""


def test_scores_of_several_statements_are_written_out(tmp_path):
    assert chosen(tmp_path, MASKED, "T=4000,D=16,E=16") and not chosen(tmp_path, MASKED, "T=300,D=64,E=64")
    assert len(chosen(tmp_path, MASKED, "T=4000,D=16,E=16", "--grad")) == 3
    for kind in ("plain", "special"):
        agrees(tmp_path, MASKED, "s", 37, 8, kind, before="unfold O\n")


@pytest.mark.parametrize("steps", STEPS)
def test_weights_up_to_what_f32_holds(tmp_path, steps):
    """exp(88) is an f32, exp(90) is none. No finite element where the text's is not, nor the other way round."""
    text, _ = FORMS["fading"]
    (tmp_path / "f.tile").write_text(f"function f(Q[T, D], L[T, D], K[T, D], V[T, E]) -> (O) {{ {text} }}\n")
    (tmp_path / "f.plan").write_text("chunks O  over s  by 64\n")
    rng, n = np.random.default_rng(4), 2000
    step = STEPS[steps](rng, n)
    level = (step if steps == "one infinity" else np.cumsum(step)).astype("f4")
    value = np.where(rng.random((n, 3)) < 0.3, 0, rng.standard_normal((n, 3))).astype("f4")
    arrays = {"Q": np.ones((n, 1), "f4"), "L": level[:, None], "K": np.full((n, 1), 1e-9, "f4"), "V": value}
    done = tilec(tmp_path, "run", "f.tile", *saved(tmp_path, arrays), "--plan", "f.plan", "O=o.npy")
    assert done.returncode == 0, done.stderr
    with np.errstate(all="ignore"):
        weight = np.exp(np.where(np.tri(n), (level[:, None] - level).astype("f8"), 0))
        weight = np.tril(weight.astype("f4")).astype("f8") * np.float32(1e-9)
        terms = np.where(np.tri(n)[:, :, None], weight[:, :, None] * value, 0)
        want, most = terms.sum(1), abs(terms).sum(1)
    got = np.load(tmp_path / "o.npy")
    finite = np.isfinite(want)
    assert (np.isfinite(got) == finite).all()
    assert (abs(got[finite] - want[finite]) <= 1e-5 * most[finite] + 1e-44).all()


@pytest.mark.parametrize(
    "weight, rate, at_once",
    [
        ("exp((t - s) * R[])", -np.inf, 0),
        ("exp((s - t) * R[])", np.inf, 0),
        ("pow(R[], s - t)", np.inf, 0),
        ("pow(R[], s - t)", -np.inf, 0),
        ("pow(R[], t - s)", 0, 0),
        ("pow(R[], t - s)", np.nan, np.nan),
        ("exp((t - s) * R[])", np.nan, np.nan),
    ],
)
def test_rates_without_an_end(tmp_path, weight, rate, at_once):
    """Nothing is left after a step."""
    text = f"O[t, e: T, E] = +(Q[t, d] * {weight} * K[s, d] * V[s, e]), s <= t - 1;"
    (tmp_path / "f.tile").write_text(f"function f(Q[T, D], R[], K[T, D], V[T, E]) -> (O) {{ {text} }}\n")
    (tmp_path / "f.plan").write_text("chunks O  over s  by 8\n")
    rng = np.random.default_rng(6)
    arrays = {n: rng.standard_normal((100, 3)).astype("f4") for n in "QKV"} | {"R": np.asarray(rate, "f4")}
    done = tilec(tmp_path, "run", "f.tile", *saved(tmp_path, arrays), "--plan", "f.plan", "O=o.npy")
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy")[1:], np.full((99, 3), at_once, "f4"))


@pytest.mark.parametrize(
    "plan, said",
    [
        ("chunks O  over t  by 8", "does not reduce over an index `t`"),
        ("chunks O  over d  by 8", "over a triangle of d"),
        ("chunks O  over s  by 0", "chunks of O have from 1 to 29 places"),
        ("chunks O  over s  by 30", "chunks of O have from 1 to 29 places"),
    ],
)
def test_refused(tmp_path, plan, said):
    text, _ = FORMS["attention"]
    (tmp_path / "f.tile").write_text(f"function f(Q[T, D], K[T, D], V[T, E]) -> (O) {{ {text} }}\n")
    (tmp_path / "f.plan").write_text(plan + "\n")
    done = tilec(tmp_path, "f.tile", "--size", "T=30,D=4,E=5", "--emit=plan", "--plan", "f.plan")
    assert done.returncode and "E0561" in done.stderr and said in done.stderr, done.stderr
