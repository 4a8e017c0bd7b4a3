"""Texts and files as they come: with byte order marks, characters that nobody sees, in other encodings, empty."""
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest

import tilec

TILEC = os.environ.get("TILEC", str(pathlib.Path(__file__).resolve().parents[2] / "build/cli/tilec"))
TEXT = "function f(A[N]) -> (B) {\n  B = A + 1.0;\n}\n"


def run(folder, *words):
    return subprocess.run([TILEC, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def test_a_byte_order_mark_in_front_of_any_text_is_skipped(tmp_path):
    f = tilec.compile("\ufeff" + TEXT)
    assert f(np.zeros(2, "f4")).tolist() == [1, 1]
    plan = f.emit("plan", np.zeros(2, "f4"))
    assert f.with_plan("\ufeff" + plan)(np.zeros(2, "f4")).tolist() == [1, 1]
    for name, text in (
        ("f.tile", TEXT),
        ("p.plan", plan),
        ("g.tile", 'import "f.tile";\nfunction g(A[N]) -> (C) { C = f(A); }'),
    ):
        (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
    assert tilec.load(tmp_path / "f.tile")(np.zeros(2, "f4")).tolist() == [1, 1]
    assert tilec.load(tmp_path / "g.tile")(np.zeros(2, "f4")).tolist() == [1, 1]
    for words in (["f.tile"], ["f.tile", "--plan", "p.plan"], ["g.tile"]):
        done = run(tmp_path, "run", *words, "A=zeros:2")
        assert done.returncode == 0 and "[1 1]" in done.stdout, done


def test_a_mistake_behind_a_byte_order_mark_is_where_it_is_seen():
    with pytest.raises(tilec.ProgramError) as said:
        tilec.compile("\ufefffunction f(A[N]) -> (B) { B = C; }")
    assert (said.value.diagnostics[0].line, said.value.diagnostics[0].column) == (1, 31)


@pytest.mark.parametrize(
    "character, name",
    [
        ("\ufeff", "U+FEFF"),
        ("\u200b", "U+200B"),
        ("\u00a0", "U+00A0"),
        ("\u202f", "U+202F"),
        ("\u2060", "U+2060"),
        ("\u3000", "U+3000"),
        ("\u00ad", "U+00AD"),
    ],
)
def test_a_character_that_is_not_seen_is_named(character, name):
    for text in (TEXT.replace("B =", "B" + character + "="), TEXT + character, TEXT.replace("{", character + "{")):
        with pytest.raises(tilec.ProgramError, match="E0102.*" + name.replace("+", r"\+")) as said:
            tilec.compile(text)
        hint = said.value.diagnostics[0].hint
        assert tilec.compile(text.replace(character, "" if "delete it" in hint else " "))(np.zeros(1, "f4")) == 1
    assert tilec.compile(TEXT + "// " + character)(np.zeros(1, "f4")) == 1


@pytest.mark.parametrize(
    "data, said",
    [
        (TEXT.encode("utf-16"), "is text in UTF-16"),
        (b"\x00", "is no text"),
        (b"PK\x03\x04", "is a ZIP archive"),
        (b"\x93NUMPY\x01\x00", "is a NumPy array"),
    ],
)
def test_a_file_that_is_no_text_is_named(tmp_path, data, said):
    (tmp_path / "f.tile").write_bytes(data)
    (tmp_path / "g.tile").write_text('import "f.tile";\nfunction g(A[N]) -> (C) { C = f(A); }')
    for file in ("f.tile", "g.tile"):
        done = run(tmp_path, "check", file)
        assert done.returncode == 1 and "E0136" in done.stderr and "f.tile` " + said in done.stderr, done
        with pytest.raises(tilec.ProgramError, match="E0136.*f.tile` " + said):
            tilec.load(tmp_path / file)


def test_bytes_that_are_no_utf_8_are_pointed_at(tmp_path):
    (tmp_path / "f.tile").write_bytes(TEXT.encode().replace(b"1.0", b"\xff"))
    assert "f.tile:2:11: error[E0102]: the byte 0xFF" in run(tmp_path, "check", "f.tile").stderr
    with pytest.raises(tilec.ProgramError, match="f.tile:2:11: error.E0102.: the byte 0xFF"):
        tilec.load(tmp_path / "f.tile")
    (tmp_path / "f.tile").write_bytes(TEXT.encode() + b"// \xe9t\xe9")
    assert run(tmp_path, "check", "f.tile").returncode == 0
    assert tilec.load(tmp_path / "f.tile")(np.zeros(1, "f4")) == 1


@pytest.mark.parametrize("data", [b"", b"tilec", b"whole"])
def test_a_package_that_is_cut_off_is_named(tmp_path, data):
    path = tmp_path / "f.tilec"
    if data == b"whole":
        tilec.compile(TEXT).save(path, np.zeros(2, "f4"))
        path.write_bytes(path.read_bytes()[:200])
    else:
        path.write_bytes(data)
    done = run(tmp_path, "run", "f.tilec", "A=zeros:2")
    assert done.returncode in (1, 3) and "f.tilec" in done.stderr, done
    with pytest.raises((tilec.DeviceError, tilec.ProgramError), match="f.tilec"):
        tilec.load(path)


@pytest.mark.parametrize(
    "shape, kept",
    [
        ("(0, 1000000000000)", True),
        ("(1000000000000, 0)", True),
        ("(1000000000000,)", False),
        ("(9223372036854775807, 4)", False),
        ("(1, 99999999999999999999)", False),
        ("(" + "1, " * 5000 + ")", False),
    ],
)
def test_headers_of_huge_arrays_without_elements(tmp_path, shape, kept):
    header = ("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n" % shape).encode()
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header)
    (tmp_path / "f.tile").write_text("function f(A[M, N]) -> (B) { B[] = +(A[i, j]); }")
    done = run(tmp_path, "run", "f.tile", "A=a.npy", "--check", "--grad-check")
    assert done.returncode == (0 if kept else 3), done
    assert "[0]" in done.stdout if kept else "a.npy" in done.stderr, done


@pytest.mark.parametrize(
    "length, held, said",
    [(2**32 - 1, 0, "4294967295 bytes"), (10**6, 10**6, "1000000 bytes"), (60000, 100, "it ends within the header")],
)
def test_a_header_that_is_too_long_says_so(tmp_path, length, held, said):
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", length) + b" " * held)
    (tmp_path / "f.tile").write_text(TEXT)
    done = run(tmp_path, "run", "f.tile", "A=a.npy")
    assert done.returncode == 3 and "a.npy" in done.stderr and said in done.stderr, done
