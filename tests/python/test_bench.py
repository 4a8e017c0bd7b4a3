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
