#include "lang/ast.h"

#include <algorithm>
#include <string_view>

namespace tilec::lang {

Contraction::Contraction() = default;
Contraction::Contraction(const Contraction&) = default;
Contraction::Contraction(Contraction&&) noexcept = default;
Contraction& Contraction::operator=(const Contraction&) = default;
Contraction& Contraction::operator=(Contraction&&) noexcept = default;
Contraction::~Contraction() = default;

Function::Function() = default;
Function::Function(const Function&) = default;
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(const Function&) = default;
Function& Function::operator=(Function&&) noexcept = default;
Function::~Function() = default;

bool Expr::operator==(const Expr& other) const { return node_.get() == other.node_.get() || *node_ == *other.node_; }

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

void collect(const File& file, std::vector<const File*>& files) {
  for (const auto& item : file.items) {
    const auto* import = std::get_if<Import>(&item);
    if (!import || !import->file) continue;
    const auto& items = import->file->items;
    const bool has_functions = std::any_of(items.begin(), items.end(), [](const auto& each) { return std::holds_alternative<Function>(each); });
    if (!has_functions) collect(*import->file, files);
    else if (std::find(files.begin(), files.end(), import->file.get()) == files.end()) files.push_back(import->file.get());
  }
}

}  // namespace

std::vector<const File*> callable_imports(const File& file) {
  std::vector<const File*> files;
  collect(file, files);
  return files;
}

std::vector<Definition> definitions(const File& file, const Name& name, Function::Role role) {
  if (const Function* f = function_of(file, name, role)) return {{&file, f}};
  std::vector<Definition> found;
  for (const File* each : callable_imports(file))
    if (const Function* f = function_of(*each, name, role)) found.push_back({each, f});
  return found;
}

std::optional<Definition> hidden_definition(const File& file, const Name& name) {
  for (const File* each : callable_imports(file)) {
    if (const auto found = definitions(*each, name); !found.empty()) return found[0];
    if (const auto deeper = hidden_definition(*each, name)) return deeper;
  }
  return std::nullopt;
}

}  // namespace tilec::lang
