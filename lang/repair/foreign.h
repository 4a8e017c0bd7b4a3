// What other languages call reductions, types and modules.
//
//   reduction_named("amax")   ⇒   `>`, whose result is called `Largest`        type_called("float32")   ⇒   f32
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilec::lang::repair {

// names: how a reduction is called; its mark, and the name of the tensor that receives it.
struct Reduction { std::string_view names, mark, result; };
const Reduction* reduction_named(std::string_view name);  // null: none
const Reduction* reduction_marked(std::string_view mark);

// A type of Tile, or what a type of another language is called here.
std::optional<std::string> type_called(std::string_view name);

bool is_module(std::string_view word);                 // `np`, `torch`, …
bool is_method(std::string_view word);  // of tensors, beside reductions and scalar functions: `X.roll(1)`
bool is_scalar_function(std::string_view name);        // of Tile

}  // namespace tilec::lang::repair
