#include "lang/builtin.h"

#include <fmt/core.h>

#include <algorithm>

namespace tilec::lang {
namespace {

constexpr Count one{1, 1}, two{2, 2}, three{3, 3}, one_or_two{1, 2}, some{1, any_number}, optional{0, 1};
constexpr std::size_t none = any_number;

constexpr Builtin table[] = {
    // values, element by element
    {"ident", one},
    {"given", one},
    {"clamp", three},
    {"rsqrt", one},
    {"isinf", one},
    {"as_type", two, none, {}, false, 1},
    {"as_float", two, none, {}, false, 1},
    {"as_sum", two, none, {}, false, 1},
    {"as_int", two, 1},
    {"as_uint", two, 1},
    {"as_bool", one},
    {"shape", one},
    {"index", two, 1},
    {"reshape", some, 1},
    {"tuple", some},
    {"element", two, 1},
    // sizes
    {"broadcast", two, 0},
    {"match", two, 0},
    // tensors
    {"cumsum", one_or_two, 1, {}, true},
    {"cumprod", one_or_two, 1, {}, true},
    {"argmax", one_or_two, 1, {}, true},
    {"argmin", one_or_two, 1, {}, true},
    {"sort", one_or_two, 1, {}, true},
    {"argsort", one_or_two, 1, {}, true},
    {"argsort_descending", one_or_two, 1, {}, true},
    {"top_k", one, none, one, true},
    {"gather", two, none, optional, true},
    {"scatter", three, none, optional, true, 2},
    {"prng_step", some, 1, {}, true},
    {"prng_value", one, none, {}, true},
    {"prng_state", one, none, {}, true},
    {"simple_reduce", some, 1, {}, true},
    {"builtin_softmax", three, 1, {}, true},
    {"builtin_logsoftmax", three, 1, {}, true},
    {"builtin_binary_crossentropy", three, none, {}, true},
    {"reverse_grad", two, none, {}, true},
};

}  // namespace

std::string described(const Count& count, std::string_view noun) {
  if (count.least == count.most) return fmt::format("{} {}{}", count.least, noun, count.least == 1 ? "" : "s");
  if (count.most == any_number) return fmt::format("{} {}{} or more", count.least, noun, count.least == 1 ? "" : "s");
  return fmt::format("{} or {} {}s", count.least, count.most, noun);
}

const Builtin* builtin_named(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(table), std::end(table), [&](const Builtin& each) { return each.name == name; });
  return at == std::end(table) ? nullptr : at;
}

std::span<const Builtin> builtins() { return table; }

bool takes_type_of(std::string_view name) { return name == "as_type" || name == "as_float" || name == "as_sum"; }

bool is_aggregation(std::string_view name) {
  constexpr std::string_view all[] = {"sum", "product", "max", "min", "assign"};
  return std::find(std::begin(all), std::end(all), name) != std::end(all);
}

}  // namespace tilec::lang
