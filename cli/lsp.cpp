// `tilec lsp`: the Language Server Protocol 3.17 over stdin and stdout, as far as an editor of Tile asks.
//
// One message after the other; diagnostics are looked for while nothing waits to be read, a function after the other,
// so that a burst of typing costs one look and a large file delays no answer. Requests that come before that see the
// text as it is, too.
#include <fmt/core.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "cli/lsp/answers.h"
#include "cli/lsp/json.h"
#include "cli/lsp/wire.h"
#include "cli/lsp/workspace.h"
#include "cli/session.h"
#include "lang/limit.h"

namespace tilec::cli {

namespace {

using namespace lsp;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

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
  static constexpr std::chrono::milliseconds patience{500};

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
    using Answer = Json (*)(Workspace&, const Json&);
    static const std::map<std::string, Handler> handlers{{"initialize", &Server::initialize},
        {"initialized", &Server::nothing}, {"shutdown", &Server::shutdown}, {"textDocument/didOpen", &Server::did_open},
        {"textDocument/didChange", &Server::did_change}, {"textDocument/didClose", &Server::did_close},
        {"textDocument/didSave", &Server::files_changed}, {"workspace/didChangeWatchedFiles", &Server::files_changed}};
    static const std::map<std::string, Answer> requests{{"textDocument/hover", hover},
        {"textDocument/definition", definition}, {"textDocument/documentSymbol", document_symbols},
        {"textDocument/prepareRename", prepare_rename}, {"textDocument/rename", rename},
        {"textDocument/formatting", formatting}, {"textDocument/completion", completion},
        {"textDocument/codeAction", code_actions}};
    if (const auto handler = handlers.find(method); handler != handlers.end()) return (this->*handler->second)(params);
    if (const auto answer = requests.find(method); answer != requests.end()) return answer->second(workspace_, params);
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
    Document& changed = document_in(workspace_, params);
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
    const std::string uri = document_in(workspace_, params).uri;
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
      auto [uri, json] = json_of_diagnostic(workspace_, document, diagnostic, sources);
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
