"""tilec.options: what compile() and load() take where they are told nothing."""
import asyncio
import contextvars
import gc
import sys
import threading

import numpy as np
import pytest

import tilec

TEXT = "function f(X[N, 2], i32 I[M]) -> (Y) { Y = gather(X, I); }"
X, FAR = np.ones((3, 2), "f4"), np.full(2, 9, "i4")


def is_checked(f):
    try:
        f(X, FAR)
    except tilec.ShapeError:
        return True
    return False


def target_of(f):
    return f._recipe.options["target"]


def test_the_innermost_comes_first_and_a_call_before_it():
    assert not is_checked(tilec.compile(TEXT))
    with tilec.options(checked=True, target="reference"):
        f = tilec.compile(TEXT)
        assert is_checked(f) and target_of(f) == "reference"
        with tilec.options(target="opencl"):
            assert is_checked(tilec.compile(TEXT)) and target_of(tilec.compile(TEXT)) == "opencl"
            assert target_of(tilec.compile(TEXT, target="cpu")) == "cpu"
        assert target_of(tilec.compile(TEXT)) == "reference"
        assert not is_checked(tilec.compile(TEXT, checked=False))
    assert not is_checked(tilec.compile(TEXT)) and is_checked(f) and target_of(f.grad(wrt="X")) == "reference"


def test_an_exception_ends_them():
    with pytest.raises(KeyError):
        with tilec.options(target="reference"):
            raise KeyError
    assert target_of(tilec.compile(TEXT)) == "cpu"


def test_they_may_be_entered_again_and_decorate():
    checked = tilec.options(checked=True)
    with checked, checked:
        assert is_checked(tilec.compile(TEXT))
    assert not is_checked(tilec.compile(TEXT))
    assert is_checked(checked(tilec.compile)(TEXT)) and not is_checked(tilec.compile(TEXT))


def test_other_threads_and_tasks_have_their_own():
    found = {}

    def work(name, target):
        with tilec.options(target=target):
            barrier.wait()
            found[name] = target_of(tilec.compile(TEXT))
    barrier = threading.Barrier(2)
    with tilec.options(checked=True):
        threads = [threading.Thread(target=work, args=(k, target)) for k, target in enumerate(["cpu", "reference"])]
        plain = threading.Thread(
            target=contextvars.Context().run, args=(lambda: found.update(plain=is_checked(tilec.compile(TEXT))),)
        )
        for thread in threads + [plain]:
            thread.start()
        for thread in threads + [plain]:
            thread.join()
    assert found == {0: "cpu", 1: "reference", "plain": False}

    async def task(target):
        with tilec.options(target=target):
            await asyncio.sleep(0.001)
            return target_of(tilec.compile(TEXT))

    async def both():
        return await asyncio.gather(task("cpu"), task("reference"))
    assert asyncio.run(both()) == ["cpu", "reference"]


def test_they_reach_load_and_std(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ops.tile").write_text("function twice(X) -> (Y) { Y = X * 2.0; }")
    (tmp_path / "f.tile").write_text('import "ops.tile";\nfunction f(X[N]) -> (Y) { Y = twice(X); }')
    with pytest.raises(tilec.ProgramError, match="ops.tile"):
        tilec.load(tmp_path / "f.tile")
    with tilec.options(
        include=[tmp_path / "lib"], target="reference", kernels=3, threads=1, room=64, cache=tmp_path / "cache"
    ):
        f = tilec.load(tmp_path / "f.tile")
        softmax = tilec.std.load("softmax")
        assert target_of(tilec.std.softplus) == "cpu"                 # one for the process, whatever is said here
    assert f._recipe.options == {
        "target": "reference",
        "kernels": 3,
        "threads": 1,
        "room": 64,
        "cache": str(tmp_path / "cache"),
        "checked": False,
        "define": {},
        "size": {},
        "rank": {},
    }
    np.testing.assert_array_equal(f(X[0]), [2, 2])
    assert target_of(softmax) == "reference"


@pytest.mark.parametrize(
    "given, words",
    [
        ({"define": {"S": 1}}, "define= belongs to one text"),
        ({"function": "f"}, "function= belongs"),
        ({"tagret": "cpu"}, "no option tagret=; there are target, include"),
    ],
)
def test_what_belongs_to_one_text_is_refused(given, words):
    with pytest.raises(TypeError, match=words):
        tilec.options(**given)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"checked": "maybe"}, "checked= is 'maybe', not a bool"),
        ({"checked": 3}, "checked= is 3, not a bool"),
        ({"cache": 3}, "cache= is 3, not a path"),
        ({"include": 3}, "include= is 3, not a path or"),
        ({"include": ["std", 3]}, "include= is 3, not a path"),
        ({"define": 3}, "define= is 3, not a dict"),
        ({"size": ["N"]}, "size= is ['N'], not a dict"),
        ({"threads": -1}, "threads= is -1, not from 0 to 4096"),
        ({"size": {"N": "a"}}, "size=: N is 'a', not an integer"),
        ({"kernels": 0.5}, "kernels= is 0.5, not an integer"),
    ],
    ids=str,
)
def test_values_that_no_option_has(given, words, tmp_path):
    text = "function (X[N]) -> (Y) { Y = X; }"
    file = tmp_path / "f.tile"
    file.write_text(text)
    for made in (lambda **options: tilec.compile(text, **options), lambda **options: tilec.load(file, **options)):
        with pytest.raises((TypeError, ValueError)) as fault:
            made(**given)
        assert str(fault.value).startswith(words)
        if not {"define", "size"} & set(given):
            with pytest.raises((TypeError, ValueError)) as fault, tilec.options(**given):
                made()
            assert str(fault.value).startswith(words)


def test_what_is_no_path_and_no_program(monkeypatch):
    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lambda fault: lost.append(repr(fault.exc_value)))
    with pytest.raises(TypeError, match="path is None, not a path"):
        tilec.load(None)
    with pytest.raises(AttributeError):
        tilec.Program("text", None)
    gc.collect()
    assert not lost                                           # __del__ has nothing to say


def test_values_are_looked_at_when_something_is_compiled():
    with tilec.options(threads=-1), pytest.raises(ValueError, match="threads="):
        tilec.compile(TEXT)
    with tilec.options(target="gpu"), pytest.raises(tilec.OptionError, match="gpu"):
        tilec.compile(TEXT)
