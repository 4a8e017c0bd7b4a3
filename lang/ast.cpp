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

Statement::Statement() = default;
Statement::Statement(const Statement&) = default;
Statement::Statement(Statement&&) noexcept = default;
Statement& Statement::operator=(const Statement&) = default;
Statement& Statement::operator=(Statement&&) noexcept = default;
Statement::~Statement() = default;

File::File() = default;
File::File(const File&) = default;
File::File(File&&) noexcept = default;
File& File::operator=(const File&) = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

namespace {

int tallest(const std::vector<Expr>& list) {
  int most = 0;
  for (const Expr& e : list) most = std::max(most, e.height());
  return most;
}

}  // namespace

int tallest(const Number&) { return 0; }
int tallest(const Variable&) { return 0; }
int tallest(const Unary& n) { return n.operand.height(); }
int tallest(const Binary& n) { return std::max(n.left.height(), n.right.height()); }
int tallest(const Access& n) { return tallest(n.element); }
int tallest(const Call& n) { return tallest(n.arguments); }
int tallest(const Select& n) {
  return std::max({n.condition.height(), n.then.height(), n.otherwise ? n.otherwise->height() : 0});
}

Expr::Expr() : Expr(Number{"0", false, 0, 0, false}, Span{}) {}
bool Expr::operator==(const Expr& other) const { return node_.get() == other.node_.get() || *node_ == *other.node_; }

std::string Name::spelled() const {
  const bool reads_as_upper = !text.empty() && text.front() >= 'A' && text.front() <= 'Z';
  const bool reserved = text == "function" || text == "default" || text == "no_defract";
  if (upper) return reads_as_upper ? text : '#' + text;
  return reads_as_upper || reserved ? '$' + text : text;
}

struct FileIndex {
  std::multimap<std::string, std::size_t> functions;   // by the text of the name; positions in File::items
  std::map<std::string, std::vector<const File*>> callable;  // by prefix; "": without one
};

namespace {

const Function* is_it(const File& file, std::size_t item, const Name& name, Function::Role role) {
  const auto* f = std::get_if<Function>(&file.items[item]);
  return f && f->role == role && f->name && *f->name == name ? f : nullptr;
}

// In the order of the imports; a file that several import counts once.
void collect(
    const File& file, const std::string& prefix, std::set<const File*>& seen, std::vector<const File*>& files) {
  for (const auto& item : file.items) {
    const auto* import = std::get_if<Import>(&item);
    const bool callable = import && import->file && (import->prefix ? import->prefix->text : "") == prefix;
    if (!callable || !seen.insert(import->file.get()).second) continue;
    const auto& items = import->file->items;
    const bool has_functions = std::any_of(
        items.begin(), items.end(), [](const auto& each) { return std::holds_alternative<Function>(each); });
    if (has_functions) files.push_back(import->file.get());
    else collect(*import->file, "", seen, files);
  }
}

std::vector<const File*> collected(const File& file, const std::string& prefix) {
  std::set<const File*> seen;
  std::vector<const File*> files;
  collect(file, prefix, seen, files);
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
  index->callable[""] = collected(file, "");
  for (const Name& prefix : prefixes(file)) index->callable[prefix.text] = collected(file, prefix.text);
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

std::vector<const File*> callable_imports(const File& file, const std::string& prefix) {
  if (!file.index) return collected(file, prefix);
  const auto at = file.index->callable.find(prefix);
  return at == file.index->callable.end() ? std::vector<const File*>{} : at->second;
}

// A prefix has no mark; the name behind it keeps its own.
std::optional<Prefixed> prefixed(const Name& name) {
  const std::size_t dot = name.text.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const bool marked = name.text[dot + 1] == '#' || name.text[dot + 1] == '$';
  Name own{name.text.substr(dot + 1 + marked), false, name.span};
  own.upper = marked ? name.text[dot + 1] == '#' : own.text.front() <= 'Z';
  own.span.begin = name.span.end -
      static_cast<std::uint32_t>(std::min<std::size_t>(name.span.end - name.span.begin, name.text.size() - dot - 1));
  return Prefixed{name.text.substr(0, dot), own};
}

Name with_prefix(const Name& prefix, const Name& name) {
  return {prefix.text + '.' + name.spelled(), false, {prefix.span.begin, name.span.end, name.span.source}};
}

std::vector<Name> prefixes(const File& file) {
  std::vector<Name> all;
  for (const auto& item : file.items)
    if (const auto* import = std::get_if<Import>(&item); import && import->prefix) all.push_back(*import->prefix);
  return all;
}

std::vector<Definition> definitions(const File& file, const Name& name, Function::Role role) {
  const auto parts = prefixed(name);
  const Name& own = parts ? parts->name : name;
  if (const Function* f = parts ? nullptr : function_of(file, own, role)) return {{&file, f}};
  std::vector<Definition> found;
  for (const File* each : callable_imports(file, parts ? parts->prefix : ""))
    if (const Function* f = function_of(*each, own, role)) found.push_back({each, f});
  return found;
}

std::optional<Definition> hidden_definition(const File& file, const Name& name) {
  std::set<const File*> seen;
  return hidden_in(file, name, seen);
}

std::optional<Name> name_with_prefix(const File& file, const Name& name) {
  for (const Name& prefix : prefixes(file))
    if (const Name whole = with_prefix(prefix, name); !prefixed(name) && !definitions(file, whole).empty())
      return whole;
  return std::nullopt;
}

}  // namespace tilec::lang
