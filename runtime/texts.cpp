#include "runtime/texts.h"

#include <algorithm>

#include "runtime/archive.h"

namespace tilec::runtime {

namespace {

constexpr std::string_view magic = "tilec text ";
constexpr std::string_view begins = "tilec text 1\n";

template <class Archive> void fields(Archive& archive, Texts& texts) {
  all(archive, texts.sources, [&](lang::Source& source) { archive(source.name), archive(source.text); });
  all(archive, texts.imports,
      [&](Resolved& import) { archive(import.path), archive(import.importer), archive(import.name); });
}

}  // namespace

lang::Find recorded(lang::Find find, std::vector<Resolved>& imports) {
  return [find = std::move(find), &imports](const std::string& path, const std::string& importer) {
    lang::Found found = find(path, importer);
    if (found.source) imports.push_back({path, importer, found.source->name});
    return found;
  };
}

lang::Find find_among(Texts texts) {
  return [texts = std::move(texts)](const std::string& path, const std::string& importer) -> lang::Found {
    const auto import = std::ranges::find_if(
        texts.imports, [&](const Resolved& each) { return each.path == path && each.importer == importer; });
    if (import == texts.imports.end()) return {std::nullopt, "it is not among the texts that were saved"};
    const auto source = std::ranges::find(texts.sources, import->name, &lang::Source::name);
    if (source == texts.sources.end()) return {std::nullopt, "its text is missing among those that were saved"};
    return {*source, {}};
  };
}

std::string to_bytes(const Texts& texts) {
  Write body;
  Texts copy = texts;
  fields(body, copy);
  return framed(begins, body.bytes);
}

Texts texts_from(std::string_view bytes) {
  Texts texts;
  Read reader(unframed(bytes, magic, begins));
  fields(reader, texts);
  if (!reader.rest().empty()) throw std::string("something follows its fields");
  if (texts.sources.empty()) throw std::string("it has no text");
  return texts;
}

}  // namespace tilec::runtime
