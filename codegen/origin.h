// Which statements and inputs of the text each statement of a later stage came from.
//
//   E = exp(X); Y = E / S;   and a plan that computes E where Y reads it   ⇒   the launch of Y is of both statements
//
// A statement of a Program keeps its place in the text, and so do its gradient, its classes and the parts that a plan
// cuts it into. One whose place is an input (the sum of an input's cotangents, an operand copied in a better order), or
// that has none, is also of the statements that read it. A statement that a plan computes inside others makes these of
// both. A statement of the text that calls a function is behind all that the function's statements made.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/plan.h"
#include "lang/ast.h"
#include "poly/program.h"

namespace tilec::codegen {

using Origin = std::set<std::size_t>;                  // positions in Origins::places

class Origins {
 public:
  explicit Origins(const lang::File& file);            // with what it imports

  struct Place { lang::Span span; const lang::Function* function; bool is_input; };
  const std::vector<Place>& places() const { return places_; }  // all inputs and statements, file by file, in the order
                                                                // of the text
  Origin behind(std::size_t place) const;              // of a place: itself, and those of the functions that a
                                                       // statement calls

  std::vector<Origin> of(const poly::Program& program) const;  // of each node
  std::vector<Origin> of(const poly::Program& reduced, const Plan& plan) const;  // of each node of the plan's Program
  static Origin of(const Group& group, const std::vector<Origin>& nodes);

 private:
  void add(const lang::File& file);
  std::optional<std::size_t> at(lang::Span span) const;

  std::vector<Place> places_;
  std::map<const lang::Function*, Origin> own_;        // of each function
  std::map<std::size_t, std::set<const lang::Function*>> calls_;  // by statements
  std::set<const lang::File*> seen_;
};

}  // namespace tilec::codegen
