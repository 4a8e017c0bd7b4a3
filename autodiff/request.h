// Which outputs a gradient starts from, and which inputs it is taken by; which inputs a batch has.
//
//   --of Loss --wrt W   ⇒   their tensors;     nothing named   ⇒   all float outputs, all float inputs
//
// Errors: an unknown name (with the closest one), an integer, nothing of a float type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lang/diagnostic.h"
#include "poly/program.h"

namespace tilec::autodiff {

struct Request { std::vector<poly::TensorId> of, wrt; };

// The inputs that `batch` is to give a dimension; no names: all. A size has no tensor, so it is none of them.
std::optional<std::vector<poly::TensorId>> inputs_to_batch(
    const poly::Program& program, const std::vector<std::string>& names, lang::Diagnostics& diagnostics);

std::optional<Request> request(const poly::Program& program, const std::vector<std::string>& of,
    const std::vector<std::string>& wrt, lang::Diagnostics& diagnostics);

}  // namespace tilec::autodiff
