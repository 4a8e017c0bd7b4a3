// Substitutes sizes. Everything that can go wrong with a number is found here: a size without a value, a requirement
// that does not hold, a negative or overflowing extent; each is one diagnostic, and all of them are reported.
#include "poly/bind.h"

#include <fmt/core.h>

#include <limits>
#include <set>

#include "lang/messages.h"
#include "poly/borders.h"
#include "poly/intrinsic.h"

namespace tilec::poly {
namespace {

namespace messages = lang::messages;
using Values = std::map<std::string, std::int64_t>;

std::string quoted_list(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  return text;
}

class Binder {
 public:
  Binder(const Values& values, lang::Diagnostics& diagnostics) : values_(values), diagnostics_(diagnostics) {}

  Program bind(Program program) {
    for (const auto& requirement : program.requirements) check(requirement);
    for (const auto& node : program.nodes)
      if (const auto* intrinsic = std::get_if<Intrinsic>(&node)) extents(program, *intrinsic);
    for (auto& tensor : program.tensors) bind(tensor);
    for (auto& node : program.nodes) std::visit([this](auto& n) { bind(n); }, node);
    for (const auto& node : program.nodes)
      if (const auto* intrinsic = std::get_if<Intrinsic>(&node)) check(program, *intrinsic);
    program.requirements.clear();
    program.borders.clear();
    program.rules.clear();
    program.sizes.clear();
    if (!missing_.empty())
      diagnostics_.report({}, messages::unbound_sizes, quoted_list(missing_), missing_.size() == 1 ? "has" : "have")
          .hint("give it with `--size NAME=number`, or with an input whose shape shows it");
    return program;
  }

  bool failed() const { return failed_ || !missing_.empty(); }

 private:
  // A size as a number; 0 after an error, so that the next error can be found.
  Size number(const Size& size, Span span) {
    try {
      auto bound = size.substitute(values_);
      if (bound.value()) return bound;
      missing_.merge(bound.names());
    } catch (const SizeError& error) {
      fail(span, error);
    }
    return 0;
  }

  void fail(Span span, const SizeError& error) {
    failed_ = true;
    diagnostics_.report(span, messages::size_arithmetic, error.what());
  }

  static bool holds(Condition condition, const Size& left, const Size& right) {
    switch (condition) {
      case Condition::Equal: return left == right;
      case Condition::Nonzero: return !left.is(0);
      case Condition::Positions: return left.get() <= INT32_MAX;
    }
    return false;
  }

  // `, with N = 7 and S = 2`
  std::string values_in(const Requirement& requirement) {
    auto sizes = requirement.sizes;
    if (requirement.written.empty())
      for (const auto& name : requirement.left.names())
        sizes.emplace_back(Size::named(name).print(), Size::named(name));
    std::string text;
    for (std::size_t k = 0; k < sizes.size(); ++k)
      text += fmt::format("{}{} = {}",
          k == 0                      ? ", with "
              : k + 1 == sizes.size() ? " and "
                                      : ", ",
          sizes[k].first, number(sizes[k].second, requirement.span).print());
    return text;
  }

  void check(const Requirement& requirement) {
    const auto left = number(requirement.left, requirement.span), right = number(requirement.right, requirement.span);
    if (failed_ || !missing_.empty() || holds(requirement.condition, left, right)) return;
    failed_ = true;
    const auto report = [&] {
      if (requirement.condition == Condition::Positions)
        return diagnostics_.report(requirement.span, messages::too_many_positions, requirement.message, left.print());
      if (requirement.condition == Condition::Nonzero)
        return diagnostics_.report(requirement.span, messages::assertion_fails, requirement.message,
            requirement.written.empty() ? requirement.left.print() : requirement.written, values_in(requirement));
      return diagnostics_.report(requirement.span, messages::requirement_fails, requirement.message,
          requirement.left.print(), left.print(), requirement.right.print(), right.print());
    };
    auto entry = report();
    for (const auto& label : requirement.labels) entry.label(label.span, label.text);
  }

  void bind(Tensor& tensor) {
    const auto written = shape_text(tensor.shape);
    std::int64_t bytes = lang::bytes(tensor.dtype);
    bool empty = false, overflows = false;
    for (auto& size : tensor.shape) {
      const auto bound = number(size, tensor.span);
      if (bound.get() < 0) {
        failed_ = true;
        diagnostics_.report(tensor.span, messages::negative_size, size.print(), bound.print())
            .hint(fmt::format("`{}` would be {}", tensor.name, written));
      }
      empty |= bound.is(0);
      overflows |= __builtin_mul_overflow(bytes, bound.get(), &bytes);
      size = bound;
    }
    if (!overflows || empty || failed()) return;
    failed_ = true;
    diagnostics_.report(
        tensor.span, messages::tensor_too_large, tensor.name, shape_text(tensor.shape), lang::name(tensor.dtype));
  }

  void bind(Affine& affine, Span span) {
    try {
      affine = affine.substitute(values_);
      for (const auto& coefficient : affine.coefficients) missing_.merge(coefficient.names());
      missing_.merge(affine.constant.names());
      missing_.merge(affine.divisor.names());
    } catch (const SizeError& error) {
      fail(span, error);
    }
  }

  void bind(Access& access, Span span) {
    for (auto& affine : access.element) bind(affine, span);
  }

  Expr bind(const Expr& value, Span span) {
    return value.match(
        [&](const Index& index) -> Expr {
          Index bound = index;
          bind(bound.value, span);
          return bound.value == index.value ? value : Expr(std::move(bound));
        },
        [&](const Cast& cast) -> Expr {
          auto operand = bind(cast.operand, span);
          return operand.same_as(cast.operand) ? value : Expr(Cast{std::move(operand), cast.type});
        },
        [&](const Apply& apply) -> Expr {
          Apply bound{apply.op, {}, apply.type};
          bool changed = false;
          for (const auto& operand : apply.operands) {
            bound.operands.push_back(bind(operand, span));
            changed |= !bound.operands.back().same_as(operand);
          }
          return changed ? Expr(std::move(bound)) : value;
        },
        [&](const auto&) -> Expr { return value; });
  }

  void bind(Statement& statement) {
    bind(statement.target, statement.span);
    for (auto& read : statement.reads) bind(read, statement.span);
    for (auto& row : statement.domain) {
      bind(row.value, statement.span);
      if (row.extent) row.extent = number(*row.extent, statement.span);
    }
    statement.value = bind(statement.value, statement.span);
  }

  void bind(Intrinsic& intrinsic) {
    for (auto& parameter : intrinsic.parameters) parameter = number(parameter, intrinsic.span);
  }

  // Extents of Gather, Scatter and Sort that must agree.
  void extents(const Program& program, const Intrinsic& intrinsic) {
    for (const auto& [left, i, right, k] : equal_extents(program, intrinsic)) {
      const auto &a = program.tensor(left), &b = program.tensor(right);
      const auto message = fmt::format(
          "`{}` takes dimension {} of `{}` and dimension {} of `{}` for one", name(intrinsic.op), i, a.name, k, b.name);
      check(Requirement{a.shape[i], b.shape[k], Condition::Equal, message, intrinsic.span, {}});
    }
  }

  void check(const Program& program, const Intrinsic& intrinsic) {
    if (failed()) return;
    if (intrinsic.op == IntrinsicOp::Sort) return row_length(program, intrinsic);
    if (intrinsic.op != IntrinsicOp::Reshape) return;
    const auto count = [&](TensorId id) {
      Size product = 1;
      for (const auto& size : program.tensor(id).shape) product = product * size;
      return product;
    };
    const auto to = count(intrinsic.targets.at(0)), from = count(intrinsic.operands.at(0));
    if (to == from) return;
    failed_ = true;
    diagnostics_.report(intrinsic.span, messages::reshape_count, to.print(), from.print());
  }

  // Positions in a row are i32.
  void row_length(const Program& program, const Intrinsic& intrinsic) {
    const auto& keys = program.tensor(intrinsic.operands.at(0));
    const auto length = keys.shape.back();
    if (length.get() <= std::numeric_limits<std::int32_t>::max()) return;
    failed_ = true;
    diagnostics_.report(intrinsic.span, messages::does_not_fit, length.print(), "i32")
        .hint(fmt::format("the positions in a row of `{}` are numbered in i32; sort shorter rows", keys.name));
  }

  const Values& values_;
  lang::Diagnostics& diagnostics_;
  std::set<std::string> missing_;
  bool failed_ = false;
};

// A name that has to be a number is that number: C is 5 in f(X[B..., C], G[C]) where the shape of X is given as 4 by 5,
// and none of G.
Values with_required(const Program& program, Values sizes) {
  const auto learn = [&](const Size& size, const Size& is) {
    const Size::Factor* factor = size.lone_factor();
    if (factor != nullptr && factor->kind == Size::Kind::Name && is.value()) sizes.emplace(factor->name, *is.value());
  };
  for (const Requirement& requirement : program.requirements) {
    if (requirement.condition != Condition::Equal) continue;
    learn(requirement.left, requirement.right);
    learn(requirement.right, requirement.left);
  }
  return sizes;
}

}  // namespace

std::optional<Program> bind(const Program& program, const Values& sizes, lang::Diagnostics& diagnostics) {
  const Values known = with_required(program, sizes);
  Binder binder(known, diagnostics);
  auto bound = binder.bind(program);
  if (binder.failed()) return std::nullopt;
  check_borders(program, known, diagnostics);
  return bound;
}

}  // namespace tilec::poly
