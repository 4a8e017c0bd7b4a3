"""What the package says: warnings once, errors without them, names that are nearly right."""
import warnings

import numpy as np
import pytest

import tilec

STENCIL = "function f(X[M, N]) -> (Y) { Y[i, j: M, N] = =(X[i - 1, j] + X[i + 1, j]); }"


def quiet(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tilec.compile(text, **options)


def test_a_warning_is_raised_once_whatever_the_shapes():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f = tilec.compile(STENCIL)
        before = f.diagnostics
        for size in (4, 5, 6, 7):
            f(np.ones((size, size), "f4"))
    assert len([w for w in caught if w.category is tilec.ProgramWarning]) == 1
    assert [d.code for d in f.diagnostics].count("W0211") == 1 and len(f.diagnostics) <= len(before) + 1


def test_an_error_does_not_begin_with_warnings_that_were_raised():
    f = quiet(STENCIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(np.ones((4, 4), "f4"))
        with pytest.raises(tilec.ShapeError) as fault:
            f(np.ones(3, "f4"))
    assert "W0211" not in str(fault.value) and fault.value.code == "E0204"


def test_a_code_is_left_out_by_a_filter_and_by_an_attribute():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=r".*W0211", category=tilec.ProgramWarning)
        tilec.compile(STENCIL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = tilec.compile("[[allow(W0211)]] " + STENCIL)
        f(np.ones((4, 4), "f4"))
        g = tilec.compile("[[allow(W0211)]] function (X[M], Z[N]) -> (Y) { Y[i: M] = =(X[i] + Z[i]); }")
        g(np.ones(4, "f4"), np.ones(3, "f4"))               # said of sizes that are known only here


@pytest.mark.parametrize("call, names", [
    (lambda: quiet(STENCIL, target="gpu"), ["cuda", "opencl"]),
    (lambda: quiet(STENCIL).emit("lops"), ["loops", "plan"]),
])
def test_an_unknown_option_is_a_value_error_that_names_what_there_is(call, names):
    with pytest.raises(ValueError) as fault:
        call()
    assert type(fault.value) is tilec.OptionError and all(name in str(fault.value) for name in names)


def test_options_of_load_and_keywords_of_calls_that_are_nearly_right():
    with pytest.raises(TypeError, match=r"define=\{'S': 4\}"):
        tilec.compile("function f<S=2>(X[N]) -> (Y) { Y = S * X; }", S=4)
    with pytest.raises(TypeError, match="did you mean define="):
        tilec.compile("function f(X[N]) -> (Y) { Y = X; }", defines={})
    f = tilec.compile("function f(Image[N], Kernel[N]) -> (Y) { Y = Image * Kernel; }")
    with pytest.raises(TypeError, match="did you mean Image"):
        f(image=np.ones(3), Kernel=np.ones(3))
    with pytest.raises(TypeError, match="did you mean Kernel"):
        f(np.ones(3), Kernal=np.ones(3))


def test_the_name_of_a_file_is_no_program():
    with pytest.raises(ValueError, match=r"tilec\.load\('sm6\.tile'\)"):
        tilec.compile("sm6.tile")
    with pytest.raises(tilec.ProgramError):
        tilec.compile("function f(X[N]) -> (Y) { Y = X }")


def test_modules_and_programs_say_what_they_are():
    module = tilec.compile("function double(X) -> (Y) { Y = 2 * X; } function half(X) -> (Y) { Y = X / 2; }")
    assert "double" in repr(module) and "half" in repr(module)
    with pytest.raises(AttributeError, match="did you mean `double`"):
        module.Double
    assert "f(X) -> (Y)" in repr(quiet(STENCIL))
