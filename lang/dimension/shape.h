// Shapes by the names of their sizes, as far as the text tells them.
//
//   A[M, 2*N, B...]   ⇒   `M`, nothing, and `B...`, which is one dimension here
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lang/ast.h"
#include "lang/diagnostic.h"

namespace tilec::lang::dimensions {

using Dimension = std::optional<std::string>;          // a plain size name, or a pack
// name: where it is all there is
struct Shape { std::vector<Dimension> dimensions; Span where; std::string name = {}; };
// Of a value: its dimensions where they can be told, or what a tuple is made of.
struct Value { std::optional<Shape> shape = {}; std::vector<Value> parts = {}; };

Dimension plain(const Expr& size);
bool is_pack(const Dimension& d);
bool has_pack(const Shape& shape);
// Is each dimension read with one index, and each pack with a pack?
bool fits(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions);
// The dimension that each index stands for: `X[b..., n]` of [M, K, N] is M and K for `b...`, then N. Nothing where they
// do not fit, or two packs leave it open.
struct Part { const Expr* index; std::size_t number; Dimension dimension; };  // number: in its pack
std::vector<Part> parts_of(const std::vector<Expr>& element, const std::vector<Dimension>& dimensions);
// What stands behind the last pack: aligned at the right, it meets the same of another shape.
std::vector<Dimension> behind_packs(const std::vector<Dimension>& dimensions);
std::string text_of(const Shape& shape);
std::size_t components(const std::vector<Value>& values);  // of a tuple, those of its tuples included

// What is known of the tensors of one function, on its own or as a call finds it.
struct Tensors {
  const std::set<std::string>& apart;                  // names that a `dim` of the file declares
  Diagnostics& diagnostics;
  int depth;                                           // 0: the function on its own
  std::map<std::string, Value> values = {};
  std::set<std::string> completed = {};                // what a later statement has for its `default`
  std::set<std::pair<std::string, std::string>> equal = {};  // what the text asserts: `assert_square(M == N)`
  std::map<std::string, std::vector<Dimension>> means = {};  // names that an input's shape declares; not `H = N/2`
                                                       // A pack of what is called: dimensions of the caller

  Value value_named(const Name& name) const;
  std::optional<Shape> shape_of(const std::vector<Expr>& sizes, Span where) const;  // nothing where a pack leaves open
                                                                                    // how many there are
  bool kept_apart(const std::string& a, const std::string& b) const { return a != b && (is_apart(a) || is_apart(b)); }
  bool is_apart(const std::string& dimension) const;
};

}  // namespace tilec::lang::dimensions
