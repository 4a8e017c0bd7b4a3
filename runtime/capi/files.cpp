#include "runtime/capi/files.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "lang/parse.h"
#include "lang/recent.h"
#include "runtime/capi/error.h"
#include "runtime/capi/given.h"
#include "runtime/capi/shared.h"
#include "runtime/find.h"
#include "runtime/texts.h"

namespace tilec::capi {
namespace {

// Of the text itself, not of its imports, in order.
std::vector<std::string> names_in(const lang::File& file) {
  std::vector<std::string> names;
  for (const auto& item : file.items)
    if (const auto* function = std::get_if<lang::Function>(&item);
        function != nullptr && function->role == lang::Function::Role::Function)
      names.push_back(function->name ? function->name->text : "");
  return names;
}

// A caller asks for one name after another of the same text, which is parsed for the first.
const std::vector<std::string>& function_names(std::string text) {
  thread_local std::optional<std::pair<std::string, std::vector<std::string>>> known;
  if (known && known->first == text) return known->second;
  lang::Diagnostics diagnostics;
  const std::optional<lang::File> file = lang::parse({"<text>", text}, diagnostics);
  known.emplace(std::move(text), file ? names_in(*file) : std::vector<std::string>());
  return known->second;
}

std::unique_ptr<tilec_file> file_of(std::shared_ptr<const runtime::Loaded> loaded) {
  auto made = std::make_unique<tilec_file>();
  made->functions = names_in(loaded->file);
  made->loaded = std::move(loaded);
  return made;
}

runtime::Texts texts_of(std::string_view bytes, const char* function) {
  try {
    return runtime::texts_from(bytes);
  } catch (const std::string& why) {
    misuse(function, why);
  }
}

// A file that was loaded before, and what was said of it then. Who asks for one function of std/ soon asks for another.
struct Before {
  std::shared_ptr<const runtime::Loaded> loaded;
  std::vector<lang::Diagnostic> said;
};
const std::vector<lang::Source>& sources_of(const Before& made) { return made.loaded->sources; }

lang::Recent<Before>& loaded_before() {
  static auto& here = *new lang::Recent<Before>;       // never destroyed: a thread may load while the process ends
  return here;
}

std::shared_ptr<const Before> before(const lang::Source& source) {
  return loaded_before().find([&](const Before& each) {
    const lang::Source& own = each.loaded->sources.front();
    return own.name == source.name && own.text == source.text;
  });
}

// Whether each import still means the text that was read.
bool is_same(const runtime::Loaded& loaded, const lang::Find& find) {
  return std::ranges::all_of(loaded.imports, [&](const runtime::Resolved& import) {
    const lang::Found found = find(import.path, import.importer);
    const auto was = std::ranges::find(loaded.sources, import.name, &lang::Source::name);
    return found.source && was != loaded.sources.end() && found.source->name == import.name &&
        found.source->text == was->text;
  });
}

}  // namespace

std::shared_ptr<const runtime::Loaded> loaded_from(const lang::Source& source, const lang::Find& find,
    std::vector<lang::Source>& sources, lang::Diagnostics& diagnostics) {
  if (const auto known = before(source); known && is_same(*known->loaded, find)) {
    sources = known->loaded->sources;
    for (const lang::Diagnostic& each : known->said) diagnostics.add(each);
    return known->loaded;
  }
  std::vector<runtime::Resolved> imports;
  std::optional<lang::File> file = lang::load(source, runtime::recorded(find, imports), sources, diagnostics);
  if (!file) return nullptr;
  auto loaded = shared_file({sources, std::move(*file), std::move(imports)});
  loaded_before().add({loaded, diagnostics.all()});
  return loaded;
}

}  // namespace tilec::capi

using namespace tilec;
using namespace tilec::capi;

extern "C" {

tilec_status tilec_parse(const char* text, size_t length, const char* file_name, const char* const* include,
    size_t include_count, tilec_file** file) {
  return guarded([&] {
    constexpr const char* function = "tilec_parse";
    static_cast<void>(need(file, function, "file"));
    const std::vector<std::string> folders = names_of(include, include_count, function, "include");
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    auto loaded = loaded_from({file_name != nullptr ? file_name : "<text>", text_of(text, length, function)},
        runtime::find_in(folders), sources, diagnostics);
    if (!loaded) return failed(TILEC_PROGRAM_ERROR, diagnostics, sources);
    keep(diagnostics, sources);
    *file = file_of(std::move(loaded)).release();
    return TILEC_OK;
  });
}

tilec_status tilec_parse_saved(const char* bytes, size_t size, tilec_file** file) {
  return guarded([&] {
    constexpr const char* function = "tilec_parse_saved";
    static_cast<void>(need(bytes, function, "bytes"));
    static_cast<void>(need(file, function, "file"));
    runtime::Texts texts = texts_of({bytes, size}, function);
    const lang::Source text = texts.sources.front();
    lang::Diagnostics diagnostics;
    std::vector<lang::Source> sources;
    auto loaded = loaded_from(text, runtime::find_among(std::move(texts)), sources, diagnostics);
    if (!loaded) return failed(TILEC_PROGRAM_ERROR, diagnostics, sources);
    keep(diagnostics, sources);
    *file = file_of(std::move(loaded)).release();
    return TILEC_OK;
  });
}

tilec_status tilec_program_texts(const tilec_program* program, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_program_texts";
    const runtime::Loaded& loaded = *need(program, function, "program").callable->loaded();
    need(buffer, function, "buffer") = new tilec_buffer{runtime::to_bytes({loaded.sources, loaded.imports})};
    return TILEC_OK;
  });
}

tilec_status tilec_file_texts(const tilec_file* file, tilec_buffer** buffer) {
  return guarded([&] {
    constexpr const char* function = "tilec_file_texts";
    const runtime::Loaded& loaded = *need(file, function, "file").loaded;
    need(buffer, function, "buffer") = new tilec_buffer{runtime::to_bytes({loaded.sources, loaded.imports})};
    return TILEC_OK;
  });
}

void tilec_file_destroy(tilec_file* file) {
  const runtime::Busy busy;
  delete file;
}

size_t tilec_file_function_count(const tilec_file* file) { return file != nullptr ? file->functions.size() : 0; }
const char* tilec_file_function_name(const tilec_file* file, size_t position) {
  return position < tilec_file_function_count(file) ? file->functions[position].c_str() : nullptr;
}

size_t tilec_function_count(const char* text, size_t length) {
  size_t count = 0;
  static_cast<void>(guarded([&] {
    count = function_names(text_of(text, length, "tilec_function_count")).size();
    return TILEC_OK;
  }));
  return count;
}

const char* tilec_function_name(const char* text, size_t length, size_t position) {
  const char* name = nullptr;
  static_cast<void>(guarded([&] {
    const std::vector<std::string>& names = function_names(text_of(text, length, "tilec_function_name"));
    if (position >= names.size()) return TILEC_OK;
    name = names[position].c_str();
    return TILEC_OK;
  }));
  return name;
}

}  // extern "C"
