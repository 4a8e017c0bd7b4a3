"""Writes the functions of std/ as a C++ table: standard_names.py OUTPUT DEPFILE STD. An entry is {file, name,
heading}."""
import pathlib
import re
import sys

output, depfile, folder = map(pathlib.Path, sys.argv[1:4])
HEADING = re.compile(r"^(?:\[\[.*\]\]\s*)*function\s+((\w+)(?:<[^>]*>)?[^{]*?)\s*\{", re.M)

files = sorted(folder.glob("*.tile"))
with output.open("w") as out:
    out.write(
        '#include "lang/idiom.h"\n\nnamespace tilec::lang {\n\nstd::span<const StandardName> standard_names() {\n'
    )
    out.write("  static constexpr StandardName names[] = {\n")
    for file in files:
        for heading, name in HEADING.findall(file.read_text()):
            out.write('    {"%s", "%s", "%s"},\n' % (file.stem, name, " ".join(heading.split())))
    out.write("  };\n  return names;\n}\n\n}  // namespace tilec::lang\n")
depfile.write_text("%s: %s\n" % (output, " ".join(str(p).replace(" ", "\\ ") for p in [folder, *files])))
