// What `tilec check` and editors build of a file: every function that can be built without a call.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "codegen/pipeline.h"
#include "lang/ast.h"

namespace tilec::cli {

// A function whose inputs all show their sizes and whose parameters have values can be built without a call: its ranks,
// types and domains are checked too.
bool can_be_built(const lang::Function& function,
    const std::vector<std::pair<std::string, std::variant<double, std::string>>>& defines = {});

// Of the items of a file from `first` on, while `goes_on` says so; what several of them call is reported once. `built`
// gets what came of each. Out: the item to go on with; behind the last one when all is done.
using Built = std::function<void(const lang::Function&, std::optional<codegen::Stages>)>;
std::size_t build_functions(const lang::File& file, std::size_t first, codegen::Request request,
    lang::Diagnostics& diagnostics, const Built& built, const std::function<bool()>& goes_on);

}  // namespace tilec::cli
