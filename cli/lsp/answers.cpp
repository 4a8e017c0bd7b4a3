#include "cli/lsp/answers.h"

#include <fmt/core.h>

#include <map>

#include "cli/lsp/completion.h"
#include "cli/lsp/features.h"
#include "cli/lsp/renaming.h"

namespace tilec::cli::lsp {

GoesOn for_a_while(std::chrono::steady_clock::duration time) {
  return [end = std::chrono::steady_clock::now() + time] { return std::chrono::steady_clock::now() < end; };
}

Document& document_in(Workspace& workspace, const Json& params) {
  const std::string uri = text_in(member(params, "textDocument"), "uri");
  Document* found = workspace.find(uri);
  if (found == nullptr) throw Refusal{invalid_params, fmt::format("`{}` is not open", uri)};
  return *found;
}

namespace {

struct Place { Document& document; std::size_t offset; };
Place place_in(Workspace& workspace, const Json& params) {
  Document& found = document_in(workspace, params);
  return {found, Lines(found.text).offset(spot_in(member(params, "position")))};
}

Json json_of_symbols(const std::vector<Symbol>& symbols, const Lines& lines) {
  constexpr int kinds[] = {12, 13, 14, 13, 2};           // function, variable, constant, variable, module
  Json all = Json::array();
  for (const Symbol& symbol : symbols) {
    Json one{{"name", symbol.name}, {"detail", symbol.detail}, {"kind", kinds[static_cast<int>(symbol.kind)]},
        {"range", range_of(lines, symbol.whole)}, {"selectionRange", range_of(lines, symbol.head)}};
    if (!symbol.children.empty()) one["children"] = json_of_symbols(symbol.children, lines);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

Json hover(Workspace& workspace, const Json& params) {
  const auto [document, offset] = place_in(workspace, params);
  workspace.check(document, for_a_while());
  workspace.build_at(document, offset);
  const auto found = lsp::hover(document, offset);
  if (!found) return {};
  return {{"contents", markdown(found->text)}, {"range", range_of(Lines(document.text), found->span)}};
}

Json definition(Workspace& workspace, const Json& params) {
  const auto [document, offset] = place_in(workspace, params);
  workspace.read(document);
  const Definitions found = definitions(document, offset);
  Sources sources(found.sources);
  Json all = Json::array();
  for (const lang::Span& span : found.spans)
    if (const lang::Source* source = sources.source(span.source))
      if (const auto uri = workspace.uri_of_source(document, *source))
        all.push_back({{"uri", *uri}, {"range", range_of(sources.lines(span.source), span)}});
  return all.empty() ? Json() : all;
}

Json prepare_rename(Workspace& workspace, const Json& params) {
  const auto [document, offset] = place_in(workspace, params);
  workspace.read(document);
  const auto named = renamable(document, offset);
  if (!named) return {};
  return {{"range", range_of(Lines(document.text), named->span)},
      {"placeholder", document.text.substr(named->span.begin, named->span.end - named->span.begin)}};
}

// In the texts that are open and in what they import. A file that is neither is not known to mention anything.
Json rename(Workspace& workspace, const Json& params) {
  const auto [document, offset] = place_in(workspace, params);
  const std::string name = text_in(params, "newName");
  workspace.read(document);
  const auto named = renamable(document, offset);
  if (!named) throw Refusal{invalid_params, "here stands no name that could be another"};
  if (const std::string why = taken(document, offset, name); !why.empty()) throw Refusal{invalid_params, why};
  std::map<std::string, std::map<std::size_t, Json>> edits;  // by URI and place: several texts import one
  for (auto& [uri, open] : workspace.documents()) {
    workspace.read(open);
    Sources sources(open.tree_sources());
    for (const lang::Span& span : mentions_of(open, named->meaning)) {
      const lang::Source& source = *sources.source(span.source);
      const auto where = workspace.uri_of_source(open, source);
      if (!where)
        throw Refusal{invalid_params, fmt::format("{} is a part of the library, which stays as it is", source.name)};
      edits[*where][span.begin] = edit_of(sources.lines(span.source), {span, name});
    }
  }
  Json changes = Json::object();
  for (auto& [uri, all] : edits)
    for (auto& [at, edit] : all) changes[uri].push_back(std::move(edit));
  return {{"changes", std::move(changes)}};
}

Json document_symbols(Workspace& workspace, const Json& params) {
  Document& asked = document_in(workspace, params);
  workspace.read(asked);
  return json_of_symbols(symbols(asked), Lines(asked.text));
}

Json formatting(Workspace& workspace, const Json& params) {
  const Document& asked = document_in(workspace, params);
  const auto text = formatted(asked);
  if (!text || *text == asked.text) return text ? Json::array() : Json();
  return Json::array({edit_of(Lines(asked.text), {{0, static_cast<std::uint32_t>(asked.text.size()), 0}, *text})});
}

Json completion(Workspace& workspace, const Json& params) {
  // variable, constant, variable, function, type parameter, operator, property, keyword, file, constant
  constexpr int kinds[] = {6, 21, 6, 3, 25, 24, 10, 14, 17, 21};
  const auto [document, offset] = place_in(workspace, params);
  workspace.read(document);
  const Completions found = completions(document, offset);
  const Lines lines(document.text);
  const Json range = range_of(lines, found.replaced);
  Json items = Json::array();
  for (const Completion& each : found.items) {
    Json item{{"label", each.name}, {"kind", kinds[static_cast<int>(each.kind)]},
        {"sortText", fmt::format("{}{:04}", each.also ? 1 : 0, items.size())},
        {"textEdit", {{"range", range}, {"newText", each.name}}}};
    if (!each.detail.empty()) item["detail"] = each.detail;
    if (!each.help.empty()) item["documentation"] = markdown(each.help);
    if (each.also) item["additionalTextEdits"] = Json::array({edit_of(lines, *each.also)});
    items.push_back(std::move(item));
  }
  return {{"isIncomplete", false}, {"items", std::move(items)}};
}

Json code_actions(Workspace& workspace, const Json& params) {
  Document& asked = document_in(workspace, params);
  const Json& range = member(params, "range");
  const Lines lines(asked.text);
  const std::size_t begin = lines.offset(spot_in(member(range, "start"))),
                    end = lines.offset(spot_in(member(range, "end")));
  workspace.check(asked, for_a_while());
  Sources sources(asked.sources);
  Json all = Json::array();
  for (const lang::Diagnostic& d : asked.diagnostics.all()) {
    if (d.severity == lang::Severity::Remark || d.span.source != 0 || d.span.begin > end || d.span.end < begin)
      continue;
    for (const std::string& hint : d.hints) {
      Json edits = Json::array();
      for (const Edit& edit : edits_of(asked.text, d, hint)) edits.push_back(edit_of(lines, edit));
      if (edits.empty()) continue;
      all.push_back({{"title", hint}, {"kind", "quickfix"},
          {"diagnostics", Json::array({json_of_diagnostic(workspace, asked, d, sources).second})},
          {"edit", {{"changes", {{asked.uri, std::move(edits)}}}}}});
    }
  }
  return all;
}

}  // namespace tilec::cli::lsp
