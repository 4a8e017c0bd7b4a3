#include "lang/repair/foreign.h"

#include <fmt/core.h>

#include <algorithm>

#include "lang/idiom.h"
#include "lang/op.h"
#include "lang/type.h"

namespace tilec::lang::repair {
namespace {

constexpr Reduction reductions[] = {{" sum reduce_sum nansum ", "+", "Sum"},
    {" prod product reduce_prod ", "*", "Product"}, {" max amax reduce_max nanmax ", ">", "Largest"},
    {" min amin reduce_min nanmin ", "<", "Smallest"}, {" mean average reduce_mean ", "+", "Mean"}};

constexpr std::string_view methods[] = {"dot", "transpose", "roll", "flip", "reshape"};
constexpr std::string_view modules[] = {
    "np", "numpy", "torch", "tf", "jnp", "math", "F", "nn", "cp", "jax", "K", "keras", "tile", "Base", "te", "topi"};

template <class List>
bool among(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

}  // namespace

const Reduction* reduction_named(std::string_view name) {
  for (const Reduction& each : reductions)
    if (each.names.find(fmt::format(" {} ", name)) != std::string_view::npos) return &each;
  return nullptr;
}
const Reduction* reduction_marked(std::string_view mark) {
  for (const Reduction& each : reductions)
    if (each.mark == mark) return &each;
  return nullptr;
}
std::optional<std::string> type_called(std::string_view name) {
  if (dtype_named(name)) return std::string(name);
  const auto hint = hint_for(Idiom::Kind::Type, name);   // write `f32`
  if (!hint || !hint->starts_with("write `")) return std::nullopt;
  return hint->substr(7, hint->size() - 8);
}

bool is_module(std::string_view word) { return among(modules, word); }
bool is_method(std::string_view word) { return among(methods, word); }
bool is_scalar_function(std::string_view name) { return function_named(name).has_value() || name == "clamp"; }

}  // namespace tilec::lang::repair
