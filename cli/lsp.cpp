// `tilec lsp`: the Language Server Protocol 3.17 over stdin and stdout, as far as an editor of Tile asks.
//
// One message after the other; diagnostics are looked for while nothing waits to be read, a function after the other,
// so that a burst of typing costs one look and a large file delays no answer. Requests that come before that see the
// text as it is, too.
#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/error_pages.h"
#include "cli/lsp/features.h"
#include "cli/lsp/text.h"
#include "cli/lsp/wire.h"
#include "cli/lsp/workspace.h"
#include "cli/session.h"
#include "lang/limit.h"
#include "lang/messages.h"

namespace tilec::cli {

namespace {

using Json = nlohmann::json;
using namespace lsp;

enum Fault {
  parse_error = -32700,
  invalid_request = -32600,
  unknown_method = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  not_initialized = -32002
};
struct Refusal { Fault code; std::string why; };

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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

Json json_of(Spot spot) { return {{"line", spot.line}, {"character", spot.column}}; }
Json range_of(const Lines& lines, lang::Span span) {
  return {{"start", json_of(lines.spot(span.begin))}, {"end", json_of(lines.spot(std::max(span.begin, span.end)))}};
}
Json markdown(const std::string& text) { return {{"kind", "markdown"}, {"value", text}}; }
Json edit_of(const Lines& lines, const Edit& edit) {
  return {{"range", range_of(lines, edit.span)}, {"newText", edit.text}};
}

constexpr int severity_of(lang::Severity severity) {
  return severity == lang::Severity::Error ? 1 : severity == lang::Severity::Warning ? 2 : 3;
}

bool has_place(lang::Span span) { return span.begin != 0 || span.end != 0; }

// The lines of each source, found once.
class Sources {
 public:
  explicit Sources(const std::vector<lang::Source>& sources) : sources_(sources) {}
  const Lines& lines(std::uint32_t number) {
    const auto [at, is_new] = lines_.try_emplace(number, nullptr);
    if (is_new)
      at->second = std::make_unique<Lines>(
          number < sources_.size() ? std::string_view(sources_[number].text) : std::string_view());
    return *at->second;
  }
  const lang::Source* source(std::uint32_t number) const {
    return number < sources_.size() ? &sources_[number] : nullptr;
  }

 private:
  const std::vector<lang::Source>& sources_;
  std::map<std::uint32_t, std::unique_ptr<Lines>> lines_;
};

class Server {
 public:
  Server(std::vector<std::string> include, Wire& wire) : workspace_(std::move(include)), wire_(wire) {}

  int run() {
    while (!ended_ && heard_) {
      if (!outdated_.empty() && wire_.waits(calm_milliseconds)) publish_all([&] { return wire_.waits(0); });
      else if (!outdated_.empty() && Clock::now() - outdated_since_ > patience) publish_all(for_a_while());
      const Incoming message = wire_.read();
      if (message.kind == Incoming::Kind::End) break;
      if (message.kind == Incoming::Kind::Refused) refuse(nullptr, parse_error, message.text);
      else take(message.text);
    }
    return shut_down_ ? success : program_error;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int calm_milliseconds = 30;
  static constexpr std::chrono::milliseconds patience{500}, while_somebody_waits{300};

  Workspace workspace_;
  Wire& wire_;
  bool initialized_ = false, shut_down_ = false, ended_ = false, heard_ = true;
  std::set<std::string> outdated_;                     // documents whose diagnostics are to be looked for
  Clock::time_point outdated_since_;
  std::map<std::string, std::map<std::string, Json>> said_;  // by the URI they are of, then by the document that they
                                                             // were found from

  void send(const Json& json) { heard_ = wire_.write(dumped(json)) && heard_; }
  void refuse(const Json& id, Fault code, const std::string& why) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", static_cast<int>(code)}, {"message", why}}}});
  }
  void notify(const char* method, const Json& params) {
    send({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
  }

  void take(const std::string& text) {
    Json message;
    try {
      message = Json::parse(text);
    } catch (const Json::exception& fault) {
      return refuse(nullptr, parse_error, fault.what());
    }
    const Json& id = member(message, "id");
    const bool answers = id.is_string() || id.is_number();
    const Json& method = member(message, "method");
    if (!method.is_string()) {
      const bool is_response = answers && (message.contains("result") || message.contains("error"));
      if (!is_response) refuse(answers ? id : Json(), invalid_request, "a message without a method");
      return;
    }
    try {
      const Json result = answered(method.get<std::string>(), member(message, "params"), answers);
      if (answers) send({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
    } catch (const Refusal& refusal) {
      if (answers) refuse(id, refusal.code, refusal.why);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& fault) {              // our bug; the texts are still at hand
      if (answers) refuse(id, internal_error, fault.what());
    }
  }

  Json answered(const std::string& method, const Json& params, bool answers) {
    if (method == "exit") return ended_ = true, Json();
    if (!initialized_ && method != "initialize") throw Refusal{not_initialized, "`initialize` comes first"};
    if (shut_down_) throw Refusal{invalid_request, "after `shutdown` only `exit` comes"};
    using Handler = Json (Server::*)(const Json&);
    static const std::map<std::string, Handler> handlers{{"initialize", &Server::initialize},
        {"initialized", &Server::nothing}, {"shutdown", &Server::shutdown}, {"textDocument/didOpen", &Server::did_open},
        {"textDocument/didChange", &Server::did_change}, {"textDocument/didClose", &Server::did_close},
        {"textDocument/didSave", &Server::files_changed}, {"workspace/didChangeWatchedFiles", &Server::files_changed},
        {"textDocument/hover", &Server::hover}, {"textDocument/definition", &Server::definition},
        {"textDocument/documentSymbol", &Server::document_symbols},
        {"textDocument/prepareRename", &Server::prepare_rename}, {"textDocument/rename", &Server::rename},
        {"textDocument/formatting", &Server::formatting}, {"textDocument/completion", &Server::completion},
        {"textDocument/codeAction", &Server::code_actions}};
    const auto handler = handlers.find(method);
    if (handler != handlers.end()) return (this->*handler->second)(params);
    if (answers) throw Refusal{unknown_method, fmt::format("`{}` is not known here", method)};
    return {};
  }

  Json nothing(const Json&) { return {}; }

  Json initialize(const Json&) {
    if (initialized_) throw Refusal{invalid_request, "`initialize` comes once"};
    initialized_ = true;
    return {{"serverInfo", {{"name", "tilec"}, {"version", TILEC_VERSION}}},
        {"capabilities",
            {{"positionEncoding", "utf-16"}, {"textDocumentSync", {{"openClose", true}, {"change", 1}, {"save", true}}},
                {"hoverProvider", true}, {"definitionProvider", true}, {"documentSymbolProvider", true},
                {"documentFormattingProvider", true}, {"renameProvider", {{"prepareProvider", true}}},
                {"completionProvider", {{"triggerCharacters", {"[", "\"", "/", "(", "+", "."}}}},
                {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}}}}};
  }

  Json shutdown(const Json&) {
    publish_all(for_a_while(patience));                  // of what came in the same burst
    shut_down_ = true;
    return {};
  }

  Document& document(const Json& params) {
    const std::string uri = text_in(member(params, "textDocument"), "uri");
    Document* found = workspace_.find(uri);
    if (found == nullptr) throw Refusal{invalid_params, fmt::format("`{}` is not open", uri)};
    return *found;
  }

  struct Place { Document& document; std::size_t offset; };
  Place place(const Json& params) {
    Document& found = document(params);
    return {found, Lines(found.text).offset(spot_in(member(params, "position")))};
  }

  // All that are no longer as they were looked at.
  void outdate() {
    if (outdated_.empty()) outdated_since_ = Clock::now();
    for (const auto& [uri, document] : workspace_.documents())
      if (!document.checked) outdated_.insert(uri);
  }

  Json did_open(const Json& params) {
    const Json& item = member(params, "textDocument");
    workspace_.open(text_in(item, "uri"), text_in(item, "text"), version_in(item));
    outdate();
    return {};
  }

  Json did_change(const Json& params) {
    Document& changed = document(params);
    std::string text = changed.text;
    const Json& changes = member(params, "contentChanges");
    if (!changes.is_array()) throw Refusal{invalid_params, "`contentChanges` is no list"};
    for (const Json& change : changes) {
      std::string with = text_in(change, "text");
      const Json& range = member(change, "range");
      if (range.is_null()) {
        text = std::move(with);
        continue;
      }
      const Lines lines(text);                           // a client that sends parts
      const std::size_t begin = lines.offset(spot_in(member(range, "start"))),
                        end = std::max(begin, lines.offset(spot_in(member(range, "end"))));
      text = text.substr(0, begin) + with + text.substr(end);
    }
    workspace_.change(changed, std::move(text), version_in(member(params, "textDocument")));
    outdate();
    return {};
  }

  Json did_close(const Json& params) {
    const std::string uri = document(params).uri;
    workspace_.close(uri);
    outdated_.erase(uri);
    replace(uri, {});
    outdate();
    return {};
  }

  Json files_changed(const Json&) {
    workspace_.forget_files();
    outdate();
    return {};
  }

  // Diagnostics.

  using GoesOn = std::function<bool()>;
  static GoesOn for_a_while(Clock::duration time = while_somebody_waits) {
    return [end = Clock::now() + time] { return Clock::now() < end; };
  }

  void publish_all(const GoesOn& goes_on) {
    outdated_since_ = Clock::now();
    const std::set<std::string> uris = outdated_;
    for (const std::string& uri : uris) {
      Document* document = workspace_.find(uri);
      if (document != nullptr && !publish(*document, goes_on)) return;
      outdated_.erase(uri);
    }
  }

  // False when there was no time for all of it: nothing is said yet.
  bool publish(Document& document, const GoesOn& goes_on) {
    std::map<std::string, Json> found;
    found[document.uri] = Json::array();
    try {
      if (!workspace_.check(document, goes_on).checked) return false;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& fault) {
      found[document.uri].push_back({{"range", range_of(Lines(""), {})}, {"severity", 1}, {"source", "tilec"},
          {"message", fmt::format("internal error: {}. This is our bug; please send the file.", fault.what())}});
    }
    Sources sources(document.sources);
    for (const lang::Diagnostic& diagnostic : document.diagnostics.all()) {
      if (diagnostic.severity == lang::Severity::Remark) continue;
      auto [uri, json] = json_of_diagnostic(document, diagnostic, sources);
      Json& list = found[uri];
      if (list.is_null()) list = Json::array();
      list.push_back(std::move(json));
    }
    if (document.text.size() > largest_document)
      found[document.uri].push_back({{"range", range_of(Lines(""), {})}, {"severity", 3}, {"source", "tilec"},
          {"message",
              fmt::format(
                  "editors are told of texts of up to {} MiB; `tilec check` reads this one", largest_document >> 20)}});
    replace(document.uri, std::move(found));
    return true;
  }

  // What a document's look found takes the place of what its last one found, in other files too.
  void replace(const std::string& from, std::map<std::string, Json> found) {
    std::set<std::string> touched;
    for (auto& [uri, by] : said_)
      if (by.erase(from) > 0) touched.insert(uri);
    for (auto& [uri, list] : found) {
      touched.insert(uri);
      said_[uri][from] = std::move(list);
    }
    for (const std::string& uri : touched) {
      Json all = Json::array();
      for (const auto& [by, list] : said_[uri])
        for (const Json& each : list)
          if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
      if (said_[uri].empty()) said_.erase(uri);
      Json params{{"uri", uri}, {"diagnostics", std::move(all)}};
      if (const Document* open = workspace_.find(uri); open != nullptr && open->version)
        params["version"] = *open->version;
      notify("textDocument/publishDiagnostics", params);
    }
  }

  // A place that no editor can show, in words: `std/softmax.tile:3:1`.
  static std::string in_words(const lang::Source& source, lang::Span span) {
    const lang::Position at = lang::position(source, span.begin);
    return fmt::format("{}:{}:{}", source.name, at.line, at.column);
  }

  // The import of the text through which a source was read.
  static lang::Span import_of(const Document& document, std::uint32_t source) {
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

  std::pair<std::string, Json> json_of_diagnostic(
      const Document& document, const lang::Diagnostic& d, Sources& sources) {
    std::string message = d.message;
    std::string uri = document.uri;
    lang::Span span = d.span;
    const lang::Source* source = sources.source(span.source);
    if (has_place(span) && source != nullptr && span.source != 0) {
      const auto other = workspace_.uri_of_source(document, *source);
      if (other) uri = *other;
      else message += fmt::format("\nnote: in {}", in_words(*source, span)), span = import_of(document, span.source);
    }
    Json related = Json::array();
    for (const lang::Label& label : d.labels) {
      const lang::Source* at = has_place(label.span) ? sources.source(label.span.source) : nullptr;
      const auto where = at ? workspace_.uri_of_source(document, *at) : std::nullopt;
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

  // Answers.

  Json hover(const Json& params) {
    const auto [document, offset] = place(params);
    workspace_.check(document, for_a_while());
    workspace_.build_at(document, offset);
    const auto found = lsp::hover(document, offset);
    if (!found) return {};
    return {{"contents", markdown(found->text)}, {"range", range_of(Lines(document.text), found->span)}};
  }

  Json definition(const Json& params) {
    const auto [document, offset] = place(params);
    workspace_.read(document);
    const Definitions found = definitions(document, offset);
    Sources sources(found.sources);
    Json all = Json::array();
    for (const lang::Span& span : found.spans)
      if (const lang::Source* source = sources.source(span.source))
        if (const auto uri = workspace_.uri_of_source(document, *source))
          all.push_back({{"uri", *uri}, {"range", range_of(sources.lines(span.source), span)}});
    return all.empty() ? Json() : all;
  }

  Json prepare_rename(const Json& params) {
    const auto [document, offset] = place(params);
    workspace_.read(document);
    const auto named = renamable(document, offset);
    if (!named) return {};
    return {{"range", range_of(Lines(document.text), named->span)},
        {"placeholder", document.text.substr(named->span.begin, named->span.end - named->span.begin)}};
  }

  // In the texts that are open and in what they import. A file that is neither is not known to mention anything.
  Json rename(const Json& params) {
    const auto [document, offset] = place(params);
    const std::string name = text_in(params, "newName");
    workspace_.read(document);
    const auto named = renamable(document, offset);
    if (!named) throw Refusal{invalid_params, "here stands no name that could be another"};
    if (const std::string why = taken(document, offset, name); !why.empty()) throw Refusal{invalid_params, why};
    std::map<std::string, std::map<std::size_t, Json>> edits;  // by URI and place: several texts import one
    for (auto& [uri, open] : workspace_.documents()) {
      workspace_.read(open);
      Sources sources(open.tree_sources());
      for (const lang::Span& span : mentions_of(open, named->meaning)) {
        const lang::Source& source = *sources.source(span.source);
        const auto where = workspace_.uri_of_source(open, source);
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

  static Json json_of_symbols(const std::vector<Symbol>& symbols, const Lines& lines) {
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

  Json document_symbols(const Json& params) {
    Document& asked = document(params);
    workspace_.read(asked);
    return json_of_symbols(symbols(asked), Lines(asked.text));
  }

  Json formatting(const Json& params) {
    const Document& asked = document(params);
    const auto text = formatted(asked);
    if (!text || *text == asked.text) return text ? Json::array() : Json();
    return Json::array({edit_of(Lines(asked.text), {{0, static_cast<std::uint32_t>(asked.text.size()), 0}, *text})});
  }

  Json completion(const Json& params) {
    // variable, constant, variable, function, type parameter, operator, property, keyword, file, constant
    constexpr int kinds[] = {6, 21, 6, 3, 25, 24, 10, 14, 17, 21};
    const auto [document, offset] = place(params);
    workspace_.read(document);
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

  Json code_actions(const Json& params) {
    Document& asked = document(params);
    const Json& range = member(params, "range");
    const Lines lines(asked.text);
    const std::size_t begin = lines.offset(spot_in(member(range, "start"))),
                      end = lines.offset(spot_in(member(range, "end")));
    workspace_.check(asked, for_a_while());
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
            {"diagnostics", Json::array({json_of_diagnostic(asked, d, sources).second})},
            {"edit", {{"changes", {{asked.uri, std::move(edits)}}}}}});
      }
    }
    return all;
  }
};

// What `tilec check` takes seconds to find beyond its limits, an editor is not told: a tenth is enough while somebody
// types.
void lower_limits() {
  ::setenv("TILEC_LIMIT_CALLS", "20000", 0);
  ::setenv("TILEC_LIMIT_STATEMENTS", "10000", 0);
  ::setenv("TILEC_LIMIT_OPERATIONS", "100000", 0);
}

}  // namespace

int lsp_command(const Options& options) {
  if (!options.words.empty())
    throw UsageError{fmt::format("`{}` is one word too many: `tilec lsp` takes none", options.words[0]),
        "an editor starts it and says which texts are open"};
  std::signal(SIGPIPE, SIG_IGN);
  lower_limits();
  Wire wire(0, 1);
  return Server(options.include, wire).run();
}

}  // namespace tilec::cli
