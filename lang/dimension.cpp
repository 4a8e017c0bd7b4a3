#include "lang/dimension.h"

#include <algorithm>
#include <map>
#include <set>

#include "lang/messages.h"
#include "lang/nearest.h"
#include "lang/print.h"

namespace tilec::lang {
namespace {

using Dimension = std::optional<std::string>;          // a plain size name
struct Shape { std::vector<Dimension> dimensions; Span where; };

Dimension plain(const Expr& size) {
  const auto* v = size.as<Variable>();
  return v ? Dimension(v->name.spelled()) : std::nullopt;
}

// Where an index stands alone as one dimension of a tensor.
struct Use { std::string tensor, dimension; Span index, declared; const Access* access; };

class Dimensions {
 public:
  Dimensions(const std::set<std::string>& apart, Diagnostics& diagnostics) : apart_(apart), diagnostics_(diagnostics) {}

  void function(const Function& f) {
    shapes_.clear();
    declared_.clear();
    for (const Input& i : f.inputs)
      for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
        if (const Dimension name = plain(size)) declared_.insert(*name);
    for (const Input& i : f.inputs)
      if (i.sizes) shapes_[i.target.name.spelled()] = shape_of(*i.sizes, i.span);
    for (const Statement& s : f.statements)
      std::visit(Overloaded{[](std::monostate) {}, [](const TupleAssignment&) {},
                            [&](const Assignment& a) {
                              if (auto shape = elementwise(a.value)) shapes_[a.target.name.spelled()] = {shape->dimensions, a.target.span};
                            },
                            [&](const Contraction& c) {
                              contraction(c);
                              shapes_[c.target.name.spelled()] = shape_of(c.sizes, c.target.span);
                            }},
                 s.node);
  }

 private:
  const std::set<std::string>& apart_;
  Diagnostics& diagnostics_;
  std::map<std::string, Shape> shapes_;
  std::set<std::string> declared_;                     // names that an input's shape declares; `H = N/2` is none

  Shape shape_of(const std::vector<Expr>& sizes, Span where) const {
    Shape shape{{}, where};
    for (const Expr& size : sizes) {
      const Dimension name = plain(size);
      shape.dimensions.push_back(name && declared_.contains(*name) ? name : std::nullopt);
    }
    return shape;
  }

  bool kept_apart(const std::string& a, const std::string& b) const { return a != b && (apart_.contains(a) || apart_.contains(b)); }

  void contraction(const Contraction& c) {
    std::map<std::string, std::vector<Use>> uses;      // by index
    const Access target{c.target.name, c.element};
    note(target, shape_of(c.sizes, c.target.span), uses);
    accesses(c.body, uses);
    // Reads are compared with each other first: of a swapped operand the read is wrong, not the target.
    for (auto& [index, all] : uses) {
      std::rotate(all.begin(), std::find_if(all.begin(), all.end(), [&](const Use& u) { return u.access != &target; }), all.end());
      for (const Use& other : all)
        if (other.dimension != all[0].dimension) {
          report(index, all[0], other, uses);
          break;
        }
    }
  }

  void note(const Access& access, const Shape& shape, std::map<std::string, std::vector<Use>>& uses) const {
    if (shape.dimensions.size() != access.element.size()) return;
    for (std::size_t d = 0; d < access.element.size(); ++d) {
      const auto* v = access.element[d].as<Variable>();
      if (v && !v->name.upper && shape.dimensions[d]) uses[v->name.spelled()].push_back({access.tensor.spelled(), *shape.dimensions[d], access.element[d].span(), shape.where, &access});
    }
  }

  void accesses(const Expr& e, std::map<std::string, std::vector<Use>>& uses) const {
    const auto go = [&](const Expr& inner) { accesses(inner, uses); };
    e.match([](const Number&) {}, [](const Variable&) {}, [&](const Unary& u) { go(u.operand); }, [&](const Binary& b) { go(b.left), go(b.right); },
            [&](const Access& a) {
              if (const auto shape = shapes_.find(a.tensor.spelled()); shape != shapes_.end()) note(a, shape->second, uses);
            },
            [&](const Call& c) { std::for_each(c.arguments.begin(), c.arguments.end(), go); },
            [&](const Select& s) {
              go(s.condition), go(s.then);
              if (s.otherwise) go(*s.otherwise);
            });
  }

  void report(const std::string& index, const Use& a, const Use& b, const std::map<std::string, std::vector<Use>>& uses) {
    if (kept_apart(a.dimension, b.dimension)) {
      diagnostics_.report(b.index, messages::dimensions_mix, a.dimension, b.dimension, fmt::format("index `{}` ranges over both", index)).label(a.declared, fmt::format("`{}` is declared here", a.tensor));
      return;
    }
    auto entry = diagnostics_.report(b.index, messages::dimension, index, a.dimension, a.tensor, b.dimension, b.tensor);
    const auto& shape = shapes_.contains(b.tensor) ? shapes_.at(b.tensor).dimensions : std::vector<Dimension>{};
    std::string by;
    for (const Dimension& d : shape) by += (by.empty() ? "" : " by ") + d.value_or("…");
    entry.label(b.declared, by.empty() ? fmt::format("`{}` is declared here", b.tensor) : fmt::format("`{}` is declared {} here", b.tensor, by));
    if (const auto swapped = other_order(b, shape, uses)) entry.hint(fmt::format("`{}` reads every element", *swapped));
  }

  // The same indices in an order in which each dimension is the one its index has elsewhere.
  static std::optional<std::string> other_order(const Use& use, const std::vector<Dimension>& shape, const std::map<std::string, std::vector<Use>>& uses) {
    std::vector<std::string> indices;
    for (const Expr& e : use.access->element) {
      const auto* v = e.as<Variable>();
      if (!v) return std::nullopt;
      indices.push_back(v->name.spelled());
    }
    const auto elsewhere = [&](const std::string& index, const std::string& dimension) {
      const auto& all = uses.at(index);
      return std::any_of(all.begin(), all.end(), [&](const Use& u) { return u.access != use.access && u.dimension == dimension; });
    };
    std::sort(indices.begin(), indices.end());
    do {
      bool fits = shape.size() == indices.size();
      for (std::size_t d = 0; fits && d < indices.size(); ++d) fits = shape[d] && elsewhere(indices[d], *shape[d]);
      if (fits) return fmt::format("{}[{}]", use.tensor, fmt::join(indices, ", "));
    } while (indices.size() < 6 && std::next_permutation(indices.begin(), indices.end()));
    return std::nullopt;
  }

  // The dimensions of an elementwise value, where they can be told, aligned at the right.
  std::optional<Shape> elementwise(const Expr& e) {
    const auto scalar = [&](const auto&) { return std::optional(Shape{{}, e.span()}); };
    return e.match([&](const Number& n) { return scalar(n); },
                   [&](const Variable& v) -> std::optional<Shape> {
                     const auto at = shapes_.find(v.name.spelled());
                     return at == shapes_.end() ? std::nullopt : std::optional(Shape{at->second.dimensions, e.span()});
                   },
                   [&](const Unary& u) { return elementwise(u.operand); },
                   [&](const Binary& b) { return meet({b.left, b.right}); },
                   [](const Access&) { return std::optional<Shape>{}; },
                   [&](const Call& c) { return function_named(c.function.text) ? meet(c.arguments) : std::optional<Shape>{}; },
                   [&](const Select& s) { return s.otherwise ? meet({s.condition, s.then, *s.otherwise}) : std::optional<Shape>{}; });
  }

  std::optional<Shape> meet(const std::vector<Expr>& operands) {
    std::optional<Shape> all;
    bool known = true;
    for (const Expr& operand : operands) {
      const auto shape = elementwise(operand);
      known &= shape.has_value();
      if (shape && all) all = both(*all, *shape);
      else if (shape) all = shape;
    }
    return known ? all : std::nullopt;
  }

  Shape both(const Shape& a, const Shape& b) {
    const Shape &longer = a.dimensions.size() >= b.dimensions.size() ? a : b, &shorter = a.dimensions.size() >= b.dimensions.size() ? b : a;
    Shape result = longer;
    const std::size_t ahead = longer.dimensions.size() - shorter.dimensions.size();
    for (std::size_t d = 0; d < shorter.dimensions.size(); ++d) {
      Dimension& mine = result.dimensions[ahead + d];
      const Dimension& other = shorter.dimensions[d];
      if (mine && other && kept_apart(*mine, *other))
        diagnostics_.report(b.where, messages::dimensions_mix, *a.dimensions[a.dimensions.size() - shorter.dimensions.size() + d], *b.dimensions[b.dimensions.size() - shorter.dimensions.size() + d], "they are aligned").label(a.where, "with this");
      if (!mine) mine = other;
    }
    return result;
  }
};

// A `dim` that names no size is a slip.
void unused(const File& file, const std::vector<Name>& declared, Diagnostics& diagnostics) {
  std::set<std::string> sizes;
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item))
      for (const Input& i : f->inputs)
        for (const Expr& size : i.sizes ? *i.sizes : std::vector<Expr>{})
          if (const Dimension name = plain(size)) sizes.insert(*name);
  for (const Name& name : declared) {
    if (sizes.contains(name.spelled())) continue;
    auto entry = diagnostics.report(name.span, messages::dimension_unused, name.spelled());
    if (const auto near = nearest(name.text, {sizes.begin(), sizes.end()})) entry.hint(fmt::format("did you mean `{}`?", *near));
  }
}

}  // namespace

void check_dimensions(const File& file, Diagnostics& diagnostics) {
  std::vector<Name> declared;
  std::set<std::string> apart;
  for (const auto& item : file.items)
    if (const auto* dim = std::get_if<Dim>(&item))
      for (const Name& name : dim->names) {
        declared.push_back(name);
        apart.insert(name.spelled());
      }
  Dimensions dimensions(apart, diagnostics);
  for (const auto& item : file.items)
    if (const auto* f = std::get_if<Function>(&item)) dimensions.function(*f);
  unused(file, declared, diagnostics);
}

}  // namespace tilec::lang
