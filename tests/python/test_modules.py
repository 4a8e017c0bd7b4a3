"""A text with several functions: read once with its imports, whatever is taken from it, by however many threads."""
import copy
import gc
import threading
import time
import warnings

import numpy as np
import pytest

import tilec
from tilec import _library

def functions(count):
    return "".join("function f%d(X[N]) -> (Y) { Y = X * %d.0; }\n" % (k, k) for k in range(count))


THOUSAND = functions(1000)


@pytest.fixture
def parses(monkeypatch):
    """How often the library has read a text."""
    count = []

    class Counting:
        def __getattr__(self, name):
            if name in ("tilec_parse", "tilec_compile", "tilec_function_count"):
                count.append(name)
            return getattr(library, name)
    library = _library.lib
    monkeypatch.setattr(_library, "lib", Counting())
    return count


def test_a_text_is_parsed_once_for_all_its_functions(parses):
    """A thousand functions took 0.1 seconds each."""
    begin = time.process_time()
    module = tilec.compile(THOUSAND)
    programs = [getattr(module, "f%d" % k) for k in range(1000)]
    assert parses == ["tilec_parse"]
    assert time.process_time() - begin < 20
    assert [p.name for p in programs] == ["f%d" % k for k in range(1000)]
    assert (programs[7](np.ones(3)) == 7).all() and module.f7 is programs[7]


def test_one_function_of_a_file_needs_one_parse(parses):
    f = tilec.compile(THOUSAND, function="f3")
    f.grad()
    assert parses == ["tilec_parse"] and (f(np.ones(2)) == 3).all()


def test_functions_taken_later_are_of_the_version_that_was_read(tmp_path):
    part, main = tmp_path / "part.tile", tmp_path / "main.tile"
    part.write_text("function scaled(X) -> (Y) { Y = X * 2.0; }\n")
    main.write_text(
        'import "part.tile";\nfunction f(X) -> (Y) { Y = scaled(X); }\nfunction g(X) -> (Y) { Y = scaled(X) + 1.0; }\n'
    )
    module = tilec.load(main)
    assert (module.f(np.ones(2)) == 2).all()
    part.write_text("function scaled(X) -> (Y) { Y = X * 5.0; }\n")
    assert (module.g(np.ones(2)) == 3).all()
    assert (tilec.load(main).g(np.ones(2)) == 6).all()
    part.unlink()
    assert (module.f(np.ones(3)) == 2).all()


def test_a_program_outlives_its_module():
    module = tilec.compile(functions(9))
    f = module.f5
    del module
    gc.collect()
    assert (f(np.ones(2)) == 5).all() and (f.grad()(np.ones(2), np.ones(2)) == 5).all()


def test_options_hold_for_every_function():
    text = "function f<S>(X[N]) -> (Y) { Y = X * S; }\nfunction g<S>(X[N]) -> (Y) { Y = X + S; }\n"
    module = tilec.compile(text, define={"S": 3}, target="reference", kernels=2)
    x = np.ones(2)
    assert (module.f(x) == 3).all() and (module.g(x) == 4).all() and module.g._kernels == 2
    with pytest.raises(ValueError, match="abacus"):
        tilec.compile(text, define={"S": 3}, target="abacus").f


def test_threads_take_functions_of_one_module():
    module = tilec.compile(THOUSAND)
    failed, x = [], np.ones(4)

    def takes(first):
        for k in range(first, 1000, 25):
            if not (getattr(module, "f%d" % k)(x) == k).all():
                failed.append(k)
    threads = [threading.Thread(target=takes, args=(n % 4,)) for n in range(8)]   # pairs of them take the same
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert module.f0 is module.f0


def test_a_fault_is_told_when_the_text_is_read(tmp_path):
    with pytest.raises(tilec.ProgramError, match="broken.tile:2:"):
        (tmp_path / "broken.tile").write_text("function f(X) -> (Y) { Y = X; }\nfunction g(X) -> (Y) { Y = Z; }\n")
        tilec.load(tmp_path / "broken.tile")
    module = tilec.compile("function f(X[N]) -> (Y) { Y = X; }\nfunction g(X[N]) -> (Y) { Y[i: N] = =(X[i, i]); }\n")
    assert (module.f(np.ones(2)) == 1).all()
    for _ in range(2):                                         # of the function alone, each time that it is taken
        with pytest.raises(tilec.ProgramError, match="E0201"):
            module.g


def test_a_warning_is_raised_once_for_a_module():
    text = "function doubtful(A, B, C) -> (O) { O = A > 0 ? B : C > 0 ? A : B; }\nfunction sure(A) -> (B) { B = A; }\n"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = tilec.compile(text)
        assert [w.category for w in caught] == [tilec.ProgramWarning] and caught[0].filename == __file__
        module.sure, module.doubtful
    assert len(caught) == 1
    assert [d.code for d in module.doubtful.diagnostics] == ["W0101"]


def test_questions_to_a_module():
    module = tilec.compile(functions(9))
    with pytest.raises(AttributeError, match="no function `f99`; there are f0, f1"):
        module.f99
    assert not hasattr(module, "__wrapped__") and "f1" in dir(module)
    with pytest.raises(AttributeError):
        copy.copy(module).f99
