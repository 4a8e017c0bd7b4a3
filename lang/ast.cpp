#include "lang/ast.h"

#include <algorithm>
#include <map>
#include <set>
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

struct FileIndex {
  std::multimap<std::string, std::size_t> functions;   // by the text of the name; positions in File::items
  std::vector<const File*> callable;
};

namespace {

const Function* is_it(const File& file, std::size_t item, const Name& name, Function::Role role) {
  const auto* f = std::get_if<Function>(&file.items[item]);
  return f && f->role == role && f->name && *f->name == name ? f : nullptr;
}

// In the order of the imports; a file that several import counts once.
void collect(const File& file, std::set<const File*>& seen, std::vector<const File*>& files) {
  for (const auto& item : file.items) {
    const auto* import = std::get_if<Import>(&item);
    if (!import || !import->file || !seen.insert(import->file.get()).second) continue;
    const auto& items = import->file->items;
    const bool has_functions = std::any_of(items.begin(), items.end(), [](const auto& each) { return std::holds_alternative<Function>(each); });
    if (has_functions) files.push_back(import->file.get());
    else collect(*import->file, seen, files);
  }
}

std::vector<const File*> collected(const File& file) {
  std::set<const File*> seen;
  std::vector<const File*> files;
  collect(file, seen, files);
  return files;
}

std::optional<Definition> hidden_in(const File& file, const Name& name, std::set<const File*>& seen) {
  for (const File* each : callable_imports(file)) {
    if (!seen.insert(each).second) continue;
    if (const auto found = definitions(*each, name); !found.empty()) return found[0];
    if (const auto deeper = hidden_in(*each, name, seen)) return deeper;
  }
  return std::nullopt;
}

}  // namespace

void make_index(File& file) {
  auto index = std::make_shared<FileIndex>();
  for (std::size_t k = 0; k < file.items.size(); ++k)
    if (const auto* f = std::get_if<Function>(&file.items[k]); f && f->name) index->functions.emplace(f->name->text, k);
  index->callable = collected(file);
  file.index = std::move(index);
}

const Function* function_of(const File& file, const Name& name, Function::Role role) {
  if (file.index) {
    const auto [first, last] = file.index->functions.equal_range(name.text);
    for (auto at = first; at != last; ++at)
      if (const auto* f = is_it(file, at->second, name, role)) return f;
    return nullptr;
  }
  for (std::size_t k = 0; k < file.items.size(); ++k)
    if (const auto* f = is_it(file, k, name, role)) return f;
  return nullptr;
}

std::vector<const File*> callable_imports(const File& file) { return file.index ? file.index->callable : collected(file); }

std::vector<Definition> definitions(const File& file, const Name& name, Function::Role role) {
  if (const Function* f = function_of(file, name, role)) return {{&file, f}};
  std::vector<Definition> found;
  for (const File* each : callable_imports(file))
    if (const Function* f = function_of(*each, name, role)) found.push_back({each, f});
  return found;
}

std::optional<Definition> hidden_definition(const File& file, const Name& name) {
  std::set<const File*> seen;
  return hidden_in(file, name, seen);
}

}  // namespace tilec::lang
