// A Module whose program was given more inputs and outputs than its caller sees, for what the caller asked of the call.
//
//   accumulate: the last inputs are what outputs held before     (codegen/accumulate.h)
//   checked:    the last outputs say which index is out of range (poly/checked.h); after the run that is an error
#pragma once

#include <memory>

#include "lang/source.h"
#include "poly/checked.h"
#include "runtime/module.h"

namespace tilec::runtime {

struct Extension {
  std::vector<std::size_t> accumulate;                 // positions among the outputs: those that are added to
  std::vector<std::string> outputs;                    // the names of those that the caller sees
  std::vector<poly::IndexCheck> checks;
};
// Returns `inner` as it is when nothing was asked for.
std::shared_ptr<const Module> extended(
    std::shared_ptr<const Module> inner, Extension extension, const std::vector<lang::Source>& sources);

}  // namespace tilec::runtime
