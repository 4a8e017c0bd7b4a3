"""Writes docs/std/coverage.md, what std/ covers of ONNX's operators and PyTorch's functions: operators_page.py [--update]

The counts are of the node tests and samples as the tests find them; what is counted as compared is compared, by a few of each operator in `./dev test`
and by all of them with TILEC_OPERATOR_SAMPLES=all. test_operators_onnx.py and test_operators_torch.py look whether the page says so, with the versions
that it names.
"""

import collections
import pathlib
import re
import sys

import tilec

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/std/coverage.md"
HEAD = """# What is covered of ONNX and PyTorch

Written by `tests/python/operators_page.py`. The tests say an operator with the functions named here and compare it: with the outputs of ONNX's node tests, and with PyTorch on the
samples of its database of operators, values and gradients. Left out is what std/ has no option for. Reshaping, exchanging dimensions, broadcasting, a bias that is added, are done
around the call. Samples are those in f32, or i64 where there are none; of f64, f16 and bf16 there are as many or fewer.
"""


class Counted:
    def __init__(self):
        self.functions: set = set()
        self.compared = 0
        self.left_out: "collections.Counter[str]" = collections.Counter()

    def __iadd__(self, found):
        """`found`: the function that is reached, or why none is."""
        function, reason = found
        if reason is None:
            self.functions.add(function)
            self.compared += 1
        else:
            self.left_out[reason] += 1
        return self


def family_of(function: str) -> str:
    return tilec.std._heading(function).family


def section(title: str, version: str, what: str, counted: "dict[str, Counted]", others: str) -> str:
    families: dict = {}
    for name, each in counted.items():
        families.setdefault(min(map(family_of, each.functions), default="none"), {})[name] = each
    compared, left = sum(each.compared for each in counted.values()), sum(
        sum(each.left_out.values()) for each in counted.values()
    )
    lines = [
        "## %s %s" % (title, version),
        "",
        "%d %s, %d %s compared, %d left out."
        % (
            sum(bool(each.compared) for each in counted.values()),
            "operators" if title == "ONNX" else "functions",
            compared,
            what,
            left,
        ),
        "",
        "| file | covered | functions of std/ | %s | left out |" % what,
        "|---|---|---|---|---|",
    ]
    for family in sorted(families):
        for name, each in sorted(families[family].items()):
            functions = ", ".join(
                "[`%s`](%s.md#%s)" % (f.rpartition(".")[2], family_of(f), f.rpartition(".")[2].lower())
                for f in sorted(each.functions)
            )
            reasons = ", ".join("%s: %d" % item for item in sorted(each.left_out.items()))
            lines.append("| %s | `%s` | %s | %d | %s |" % (family, name, functions, each.compared, reasons))
    return "\n".join([*lines, "", others, ""])


def in_page(title: str) -> "tuple[str, str]":
    """The version that the page names, and its section."""
    found = re.search(r"^## %s (\S+)\n.*?(?=^## |\Z)" % title, PAGE.read_text(), re.M | re.S)
    return (found[1], found[0]) if found else ("", "")


if __name__ == "__main__":
    import test_operators_onnx
    import test_operators_torch
    text = "\n".join([HEAD, test_operators_onnx.page_section(), test_operators_torch.page_section()]).rstrip() + "\n"
    if "--update" in sys.argv:
        PAGE.write_text(text)
    sys.exit(PAGE.read_text() != text and "docs/std/coverage.md is not what `%s --update` writes" % sys.argv[0])
