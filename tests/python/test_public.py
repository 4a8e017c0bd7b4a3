"""What a user sees of the package: names, help, annotations."""
import dataclasses
import inspect
import pydoc

import pytest

import tilec

CLASSES = [tilec.Program, tilec.Module, tilec.Package, tilec.Backward, type(tilec.options())]
NAMED = [
    "grad",
    "vjp",
    "value_and_grad",
    "jvp",
    "vmap",
    "emit",
    "explain",
    "plan",
    "with_plan",
    "save",
    "stats",
    "profile",
]
FUNCTIONS = [
    (name, getattr(tilec, name))
    for name in tilec.__all__ + ["load_ipython_extension"]
    if inspect.isfunction(getattr(tilec, name))
]
METHODS = [("%s.%s" % (each.__name__, name), value) for each in CLASSES for name, value in vars(each).items()
           if inspect.isfunction(value) and (name[0] != "_" or name in ("__call__", "__reduce__", "_repr_html_"))]


@pytest.mark.parametrize(
    "name, function", FUNCTIONS + METHODS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_everything_public_is_annotated(name, function):
    signature = inspect.signature(inspect.unwrap(function))
    bare = [
        each.name
        for each in signature.parameters.values()
        if each.annotation is each.empty and each.name not in ("self", "memo")
    ]
    assert not bare and signature.return_annotation is not signature.empty, (name, bare)


def test_everything_public_is_explained():
    assert all(callable(getattr(tilec.Program, name)) for name in NAMED)
    shown = FUNCTIONS + [(name, method) for name, method in METHODS if name.split(".")[1] in NAMED]
    shown += [(name, getattr(tilec, name)) for name in tilec.__all__ if inspect.isclass(getattr(tilec, name))]
    missing = [
        name
        for name, thing in shown
        if len(inspect.getdoc(thing) or "") < 10 or (inspect.getdoc(thing) or "").startswith(name.split(".")[-1] + "(")
    ]
    assert not missing, missing


def test_help_reads_well():
    text = pydoc.plain(pydoc.render_doc(tilec))
    for name in tilec.__all__:
        assert hasattr(tilec, name) and name in text, name
    assert not [
        name
        for name in vars(tilec)
        if name[0] != "_"
        and name not in tilec.__all__
        and name not in ("annotations", "errors", "std", "torch", "jax", "load_ipython_extension")
    ]


def test_values_are_plain():
    for each in (tilec.Stats, tilec.Profile, tilec.Diagnostic):
        assert dataclasses.is_dataclass(each) and each.__dataclass_params__.frozen
