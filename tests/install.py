"""What `ninja install` gives: programs of others find, build against and run it, by pkg-config and by CMake.

install.py [BUILD]       installs BUILD into a scratch folder (DESTDIR), so that nothing of this machine is found by chance
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Werror".split()
SAMPLES = {
    "c": (ROOT / "samples/embed_c/conv.c", ["-std=c11"]),
    "cpp": (ROOT / "samples/embed_cpp/conv.cpp", ["-std=c++17"]),
}
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(embed C CXX)
find_package(Tilec %s REQUIRED)
add_executable(embed_c %s)
set_target_properties(embed_c PROPERTIES C_STANDARD 11)
add_executable(embed_cpp %s)
target_compile_features(embed_cpp PRIVATE cxx_std_17)
foreach(program embed_c embed_cpp)
  target_compile_options(${program} PRIVATE %s)
  target_link_libraries(${program} PRIVATE Tilec::tilec)
endforeach()
"""
passed, failed = 0, 0


def check(what: str, *command, says: str = "", fails: bool = False, **environment) -> str:
    """Runs a command, counts it, and returns what it printed."""
    global passed, failed
    done = subprocess.run(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, **environment),
    )
    holds = (done.returncode != 0) == fails and says in done.stdout
    passed, failed = passed + holds, failed + (not holds)
    print("%s %s" % ("ok    " if holds else "FAILED", what) + ("" if holds else ":\n%s" % done.stdout))
    return done.stdout


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tilec-install-") as folder:
        scratch = pathlib.Path(folder)
        destination = scratch / "root"
        check("installs", "meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", destination)
        places = {path.relative_to(destination).as_posix(): path for path in destination.rglob("*") if path.is_file()}

        def place(end: str) -> pathlib.Path:
            return next((path for name, path in places.items() if name.endswith(end)), scratch / "nowhere" / end)

        library = place("/libtilec.so").parent
        version = re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text())[1]
        run = {"LD_LIBRARY_PATH": str(library)}
        check("the command", place("/bin/tilec"), "--version", says=version)
        check("std/ is there to read", "grep", "-q", "function", place("/tilec/std/nn.tile"))
        found = {"PKG_CONFIG_LIBDIR": str(place("/tilec.pc").parent), "PKG_CONFIG_SYSROOT_DIR": str(destination)}
        check("pkg-config tells the version", "pkg-config", "--modversion", "tilec", says=version, **found)
        flags = check("pkg-config", "pkg-config", "--cflags", "--libs", "tilec", says="-ltilec", **found).split()
        for language, compilers in {"c": ("gcc", "clang-19"), "cpp": ("g++", "clang++-19")}.items():
            source, standard = SAMPLES[language]
            for compiler in filter(shutil.which, compilers):
                program = scratch / ("embed_" + compiler)
                check(
                    "%s by %s" % (source.relative_to(ROOT), compiler),
                    compiler,
                    *standard,
                    *STRICT,
                    source,
                    *flags,
                    "-o",
                    program,
                )
                check("  and it runs", program, says="dK: 9 elements agree", **run)
        if not shutil.which("cmake"):
            print("skip   CMake: not installed")
        else:
            major, minor, _ = map(int, version.split("."))
            for asked, fails in (
                (version, False),
                (str(major), False),
                ("%d.%d" % (major, minor + 1), True),
                ("%d.0" % (major + 1), True),
                ("%d.9" % (major - 1), True),
            ):
                home = scratch / ("cmake" + asked)
                home.mkdir()
                (home / "CMakeLists.txt").write_text(
                    CMAKE % (asked, SAMPLES["c"][0], SAMPLES["cpp"][0], " ".join(STRICT))
                )
                check(
                    "find_package(Tilec %s)%s" % (asked, " is refused" if fails else ""),
                    "cmake",
                    "-S",
                    home,
                    "-B",
                    home / "build",
                    "-DTilec_DIR=%s" % place("/TilecConfig.cmake").parent,
                    says=version if fails else "",
                    fails=fails,
                )
                if asked == version:
                    check("  builds", "cmake", "--build", home / "build")
                    for program in ("embed_c", "embed_cpp"):
                        check("  and %s runs" % program, home / "build" / program, says="dK: 9 elements agree")
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
