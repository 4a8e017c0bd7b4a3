#include "codegen/plan_text.h"

#include <algorithm>

namespace tilec::codegen {

std::vector<std::string> PlanLine::list() {
  std::vector<std::string> found;
  while (more() && !words_[at_].first) found.push_back(next());
  return found;
}

lang::Span PlanLine::here() const { return more() ? words_[at_].span : words_.back().span; }
lang::Span PlanLine::span() const {
  return {words_.front().span.begin, words_.back().span.end, words_.front().span.source};
}

namespace {

// `begin`: where the line starts in its text.
std::vector<PlanWord> words_of(const std::string& line, std::size_t begin, std::uint32_t source) {
  constexpr const char* blanks = " \t\r";
  std::vector<PlanWord> words;
  std::size_t end = 0;
  const auto next = [&] { return line.find_first_not_of(blanks, end); };
  for (std::size_t at = next(); at != std::string::npos; at = next()) {
    const bool first = words.empty() || at != end + 1;
    end = std::min(line.find_first_of(blanks, at), line.size());
    words.push_back({line.substr(at, end - at),
        {static_cast<std::uint32_t>(begin + at), static_cast<std::uint32_t>(begin + end), source}, first});
  }
  return words;
}

}  // namespace

std::vector<PlanLine> lines_of(const std::string& text, std::uint32_t source) {
  std::vector<PlanLine> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    std::vector<PlanWord> words = words_of(line.substr(0, line.find("//")), at, source);
    if (!words.empty()) lines.emplace_back(std::move(words));
    at = end + 1;
  }
  return lines;
}

std::optional<PlanParts> parts_of(const PlanText& plan, PlanFault& fault) {
  PlanParts parts;
  std::vector<std::string> begun;
  std::optional<PlanText>* part = &parts.function;
  for (std::size_t at = 0; at < plan.text.size();) {
    const std::size_t end = std::min(plan.text.find('\n', at), plan.text.size());
    const std::string line = plan.text.substr(at, end - at);
    const std::vector<PlanWord> words = words_of(line.substr(0, line.find("//")), at, plan.source);
    if (!words.empty() && begun.empty() && !parts.function)
      parts.first = {words.front().span.begin, words.back().span.end, plan.source};
    if (words.size() == 1 && (words[0].text == "forward" || words[0].text == "backward")) {
      if (std::ranges::count(begun, words[0].text) > 0) {
        fault = {words[0].span, "this part of the plan has begun before"};
        return std::nullopt;
      }
      begun.push_back(words[0].text);
      part = words[0].text == "forward" ? &parts.forward : &parts.backward;
      *part = PlanText{"", plan.source};
    } else if (!words.empty()) {
      if (!*part) *part = PlanText{"", plan.source};
      (*part)->text.resize(at, ' ');                   // what is of other parts
      (*part)->text += line + "\n";
    }
    at = end + 1;
  }
  return parts;
}

std::optional<std::int64_t> number_in(std::string text) {
  if (!text.empty() && text.back() == ',') text.pop_back();
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoll(text);
}

}  // namespace tilec::codegen
