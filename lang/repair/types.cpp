#include "lang/repair/rewrites.h"

#include <fmt/format.h>

#include "lang/repair/foreign.h"
#include "lang/type.h"

namespace tilec::lang::repair {
namespace {

// `float32`, `np.float32`, `torch.float`: the type that tokens [first, last) name.
std::optional<std::string> type_in(const Draft& s, std::size_t first, std::size_t last) {
  const bool of_module = last == first + 3 && is_module(s[first]) && s.is(first + 1, ".");
  return (of_module || last == first + 1) && s.word(last - 1) && !s.shape(s[last - 1])
      ? type_called(s[last - 1])
      : std::nullopt;
}

// `X.astype(np.float32)`, `X.to(torch.float64)`, `X.float()`, `static_cast<float>(X)`, `tf.cast(X, tf.float32)`,
// `np.float32(X)`, `X as f32`
bool calls_that_cast(Draft& s) {
  for (std::size_t i = s.equals + 2; i + 1 < s.size(); ++i) {
    if (s.is(i, "as") && s.ends_operand(i - 1) && type_in(s, i + 1, i + 2)) {
      const std::size_t first = s.operand_first(i - 1);
      return s.replace(first, i + 2, fmt::format("{}({})", *type_in(s, i + 1, i + 2), s.slice(first, i)));
    }
    const std::size_t open = i + 2, close = s.is(open, "(") ? s.closing(open) : s.size();
    if (!s.is(i, ".") || close == s.size() || !s.ends_operand(i - 1)) continue;
    const bool converts = s.is(i + 1, "astype") || s.is(i + 1, "to") || s.is(i + 1, "type");
    const auto type = converts ? type_in(s, open + 1, close)
        : close == open + 1    ? type_in(s, i + 1, i + 2)
                               : std::nullopt;
    const std::size_t first = s.operand_first(i - 1);
    if (type)
      return s.replace(first, close + 1,
          fmt::format("{}({})", *type, s.is(first, "(") ? s.slice(first + 1, i - 1) : s.slice(first, i)));
  }
  for (std::size_t i = s.equals + 1; i + 3 < s.size(); ++i) {
    if (s.is(i + 1, "<") && s.is(i + 3, ">") && s.is(i + 4, "(") && (s.is(i, "static_cast") || s.is(i, "cast")) &&
        type_in(s, i + 2, i + 3))
      return s.replace(i, i + 4, *type_in(s, i + 2, i + 3));
    const auto parts =
        s.is(i, "cast") && s.is(i + 1, "(") ? s.list(i + 1) : std::vector<Range>();
    if (parts.size() == 2 && type_in(s, parts[1].first, parts[1].second))
      return s.replace(i, s.closing(i + 1) + 1,
          fmt::format(
              "{}({})", *type_in(s, parts[1].first, parts[1].second), s.slice(parts[0].first, parts[0].second)));
    if (s.is(i + 1, "(") && s.word(i) && !dtype_named(s[i]) && !s.is(i - 1, ".") && type_in(s, i, i + 1))
      return s.replace(i, i + 1, *type_in(s, i, i + 1));
    if (i + 3 < s.size() && s.is(i + 3, "(") && type_in(s, i, i + 3)) return s.replace(i, i + 3, *type_in(s, i, i + 3));
  }
  return false;
}

}  // namespace

bool casts(Draft& s) {
  if (calls_that_cast(s)) return true;
  for (std::size_t i = s.equals + 1; i + 3 < s.size(); ++i) {
    if (!s.is(i, "(") || !s.word(i + 1) || !s.is(i + 2, ")") || (i > 0 && s.ends_operand(i - 1)) || s.shape(s[i + 1]))
      continue;
    const std::optional<std::string> type = type_called(s[i + 1]);
    const bool operand =
        s.word(i + 3) || is_number(s[i + 3]) || s.is(i + 3, "(") || (s.is(i + 3, "-") && dtype_named(s[i + 1]));
    const std::size_t end = s.operand_end(i + 3);
    if (!type || !operand || end > s.size()) continue;
    const bool enclosed = s.is(i + 3, "(") && s.closing(i + 3) + 1 == end;
    return s.replace(i, end, fmt::format("{}({})", *type, enclosed ? s.slice(i + 4, end - 1) : s.slice(i + 3, end)));
  }
  return false;
}

}  // namespace tilec::lang::repair
