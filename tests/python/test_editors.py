"""The files of docs/editors: the TextMate grammar, read by a small tokeniser, tells the kinds of tokens apart; all of
it is JSON."""
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "docs/editors/vscode"
GRAMMAR = json.loads((EXTENSION / "syntaxes/tile.tmLanguage.json").read_text())


def rules(patterns):
    for pattern in patterns:
        if "include" in pattern:
            yield from rules(GRAMMAR["repository"][pattern["include"][1:]]["patterns"])
        else:
            yield pattern


def tokens(text):
    """(text, scope) of everything that has one: line by line, the first rule of those that match first, as TextMate
    does."""
    stack, found = [], []
    for line in text.split("\n"):
        at = 0
        while at <= len(line):
            top = stack[-1] if stack else None
            choices = [(m.start(), 0, m, None) for m in [re.compile(top["end"]).search(line, at)] if m] if top else []
            for number, rule in enumerate(rules(top.get("patterns", []) if top else GRAMMAR["patterns"]), 1):
                m = re.compile(rule.get("match") or rule["begin"]).search(line, at)
                if m:
                    choices.append((m.start(), number, m, rule))
            if not choices:
                if top and top.get("name", "").startswith("comment"):
                    found.append((line[at:], top["name"]))
                break
            _, _, m, rule = min(choices, key=lambda c: c[:2])
            captures = (rule or top).get(
                "captures" if rule and "match" in rule else "beginCaptures" if rule else "endCaptures", {}
            )
            for number, capture in captures.items():
                if m.group(int(number)):
                    found.append((m.group(int(number)), capture["name"]))
            if rule and "match" in rule and "name" in rule:
                found.append((m.group(), rule["name"]))
            if rule is None:
                stack.pop()
            elif "begin" in rule:
                stack.append(rule)
            at = m.end() if m.end() > at or rule is None or "begin" in rule else at + 1
    assert not stack, "left open: %s" % stack[-1]
    return found


def scopes(text):
    return {(token, scope.removesuffix(".tile")) for token, scope in tokens(text)}


def test_all_is_json():
    for path in EXTENSION.rglob("*.json"):
        json.loads(path.read_text())
    package = json.loads((EXTENSION / "package.json").read_text())
    for named in (
        package["main"],
        package["contributes"]["languages"][0]["configuration"],
        package["contributes"]["grammars"][0]["path"],
    ):
        assert (EXTENSION / named).is_file()
    assert package["contributes"]["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]


def test_every_kind_of_token():
    text = """import "std/nn.tile";  // a comment
import "std/loss.tile" as loss;
/* two
lines */
dim Batch, Channel;
[[ties(first)]] function conv<S=2, F=relu>(f16 I[N, (H + 1)/2], bf16 K[KH, C], X) -> (f32 O) {
  O[n, 2*y + 3j: N, H/3] = +(I[n, S*y + 1] * exp(K[j, c]) * 1.5e-3), j < 3 no_defract default -inf;
  Z[i: N] =
      >(f32(X[i]) + conv<3>(O, #a, A') + loss.huber<stats.mean>(A'));
  R[] = AGG(X[i] == 2 ? nan : 0);
  P[b...: B...] = +(I[b..., n]);
}
gradient conv(X, DY) -> (DX) { DX = div(DY, 2) & 3; }
"""
    found = scopes(text)
    for one in [
        ("import", "keyword.control.import"),
        ("as", "keyword.control.import"),
        ("loss", "entity.name.namespace"),
        ("huber", "entity.name.function.call"),
        ("mean", "entity.name.function.call"),
        (".", "punctuation.accessor"),
        ('"std/nn.tile"', "string.quoted.double"),
        ("// a comment", "comment.line.double-slash"),
        ("dim", "keyword.declaration"),
        ("function", "keyword.declaration"),
        ("gradient", "keyword.declaration"),
        ("conv", "entity.name.function"),
        ("conv", "entity.name.function.call"),
        ("exp", "support.function.builtin"),
        ("div", "support.function.builtin"),
        ("f16", "support.type"),
        ("bf16", "support.type"),
        ("f32", "support.type"),
        ("ties", "entity.other.attribute-name"),
        ("I", "variable.other.tensor"),
        ("X", "variable.other.tensor"),
        ("A'", "variable.other.tensor"),
        ("#a", "variable.other.tensor"),
        ("N", "variable.other.constant.size"),
        ("KH", "variable.other.constant.size"),
        ("n", "variable.parameter.index"),
        ("j", "variable.parameter.index"),
        ("+", "keyword.operator.aggregation"),
        (">", "keyword.operator.aggregation"),
        ("AGG", "keyword.operator.aggregation"),
        ("=", "keyword.operator.assignment"),
        ("1.5e-3", "constant.numeric.float"),
        ("3", "constant.numeric.integer"),
        ("default", "keyword.other.clause"),
        ("no_defract", "keyword.other.clause"),
        ("inf", "constant.language"),
        ("nan", "constant.language"),
        ("->", "keyword.operator.arrow"),
        ("*", "keyword.operator.arithmetic"),
        ("<", "keyword.operator.comparison"),
        ("==", "keyword.operator.comparison"),
        ("&", "keyword.operator.bitwise"),
        ("?", "keyword.operator.conditional"),
        ("...", "keyword.operator.pack"),
        (";", "punctuation.terminator"),
        ("[", "punctuation.section.brackets"),
        ("[[", "punctuation.definition.attribute"),
    ]:
        assert one in found, one
    assert ("lines */", "comment.block") in found or any(scope == "comment.block" for _, scope in found)
    assert ("N", "variable.other.tensor") not in found and ("I", "variable.other.constant.size") not in found


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("samples/*.tile")) + sorted(ROOT.glob("std/*.tile")), ids=lambda path: path.name
)
def test_programs_are_told_apart(path):
    """What is no blank is in some token, and names are what the text says they are."""
    text = path.read_text()
    found = tokens(text)
    plain = re.sub(r"//.*|/\*[\s\S]*?\*/", "", text)
    told = "".join(token for token, scope in found if not scope.startswith("comment"))
    assert sorted(re.sub(r"\s", "", plain)) == sorted(re.sub(r"\s", "", told)), path
    assert {name for name, scope in found if scope == "entity.name.function.tile"} == set(
        re.findall(r"^(?:\[\[.*?\]\] )?(?:function|gradient|tangent) (\w+)", text, re.M)
    )


def test_built_in_functions_are_the_compilers():
    table = re.findall(
        r'^    \{(?:Op::(?!Between|Tf32)\w+, )?"(\w+)"',
        (ROOT / "lang/op.cpp").read_text() + (ROOT / "lang/builtin.cpp").read_text(),
        re.M,
    )
    for name in table:
        assert (name, "support.function.builtin") in scopes("Y = %s(X);" % name), name
