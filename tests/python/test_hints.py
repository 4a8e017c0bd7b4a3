"""What a hint says to type is typed: in its place the fault is gone, and what people write who come from elsewhere ends
in a program."""
import json
import os
import pathlib
import re
import resource
import subprocess

import numpy as np
import pytest

import tilec

ROOT = pathlib.Path(__file__).resolve().parents[2]
TILEC = os.environ.get("TILEC", str(ROOT / "build/cli/tilec"))
GOLDEN = ROOT / "tests/golden"


def check(folder, text, *options):
    """The diagnostics of `tilec check`, and its exit status."""
    path = pathlib.Path(folder, "hint.tile")
    path.write_text(text)
    done = subprocess.run(
        [TILEC, "check", path.name, "--diagnostics=json", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1, 2), done.stderr
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")], done.returncode


def offset(text, line, column):
    lines = text.encode().split(b"\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + column - 1


def statement(data, at):
    """Bounds of the statement around a byte, its `;` included."""
    begin = (
        max(data.rfind(mark, 0, at + (data[at : at + 1] not in (b";", b"{", b"}"))) for mark in (b";", b"{", b"}")) + 1
    )
    begin += len(data[begin:]) - len(data[begin:].lstrip())
    while data.startswith(b"//", begin):                  # a comment in front
        begin = data.index(b"\n", begin) + 1
        begin += len(data[begin:]) - len(data[begin:].lstrip())
    return begin, data.index(b";", at) + 1


def typed(text, said, hint):
    """The text with what the hint says to write; None where it says nothing of that kind."""
    data = text.encode()
    if said.get("file") is None:
        return None
    begin, end = offset(text, said["line"], said["column"]), offset(text, said["end_line"], said["end_column"])
    found = re.fullmatch(r"write `(import [^`]*;)` in front of the functions(?:, and here `([^`]*)`)?", hint)
    if found:
        if found[2]:
            first, last = statement(data, begin)
            data = data[:first] + found[2].encode() + data[last:]
        return found[1] + "\n" + data.decode()
    found = re.fullmatch(r"write `([^`…]*)`|did you mean `([^`]*)`\?", hint)
    if not found:
        return None
    new = found[1] or found[2]
    heading = data.rfind(b"function", 0, begin + 8)
    if new.startswith("function") and "{" not in new and b"{" not in data[heading:begin]:
        return (data[:heading] + new.encode() + b" " + data[data.index(b"{", begin):]).decode()
    if new.startswith(("function", "gradient", "->", "[[", "tilec")):
        return None                                       # an example
    if new.endswith(";"):
        begin, end = statement(data, begin)
    return (data[:begin] + new.encode() + data[end:]).decode()


FAMILY = sorted(path for room in ("lang", "poly", "calls", "autodiff") for path in (GOLDEN / room).glob("*.tile"))


@pytest.mark.parametrize("path", FAMILY, ids=lambda path: "%s/%s" % (path.parent.name, path.stem))
def test_what_hints_of_goldens_say_to_write_mends_the_fault(path, tmp_path):
    text = "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("//|"))
    for said in check(tmp_path, text)[0]:
        if said.get("file") != "hint.tile":
            continue
        for hint in said["hints"]:
            new = typed(text, said, hint)
            if new is None:
                continue
            before = [d["code"] for d in check(tmp_path, text)[0]]
            after = check(tmp_path, new)[0]
            at = offset(text, said["line"], said["column"])
            still = [
                d
                for d in after
                if d["code"] == said["code"]
                and d.get("file") == "hint.tile"
                and abs(offset(new, d["line"], d["column"]) - at) < 2
            ]
            assert not still, (said, hint, new)
            assert [d["code"] for d in after].count("E0101") <= before.count("E0101"), (said, hint, new)


HEADING = "function f(X[N], Z[N], A[M, K], B[K, N], D[M, K], Label[M], W[K], S[]) -> (O) { %s }"
KEYS = "function attend(Q[L, D], K[L, D], V[L, D]) -> (O) { %s }"      # names that modules have too
# Statements as they are written elsewhere; the hints, typed one after the other, end in a program.
ELSEWHERE = """
O = X ** 2;
O = X ** 2 + Z ** 3;
O = (X + Z) ** 2;
O = -X ** 2;
O = np.exp(X);
O = np.exp(X) / np.exp(X).sum();
O = torch.exp(X) / torch.sum(torch.exp(X));
O = np.maximum(X, 0);
O = np.where(X > 0, X, 0.1 * X);
O = torch.where(X > 0, X, Z);
O = X if X > 0 else 0;
O = np.sum(A, axis=1);
O = np.sum(A, axis=0, keepdims=True);
O = A.sum(axis=1);
O = A.sum(-1);
O = A.mean(dim=1);
O = X.mean();
O = X - X.mean();
O = (X - np.mean(X)) ** 2;
O = np.max(A, axis=1);
O = torch.amax(A, dim=1);
O = A.max(dim=1);
O = A @ B;
O = np.dot(A, B);
O = np.matmul(A, B) + 1;
O = torch.mm(A, B);
O = np.dot(X, Z);
O = A @ W;
O = relu(A @ B);
O = A.T;
O = np.transpose(A);
O = A[:, 0];
O = A[0];
O = A[0, :];
O = A[:, 1:];
O = A[..., 0];
O = X[::-1];
O = X[::2];
O = X[1:] - X[:-1];
O = X[-1];
O = X[1:3];
O = X[:, None];
O = X > 0 && X < 1;
O = X > 0 and X < 1;
O = X < 0 or X > 1;
O = not (X > 0);
O = !(X > 0);
O = X % 2;
O = X × Z;
O = 2X;
O = 1e-5f * X;
O = X .* Z;
O = X ./ Z .+ 1;
O = X .^ 2;
O := X;
return 2.0 * X;
O = X * X.shape[0];
O[i] = X[i] + 1;
O[i] = X[i] * Z[i];
O[i, j] = A[i, k] * B[k, j];
O[i: N] = X[i] + 0.1*(X[i-1]);
O[i: N] = X[i] + 0.1*(Z[i] - X[i]) + (Z[i]);
O[i: M] = mean(A[i, k]);
O[i, k: M, K] = A[i, k] / sum(A[i, k]);
O[i, k: M, K] = A[i, k] - max(A[i, l]);
O[i, k: M, K] = =(exp(A[i, k]) / sum(exp(A[i, l])));
O[i, k: M, K] = A[i, k] - mean(A[i, l]);
O[i: N] = X[i] / +(X[j]);
O[] = +(X[i]) / N;
O[i: M] = -log(A[i, Label[i]]);
O[i: M] = A[Label[i], 0];
O[i: M] = =(A[i][0]);
O[i: M] = +(A[i][k] * W[k]);
O[i: N] = +(X[k] if k <= i);
O[i: N] = +(X[k]) if k <= i;
O[i: N] = +(X[k]) for k in range(i);
O[i: N] = +(X[k]), k > i;
O[] = +(A[i, k]), Label[i] == 2;
O[i: N] = O[i-1] + X[i];
O[i: N] = =(X[i] + O[i - 1]);
O[i, k: M, K] = O[i, k-1] + A[i, k];
O[i: N] = =(X[(i + 1) % N]);
O[i: N] = X[(i - 1) % N] + X[(i + 1) % N];
O[i: N] = =(X[mod(i + 2, N)]);
O[i: N] = =(X[max(i-1, 0)]);
O[i: N] = X[min(i+1, N-1)] - X[max(i-1, 0)];
O[0] = X[0];
O = softmax(A);
O = log_softmax(A);
O = roll(X, 1);
O = roll(X, shift=2);
O = silu(X);
O = np.tanh(X) * np.abs(Z);
O = X.exp();
O = np.arctan2(X, Z);
O = np.clip(X, 0.0, 1.0);
O = (f64) X;
O = (f32)(X);
O = (u8) (X + 1) * 2;
O = (float) X * 2;
O = 1.0 + (int) X;
O = (double)exp(X) + (double) Z;
O[i: M] = +((f64) A[i, k] * (f64) W[k]);
O = A.astype(np.float32);
O = X.to(torch.float64) * 2;
O = X.float() + Z.double();
O = (X + Z).astype(np.int32);
O = np.float32(X);
O = torch.float32(X) * float(Z);
O = static_cast<float>(X + Z);
O = tf.cast(X, tf.float64);
O = X as f32;
O = X * (Z as float);
O = einsum("ik,kj->ij", A, B);
O = np.einsum('ik,kj->ij', A, B);
O = torch.einsum("ij,ij->", A, D);
O = np.einsum("ik, kj", A, B) + 1;
O = einsum("ij->ji", A);
O[i, j] = sum(k, A[i, k] * B[k, j]);
O[i, j: M, N] = te.sum(A[i, k] * B[k, j], axis=k);
O[i, j] += A[i, k] * B[k, j];
O(i, j) +=! A(i, k) * B(k, j);
O(i, k) = (A(i, k) + D(i, k)) / 2;
O(x) = (X(x - 1) + X(x) + X(x + 1)) / 3;
O[i: M] = argmax(A[i, j]);
O[k: K] = argmin(A[i, k]);
O[] = argmax(X[i]);
O[i, k: M, K] = =(A[i, k]) if i >= k else 0;
O[] += X[i];
O[i: N] = +(X[i + j]), 0 <= j && j < 2;
O[i: N] = +(X[i + j]), 0 <= j and j < 2;
O[i: N] = +(X[j] * (X[j] > 0 & Z[j] > 0)), j <= i & j >= i - 2;
O[i: M] = =(A[i, 0]), 0 <= i && i < 2 && i >= 1;
O[] = +(X[i],);
O = exp(X,);
O[i,: M] = +(A[i, k]);
O[i, : M,] = +(A[i, k,],);
O[i: M,] = +(A[i, k]);
O[i, k,: M, K] = =(A[i, k]);
O = topk(X, 3);
O = torch.topk(X, 3);
O = top_k(X, 3);
O = torch.topk(X, k=3);
O, P = top_k(X, 3);
(O, P) = top_k(X, 3);
(O, P) = torch.topk(A, 2);
""".strip().splitlines()


@pytest.mark.parametrize("text", ELSEWHERE)
def test_what_is_written_elsewhere_becomes_a_program(text, tmp_path):
    program, trail = HEADING % text, []
    for _ in range(4):
        said, status = check(tmp_path, program)
        faults = [d for d in said if d["severity"] == "error"]
        if not faults:
            break
        trail.append((program, faults[0]["message"], faults[0]["hints"]))
        programs = [new for hint in faults[0]["hints"] if (new := typed(program, faults[0], hint)) is not None]
        assert programs, trail
        program = programs[0]
    assert status == 0, trail
    assert trail, "it was a program already"


@pytest.mark.parametrize(
    "text", ["O = Q @ K.T;", "O = Q @ K.T / sqrt(D);", "O = K.sum(axis=1);", "O = K.exp();", "O = K[:, 0];"]
)
def test_a_tensor_that_is_called_as_a_module_is_none(text, tmp_path):
    program = KEYS % text
    for _ in range(3):
        faults = [d for d in check(tmp_path, program)[0] if d["severity"] == "error"]
        if not faults:
            break
        program = next(new for hint in faults[0]["hints"] if (new := typed(program, faults[0], hint)) is not None)
    K = np.arange(6.0, dtype="f4").reshape(2, 3)
    meant = {
        "O = Q @ K.T;": K @ K.T,
        "O = Q @ K.T / sqrt(D);": K @ K.T / np.sqrt(np.float32(3)),
        "O = K.sum(axis=1);": K.sum(axis=1),
        "O = K.exp();": np.exp(K),
        "O = K[:, 0];": K[:, 0],
    }[text]
    np.testing.assert_allclose(tilec.compile(program)(K, K, K), meant, rtol=1e-5)


HEADINGS = """
f(X[N]) -> (O: f32)
f(X[N]) -> (O: f32[N])
f(X[N]) -> (O: float32)
f(X: f32[N]) -> (O)
f(X: float32[N]) -> (O)
f(X[N]: f32) -> (O)
f(X[N]: float) -> (O: float)
f(float X[N]) -> (O)
f(float X[N], double S[]) -> (float O)
f(f32[N] X) -> (O)
f(float[N] X, int[M, K] A) -> (f32[N] O)
f(X[N]) -> O
f(X[N]) => (O)
f(X[N]) -> (O[N])
f(X[N]) -> (f32 O[N])
f(X[N],) -> (O)
f(X[N]) -> (O,)
f(X[N,]) -> (O,)
f<S=2>(X[N], A: i32[M, K],) -> O
f(X: f32[N], A: f64[M, K]) -> (O: f32[N], P: f64[M, K],)
""".strip().splitlines()


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_heading_that_is_written_elsewhere_becomes_one(heading, tmp_path):
    body = "O = X; P = A;" if "P" in heading else "O = X;"
    program = "function %s {\n  %s\n}\n" % (heading, body)
    for _ in range(3):
        faults = [d for d in check(tmp_path, program)[0] if d["severity"] == "error"]
        if not faults:
            break
        words = heading.split("(")[0] + "function"
        # it points at the culprit
        assert faults[0]["line"] == 1 and faults[0]["column"] > len("function f"), (words, faults[0])
        program = next(new for hint in faults[0]["hints"] if (new := typed(program, faults[0], hint)) is not None)
    assert not faults and "function %s {" % heading not in program, program


def test_what_is_no_heading_keeps_its_hint(tmp_path):
    for heading in ("f(X[N]) -> f32", "f(X[N])", "f(X) -> (", "f(X[N] -> (O)"):
        said = check(tmp_path, "function %s { O = X; }" % heading)[0]
        assert said and all("write `function f(" not in hint or "{" in hint for hint in said[0]["hints"]), said


def starved(folder, *words):
    """`tilec` with 6 GB of address space."""
    limit = 6 << 30
    return subprocess.run([TILEC, *words], cwd=folder, capture_output=True, text=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))


@pytest.mark.parametrize("sizes, wanted", [("R, S", "R"), ("N", "N"), ("K, N", "N")])
def test_a_hint_has_sizes_of_the_function(tmp_path, sizes, wanted):
    found, status = check(
        tmp_path,
        "function g(Q[P]) -> (Y) { Y = Q; }\nfunction f(X[%s]) -> (O) { for i in range(3): O[i] = X[i]; }\n" % sizes,
    )
    hint = " ".join(hint for one in found if one["code"] == "E0109" for hint in one["hints"])
    assert status == 1 and "O[i: %s]" % wanted in hint, found


def test_where_memory_ends_the_tensor_and_its_bytes_are_named(tmp_path):
    (tmp_path / "outer.tile").write_text(
        "function (X[N], Z[M]) -> (Y) { P[i, j: N, M] = =(X[i] * Z[j]); Y[] = >(P[i, j]); }"
    )
    (tmp_path / "sum.tile").write_text("function (X[N, M]) -> (Y) { Y[] = +(X[i, j]); }")
    given = starved(tmp_path, "run", "sum.tile", "X=ones:100000x100000")
    made = starved(tmp_path, "run", "outer.tile", "X=ones:100000", "Z=ones:100000", "--target", "reference")
    for done, name in ((given, "X"), (made, "P")):
        assert done.returncode == 3 and "E0512" in done.stderr, done.stderr
        assert "`%s`" % name in done.stderr and re.search(r"\d{10,} bytes", done.stderr), done.stderr


MEANT = {
    "O = np.roll(X, 1);": lambda X, **_: np.roll(X, 1),
    "O = torch.roll(A, 2, 0);": lambda A, **_: np.roll(A, 2, 0),
    "O = np.roll(A, 1, axis=1) + 1.0;": lambda A, **_: np.roll(A, 1, axis=1) + 1,
    "O = A.roll(1, -1);": lambda A, **_: np.roll(A, 1, -1),
    "O = np.flip(X);": lambda X, **_: np.flip(X),
    "O = np.flip(A, axis=0);": lambda A, **_: np.flip(A, 0),
    "O = A.flip(1);": lambda A, **_: np.flip(A, 1),
    "O = np.concatenate([A, D]);": lambda A, D, **_: np.concatenate([A, D]),
    "O = torch.cat((A, D), dim=1);": lambda A, D, **_: np.concatenate([A, D], 1),
    "O = torch.cat((A, D, A), -1);": lambda A, D, **_: np.concatenate([A, D, A], 1),
    "O = cat(X, Z);": lambda X, Z, **_: np.concatenate([X, Z]),
    "O = np.stack([X, Z]);": lambda X, Z, **_: np.stack([X, Z]),
    "O = torch.stack((X, Z), 1);": lambda X, Z, **_: np.stack([X, Z], 1),
    "O = torch.stack((A, D));": lambda A, D, **_: np.stack([A, D]),
    "O = A.reshape(-1);": lambda A, **_: A.reshape(-1),
    "O = A.flatten();": lambda A, **_: A.flatten(),
    "O = A.view(K, -1);": lambda A, **_: A.reshape(A.shape[1], -1),
    "O = np.reshape(A, (-1, 2));": lambda A, **_: A.reshape(-1, 2),
    "O = X && Z;": lambda X, Z, **_: np.logical_and(X, Z),
    "O = X > 0 or Z;": lambda X, Z, **_: np.logical_or(X > 0, Z),
    "O = (X > 0.5) && Z && X;": lambda X, Z, **_: (X > 0.5) & (Z != 0) & (X != 0),
    "O = einsum('ik,kj->ij', A, B);": lambda A, B, **_: A @ B,
    "O = np.einsum('ij,ij->', A, D);": lambda A, D, **_: (A * D).sum(),
    "O = np.einsum('ik, kj', A, B);": lambda A, B, **_: A @ B,
    "O = np.einsum('mk, nk', A, D);": lambda A, D, **_: A @ D.T,
    "O = torch.einsum('ba', A);": lambda A, **_: A.T,
    "O = torch.einsum('ij->j', A) * W;": lambda A, W, **_: A.sum(0) * W,
    "O = einsum('i,j->ij', X, Z);": lambda X, Z, **_: np.outer(X, Z),
    "O = einsum('ij,j,i->', A, W, Label);": lambda A, W, Label, **_: np.einsum("ij,j,i->", A, W, Label),
    "O[i, j] = sum(k, A[i, k] * B[k, j]);": lambda A, B, **_: A @ B,
    "O[i, j] += A[i, k] * B[k, j];": lambda A, B, **_: A @ B,
    "O(i, j) +=! A(i, k) * B(k, j);": lambda A, B, **_: A @ B,
    "O(i, k) = A(i, k) * W(k) + D(i, k);": lambda A, W, D, **_: A * W + D,
    "O[i: M] = argmax(A[i, j]);": lambda A, **_: A.argmax(1),
    "O[k: K] = argmin(A[i, k]);": lambda A, **_: A.argmin(0),
    "O[i, k: M, K] = =(A[i, k]) if i >= k else -1;": lambda A, **_: np.where(np.tri(*A.shape), A, -1),
    "O[i, k: M, K] = =(A[i, k]) if i >= k else 0;": lambda A, **_: np.tril(A),
    "O = (i32) X * 2;": lambda X, **_: X.astype("i4") * 2,
    "O = (X * 0.5).astype(np.int32);": lambda X, **_: (X * np.float32(0.5)).astype("i4"),
    "O = (int)(X * 0.5) + 1;": lambda X, **_: (X * np.float32(0.5)).astype("i4") + 1,
    "O = -X ** 2;": lambda X, **_: -X ** 2,
    "O = 2.0 * X ** 2 - 1.0;": lambda X, **_: 2 * X ** 2 - 1,
}


@pytest.mark.parametrize("text", MEANT)
def test_what_a_hint_says_to_write_computes_what_was_meant(text, tmp_path):
    program = HEADING % text
    for _ in range(4):
        faults = [d for d in check(tmp_path, program)[0] if d["severity"] == "error"]
        if not faults:
            break
        program = next(new for hint in faults[0]["hints"] if (new := typed(program, faults[0], hint)) is not None)
    rng = np.random.default_rng(3)
    shapes = {"X": (6,), "Z": (6,), "A": (3, 4), "B": (4, 6), "D": (3, 4), "Label": (3,), "W": (4,), "S": ()}
    given = {name: rng.integers(-1, 3, shape).astype("f") for name, shape in shapes.items()}
    assert program != HEADING % text
    np.testing.assert_array_equal(tilec.compile(program)(**given), MEANT[text](**given))


@pytest.mark.parametrize(
    "text, operand, by",
    [("X % 3", "X", 3), ("np.mod(X, Z)", "X", "Z"), ("torch.remainder(X, 3)", "X", 3), ("(X + Z) % 3", "(X + Z)", 3)],
)
def test_a_hint_for_a_remainder_says_both_signs(text, operand, by, tmp_path):
    X, Z = np.array([-7, -3, -1, 0, 2, 7], "f"), np.array([3, -2, 5, 4, -3, -4], "f")
    hints = check(tmp_path, HEADING % ("O = %s;" % text))[0][0]["hints"]
    expressions = [
        re.fullmatch(r"write `O = (.*);`", hints[0])[1],
        re.search(r"as in Python, write `(.*)`", hints[1])[1],
    ]
    number = lambda what: eval(str(what), {"X": X, "Z": Z})
    for expression, expected in zip(
        expressions, [np.fmod(number(operand), number(by)), np.mod(number(operand), number(by))]
    ):
        program = tilec.compile("function f(X[N], Z[N]) -> (O) { O = %s; }" % expression)
        np.testing.assert_array_equal(program(X, Z), expected)


@pytest.mark.parametrize(
    "text, power",
    [
        ("-X ^ 2", "pow(X, 2)"),
        ("X + X^2 - 1", "pow(X, 2)"),
        ("Z * X ^ 3", "pow(X, 3)"),
        ("(X + Z) ^ 2", "pow(X + Z, 2)"),
        ("Z - exp(X) ^ 2", "pow(exp(X), 2)"),
        ("Z * (X + Z) ^ 2", "pow(X + Z, 2)"),
        ("(X * Z + Z) * X ^ 2", "pow(x, 2)"),
    ],
)
def test_a_power_is_of_what_stands_before_it(text, power, tmp_path):
    said = [d for d in check(tmp_path, HEADING % ("O = %s;" % text))[0] if d["code"] == "W0214"]
    assert said and said[0]["hints"][0] == "a power is `%s`" % power
