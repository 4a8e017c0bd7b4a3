// `tilec fmt FILE…`: canonical source on stdout, in -o, or (-i) in place; --check only compares.
#include <fmt/core.h>

#include <algorithm>

#include "cli/session.h"
#include "cli/standard.h"
#include "lang/parse.h"
#include "lang/print.h"
#include "runtime/file.h"

namespace tilec::cli {

namespace {

int format_one(const Options& options, const std::string& path) {
  const lang::Source source{path == "-" ? "<stdin>" : path, text_of(path)};
  lang::Diagnostics diagnostics;
  const std::optional<lang::File> file = lang::parse(source, diagnostics);
  show(diagnostics, {source}, options);
  if (!file) return program_error;
  const std::string text = lang::print(*file);
  if (options.check) {
    if (text != source.text) fmt::print("{}\n", source.name);
    return text == source.text ? success : program_error;
  }
  if (!options.in_place) put(text, options);
  else if (text != source.text) runtime::write_file(path, text);
  return success;
}

}  // namespace

int fmt_command(const Options& options) {
  if (options.words.empty()) throw UsageError{"no file of Tile is named", "write `tilec fmt FILE`"};
  const bool one_file = !options.in_place && !options.check && !options.output.empty() && options.output != "-";
  if (one_file && options.words.size() > 1)
    throw UsageError{fmt::format("`-o {}` holds one file, and {} are named", options.output, options.words.size()),
        "write `--in-place`, or name one"};
  runtime::Files files;
  for (const std::string& path : options.words) {
    if (is_standard(path))
      throw UsageError{fmt::format("`{}` is no file, and `tilec fmt` formats files", path),
          fmt::format("`tilec {} --emit=source` shows its text", path)};
    files.reads(path);
  }
  if (one_file) files.writes(options.output);
  int worst = success;
  for (const std::string& path : options.words) worst = std::max(worst, format_one(options, path));
  return worst;
}

}  // namespace tilec::cli
