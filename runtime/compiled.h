// What running a request takes, without how it came about: its packages, and what is said beside them.
//
// A specialisation is loaded from it, whether it was just compiled or comes from the disk (cache.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/package.h"
#include "codegen/pipeline.h"
#include "lang/diagnostic.h"
#include "poly/checked.h"

namespace tilec::runtime {

// One direction of a program.
struct Half {
  codegen::Package package;
  std::vector<std::string> outputs;                    // as the caller knows them; those of checks follow them
  std::vector<poly::IndexCheck> checks;
};

struct Compiled {
  std::vector<Half> halves;                            // the program; or forward and backward
  std::vector<lang::Diagnostic> said;                  // warnings and remarks
  std::string tuning, plan;                            // the key of plans for it (tune.h), empty: none are looked for;
                                                       // the one that it follows, empty: none
};

// Makes the code of lowered stages. E0520, before any is made, where the compiler of their device is not here.
Half half_of(const codegen::Stages& stages, const codegen::Request& request);

// A text that holds everything a compilation depends on: the key of what was compiled.
struct Loaded;
std::string text_of(const Loaded& loaded, const codegen::Request& request);
// The key of tuned plans: of a Program and the plan chosen for it, printed.
std::string text_for_plans(const std::string& printed, const codegen::Request& request);
std::string to_bytes(const Compiled& compiled, const std::string& text);
// Throws a std::string where the bytes are malformed, RuntimeError where the package in them is. Without halves: the
// bytes are those of another text.
Compiled compiled_from(std::string_view bytes, const std::string& text);

}  // namespace tilec::runtime
