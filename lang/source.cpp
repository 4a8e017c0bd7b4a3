#include "lang/source.h"

#include <algorithm>

namespace tilec::lang {

Position position(const Source& source, std::uint32_t offset) {
  const std::size_t end = std::min<std::size_t>(offset, source.text.size());
  Position at;
  std::size_t start = 0;
  const std::string_view before = std::string_view(source.text).substr(0, end);
  for (std::size_t next = before.find('\n'); next != std::string_view::npos; next = before.find('\n', start)) {
    ++at.line;
    start = next + 1;
  }
  at.column = static_cast<int>(end - start) + 1;
  return at;
}

std::string_view line(const Source& source, int number) {
  std::string_view rest = source.text;
  for (; number > 1; --number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

}  // namespace tilec::lang
