"""tilec.std: each function of each file, its name when it is mistyped, and that no file of the working folder stands in
for one of the library."""
import inspect
import os
import pathlib
import pydoc
import random
import re
import shlex
import subprocess
import warnings

import numpy as np
import pytest

import tilec
from tilec import _library
from std_errors import ROOT


def test_each_function_of_each_file():
    names = [
        name
        for path in sorted((ROOT / "std").glob("*.tile"))
        for name in re.findall(r"^function (\w+)", path.read_text(), re.M)
    ]
    once = sorted(set(names))
    assert dir(tilec.std) == sorted([*once, *tilec.std._others(), *tilec.std._orders()])
    programs = 0
    for name in once:
        function = getattr(tilec.std, name)
        taken = [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.kind is each.POSITIONAL_OR_KEYWORD
        ]
        assert function.name == name and function.__doc__.startswith(name)
        programs += isinstance(function, tilec.Program) and function.inputs == tuple(taken)
    assert (
        programs + sum(isinstance(getattr(tilec.std, name), tilec.std.Incomplete) for name in once) == len(once)
        and programs > 400
    )


def test_what_others_call_a_function():
    """Each name is one function's, and none is another's own; it is found by both, and by its file."""
    own = tilec.std._headings()
    others = [other for families in own.values() for heading in families.values() for other in heading.also]
    assert len(others) == len(set(others)) > 150 and not set(others) & set(own)
    x = np.random.default_rng(0).standard_normal((3, 3)).astype("f4")
    np.testing.assert_array_equal(tilec.std.mm(x, x), tilec.std.matmul(x, x))
    np.testing.assert_array_equal(tilec.std.load("mm")(x, x), tilec.std.load("linear.mm")(x, x))
    assert tilec.std.mm.name == "matmul" and "mm" in dir(tilec.std)
    np.testing.assert_array_equal(tilec.std.sum(x, dim=1), tilec.std.total(x, start_dim=1, end_dim=1))
    np.testing.assert_array_equal(tilec.std.sum(x, dim=(0, 1)), tilec.std.sum(x))
    np.testing.assert_array_equal(tilec.std.softmax(x, axis=0), tilec.std.softmax(x, dim=0))
    with pytest.raises(TypeError, match="correction"):
        tilec.std.var(x)


def test_a_function_is_called_and_kept():
    x = np.random.default_rng(0).standard_normal((3, 8)).astype("f4")
    y = tilec.std.layer_norm(x, np.ones(8, "f4"), np.zeros(8, "f4"))
    np.testing.assert_allclose(
        y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), rtol=1e-4, atol=1e-5
    )
    assert tilec.std.layer_norm is tilec.std.layer_norm


def test_compile_time_parameters_are_given_by_name():
    x, k = np.random.default_rng(0).standard_normal((1, 7, 7, 2)).astype("f4"), np.ones((3, 3, 2, 4), "f4")
    expected = tilec.std.load("conv2d", define={"stride": 2, "padding": 1})(x, k)
    np.testing.assert_array_equal(tilec.std.conv2d(x, k, stride=2, padding=1), expected)
    np.testing.assert_array_equal(tilec.std.conv2d(K=k, padding=1, I=x, stride=2), expected)
    out = np.empty_like(expected)
    assert tilec.std.conv2d(x, k, stride=2, padding=1, out=out) is out and (out == expected).all()
    assert tilec.std.conv2d(x, K=k).shape == (1, 5, 5, 4) and isinstance(tilec.std.conv2d, tilec.Program)
    np.testing.assert_array_equal(
        tilec.std.pad(x[0, 0, :, 0], before=1, after=2, value=9), np.pad(x[0, 0, :, 0], (1, 2), constant_values=9)
    )
    np.testing.assert_array_equal(tilec.std.pad(x[0, 0, :, 0], before=1), np.pad(x[0, 0, :, 0], 1))


def test_former_names_of_parameters():
    x, k = np.random.default_rng(0).standard_normal((1, 7, 7, 2)).astype("f4"), np.ones((3, 3, 2, 4), "f4")
    with pytest.warns(tilec.ProgramWarning, match="`S` of `conv2d` is called `stride` now"):
        former = tilec.std.conv2d(x, k, S=3, padding=1)
    np.testing.assert_array_equal(former, tilec.std.conv2d(x, k, stride=3, padding=1))
    with pytest.warns(tilec.ProgramWarning):
        np.testing.assert_array_equal(tilec.std.pad(x[0, 0, :, 0], BEFORE=2), np.pad(x[0, 0, :, 0], 2))
    with pytest.raises(tilec.ProgramError, match="E0144"):
        tilec.std.conv2d(x, k, S=3, stride=3)


def test_functions_that_go_say_what_to_write():
    """A warning at the line that calls one; of what stays none."""
    tilec.std._made.cache_clear()                             # told once where it is compiled
    with pytest.warns(tilec.ProgramWarning, match=r"`concat_columns` goes with the next version: write `concat<1>\(X, Z\)`") as said:
        tilec.std.concat_columns(X, X)
    assert {each.filename for each in said} == {__file__}
    assert "goes with the next version" in tilec.std.concat_columns.__doc__
    going = {name for name, families in tilec.std._headings().items() for h in families.values() if h.goes}
    assert len(going) > 130 and not {"concat", "flip_rows", "var"} & going
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, families in tilec.std._headings().items():
            if name not in going and not any(None in h.parameters.values() for h in families.values()):
                for family in families:
                    tilec.std.load("%s.%s" % (family, name))


# one-line functions of before
BEFORE = re.compile(
    r"^(conv|depthwise_conv|max_pool|avg_pool)\w*_(hw|thw|padded|valid|same|groups|inside|counted)$|^pixels_of_"
)


def test_parameters_are_called_as_in_pytorch():
    """In small letters; capitals are sizes that NumPy calls so: numpy.eye(N, M), numpy.tri(N, M), numpy.hanning(N) and
    numpy.vander(X, N)."""
    capitals = {
        (heading.name, parameter)
        for families in tilec.std._headings().values()
        for heading in families.values()
        for parameter in heading.parameters
        if parameter.isupper() and not BEFORE.match(heading.name)
    }
    windows = {(name, "N") for name in ("hann", "hamming_window", "blackman", "bartlett", "kaiser")}
    assert capitals == {("identity", "N"), ("identity", "M"), ("tri", "N"), ("tri", "M"), ("vander", "N"), *windows}


X = np.random.default_rng(2).standard_normal((6, 4)).astype("f4")
Y = np.array([0, 1, 2, 1, 3, 0])


@pytest.mark.parametrize(
    "name, inputs, former, now",
    [
        ("leaky_relu", (X,), {"SLOPE": 0.5}, {"negative_slope": 0.5}),
        ("glu", (X,), {"GATE": "silu"}, {"gate": "silu"}),
        ("softplus", (X,), {"BETA": 3}, {"beta": 3}),
        ("linear_attention", (X, X, X), {"FEATURE": "exp"}, {"feature": "exp"}),
        ("sinusoidal", (X[0], 4), {"THETA": 100}, {"theta": 100}),
        ("tril", (X,), {"D": -2}, {"diagonal": -2}),
        ("covariance", (X,), {"DDOF": 0}, {"correction": 0}),
        ("cross_entropy_smooth", (X, Y), {"IGNORE": 1, "SMOOTHING": 0.3}, {"ignore_index": 1, "label_smoothing": 0.3}),
        ("huber", (X, 0 * X), {"DELTA": 0.3}, {"delta": 0.3}),
        ("group_norm", (X[:, None],), {"G": 2, "EPS": 1}, {"num_groups": 2, "eps": 1}),
        ("momentum", (X, X, X, 0.1), {"MOMENTUM": 0.5, "DECAY": 0.5}, {"momentum": 0.5, "weight_decay": 0.5}),
        ("moving_sum", (X[:, 0],), {"K": 3}, {"window": 3}),
        ("histogram", (Y,), {"BINS": 3}, {"bins": 3}),
        ("dilation_flat_2d", (X,), {"R": 2}, {"radius": 2}),
    ],
)
def test_parameters_once_in_capitals(name, inputs, former, now):
    function = getattr(tilec.std, name)
    with pytest.warns(tilec.ProgramWarning) as said:
        before = function(*inputs, **former)
    assert {
        tuple(re.search("`(.*?)` of `%s` is called `(.*?)` now" % name, str(each.message)).groups())
        for each in said
        if "W0220" in str(each.message)
    } == set(zip(former, now))
    np.testing.assert_array_equal(before, function(*inputs, **now))


def test_former_names_are_of_parameters():
    former = [
        (heading, name)
        for families in tilec.std._headings().values()
        for heading in families.values()
        for name in heading.former
    ]
    for heading, name in former:
        assert (
            heading.former[name] in heading.parameters and name not in heading.parameters and name not in heading.inputs
        ), heading
    assert len(former) > 200


@pytest.mark.parametrize(
    "call, fault, words",
    [
        (
            lambda a, k: tilec.std.conv2d(a, k, colour=2),
            TypeError,
            "conv2d has no input and no compile-time parameter colour; inputs are I, K, Bias, parameters stride=1, dilation=1, padding=0, groups=1, ",
        ),
        (lambda a, k: tilec.std.conv2d(a, k, strid=2), TypeError, "did you mean stride"),
        (lambda a, k: tilec.std.conv2d(a, k, stride=[2]), TypeError, r"stride of conv2d is \[2\]: give a number or 2 of them"),
        (lambda a, k: tilec.std.conv2d(a, k, stride="x"), tilec.ProgramError, "E0127"),
        (lambda a, k: tilec.std.conv2d(a, stride=2), TypeError, "K"),
        (
            lambda a, k: tilec.std.pad(a),
            TypeError,
            r"needs its compile-time parameters by name: tilec.std.pad\(X, before=…\)",
        ),
        (lambda a, k: tilec.std.pad.grad(), AttributeError, r'load\("pad", define=.*\.grad'),
    ],
)
def test_parameters_that_do_not_fit(call, fault, words):
    with pytest.raises(fault, match=words):
        call(np.ones((1, 5, 5, 1), "f4"), np.ones((1, 1, 1, 1), "f4"))


IMAGE, KERNEL = np.ones((1, 5, 6, 1), "f4"), np.ones((3, 3, 1, 2), "f4")


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: tilec.std.max_pool3d(IMAGE[None], kernel_size=[1, 2]), "give a number or 3 of them$"),
        (lambda: tilec.std.interpolate2d(IMAGE, size=(1, 2, 3)), "size of interpolate2d is .*or 2 of them$"),
        (lambda: tilec.std.interpolate1d(IMAGE[0], size=None), "size is None, not a number"),
        (lambda: tilec.std.layer_norm(IMAGE, dim=1), "did you mean axis"),
        (lambda: tilec.std.standardise(IMAGE, axis=(0, 2)), "side by side"),
        (lambda: tilec.std.vecdot(IMAGE, IMAGE, keepdims=True), "reshape the result"),
        (
            lambda: tilec.std.conv2d.grad()(IMAGE, KERNEL, IMAGE, stride=2),
            r'unexpected: stride; stride is a compile-time parameter, which tilec.std.load\("conv.conv2d", define={"stride": …}\) is given',
        ),
        (lambda: tilec.std.load("conv2d")(IMAGE, KERNEL, stride=2), r'load\("conv.conv2d", define={"stride": …}\)'),
        (lambda: tilec.std.conv2d.jvp()(IMAGE, KERNEL, S=2), r'S is a compile-time parameter'),
        (lambda: tilec.std.conv2d.grad()(IMAGE, KERNEL, IMAGE, strid=2), r"unexpected: strid$"),
    ],
)
def test_what_is_said_otherwise(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize(
    "name, as_pytorch, as_tile",
    [
        ("conv2d", {"padding": (1, 2), "stride": [2, 1]}, dict(padding_h=1, padding_w=2, stride_h=2, stride_w=1)),
        ("conv2d", {"stride": None, "padding": 1}, {"padding": 1}),
        ("max_pool2d", {"kernel_size": (2, 3), "stride": None}, {"kernel_size_h": 2, "kernel_size_w": 3}),
        ("interpolate2d", {"size": 3, "mode": "linear"}, {"size_h": 3, "size_w": 3, "mode": "linear"}),
        ("interpolate2d", {"size": (3, 4)}, {"size_h": 3, "size_w": 4}),
        ("adaptive_avg_pool2d", {"output_size": 2}, {"output_h": 2}),
        ("adaptive_avg_pool2d", {"output_size": (2, 3)}, {"output_h": 2, "output_w": 3}),
    ],
)
def test_an_option_of_each_direction_as_pytorch_has_it(name, as_pytorch, as_tile):
    arguments = (IMAGE, KERNEL) if name == "conv2d" else (IMAGE,)
    function = getattr(tilec.std, name)
    np.testing.assert_array_equal(function(*arguments, **as_pytorch), function(*arguments, **as_tile))
    sequence = tilec.std.max_pool1d
    np.testing.assert_array_equal(sequence(IMAGE[0], kernel_size=(2,)), sequence(IMAGE[0], kernel_size=2))


def test_options_of_a_pullback():
    value, backward = tilec.std.conv2d.vjp(IMAGE, KERNEL, stride=2, wrt="K")
    expected = tilec.std.load("conv2d", define={"stride": 2})
    np.testing.assert_array_equal(value, expected(IMAGE, KERNEL))
    np.testing.assert_array_equal(backward(value), expected.grad(wrt="K")(IMAGE, KERNEL, value))
    with pytest.raises(TypeError, match="no input and no compile-time parameter strid; did you mean stride"):
        tilec.std.conv2d.vjp(IMAGE, KERNEL, strid=2)


def test_torch_functions_say_where_options_stand():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r'load\("conv.conv2d", define={"stride": …}\)'):
        tilec.torch.function(tilec.std.load("conv2d"))(torch.tensor(IMAGE), torch.tensor(KERNEL), stride=2)


@pytest.mark.parametrize("order", ["-inf", -np.inf, float("-inf")])
def test_infinite_parameters(order):
    assert tilec.std.vector_norm(np.array([3, -2, 5.0]), ord=order) == 2
    assert tilec.std.vector_norm(np.array([3, -2, 5.0]), ord="inf") == 5


def test_help_says_what_a_function_is():
    assert str(inspect.signature(tilec.std.conv2d)).startswith(
        "(I, K, Bias=0, *, stride=1, dilation=1, padding=0, groups=1, auto_pad={explicit, valid, same_upper, same_lower}, stride_h=stride, "
    )
    assert str(inspect.signature(tilec.std.pad)).startswith("(X, *, before, after=before, value=0, ")
    for function in (tilec.std.conv2d, tilec.std.load("conv2d", define={"stride": 2})):
        shown = pydoc.plain(pydoc.render_doc(function))
        assert (
            "conv2d<stride=1, dilation=1, padding=0, groups=1, auto_pad=" in shown
            and "(I[N, H, W, groups*CI], K[KH, KW, CI, CO], Bias[CO]=0) -> (O)" in shown
            and "torch.nn.functional.conv2d" in shown
            and "==" not in shown
        )


def test_options():
    double = tilec.std.load("conv2d", define={"stride": 2}, target="reference")
    image, filter_ = np.ones((1, 5, 5, 1), "f4"), np.ones((1, 1, 1, 1), "f4")
    assert double(image, filter_).shape == (1, 3, 3, 1) and tilec.std.conv2d(image, filter_).shape == (1, 5, 5, 1)
    assert tilec.std.load("statistics.mean")(np.arange(4.0)) == 1.5
    with pytest.raises(TypeError, match="no option colour="):
        tilec.std.load("silu", colour=1)
    with pytest.raises(TypeError, match="function= and name="):
        tilec.std.load("silu", function="gelu")
    with pytest.raises(TypeError, match="is a str, not a int"):
        tilec.std.load(3)


@pytest.mark.parametrize(
    "name, words",
    [
        ("layernorm", "did you mean `layer_norm`"),
        ("softmx", "`softmax`"),
        ("conv", "`conv1d_groups`"),
        ("zzzz", r"function `zzzz`; dir\(tilec.std\)"),
        ("pool.mean", r'has no `mean`: write tilec.std.load\("loss.mean"\) or tilec.std.load\("statistics.mean"\)'),
    ],
)
def test_names_that_are_not_there(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(tilec.std, name)


def test_files_of_the_working_folder_are_not_taken(tmp_path, monkeypatch):
    (tmp_path / "std").mkdir()
    for place in (tmp_path, tmp_path / "std"):
        (place / "safe.tile").write_text("nonsense")
    monkeypatch.chdir(tmp_path)
    assert tilec.std.load("layer_norm").name == "layer_norm"


def test_names_of_the_package():
    assert (
        tilec.__version__
        == tilec.version()
        == re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
        == "%d.%d.%d" % _library.VERSION
    )
    assert (pathlib.Path(tilec.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError, match="'tilec' has no attribute 'spd'"):
        tilec.spd


@pytest.mark.parametrize(
    "wanted, fits", [((1, 0, 7), True), ((1, 99, 0), False), ((2, 0, 0), False), ((0, 1, 0), False)]
)
def test_a_library_of_another_version_is_refused(monkeypatch, wanted, fits):
    monkeypatch.setattr(_library, "VERSION", wanted)
    if fits:
        assert _library._load().tilec_version() == _library.lib.tilec_version()
        return
    with pytest.raises(
        ImportError,
        match=r"libtilec.so is version %s; this package takes version %d.%d and"
        % (re.escape(tilec.version()), *wanted[:2]),
    ):
        _library._load()


def has_case(word):
    """Whether a case in the comments calls it: parts of other functions have none."""
    family, name = word.removeprefix("std:").split(".")
    text = (ROOT / f"std/{family}.tile").read_text()
    before = re.search(rf"((?://[^\n]*\n|\[\[[^\n]*\n)*)function {name}\b", text)[1]
    return "// ==" in before or f"// function: {name}\n" in text


def test_explain_proposes_shapes_that_fit():
    """All of them by TILEC_CASES=10000."""
    words = [
        "std:%s.%s" % (path.stem, name)
        for path in sorted((ROOT / "std").glob("*.tile"))
        for name in re.findall(r"^function (\w+)", path.read_text(), re.M)
    ]
    seed, count = int(os.environ.get("TILEC_SEED", "1")), int(os.environ.get("TILEC_CASES", "20"))
    explain = lambda *given: subprocess.run(
        [os.environ.get("TILEC", ROOT / "build/cli/tilec"), "explain", *given],
        capture_output=True,
        text=True,
        timeout=120,
    )
    silent = []
    for word in random.Random(seed).sample(words, min(count, len(words))):
        proposed = re.search(r"^`tilec explain (.*)`\.$", explain(word).stdout, re.M)
        if proposed is None:
            silent.append(word)
            continue
        done = explain(*shlex.split(proposed[1]))
        assert done.returncode == 0, (proposed[1], done.stderr)
    # numbers of sizes: nothing is computed
    assert {word for word in silent if has_case(word)} <= {"std:conv.sliding", "std:conv.growing", "std:pool.pooled"}


def test_of_a_name_in_two_files_the_plain_one_is_numpys():
    clashes = {name for name, families in tilec.std._headings().items() if len(families) > 1}
    assert clashes <= set(dir(tilec.std))                      # each has a plain name
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(tilec.std.mean(x), x.mean())
    np.testing.assert_allclose(tilec.std.mean(x, start_dim=1), x.mean(1))
    np.testing.assert_allclose(tilec.std.load("mean")(x), x.mean())
    other = tilec.std.load("loss.mean")
    np.testing.assert_allclose(other(x, x + 2), 4)
    assert 'tilec.std.load("loss.mean")' in tilec.std.mean.__doc__
    assert 'tilec.std.load("statistics.mean")' in other.__doc__
