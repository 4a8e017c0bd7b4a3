"""`./dev fuzz [SECONDS]`: mutated programs, plans and array files through the compiler under ASan and UBSan.

    run.py [SECONDS]              programs get eight tenths of the time, plans and files a tenth each; default 60
    run.py --contractions N       N random contractions against an enumeration of their points (--seed S)
    run.py --only program [SECONDS]

What failed lies in build-fuzz/found/; `build-fuzz/tests/fuzz/fuzz_program FILE` repeats it, FUZZ_TALK=1 shows the sizes it was
called with. A text that failed goes into tests/golden/ once it is fixed. What was interesting lies in build-fuzz/live/ and is
where the next run starts.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-fuzz"
SHARE = {"program": 0.8, "plans": 0.1, "files": 0.1}
FLAGS = "-gline-tables-only -fsanitize=fuzzer-no-link -fno-sanitize=vptr -fno-omit-frame-pointer -Wno-everything"
# LLVM is not instrumented, so a container that crosses into it looks overrun; the second run of a library's globals is
# no fault.
ENVIRONMENT = {
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "ASAN_OPTIONS": "detect_odr_violation=0:detect_container_overflow=0",
}
LIMITS = [
    "-timeout=10",
    "-malloc_limit_mb=1500",
    "-rss_limit_mb=4000",
    "-max_len=6000",
    "-detect_leaks=0",
    "-print_final_stats=1",
]


def build() -> None:
    if not (BUILD / "build.ninja").exists():
        cache = "ccache " if shutil.which("ccache") else ""
        compilers = dict(os.environ, CC=cache + "clang-19", CXX=cache + "clang++-19")
        subprocess.run(
            [
                "meson",
                "setup",
                BUILD,
                "--native-file",
                ".meson/debian12.ini",
                "-Dfuzz=true",
                "-Db_sanitize=address,undefined",
                "-Db_lundef=false",
                "-Dwerror=false",
                "-Doptimization=1",
                "-Ddebug=false",
                "-Dcpp_args=" + FLAGS,
            ],
            cwd=ROOT,
            env=compilers,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *("tests/fuzz/fuzz_" + kind for kind in SHARE)], check=True)
    subprocess.run([sys.executable, ROOT / "tests/fuzz/corpus.py", BUILD / "corpus"], check=True)


def fuzz(kind: str, seconds: int) -> bool:
    for folder in ("live", "found"):
        (BUILD / folder / kind).mkdir(parents=True, exist_ok=True)
    print("fuzzing %s for %d s" % (kind, seconds), flush=True)
    command = [
        BUILD / "tests/fuzz" / ("fuzz_" + kind),
        "live/" + kind,
        "corpus/" + kind,
        "-max_total_time=%d" % seconds,
        "-artifact_prefix=found/%s/" % kind,
        *LIMITS,
    ]
    done = subprocess.run(
        command, cwd=BUILD, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    if done.returncode != 0:
        start = next(
            (
                k
                for k, line in enumerate(lines)
                if line.startswith(("FUZZ:", "==")) or "runtime error" in line or "ALARM" in line
            ),
            max(0, len(lines) - 40),
        )
        print("\n".join(lines[start:start + 60]))
    for line in lines:
        if (
            line.startswith(("stat::number_of_executed_units", "stat::slowest", "stat::peak"))
            or "Test unit written" in line
        ):
            print("  " + line)
    return done.returncode == 0


def contractions(count: int, seed: int) -> bool:
    """The cases in as many processes as there are cores, a part each; a case is the same whatever its part."""
    if not (ROOT / "build/build.ninja").exists():
        subprocess.run(["./dev", "build"], cwd=ROOT, check=True)
    subprocess.run(["ninja", "-C", ROOT / "build", "--quiet", "tests/unit_poly_contractions"], check=True)
    parts = os.cpu_count() or 1
    cuts = [count * k // parts for k in range(parts + 1)]
    running = [
        subprocess.Popen(
            [ROOT / "build/tests/unit_poly_contractions"],
            env=dict(os.environ, FIRST=str(first), CASES=str(last), SEED=str(seed)),
        )
        for first, last in zip(cuts, cuts[1:])
        if first < last
    ]
    return all([process.wait() == 0 for process in running])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=int, default=60)
    parser.add_argument("--only", choices=SHARE)
    parser.add_argument("--contractions", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.contractions is not None:
        return 0 if contractions(given.contractions, given.seed) else 1
    build()
    kinds = {given.only: 1.0} if given.only else SHARE
    return 0 if all([fuzz(kind, max(1, round(given.seconds * share))) for kind, share in kinds.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
