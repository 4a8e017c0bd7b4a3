#include "lang/render.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace tilec::lang {
namespace {

constexpr std::string_view plain = "\033[0m", bold = "\033[1m", red = "\033[1;31m", yellow = "\033[1;33m",
                           cyan = "\033[1;36m", blue = "\033[34m";

std::string_view word(Severity severity) {
  return severity == Severity::Error ? "error" : severity == Severity::Warning ? "warning" : "remark";
}

// A span on the one line it is shown on: the first it touches.
struct Place { const Source* source; Position begin, end; std::string_view text; };

// Places in the sources, whose lines are found once: of many diagnostics each would look through the text.
class Places {
 public:
  explicit Places(const std::vector<Source>& sources) : sources_(sources), starts_(sources.size()) {}

  std::optional<Place> operator()(Span span) {
    if (span.source >= sources_.size() || (span.begin == 0 && span.end == 0)) return std::nullopt;
    const Source& source = sources_[span.source];
    const Position begin = position(span.source, span.begin),
                   end = position(span.source, std::max(span.begin, span.end));
    return Place{&source, begin, end, line(span.source, begin.line)};
  }

 private:
  const std::vector<Source>& sources_;
  std::vector<std::vector<std::size_t>> starts_;       // of the lines of each, once asked for

  const std::vector<std::size_t>& starts(std::size_t number) {
    std::vector<std::size_t>& starts = starts_[number];
    if (!starts.empty()) return starts;
    const std::string& text = sources_[number].text;
    starts.push_back(0);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1))
      starts.push_back(end + 1);
    return starts;
  }

  std::string_view line(std::size_t number, int which) {
    std::string_view rest =
        std::string_view(sources_[number].text).substr(starts(number)[static_cast<std::size_t>(which) - 1]);
    rest = rest.substr(0, rest.find('\n'));
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    return rest;
  }

  Position position(std::size_t number, std::size_t offset) {
    const std::vector<std::size_t>& starts = this->starts(number);
    const std::size_t at = std::min(offset, sources_[number].text.size());
    const auto next = std::upper_bound(starts.begin(), starts.end(), at);
    return {static_cast<int>(next - starts.begin()), static_cast<int>(at - *std::prev(next)) + 1};
  }
};

// Text of a program may hold bytes that are no UTF-8; JSON may not, and who reads a pipe expects none.
std::string utf8(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1
        : lead >= 0xC2 && lead < 0xE0      ? 2
        : lead >= 0xE0 && lead < 0xF0      ? 3
        : lead >= 0xF0 && lead < 0xF5      ? 4
                                           : 0;
    bool good = length > 0 && i + length <= text.size();
    for (std::size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
    if (good) out += text.substr(i, length);
    else out += "\xEF\xBF\xBD";
    i += good ? length : 1;
  }
  return out;
}

// Columns count bytes; the picture under a line must count what a terminal shows: tabs stay tabs, continuation bytes
// have no width.
std::string indentation(std::string_view text, int column) {
  std::string out;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(column) && i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) out += text[i] == '\t' ? '\t' : ' ';
  return out;
}

int width(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Control characters of a program's text must not reach a terminal, and of a name without end its two ends do.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 4000;
  const auto whole = [&](std::size_t at) {               // no character is cut
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    return at;
  };
  if (text.size() > most)
    return shown(text.substr(0, whole(most / 2))) + " … " + shown(text.substr(whole(text.size() - most / 4)));
  std::string out;
  for (const char c : text) out += (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F ? '?' : c;
  return out;
}

class Writer {
 public:
  Writer(const std::vector<Source>& sources, bool color) : places_(sources), color_(color) {}

  void write(const Diagnostic& d) {
    const std::optional<Place> at = places_(d.span);
    if (at) out_ += paint(bold, fmt::format("{}:{}:{}: ", at->source->name, at->begin.line, at->begin.column));
    const std::string_view tone = d.severity == Severity::Error ? red : d.severity == Severity::Warning ? yellow : cyan;
    out_ += paint(tone, fmt::format("{}[{}]: ", word(d.severity), d.code)) + paint(bold, shown(d.message)) + '\n';
    gutter_ = at ? digits(at->begin.line) : 1;
    for (const Label& label : d.labels)
      if (const auto p = places_(label.span)) gutter_ = std::max(gutter_, digits(p->begin.line));
    if (at) excerpt(*at, '^', tone, "");
    for (const Label& label : d.labels) {
      const std::optional<Place> p = places_(label.span);
      if (!p) out_ += fmt::format("note: {}\n", shown(label.text));
      else
        excerpt(*p, '-', blue,
            label.span.source == d.span.source || d.span.empty() ? label.text
                                                                 : fmt::format("{} ({})", label.text, p->source->name));
    }
    for (const std::string& hint : d.hints) out_ += paint(cyan, "hint: ") + shown(hint) + '\n';
  }

  std::string take() { return std::move(out_); }

 private:
  Places places_;
  bool color_;
  std::string out_;
  int gutter_ = 1;

  static int digits(int number) { return static_cast<int>(std::to_string(number).size()); }
  std::string paint(std::string_view tone, std::string text) const {
    return color_ ? fmt::format("{}{}{}", tone, text, plain) : text;
  }

  // Of a very long line, the part around the place.
  static Place window(Place p) {
    constexpr std::size_t room = 120;
    const auto column = std::min(static_cast<std::size_t>(p.begin.column - 1), p.text.size());
    if (p.text.size() <= 2 * room) return p;
    const auto character = [&](std::size_t at) {          // where the one that byte `at` is of begins
      while (at > 0 && at < p.text.size() && (static_cast<unsigned char>(p.text[at]) & 0xC0) == 0x80) --at;
      return at;
    };
    const std::size_t from = character(column > room ? column - room : 0),
                      to = character(std::min(from + 2 * room, p.text.size()));
    p.text = p.text.substr(from, to - from);
    p.begin.column -= static_cast<int>(from);
    if (p.end.line == p.begin.line) p.end.column -= static_cast<int>(from);
    return p;
  }

  void excerpt(const Place& whole, char mark, std::string_view tone, const std::string& text) {
    const Place p = window(whole);
    const auto first = std::min(static_cast<std::size_t>(p.begin.column - 1), p.text.size());
    const std::size_t last = p.end.line == p.begin.line ? static_cast<std::size_t>(p.end.column - 1) : p.text.size();
    const int marks = std::max(1, width(p.text.substr(first, std::min(last, p.text.size()) - first)));
    const std::string under = indentation(p.text, p.begin.column) +
        paint(tone, std::string(static_cast<std::size_t>(marks), mark) + (text.empty() ? "" : " " + shown(text)));
    out_ +=
        fmt::format("  {:>{}} | {}\n  {:>{}} | {}\n", p.begin.line, gutter_, shown(utf8(p.text)), "", gutter_, under);
  }
};

}  // namespace

std::string in_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : utf8(text)) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else out += c;
  }
  return out + '"';
}

namespace {

std::string where(Span span, Places& places) {
  const std::optional<Place> p = places(span);
  if (!p) return R"("file": null)";
  return fmt::format(R"("file": {}, "line": {}, "column": {}, "end_line": {}, "end_column": {})",
      in_json(p->source->name), p->begin.line, p->begin.column, p->end.line, p->end.column);
}

std::string json_line(const Diagnostic& d, Places& places) {
  std::string labels, hints;
  for (const Label& label : d.labels)
    labels += fmt::format(
        R"({}{{{}, "message": {}}})", labels.empty() ? "" : ", ", where(label.span, places), in_json(label.text));
  for (const std::string& hint : d.hints) hints += (hints.empty() ? "" : ", ") + in_json(hint);
  return fmt::format(R"({{{}, "severity": "{}", "code": "{}", "message": {}, "labels": [{}], "hints": [{}]}})",
             where(d.span, places), word(d.severity), d.code, in_json(d.message), labels, hints) +
      '\n';
}

}  // namespace

std::string render(const Diagnostics& diagnostics, const std::vector<Source>& sources, RenderOptions options) {
  if (options.json) {
    std::string out;
    Places places(sources);
    for (const Diagnostic& d : diagnostics.all()) out += json_line(d, places);
    return out;
  }
  Writer writer(sources, options.color);
  for (const Diagnostic& d : diagnostics.all()) writer.write(d);
  return writer.take();
}

}  // namespace tilec::lang
