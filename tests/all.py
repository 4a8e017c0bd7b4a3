"""Every test, part by part: all.py [house | golden | docs | std | pages | unit | samples | python ...]. The last line is `N passed, N failed`.

house     rules that a script can check (tests/house.py)
golden    programs that carry what the compiler says about them (tests/golden.py)
docs      the programs, commands and Python of README.md and docs/ (tests/docs.py)
std       the cases that std/ carries in its comments, by `tilec test`
pages     the pages of docs/std are what tests/std_reference.py writes, and their examples run
unit      doctest executables and the C API's test, through Meson
samples   every sample: interpreter, CPU and OpenCL agree, gradients agree with finite differences (tests/samples.py)
python    the package, by pytest
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import quick_pocl

ROOT = pathlib.Path(__file__).resolve().parent.parent
PY = sys.executable
WORKERS = str((os.cpu_count() or 1) + 1)                # of pytest: some wait, for files, processes and each other
PARTS = {
    "house": [PY, "tests/house.py"],
    "golden": [PY, "tests/golden.py"],
    "docs": [PY, "tests/docs.py"],
    "std": ["build/cli/tilec", "test", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "std").glob("*.tile"))],
    "pages": [PY, "tests/std_reference.py"],
    "unit": ["meson", "test", "-C", "build", "--no-rebuild", "--print-errorlogs"],
    "samples": [PY, "tests/samples.py"],
    "python": [PY, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-n", WORKERS, "tests/python"],
}


def counted(text: str) -> tuple[int, int]:
    """Passed and failed, as our scripts, Meson or pytest say it."""
    ours = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
    if ours:
        return int(ours[-1][0]), int(ours[-1][1])
    meson = {
        key: int(n) for key, n in re.findall(r"^(Ok|Expected Fail|Fail|Unexpected Pass|Timeout):\s+(\d+)", text, re.M)
    }
    if meson:
        return meson.get("Ok", 0) + meson.get("Expected Fail", 0), sum(
            meson.get(k, 0) for k in ("Fail", "Unexpected Pass", "Timeout")
        )
    pytest = {
        kind: int(n)
        for n, kind in re.findall(r"(\d+) (passed|failed|errors?)", text.splitlines()[-1] if text.strip() else "")
    }
    return pytest.get("passed", 0), sum(n for kind, n in pytest.items() if kind != "passed")


def of_pocl() -> dict[str, str]:
    """What makes PoCL quick at kernels that run once; tests/meson.build says which tests have it as users do."""
    quick = quick_pocl.environment(ROOT / "build/quick_pocl")
    return {"POCL_CACHE_DIR": str(ROOT / "build/pocl"), "POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable", **quick}


def said(name: str, shows: bool) -> tuple[int, str]:
    """The exit status of a part and what it printed; on a terminal one line that renews itself shows the last of it."""
    env = dict(os.environ, **of_pocl(), TILEC_CACHE="off", PYTHONPYCACHEPREFIX=str(ROOT / "build/pycache"))
    env.pop("PYTHONDONTWRITEBYTECODE", None)             # hundreds of processes import the package
    part = subprocess.Popen(
        PARTS[name], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines = []
    for line in part.stdout:
        lines.append(line.decode("utf-8", "replace"))
        if shows:
            print(
                "\r\033[K" + ("%-8s %s" % (name, lines[-1].strip()))[: shutil.get_terminal_size().columns - 1],
                end="",
                flush=True,
            )
    if shows:
        print("\r\033[K", end="", flush=True)
    return part.wait(), "".join(lines)


def run_part(name: str) -> tuple[int, int]:
    start = time.monotonic()
    shows = sys.stdout.isatty()
    if shows:
        print("%-8s …" % name, end="", flush=True)
    status, text = said(name, shows)
    passed, failed = counted(text)
    if status != 0 and failed == 0:
        failed = 1                                       # it fell over before it could count
    if failed:
        print(text)
    print("%-8s %5d passed, %d failed   %6.1f s" % (name, passed, failed, time.monotonic() - start), flush=True)
    return passed, failed


def main() -> int:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [w for w in wanted if w not in PARTS]
    if unknown:
        print("no part called %s; parts are %s" % (", ".join(unknown), ", ".join(PARTS)))
        return 2
    start = time.monotonic()
    totals = [run_part(name) for name in wanted]
    passed, failed = (sum(column) for column in zip(*totals))
    print("all of it took %.0f s" % (time.monotonic() - start))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
