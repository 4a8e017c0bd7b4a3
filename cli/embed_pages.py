"""Writes the pages of a folder as one C++ file: embed_pages.py OUTPUT DEPFILE FOLDER."""
import pathlib
import sys

output, depfile, folder = map(pathlib.Path, sys.argv[1:4])
pages = sorted(folder.glob("[EWR][0-9][0-9][0-9][0-9].md"))


def literal(text: str) -> str:
    """C++ string literals, a line each; compilers limit the length of one."""
    return "\n".join('    "%s\\n"' % line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") for line in text.splitlines()) or '    ""'


with output.open("w") as out:
    out.write('#include "cli/error_pages.h"\n\nnamespace tilec::cli {\n\nstd::span<const ErrorPage> error_pages() {\n')
    if not pages:
        out.write("  return {};\n")
    else:
        out.write("  static constexpr ErrorPage pages[] = {\n")
        for page in pages:
            out.write('  {"%s",\n%s},\n' % (page.stem, literal(page.read_text())))
        out.write("  };\n  return pages;\n")
    out.write("}\n\n}  // namespace tilec::cli\n")
depfile.write_text("%s: %s\n" % (output, " ".join(str(p) for p in [folder, *pages])))
