// A compilation as one page of HTML: no other file and no network, text where there is no JavaScript.
//
// Statements of the text, of each Program, launches, loops and code light up together where one came from the other
// (codegen/origin.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/origin.h"
#include "codegen/pipeline.h"
#include "lang/source.h"

namespace tilec::cli::report {

// One program that is compiled: the function or its derivative, or a half of a pair.
struct Part {
  std::string title;                                   // of a half: `forward`
  codegen::Stages stages;
  std::string code, language;                          // assembly, or the text of the kernels, as `--emit=LANGUAGE`
                                                       // prints it; empty: none
  std::vector<double> measured = {};                   // milliseconds of each step of `stages.lowered`; empty: not
                                                       // measured
  std::int64_t workspace = 0;                          // bytes
};
struct Report {
  std::string name;                                    // of the program, or of its file
  const std::vector<lang::Source>& sources;
  const lang::File& file;
  const lang::Function* entry;                         // that is compiled
  const codegen::Request& request;
  std::optional<poly::Program> derivative;             // in the text's own sizes, where one was asked for
  std::vector<Part> parts;
  std::optional<autodiff::Split> split;                // of a pair
  std::vector<std::pair<std::string, std::vector<codegen::Timing>>> timings;  // each with what the passes worked on
};

std::string page(const Report& report);

}  // namespace tilec::cli::report
