#include "lang/ast.h"

#include <algorithm>
#include <string_view>

namespace tilec::lang {

std::string Name::spelled() const {
  const bool reads_as_upper = !text.empty() && text.front() >= 'A' && text.front() <= 'Z';
  const bool reserved = text == "function" || text == "default" || text == "no_defract";
  if (upper) return reads_as_upper ? text : '#' + text;
  return reads_as_upper || reserved ? '$' + text : text;
}

const Function* function_of(const File& file, const Name& name, Function::Role role) {
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item); f && f->role == role && f->name && *f->name == name) return f;
  return nullptr;
}

namespace {

void collect(const File& file, const Name& name, Function::Role role, std::vector<Definition>& found) {
  for (const auto& item : file.items) {
    const auto* import = std::get_if<Import>(&item);
    if (!import || !import->file) continue;
    if (const Function* f = function_of(*import->file, name, role)) {
      const Definition definition{import->file.get(), f};
      if (std::find(found.begin(), found.end(), definition) == found.end()) found.push_back(definition);
    } else {
      collect(*import->file, name, role, found);
    }
  }
}

}  // namespace

std::vector<Definition> definitions(const File& file, const Name& name, Function::Role role) {
  if (const Function* f = function_of(file, name, role)) return {{&file, f}};
  std::vector<Definition> found;
  collect(file, name, role, found);
  return found;
}

}  // namespace tilec::lang
