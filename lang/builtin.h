// What a call of a built-in function looks like, of those that are no scalar operation (op.h). What they mean is
// poly's.
//
//   cumsum(X, axis)     1 or 2 arguments, integers known before the run from the second on, nothing in < >
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tilec::lang {

struct Count {
  std::size_t least = 0, most = 0;
  bool holds(std::size_t count) const { return count >= least && count <= most; }
};
inline constexpr std::size_t any_number = 1000000;
// "1 argument", "1 or 2 arguments", "2 arguments or more"
std::string described(const Count& count, std::string_view noun);

struct Builtin {
  std::string_view name;
  Count arguments;
  std::size_t sizes_from = any_number;                 // arguments from this position on are integers known before the
                                                       // run
  Count parameters = {};                               // in < >
  bool makes_tensors = false;                          // by statements of its own: poly/builtin.h
  std::size_t size_or_tensor = any_number;             // the argument at this position is an integer known before the
                                                       // run, or a tensor
};

const Builtin* builtin_named(std::string_view name);   // null when there is none
std::span<const Builtin> builtins();
bool takes_type_of(std::string_view name);             // a cast whose second argument may name a tensor: `as_type`, …
bool is_aggregation(std::string_view name);            // `sum`, `max`, … as a text names them

}  // namespace tilec::lang
