// What every command shares: one file of Tile read and checked, its diagnostics and how they are shown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/standard.h"
#include "codegen/pipeline.h"
#include "lang/ast.h"
#include "lang/diagnostic.h"
#include "lang/source.h"
#include "runtime/file.h"

namespace tilec::cli {

enum Exit { success = 0, program_error = 1, usage_error = 2, environment_error = 3, our_bug = 70 };

struct Session {
  const Options& options;
  std::vector<lang::Source> sources;                   // the file, then what it imports, then the plan: spans point
                                                       // into them
  lang::Diagnostics diagnostics;
  runtime::Files files;                                // the sources, and what is to be written
  std::optional<std::string> entry_name;               // that --function or `std:NAME` names
  std::optional<std::string> standard;                 // `std:NAME`, where the file is one of std/
  std::optional<lang::File> file;                      // none when it did not parse or check, or a warning of it is an
                                                       // error by -W

  Session(const Options& given, const std::string& path);  // a file, or `std:NAME`; RuntimeError when it cannot be read
  Session(const Options& given, const std::string& path, const std::string& text);  // that was read
  const lang::Function* entry() const;                 // the function asked for; null when it cannot be decided (build
                                                       // says why)
  codegen::Request request() const;                    // function, sizes, defines, gradient and target of the options
  void refuse_unsaid(const Shapes& shapes) const;      // of a function of std/ by its name, called with these inputs
  bool failed() const;                                 // a diagnostic is an error, by itself or by -W
  int report() const;                                  // prints the diagnostics; program_error or success

 private:
  void give_forms(codegen::Request& request) const;    // those of the options
  void count_sizes(codegen::Request& request) const;
  Shapes shapes_in(const codegen::Request& request) const;
};

std::string program_or_package(const std::string& path);  // what a file holds, or the file of std/ that `std:NAME`
                                                          // means
std::string text_of(const std::string& path);          // the same of a program; UsageError for a package
std::string only_file(const Options& options);         // the one file a command works on, or UsageError
codegen::Target target_of(const std::string& name);    // UsageError with the nearest target
void show(const lang::Diagnostics& diagnostics, const std::vector<lang::Source>& sources, const Options& options);
// DIR/03_gradient.tile and so on: every stage that was reached
void dump(Session& session, const codegen::Stages& stages, const codegen::Request& request);
void print_timings(const std::vector<codegen::Timing>& timings);  // to stderr
bool colour(int descriptor);                           // a terminal, and NO_COLOR is not set
void put(std::string_view text, const Options& options, bool binary = false);  // to -o, or to stdout

int bench_command(const Options& options);
int build_command(const Options& options);
int check_command(const Options& options);
int compare_command(const Options& options);
int emit_command(const Options& options);
int explain_command(const Options& options);
int fmt_command(const Options& options);
int grad_command(const Options& options);
int lsp_command(const Options& options);
int report_command(const Options& options);
int run_command(const Options& options);
int targets_command(const Options& options);
int cache_command(const Options& options);
int completion_command(const Options& options);
int stages_command(const Options& options);
int test_command(const Options& options);
int tune_command(const Options& options);

}  // namespace tilec::cli
