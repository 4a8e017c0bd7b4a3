"""`tilec bench`: what it says is of the call that was asked for. How fast that is, no test says."""
import json
import os
import subprocess
import sys

import pytest

from test_cli import TILEC

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def bench(folder, *arguments):
    (folder / "mm.tile").write_text(MATMUL)
    return subprocess.run([TILEC, "bench", str(folder / "mm.tile"), *arguments], capture_output=True, text=True)


def test_operations_and_bytes_are_those_of_the_call(tmp_path):
    done = bench(tmp_path, "A=random:20x30xf32", "B=random:30x40xf32", "--seconds", "0.05", "--threads", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["operations"] == 2 * 20 * 30 * 40
    assert found["bytes"] == 4 * (20 * 30 + 30 * 40 + 20 * 40)
    assert 0 < found["low"] <= found["median"] <= found["high"] < 1
    assert found["calls"] >= 20
    assert found["operations_a_second"] == pytest.approx(found["operations"] / found["median"], rel=1e-4)
    assert found["matrix_product_operations_a_second"] > 0 and found["memory_bytes_a_second"] > 0


def test_of_a_gradient_too(tmp_path):
    done = bench(
        tmp_path,
        "--grad",
        "--wrt",
        "A",
        "A=random:20x30xf32",
        "B=random:30x40xf32",
        "dC=ones:20x40xf32",
        "--seconds",
        "0.05",
    )
    assert done.returncode == 0, done.stderr
    assert "a call, 95 % between" in done.stdout and "of a matrix product's" in done.stdout


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (("A=random:2x3xf32",), 1, "B"),
        (
            ("A=random:2x3xf32", "B=random:3x4xf32", "--seconds", "-1"),
            2,
            "--seconds: `-1` is no number of seconds above 0",
        ),
        (("A=random:2x3xf32", "B=random:3x4xf32", "--seconds", "nan"), 2, "`nan` is no number of seconds"),
        (("nonsense",), 2, "NAME=VALUE"),
    ],
)
def test_what_cannot_be_called_is_an_error(tmp_path, arguments, status, said):
    done = bench(tmp_path, *arguments)
    assert done.returncode == status and said in done.stderr, done.stderr


def row(name="mm", seconds=1e-3, spread=0.01, **changed):
    return {
        "name": name,
        "inputs": ["A=2x3xf32"],
        "target": "cpu",
        "threads": 1,
        "median": seconds,
        "low": seconds * (1 - spread),
        "high": seconds * (1 + spread),
        **changed,
    }


def compare(folder, old, new):
    for name, rows in (("old.json", old), ("new.json", new)):
        (folder / name).write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows) + "\n")
    return subprocess.run([TILEC, "compare", "old.json", "new.json"], capture_output=True, text=True, cwd=folder)


def test_compare_marks_what_the_intervals_tell_apart(tmp_path):
    old = [row("a"), row("b"), row("c"), row("gone")]
    done = compare(tmp_path, old, [row("c", 2e-3), row("b", 1.015e-3), row("a", 0.5e-3), row("come")])
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and done.stderr == ""
    assert [line.split()[0] for line in lines[:5]] == ["a", "b", "c", "gone", "come"]
    assert lines[0].endswith("faster") and " 2.000 " in lines[0]
    assert lines[1].split()[-1] not in ("faster", "slower")
    assert lines[2].endswith("slower") and " 0.500 " in lines[2]
    assert lines[3].endswith("only in old.json") and lines[4].endswith("only in new.json")
    assert lines[5] == "1 faster, 1 slower, 1 without a change that their intervals show"
    assert compare(tmp_path, old, old).returncode == 0


def test_compare_takes_rows_of_other_inputs_for_others(tmp_path):
    done = compare(
        tmp_path, [row(), row(inputs=["A=4x3xf32"])], [row(inputs=["A=4x3xf32"], seconds=2e-3), row(threads=2)]
    )
    assert "A=4x3xf32" in [line for line in done.stdout.splitlines() if line.endswith("slower")][0]
    assert done.stdout.count("only in") == 2


def test_compare_of_several_processes_takes_the_widest_interval(tmp_path):
    old = [row(seconds=s) for s in (0.9e-3, 1.0e-3, 1.1e-3)]
    assert "0 faster, 0 slower, 1 without" in compare(tmp_path, old, [row(seconds=1.1e-3)]).stdout
    assert "0 faster, 1 slower, 0 without" in compare(tmp_path, old, [row(seconds=1.2e-3)]).stdout


def test_compare_reads_what_bench_writes(tmp_path):
    arguments = ("A=random:20x30xf32", "B=random:30x40xf32", "--seconds", "0.05", "--threads", "1", "--json")
    lines = [bench(tmp_path, *arguments).stdout.strip() for _ in range(2)]
    done = compare(tmp_path, lines, lines)
    assert done.returncode == 0 and "A=20x30xf32 B=30x40xf32 cpu 1 thread" in done.stdout, done.stderr


@pytest.mark.parametrize("rows, place, said", [
    ([row(), '{"name": '], "new.json:2:10", "no JSON"),
    (["", "[]"], "new.json:2:1", "a row is an object"),
    ([{k: v for k, v in row().items() if k != "high"}], "new.json:1:1", "no `high`"),
    ([row(median="1")], "new.json:1:1", '`median` is "1", where a number'),
    ([row(median=0)], "new.json:1:1", "`median` is 0"),
    ([row(low=1)], "new.json:1:1", "in this order"),
    ([row(inputs=[1])], "new.json:1:1", "`inputs` holds 1"),
    ([""], "new.json:1:1", "no row"),
    (['{"name": "mm", "median": 1e999}'], "new.json:1:1", "no f64"),
    (['{"name":' * 100000 + "1" + "}" * 100000], "new.json:1:1", "nested deeper"),
])
def test_compare_says_what_is_wrong_with_a_file(tmp_path, rows, place, said):
    done = compare(tmp_path, [row()], rows)
    assert done.returncode == 2 and place in done.stderr and said in done.stderr and done.stdout == "", done.stderr


@pytest.mark.parametrize(
    "words, status, said",
    [
        ((), 2, "none is named"),
        (("a.json",), 2, "one is named"),
        (("a", "b", "c"), 2, "3 are named"),
        (("no.json", "no.json"), 3, "no.json"),
    ],
)
def test_compare_takes_two_files(tmp_path, words, status, said):
    done = subprocess.run([TILEC, "compare", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status and said in done.stderr, done.stderr


def test_compare_of_files_without_a_row_in_common(tmp_path):
    done = compare(tmp_path, [row("a")], [row("b")])
    assert done.returncode == 2 and "no row of `old.json` is in `new.json`" in done.stderr


# ---- --vs

WITH_PYTHON = {**os.environ, "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}
CONV = (
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, %s] = +(I[n, %s, ci] * K[j, i, ci, co]); }"
)
GROUPED = "function (I[N, G, C, H], K[G, D, C, KH]) -> (O) { O[n, g, d, y: N, G, D, H] = +(I[n, g, c, y + j - 1] * K[g, d, c, j]); }"
DEPTHWISE = "function (I[H, W, C], K[KH, KW, C]) -> (O) { O[c, y, x: C, (H + 1)/2, (W + 1)/2] = +(I[2*y + j - 1, 2*x + i - 1, c] * K[j, i, c]); }"


def beside(folder, text, *arguments, env=WITH_PYTHON):
    (folder / "f.tile").write_text(text)
    return subprocess.run(
        [TILEC, "bench", str(folder / "f.tile"), *arguments, "--seconds", "0.02"],
        capture_output=True,
        text=True,
        env=env,
    )


def needs(*modules):
    for module in modules:
        pytest.importorskip(module)


@pytest.mark.parametrize("peer", ["numpy", "torch", "jax"])
def test_a_product_is_an_einsum_of_the_peer(tmp_path, peer):
    needs(peer)
    done = beside(tmp_path, MATMUL, "--size", "M=20,K=30,N=40", "--vs", peer, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["threads"] == 1
    (one,) = found["peers"]
    assert one["name"] == peer and "einsum(" in one["formula"] and one["version"] and one["error"] < 1e-5
    assert 0 < one["low"] <= one["median"] <= one["high"] and one["ratio_low"] <= one["ratio"] <= one["ratio_high"]


@pytest.mark.parametrize(
    "text, size, formula",
    [
        (CONV % ("H - KH + 1, W - KW + 1, CO", "y + j, x + i"), "N=2,H=9,W=8,CI=3,KH=3,KW=2,CO=5", "conv2d"),
        (
            CONV % ("H/3, W/3, CO", "3*y + 2*j, 3*x + 2*i"),
            "N=1,H=12,W=12,CI=2,KH=2,KW=2,CO=4",
            "stride=(3, 3,), padding=(0, 0,), dilation=(2, 2,)",
        ),
        (CONV % ("H, W, CO", "y + j - 1, x + i - 1"), "N=1,H=7,W=6,CI=2,KH=3,KW=3,CO=4", "padding=(1, 1,)"),
        (CONV % ("H, W, CO", "y + j - 2, x + i"), "N=1,H=7,W=6,CI=2,KH=3,KW=3,CO=4", "pad("),
        (CONV % ("H - 4, W - 4, CO", "y + j + 1, x + i + 1"), "N=1,H=9,W=9,CI=2,KH=3,KW=3,CO=4", "pad("),
        (GROUPED, "N=2,G=3,C=2,H=8,D=4,KH=3", "conv1d"),
        (DEPTHWISE, "H=9,W=7,C=5,KH=3,KW=3", "groups=5"),
    ],
)
@pytest.mark.parametrize("peer", ["torch", "jax"])
def test_a_convolution_is_one_of_the_peer(tmp_path, peer, text, size, formula):
    needs(peer)
    done = beside(tmp_path, text, "--size", size, "--vs", peer, "--json")
    assert done.returncode == 0, done.stderr
    (one,) = json.loads(done.stdout)["peers"]
    assert one["error"] < 1e-5 and (formula if peer == "torch" else "conv_general_dilated") in one["formula"]


def test_several_statements_types_and_factors(tmp_path):
    text = "function (f64 A[M, K], f64 B[K, N], f64 v[N]) -> (T, y) { T[i, j: M, N] = +(2.0 * A[i, k] * B[k, j]); y[i: M] = +(T[i, j] * v[j]); }"
    done = beside(tmp_path, text, "--size", "M=5,K=6,N=7", "--vs", "numpy")
    assert (
        done.returncode == 0 and "T = numpy.einsum(" in done.stdout and "y = numpy.einsum(" in done.stdout
    ), done.stderr


def test_an_expression_is_what_the_user_says(tmp_path):
    text = "function (X[M, N]) -> (Y, S) { E = exp(X); S[i: M] = +(E[i, j]); Y[i, j: M, N] = =(E[i, j] / S[i]); }"
    done = beside(
        tmp_path,
        text,
        "X=random:4x5",
        "--vs",
        "numpy=(np.exp(X) / np.exp(X).sum(1)[:, None], np.exp(X).sum(1))",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["peers"][0]["error"] < 1e-5


@pytest.mark.parametrize("text, vs, status, said", [
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy", 2, ["E0549", "--vs 'numpy=EXPRESSION'"]),
    ("function (X[N]) -> (Y) { Y[i: N] = +(X[i - j]), j < 3; }", "numpy", 2, ["E0549"]),
    ("function (X[N, M]) -> (Y) { Y[i: N] = +(X[i, j]), j <= i; }", "numpy", 2, ["E0549", "condition"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy=np.exp(Z)", 2, ["E0547", "NameError", "`X`"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy=import os", 2, ["E0547", "SyntaxError"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy=np.exp(X) + 1", 1, ["E0548", "np.exp(X) + 1"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy=np.exp(X)[:2]", 1, ["E0548", "(2,)"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "numpy=(X, X)", 1, ["E0548", "2 results"]),
    ("function (X[N]) -> (Y) { Y = exp(X); }", "tensorflow", 2, ["`tensorflow` is no library that --vs knows"]),
    ("function (bf16 X[N]) -> (Y) { Y = X * X; }", "numpy=X * X", 2, ["E0547", "bf16"]),
])
def test_what_a_peer_cannot_compute_is_an_error(tmp_path, text, vs, status, said):
    done = beside(tmp_path, text, "--size", "N=8" + (",M=8" if "M" in text else ""), "--vs", vs)
    assert done.returncode == status and all(word in done.stderr for word in said) and done.stdout == "", done.stderr


def test_a_peer_that_is_not_here_is_the_environments_fault(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('none today')\n")
    done = beside(
        tmp_path, MATMUL, "--size", "M=2,K=2,N=2", "--vs", "torch", env={**WITH_PYTHON, "PYTHONPATH": str(tmp_path)}
    )
    assert (
        done.returncode == 3
        and "E0546" in done.stderr
        and "none today" in done.stderr
        and "pip install numpy torch" in done.stderr
    )
    done = beside(tmp_path, MATMUL, "--size", "M=2,K=2,N=2", "--vs", "numpy", env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 3 and "E0546" in done.stderr and "`python3` is not found on PATH" in done.stderr


def test_nothing_is_left_behind(tmp_path):
    left = tmp_path / "temporary"
    left.mkdir()
    for vs in ("numpy", "numpy=A", "numpy=nothing"):
        beside(tmp_path, MATMUL, "--size", "M=2,K=2,N=2", "--vs", vs, env={**WITH_PYTHON, "TMPDIR": str(left)})
    assert list(left.iterdir()) == []


def test_inputs_left_out_are_random_where_their_shape_is_known(tmp_path):
    given = beside(tmp_path, MATMUL, "A=random:20x30", "--size", "N=4", "--json")
    assert given.returncode == 0 and json.loads(given.stdout)["inputs"] == ["A=20x30xf32", "B=30x4xf32"], given.stderr
    short = beside(tmp_path, MATMUL, "A=random:20x30", "--json")
    assert short.returncode == 1 and "`B`" in short.stderr
