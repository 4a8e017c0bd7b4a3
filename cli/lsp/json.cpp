#include "cli/lsp/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>

#include "lang/messages.h"

namespace tilec::cli::lsp {

const Json& member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto at = object.find(name);
  return at == object.end() ? none : *at;
}

std::string text_in(const Json& object, const char* name) {
  const Json& text = member(object, name);
  if (!text.is_string()) throw Refusal{invalid_params, fmt::format("`{}` is no string", name)};
  return text.get<std::string>();
}

std::size_t count_in(const Json& object, const char* name) {
  const Json& number = member(object, name);
  if (!number.is_number_integer() || (!number.is_number_unsigned() && number.get<std::int64_t>() < 0))
    throw Refusal{invalid_params, fmt::format("`{}` is no count", name)};
  return number.get<std::size_t>();
}

std::optional<std::int64_t> version_in(const Json& object) {
  const Json& version = member(object, "version");
  return version.is_number_integer() ? std::optional(version.get<std::int64_t>()) : std::nullopt;
}

Spot spot_in(const Json& position) { return {count_in(position, "line"), count_in(position, "character")}; }

namespace {

Json json_of(Spot spot) { return {{"line", spot.line}, {"character", spot.column}}; }

}  // namespace

Json range_of(const Lines& lines, lang::Span span) {
  return {{"start", json_of(lines.spot(span.begin))}, {"end", json_of(lines.spot(std::max(span.begin, span.end)))}};
}
Json markdown(const std::string& text) { return {{"kind", "markdown"}, {"value", text}}; }
Json edit_of(const Lines& lines, const Edit& edit) {
  return {{"range", range_of(lines, edit.span)}, {"newText", edit.text}};
}

namespace {

constexpr int severity_of(lang::Severity severity) {
  return severity == lang::Severity::Error ? 1 : severity == lang::Severity::Warning ? 2 : 3;
}

bool has_place(lang::Span span) { return span.begin != 0 || span.end != 0; }

// A place that no editor can show, in words: `std/softmax.tile:3:1`.
std::string in_words(const lang::Source& source, lang::Span span) {
  const lang::Position at = lang::position(source, span.begin);
  return fmt::format("{}:{}:{}", source.name, at.line, at.column);
}

// The import of the text through which a source was read.
lang::Span import_of(const Document& document, std::uint32_t source) {
  const std::function<bool(const lang::File&, std::set<const lang::File*>&)> holds =
      [&](const lang::File& file, std::set<const lang::File*>& seen) {
        for (const auto& item : file.items) {
          if (std::visit([](const auto& each) { return each.span.source; }, item) == source) return true;
          const auto* import = std::get_if<lang::Import>(&item);
          if (import != nullptr && import->file && seen.insert(import->file.get()).second &&
              holds(*import->file, seen))
            return true;
        }
        return false;
      };
  for (const auto& item : document.file->items)
    if (const auto* import = std::get_if<lang::Import>(&item); import != nullptr && import->file) {
      std::set<const lang::File*> seen;
      if (holds(*import->file, seen)) return import->span;
    }
  return {};
}

}  // namespace

std::pair<std::string, Json> json_of_diagnostic(
    const Workspace& workspace, const Document& document, const lang::Diagnostic& d, Sources& sources) {
  std::string message = d.message;
  std::string uri = document.uri;
  lang::Span span = d.span;
  const lang::Source* source = sources.source(span.source);
  if (has_place(span) && source != nullptr && span.source != 0) {
    const auto other = workspace.uri_of_source(document, *source);
    if (other) uri = *other;
    else message += fmt::format("\nnote: in {}", in_words(*source, span)), span = import_of(document, span.source);
  }
  Json related = Json::array();
  for (const lang::Label& label : d.labels) {
    const lang::Source* at = has_place(label.span) ? sources.source(label.span.source) : nullptr;
    const auto where = at ? workspace.uri_of_source(document, *at) : std::nullopt;
    if (where)
      related.push_back(
          {{"location", {{"uri", *where}, {"range", range_of(sources.lines(label.span.source), label.span)}}},
              {"message", label.text}});
    else
      message += fmt::format("\nnote: {}{}", label.text, at ? fmt::format(" ({})", in_words(*at, label.span)) : "");
  }
  for (const std::string& hint : d.hints) message += "\nhint: " + hint;
  const bool stops_early = d.code == lang::messages::limit.code;  // this far and no further while somebody types
  if (stops_early) message += "\nnote: an editor is told no more of it; `tilec check` goes further";
  Json json{{"range", range_of(sources.lines(span.source), span)},
      {"severity", stops_early ? 3 : severity_of(d.severity)}, {"code", d.code}, {"source", "tilec"},
      {"message", message}};
  if (!related.empty()) json["relatedInformation"] = related;
  return {uri, json};
}

}  // namespace tilec::cli::lsp
