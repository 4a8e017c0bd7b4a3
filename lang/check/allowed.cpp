// Which warnings `[[allow(…)]]` of a file keeps quiet, and where.
#include <algorithm>
#include <set>

#include "lang/check.h"

namespace tilec::lang {

std::vector<Allowed> allowed_warnings(const File& file) {
  std::vector<Allowed> allowed;
  const auto mark = [&](const std::vector<Attribute>& words, Span where) {
    for (const Attribute& word : words)
      for (const Value& value : word.name.text == "allow" ? word.values : std::vector<Value>{})
        if (const auto* code = std::get_if<std::shared_ptr<const Word>>(&value.value))
          allowed.push_back({(*code)->name.text, where});
  };
  std::set<const File*> seen;
  std::vector<const File*> files = {&file};
  for (std::size_t next = 0; next < files.size(); ++next)
    for (const auto& item : files[next]->items) {
      if (const auto* import = std::get_if<Import>(&item);
          import && import->file && seen.insert(import->file.get()).second)
        files.push_back(import->file.get());
      const auto* f = std::get_if<Function>(&item);
      if (!f) continue;
      mark(f->attributes, f->span);
      for (const Statement& s : f->statements) mark(s.attributes, s.span);
    }
  return allowed;
}

bool is_allowed(const std::vector<Allowed>& allowed, std::string_view code, Span at) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const Allowed& each) {
    return each.code == code && each.where.source == at.source && each.where.begin <= at.begin &&
        at.end <= each.where.end;
  });
}

}  // namespace tilec::lang
