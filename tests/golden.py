"""Golden tests: programs that carry what the compiler says about them.

    tests/golden/poly/bad_rank.tile          the folder picks the command: lang -> check, poly -> --emit=contraction, ...

    // Reading a matrix with three indices names both ranks and points at the declaration.
    function f(A[M, N]) -> (B) {
      B[i: M] = +(A[i, j, k]);
    }
    //| bad_rank.tile:3:15: error[E0201]: `A` has 2 dimensions but is read with 3 indices

The lines behind `//|` are stripped, the command is run on the rest, and what it prints (stdout, then stderr) is put behind `//|`
again. A test passes when that changes nothing. `bad_...` if and only if the command must fail; the exit status of such a run is
its last line when it is not 1. How large a rounding error was depends on the machine's lanes and is not kept, whether it was
within bounds is. `// $ tilec ...` on a line of its own replaces the folder's command: FILE is the program, words are
split as a shell would; several such lines are run in turn, in one scratch folder that also sees tests/golden/<room>/ as DATA.

    golden.py [--tilec PATH] [--update] [-j N] [FILE | FOLDER | WORD ...]     a WORD selects paths that contain it
"""

import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE / "golden"
COMMANDS = {
    "lang": "tilec check FILE",
    "fmt": "tilec fmt FILE",
    "poly": "tilec FILE --emit=contraction",
    "autodiff": "tilec FILE --emit=gradient",
    "reduced": "tilec FILE --emit=reduced",
    "plan": "tilec FILE --emit=plan",
    "loops": "tilec FILE --emit=loops",
    "cli": "tilec check FILE",
    "calls": "tilec check FILE",
}
MARK = "//|"
ROUNDING = re.compile(r"largest (error|difference) \S+ \(allowed \S+\)")
COMMAND = re.compile(r"^// \$ (tilec .*)$", re.M)


def commands_of(path: pathlib.Path, program: str) -> list[str]:
    own = COMMAND.findall(program)
    return own or [COMMANDS[path.relative_to(ROOT).parts[0]]]


def run_one(command: str, path: pathlib.Path, program: str, scratch: str, tilec: str) -> tuple[str, int]:
    words = shlex.split(command)
    words[0] = tilec
    data = str(path.parent)
    words = [w.replace("DATA", data) if "DATA/" in w else w for w in words]
    words = [path.name if w == "FILE" else w for w in words]
    env = dict(os.environ, NO_COLOR="1", TILEC_THREADS="1", LC_ALL="C")
    done = subprocess.run(words, cwd=scratch, env=env, input=b"", capture_output=True, timeout=120)
    text = (done.stdout + done.stderr).decode("utf-8", "replace").replace(data + "/", "DATA/").replace(tilec, "tilec")
    text = ROUNDING.sub(r"largest \1 … (allowed …)", text)
    return text, done.returncode


def expected_and_actual(path: pathlib.Path, tilec: str) -> tuple[str, str, list[str]]:
    """The file as it is, the file as it should be, and complaints about exit statuses."""
    text = path.read_text()
    program = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(MARK)).rstrip("\n") + "\n"
    must_fail = path.name.startswith("bad_")
    output, worst = "", 0
    with tempfile.TemporaryDirectory(prefix="tilec-golden-") as scratch:
        pathlib.Path(scratch, path.name).write_text(program)
        for command in commands_of(path, program):
            printed, status = run_one(command, path, program, scratch, tilec)
            output += printed
            if printed and not printed.endswith("\n"):
                output += "\n"
            worst = status if status != 0 else worst
            if status not in (0, 1):
                output += "exit %d\n" % status
    complaints = []
    if must_fail != (worst != 0):
        complaints.append("must fail but exits 0" if must_fail else "must succeed but exits %d" % worst)
    if worst < 0 or worst == 70:
        complaints.append("crashes (exit %d)" % worst)
    marked = "".join((MARK + " " + line).rstrip() + "\n" for line in output.splitlines())
    return text, program + marked, complaints


def check(path: pathlib.Path, tilec: str, update: bool) -> tuple[bool, str]:
    name = str(path.relative_to(ROOT))
    try:
        before, after, complaints = expected_and_actual(path, tilec)
    except subprocess.TimeoutExpired:
        return False, "FAIL %s: took more than two minutes\n" % name
    except KeyError as folder:
        return False, "FAIL %s: no command is known for folder %s; put `// $ tilec ...` in the file\n" % (name, folder)
    except ValueError as fault:
        return False, "FAIL %s: its command cannot be split into words: %s\n" % (name, fault)
    report = "".join("FAIL %s: %s\n" % (name, c) for c in complaints)
    if before == after:
        return not complaints, report
    if update and not complaints:
        path.write_text(after)
        return True, "updated %s\n" % name
    diff = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "expected", "printed now", n=2)
    return False, report + "FAIL %s: differs\n%s" % (name, "".join(diff))


def selected(words: list[str]) -> list[pathlib.Path]:
    everything = sorted(path for path in ROOT.rglob("*.tile") if "data" not in path.parts)  # data: what tests import
    if not words:
        return everything
    wanted = [(pathlib.Path(w).resolve(), w) for w in words]
    return [
        p
        for p in everything
        if any(full == p or full in p.parents or w in str(p.relative_to(ROOT)) for full, w in wanted)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilec", default=str(HERE.parent / "build/cli/tilec"))
    parser.add_argument("--update", action="store_true", help="rewrite the expectations")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    tilec = str(pathlib.Path(options.tilec).resolve())
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for ok, report in pool.map(lambda path: check(path, tilec, options.update), selected(options.words)):
            sys.stdout.write(report)
            passed, failed = passed + ok, failed + (not ok)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
