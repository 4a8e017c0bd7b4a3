"""What `./dev gpu` carries to a machine with a device: pack.py BUILD FOLDER makes FOLDER/tilec-gpu and an archive of it.

BUILD: of the build that travels (build-static); the tests take any.
"""

import pathlib
import shutil
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 60 << 20


def pack(build: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    bundle = folder / "tilec-gpu"
    shutil.rmtree(bundle, ignore_errors=True)
    for place in ("python/tilec", "std", "gpu"):
        (bundle / place).mkdir(parents=True)
    for file in (build / "cli/tilec", build / "runtime/libtilec.so", ROOT / "bench/gpu/run", ROOT / "LICENSE"):
        shutil.copy(file, bundle)
    if (random := build / "random_programs").exists():
        shutil.copy(random, bundle)
    for place, files in (
        ("python/tilec", (ROOT / "python/tilec").glob("*.py")),
        ("std", (ROOT / "std").glob("*.tile")),
        ("gpu", [ROOT / "bench" / name for name in ("gpu/run.py", "gpu/rows.py", "contractions.py", "recurrences.py")]),
    ):
        for file in files:
            shutil.copy(file, bundle / place)
    return bundle


def main(build, folder) -> int:
    bundle = pack(pathlib.Path(build), pathlib.Path(folder))
    archive = bundle.with_suffix(".tar.xz")
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(bundle, bundle.name)
    size = archive.stat().st_size
    print(f"{archive}: {size / 2**20:.1f} MiB")
    if size > MOST_BYTES:
        print(f"error: more than {MOST_BYTES >> 20} MiB", file=sys.stderr)
    return 1 if size > MOST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
