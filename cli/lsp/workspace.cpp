#include "cli/lsp/workspace.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/check.h"
#include "cli/lsp/text.h"
#include "codegen/request.h"
#include "lang/messages.h"
#include "lang/pack.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/find.h"
#include "runtime/standard_library.h"
#include "runtime/device.h"

namespace tilec::cli::lsp {
namespace {

namespace fs = std::filesystem;

std::string name_of_uri(const std::string& uri) {
  const std::optional<std::string> path = path_of(uri);
  return path ? runtime::name_of_file(*path) : uri;
}

std::string key(const lang::Function& function) { return function.name ? function.name->spelled() : ""; }

}  // namespace

const poly::Program* Document::program_of(const lang::Function& function) const {
  // of packs, it would show the ranks that `check` tries
  if (function.role != lang::Function::Role::Function || !lang::packs_of(function).empty()) return nullptr;
  const auto at = programs.find(key(function));
  return at == programs.end() ? nullptr : &at->second;
}

Workspace::Workspace(std::vector<std::string> include) {
  finder_ = [this, include, on_disk = runtime::find_in(include)](
                const std::string& path, const std::string& importer) -> lang::Found {
    lang::Found found = on_disk(path, importer);
    const auto open = [&](const std::string& name) {
      const auto at = std::ranges::find_if(documents_, [&](const auto& each) { return each.second.name == name; });
      return at == documents_.end() ? nullptr : &at->second;
    };
    if (found.source) {
      if (const Document* document = open(found.source->name)) found.source->text = document->text;
      return found;
    }
    // A file that only the editor has yet.
    std::vector<fs::path> folders{fs::path(importer).parent_path()};
    for (const std::string& folder : include) folders.emplace_back(folder);
    for (const fs::path& folder : folders)
      if (const Document* document = open(runtime::name_of_file((folder / path).string())))
        return {lang::Source{document->name, document->text}, {}};
    return found;
  };
}

Document& Workspace::open(const std::string& uri, std::string text, std::optional<std::int64_t> version) {
  Document& document = documents_[uri];
  document.uri = uri;
  document.name = name_of_uri(uri);
  change(document, std::move(text), version);
  return document;
}

void Workspace::change(Document& document, std::string text, std::optional<std::int64_t> version) {
  document.text = runtime::without_byte_order_mark(std::move(text));
  document.version = version;
  outdate(document.name);
}

void Workspace::close(const std::string& uri) {
  const auto at = documents_.find(uri);
  if (at == documents_.end()) return;
  const std::string name = at->second.name;
  documents_.erase(at);
  outdate(name);
}

Document* Workspace::find(const std::string& uri) {
  const auto at = documents_.find(uri);
  return at == documents_.end() ? nullptr : &at->second;
}

void Workspace::outdate(const std::string& name) {
  for (auto& [uri, document] : documents_) {
    const auto is_it = [&](const lang::Source& source) { return source.name == name; };
    const bool misses = std::ranges::any_of(document.diagnostics.all(),
        [](const lang::Diagnostic& d) { return d.code == lang::messages::import_missing.code; });
    if (document.name == name || misses || std::ranges::any_of(document.sources, is_it) ||
        std::ranges::any_of(document.outlined, is_it))
      document.read = document.checked = false;
  }
}

void Workspace::forget_files() {
  for (auto& [uri, document] : documents_) document.read = document.checked = false;
}

const Document& Workspace::read(Document& document) {
  if (document.read) return document;
  document.read = true, document.checked = false, document.next = 0;
  document.sources.clear(), document.outlined.clear();
  document.diagnostics = {};
  document.file = std::make_shared<lang::File>();
  document.whole = false;
  if (document.text.size() > largest_document) return document;
  const lang::Source source{document.name, document.text};
  std::optional<lang::File> file = lang::load(source, finder_, document.sources, document.diagnostics);
  document.whole = file.has_value();
  document.file =
      std::make_shared<lang::File>(file ? std::move(*file) : lang::outline(source, finder_, document.outlined));
  return document;
}

const Document& Workspace::check(Document& document, const std::function<bool()>& goes_on) {
  read(document);
  if (document.checked) return document;
  const lang::File& file = *document.file;
  if (document.whole && document.next == 0) {
    std::set<std::string> names;
    for (const auto& item : file.items)
      if (const auto* function = std::get_if<lang::Function>(&item)) names.insert(key(*function));
    std::erase_if(document.programs, [&](const auto& each) { return !names.contains(each.first); });
  }
  document.checked = true;                              // should one of them throw, none is tried again
  document.next =
      document.whole ? build_from(document, document.next, document.diagnostics, goes_on) : file.items.size();
  document.checked = document.next == file.items.size();
  return document;
}

std::size_t Workspace::build_from(
    Document& document, std::size_t first, lang::Diagnostics& diagnostics, const std::function<bool()>& goes_on) {
  codegen::Request request;
  request.target = *runtime::target_here("reference");
  const auto keep = [&](const lang::Function& function, std::optional<codegen::Stages> stages) {
    if (stages && stages->contraction) document.programs[key(function)] = std::move(*stages->contraction);
  };
  return build_functions(*document.file, first, request, diagnostics, keep, goes_on);
}

void Workspace::build_at(Document& document, std::size_t offset) {
  read(document);
  if (!document.whole || document.checked) return;
  const auto& items = document.file->items;
  const auto around = [&](const auto& item) {
    const auto* function = std::get_if<lang::Function>(&item);
    return function != nullptr && function->span.source == 0 && function->span.begin <= offset &&
        offset <= function->span.end;
  };
  const auto at = static_cast<std::size_t>(std::ranges::find_if(items, around) - items.begin());
  if (at < document.next || at >= items.size()) return;
  lang::Diagnostics unheard;                            // they are said in their turn
  bool first = true;
  build_from(document, at, unheard, [&] { return std::exchange(first, false); });
}

std::optional<std::string> Workspace::uri_of_source(const Document& from, const lang::Source& source) const {
  if (source.name == from.name) return from.uri;
  for (const auto& [uri, document] : documents_)
    if (document.name == source.name) return uri;
  std::error_code fault;
  const bool standard = std::ranges::any_of(runtime::standard_library(),
      [&](const runtime::StandardFile& file) { return source.name == "std/" + std::string(file.name) + ".tile"; });
  if (!standard) return fs::exists(source.name, fault) ? std::optional(uri_of(source.name)) : std::nullopt;
  // A checkout of tilec around the text has the same file.
  std::vector<fs::path> folders{fs::current_path(fault)};
  for (fs::path folder = fs::absolute(from.name, fault).parent_path(); !folder.empty(); folder = folder.parent_path()) {
    folders.push_back(folder);
    if (folder == folder.root_path()) break;
  }
  for (const fs::path& folder : folders) {
    const std::string path = (folder / source.name).string();
    if (!fs::is_regular_file(path, fault)) continue;
    try {
      if (runtime::read_regular_text(path) == source.text) return uri_of(path);
    } catch (const runtime::RuntimeError&) {
      continue;                                          // which cannot be read
    }
  }
  return std::nullopt;
}

}  // namespace tilec::cli::lsp
