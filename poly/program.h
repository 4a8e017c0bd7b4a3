// The value everything turns on: tensors, and statements over them in single-assignment order.
//
// Meaning of a statement. With P(o) = { i ∈ Zⁿ : element(i) = o and every row of `domain` holds }:
//   target[o] = fill[o] if P(o) is empty, else round(⊕ value(i) over P(o)).
// Nothing but `domain` decides which points exist: a read's range rows stay when the read is differentiated away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lang/diagnostic.h"
#include "lang/op.h"
#include "lang/source.h"
#include "lang/type.h"
#include "poly/affine.h"

namespace tilec::poly {

using lang::DType;
using lang::Op;
using lang::Span;

enum class Aggregation { Assign, Sum, Product, Max, Min };
enum class Ties { Split, First, All };                 // who gets the cotangent among equal maxima
using TensorId = int;                                  // position in Program::tensors

struct Number;
struct Read;
struct Index;
struct Apply;
struct Cast;

// A scalar expression over reads, indices and constants. Every node is typed; casts are explicit.
class Expr {
 public:
  using Node = std::variant<Number, Read, Index, Apply, Cast>;
  template <class T> Expr(T node);                     // NOLINT: implicit on purpose
  template <class... Cases> decltype(auto) match(Cases&&... cases) const;
  template <class T> const T* as() const;
  DType type() const;
  bool same_as(const Expr& other) const { return node_.get() == other.node_.get(); }
  bool operator==(const Expr& other) const;

 private:
  std::shared_ptr<const Node> node_;
};

// A constant of a type. Integers (and Bool: 0, 1) are exact in `integer` (two's complement of the type), floats in
// `real`.
// NaN equals NaN
struct Number { DType type; std::int64_t integer = 0; double real = 0; bool operator==(const Number&) const; };
// the value of reads[read] at the point
struct Read { int read; DType type; bool operator==(const Read&) const = default; };
// an integer; a size is one without indices
struct Index { Affine value; DType type; bool operator==(const Index&) const = default; };
struct Apply { Op op; std::vector<Expr> operands; DType type; bool operator==(const Apply&) const = default; };
struct Cast { Expr operand; DType type; bool operator==(const Cast&) const = default; };

struct Access {
  TensorId tensor = -1;
  std::vector<Affine> element;                         // point → element, one per dimension; {} for rank 0
  bool operator==(const Access&) const = default;
};

struct Tensor {
  std::string name;                                    // as the text spells it: `A`, `#a`; unique
  DType dtype = DType::F32;
  std::vector<Size> shape;
  Span span;
  bool maximum = false;                                // an input that the Program it was split from makes as one
};

// What backward keeps of a tensor, where the text says it: [[save]], [[recompute]].
enum class Keep { Free, Save, Recompute };

struct Statement {
  Access target;
  std::vector<std::string> indices;                    // coefficients of every Affine below follow this order
  std::vector<Range> domain;                           // a conjunction
  Aggregation aggregation = Aggregation::Assign;
  Expr value;                                          // its type is the fold's (casts say so); rounded once, at the
                                                       // store
  std::vector<Access> reads;
  std::variant<Number, TensorId> fill;                 // what an element no point reaches holds; Number has the
                                                       // target's type
  Ties ties = Ties::Split;
  std::string kernel_name;                             // [[name(…)]], else empty
  Keep keep = Keep::Free;
  Span span;
  std::optional<Number> held = std::nullopt;           // where fill is a tensor, and known: what the elements hold that
                                                       // this may write and no point reaches
};

// What is not affine. Shapes below; B, J, R stand for any number of dimensions.
//   Reshape  Y = X               the same elements in row-major order under Y's shape
//   Gather   O[B, J, R]       = D[B, c, R] with c = I[B, J] brought into [0, V) by clamping;
//                             operands {D[B, V, R], I[B, J]}, parameters {rank of B}
//   Scatter  O[B, V, R]       = Σ E[B, J, R] over all J whose clamped I[B, J] is v, in order of J, 0 where none;
//                             operands {E[B, J, R], I[B, J]}, parameters {rank of B}; V is O's own extent
//   Sort     I[B, N], an i32  = the position in X[B, :] of its k-th element in order, equal ones in order of position,
//                             NaN greatest; operands {X[B, N]}, parameters {1 when descending, else 0}
// I of Gather and Scatter has any integer type.
enum class IntrinsicOp { Reshape, Gather, Scatter, Sort };
struct Intrinsic {
  IntrinsicOp op = IntrinsicOp::Reshape;
  std::vector<TensorId> targets, operands;
  std::vector<Size> parameters;
  Span span;
};
using Node = std::variant<Statement, Intrinsic>;

// A condition on sizes, checked by bind. Nonzero is an assert's; Positions: an i32 counts that many elements, for the
// function `message`.
enum class Condition { Equal, Nonzero, Positions };
struct Requirement {
  Size left, right;
  Condition condition = Condition::Equal;
  std::string message;
  Span span;
  std::vector<lang::Label> labels;
  std::string written = {};                            // an assert's condition as the text has it, and what its names
                                                       // stand for
  std::vector<std::pair<std::string, Size>> sizes = {};
};

// A dimension of a read that may leave its tensor: what bind warns of, once sizes are known (borders.h).
struct Border {
  std::vector<std::string> indices;
  Range range;                                         // inside the tensor
  std::vector<Range> others;                           // the other rows of the statement
  bool loses = false;                                  // an element is lost where the read leaves; else only a read
                                                       // that is never inside counts
  std::string tensor, target;
  Span span;                                           // of the index expression
};

struct Program;
// The derivative of a call whose function has a `gradient` or `tangent` of its own: cotangents of `targets` reach
// `operands` by this rule and not through the statements that make the targets. Each target has one rule at most, and
// is no operand of it. The derivatives are whole Programs over the caller's sizes, listed once for all rules, so that
// one may be the derivative of a rule inside it; a float operand or target is one of a float type.
struct Rule {
  std::string name;                                    // of the function
  std::vector<TensorId> operands, targets;
  std::optional<std::size_t> gradient;                 // in Program::derivatives: operands, targets, a cotangent per
                                                       // float target ⇒ a cotangent per float operand
  std::optional<std::size_t> tangent;                  // operands, a tangent per float operand, targets ⇒ a tangent per
                                                       // float target
  Span span;
};

struct Program {
  Program();  // these six are long, so they are compiled once, in a .cpp
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  std::vector<TensorId> inputs, outputs;
  std::vector<std::string> sizes;                      // size names still free, in order of first appearance; scalar
                                                       // inputs used as sizes included
  std::vector<Requirement> requirements;
  std::vector<Border> borders;                         // of what the text says; no derivative has any
  std::vector<Rule> rules;                             // read by reverse and forward, which bind ends
  // of the rules, and of the rules in these, which have no list of their own
  std::shared_ptr<const std::vector<Program>> derivatives = {};

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
};

template <class T> Expr::Expr(T node) : node_(std::make_shared<const Node>(std::move(node))) {}
template <class... Cases> struct Overloaded : Cases... { using Cases::operator()...; };
template <class... Cases> Overloaded(Cases...) -> Overloaded<Cases...>;
template <class... Cases>
decltype(auto) Expr::match(Cases&&... cases) const {
  return std::visit(Overloaded{std::forward<Cases>(cases)...}, *node_);
}
template <class T> const T* Expr::as() const { return std::get_if<T>(node_.get()); }
inline DType Expr::type() const { return std::visit([](const auto& n) { return n.type; }, *node_); }

}  // namespace tilec::poly
