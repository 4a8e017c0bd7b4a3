#include "lang/dimension/shape.h"

#include <algorithm>

#include "lang/pack.h"

namespace tilec::lang::dimensions {

Dimension plain(const Expr& size) {
  const auto* v = size.as<Variable>();
  return v ? Dimension(v->name.spelled() + (v->pack ? "..." : "")) : std::nullopt;
}

bool is_pack(const Dimension& d) { return d && d->ends_with("..."); }

bool fits(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions) {
  return std::equal(element.begin(), element.end(), dimensions.begin(), dimensions.end(),
      [](const Expr& e, const Dimension& d) { return (pack(e) != nullptr) == is_pack(d); });
}

std::vector<Part> parts_of(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions) {
  std::vector<Part> parts;
  const auto packs = static_cast<std::size_t>(std::count_if(element.begin(), element.end(), pack));
  const bool alike = fits(element, dimensions);
  if (!alike && (packs != 1 || dimensions.size() + 1 < element.size())) return parts;
  const std::size_t in_pack = alike ? 1 : dimensions.size() + 1 - element.size();
  std::size_t next = 0;
  for (const Expr& e : element)
    for (std::size_t k = 0; k < (pack(e) ? in_pack : 1); ++k) parts.push_back({&e, k, dimensions[next++]});
  // one index for a pack
  const bool misread =
      std::any_of(parts.begin(), parts.end(), [](const Part& p) { return !pack(*p.index) && is_pack(p.dimension); });
  return misread ? std::vector<Part>{} : parts;
}

std::vector<Dimension> behind_packs(const std::vector<Dimension>& dimensions) {
  const auto last = std::find_if(dimensions.rbegin(), dimensions.rend(), is_pack);
  return {last.base(), dimensions.end()};
}

bool has_pack(const Shape& shape) {
  return std::any_of(shape.dimensions.begin(), shape.dimensions.end(), is_pack);
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const Dimension& d : shape.dimensions) text += (text.empty() ? "" : ", ") + d.value_or("…");
  return "[" + text + "]";
}

std::size_t components(const std::vector<Value>& values) {
  std::size_t all = values.size();
  for (const Value& value : values) all += components(value.parts);
  return all;
}

Value Tensors::value_named(const Name& name) const {
  const auto at = values.find(name.spelled());
  return at == values.end() ? Value{} : at->second;
}

std::optional<Shape> Tensors::shape_of(const std::vector<Expr>& sizes, Span where) const {
  Shape shape{{}, where};
  for (const Expr& size : sizes) {
    const Dimension name = plain(size);
    const auto at = name ? means.find(*name) : means.end();
    if (at == means.end() && pack(size)) return std::nullopt;
    if (at == means.end()) shape.dimensions.emplace_back();
    else shape.dimensions.insert(shape.dimensions.end(), at->second.begin(), at->second.end());
  }
  return shape;
}

bool Tensors::is_apart(const std::string& dimension) const {
  return apart.contains(is_pack(dimension) ? dimension.substr(0, dimension.size() - 3) : dimension);
}

}  // namespace tilec::lang::dimensions
