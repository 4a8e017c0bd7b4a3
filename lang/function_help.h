// A line about each built-in function, type, aggregation, attribute and keyword: what editors show beside a name.
//
//   cumsum      cumsum(X, axis)      running sums along an axis; a vector needs no axis
#pragma once

#include <span>
#include <string_view>

namespace tilec::lang {

struct Help {
  enum class Kind { Function, Type, Aggregation, Attribute, Keyword, Constant } kind;
  std::string_view name, written, text;                // `written`: as it is called
};
std::span<const Help> all_help();
const Help* help_for(Help::Kind kind, std::string_view name);  // null when there is none; assert_… is any name that
                                                               // begins so

}  // namespace tilec::lang
