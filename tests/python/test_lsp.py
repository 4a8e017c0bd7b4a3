"""`tilec lsp` as an editor speaks to it: every feature on real files, unsaved edits, UTF-16, broken messages, texts cut
and mixed at random."""
import json
import os
import pathlib
import random
import re
import select
import subprocess
import time

import pytest

from test_cli import TILEC

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 60


class Client:
    """One server, and what it said."""

    def __init__(self, folder=ROOT, start=True, arguments=(), env=None):
        self.process = subprocess.Popen(
            [TILEC, "lsp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, **(env or {})},
        )
        self.buffer, self.next_id, self.diagnostics, self.published = b"", 0, {}, 0
        if start:
            self.capabilities = self.ask("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
            self.tell("initialized")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            errors = self.process.stderr.read().decode()
            self.process.stdout.close(), self.process.stderr.close()
        if kind is None:
            assert self.process.returncode in (0, 1) and not errors, (self.process.returncode, errors)

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def tell(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def message(self, patience=PATIENCE):
        """The next message; None when nothing came for so long."""
        end = time.time() + patience
        while True:
            head = re.match(rb"Content-Length: (\d+)\r\n\r\n", self.buffer)
            if head and len(self.buffer) >= head.end() + int(head[1]):
                body, self.buffer = (
                    self.buffer[head.end() : head.end() + int(head[1])],
                    self.buffer[head.end() + int(head[1]) :],
                )
                said = json.loads(body)
                if said.get("method") == "textDocument/publishDiagnostics":
                    self.diagnostics[said["params"]["uri"]] = said["params"]
                    self.published += 1
                return said
            if not select.select([self.process.stdout], [], [], max(0, end - time.time()))[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            assert data, "the server ended: %s" % self.process.stderr.read().decode()
            self.buffer += data

    def answer(self, number):
        while True:
            said = self.message()
            assert said is not None, "no answer"
            if said.get("id") == number and "method" not in said:
                return said

    def ask_raw(self, method, params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        return self.answer(self.next_id)

    def ask(self, method, **params):
        said = self.ask_raw(method, params)
        assert "error" not in said, said
        return said["result"]

    def open(self, path, text=None):
        uri = pathlib.Path(path).resolve().as_uri() if not str(path).startswith("untitled:") else str(path)
        self.tell(
            "textDocument/didOpen",
            textDocument={
                "uri": uri,
                "languageId": "tile",
                "version": 1,
                "text": pathlib.Path(path).read_text() if text is None else text,
            },
        )
        return uri

    def change(self, uri, text, version=2):
        self.tell(
            "textDocument/didChange", textDocument={"uri": uri, "version": version}, contentChanges=[{"text": text}]
        )

    def said_of(self, uri, version=None):
        """The diagnostics of a text, once they are of that version."""
        end = time.time() + PATIENCE
        while uri not in self.diagnostics or (version is not None and self.diagnostics[uri].get("version") != version):
            assert self.message(max(0.1, end - time.time())) is not None, "nothing is said of %s" % uri
        return self.diagnostics[uri]["diagnostics"]

    def at(self, method, uri, text, mark, behind=0, **more):
        """A question about the place where `mark` stands, `behind` characters further on."""
        return self.ask(
            "textDocument/" + method, textDocument={"uri": uri}, position=spot(text, text.index(mark) + behind), **more
        )

    def hover(self, uri, text, mark, behind=0):
        found = self.at("hover", uri, text, mark, behind)
        return found and found["contents"]["value"]

    def names(self, uri, text, mark, behind):
        return [item["label"] for item in self.at("completion", uri, text, mark, behind)["items"]]


def spot(text, offset):
    line = text[:offset].split("\n")
    return {"line": len(line) - 1, "character": len(line[-1].encode("utf-16-le")) // 2}


def piece(text, span):
    """What a range of UTF-16 columns covers."""
    def place(at):
        lines = text.split("\n")
        units = lines[at["line"]].encode("utf-16-le")[: 2 * at["character"]]
        return sum(len(line) + 1 for line in lines[: at["line"]]) + len(units.decode("utf-16-le"))
    return text[place(span["start"]):place(span["end"])]


def edited(text, edits):
    def place(at):
        lines = text.split("\n")
        return sum(len(line) + 1 for line in lines[: at["line"]]) + len(
            lines[at["line"]].encode("utf-16-le")[: 2 * at["character"]].decode("utf-16-le")
        )
    for edit in sorted(edits, key=lambda e: place(e["range"]["start"]), reverse=True):
        text = text[:place(edit["range"]["start"])] + edit["newText"] + text[place(edit["range"]["end"]):]
    return text


PROGRAM = """import "std/softmax.tile";
// Scores, then their softmax.
function scores(Q[L, D], f16 K[M, D]) -> (P) {
  S[i, j: L, M] = +(Q[i, d] * K[j, d]);
  P = softmax(S);
}

function twice<F=relu>(X[N]) -> (Y) {
  Y = 2.0 * F(exp(X));
}
"""


def test_what_it_can_and_how_it_ends(tmp_path):
    with Client() as client:
        for name in ("hover", "definition", "documentSymbol", "documentFormatting"):
            assert client.capabilities[name + "Provider"] is True
        assert (
            client.capabilities["textDocumentSync"]["change"] == 1
            and client.capabilities["positionEncoding"] == "utf-16"
        )
        assert client.ask("shutdown") is None
        assert client.ask_raw("textDocument/hover", {})["error"]["code"] == -32600
        client.tell("exit")
        assert client.process.wait(PATIENCE) == 0
    with Client() as client:                              # an editor that dies
        pass
    assert client.process.returncode == 1
    with Client(start=False) as client:
        assert client.ask_raw("textDocument/hover", {})["error"]["code"] == -32002
        client.tell("textDocument/didOpen")               # not answered, and nothing happens
        client.tell("exit")
        assert client.process.wait(PATIENCE) == 1
    with Client(arguments=["--stdio", "--include", "std,samples"]) as client:
        uri = client.open("untitled:1", 'import "matmul.tile";')
        assert client.said_of(uri, 1) == []
    assert subprocess.run([TILEC, "lsp", "x.tile"], capture_output=True).returncode == 2


def test_real_files_have_the_diagnostics_of_check():
    files = sorted(ROOT.glob("samples/*.tile")) + sorted(ROOT.glob("std/*.tile"))
    with Client() as client:
        for path in files:
            uri = client.open(path)
            said = subprocess.run(
                [TILEC, "check", path, "--diagnostics=json"], capture_output=True, text=True, cwd=ROOT
            ).stderr
            assert [d["code"] for d in client.said_of(uri, 1)] == [
                json.loads(line)["code"] for line in said.splitlines()
            ], path
            client.tell("textDocument/didClose", textDocument={"uri": uri})


GOLDEN = [path for room in ("lang", "poly", "calls") for path in sorted((ROOT / "tests/golden" / room).glob("*.tile"))]


def test_goldens_have_the_diagnostics_of_check(tmp_path):
    """Of every message of the compiler: code, severity, place and hints."""
    severity = {"error": 1, "warning": 2, "remark": 3}
    with Client(tmp_path) as client:
        for path in GOLDEN:
            text = "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("//|"))
            here = tmp_path / path.name
            here.write_text(text)
            uri = client.open(here)
            found = client.said_of(uri, 1)
            said = subprocess.run(
                [TILEC, "check", path.name, "--diagnostics=json"], capture_output=True, text=True, cwd=tmp_path
            ).stderr
            wanted = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
            if any(d["code"] == "E0132" for d in found):  # a limit, which editors reach earlier
                continue
            wanted = [d for d in wanted if d.get("file") in (None, path.name)]
            assert sorted(d["code"] for d in found) == sorted(d["code"] for d in wanted), path
            lines = text.encode().split(b"\n")
            for one in wanted:
                def place(line, column):
                    return {
                        "line": one[line] - 1,
                        "character": len(
                            lines[one[line] - 1][: one[column] - 1].decode(errors="replace").encode("utf-16-le")
                        )
                        // 2,
                    }
                match = [
                    d
                    for d in found
                    if d["code"] == one["code"]
                    and d["severity"] == severity[one["severity"]]
                    and d["message"].startswith(one["message"])
                    and (
                        one["file"] is None
                        or d["range"] == {"start": place("line", "column"), "end": place("end_line", "end_column")}
                    )
                ]
                assert match, (path, one, found)
                assert any(all("\nhint: " + hint in d["message"] for hint in one["hints"]) for d in match), (
                    path,
                    one,
                    match,
                )
            client.tell("textDocument/didClose", textDocument={"uri": uri})


def test_diagnostics_follow_the_text():
    with Client() as client:
        uri = client.open("untitled:Untitled-1", "function f(A[N]) -> (B) { B[i: N] = +(A[i, j]); }")
        (said,) = client.said_of(uri, 1)
        assert said["code"] == "E0201" and said["severity"] == 1 and said["source"] == "tilec"
        assert [r["message"] for r in said["relatedInformation"]] and said["relatedInformation"][0]["location"][
            "uri"
        ] == uri
        client.change(uri, "function f(A[N]) -> (B) { B[i: N] = +(A[i]); }", 2)
        assert client.said_of(uri, 2) == []
        client.tell(
            "textDocument/didChange",
            textDocument={"uri": uri, "version": 3},
            contentChanges=[
                {"range": {"start": {"line": 0, "character": 40}, "end": {"line": 0, "character": 41}}, "text": "i, j"}
            ],
        )
        assert client.said_of(uri, 3) != []               # a client that sends parts
        client.tell("textDocument/didClose", textDocument={"uri": uri})
        while client.diagnostics[uri]["diagnostics"]:
            assert client.message() is not None


def test_shutdown_in_the_same_burst_loses_no_diagnostics():
    with Client() as client:
        uri = "file:///burst.tile"
        messages = [
            {
                "jsonrpc": "2.0",
                "method": "textDocument/didOpen",
                "params": {
                    "textDocument": {
                        "uri": uri,
                        "languageId": "tile",
                        "version": 1,
                        "text": "function f(A) -> (B) { B = C; }",
                    }
                },
            },
            {"jsonrpc": "2.0", "id": 77, "method": "shutdown"},
            {"jsonrpc": "2.0", "method": "exit"},
        ]
        client.send_bytes(
            b"".join(
                b"Content-Length: %d\r\n\r\n" % len(body) + body
                for body in (json.dumps(one).encode() for one in messages)
            )
        )
        assert client.said_of(uri)[0]["code"].startswith("E")
        assert client.answer(77)["result"] is None


def test_columns_are_those_of_utf_16():
    text = "/* 😀😀 ñ */ function f(A[N]) -> (B) { /* 𝄞 */ B[i: N] = +(C[i]); }"
    with Client() as client:
        uri = client.open("untitled:1", text)
        (said,) = client.said_of(uri, 1)
        assert piece(text, said["range"]) in ("C", "C[i]")
        assert "f32 A[N]" in client.hover(uri, text.replace("C", "A"), "A[N]") or "A[N]" in client.hover(
            uri, text, "A[N]"
        )
        assert client.at("definition", uri, text, "f(A")[0]["range"]["start"] == spot(text, text.index("f(A"))


def test_hover():
    with Client() as client:
        uri = client.open("untitled:1", PROGRAM)
        assert "f16 K[M, D]" in client.hover(uri, PROGRAM, "K[j, d]")
        about = client.hover(uri, PROGRAM, "S[i, j: L, M]")
        assert "f32 S[L, M]" in about and "S[i, j: L, M] = +(Q[i, d] * K[j, d]);" in about and "0 <= d < D" in about
        assert "0 <= i < L" in client.hover(uri, PROGRAM, "i, j: L")
        about = client.hover(uri, PROGRAM, "d]);")
        assert "index `d`" in about and "0 <= d < D" in about
        assert "dimension 1 of `Q[L, D]`" in client.hover(uri, PROGRAM, "D], f16")
        assert "dimension 0 of `f16 K[M, D]`" in client.hover(uri, PROGRAM, "M] = +")
        about = client.hover(uri, PROGRAM, "softmax(S)")
        assert (
            "function softmax<dim=-1>(X[B..., N, C...]) -> (Y)" in about
            and "torch.softmax(X, dim=dim)" in about
            and "std/softmax.tile" in about
            and "gradcheck" not in about
        )
        assert "Scores, then their softmax." in client.hover(uri, PROGRAM, "scores")
        assert "e to the power" in client.hover(uri, PROGRAM, "exp(X)")
        assert "max(x, 0)" in client.hover(uri, PROGRAM, "relu")
        assert "`relu` where nothing is given" in client.hover(uri, PROGRAM, "F(exp")
        assert "16 bits" in client.hover(uri, PROGRAM, "f16")
        assert "softmax_columns" in client.hover(uri, PROGRAM, '"std/')
        assert "inputs, results, statements" in client.hover(uri, PROGRAM, "function scores")
        assert client.hover(uri, PROGRAM, "// Scores", 4) is None and client.hover(uri, PROGRAM, "\n}\n", 3) is None
        assert "Y[N]" in client.hover(uri, PROGRAM, "Y = 2.0")


def test_hover_on_packs():
    text = "function f(X[B..., N]) -> (S) {\n  S[b...: B...] = +(X[b..., n]);\n}\n"
    with Client() as client:
        uri = client.open("/tmp/packs.tile", text)
        assert "dimensions `B...`, any number of them\n- of `X[B..., N]`" in client.hover(uri, text, "B..., N")
        assert "indices `b...`, any number of them" in client.hover(
            uri, text, "b..., n"
        ) and "index `n`" in client.hover(uri, text, "n])")
        assert "X[B..., N]" in client.hover(uri, text, "X[B") and "B0" not in client.hover(uri, text, "S[b")
        assert client.at("definition", uri, text, "B...]")[0]["range"]["start"] == {
            "line": 0,
            "character": text.index("B"),
        }


def test_hover_on_a_fault_explains_it():
    text = "function f(A[M, N]) -> (B) { B[i: M] = +(A[i, j, k]); }"
    with Client() as client:
        uri = client.open("untitled:1", text)
        assert "# E0201" in client.hover(uri, text, "[i, j, k]")


def test_definitions(tmp_path):
    with Client() as client:
        uri = client.open(tmp_path / "scores.tile", PROGRAM)
        def goes(mark, behind=0):
            found = client.at("definition", uri, PROGRAM, mark, behind)
            return found and [(one["uri"], one["range"]["start"]) for one in found]
        assert goes("S);") == [(uri, spot(PROGRAM, PROGRAM.index("S[i, j")))]
        assert goes("K[j, d]") == [(uri, spot(PROGRAM, PROGRAM.index("K[M, D]")))]
        assert goes("P) {") == [(uri, spot(PROGRAM, PROGRAM.index("P = softmax")))]
        assert goes("D], f16") == [(uri, spot(PROGRAM, PROGRAM.index("D], f16")))]
        assert goes("M] = +") == [(uri, spot(PROGRAM, PROGRAM.index("M, D]")))]
        assert goes("d]);") == [(uri, spot(PROGRAM, PROGRAM.index("d] *")))]
        assert goes("F(exp") == [(uri, spot(PROGRAM, PROGRAM.index("F=relu")))]
        assert goes("exp(X)") is None and goes("// Scores", 5) is None
        standard = (ROOT / "std/softmax.tile").read_text()
        assert goes("softmax(S)") == [
            (
                (ROOT / "std/softmax.tile").as_uri(),
                spot(standard, standard.index("function softmax<") + len("function ")),
            )
        ]
        assert goes('"std/', 3) == [((ROOT / "std/softmax.tile").as_uri(), {"line": 0, "character": 0})]
    with Client(tmp_path) as client:                      # no checkout around: std/ is in the binary alone
        uri = client.open(tmp_path / "scores.tile", PROGRAM)
        assert client.at("definition", uri, PROGRAM, "softmax(S)") is None


def test_prefixes(tmp_path):
    """What an import calls `loss.`: shown, found, completed."""
    text = 'import "std/loss.tile" as loss;\nimport "part.tile" as part;\nfunction f(P[N], T[N]) -> (E) {\n  E = part.half(loss.huber<delta=2>(P, T), Shift=P);\n}\n'
    (tmp_path / "part.tile").write_text(
        "// Half of it.\nfunction half(X[N], Shift[N]=0) -> (Y) { Y = 0.5 * X + Shift; }\n"
    )
    with Client() as client:
        uri = client.open(tmp_path / "main.tile", text)
        assert not client.said_of(uri, 1)
        part = (tmp_path / "part.tile").as_uri()
        def goes(mark, behind=0):
            return [(one["uri"], one["range"]["start"]) for one in client.at("definition", uri, text, mark, behind)]
        assert goes("part.half") == [(uri, spot(text, text.index("part;")))]
        assert goes("half(loss") == [(part, {"line": 1, "character": 9})]
        assert goes("Shift=P") == [(part, {"line": 1, "character": 20})]
        assert "Half of it." in client.hover(uri, text, "half(loss")
        assert "Shift[N]=0" in client.hover(uri, text, "Shift=P") and "`1` where nothing is given" in client.hover(
            uri, text, "delta=2"
        )
        assert "huber" in client.hover(uri, text, "loss.huber") and "torch.nn.functional.huber_loss" in client.hover(
            uri, text, "huber<"
        )
        names = client.names(uri, text, "E = ", 4)
        # the bare one brings an import of its own
        assert "loss.huber" in names and "part.half" in names and "huber" in names
        typed = text.replace("part.half(loss.huber<delta=2>(P, T), Shift=P);", "part.")
        client.change(uri, typed)
        assert client.names(uri, typed, "part.\n", 5) == ["half"]
        typed = text.replace("part.half(", "parts.half(")
        client.change(uri, typed, 3)
        assert [d["code"] for d in client.said_of(uri, 3)] == ["E0152"]
        action = next(a for a in actions(client, uri, typed) if "part" in a["title"])
        assert edited(typed, action["edit"]["changes"][uri]) == text
        typed = text.replace('import "std/loss.tile" as loss;\n', "")
        client.change(uri, typed, 4)
        action = next(a for a in actions(client, uri, typed) if "as loss" in a["title"])
        assert 'import "std/loss.tile" as loss;\n' in edited(typed, action["edit"]["changes"][uri])


def test_rename(tmp_path):
    """A name is another wherever it means the same: labels of calls, other texts that are open, files that are
    imported."""
    part = "function half<k=2>(X[N], Shift[N]=0) -> (Y) {\n  C[] = +(X[i] / N);\n  Y[i: N] = =(X[i] / k - C[] + Shift[i]);\n}\nfunction both(X[N]) -> (Y) { Y = half<k=3>(X, Shift=half(X)); }\n"
    main = 'import "part.tile" as part;\nfunction f(X[N], Shift[N]) -> (Y) { Y = part.half<k=4>(X, Shift=Shift) + part.half(X); }\n'
    (tmp_path / "part.tile").write_text(part)
    with Client() as client:
        uri, part_uri = client.open(tmp_path / "main.tile", main), (tmp_path / "part.tile").as_uri()
        def renamed(where, text, mark, name, behind=0):
            changes = client.at("rename", where, text, mark, behind, newName=name)["changes"]
            return edited(main, changes.get(uri, [])), edited(part, changes.get(part_uri, []))
        assert renamed(uri, main, "part.half", "p") == (
            main.replace("part;", "p;").replace("part.half", "p.half"),
            part,
        )
        assert renamed(uri, main, "half<k=4>", "middle") == (
            main.replace("half", "middle"),
            part.replace("half", "middle"),
        )
        assert renamed(uri, main, "k=4", "n") == (
            main.replace("<k=4", "<n=4"),
            part.replace("<k=", "<n=").replace("/ k", "/ n"),
        )
        shifted = part.replace("Shift", "Offset")
        assert renamed(uri, main, "Shift=Shift", "Offset") == (main.replace("Shift=Shift", "Offset=Shift"), shifted)
        assert renamed(uri, main, "Shift) +", "Given")[0] == main.replace("Shift[N]", "Given[N]").replace(
            "=Shift", "=Given"
        )
        client.open(tmp_path / "part.tile", part)
        assert renamed(part_uri, part, "Shift[N]", "Offset") == (main.replace("Shift=Shift", "Offset=Shift"), shifted)
        assert renamed(part_uri, part, "i: N", "j") == (
            main,
            part.replace("Y[i: N] = =(X[i] / k - C[] + Shift[i])", "Y[j: N] = =(X[j] / k - C[] + Shift[j])"),
        )
        assert renamed(part_uri, part, "N], Shift", "M") == (
            main,
            part.replace("N]", "M]", 2).replace("/ N", "/ M").replace("i: N", "i: M"),
        )
        assert client.at("prepareRename", part_uri, part, "Shift[N]")["placeholder"] == "Shift"
        assert client.at("prepareRename", part_uri, part, "function") is None
        for mark, name, why in [
            ("i: N", "X", "lower-case"),
            ("i: N", "k", "taken"),
            ("Shift[N]", "C", "taken"),
            ("half<k=2", "both", "there is a function"),
            ("half<k=2", "exp", "there is a function"),
            ("Y) {", "1Y", "not a name"),
            ("function", "g", "no name"),
        ]:
            said = client.ask_raw(
                "textDocument/rename",
                {"textDocument": {"uri": part_uri}, "position": spot(part, part.index(mark)), "newName": name},
            )
            assert why in said["error"]["message"], (mark, name)


def test_unsaved_texts_are_what_imports_see(tmp_path):
    (tmp_path / "part.tile").write_text("function half(X[N]) -> (Y) { Y = 0.5 * X; }")
    main = 'import "part.tile";\nfunction f(A[N]) -> (B) { B = third(A); }'
    with Client(tmp_path) as client:
        uri = client.open(tmp_path / "main.tile", main)
        assert [d["code"] for d in client.said_of(uri, 1)] != []
        part = client.open(tmp_path / "part.tile", "\n\nfunction third(X[N]) -> (Y) { Y = X / 3.0; }")
        while client.diagnostics[uri]["diagnostics"]:
            assert client.message() is not None
        found = client.at("definition", uri, main, "third(A)")
        assert found == [
            {"uri": part, "range": {"start": {"line": 2, "character": 9}, "end": {"line": 2, "character": 14}}}
        ]
        # A fault of the import is said where it is, and ends with the fault.
        client.change(part, "function third(X[N]) -> (Y) { Y = Z / 3.0; }", 2)
        assert [d["code"] for d in client.said_of(part, 2)]
        client.tell("textDocument/didClose", textDocument={"uri": part})
        while not client.diagnostics[uri]["diagnostics"]:
            assert client.message() is not None
        new = client.open(tmp_path / "new.tile", "function fourth(X[N]) -> (Y) { Y = X / 4.0; }")   # no file yet
        client.change(uri, 'import "new.tile";\nfunction f(A[N]) -> (B) { B = fourth(A); }', 5)
        assert client.said_of(uri, 5) == [] and client.said_of(new, 1) == []


def test_faults_of_imports_that_are_not_open(tmp_path):
    (tmp_path / "part.tile").write_text("function third(X[N]) -> (Y) { Y = Z / 3.0; }")
    with Client(tmp_path) as client:
        uri = client.open(tmp_path / "main.tile", 'import "part.tile";\nfunction f(A[N]) -> (B) { B = third(A); }')
        assert client.said_of(uri, 1) == []
        part = (tmp_path / "part.tile").as_uri()
        assert client.said_of(part)
        (tmp_path / "part.tile").write_text("function third(X[N]) -> (Y) { Y = X / 3.0; }")
        client.tell("workspace/didChangeWatchedFiles", changes=[{"uri": part, "type": 2}])
        while client.diagnostics[part]["diagnostics"]:
            assert client.message() is not None


def test_symbols():
    with Client() as client:
        uri = client.open("untitled:1", PROGRAM)
        found = client.ask("textDocument/documentSymbol", textDocument={"uri": uri})
        assert [(s["name"], s["kind"]) for s in found] == [("std/softmax.tile", 2), ("scores", 12), ("twice", 12)]
        assert [c["name"] for c in found[1]["children"]] == ["Q", "K", "S", "P"]
        for symbol in [*found, *found[1]["children"]]:
            whole, head = symbol["range"], symbol["selectionRange"]
            def key(at): return (at["line"], at["character"])
            assert key(whole["start"]) <= key(head["start"]) <= key(head["end"]) <= key(whole["end"]), symbol
        for path in sorted(ROOT.glob("std/*.tile")):
            uri = client.open(path)
            found = client.ask("textDocument/documentSymbol", textDocument={"uri": uri})
            declared = re.findall(r"^(?:\[\[.*?\]\] )?(?:function|gradient|tangent) (\w+)", path.read_text(), re.M)
            assert [s["name"] for s in found if s["kind"] == 12] == declared, path


def test_formatting():
    with Client() as client:
        uri = client.open("untitled:1", "function f(A[N])->(B){B=A*(2.0);}// 😀\n")
        (edit,) = client.ask(
            "textDocument/formatting", textDocument={"uri": uri}, options={"tabSize": 2, "insertSpaces": True}
        )
        done = subprocess.run(
            [TILEC, "fmt", "-"], input="function f(A[N])->(B){B=A*(2.0);}// 😀\n", capture_output=True, text=True
        )
        assert edit["newText"] == done.stdout and edit["range"]["start"] == {"line": 0, "character": 0}
        client.change(uri, edit["newText"])
        assert client.ask("textDocument/formatting", textDocument={"uri": uri}, options={}) == []
        client.change(uri, "function f(A[N]) -> (B) { B = ; }")
        assert client.ask("textDocument/formatting", textDocument={"uri": uri}, options={}) is None


def test_completion():
    """In texts as they are while somebody types, which are no programs."""
    with Client() as client:
        text = PROGRAM.replace("P = softmax(S);", "P = softmax(")
        uri = client.open("untitled:1", text)
        names = client.names(uri, text, "softmax(\n", 8)
        assert {
            "Q",
            "K",
            "S",
            "P",
            "L",
            "D",
            "M",
            "twice",
            "softmax",
            "softmax_columns",
            "exp",
            "cumsum",
            "f32",
            "bf16",
            "conv2d",
            "inf",
        } <= set(names)
        assert "scores" not in names and len(names) == len(set(names))
        found = {i["label"]: i for i in client.at("completion", uri, text, "softmax(\n", 8)["items"]}
        assert (
            found["exp"]["documentation"]["value"]
            and "softmax<dim=-1>(X[B..., N, C...]) -> (Y)" in found["softmax"]["detail"]
            and "torch.softmax" in found["softmax"]["documentation"]["value"]
        )
        assert found["matmul"]["additionalTextEdits"][0]["newText"] == 'import "std/linear.tile";\n'
        text = PROGRAM.replace("Q[i, d] * K[j, d]);", "Q[i, d] * K[j, ")
        client.change(uri, text)
        names = client.names(uri, text, "K[j, \n", 5)
        assert names[:3] == ["i", "j", "d"] and "Q" in names
        text = "fun"
        client.change(uri, text)
        assert client.names(uri, text, "fun", 3) == ["function", "gradient", "tangent", "import", "dim"]
        text = "function f(f16 A[N, M], B[N"
        client.change(uri, text)
        assert {"f32", "bool", "A", "M"} <= set(client.names(uri, text, "B[N", 3))
        text = 'import "std/s'
        client.change(uri, text)
        assert {"std/softmax.tile", "std/nn.tile"} <= set(client.names(uri, text, "std/s", 5))
        text = "function f(A[N]) -> (B) { [[ti\n B = A; }"
        client.change(uri, text)
        assert "ties" in client.names(uri, text, "[[ti", 4)
        text = "// fun"
        client.change(uri, text)
        assert client.names(uri, text, "fun", 3) == []
        text = "function f(Abc[N]) -> (B) {\n  Two = 2.0 * Abc;\n  B = Tw\n}\n"   # the `;` is not there yet
        client.change(uri, text)
        item = next(i for i in client.at("completion", uri, text, "Tw\n", 2)["items"] if i["label"] == "Two")
        assert edited(text, [item["textEdit"]]) == text.replace("Tw\n", "Two\n")
        assert "Abc" in client.names(uri, text, "Tw\n", 2)


def test_a_broken_statement_hides_nothing_else():
    text = PROGRAM.replace("P = softmax(S);", "P = softmax(S * ;\n  Z = ) 3;")
    with Client() as client:
        uri = client.open("untitled:1", text)
        assert "`f16 K[M, D]`" in client.hover(uri, text, "M] = +") and "torch.softmax" in str(
            client.at("completion", uri, text, "S * ", 4)
        )
        assert client.at("definition", uri, text, "K[j, d]")[0]["range"]["start"] == spot(text, text.index("K[M, D]"))
        assert [s["name"] for s in client.ask("textDocument/documentSymbol", textDocument={"uri": uri})] == [
            "std/softmax.tile",
            "scores",
            "twice",
        ]
        broken = text.replace("function twice<F=relu>(X[N])", "function twice<F=>(X[N")
        client.change(uri, broken)
        assert "scores" in [s["name"] for s in client.ask("textDocument/documentSymbol", textDocument={"uri": uri})]
        # What was known of shapes before is still told.
        client.change(uri, PROGRAM)
        client.said_of(uri)
        client.hover(uri, PROGRAM, "S[i, j: L, M]")
        client.change(uri, text)
        assert "f32 S[L, M]" in client.hover(uri, text, "S[i, j: L, M]")


def actions(client, uri, text):
    end = spot(text, len(text))
    return client.ask(
        "textDocument/codeAction",
        textDocument={"uri": uri},
        range={"start": {"line": 0, "character": 0}, "end": end},
        context={"diagnostics": []},
    )


@pytest.mark.parametrize("text", [
    "function f(X[N]) -> (O) { O = X ** 2; }",
    "function f(X[N]) -> (O) { O = np.exp(X) / np.exp(X).sum(); }",
    "function f(X[M, N]) -> (O) { O = softmax(X); }",
    "// 😀\nfunction f(X[N]) -> (O) { O = sigmod(X); }",
    "function f(X: f32[N]) -> O { O = X; }",
    "function f(Weight[N]) -> (O) { O = 2.0 * Wieght; }",
])
def test_what_a_hint_says_to_type_is_an_action(text):
    with Client() as client:
        uri = client.open("untitled:1", text)
        found = actions(client, uri, text)
        assert found and all(a["kind"] == "quickfix" and a["title"] in a["diagnostics"][0]["message"] for a in found)
        new = edited(text, found[0]["edit"]["changes"][uri])
        client.change(uri, new, 2)
        assert client.said_of(uri, 2) == [], new


def test_actions_of_goldens_mend_the_fault(tmp_path):
    """Of every hint that is offered: typed, its message is gone from there and no syntax error has come."""
    offered = 0
    with Client(tmp_path) as client:
        uri, version = client.open(tmp_path / "golden.tile", ""), 1
        for path in GOLDEN:
            text = "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("//|"))
            client.change(uri, text, version := version + 1)
            before = client.said_of(uri, version)
            for action in actions(client, uri, text):
                new, said = edited(text, action["edit"]["changes"][uri]), action["diagnostics"][0]
                client.change(uri, new, version := version + 1)
                after = client.said_of(uri, version)
                moved = 1 if new.startswith("import") and not text.startswith("import") else 0
                still = [
                    d
                    for d in after
                    if d["code"] == said["code"]
                    and d["range"]["start"]
                    == {**said["range"]["start"], "line": said["range"]["start"]["line"] + moved}
                ]
                assert not still, (path, action["title"], new)
                assert [d["code"] for d in after].count("E0101") <= [d["code"] for d in before].count("E0101"), (
                    path,
                    action["title"],
                    new,
                )
                offered += 1
            client.change(uri, text, version := version + 1)
            client.said_of(uri, version)
    assert offered > 40


def test_what_is_no_message_is_refused():
    with Client() as client:
        uri = client.open("untitled:1", PROGRAM)
        def refused(code):
            while True:
                said = client.message()
                assert said is not None
                if "error" in said:
                    assert said["error"]["code"] == code and said["error"]["message"], said
                    return said
        for body in (
            b"{",
            b"",
            b"[" * 200000,
            b'"\xff\xfe"',
            b'{"jsonrpc":"2.0","id":7,"method":"\xed\xa0\x80"}',
            b"\x00" * 10,
        ):
            client.send(body)
            assert refused(-32700)["id"] is None
        for body in (
            [],
            [{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}],
            3,
            None,
            {"jsonrpc": "2.0", "id": 4},
            {"id": 5, "method": 6},
        ):
            client.send(body)
            refused(-32600)
        client.send({"jsonrpc": "2.0", "id": 9, "result": None})            # an answer to nothing that was asked
        client.tell("$/cancelRequest", id=3)
        client.tell("no/such/thing")
        assert client.ask_raw("no/such/thing", {})["error"]["code"] == -32601
        assert client.ask_raw("initialize", {})["error"]["code"] == -32600
        for method in ("hover", "definition", "completion", "documentSymbol", "formatting", "codeAction"):
            for params in (
                None,
                [],
                {},
                {"textDocument": 3},
                {"textDocument": {"uri": "file:///no/such"}, "position": {"line": 0, "character": 0}},
                {"textDocument": {"uri": 1}},
            ):
                assert client.ask_raw("textDocument/" + method, params)["error"]["code"] == -32602
        for position in (
            None,
            {},
            {"line": -1, "character": 0},
            {"line": 0.5, "character": 0},
            {"line": "0", "character": 0},
        ):
            assert (
                client.ask_raw("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})["error"][
                    "code"
                ]
                == -32602
            )
        for position in (
            {"line": 2**31 - 1, "character": 0},
            {"line": 0, "character": 2**63},
            {"line": 2**64 - 1, "character": 2**64 - 1},
        ):
            assert "result" in client.ask_raw(
                "textDocument/completion", {"textDocument": {"uri": uri}, "position": position}
            )
        for params in (
            None,
            {},
            {"textDocument": {"uri": uri}},
            {"textDocument": {"uri": uri}, "contentChanges": [{}]},
            {"textDocument": {"uri": uri}, "contentChanges": [3]},
        ):
            client.send({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": params})
        client.send_bytes(b"Content-Type: x\r\n\r\n")
        refused(-32700)
        client.send_bytes(b"Content-Length: many\r\n\r\n")
        refused(-32700)
        client.send_bytes(b"Content-Length: -5\r\n\r\n")
        refused(-32700)
        client.send_bytes(b"Content-Length: 99999999999999999999999\r\n\r\n")
        refused(-32700)
        client.send_bytes(b"x" * 70000)
        refused(-32700)
        client.send_bytes(b"\n\n")
        refused(-32700)
        body = b'{"jsonrpc":"2.0","id":"text","method":"shutdown"}'
        client.send_bytes(
            b"content-length:%d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" % len(body) + body
        )
        while (said := client.message()).get("id") != "text":
            pass
        assert said["result"] is None
    with Client() as client:                              # the pipe ends within a message
        client.send_bytes(b"Content-Length: 100\r\n\r\n{")


def test_large_and_odd_texts():
    with Client() as client:
        uri = client.open("untitled:1", "x" * (5 << 20))
        (said,) = client.said_of(uri, 1)
        assert said["severity"] == 3 and "4 MiB" in said["message"]
        assert client.ask("textDocument/formatting", textDocument={"uri": uri}, options={}) is None
        assert client.ask_raw(
            "textDocument/completion", {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 5}}
        )
        client.send_bytes(b"Content-Length: %d\r\n\r\n" % (65 << 20) + b" " * (65 << 20))
        while "error" not in (said := client.message()):
            pass
        assert said["error"]["code"] == -32700
        for n, text in enumerate(
            [
                "",
                "\x00",
                "\ufeff" + PROGRAM,
                "\r\n".join(PROGRAM.split("\n")),
                PROGRAM.replace("\n", "\r"),
                "(" * 100000,
                "function f(A[N]) -> (B) { B = " + "(" * 5000 + "A",
                "{" * 3000,
                "}" * 3000,
                "import " * 5000,
                "/*",
                '"',
                "function " * 3000,
                "[[" * 3000,
                "😀" * 10000,
                "function f(A[N]) -> (B) { B = A; " + "Z = 1;\n" * 3000,
                PROGRAM + "'" * 2000,
            ]
        ):
            client.change(uri, text, n + 10)
            client.said_of(uri, n + 10)
            assert client.ask("textDocument/documentSymbol", textDocument={"uri": uri}) is not None
            client.ask("textDocument/completion", textDocument={"uri": uri}, position={"line": 0, "character": 40})


def test_a_limit_keeps_it_answering():
    """What `tilec check` refuses after seconds."""
    deep = "function g0(X[N]) -> (Y) { Y = X + 1; }\n" + "".join(
        "function g%d(X[N]) -> (Y) { A = g%d(X); Y = g%d(A); }\n" % (k, k - 1, k - 1) for k in range(1, 25)
    )
    with Client() as client:
        begin = time.time()
        uri = client.open("untitled:1", deep)
        said = client.said_of(uri, 1)
        assert [d["severity"] for d in said if d["code"] == "E0132"] == [3]
        for n in range(5):
            client.change(uri, deep + "\n" * n, n + 2)
        assert client.hover(uri, deep, "g3(X[N])")
        assert time.time() - begin < 30


def test_a_large_file_delays_no_answer():
    """Its functions are checked one after the other, and answers come in between; what is typed meanwhile costs one
    look."""
    text = "".join("function f%d(X[N, M]) -> (Y) { Y[i, j: N, N] = +(X[i, k] * X[j, k]); }\n" % k for k in range(6000))
    with Client() as client:
        uri = client.open("untitled:1", text)
        assert "f32 X[N, M]" in client.hover(uri, text, "X[i, k]")
        assert "f32 X[N, M]" in client.hover(uri, text, "f5999(X[N, M]", 6)  # long before its turn
        assert uri not in client.diagnostics
        for n in range(20):
            client.change(uri, text + "\n" * n, n + 2)
        assert client.said_of(uri, 21) == [] and client.published <= 4


def test_imports_in_circles_and_missing(tmp_path):
    (tmp_path / "a.tile").write_text('import "b.tile";\nfunction a(X) -> (Y) { Y = b(X); }')
    (tmp_path / "b.tile").write_text('import "a.tile";\nfunction b(X) -> (Y) { Y = a(X); }')
    with Client(tmp_path) as client:
        a, b = client.open(tmp_path / "a.tile"), client.open(tmp_path / "b.tile")
        assert client.said_of(a, 1) or client.said_of(b, 1)
        for text in (
            'import "none.tile";',
            'import "..";',
            'import "";',
            'import "a.tile";',
            'import "/";',
            'import "std/none.tile";',
        ):
            client.change(a, text, 2)
            client.ask("textDocument/documentSymbol", textDocument={"uri": a})
            assert client.said_of(a)


def mutated(text, choose, others):
    kind = choose.randrange(7)
    at, end = sorted((choose.randrange(len(text) + 1), choose.randrange(len(text) + 1)))
    if kind == 0:
        return text[:at] + text[min(end, at + choose.randrange(40)):]
    if kind == 1:
        return (
            text[:at]
            + choose.choice(
                [
                    "(",
                    ")",
                    "[",
                    "]",
                    "{",
                    "}",
                    ";",
                    ",",
                    '"',
                    "//",
                    "/*",
                    "*/",
                    "<",
                    ">",
                    "=",
                    "😀",
                    "\u0000",
                    "'",
                    "[[",
                    "function ",
                    "import \"",
                    " iterate<",
                    "#",
                    "$",
                    "9" * 30,
                    "\r",
                    "é",
                ]
            )
            + text[at:]
        )
    if kind == 2:
        return text[:at] + text[at:end][:200] + text[at:]
    if kind == 3:
        return text[:at]
    if kind == 4:
        other = choose.choice(others)
        begin = choose.randrange(len(other) + 1)
        return text[:at] + other[begin:begin + choose.randrange(120)] + text[at:]
    if kind == 5:
        lines = text.split("\n")
        choose.shuffle(lines)
        return "\n".join(lines)
    return (
        text[:at] + "".join(choose.choice("ABij([{}]);:=+*<> 0.5\n") for _ in range(choose.randrange(12))) + text[at:]
    )


def test_texts_mutated_at_random_are_answered():
    choose = random.Random(7)
    texts = [path.read_text() for path in sorted(ROOT.glob("samples/*.tile")) + sorted(ROOT.glob("std/*.tile"))[:6]] + [
        PROGRAM
    ]
    texts = [text[:6000] for text in texts]
    with Client() as client:
        uri = client.open("untitled:1", PROGRAM)
        text = PROGRAM
        for n in range(400):
            if n % 8 == 0:
                text = choose.choice(texts)
            text = mutated(text, choose, texts)[:12000]
            client.change(uri, text, n + 2)
            position = spot(text, choose.randrange(len(text) + 1))
            method = choose.choice(["hover", "definition", "completion"])
            said = client.ask_raw("textDocument/" + method, {"textDocument": {"uri": uri}, "position": position})
            assert "result" in said, said
            if n % 5 == 0:
                for found in actions(client, uri, text):
                    edited(text, found["edit"]["changes"][uri])
                client.ask("textDocument/formatting", textDocument={"uri": uri}, options={})
                client.ask("textDocument/documentSymbol", textDocument={"uri": uri})
        client.said_of(uri, 401)
        client.change(uri, PROGRAM, 999)
        assert client.said_of(uri, 999) == [] and "f32 S[L, M]" in client.hover(uri, PROGRAM, "S[i, j")


def test_every_built_in_function_has_a_line():
    """Of the tables of the compiler (op.cpp, builtin.cpp)."""
    table = re.findall(
        r'^    \{(?:Op::(?!Between|Tf32)\w+, )?"(\w+)"',
        (ROOT / "lang/op.cpp").read_text() + (ROOT / "lang/builtin.cpp").read_text(),
        re.M,
    )
    assert len(table) > 70
    text = "function f(A[N]) -> (B) { B = ; }"
    with Client() as client:
        uri = client.open("untitled:1", text)
        found = {i["label"]: i for i in client.at("completion", uri, text, "= ;", 2)["items"]}
        for name in table:
            assert name in found and found[name]["documentation"]["value"] and found[name].get("detail"), name
