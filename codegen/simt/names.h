// Names of Loops (`#a`, `x'`, `double`) as C identifiers of either dialect.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace tilec::codegen::simt {

// A name that is an identifier, no keyword and no built-in stays; any other becomes `tn_` and its bytes, hex where
// needed. Different names give different identifiers.
std::string identifier(std::string_view name);

// Identifiers of one function: `fresh` returns identifier(name), with a number behind it when that is taken.
class Identifiers {
 public:
  std::string fresh(std::string_view name);

 private:
  std::set<std::string> taken_;
};

}  // namespace tilec::codegen::simt
