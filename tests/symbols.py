"""Which library each solver symbol of tilec and libtilec.so comes from: symbols.py FILE...

Debian's libLLVM exports a private copy of isl (Polly's), so isl_* must be asked of libisl by the link and by the loader alike.
"""
import os
import re
import subprocess
import sys


def output(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, **environment))
    return done.stdout + done.stderr


def linked(path):
    """Undefined isl_* symbols with the version that the link gave them: `isl_val_free@LLVM_19.1`."""
    return re.findall(r"\bU (isl_\S+)", output("nm", "-D", path))


def bound(path):
    """Symbol to library, as the loader says it."""
    program = [path, "--help"] if not path.endswith(".so") else [sys.executable, "-c", f"import ctypes; ctypes.CDLL({path!r})"]
    told = output(*program, LD_DEBUG="bindings", LD_BIND_NOW="1")
    name = re.escape(os.path.basename(path))
    return dict((symbol, os.path.basename(library)) for library, symbol in
                re.findall(rf"binding file \S*{name} \[\d+\] to (\S+) \[\d+\]: normal symbol `(isl_[^']+)'", told))


def main():
    failed = 0
    for path in sys.argv[1:]:
        asked = linked(path)
        foreign = [s for s in asked if "@LLVM" in s]
        found = bound(path)
        strangers = {s: library for s, library in found.items() if not library.startswith("libisl.so")}
        needed = "libisl.so" in output("readelf", "-d", path)
        good = asked and found and needed and not foreign and not strangers
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {path}: {len(asked)} isl symbols linked, {len(found)} bound; needs libisl: {needed}; linked to LLVM: {foreign[:3]}; "
              f"bound elsewhere: {dict(list(strangers.items())[:3])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
