// A Module whose program was given more inputs and outputs than its caller sees, for what the caller asked of the call.
//
//   accumulate: the last inputs are what outputs held before     (codegen/accumulate.h)
//   checked:    the last outputs say which index is out of range (poly/checked.h); after the run that is an error
#pragma once

#include <memory>

#include "lang/source.h"
#include "runtime/module.h"

namespace tilec::runtime {

// `inner` was loaded from `stages` and `request`. Returns it as it is when nothing was asked for.
std::shared_ptr<const Module> extended(std::shared_ptr<const Module> inner, const codegen::Stages& stages, const codegen::Request& request, const std::vector<lang::Source>& sources);

}  // namespace tilec::runtime
