"""Writes the functions of std/ as C++ tables: standard_names.py OUTPUT DEPFILE STD. An entry is {file, name, heading},
and {other name, file, name} of each name in `[[also("…")]]`, and {name, layout, function} of each layout in `[[layout("…")]]`."""
import pathlib
import re
import sys

output, depfile, folder = map(pathlib.Path, sys.argv[1:4])
HEADING = re.compile(r"^((?:\[\[.*\]\]\s*)*)function\s+((\w+)(?:<[^>]*>)?[^{]*?)\s*\{", re.M)
ALSO = re.compile(r'\[\[also\("([^"]*)"\)\]\]')
LAYOUT = re.compile(r'\[\[layout\("([^"]*)"\)\]\]')

files = sorted(folder.glob("*.tile"))
names, others, layouts = [], [], []
for file in files:
    for attributes, heading, name in HEADING.findall(file.read_text()):
        names.append('    {"%s", "%s", "%s"},\n' % (file.stem, name, " ".join(heading.split())))
        others += [
            '    {"%s", "%s", "%s"},\n' % (other, file.stem, name)
            for text in ALSO.findall(attributes)
            for other in text.replace(",", " ").split()
        ]
        layouts += [
            '    {"%s", "%s", "%s"},\n' % (name, layout, function or name)
            for text in LAYOUT.findall(attributes)
            for layout, _, function in (each.strip().partition("=") for each in text.split(","))
        ]
with output.open("w") as out:
    out.write('#include "lang/idiom.h"\n\nnamespace tilec::lang {\n')
    for kind, function, rows in (
        ("StandardName", "standard_names", names),
        ("OtherName", "other_standard_names", others),
        ("LayoutName", "standard_layouts", layouts),
    ):
        out.write("\nstd::span<const %s> %s() {\n  static constexpr %s table[] = {\n" % (kind, function, kind))
        out.writelines(rows)
        out.write("  };\n  return table;\n}\n")
    out.write("\n}  // namespace tilec::lang\n")
depfile.write_text("%s: %s\n" % (output, " ".join(str(p).replace(" ", "\\ ") for p in [folder, *files])))
