#include "lang/repair/statement_text.h"

#include <algorithm>

#include "lang/tokens.h"

namespace tilec::lang {

StatementTexts::StatementTexts(std::string_view text) {
  const Tokens t = tokens_of(text);
  std::size_t function = 0;
  bool inside = false;
  for (std::size_t k = 0; k < t.size(); ++k) {
    if (t[k].text == "function") function = t[k].begin, inside = false;
    else if (t[k].text == "{") inside = true;
    else if (t[k].text == "}") inside = false;
    else if (inside && t[k].starts && t[k].text != ";") {
      std::size_t last = k;
      while (last + 1 < t.size() && !is_one_of(t[last].text, ";{}")) ++last;
      if (last > k && t[last].text == ";") all_.push_back({t[k].begin, t[last].end(), function}), k = last;
    }
  }
}

std::optional<StatementText> StatementTexts::at(std::size_t offset) const {
  auto behind = std::upper_bound(
      all_.begin(), all_.end(), offset, [](std::size_t place, const StatementText& s) { return place < s.begin; });
  if (behind == all_.begin() || std::prev(behind)->end <= offset) return std::nullopt;
  return *std::prev(behind);
}
std::optional<StatementText> heading_at(std::string_view text, std::size_t offset) {
  std::optional<StatementText> heading;
  for (const Token& token : tokens_of(text)) {
    const bool begins = token.text == "function" || token.text == "gradient" || token.text == "tangent";
    if (begins && token.begin > offset) return std::nullopt;
    if (begins && (!heading || heading->end != 0)) heading = StatementText{token.begin, 0, token.begin};
    if (token.text == "{" && heading && heading->end == 0) heading->end = token.begin;
    if (heading && heading->end > offset) break;
  }
  if (!heading || heading->end <= offset) return std::nullopt;
  while (heading->end > heading->begin && (text[heading->end - 1] == ' ' || text[heading->end - 1] == '\n'))
    --heading->end;
  return heading->end > offset ? heading : std::nullopt;
}

}  // namespace tilec::lang
