"""The installed PoCL with less to read before each kernel, for tests: quick_pocl.py FOLDER prints what to set in the environment.

PoCL reads 14,500 declarations before each program (90 of the 150 ms of a small one), a library of 23,600 functions in each
process (half a second), and links each kernel with libc, whose symbols are most of a link. FOLDER gets links to the
installed PoCL beside headers and a library without functions of vectors and images, which tilec emits nowhere, and a linker
that leaves libraries to the process. A program that calls what is missing does not compile."""

import ctypes
import os
import pathlib
import re
import shutil
import sys

ICD = pathlib.Path("/etc/OpenCL/vendors/pocl.icd")
VECTOR = re.compile(r"\b(?:u?char|u?short|u?int|u?long|float|double|half)(?:2|3|4|8|16)\b|\bimage[123]d_|\bpipe\b")
EXTERNAL, INTERNAL = 0, 8                                # LLVMExternalLinkage, LLVMInternalLinkage
LINKER = """#!/bin/sh
case "$*" in
*/tempfile_*.so.o*)                                      # a kernel of PoCL's
  for word; do
    shift
    case $word in -l* | --as-needed | --no-as-needed) ;; *) set -- "$@" "$word" ;; esac
  done ;;
esac
exec %s "$@"
"""


def scalar_header(text: str) -> str:
    """A header of OpenCL C without the lines that declare functions of vectors, images and pipes."""
    declares = lambda line: "__ovld" in line and line.rstrip().endswith(";")
    return "".join(
        line for line in text.splitlines(keepends=True) if not (declares(line) and VECTOR.search(line))
    )


class Bitcode:
    """A module of LLVM's, by the C API of the LLVM that PoCL loads."""

    def __init__(self, llvm: ctypes.CDLL, path: pathlib.Path):
        self.llvm, self.module = llvm, ctypes.c_void_p()
        for name in ("LLVMGetFirstFunction", "LLVMGetNextFunction", "LLVMCreatePassBuilderOptions", "LLVMRunPasses"):
            getattr(llvm, name).restype = ctypes.c_void_p
        llvm.LLVMGetValueName2.restype = ctypes.c_char_p
        buffer, message = ctypes.c_void_p(), ctypes.c_char_p()
        self.done(
            llvm.LLVMCreateMemoryBufferWithContentsOfFile(
                str(path).encode(), ctypes.byref(buffer), ctypes.byref(message)
            )
        )
        self.done(llvm.LLVMParseBitcode2(buffer, ctypes.byref(self.module)))

    def done(self, failed):
        if failed:
            raise RuntimeError("LLVM refuses PoCL's library")

    def link_vectors(self, linkage: int):
        """Sets the linkage of the functions that take vectors: `Dv` in a mangled name."""
        function, length = self.llvm.LLVMGetFirstFunction(self.module), ctypes.c_size_t()
        while function:
            f = ctypes.c_void_p(function)
            if b"Dv" in self.llvm.LLVMGetValueName2(f, ctypes.byref(length)) and not self.llvm.LLVMIsDeclaration(f):
                self.llvm.LLVMSetLinkage(f, linkage)
            function = self.llvm.LLVMGetNextFunction(f)

    def write_scalar(self, path: pathlib.Path):
        """Writes it without functions of vectors that no other function calls."""
        self.llvm.LLVMStripModuleDebugInfo(self.module)
        self.link_vectors(INTERNAL)
        options = ctypes.c_void_p(self.llvm.LLVMCreatePassBuilderOptions())
        self.done(self.llvm.LLVMRunPasses(self.module, b"globaldce", None, options))
        self.link_vectors(EXTERNAL)
        self.done(self.llvm.LLVMWriteBitcodeToFile(self.module, str(path).encode()))


def library_of_this_cpu() -> str:
    """How the name of the library ends that PoCL chooses here; other libraries stay as they are."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return next((name for flag, name in (("avx512f", "-avx512.bc"), ("avx2", "-avx2.bc")) if flag in flags), ".none")


def make(folder: pathlib.Path):
    shutil.rmtree(folder, ignore_errors=True)
    ctypes.CDLL(ICD.read_text().strip())
    loaded = pathlib.Path("/proc/self/maps").read_text()
    pocl = pathlib.Path(re.search(r"/\S*/libpocl\.so\S*", loaded)[0])
    llvm = ctypes.CDLL(re.search(r"/\S*/libLLVM\S*", loaded)[0])
    installed = (pocl.parent / "../../share/pocl").resolve()   # PoCL looks there, from where it was loaded
    library, share = folder / "lib/tests", folder / "share/pocl"
    for made in (library, share / "include", folder / "vendors", folder / "bin"):
        made.mkdir(parents=True)
    for path in (pocl, pocl.parent / "pocl"):
        (library / path.name).symlink_to(path)
    for path in installed.glob("*.bc"):
        if path.name.endswith(library_of_this_cpu()):
            Bitcode(llvm, path).write_scalar(share / path.name)
        else:
            (share / path.name).symlink_to(path)
    for path in (installed / "include").iterdir():
        if path.name == "opencl-c.h":
            (share / "include" / path.name).write_text(scalar_header(path.read_text()))
        else:
            (share / "include" / path.name).symlink_to(path)
    (folder / "bin/ld").write_text(LINKER % shutil.which("ld"))
    (folder / "bin/ld").chmod(0o755)
    (folder / "vendors/pocl.icd").write_text("%s\n" % (library / pocl.name))


def environment(folder: pathlib.Path) -> dict[str, str]:
    """What leads to it: for the loader of OpenCL, and for clang, which looks for `ld` there first. Made where it is missing."""
    made = folder / "vendors/pocl.icd"
    if not ICD.exists():
        return {}
    if not made.exists() or made.stat().st_mtime < max(os.stat(path).st_mtime for path in (ICD, __file__)):
        make(folder)
    return {"OCL_ICD_VENDORS": str(made.parent), "COMPILER_PATH": str(folder / "bin")}


if __name__ == "__main__":
    for name, value in environment(pathlib.Path(sys.argv[1]).resolve()).items():
        print("%s=%s" % (name, value))
