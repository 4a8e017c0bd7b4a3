#include "lang/diagnostic.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace tilec::lang {

Diagnostic formatted(
    std::string_view code, Severity severity, std::string_view format, fmt::format_args arguments, Span span) {
  return Diagnostic{std::string(code), severity, fmt::vformat(format, arguments), span, {}, {}};
}

Diagnostics::Entry& Diagnostics::Entry::label(Span span, std::string text) {
  const Label label{span, std::move(text)};
  std::vector<Label>& labels = all_.all_[at_].labels;
  const bool known = std::any_of(
      labels.begin(), labels.end(), [&](const Label& l) { return l.span == label.span && l.text == label.text; });
  if (!known) labels.push_back(label);
  return *this;
}

Diagnostics::Entry& Diagnostics::Entry::hint(std::string text) {
  std::vector<std::string>& hints = all_.all_[at_].hints;
  if (std::find(hints.begin(), hints.end(), text) == hints.end()) hints.push_back(std::move(text));
  return *this;
}

Diagnostics::Entry Diagnostics::add(Diagnostic diagnostic) {
  // Without a place two messages of one code are two things to say (two missing sizes), so the text decides there.
  const Span& span = diagnostic.span;
  std::string key = fmt::format(
      "{} {} {} {} {}", diagnostic.code, span.source, span.begin, span.end, span.empty() ? diagnostic.message : "");
  const auto [known, is_new] = at_.try_emplace(std::move(key), all_.size());
  if (is_new) all_.push_back(std::move(diagnostic));
  return Entry(*this, known->second);
}

bool Diagnostics::has_errors() const {
  return std::any_of(all_.begin(), all_.end(), [](const Diagnostic& d) { return d.severity == Severity::Error; });
}

std::string are(std::size_t count) { return fmt::format("{} {}", count, count == 1 ? "is" : "are"); }

std::string counted(std::size_t count, const std::string& noun) {
  if (count == 1) return "1 " + noun;
  return fmt::format("{} {}", count, noun == "index" ? "indices" : noun + "s");
}

}  // namespace tilec::lang
