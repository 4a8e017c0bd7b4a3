// What a Program's tensors depend on, and how one that was derived ends: without what nothing needs, every new tensor
// named.
//
//   dX, Cnt, dX beside a program's own X, dX
//     ⇒  dX_1, Cnt, dX_2; what neither an output nor a Rule that stays needs is gone
#pragma once

#include <set>
#include <string>
#include <vector>

#include "lang/limit.h"
#include "poly/program.h"

namespace tilec::autodiff {

inline std::size_t at(poly::TensorId id) { return static_cast<std::size_t>(id); }

std::vector<poly::TensorId> targets(const poly::Node& node);
std::vector<poly::TensorId> operands(const poly::Node& node);

// Which statement makes a tensor, of one Program that gets nodes and loses none: each node is looked at once, however
// often it is asked.
class Writers {
 public:
  poly::Statement* of(poly::Program& program, poly::TensorId id);       // null when an intrinsic or nothing makes it
  std::optional<std::size_t> position(const poly::Program& program, poly::TensorId id);  // among the nodes

 private:
  std::vector<std::size_t> node_;                      // per tensor, from 1; 0: none so far
  std::size_t seen_ = 0;                               // nodes
};

bool is_zero(poly::Program& program, Writers& writers, poly::TensorId id);  // made of the number 0 alone

// The rule that says what a tensor's derivative is, before the statements that make it; null for most.
const poly::Rule* rule_of(const poly::Program& program, poly::TensorId target);

// Float tensors that a derivative by `wrt` reaches: through statements, and through rules where there are any.
std::vector<bool> active_tensors(const poly::Program& program, const std::vector<poly::TensorId>& wrt);

// Float tensors whose derivative one of `of` depends on.
std::vector<bool> tensors_behind(const poly::Program& program, const std::vector<poly::TensorId>& of);

// Drops every tensor that is no input, that no output needs and that no rule of a kept tensor names, and numbers the
// rest anew. Then gives each tensor of `generated`, in their order, a name that no tensor, size or index has.
void finish(poly::Program& program, std::vector<poly::TensorId> generated);

// Is a count of operations and operands that may be beyond 64 bits within a limit? Reports when it is not.
bool within(lang::Limit limit, double count, lang::Span span, lang::Diagnostics& diagnostics);

// Is a derivative small enough to go on with? Reports when it has too many statements, or values that are too long.
bool within_limits(const poly::Program& program, lang::Diagnostics& diagnostics);

// `dX`, `tX` for `X`: spelled so that it reads back as the same name.
std::string cotangent_name(const std::string& name);
std::string tangent_name(const std::string& name);
std::string without_mark(const std::string& name);     // `#a` ⇒ `a`: the mark is not part of the name that the API
                                                       // knows

std::set<std::string> taken_names(const poly::Program& program);  // of tensors and sizes, without marks

}  // namespace tilec::autodiff
