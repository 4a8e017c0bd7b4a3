"""meson-python, and a wheel whose tag says what it needs: any Python 3, and the oldest glibc that has all it asks for.

Everything else is inside. meson-python itself can only tag files beside the package as those of one Python.
"""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import tempfile
import zipfile

from mesonpy import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)  # noqa: F401
import mesonpy

# Of glibc, on every Linux that PEP 600 speaks of.
SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux[-\w]*\.so\.\d|libtilec\.so")


def platform_of(files) -> str:
    """manylinux_2_N of the newest symbol of glibc that ELF files ask for; linux where they need another library."""
    newest = 17
    for file in files:
        said = subprocess.run(
            ["readelf", "--wide", "--dynamic", "--version-info", file], check=True, capture_output=True, text=True
        ).stdout
        foreign = [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said) if not SYSTEM.fullmatch(name)]
        if foreign or "GLIBC_" not in said:
            return "linux_" + platform.machine()
        newest = max([newest, *map(int, re.findall(r"Name: GLIBC_2\.(\d+)", said))])
    return "manylinux_2_%d_%s" % (newest, platform.machine())


def tagged(path: pathlib.Path) -> str:
    """The wheel under the name it deserves, in place of the one that was there."""
    with zipfile.ZipFile(path) as wheel, tempfile.TemporaryDirectory() as folder:
        files = {info: wheel.read(info) for info in wheel.infolist()}
        binaries = [wheel.extract(info, folder) for info, data in files.items() if data.startswith(b"\x7fELF")]
        tag = "py3-none-" + platform_of(binaries)
    name, version = path.name.split("-")[:2]
    renamed = path.with_name("%s-%s-%s.whl" % (name, version, tag))
    head = "%s-%s.dist-info/" % (name, version)
    about = next(info for info in files if info.filename == head + "WHEEL")
    record = next(info for info in files if info.filename == head + "RECORD")
    files[about] = re.sub(rb"^Tag: .*$", b"Tag: " + tag.encode(), files[about], flags=re.M)
    digest = base64.urlsafe_b64encode(hashlib.sha256(files[about]).digest()).rstrip(b"=").decode()
    line = "%s,sha256=%s,%d" % (about.filename, digest, len(files[about]))
    files[record] = re.sub(r"^%s,.*$" % re.escape(about.filename), line, files[record].decode(), flags=re.M).encode()
    path.unlink()
    with zipfile.ZipFile(renamed, "w") as wheel:
        for info, data in files.items():
            wheel.writestr(info, data, zipfile.ZIP_DEFLATED, 9)
    return renamed.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    made = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    return tagged(pathlib.Path(wheel_directory, made))
