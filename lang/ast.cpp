#include "lang/ast.h"

#include <string_view>

namespace tilec::lang {

std::string Name::spelled() const {
  const bool reads_as_upper = !text.empty() && text.front() >= 'A' && text.front() <= 'Z';
  const bool reserved = text == "function" || text == "default" || text == "no_defract";
  if (upper) return reads_as_upper ? text : '#' + text;
  return reads_as_upper || reserved ? '$' + text : text;
}

}  // namespace tilec::lang
