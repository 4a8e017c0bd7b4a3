"""Writes the files of a folder as a C++ table: embed.py OUTPUT DEPFILE FOLDER PATTERN HEADER NAMESPACE TYPE FUNCTION.

The table is `std::span<const TYPE> FUNCTION()` of HEADER; an entry is {name without folder, text}.
"""
import pathlib
import sys

output, depfile, folder = map(pathlib.Path, sys.argv[1:4])
pattern, header, namespace, kind, function = sys.argv[4:]
files = sorted(folder.glob(pattern))


def literal(text: str) -> str:
    """C++ string literals, a line each; compilers limit the length of one."""
    return (
        "\n".join(
            '    "%s\\n"' % line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
            for line in text.splitlines()
        )
        or '    ""'
    )


with output.open("w") as out:
    out.write('#include "%s"\n\nnamespace %s {\n\nstd::span<const %s> %s() {\n' % (header, namespace, kind, function))
    if not files:
        out.write("  return {};\n")
    else:
        # not constexpr: clang would count the characters of all files one by one, up to a limit
        out.write("  static const %s files[] = {\n" % kind)
        for file in files:
            out.write('  {"%s",\n%s},\n' % (file.stem, literal(file.read_text())))
        out.write("  };\n  return files;\n")
    out.write("}\n\n}  // namespace %s\n" % namespace)
depfile.write_text("%s: %s\n" % (output, " ".join(str(p).replace(" ", "\\ ") for p in [folder, *files])))
