// One test case: compiled, run, and held against what it demands.
#pragma once

#include <string>

#include "cli/cases.h"
#include "codegen/target.h"
#include "lang/source.h"

namespace tilec::cli {

// A file as the cases of it see it: without a tree, nothing in it compiles and `diagnostics` say why.
// sources: its own text first, then what it imports
struct CaseFile { std::vector<lang::Source> sources; std::optional<lang::File> file; lang::Diagnostics diagnostics; };

struct Verdict {
  enum { Passed, Failed, Malformed } kind = Passed;    // Malformed: a value in it that cannot be read, or belongs to
                                                       // nothing
  std::string text;                                    // what is wrong, in lines; empty when it passed
};

Verdict check_case(const CaseFile& file, const Case& one, const codegen::Target& target);

}  // namespace tilec::cli
