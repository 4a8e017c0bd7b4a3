"""Writes compiler_id.cpp, if it changed: compiler_id.py OUTPUT ROOT LLVM FOLDER…, the hash of all C++ and Tile in the
folders."""
import hashlib
import pathlib
import sys

output, root = map(pathlib.Path, sys.argv[1:3])
made = hashlib.sha256(sys.argv[3].encode())
for folder in sys.argv[4:]:
    for file in sorted((root / folder).rglob("*")):
        if file.suffix in (".cpp", ".h", ".tile"):
            made.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
text = (
    '#include "runtime/compiler_id.h"\n\nnamespace tilec::runtime {\n\nstd::string_view compiler_id() { return "%s"; }\n\n}  // namespace tilec::runtime\n'
    % made.hexdigest()
)
if not output.exists() or output.read_text() != text:
    output.write_text(text)
