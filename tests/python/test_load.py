"""load() of what was loaded before: the same object as long as nothing changed, a new one as soon as something did."""
import os
import threading

import numpy as np
import pytest

import tilec

X = np.arange(4.0)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "ops.tile").write_text("function scale(X) -> (Y) { Y = X * 2.0; }")
    (tmp_path / "f.tile").write_text('import "ops.tile";\nfunction f(X[N]) -> (Y) { Y = scale(X); }')
    return tmp_path / "f.tile"


def test_nothing_changed(file, monkeypatch):
    f = tilec.load(file)
    assert tilec.load(file) is f and tilec.load(str(file)) is f and tilec.load(file, target="cpu", define={}) is f
    os.utime(file, (1, 1))                                    # times say nothing
    file.write_bytes(file.read_bytes())
    assert tilec.load(file) is f
    with tilec.options(target="reference"):
        other = tilec.load(file)
    assert other is not f and tilec.load(file, target="reference") is other and tilec.load(file) is f
    monkeypatch.chdir(file.parent)
    np.testing.assert_array_equal(tilec.load("f.tile")(X), f(X))


def test_the_text_changed(file):
    f = tilec.load(file)
    stamp = os.stat(file)
    file.write_text(file.read_text().replace("scale(X)", "X * 5.0"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    g = tilec.load(file)
    assert g is not f and tilec.load(file) is g
    np.testing.assert_array_equal(g(X), 5 * X)
    np.testing.assert_array_equal(f(X), 2 * X)                # what was loaded stays what it was


def test_an_import_changed(file):
    f = tilec.load(file)
    (file.parent / "ops.tile").write_text("function scale(X) -> (Y) { Y = X * 7.0; }")
    np.testing.assert_array_equal(tilec.load(file)(X), 7 * X)
    (file.parent / "ops.tile").write_text("function scale(X) -> (Y) { Y = X * 2.0; }")
    assert tilec.load(file) is not f                          # one version of each file is kept
    (file.parent / "ops.tile").unlink()
    with pytest.raises(tilec.ProgramError, match="ops.tile"):
        tilec.load(file)


def test_an_import_is_found_elsewhere(file):
    near, far = file.parent / "near", file.parent / "far"
    near.mkdir(), far.mkdir()
    (far / "ops.tile").write_text((file.parent / "ops.tile").read_text())
    (file.parent / "ops.tile").unlink()
    f = tilec.load(file, include=[near, far])
    assert tilec.load(file, include=[near, far]) is f
    (near / "ops.tile").write_text("function scale(X) -> (Y) { Y = X * 9.0; }")
    np.testing.assert_array_equal(tilec.load(file, include=[near, far])(X), 9 * X)


def test_options_are_part_of_it(file):
    file.write_text("function f<S=1>(X[N]) -> (Y) { Y = X * S; }\nfunction g(X[N]) -> (Y) { Y = X; }")
    ways = [
        {},
        {"function": "g"},
        {"function": "f"},
        *(
            {"function": "f", **more}
            for more in (
                {"define": {"S": 2}},
                {"define": {"S": 3}},
                {"size": {"N": 4}},
                {"threads": 1},
                {"kernels": 3},
                {"checked": True},
                {"plan": ""},
                {"room": 9},
                {"cache": False},
            )
        ),
    ]
    made = [tilec.load(file, **way) for way in ways]
    assert len(set(map(id, made))) == len(made)
    assert all(tilec.load(file, **way) is one for way, one in zip(ways, made)) and tilec.load(file).g is made[0].g


def test_threads_get_whole_programs(file):
    wrong, stop = [], threading.Event()

    def read():
        while not stop.is_set():
            made = tilec.load(file)(X)
            if not any(np.array_equal(made, X * k) for k in (2, 3)):
                wrong.append(made)
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for k in range(40):
        part = file.parent / "part"
        part.write_text(
            'import "ops.tile";\nfunction f(X[N]) -> (Y) { Y = scale(X); }'
            if k % 2
            else "function f(X[N]) -> (Y) { Y = X * 3.0; }"
        )
        part.rename(file)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_how_many_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tilec._source, "_MOST_LOADED", 3)
    files = [tmp_path / ("f%d.tile" % k) for k in range(5)]
    for k, file in enumerate(files):
        file.write_text("function f(X[N]) -> (Y) { Y = X * %d.0; }" % k)
    first = tilec.load(files[0])
    for file in files[1:3]:
        tilec.load(file)
    assert tilec.load(files[0]) is first                      # used, so it stays
    tilec.load(files[3])
    assert tilec.load(files[0]) is first and len(tilec._source._loaded) == 3


def importing(names, number):
    imports = "".join('import "%s.tile";\n' % name for name in names)
    return tilec.compile("%sfunction f(X[N]) -> (Y) { Y = %s(X) + %d; }" % (imports, names[-1], number))


@pytest.fixture
def chain(tmp_path, monkeypatch):
    """c imports b, which imports a; d imports a."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tile").write_text("function a(X[N]) -> (Y) { Y = X + 1; }")
    for name, other in ("ba", "cb", "da"):
        (tmp_path / (name + ".tile")).write_text(
            'import "%s.tile";\nfunction %s(X[N]) -> (Y) { Y = %s(X) * 2; }' % (other, name, other)
        )
    return tmp_path


@pytest.mark.parametrize("names", ["c", "dc", "cd", "acd"])
def test_texts_with_the_same_imports_and_then_others(chain, names):
    """What a text before has read serves the next only as long as all of it is the same."""
    for added in (1, 10, 1):
        (chain / "a.tile").write_text("function a(X[N]) -> (Y) { Y = X + %d; }" % added)
        for number in (0, 0, 1):
            wanted = (X + added) * (2 if names[-1] == "d" else 4) + number
            np.testing.assert_array_equal(importing(names, number)(X), wanted)


@pytest.mark.parametrize("text, code", [
    (None, "E0121"),
    ("function a(X[N]) -> (Y) { Y = X + ; }", "E0101"),
    ('import "c.tile";\nfunction a(X[N]) -> (Y) { Y = X; }', "E0122"),
])
def test_imports_that_are_no_longer_right(chain, text, code):
    importing("c", 0)
    (chain / "a.tile").unlink()
    if text:
        (chain / "a.tile").write_text(text)
    for number in (0, 1):
        with pytest.raises(tilec.ProgramError, match=code):
            importing("c", number)


def test_a_text_that_an_import_of_the_last_one_names(chain):
    """c, read before, is now imported by itself: by a text of the name of what it imports."""
    importing("c", 0)
    with pytest.raises(tilec.ProgramError, match="E0122"):
        tilec.compile('import "c.tile";\nfunction f(X) -> (Y) { Y = c(X); }', name="b.tile")


def test_warnings_are_said_again(chain):
    (chain / "b.tile").write_text('import "a.tile";\n[[nothing]] function b(X[N]) -> (Y) { Y = a(X) * 2; }')
    for number in (0, 0, 1, 0):
        with pytest.warns(tilec.ProgramWarning, match="W0104"):
            importing("c", number)
