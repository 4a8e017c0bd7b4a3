"""`tilec bench`: what it says is of the call that was asked for. How fast that is, no test says."""
import json
import subprocess

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
    done = bench(tmp_path, "--grad", "--wrt", "A", "A=random:20x30xf32", "B=random:30x40xf32", "dC=ones:20x40xf32", "--seconds", "0.05")
    assert done.returncode == 0, done.stderr
    assert "a call, 95 % between" in done.stdout and "of a matrix product's" in done.stdout


@pytest.mark.parametrize("arguments, status, said", [(("A=random:2x3xf32",), 1, "B"), (("A=random:2x3xf32", "B=random:3x4xf32", "--seconds", "-1"), 2, "--seconds"), (("nonsense",), 2, "NAME=VALUE")])
def test_what_cannot_be_called_is_an_error(tmp_path, arguments, status, said):
    done = bench(tmp_path, *arguments)
    assert done.returncode == status and said in done.stderr, done.stderr


def row(name="mm", seconds=1e-3, spread=0.01, **changed):
    return {"name": name, "inputs": ["A=2x3xf32"], "target": "cpu", "threads": 1, "median": seconds, "low": seconds * (1 - spread), "high": seconds * (1 + spread), **changed}


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
    done = compare(tmp_path, [row(), row(inputs=["A=4x3xf32"])], [row(inputs=["A=4x3xf32"], seconds=2e-3), row(threads=2)])
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
])
def test_compare_says_what_is_wrong_with_a_file(tmp_path, rows, place, said):
    done = compare(tmp_path, [row()], rows)
    assert done.returncode == 2 and place in done.stderr and said in done.stderr and done.stdout == "", done.stderr


@pytest.mark.parametrize("words, status, said", [((), 2, "none is named"), (("a.json",), 2, "one is named"), (("a", "b", "c"), 2, "3 are named"), (("no.json", "no.json"), 3, "no.json")])
def test_compare_takes_two_files(tmp_path, words, status, said):
    done = subprocess.run([TILEC, "compare", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == status and said in done.stderr, done.stderr


def test_compare_of_files_without_a_row_in_common(tmp_path):
    done = compare(tmp_path, [row("a")], [row("b")])
    assert done.returncode == 2 and "no row of `old.json` is in `new.json`" in done.stderr
