"""The documentation, executed: docs.py [TILEC] [--update] [FILE.md ...]

```tile      a program. It is saved as NAME.tile, NAME being its first function's, or under the name that its first line gives
             (`// layer.tile`), and must pass `tilec check`. Files persist to the page's end, so later blocks may import and use them.
```console   lines that start with `$ ` are run by bash, in a scratch folder that sees the programs above and the repository's
             folders. What they print is compared with the lines below when there are any. The exit status must be 0, unless
             those lines show an error. `./dev` is not run: its commands must be listed by the script; nor is `pip install .`: tests/wheel.py does.
```python    run with the package importable (build/runtime/libtilec.so beside the tilec that is tested). One whose first line is a
             name (`# train.py`) is saved, and a command `python train.py` of a later console block must run it. One that begins
             with `# needs NAME` is passed over where there is no module NAME.
```c, ```cpp one whose first line is a name (`/* conv.c */`, `// conv.cpp`) is saved, and a command of a later console block must compile it; `pkg-config tilec`
             finds the header and the library of the checkout. Others are fragments, and not looked at.

In expected lines `…` stands for anything, a line `…` for any lines, and what depends on the machine for its kind: 4.77e-07, 1.25 ms,
`largest error 0.0012 (allowed 0.5)`. --update writes what is printed now where it does not match.
"""

import argparse
import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(tile|console|python|c|cpp)[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)
MEASURED = re.compile(
    r"(?:(?<=error )|(?<=difference )|(?<=allowed ))[0-9.]+(?:e-\d+)?|\d+(?:\.\d+)?(?:e-\d+| ?(?:ms|us|µs|GF/s))\b"
)


def documents():
    """Every page in reading order. The pages of errors show fragments, which golden tests cover."""
    found = [
        ROOT / "README.md",
        *(p for part in ("docs", "docs/language", "docs/decisions") for p in sorted((ROOT / part).glob("*.md"))),
    ]
    folders = [
        p
        for p in sorted(ROOT.iterdir())
        if p.is_dir() and p.name[0] != "." and not p.name.startswith("build") and p.name != "docs"
    ]
    return [p for p in found if p.exists()] + [p for folder in folders for p in sorted(folder.rglob("README.md"))]


class Page:
    def __init__(self, path, tilec):
        self.path, self.tilec = path, tilec
        self.name = str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)
        self.passed, self.faults, self.scripts = 0, [], {}

    def run(self):
        """Returns the page's text with the outputs of today."""
        text = self.path.read_text()
        with tempfile.TemporaryDirectory(prefix="tilec-docs-") as scratch:
            self.scratch = pathlib.Path(scratch)
            self.prepare()
            now, at = "", 0
            for block in BLOCK.finditer(text):
                self.line = text.count("\n", 0, block.start()) + 1
                body = getattr(self, block[1])(block[2])
                now += text[at:block.start(2)] + body
                at = block.end(2)
            for name, self.line in self.scripts.items():
                self.fault("no command runs `%s`" % name)
        return now + text[at:]

    def prepare(self):
        for entry in ROOT.iterdir():
            if entry.name[0] != ".":
                (self.scratch / entry.name).symlink_to(entry)
        local = ROOT / ".venv/bin/python"
        self.interpreter = str(local if local.exists() else sys.executable)
        tools = self.scratch / ".bin"
        tools.mkdir()
        (tools / "tilec").symlink_to(self.tilec)
        (tools / "python").write_text('#!/bin/sh\nexec "%s" "$@"\n' % self.interpreter)
        (tools / "python").chmod(0o755)
        library = self.tilec.parent.parent / "runtime/libtilec.so"
        (tools / "tilec.pc").write_text(
            "Name: tilec\nDescription: of the checkout\nVersion: 0\nCflags: -I%s\nLibs: -L%s -ltilec\n"
            % (ROOT / "include", library.parent)
        )
        self.env = dict(
            os.environ,
            PATH="%s:%s" % (tools, os.environ["PATH"]),
            NO_COLOR="1",
            LC_ALL="C.UTF-8",
            TILEC_THREADS="1",
            PYTHONPATH=str(ROOT / "python"),
            TILEC_LIBRARY=str(library),
            PKG_CONFIG_PATH=str(tools),
            LD_LIBRARY_PATH=str(library.parent),
        )

    def fault(self, what):
        self.faults.append("%s:%d: %s" % (self.name, self.line, what))

    def execute(self, words, **more):
        try:
            done = subprocess.run(
                words,
                cwd=self.scratch,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120,
                **more,
            )
        except subprocess.TimeoutExpired:
            return "took more than two minutes\n", 124
        return done.stdout.decode("utf-8", "replace"), done.returncode

    def tile(self, body):
        given, name = re.match(r"// (\w+\.tile)\n", body), re.search(r"function\s+(\w+)", body)
        path = self.scratch / (given[1] if given else (name[1] if name else "unnamed") + ".tile")
        path.write_text(body)
        printed, status = self.execute(["tilec", "check", path.name])
        if status:
            self.fault("the program does not pass `tilec check`\n" + printed)
        else:
            self.passed += 1
        return body

    def python(self, body):
        name, needs = re.match(r"# (\w+\.py)\n", body), re.match(r"# needs (\w+)\n", body)
        if needs and importlib.util.find_spec(needs[1]) is None:
            return body
        if name:
            (self.scratch / name[1]).write_text(body)
            self.scripts[name[1]] = self.line
            return body
        printed, status = self.execute([self.interpreter, "-c", body])
        if status:
            self.fault("the Python fails\n" + printed)
        else:
            self.passed += 1
        return body

    def c(self, body):
        name = re.match(r"(?:/\* |// )(\w+\.(?:c|cpp))(?: \*/)?\n", body)
        if name:
            (self.scratch / name[1]).write_text(body)
            self.scripts[name[1]] = self.line
        return body

    cpp = c

    def console(self, body):
        parts = re.split(r"^(\$ .*\n)", body, flags=re.M)
        now = parts[0]
        for command, expected in zip(parts[1::2], parts[2::2]):
            now += command + self.command(command[2:].strip(), expected)
            self.line += 1 + expected.count("\n")
        return now

    def command(self, command, expected):
        if command.startswith("./dev"):
            script, word = ROOT / "dev", (command.split() + [""])[1]
            if not script.exists() or not re.search(r"\b%s\b" % re.escape(word), script.read_text()):
                self.fault("`%s`: the script `dev` has no such command" % command)
            else:
                self.passed += 1
            return expected
        if command == "pip install .":
            self.passed += 1
            return expected
        for word in command.split():
            self.scripts.pop(word, None)
        printed, status = self.execute(["bash", "-c", command])
        if bool(status) != bool(re.search(r"error\[|^tilec: ", expected, re.M)):
            self.fault("`%s` exits with %d\n%s" % (command, status, printed))
        elif expected.strip() and not matches(expected, printed):
            self.fault("`%s` prints something else:\n%s" % (command, printed))
        else:
            self.passed += 1
            return expected
        return printed if expected.strip() else expected


def matches(expected, printed):
    pattern = ""
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
            continue
        line = MEASURED.sub("\0", line.rstrip())
        pattern += re.escape(line).replace("…", ".*?").replace("\0", "(?:%s)" % MEASURED.pattern) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tilec", nargs="?", default=str(ROOT / "build/cli/tilec"))
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write what is printed now")
    options = parser.parse_args()
    found = shutil.which(options.tilec)
    if not found:
        sys.exit("docs.py: there is no `%s`" % options.tilec)
    passed = failed = 0
    pages = [Page(path, pathlib.Path(found).resolve()) for path in [f.resolve() for f in options.files] or documents()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for page, now in zip(pages, pool.map(Page.run, pages)):
            if options.update:
                page.path.write_text(now)
            for fault in page.faults:
                print("FAIL", fault.rstrip())
            passed, failed = passed + page.passed, failed + len(page.faults)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
